//! Opens the folder of the embedded index: is it there, is it ours, is it sound; and makes another one where it is not.
//!
//! What keeps us from reading it says nothing about what is in it: only files that lack something, or that do not say what they
//! should, are damage.

use super::SinkError;
use super::embedded::{register, schema};
use std::path::Path;
use tantivy::directory::error::{LockError, OpenDirectoryError, OpenReadError, OpenWriteError};
use tantivy::{Index, IndexReader, ReloadPolicy, TantivyError};

/// An index up to this size, in bytes, is read whole and its sums compared when it is opened; of a larger one the frame
/// of each file is.
const CHECKED_WHOLE: u64 = 1 << 30;
/// Stands in the folder of an index of which the ledger does not know yet that it is empty.
pub(super) const NEW: &str = "lazaret-new";

/// Why there is no index to write to.
pub(super) enum Unusable {
    Missing,
    Damaged(String),
    /// Nothing is wrong with it, and it cannot be had.
    Held(SinkError),
}

pub(super) fn open_sound(folder: &Path) -> Result<Index, Unusable> {
    match folder.join("meta.json").try_exists() {
        Ok(true) => {}
        Ok(false) => return Err(Unusable::Missing),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            return Err(Unusable::Damaged("it is no folder".to_owned()));
        }
        Err(error) => return Err(Unusable::Held(SinkError::io(folder, error))),
    }
    let index = open_index(folder).map_err(|error| unusable(folder, &error))?;
    if index.schema() != schema() {
        return Err(Unusable::Damaged("it has another shape".to_owned()));
    }
    manual_reader(&index).map_err(|error| unusable(folder, &error))?;
    if size_of(folder) <= CHECKED_WHOLE {
        let damaged = index.validate_checksum().map_err(|error| unusable(folder, &error))?;
        if let Some(file) = damaged.iter().min() {
            return Err(Unusable::Damaged(format!("{} has another checksum", file.display())));
        }
    }
    Ok(index)
}

/// Damage is what a new index heals: files that are not there, or that do not say what they should. Whatever else keeps us
/// from reading an index (a lock, a full disk, a missing right, no more descriptors or memory, a dying device) says
/// nothing about what is in it.
fn unusable(folder: &Path, error: &TantivyError) -> Unusable {
    let damaged = match (error, io_behind(error)) {
        (_, Some(io)) => io.raw_os_error().is_none_or(is_shape),
        (TantivyError::OpenDirectoryError(error), None) => {
            matches!(error, OpenDirectoryError::DoesNotExist(_) | OpenDirectoryError::NotADirectory(_))
        }
        (
            TantivyError::OpenReadError(_)
            | TantivyError::DataCorruption(_)
            | TantivyError::IncompatibleIndex(_)
            | TantivyError::SchemaError(_)
            | TantivyError::FieldNotFound(_)
            | TantivyError::DeserializeError(_)
            | TantivyError::InvalidArgument(_)
            | TantivyError::InternalError(_)
            | TantivyError::MissingPlugin(_)
            | TantivyError::UnexpectedPlugin(_),
            None,
        ) => true,
        _ => false,
    };
    let why = sink_error(folder, error);
    if damaged { Unusable::Damaged(why.to_string()) } else { Unusable::Held(why) }
}

/// Errors that say that something else stands where a file of the index should.
fn is_shape(errno: i32) -> bool {
    use nix::libc::{EISDIR, ELOOP, ENOENT, ENOTDIR};
    [EISDIR, ELOOP, ENOENT, ENOTDIR].contains(&errno)
}

fn size_of(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|data| data.len()).sum()
}

/// An empty index in place of whatever is there. It is made beside it and moved into place, so that neither a death nor an
/// error in between leaves half of one, and what was there stays until there is another.
pub(super) fn make(folder: &Path) -> Result<Index, SinkError> {
    let io = |error| SinkError::io(folder, error);
    let (fresh, aside) = (folder.with_extension("new"), folder.with_extension("damaged"));
    discard(&fresh).map_err(io)?;
    std::fs::create_dir(&fresh).map_err(io)?;
    Index::create_in_dir(&fresh, schema()).map_err(|error| sink_error(folder, &error))?;
    std::fs::write(fresh.join(NEW), "").map_err(io)?;
    discard(&aside).map_err(io)?;
    match std::fs::rename(folder, &aside) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(error)),
        _ => {}
    }
    std::fs::rename(&fresh, folder).map_err(io)?;
    discard(&aside).map_err(io)?;
    open_index(folder).map_err(|error| sink_error(folder, &error))
}

/// Removes what is there, be it a folder or not.
pub(super) fn discard(path: &Path) -> std::io::Result<()> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

pub(super) fn open_index(folder: &Path) -> tantivy::Result<Index> {
    let mut index = Index::open_in_dir(folder)?;
    register(&mut index);
    Ok(index)
}

/// A reader that looks at the index as it is now; no thread watches it.
pub(super) fn manual_reader(index: &Index) -> tantivy::Result<IndexReader> {
    index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()
}

pub(super) fn sink_error(folder: &Path, error: &TantivyError) -> SinkError {
    match io_behind(error) {
        Some(io) => {
            let copy = io.raw_os_error().map_or_else(
                || std::io::Error::new(io.kind(), io.to_string()),
                std::io::Error::from_raw_os_error,
            );
            SinkError::io(folder, copy)
        }
        None => SinkError::Index { path: folder.to_owned(), message: error.to_string() },
    }
}

fn io_behind(error: &TantivyError) -> Option<&std::io::Error> {
    match error {
        TantivyError::IoError(io)
        | TantivyError::OpenDirectoryError(OpenDirectoryError::IoError { io_error: io, .. })
        | TantivyError::OpenReadError(OpenReadError::IoError { io_error: io, .. })
        | TantivyError::OpenWriteError(OpenWriteError::IoError { io_error: io, .. })
        | TantivyError::LockFailure(LockError::IoError(io), _) => Some(io),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_of_its_content_damages_no_index() {
        let folder = Path::new("/s/index");
        let io = |errno| std::io::Error::from_raw_os_error(errno);
        let read =
            |errno| TantivyError::OpenReadError(OpenReadError::wrap_io_error(io(errno), "meta.json".into()));
        let directory = |errno| {
            TantivyError::OpenDirectoryError(OpenDirectoryError::wrap_io_error(io(errno), folder.to_owned()))
        };
        use nix::libc::{EACCES, EIO, EMFILE, ENFILE, ENOMEM, ENOSPC, EROFS, ESTALE};
        for errno in [EACCES, EIO, EMFILE, ENFILE, ENOMEM, ENOSPC, EROFS, ESTALE] {
            for error in [read(errno), directory(errno), TantivyError::from(io(errno))] {
                assert!(matches!(unusable(folder, &error), Unusable::Held(_)), "{error:?}");
            }
        }
        let held = [
            TantivyError::LockFailure(LockError::LockBusy, None),
            TantivyError::SystemError("no thread".to_owned()),
            TantivyError::ErrorInThread("no memory".to_owned()),
            TantivyError::Poisoned,
        ];
        for error in held {
            assert!(matches!(unusable(folder, &error), Unusable::Held(_)), "{error:?}");
        }
        let damaged = [
            read(nix::libc::EISDIR),
            directory(nix::libc::ENOTDIR),
            TantivyError::OpenReadError(OpenReadError::FileDoesNotExist("meta.json".into())),
            TantivyError::from(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)),
            TantivyError::SchemaError("another".to_owned()),
        ];
        for error in damaged {
            assert!(matches!(unusable(folder, &error), Unusable::Damaged(_)), "{error:?}");
        }
    }

    #[test]
    fn a_full_disk_is_found_behind_every_error_of_the_index() {
        let full = || std::io::Error::from_raw_os_error(nix::libc::ENOSPC);
        let errors = [
            TantivyError::from(full()),
            TantivyError::from(OpenWriteError::wrap_io_error(full(), "x".into())),
            TantivyError::LockFailure(LockError::wrap_io_error(full()), None),
        ];
        for error in errors {
            let got = sink_error(Path::new("/s/index"), &error);
            assert!(matches!(&got, SinkError::Full { path } if path == Path::new("/s/index")), "{got:?}");
        }
    }
}
