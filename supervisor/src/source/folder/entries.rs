//! The names in one directory, sorted, in one piece of memory: a directory of a million entries costs some tens of bytes
//! for each.

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use std::os::fd::OwnedFd;

/// The entries of a directory.
#[derive(Debug, Default)]
pub(super) struct Entries {
    names: Vec<u8>,
    index: Vec<Entry>,
    /// Why it could not be read to the end, if it could not.
    pub(super) broken: Option<Errno>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    start: u32,
    length: u16,
    directory: bool,
}

impl Entries {
    /// Reads a directory, `.` and `..` left out. `each` hears of each name as it comes: a large directory takes many answers.
    pub(super) fn read(directory: OwnedFd, each: &dyn Fn()) -> Self {
        let mut entries = Entries::default();
        match Dir::from_fd(directory) {
            Ok(mut open) => {
                entries.broken = open.iter().find_map(|entry| {
                    each();
                    match entry {
                        Ok(entry) => entries.add(entry.file_name().to_bytes(), entry.file_type()).err(),
                        Err(errno) => Some(errno),
                    }
                });
            }
            Err(errno) => entries.broken = Some(errno),
        }
        entries.sort();
        entries
    }

    /// None of them could be read.
    pub(super) fn unreadable(errno: Errno) -> Self {
        Entries { broken: Some(errno), ..Entries::default() }
    }

    fn add(&mut self, name: &[u8], kind: Option<Type>) -> Result<(), Errno> {
        if name == b"." || name == b".." {
            return Ok(());
        }
        // 4 GiB of names in one directory are past every honest use.
        let start = u32::try_from(self.names.len()).map_err(|_| Errno::EOVERFLOW)?;
        let length = u16::try_from(name.len()).map_err(|_| Errno::EOVERFLOW)?;
        self.names.extend_from_slice(name);
        self.index.push(Entry { start, length, directory: kind == Some(Type::Directory) });
        Ok(())
    }

    fn sort(&mut self) {
        let names = std::mem::take(&mut self.names);
        self.index.sort_unstable_by(|a, b| slice(&names, *a).cmp(slice(&names, *b)));
        // A directory that changes while it is read may give a name twice.
        self.index.dedup_by(|a, b| slice(&names, *a) == slice(&names, *b));
        self.names = names;
    }

    /// Name, and whether the directory itself says that it is a directory.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], bool)> {
        self.index.iter().map(|entry| (slice(&self.names, *entry), entry.directory))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }
}

fn slice(names: &[u8], entry: Entry) -> &[u8] {
    let start = entry.start as usize;
    names.get(start..start + usize::from(entry.length)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn each_name_is_heard_of_as_it_comes() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b", "a", "c"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let heard = Cell::new(0);
        let open = std::fs::File::open(folder.path()).unwrap();
        let entries = Entries::read(open.into(), &|| heard.set(heard.get() + 1));
        assert_eq!(entries.iter().map(|(name, _)| name).collect::<Vec<_>>(), [b"a", b"b", b"c"]);
        assert_eq!(heard.get(), 5, "the two that are left out as well");
    }
}
