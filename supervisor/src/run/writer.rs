//! The one writer: takes texts and removals, makes them true in the sink, then says so in the ledger.
//!
//! A batch goes: kept texts (synced), index (committed), ledger (synced). Dying between any two of these loses nothing: what the
//! ledger does not call written is written again, under the same id. Before a batch it looks up whether a document has moved on,
//! and leaves out what has; what is overtaken while the index commits is put right behind it.

use super::readers::Readers;
use super::{RunError, desk};
use crate::fault_point::{self, Point};
use crate::ledger::{Applied, Change, Durability, Event, LedgerHandle, Record, Settle};
use crate::rules::fault::Fault;
use crate::rules::kind::{Kind, Stage, Why};
use crate::sink::embedded::Embedded;
use crate::sink::texts::Texts;
use crate::sink::{Batch, Entry, NotTaken, SinkError};
use shared::{ContentHash, DocumentId};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::Instant;

/// A batch is committed after this long, …
const BATCH_AGE: Duration = Duration::from_secs(1);
/// … at this many documents, …
const BATCH_DOCUMENTS: usize = 1000;
/// … or at this many bytes of text.
const BATCH_BYTES: usize = 64 << 20;

/// What the writer is told.
#[derive(Debug)]
pub enum Message {
    /// One document.
    Work(Box<Work>),
    /// Everything so far is to be committed at once; then this is answered.
    Flush(oneshot::Sender<()>),
}

/// What is to become true of one document.
#[derive(Debug)]
pub struct Work {
    pub doc: DocumentId,
    /// The revision that it is of.
    pub revision: u64,
    /// What the ledger says once the sink has acknowledged it.
    pub change: Change,
    /// The text; `None`: it leaves the sink.
    pub entry: Option<Entry>,
    /// The text is to be kept under this hash; `None`: it is kept already.
    pub keep: Option<ContentHash>,
    /// Its share of the memory for texts under way, given back when the work is done.
    pub room: Option<OwnedSemaphorePermit>,
}

/// The sink's two parts. They block.
#[derive(Debug)]
pub struct Store {
    pub index: Embedded,
    pub texts: Texts,
}

/// Documents that the writer has in hand: pending in the ledger, and not due.
pub type InHand = Arc<Mutex<HashSet<DocumentId>>>;

/// Runs until every sender is gone.
pub async fn run(
    store: Store,
    ledger: LedgerHandle,
    readers: Arc<Readers>,
    mut inbox: mpsc::Receiver<Message>,
    in_hand: InHand,
) -> Result<(), RunError> {
    let writer = Writer { store: Arc::new(Mutex::new(store)), ledger, readers, in_hand };
    loop {
        let (batch, end) = gather(&mut inbox).await;
        if !batch.is_empty() {
            writer.commit(batch).await?;
        }
        match end {
            End::Full => {}
            End::Flush(answer) => drop(answer.send(())),
            End::Closed => return Ok(()),
        }
    }
}

/// Why a batch is as large as it is.
enum End {
    Full,
    Flush(oneshot::Sender<()>),
    Closed,
}

/// Waits for work and takes what comes with it, up to a batch.
async fn gather(inbox: &mut mpsc::Receiver<Message>) -> (Vec<Work>, End) {
    let mut batch: Vec<Work> = Vec::new();
    let mut bytes = 0;
    let mut until = None;
    loop {
        let message = match until {
            None => inbox.recv().await,
            Some(until) => match tokio::time::timeout_at(until, inbox.recv()).await {
                Ok(message) => message,
                Err(_) => return (batch, End::Full),
            },
        };
        match message {
            None => return (batch, End::Closed),
            Some(Message::Flush(answer)) => return (batch, End::Flush(answer)),
            Some(Message::Work(work)) => {
                bytes += work.entry.as_ref().map_or(0, |entry| entry.text.len());
                until.get_or_insert_with(|| Instant::now() + BATCH_AGE);
                batch.push(*work);
            }
        }
        if batch.len() >= BATCH_DOCUMENTS || bytes >= BATCH_BYTES {
            return (batch, End::Full);
        }
    }
}

struct Writer {
    store: Arc<Mutex<Store>>,
    ledger: LedgerHandle,
    readers: Arc<Readers>,
    in_hand: InHand,
}

impl Writer {
    async fn commit(&self, batch: Vec<Work>) -> Result<(), RunError> {
        let documents: Vec<_> = batch.iter().map(|work| work.doc).collect();
        let batch = self.current(batch).await?;
        let (work, refused) = self.to_sink(batch).await?;
        let before = self.texts_before(&work).await?;
        let events = work.into_iter().map(|work| event(work, &refused)).collect::<Vec<_>>();
        let applied = self.ledger.append(events, Durability::Synced).await?;
        self.put_right(applied).await?;
        self.forget(before).await?;
        let mut in_hand = self.in_hand.lock().unwrap_or_else(PoisonError::into_inner);
        for document in documents {
            in_hand.remove(&document);
        }
        Ok(())
    }

    /// Leaves out what has moved on.
    async fn current(&self, batch: Vec<Work>) -> Result<Vec<Work>, RunError> {
        let ids: Vec<_> = batch.iter().map(|work| work.doc).collect();
        let revisions = self
            .readers
            .with(move |reader| {
                let mut revisions = HashMap::new();
                for id in ids {
                    if let Some(record) = reader.record(id)? {
                        revisions.insert(id, record.revision);
                    }
                }
                Ok(revisions)
            })
            .await?;
        Ok(batch.into_iter().filter(|work| revisions.get(&work.doc) == Some(&work.revision)).collect())
    }

    /// Makes it true in the sink: kept texts first, then the index.
    async fn to_sink(&self, work: Vec<Work>) -> Result<(Vec<Work>, HashMap<DocumentId, NotTaken>), RunError> {
        let done = self
            .with_store(move |store| {
                let refused = into_store(store, &work)?;
                Ok((work, refused))
            })
            .await?;
        fault_point::reach(Point::BetweenIndexAndLedger);
        Ok(done)
    }

    /// Works on the stores, on a thread that may block.
    async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, SinkError> + Send + 'static,
    ) -> Result<T, RunError> {
        let store = self.store.clone();
        let done = tokio::task::spawn_blocking(move || {
            work(&mut store.lock().unwrap_or_else(PoisonError::into_inner))
        });
        Ok(done.await.map_err(|_| RunError::Ended)??)
    }

    /// The kept texts that these documents had so far.
    async fn texts_before(&self, work: &[Work]) -> Result<Vec<ContentHash>, RunError> {
        let ids: Vec<_> = work.iter().map(|work| work.doc).collect();
        Ok(self
            .readers
            .with(move |reader| {
                let mut texts = Vec::new();
                for id in ids {
                    texts.extend(
                        reader.record(id)?.and_then(|record| record.in_sink).map(|in_sink| in_sink.text),
                    );
                }
                Ok(texts)
            })
            .await?)
    }

    /// What was overtaken while the index committed: the sink goes back to what the ledger says it holds.
    async fn put_right(&self, applied: Vec<Applied>) -> Result<(), RunError> {
        let overtaken: Vec<Record> = applied
            .into_iter()
            .filter_map(|applied| match applied {
                Applied::Overtaken(record) => record.map(|record| *record),
                Applied::Changed(_) => None,
            })
            .collect();
        if overtaken.is_empty() {
            return Ok(());
        }
        self.with_store(move |store| back_to_the_ledger(store, &overtaken)).await
    }

    /// Forgets kept texts that nobody refers to any more.
    async fn forget(&self, texts: Vec<ContentHash>) -> Result<(), RunError> {
        let texts: HashSet<_> = texts.into_iter().collect();
        if texts.is_empty() {
            return Ok(());
        }
        let unused = self
            .readers
            .with(move |reader| {
                let mut unused = Vec::new();
                let mut sorted: Vec<_> = texts.into_iter().collect();
                sorted.sort();
                for text in sorted {
                    if !reader.text_used(text)? {
                        unused.push(text);
                    }
                }
                Ok(unused)
            })
            .await?;
        if unused.is_empty() {
            return Ok(());
        }
        self.with_store(move |store| store.texts.forget(&unused)).await
    }
}

fn into_store(store: &mut Store, work: &[Work]) -> Result<HashMap<DocumentId, NotTaken>, SinkError> {
    let mut kept = Vec::new();
    let mut batch = Batch::default();
    for work in work {
        match &work.entry {
            None => batch.removals.push(work.doc),
            Some(entry) => {
                kept.extend(work.keep.map(|hash| (hash, &*entry.text)));
                batch.writes.push(entry.clone());
            }
        }
    }
    store.texts.keep(&kept)?;
    fault_point::reach(Point::BeforeIndexCommit);
    let refused = store.index.commit(&batch)?;
    Ok(refused.into_iter().map(|refused| (refused.id, refused)).collect())
}

fn back_to_the_ledger(store: &mut Store, records: &[Record]) -> Result<(), SinkError> {
    let mut batch = Batch::default();
    for record in records {
        let text = match &record.in_sink {
            Some(in_sink) => store.texts.get(in_sink.text)?.map(|text| (in_sink.state, text)),
            None => None,
        };
        match text {
            None => batch.removals.push(record.id),
            Some((state, text)) => batch.writes.push(Entry {
                id: record.id,
                title: None,
                path: record.identity.shown(),
                state,
                text: text.into(),
            }),
        }
    }
    store.index.commit(&batch)?;
    Ok(())
}

fn event(work: Work, refused: &HashMap<DocumentId, NotTaken>) -> Event {
    let change = match refused.get(&work.doc) {
        None => work.change,
        Some(refused) => Change::Failed {
            fault: Box::new(Fault::new(Stage::Write, Kind::SinkRejected, refused.message.clone())),
            settle: Settle::Quarantine { why: Why::Permanent },
            facts: match work.change {
                Change::Written { facts, .. } => facts,
                _ => Box::default(),
            },
        },
    };
    Event { doc: work.doc, expects: Some(work.revision), at: desk::now(), change }
}
