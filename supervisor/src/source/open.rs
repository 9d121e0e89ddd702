//! Opens what lies below a root, and nothing else: no link is followed on any component, so that nobody who may write
//! to the source can lead the supervisor out of it.
//!
//! `openat2` does it in one call. Where the kernel lacks it, or the path is longer than the kernel takes in one piece,
//! the components are opened one by one.

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::Mode;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Opens the root of a source. The root itself may be a link: a person named it.
pub(super) fn root(path: &Path) -> nix::Result<OwnedFd> {
    nix::fcntl::open(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
}

/// Opens `path`, raw bytes relative to `root`, without following a link anywhere.
pub(super) fn beneath(root: BorrowedFd<'_>, path: &[u8], flags: OFlag) -> nix::Result<OwnedFd> {
    let flags = flags | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    let resolve =
        ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let how = OpenHow::new().flags(flags).resolve(resolve);
    match openat2(root, OsStr::from_bytes(path), how) {
        // Filters that do not know the call answer with EPERM; a real one comes again below.
        Err(Errno::ENOSYS | Errno::EPERM | Errno::ENAMETOOLONG) => by_component(root, path, flags),
        // A rename beside the lookup makes the kernel unsure; once more is what it asks for.
        Err(Errno::EAGAIN) => openat2(root, OsStr::from_bytes(path), how),
        opened => opened,
    }
}

fn by_component(root: BorrowedFd<'_>, path: &[u8], flags: OFlag) -> nix::Result<OwnedFd> {
    let mut held: Option<OwnedFd> = None;
    let mut components = path.split(|&byte| byte == b'/').peekable();
    while let Some(name) = components.next() {
        if name == b".." || name.is_empty() {
            return Err(Errno::EXDEV);
        }
        let at = held.as_ref().map_or(root, AsFd::as_fd);
        let flags = match components.peek() {
            Some(_) => OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC,
            None => flags,
        };
        held = Some(openat(at, OsStr::from_bytes(name), flags, Mode::empty())?);
    }
    held.ok_or(Errno::ENOENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_way_follows_a_link_or_leaves_the_root() {
        let folder = std::env::temp_dir().join(format!("lazaret-open-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("in/sub")).unwrap();
        std::fs::write(folder.join("in/sub/file"), "x").unwrap();
        std::fs::write(folder.join("secret"), "x").unwrap();
        std::os::unix::fs::symlink("../secret", folder.join("in/link")).unwrap();
        std::os::unix::fs::symlink("sub", folder.join("in/dirlink")).unwrap();
        let root = root(&folder.join("in")).unwrap();
        let read = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        for open in [beneath, by_component] {
            assert!(open(root.as_fd(), b"sub/file", read).is_ok());
            assert_eq!(open(root.as_fd(), b"link", read).err(), Some(Errno::ELOOP));
            assert_eq!(open(root.as_fd(), b"../secret", read).err(), Some(Errno::EXDEV));
            assert_eq!(open(root.as_fd(), b"sub/none", read).err(), Some(Errno::ENOENT));
            let through = open(root.as_fd(), b"dirlink/file", read).err();
            assert!(matches!(through, Some(Errno::ELOOP | Errno::ENOTDIR)), "{through:?}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
