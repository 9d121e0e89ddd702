//! What the ledger knows of a directory, read in chunks and merged with what is seen there.

use crate::ledger::{KnownItem, LedgerError, Reader, SourceId};

/// So many known items are read at a time: what a large directory costs in memory.
const CHUNK: usize = 2000;

/// What a walk asks of the ledger.
pub(super) trait Known {
    fn items_in(
        &self,
        directory: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<KnownItem>, LedgerError>;
    fn directories_in(&self, directory: &[u8]) -> Result<Vec<Vec<u8>>, LedgerError>;
    fn items_count(&self) -> Result<u64, LedgerError>;
}

/// The ledger's own answer, for one source.
#[derive(Debug)]
pub(super) struct OfSource<'a>(pub(super) SourceId, pub(super) &'a Reader);

impl Known for OfSource<'_> {
    fn items_in(
        &self,
        directory: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<KnownItem>, LedgerError> {
        self.1.items_in(self.0, directory, after, limit)
    }

    fn directories_in(&self, directory: &[u8]) -> Result<Vec<Vec<u8>>, LedgerError> {
        self.1.directories_in(self.0, directory)
    }

    fn items_count(&self) -> Result<u64, LedgerError> {
        self.1.items_count(self.0)
    }
}

/// Goes through the known items of one directory, by name.
pub(super) struct Cursor<'a> {
    known: &'a dyn Known,
    directory: Vec<u8>,
    chunk: std::iter::Peekable<std::vec::IntoIter<KnownItem>>,
    last: Option<Vec<u8>>,
    ended: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(known: &'a dyn Known, directory: &[u8]) -> Self {
        Cursor {
            known,
            directory: directory.to_vec(),
            chunk: Vec::new().into_iter().peekable(),
            last: None,
            ended: false,
        }
    }

    /// The next item whose name sorts before `name`; all that are left where there is no `name`.
    pub(super) fn before(&mut self, name: Option<&[u8]>) -> Result<Option<KnownItem>, LedgerError> {
        self.fill()?;
        Ok(self.chunk.next_if(|item| name.is_none_or(|name| item.name.as_slice() < name)))
    }

    /// The item of exactly this name, once all before it are taken.
    pub(super) fn exactly(&mut self, name: &[u8]) -> Result<Option<KnownItem>, LedgerError> {
        self.fill()?;
        Ok(self.chunk.next_if(|item| item.name == name))
    }

    fn fill(&mut self) -> Result<(), LedgerError> {
        if self.ended || self.chunk.peek().is_some() {
            return Ok(());
        }
        let items = self.known.items_in(&self.directory, self.last.as_deref(), CHUNK)?;
        self.ended = items.len() < CHUNK;
        if let Some(item) = items.last() {
            self.last = Some(item.name.clone());
        }
        self.chunk = items.into_iter().peekable();
        Ok(())
    }
}

/// Calls `each` with every known item in and below `directory`, itself not included.
pub(super) fn all_below<E: From<LedgerError>>(
    known: &dyn Known,
    directory: &[u8],
    each: &mut dyn FnMut(KnownItem) -> Result<(), E>,
) -> Result<(), E> {
    let mut waiting = vec![directory.to_vec()];
    while let Some(directory) = waiting.pop() {
        let mut cursor = Cursor::new(known, &directory);
        while let Some(item) = cursor.before(None)? {
            each(item)?;
        }
        waiting.extend(known.directories_in(&directory)?.iter().map(|name| join(&directory, name)));
    }
    Ok(())
}

/// The path of what is called `name` in `directory`.
pub(super) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}
