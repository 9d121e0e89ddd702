//! One running child: its pidfd, its pipe, its zygote's listener and its clocks, in one loop until it has ended.
//!
//! Why it is killed is recorded before it is killed. Its end is told by the pidfd alone: an open pipe says nothing.

use super::conversation::{Conversation, DRAIN_MAX, Halt};
use super::process::{Process, is_ready, readable};
use super::zygote::Zygote;
use super::{JobLimits, Receiver, machine};
use crate::rules::classify::{Call, Intent};
use crate::sys::{self, Reaped};
use nix::errno::Errno;
use shared::Layers;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, Sleep, sleep_until};

/// How long a killed child may take to end.
const GRACE: Duration = Duration::from_secs(5);
/// While frames come, the child's account of its work is taken this many times in one limit on stalling.
const SAMPLES: u32 = 16;

/// A child. Killed and buried when dropped before it was reaped.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) process: Process,
    pipe: Option<AsyncFd<OwnedFd>>,
    pub(super) intent: Option<Intent>,
    pub(super) stopped: bool,
}

/// What woke the loop.
enum Woke {
    Output,
    Ended,
    Reported,
    ZygoteEnded,
    Clock,
}

/// How the loop ended.
#[derive(Debug)]
pub(super) enum Gone {
    Reaped(Reaped),
    /// It was killed and does not end.
    Unkillable,
}

impl Child {
    /// Takes over a child that runs: its pidfd and the reading end of its pipe.
    pub(super) fn new(pidfd: OwnedFd, pipe: OwnedFd) -> io::Result<Self> {
        let pid = machine::pid_of(pidfd.as_raw_fd()).unwrap_or(-1);
        let process = Process::new(pid, pidfd)?;
        let mut child = Child { process, pipe: None, intent: None, stopped: false };
        child.pipe = Some(sys::watch(pipe).map_err(|(_pipe, error)| error)?);
        Ok(child)
    }

    /// Listens and watches until it has ended, then takes what is left in the pipe.
    pub(super) async fn watch(
        &mut self,
        zygote: &Zygote,
        talk: &mut Talk<'_>,
        limits: JobLimits,
        started: Instant,
    ) -> io::Result<Gone> {
        let mut clocks = Clocks::new(self.process.pid, limits, started);
        let mut timer = std::pin::pin!(sleep_until(clocks.next(None)));
        let mut killed: Option<Instant> = None;
        loop {
            match self.wake(zygote, timer.as_mut(), killed.is_none()).await? {
                Woke::Ended => break,
                Woke::Output => self.listen(talk, &mut clocks)?,
                Woke::Reported => self.hear_report(zygote),
                Woke::ZygoteEnded => self.intend(Intent::ZygoteLost),
                Woke::Clock => {}
            }
            let now = Instant::now();
            match killed {
                None => {
                    if self.intent.is_none() {
                        self.intent = clocks.judge(now);
                    }
                    if self.intent.is_some() || self.stopped {
                        self.process.kill();
                        killed = Some(now);
                    }
                }
                Some(when) if now >= when + GRACE => return Ok(Gone::Unkillable),
                Some(_) => {}
            }
            timer.as_mut().reset(clocks.next(killed));
        }
        self.drain(talk);
        self.process.reap().map(Gone::Reaped)
    }

    /// Waits for the next thing to look at. Once the child is killed only its end counts, and the grace.
    async fn wake(&self, zygote: &Zygote, timer: std::pin::Pin<&mut Sleep>, alive: bool) -> io::Result<Woke> {
        let pipe = self.pipe.as_ref().filter(|_| alive);
        tokio::select! {
            // What waits in the pipe is read before a clock is asked: the wait for it may have been ours.
            biased;
            ended = self.process.ended() => Ok(if ended? { Woke::Ended } else { Woke::Clock }),
            ready = readable(zygote.listener.as_ref()), if alive => { ready?; Ok(Woke::Reported) }
            ended = zygote.process.ended(), if alive => Ok(if ended? { Woke::ZygoteEnded } else { Woke::Clock }),
            ready = readable(pipe) => { ready?; Ok(Woke::Output) }
            () = timer => Ok(Woke::Clock),
        }
    }

    /// Takes what is in the pipe now, one buffer at most.
    fn listen(&mut self, talk: &mut Talk<'_>, clocks: &mut Clocks) -> io::Result<()> {
        let Some(pipe) = self.pipe.as_ref() else { return Ok(()) };
        let read = pipe
            .try_io(Interest::READABLE, |pipe| nix::unistd::read(pipe, talk.buffer).map_err(io::Error::from));
        match read {
            Ok(0) => self.pipe = None,
            Ok(length) => {
                let frames = talk.conversation.frames;
                let result = talk.take(length);
                if talk.conversation.frames > frames {
                    clocks.frame_came();
                }
                self.obey(result);
                self.check_layers(talk);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn obey(&mut self, result: Result<(), Halt>) {
        match result {
            Ok(()) => {}
            Err(Halt::Broken(rule)) => self.intend(Intent::Protocol(rule)),
            Err(Halt::Bytes(bytes)) => self.intend(Intent::OutputBytes(bytes)),
            Err(Halt::Frames(frames)) => self.intend(Intent::OutputFrames(frames)),
            Err(Halt::Stopped) => self.stopped = true,
        }
        if self.intent.is_some() || self.stopped {
            self.pipe = None;
        }
    }

    fn check_layers(&mut self, talk: &Talk<'_>) {
        let Some(locked) = talk.conversation.locked else { return };
        let missing: Layers =
            talk.require.iter().filter(|&layer| !talk.held.union(locked).has(layer)).collect();
        if missing != Layers::NONE {
            self.intend(Intent::LayersMissing(missing));
        }
    }

    /// A forbidden call is held by the kernel until we answer, and we answer with the child's death.
    fn hear_report(&mut self, zygote: &Zygote) {
        let Some(listener) = &zygote.listener else { return };
        let held = listener.try_io(Interest::READABLE, |listener| {
            // Its read waits where there is nothing.
            if !is_ready(listener.as_fd()) {
                return Err(ErrorKind::WouldBlock.into());
            }
            sys::held_call(listener.as_fd())
        });
        match held {
            Ok(held) if i32::try_from(held.pid) == Ok(self.process.pid) => self.intend(Intent::Call(Call {
                number: held.number,
                arch: held.arch,
                first_argument: held.arguments[0],
            })),
            // The zygote itself, or the keeper: neither is to be trusted any longer, nor what it made.
            Ok(_) => self.intend(Intent::ZygoteLost),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // It died meanwhile.
            Err(error) => tracing::debug!(%error, "a reported system call has gone"),
        }
    }

    /// The first reason counts.
    fn intend(&mut self, intent: Intent) {
        if self.intent.is_none() && !self.stopped {
            self.intent = Some(intent);
        }
    }

    /// What the dead child left in the pipe, which nobody fills any more.
    fn drain(&mut self, talk: &mut Talk<'_>) {
        let mut drained = 0;
        while drained < DRAIN_MAX {
            let Some(pipe) = &self.pipe else { return };
            match nix::unistd::read(pipe, talk.buffer) {
                Ok(0) => return,
                Ok(length) => {
                    drained += length;
                    let result = talk.take(length);
                    self.obey(result);
                    self.check_layers(talk);
                }
                Err(Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.process.kill();
        self.process.bury(None);
    }
}

/// The talk with one child: its rules, and who listens.
pub(super) struct Talk<'a> {
    pub(super) conversation: Conversation,
    pub(super) receiver: &'a mut dyn Receiver,
    pub(super) buffer: &'a mut [u8],
    /// Layers that the zygote put up, and those without which nothing is to be parsed.
    pub(super) held: Layers,
    pub(super) require: Layers,
}

impl Talk<'_> {
    fn take(&mut self, length: usize) -> Result<(), Halt> {
        let bytes = self.buffer.get(..length).unwrap_or_default();
        self.conversation.take(bytes, self.receiver)
    }
}

/// The clocks of one child.
struct Clocks {
    pid: i32,
    deadline: Instant,
    stalled: Duration,
    /// When the last whole frame came, or the child was last found at work.
    frame: Instant,
    /// When the child's work was last asked for, and its answer in ns.
    sampled: Instant,
    busy: u64,
}

impl Clocks {
    fn new(pid: i32, limits: JobLimits, started: Instant) -> Self {
        Clocks {
            pid,
            deadline: started + Duration::from_millis(limits.wall_ms),
            stalled: Duration::from_millis(limits.stalled_ms),
            frame: started,
            sampled: started,
            busy: 0,
        }
    }

    fn frame_came(&mut self) {
        self.frame = Instant::now();
        if self.frame - self.sampled > self.stalled / SAMPLES {
            self.sample();
        }
    }

    fn sample(&mut self) {
        self.sampled = Instant::now();
        self.busy = machine::busy_ns(self.pid).unwrap_or(self.busy);
    }

    /// A reason to kill, if there is one by now.
    fn judge(&mut self, now: Instant) -> Option<Intent> {
        if now >= self.deadline {
            return Some(Intent::Wall);
        }
        if now < self.frame + self.stalled {
            return None;
        }
        let before = self.busy;
        self.sample();
        let busy = Duration::from_nanos(self.busy.saturating_sub(before));
        // Slow but at work, or kept from work by others: that is for the other clocks.
        if busy * 2 >= self.stalled {
            self.frame = now;
            return None;
        }
        Some(Intent::Stalled { busy_ms: u64::try_from(busy.as_millis()).unwrap_or(u64::MAX) })
    }

    fn next(&self, killed: Option<Instant>) -> Instant {
        match killed {
            Some(when) => when + GRACE,
            None => self.deadline.min(self.frame + self.stalled),
        }
    }
}
