//! What a listing compares: the items of each directory, by name, and the directories that have any. Kept beside the
//! records in exactly the order in which a listing reads it, so that a scan of a million unchanged items is a read of
//! one stretch of a table.

use super::record::{Record, SourceId, Stat};
use super::row::{bits, damaged, unsigned, word};
use crate::rules::kind::{Kind, State};
use rusqlite::types::FromSqlError;
use rusqlite::{Connection, OptionalExtension, Row};
use shared::DocumentId;

/// What the ledger knows of an item in a directory: what a listing compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownItem {
    /// The last component of its path, raw bytes.
    pub name: Vec<u8>,
    pub id: DocumentId,
    pub stat: Option<Stat>,
    pub state: State,
    /// The kind of an excluded one, of a failed one.
    pub kind: Option<Kind>,
    /// It is leaving (its task is to be deleted or excluded).
    pub leaving: bool,
}

/// Remembers the directory that was written to last: a listing goes through one after the other. The number of a
/// directory never changes.
#[derive(Debug, Default)]
pub(super) struct Directories {
    last: Option<(SourceId, Vec<u8>, i64)>,
}

impl Directories {
    /// After a rollback no number can be relied on.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    /// The number of a directory, which is made, with those above it, where it is new.
    fn number(&mut self, db: &Connection, source: SourceId, path: &[u8]) -> rusqlite::Result<i64> {
        if let Some((last_source, last_path, number)) = &self.last
            && *last_source == source
            && last_path == path
        {
            return Ok(*number);
        }
        let number = make(db, source, path)?;
        self.last = Some((source, path.to_vec(), number));
        Ok(number)
    }
}

fn make(db: &Connection, source: SourceId, path: &[u8]) -> rusqlite::Result<i64> {
    // Down from the root, so that no depth of a path can exhaust the stack.
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let mut number = find_or_insert(db, source, b"", None)?;
    if path.is_empty() {
        return Ok(number);
    }
    if let Some(known) = find(db, source, path)? {
        return Ok(known);
    }
    for end in ends.chain([path.len()]) {
        number = find_or_insert(db, source, &path[..end], Some(number))?;
    }
    Ok(number)
}

fn find(db: &Connection, source: SourceId, path: &[u8]) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached("SELECT id FROM directories WHERE source = ?1 AND path = ?2")?
        .query_row((source.0, path), |row| row.get(0))
        .optional()
}

fn find_or_insert(
    db: &Connection,
    source: SourceId,
    path: &[u8],
    parent: Option<i64>,
) -> rusqlite::Result<i64> {
    if let Some(number) = find(db, source, path)? {
        return Ok(number);
    }
    db.prepare_cached("INSERT INTO directories (source, path, parent, name) VALUES (?1, ?2, ?3, ?4)")?
        .insert((source.0, path, parent, split(path).1))
}

/// The directory of a path, and its last component.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// Brings what a listing compares up to date with the record of an item.
pub(super) fn store(
    db: &Connection,
    directories: &mut Directories,
    old: Option<&Record>,
    new: &Record,
) -> rusqlite::Result<()> {
    let compared = |record: &Record| (record.stat, record.state, record.kind, record.is_leaving());
    if old.is_some_and(|old| compared(old) == compared(new)) {
        return Ok(());
    }
    let path = new.identity.0.first().map_or(&b""[..], |level| &level.name);
    let (directory, name) = split(path);
    let directory = directories.number(db, new.source, directory)?;
    let stat = new.stat;
    db.prepare_cached(
        "INSERT OR REPLACE INTO items (directory, name, id, size, mtime_ns, ctime_ns, dev, ino, state, kind, leaving)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .execute((
        directory,
        name,
        new.id.0,
        stat.map(|stat| bits(stat.size)),
        stat.map(|stat| stat.mtime_ns),
        stat.map(|stat| stat.ctime_ns),
        stat.map(|stat| bits(stat.dev)),
        stat.map(|stat| bits(stat.ino)),
        new.state.name(),
        new.kind.map(Kind::name),
        new.is_leaving(),
    ))?;
    let alive = |record: &Record| record.state != State::Deleted;
    match (old.is_some_and(alive), alive(new)) {
        (false, true) => count(db, directory, 1),
        (true, false) => count(db, directory, -1),
        _ => Ok(()),
    }
}

/// Counts an item of a directory in or out. A directory that comes to life or dies by it is counted in the one above.
fn count(db: &Connection, directory: i64, step: i64) -> rusqlite::Result<()> {
    let mut statement =
        db.prepare_cached("UPDATE directories SET alive = alive + ?2 WHERE id = ?1 RETURNING alive, parent")?;
    let mut next = Some(directory);
    while let Some(directory) = next {
        let (alive, parent): (i64, Option<i64>) =
            statement.query_row((directory, step), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (born, died) = (step == 1 && alive == 1, step == -1 && alive == 0);
        next = parent.filter(|_| born || died);
    }
    Ok(())
}

/// The known items of a directory whose names sort behind `after`.
pub(super) fn items_in(
    db: &Connection,
    source: SourceId,
    directory: &[u8],
    after: Option<&[u8]>,
    limit: usize,
) -> rusqlite::Result<Vec<KnownItem>> {
    let Some(directory) = find(db, source, directory)? else { return Ok(Vec::new()) };
    // No name is empty, so that every one sorts behind the empty one.
    let after = after.unwrap_or_default();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = db.prepare_cached(
        "SELECT name, id, size, mtime_ns, ctime_ns, dev, ino, state, kind, leaving FROM items
         WHERE directory = ?1 AND name > ?2 ORDER BY name LIMIT ?3",
    )?;
    let mut rows = statement.query((directory, after, limit))?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(known_item(row)?);
    }
    Ok(items)
}

fn known_item(row: &Row<'_>) -> rusqlite::Result<KnownItem> {
    let stat = match row.get::<_, Option<i64>>(2)? {
        None => None,
        Some(size) => Some(Stat {
            size: size.cast_unsigned(),
            mtime_ns: row.get(3)?,
            ctime_ns: row.get(4)?,
            dev: row.get::<_, i64>(5)?.cast_unsigned(),
            ino: row.get::<_, i64>(6)?.cast_unsigned(),
        }),
    };
    Ok(KnownItem {
        name: row.get_ref(0)?.as_blob().map_err(|error| damaged(0, error))?.to_vec(),
        id: DocumentId(row.get(1)?),
        stat,
        state: word(row, 7, State::named)?.ok_or_else(|| damaged(7, FromSqlError::InvalidType))?,
        kind: word(row, 8, Kind::named)?,
        leaving: row.get(9)?,
    })
}

/// The names of the directories right below that have items that are not gone, in or below them.
pub(super) fn directories_in(
    db: &Connection,
    source: SourceId,
    directory: &[u8],
) -> rusqlite::Result<Vec<Vec<u8>>> {
    let Some(directory) = find(db, source, directory)? else { return Ok(Vec::new()) };
    let mut statement =
        db.prepare_cached("SELECT name FROM directories WHERE parent = ?1 AND alive > 0 ORDER BY name")?;
    statement.query_map([directory], |row| row.get(0))?.collect()
}

/// How many items of a source are not gone.
pub(super) fn items_count(db: &Connection, source: SourceId) -> rusqlite::Result<u64> {
    let count = db
        .prepare_cached("SELECT n FROM counters WHERE source = ?1 AND state = ?2")?
        .query_row((source.0, super::books::ITEMS), |row| unsigned(row, 0))
        .optional()?;
    Ok(count.unwrap_or(0))
}
