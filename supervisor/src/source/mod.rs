//! Where documents come from. Identity is settled by the listing, before anything that costs or can fail.

mod errno;
pub mod fetch;
pub mod folder;
mod open;
mod readers;

pub(crate) use errno::stat_of;
