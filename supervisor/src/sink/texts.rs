//! The kept texts: compressed, under the hash of the text, so that the same text is kept once.
//!
//! A SQLite file of its own (`state/texts.sqlite`), so that the ledger stays small. What a record refers to is the ledger's to
//! know; here nothing is counted.

use super::SinkError;
use super::embedded::TEXT_MAX;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use shared::ContentHash;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Zstandard's level: small enough, and faster than the disk.
const LEVEL: i32 = 3;
/// How long to wait for another connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many pages of forgotten texts are given back to the file system at a time.
const PAGES_BACK: u32 = 2_000;

/// The store, open for writing. Its methods block.
#[derive(Debug)]
pub struct Texts {
    path: PathBuf,
    connection: Connection,
}

impl Texts {
    /// Opens the store below `state`, or makes one.
    ///
    /// # Errors
    /// It is no such store, or cannot be read or written.
    pub fn open(state: &Path) -> Result<Self, SinkError> {
        let path = path_below(state);
        let failed = |error| sink_error(&path, &error);
        let connection = Connection::open(&path).map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        // `auto_vacuum` has an effect only before the first table, and before the journal's mode is set.
        connection
            .execute_batch(
                "PRAGMA auto_vacuum = INCREMENTAL;
                 PRAGMA journal_mode = WAL;
                 PRAGMA synchronous = FULL;
                 PRAGMA journal_size_limit = 67108864;
                 CREATE TABLE IF NOT EXISTS texts (hash BLOB PRIMARY KEY NOT NULL, size INTEGER NOT NULL, zstd BLOB NOT NULL);",
            )
            .map_err(failed)?;
        Ok(Texts { path, connection })
    }

    /// Opens the store for reading only; `None` where there is none.
    ///
    /// # Errors
    /// It is no such store, or cannot be read.
    pub fn open_reader(state: &Path) -> Result<Option<Self>, SinkError> {
        let path = path_below(state);
        match path.try_exists() {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(SinkError::io(&path, error)),
        }
        let failed = |error| sink_error(&path, &error);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags).map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        let store = Texts { path, connection };
        match store.probe() {
            // On a file system that is read-only or full the log's index cannot be made. Where there is no log, there is
            // nothing in it either, and no one writes.
            Err(error) if makes_no_files(&error, &store.path) => {
                let uri = format!("file:{}?immutable=1", as_uri(&store.path));
                let flags = flags | OpenFlags::SQLITE_OPEN_URI;
                let connection = Connection::open_with_flags(uri, flags)
                    .map_err(|error| sink_error(&store.path, &error))?;
                Ok(Some(Texts { connection, ..store }))
            }
            Err(error) => Err(sink_error(&store.path, &error)),
            Ok(()) => Ok(Some(store)),
        }
    }

    fn probe(&self) -> rusqlite::Result<()> {
        self.connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
    }

    /// Keeps all of these durably, in one transaction. The key is `ContentHash::of(text)`.
    ///
    /// # Errors
    /// The disk is full, or the store cannot be written; then none is kept.
    pub fn keep(&mut self, texts: &[(ContentHash, &str)]) -> Result<(), SinkError> {
        let path = self.path.clone();
        let failed = |error| sink_error(&path, &error);
        let transaction = self.connection.transaction().map_err(failed)?;
        {
            let mut insert = transaction
                .prepare_cached("INSERT OR REPLACE INTO texts (hash, size, zstd) VALUES (?1, ?2, ?3)")
                .map_err(failed)?;
            for (hash, text) in texts {
                // Whoever brings a text that is kept already brings what heals it, should it be damaged by now.
                match read(&transaction, &path, *hash) {
                    Ok(Some(kept)) if kept == *text => continue,
                    Ok(_) | Err(SinkError::Damaged { .. }) => {}
                    Err(error) => return Err(error),
                }
                let packed = zstd::bulk::compress(text.as_bytes(), LEVEL)
                    .map_err(|error| SinkError::io(&path, error))?;
                let size = i64::try_from(text.len()).unwrap_or(i64::MAX);
                insert.execute(params![hash.0, size, packed]).map_err(failed)?;
            }
        }
        transaction.commit().map_err(failed)
    }

    /// The text kept under this hash.
    ///
    /// # Errors
    /// The store cannot be read, or what it holds is not what was kept.
    pub fn get(&self, hash: ContentHash) -> Result<Option<String>, SinkError> {
        read(&self.connection, &self.path, hash)
    }

    /// The same, where one that is damaged is forgotten: it is as good as lost, and nobody must stop at it again.
    ///
    /// # Errors
    /// The store cannot be read, or what is damaged in it cannot be forgotten.
    pub fn sound(&self, hash: ContentHash) -> Result<Option<String>, SinkError> {
        match self.get(hash) {
            Err(error @ SinkError::Damaged { .. }) => {
                tracing::warn!(%error, "its documents are extracted again");
                // This may be a store that is open for reading only.
                let state = self.path.parent().unwrap_or_else(|| Path::new("."));
                Texts::open(state)?.forget(&[hash])?;
                Ok(None)
            }
            text => text,
        }
    }

    /// The hashes of all that is kept, in their order: those behind `last`, `limit` of them at most.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn hashes(&self, last: Option<ContentHash>, limit: usize) -> Result<Vec<ContentHash>, SinkError> {
        let last = last.map(|hash| hash.0.to_vec()).unwrap_or_default();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.connection
            .prepare_cached("SELECT hash FROM texts WHERE hash > ?1 ORDER BY hash LIMIT ?2")
            .and_then(|mut select| {
                select.query_map((last, limit), |row| row.get(0).map(ContentHash))?.collect()
            })
            .map_err(|error| sink_error(&self.path, &error))
    }

    /// Forgets these. What is not there is forgotten already.
    ///
    /// # Errors
    /// The store cannot be written; then none is forgotten.
    pub fn forget(&mut self, hashes: &[ContentHash]) -> Result<(), SinkError> {
        let path = self.path.clone();
        let failed = |error| sink_error(&path, &error);
        let transaction = self.connection.transaction().map_err(failed)?;
        {
            let mut delete =
                transaction.prepare_cached("DELETE FROM texts WHERE hash = ?1").map_err(failed)?;
            for hash in hashes {
                delete.execute([hash.0]).map_err(failed)?;
            }
        }
        transaction.commit().map_err(failed)?;
        self.connection.execute_batch(&format!("PRAGMA incremental_vacuum({PAGES_BACK})")).map_err(failed)
    }
}

fn read(db: &Connection, path: &Path, hash: ContentHash) -> Result<Option<String>, SinkError> {
    let row: Option<(i64, Vec<u8>)> = db
        .prepare_cached("SELECT size, zstd FROM texts WHERE hash = ?1")
        .and_then(|mut select| select.query_row([hash.0], |row| Ok((row.get(0)?, row.get(1)?))).optional())
        .map_err(|error| sink_error(path, &error))?;
    let Some((size, packed)) = row else { return Ok(None) };
    let size = usize::try_from(size).ok().filter(|size| *size <= TEXT_MAX).unwrap_or_default();
    let text = zstd::bulk::decompress(&packed, size)
        .ok()
        .filter(|bytes| ContentHash::of(bytes) == hash)
        .and_then(|bytes| String::from_utf8(bytes).ok());
    text.map(Some).ok_or_else(|| SinkError::Damaged { path: path.to_owned(), text: hash })
}

fn path_below(state: &Path) -> PathBuf {
    state.join("texts.sqlite")
}

/// The path as SQLite's URIs want it: everything but the plainest characters as `%XX`.
fn as_uri(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut uri = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                uri.push(char::from(*byte));
            }
            _ => {
                uri.push('%');
                uri.extend([byte >> 4, byte & 15].iter().filter_map(|d| char::from_digit(u32::from(*d), 16)));
            }
        }
    }
    uri
}

/// Whether this is what SQLite says where it may not make its own files beside the store, and the store is whole without.
fn makes_no_files(error: &rusqlite::Error, path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let nothing_in_it = || Path::new(&log).metadata().map_or(true, |log| log.len() == 0);
    match error.sqlite_error_code() {
        Some(ErrorCode::CannotOpen) => true,
        Some(ErrorCode::SystemIoFailure | ErrorCode::DiskFull) => nothing_in_it(),
        _ => false,
    }
}

fn sink_error(path: &Path, error: &rusqlite::Error) -> SinkError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => SinkError::Full { path: path.to_owned() },
        _ => SinkError::Texts { path: path.to_owned(), message: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> ContentHash {
        ContentHash::of(text.as_bytes())
    }

    #[test]
    fn what_is_kept_is_there_after_a_new_start_and_once() {
        let state = tempfile::tempdir().unwrap();
        let long = "ein Text ".repeat(100_000);
        let mut texts = Texts::open(state.path()).unwrap();
        texts.keep(&[(key(&long), &long), (key(""), "")]).unwrap();
        texts.keep(&[(key(&long), &long)]).unwrap();
        drop(texts);
        let mut texts = Texts::open(state.path()).unwrap();
        assert_eq!(texts.get(key(&long)).unwrap().as_deref(), Some(&*long));
        assert_eq!(texts.get(key("")).unwrap().as_deref(), Some(""));
        assert_eq!(texts.get(key("other")).unwrap(), None);
        let rows: i64 =
            texts.connection.query_row("SELECT count(*) FROM texts", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 2);
        texts.forget(&[key(&long), key("other")]).unwrap();
        assert_eq!(texts.get(key(&long)).unwrap(), None);
    }

    #[test]
    fn a_reader_sees_what_a_live_writer_keeps_and_makes_nothing_itself() {
        let state = tempfile::tempdir().unwrap();
        assert!(Texts::open_reader(state.path()).unwrap().is_none());
        assert_eq!(std::fs::read_dir(state.path()).unwrap().count(), 0);
        let mut writer = Texts::open(state.path()).unwrap();
        let mut reader = Texts::open_reader(state.path()).unwrap().unwrap();
        writer.keep(&[(key("a"), "a")]).unwrap();
        assert_eq!(reader.get(key("a")).unwrap().as_deref(), Some("a"));
        assert!(matches!(reader.keep(&[(key("b"), "b")]), Err(SinkError::Texts { .. })));
    }

    #[test]
    fn a_full_disk_is_told_and_nothing_of_the_batch_is_kept() {
        let state = tempfile::tempdir().unwrap();
        let mut texts = Texts::open(state.path()).unwrap();
        texts.connection.execute_batch("PRAGMA max_page_count = 16").unwrap();
        let noise: String = (0..10_000_u32).map(|n| ContentHash::of(&n.to_le_bytes()).to_string()).collect();
        let error = texts.keep(&[(key("a"), "a"), (key(&noise), &noise)]).unwrap_err();
        assert!(matches!(&error, SinkError::Full { path } if path.ends_with("texts.sqlite")), "{error:?}");
        assert_eq!(texts.get(key("a")).unwrap(), None);
        texts.keep(&[(key("a"), "a")]).unwrap();
    }

    #[test]
    fn a_damaged_text_is_an_error_and_never_another_text() {
        let state = tempfile::tempdir().unwrap();
        let mut texts = Texts::open(state.path()).unwrap();
        texts.keep(&[(key("a"), "a"), (key("b"), "b")]).unwrap();
        texts
            .connection
            .execute("UPDATE texts SET zstd = (SELECT zstd FROM texts WHERE hash = ?1)", [key("b").0])
            .unwrap();
        assert!(matches!(texts.get(key("a")), Err(SinkError::Damaged { text, .. }) if text == key("a")));
        // Whoever has it brings it back, and without that it is forgotten.
        texts.keep(&[(key("a"), "a")]).unwrap();
        assert_eq!(texts.get(key("a")).unwrap().as_deref(), Some("a"));
        texts.connection.execute("UPDATE texts SET zstd = x'00' WHERE hash = ?1", [key("a").0]).unwrap();
        let reader = Texts::open_reader(state.path()).unwrap().unwrap();
        assert_eq!(reader.sound(key("a")).unwrap(), None);
        assert_eq!(texts.get(key("a")).unwrap(), None);
        assert_eq!(reader.sound(key("b")).unwrap().as_deref(), Some("b"));
    }

    #[test]
    fn a_path_is_escaped_for_a_uri() {
        assert_eq!(as_uri(Path::new("/a b/ü?#%.sqlite")), "/a%20b/%c3%bc%3f%23%25.sqlite");
    }
}
