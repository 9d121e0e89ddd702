//! Fetches an item's bytes: once, hashed as they come, into memory that nobody can change afterwards.
//!
//! The bytes are copied, never mapped: a file that is cut while it is mapped kills its reader. What was there before the
//! first byte and after the last must be the same file with the same size and times, or the copy is of no version at all.

mod again;

pub use again::{Rehashed, probe, rehash};

use super::errno::{fault, stat_of};
use super::open;
use super::readers::{Heart, Readers};
use crate::ledger::Stat;
use crate::rules::fault::{self, Evidence, Fault};
use crate::rules::kind::{Kind, Stage};
use crate::rules::policy;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::{Mode, SFlag, fstat};
use sha2::{Digest, Sha256};
use shared::ContentHash;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// How many bytes of the head are kept for `identify`.
pub const HEAD: usize = 4096;

/// An item's bytes.
#[derive(Debug)]
pub struct Fetched {
    /// A sealed memfd; above the cap for memory an unlinked file below `spool`, opened for reading only.
    pub document: OwnedFd,
    pub size: u64,
    pub sha256: ContentHash,
    pub stat: Stat,
    /// The first [`HEAD`] bytes.
    pub head: Vec<u8>,
}

/// Where to fetch from, and within which bounds.
#[derive(Debug, Clone)]
pub struct Fetch<'a> {
    pub root: &'a Path,
    /// Raw path below the root.
    pub path: &'a [u8],
    /// The longest wait for a byte, in ms.
    pub fetch_ms: u64,
    /// The largest item.
    pub input_limit: u64,
    /// Larger items go to a file below `spool`.
    pub memory_cap: u64,
    pub spool: &'a Path,
}

static READERS: Readers = Readers::new();

/// How many reading threads hang in a file system right now.
pub fn stuck() -> usize {
    READERS.stuck()
}

/// Fetches. Reading happens on a thread of its own, so that a file system that hangs costs this item alone.
///
/// # Errors
/// `source.*` as the system says; `source.changed` where size or times moved while it was read; `policy.special_file` for
/// what is no regular file; `policy.too_large`, `policy.empty_file`.
pub async fn fetch(fetch: Fetch<'_>) -> Result<Fetched, Fault> {
    let task = Task {
        place: Place::new(fetch.root, fetch.path),
        input_limit: fetch.input_limit,
        memory_cap: fetch.memory_cap,
        spool: fetch.spool.to_owned(),
    };
    READERS.carry(fetch.fetch_ms, move |heart, buffer| task.read(heart, buffer)).await
}

/// A sealed memfd with these bytes: for members and for the built-in documents.
///
/// # Errors
/// The system has no descriptor or no memory left.
pub fn sealed(bytes: &[u8]) -> std::io::Result<OwnedFd> {
    let mut file = memory_file()?;
    file.write_all(bytes)?;
    seal(file)
}

/// The same file, as a descriptor that can only be read; what is written through `file` from now on shows there as well.
///
/// # Errors
/// The system has no descriptor left, or no `/proc`.
pub fn read_only(file: &File) -> std::io::Result<OwnedFd> {
    Ok(File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?.into())
}

fn memory_file() -> nix::Result<File> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    // Kernels before 6.3 do not know that flag.
    let not_executable = flags | MFdFlags::from_bits_retain(libc::MFD_NOEXEC_SEAL);
    memfd_create(c"document", not_executable)
        .or_else(|errno| if errno == Errno::EINVAL { memfd_create(c"document", flags) } else { Err(errno) })
        .map(File::from)
}

fn seal(mut file: File) -> std::io::Result<OwnedFd> {
    file.rewind()?;
    let seals =
        SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file.into())
}

/// Where the copy goes.
enum Copy {
    Memory(File),
    Spool(File),
}

impl Copy {
    fn file(&mut self) -> &mut File {
        match self {
            Copy::Memory(file) | Copy::Spool(file) => file,
        }
    }

    /// Nobody writes to it any more, not even we.
    fn close(self) -> std::io::Result<OwnedFd> {
        match self {
            Copy::Memory(file) => seal(file),
            Copy::Spool(file) => read_only(&file),
        }
    }
}

/// A file below `spool` that has no name.
fn spool_file(spool: &Path) -> std::io::Result<File> {
    let flags = OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_CLOEXEC;
    match nix::fcntl::open(spool, flags, Mode::from_bits_truncate(0o600)) {
        Ok(fd) => Ok(fd.into()),
        // Not every file system has nameless files; a name that is taken away at once does as well.
        Err(Errno::EOPNOTSUPP | Errno::EISDIR) => named_and_unlinked(spool),
        Err(errno) => Err(errno.into()),
    }
}

fn named_and_unlinked(spool: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let thread = nix::unistd::gettid();
    let path = spool.join(format!("fetch-{}-{thread}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Where an item lies, owned by the thread that reads it.
struct Place {
    root: PathBuf,
    path: Vec<u8>,
}

/// An item that is open for reading, and what was seen of it then.
struct Opened {
    root: OwnedFd,
    file: File,
    before: Stat,
}

impl Place {
    fn new(root: &Path, path: &[u8]) -> Self {
        Place { root: root.to_owned(), path: path.to_vec() }
    }

    fn open(&self) -> Result<Opened, Fault> {
        let root = self.open_root()?;
        let file = self.open_as(root.as_fd(), OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY)?;
        let before = regular(&file)?;
        Ok(Opened { root, file: file.into(), before })
    }

    /// The file that was read is still the same, and the path still leads to it.
    fn stood_still(&self, opened: &Opened) -> Result<(), Fault> {
        unchanged(&opened.before, &regular(&opened.file)?)?;
        unchanged(&opened.before, &regular(&self.open_as(opened.root.as_fd(), OFlag::O_PATH)?)?)
    }

    fn open_root(&self) -> Result<OwnedFd, Fault> {
        open::root(&self.root).map_err(|errno| {
            let mut fault = fault(Stage::Fetch, errno, "the source's root");
            // The item did not vanish: nothing can be said of it.
            if fault.kind == Kind::SourceVanished {
                fault.kind = Kind::SourceUnreachable;
            }
            fault
        })
    }

    fn open_as(&self, root: BorrowedFd<'_>, flags: OFlag) -> Result<OwnedFd, Fault> {
        open::beneath(root, &self.path, flags).map_err(|errno| fault(Stage::Fetch, errno, "open"))
    }
}

/// An item of so many bytes is read.
fn within_bounds(size: u64, input_limit: u64) -> Result<(), Fault> {
    policy::judge_size(Stage::Fetch, size, input_limit).map_or(Ok(()), Err)
}

/// [`Fetch`], owned by the thread that carries it out.
struct Task {
    place: Place,
    input_limit: u64,
    memory_cap: u64,
    spool: PathBuf,
}

impl Task {
    fn read(&self, heart: &Heart, buffer: &mut [u8]) -> Result<Fetched, Fault> {
        let mut opened = self.place.open()?;
        within_bounds(opened.before.size, self.input_limit)?;
        heart.beat();
        let size = opened.before.size;
        let mut copying = Copying::new(self.destination(size)?, size);
        copying.run(&mut opened.file, heart, buffer)?;
        self.place.stood_still(&opened)?;
        copying.finish(opened.before)
    }

    fn destination(&self, size: u64) -> Result<Copy, Fault> {
        if size <= self.memory_cap {
            return memory_file().map(Copy::Memory).map_err(|errno| ours(&errno.into()));
        }
        spool_file(&self.spool).map(Copy::Spool).map_err(|error| ours(&error))
    }
}

/// The stat of a regular file; anything else is not read.
fn regular(fd: &impl AsFd) -> Result<Stat, Fault> {
    let stat = fstat(fd.as_fd()).map_err(|errno| fault(Stage::Fetch, errno, "stat"))?;
    if SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) != SFlag::S_IFREG {
        return Err(Fault::new(Stage::Fetch, Kind::PolicySpecialFile, "no regular file"));
    }
    Ok(stat_of(&stat))
}

/// The change time is left out: a new link to the file moves it and changes no byte.
fn unchanged(before: &Stat, after: &Stat) -> Result<(), Fault> {
    let same = |stat: &Stat| (stat.size, stat.mtime_ns, stat.dev, stat.ino);
    if same(before) == same(after) {
        Ok(())
    } else {
        Err(changed("size, times or inode moved while it was read"))
    }
}

fn changed(message: &str) -> Fault {
    Fault::new(Stage::Fetch, Kind::SourceChanged, message)
}

/// What the source says instead of bytes.
fn unread(error: &std::io::Error) -> Fault {
    fault(Stage::Fetch, Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)), "read")
}

/// What fails on our own side: the copy.
fn ours(error: &std::io::Error) -> Fault {
    let errno = error.raw_os_error().map(|raw| format!("{:?}", Errno::from_raw(raw)));
    let evidence = Evidence { errno, detail: Some(fault::OUR_OWN.to_owned()), ..Evidence::default() };
    Fault::new(Stage::Fetch, Kind::SourceIo, format!("the copy: {error}")).with(evidence)
}

/// A copy that is being made.
struct Copying {
    copy: Copy,
    hash: Sha256,
    head: Vec<u8>,
    expected: u64,
    got: u64,
}

impl Copying {
    fn new(copy: Copy, expected: u64) -> Self {
        Copying { copy, hash: Sha256::new(), head: Vec::new(), expected, got: 0 }
    }

    /// Reads to the end. More or fewer bytes than expected are a change.
    fn run(&mut self, source: &mut impl Read, heart: &Heart, buffer: &mut [u8]) -> Result<(), Fault> {
        loop {
            let length = match source.read(buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(unread(&error)),
            };
            heart.beat();
            self.got += length as u64;
            if self.got > self.expected || (length == 0 && self.got < self.expected) {
                return Err(changed("its size moved while it was read"));
            }
            if length == 0 {
                return Ok(());
            }
            let bytes = buffer.get(..length).unwrap_or_default();
            self.hash.update(bytes);
            let wanted = HEAD.saturating_sub(self.head.len()).min(length);
            self.head.extend_from_slice(bytes.get(..wanted).unwrap_or_default());
            self.copy.file().write_all(bytes).map_err(|error| ours(&error))?;
        }
    }

    fn finish(self, stat: Stat) -> Result<Fetched, Fault> {
        let document = self.copy.close().map_err(|error| ours(&error))?;
        let sha256 = ContentHash(self.hash.finalize().into());
        Ok(Fetched { document, size: stat.size, sha256, stat, head: self.head })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::fstat;
    use std::os::unix::fs::PermissionsExt;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("lazaret-fetch-{name}-{}", std::process::id()));
            drop(std::fs::remove_dir_all(&path));
            std::fs::create_dir_all(path.join("spool")).unwrap();
            Folder(path)
        }

        fn fetch(&self, path: &[u8]) -> Result<Fetched, Fault> {
            self.within(path, 1 << 20, 1 << 20)
        }

        fn within(&self, path: &[u8], input_limit: u64, memory_cap: u64) -> Result<Fetched, Fault> {
            let spool = self.0.join("spool");
            let fetch =
                Fetch { root: &self.0, path, fetch_ms: 60_000, input_limit, memory_cap, spool: &spool };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(super::fetch(fetch))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }

    fn bytes_of(document: OwnedFd) -> Vec<u8> {
        let mut bytes = Vec::new();
        File::from(document).read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn bytes_hash_head_and_stat_are_the_files_and_cannot_be_changed() {
        let folder = Folder::new("whole");
        let content: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[1]).collect();
        std::fs::create_dir(folder.0.join("sub")).unwrap();
        std::fs::write(folder.0.join("sub/file"), &content).unwrap();
        let fetched = folder.fetch(b"sub/file").unwrap();
        assert_eq!(fetched.sha256, ContentHash::of(&content));
        assert_eq!((fetched.size, fetched.head.as_slice()), (300_000, &content[..HEAD]));
        assert_eq!(fetched.stat, stat_of(&nix::sys::stat::stat(&folder.0.join("sub/file")).unwrap()));
        assert_eq!(nix::unistd::write(&fetched.document, b"x"), Err(Errno::EPERM));
        assert_eq!(bytes_of(fetched.document), content);
    }

    #[test]
    fn above_the_cap_for_memory_it_is_a_file_without_a_name_open_for_reading() {
        let folder = Folder::new("spool");
        std::fs::write(folder.0.join("file"), vec![7; 5000]).unwrap();
        let fetched = folder.within(b"file", 1 << 20, 4999).unwrap();
        assert_eq!(std::fs::read_dir(folder.0.join("spool")).unwrap().count(), 0);
        assert_eq!(fstat(&fetched.document).unwrap().st_nlink, 0);
        assert_eq!(nix::unistd::write(&fetched.document, b"x"), Err(Errno::EBADF));
        assert_eq!(bytes_of(fetched.document), vec![7; 5000]);
        let file = named_and_unlinked(&folder.0.join("spool")).unwrap();
        assert_eq!(fstat(&file).unwrap().st_nlink, 0);
    }

    #[test]
    fn each_refusal_has_its_kind() {
        let folder = Folder::new("refusals");
        std::fs::write(folder.0.join("empty"), "").unwrap();
        std::fs::write(folder.0.join("large"), "12345").unwrap();
        std::os::unix::fs::symlink("large", folder.0.join("link")).unwrap();
        nix::unistd::mkfifo(&folder.0.join("fifo"), Mode::S_IRUSR).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.0.join("socket")).unwrap();
        for (path, kind, errno) in [
            (&b"empty"[..], Kind::PolicyEmptyFile, None),
            (b"large", Kind::PolicyTooLarge, None),
            (b"link", Kind::PolicySpecialFile, Some("ELOOP")),
            (b"fifo", Kind::PolicySpecialFile, None),
            (b"socket", Kind::PolicySpecialFile, Some("ENXIO")),
            (b"spool", Kind::PolicySpecialFile, None),
            (b"none", Kind::SourceVanished, Some("ENOENT")),
            (b"large/x", Kind::SourceVanished, Some("ENOTDIR")),
        ] {
            let fault = folder.within(path, 4, 4).unwrap_err();
            assert_eq!((fault.kind, fault.evidence.errno.as_deref()), (kind, errno), "{path:?}");
            assert_eq!(fault.stage, Stage::Fetch);
        }
        let limit = folder.within(b"large", 4, 4).unwrap_err().evidence.limit.unwrap();
        assert_eq!((limit.name.as_str(), limit.value, limit.measured), ("input", 4, Some(5)));
    }

    #[test]
    fn what_may_not_be_read_is_denied() {
        if nix::unistd::geteuid().is_root() {
            // Root may read everything: nothing can be shown here.
            return;
        }
        let folder = Folder::new("denied");
        std::fs::write(folder.0.join("file"), "x").unwrap();
        std::fs::set_permissions(folder.0.join("file"), PermissionsExt::from_mode(0o000)).unwrap();
        assert_eq!(folder.fetch(b"file").unwrap_err().kind, Kind::SourceDenied);
    }

    #[test]
    fn a_root_that_is_gone_says_nothing_of_the_item() {
        let folder = Folder::new("rootless");
        std::fs::remove_dir_all(&folder.0).unwrap();
        assert_eq!(folder.fetch(b"file").unwrap_err().kind, Kind::SourceUnreachable);
    }

    /// Gives its bytes and grows, shrinks or fails afterwards.
    struct Moving(Vec<std::io::Result<Vec<u8>>>);

    impl Read for Moving {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let bytes = self.0.remove(0)?;
            buffer[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        }
    }

    fn copied(parts: Vec<std::io::Result<Vec<u8>>>) -> Result<(), Kind> {
        let heart = super::super::readers::heart();
        let mut copying = Copying::new(Copy::Memory(memory_file().unwrap()), 4);
        copying.run(&mut Moving(parts), &heart, &mut [0; 16]).map_err(|fault| fault.kind)
    }

    #[test]
    fn a_file_that_moves_while_it_is_read_is_changed() {
        assert_eq!(copied(vec![Ok(vec![1, 2]), Ok(vec![3, 4])]), Ok(()));
        assert_eq!(copied(vec![Ok(vec![1, 2])]), Err(Kind::SourceChanged));
        assert_eq!(copied(vec![Ok(vec![1, 2, 3]), Ok(vec![4, 5])]), Err(Kind::SourceChanged));
        assert_eq!(copied(vec![Err(std::io::Error::from_raw_os_error(libc::EIO))]), Err(Kind::SourceIo));
        assert_eq!(
            copied(vec![Err(std::io::Error::from_raw_os_error(libc::ESTALE))]),
            Err(Kind::SourceVanished)
        );
        let stat = Stat { size: 4, mtime_ns: 1, ctime_ns: 1, dev: 1, ino: 1 };
        assert!(unchanged(&stat, &Stat { ctime_ns: 2, ..stat }).is_ok());
        for other in [Stat { size: 5, ..stat }, Stat { mtime_ns: 2, ..stat }, Stat { ino: 2, ..stat }] {
            assert_eq!(unchanged(&stat, &other).unwrap_err().kind, Kind::SourceChanged);
        }
    }

    #[test]
    fn sealed_bytes_are_read_from_the_start() {
        let document = sealed(b"built in").unwrap();
        assert!(fcntl(&document, FcntlArg::F_GET_SEALS).unwrap() & libc::F_SEAL_WRITE != 0);
        assert_eq!(bytes_of(document), b"built in");
    }
}
