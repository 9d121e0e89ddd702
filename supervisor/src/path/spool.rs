//! Where members wait for their turn: ranges of one unlinked file per container, below the state folder.
//!
//! Nothing has to be swept: the kernel frees the file with its last descriptor, however the supervisor ends. A range is
//! given back as soon as its member is done.

use crate::source::fetch;
use nix::fcntl::{FallocateFlags, fallocate};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// One unlinked file, appended to by one writer at a time.
#[derive(Debug)]
pub struct Spool {
    file: File,
    end: u64,
}

impl Spool {
    /// An empty one in `folder`.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let file =
            File::options().read(true).write(true).custom_flags(libc::O_TMPFILE).mode(0o600).open(folder)?;
        Ok(Spool { file, end: 0 })
    }

    /// How many bytes were ever appended: the start of the next range.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Appends to the range that is being written.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// A descriptor with just these bytes: in sealed memory up to `memory_cap`, else in a file of their own in `folder`.
    pub fn document(&self, range: &Range<u64>, memory_cap: u64, folder: &Path) -> io::Result<OwnedFd> {
        let size = range.end - range.start;
        if size <= memory_cap {
            let mut bytes = vec![0; usize::try_from(size).map_err(io::Error::other)?];
            self.file.read_exact_at(&mut bytes, range.start)?;
            return fetch::sealed(&bytes);
        }
        let mut copy = Spool::new(folder)?;
        let mut buffer = vec![0; 1 << 20];
        let mut at = range.start;
        while at < range.end {
            let want = usize::try_from(range.end - at).unwrap_or(buffer.len()).min(buffer.len());
            let (piece, _) = buffer.split_at_mut(want);
            self.file.read_exact_at(piece, at)?;
            copy.append(piece)?;
            at += want as u64;
        }
        fetch::read_only(&copy.file)
    }

    /// Gives the range's space back. Where the file system cannot do that early, it comes back with the file.
    pub fn forget(&self, range: &Range<u64>) {
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let length = range.end - range.start;
        if let (Ok(start), Ok(length)) = (i64::try_from(range.start), i64::try_from(length))
            && length > 0
        {
            fallocate(&self.file, flags, start, length).ok();
        }
    }
}
