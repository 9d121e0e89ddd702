//! The schema and its history. `user_version` counts the migrations that were applied; the list only ever grows at its
//! end. Each migration runs with its count in one exclusive transaction, so that one that fails loses nothing.

use super::error::{LedgerError, sql};
use rusqlite::{Connection, TransactionBehavior};
use std::path::Path;

/// The migrations, oldest first.
pub(super) const MIGRATIONS: &[&str] = &[V1, V2, V3, V4];

/// The first schema.
///
/// - `documents`: one row a document. What is filtered, sorted or counted has a column, the rest is JSON. `queue` is the
///   number of the event that made it due, and null while it is at rest or taken in hand. `kept` names the kept text.
/// - `directories`, `items`: what a listing compares, in the order in which it does; every name of a directory lies in
///   one stretch. `alive` counts the items and the directories right below that are not gone.
/// - `events`: all of them, in order; `revision` is what the event raised the document to, null where it was overtaken.
/// - `counters`: moved by each event, by state; also `discovered`, and `items` (not members, not gone).
const V1: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE sources (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, root BLOB NOT NULL, root_device INTEGER
);
CREATE TABLE documents (
    number INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, source INTEGER NOT NULL, identity BLOB NOT NULL,
    path TEXT NOT NULL, parent BLOB, root BLOB, position INTEGER NOT NULL, revision INTEGER NOT NULL,
    state TEXT NOT NULL, why TEXT, class TEXT, kind TEXT, stage TEXT, sha256 BLOB, kept BLOB,
    next_attempt INTEGER, queue INTEGER, rest TEXT NOT NULL
);
CREATE INDEX documents_by_path ON documents (source, path);
CREATE INDEX documents_by_state ON documents (source, state);
CREATE INDEX documents_by_kind ON documents (kind, state, stage, class, source) WHERE kind IS NOT NULL;
CREATE INDEX documents_due ON documents (queue, source) WHERE queue IS NOT NULL;
CREATE INDEX documents_retrying ON documents (source, next_attempt) WHERE state = 'retrying';
CREATE INDEX documents_by_parent ON documents (parent, position) WHERE parent IS NOT NULL;
CREATE INDEX documents_by_root ON documents (root) WHERE root IS NOT NULL;
CREATE INDEX documents_by_content ON documents (sha256) WHERE sha256 IS NOT NULL;
CREATE INDEX documents_by_text ON documents (kept, id) WHERE kept IS NOT NULL;
CREATE TABLE directories (
    id INTEGER PRIMARY KEY, source INTEGER NOT NULL, path BLOB NOT NULL, parent INTEGER, name BLOB NOT NULL,
    alive INTEGER NOT NULL DEFAULT 0, UNIQUE (source, path)
);
CREATE INDEX directories_by_parent ON directories (parent, name, alive);
CREATE TABLE items (
    directory INTEGER NOT NULL, name BLOB NOT NULL, id BLOB NOT NULL, size INTEGER, mtime_ns INTEGER,
    ctime_ns INTEGER, dev INTEGER, ino INTEGER, state TEXT NOT NULL, kind TEXT, leaving INTEGER NOT NULL,
    PRIMARY KEY (directory, name)
) WITHOUT ROWID;
CREATE TABLE events (
    seq INTEGER PRIMARY KEY, doc INTEGER NOT NULL, at INTEGER NOT NULL, expects INTEGER, revision INTEGER,
    change TEXT NOT NULL
);
CREATE INDEX events_by_document ON events (doc);
CREATE TABLE counters (
    source INTEGER NOT NULL, state TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (source, state)
) WITHOUT ROWID;
CREATE TABLE in_hand (doc INTEGER PRIMARY KEY, stage TEXT NOT NULL, alone INTEGER NOT NULL);
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, began INTEGER NOT NULL, boot_id TEXT, ended INTEGER, end TEXT
);
";

/// What questions of a million records need.
///
/// - `documents_retrying`: has the state, too, so that what is due is counted without a look at any row.
/// - `documents_failed`: the oldest failure of a source, without a look at any row.
/// - `documents_by_maker`: all that share the result that one document made.
/// - `breakers`: the open ones, and nothing else; `body` is JSON.
const V2: &str = "
CREATE TABLE breakers (scope TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (scope, name)) WITHOUT ROWID;
DROP INDEX documents_retrying;
CREATE INDEX documents_retrying ON documents (source, next_attempt, state) WHERE state = 'retrying';
CREATE INDEX documents_failed ON documents (source, json_extract(rest, '$.first_failed'))
    WHERE state IN ('retrying', 'quarantined');
CREATE INDEX documents_by_maker ON documents (json_extract(rest, '$.same_as'))
    WHERE json_extract(rest, '$.same_as') IS NOT NULL;
";

/// What waits for its sink.
///
/// - `unsent` names the kept text that the sink has not taken yet, as `kept` names the one that it has.
const V3: &str = "
ALTER TABLE documents ADD COLUMN unsent BLOB;
CREATE INDEX documents_unsent ON documents (unsent, id) WHERE unsent IS NOT NULL;
";

/// What is tried once in each run, by its last attempt: what a run has tried already is not passed by again and again.
const V4: &str = "
CREATE INDEX documents_untimed ON documents (source, coalesce(json_extract(rest, '$.last_attempt'), 0))
    WHERE state = 'retrying' AND next_attempt IS NULL AND kind IS NOT 'extractor.broken';
";

/// How many migrations this database has seen.
pub(super) fn version(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// How many there are.
pub(super) fn known(migrations: &[&str]) -> i64 {
    i64::try_from(migrations.len()).expect("the list is short")
}

/// Brings the database up to date.
///
/// # Errors
/// It is newer than this program, or a migration fails: then it is as it was before that migration.
pub(super) fn migrate(db: &mut Connection, path: &Path, migrations: &[&str]) -> Result<(), LedgerError> {
    let wrap = |error| sql(path, error);
    let known = known(migrations);
    loop {
        let transaction = db.transaction_with_behavior(TransactionBehavior::Exclusive).map_err(wrap)?;
        let found = version(&transaction).map_err(wrap)?;
        if found > known {
            return Err(LedgerError::Newer { path: path.to_owned(), found, known });
        }
        let Some(next) = usize::try_from(found).ok().and_then(|found| migrations.get(found)) else {
            return Ok(());
        };
        transaction.execute_batch(next).map_err(wrap)?;
        transaction.pragma_update(None, "user_version", found + 1).map_err(wrap)?;
        transaction.commit().map_err(wrap)?;
    }
}
