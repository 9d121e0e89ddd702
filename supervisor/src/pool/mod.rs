//! The children: zygotes, one child per document, and the evidence of how each ended.
//!
//! A slot is a zygote that has at most one child at a time. The pool hands out slots as leases; a lease carries one
//! document through one child and gives back what the child said and how it ended. It parses nothing and decides
//! nothing but by asking [`crate::rules::classify`].

use crate::ledger::Usage;
use crate::rules::fault::{Evidence, Fault};
use crate::settings::Cage;
use shared::{Answer, End, Format, Layers, Work};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// The children of one run.
#[derive(Debug)]
pub struct Pool {}

/// One slot, lent out. Given back when dropped.
#[derive(Debug)]
pub struct Lease {}

/// One document for one child.
#[derive(Debug)]
pub struct Job {
    /// A sealed memfd, or a file open for reading only.
    pub document: OwnedFd,
    pub size: u64,
    pub format: Format,
    pub work: Work,
    /// The innermost name, raw.
    pub name: Vec<u8>,
    pub passwords: Vec<String>,
    pub limits: JobLimits,
}

/// Of [`shared::Limits`] what concerns one child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobLimits {
    pub wall_ms: u64,
    pub stalled_ms: u64,
    pub cpu_ms: u64,
    pub memory: u64,
    /// Bytes of text and metadata; also bounds the number of frames.
    pub output: u64,
}

/// Gets what a child says, while it runs. Calls come in order, from one task, and must not block for long.
pub trait Receiver: Send {
    /// Takes one answer; [`Flow::Stop`] ends the child at once.
    fn take(&mut self, answer: Answer) -> Flow;
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Continue,
    Stop,
}

/// How a child ended.
#[derive(Debug)]
pub struct Ending {
    pub outcome: Outcome,
    pub usage: Usage,
    /// Layers that held, engine, whatever else is known also of a good end.
    pub evidence: Evidence,
}

/// What came of it.
#[derive(Debug)]
pub enum Outcome {
    /// It said all it had to say, and exited with 0. It may have refused its document honestly.
    Ended(End),
    /// The receiver said stop; the child was killed for that.
    Stopped,
    /// It died, or was killed for a limit or a violation. What it said before must not be used.
    Failed(Fault),
}

/// What one child is at, for people.
#[derive(Debug, Clone)]
pub struct InFlight {
    pub slot: usize,
    pub pid: i32,
    pub running_ms: u64,
}

impl Pool {
    /// Starts `slots` zygotes. Must be called before anything else starts a thread that could outlive it; the thread that makes zygotes lives as
    /// long as the process. Checks that the required layers hold and that the built-in text goes through the cage.
    ///
    /// # Errors
    /// Structural: the worker's program is missing or of another version, a required layer is missing, the built-in text did not come back.
    pub async fn start(_cage: &Cage, _slots: usize) -> Result<Pool, PoolError> {
        unimplemented!()
    }

    /// The layers that hold for every child, and what is missing with the reason.
    pub fn layers(&self) -> (Layers, Vec<(shared::Layer, String)>) {
        unimplemented!()
    }

    /// Waits for a free slot.
    pub async fn lend(&self) -> Lease {
        unimplemented!()
    }

    /// What is running.
    pub fn in_flight(&self) -> Vec<InFlight> {
        unimplemented!()
    }
}

impl Lease {
    /// Carries one document through one child. Never fails: what goes wrong is the ending.
    pub async fn run(&mut self, _job: Job, _receiver: &mut dyn Receiver) -> Ending {
        unimplemented!()
    }
}

/// Why there can be no children at all.
#[derive(Debug)]
pub enum PoolError {
    /// The worker's program is not where it should be.
    WorkerMissing { path: PathBuf },
    /// It could not be started, or answered nonsense.
    Start { step: String, source: std::io::Error },
    /// It is of another version.
    Version { path: PathBuf, ours: u32, theirs: u32 },
    /// Layers that the settings require do not hold.
    LayersMissing { missing: Vec<(shared::Layer, String)> },
    /// The built-in document did not come through.
    Probe { fault: Box<Fault> },
}

impl std::fmt::Display for PoolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the cage")
    }
}

impl std::error::Error for PoolError {}

/// stub
#[derive(Debug)]
pub struct Machine {
    pub total: u64,
}
impl Machine {
    pub fn look() -> Self {
        Machine { total: 0 }
    }
    pub fn children(&self, _memory: u64) -> usize {
        1
    }
}
