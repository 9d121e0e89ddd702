//! One connector: its source is listed while what is due is carried.
//!
//! The listing only records; what is to be done is taken from the ledger, in the order in which it became due, and never
//! from memory. A document that the ledger calls due while its tree is under way is left to that tree; what the tree does
//! not do is found when all has come to rest.
//!
//! What is new goes first; beside it at most a quarter of the trees are retries. When nothing else is left there come, in
//! this order: what has become due by other versions or limits, the retries, the large lane (one at a time), and last what is
//! gone from the source: until then its text is there for whoever has the same bytes at another place.

use super::breakers::{self, Watch};
use super::desk::{self, Desk};
use super::falling_due::fall_due;
use super::listing::{Walk, Walked};
use super::verify::{Picked, verify};
use super::work::{LOOK, TAKEN, Work};
use super::{Orders, RunError};
use crate::ledger::{Change, Due, Facts, Record, SourceId, SourceRow, Task};
use crate::path::tree::Tree;
use crate::rules::due;
use crate::rules::fault::Fault;
use crate::rules::kind::{Kind, Stage};
use crate::rules::retry::{self, Lane};
use crate::sink::texts::Texts;
use crate::source::folder::{Hung, Listed, ListingError, pass_by};
use shared::{ContentHash, DocumentId};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// What one connector needs beside the desk.
pub struct Connector<'a> {
    pub desk: Desk,
    pub source: Arc<SourceRow>,
    pub state: PathBuf,
    pub accept_deletions: bool,
    /// Whether the source is listed; otherwise only what is known is carried.
    pub lists: bool,
    pub orders: &'a Orders,
    /// Items that the listing has seen.
    pub listed: Arc<AtomicU64>,
    /// Moves as long as the listing does.
    pub walked: Arc<AtomicU64>,
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
        self.watch().begin().await?;
        if self.open().is_none() {
            self.alone(&sources).await?;
        }
        let mut work = Work::new(sources);
        let recorded = Arc::new(Notify::new());
        let patience = Duration::from_millis(self.desk.means.settings.limits.fetch_ms);
        let mut hung = Hung::new();
        let mut listing = None;
        if self.lists {
            self.listing.store(true, Ordering::Relaxed);
            listing = Some(Walk::begin(&self, recorded.clone(), work.picked.clone(), &hung));
        }
        let mut listed = Listed::default();
        loop {
            if self.watch().look().await? {
                // What waits for it now is passed by again.
                work.after = 0;
                work.stale = true;
            }
            self.watch().probe_if_due().await?;
            self.fill(&mut work).await?;
            // Told to stop, nobody waits for the listing: it only records, and it may hang for ever.
            if (listing.is_none() || work.stopping) && work.idle() {
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
                walked = async { listing.as_mut().expect("guarded").ends_or_hangs(patience).await }, if listing.is_some() => {
                    listing = None;
                    work.stale = true;
                    match walked {
                        Walked::Hangs(path) => {
                            self.walked.fetch_add(1, Ordering::Relaxed);
                            pass_by(&mut hung, path, &self.source.root)?;
                            work.picked = Picked::default();
                            listing = Some(Walk::begin(&self, recorded.clone(), work.picked.clone(), &hung));
                            continue;
                        }
                        Walked::Ended(done) => match done.map_err(|_| RunError::Ended)? {
                            Ok(outcome) => listed = outcome,
                            Err(ListingError::Stopped) if self.orders.is_stopped() => {}
                            Err(error) => return Err(error.into()),
                        },
                    }
                    self.listing.store(false, Ordering::Relaxed);
                }
                () = recorded.notified() => work.stale = true,
                () = self.orders.resumed(), if self.orders.is_paused() => work.stale = true,
            }
        }
    }

    fn watch(&self) -> Watch<'_> {
        let listing = self.listing.load(Ordering::Relaxed);
        Watch { desk: &self.desk, source: &self.source, listing }
    }

    /// The source's breaker, if it is open.
    fn open(&self) -> Option<crate::rules::breaker::Breaker> {
        self.desk.breakers.open(self.source.id)
    }

    /// What was in hand when the supervisor died is tried first, one tree at a time and nothing beside it.
    async fn alone(&mut self, sources: &[SourceId]) -> Result<(), RunError> {
        loop {
            let sources = sources.to_vec();
            let due = self.desk.readers.with(move |reader| reader.alone(&sources)).await?;
            let Some(record) = due.into_iter().find(|record| self.desk.is_due(record, Lane::Alone)) else {
                return Ok(());
            };
            if self.orders.is_stopped() {
                return Ok(());
            }
            self.one_alone(&record).await?;
        }
    }

    async fn one_alone(&mut self, record: &Record) -> Result<(), RunError> {
        only(&self.desk, &self.source, record).await?;
        self.reached(record, Lane::Alone).await
    }

    /// A document that its tree does not lead to must not be waited for.
    async fn reached(&self, record: &Record, lane: Lane) -> Result<(), RunError> {
        let id = record.id;
        let now = self.desk.readers.with(move |reader| reader.record(id)).await?;
        let untouched = now.filter(|now| now.revision == record.revision && !self.orders.is_stopped());
        let Some(untouched) = untouched else { return Ok(()) };
        let fault = Fault::new(Stage::Fetch, Kind::SourceUnreachable, "nothing gives it out again");
        match self.desk.begin(&untouched, Stage::Fetch, lane).await? {
            Some(begun) => self.desk.failed(&begun, fault, Facts::default(), begun.attempts, lane).await,
            None => Ok(()),
        }
    }

    /// Takes up what is due, as far as there is room.
    async fn fill(&mut self, work: &mut Work) -> Result<(), RunError> {
        self.fill_retries(work).await?;
        self.fill_due(work).await?;
        self.fill_again(work).await
    }

    async fn fill_due(&mut self, work: &mut Work) -> Result<(), RunError> {
        while !work.stopping && !self.orders.is_paused() && work.trees.len() < self.width {
            if work.due.is_empty() {
                if !work.stale {
                    return Ok(());
                }
                work.stale = false;
                let (sources, after, gone) = (work.sources.clone(), work.after, work.gone);
                let due =
                    self.desk.readers.with(move |reader| reader.due(&sources, after, gone, TAKEN)).await?;
                work.stale = due.len() == TAKEN;
                work.due.extend(due);
                if work.due.is_empty() {
                    return Ok(());
                }
            }
            if self.open().is_some() {
                self.hold(work).await?;
            }
            let Some(due) = work.due.pop_front() else { continue };
            work.after = work.after.max(due.queue);
            self.take_up(work, due).await?;
        }
        Ok(())
    }

    /// The source's breaker is open: what would have to be fetched waits.
    async fn hold(&self, work: &mut Work) -> Result<(), RunError> {
        let Some(breaker) = self.open() else { return Ok(()) };
        let fault = Box::new(breakers::waits(&breaker));
        let held = |due: &Due| matches!(due.record.task, Some(Task::Carry | Task::Large));
        let events = work.due.iter().filter(|due| held(due)).map(|due| {
            let change = Change::Held { fault: fault.clone(), attempted: false };
            self.desk.event(due.record.id, Some(due.record.revision), change)
        });
        self.desk.record(events.collect()).await?;
        for due in std::mem::take(&mut work.due) {
            work.after = work.after.max(due.queue);
            if !held(&due) {
                work.due.push_back(due);
            }
        }
        Ok(())
    }

    /// Retries beside what is new: at most a quarter of the trees.
    async fn fill_retries(&mut self, work: &mut Work) -> Result<(), RunError> {
        let most = self.width / 4;
        let looked = work.looked.is_some_and(|at| at.elapsed() < LOOK);
        if work.retries.len() >= most
            || looked
            || work.stopping
            || self.orders.is_paused()
            || self.open().is_some()
        {
            return Ok(());
        }
        work.looked = Some(Instant::now());
        for record in self.retries(work).await? {
            if work.retries.len() >= most || work.trees.len() >= self.width {
                return Ok(());
            }
            let root = record.root;
            if self.plant(work, record, true).await? {
                work.retries.insert(root);
            }
        }
        Ok(())
    }

    /// Retries whose turn it is because there is nothing newer. They are many where a whole source was down: never more of
    /// them at a time than of anything else, since each has its document in memory and open.
    async fn fill_again(&mut self, work: &mut Work) -> Result<(), RunError> {
        if self.open().is_some() {
            // They stay what they are: a probe that passes makes them due.
            work.again.clear();
        }
        while !work.stopping && !self.orders.is_paused() && work.trees.len() < self.width {
            let Some(record) = work.again.pop_front() else { return Ok(()) };
            self.plant(work, record, true).await?;
        }
        Ok(())
    }

    /// What failed and is due again.
    async fn retries(&self, work: &Work) -> Result<Vec<Record>, RunError> {
        let (sources, began) = (work.sources.clone(), self.desk.began());
        let longest = self.desk.rules().longest_wait_ms();
        let retries = move |reader: &crate::ledger::Reader| {
            reader.retries(&sources, desk::now(), began, longest, TAKEN)
        };
        Ok(self.desk.readers.with(retries).await?)
    }

    async fn take_up(&mut self, work: &mut Work, due: Due) -> Result<(), RunError> {
        let Due { record, has_members, .. } = due;
        if record.alone {
            return Ok(());
        }
        match &record.task {
            // While the sink is down it is not asked: what is on its way out stays there.
            Some(Task::Delete | Task::Exclude) if self.desk.sink.down().is_some() => Ok(()),
            Some(Task::Delete | Task::Exclude) => self.desk.leave(&record).await,
            Some(Task::Write { .. }) => {
                let unsent = record.unsent.as_ref().map(|unsent| &unsent.in_sink);
                let hash = unsent.or(record.in_sink.as_ref()).map(|in_sink| in_sink.text);
                let text = self.kept_text(work, hash).await?;
                self.desk.write_again(&record, text).await
            }
            _ => self.plant(work, record, has_members).await.map(drop),
        }
    }

    async fn kept_text(&self, work: &Work, hash: Option<ContentHash>) -> Result<Option<String>, RunError> {
        let Some(hash) = hash else { return Ok(None) };
        let (state, texts) = (self.state.clone(), work.texts.clone());
        let read = tokio::task::spawn_blocking(move || {
            let mut texts = texts.lock().unwrap_or_else(PoisonError::into_inner);
            if texts.is_none() {
                *texts = Texts::open_reader(&state)?;
            }
            texts.as_ref().map_or(Ok(None), |texts| texts.sound(hash))
        });
        Ok(read.await.map_err(|_| RunError::Ended)??)
    }

    /// Starts the tree that a due document belongs to. Where that is under way it is left: what the tree does not do
    /// itself is found when all is at rest. Gives whether it was started.
    async fn plant(&mut self, work: &mut Work, record: Record, has_members: bool) -> Result<bool, RunError> {
        if work.under_way.contains(&record.root) || !self.desk.is_due(&record, Lane::Normal) {
            return Ok(false);
        }
        let single = record.id == record.root && !has_members;
        let (root, known) = if single {
            (Some(record), Vec::new())
        } else {
            let root = record.root;
            let known = self.desk.readers.with(move |reader| reader.tree(root)).await?;
            // What was before it in the queue may have settled it as well.
            let now = known.iter().find(|known| known.id == record.id);
            if !now.is_some_and(|now| self.desk.is_due(now, Lane::Normal)) {
                return Ok(false);
            }
            (known.iter().find(|known| known.id == root).cloned(), known)
        };
        let Some(root) = root else { return Ok(false) };
        let id = root.id;
        work.under_way.insert(id);
        let tree = Tree::new(self.desk.clone(), self.source.clone(), root, known, Lane::Normal);
        work.trees.spawn(async move { (id, tree.carry().await) });
        Ok(true)
    }

    fn tree_done(&self, work: &mut Work, done: TreeDone) -> Result<(), RunError> {
        let (root, outcome) = done.map_err(|_| RunError::Ended)?;
        work.under_way.remove(&root);
        work.retries.remove(&root);
        outcome
    }

    /// When nothing is under way: whether the ledger has something after all.
    async fn more(&mut self, work: &mut Work) -> Result<More, RunError> {
        self.desk.flush().await?;
        if self.watch().look().await? {
            return Ok(More::Found);
        }
        if work.stopping {
            return Ok(More::Nothing);
        }
        if self.orders.is_paused() {
            return Ok(More::Paused);
        }
        let sources = work.sources.clone();
        let gone = work.gone;
        let pending = self.desk.readers.with(move |reader| reader.due(&sources, 0, gone, TAKEN)).await?;
        if self.desk.sink.down().is_some() {
            self.desk.probe_sink().await?;
        }
        if self.release_unsent(work).await? {
            return Ok(More::Found);
        }
        let stays = |due: &Due| due.record.is_leaving() && self.desk.sink.down().is_some();
        let pending: Vec<_> = pending.into_iter().filter(|due| !stays(due)).collect();
        let is_large = |record: &Record| retry::lane(record, self.desk.rules()) == Lane::Large;
        if let Some(first) = pending.iter().find(|due| !due.record.alone && !is_large(&due.record)) {
            work.look_again((first.record.id, first.record.revision))?;
            return Ok(More::Found);
        }
        let large = pending.into_iter().map(|due| due.record).filter(is_large).collect();
        if self.open().is_none() && self.old(work, large).await? {
            return Ok(More::Found);
        }
        if !std::mem::replace(&mut work.gone, true) {
            work.after = 0;
            work.stale = true;
            return Ok(More::Found);
        }
        Ok(More::Nothing)
    }

    /// The sink's breaker has closed: what waits for it is due. Gives whether something is.
    async fn release_unsent(&self, work: &mut Work) -> Result<bool, RunError> {
        let closings = self.desk.sink.closings();
        if work.closings == closings || self.desk.sink.down().is_some() {
            return Ok(false);
        }
        let source = self.source.id;
        let unsent = self.desk.readers.with(move |reader| reader.unsent(Some(source), usize::MAX)).await?;
        work.closings = closings;
        self.desk.due(&unsent).await?;
        work.stale = true;
        Ok(!unsent.is_empty())
    }

    /// What is not new, kind by kind; gives whether there was some. `large`: what is pending and needs the large lane.
    async fn old(&mut self, work: &mut Work, mut large: Vec<Record>) -> Result<bool, RunError> {
        if !std::mem::replace(&mut work.fallen_due, true) && fall_due(&self.desk, self.source.id).await? > 0 {
            work.stale = true;
            return Ok(true);
        }
        let (unsent, retries): (Vec<_>, Vec<_>) =
            self.retries(work).await?.into_iter().partition(|record| record.unsent.is_some());
        if !unsent.is_empty() {
            let unsent: Vec<_> = unsent.iter().map(|record| (record.id, record.revision)).collect();
            self.desk.due(&unsent).await?;
            work.stale = true;
            return Ok(true);
        }
        for record in retries {
            match retry::lane(&record, self.desk.rules()) {
                Lane::Large if self.desk.is_due(&record, Lane::Large) => large.push(record),
                Lane::Normal if self.desk.is_due(&record, Lane::Normal) => work.again.push_back(record),
                _ => {}
            }
        }
        if !work.again.is_empty() {
            return Ok(true);
        }
        let sources = work.sources.clone();
        large.extend(self.desk.readers.with(move |reader| reader.large(&sources, TAKEN)).await?);
        let Some(one) = large.into_iter().find(can_be_carried) else {
            let found = verify(&self.desk, &self.source, &work.picked).await?;
            work.stale |= found > 0;
            return Ok(found > 0);
        };
        if one.large.is_some() && !due::large_has_more(&one, self.desk.means.present()) {
            // The lane is no more, or has no more: it goes where it would have gone without.
            self.desk.without_large_lane(&one).await?;
            return Ok(true);
        }
        only(&self.desk, &self.source, &one).await?;
        self.reached(&one, Lane::Large).await?;
        Ok(true)
    }
}

/// Carries one document with nothing beside it, in the lane that it is for. Its neighbours in the tree are left where they
/// are.
pub(super) async fn only(desk: &Desk, source: &SourceRow, record: &Record) -> Result<(), RunError> {
    let lane = retry::lane(record, desk.rules());
    let root = record.root;
    let known = desk.readers.with(move |reader| reader.tree(root)).await?;
    let others = |known: Record| if known.id == record.id { known } else { known.passed_by() };
    let known: Vec<_> = known.into_iter().map(others).collect();
    let Some(root) = known.iter().find(|known| known.id == root).cloned() else { return Ok(()) };
    Tree::new(desk.clone(), Arc::new(source.clone()), root, known, lane).carry().await?;
    desk.flush().await
}

/// Whether a record is of something that has bytes: what only a listing can settle has not.
pub(super) fn can_be_carried(record: &Record) -> bool {
    record.parent.is_some() || record.stat.is_some()
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
