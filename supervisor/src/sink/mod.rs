//! Where text goes. A sink acknowledges what it holds durably, and nothing before.

pub mod embedded;
pub mod texts;

use crate::rules::kind::State;
use shared::DocumentId;
use std::path::PathBuf;
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
}

impl std::fmt::Display for SinkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the sink")
    }
}

impl std::error::Error for SinkError {}
