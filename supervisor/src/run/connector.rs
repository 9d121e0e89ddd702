//! One connector: its source is listed while what is due is carried.
//!
//! The listing only records; what is to be done is taken from the ledger, in the order in which it became due, and never
//! from memory. A document that the ledger calls due while its tree is under way is left to that tree; what the tree does
//! not do is found when all has come to rest, before the retries.

use super::desk::{self, Desk};
use super::{Orders, RunError};
use crate::fault_point::{self, Point};
use crate::ledger::{Due, Durability, Facts, Queue, Record, SourceId, SourceRow, Task};
use crate::path::tree::Tree;
use crate::rules::fault::Fault;
use crate::rules::kind::{Kind, Stage};
use crate::sink::texts::Texts;
use crate::source::folder::{self, Batch, Listed, Listing, ListingError};
use shared::DocumentId;
use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// How many due documents are taken from the ledger at a time.
const TAKEN: usize = 512;

/// What one connector needs beside the desk.
pub struct Connector<'a> {
    pub desk: Desk,
    pub source: Arc<SourceRow>,
    pub state: PathBuf,
    pub accept_deletions: bool,
    pub orders: &'a Orders,
    /// Items that the listing has seen.
    pub listed: Arc<AtomicU64>,
    /// Whether the listing is on.
    pub listing: Arc<AtomicBool>,
    /// Outermost items under way at a time.
    pub width: usize,
}

impl std::fmt::Debug for Connector<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("source", &self.source.name).finish_non_exhaustive()
    }
}

impl Connector<'_> {
    /// Lists the source and carries all that is due, until all of it has come to rest.
    ///
    /// # Errors
    /// What is structural. What concerns one document is its record.
    pub async fn run(mut self) -> Result<Listed, RunError> {
        let sources = vec![self.source.id];
        self.alone(&sources).await?;
        let recorded = Arc::new(Notify::new());
        self.listing.store(true, Ordering::Relaxed);
        let given_up = GivenUp::default();
        let mut listing = Some(self.begin_listing(recorded.clone(), given_up.0.clone()));
        let mut listed = Listed::default();
        let mut work = Work::new(sources);
        loop {
            self.fill(&mut work).await?;
            if listing.is_none() && work.idle() {
                match self.more(&mut work).await? {
                    More::Nothing => return Ok(listed),
                    More::Found => continue,
                    More::Paused => {}
                }
            }
            tokio::select! {
                biased;
                () = self.orders.stopped(), if !work.stopping => work.stopping = true,
                Some(done) = work.trees.join_next() => self.tree_done(&mut work, done)?,
                done = async { listing.as_mut().expect("guarded").await }, if listing.is_some() => {
                    listing = None;
                    self.listing.store(false, Ordering::Relaxed);
                    work.stale = true;
                    match done.map_err(|_| RunError::Ended)? {
                        Ok(outcome) => listed = outcome,
                        Err(ListingError::Stopped) if self.orders.is_stopped() => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                () = recorded.notified() => work.stale = true,
                () = self.orders.resumed(), if self.orders.is_paused() => work.stale = true,
            }
        }
    }

    fn begin_listing(
        &self,
        recorded: Arc<Notify>,
        given_up: Arc<AtomicBool>,
    ) -> tokio::task::JoinHandle<Result<Listed, ListingError>> {
        // Not the desk: a listing that hangs must not keep the writer waiting for it.
        let (ledger, readers, settings) =
            (self.desk.ledger.clone(), self.desk.readers.clone(), self.desk.means.settings.clone());
        let (source, state) = (self.source.clone(), self.state.clone());
        let (accept_deletions, seen, orders) =
            (self.accept_deletions, self.listed.clone(), self.orders.clone());
        tokio::task::spawn_blocking(move || {
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
                verify: None,
            };
            let mut trouble = None;
            let outcome = folder::list(&listing, &mut |Batch { events, items, .. }| {
                seen.store(items, Ordering::Relaxed);
                if orders.is_stopped() || given_up.load(Ordering::Relaxed) {
                    return ControlFlow::Break(());
                }
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
        })
    }

    /// What was in hand when the supervisor died is tried first, one tree at a time and nothing beside it.
    async fn alone(&mut self, sources: &[SourceId]) -> Result<(), RunError> {
        loop {
            let sources = sources.to_vec();
            let due = self.desk.readers.with(move |reader| reader.alone(&sources)).await?;
            let Some(record) = due.into_iter().find(|record| self.desk.is_due(record, true)) else {
                return Ok(());
            };
            if self.orders.is_stopped() {
                return Ok(());
            }
            self.one_alone(&record).await?;
        }
    }

    async fn one_alone(&mut self, record: &Record) -> Result<(), RunError> {
        // Its neighbours in the tree are left where they are: only this one is due while alone.
        let root = record.root;
        let known = self.desk.readers.with(move |reader| reader.tree(root)).await?;
        let Some(root) = known.iter().find(|known| known.id == root).cloned() else { return Ok(()) };
        let only: Vec<_> = known
            .into_iter()
            .map(|mut known| {
                if known.id != record.id {
                    known.alone = false;
                }
                known
            })
            .collect();
        let root = if root.id == record.id { root } else { Record { alone: false, ..root } };
        Tree::new(self.desk.clone(), self.source.clone(), root, only, true).carry().await?;
        self.desk.flush().await?;
        self.reached(record).await
    }

    /// A document that its tree does not lead to must not be waited for.
    async fn reached(&self, record: &Record) -> Result<(), RunError> {
        let id = record.id;
        let now = self.desk.readers.with(move |reader| reader.record(id)).await?;
        let untouched = now.filter(|now| now.revision == record.revision && !self.orders.is_stopped());
        let Some(untouched) = untouched else { return Ok(()) };
        let fault = Fault::new(Stage::Fetch, Kind::SourceUnreachable, "nothing gives it out again");
        match self.desk.begin(&untouched, Stage::Fetch, true).await? {
            Some(begun) => self.desk.failed(&begun, fault, Facts::default()).await,
            None => Ok(()),
        }
    }

    /// Takes up what is due, as far as there is room.
    async fn fill(&mut self, work: &mut Work) -> Result<(), RunError> {
        while !work.stopping && !self.orders.is_paused() && work.trees.len() < self.width {
            if work.due.is_empty() {
                if !work.stale {
                    return Ok(());
                }
                work.stale = false;
                let (sources, after) = (work.sources.clone(), work.after);
                let due = self.desk.readers.with(move |reader| reader.due(&sources, after, TAKEN)).await?;
                work.stale = due.len() == TAKEN;
                work.due.extend(due);
                if work.due.is_empty() {
                    return Ok(());
                }
            }
            let Some(due) = work.due.pop_front() else { return Ok(()) };
            work.after = work.after.max(due.queue);
            self.take_up(work, due).await?;
        }
        Ok(())
    }

    async fn take_up(&mut self, work: &mut Work, due: Due) -> Result<(), RunError> {
        let Due { record, has_members, .. } = due;
        if record.alone {
            return Ok(());
        }
        match &record.task {
            Some(Task::Delete | Task::Exclude) => self.desk.leave(&record).await,
            Some(Task::Write { .. }) => {
                let hash = record.in_sink.as_ref().map(|in_sink| in_sink.text);
                let text = self.kept_text(hash).await?;
                self.desk.write_again(&record, text).await
            }
            _ => self.plant(work, record, has_members).await,
        }
    }

    async fn kept_text(&self, hash: Option<shared::ContentHash>) -> Result<Option<String>, RunError> {
        let Some(hash) = hash else { return Ok(None) };
        let state = self.state.clone();
        let read = tokio::task::spawn_blocking(move || match Texts::open_reader(&state)? {
            Some(texts) => texts.get(hash),
            None => Ok(None),
        });
        Ok(read.await.map_err(|_| RunError::Ended)??)
    }

    /// Starts the tree that a due document belongs to. Where that is under way it is left: what the tree does not do
    /// itself is found when all is at rest.
    async fn plant(&mut self, work: &mut Work, record: Record, has_members: bool) -> Result<(), RunError> {
        if work.under_way.contains(&record.root) || !self.desk.is_due(&record, false) {
            return Ok(());
        }
        let single = record.id == record.root && !has_members;
        let (root, known) = if single {
            (Some(record), Vec::new())
        } else {
            let root = record.root;
            let known = self.desk.readers.with(move |reader| reader.tree(root)).await?;
            (known.iter().find(|known| known.id == root).cloned(), known)
        };
        let Some(root) = root else { return Ok(()) };
        let id = root.id;
        work.under_way.insert(id);
        let tree = Tree::new(self.desk.clone(), self.source.clone(), root, known, false);
        work.trees.spawn(async move { (id, tree.carry().await) });
        Ok(())
    }

    fn tree_done(&self, work: &mut Work, done: TreeDone) -> Result<(), RunError> {
        let (root, outcome) = done.map_err(|_| RunError::Ended)?;
        work.under_way.remove(&root);
        outcome
    }

    /// When nothing is under way: whether the ledger has something after all. Retries come here, behind all that is new.
    async fn more(&mut self, work: &mut Work) -> Result<More, RunError> {
        self.desk.flush().await?;
        if work.stopping {
            return Ok(More::Nothing);
        }
        if self.orders.is_paused() {
            return Ok(More::Paused);
        }
        let sources = work.sources.clone();
        let pending = self.desk.readers.with(move |reader| reader.due(&sources, 0, TAKEN)).await?;
        if let Some(first) = pending.iter().find(|due| !due.record.alone) {
            work.look_again((first.record.id, first.record.revision))?;
            return Ok(More::Found);
        }
        let (sources, began) = (work.sources.clone(), self.desk.began);
        let retries =
            self.desk.readers.with(move |reader| reader.retries(&sources, desk::now(), began, TAKEN)).await?;
        for record in retries {
            self.plant(work, record, true).await?;
        }
        Ok(if work.trees.is_empty() { More::Nothing } else { More::Found })
    }
}

/// Tells the listing, which nobody can abort, that the connector has ended.
#[derive(Default)]
struct GivenUp(Arc<AtomicBool>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What is left when nothing is under way.
enum More {
    Nothing,
    /// To be filled in at once.
    Found,
    /// Perhaps something, once the run goes on.
    Paused,
}

type TreeDone = Result<(DocumentId, Result<(), RunError>), tokio::task::JoinError>;

/// What one connector has under way.
struct Work {
    sources: Vec<SourceId>,
    /// Outermost items that are being carried.
    under_way: HashSet<DocumentId>,
    trees: JoinSet<(DocumentId, Result<(), RunError>)>,
    due: VecDeque<Due>,
    after: Queue,
    /// The ledger may have more than was last seen.
    stale: bool,
    stopping: bool,
    /// The first document that was pending when nothing was under way any more, and how often it was.
    standing: Option<((DocumentId, u64), u32)>,
}

/// How often a document may be found pending, unchanged, when nothing is under way, before that is called a standstill.
const LOOKS: u32 = 3;

impl Work {
    fn new(sources: Vec<SourceId>) -> Self {
        Work {
            sources,
            under_way: HashSet::new(),
            trees: JoinSet::new(),
            due: VecDeque::new(),
            after: 0,
            stale: true,
            stopping: false,
            standing: None,
        }
    }

    fn idle(&self) -> bool {
        self.trees.is_empty() && (self.stopping || (self.due.is_empty() && !self.stale))
    }

    /// From the first due document on once more.
    fn look_again(&mut self, first: (DocumentId, u64)) -> Result<(), RunError> {
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
