//! How an external command's end becomes a verdict.
//!
//! The same evidence in the same order as for our own children, but for three things. There are no frames and no
//! recorder: an exit status and bytes are all it says. Any signal that it dies of it may have sent itself, so none is
//! taken for somebody else's doing: a command cannot make itself transient. And what a child of it was killed for
//! counts for all of them.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{Death, Wait, by_intent, crash, found, intent_name, lost, out_of_memory, over, spun};
use crate::rules::fault::{Evidence, Fault};
use crate::rules::kind::{Kind, Stage};
use sha2::{Digest, Sha256};

/// The end of the complaints that is kept in a message, in bytes.
pub const COMPLAINTS_MAX: usize = 4 << 10;

/// What a command's cage had to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cage {
    /// The command ran in it.
    Stood,
    /// It could not be put up; nothing was run.
    Failed { step: String, errno: i32 },
    /// It ended before the command did, and nobody here ended it.
    Lost,
}

/// All that is known of one command's end.
#[derive(Debug, Clone)]
pub struct CommandDeath {
    /// Its end, as of any child. Of a command that was killed with its cage: SIGKILL.
    pub death: Death,
    pub cage: Cage,
    /// The program's file name.
    pub program: String,
    pub stage: Stage,
    /// Bytes of output.
    pub output: u64,
    /// What is wrong with the output as a whole, where something is.
    pub broken: Option<String>,
    /// The end of what it said on standard error.
    pub complaints: String,
}

/// Decides: `None` where it did its work.
pub fn classify(end: &CommandDeath) -> Option<Box<Fault>> {
    let mut fault = decide(end)?;
    fault.stage = end.stage;
    complete(&mut fault, end);
    Some(Box::new(fault))
}

fn decide(end: &CommandDeath) -> Option<Fault> {
    let death = &end.death;
    let fault = match &end.cage {
        Cage::Failed { step, errno } => {
            let mut fault = lost("setup.command", format!("the step {step} of the cage's setup failed"));
            fault.evidence.errno = (*errno != 0).then(|| super::errno_name(*errno));
            fault
        }
        _ if death.wait == Wait::Unkillable => {
            let why = death.intent.as_ref().map_or("its end", intent_name);
            found(Kind::TimeUnkillable, format!("it was killed for {why} and does not end"))
        }
        _ => match (by_intent(death, death.wait), out_of_memory_of_all(death)) {
            (Some(fault), _) | (None, Some(fault)) => fault,
            (None, None) if end.cage == Cage::Lost => {
                lost("infra.command_lost", "the first process of its cage died")
            }
            (None, None) => return own_end(end),
        },
    };
    Some(fault)
}

/// Whichever of its processes the kernel chose: what the others say without it is not the whole.
fn out_of_memory_of_all(death: &Death) -> Option<Fault> {
    death.cgroup.filter(|cgroup| cgroup.killed > 0).map(|cgroup| out_of_memory(death, cgroup))
}

fn own_end(end: &CommandDeath) -> Option<Fault> {
    match end.death.wait {
        Wait::Exited(0) => match &end.broken {
            Some(broken) => Some(found(Kind::ExtractorFailed, broken.clone())),
            None if end.output == 0 => Some(failed(end, "it ended well and said nothing")),
            None => None,
        },
        Wait::Exited(status) if starved(&end.death) => Some(exhausted(end, &format!("exit status {status}"))),
        Wait::Exited(status) => Some(failed(end, &format!("exit status {status}"))),
        Wait::Killed { signal, .. } => Some(killed(&end.death, signal)),
        Wait::Unkillable => Some(found(Kind::TimeUnkillable, "it does not end")),
    }
}

/// Where nothing but the kernel's limit on each process stopped it, it only says that there was none left.
fn starved(death: &Death) -> bool {
    death.peak_rss_kib.saturating_mul(1024) >= death.limits.memory
}

fn exhausted(end: &CommandDeath, what: &str) -> Fault {
    let death = &end.death;
    let measured = Some(death.peak_rss_kib.saturating_mul(1024));
    let message = format!("{what}, while all of its memory was in use");
    let mut fault = over(Kind::MemoryLimit, "mem.native", message, "memory", death.limits.memory, measured);
    fault.evidence.inferred = true;
    fault
}

fn failed(end: &CommandDeath, what: &str) -> Fault {
    let complaints = end.complaints.trim();
    let message = if complaints.is_empty() { what.to_owned() } else { format!("{what}: {complaints}") };
    found(Kind::ExtractorFailed, message)
}

fn killed(death: &Death, signal: i32) -> Fault {
    let limit = death.limits.cpu_ms;
    match signal {
        libc::SIGXCPU => {
            let message = format!("{} ms of processor time", death.cpu_ms);
            over(Kind::TimeCpu, "time.cpu_soft", message, "cpu_ms", limit, Some(death.cpu_ms))
        }
        libc::SIGXFSZ => {
            let message = format!("it wrote a file of more than {} bytes", death.limits.output);
            over(Kind::OutputLimit, "out.file", message, "output", death.limits.output, None)
        }
        libc::SIGKILL if spun(death) => {
            let message = format!("{} ms of processor time, to the kernel's hard limit", death.cpu_ms);
            over(Kind::TimeCpu, "time.cpu_hard", message, "cpu_ms", limit, Some(death.cpu_ms))
        }
        libc::SIGKILL if death.cgroup.is_none() && death.machine_kills > 0 => {
            let mut fault =
                found(Kind::MemoryPressure, "the machine ran out of memory, and the kernel killed");
            fault.evidence.detail = Some("mem.global_oom".to_owned());
            fault.evidence.counter = Some(format!("vmstat oom_kill +{}", death.machine_kills));
            fault.evidence.inferred = true;
            fault
        }
        // Our filter kills for nothing else.
        libc::SIGSYS => {
            let mut fault = found(Kind::ViolationArch, "a system call of another architecture");
            fault.evidence.inferred = true;
            fault
        }
        _ => crash::crash(death, signal),
    }
}

/// The limit on processor time, met by all processes together.
pub(super) fn processor(death: &Death, measured: u64) -> Fault {
    let limit = death.limits.cpu_ms;
    let message = format!("{measured} ms of processor time, all its processes together");
    over(Kind::TimeCpu, "time.cpu_tree", message, "cpu_ms", limit, Some(measured))
}

/// The limit on memory, met by all processes together.
pub(super) fn memory(death: &Death, measured: u64) -> Fault {
    let limit = death.limits.memory;
    let message = format!("{measured} bytes of memory, all its processes together");
    over(Kind::MemoryLimit, "mem.tree", message, "memory", limit, Some(measured))
}

/// More processes than a command may have, where the kernel does not count them.
pub(super) fn processes(count: u64) -> Fault {
    let mut fault = found(Kind::ExtractorFailed, format!("{count} processes at a time"));
    fault.evidence.detail = Some("processes".to_owned());
    fault
}

fn complete(fault: &mut Fault, end: &CommandDeath) {
    let evidence: &mut Evidence = &mut fault.evidence;
    let signal = match (&end.cage, end.death.wait) {
        (Cage::Stood, Wait::Exited(status)) => {
            evidence.exit_code = Some(status);
            None
        }
        (_, Wait::Killed { signal, .. }) => Some(crash::signal_name(signal)),
        _ => None,
    };
    evidence.killed_for = end.death.intent.as_ref().map(|intent| intent_name(intent).to_owned());
    if crash::has_fingerprint(fault.kind) {
        evidence.fingerprint = Some(fingerprint(&end.program, signal.as_deref(), end.stage));
    }
    evidence.signal = signal;
}

/// Of a program that is not ours nothing else is the same from one crash to the next.
fn fingerprint(program: &str, signal: Option<&str>, stage: Stage) -> String {
    let mut hash = Sha256::new();
    for part in [program, signal.unwrap_or_default(), stage.name()] {
        hash.update(part);
        hash.update([0]);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::death;
    use super::*;
    use crate::rules::classify::{Counted, Intent};
    use crate::rules::kind::Class;

    fn end(wait: Wait) -> CommandDeath {
        CommandDeath {
            death: death(wait),
            cage: Cage::Stood,
            program: "pdftotext".to_owned(),
            stage: Stage::Extract,
            output: 100,
            broken: None,
            complaints: "Traceback\nMemoryError\n".to_owned(),
        }
    }

    fn killed_by(signal: i32) -> CommandDeath {
        end(Wait::Killed { signal, core: false })
    }

    fn with(mut end: CommandDeath, change: impl FnOnce(&mut CommandDeath)) -> CommandDeath {
        change(&mut end);
        end
    }

    #[test]
    fn each_end_has_its_name() {
        let intent = |intent: Intent| with(killed_by(9), |end| end.death.intent = Some(intent));
        let oom = |killed, limited| Some(Counted { killed, limited });
        let rows = [
            (end(Wait::Exited(0)), "ended", None),
            (with(end(Wait::Exited(0)), |end| end.output = 0), "extractor.failed", None),
            (
                with(end(Wait::Exited(0)), |end| end.broken = Some("no JSON".to_owned())),
                "extractor.failed",
                None,
            ),
            (end(Wait::Exited(3)), "extractor.failed", None),
            (
                with(end(Wait::Exited(1)), |end| end.death.peak_rss_kib = 64 << 10),
                "memory.limit",
                Some("mem.native"),
            ),
            (with(end(Wait::Exited(0)), |end| end.death.peak_rss_kib = 64 << 10), "ended", None),
            (
                with(end(Wait::Exited(0)), |end| end.death.cgroup = oom(1, 9)),
                "memory.limit",
                Some("mem.cgroup_oom"),
            ),
            (
                with(end(Wait::Exited(1)), |end| end.death.cgroup = oom(1, 0)),
                "memory.pressure",
                Some("mem.global_oom"),
            ),
            (killed_by(11), "crash.segv", None),
            (killed_by(7), "crash.bus", None),
            (killed_by(4), "crash.ill", None),
            (killed_by(8), "crash.fpe", None),
            (killed_by(6), "crash.abort", None),
            (
                with(killed_by(6), |end| end.death.peak_rss_kib = 128 << 10),
                "memory.limit",
                Some("mem.native"),
            ),
            (killed_by(15), "crash.signal", None),
            (killed_by(9), "crash.signal", None),
            (with(killed_by(9), |end| end.death.cpu_ms = 1_990), "time.cpu", Some("time.cpu_hard")),
            (
                with(killed_by(9), |end| (end.death.cgroup, end.death.machine_kills) = (None, 1)),
                "memory.pressure",
                Some("mem.global_oom"),
            ),
            (killed_by(24), "time.cpu", Some("time.cpu_soft")),
            (killed_by(25), "output.limit", Some("out.file")),
            (killed_by(31), "violation.arch", None),
            (intent(Intent::Wall), "time.wall", Some("time.wall_slow")),
            (with(intent(Intent::Wall), |end| end.death.cpu_ms = 90), "time.cpu", Some("time.wall_spin")),
            (intent(Intent::Stalled { busy_ms: 0 }), "time.stalled", Some("time.wall_blocked")),
            (intent(Intent::OutputBytes(2 << 20)), "output.limit", Some("out.bytes")),
            (intent(Intent::Processor(1200)), "time.cpu", Some("time.cpu_tree")),
            (intent(Intent::Memory(65 << 20)), "memory.limit", Some("mem.tree")),
            (intent(Intent::Processes(65)), "extractor.failed", Some("processes")),
            (with(end(Wait::Exited(0)), |end| end.death.intent = Some(Intent::Wall)), "ended", None),
            (with(killed_by(9), |end| end.cage = Cage::Lost), "worker.lost", Some("infra.command_lost")),
            (
                with(end(Wait::Exited(0)), |end| {
                    end.cage = Cage::Failed { step: "exec /x".to_owned(), errno: 13 };
                }),
                "worker.lost",
                Some("setup.command"),
            ),
            (with(intent(Intent::Wall), |end| end.death.wait = Wait::Unkillable), "time.unkillable", None),
        ];
        for (end, kind, detail) in rows {
            let fault = classify(&end);
            let got = fault.as_ref().map_or("ended", |fault| fault.kind.name());
            let got_detail = fault.as_ref().and_then(|fault| fault.evidence.detail.as_deref());
            assert_eq!((got, got_detail), (kind, detail), "{end:?}");
        }
    }

    #[test]
    fn no_signal_that_it_can_send_itself_makes_it_transient() {
        for signal in 1..=31 {
            let fault = classify(&killed_by(signal)).unwrap();
            assert_eq!(fault.class, Some(Class::Permanent), "{signal}");
        }
    }

    #[test]
    fn a_failure_keeps_exit_status_and_complaints_and_a_crash_its_fingerprint() {
        let fault = classify(&end(Wait::Exited(3))).unwrap();
        assert_eq!(fault.message, "exit status 3: Traceback\nMemoryError");
        assert_eq!((fault.evidence.exit_code, fault.evidence.fingerprint.as_deref()), (Some(3), None));
        let of = |end: &CommandDeath| classify(end).unwrap().evidence.fingerprint.unwrap();
        let one = of(&killed_by(11));
        assert_eq!(of(&with(killed_by(11), |end| end.death.cpu_ms = 7)), one);
        assert_ne!(of(&killed_by(6)), one);
        assert_ne!(of(&with(killed_by(11), |end| end.program = "tesseract".to_owned())), one);
        let recognised = with(killed_by(11), |end| end.stage = Stage::Recognise);
        assert_ne!(of(&recognised), one);
        assert_eq!(classify(&recognised).unwrap().stage, Stage::Recognise);
    }
}
