//! A ZIP file as its readers want it: entries by number, parts by name, refusals instead of the crate's errors.
//!
//! Names are looked up as the office programs do: without regard to case, to a leading `/`, or to `\` for `/`. The last of
//! two equal names wins, as in the central directory's readers; a plain archive lists both.

use super::stream::{self, ReadError};
use shared::{Refusal, Refused};
use std::collections::HashMap;
use std::io::{BufReader, Cursor};
use zip::ZipArchive;
use zip::read::ZipFile;
use zip::result::ZipError;

/// The message of what needs a password that nobody gave.
pub(super) const PASSWORD: &str = "encrypted, and no known password opens it";

/// An open ZIP file.
pub(super) struct Package<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    /// Folded name to number.
    numbers: HashMap<String, usize>,
    /// Lossy names in the order of the directory.
    names: Vec<String>,
}

/// What the directory says of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct About {
    pub(super) name: Vec<u8>,
    pub(super) directory: bool,
    pub(super) link: bool,
    pub(super) encrypted: bool,
    /// Seconds since 1970; the format has local time, taken as UTC.
    pub(super) mtime: Option<i64>,
}

/// The bytes of an entry as they inflate; the checksum is looked at on the way.
pub(super) type Entry<'p, 'a> = ZipFile<'p, Cursor<&'a [u8]>>;

impl<'a> Package<'a> {
    /// Reads the central directory of `bytes`.
    ///
    /// # Errors
    /// What is wrong with it, or that there is none.
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, ZipError> {
        let archive = ZipArchive::new(Cursor::new(bytes))?;
        let names: Vec<String> =
            archive.file_names_raw().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        let numbers = names.iter().enumerate().map(|(number, name)| (folded(name), number)).collect();
        Ok(Package { archive, numbers, names })
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.archive.len()
    }

    /// The names of all entries, in the directory's order.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of the part of this name.
    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(&folded(name)).copied()
    }

    /// Whether there is a part of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.number(name).is_some()
    }

    /// Whether there is a part below this folder.
    pub(super) fn has_under(&self, folder: &str) -> bool {
        let folder = folded(folder);
        self.names.iter().any(|name| folded(name).starts_with(&folder))
    }

    /// What the directory says of entry `index`.
    ///
    /// # Errors
    /// Where there is no such entry.
    pub(super) fn about(&self, index: usize) -> Result<About, Refusal> {
        let entry = self.archive.by_index_data(index).map_err(|error| refusal_of(&error))?;
        Ok(About {
            name: entry.name_raw().to_vec(),
            directory: entry.name_raw().ends_with(b"/") && entry.size() == 0,
            link: entry.is_symlink(),
            encrypted: entry.encrypted(),
            mtime: entry.last_modified().and_then(|time| {
                super::archive::seconds(
                    i64::from(time.year()),
                    u32::from(time.month()),
                    u32::from(time.day()),
                    u32::from(time.hour()),
                    u32::from(time.minute()),
                    u32::from(time.second()),
                )
            }),
        })
    }

    /// Opens entry `index`.
    ///
    /// # Errors
    /// What stands in the way: its header, its method, its encryption.
    pub(super) fn entry(&mut self, index: usize) -> Result<Entry<'_, 'a>, Refusal> {
        self.archive.by_index(index).map_err(|error| refusal_of(&error))
    }

    /// Opens the encrypted entry `index` with a password.
    ///
    /// # Errors
    /// `Encrypted` where the password is wrong, `Unsupported` where the cipher is not known here.
    pub(super) fn entry_with(&mut self, index: usize, password: &str) -> Result<Entry<'_, 'a>, Refusal> {
        self.archive.by_index_decrypt(index, password.as_bytes()).map_err(|error| refusal_of(&error))
    }

    /// Opens the part of this name, buffered.
    ///
    /// # Errors
    /// `Malformed` where there is none; otherwise as [`Package::entry`].
    pub(super) fn part(&mut self, name: &str) -> Result<BufReader<Entry<'_, 'a>>, Refusal> {
        let number = self.number(name).ok_or_else(|| Refusal {
            why: Refused::Malformed,
            message: format!("the part {name} is missing"),
        })?;
        self.entry(number).map(BufReader::new)
    }

    /// All bytes of the part of this name, at most `cap`.
    ///
    /// # Errors
    /// As [`Package::part`]; `Unsupported` beyond the cap.
    pub(super) fn read(&mut self, name: &str, cap: u64) -> Result<Vec<u8>, Refusal> {
        let part = self.part(name)?;
        stream::read_capped(part, cap).map_err(|error: ReadError| error.refusal(name))
    }

    /// The first bytes of the part of this name, as text; nothing where it cannot be had.
    pub(super) fn peek(&mut self, name: &str, most: usize) -> Option<String> {
        let mut part = self.part(name).ok()?;
        let (bytes, failure) = stream::read_prefix(&mut part, most);
        // What a damaged part gives before it fails is enough to recognise it.
        if failure.is_some() && bytes.is_empty() {
            return None;
        }
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn folded(name: &str) -> String {
    name.trim_start_matches(['/', '\\']).replace('\\', "/").to_lowercase()
}

/// The crate's error as a refusal.
pub(super) fn refusal_of(error: &ZipError) -> Refusal {
    let why = match error {
        ZipError::Io(error) => stream::refused_by(error),
        ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED) | ZipError::InvalidPassword => {
            Refused::Encrypted
        }
        ZipError::UnsupportedArchive(_) | ZipError::CompressionMethodNotSupported(_) => Refused::Unsupported,
        _ => Refused::Malformed,
    };
    Refusal { why, message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::testing;

    #[test]
    fn parts_are_found_as_office_programs_find_them() {
        let file = testing::zip(&[(b"Word\\Document.xml", b"<a/>")]);
        let mut package = Package::open(&file).unwrap();
        assert_eq!(package.read("/word/document.xml", 10).unwrap(), b"<a/>");
        assert!(package.has_under("word/"));
    }

    #[test]
    fn a_part_beyond_its_cap_is_refused() {
        let file = testing::zip(&[(b"a", b"12345")]);
        let mut package = Package::open(&file).unwrap();
        assert_eq!(package.read("a", 4).unwrap_err().why, Refused::Unsupported);
        assert_eq!(package.read("b", 4).unwrap_err().why, Refused::Malformed);
    }
}
