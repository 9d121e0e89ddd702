//! Why the ledger cannot do what was asked. Every reason is structural: whoever meets it stops the run. The texts say
//! what happened, to which file, and what a person can do.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why the ledger cannot do what was asked. Every one is structural: the run stops.
#[derive(Debug)]
#[non_exhaustive]
pub enum LedgerError {
    /// There is no ledger in this folder.
    Missing(PathBuf),
    /// A live supervisor has the state folder.
    Locked { state: PathBuf, pid: Option<u32> },
    /// Made by a newer version.
    Newer { path: PathBuf, found: i64, known: i64 },
    /// Made by an older version, and to be read only: the next run brings it up to date.
    Older { path: PathBuf, found: i64, known: i64 },
    /// SQLite finds damage.
    Damaged { path: PathBuf, detail: String },
    /// The disk is full.
    Full { path: PathBuf },
    /// The state folder lies on a network file system.
    NetworkFileSystem { path: PathBuf, kind: String },
    /// Anything else from the file system.
    Io { path: PathBuf, source: std::io::Error },
    /// Anything else from SQLite.
    Sql { path: PathBuf, source: rusqlite::Error },
    /// The writing thread has ended; why was told to whoever met it first.
    Ended,
}

impl LedgerError {
    /// The same once more, for whoever asks later.
    pub(super) fn again(&self) -> LedgerError {
        match self {
            LedgerError::Missing(state) => LedgerError::Missing(state.clone()),
            LedgerError::Locked { state, pid } => LedgerError::Locked { state: state.clone(), pid: *pid },
            LedgerError::Newer { path, found, known } => {
                LedgerError::Newer { path: path.clone(), found: *found, known: *known }
            }
            LedgerError::Older { path, found, known } => {
                LedgerError::Older { path: path.clone(), found: *found, known: *known }
            }
            LedgerError::Damaged { path, detail } => {
                LedgerError::Damaged { path: path.clone(), detail: detail.clone() }
            }
            LedgerError::Full { path } => LedgerError::Full { path: path.clone() },
            LedgerError::NetworkFileSystem { path, kind } => {
                LedgerError::NetworkFileSystem { path: path.clone(), kind: kind.clone() }
            }
            LedgerError::Io { path, source } => {
                let source = std::io::Error::new(source.kind(), source.to_string());
                LedgerError::Io { path: path.clone(), source }
            }
            LedgerError::Sql { path, source } => {
                LedgerError::Io { path: path.clone(), source: std::io::Error::other(source.to_string()) }
            }
            LedgerError::Ended => LedgerError::Ended,
        }
    }
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LedgerError::Missing(state) => {
                write!(
                    f,
                    "there is no ledger in {}: `lazaret run` makes one, `--state` names another",
                    state.display()
                )
            }
            LedgerError::Locked { state, pid } => {
                write!(f, "the state folder {} is in use by another run", state.display())?;
                pid.map_or(Ok(()), |pid| write!(f, " (process {pid})"))?;
                write!(f, ": wait for it, steer it with `lazaret ctl`, or name another folder with `--state`")
            }
            LedgerError::Newer { path, found, known } => write!(
                f,
                "the ledger {} was made by a newer lazaret (schema {found}, this one knows {known}): use that version",
                path.display()
            ),
            LedgerError::Older { path, found, known } => write!(
                f,
                "the ledger {} was made by an older lazaret (schema {found}, this one reads {known}): the next \
                 `lazaret run` brings it up to date",
                path.display()
            ),
            LedgerError::Damaged { path, detail } => write!(
                f,
                "the ledger {} is damaged ({detail}), and nothing more is written to it: put a copy of the state folder \
                 back, or move the folder away and run again to ingest everything anew",
                path.display()
            ),
            LedgerError::Full { path } => write!(
                f,
                "no space left on the disk for the ledger {}: make room and run again, nothing is lost",
                path.display()
            ),
            LedgerError::NetworkFileSystem { path, kind } => write!(
                f,
                "the state folder {} lies on a network file system ({kind}), where locks and commits cannot be relied \
                 on: name a folder on a local disk with `--state`",
                path.display()
            ),
            LedgerError::Io { path, .. } => write!(f, "could not use {}", path.display()),
            LedgerError::Sql { path, .. } => write!(f, "could not use the ledger {}", path.display()),
            LedgerError::Ended => write!(f, "the ledger has stopped writing after an earlier error"),
        }
    }
}

impl std::error::Error for LedgerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LedgerError::Io { source, .. } => Some(source),
            LedgerError::Sql { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// What SQLite said, told apart: damage, a full disk, anything else.
pub(super) fn sql(path: &Path, error: rusqlite::Error) -> LedgerError {
    let path = path.to_owned();
    match &error {
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..) => {
            LedgerError::Damaged { path, detail: error.to_string() }
        }
        _ => match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => {
                LedgerError::Damaged { path, detail: error.to_string() }
            }
            Some(rusqlite::ErrorCode::DiskFull) => LedgerError::Full { path },
            _ => LedgerError::Sql { path, source: error },
        },
    }
}

/// What the file system said.
pub(super) fn io(path: &Path, source: std::io::Error) -> LedgerError {
    let path = path.to_owned();
    match source.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => LedgerError::Full { path },
        _ => LedgerError::Io { path, source },
    }
}
