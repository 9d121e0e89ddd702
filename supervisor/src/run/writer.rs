//! The one writer: takes texts and removals, makes them true in the sink, then says so in the ledger.
//!
//! A batch goes: kept texts (synced), index (committed), ledger (synced). Dying between any two of these loses nothing: what the
//! ledger does not call written is written again, under the same id. Before a batch it looks up whether a document has moved on,
//! and leaves out what has; what is overtaken while the index commits is put right behind it. Where the index cannot be written
//! to, what follows is [`super::delivery`]'s.

use super::delivery::{self, Delivery, Refused};
use super::readers::Readers;
use super::{RunError, desk, sweep};
use crate::fault_point::{self, Point};
use crate::ledger::{Applied, Change, Durability, Event, LedgerHandle, Record};
use crate::rules::fault::Fault;
use crate::rules::retry;
use crate::sink::embedded::Embedded;
use crate::sink::texts::Texts;
use crate::sink::{Batch, Entry, SinkError};
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
    /// Where the sink's breaker is open, one document is to be offered to it now.
    Probe,
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
pub(super) async fn run(
    store: Store,
    ledger: LedgerHandle,
    readers: Arc<Readers>,
    mut inbox: mpsc::Receiver<Message>,
    in_hand: InHand,
    delivery: Delivery,
) -> Result<(), RunError> {
    let mut writer =
        Writer { store: Arc::new(Mutex::new(store)), ledger, readers, in_hand, delivery, noted: false };
    loop {
        let (batch, end) = gather(&mut inbox).await;
        if !batch.is_empty() {
            writer.commit(batch).await?;
        }
        match end {
            End::Full => {}
            End::Probe => writer.probe().await?,
            End::Flush(answer) => drop(answer.send(())),
            End::Closed => return Ok(()),
        }
    }
}

/// Why a batch is as large as it is.
enum End {
    Full,
    Probe,
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
            Some(Message::Probe) => return (batch, End::Probe),
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
    delivery: Delivery,
    /// Whether it is noted that texts may be left behind.
    noted: bool,
}

impl Writer {
    async fn commit(&mut self, batch: Vec<Work>) -> Result<(), RunError> {
        let documents: Vec<_> = batch.iter().map(|work| work.doc).collect();
        let (work, attempts) = self.current(batch).await?;
        let work = self.keep(work).await?;
        if self.delivery.probe_is_due() {
            self.probe().await?;
        }
        match self.delivery.held() {
            Some(fault) => self.unsent(work, &attempts, &fault, false).await?,
            None => self.deliver(work, &attempts).await?,
        }
        let mut in_hand = self.in_hand.lock().unwrap_or_else(PoisonError::into_inner);
        for document in documents {
            in_hand.remove(&document);
        }
        Ok(())
    }

    /// Leaves out what has moved on; the attempts made at the rest.
    async fn current(&self, batch: Vec<Work>) -> Result<(Vec<Work>, HashMap<DocumentId, u32>), RunError> {
        let ids: Vec<_> = batch.iter().map(|work| work.doc).collect();
        let known = self
            .readers
            .with(move |reader| {
                let mut known = HashMap::new();
                for id in ids {
                    if let Some(record) = reader.record(id)? {
                        known.insert(id, (record.revision, record.attempts));
                    }
                }
                Ok(known)
            })
            .await?;
        let is_current =
            |work: &Work| known.get(&work.doc).is_some_and(|(revision, _)| *revision == work.revision);
        let batch = batch.into_iter().filter(is_current).collect();
        Ok((batch, known.into_iter().map(|(id, (_, attempts))| (id, attempts)).collect()))
    }

    /// Keeps the texts, whatever becomes of the sink.
    async fn keep(&self, work: Vec<Work>) -> Result<Vec<Work>, RunError> {
        self.with_store(move |store| {
            let text = |work: &Work| Some((work.keep?, work.entry.as_ref()?.text.clone()));
            let texts: Vec<_> = work.iter().filter_map(text).collect();
            let texts: Vec<_> = texts.iter().map(|(hash, text)| (*hash, &**text)).collect();
            store.texts.keep(&texts)?;
            Ok(work)
        })
        .await
    }

    /// Makes it true in the sink, then says so in the ledger.
    async fn deliver(
        &mut self,
        mut work: Vec<Work>,
        attempts: &HashMap<DocumentId, u32>,
    ) -> Result<(), RunError> {
        if work.is_empty() {
            return Ok(());
        }
        let mut tries = 0;
        let refused = loop {
            let (offered, outcome) = self.offer(work).await?;
            (work, tries) = (offered, tries + 1);
            let error = match outcome {
                Ok(refused) => break refused,
                Err(error) => error,
            };
            tracing::warn!(why = error.line(), tries, "the index did not take a batch");
            let Some(delay) = retry::batch_delay_ms(tries, desk::random()) else {
                let fault = self.delivery.refused(&error);
                self.delivery.not_taken(&work, &fault).await?;
                return self.unsent(work, attempts, &fault, true).await;
            };
            tokio::time::sleep(Duration::from_millis(delay)).await;
        };
        self.delivery.taken(work.len());
        self.acknowledged(work, attempts, &refused).await
    }

    /// The sink has taken it, or refused some of it for good: the ledger says so, and texts that nobody has any more go.
    async fn acknowledged(
        &self,
        work: Vec<Work>,
        attempts: &HashMap<DocumentId, u32>,
        refused: &Refused,
    ) -> Result<(), RunError> {
        let mut texts = self.texts_before(&work).await?;
        let kept: Vec<_> = work.iter().map(|work| Some((work.doc, work.keep?))).collect();
        let event = |work: Work| {
            let attempts = attempts.get(&work.doc).copied().unwrap_or(0);
            self.delivery.written(work, attempts, refused)
        };
        let events = work.into_iter().map(event).collect::<Vec<_>>();
        let applied = self.ledger.append(events, Durability::Synced).await?;
        for (kept, applied) in kept.into_iter().zip(&applied) {
            let in_vain =
                |doc: &DocumentId| refused.contains_key(doc) || matches!(applied, Applied::Overtaken(_));
            texts.extend(kept.filter(|(doc, _)| in_vain(doc)).map(|(_, text)| text));
        }
        self.put_right(applied).await?;
        self.forget(texts).await
    }

    /// Offers a batch to the sink, once. The batch is given back; an error that is not the sink's own ends the run.
    async fn offer(&self, work: Vec<Work>) -> Result<(Vec<Work>, Result<Refused, SinkError>), RunError> {
        let done = self
            .with_store(move |store| match into_index(store, &work) {
                Err(error) if !error.is_outage() => Err(error),
                outcome => Ok((work, outcome)),
            })
            .await?;
        if done.1.is_ok() {
            fault_point::reach(Point::BetweenIndexAndLedger);
        }
        Ok(done)
    }

    /// What has not gone into the sink is recorded with all that is needed to write it later.
    async fn unsent(
        &mut self,
        work: Vec<Work>,
        attempts: &HashMap<DocumentId, u32>,
        fault: &Fault,
        attempted: bool,
    ) -> Result<(), RunError> {
        let events = self.delivery.unsent(work, attempts, fault, attempted);
        if !events.is_empty() {
            if !std::mem::replace(&mut self.noted, true) {
                sweep::note(&self.ledger).await?;
            }
            self.ledger.append(events, Durability::Synced).await?;
        }
        Ok(())
    }

    /// Offers one of the documents that wait, or nothing where none does; what the sink says closes its breaker, or keeps it open.
    async fn probe(&mut self) -> Result<(), RunError> {
        if self.delivery.held().is_none() {
            return Ok(());
        }
        let waiting = self.readers.with(|reader| reader.unsent(None, 1)).await?;
        let due = waiting.into_iter().map(|(doc, revision)| Event {
            doc,
            expects: Some(revision),
            at: desk::now(),
            change: Change::Due,
        });
        let due = self.ledger.append(due.collect(), Durability::Journal).await?;
        let (mut work, mut attempts) = (Vec::new(), HashMap::new());
        for applied in due {
            let Applied::Changed(record) = applied else { continue };
            attempts.insert(record.id, record.attempts);
            work.extend(self.waiting(*record).await?);
        }
        let (work, outcome) = self.offer(work).await?;
        self.delivery.probed(outcome.as_ref().err()).await?;
        match outcome {
            Ok(refused) => self.acknowledged(work, &attempts, &refused).await,
            Err(error) => {
                let fault = self.delivery.refused(&error);
                self.unsent(work, &attempts, &fault, false).await
            }
        }
    }

    /// The work that a waiting document still is; `None` where its text is lost.
    async fn waiting(&self, record: Record) -> Result<Option<Work>, RunError> {
        let Some(hash) = record.unsent.as_ref().map(|unsent| unsent.in_sink.text) else { return Ok(None) };
        let text = self.with_store(move |store| store.texts.sound(hash)).await?;
        let again = text.and_then(|text| delivery::again(&record, text));
        Ok(again.map(|(change, entry)| Work {
            doc: record.id,
            revision: record.revision,
            change,
            entry: Some(entry),
            keep: None,
            room: None,
        }))
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

fn into_index(store: &mut Store, work: &[Work]) -> Result<Refused, SinkError> {
    let mut batch = Batch::default();
    for work in work {
        match &work.entry {
            None => batch.removals.push(work.doc),
            Some(entry) => batch.writes.push(entry.clone()),
        }
    }
    fault_point::reach(Point::BeforeIndexCommit);
    let refused = store.index.commit(&batch)?;
    Ok(refused.into_iter().map(|refused| (refused.id, refused)).collect())
}

fn back_to_the_ledger(store: &mut Store, records: &[Record]) -> Result<(), SinkError> {
    let mut batch = Batch::default();
    // What the sink refuses of these it has refused before: the ledger does not say that it is there.
    for record in records {
        let text = match &record.in_sink {
            Some(in_sink) => match store.texts.get(in_sink.text) {
                // It is made anew when the document is carried again.
                Err(SinkError::Damaged { .. }) => None,
                text => text?.map(|text| (in_sink.state, text)),
            },
            None => None,
        };
        match text {
            None => batch.removals.push(record.id),
            Some((state, text)) => batch.writes.push(delivery::entry(record, state, text)),
        }
    }
    store.index.commit(&batch)?;
    Ok(())
}
