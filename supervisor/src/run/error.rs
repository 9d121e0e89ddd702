//! What stops a run: structural errors alone. What fails for a document is a record, and no error.

use crate::ledger::LedgerError;
use crate::pool::PoolError;
use crate::pool::command::Missing;
use crate::report::style::{count, safe};
use crate::report::time;
use crate::sink::{SinkError, embedded};
use crate::source::folder::ListingError;
use shared::DocumentId;
use std::io;
use std::path::{Path, PathBuf};

/// What stops a run.
#[derive(Debug)]
pub enum RunError {
    Ledger(LedgerError),
    Sink(SinkError),
    Pool(PoolError),
    Listing(ListingError),
    /// A command that the settings name.
    Extractor(Missing),
    /// The sink's breaker is open, at the start of a run or at its end.
    SinkDown {
        why: String,
    },
    /// Our own folder for members.
    Spool {
        path: PathBuf,
        source: io::Error,
    },
    /// This process may not open as many files as its children need.
    Descriptors {
        have: u64,
        needed: u64,
        children: usize,
    },
    /// A document is pending, and nothing that was tried moves it.
    NoProgress {
        document: DocumentId,
    },
    /// A run or a connector took longer than the settings allow.
    Deadline {
        what: String,
        ms: u64,
    },
    /// Documents are in flight, and for so long none has come to an end.
    Stalled {
        /// What has been in flight the longest.
        path: String,
        ms: u64,
    },
    /// Nothing is in flight, and for so long the listing has not moved.
    ListingStalled {
        ms: u64,
    },
    /// A part of the run has ended, and tells why itself.
    Ended,
}

impl RunError {
    /// That our own spool failed.
    pub fn spool(path: &Path, source: io::Error) -> Self {
        RunError::Spool { path: path.to_owned(), source }
    }
}

impl From<LedgerError> for RunError {
    fn from(error: LedgerError) -> Self {
        RunError::Ledger(error)
    }
}

impl From<SinkError> for RunError {
    fn from(error: SinkError) -> Self {
        RunError::Sink(error)
    }
}

impl From<PoolError> for RunError {
    fn from(error: PoolError) -> Self {
        RunError::Pool(error)
    }
}

impl From<Missing> for RunError {
    fn from(error: Missing) -> Self {
        RunError::Extractor(error)
    }
}

impl From<ListingError> for RunError {
    fn from(error: ListingError) -> Self {
        RunError::Listing(error)
    }
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::Ledger(_) => write!(f, "the ledger cannot go on"),
            RunError::Sink(_) => write!(f, "the index cannot go on"),
            RunError::Pool(_) => write!(f, "no document can be isolated here"),
            RunError::Listing(_) => write!(f, "the source cannot be listed"),
            RunError::Extractor(_) => write!(f, "an extractor that the settings name cannot be used"),
            RunError::SinkDown { why } => write!(f, "the {} index is down: {why}", embedded::NAME),
            RunError::Spool { path, .. } => write!(f, "cannot spool members in {}", path.display()),
            RunError::Descriptors { have, needed, children } => write!(
                f,
                "this process may have {have} files open, and a run with {} needs {needed}",
                count(*children as u64, "child", "children")
            ),
            RunError::NoProgress { document } => {
                write!(f, "document {document} is pending and nothing moves it: this is a bug of lazaret")
            }
            RunError::Deadline { what, ms } => {
                write!(f, "{what} has reached its deadline of {}", time::span(*ms))
            }
            RunError::Stalled { path, ms } => write!(
                f,
                "nothing has come to an end for {}; the longest in flight is {}",
                time::span(*ms),
                safe(path)
            ),
            RunError::ListingStalled { ms } => {
                write!(f, "the listing has not moved for {}: its file system hangs", time::span(*ms))
            }
            RunError::Ended => write!(f, "a part of the run ended early"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RunError::Ledger(error) => Some(error),
            RunError::Sink(error) => Some(error),
            RunError::Pool(error) => Some(error),
            RunError::Extractor(error) => Some(error),
            RunError::Listing(error) => Some(error),
            RunError::Spool { source, .. } => Some(source),
            RunError::Descriptors { .. }
            | RunError::SinkDown { .. }
            | RunError::NoProgress { .. }
            | RunError::Deadline { .. }
            | RunError::Stalled { .. }
            | RunError::ListingStalled { .. }
            | RunError::Ended => None,
        }
    }
}
