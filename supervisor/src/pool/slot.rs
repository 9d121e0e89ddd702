//! A slot: one zygote after another, and one child at a time.
//!
//! A zygote is replaced after so many children, because they share its layout and its hash keys, and at anything odd.

use super::child::{Child, Gone, Talk};
use super::conversation::Conversation;
use super::zygote::{Plan, Zygote, no_block};
use super::{Ending, InFlight, Job, Outcome, PoolError, Receiver, machine};
use crate::ledger::Usage;
use crate::rules::classify::{Code, Counted, Death, Stream, Verdict, Wait, classify};
use crate::rules::fault::{Evidence, Fault};
use crate::rules::kind::{Kind, Stage};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use shared::ask::{Ask, ChildLimits, Reply, Request};
use shared::recorder::{self, Recording};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Children of one zygote.
const CHILDREN_MAX: u32 = 1000;
/// How long a zygote may take to make a child, on a machine that may be busy.
const SPAWNED_WITHIN: Duration = Duration::from_secs(10);
/// Between starts of zygotes that fail.
const BACKOFF_FLOOR: Duration = Duration::from_millis(50);
const BACKOFF_CAP: Duration = Duration::from_secs(10);
/// Bytes that are read from a pipe at once.
const BUFFER: usize = 128 << 10;
/// What a pipe is asked to hold, in bytes; the kernel may say no.
const PIPE: i32 = 1 << 20;

/// What runs in each slot, for people.
pub(super) type Running = Mutex<Vec<Option<(i32, Instant)>>>;

/// One slot.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) number: usize,
    plan: Arc<Plan>,
    running: Arc<Running>,
    pub(super) zygote: Option<Zygote>,
    recorder: File,
    buffer: Vec<u8>,
    failures: u32,
}

impl Slot {
    /// A slot with its first zygote.
    pub(super) async fn start(
        number: usize,
        plan: Arc<Plan>,
        running: Arc<Running>,
    ) -> Result<Slot, PoolError> {
        let failed = |source| PoolError::Start { step: "make a recorder page".to_owned(), source };
        let recorder = new_recorder().map_err(failed)?;
        let zygote = Some(Zygote::start(&plan, slot_id(number)).await?);
        Ok(Slot { number, plan, running, zygote, recorder, buffer: vec![0; BUFFER], failures: 0 })
    }

    /// Carries one document through one child.
    pub(super) async fn run(&mut self, job: Job, receiver: &mut dyn Receiver) -> Ending {
        let started = Instant::now();
        // Whatever is left of an attempt that was dropped half-way goes with its zygote.
        let ending = match self.attempt(&job, receiver, started).await {
            Ok(ending) => ending,
            Err(fault) => {
                self.zygote = None;
                let wall_ms = millis(started.elapsed());
                let usage = Usage { wall_ms, cpu_ms: 0, peak_rss_kib: 0 };
                Ending { outcome: Outcome::Failed(*fault), usage, evidence: Evidence::default() }
            }
        };
        self.note(None);
        ending
    }

    async fn attempt(
        &mut self,
        job: &Job,
        receiver: &mut dyn Receiver,
        started: Instant,
    ) -> Result<Ending, Box<Fault>> {
        let mut zygote = self.ready_zygote().await?;
        let broken = |step: &'static str| move |error: io::Error| Box::new(lost(step, &error));
        let before = Before::take(job, &mut zygote);
        let (child, nonce) = self.ask(&mut zygote, job).await?;
        let mut child = child.map_err(broken("infra.child"))?;
        self.note(Some(child.process.pid));
        crate::fault_point::reach(crate::fault_point::Point::ChildRunning);
        let mut talk = Talk {
            conversation: Conversation::new(nonce, job.limits.output),
            receiver,
            buffer: &mut self.buffer,
            held: zygote.layers,
            require: self.plan.require,
        };
        let gone = child.watch(&zygote, &mut talk, job.limits, started.into()).await;
        let gone = gone.map_err(broken("infra.child"))?;
        let conversation = talk.conversation;
        let held = zygote.layers.union(conversation.locked.unwrap_or_default());
        let death = self.evidence(&zygote, &mut child, &gone, conversation, job, &before, started);
        let usage = Usage { wall_ms: death.wall_ms, cpu_ms: death.cpu_ms, peak_rss_kib: death.peak_rss_kib };
        let verdict = classify(&death);
        self.keep(zygote, &death, &verdict, child.stopped);
        let layers = held.iter().map(|layer| layer.name().to_owned()).collect();
        Ok(ending(verdict, child.stopped, usage, layers))
    }

    /// The zygote, taken out of the slot: an attempt that is dropped takes it along, with its child.
    async fn ready_zygote(&mut self) -> Result<Zygote, Box<Fault>> {
        if let Some(zygote) = self.zygote.take()
            && zygote.children < CHILDREN_MAX
            && zygote.process.lives()
        {
            return Ok(zygote);
        }
        if self.failures > 0 {
            let delay = BACKOFF_FLOOR.saturating_mul(1 << self.failures.min(10)).min(BACKOFF_CAP);
            tokio::time::sleep(delay).await;
        }
        match Zygote::start(&self.plan, slot_id(self.number)).await {
            Ok(zygote) => {
                self.failures = 0;
                Ok(zygote)
            }
            Err(error) => {
                self.failures += 1;
                let mut fault = Fault::new(Stage::Extract, Kind::WorkerLost, with_cause(&error));
                fault.evidence.detail = Some("infra.setup".to_owned());
                Err(Box::new(fault))
            }
        }
    }

    /// Sends the document and takes the child. An error of the outer kind is the zygote's, of the inner kind ours.
    async fn ask(&self, zygote: &mut Zygote, job: &Job) -> Result<(io::Result<Child>, [u8; 16]), Box<Fault>> {
        let broken = |error: io::Error| Box::new(lost("infra.zygote_lost", &error));
        clear(&self.recorder).map_err(broken)?;
        let (ours, theirs) = pipe().map_err(broken)?;
        let nonce = nonce();
        let request = Request::Spawn(Ask {
            nonce,
            work: job.work,
            format: job.format,
            size: job.size,
            name: job.name.clone(),
            limits: ChildLimits { memory: job.limits.memory, cpu_ms: job.limits.cpu_ms },
            passwords: job.passwords.clone(),
        });
        let descriptors = [job.document.as_fd(), theirs.as_fd(), self.recorder.as_fd()];
        zygote.control.send(&request, &descriptors).map_err(broken)?;
        drop(theirs);
        zygote.children += 1;
        let answer = tokio::time::timeout(SPAWNED_WITHIN, zygote.control.receive()).await;
        let (reply, descriptors) =
            answer.map_err(|_| broken(io::ErrorKind::TimedOut.into()))?.map_err(broken)?;
        match (reply, descriptors.into_iter().next()) {
            (Reply::Spawned { nonce: theirs }, Some(pidfd)) if theirs == nonce => {
                Ok((Child::new(pidfd, ours), nonce))
            }
            (Reply::Refused { step, errno, .. }, _) => {
                let error = io::Error::from_raw_os_error(errno);
                Err(Box::new(lost(&format!("setup.{step}"), &error)))
            }
            _ => Err(broken(io::Error::new(io::ErrorKind::InvalidData, "an answer to what was not asked"))),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "each is one source of evidence about the same death")]
    fn evidence(
        &self,
        zygote: &Zygote,
        child: &mut Child,
        gone: &Gone,
        conversation: Conversation,
        job: &Job,
        before: &Before,
        started: Instant,
    ) -> Death {
        let (wait, cpu_ms, peak_rss_kib) = match gone {
            Gone::Reaped(reaped) if reaped.killed => (
                Wait::Killed { signal: reaped.status, core: reaped.core },
                reaped.cpu_ms,
                reaped.peak_rss_kib,
            ),
            Gone::Reaped(reaped) => (Wait::Exited(reaped.status), reaped.cpu_ms, reaped.peak_rss_kib),
            Gone::Unkillable => (Wait::Unkillable, 0, 0),
        };
        // A good end needs no counters.
        let died = wait != Wait::Exited(0);
        let stream = Stream {
            locked: conversation.locked.is_some(),
            broken: conversation.unfinished(),
            ended: conversation.ended,
        };
        Death {
            wait,
            intent: child.intent.take(),
            cpu_ms,
            peak_rss_kib,
            wall_ms: millis(started.elapsed()),
            document_bytes: job.size,
            limits: job.limits,
            recording: if died { read_recorder(&self.recorder) } else { Recording::default() },
            stream,
            cgroup: if died { before.counted(zygote) } else { None },
            machine_kills: if died && before.counters.is_none() {
                machine::oom_kills().saturating_sub(before.machine_kills)
            } else {
                0
            },
            zygote_lived: !died || zygote.process.lives(),
            source_changed: died && before.changed(job),
            code: Code { base: zygote.code_base, size: self.plan.program_size },
        }
    }

    /// Keeps the zygote for the next child, unless something about it was odd.
    fn keep(&mut self, zygote: Zygote, death: &Death, verdict: &Verdict, stopped: bool) {
        let odd = match verdict {
            Verdict::Ended(_) => false,
            // Killed because nobody wanted more of it: that kill is ours, and no fault stands behind it.
            Verdict::Fault(_) if stopped && death.wait != Wait::Unkillable => false,
            Verdict::Fault(fault) => matches!(fault.kind, Kind::WorkerLost | Kind::TimeUnkillable),
        };
        if death.wait == Wait::Unkillable {
            // The child still has the page.
            match new_recorder() {
                Ok(recorder) => self.recorder = recorder,
                Err(error) => tracing::warn!(%error, "no new recorder page"),
            }
        }
        self.zygote = (!odd && death.zygote_lived).then_some(zygote);
    }

    fn note(&self, pid: Option<i32>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = running.get_mut(self.number) {
            *place = pid.map(|pid| (pid, Instant::now()));
        }
    }

    /// Nothing runs here, whatever was noted.
    pub(super) fn rest(&self) {
        self.note(None);
    }
}

/// What is running in each slot.
pub(super) fn in_flight(running: &Running) -> Vec<InFlight> {
    let running = running.lock().unwrap_or_else(PoisonError::into_inner);
    let one = |(slot, place): (usize, &Option<(i32, Instant)>)| {
        place.map(|(pid, since)| InFlight { slot, pid, running_ms: millis(since.elapsed()) })
    };
    running.iter().enumerate().filter_map(one).collect()
}

/// Counters and marks from before the child.
struct Before {
    counters: Option<super::cgroup::Counters>,
    machine_kills: u64,
    document: Option<(u64, i64, i64)>,
}

impl Before {
    fn take(job: &Job, zygote: &mut Zygote) -> Self {
        if let Some(leaf) = &mut zygote.leaf
            && let Err(error) = leaf.fit(job.limits.memory, job.size)
        {
            tracing::debug!(%error, "the cgroup keeps its old limit");
        }
        Before {
            counters: zygote.leaf.as_ref().map(super::cgroup::Leaf::counters),
            machine_kills: if zygote.leaf.is_some() { 0 } else { machine::oom_kills() },
            document: stamp(&job.document),
        }
    }

    fn counted(&self, zygote: &Zygote) -> Option<Counted> {
        let now = zygote.leaf.as_ref()?.counters().since(self.counters?);
        Some(Counted { killed: now.killed, limited: now.limited })
    }

    fn changed(&self, job: &Job) -> bool {
        self.document.is_some() && stamp(&job.document) != self.document
    }
}

fn stamp(document: &OwnedFd) -> Option<(u64, i64, i64)> {
    let file = File::from(document.try_clone().ok()?);
    let metadata = file.metadata().ok()?;
    Some((metadata.size(), metadata.mtime(), metadata.mtime_nsec()))
}

fn ending(verdict: Verdict, stopped: bool, usage: Usage, layers: Vec<String>) -> Ending {
    match verdict {
        _ if stopped => {
            Ending { outcome: Outcome::Stopped, usage, evidence: Evidence { layers, ..Evidence::default() } }
        }
        Verdict::Ended(end) => {
            let evidence = Evidence {
                layers,
                engine: Some(end.engine.clone()),
                parts: end.parts,
                ..Evidence::default()
            };
            Ending { outcome: Outcome::Ended(end), usage, evidence }
        }
        Verdict::Fault(mut fault) => {
            fault.evidence.layers = layers;
            let evidence = fault.evidence.clone();
            Ending { outcome: Outcome::Failed(*fault), usage, evidence }
        }
    }
}

pub(super) fn lost(detail: &str, error: &io::Error) -> Fault {
    let mut fault = Fault::new(Stage::Extract, Kind::WorkerLost, error.to_string());
    fault.evidence.detail = Some(detail.to_owned());
    fault.evidence.errno =
        error.raw_os_error().map(|errno| format!("{:?}", nix::errno::Errno::from_raw(errno)));
    fault
}

/// An error and what stands behind it, in one line.
pub(super) fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Results of one attempt cannot be taken for another's. It need not be secret: each child knows only its own.
fn nonce() -> [u8; 16] {
    let mut nonce = [0; 16];
    for half in nonce.chunks_exact_mut(8) {
        half.copy_from_slice(&RandomState::new().build_hasher().finish().to_le_bytes());
    }
    nonce
}

pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    no_block(&ours)?;
    if let Err(errno) = fcntl(&ours, FcntlArg::F_SETPIPE_SZ(PIPE)) {
        tracing::trace!(%errno, "the pipe keeps its size");
    }
    Ok((ours, theirs))
}

fn new_recorder() -> io::Result<File> {
    let file = File::from(memfd_create(c"recorder", MFdFlags::MFD_CLOEXEC)?);
    file.set_len(recorder::SIZE as u64)?;
    Ok(file)
}

/// The last child is dead by now: nobody else writes.
fn clear(recorder: &File) -> io::Result<()> {
    recorder.write_all_at(&[0; recorder::SIZE], 0)
}

/// Copies the page out, once.
fn read_recorder(recorder: &File) -> Recording {
    let mut page = [0; recorder::SIZE];
    match recorder.read_exact_at(&mut page, 0) {
        Ok(()) => Recording::read(&page),
        Err(_) => Recording::default(),
    }
}

fn slot_id(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
