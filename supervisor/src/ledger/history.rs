//! What the events tell: every attempt on a document, and the whole ledger anew.

use super::books::Moves;
use super::event::{Change, Event, Facts};
use super::record::{Millis, Record};
use super::row::{damaged, unsigned};
use crate::rules::account::{self, LOST, Verdict};
use crate::rules::fault::{Evidence, Fault};
use crate::rules::kind::{Kind, Stage};
use rusqlite::types::FromSqlError;
use rusqlite::{Connection, Row};
use serde_json::{Value, json};
use shared::DocumentId;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// One attempt, as `show` tells it: an object with stable keys.
pub type Attempt = Value;

/// Every attempt on a document, oldest first. They are counted over the document's whole life. An attempt that was put
/// back has not been; one that was overtaken has, with the end that it came to.
pub(super) fn history(db: &Connection, id: DocumentId) -> rusqlite::Result<Vec<Attempt>> {
    let mut statement = db.prepare_cached(
        "SELECT ?1, at, expects, change, revision FROM events
         WHERE doc = (SELECT number FROM documents WHERE id = ?1) ORDER BY seq",
    )?;
    let mut rows = statement.query([id.0])?;
    let mut attempts = Vec::new();
    while let Some(row) = rows.next()? {
        let overtaken = row.get::<_, Option<i64>>(4)?.is_none();
        fold(&mut attempts, &event(row)?, overtaken);
    }
    Ok(attempts.into_iter().enumerate().map(|(n, attempt)| attempt.told(n + 1)).collect())
}

/// Calls `each` with every event, oldest first, until it says stop.
pub(super) fn events(
    db: &Connection,
    each: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached(
        "SELECT documents.id, events.at, events.expects, events.change FROM events
         JOIN documents ON documents.number = events.doc ORDER BY events.seq",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if each(event(row)?).is_break() {
            break;
        }
    }
    Ok(())
}

/// Reads `id, at, expects, change`.
fn event(row: &Row<'_>) -> rusqlite::Result<Event> {
    let change = row.get_ref(3)?.as_str().map_err(|error| damaged(3, error))?;
    Ok(Event {
        doc: DocumentId(row.get(0)?),
        at: row.get(1)?,
        expects: row.get::<_, Option<i64>>(2)?.map(|_| unsigned(row, 2)).transpose()?,
        change: serde_json::from_str(change)
            .map_err(|error| damaged(3, FromSqlError::Other(error.into())))?,
    })
}

/// Records by id, and counters by source and name.
pub type Rebuilt = (BTreeMap<DocumentId, Record>, BTreeMap<(i64, &'static str), i64>);

/// The records that these events make from nothing, and how far they move the counters.
pub fn rebuild(events: impl IntoIterator<Item = Event>) -> Rebuilt {
    let mut records: BTreeMap<DocumentId, Record> = BTreeMap::new();
    let mut moves = Moves::default();
    for event in events {
        let old = records.get(&event.doc);
        if let Verdict::Changed(new) = account::apply(old, &event) {
            moves.note(old, &new);
            records.insert(event.doc, *new);
        }
    }
    (records, moves.0.into_iter().map(|((source, state), n)| ((source.0, state), n)).collect())
}

struct Told {
    stage: Stage,
    fault: Option<Fault>,
    started: Millis,
    ended: Option<Millis>,
    facts: Facts,
}

fn fold(attempts: &mut Vec<Told>, event: &Event, overtaken: bool) {
    if let Change::Started { stage, .. } = event.change {
        if !overtaken {
            let facts = Facts::default();
            attempts.push(Told { stage, fault: None, started: event.at, ended: None, facts });
        }
        return;
    }
    if attempts.last().is_none_or(|last| last.ended.is_some()) {
        // A text that the sink did not take was offered again, and nothing else was done.
        let was_unsent = attempts.last().is_some_and(Told::is_unsent);
        let offered = match event.change {
            Change::Written { .. } => was_unsent,
            Change::Unsent { attempted, .. } => attempted,
            _ => false,
        };
        if !offered {
            return;
        }
        let facts = Facts::default();
        attempts.push(Told { stage: Stage::Write, fault: None, started: event.at, ended: None, facts });
    }
    if matches!(event.change, Change::PutBack | Change::Held { attempted: true, .. }) {
        attempts.pop();
        return;
    }
    let Some(open) = attempts.last_mut() else { return };
    match &event.change {
        Change::Failed { fault, facts, .. } => open.end(event.at, fault.stage, Some(fault), Some(facts)),
        Change::Unsent { fault, unsent, .. } => {
            open.end(event.at, fault.stage, Some(fault), Some(&unsent.facts));
        }
        Change::Written { fault, facts, .. } => {
            let stage = fault.as_ref().map_or(Stage::Write, |fault| fault.stage);
            open.end(event.at, stage, fault.as_deref(), Some(facts));
        }
        Change::Rejected { fault } => open.end(event.at, fault.stage, Some(fault), None),
        Change::Lost { stage, .. } => {
            open.end(event.at, *stage, Some(&Fault::new(*stage, Kind::SupervisorLost, LOST)), None);
        }
        _ => {}
    }
}

impl Told {
    fn is_unsent(&self) -> bool {
        self.stage == Stage::Write && self.fault.is_some()
    }

    fn end(&mut self, at: Millis, stage: Stage, fault: Option<&Fault>, facts: Option<&Facts>) {
        self.ended = Some(at);
        self.stage = stage;
        self.fault = fault.cloned();
        self.facts = facts.cloned().unwrap_or_default();
    }

    fn told(self, number: usize) -> Attempt {
        let of_fault = self.fault.as_ref().map(|fault| &fault.evidence);
        let evidence =
            of_fault.filter(|evidence| **evidence != Evidence::default()).or(self.facts.evidence.as_ref());
        json!({
            "attempt": number,
            "stage": self.stage,
            "kind": self.fault.as_ref().map(|fault| fault.kind),
            "class": self.fault.as_ref().and_then(|fault| fault.class),
            "message": self.fault.as_ref().map(|fault| &fault.message).filter(|message| !message.is_empty()),
            "started": rfc3339(self.started),
            "ended": self.ended.map(rfc3339),
            "pipeline": self.facts.pipeline,
            "damage": self.facts.damage,
            "usage": self.facts.usage,
            "evidence": evidence,
        })
    }
}

/// RFC 3339 in UTC with milliseconds. What lies outside of the calendar is told as its first moment.
fn rfc3339(at: Millis) -> String {
    let at = jiff::Timestamp::from_millisecond(at).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{at:.3}")
}
