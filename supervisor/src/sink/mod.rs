//! Where text goes. A sink acknowledges what it holds durably, and nothing before.
//!
//! The sinks know nothing of the ledger: what must be written again after damage is the caller's to say.

pub mod embedded;
mod held;
mod opening;
mod query;
mod snippet;
pub mod texts;
mod words;

use crate::rules::kind::State;
use shared::{ContentHash, DocumentId};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A document's text on its way into a sink: it replaces all that the sink holds of this document, at once.
#[derive(Debug, Clone)]
pub struct Entry {
    pub id: DocumentId,
    pub title: Option<String>,
    /// The path as shown: searchable as well.
    pub path: String,
    pub state: State,
    pub text: Arc<str>,
}

/// What a sink is asked to do in one go. A document stands in it at most once.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    pub writes: Vec<Entry>,
    pub removals: Vec<DocumentId>,
}

/// A document that the sink does not take, and why. The rest of the batch is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotTaken {
    pub id: DocumentId,
    pub message: String,
}

/// Why a sink could not take a batch.
#[derive(Debug)]
pub enum SinkError {
    /// Our own disk is full.
    Full { path: PathBuf },
    /// The embedded index cannot be opened or is damaged.
    Index { path: PathBuf, message: String },
    /// The file system.
    Io { path: PathBuf, source: std::io::Error },
    /// The store of kept texts.
    Texts { path: PathBuf, message: String },
    /// One kept text is not what was kept; the others are none the worse for it.
    Damaged { path: PathBuf, text: ContentHash },
}

impl SinkError {
    /// What an error of the file system means at this path: a full disk is told from all else.
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        let path = path.to_owned();
        if is_full(&source) { SinkError::Full { path } } else { SinkError::Io { path, source } }
    }
}

impl SinkError {
    /// Whether the sink is out of reach for now. A full disk, and texts that cannot be kept, concern our own state folder.
    pub(crate) fn is_outage(&self) -> bool {
        match self {
            SinkError::Index { .. } | SinkError::Io { .. } => true,
            SinkError::Full { .. } | SinkError::Texts { .. } | SinkError::Damaged { .. } => false,
        }
    }

    /// The error with what is behind it, in one line.
    pub(crate) fn line(&self) -> String {
        match std::error::Error::source(self) {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}

/// No space, or no more of it for this user.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

impl std::fmt::Display for SinkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SinkError::Full { path } => write!(f, "no space left on the disk that holds {}", path.display()),
            SinkError::Index { path, message } => {
                write!(f, "the index in {} cannot be used: {message}", path.display())
            }
            SinkError::Io { path, .. } => write!(f, "cannot read or write {}", path.display()),
            SinkError::Texts { path, message } => {
                write!(f, "the kept texts in {} cannot be used: {message}", path.display())
            }
            SinkError::Damaged { path, text } => {
                write!(f, "the text {text} that is kept in {} is damaged", path.display())
            }
        }
    }
}

impl std::error::Error for SinkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SinkError::Io { source, .. } => Some(source),
            SinkError::Full { .. }
            | SinkError::Index { .. }
            | SinkError::Texts { .. }
            | SinkError::Damaged { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_errors_and_names_the_path() {
        let error = |number| SinkError::io(Path::new("/s/index"), std::io::Error::from_raw_os_error(number));
        assert!(
            matches!(error(nix::libc::ENOSPC), SinkError::Full { path } if path == Path::new("/s/index"))
        );
        assert!(matches!(error(nix::libc::EDQUOT), SinkError::Full { .. }));
        assert!(matches!(error(nix::libc::EIO), SinkError::Io { .. }));
        assert_eq!(error(nix::libc::ENOSPC).to_string(), "no space left on the disk that holds /s/index");
    }
}
