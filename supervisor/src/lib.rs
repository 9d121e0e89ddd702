//! lazaret: ingests documents from places nobody vouches for.
//!
//! The modules stand in the order in which a document meets them. `cli` wires, [`run`] drives, [`path`] is the way of one
//! document, [`rules`] decides without touching anything, [`ledger`] remembers.
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod idle;

pub mod settings;

pub mod source;

pub mod pool;

pub mod path;

pub mod rules;

pub mod ledger;

pub mod sink;

pub mod run;

pub mod report;

pub mod doctor;

pub mod cli;

pub mod fault_point;

pub mod sys;

pub use cli::main_impl;
