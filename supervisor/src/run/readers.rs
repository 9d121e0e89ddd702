//! Reads of the ledger from tasks: a few connections, each used by one thread that may block.

use crate::idle::Idle;
use crate::ledger::{LedgerError, Reader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Connections to one ledger.
#[derive(Debug)]
pub struct Readers {
    state: PathBuf,
    idle: Idle<Reader>,
}

impl Readers {
    /// Of the ledger in this state folder.
    pub fn new(state: &Path) -> Self {
        Readers { state: state.to_owned(), idle: Idle::default() }
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
            let reader = match readers.idle.take() {
                Some(reader) => reader,
                None => readers.open()?,
            };
            let answer = read(&reader);
            readers.idle.give(reader);
            answer
        });
        done.await.map_err(|_| LedgerError::Ended)?
    }
}
