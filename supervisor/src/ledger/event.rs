//! Events: the only way in which the ledger changes. Each names the document and the revision it applies to, so that
//! applying it again changes nothing.

use super::compact;
use super::record::{InSink, Listed, Millis, Pipeline, SourceId, Stat, TextFacts, Unsent, Usage};
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
    Fetched {
        #[serde(with = "compact")]
        sha256: ContentHash,
        size: u64,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        format: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        media_type: Option<String>,
    },
    /// Its child has ended and it waits for the sink's commit: no stage has it in hand any more, so that a death of the
    /// supervisor is not put down to it. Changes no state.
    Ready,
    /// The attempt failed and goes where `settle` says. What is in the sink stays there.
    Failed { fault: Box<Fault>, settle: Settle, facts: Box<Facts> },
    /// The sink has acknowledged its text.
    Written {
        state: State,
        facts: Box<Facts>,
        in_sink: InSink,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        fault: Option<Box<Fault>>,
    },
    /// The sink did not take its text, which is kept; it goes where `settle` says. `attempted`: the text was offered, and
    /// not just held back because a breaker is open.
    Unsent { fault: Box<Fault>, settle: Settle, unsent: Box<Unsent>, attempted: bool },
    /// A policy rejects it. `pending` with the task to leave the sink where it is in one; else `excluded` at once.
    Rejected { fault: Box<Fault> },
    /// It is gone from its source or its container. `pending` with the task to leave the sink where it is in one; else
    /// `deleted` at once.
    Gone,
    /// The sink has acknowledged its removal: `deleted` or `excluded`, as its task says.
    Left,
    /// To be carried again, since something changed that its fault or its text depends on: `pending`, attempts 0.
    Requeued,
    /// To be carried again, since a person says so: as `Requeued`, and no earlier result may be used for it.
    RequeuedByHand,
    /// What it was waiting for is there again: `pending`, with its attempts as they were.
    Due,
    /// A breaker is open: `retrying` without a time, until it closes. `attempted`: an attempt was begun, which does not
    /// count.
    Held { fault: Box<Fault>, attempted: bool },
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
    #[serde(with = "compact")]
    pub identity: Identity,
    /// Where a member lies; `None` for an item.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub within: Option<Within>,
    pub position: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mtime_ns: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stat: Option<Stat>,
    /// Known already for a member: its bytes were spooled and hashed with the listing.
    #[serde(with = "compact::option", skip_serializing_if = "Option::is_none", default)]
    pub sha256: Option<ContentHash>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fault: Option<Box<Fault>>,
    /// With `fault`, and not for `rejected`: where it goes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub settle: Option<Settle>,
    /// With `fault`: where the damage is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub damage: Option<Damage>,
}

impl Seen {
    /// An item of which nothing but its name is known.
    pub fn named(source: SourceId, identity: Identity) -> Self {
        Seen {
            source,
            identity,
            within: None,
            position: 0,
            size: None,
            mtime_ns: None,
            stat: None,
            sha256: None,
            fault: None,
            settle: None,
            damage: None,
        }
    }
}

/// The containers around a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Within {
    /// The one that it lies in.
    #[serde(with = "compact")]
    pub container: DocumentId,
    /// The outermost item.
    #[serde(with = "compact")]
    pub root: DocumentId,
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
    /// `pending` for the large lane.
    Large,
}

/// What an attempt found out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    #[serde(with = "compact::option", skip_serializing_if = "Option::is_none", default)]
    pub sha256: Option<ContentHash>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub media_type: Option<String>,
    #[serde(skip_serializing_if = "Pipeline::is_empty", default)]
    pub pipeline: Pipeline,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub text: Option<TextFacts>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub evidence: Option<Evidence>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub damage: Option<Damage>,
    #[serde(with = "compact::option", skip_serializing_if = "Option::is_none", default)]
    pub same_as: Option<DocumentId>,
    /// How often the content was tried by whoever made it; with `same_as`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tried: Option<u32>,
    /// What the fetch's own stat saw, for an item.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stat: Option<Stat>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub listed_whole: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub listed: Option<Listed>,
}
