//! External commands as extractors: each runs in a cage that a launcher makes for it, and its end is judged like that of
//! a child of our own.
//!
//! A launcher makes one cage at a time and is started when all others are at work; it waits in the pool between two
//! commands. What a command says is bytes: nothing here is decided by it but its own text.

mod launcher;
mod output;
mod program;
mod tree;
mod watch;

pub use program::{Missing, Program};

use super::cgroup::Counters;
use super::control::Control;
use super::slot::{lost, millis, pipe};
use super::zygote::{Plan, sockets};
use super::{Ending, JobLimits, Outcome, Receiver, machine, spawner, with_cause};
use crate::ledger::Usage;
use crate::rules::classify::command::{Cage as Stand, CommandDeath, classify};
use crate::rules::classify::{Code, Counted, Death, Stream, Wait};
use crate::rules::fault::{Evidence, Fault};
use crate::rules::kind::{Kind, Stage};
use crate::settings;
use launcher::{Launcher, NoLauncher};
use output::{Complaints, Halt, Output};
use shared::launch::{Launch, LaunchLimits, Report};
use shared::recorder::Recording;
use shared::{End, Format};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use watch::{Ends, Gone, Running, Talk};

pub use crate::settings::OutputKind;

/// Processes and threads of a command at a time.
pub const PROCESSES_MAX: u64 = 64;
/// Files in a command's scratch folder.
const INODES_MAX: u64 = 4096;
/// Bytes of the scratch folder are this part of the limit on memory, which they lie in.
const SCRATCH_SHARE: u64 = 2;
/// What the launcher, the cage and the kernel's tables take besides the limit on memory, in bytes.
const OVERHEAD: u64 = 48 << 20;
/// Bytes that are read from a pipe at once.
const BUFFER: usize = 128 << 10;
/// How long the dead may take when the last commands are dropped.
const SETTLE: Duration = Duration::from_secs(2);
/// The longest name of an engine, in bytes.
const ENGINE_MAX: usize = 128;
/// By this name in its layers a cage keeps written memory from becoming executable.
const WRITE_EXECUTE: &str = "no-write-execute";

/// Runs external commands. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Commands {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    cage: settings::Cage,
    plan: OnceLock<Result<Arc<Plan>, String>>,
    free: Mutex<Vec<Launcher>>,
    started: AtomicU32,
}

/// One document for one command.
#[derive(Debug)]
pub struct CommandJob {
    pub program: Arc<Program>,
    /// A sealed memfd, or a file open for reading only.
    pub document: Arc<OwnedFd>,
    pub size: u64,
    /// The innermost name, raw. No command sees it.
    pub name: Vec<u8>,
    pub format: Format,
    /// `Extract` or `Recognise`: where a fault is said to have happened.
    pub stage: Stage,
    pub limits: JobLimits,
}

/// Which layers hold for every command, by name, and which do not, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub layers: Vec<String>,
    pub absent: Vec<(String, String)>,
    /// Commands have a root and processes of their own.
    pub namespaces: bool,
}

/// What is run, but for the document.
#[derive(Debug, Clone, Copy)]
struct Call<'a> {
    launch: &'a Launch,
    output: OutputKind,
    limits: JobLimits,
}

/// What came of a cage, before it is judged.
#[derive(Debug)]
struct Seen {
    death: Death,
    cage: Stand,
    output: u64,
    text_bytes: u64,
    broken: Option<String>,
    complaints: String,
    stopped: bool,
    layers: Vec<String>,
}

impl Commands {
    /// Nothing is started before the first command.
    pub fn new(cage: &settings::Cage) -> Commands {
        Commands {
            shared: Arc::new(Shared {
                cage: cage.clone(),
                plan: OnceLock::new(),
                free: Mutex::new(Vec::new()),
                started: AtomicU32::new(0),
            }),
        }
    }

    /// Makes sure that commands can be run.
    ///
    /// # Errors
    /// They cannot on this machine; the reason for people.
    pub async fn ready(&self) -> Result<(), String> {
        self.standing().await.map(drop)
    }

    /// Which layers hold.
    ///
    /// # Errors
    /// As of [`Commands::ready`].
    pub async fn standing(&self) -> Result<Standing, String> {
        let launcher = self.launcher().await.map_err(|none| none.words())?;
        let standing = Standing {
            layers: launcher.layers.clone(),
            absent: launcher.absent.clone(),
            namespaces: launcher.namespaces,
        };
        self.give_back(launcher);
        Ok(standing)
    }

    /// Carries one document through one command. Never fails: what goes wrong is the ending. Text comes as
    /// [`shared::Answer::Text`]; of JSON first its metadata, once the command has said all.
    ///
    /// Dropped half-way it kills the command and all that it made.
    pub async fn run(&self, job: CommandJob, receiver: &mut dyn Receiver) -> Ending {
        let started = Instant::now();
        let launch = job.program.launch(&job);
        let call = Call { launch: &launch, output: job.program.output(), limits: job.limits };
        match self.attempt(call, &job.document, receiver, started).await {
            Ok(seen) => ending(seen, &job),
            Err(mut fault) => {
                fault.stage = job.stage;
                let usage = Usage { wall_ms: millis(started.elapsed()), cpu_ms: 0, peak_rss_kib: 0 };
                Ending { outcome: Outcome::Failed(*fault), usage, evidence: Evidence::default() }
            }
        }
    }

    async fn attempt(
        &self,
        call: Call<'_>,
        document: &OwnedFd,
        receiver: &mut dyn Receiver,
        started: Instant,
    ) -> Result<Seen, Box<Fault>> {
        let mut launcher = self.launcher().await.map_err(|none| Box::new(unavailable(&none)))?;
        let broken = |error: io::Error| Box::new(lost("infra.launcher", &error));
        let before = Before::take(&mut launcher, &call);
        let mut running = start(&mut launcher, call.launch, document).await.map_err(broken)?;
        let mut talk = Talk {
            output: Output::new(call.output, call.limits.output),
            complaints: Complaints::default(),
            receiver,
            buffer: vec![0; BUFFER],
        };
        let processes = call.launch.limits.processes;
        let gone = running.watch(&launcher, &mut talk, call.limits, processes, started.into()).await;
        let gone = gone.map_err(broken)?;
        let broken = finish(&mut running, &mut talk);
        let seen = seen(&launcher, &mut running, &gone, talk, broken, &call, &before, started);
        if matches!(gone, Gone::Reaped(_)) {
            self.give_back(launcher);
        }
        Ok(seen)
    }

    /// A launcher that is free, or a new one.
    async fn launcher(&self) -> Result<Launcher, NoLauncher> {
        loop {
            let free = self.shared.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match free {
                Some(launcher) if launcher.is_sound() => return Ok(launcher),
                Some(_odd) => {}
                None => break,
            }
        }
        let plan = self.plan().map_err(NoLauncher::Unfit)?;
        Launcher::start(&plan, self.shared.started.fetch_add(1, Ordering::Relaxed)).await
    }

    fn plan(&self) -> Result<Arc<Plan>, String> {
        let plan = || Plan::new(&self.shared.cage).map_err(|error| with_cause(&error));
        self.shared.plan.get_or_init(plan).clone()
    }

    fn give_back(&self, launcher: Launcher) {
        if launcher.is_sound() {
            self.shared.free.lock().unwrap_or_else(PoisonError::into_inner).push(launcher);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).clear();
        spawner::settle(SETTLE);
    }
}

/// Counters from before the command.
struct Before {
    counters: Option<Counters>,
    machine_kills: u64,
}

impl Before {
    fn take(launcher: &mut Launcher, call: &Call<'_>) -> Self {
        if let Some(leaf) = &mut launcher.leaf {
            let wanted = call.limits.memory.saturating_add(call.launch.size).saturating_add(OVERHEAD);
            if let Err(error) = leaf.limit_to(wanted) {
                tracing::debug!(%error, "the cgroup keeps its old limit");
            }
        }
        Before {
            counters: launcher.leaf.as_ref().map(super::cgroup::Leaf::counters),
            machine_kills: if launcher.leaf.is_some() { 0 } else { machine::oom_kills() },
        }
    }

    fn counted(&self, launcher: &Launcher) -> Option<Counted> {
        let now = launcher.leaf.as_ref()?.counters().since(self.counters?);
        Some(Counted { killed: now.killed, limited: now.limited })
    }
}

/// The limits of a command, as the kernel keeps them.
fn launch_limits(limits: &JobLimits) -> LaunchLimits {
    LaunchLimits {
        memory: limits.memory,
        cpu_ms: limits.cpu_ms,
        file: limits.output,
        processes: PROCESSES_MAX,
        scratch: limits.memory / SCRATCH_SHARE,
        inodes: INODES_MAX,
    }
}

async fn start(launcher: &mut Launcher, launch: &Launch, document: &OwnedFd) -> io::Result<Running> {
    let (ours, status) = sockets()?;
    let (output, to_output) = pipe()?;
    let (complaints, to_complaints) = pipe()?;
    let ends = Ends { status: Control::new(ours)?, output, complaints };
    let descriptors = [status.as_fd(), document.as_fd(), to_output.as_fd(), to_complaints.as_fd()];
    let pidfd = launcher.launch(launch, &descriptors).await?;
    Running::new(pidfd, ends, launcher.namespaces)
}

/// Hears the last of the output, where it is still wanted.
fn finish(running: &mut Running, talk: &mut Talk<'_>) -> Option<String> {
    if running.intent.is_some() || running.stopped {
        return None;
    }
    match talk.output.finish(talk.receiver) {
        Ok(broken) => broken,
        Err(Halt::Stopped) => {
            running.stopped = true;
            None
        }
        Err(Halt::Bytes(bytes)) => {
            running.intent = Some(crate::rules::classify::Intent::OutputBytes(bytes));
            None
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "each is one source of evidence about the same end")]
fn seen(
    launcher: &Launcher,
    running: &mut Running,
    gone: &Gone,
    talk: Talk<'_>,
    broken: Option<String>,
    call: &Call<'_>,
    before: &Before,
    started: Instant,
) -> Seen {
    let (cage, wait) = how(running, gone);
    let (cpu_ms, peak_rss_kib) = match gone {
        Gone::Reaped(reaped) => (reaped.cpu_ms, reaped.peak_rss_kib),
        Gone::Unkillable => (0, 0),
    };
    let death = Death {
        wait,
        intent: running.intent.take(),
        cpu_ms: cpu_ms.max(running.cpu_ms),
        // Of the largest of its processes.
        peak_rss_kib,
        wall_ms: millis(started.elapsed()),
        document_bytes: call.launch.size,
        limits: call.limits,
        recording: Recording::default(),
        stream: Stream::default(),
        cgroup: before.counted(launcher),
        machine_kills: match launcher.leaf {
            Some(_) => 0,
            None => machine::oom_kills().saturating_sub(before.machine_kills),
        },
        zygote_lived: true,
        source_changed: false,
        code: Code::default(),
    };
    let held = |name: &&String| !call.launch.jit || *name != WRITE_EXECUTE;
    Seen {
        death,
        cage,
        output: talk.output.bytes,
        text_bytes: talk.output.text_bytes,
        broken,
        complaints: talk.complaints.text(),
        stopped: running.stopped,
        layers: launcher.layers.iter().filter(held).cloned().collect(),
    }
}

/// Whether there was a cage, and how the command itself ended.
fn how(running: &Running, gone: &Gone) -> (Stand, Wait) {
    let killed = Wait::Killed { signal: libc::SIGKILL, core: false };
    match (&running.report, gone) {
        (_, Gone::Unkillable) => (Stand::Stood, Wait::Unkillable),
        (Some(Report::NotStarted { step, errno }), _) => {
            (Stand::Failed { step: step.clone(), errno: *errno }, killed)
        }
        (Some(Report::Ended { status, killed: true, core }), _) => {
            (Stand::Stood, Wait::Killed { signal: *status, core: *core })
        }
        (Some(Report::Ended { status, .. }), _) => (Stand::Stood, Wait::Exited(*status)),
        (Some(Report::Started) | None, _) if running.intent.is_some() || running.stopped => {
            (Stand::Stood, killed)
        }
        (Some(Report::Started) | None, _) => (Stand::Lost, killed),
    }
}

fn ending(seen: Seen, job: &CommandJob) -> Ending {
    let Seen { death, cage, output, text_bytes, broken, complaints, stopped, layers } = seen;
    let usage = Usage { wall_ms: death.wall_ms, cpu_ms: death.cpu_ms, peak_rss_kib: death.peak_rss_kib };
    let engine = engine(job.program.version());
    let good = Evidence { layers, engine: Some(engine.clone()), ..Evidence::default() };
    if stopped {
        return Ending { outcome: Outcome::Stopped, usage, evidence: good };
    }
    let program = job.program.name().to_owned();
    let end = CommandDeath { death, cage, program, stage: job.stage, output, broken, complaints };
    match classify(&end) {
        None => {
            let (refusal, parts) = (None, None);
            let end = End { format: job.format, refusal, parts, engine, text_bytes, members: 0 };
            Ending { outcome: Outcome::Ended(end), usage, evidence: good }
        }
        Some(mut fault) => {
            fault.evidence.layers = good.layers;
            fault.evidence.engine = good.engine;
            let evidence = fault.evidence.clone();
            Ending { outcome: Outcome::Failed(*fault), usage, evidence }
        }
    }
}

fn engine(version: &str) -> String {
    let mut engine = version.to_owned();
    engine.truncate(engine.floor_char_boundary(ENGINE_MAX));
    engine
}

fn unavailable(none: &NoLauncher) -> Fault {
    match none {
        NoLauncher::Unfit(why) => Fault::new(Stage::Extract, Kind::ExtractorUnavailable, why.clone()),
        NoLauncher::Broken { source, .. } => {
            let mut fault = lost("infra.setup", source);
            fault.message = none.words();
            fault
        }
    }
}
