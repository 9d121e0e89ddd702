//! A folder as a source: a streaming walk that merges what it sees with what the ledger knows, directory by directory.
//!
//! What it holds: the names of the directory at hand, the names of the directories still to be walked on the way down, 16
//! bytes for each directory (so that none is walked twice), and what is missing, until the whole listing says whether that
//! can be believed.

mod compare;
mod entries;
mod kernel;
mod known;
mod losses;
mod pulse;
#[cfg(test)]
mod tests;
mod verify;
mod walk;

pub use pulse::{Eye, Hung, Pulse, pass_by};
pub use verify::Verify;

use crate::ledger::{Event, LedgerError, Millis, Reader, SourceRow, Stat};
use crate::settings::Policy;
use shared::DocumentId;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// What a listing needs.
#[derive(Debug)]
pub struct Listing<'a> {
    pub source: &'a SourceRow,
    pub reader: &'a Reader,
    pub policy: &'a Policy,
    /// Items larger than this are `policy.too_large`.
    pub input_limit: u64,
    /// The state folder: left out where it lies inside of the source.
    pub state: &'a Path,
    pub now: Millis,
    /// A person has confirmed that what is gone is gone.
    pub accept_deletions: bool,
    /// See [`crate::settings::Settings::deletion_guard`].
    pub deletion_guard: f64,
    /// Which of the unchanged items are to be read again all the same.
    pub verify: Option<Verify>,
    /// Told what the file system is asked for.
    pub pulse: &'a Pulse,
    /// What is passed by: the file system does not answer there.
    pub hung: &'a Hung,
}

/// What a walk hands over at a time: as a whole of bounded size.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// What differs from the ledger; to be recorded as one transaction before the walk goes on.
    pub events: Vec<Event>,
    /// Unchanged by all that a listing sees, and picked to be read again.
    pub verify: Vec<Unchanged>,
    /// Items seen so far.
    pub items: u64,
}

/// An item of which a listing saw no change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unchanged {
    pub id: DocumentId,
    /// Raw bytes, below the root.
    pub path: Vec<u8>,
    pub stat: Stat,
}

/// How a listing went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// Items seen, unchanged ones included.
    pub items: u64,
    pub new: u64,
    pub changed: u64,
    pub gone: u64,
    /// Directories that could not be read to the end.
    pub unreadable: u64,
    pub root_device: u64,
    /// In words, for people: nothing is deleted, and why; the state folder was left out.
    pub alerts: Vec<String>,
}

/// Why a source cannot be listed at all.
#[derive(Debug)]
pub enum ListingError {
    /// The root is not there, no directory, or cannot be read.
    Root {
        path: PathBuf,
        source: std::io::Error,
    },
    Ledger(LedgerError),
    /// The receiver of the events said stop.
    Stopped,
}

impl std::fmt::Display for ListingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ListingError::Root { path, .. } => {
                write!(f, "the root of the source cannot be listed: {}", path.display())
            }
            ListingError::Ledger(_) => write!(f, "the ledger cannot be read for the listing"),
            ListingError::Stopped => write!(f, "the listing was stopped"),
        }
    }
}

impl std::error::Error for ListingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ListingError::Root { source, .. } => Some(source),
            ListingError::Ledger(error) => Some(error),
            ListingError::Stopped => None,
        }
    }
}

/// Walks the source and hands over, batch by batch, what differs from the ledger and what is to be verified. Where there is
/// neither for long, an empty batch tells of the progress. Blocks.
///
/// # Errors
/// See [`ListingError`]; what concerns one item or one directory below the root is an event and no error.
pub fn list(
    listing: &Listing<'_>,
    each: &mut dyn FnMut(Batch) -> ControlFlow<()>,
) -> Result<Listed, ListingError> {
    let terms = walk::Terms {
        source: listing.source,
        policy: listing.policy,
        input_limit: listing.input_limit,
        state: listing.state,
        now: listing.now,
        accept_deletions: listing.accept_deletions,
        deletion_guard: listing.deletion_guard,
        verify: listing.verify,
        pulse: listing.pulse,
        hung: listing.hung,
    };
    walk::Walker::new(terms, &known::OfSource(listing.source.id, listing.reader), each)?.run()
}
