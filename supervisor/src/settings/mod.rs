//! Settings: what a TOML file, `--set KEY=VALUE` and the command line say, checked as a whole before anything starts.
//!
//! What was written is a TOML table; [`Settings`] is complete and checked. There are no others. All errors are reported
//! at once; an unknown key is one. Reading them touches nothing but the settings file and the file of passwords.

mod extractors;
mod read;
mod reference;
mod section;
pub(crate) mod units;

pub use extractors::{Command, Engine, Extractor, OutputKind, Recognise, TURNED};
pub use reference::reference;
pub use section::SettingError;

use crate::rules::breaker;
use crate::rules::fault::Fault;
use crate::rules::kind::{Class, Kind};
use globset::GlobSet;
use shared::{ContentHash, Format, Layer, Layers, Limits};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Complete and checked.
#[derive(Debug, Clone)]
pub struct Settings {
    pub limits: Limits,
    /// Of the large lane.
    pub large: Limits,
    pub retry: Retry,
    pub watch: Watch,
    pub kinds: BTreeMap<Kind, KindPolicy>,
    pub policy: Policy,
    pub cage: Cage,
    pub passwords: Vec<String>,
    /// In their order; those of one format are a chain.
    pub extractors: Vec<Extractor>,
    pub recognise: Recognise,
    pub connectors: Vec<Connector>,
    /// Children at a time; `None`: as many as the machine has processors and memory for.
    pub children: Option<usize>,
    pub breakers: Breakers,
    /// What is started for each alert: a program and its arguments.
    pub alert: Vec<String>,
    /// Below which share of its documents in one listing a source may lose them without a person's word.
    pub deletion_guard: f64,
    pub check: Check,
    /// Which share of the unchanged items each listing picks to be read again.
    pub verify_share: f64,
}

/// `[retry]`. Times in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    pub attempts: u32,
    pub floor_ms: u64,
    pub cap_ms: u64,
    pub max_crashes: u32,
}

/// `[breaker.source]`, `[breaker.extractor]`, `[breaker.sink]`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Breakers {
    pub source: breaker::Policy,
    pub extractor: breaker::Policy,
    pub sink: breaker::Policy,
}

/// `[run]`. Times in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watch {
    /// How long a run may take.
    pub deadline_ms: Option<u64>,
    /// How long nothing may come to an end while documents are in flight.
    pub watchdog_ms: u64,
}

impl Watch {
    /// Nothing that stays within its limits takes half as long.
    fn within(large: &Limits) -> Self {
        Watch { deadline_ms: None, watchdog_ms: large.wall_ms.saturating_mul(2).max(15 * 60_000) }
    }
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
    /// Only items that one of these matches, where there are any. Matched against the raw bytes of the path below the
    /// root: `*` and `?` do not cross `/`, `**` does. Directories are walked whatever this says.
    pub include: Option<GlobSet>,
    /// No item that one of these matches; a directory that one matches is not walked.
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

/// `[check]`: from where on the content check does not accept a text. Shares are from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Check {
    /// Fewer letters and digits a page, on average, are almost nothing.
    pub near_empty: u64,
    /// Fewer pages with text among pages are too few.
    pub under_extracted: f64,
    /// More characters that stand for what could not be decoded are no text.
    pub junk: f64,
    /// More glyph codes among words are no text.
    pub glyph_codes: f64,
    /// More of a text than this, on most pages alike, was stamped on pictures of pages.
    pub repeated_lines: f64,
    /// Fewer common words are suspicious.
    pub common_words: f64,
}

/// `[[connector]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connector {
    pub name: String,
    pub path: PathBuf,
    pub deadline_ms: Option<u64>,
}

impl Default for Retry {
    fn default() -> Self {
        Retry { attempts: 5, floor_ms: 60_000, cap_ms: 6 * 3_600_000, max_crashes: 3 }
    }
}

impl Default for Check {
    fn default() -> Self {
        Check {
            near_empty: 8,
            under_extracted: 0.5,
            junk: 0.2,
            glyph_codes: 0.3,
            repeated_lines: 0.8,
            common_words: 0.1,
        }
    }
}

/// What every Linux that this runs on gives without any privilege: less than this is no cage.
const REQUIRED: &[Layer] = &[
    Layer::Descriptors,
    Layer::Environment,
    Layer::NoNewPrivileges,
    Layer::SeccompZygote,
    Layer::ParentDeath,
    Layer::Rlimits,
    Layer::NotDumpable,
    Layer::MemoryBudget,
    Layer::SeccompChild,
];

impl Default for Cage {
    fn default() -> Self {
        Cage {
            require: REQUIRED.iter().copied().collect(),
            faults: false,
            // Above the ranges that systemd, container engines and useradd hand out.
            uid_base: 1_900_000_000,
            omit: Layers::NONE,
            worker: None,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        let limits = Limits::default();
        Settings {
            watch: Watch::within(&large_lane(&limits)),
            large: large_lane(&limits),
            limits,
            retry: Retry::default(),
            kinds: BTreeMap::new(),
            policy: Policy::default(),
            cage: Cage::default(),
            passwords: Vec::new(),
            extractors: Vec::new(),
            recognise: Recognise::default(),
            connectors: Vec::new(),
            children: None,
            breakers: Breakers::default(),
            alert: Vec::new(),
            deletion_guard: 0.1,
            check: Check::default(),
            verify_share: 0.01,
        }
    }
}

impl Settings {
    /// Tells one list of passwords from another, and gives none away: 32 bits of a hash over all of them. `None` where there
    /// are none.
    pub fn passwords_mark(&self) -> Option<String> {
        let all = self.passwords.join("\n");
        (!all.is_empty()).then(|| ContentHash::of(all.as_bytes()).to_string().chars().take(8).collect())
    }

    /// Gives a fault the class that is set for its kind, where one is.
    pub fn classify(&self, fault: &mut Fault) {
        let set = self.kinds.get(&fault.kind).and_then(|policy| policy.class);
        fault.class = set.or(fault.class);
    }

    /// How long the connector of this name may take, in ms.
    pub fn deadline_of(&self, connector: &str) -> Option<u64> {
        self.connectors.iter().find(|one| one.name == connector)?.deadline_ms
    }
}

/// How much more the large lane allows.
const LARGE_LANE: u64 = 4;

/// The large lane that goes with these limits: four times what one child may use. What the supervisor itself counts
/// (input, fetch, expansion, ratio, depth, entries) sends nothing to the large lane and is the same there.
fn large_lane(limits: &Limits) -> Limits {
    Limits {
        wall_ms: limits.wall_ms.saturating_mul(LARGE_LANE),
        stalled_ms: limits.stalled_ms.saturating_mul(LARGE_LANE),
        cpu_ms: limits.cpu_ms.saturating_mul(LARGE_LANE),
        memory: limits.memory.saturating_mul(LARGE_LANE),
        output: limits.output.saturating_mul(LARGE_LANE),
        ..limits.clone()
    }
}

#[cfg(test)]
mod tests;
