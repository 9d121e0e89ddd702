//! Failures that share state, stage and kind, so that a person looks at ten lines in place of ten thousand.

use super::reader::in_list;
use super::record::SourceId;
use super::row::{self, unsigned, word};
use crate::rules::kind::{Class, Kind, Stage, State};
use rusqlite::Connection;
use rusqlite::types::FromSqlError;
use shared::DocumentId;

/// Failures that share source, stage and kind, with one example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    pub state: State,
    pub stage: Option<Stage>,
    pub kind: Option<Kind>,
    pub class: Option<Class>,
    pub count: u64,
    pub example: DocumentId,
    pub example_path: String,
    pub example_message: Option<String>,
}

/// Everything of these sources that is not `indexed`, `pending` or `deleted`, clustered, largest first. The example is the one
/// that was seen first.
pub(super) fn clusters(db: &Connection, sources: &[SourceId]) -> rusqlite::Result<Vec<Cluster>> {
    if sources.is_empty() {
        // A condition that nothing meets would leave the named index without a use, which SQLite refuses.
        return Ok(Vec::new());
    }
    // The index alone answers the counting; only the examples are looked up.
    let sql = format!(
        "SELECT c.state, c.stage, c.kind, c.class, c.n, d.id, d.path, d.rest ->> '$.message' FROM (
             SELECT state, stage, kind, class, count(*) AS n, min(number) AS example
             FROM documents INDEXED BY documents_by_kind
             WHERE kind IS NOT NULL AND state IN ('suspect', 'retrying', 'quarantined', 'excluded')
                 AND source IN ({})
             GROUP BY kind, state, stage, class
         ) AS c JOIN documents AS d ON d.number = c.example
         ORDER BY c.n DESC, c.kind, c.state, c.stage",
        in_list(sources)
    );
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query([])?;
    let mut clusters = Vec::new();
    while let Some(row) = rows.next()? {
        clusters.push(Cluster {
            state: word(row, 0, State::named)?.ok_or_else(|| row::damaged(0, FromSqlError::InvalidType))?,
            stage: word(row, 1, Stage::named)?,
            kind: word(row, 2, Kind::named)?,
            class: word(row, 3, Class::named)?,
            count: unsigned(row, 4)?,
            example: DocumentId(row.get(5)?),
            example_path: row.get(6)?,
            example_message: row.get(7)?,
        });
    }
    Ok(clusters)
}
