//! The store of all records, good and bad alike: SQLite in WAL mode, in the state folder.
//!
//! It changes only by [`Event`]s. One thread writes; it takes what waits for it, applies the events one by one through
//! the pure [`crate::rules::account::apply`], and commits them as one transaction. Readers have connections of their own.
//! No SQL is anywhere else.

mod books;
mod clusters;
mod compact;
mod error;
mod event;
mod history;
mod items;
mod open;
mod post;
mod reader;
mod reader_choice;
mod reader_status;
mod reconcile;
mod record;
mod row;
mod schema;
mod selection;
mod writer;

#[cfg(test)]
mod tests;

pub use books::{Books, Counts};
pub use clusters::Cluster;
pub use error::LedgerError;
pub use event::{Change, Event, Facts, Seen, Settle, Within};
pub use history::{Attempt, Rebuilt, rebuild};
pub use items::KnownItem;
pub use open::Ledger;
pub use reader::{Due, Queue, Reader};
pub use reader_status::{Dues, Standing};
pub use record::{InSink, Listed, Millis, Pipeline, Record, SourceId, Stat, Task, TextFacts, Unsent, Usage};
pub use selection::{Filter, Unresolved, Walk, id_range};
pub use writer::{LedgerHandle, boot_id};

use crate::rules::kind::Stage;
use shared::DocumentId;
use std::path::PathBuf;

/// How safe a transaction must be before it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Survives the death of the supervisor.
    Journal,
    /// Survives the death of the machine.
    Synced,
}

/// What became of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Applied {
    /// It changed the record, which now is this.
    Changed(Box<Record>),
    /// The document has moved on: kept as history, changed nothing. The record as it stands, if there is one.
    Overtaken(Option<Box<Record>>),
}

/// A source as the ledger knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRow {
    pub id: SourceId,
    pub name: String,
    /// The root's absolute path, raw bytes.
    pub root: PathBuf,
    /// The device that the root was on at the last listing that walked it.
    pub root_device: Option<u64>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    Completed,
    Aborted,
    Interrupted,
}

impl RunEnd {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            RunEnd::Completed => "completed",
            RunEnd::Aborted => "aborted",
            RunEnd::Interrupted => "interrupted",
        }
    }

    /// What this word stands for.
    pub fn named(word: &str) -> Option<Self> {
        [RunEnd::Completed, RunEnd::Aborted, RunEnd::Interrupted].into_iter().find(|end| end.name() == word)
    }
}

/// A run as the ledger knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    pub id: i64,
    pub began: Millis,
    /// Of the machine, when it began: another one means that the machine has started anew since.
    pub boot_id: Option<String>,
    /// `None`: it has not ended, or its supervisor died.
    pub ended: Option<Millis>,
    pub end: Option<RunEnd>,
}

/// What was in hand when the ledger was last written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InHand {
    pub doc: DocumentId,
    pub stage: Stage,
    pub alone: bool,
}
