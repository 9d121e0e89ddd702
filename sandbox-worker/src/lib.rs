//! The process that touches hostile bytes.
//!
//! The program is a zygote: exec'd fresh by the supervisor, single-threaded, jailed once ([`zygote`]). For each
//! document it makes a child by `clone3(CLONE_PARENT)`, so that the supervisor is the child's parent; the child shuts
//! the rest of its cage ([`jail`]) and only then parses ([`extract`]). It answers in frames on a pipe and dies.
//!
//! With the word `launcher` as its argument the program is something else: a [`launcher`], which runs external commands
//! in a cage of their own. It never parses, and no zygote comes from it.
//!
//! Nothing here may start a thread, open a network connection, read a setting or write a file.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod zygote;

mod child;

pub mod launcher;

pub mod jail;

mod seccomp;

mod recorder;

pub mod memory;

mod faults;

pub mod extract;

mod sys;

/// The whole program.
pub fn main_impl() {
    match std::env::args_os().nth(1) {
        Some(word) if word == shared::launch::WORD => launcher::main_impl(),
        Some(word) if word == shared::launch::PROBE => launcher::probe(),
        _ => zygote::main_impl(),
    }
}
