//! The record of a document: what is known of it and where it stands.

use super::compact;
use super::event::Facts;
use crate::rules::fault::{Evidence, Fault};
use crate::rules::kind::{Class, Damage, Kind, Stage, State, Why};
use serde::{Deserialize, Serialize};
use shared::{ContentHash, DocumentId, Identity};
use std::collections::BTreeMap;

/// Milliseconds since 1970, UTC.
pub type Millis = i64;

/// Names a source inside one ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceId(pub i64);

/// The stage versions that a record was made with.
pub type Pipeline = BTreeMap<Stage, String>;

/// The record of a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub id: DocumentId,
    pub source: SourceId,
    pub identity: Identity,
    /// The container, if it is a member.
    pub parent: Option<DocumentId>,
    /// The outermost item: itself, if it is one.
    pub root: DocumentId,
    /// Position among the members of its container, from 0; 0 for an item.
    pub position: u64,
    /// Raised by every event.
    pub revision: u64,
    pub state: State,
    pub why: Option<Why>,
    pub class: Option<Class>,
    pub kind: Option<Kind>,
    pub stage: Option<Stage>,
    pub message: Option<String>,
    pub hostile: bool,
    /// By the name in [`shared::Format`].
    pub format: Option<String>,
    pub media_type: Option<String>,
    pub size: Option<u64>,
    pub sha256: Option<ContentHash>,
    /// `sha256` is of the bytes that the newest listing saw. False since a listing saw others, until those are fetched:
    /// then `sha256`, the fault and the facts are still those of the bytes before.
    pub fetched: bool,
    /// Nanoseconds since 1970, as the source says.
    pub mtime_ns: Option<i64>,
    /// What the last listing saw of an item; `None` for a member.
    pub stat: Option<Stat>,
    pub attempts: u32,
    /// How often the supervisor died while it had this document alone.
    pub crashes: u32,
    /// To be tried with nothing beside it, since the supervisor died while it had it.
    pub alone: bool,
    /// How often its content was tried where it was last, by another document that has the same; 0 where by itself.
    pub tried: u32,
    /// What sent it to the large lane, until that has had its word: under the ordinary limits it would meet this again, whatever
    /// else befalls it meanwhile. Nothing is beside it there, so that it is never `alone` as well.
    pub large: Option<Box<Fault>>,
    pub first_seen: Millis,
    pub first_failed: Option<Millis>,
    pub last_attempt: Option<Millis>,
    /// When the next attempt is due; with `retrying` and `None`: in the next run.
    pub next_attempt: Option<Millis>,
    pub pipeline: Pipeline,
    pub damage: Option<Damage>,
    pub same_as: Option<DocumentId>,
    pub in_sink: Option<InSink>,
    /// What its sink has not taken yet: while it is `retrying`, or due to be written.
    pub unsent: Option<Box<Unsent>>,
    pub text: Option<TextFacts>,
    pub usage: Option<Usage>,
    pub evidence: Option<Evidence>,
    /// Since when a person wants it tried again: no result of before may be used for it.
    pub requeued_at: Option<Millis>,
    /// How it stood when a listing last saw other times or another size: what it goes back to where the bytes turn out
    /// to be the same.
    pub rested: Option<Box<Record>>,
    /// What has to be done while it is `pending`; `None` at rest.
    pub task: Option<Task>,
    /// A container: whether its newest listing went to the end. `None` for what never listed members.
    pub listed_whole: Option<bool>,
    /// How many members and bytes of members its own listing counted, for the limits over all levels.
    pub listed: Option<Listed>,
}

impl Record {
    /// It is on its way out of the sink, to be `deleted` or `excluded`.
    pub fn is_leaving(&self) -> bool {
        matches!(self.task, Some(Task::Delete | Task::Exclude))
    }

    /// As it looks to a tree that is carried for another document's sake: nothing is due about it.
    #[must_use]
    pub fn passed_by(self) -> Self {
        let state = match self.state {
            State::Pending | State::Retrying => State::Indexed,
            at_rest => at_rest,
        };
        Record { state, alone: false, large: None, task: None, ..self }
    }

    /// The fault that stands in the record, put together again.
    pub fn fault(&self) -> Option<Fault> {
        Some(Fault {
            stage: self.stage?,
            kind: self.kind?,
            class: self.class,
            message: self.message.clone().unwrap_or_default(),
            hostile: self.hostile,
            evidence: self.evidence.clone().unwrap_or_default(),
        })
    }

    /// Who made the result that it has: itself, or the document of the same bytes that it shares it with.
    pub fn maker(&self) -> DocumentId {
        self.same_as.unwrap_or(self.id)
    }
}

/// What is to be done with a pending document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// The whole path.
    Carry,
    /// The whole path once more, under the limits of the large lane: it has met one of the others.
    Large,
    /// Its kept text goes to the sink again, and nothing else.
    Write { state: State },
    /// It leaves the sink; then it is `deleted`.
    Delete,
    /// It leaves the sink; then it is `excluded`: kind, stage and evidence stand in the record already.
    Exclude,
}

/// What a listing sees of an item, and compares for inequality.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stat {
    pub size: u64,
    pub mtime_ns: i64,
    pub ctime_ns: i64,
    pub dev: u64,
    pub ino: u64,
}

/// What can be found in the sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InSink {
    /// The sink's name: `embedded`.
    pub sink: String,
    /// Of the bytes whose text it is.
    #[serde(with = "compact::option", skip_serializing_if = "Option::is_none", default)]
    pub sha256: Option<ContentHash>,
    pub pipeline: Pipeline,
    /// Under which the text is kept.
    #[serde(with = "compact")]
    pub text: ContentHash,
    /// The state it was written with: `indexed` or `suspect`.
    pub state: State,
}

/// What came out of a document whose sink did not take it. The text itself is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unsent {
    pub facts: Box<Facts>,
    /// What the sink will hold.
    pub in_sink: InSink,
    /// What makes it `suspect`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fault: Option<Box<Fault>>,
}

/// What is known of a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TextFacts {
    pub chars: u64,
    pub words: u64,
    /// ISO 639-3, where it could be told.
    pub language: Option<String>,
    /// Between 0 (junk) and 1.
    pub quality: f64,
}

/// What an attempt cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub wall_ms: u64,
    pub cpu_ms: u64,
    pub peak_rss_kib: u64,
}

/// What the listing of one container counted, members of its members not included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub entries: u64,
    pub bytes: u64,
}
