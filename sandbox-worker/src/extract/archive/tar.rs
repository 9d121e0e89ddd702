//! TAR: ustar, pax, GNU long names and sparse files, as a stream.
//!
//! The format has no directory and no checksum of contents; where the bytes stop, only a missing end tells. So the
//! source is watched: an archive that ends without its block of zeros is truncated, though every entry came out whole.

use crate::extract::{Document, Done, Output, stream};
use shared::{Format, MemberEnd, MemberHead, MemberKind, Refused};
use std::cell::Cell;
use std::io::{self, Read};

/// The engine.
pub(super) const ENGINE: &str = "tar 0.4.46";

/// The size of a block.
pub(super) const BLOCK: usize = 512;

/// Lists the archive's entries as members.
pub(in crate::extract) fn extract(document: &Document<'_>, out: &mut Output<'_>) -> Done {
    list(Format::Tar, ENGINE, document.bytes, out)
}

/// Whether these bytes begin with the header of an entry: its checksum holds.
pub(super) fn begins(block: &[u8]) -> bool {
    let Some(block) = block.get(..BLOCK) else { return false };
    let header = tar::Header::from_byte_slice(block);
    let sum: u32 = block
        .iter()
        .enumerate()
        .map(|(at, &byte)| if (148..156).contains(&at) { 32 } else { u32::from(byte) })
        .sum();
    block.iter().any(|&byte| byte != 0) && header.cksum().is_ok_and(|cksum| cksum == sum)
}

/// Lists the entries of the archive that `source` is the stream of, packed in `format` by `engine`.
pub(super) fn list(format: Format, engine: &'static str, source: impl Read, out: &mut Output<'_>) -> Done {
    let watch = Watch::default();
    let mut archive = tar::Archive::new(Watched { source, watch: &watch });
    let entries = match archive.entries() {
        Ok(entries) => entries,
        Err(error) => return refused(format, engine, &watch, &error),
    };
    let mut listed = 0;
    for entry in entries {
        match entry {
            Ok(entry) => member(entry, &watch, out),
            Err(error) => return refused(format, engine, &watch, &error),
        }
        if let Some(error) = watch.failure.take() {
            return refused(format, engine, &watch, &error);
        }
        listed += 1;
        out.progress(listed, 0);
    }
    if watch.ended.get() && !watch.zeros.get() {
        return Done::refused(format, engine, Refused::Truncated, "the archive stops without its end");
    }
    Done::whole(format, engine)
}

fn refused(format: Format, engine: &'static str, watch: &Watch, error: &io::Error) -> Done {
    let why = match stream::refused_by(error) {
        Refused::Malformed if watch.ended.get() => Refused::Truncated,
        why => why,
    };
    Done::refused(format, engine, why, error.to_string())
}

fn member<R: Read>(mut entry: tar::Entry<'_, R>, watch: &Watch, out: &mut Output<'_>) {
    let kind = entry.header().entry_type();
    if kind.is_dir() || kind.is_pax_global_extensions() {
        return;
    }
    let kind = match () {
        () if kind.is_symlink() || kind.is_hard_link() => MemberKind::Link,
        () if kind.is_character_special() || kind.is_block_special() || kind.is_fifo() => MemberKind::Special,
        () => MemberKind::File,
    };
    let name = entry.path_bytes().into_owned();
    // Old archives have folders as files whose name ends so.
    if kind == MemberKind::File && name.ends_with(b"/") && entry.size() == 0 {
        return;
    }
    let mtime = entry.header().mtime().ok().and_then(|time| i64::try_from(time).ok());
    out.member(MemberHead { name, kind, mtime });
    let end = match kind {
        MemberKind::File => contents(&mut entry, watch, out),
        _ => MemberEnd::Whole,
    };
    out.member_end(end);
}

fn contents<R: Read>(entry: &mut tar::Entry<'_, R>, watch: &Watch, out: &mut Output<'_>) -> MemberEnd {
    let size = entry.size();
    let sparse = entry.header().entry_type().is_gnu_sparse();
    match stream::copy_member(entry, out) {
        Ok(read) if read < size && !sparse => {
            watch.failure.set(Some(io::ErrorKind::UnexpectedEof.into()));
            stream::failed(
                Refused::Truncated,
                format!("the archive ends {} bytes before this entry", size - read),
            )
        }
        Err(error) => {
            let end = stream::failed(stream::refused_by(&error), error.to_string());
            watch.failure.set(Some(error));
            end
        }
        Ok(_) => MemberEnd::Whole,
    }
}

/// What is known of the source so far.
#[derive(Default)]
struct Watch {
    /// Its end was met.
    ended: Cell<bool>,
    /// The last read gave zeros alone.
    zeros: Cell<bool>,
    /// Why an entry's bytes stopped.
    failure: Cell<Option<io::Error>>,
}

struct Watched<'a, R> {
    source: R,
    watch: &'a Watch,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        if read > 0 {
            let bytes = buffer.get(..read).unwrap_or_default();
            self.watch.zeros.set(bytes.iter().all(|&byte| byte == 0));
        } else if !buffer.is_empty() {
            self.watch.ended.set(true);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::testing::Said;

    fn archive() -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(5);
        header.set_mtime(1_700_000_000);
        header.set_cksum();
        let long = "folder/".repeat(30) + "name";
        builder.append_data(&mut header, &long, &b"hello"[..]).unwrap();
        let mut link = tar::Header::new_gnu();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        builder.append_link(&mut link, "link", "/etc/passwd").unwrap();
        let mut fifo = tar::Header::new_gnu();
        fifo.set_entry_type(tar::EntryType::Fifo);
        fifo.set_path("pipe").unwrap();
        fifo.set_size(0);
        fifo.set_cksum();
        builder.append(&fifo, io::empty()).unwrap();
        builder.into_inner().unwrap()
    }

    #[test]
    fn entries_are_members_by_kind() {
        let said = Said::of(Format::Tar, &archive());
        assert_eq!(said.done.refusal, None);
        let kinds: Vec<MemberKind> = said.members.iter().map(|(head, _, _)| head.kind).collect();
        assert_eq!(kinds, [MemberKind::File, MemberKind::Link, MemberKind::Special]);
        let first = said.members.first().unwrap();
        assert_eq!((first.0.name.len(), first.1.as_slice()), (214, &b"hello"[..]));
        assert_eq!(first.0.mtime, Some(1_700_000_000));
    }

    #[test]
    fn where_the_bytes_stop_it_is_truncated() {
        let whole = archive();
        let at = whole.windows(5).position(|w| w == b"hello").unwrap();
        for cut in [at + 2, at + 700, whole.len() - 1024] {
            let said = Said::of(Format::Tar, whole.get(..cut).unwrap());
            assert_eq!(said.done.refusal.as_ref().unwrap().why, Refused::Truncated, "cut at {cut}");
        }
    }

    #[test]
    fn a_header_that_lies_is_malformed() {
        let mut file = archive();
        let at = file.windows(4).position(|w| w == b"pipe").unwrap();
        *file.get_mut(at).unwrap() = b'P';
        let said = Said::of(Format::Tar, &file);
        assert_eq!(said.done.refusal.as_ref().unwrap().why, Refused::Malformed);
        assert_eq!(said.members.len(), 2);
    }
}
