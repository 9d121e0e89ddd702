//! What differs between source, ledger and sink, and what may be done about it. Pure: the sides are handed in, each in the
//! order of its keys, and nothing of them is held but the one at hand.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::fault::Fault;
use super::kind::State;
use crate::ledger::{Change, Record, SourceId, Stat};
use shared::{ContentHash, DocumentId};
use std::iter::Peekable;

/// How two of the three differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DriftKind {
    /// The source has it, the ledger does not.
    Unrecorded,
    /// The ledger has it, the source does not.
    Vanished,
    /// Size, times or inode are others than those recorded.
    Changed,
    /// The ledger says that the sink holds its text, and the sink holds none or another.
    MissingText,
    /// The text that a record refers to is not kept.
    MissingKeptText,
    /// The sink holds a text of what has no record that says so.
    OrphanText,
    /// A text is kept that no record refers to.
    OrphanKeptText,
    /// A directory, a root or a name that cannot be read: what is there cannot be compared.
    Unlistable,
    /// The books do not balance.
    Unbalanced,
}

impl DriftKind {
    /// All of them, in the order in which they are told.
    pub const ALL: &[DriftKind] = &[
        DriftKind::Unrecorded,
        DriftKind::Vanished,
        DriftKind::Changed,
        DriftKind::MissingText,
        DriftKind::MissingKeptText,
        DriftKind::OrphanText,
        DriftKind::OrphanKeptText,
        DriftKind::Unlistable,
        DriftKind::Unbalanced,
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            DriftKind::Unrecorded => "unrecorded",
            DriftKind::Vanished => "vanished",
            DriftKind::Changed => "changed",
            DriftKind::MissingText => "missing_text",
            DriftKind::MissingKeptText => "missing_kept_text",
            DriftKind::OrphanText => "orphan_text",
            DriftKind::OrphanKeptText => "orphan_kept_text",
            DriftKind::Unlistable => "unlistable",
            DriftKind::Unbalanced => "unbalanced",
        }
    }
}

/// What a repair does about a drift. There is nothing else that it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// The item is recorded, as its listing sees it.
    Record,
    /// The document becomes due for `write`.
    WriteAgain,
    /// The text is removed.
    Remove,
}

/// A drift, and what a repair does about it, if anything.
pub type Verdict = (DriftKind, Option<Repair>);

/// What stands under a key.
pub trait Keyed {
    type Key: Ord;
    fn key(&self) -> Self::Key;
}

/// What the ledger says that the sink holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub id: DocumentId,
    pub source: SourceId,
    pub text: ContentHash,
    /// The state that it was written with.
    pub in_sink: State,
    /// Where the document stands.
    pub state: State,
    /// It is leaving the sink or due to be written again: the sink may hold either.
    pub under_way: bool,
}

/// What the sink holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    pub id: DocumentId,
    /// The mark of its text, see [`mark`]; `None` where the sink holds the document more than once.
    pub text: Option<u64>,
    pub state: Option<State>,
}

/// A document that refers to a kept text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    pub text: ContentHash,
    pub id: DocumentId,
}

impl Keyed for Claim {
    type Key = DocumentId;
    fn key(&self) -> DocumentId {
        self.id
    }
}

impl Keyed for Held {
    type Key = DocumentId;
    fn key(&self) -> DocumentId {
        self.id
    }
}

impl Keyed for Reference {
    type Key = ContentHash;
    fn key(&self) -> ContentHash {
        self.text
    }
}

impl Keyed for ContentHash {
    type Key = ContentHash;
    fn key(&self) -> ContentHash {
        *self
    }
}

/// The first 64 bits of a text's hash: enough to tell that a text is another one.
pub fn mark(text: ContentHash) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = text.0;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// A key of one side or of both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Met<C, H> {
    /// Claimed, and not held.
    Claimed(C),
    Both(C, H),
    /// Held, and not claimed.
    Held(H),
}

/// Merges what is claimed with what is held. Both come in the order of their keys; a key may be claimed more than once, and
/// is held once.
pub struct Merge<I: Iterator> {
    claims: Peekable<I>,
}

impl<I: Iterator> std::fmt::Debug for Merge<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Merge").finish_non_exhaustive()
    }
}

impl<C: Keyed, E, I: Iterator<Item = Result<C, E>>> Merge<I> {
    /// Over these claims.
    pub fn new(claims: I) -> Self {
        Merge { claims: claims.peekable() }
    }

    /// Takes the next that is held, and tells `found` of it and of all claims up to it.
    ///
    /// # Errors
    /// Those of the claims.
    pub fn held<H: Keyed<Key = C::Key> + Clone>(
        &mut self,
        held: H,
        found: &mut dyn FnMut(Met<C, H>) -> Result<(), E>,
    ) -> Result<(), E> {
        let key = held.key();
        let mut is_claimed = false;
        while let Some(claim) =
            self.claims.next_if(|claim| claim.as_ref().map_or(true, |claim| claim.key() <= key))
        {
            let claim = claim?;
            if claim.key() == key {
                is_claimed = true;
                found(Met::Both(claim, held.clone()))?;
            } else {
                found(Met::Claimed(claim))?;
            }
        }
        if is_claimed { Ok(()) } else { found(Met::Held(held)) }
    }

    /// Nothing more is held: tells `found` of the claims that are left.
    ///
    /// # Errors
    /// Those of the claims.
    pub fn end<H>(self, found: &mut dyn FnMut(Met<C, H>) -> Result<(), E>) -> Result<(), E> {
        for claim in self.claims {
            found(Met::Claimed(claim?))?;
        }
        Ok(())
    }
}

/// Judges the text of one document: what the ledger says of it against what the sink holds.
pub fn text(met: &Met<Claim, Held>) -> Option<Verdict> {
    match met {
        Met::Claimed(claim) | Met::Both(claim, _) if claim.under_way => None,
        Met::Both(claim, held) if is_as_claimed(claim, held) => None,
        Met::Claimed(claim) | Met::Both(claim, _) => {
            // Of what is to be carried or has failed, the text was that of an earlier success: no rule writes it again.
            let is_current = matches!(claim.state, State::Indexed | State::Suspect);
            Some((DriftKind::MissingText, is_current.then_some(Repair::WriteAgain)))
        }
        Met::Held(_) => Some((DriftKind::OrphanText, Some(Repair::Remove))),
    }
}

fn is_as_claimed(claim: &Claim, held: &Held) -> bool {
    held.text == Some(mark(claim.text)) && held.state == Some(claim.in_sink)
}

/// Judges one kept text: who refers to it against what is kept.
pub fn kept(met: &Met<Reference, ContentHash>) -> Option<Verdict> {
    match met {
        Met::Claimed(_) => Some((DriftKind::MissingKeptText, None)),
        Met::Both(..) => None,
        Met::Held(_) => Some((DriftKind::OrphanKeptText, Some(Repair::Remove))),
    }
}

/// Judges what a listing has to say: `change` is its event on the document, `known` the record as it stands, `now` what is
/// seen at its place where the event does not tell.
///
/// What only a policy judges otherwise than before is no drift: the next listing judges it.
pub fn listed(change: &Change, known: Option<&Record>, now: Option<Stat>) -> Option<Verdict> {
    let known = known.filter(|known| known.state != State::Deleted);
    match (change, known) {
        (Change::Seen(seen), _) if seen.fault.is_some() && seen.settle.is_some() => {
            Some((DriftKind::Unlistable, None))
        }
        (Change::Seen(_), None) => Some((DriftKind::Unrecorded, Some(Repair::Record))),
        (Change::Seen(seen), Some(known)) => changed(known, seen.stat),
        (Change::Rejected { .. }, Some(known)) => changed(known, now.or(known.stat)),
        // The record of a directory or a name that could not be read ends when it can be.
        (Change::Gone, Some(known)) if known.stat.is_none() => Some((DriftKind::Changed, None)),
        (Change::Gone, Some(_)) => Some((DriftKind::Vanished, None)),
        _ => None,
    }
}

fn changed(known: &Record, now: Option<Stat>) -> Option<Verdict> {
    let is_back = known.is_leaving() && now.is_some();
    (is_back || differences(known.stat, now).is_some()).then_some((DriftKind::Changed, None))
}

/// What is another in `now` than in `known`, in words. The device is left out: its number changes with a reboot, and no byte does.
pub fn differences(known: Option<Stat>, now: Option<Stat>) -> Option<String> {
    let (Some(known), Some(now)) = (known, now) else {
        return (known.is_some() != now.is_some()).then(|| "it was recorded without being read".to_owned());
    };
    let mut parts = Vec::new();
    if known.size != now.size {
        parts.push(format!("{} bytes, recorded are {}", now.size, known.size));
    }
    for (differs, what) in [
        (known.mtime_ns != now.mtime_ns, "another modification time"),
        (known.ctime_ns != now.ctime_ns, "another change time"),
        (known.ino != now.ino, "another inode"),
    ] {
        if differs {
            parts.push(what.to_owned());
        }
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The fault that comes with a listing's event, if one does.
pub fn fault_of(change: &Change) -> Option<&Fault> {
    match change {
        Change::Seen(seen) => seen.fault.as_deref(),
        Change::Rejected { fault } => Some(fault),
        _ => None,
    }
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
