//! The cage, as two checklists: what a zygote puts up once ([`zygote`]) and what each child adds ([`child`]).
//!
//! Every step names its layer. A layer that cannot be had is noted with its reason and the cage is shut without it;
//! only without a filter, or without the promise that no privilege comes back, there is no cage at all.

pub(crate) mod child;
pub(crate) mod landlock;
mod layers;
pub(crate) mod namespaces;
mod rehearsal;
pub(crate) mod zygote;

pub(crate) use layers::{Failed, Standing};

/// Proof that the cage is shut. Only the last step of [`child::enter`] makes one, so that a parser before the cage
/// does not compile.
#[derive(Debug)]
pub struct Jailed(());

/// Where a child's Landlock ruleset waits, in the zygote and until the child is in.
pub(crate) const RULESET_FD: i32 = 4;
/// Where a child's answer goes.
pub(crate) const RESULT_FD: i32 = 3;
