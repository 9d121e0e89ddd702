//! Settings: what a TOML file, `--set KEY=VALUE` and the command line say, checked as a whole before anything starts.
//!
//! `RawSettings` is what was written; [`Settings`] is complete and checked. There are no others. All errors are reported
//! at once; an unknown key is one.

use crate::rules::kind::{Class, Kind};
use globset::GlobSet;
use shared::{Format, Layers, Limits};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Complete and checked.
#[derive(Debug, Clone)]
pub struct Settings {
    pub limits: Limits,
    /// Of the large lane.
    pub large: Limits,
    pub retry: Retry,
    pub kinds: BTreeMap<Kind, KindPolicy>,
    pub policy: Policy,
    pub cage: Cage,
    pub passwords: Vec<String>,
    pub connectors: Vec<Connector>,
    /// Children at a time; `None`: as many as the machine has processors and memory for.
    pub children: Option<usize>,
    /// Below which share of its documents in one listing a source may lose them without a person's word.
    pub deletion_guard: f64,
}

/// `[retry]`. Times in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    pub attempts: u32,
    pub floor_ms: u64,
    pub cap_ms: u64,
    pub max_crashes: u32,
}

/// `[kinds."time.wall"]`: what is set differs from the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindPolicy {
    pub class: Option<Class>,
    pub attempts: Option<u32>,
    pub delay_ms: Option<u64>,
}

/// `[policy]`.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Only what one of these matches, where there are any. Matched against the path below the root.
    pub include: Option<GlobSet>,
    /// Nothing that one of these matches.
    pub exclude: Option<GlobSet>,
    pub max_age_ms: Option<u64>,
    /// Only these formats, where there are any.
    pub types: Option<Vec<Format>>,
}

/// `[cage]`.
#[derive(Debug, Clone)]
pub struct Cage {
    /// Without one of these the run refuses to start.
    pub require: Layers,
    /// Documents of the fault language are carried out.
    pub faults: bool,
    /// The first of the user ids that children get where started by root.
    pub uid_base: u32,
    /// Left out on purpose: in test builds only.
    pub omit: Layers,
    /// The worker's program; `None`: beside our own.
    pub worker: Option<PathBuf>,
}

/// `[[connector]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connector {
    pub name: String,
    pub path: PathBuf,
}
