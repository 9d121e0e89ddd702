//! A storage of an OLE file, written out as a file of its own.

use super::super::stream;
use super::Ole;
use std::io::{self, Cursor, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// More entries than this are not copied.
const ENTRIES_MAX: usize = 100_000;

/// An embedded message's properties begin with 24 bytes, a file's with 32: the last 8 are reserved.
const EMBEDDED_HEADER: usize = 24;

/// The storage at `root` as the bytes of a file. `limit` is the most that any stream may hold.
pub(super) fn as_file(file: &mut Ole<'_>, root: &str, limit: u64) -> io::Result<Vec<u8>> {
    let entries: Vec<(PathBuf, bool)> = file
        .walk_storage(root)?
        .skip(1)
        .take(ENTRIES_MAX)
        .map(|entry| (entry.path().to_owned(), entry.is_storage()))
        .collect();
    let class = *file.entry(root)?.clsid();
    let mut copy = cfb::CompoundFile::create(Cursor::new(Vec::new()))?;
    copy.set_storage_clsid("/", class)?;
    for (from, is_storage) in entries {
        let below = from.strip_prefix(root).map_err(io::Error::other)?;
        let to = Path::new("/").join(below);
        if is_storage {
            copy.create_storage(&to)?;
            still(&mut copy, &to)?;
            continue;
        }
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let (mut bytes, failure) = stream::read_prefix(&mut file.open_stream(&from)?, most);
        failure.map_or(Ok(()), Err)?;
        if to == Path::new("/__properties_version1.0") && bytes.len() >= EMBEDDED_HEADER {
            bytes.splice(EMBEDDED_HEADER..EMBEDDED_HEADER, [0; 8]);
        }
        copy.create_stream(&to)?.write_all(&bytes)?;
    }
    still(&mut copy, Path::new("/"))?;
    copy.flush()?;
    Ok(copy.into_inner().into_inner())
}

fn still(copy: &mut cfb::CompoundFile<Cursor<Vec<u8>>>, path: &Path) -> io::Result<()> {
    copy.set_created_time(path, SystemTime::UNIX_EPOCH)?;
    copy.set_modified_time(path, SystemTime::UNIX_EPOCH)
}
