//! What follows when the sink does not take what it is given.
//!
//! A batch is offered a few times. Then its documents are `retrying`: their texts are kept, and only the write is missing.
//! Where that befalls most of what is written the sink's breaker opens: nothing is offered any more, and from time to time
//! one document is. What waits is released by the connectors, once a probe has passed. It does not know how a sink is
//! written to; the writer does.

use super::RunError;
use super::alerts::{Alerts, Topic};
use super::desk::{now, random};
use super::writer::Work;
use crate::ledger::{Change, Event, Facts, InSink, LedgerHandle, Record, Settle, Task, Unsent};
use crate::report::style::count;
use crate::report::time;
use crate::rules::breaker::{Breaker, Scope, Window};
use crate::rules::fault::Fault;
use crate::rules::kind::{Kind, Stage, State};
use crate::rules::retry::{self, Lane, Rules};
use crate::settings::Settings;
use crate::sink::{Entry, NotTaken, SinkError, embedded};
use shared::DocumentId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Documents whose text the sink refuses.
pub(super) type Refused = HashMap<DocumentId, NotTaken>;

/// What connectors may know of the sink.
#[derive(Debug, Default)]
pub struct SinkState {
    /// Why its breaker is open.
    down: Mutex<Option<String>>,
    /// How often it has closed in this run.
    closings: AtomicU64,
}

impl SinkState {
    /// Why its breaker is open, if it is.
    pub fn down(&self) -> Option<String> {
        self.down.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often its breaker has closed in this run.
    pub fn closings(&self) -> u64 {
        self.closings.load(Ordering::Relaxed)
    }

    fn set(&self, down: Option<String>) {
        *self.down.lock().unwrap_or_else(PoisonError::into_inner) = down;
    }
}

/// The writer's side of it.
pub(super) struct Delivery {
    settings: Arc<Settings>,
    ledger: LedgerHandle,
    alerts: Alerts,
    state: Arc<SinkState>,
    window: Window<(), ()>,
    open: Option<Breaker>,
}

impl Delivery {
    /// `open`: the breaker as an earlier run left it.
    pub(super) fn new(
        settings: Arc<Settings>,
        ledger: LedgerHandle,
        alerts: Alerts,
        state: Arc<SinkState>,
        open: Option<Breaker>,
    ) -> Self {
        state.set(open.as_ref().map(|breaker| breaker.message.clone()));
        Delivery { settings, ledger, alerts, state, window: Window::default(), open }
    }

    /// Why nothing is offered, if the breaker is open.
    pub(super) fn held(&self) -> Option<Fault> {
        let breaker = self.open.as_ref()?;
        let message = format!(
            "not offered: the sink's breaker is open since {}: {}; its text is kept, and a probe that passes makes it due",
            time::utc(breaker.since),
            breaker.message
        );
        Some(self.fault(message))
    }

    /// Whether it is time to offer one document although the breaker is open.
    pub(super) fn probe_is_due(&self) -> bool {
        self.open.as_ref().is_some_and(|breaker| breaker.probe_is_due(&self.settings.retry, now()))
    }

    /// What the documents of a batch are told that was offered in vain.
    pub(super) fn refused(&self, error: &SinkError) -> Fault {
        self.fault(error.line())
    }

    fn fault(&self, message: String) -> Fault {
        let mut fault = Fault::new(Stage::Write, Kind::SinkUnavailable, message);
        self.settings.classify(&mut fault);
        fault
    }

    /// So many writes were taken.
    pub(super) fn taken(&mut self, writes: usize) {
        let policy = self.settings.breakers.sink;
        for _ in 0..writes.min(policy.window) {
            self.window.note(None, (), policy);
        }
    }

    /// This batch was not. Opens the breaker where that is enough; so does a removal, since what is on its way out has no
    /// time of its own at which it is tried again.
    pub(super) async fn not_taken(&mut self, batch: &[Work], fault: &Fault) -> Result<(), RunError> {
        let policy = self.settings.breakers.sink;
        let opened = batch.iter().find_map(|_| self.window.note(Some(()), (), policy));
        let removes = batch.iter().any(|work| work.entry.is_none());
        let failures = match opened {
            Some((_, failures)) => failures.len() as u64,
            None if removes && policy.window == 0 => {
                return Err(RunError::SinkDown { why: fault.message.clone() });
            }
            None if removes => batch.len() as u64,
            None => return Ok(()),
        };
        let retry = &self.settings.retry;
        let breaker = Breaker::open(fault.kind, fault.message.clone(), failures, retry, random(), now());
        self.store(Some(breaker)).await?;
        let words = format!(
            "the {} index did not take the last {} ({}: {}); its breaker is open: texts are kept, nothing is offered, and a \
             probe that passes makes all of it due",
            embedded::NAME,
            count(failures, "write", "writes"),
            fault.kind,
            fault.message
        );
        self.alerts.raise(Topic::Breaker, None, &words);
        Ok(())
    }

    /// How the offer of one document went while the breaker was open.
    pub(super) async fn probed(&mut self, error: Option<&SinkError>) -> Result<(), RunError> {
        let Some(breaker) = self.open.take() else { return Ok(()) };
        match error {
            None => {
                self.store(None).await?;
                self.state.closings.fetch_add(1, Ordering::Relaxed);
            }
            Some(error) => {
                let still = breaker.probed(error.line(), &self.settings.retry, random(), now());
                self.store(Some(still)).await?;
            }
        }
        Ok(())
    }

    async fn store(&mut self, breaker: Option<Breaker>) -> Result<(), RunError> {
        self.ledger.breaker(Scope::Sink, embedded::NAME, breaker.as_ref()).await?;
        self.state.set(breaker.as_ref().map(|breaker| breaker.message.clone()));
        self.open = breaker;
        Ok(())
    }

    /// The documents of a batch that has not gone into the sink: what has a text is `retrying`, with it; what was to leave the
    /// sink stays on its way out. `attempted`: it was offered.
    pub(super) fn unsent(
        &self,
        batch: Vec<Work>,
        attempts: &HashMap<DocumentId, u32>,
        fault: &Fault,
        attempted: bool,
    ) -> Vec<Event> {
        let event = |work: Work| {
            let Change::Written { facts, in_sink, fault: of, .. } = work.change else { return None };
            // The attempt that made the text was counted at its start; each further offer is one more.
            let again = u32::from(attempted && work.keep.is_none());
            let made = attempts.get(&work.doc).copied().unwrap_or(0).saturating_add(again).max(1);
            let settle = match &self.open {
                Some(_) => Settle::Retry { next_attempt: None },
                None => self.settle(fault, made),
            };
            let unsent = Box::new(Unsent { facts, in_sink, fault: of });
            let change = Change::Unsent { fault: Box::new(fault.clone()), settle, unsent, attempted };
            Some(Event { doc: work.doc, expects: Some(work.revision), at: now(), change })
        };
        batch.into_iter().filter_map(event).collect()
    }

    /// What the sink has acknowledged, or for good refuses.
    pub(super) fn written(&self, work: Work, attempts: u32, refused: &Refused) -> Event {
        let change = match refused.get(&work.doc) {
            None => work.change,
            Some(refused) => {
                let mut fault = Fault::new(Stage::Write, Kind::SinkRejected, refused.message.clone());
                self.settings.classify(&mut fault);
                let settle = self.settle(&fault, attempts);
                let facts = match work.change {
                    Change::Written { facts, .. } => facts,
                    _ => Box::default(),
                };
                Change::Failed { fault: Box::new(fault), settle, facts }
            }
        };
        Event { doc: work.doc, expects: Some(work.revision), at: now(), change }
    }

    fn settle(&self, fault: &Fault, attempts: u32) -> Settle {
        let rules = Rules { retry: &self.settings.retry, kinds: &self.settings.kinds, large: None };
        retry::decide(fault, attempts, Lane::Normal, rules, random(), now())
    }
}

/// What the sink should hold of this document, once more: what it has not taken yet, else what it had. `None` where neither
/// is known.
pub(super) fn again(record: &Record, text: String) -> Option<(Change, Entry)> {
    let change = match (&record.unsent, &record.in_sink) {
        (Some(unsent), _) => Change::Written {
            state: unsent.in_sink.state,
            facts: unsent.facts.clone(),
            in_sink: unsent.in_sink.clone(),
            fault: unsent.fault.clone(),
        },
        (None, Some(in_sink)) => written_again(record, in_sink),
        (None, None) => return None,
    };
    let Change::Written { state, .. } = &change else { return None };
    let entry = entry(record, *state, text);
    Some((change, entry))
}

/// What the sink is given of a document whose text was kept.
pub(super) fn entry(record: &Record, state: State, text: String) -> Entry {
    let unsent = record.unsent.as_deref();
    let of = [
        unsent.and_then(|unsent| unsent.facts.evidence.as_ref()),
        unsent.and_then(|unsent| Some(&unsent.fault.as_ref()?.evidence)),
        record.evidence.as_ref(),
    ];
    let title = of.into_iter().flatten().find_map(|evidence| evidence.metadata.as_ref()?.title.clone());
    Entry { id: record.id, title, path: record.identity.shown(), state, text: text.into() }
}

fn written_again(record: &Record, in_sink: &InSink) -> Change {
    let state = match record.task {
        Some(Task::Write { state }) => state,
        _ => in_sink.state,
    };
    let fault = record.fault().filter(|_| state == State::Suspect).map(Box::new);
    // Who made the result has not changed.
    let facts = Facts { same_as: record.same_as, tried: Some(record.tried), ..Facts::default() };
    let in_sink = InSink { state, ..in_sink.clone() };
    Change::Written { state, facts: Box::new(facts), in_sink, fault }
}
