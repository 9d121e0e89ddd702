//! Events: the only way in which the ledger changes. Each names the document and the revision it applies to, so that
//! applying it again changes nothing.

use super::record::{InSink, Listed, Millis, Pipeline, SourceId, Stat, TextFacts, Usage};
use crate::rules::fault::{Evidence, Fault};
use crate::rules::kind::{Damage, Stage, State, Why};
use serde::{Deserialize, Serialize};
use shared::{ContentHash, DocumentId, Identity};

/// One event on one document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub doc: DocumentId,
    /// The revision that the document must have; 0: it has no record yet; `None`: any. An event with another
    /// revision is overtaken: it is kept as history and changes nothing.
    pub expects: Option<u64>,
    pub at: Millis,
    pub change: Change,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// A listing has it: for the first time, with other bytes than before, or again after it was gone. `pending`, with
    /// fresh attempts; or at rest at once where `fault` says so (a policy: `excluded`; a name or an entry that could
    /// not be read: `settle` says where it goes).
    Seen(Box<Seen>),
    /// A stage takes it in hand: journaled before any byte of it is read. Counts the attempt.
    Started { stage: Stage, alone: bool },
    /// Found out on the way; journaled for evidence and for the next listing. Changes no state.
    Fetched { sha256: ContentHash, size: u64, format: Option<String>, media_type: Option<String> },
    /// The attempt failed and goes where `settle` says. What is in the sink stays there.
    Failed { fault: Box<Fault>, settle: Settle, facts: Box<Facts> },
    /// The sink has acknowledged its text.
    Written { state: State, facts: Box<Facts>, in_sink: InSink, fault: Option<Box<Fault>> },
    /// A policy rejects it. `pending` with the task to leave the sink where it is in one; else `excluded` at once.
    Rejected { fault: Box<Fault> },
    /// It is gone from its source or its container. `pending` with the task to leave the sink where it is in one; else
    /// `deleted` at once.
    Gone,
    /// The sink has acknowledged its removal: `deleted` or `excluded`, as its task says.
    Left,
    /// To be carried again: `pending`, attempts 0.
    Requeued,
    /// What the sink should hold is not there: `pending`, to be written from its kept text.
    Unwritten,
    /// It was in hand and not finished when the supervisor stopped cleanly: as if that attempt had not been.
    PutBack,
    /// It was in hand when the supervisor died.
    Lost { stage: Stage, alone: bool, settle: Settle },
    /// It was carried because a listing saw other times or another size, and the bytes are the same: it goes back to how
    /// it stood.
    Same { stat: Option<Stat> },
    /// Only what a listing sees moved (times, inode), the bytes are the same.
    Touched { stat: Stat },
}

/// What a listing sees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    pub source: SourceId,
    pub identity: Identity,
    pub position: u64,
    pub size: Option<u64>,
    pub mtime_ns: Option<i64>,
    pub stat: Option<Stat>,
    /// Known already for a member: its bytes were spooled and hashed with the listing.
    pub sha256: Option<ContentHash>,
    pub fault: Option<Box<Fault>>,
    /// With `fault`, and not for `rejected`: where it goes.
    pub settle: Option<Settle>,
}

/// Where a failed document goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settle {
    /// Another attempt is due at this time; `None`: in the next run.
    Retry {
        next_attempt: Option<Millis>,
    },
    Quarantine {
        why: Why,
    },
    /// Text came out, and the document is `suspect`: goes through [`Change::Written`], never through `Failed`.
    Suspect,
    Exclude,
    /// Due at once, in this run or the next, with the attempt counted.
    AtOnce,
}

/// What an attempt found out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    pub sha256: Option<ContentHash>,
    pub size: Option<u64>,
    pub format: Option<String>,
    pub media_type: Option<String>,
    pub pipeline: Pipeline,
    pub text: Option<TextFacts>,
    pub usage: Option<Usage>,
    pub evidence: Option<Evidence>,
    pub damage: Option<Damage>,
    pub same_as: Option<DocumentId>,
    /// What the fetch's own stat saw, for an item.
    pub stat: Option<Stat>,
    pub listed_whole: Option<bool>,
    pub listed: Option<Listed>,
}
