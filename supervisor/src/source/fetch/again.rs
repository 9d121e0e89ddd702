//! Reads an item once more and keeps nothing of it: to hold it against what was read before, or to see whether it can be
//! read at all.
//!
//! What the page cache holds proves nothing: bytes that were damaged on their way into it are read from it again and again.
//! So it is gone around where the file system takes that, and told to forget the file where not.

use super::super::readers::Heart;
use super::{HEAD, Place, READERS, changed, unread, within_bounds};
use crate::ledger::Stat;
use crate::rules::fault::Fault;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, PosixFadviseAdvice, fcntl, posix_fadvise};
use sha2::{Digest, Sha256};
use shared::ContentHash;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// What a second reading says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rehashed {
    pub sha256: ContentHash,
    /// In bytes.
    pub size: u64,
    pub stat: Stat,
}

/// Hashes an item's bytes, past the page cache where that is possible. `path` is raw, below `root`; `fetch_ms` the longest
/// wait for a byte, in ms; `input_limit` the largest item, in bytes.
///
/// # Errors
/// As [`super::fetch`].
pub async fn rehash(root: &Path, path: &[u8], fetch_ms: u64, input_limit: u64) -> Result<Rehashed, Fault> {
    let place = Place::new(root, path);
    READERS.carry(fetch_ms, move |heart, buffer| hash(&place, input_limit, heart, buffer)).await
}

/// Whether an item can be opened and its first bytes be read. `path` is raw, below `root`; `fetch_ms` the longest wait, in ms.
///
/// # Errors
/// `source.*` as the system says; `policy.special_file` for what is no regular file. An empty file is none.
pub async fn probe(root: &Path, path: &[u8], fetch_ms: u64) -> Result<(), Fault> {
    let place = Place::new(root, path);
    let first_bytes = move |_: &Heart, buffer: &mut [u8]| {
        let mut opened = place.open()?;
        forget(&opened.file);
        read(&mut opened.file, buffer.get_mut(..HEAD).unwrap_or_default()).map(drop)
    };
    READERS.carry(fetch_ms, first_bytes).await
}

fn hash(place: &Place, input_limit: u64, heart: &Heart, buffer: &mut [u8]) -> Result<Rehashed, Fault> {
    let mut opened = place.open()?;
    let size = opened.before.size;
    within_bounds(size, input_limit)?;
    heart.beat();
    forget(&opened.file);
    go_around(&opened.file, true);
    let sha256 = hash_of(&mut opened.file, size, heart, buffer)?;
    place.stood_still(&opened)?;
    // The next reader, too, gets what the source has.
    forget(&opened.file);
    Ok(Rehashed { sha256, size, stat: opened.before })
}

fn hash_of(file: &mut File, size: u64, heart: &Heart, buffer: &mut [u8]) -> Result<ContentHash, Fault> {
    let mut hash = Sha256::new();
    let mut got = 0;
    // Not until nothing comes: behind an odd end a read around the cache is refused.
    while got < size {
        let length = read(file, buffer)?;
        heart.beat();
        got += length as u64;
        if length == 0 || got > size {
            return Err(changed("its size moved while it was read"));
        }
        hash.update(buffer.get(..length).unwrap_or_default());
    }
    Ok(ContentHash(hash.finalize().into()))
}

/// One read; where the file system takes none around the cache after all, through it.
fn read(file: &mut File, buffer: &mut [u8]) -> Result<usize, Fault> {
    loop {
        match file.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && go_around(file, false) => {}
            Err(error) => return Err(unread(&error)),
            Ok(length) => return Ok(length),
        }
    }
}

/// Switches reads around the page cache on or off; whether anything was switched.
fn go_around(file: &File, around: bool) -> bool {
    let Ok(flags) = fcntl(file, FcntlArg::F_GETFL).map(OFlag::from_bits_retain) else { return false };
    let wanted = if around { flags | OFlag::O_DIRECT } else { flags - OFlag::O_DIRECT };
    wanted != flags && fcntl(file, FcntlArg::F_SETFL(wanted)).is_ok()
}

/// Asks that the page cache keep nothing of the file. Advice: where it is not taken there is nothing to do.
fn forget(file: &File) {
    let advice = PosixFadviseAdvice::POSIX_FADV_DONTNEED;
    let _taken: Result<(), Errno> = posix_fadvise(file, 0, 0, advice);
}

#[cfg(test)]
mod tests {
    use super::super::super::readers::heart;
    use super::*;
    use crate::rules::kind::Kind;
    use std::os::unix::fs::FileExt;
    use std::path::PathBuf;

    fn block_on<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    /// Where this program was built there is a disk.
    fn on_disk() -> PathBuf {
        std::env::current_exe().unwrap().parent().unwrap().to_owned()
    }

    fn rehashed(root: &Path, path: &[u8]) -> Result<Rehashed, Fault> {
        block_on(rehash(root, path, 60_000, 1 << 20))
    }

    #[test]
    fn a_second_reading_says_the_same_of_every_size() {
        // The second is a file system in memory, mostly, which has no way around the cache.
        for place in [on_disk(), "/dev/shm".into()].iter().filter(|place| place.is_dir()) {
            let folder = tempfile::tempdir_in(place).unwrap();
            for size in [1_usize, 511, 4096, 4097, 256 << 10, (256 << 10) + 1, 600_001] {
                let content: Vec<u8> = (0..size).map(|n| (n * 31 % 251).to_le_bytes()[0]).collect();
                std::fs::write(folder.path().join("file"), &content).unwrap();
                let said = rehashed(folder.path(), b"file").unwrap();
                assert_eq!((said.sha256, said.size), (ContentHash::of(&content), size as u64), "{size}");
                assert_eq!(said.stat.size, size as u64);
            }
        }
    }

    #[test]
    fn reads_around_the_cache_can_be_switched_off_again() {
        let folder = tempfile::tempdir_in(on_disk()).unwrap();
        std::fs::write(folder.path().join("file"), vec![7; 9000]).unwrap();
        let mut file = File::open(folder.path().join("file")).unwrap();
        if !go_around(&file, true) {
            // This file system has no way around the cache: nothing can be shown here.
            return;
        }
        assert!(!go_around(&file, true), "it is on");
        // An odd place in memory and an odd length, which a read around the cache does not take.
        let mut odd = vec![0; 6000];
        let rest = odd.get_mut(1..5002).unwrap();
        assert!(read(&mut file, rest).unwrap() > 0);
    }

    #[test]
    fn an_edit_that_keeps_size_and_time_has_another_hash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "before").unwrap();
        let time = std::fs::metadata(&path).unwrap().modified().unwrap();
        let first = rehashed(folder.path(), b"file").unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(b"behind", 0).unwrap();
        file.set_modified(time).unwrap();
        let second = rehashed(folder.path(), b"file").unwrap();
        assert_eq!((first.size, first.stat.mtime_ns), (second.size, second.stat.mtime_ns));
        assert_eq!(second.sha256, ContentHash::of(b"behind"));
        assert_ne!(first.sha256, second.sha256);
    }

    #[test]
    fn a_file_that_is_cut_or_grows_meanwhile_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "12345").unwrap();
        for expected in [4, 6] {
            let mut file = File::open(folder.path().join("file")).unwrap();
            let fault = hash_of(&mut file, expected, &heart(), &mut [0; 16]).unwrap_err();
            assert_eq!(fault.kind, Kind::SourceChanged, "{expected}");
        }
    }

    #[test]
    fn both_refuse_what_a_fetch_refuses() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::write(root.join("file"), "12345").unwrap();
        std::fs::write(root.join("empty"), "").unwrap();
        std::fs::write(root.join("large"), vec![0; (1 << 20) + 1]).unwrap();
        std::os::unix::fs::symlink("file", root.join("link")).unwrap();
        nix::unistd::mkfifo(&root.join("fifo"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        let probed =
            |root: &Path, path: &[u8]| block_on(probe(root, path, 60_000)).map_err(|fault| fault.kind);
        for (path, kind) in [
            (&b"link"[..], Kind::PolicySpecialFile),
            (b"fifo", Kind::PolicySpecialFile),
            (b"none", Kind::SourceVanished),
            (b"../x", Kind::PolicySpecialFile),
        ] {
            assert_eq!(rehashed(root, path).unwrap_err().kind, kind, "{path:?}");
            assert_eq!(probed(root, path), Err(kind), "{path:?}");
        }
        assert_eq!(rehashed(root, b"empty").unwrap_err().kind, Kind::PolicyEmptyFile);
        assert_eq!(rehashed(root, b"large").unwrap_err().kind, Kind::PolicyTooLarge);
        for path in [&b"file"[..], b"empty", b"large"] {
            assert_eq!(probed(root, path), Ok(()), "{path:?}");
        }
        assert_eq!(probed(&root.join("gone"), b"file"), Err(Kind::SourceUnreachable));
    }
}
