//! What a comparison with source and sink asks of the ledger, in pieces, each in the order of its keys.

use super::error::LedgerError;
use super::reader::Reader;
use super::record::SourceId;
use super::row::{damaged, word};
use crate::rules::kind::State;
use crate::rules::reconcile::{Claim, Reference};
use rusqlite::Row;
use rusqlite::types::FromSqlError;
use shared::{ContentHash, DocumentId};
use std::collections::HashSet;

/// So many rows are read at a time.
const PIECE: i64 = if cfg!(test) { 3 } else { 2000 };

impl Reader {
    /// All that the ledger says the sink holds, by id. After an error it ends.
    pub fn claims(&self) -> impl Iterator<Item = Result<Claim, LedgerError>> {
        in_pieces(|last: Option<&Claim>| self.claims_behind(last.map(|claim| claim.id)))
    }

    /// All references to kept texts, by text and id. After an error it ends.
    pub fn references(&self) -> impl Iterator<Item = Result<Reference, LedgerError>> {
        in_pieces(|last: Option<&Reference>| self.references_behind(last.copied()))
    }

    fn claims_behind(&self, last: Option<DocumentId>) -> Result<Vec<Claim>, LedgerError> {
        // No id is empty: every one sorts behind the empty one.
        let last = last.map(|id| id.0.to_vec()).unwrap_or_default();
        self.ask(|db| {
            let mut statement = db.prepare_cached(
                "SELECT id, source, kept, json_extract(rest, '$.in_sink.state'), state,
                     coalesce(json_extract(rest, '$.task') IN ('Delete', 'Exclude'), 0)
                         OR json_extract(rest, '$.task.Write.state') IS NOT NULL
                 FROM documents INDEXED BY sqlite_autoindex_documents_1
                 WHERE id > ?1 AND kept IS NOT NULL ORDER BY id LIMIT ?2",
            )?;
            statement.query_map((last, PIECE), claim)?.collect()
        })
    }

    fn references_behind(&self, last: Option<Reference>) -> Result<Vec<Reference>, LedgerError> {
        let (text, id) = match last {
            Some(last) => (last.text.0.to_vec(), last.id.0.to_vec()),
            None => Default::default(),
        };
        self.ask(|db| {
            let mut statement = db.prepare_cached(
                "SELECT kept, id FROM documents INDEXED BY documents_by_text
                 WHERE kept IS NOT NULL AND (kept, id) > (?1, ?2)
                 UNION
                 SELECT unsent, id FROM documents INDEXED BY documents_unsent
                 WHERE unsent IS NOT NULL AND (unsent, id) > (?1, ?2) ORDER BY 1, 2 LIMIT ?3",
            )?;
            let reference =
                |row: &Row<'_>| Ok(Reference { text: ContentHash(row.get(0)?), id: DocumentId(row.get(1)?) });
            statement.query_map((text, id, PIECE), reference)?.collect()
        })
    }

    /// The records of directories and names of a source that could not be read at the last listing.
    ///
    /// # Errors
    /// Structural ones, as for every method here.
    pub fn unreadable(&self, source: SourceId) -> Result<HashSet<DocumentId>, LedgerError> {
        self.ask(|db| {
            let mut statement = db.prepare_cached(
                "SELECT id FROM documents INDEXED BY documents_retrying
                 WHERE source = ?1 AND state = 'retrying' AND stage = 'discover' AND parent IS NULL
                     AND json_extract(rest, '$.stat') IS NULL",
            )?;
            statement.query_map([source.0], |row| row.get(0).map(DocumentId))?.collect()
        })
    }
}

fn claim(row: &Row<'_>) -> rusqlite::Result<Claim> {
    let known =
        |column| word(row, column, State::named)?.ok_or_else(|| damaged(column, FromSqlError::InvalidType));
    Ok(Claim {
        id: DocumentId(row.get(0)?),
        source: SourceId(row.get(1)?),
        text: ContentHash(row.get(2)?),
        in_sink: known(3)?,
        state: known(4)?,
        under_way: row.get(5)?,
    })
}

/// One after the other of what comes in pieces, each of them behind the last of the one before.
fn in_pieces<T>(
    mut behind: impl FnMut(Option<&T>) -> Result<Vec<T>, LedgerError>,
) -> impl Iterator<Item = Result<T, LedgerError>>
where
    T: Clone,
{
    let mut piece = Vec::new().into_iter();
    let mut last: Option<T> = None;
    let mut ended = false;
    std::iter::from_fn(move || {
        if piece.len() == 0 && !ended {
            match behind(last.as_ref()) {
                Ok(next) => {
                    last = next.last().cloned();
                    ended = next.is_empty();
                    piece = next.into_iter();
                }
                Err(error) => {
                    ended = true;
                    return Some(Err(error));
                }
            }
        }
        piece.next().map(Ok)
    })
}
