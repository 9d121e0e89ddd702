//! How a child's death becomes a verdict: one pure, total function over the evidence.
//!
//! Evidence is asked in this order: was the cage put up, why did the supervisor kill it, what does the signal say, was it
//! memory, was it time, and only then somebody from outside. What the child itself wrote into its recorder chooses
//! between names inside the permanent class and can do no more: no child can make itself transient, excluded or clean.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod command;
mod crash;
mod fingerprint;
pub mod syscalls;

#[cfg(test)]
mod tests;

use super::fault::{Evidence, Fault, Limit};
use super::kind::{Kind, Stage};
use shared::recorder::{EXIT_PANIC, EXIT_SETUP, EXIT_TRAPPED, Recording, Step};
use shared::{End, Layers, Limits};

/// Of [`shared::Limits`] what concerns one child. Bytes and milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobLimits {
    pub wall_ms: u64,
    pub stalled_ms: u64,
    pub cpu_ms: u64,
    pub memory: u64,
    /// Bytes of text and metadata; also bounds the number of frames.
    pub output: u64,
}

impl From<&Limits> for JobLimits {
    fn from(limits: &Limits) -> Self {
        JobLimits {
            wall_ms: limits.wall_ms,
            stalled_ms: limits.stalled_ms,
            cpu_ms: limits.cpu_ms,
            memory: limits.memory,
            output: limits.output,
        }
    }
}

/// How the kernel says that a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    Exited(i32),
    Killed {
        signal: i32,
        core: bool,
    },
    /// It was killed and did not end within the grace.
    Unkillable,
}

/// Why the supervisor decided to kill, recorded before it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// The deadline has passed.
    Wall,
    /// No whole frame for too long, while it was at work for no more than this.
    Stalled { busy_ms: u64 },
    /// That many bytes of text and metadata, or more.
    OutputBytes(u64),
    /// That many frames with next to nothing in them.
    OutputFrames(u64),
    /// A rule of the protocol is broken.
    Protocol(&'static str),
    /// The kernel reported a forbidden system call.
    Call(Call),
    /// The child's own account of its cage lacks a layer that the settings require.
    LayersMissing(Layers),
    /// A command and its children have used this many milliseconds of processor time together.
    Processor(u64),
    /// They have used this many bytes of memory together.
    Memory(u64),
    /// There are more of them than the limit.
    Processes(u64),
    /// Its zygote died, and all that it made are dying with it.
    ZygoteLost,
}

/// A forbidden system call, as the kernel reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    pub number: i32,
    pub arch: u32,
    pub first_argument: u64,
}

/// What came through the pipe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stream {
    /// The first frame came: the cage was shut, and the parser ran.
    pub locked: bool,
    /// The last frame came.
    pub ended: Option<End>,
    /// What is wrong with it as a whole, where something is.
    pub broken: Option<&'static str>,
}

/// What the child's memory cgroup counted while it ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Processes killed in it for want of memory.
    pub killed: u64,
    /// How often its own limit was met.
    pub limited: u64,
}

/// Where the worker's code lies in memory: addresses mean nothing from one zygote to the next, offsets do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Code {
    pub base: u64,
    pub size: u64,
}

/// All that is known of one child's end.
#[derive(Debug, Clone)]
pub struct Death {
    pub wait: Wait,
    pub intent: Option<Intent>,
    pub cpu_ms: u64,
    pub peak_rss_kib: u64,
    pub wall_ms: u64,
    /// Bytes of the document, which the child has mapped.
    pub document_bytes: u64,
    pub limits: JobLimits,
    pub recording: Recording,
    pub stream: Stream,
    /// `None` without a cgroup.
    pub cgroup: Option<Counted>,
    /// Processes that the kernel killed on the whole machine for want of memory while it ran.
    pub machine_kills: u64,
    /// Whether its zygote was alive after its death.
    pub zygote_lived: bool,
    /// The document's file is not what it was when it was handed over.
    pub source_changed: bool,
    pub code: Code,
}

/// What came of a child.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It said all it had to say and ended well.
    Ended(End),
    Fault(Box<Fault>),
}

/// Decides.
pub fn classify(death: &Death) -> Verdict {
    let fault = match &death.wait {
        Wait::Unkillable => killed_for(death, Kind::TimeUnkillable)
            .unwrap_or_else(|| found(Kind::TimeUnkillable, "it was killed and does not end")),
        wait => match by_intent(death, *wait) {
            Some(fault) => fault,
            None => match wait {
                Wait::Exited(0) if death.stream.broken.is_none() => match &death.stream.ended {
                    Some(end) => return Verdict::Ended(end.clone()),
                    None => protocol("no_end"),
                },
                Wait::Exited(status) => exited(death, *status),
                Wait::Killed { signal, .. } => killed(death, *signal),
                Wait::Unkillable => unreachable!("matched above"),
            },
        },
    };
    Verdict::Fault(Box::new(complete(fault, death)))
}

/// What the supervisor killed it for. Time is let go where the child was quicker and ended by itself: then its own end
/// is the truth.
fn by_intent(death: &Death, wait: Wait) -> Option<Fault> {
    let by_us = matches!(wait, Wait::Killed { signal: libc::SIGKILL, .. });
    match death.intent.as_ref()? {
        Intent::Wall if by_us => Some(wall(death)),
        Intent::Stalled { busy_ms } if by_us => Some(stalled(death, *busy_ms)),
        Intent::ZygoteLost if by_us => Some(zygote_lost(death)),
        Intent::Wall | Intent::Stalled { .. } | Intent::ZygoteLost => None,
        Intent::OutputBytes(measured) => {
            let message = format!("more than {} bytes of text and metadata", death.limits.output);
            Some(over(
                Kind::OutputLimit,
                "out.bytes",
                message,
                "output",
                death.limits.output,
                Some(*measured),
            ))
        }
        Intent::OutputFrames(measured) => {
            let message = format!("{measured} frames with next to nothing in them");
            Some(over(Kind::OutputLimit, "out.frames", message, "output", death.limits.output, None))
        }
        Intent::Protocol(rule) => Some(protocol(rule)),
        Intent::Call(call) => Some(violation(call.number, call.arch, Some(call.first_argument))),
        Intent::LayersMissing(missing) => {
            let names: Vec<_> = missing.iter().map(shared::Layer::name).collect();
            Some(lost("setup.layers", format!("the cage lacks {}", names.join(", "))))
        }
        Intent::Processor(measured) => Some(command::processor(death, *measured)),
        Intent::Memory(measured) => Some(command::memory(death, *measured)),
        Intent::Processes(count) => Some(command::processes(*count)),
    }
}

/// The same for a child that did not even die of it.
fn killed_for(death: &Death, kind: Kind) -> Option<Fault> {
    let why = intent_name(death.intent.as_ref()?);
    let mut fault = found(kind, format!("it was killed for {why} and does not end"));
    fault.evidence.detail = Some("time.unkillable".to_owned());
    Some(fault)
}

fn exited(death: &Death, status: i32) -> Fault {
    let recording = &death.recording;
    if !death.stream.locked && status != 0 {
        // Nothing of the document has been looked at yet.
        return setup(recording, status);
    }
    match status {
        EXIT_PANIC => crash::panic(recording),
        EXIT_TRAPPED => match &recording.crash {
            Some(crash) => {
                let number = crash::clamp(crash.syscall);
                violation(number, u32::try_from(crash.arch).unwrap_or(0), None)
            }
            None => found(Kind::ViolationSyscall, "a system call that is not allowed"),
        },
        0 => protocol(death.stream.broken.unwrap_or("no_end")),
        _ => protocol("exit_status"),
    }
}

fn setup(recording: &Recording, status: i32) -> Fault {
    match recording.setup {
        Some((step, errno)) if status == EXIT_SETUP => {
            let name = Step::of(step).map_or("unknown", Step::name);
            let mut fault =
                lost(&format!("setup.{name}"), format!("the step {name} of the cage's setup failed"));
            fault.evidence.errno = Some(errno_name(errno));
            fault
        }
        _ => lost("setup.exit", format!("the child exited with {status} before its cage was shut")),
    }
}

fn killed(death: &Death, signal: i32) -> Fault {
    let oom = death.cgroup.filter(|cgroup| cgroup.killed > 0);
    match signal {
        libc::SIGKILL => match oom {
            Some(cgroup) => out_of_memory(death, cgroup),
            None => killed_nine(death),
        },
        _ if !death.stream.locked => {
            let name = crash::signal_name(signal);
            lost("setup.signal", format!("{name} before the cage was shut"))
        }
        libc::SIGXCPU => {
            let message = format!("{} ms of processor time", death.cpu_ms);
            let limit = death.limits.cpu_ms;
            over(Kind::TimeCpu, "time.cpu_soft", message, "cpu_ms", limit, Some(death.cpu_ms))
        }
        libc::SIGXFSZ => found(Kind::OutputLimit, "it wrote to a file"),
        // Nothing in a child can send these: the filter lets it signal nobody but itself, and only SIGABRT.
        libc::SIGTERM | libc::SIGHUP | libc::SIGINT | libc::SIGQUIT => {
            let name = crash::signal_name(signal);
            lost("infra.external_kill", format!("{name} from outside"))
        }
        libc::SIGBUS if death.source_changed => {
            let mut fault = found(Kind::SourceChanged, "the file shrank while its parser read it");
            fault.stage = Stage::Fetch;
            fault
        }
        libc::SIGSYS => trapped(&death.recording),
        _ => crash::crash(death, signal),
    }
}

/// SIGKILL that nobody here sent, and no kill in its cgroup.
fn killed_nine(death: &Death) -> Fault {
    if spun(death) {
        let message = format!("{} ms of processor time, to the kernel's hard limit", death.cpu_ms);
        let limit = death.limits.cpu_ms;
        return over(Kind::TimeCpu, "time.cpu_hard", message, "cpu_ms", limit, Some(death.cpu_ms));
    }
    if !death.zygote_lived {
        return zygote_lost(death);
    }
    if death.cgroup.is_none() && death.machine_kills > 0 {
        let mut fault = found(Kind::MemoryPressure, "the machine ran out of memory, and the kernel killed");
        fault.evidence.detail = Some("mem.global_oom".to_owned());
        fault.evidence.counter = Some(format!("vmstat oom_kill +{}", death.machine_kills));
        fault.evidence.inferred = true;
        return fault;
    }
    lost("infra.external_kill", "SIGKILL from outside")
}

/// The hard limit lies a second above the soft one, which lies at whole seconds; the kernel counts a tenth askew.
fn spun(death: &Death) -> bool {
    let hard = (death.limits.cpu_ms.div_ceil(1000) + 1) * 1000;
    death.cpu_ms.saturating_mul(10) >= hard.saturating_mul(9)
}

fn out_of_memory(death: &Death, cgroup: Counted) -> Fault {
    let mut fault = if cgroup.limited > 0 {
        let message = "the kernel killed it at its cgroup's limit";
        let measured = death.peak_rss_kib.saturating_mul(1024);
        over(Kind::MemoryLimit, "mem.cgroup_oom", message, "memory", death.limits.memory, Some(measured))
    } else {
        let mut fault = found(Kind::MemoryPressure, "the kernel killed it, and its own limit was not met");
        fault.evidence.detail = Some("mem.global_oom".to_owned());
        fault
    };
    fault.evidence.counter = Some(format!("oom_kill +{}, limit met {} times", cgroup.killed, cgroup.limited));
    fault
}

fn zygote_lost(death: &Death) -> Fault {
    match death.cgroup {
        // The kernel chose the zygote instead of the child that had eaten the memory.
        Some(cgroup) if cgroup.killed > 0 && cgroup.limited > 0 => out_of_memory(death, cgroup),
        _ => lost("infra.zygote_lost", "its zygote died"),
    }
}

/// The deadline: a spin where nearly all of it was processor time, slow progress otherwise.
fn wall(death: &Death) -> Fault {
    let limit = death.limits.wall_ms;
    let message = format!("not done after {} ms", death.wall_ms);
    if death.cpu_ms.saturating_mul(10) >= death.wall_ms.saturating_mul(8) {
        over(Kind::TimeCpu, "time.wall_spin", message, "wall_ms", limit, Some(death.wall_ms))
    } else {
        over(Kind::TimeWall, "time.wall_slow", message, "wall_ms", limit, Some(death.wall_ms))
    }
}

fn stalled(death: &Death, busy_ms: u64) -> Fault {
    let limit = death.limits.stalled_ms;
    let message = format!("no whole frame for {limit} ms, and at work for {busy_ms} ms of them");
    over(Kind::TimeStalled, "time.wall_blocked", message, "stalled_ms", limit, None)
}

/// SIGSYS: the handler did not get to its exit, so what it noted may be missing.
fn trapped(recording: &Recording) -> Fault {
    match recording.crash.as_ref().filter(|crash| crash.arch != 0) {
        Some(crash) => violation(crash::clamp(crash.syscall), u32::try_from(crash.arch).unwrap_or(0), None),
        None => {
            let mut fault = found(Kind::ViolationSyscall, "a system call that is not allowed");
            fault.evidence.inferred = true;
            fault
        }
    }
}

fn violation(number: i32, arch: u32, first: Option<u64>) -> Fault {
    let foreign = syscalls::is_foreign(number, arch);
    let name = syscalls::name(number, arch);
    let kind = if foreign { Kind::ViolationArch } else { Kind::ViolationSyscall };
    let mut fault = found(kind, format!("the system call {name} is not allowed"));
    fault.hostile = syscalls::is_hostile(number, arch, first);
    fault.evidence.syscall = Some(name);
    fault
}

fn protocol(rule: &'static str) -> Fault {
    /// What only someone who writes to the pipe himself can do.
    const FORGERIES: &[&str] =
        &["magic", "nonce", "frame_kind", "length", "locked_first", "locked_twice", "after_end"];
    let mut fault = found(Kind::ViolationProtocol, format!("the answer breaks the rule {rule}"));
    fault.hostile = FORGERIES.contains(&rule);
    fault.evidence.protocol = Some(rule.to_owned());
    fault
}

fn found(kind: Kind, message: impl Into<String>) -> Fault {
    Fault::new(Stage::Extract, kind, message)
}

fn lost(detail: &str, message: impl Into<String>) -> Fault {
    let mut fault = found(Kind::WorkerLost, message);
    fault.evidence.detail = Some(detail.to_owned());
    fault
}

fn over(
    kind: Kind,
    detail: &str,
    message: impl Into<String>,
    name: &str,
    value: u64,
    measured: Option<u64>,
) -> Fault {
    let mut fault = found(kind, message);
    fault.evidence.detail = Some(detail.to_owned());
    fault.evidence.limit = Some(Limit { name: name.to_owned(), value, measured });
    fault
}

fn intent_name(intent: &Intent) -> &'static str {
    match intent {
        Intent::Wall => "the deadline",
        Intent::Stalled { .. } => "a stall",
        Intent::OutputBytes(_) | Intent::OutputFrames(_) => "too much output",
        Intent::Protocol(_) => "a violation of the protocol",
        Intent::Call(_) => "a forbidden system call",
        Intent::LayersMissing(_) => "a missing layer",
        Intent::Processor(_) => "too much processor time",
        Intent::Memory(_) => "too much memory",
        Intent::Processes(_) => "too many processes",
        Intent::ZygoteLost => "its zygote's death",
    }
}

fn errno_name(errno: i32) -> String {
    format!("{:?}", nix::errno::Errno::from_raw(errno))
}

/// Adds what is evidence of every death.
fn complete(mut fault: Fault, death: &Death) -> Fault {
    let evidence: &mut Evidence = &mut fault.evidence;
    match death.wait {
        Wait::Exited(status) => evidence.exit_code = Some(status),
        Wait::Killed { signal, .. } => evidence.signal = Some(crash::signal_name(signal)),
        Wait::Unkillable => {}
    }
    evidence.killed_for = death.intent.as_ref().map(|intent| intent_name(intent).to_owned());
    if evidence.allocation.is_none() {
        evidence.allocation = death.recording.alloc_failed.map(|failed| failed.bytes);
    }
    if crash::has_fingerprint(fault.kind) {
        let (frames, fingerprint) = fingerprint::of(&fault, death);
        fault.evidence.frames = frames;
        fault.evidence.fingerprint = Some(fingerprint);
    }
    fault
}
