//! ZIP files without a readable central directory: their entries by the headers before them.
//!
//! A download that stopped keeps its first entries whole. They are told from the one that was cut by size and checksum,
//! and the file as a whole is always refused: what its directory would have listed is not known.
#![expect(
    clippy::disallowed_types,
    reason = "what is inflated here is streamed out and counted by its receiver"
)]

use super::zip::{self, ENGINE};
use crate::extract::package::{self, Package};
use crate::extract::{Document, Done, Frames, Output, stream};
use ::zip::result::ZipError;
use flate2::bufread::DeflateDecoder;
use shared::frame::Kind;
use shared::{Format, MemberEnd, MemberHead, MemberKind, Refused};
use std::io::{self, Read};

const LOCAL: &[u8] = b"PK\x03\x04";
const DESCRIPTOR: &[u8] = b"PK\x07\x08";
const END: &[u8] = b"PK\x05\x06";
const HEADER: usize = 30;

/// The largest file that gets a directory again, for it is copied: 64 MiB.
const MEND_MAX: usize = 64 << 20;

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

/// Says what can still be had out of `document`, whose directory failed as `error` says: members, or the text of those
/// parts of an office document that are whole.
pub(super) fn extract(document: &Document<'_>, error: &ZipError, out: &mut Output<'_>) -> Done {
    let bytes = document.bytes;
    let refusal = package::refusal_of(error);
    let why = match refusal.why {
        Refused::Malformed | Refused::Truncated if last(bytes, END).is_none() => Refused::Truncated,
        why => why,
    };
    let format = format_of(bytes);
    let at = find(bytes, LOCAL, 0);
    if at.is_none() && !bytes.starts_with(b"PK") {
        return Done::refused(format, ENGINE, Refused::Malformed, refusal.message);
    }
    if format != Format::Zip {
        let engine = parts(document, out).unwrap_or(ENGINE);
        return Done::refused(format, engine, why, refusal.message);
    }
    entries(bytes, out);
    Done::refused(format, ENGINE, why, refusal.message)
}

fn entries(bytes: &[u8], out: &mut Output<'_>) {
    let mut at = find(bytes, LOCAL, 0);
    while let Some(start) = at {
        let end = match local(bytes, start) {
            Some(header) if header.name.ends_with(b"/") && header.packed == 0 => header.data,
            Some(header) => {
                out.member(MemberHead { name: header.name.to_vec(), kind: MemberKind::File, mtime: None });
                let found = read(bytes, &header, out);
                out.member_end(found.end);
                header.data + found.packed
            }
            None => start + LOCAL.len(),
        };
        at = find(bytes, LOCAL, end);
        out.progress(out.counts().1, 0);
    }
}

/// Reads the whole parts of an office document, for they are no documents of their own. The engine that did it.
fn parts(document: &Document<'_>, out: &mut Output<'_>) -> Option<&'static str> {
    let mended = mended(document.bytes)?;
    let mut package = Package::open(&mended).ok()?;
    let format = zip::identify(&mut package);
    let document = Document { bytes: &mended, ..*document };
    (format != Format::Zip).then(|| zip::read(format, &document, &mut package, out).engine)
}

/// The file with a directory of its whole entries behind it; nothing where there are none or the file is too large.
fn mended(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() > MEND_MAX {
        return None;
    }
    let (mut directory, mut count) = (Vec::new(), 0_u16);
    let mut nobody = Nobody;
    let mut unheard = Output::new(&mut nobody);
    let mut at = find(bytes, LOCAL, 0);
    while let Some(start) = at {
        let mut end = start + LOCAL.len();
        if let Some(header) = local(bytes, start) {
            let found = read(bytes, &header, &mut unheard);
            end = header.data + found.packed;
            if found.end == MemberEnd::Whole {
                directory.extend(record(&header, &found, start)?);
                count = count.checked_add(1)?;
            }
        }
        at = find(bytes, LOCAL, end);
    }
    let mut mended = bytes.to_vec();
    mended.extend(&directory);
    mended.extend(b"PK\x05\x06\0\0\0\0");
    mended.extend(count.to_le_bytes());
    mended.extend(count.to_le_bytes());
    mended.extend(u32::try_from(directory.len()).ok()?.to_le_bytes());
    mended.extend(u32::try_from(bytes.len()).ok()?.to_le_bytes());
    mended.extend([0, 0]);
    (count > 0).then_some(mended)
}

/// The directory's record of an entry.
fn record(header: &Local<'_>, found: &Found, start: usize) -> Option<Vec<u8>> {
    let mut record = b"PK\x01\x02\x14\0\x14\0".to_vec();
    record.extend(header.flags.to_le_bytes());
    record.extend(header.method.to_le_bytes());
    // The time, which nobody asks for here.
    record.extend([0, 0, 0x21, 0]);
    record.extend(found.crc.to_le_bytes());
    record.extend(u32::try_from(found.packed).ok()?.to_le_bytes());
    record.extend(u32::try_from(found.size).ok()?.to_le_bytes());
    record.extend(u16::try_from(header.name.len()).ok()?.to_le_bytes());
    record.extend([0; 12]);
    record.extend(u32::try_from(start).ok()?.to_le_bytes());
    record.extend(header.name);
    Some(record)
}

/// Hears nothing: for a reading that only measures.
struct Nobody;

impl Frames for Nobody {
    fn frame(&mut self, _kind: Kind, _payload: &[u8]) {}
    fn raw(&mut self, _bytes: &[u8]) {}
    fn nonce(&self) -> [u8; 16] {
        [0; 16]
    }
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

/// An entry as it came out.
struct Found {
    end: MemberEnd,
    /// How many bytes it took.
    packed: usize,
    /// How many came out.
    size: u64,
    crc: u32,
}

/// Reads an entry and sends its bytes to the member that was begun.
fn read(bytes: &[u8], header: &Local<'_>, out: &mut Output<'_>) -> Found {
    let rest = bytes.get(header.data..).unwrap_or_default();
    let refused = |why, message: String| Found {
        end: stream::failed(why, message),
        packed: usize::try_from(header.packed).unwrap_or(usize::MAX).min(rest.len()),
        size: 0,
        crc: 0,
    };
    match (header.flags & 1, header.method) {
        (0, 0) => stored(rest, header, out),
        (0, 8) => deflated(rest, header, out),
        (0, method) => refused(Refused::Unsupported, format!("compression method not supported: {method}")),
        _ => refused(Refused::Encrypted, package::PASSWORD.to_owned()),
    }
}

fn stored(rest: &[u8], header: &Local<'_>, out: &mut Output<'_>) -> Found {
    let known = header.flags & 8 == 0 || header.packed > 0;
    let length = if known {
        usize::try_from(header.packed).unwrap_or(usize::MAX)
    } else {
        find(rest, DESCRIPTOR, 0).unwrap_or(usize::MAX)
    };
    let packed = length.min(rest.len());
    let data = rest.get(..packed).unwrap_or_default();
    out.member_data(data);
    let crc = checksum(data);
    let end = judged(rest.len() >= length, crc, header, rest.get(packed..).unwrap_or_default());
    Found { end, packed, size: packed as u64, crc }
}

fn deflated(rest: &[u8], header: &Local<'_>, out: &mut Output<'_>) -> Found {
    let mut reader = Summing { inner: DeflateDecoder::new(rest), crc: flate2::Crc::new() };
    let result = stream::copy_member(&mut reader, out);
    let packed = usize::try_from(reader.inner.total_in()).unwrap_or(usize::MAX).min(rest.len());
    let crc = reader.crc.sum();
    let end = match result {
        Ok(_) => judged(true, crc, header, rest.get(packed..).unwrap_or_default()),
        Err(error) => stream::failed(stream::refused_by(&error), error.to_string()),
    };
    Found { end, packed, size: reader.inner.total_out(), crc }
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

#[cfg(test)]
mod tests {
    use crate::extract::testing::{self, Said};
    use shared::{Format, Refused};

    #[test]
    fn the_whole_parts_of_a_cut_document_are_read() {
        let content = b"<d xmlns:text='t'><text:p>Hello</text:p></d>";
        let file = testing::zip(&[
            (b"mimetype", b"application/vnd.oasis.opendocument.text"),
            (b"content.xml", content),
            (b"styles.xml", b"<styles/>"),
        ]);
        let cut = file.windows(4).position(|w| w == b"PK\x01\x02").unwrap() - 3;
        let said = Said::of(Format::Zip, file.get(..cut).unwrap());
        assert_eq!((said.done.format, said.text.as_str()), (Format::Odt, "Hello\n"));
        assert_eq!(said.done.refusal.unwrap().why, Refused::Truncated);
        assert!(said.members.is_empty());
    }
}
