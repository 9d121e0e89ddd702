//! 7z archives, entry by entry.
//!
//! Blocks are read with one thread: the reader's convenient front would ask the system how many processors there are,
//! and the cage has no answer. The memory limit bounds headers and windows that a hostile file asks for.

use crate::extract::{Document, Done, Output, package, stream};
use sevenz_rust2::{Archive, ArchiveEntry, BlockDecoder, Error, Password};
use shared::{Format, MemberEnd, MemberHead, MemberKind, Refusal, Refused};
use std::io::{Cursor, Read};

const ENGINE: &str = "sevenz-rust2 0.25.0";

/// What a header or one decoder's window may take, in KiB: 192 MiB. The largest window of the usual presets is 64 MiB.
const MEMORY_KIB: usize = 192 << 10;

/// Unix links in archives made by p7zip: the mode is in the high half of the attributes.
const UNIX_MODE: u32 = 0x8000;

/// Lists the archive's entries as members.
pub(in crate::extract) fn extract(document: &Document<'_>, out: &mut Output<'_>) -> Done {
    let mut source = Cursor::new(document.bytes);
    let password = Password::empty();
    let archive = match Archive::read_with_memory_limit(&mut source, &password, MEMORY_KIB) {
        Ok(archive) => archive,
        Err(error) => {
            let refusal = refusal_of(&error, document.bytes);
            return Done::refused(Format::SevenZip, ENGINE, refusal.why, refusal.message);
        }
    };
    let total = archive.files.len() as u64;
    let mut sent = Sent { members: vec![false; archive.files.len()], done: 0, total };
    for number in 0..archive.blocks.len() {
        block(&archive, number, document.bytes, &mut sent, out);
    }
    for (number, file) in archive.files.iter().enumerate() {
        if sent.members.get(number) == Some(&false) && !file.is_directory() && !file.is_anti_item() {
            out.member(head(file));
            out.member_end(MemberEnd::Whole);
        }
    }
    Done::whole(Format::SevenZip, ENGINE)
}

/// Which entries were sent, for those without bytes are in no block.
struct Sent {
    members: Vec<bool>,
    done: u64,
    total: u64,
}

fn block(archive: &Archive, block: usize, bytes: &[u8], sent: &mut Sent, out: &mut Output<'_>) {
    let (password, mut source) = (Password::empty(), Cursor::new(bytes));
    let numbers: Vec<usize> = (0..archive.files.len())
        .filter(|&number| archive.stream_map.file_block_index.get(number) == Some(&Some(block)))
        .filter(|&number| archive.files.get(number).is_some_and(ArchiveEntry::has_stream))
        .collect();
    let encrypted = numbers.first().is_some_and(|&number| archive.is_file_encrypted(number));
    let mut next = numbers.iter();
    let mut open = false;
    let decoder = BlockDecoder::new_with_memory_limit(1, MEMORY_KIB, block, archive, &password, &mut source);
    let result = decoder.for_each_entries(&mut |entry, reader: &mut dyn Read| {
        if !entry.has_stream() {
            return Ok(true);
        }
        if let Some(&number) = next.next() {
            sent.mark(number);
        }
        out.member(head(entry));
        open = true;
        let result = stream::copy_member(reader, out);
        let failed = result.is_err();
        out.member_end(stream::end_of(result));
        open = false;
        out.progress(sent.done, sent.total);
        // What follows a failure in the same block cannot be had: it is packed together.
        Ok(!failed)
    });
    let refusal = match result {
        Ok(true) => return,
        Ok(false) => Refusal {
            why: Refused::Malformed,
            message: "packed together with an entry that cannot be read".to_owned(),
        },
        Err(_) if encrypted => Refusal { why: Refused::Encrypted, message: package::PASSWORD.to_owned() },
        Err(error) => refusal_of(&error, bytes),
    };
    if open {
        out.member_end(MemberEnd::Failed(refusal.clone()));
    }
    for &number in next {
        if let Some(file) = archive.files.get(number) {
            sent.mark(number);
            out.member(head(file));
            out.member_end(MemberEnd::Failed(refusal.clone()));
        }
    }
}

impl Sent {
    fn mark(&mut self, number: usize) {
        self.done += 1;
        if let Some(mark) = self.members.get_mut(number) {
            *mark = true;
        }
    }
}

fn head(entry: &ArchiveEntry) -> MemberHead {
    let mode = entry.windows_attributes();
    let link = mode & UNIX_MODE != 0 && (mode >> 16) & 0o170_000 == 0o120_000;
    let kind = if link { MemberKind::Link } else { MemberKind::File };
    let name = entry.name().as_bytes().to_vec();
    let ticks = u64::from(entry.last_modified_date());
    // Ticks of 100 ns since 1601; none where there is no date.
    let mtime =
        i64::try_from(ticks / 10_000_000).ok().filter(|_| ticks > 0).map(|time| time - 11_644_473_600);
    MemberHead { name, kind, mtime }
}

fn refusal_of(error: &Error, bytes: &[u8]) -> Refusal {
    let why = match error {
        Error::PasswordRequired | Error::MaybeBadPassword(_) => Refused::Encrypted,
        Error::UnsupportedVersion { .. }
        | Error::ExternalUnsupported
        | Error::UnsupportedCompressionMethod(_)
        | Error::MaxMemLimited { .. }
        | Error::Unsupported(_) => Refused::Unsupported,
        Error::Io(error, _) => stream::refused_by(error),
        _ => Refused::Malformed,
    };
    let message = error.to_string();
    // Without the cipher built in, an encrypted header reads as a method that is not known.
    if why == Refused::Unsupported && message.contains("AES") {
        return Refusal { why: Refused::Encrypted, message: package::PASSWORD.to_owned() };
    }
    let why = if why == Refused::Malformed && ends_early(bytes) { Refused::Truncated } else { why };
    Refusal { why, message }
}

/// Whether the header that the first 32 bytes point at lies beyond the end.
fn ends_early(bytes: &[u8]) -> bool {
    let number =
        |at: usize| bytes.get(at..at + 8).and_then(|field| field.try_into().ok()).map(u64::from_le_bytes);
    match (number(12), number(20)) {
        (Some(offset), Some(size)) => offset.saturating_add(size).saturating_add(32) > bytes.len() as u64,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::testing::Said;

    #[test]
    fn what_is_no_archive_is_malformed_or_cut() {
        let said = Said::of(Format::SevenZip, b"7z\xbc\xaf\x27\x1c\0\x04");
        assert_eq!(said.done.refusal.as_ref().unwrap().why, Refused::Truncated);
        let mut file = b"7z\xbc\xaf\x27\x1c\0\x04".to_vec();
        file.extend([0x55; 24]);
        let said = Said::of(Format::SevenZip, &file);
        assert!(matches!(said.done.refusal.as_ref().unwrap().why, Refused::Malformed | Refused::Truncated));
    }
}
