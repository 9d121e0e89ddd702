//! What one connector has under way, and what it has seen of the ledger and not yet taken up.
//!
//! It decides nothing and asks nobody: what is taken up, and when, is the connector's.

use super::RunError;
use super::verify::Picked;
use crate::ledger::{Due, Queue, Record, SourceId};
use crate::sink::texts::Texts;
use shared::DocumentId;
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// How many documents are taken from the ledger at a time.
pub(super) const TAKEN: usize = 512;

/// What one connector has under way.
pub(super) struct Work {
    pub(super) sources: Vec<SourceId>,
    /// Outermost items that are being carried.
    pub(super) under_way: HashSet<DocumentId>,
    pub(super) trees: JoinSet<(DocumentId, Result<(), RunError>)>,
    pub(super) due: VecDeque<Due>,
    pub(super) after: Queue,
    /// The ledger may have more than was last seen.
    pub(super) stale: bool,
    pub(super) stopping: bool,
    /// Outermost items among `under_way` that are retries, and when it was last looked for some.
    pub(super) retries: HashSet<DocumentId>,
    pub(super) looked: Option<Instant>,
    /// Retries whose turn has come when nothing newer was left.
    pub(super) again: VecDeque<Record>,
    /// The kept texts, once one was wanted.
    pub(super) texts: Arc<Mutex<Option<Texts>>>,
    /// What the listing picked for the verify pass.
    pub(super) picked: Picked,
    /// Whether it was asked what has become due by itself.
    pub(super) fallen_due: bool,
    /// Whether it is the turn of what is gone.
    pub(super) gone: bool,
    /// The closings of the sink's breaker of which what waits for it has been told.
    pub(super) closings: u64,
    /// The first document that was pending when nothing was under way any more, and how often it was.
    standing: Option<((DocumentId, u64), u32)>,
}

/// How often it is looked for retries while there is something new.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// How often a document may be found pending, unchanged, when nothing is under way, before that is called a standstill.
const LOOKS: u32 = 3;

impl Work {
    /// Nothing yet, for these sources.
    pub(super) fn new(sources: Vec<SourceId>) -> Self {
        Work {
            sources,
            under_way: HashSet::new(),
            trees: JoinSet::new(),
            due: VecDeque::new(),
            after: 0,
            stale: true,
            stopping: false,
            retries: HashSet::new(),
            looked: None,
            again: VecDeque::new(),
            texts: Arc::default(),
            picked: Picked::default(),
            fallen_due: false,
            gone: false,
            closings: 0,
            standing: None,
        }
    }

    /// Whether nothing is under way, and nothing is known that could be.
    pub(super) fn idle(&self) -> bool {
        let waits = self.stale || !self.due.is_empty() || !self.again.is_empty();
        self.trees.is_empty() && (self.stopping || !waits)
    }

    /// From the first due document on once more.
    pub(super) fn look_again(&mut self, first: (DocumentId, u64)) -> Result<(), RunError> {
        let looks = match &self.standing {
            Some((standing, looks)) if *standing == first => looks + 1,
            _ => 1,
        };
        if looks > LOOKS {
            return Err(RunError::NoProgress { document: first.0 });
        }
        self.standing = Some((first, looks));
        self.after = 0;
        self.stale = true;
        Ok(())
    }
}
