//! The listing of a source for whoever only looks: what differs is handed over, and nothing is recorded.
//!
//! It walks on a thread of its own, since a file system that does not answer holds that for ever. As in a run, such a walk is
//! left behind and another one passes by the place; what the first has told is not told again.

use super::RunError;
use super::desk::now;
use super::listing::LOOK;
use crate::ledger::{Event, Reader, SourceRow};
use crate::settings::Settings;
use crate::source::folder::{self, Eye, Hung, Listed, Listing, ListingError, Pulse};
use shared::DocumentId;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Batches that may lie ready.
const AHEAD: usize = 4;

enum Told {
    Differs(Vec<Event>),
    Ended(Result<Listed, ListingError>),
}

/// What a walk needs that nobody waits for.
struct Looking {
    settings: Settings,
    state: PathBuf,
    source: SourceRow,
    pulse: Arc<Pulse>,
    hung: Hung,
    telling: SyncSender<Told>,
}

/// Lists the source, and hands over each event that a run would record, once. The inner error is the listing's own.
///
/// # Errors
/// Those of `each`, and where no thread can be had.
pub(super) fn look(
    settings: &Settings,
    state: &Path,
    source: &SourceRow,
    each: &mut dyn FnMut(Event) -> Result<(), RunError>,
) -> Result<Result<Listed, ListingError>, RunError> {
    let patience = Duration::from_millis(settings.limits.fetch_ms);
    let (mut hung, mut seen) = (Hung::new(), HashSet::new());
    loop {
        let (telling, told) = sync_channel(AHEAD);
        let pulse = Arc::new(Pulse::default());
        let looking = Looking {
            settings: settings.clone(),
            state: state.to_owned(),
            source: source.clone(),
            pulse: pulse.clone(),
            hung: hung.clone(),
            telling,
        };
        std::thread::Builder::new()
            .name("listing".to_owned())
            .spawn(move || looking.walk())
            .map_err(|error| ListingError::Root { path: source.root.clone(), source: error })?;
        match follow(&told, &pulse, patience, &mut seen, each)? {
            Followed::Ended(outcome) => return Ok(outcome),
            Followed::Hangs(path) => {
                if let Err(error) = folder::pass_by(&mut hung, path, &source.root) {
                    return Ok(Err(error));
                }
            }
        }
    }
}

enum Followed {
    Ended(Result<Listed, ListingError>),
    Hangs(Vec<u8>),
}

/// Takes what one walk tells, until it ends or hangs.
fn follow(
    told: &Receiver<Told>,
    pulse: &Pulse,
    patience: Duration,
    seen: &mut HashSet<DocumentId>,
    each: &mut dyn FnMut(Event) -> Result<(), RunError>,
) -> Result<Followed, RunError> {
    let mut eye = Eye::default();
    loop {
        match told.recv_timeout(LOOK) {
            Ok(Told::Differs(events)) => {
                for event in events {
                    if seen.insert(event.doc) {
                        each(event)?;
                    }
                }
            }
            Ok(Told::Ended(outcome)) => return Ok(Followed::Ended(outcome)),
            Err(RecvTimeoutError::Disconnected) => return Err(RunError::Ended),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(path) = eye.hangs(pulse, patience) {
                    return Ok(Followed::Hangs(path));
                }
            }
        }
    }
}

impl Looking {
    fn walk(self) {
        let outcome = self.list();
        // Where nobody listens any more, nobody wants to know.
        self.telling.send(Told::Ended(outcome)).ok();
    }

    fn list(&self) -> Result<Listed, ListingError> {
        let reader = Reader::open(&self.state).map_err(ListingError::Ledger)?;
        let listing = Listing {
            source: &self.source,
            reader: &reader,
            policy: &self.settings.policy,
            input_limit: self.settings.limits.input,
            state: &self.state,
            now: now(),
            // Nothing is deleted here: what is missing is told, however much it is.
            accept_deletions: true,
            deletion_guard: self.settings.deletion_guard,
            verify: None,
            pulse: &self.pulse,
            hung: &self.hung,
        };
        folder::list(&listing, &mut |batch| match self.telling.send(Told::Differs(batch.events)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        })
    }
}
