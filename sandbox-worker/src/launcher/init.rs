//! The first process of a command's cage: builds the root, makes the process that becomes the command, buries whatever
//! it leaves, and says how it ended.
//!
//! It is ours and nothing in the cage can touch it: as the first process of its namespace it is out of reach of every
//! signal from inside, and when it ends the kernel kills all that is left in there before it tells the supervisor. Where
//! there is no such namespace the command and all its descendants stay in one process group, which its filter does not let
//! them leave, and are killed as that; orphans come to this process, so that it knows when the last one has gone.

use super::{Way, lock, root};
use crate::jail::{Failed, namespaces};
use crate::sys::{self, Fork};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{Pid, pipe2, read, write};
use shared::frame;
use shared::launch::{Launch, Report};
use std::os::fd::{AsFd, OwnedFd};

/// The longest words of a failed step.
const WORDS_MAX: usize = 512;

/// The descriptors of a request.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) status: OwnedFd,
    pub(super) document: OwnedFd,
    pub(super) output: OwnedFd,
    pub(super) complaints: OwnedFd,
    /// The launcher's own program.
    pub(super) own: OwnedFd,
}

/// The whole process.
pub(super) fn run(way: Way, owner: root::Owner, launch: &Launch, given: Given) -> ! {
    // Whether the supervisor was quicker shows at its socket, later.
    prctl::set_pdeathsig(Signal::SIGKILL).ok();
    let Given { status, document, output, complaints, own } = given;
    let inner = lock::Inner { document, output, complaints, own };
    match start(way, owner, launch, inner) {
        Ok((main, children)) => {
            report(&status, &Report::Started);
            watch(way, main, &status, &children);
        }
        Err(Failed { step, errno }) => report(&status, &Report::NotStarted { step, errno: errno as i32 }),
    }
    sys::exit(0)
}

/// Builds the cage and has the command started in it.
fn start(
    way: Way,
    owner: root::Owner,
    launch: &Launch,
    inner: lock::Inner,
) -> Result<(Pid, SignalFd), Failed> {
    if way.has_namespaces() {
        root::build(way, owner, launch, &inner.document)?;
    } else {
        prctl::set_child_subreaper(true).map_err(Failed::at("subreaper"))?;
        sys::ignore_aborts().map_err(Failed::at("signals"))?;
    }
    let mut ends = SigSet::empty();
    ends.add(Signal::SIGCHLD);
    ends.thread_block().map_err(Failed::at("signals"))?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let children = SignalFd::with_flags(&ends, flags).map_err(Failed::at("signalfd"))?;
    let (from_main, to_us) = pipe2(OFlag::O_CLOEXEC).map_err(Failed::at("pipe"))?;
    let main = match sys::fork().map_err(Failed::at("fork"))? {
        Fork::Child => {
            let failed = lock::become_command(way, launch, inner);
            tell(&to_us, &failed);
            sys::exit(1)
        }
        Fork::Parent(pid) => Pid::from_raw(pid),
    };
    drop((to_us, inner));
    match told(&from_main) {
        None => Ok((main, children)),
        Some(failed) => Err(failed),
    }
}

/// Buries whoever ends, until the command itself has or nobody wants to know any more.
fn watch(way: Way, main: Pid, status: &OwnedFd, children: &SignalFd) {
    loop {
        if let Some(end) = bury(main) {
            if !way.has_namespaces() {
                kill_group(main);
            }
            report(status, &end);
            return;
        }
        let mut ready = [
            PollFd::new(children.as_fd(), PollFlags::POLLIN),
            PollFd::new(status.as_fd(), PollFlags::POLLIN),
        ];
        if poll(&mut ready, PollTimeout::NONE).is_err() {
            continue;
        }
        // The supervisor says nothing more: what comes from it is its end, or its word that this is to end.
        if ready[1].revents().is_some_and(|events| !events.is_empty()) {
            if !way.has_namespaces() {
                kill_group(main);
            }
            return;
        }
        while matches!(children.read_signal(), Ok(Some(_))) {}
    }
}

/// Reaps all that have ended. The command itself is only looked at: while it is there, its group's number is its own.
fn bury(main: Pid) -> Option<Report> {
    loop {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let end = match waitid(Id::All, flags) {
            Ok(WaitStatus::StillAlive) | Err(_) => return None,
            Ok(end) => end,
        };
        match end {
            WaitStatus::Exited(pid, status) if pid == main => {
                return Some(Report::Ended { status, killed: false, core: false });
            }
            WaitStatus::Signaled(pid, signal, core) if pid == main => {
                return Some(Report::Ended { status: signal as i32, killed: true, core });
            }
            end => {
                if let Some(pid) = end.pid() {
                    waitpid(pid, None).ok();
                }
            }
        }
    }
}

/// Kills the command's group and waits until nobody of it is left.
fn kill_group(main: Pid) {
    // Fails only where nobody is left in it.
    killpg(main, Signal::SIGKILL).ok();
    while waitpid(None, None) != Err(Errno::ECHILD) {}
}

/// Where the supervisor has gone, nobody hears it.
fn report(status: &OwnedFd, report: &Report) {
    sys::send(status, &frame::encode(report), None).ok();
}

/// Says on a pipe which step failed.
pub(super) fn tell(pipe: &OwnedFd, failed: &Failed) {
    let words = failed.step.as_bytes();
    let words = words.get(..WORDS_MAX).unwrap_or(words);
    let message = [&(failed.errno as i32).to_le_bytes()[..], words].concat();
    // Where nobody reads there is nobody to tell.
    write(pipe, &message).ok();
}

/// What was said on the pipe, once its last writer has gone or has become the command.
pub(super) fn told(pipe: &OwnedFd) -> Option<Failed> {
    let mut message = [0; 4 + WORDS_MAX];
    let length = read(pipe, &mut message).ok()?;
    let (errno, words) = message.get(..length)?.split_first_chunk::<4>()?;
    let step = String::from_utf8_lossy(words).into_owned();
    Some(Failed { step, errno: Errno::from_raw(i32::from_le_bytes(*errno)) })
}

/// Names this process's user in its new user namespace.
pub(super) fn name_user(owner: root::Owner) -> Result<(), Failed> {
    let root::Owner { uid, gid } = owner;
    namespaces::put("/proc/self/setgroups", "deny")?;
    namespaces::put("/proc/self/uid_map", &format!("{uid} {uid} 1"))?;
    namespaces::put("/proc/self/gid_map", &format!("{gid} {gid} 1"))
}
