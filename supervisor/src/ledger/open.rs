//! Opens the ledger of a state folder: the folder, the lock, the schema, and the check after an unclean end.
//!
//! The lock is one of the kernel's on an open file, so that no death of any kind leaves it behind; the number in the file
//! is only for the message. The database is never opened before the file system is known to be a local one.

use super::error::{LedgerError, io, sql};
use super::schema;
use super::writer::{self, LedgerHandle};
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The database, in the state folder.
pub(super) const FILE: &str = "ledger.sqlite";
const LOCK: &str = "lock";
/// How long a transaction waits for another process's.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a lock is waited for whose holder is gone.
const AFTERLIFE: Duration = Duration::from_secs(2);

/// The ledger, opened for writing by the one supervisor of this state folder.
#[derive(Debug)]
pub struct Ledger {
    handle: LedgerHandle,
    thread: Option<JoinHandle<()>>,
    /// Held as long as this lives; `None`: attached beside a live supervisor that has it.
    lock: Option<File>,
}

impl Ledger {
    /// Opens the ledger of a state folder, or makes one. Takes the folder's lock, which heals by itself after any death.
    /// After an unclean end the database is checked for damage first.
    ///
    /// # Errors
    /// Another supervisor has the lock, the schema is newer than this program, the database is damaged, I/O.
    pub fn open(state: &Path) -> Result<Ledger, LedgerError> {
        make_folder(state)?;
        refuse_network(state)?;
        let lock = lock(state)?;
        Self::locked(state, lock)
    }

    /// Opens an existing ledger to append to it, also while a supervisor has it: then beside that one, whose transactions
    /// and these take turns. Where nobody has it this is [`Ledger::open`].
    ///
    /// # Errors
    /// There is no ledger; otherwise as [`Ledger::open`].
    pub fn attach(state: &Path) -> Result<Ledger, LedgerError> {
        let path = state.join(FILE);
        if !path.exists() {
            return Err(LedgerError::Missing(state.to_owned()));
        }
        refuse_network(state)?;
        match lock(state) {
            Ok(lock) => Self::locked(state, lock),
            Err(LedgerError::Locked { .. }) => {
                let db = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
                refuse_other_schema(&db, &path)?;
                let (handle, thread) = writer::start(db, path)?;
                Ok(Ledger { handle, thread: Some(thread), lock: None })
            }
            Err(error) => Err(error),
        }
    }

    fn locked(state: &Path, lock: File) -> Result<Ledger, LedgerError> {
        let path = state.join(FILE);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut db = connect(&path, flags)?;
        leave_the_log(&db, &path, true)?;
        let wrap = |error| sql(&path, error);
        let found = schema::version(&db).map_err(wrap)?;
        let known = schema::known(schema::MIGRATIONS);
        if found > known {
            return Err(LedgerError::Newer { path, found, known });
        }
        if found > 0 && !is_clean(&db).map_err(wrap)? {
            check(&db, &path)?;
        }
        leave_the_log(&db, &path, false)?;
        schema::migrate(&mut db, &path, schema::MIGRATIONS)?;
        mark(&db, false).map_err(wrap)?;
        requeue_started(&db).map_err(wrap)?;
        let (handle, thread) = writer::start(db, path)?;
        Ok(Ledger { handle, thread: Some(thread), lock: Some(lock) })
    }

    /// Whether a live supervisor has this ledger, and this is only beside it.
    pub fn is_beside(&self) -> bool {
        self.lock.is_none()
    }

    /// For appending.
    pub fn handle(&self) -> LedgerHandle {
        self.handle.clone()
    }

    /// Writes everything out and marks the ledger as cleanly closed. Blocks. Handles that are left can no longer append.
    ///
    /// # Errors
    /// A structural one, also where the writer had met it before: then it is not marked.
    pub fn close(mut self) -> Result<(), LedgerError> {
        self.end(true)
    }

    fn end(&mut self, clean: bool) -> Result<(), LedgerError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let closed = self.handle.close(clean && self.lock.is_some());
        if thread.join().is_err() {
            return Err(LedgerError::Ended);
        }
        closed
    }
}

/// Whoever drops a ledger without closing it leaves it marked as unclean, but does not leave a thread behind that writes
/// after the lock is gone.
impl Drop for Ledger {
    fn drop(&mut self) {
        if let Err(error) = self.end(false) {
            tracing::debug!(%error, "the ledger was dropped after an error");
        }
    }
}

fn make_folder(state: &Path) -> Result<(), LedgerError> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(|error| io(state, error))
}

/// Takes the folder's lock. A holder that lives is not waited for; one that is gone is, for a moment: what it was starting when
/// it died shares its lock until it has become another program.
fn lock(state: &Path) -> Result<File, LedgerError> {
    let path = state.join(LOCK);
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(|error| io(&path, error))?;
    let since = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(std::fs::TryLockError::WouldBlock) => {
                let pid = holder(&mut file);
                if pid.is_none_or(is_another) || since.elapsed() >= AFTERLIFE {
                    return Err(LedgerError::Locked { state: state.to_owned(), pid });
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(std::fs::TryLockError::Error(error)) => return Err(io(&path, error)),
        }
    }
    let noted =
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    noted.map_err(|error| io(&path, error))?;
    Ok(file)
}

/// Who last took the lock, as the file says.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().and_then(|()| file.read_to_string(&mut text)).ok()?;
    text.trim().parse().ok()
}

/// Whether this is a process that lives, and not we ourselves.
fn is_another(pid: u32) -> bool {
    let lives = i32::try_from(pid).is_ok_and(|pid| {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None) != Err(nix::errno::Errno::ESRCH)
    });
    lives && pid != std::process::id()
}

fn refuse_network(state: &Path) -> Result<(), LedgerError> {
    let found = nix::sys::statfs::statfs(state).map_err(|error| io(state, error.into()))?;
    match network_name(found.filesystem_type().0) {
        Some(kind) => Err(LedgerError::NetworkFileSystem { path: state.to_owned(), kind: kind.to_owned() }),
        None => Ok(()),
    }
}

/// The name of a file system that lies on another machine, by the number that statfs(2) gives.
fn network_name(magic: i64) -> Option<&'static str> {
    Some(match u32::try_from(magic & 0xffff_ffff).ok()? {
        0x6969 => "nfs",
        0x517b => "smb",
        0xff53_4d42 => "cifs",
        0xfe53_4d42 => "smb2",
        0x0102_1997 => "9p",
        0x5346_414f | 0x6b41_4653 => "afs",
        0x7375_7245 => "coda",
        0x564c => "ncp",
        0x00c3_6400 => "ceph",
        0x0bd0_0bd0 => "lustre",
        0x4750_4653 => "gpfs",
        0x0116_1970 => "gfs2",
        0x7461_636f => "ocfs2",
        0x1983_0326 => "beegfs",
        _ => return None,
    })
}

/// Opens the database with what every connection needs.
pub(super) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, LedgerError> {
    let wrap = |error| sql(path, error);
    let db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(wrap)?;
    db.busy_timeout(PATIENCE).map_err(wrap)?;
    db.set_prepared_statement_cache_capacity(64);
    let journal: String =
        db.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).map_err(wrap)?;
    tracing::trace!(journal, "the ledger is open");
    // 8 MiB of pages: the system caches the file as well; the log is folded in at 16 MiB, and does not stay large after a burst.
    db.execute_batch(
        "PRAGMA cache_size = -8192; PRAGMA wal_autocheckpoint = 4096; PRAGMA journal_size_limit = 67108864;
         PRAGMA temp_store = MEMORY;",
    )
    .map_err(wrap)?;
    Ok(db)
}

pub(super) fn refuse_other_schema(db: &Connection, path: &Path) -> Result<(), LedgerError> {
    let found = schema::version(db).map_err(|error| sql(path, error))?;
    let known = schema::known(schema::MIGRATIONS);
    let path = path.to_owned();
    match found.cmp(&known) {
        std::cmp::Ordering::Less => Err(LedgerError::Older { path, found, known }),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(LedgerError::Newer { path, found, known }),
    }
}

fn is_clean(db: &Connection) -> rusqlite::Result<bool> {
    let clean =
        db.query_row("SELECT value FROM meta WHERE name = 'clean'", [], |row| row.get(0)).optional()?;
    Ok(clean == Some(1))
}

/// Marks the ledger as closed cleanly, or as open.
pub(super) fn mark(db: &Connection, clean: bool) -> rusqlite::Result<()> {
    db.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('clean', ?1)", [clean]).map(drop)
}

/// Whether the log stays as it is when the connection is closed. Else SQLite folds it into the database, and that is a
/// write.
pub(super) fn leave_the_log(db: &Connection, path: &Path, leave: bool) -> Result<(), LedgerError> {
    db.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, leave)
        .map(drop)
        .map_err(|error| sql(path, error))
}

/// Looks for damage.
fn check(db: &Connection, path: &Path) -> Result<(), LedgerError> {
    let found: String =
        db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(|error| sql(path, error))?;
    if found == "ok" {
        return Ok(());
    }
    Err(LedgerError::Damaged { path: path.to_owned(), detail: found })
}

/// What an attempt had taken out of the queue when the last supervisor ended stands in it again, where its last event
/// was.
fn requeue_started(db: &Connection) -> rusqlite::Result<()> {
    db.execute(
        "UPDATE documents SET queue = (SELECT max(seq) FROM events WHERE doc = number)
         WHERE source IN (SELECT id FROM sources) AND state = 'pending' AND queue IS NULL",
        [],
    )
    .map(drop)
}

/// The database's path in a state folder.
pub(super) fn file(state: &Path) -> PathBuf {
    state.join(FILE)
}
