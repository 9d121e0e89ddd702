//! What the commands that requeue ask: which documents a filter means, in pages, and who shares a result.

use super::error::LedgerError;
use super::reader::Reader;
use super::record::Record;
use super::selection::{self, Filter, Walk};
use shared::DocumentId;
use std::ops::ControlFlow;

impl Reader {
    /// Begins a walk over what a filter means, in the order in which the documents were first seen. Between its pages the
    /// ledger may change: what was changed behind it is not met again.
    ///
    /// # Errors
    /// Structural ones, as for every method here.
    pub fn walk(&self, filter: &Filter) -> Result<Walk, LedgerError> {
        let sources = self.sources()?;
        self.in_one_view(|db| selection::walk(db, &sources, filter))
    }

    /// The next records of a walk, `limit` of them at most; none at its end.
    pub fn next(&self, filter: &Filter, walk: &mut Walk, limit: usize) -> Result<Vec<Record>, LedgerError> {
        self.in_one_view(|db| selection::next(db, filter, walk, limit))
    }

    /// Whether any record names this document as the one that made its result.
    pub fn made_others(&self, id: DocumentId) -> Result<bool, LedgerError> {
        self.ask(|db| selection::made_others(db, id))
    }

    /// Calls `each` with all records that share the result of this one, itself included, until it says stop. Those that
    /// were changed since, or are gone, do not.
    pub fn sharing(
        &self,
        record: &Record,
        each: &mut dyn FnMut(&Record) -> ControlFlow<()>,
    ) -> Result<(), LedgerError> {
        self.in_one_view(|db| selection::sharing(db, record, each))
    }
}
