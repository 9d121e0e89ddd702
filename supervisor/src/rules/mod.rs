//! Every decision, as a pure function of its inputs: no clock, no randomness, no file, no process. Whoever needs the
//! time or a random number passes it in.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod kind;

pub mod fault;

pub mod classify;

pub mod retry;

pub mod breaker;

pub mod due;

pub mod sharing;

pub mod versions;

pub mod account;

pub mod identify;

pub mod normalise;

pub mod check;

pub mod policy;

pub mod budget;

pub mod reconcile;

#[cfg(test)]
mod simulation_tests;
