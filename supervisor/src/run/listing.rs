//! The listing of one connector: a thread of its own that walks the source and records what differs, and the eye on it.
//!
//! A walk that hangs is left behind with its thread, and another one begins that passes by the place: what hangs is one
//! record, and what lies behind it is listed all the same.

use super::connector::Connector;
use super::desk;
use super::verify::Picked;
use crate::fault_point::{self, Point};
use crate::ledger::Durability;
use crate::source::folder::{self, Batch, Eye, Hung, Listed, Listing, ListingError, Pulse, Verify};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinHandle};

/// How often it is looked whether a walk still moves.
pub(super) const LOOK: Duration = Duration::from_millis(500);

/// A walk under way.
pub(super) struct Walk {
    task: JoinHandle<Result<Listed, ListingError>>,
    pulse: Arc<Pulse>,
    eye: Eye,
    _given_up: GivenUp,
}

/// What becomes of a walk.
pub(super) enum Walked {
    Ended(Result<Result<Listed, ListingError>, JoinError>),
    /// At this place.
    Hangs(Vec<u8>),
}

/// Tells a walk, which nobody can abort, that nobody listens any more.
#[derive(Default)]
struct GivenUp(Arc<AtomicBool>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Walk {
    /// Begins one; `recorded` is told when there is something new in the ledger, `picked` what is to be verified.
    pub(super) fn begin(
        connector: &Connector<'_>,
        recorded: Arc<Notify>,
        picked: Picked,
        hung: &Hung,
    ) -> Self {
        // Not the desk: a listing that hangs must not keep the writer waiting for it.
        let desk = &connector.desk;
        let (ledger, readers, settings) =
            (desk.ledger.clone(), desk.readers.clone(), desk.means.settings.clone());
        let (source, state) = (connector.source.clone(), connector.state.clone());
        let (accept_deletions, seen, walked, orders) = (
            connector.accept_deletions,
            connector.listed.clone(),
            connector.walked.clone(),
            connector.orders.clone(),
        );
        let (given_up, pulse) = (GivenUp::default(), Arc::new(Pulse::default()));
        let (is_given_up, beats, hung) = (given_up.0.clone(), pulse.clone(), hung.clone());
        let share = settings.verify_share;
        let task = tokio::task::spawn_blocking(move || {
            let reader = readers.open().map_err(ListingError::Ledger)?;
            let listing = Listing {
                source: &source,
                reader: &reader,
                policy: &settings.policy,
                input_limit: settings.limits.input,
                state: &state,
                now: desk::now(),
                accept_deletions,
                deletion_guard: settings.deletion_guard,
                verify: (share > 0.0).then_some(Verify { share, salt: desk::now().cast_unsigned() }),
                pulse: &beats,
                hung: &hung,
            };
            let mut trouble = None;
            let outcome = folder::list(&listing, &mut |Batch { events, items, verify }| {
                if orders.is_stopped() || is_given_up.load(Ordering::Relaxed) {
                    return ControlFlow::Break(());
                }
                seen.store(items, Ordering::Relaxed);
                walked.fetch_add(1, Ordering::Relaxed);
                picked.add(verify);
                if events.is_empty() {
                    return ControlFlow::Continue(());
                }
                fault_point::reach(Point::Listing);
                match ledger.append_blocking(events, Durability::Journal) {
                    Ok(_) => {
                        recorded.notify_one();
                        ControlFlow::Continue(())
                    }
                    Err(error) => {
                        trouble = Some(error);
                        ControlFlow::Break(())
                    }
                }
            });
            match trouble {
                Some(error) => Err(ListingError::Ledger(error)),
                None => outcome,
            }
        });
        Walk { task, pulse, eye: Eye::default(), _given_up: given_up }
    }

    /// Waits until it ends, or until its file system has not answered it for so long. May be dropped and asked again.
    pub(super) async fn ends_or_hangs(&mut self, patience: Duration) -> Walked {
        loop {
            if let Some(path) = self.eye.hangs(&self.pulse, patience) {
                return Walked::Hangs(path);
            }
            tokio::select! {
                biased;
                done = &mut self.task => return Walked::Ended(done),
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
}
