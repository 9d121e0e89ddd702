//! The children: zygotes, one child per document, and the evidence of how each ended.
//!
//! A slot is a zygote that has at most one child at a time. The pool hands out slots as leases; a lease carries one
//! document through one child and gives back what the child said and how it ended. It parses nothing and decides
//! nothing but by asking [`crate::rules::classify`].

mod cgroup;
mod child;
pub mod command;
mod control;
mod conversation;
mod machine;
mod process;
mod slot;
mod spawner;
mod zygote;

pub use crate::rules::classify::JobLimits;

use crate::ledger::Usage;
use crate::rules::fault::{Evidence, Fault};
use crate::rules::kind::{Kind, Stage};
use crate::settings::Cage;
use crate::source::fetch::sealed;
use shared::{Answer, End, Format, Layer, Layers, Work};
use slot::{Slot, with_cause};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use zygote::Plan;

/// What comes back from the built-in document.
const PROBE: &str = "lazaret: what goes in comes out\n";
/// How long the dead may take when the pool is dropped.
const SETTLE: Duration = Duration::from_secs(2);

/// The children of one run. When dropped, with all its leases, all that it made is killed and reaped.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    free: Mutex<Vec<Slot>>,
    permits: Arc<Semaphore>,
    running: Arc<slot::Running>,
    layers: Layers,
    absent: Vec<(Layer, String)>,
    touched_kib: u64,
}

/// One slot, lent out. Given back when dropped.
#[derive(Debug)]
pub struct Lease {
    slot: Option<Slot>,
    shared: Arc<Shared>,
    _permit: OwnedSemaphorePermit,
}

/// One document for one child.
#[derive(Debug)]
pub struct Job {
    /// A sealed memfd, or a file open for reading only. Shared: who had it may try it another way afterwards.
    pub document: Arc<OwnedFd>,
    pub size: u64,
    pub format: Format,
    pub work: Work,
    /// The innermost name, raw.
    pub name: Vec<u8>,
    pub passwords: Vec<String>,
    pub limits: JobLimits,
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
#[expect(clippy::large_enum_variant, reason = "there is one for each document, never a list of them")]
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
    /// Starts `slots` zygotes. The thread that makes them lives as long as the process does. Checks that the required
    /// layers hold and that the built-in text goes through the cage.
    ///
    /// # Errors
    /// Structural: the worker's program is missing or of another version, a required layer is missing, the built-in text did not come back.
    pub async fn start(cage: &Cage, slots: usize) -> Result<Pool, PoolError> {
        let plan = Plan::new(cage)?;
        let count = slots.max(1);
        let running: Arc<slot::Running> = Arc::new(Mutex::new(vec![None; count]));
        let mut starting = JoinSet::new();
        for number in 0..count {
            starting.spawn(Slot::start(number, Arc::clone(&plan), Arc::clone(&running)));
        }
        let mut free = Vec::with_capacity(count);
        while let Some(started) = starting.join_next().await {
            let failed = |error| PoolError::Start {
                step: "start the zygotes".to_owned(),
                source: std::io::Error::other(error),
            };
            free.push(started.map_err(failed)??);
        }
        free.sort_by_key(|slot| std::cmp::Reverse(slot.number));
        let mut probed = free.pop().expect("there is at least one slot");
        let (layers, absent, touched_kib) = standing(&probed);
        lacking(cage.require, layers, &absent)?;
        probe(&mut probed).await?;
        free.push(probed);
        let permits = Arc::new(Semaphore::new(count));
        let shared = Shared { free: Mutex::new(free), permits, running, layers, absent, touched_kib };
        Ok(Pool { shared: Arc::new(shared) })
    }

    /// The layers that hold for every child, and what is missing with the reason.
    pub fn layers(&self) -> (Layers, Vec<(Layer, String)>) {
        (self.shared.layers, self.shared.absent.clone())
    }

    /// KiB of memory that a zygote has touched: the price of each child grows with it.
    pub fn touched_kib(&self) -> u64 {
        self.shared.touched_kib
    }

    /// Waits for a free slot.
    pub async fn lend(&self) -> Lease {
        let permits = Arc::clone(&self.shared.permits);
        let permit = permits.acquire_owned().await.expect("the semaphore is never closed");
        let mut free = self.shared.free.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = free.pop();
        drop(free);
        Lease { slot, shared: Arc::clone(&self.shared), _permit: permit }
    }

    /// Waits for a place among the children, for one that is not made by a zygote: given back when dropped.
    pub async fn place(&self) -> OwnedSemaphorePermit {
        let permits = Arc::clone(&self.shared.permits);
        permits.acquire_owned().await.expect("the semaphore is never closed")
    }

    /// The process id of the child that runs in the only slot, for `doctor`.
    pub(crate) fn watcher(&self) -> impl Fn() -> Option<i32> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        move || slot::in_flight(&shared.running).first().map(|child| child.pid)
    }

    /// What is running.
    pub fn in_flight(&self) -> Vec<InFlight> {
        slot::in_flight(&self.shared.running)
    }
}

impl Lease {
    /// Carries one document through one child. Never fails: what goes wrong is the ending.
    ///
    /// Dropped half-way it kills the child.
    pub async fn run(&mut self, job: Job, receiver: &mut dyn Receiver) -> Ending {
        self.slot.as_mut().expect("there is a slot for each permit").run(job, receiver).await
    }

    /// How the zygote's attacks on itself ended, for `doctor`.
    pub(crate) fn proofs(&self) -> Vec<shared::ask::Proof> {
        let zygote = self.slot.as_ref().and_then(|slot| slot.zygote.as_ref());
        zygote.map_or_else(Vec::new, |zygote| zygote.proofs.clone())
    }

    /// The process id of the slot's zygote, for tests and `doctor`.
    pub fn zygote_pid(&self) -> Option<i32> {
        self.slot.as_ref()?.zygote.as_ref().map(|zygote| zygote.process.pid)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Before the permit goes, which is the last field: whoever gets it finds the slot.
        if let Some(slot) = self.slot.take() {
            slot.rest();
            self.shared.free.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).clear();
        spawner::settle(SETTLE);
    }
}

fn standing(slot: &Slot) -> (Layers, Vec<(Layer, String)>, u64) {
    match &slot.zygote {
        Some(zygote) => (zygote.layers, zygote.absent.clone(), zygote.touched_kib),
        None => (Layers::NONE, Vec::new(), 0),
    }
}

fn lacking(require: Layers, layers: Layers, absent: &[(Layer, String)]) -> Result<(), PoolError> {
    let reason = |layer: Layer| {
        let why = absent.iter().find(|(other, _)| *other == layer).map(|(_, why)| why.clone());
        (layer, why.unwrap_or_else(|| "the worker does not say why".to_owned()))
    };
    let missing: Vec<_> = require.iter().filter(|&layer| !layers.has(layer)).map(reason).collect();
    if missing.is_empty() { Ok(()) } else { Err(PoolError::LayersMissing { missing }) }
}

/// Sends the built-in document through, once more where a worker was lost on the way.
async fn probe(slot: &mut Slot) -> Result<(), PoolError> {
    let made = |source| PoolError::Start { step: "make the built-in document".to_owned(), source };
    let mut last = None;
    for _ in 0..2 {
        let mut kept = Kept::default();
        let job = Job {
            document: Arc::new(sealed(PROBE.as_bytes()).map_err(made)?),
            size: PROBE.len() as u64,
            format: Format::Text,
            work: Work::Extract,
            name: b"probe.txt".to_vec(),
            passwords: Vec::new(),
            limits: JobLimits {
                wall_ms: 30_000,
                stalled_ms: 30_000,
                cpu_ms: 5_000,
                memory: 256 << 20,
                output: 1 << 20,
            },
        };
        match slot.run(job, &mut kept).await.outcome {
            Outcome::Ended(end) if end.refusal.is_none() && kept.text.trim_end() == PROBE.trim_end() => {
                return Ok(());
            }
            Outcome::Ended(_) | Outcome::Stopped => {
                let message = format!("the built-in text came back as {:?}", kept.text);
                last = Some(Fault::new(Stage::Extract, Kind::ParseMalformed, message));
                break;
            }
            Outcome::Failed(fault) => {
                let again = fault.kind == Kind::WorkerLost;
                last = Some(fault);
                if !again {
                    break;
                }
            }
        }
    }
    let fault = last.expect("every way out of the loop but success leaves one");
    Err(PoolError::Probe { fault: Box::new(fault) })
}

/// Keeps the text of a small document.
#[derive(Debug, Default)]
struct Kept {
    text: String,
}

impl Receiver for Kept {
    fn take(&mut self, answer: Answer) -> Flow {
        if let Answer::Text(text) = answer {
            self.text.push_str(&text);
        }
        Flow::Continue
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
    LayersMissing { missing: Vec<(Layer, String)> },
    /// The built-in document did not come through.
    Probe { fault: Box<Fault> },
}

impl std::fmt::Display for PoolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PoolError::WorkerMissing { path } => write!(
                f,
                "the worker's program {} is missing; it belongs beside lazaret itself, or where cage.worker says",
                path.display()
            ),
            PoolError::Start { step, source: _ } => {
                write!(
                    f,
                    "no worker could be started, at the step '{step}'; `lazaret doctor` says what is wrong"
                )
            }
            PoolError::Version { path, ours, theirs } => write!(
                f,
                "the worker's program {} speaks version {theirs} and lazaret version {ours}; install both from one build",
                path.display()
            ),
            PoolError::LayersMissing { missing } => {
                f.write_str("the cage lacks what cage.require demands:")?;
                for (place, (layer, why)) in missing.iter().enumerate() {
                    let comma = if place == 0 { "" } else { "," };
                    write!(f, "{comma} {} ({why})", layer.name())?;
                }
                f.write_str("; `lazaret doctor` says how to get it")
            }
            PoolError::Probe { fault } => write!(
                f,
                "the built-in text did not come through the cage: {}: {}; `lazaret doctor` says what is wrong",
                fault.kind, fault.message
            ),
        }
    }
}

impl std::error::Error for PoolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PoolError::Start { source, .. } => Some(source),
            _ => None,
        }
    }
}
