//! Reads of the ledger from tasks: a few connections, each used by one thread that may block.

use crate::ledger::{LedgerError, Reader};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Connections that are idle.
#[derive(Debug)]
pub struct Readers {
    state: PathBuf,
    idle: Mutex<Vec<Reader>>,
}

impl Readers {
    /// Of the ledger in this state folder.
    pub fn new(state: &Path) -> Self {
        Readers { state: state.to_owned(), idle: Mutex::default() }
    }

    /// A connection of one's own.
    pub fn open(&self) -> Result<Reader, LedgerError> {
        Reader::open(&self.state)
    }

    /// Reads on a thread that may block.
    pub async fn with<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Reader) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let readers = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let idle = readers.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let reader = match idle {
                Some(reader) => reader,
                None => readers.open()?,
            };
            let answer = read(&reader);
            readers.idle.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
            answer
        });
        done.await.map_err(|_| LedgerError::Ended)?
    }
}
