//! Directories and entries as the kernel gives them.

use super::entries::Entries;
use super::pulse::Pulse;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// Reads the entries of a directory, whose descriptor stays open; each name moves the pulse.
pub(super) fn read(directory: &OwnedFd, pulse: &Pulse) -> nix::Result<Entries> {
    let own =
        directory.try_clone().map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))?;
    Ok(Entries::read(own, &|| pulse.beat()))
}

/// Opens a directory in another, and says what it is.
pub(super) fn open_directory(parent: BorrowedFd<'_>, name: &[u8]) -> nix::Result<(OwnedFd, FileStat)> {
    let flags =
        OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let fd = openat(parent, OsStr::from_bytes(name), flags, Mode::empty())?;
    let stat = fstat(&fd)?;
    Ok((fd, stat))
}

pub(super) fn file_type(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits())
}

/// What it is, in words, where it is no regular file.
pub(super) fn special(stat: &FileStat) -> &'static str {
    match file_type(stat) {
        SFlag::S_IFLNK => "a symbolic link; links are not followed",
        SFlag::S_IFIFO => "a FIFO",
        SFlag::S_IFSOCK => "a socket",
        SFlag::S_IFBLK | SFlag::S_IFCHR => "a device",
        _ => "no regular file",
    }
}
