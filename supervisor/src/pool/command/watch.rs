//! One running command: the pidfd of its cage's first process, its two pipes, what that process reports, and the clocks,
//! in one loop until nothing of it is left.
//!
//! The end is told by that pidfd alone: the kernel kills and buries all that is in a process namespace before it says
//! that its first process has ended. Where there is no such namespace the first process does that itself. Why it is
//! killed is recorded before it is killed.

use super::super::control::Control;
use super::super::process::{Process, readable};
use super::super::{JobLimits, Receiver, machine};
use super::launcher::Launcher;
use super::output::{Complaints, Halt, Output};
use super::tree::{self, Tree};
use crate::rules::classify::Intent;
use crate::rules::classify::command::COMPLAINTS_MAX;
use crate::sys::{self, Reaped};
use nix::errno::Errno;
use shared::launch::Report;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How long a killed command may take to end, with all its descendants.
const GRACE: Duration = Duration::from_secs(5);
/// How often what all processes use together is looked at.
const LOOK: Duration = Duration::from_millis(25);
/// How much is read in one go after the end, at most, beyond what the limit on output stops anyway.
const DRAIN_MAX: usize = 4 << 20;

/// A running command. Killed and buried when dropped before it was reaped.
#[derive(Debug)]
pub(super) struct Running {
    /// The first process of its cage.
    process: Process,
    /// Closing it is the order to end.
    status: Option<Control>,
    output: Option<AsyncFd<OwnedFd>>,
    complaints: Option<AsyncFd<OwnedFd>>,
    /// Its first process's end is the end of all.
    namespaces: bool,
    pub(super) intent: Option<Intent>,
    pub(super) stopped: bool,
    pub(super) report: Option<Report>,
    /// The most processor time that was seen.
    pub(super) cpu_ms: u64,
}

/// Our ends of what a command is connected with.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) status: Control,
    pub(super) output: OwnedFd,
    pub(super) complaints: OwnedFd,
}

/// How the loop ended.
#[derive(Debug)]
pub(super) enum Gone {
    Reaped(Reaped),
    /// It was killed and does not end.
    Unkillable,
}

/// Where what it says goes.
pub(super) struct Talk<'a> {
    pub(super) output: Output,
    pub(super) complaints: Complaints,
    pub(super) receiver: &'a mut dyn Receiver,
    pub(super) buffer: Vec<u8>,
}

/// What woke the loop.
enum Woke {
    Ended,
    Output,
    Complaints,
    Report(io::Result<Report>),
    Clock,
}

impl Running {
    /// Takes over a cage that runs.
    pub(super) fn new(pidfd: OwnedFd, ends: Ends, namespaces: bool) -> io::Result<Self> {
        let pid = machine::pid_of(pidfd.as_raw_fd()).unwrap_or(-1);
        let mut running = Running {
            process: Process::new(pid, pidfd)?,
            status: Some(ends.status),
            output: None,
            complaints: None,
            namespaces,
            intent: None,
            stopped: false,
            report: None,
            cpu_ms: 0,
        };
        running.output = Some(sys::watch(ends.output).map_err(|(_pipe, error)| error)?);
        running.complaints = Some(sys::watch(ends.complaints).map_err(|(_pipe, error)| error)?);
        Ok(running)
    }

    /// Listens and watches until nothing of it is left, then takes what is left in the pipes.
    pub(super) async fn watch(
        &mut self,
        launcher: &Launcher,
        talk: &mut Talk<'_>,
        limits: JobLimits,
        processes: u64,
        started: Instant,
    ) -> io::Result<Gone> {
        let mut clocks = Clocks::new(limits, started);
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Since when it is dying, by our hand or its own.
        let mut killed: Option<Instant> = None;
        loop {
            match self.wake(&mut looks, killed.is_none()).await? {
                Woke::Ended => break,
                Woke::Output => {
                    if self.listen(talk)? {
                        clocks.output_came();
                    }
                }
                Woke::Complaints => self.hear(talk)?,
                Woke::Report(Ok(report)) => {
                    if !matches!(report, Report::Started) {
                        // From here on what is left of it is dying.
                        killed.get_or_insert_with(Instant::now);
                    }
                    self.report = Some(report);
                }
                // It has ended, or is about to.
                Woke::Report(Err(_)) => self.status = None,
                Woke::Clock if killed.is_none() => self.look(launcher, limits, processes, &mut clocks),
                Woke::Clock => {}
            }
            match killed {
                None if self.intent.is_some() || self.stopped => {
                    self.kill();
                    killed = Some(Instant::now());
                }
                Some(when) if Instant::now() >= when + GRACE => return Ok(Gone::Unkillable),
                _ => {}
            }
        }
        self.drain(talk);
        self.process.reap().map(Gone::Reaped)
    }

    /// Waits for the next thing to look at. Once it is killed only its end counts, and the grace.
    async fn wake(&mut self, looks: &mut tokio::time::Interval, alive: bool) -> io::Result<Woke> {
        let (output, complaints) = (self.output.as_ref(), self.complaints.as_ref());
        let status = self.status.as_mut();
        tokio::select! {
            ended = self.process.ended() => Ok(if ended? { Woke::Ended } else { Woke::Clock }),
            ready = readable(output), if alive && output.is_some() => { ready?; Ok(Woke::Output) }
            ready = readable(complaints), if alive && complaints.is_some() => { ready?; Ok(Woke::Complaints) }
            report = hear_report(status) => Ok(Woke::Report(report)),
            _ = looks.tick() => Ok(Woke::Clock),
        }
    }

    /// Takes what is in the pipe now, one buffer at most. Gives whether something was.
    fn listen(&mut self, talk: &mut Talk<'_>) -> io::Result<bool> {
        let length = match take(&mut self.output, &mut talk.buffer)? {
            None | Some(0) => return Ok(false),
            Some(length) => length,
        };
        let bytes = talk.buffer.get(..length).unwrap_or_default();
        let taken = talk.output.take(bytes, talk.receiver);
        self.obey(taken);
        Ok(true)
    }

    fn hear(&mut self, talk: &mut Talk<'_>) -> io::Result<()> {
        if let Some(length) = take(&mut self.complaints, &mut talk.buffer)? {
            talk.complaints.take(talk.buffer.get(..length).unwrap_or_default(), COMPLAINTS_MAX);
        }
        Ok(())
    }

    fn obey(&mut self, result: Result<(), Halt>) {
        match result {
            Ok(()) => return,
            // Too much is too much, also where it was all said by the time that it was counted.
            Err(Halt::Bytes(bytes)) => self.intent = self.intent.take().or(Some(Intent::OutputBytes(bytes))),
            Err(Halt::Stopped) => self.stopped = true,
        }
        self.output = None;
    }

    /// Looks at what all its processes use together, and at the clocks.
    fn look(&mut self, launcher: &Launcher, limits: JobLimits, processes: u64, clocks: &mut Clocks) {
        let members = launcher.leaf.as_ref().and_then(|leaf| leaf.members().ok());
        let counted = members.is_some();
        let mut pids = members.unwrap_or_else(|| tree::below(self.process.pid));
        pids.retain(|&pid| pid != launcher.process.pid);
        let tree = Tree::of(&pids);
        self.cpu_ms = self.cpu_ms.max(tree.cpu_ms);
        // The first process is ours.
        if tree.processes > processes.saturating_add(1) {
            self.intend(Intent::Processes(tree.processes - 1));
        }
        if tree.cpu_ms > limits.cpu_ms {
            self.intend(Intent::Processor(tree.cpu_ms));
        }
        // The kernel's own count is exact, where there is one.
        if !counted && tree.memory > limits.memory {
            let memory = tree::fair_memory(&pids).unwrap_or(tree.memory);
            if memory > limits.memory {
                self.intend(Intent::Memory(memory));
            }
        }
        if let Some(intent) = clocks.judge(Instant::now(), tree.busy()) {
            self.intend(intent);
        }
    }

    /// The first reason counts, and none where it has ended already.
    fn intend(&mut self, intent: Intent) {
        let ended = matches!(self.report, Some(Report::Ended { .. } | Report::NotStarted { .. }));
        if self.intent.is_none() && !self.stopped && !ended {
            self.intent = Some(intent);
        }
    }

    /// Where it is no namespace its first process kills the others, and itself: killed from here, it could kill nobody.
    fn kill(&mut self) {
        if self.namespaces {
            self.process.kill();
        } else {
            self.status = None;
        }
    }

    /// What the dead left in the pipes, which nobody fills any more, and its last report. The kernel is asked directly: the
    /// runtime may not have heard yet that there is something.
    fn drain(&mut self, talk: &mut Talk<'_>) {
        let mut drained = 0;
        while drained < DRAIN_MAX
            && let Some(pipe) = &self.output
            && let Some(length) = read_now(pipe, &mut talk.buffer)
        {
            drained += length;
            let bytes = talk.buffer.get(..length).unwrap_or_default();
            let taken = talk.output.take(bytes, talk.receiver);
            self.obey(taken);
        }
        drained = 0;
        while drained < DRAIN_MAX
            && let Some(pipe) = &self.complaints
            && let Some(length) = read_now(pipe, &mut talk.buffer)
        {
            drained += length;
            talk.complaints.take(talk.buffer.get(..length).unwrap_or_default(), COMPLAINTS_MAX);
        }
        while let Some(report) = self.status.as_mut().and_then(Control::receive_now) {
            self.report = Some(report);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        self.process.bury(None);
    }
}

async fn hear_report(status: Option<&mut Control>) -> io::Result<Report> {
    match status {
        Some(status) => status.receive().await.map(|(report, _)| report),
        None => std::future::pending().await,
    }
}

/// Reads what is there; `None` at the end and where there is nothing.
fn read_now(pipe: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> Option<usize> {
    loop {
        match nix::unistd::read(pipe.get_ref(), buffer) {
            Ok(0) => return None,
            Ok(length) => return Some(length),
            Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
}

/// Reads what there is; lets go of the pipe at its end. `None` where there is nothing now.
fn take(pipe: &mut Option<AsyncFd<OwnedFd>>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let Some(open) = pipe.as_ref() else { return Ok(None) };
    let read = open.try_io(Interest::READABLE, |fd| nix::unistd::read(fd, buffer).map_err(io::Error::from));
    match read {
        Ok(0) => {
            *pipe = None;
            Ok(Some(0))
        }
        Ok(length) => Ok(Some(length)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The clocks of one command.
struct Clocks {
    deadline: Instant,
    stalled: Duration,
    /// When output last came, or the command was last found at work.
    life: Instant,
    /// Its work at that moment.
    busy: Duration,
    latest: Duration,
}

impl Clocks {
    fn new(limits: JobLimits, started: Instant) -> Self {
        Clocks {
            deadline: started + Duration::from_millis(limits.wall_ms),
            stalled: Duration::from_millis(limits.stalled_ms),
            life: started,
            busy: Duration::ZERO,
            latest: Duration::ZERO,
        }
    }

    fn output_came(&mut self) {
        self.life = Instant::now();
        self.busy = self.latest;
    }

    /// A reason to kill, if there is one by now.
    fn judge(&mut self, now: Instant, busy: Duration) -> Option<Intent> {
        self.latest = self.latest.max(busy);
        if now >= self.deadline {
            return Some(Intent::Wall);
        }
        if now < self.life + self.stalled {
            return None;
        }
        let worked = self.latest.saturating_sub(self.busy);
        // Slow but at work, or kept from work by others: that is for the other clocks.
        if worked * 2 >= self.stalled {
            self.life = now;
            self.busy = self.latest;
            return None;
        }
        Some(Intent::Stalled { busy_ms: u64::try_from(worked.as_millis()).unwrap_or(u64::MAX) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: JobLimits =
        JobLimits { wall_ms: 10_000, stalled_ms: 1_000, cpu_ms: 1_000, memory: 1, output: 1 };

    #[test]
    fn work_is_a_sign_of_life_and_the_deadline_is_the_deadline() {
        let started = Instant::now();
        let at = |ms| started + Duration::from_millis(ms);
        let mut clocks = Clocks::new(LIMITS, started);
        assert_eq!(clocks.judge(at(999), Duration::ZERO), None);
        assert_eq!(
            clocks.judge(at(1_000), Duration::from_millis(500)),
            None,
            "it was at work for half of it"
        );
        assert_eq!(clocks.judge(at(1_999), Duration::from_millis(500)), None);
        let stalled = clocks.judge(at(2_000), Duration::from_millis(999));
        assert_eq!(stalled, Some(Intent::Stalled { busy_ms: 499 }));
        assert_eq!(clocks.judge(at(10_000), Duration::from_millis(9_000)), Some(Intent::Wall));
    }
}
