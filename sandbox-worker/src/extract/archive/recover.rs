//! ZIP files without a readable central directory: their entries by the headers before them.
//!
//! A download that stopped keeps its first entries whole. They are told from the one that was cut by size and checksum,
//! and the file as a whole is always refused: what its directory would have listed is not known.

use super::zip::ENGINE;
use crate::extract::{Document, Done, Output, package, stream};
use flate2::bufread::DeflateDecoder;
use shared::{Format, MemberEnd, MemberHead, MemberKind, Refusal, Refused};
use std::io::{self, Read};
use zip::result::ZipError;

const LOCAL: &[u8] = b"PK\x03\x04";
const DESCRIPTOR: &[u8] = b"PK\x07\x08";
const END: &[u8] = b"PK\x05\x06";
const HEADER: usize = 30;

/// One header before an entry.
struct Local<'a> {
    name: &'a [u8],
    flags: u16,
    method: u16,
    crc: u32,
    packed: u64,
    /// Where its bytes begin.
    data: usize,
}

/// Streams the entries that can still be had out of `document`, whose directory failed as `error` says.
pub(super) fn extract(document: &Document<'_>, error: &ZipError, out: &mut Output<'_>) -> Done {
    let bytes = document.bytes;
    let refusal = package::refusal_of(error);
    let why = match refusal.why {
        Refused::Malformed | Refused::Truncated if last(bytes, END).is_none() => Refused::Truncated,
        why => why,
    };
    let format = format_of(bytes);
    let mut at = find(bytes, LOCAL, 0);
    if at.is_none() && !bytes.starts_with(b"PK") {
        return Done::refused(format, ENGINE, Refused::Malformed, refusal.message);
    }
    // The parts of an office document are no documents of their own.
    while let Some(start) = at.filter(|_| format == Format::Zip) {
        let end = match local(bytes, start) {
            Some(header) => entry(bytes, &header, out),
            None => start + LOCAL.len(),
        };
        at = find(bytes, LOCAL, end);
        out.progress(out.counts().1, 0);
    }
    Done::refused(format, ENGINE, why, refusal.message)
}

/// What the names that can still be seen say.
fn format_of(bytes: &[u8]) -> Format {
    let has = |name: &str| find(bytes, name.as_bytes(), 0).is_some();
    match () {
        () if has("word/document.xml") => Format::Docx,
        () if has("xl/workbook.xml") => Format::Xlsx,
        () if has("ppt/presentation.xml") => Format::Pptx,
        () if has("application/vnd.oasis.opendocument.text") => Format::Odt,
        () if has("application/vnd.oasis.opendocument.spreadsheet") => Format::Ods,
        () if has("application/vnd.oasis.opendocument.presentation") => Format::Odp,
        () if has("application/epub+zip") => Format::Epub,
        // The directory of the parts comes first in every office document: which one it was is beyond the cut.
        () if has("[Content_Types].xml") && has("_rels/.rels") => Format::Docx,
        () => Format::Zip,
    }
}

fn entry(bytes: &[u8], header: &Local<'_>, out: &mut Output<'_>) -> usize {
    let rest = bytes.get(header.data..).unwrap_or_default();
    if header.name.ends_with(b"/") && header.packed == 0 {
        return header.data;
    }
    out.member(MemberHead { name: header.name.to_vec(), kind: MemberKind::File, mtime: None });
    let (end, used) = match (header.flags & 1, header.method) {
        (0, 0) => stored(rest, header, out),
        (0, 8) => deflated(rest, header, out),
        (0, method) => {
            let message = format!("compression method not supported: {method}");
            (stream::failed(Refused::Unsupported, message), skipped(rest, header))
        }
        _ => (stream::failed(Refused::Encrypted, package::PASSWORD), skipped(rest, header)),
    };
    out.member_end(end);
    header.data + used
}

fn skipped(rest: &[u8], header: &Local<'_>) -> usize {
    usize::try_from(header.packed).unwrap_or(usize::MAX).min(rest.len())
}

fn stored(rest: &[u8], header: &Local<'_>, out: &mut Output<'_>) -> (MemberEnd, usize) {
    let known = header.flags & 8 == 0 || header.packed > 0;
    let length = if known {
        usize::try_from(header.packed).unwrap_or(usize::MAX)
    } else {
        find(rest, DESCRIPTOR, 0).unwrap_or(usize::MAX)
    };
    let whole = rest.len() >= length;
    let used = length.min(rest.len());
    let data = rest.get(..used).unwrap_or_default();
    out.member_data(data);
    let crc = checksum(data);
    (judged(whole, crc, header, rest.get(used..).unwrap_or_default()), used)
}

fn deflated(rest: &[u8], header: &Local<'_>, out: &mut Output<'_>) -> (MemberEnd, usize) {
    let mut reader = Summing { inner: DeflateDecoder::new(rest), crc: flate2::Crc::new() };
    let result = stream::copy_member(&mut reader, out);
    let used = usize::try_from(reader.inner.total_in()).unwrap_or(usize::MAX).min(rest.len());
    let crc = reader.crc.sum();
    match result {
        Ok(_) => (judged(true, crc, header, rest.get(used..).unwrap_or_default()), used),
        Err(error) => {
            (MemberEnd::Failed(Refusal { why: stream::refused_by(&error), message: error.to_string() }), used)
        }
    }
}

/// Whether the bytes are those that the header, or the descriptor after them, promised.
fn judged(whole: bool, crc: u32, header: &Local<'_>, after: &[u8]) -> MemberEnd {
    if !whole {
        return stream::failed(Refused::Truncated, "the file ends inside of this entry");
    }
    let promised = match header.flags & 8 {
        0 => Some(header.crc),
        _ => after.strip_prefix(DESCRIPTOR).and_then(|rest| u32_at(rest, 0)),
    };
    match promised {
        Some(promised) if promised == crc => MemberEnd::Whole,
        Some(_) => stream::failed(Refused::Malformed, "Invalid checksum"),
        None => stream::failed(Refused::Truncated, "the file ends before this entry's checksum"),
    }
}

fn local(bytes: &[u8], start: usize) -> Option<Local<'_>> {
    let header = bytes.get(start..start + HEADER)?;
    let name_length = usize::from(u16_at(header, 26)?);
    let extra_length = usize::from(u16_at(header, 28)?);
    let name = bytes.get(start + HEADER..start + HEADER + name_length)?;
    Some(Local {
        name,
        flags: u16_at(header, 6)?,
        method: u16_at(header, 8)?,
        crc: u32_at(header, 14)?,
        packed: u64::from(u32_at(header, 18)?),
        data: start + HEADER + name_length + extra_length,
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn find(bytes: &[u8], what: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(what.len()).position(|window| window == what).map(|at| from + at)
}

fn last(bytes: &[u8], what: &[u8]) -> Option<usize> {
    // The record lies before a comment of at most 64 KiB.
    let from = bytes.len().saturating_sub(66 << 10);
    bytes.get(from..)?.windows(what.len()).rposition(|window| window == what)
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Sums what is read through it.
struct Summing<R> {
    inner: R,
    crc: flate2::Crc,
}

impl<R: Read> Read for Summing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.crc.update(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}
