//! The process that touches hostile bytes.
//!
//! The program is a zygote: exec'd fresh by the supervisor, single-threaded, jailed once ([`zygote`]). For each
//! document it makes a child by `clone3(CLONE_PARENT)`, so that the supervisor is the child's parent; the child shuts
//! the rest of its cage ([`jail`]) and only then parses ([`extract`]). It answers in frames on a pipe and dies.
//!
//! Nothing here may start a thread, open a network connection, read a setting or write a file.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod zygote;

mod child;

pub mod jail;

mod seccomp;

mod recorder;

pub mod memory;

mod faults;

pub mod extract;

mod sys;

pub use zygote::main_impl;
