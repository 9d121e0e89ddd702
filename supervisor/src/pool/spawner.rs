//! The one thread that makes zygotes and launchers, and buries what has died.
//!
//! A zygote and its children ask the kernel to die with their parent, and to the kernel the parent is the *thread* that
//! made the zygote. So this is a thread of its own that lives as long as the process does, never one of the runtime's.

use super::cgroup::Leaf;
use crate::sys;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use tokio::sync::oneshot;

/// How often the dead are looked after while some are left.
const BURIAL_ROUND: Duration = Duration::from_millis(5);

/// In how many rounds a leaf is tried to be removed before it is left to the next start.
const REMOVALS: u32 = 1000;

/// A process that was killed and is to be reaped, with what goes when it has gone.
pub(super) struct Dying {
    pub(super) pidfd: OwnedFd,
    /// Removed when it is dropped, which the kernel allows once the process has gone.
    pub(super) leaf: Option<Leaf>,
}

enum Order {
    Start {
        wanted: Wanted,
        reply: oneshot::Sender<io::Result<(i32, OwnedFd)>>,
    },
    Bury(Dying),
    /// Answered when nothing is left to bury that was handed over before.
    Settle(Sender<()>),
}

/// A program to be started.
pub(super) struct Wanted {
    pub(super) program: CString,
    /// Its argument, where it takes one.
    pub(super) word: Option<CString>,
    /// Becomes its descriptor 3.
    pub(super) control: OwnedFd,
    /// Left in its environment, for a test that leaves that layer out.
    pub(super) variable: Option<CString>,
}

/// Starts a program. Gives its pid and pidfd.
pub(super) async fn start(wanted: Wanted) -> io::Result<(i32, OwnedFd)> {
    let (reply, answer) = oneshot::channel();
    order(Order::Start { wanted, reply })?;
    answer.await.map_err(|_| io::Error::other("the thread that makes zygotes has ended"))?
}

/// Hands over a process that has been killed. It is reaped whenever it dies, its leaf is removed then.
pub(super) fn bury(dying: Dying) {
    if let Err(error) = order(Order::Bury(dying)) {
        tracing::warn!(%error, "a dead worker cannot be reaped");
    }
}

/// Waits until all that was handed over before is reaped, `at_most` so long.
pub(super) fn settle(at_most: Duration) {
    let (done, settled) = channel();
    if order(Order::Settle(done)).is_ok() && settled.recv_timeout(at_most).is_err() {
        tracing::warn!("a killed worker process does not end");
    }
}

fn order(order: Order) -> io::Result<()> {
    static SPAWNER: OnceLock<Option<Sender<Order>>> = OnceLock::new();
    SPAWNER
        .get_or_init(|| {
            let (sender, orders) = channel();
            let thread = std::thread::Builder::new().name("spawner".to_owned());
            thread.spawn(move || serve(&orders)).ok().map(|_handle| sender)
        })
        .as_ref()
        .and_then(|spawner| spawner.send(order).ok())
        .ok_or_else(|| io::Error::other("the thread that makes zygotes has ended"))
}

fn serve(orders: &Receiver<Order>) {
    let mut dying: Vec<Dying> = Vec::new();
    let mut leaves: Vec<(Leaf, u32)> = Vec::new();
    let mut waiting: Vec<Sender<()>> = Vec::new();
    loop {
        let next = if dying.is_empty() && leaves.is_empty() {
            orders.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            orders.recv_timeout(BURIAL_ROUND)
        };
        match next {
            Ok(Order::Start { wanted, reply }) => {
                if let Err(Ok((_, pidfd))) = reply.send(make(&wanted)) {
                    // Whoever asked has gone.
                    if sys::kill(pidfd.as_fd()).is_ok() {
                        dying.push(Dying { pidfd, leaf: None });
                    }
                }
            }
            Ok(Order::Bury(dead)) => dying.push(dead),
            Ok(Order::Settle(done)) => waiting.push(done),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let (still, gone): (Vec<_>, Vec<_>) =
            dying.into_iter().partition(|dead| matches!(sys::reap(dead.pidfd.as_fd()), Ok(None)));
        dying = still;
        // What the zygote made may take a moment longer than it.
        leaves.extend(gone.into_iter().filter_map(|dead| Some((dead.leaf?, REMOVALS))));
        leaves.retain_mut(|(leaf, tries)| {
            *tries -= 1;
            !leaf.remove() && *tries > 0
        });
        if dying.is_empty() && leaves.is_empty() {
            for done in waiting.drain(..) {
                if done.send(()).is_err() {
                    tracing::debug!("whoever waited for the dead has given up");
                }
            }
        }
    }
}

fn make(wanted: &Wanted) -> io::Result<(i32, OwnedFd)> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let Wanted { program, word, control, variable } = wanted;
    sys::start_program(program, word.as_deref(), null.as_fd(), control.as_fd(), variable.as_deref())
}
