//! Threads that read, and that can be left behind: a file system that hangs holds a thread for ever, and no signal frees
//! it. They are not tokio's, whose pool would fill up with the stuck ones.
//!
//! A thread is used again and again, so that a small file costs no thread. One that is stuck is abandoned and counted; when
//! it comes back after all it is counted off. Beyond [`STUCK_MAX`] the file system is taken as gone and nothing more is begun.

use crate::rules::fault::Fault;
use crate::rules::kind::{Kind, Stage};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// So many threads may be stuck.
pub(super) const STUCK_MAX: usize = 64;
/// So many threads wait for work; more end when theirs is done.
const IDLE_MAX: usize = 32;
/// Bytes that are read at a time.
const BUFFER: usize = 256 << 10;
/// Where the buffer begins, in multiples: what a read past the page cache asks for, on every disk there is.
pub(super) const ALIGNED: usize = 4 << 10;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

fn now_ms() -> u64 {
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}

const RUNNING: u8 = 0;
const DONE: u8 = 1;
const ABANDONED: u8 = 2;

/// The sign of life of one piece of work.
#[derive(Debug)]
pub(super) struct Heart {
    last_beat_ms: AtomicU64,
    state: AtomicU8,
}

impl Heart {
    fn new() -> Self {
        Heart { last_beat_ms: AtomicU64::new(now_ms()), state: AtomicU8::new(RUNNING) }
    }

    /// Something came.
    pub(super) fn beat(&self) {
        self.last_beat_ms.store(now_ms(), Ordering::Relaxed);
    }
}

/// What a thread carries out, with its buffer. What comes back gives the answer to whoever waits, once the thread is free again.
type Job = Box<dyn FnOnce(&mut [u8]) -> Reply + Send>;
type Reply = Box<dyn FnOnce() + Send>;

/// The threads.
#[derive(Debug)]
pub(super) struct Readers {
    idle: Mutex<Vec<mpsc::Sender<Job>>>,
    stuck: AtomicUsize,
}

impl Readers {
    pub(super) const fn new() -> Self {
        Readers { idle: Mutex::new(Vec::new()), stuck: AtomicUsize::new(0) }
    }

    /// How many threads are stuck.
    pub(super) fn stuck(&self) -> usize {
        self.stuck.load(Ordering::Acquire)
    }

    /// Carries out `work` on a thread, for as long as it beats at least every `patience_ms`.
    ///
    /// # Errors
    /// What the work says; `source.timeout` where it went silent, or where too many others have.
    pub(super) async fn carry<T: Send + 'static>(
        &'static self,
        patience_ms: u64,
        work: impl FnOnce(&Heart, &mut [u8]) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        if self.stuck() >= STUCK_MAX {
            let message =
                format!("{STUCK_MAX} files of this machine's sources hang; no further one is opened");
            return Err(Fault::new(Stage::Fetch, Kind::SourceTimeout, message));
        }
        let heart = Arc::new(Heart::new());
        let (reply, mut answer) = oneshot::channel();
        let finished = Finished { heart: Arc::clone(&heart), stuck: &self.stuck };
        let job = move |buffer: &mut [u8]| -> Reply {
            let result = work(&finished.heart, buffer);
            drop(finished);
            // Nobody waits any longer where it was abandoned.
            Box::new(move || drop(reply.send(result)))
        };
        self.hand_over(Box::new(job)).map_err(|error| {
            let message = format!("no thread to read with: {error}");
            let mut fault = Fault::new(Stage::Fetch, Kind::SourceIo, message);
            fault.evidence.detail = Some(crate::rules::fault::OUR_OWN.to_owned());
            fault
        })?;
        let watch = Watch { heart, stuck: &self.stuck };
        loop {
            let silent = now_ms().saturating_sub(watch.heart.last_beat_ms.load(Ordering::Relaxed));
            let Some(patience) = patience_ms.checked_sub(silent).filter(|&left| left > 0) else {
                let message = format!("no byte came for {patience_ms} ms");
                return Err(Fault::new(Stage::Fetch, Kind::SourceTimeout, message));
            };
            match tokio::time::timeout(Duration::from_millis(patience), &mut answer).await {
                Ok(Ok(result)) => return result,
                Ok(Err(_)) => {
                    return Err(Fault::new(Stage::Fetch, Kind::InternalPanic, "the reading thread panicked"));
                }
                Err(_elapsed) => {}
            }
        }
    }

    fn hand_over(&'static self, mut job: Job) -> std::io::Result<()> {
        loop {
            let waiting = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(waiting) = waiting else { break };
            match waiting.send(job) {
                Ok(()) => return Ok(()),
                Err(mpsc::SendError(back)) => job = back,
            }
        }
        let (sender, receiver) = mpsc::channel();
        let own = sender.clone();
        std::thread::Builder::new()
            .name("fetch".to_owned())
            .stack_size(256 << 10)
            .spawn(move || self.serve(&own, &receiver))?;
        sender.send(job).map_err(|_| std::io::Error::other("the thread ended at once"))
    }

    fn serve(&self, own: &mpsc::Sender<Job>, jobs: &mpsc::Receiver<Job>) {
        let mut room = vec![0; BUFFER + ALIGNED];
        let start = room.as_ptr().align_offset(ALIGNED).min(ALIGNED);
        let buffer = room.get_mut(start..).and_then(|room| room.get_mut(..BUFFER)).unwrap_or_default();
        while let Ok(job) = jobs.recv() {
            let reply = job(buffer);
            let stays = {
                let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
                let stays = idle.len() < IDLE_MAX;
                if stays {
                    idle.push(own.clone());
                }
                stays
            };
            reply();
            if !stays {
                return;
            }
        }
    }
}

/// Whoever waits. Dropped before the work is done (silence, or the wait was given up): the thread counts as stuck.
struct Watch<'a> {
    heart: Arc<Heart>,
    stuck: &'a AtomicUsize,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        // Counted before the state tells: the thread must not count it off first.
        self.stuck.fetch_add(1, Ordering::AcqRel);
        let state = &self.heart.state;
        if state.compare_exchange(RUNNING, ABANDONED, Ordering::AcqRel, Ordering::Acquire).is_err() {
            self.stuck.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// The thread's end of the work, a panic included.
struct Finished<'a> {
    heart: Arc<Heart>,
    stuck: &'a AtomicUsize,
}

impl Drop for Finished<'_> {
    fn drop(&mut self) {
        if self.heart.state.swap(DONE, Ordering::AcqRel) == ABANDONED {
            self.stuck.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// A heart of its own, for tests of the work alone.
#[cfg(test)]
pub(super) fn heart() -> Heart {
    Heart::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readers() -> &'static Readers {
        Box::leak(Box::new(Readers::new()))
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn what_goes_silent_is_left_behind_and_counted_until_it_comes_back() {
        let readers = readers();
        block_on(async {
            let mut held = Vec::new();
            for _ in 0..STUCK_MAX {
                let (release, gate) = mpsc::channel::<()>();
                held.push(release);
                let fault = readers.carry(1, move |_, _| Ok(gate.recv().is_ok())).await;
                assert_eq!(fault.unwrap_err().kind, Kind::SourceTimeout);
            }
            assert_eq!(readers.stuck(), STUCK_MAX);
            let fault = readers.carry::<()>(60_000, |_, _| panic!("must not begin")).await.unwrap_err();
            assert_eq!(fault.kind, Kind::SourceTimeout);
            drop(held);
            while readers.stuck() > 0 {
                std::thread::yield_now();
            }
            assert_eq!(readers.carry(60_000, |_, _| Ok(7)).await.unwrap(), 7);
        });
    }

    #[test]
    fn a_thread_is_used_again() {
        let readers = readers();
        block_on(async {
            let thread = |_: &Heart, buffer: &mut [u8]| {
                assert_eq!((buffer.len(), buffer.as_ptr().align_offset(ALIGNED)), (BUFFER, 0));
                Ok(std::thread::current().id())
            };
            let first = readers.carry(60_000, thread).await.unwrap();
            assert_eq!(readers.carry(60_000, thread).await.unwrap(), first);
        });
        assert_eq!(readers.stuck(), 0);
    }

    #[test]
    fn a_panic_costs_one_item_and_leaves_nothing_stuck() {
        let readers = readers();
        block_on(async {
            let fault = readers.carry::<()>(60_000, |_, _| panic!("for the test")).await.unwrap_err();
            assert_eq!(fault.kind, Kind::InternalPanic);
            assert_eq!(readers.carry(60_000, |_, _| Ok(1)).await.unwrap(), 1);
        });
        assert_eq!(readers.stuck(), 0);
    }

    #[test]
    fn giving_up_the_wait_counts_as_leaving_it_behind() {
        let readers = readers();
        let (release, gate) = mpsc::channel::<()>();
        block_on(async {
            let carried = readers.carry(60_000, move |_, _| Ok(gate.recv().is_ok()));
            assert!(tokio::time::timeout(Duration::from_millis(1), carried).await.is_err());
        });
        assert_eq!(readers.stuck(), 1);
        drop(release);
        while readers.stuck() > 0 {
            std::thread::yield_now();
        }
    }
}
