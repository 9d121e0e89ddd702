//! Ends a run that takes longer than it may, or in which nothing moves any more although documents are in flight or a source is
//! being listed.
//!
//! Each document has limits of its own, and the pool keeps them; this is for the day on which that fails. A listing has none: a
//! file system that hangs holds it in the kernel, where nobody can reach it.

use super::{RunError, Window};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often is looked.
const LOOK: Duration = Duration::from_millis(250);

/// Returns when the run is to be aborted, with the reason.
pub(super) async fn overrun(window: &Window, deadline_ms: Option<u64>, watchdog_ms: u64) -> RunError {
    let mut last = (progress(window), Instant::now());
    loop {
        tokio::time::sleep(LOOK).await;
        if let Some(ms) = deadline_ms.filter(|&ms| window.began.elapsed() >= Duration::from_millis(ms)) {
            return RunError::Deadline { what: "the run".to_owned(), ms };
        }
        let now = progress(window);
        match standing(window, watchdog_ms) {
            Some(stalled) if now == last.0 => {
                if last.1.elapsed() >= Duration::from_millis(watchdog_ms) {
                    return stalled;
                }
            }
            _ => last = (now, Instant::now()),
        }
    }
}

/// Moves with each attempt that ends and with the listing.
fn progress(window: &Window) -> (u64, u64) {
    (window.carried.load(Ordering::Relaxed), window.walked.load(Ordering::Relaxed))
}

/// What is under way, and so ought to move.
fn standing(window: &Window, ms: u64) -> Option<RunError> {
    let listing = || window.listing.load(Ordering::Relaxed).then_some(RunError::ListingStalled { ms });
    longest_in_flight(window).map(|path| RunError::Stalled { path, ms }).or_else(listing)
}

fn longest_in_flight(window: &Window) -> Option<String> {
    let shown = window.shown.lock().unwrap_or_else(PoisonError::into_inner);
    shown.values().min_by_key(|one| one.since).map(|one| one.path.clone())
}
