//! What a document on its way needs from the run: the journal, the writer, the clock, and a place on the screen.
//!
//! Every event of a document passes here, so that what is asked of the ledger and what is decided stand side by side.

use super::Orders;
use super::RunError;
use super::alerts::Alerts;
use super::breakers::Breakers;
use super::delivery;
use super::delivery::SinkState;
use super::falling_due;
use super::readers::Readers;
use super::writer::{InHand, Message, Work};
use crate::fault_point;
use crate::ledger::{
    Applied, Change, Durability, Event, Facts, InSink, LedgerHandle, Millis, Record, Settle, SourceRow, Stat,
    Task,
};
use crate::path::{Came, Carried, Means, Place, Product};
use crate::rules::fault::Fault;
use crate::rules::kind::{Kind, Stage, State};
use crate::rules::retry::{self, Lane, Rules};
use crate::sink::{Entry, embedded};
use shared::{ContentHash, DocumentId};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::{Semaphore, mpsc};

/// Texts on their way to the sink take at most this much memory: a batch that is being committed, and the next one.
pub const TEXTS_UNDER_WAY_KIB: usize = 192 << 10;

/// One for all documents of a run; cheap to clone.
#[derive(Debug, Clone)]
pub struct Desk {
    pub means: Arc<Means>,
    pub orders: Orders,
    pub ledger: LedgerHandle,
    pub readers: Arc<Readers>,
    pub writer: mpsc::Sender<Message>,
    /// What the writer has in hand.
    pub in_hand: InHand,
    pub shown: Arc<Mutex<HashMap<DocumentId, Shown>>>,
    /// Attempts that have come to an end.
    pub carried: Arc<AtomicU64>,
    /// Documents of one tree that are carried at a time.
    pub width: usize,
    /// Memory for texts that are on their way to the sink, in KiB.
    pub room: Arc<Semaphore>,
    /// When the run began: what has failed since then waits for the next run, unless it has a time.
    pub began: Arc<AtomicI64>,
    pub breakers: Arc<Breakers>,
    pub alerts: Alerts,
    pub sink: Arc<SinkState>,
}

/// A document that is being carried, for people.
#[derive(Debug, Clone)]
pub struct Shown {
    pub path: String,
    pub since: Instant,
}

/// Takes the document off the screen when dropped.
#[derive(Debug)]
pub struct OnScreen {
    id: DocumentId,
    shown: Arc<Mutex<HashMap<DocumentId, Shown>>>,
}

impl Drop for OnScreen {
    fn drop(&mut self) {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// The wall clock, in ms since 1970.
pub fn now() -> Millis {
    jiff::Timestamp::now().as_millisecond()
}

/// A number in `[0, 1)`, for spreading retries.
pub fn random() -> f64 {
    let bits = RandomState::new().hash_one(Instant::now()) >> 11;
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit an f64 exactly")]
    let share = bits as f64 / (1_u64 << 53) as f64;
    share
}

impl Desk {
    /// What decides on retries.
    pub fn rules(&self) -> Rules<'_> {
        let settings = &self.means.settings;
        Rules {
            retry: &settings.retry,
            kinds: &settings.kinds,
            large: self.means.large.then_some(&settings.large),
        }
    }

    /// When the run began. Where the clock was set back behind that, it began then: what it tries from now on would else seem
    /// to have been tried before it, again and again.
    pub fn began(&self) -> Millis {
        let now = now();
        self.began.fetch_min(now, Ordering::Relaxed).min(now)
    }

    /// Whether something is to be done with a document in this lane now.
    pub fn is_due(&self, record: &Record, lane: Lane) -> bool {
        if retry::lane(record, self.rules()) != lane
            || self.in_hand.lock().unwrap_or_else(PoisonError::into_inner).contains(&record.id)
        {
            return false;
        }
        // A record of a directory, or of an entry that could not be read: only a listing settles it.
        if record.parent.is_none() && record.stat.is_none() {
            return false;
        }
        match record.state {
            State::Pending => matches!(record.task, Some(Task::Carry | Task::Large)),
            State::Retrying => {
                record.unsent.is_none()
                    && record.kind != Some(Kind::ExtractorBroken)
                    && retry::is_due(record, self.began(), now(), self.rules().longest_wait_ms())
            }
            _ => false,
        }
    }

    /// An event of now.
    pub fn event(&self, doc: DocumentId, expects: Option<u64>, change: Change) -> Event {
        Event { doc, expects, at: now(), change }
    }

    /// Records events, as one transaction; the records that they changed.
    pub async fn record(&self, events: Vec<Event>) -> Result<Vec<Record>, RunError> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let applied = self.ledger.append(events, Durability::Journal).await?;
        Ok(applied
            .into_iter()
            .filter_map(|applied| match applied {
                Applied::Changed(record) => Some(*record),
                Applied::Overtaken(_) => None,
            })
            .collect())
    }

    /// What these documents, at these revisions, were waiting for is there again.
    pub async fn due(&self, waiting: &[(DocumentId, u64)]) -> Result<(), RunError> {
        const BATCH: usize = 512;
        for batch in waiting.chunks(BATCH) {
            let due = |(doc, revision): &(_, _)| self.event(*doc, Some(*revision), Change::Due);
            self.record(batch.iter().map(due).collect()).await?;
        }
        Ok(())
    }

    /// Journals that a stage takes the document in hand. `None` where it has moved on.
    pub async fn begin(&self, record: &Record, stage: Stage, lane: Lane) -> Result<Option<Record>, RunError> {
        // Nothing is beside it in the large lane either: a death there is its own.
        let alone = lane != Lane::Normal;
        let event = self.event(record.id, Some(record.revision), Change::Started { stage, alone });
        let started = self.record(vec![event]).await?.pop();
        fault_point::reach_poison(|| record.identity.shown());
        Ok(started)
    }

    /// The attempt has failed: decides what follows, and records it. `record` is as it stood after its start; `attempts`
    /// counts the tries, this one included, of whoever made them.
    pub async fn failed(
        &self,
        record: &Record,
        mut fault: Fault,
        facts: Facts,
        attempts: u32,
        lane: Lane,
    ) -> Result<(), RunError> {
        self.means.settings.classify(&mut fault);
        let settle = retry::decide(&fault, attempts, lane, self.rules(), random(), now());
        if settle == Settle::Exclude {
            self.rejected(record, fault, facts).await?;
        } else {
            let change = Change::Failed { fault: Box::new(fault), settle, facts: Box::new(facts) };
            self.record(vec![self.event(record.id, Some(record.revision), change)]).await?;
        }
        self.carried.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// A policy rejects it. What was found out on the way is kept: the policy may think otherwise one day.
    async fn rejected(&self, record: &Record, fault: Fault, facts: Facts) -> Result<(), RunError> {
        let (mut events, mut revision) = (Vec::new(), record.revision);
        if let (Some(sha256), Some(size)) = (facts.sha256, facts.size) {
            let (format, media_type) = (facts.format, facts.media_type);
            let change = Change::Fetched { sha256, size, format, media_type };
            events.push(self.event(record.id, Some(revision), change));
            revision += 1;
        }
        let change = Change::Rejected { fault: Box::new(fault) };
        events.push(self.event(record.id, Some(revision), change));
        self.record(events).await.map(drop)
    }

    /// It has to wait until a breaker closes; `attempted`: an attempt was begun, which does not count.
    pub async fn held(&self, record: &Record, fault: Fault, attempted: bool) -> Result<(), RunError> {
        let change = Change::Held { fault: Box::new(fault), attempted };
        self.record(vec![self.event(record.id, Some(record.revision), change)]).await?;
        self.carried.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Tells the source's breaker how the fetch of an item went.
    pub fn fetched(&self, source: &SourceRow, place: &Place, carried: &Carried) {
        if !matches!(place, Place::Item) {
            return;
        }
        let fault = match &carried.came {
            Came::Failed(fault) if fault.stage == Stage::Fetch => Some(fault),
            _ => None,
        };
        self.breakers.fetched(source.id, fault);
    }

    /// A document waits for a large lane that there is not.
    pub async fn without_large_lane(&self, record: &Record) -> Result<(), RunError> {
        let sent = record.large.as_deref().cloned();
        let fault = sent.or_else(|| record.fault()).unwrap_or_else(|| {
            Fault::new(Stage::Extract, Kind::MemoryLimit, "it needs more than the limits allow")
        });
        let settle = retry::decide(&fault, record.attempts, Lane::Large, self.rules(), random(), now());
        let facts = Facts { same_as: record.same_as, tried: Some(record.tried), ..Facts::default() };
        let change = Change::Failed { fault: Box::new(fault), settle, facts: Box::new(facts) };
        self.record(vec![self.event(record.id, Some(record.revision), change)]).await.map(drop)
    }

    /// The bytes are those of the last time.
    pub async fn same(&self, record: &Record, stat: Option<Stat>) -> Result<(), RunError> {
        let same = self.event(record.id, Some(record.revision), Change::Same { stat });
        let events = self
            .record(vec![same])
            .await?
            .iter()
            .filter_map(|record| falling_due::event(self, record))
            .collect();
        self.record(events).await.map(drop)
    }

    /// Ours panicked while it had this document.
    pub async fn panicked(&self, record: &Record, error: tokio::task::JoinError) -> Result<(), RunError> {
        let panic = error.into_panic();
        let words = panic
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without words".to_owned());
        let current = {
            let id = record.id;
            self.readers.with(move |reader| reader.record(id)).await?
        };
        let Some(current) = current else { return Ok(()) };
        let fault = Fault::new(Stage::Extract, Kind::InternalPanic, words);
        self.failed(&current, fault, Facts::default(), current.attempts, Lane::Normal).await
    }

    /// Hands a text to the writer; the ledger follows when the sink has acknowledged it.
    pub async fn write(&self, record: Record, product: Product, facts: Facts) -> Result<(), RunError> {
        let text = product.text;
        let in_sink = InSink {
            sink: embedded::NAME.to_owned(),
            sha256: facts.sha256,
            pipeline: facts.pipeline.clone(),
            text: ContentHash::of(text.as_bytes()),
            state: product.state,
        };
        let change = Change::Written {
            state: product.state,
            facts: Box::new(facts),
            in_sink: in_sink.clone(),
            fault: product.fault.map(Box::new),
        };
        self.carried.fetch_add(1, Ordering::Relaxed);
        // From here on it waits for a commit: no stage has it in hand.
        let ready = vec![self.event(record.id, Some(record.revision), Change::Ready)];
        let Some(record) = self.record(ready).await?.pop() else { return Ok(()) };
        let entry = Entry {
            id: record.id,
            title: product.title,
            path: record.identity.shown(),
            state: product.state,
            text,
        };
        self.send(&record, change, Some(entry), Some(in_sink.text)).await
    }

    /// A document leaves the sink.
    pub async fn leave(&self, record: &Record) -> Result<(), RunError> {
        self.send(record, Change::Left, None, None).await
    }

    /// What the sink should hold goes there again, from its kept text. Where that is lost, the document is carried again.
    pub async fn write_again(&self, record: &Record, text: Option<String>) -> Result<(), RunError> {
        match text.and_then(|text| delivery::again(record, text)) {
            Some((change, entry)) => self.send(record, change, Some(entry), None).await,
            None => {
                let event = self.event(record.id, Some(record.revision), Change::Requeued);
                self.record(vec![event]).await.map(drop)
            }
        }
    }

    /// Lets the sink's breaker, where it is open, have one text tried now.
    pub async fn probe_sink(&self) -> Result<(), RunError> {
        self.writer.send(Message::Probe).await.map_err(|_| RunError::Ended)?;
        self.flush().await
    }

    async fn send(
        &self,
        record: &Record,
        change: Change,
        entry: Option<Entry>,
        keep: Option<ContentHash>,
    ) -> Result<(), RunError> {
        let kib = entry.as_ref().map_or(0, |entry| entry.text.len() / 1024).clamp(1, TEXTS_UNDER_WAY_KIB);
        let kib = u32::try_from(kib).unwrap_or(u32::MAX);
        let room = self.room.clone().acquire_many_owned(kib).await.map_err(|_| RunError::Ended)?;
        let work = Work { doc: record.id, revision: record.revision, change, entry, keep, room: Some(room) };
        self.in_hand.lock().unwrap_or_else(PoisonError::into_inner).insert(record.id);
        self.writer.send(Message::Work(Box::new(work))).await.map_err(|_| RunError::Ended)
    }

    /// Waits until the writer has committed all that it was given so far.
    pub async fn flush(&self) -> Result<(), RunError> {
        let (done, answer) = tokio::sync::oneshot::channel();
        self.writer.send(Message::Flush(done)).await.map_err(|_| RunError::Ended)?;
        answer.await.map_err(|_| RunError::Ended)
    }

    /// Shows the document as being carried, until what this returns is dropped.
    pub fn in_flight(&self, record: &Record) -> OnScreen {
        let shown = Shown { path: record.identity.shown(), since: Instant::now() };
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).insert(record.id, shown);
        OnScreen { id: record.id, shown: self.shown.clone() }
    }
}
