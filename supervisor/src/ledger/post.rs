//! Posts events to the tables, inside of a transaction that the caller has opened: the record's row, the event itself,
//! what a listing compares, who is in hand, and the counters. Holds no record between two calls, so that another
//! process may append as well.

use super::Applied;
use super::books::Moves;
use super::event::{Change, Event};
use super::items::{self, Directories};
use super::record::{Record, Task};
use super::row::{self, Stored};
use crate::rules::account::{self, Verdict};
use crate::rules::kind::State;
use rusqlite::{CachedStatement, Connection, OptionalExtension};

/// Posts events over one transaction.
#[derive(Debug)]
pub(super) struct Posting<'a> {
    db: &'a Connection,
    moves: Moves,
    directories: &'a mut Directories,
}

impl<'a> Posting<'a> {
    pub(super) fn new(db: &'a Connection, directories: &'a mut Directories) -> Self {
        Posting { db, moves: Moves::default(), directories }
    }

    /// Applies one event and stores what it does.
    pub(super) fn post(&mut self, event: &Event) -> rusqlite::Result<Applied> {
        let stored = find(self.db, event)?;
        let old = stored.as_ref().map(|stored| &stored.record);
        match account::apply(old, event) {
            Verdict::Changed(new) => {
                let number = self.store(stored.as_ref(), &new, event)?;
                self.note_in_hand(number, &event.change)?;
                self.moves.note(old, &new);
                self.befall_members(&new, event)?;
                Ok(Applied::Changed(new))
            }
            Verdict::Overtaken => {
                if let Some(stored) = &stored {
                    self.journal(stored.number, event, None)?;
                    if ends_an_attempt(&event.change) {
                        self.note_in_hand(stored.number, &event.change)?;
                    }
                }
                Ok(Applied::Overtaken(stored.map(|stored| Box::new(stored.record))))
            }
        }
    }

    /// What befalls a container befalls all below it: gone with it, or excluded under the same policy.
    fn befall_members(&mut self, container: &Record, event: &Event) -> rusqlite::Result<()> {
        if !matches!(event.change, Change::Gone | Change::Rejected { .. }) {
            return Ok(());
        }
        let members: Vec<[u8; 20]> = self
            .db
            .prepare_cached(
                "SELECT id FROM documents WHERE parent = ?1 AND state != 'deleted' ORDER BY position",
            )?
            .query_map([container.id.0], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        for member in members {
            self.post(&Event { doc: shared::DocumentId(member), expects: None, ..event.clone() })?;
        }
        Ok(())
    }

    /// Writes what was collected. To be called once, before the commit.
    pub(super) fn finish(self) -> rusqlite::Result<()> {
        self.moves.write(self.db)
    }

    fn store(&mut self, stored: Option<&Stored>, new: &Record, event: &Event) -> rusqlite::Result<i64> {
        let number = match stored {
            Some(stored) => {
                let seq = self.journal(stored.number, event, Some(new.revision))?;
                let queue = queue(stored, new, &event.change, seq);
                let mut statement = self.db.prepare_cached(row::UPDATE)?;
                row::bind(&mut statement, new, queue)?;
                statement.raw_execute()?;
                stored.number
            }
            None => {
                let number = self.insert(new)?;
                let seq = self.journal(number, event, Some(new.revision))?;
                if new.task.is_some() {
                    let mut statement =
                        self.db.prepare_cached("UPDATE documents SET queue = ?2 WHERE number = ?1")?;
                    statement.execute((number, seq))?;
                }
                number
            }
        };
        if new.parent.is_none() {
            items::store(self.db, self.directories, stored.map(|stored| &stored.record), new)?;
        }
        Ok(number)
    }

    fn insert(&self, new: &Record) -> rusqlite::Result<i64> {
        let mut statement = self.db.prepare_cached(row::INSERT)?;
        row::bind(&mut statement, new, None)?;
        statement.raw_bind_parameter(15, new.source.0)?;
        statement.raw_bind_parameter(16, new.identity.encode())?;
        statement.raw_bind_parameter(17, new.identity.shown())?;
        statement.raw_bind_parameter(18, new.parent.map(|parent| parent.0))?;
        statement.raw_bind_parameter(19, (new.root != new.id).then_some(new.root.0))?;
        statement.raw_execute()?;
        Ok(self.db.last_insert_rowid())
    }

    fn journal(&self, number: i64, event: &Event, revision: Option<u64>) -> rusqlite::Result<i64> {
        let mut statement: CachedStatement<'_> = self.db.prepare_cached(
            "INSERT INTO events (doc, at, expects, revision, change) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        let expects = event.expects.map(row::signed).transpose()?;
        let revision = revision.map(row::signed).transpose()?;
        statement.insert((number, event.at, expects, revision, row::json(&event.change)?))
    }

    fn note_in_hand(&self, number: i64, change: &Change) -> rusqlite::Result<()> {
        if let Change::Started { stage, alone } = change {
            let mut statement = self
                .db
                .prepare_cached("INSERT OR REPLACE INTO in_hand (doc, stage, alone) VALUES (?1, ?2, ?3)")?;
            statement.execute((number, stage.name(), alone))?;
        } else if ends_an_attempt(change) {
            self.db.prepare_cached("DELETE FROM in_hand WHERE doc = ?1")?.execute([number])?;
        }
        Ok(())
    }
}

fn find(db: &Connection, event: &Event) -> rusqlite::Result<Option<Stored>> {
    db.prepare_cached(row::FIND)?.query_row([event.doc.0], row::read).optional()
}

/// After these nothing has the document in hand. What a listing or a person says does not take it out of a child's
/// hands: the end of the attempt does, overtaken or not.
fn ends_an_attempt(change: &Change) -> bool {
    match change {
        Change::Ready
        | Change::Failed { .. }
        | Change::Written { .. }
        | Change::Unsent { .. }
        | Change::Rejected { .. }
        | Change::Left
        | Change::PutBack
        | Change::Same { .. }
        | Change::Held { .. }
        | Change::Lost { .. } => true,
        Change::Seen(_)
        | Change::Started { .. }
        | Change::Fetched { .. }
        | Change::Gone
        | Change::Requeued
        | Change::RequeuedByHand
        | Change::Due
        | Change::Unwritten
        | Change::Touched { .. } => false,
    }
}

/// Where a document now stands in the queue of what is due: at this event's number where the event made it due, where it
/// was if nothing moved, and nowhere at rest or once an attempt has taken it.
fn queue(old: &Stored, new: &Record, change: &Change, seq: i64) -> Option<i64> {
    // What waits for the large lane is taken up one by one, behind all else.
    if new.state != State::Pending || new.task == Some(Task::Large) {
        return None;
    }
    match change {
        Change::Started { .. } => None,
        Change::Fetched { .. } | Change::Ready | Change::Touched { .. } => old.queue,
        // Only what a listing notes beside the bytes has moved.
        Change::Seen(_)
            if old.record.task == new.task && old.record.fetched == new.fetched && !renewed(old, new) =>
        {
            old.queue
        }
        _ => Some(seq),
    }
}

fn renewed(old: &Stored, new: &Record) -> bool {
    new.attempts < old.record.attempts || new.stat != old.record.stat || new.sha256 != old.record.sha256
}
