//! One process of ours, held by its pidfd: a zygote, a launcher, a document's child, the first process of a command's cage.
//!
//! The pidfd alone tells its end, and alone kills it: a pid may be another process's by then. Who holds one decides whether it
//! is killed; that it is reaped is seen to by whoever reaps it here, or by the spawner.

use super::cgroup::Leaf;
use super::spawner::{self, Dying};
use crate::sys::{self, Reaped};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tokio::io::unix::AsyncFd;

/// A process of ours.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: i32,
    /// `None` once it is reaped, or the spawner's to reap.
    pidfd: Option<AsyncFd<OwnedFd>>,
}

impl Process {
    /// Takes over one that runs. Where it cannot be watched it is killed.
    pub(super) fn new(pid: i32, pidfd: OwnedFd) -> io::Result<Self> {
        let watched = sys::watch(pidfd).map_err(|(pidfd, error)| {
            if sys::kill(pidfd.as_fd()).is_ok() {
                spawner::bury(Dying { pidfd, leaf: None });
            }
            error
        })?;
        Ok(Process { pid, pidfd: Some(watched) })
    }

    fn pidfd(&self) -> &AsyncFd<OwnedFd> {
        self.pidfd.as_ref().expect("taken only by reap and bury, which are the last that is asked of it")
    }

    /// Whether it has not ended yet.
    pub(super) fn lives(&self) -> bool {
        !is_ready(self.pidfd().as_fd())
    }

    /// Waits until the kernel says something of it. Gives whether it has ended; else it was woken for nothing.
    pub(super) async fn ended(&self) -> io::Result<bool> {
        let mut ready = self.pidfd().readable().await?;
        if self.lives() {
            ready.clear_ready();
            return Ok(false);
        }
        // Whoever asks again is told again.
        ready.retain_ready();
        Ok(true)
    }

    /// Kills it. It may have ended by itself meanwhile; then there is nothing to kill.
    pub(super) fn kill(&self) {
        let Some(pidfd) = &self.pidfd else { return };
        if let Err(error) = sys::kill(pidfd.as_fd()) {
            tracing::debug!(%error, pid = self.pid, "a process was quicker than its killer");
        }
    }

    /// Reaps it, once, after its end.
    pub(super) fn reap(&mut self) -> io::Result<Reaped> {
        let pidfd = self.pidfd.take().expect("reaped once").into_inner();
        let reaped = sys::reap(pidfd.as_fd())?;
        reaped.ok_or_else(|| io::Error::other("the process has ended and cannot be reaped"))
    }

    /// Leaves it to the spawner to reap it when it ends, and to remove its leaf then. Nothing where it was reaped.
    pub(super) fn bury(&mut self, leaf: Option<Leaf>) {
        if let Some(pidfd) = self.pidfd.take() {
            spawner::bury(Dying { pidfd: pidfd.into_inner(), leaf });
        }
    }
}

/// Whether a descriptor has something to say now; a pidfd says that its process has ended.
pub(super) fn is_ready(fd: BorrowedFd<'_>) -> bool {
    poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(1)
}

/// Waits until the descriptor is readable; for ever where there is none. That it was is remembered until a try finds nothing.
pub(super) async fn readable(fd: Option<&AsyncFd<OwnedFd>>) -> io::Result<()> {
    match fd {
        Some(fd) => {
            fd.readable().await?.retain_ready();
            Ok(())
        }
        None => std::future::pending().await,
    }
}
