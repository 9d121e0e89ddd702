//! gzip, bzip2 and xz: one packed stream, which is a single member or a whole TAR archive.
//!
//! `a.tar.gz` is one container to everybody who made one, so a stream that holds an archive is listed directly. The
//! checksums are the decoders' to check; here only "ends too early" is told from "is wrong".
#![expect(
    clippy::disallowed_types,
    reason = "what is inflated here is streamed out and counted by its receiver"
)]

use super::tar;
use crate::extract::{Document, Done, Output, stream};
use shared::{Format, MemberHead, MemberKind, Refusal, Refused};
use std::io::{self, Read};

/// What an xz stream's window may cost, in KiB: 128 MiB. The largest preset takes half of that.
const XZ_MEMORY_KIB: u32 = 128 << 10;

/// Unpacks the stream of `document`, which is one of [`Format::Gzip`], [`Format::Bzip2`] and [`Format::Xz`].
pub(in crate::extract) fn extract(format: Format, document: &Document<'_>, out: &mut Output<'_>) -> Done {
    let bytes = document.bytes;
    match format {
        Format::Bzip2 => {
            let name = inner_name(document.name, &[(".tbz2", ".tar"), (".tbz", ".tar"), (".bz2", "")]);
            carry(format, "bzip2 0.6.1", bzip2::bufread::MultiBzDecoder::new(bytes), unnamed(name), out)
        }
        Format::Xz => {
            let name = inner_name(document.name, &[(".txz", ".tar"), (".xz", "")]);
            let reader = lzma_rust2::XzReader::new_mem_limit(bytes, true, XZ_MEMORY_KIB);
            carry(format, "lzma-rust2 0.25.0", reader, unnamed(name), out)
        }
        _ => gzip(document, out),
    }
}

fn gzip(document: &Document<'_>, out: &mut Output<'_>) -> Done {
    let mut first = flate2::bufread::GzDecoder::new(document.bytes);
    // The header is read with the first byte.
    let header = first.read(&mut [0]).ok().and_then(|_| first.header());
    let named = header.and_then(|header| header.filename()).filter(|name| !name.is_empty());
    let name =
        named.map_or_else(|| inner_name(document.name, &[(".tgz", ".tar"), (".gz", "")]), <[u8]>::to_vec);
    let mtime = header.map(|header| i64::from(header.mtime())).filter(|&time| time > 0);
    let head = MemberHead { name, kind: MemberKind::File, mtime };
    carry(Format::Gzip, "flate2 1.1.11", Gzip::new(document.bytes), head, out)
}

fn carry(
    format: Format,
    engine: &'static str,
    mut source: impl Read,
    head: MemberHead,
    out: &mut Output<'_>,
) -> Done {
    let (start, failure) = stream::read_prefix(&mut source, tar::BLOCK);
    if failure.is_none() && tar::begins(&start) {
        return tar::list(format, engine, io::Cursor::new(start).chain(source), out);
    }
    out.member(head);
    out.member_data(&start);
    let result = match failure {
        Some(error) => Err(error),
        None => stream::copy_member(&mut source, out),
    };
    match result {
        Ok(_) => {
            out.member_end(shared::MemberEnd::Whole);
            Done::whole(format, engine)
        }
        Err(error) => {
            let refusal = Refusal { why: refused_by(&error), message: error.to_string() };
            out.member_end(shared::MemberEnd::Failed(refusal.clone()));
            Done::refused(format, engine, refusal.why, refusal.message)
        }
    }
}

/// The head of a member of which the stream says nothing.
fn unnamed(name: Vec<u8>) -> MemberHead {
    MemberHead { name, kind: MemberKind::File, mtime: None }
}

fn refused_by(error: &io::Error) -> Refused {
    match error.kind() {
        // The window is larger than what is allowed.
        io::ErrorKind::OutOfMemory => Refused::Unsupported,
        _ => stream::refused_by(error),
    }
}

/// The document's innermost name without the ending that says how it is packed.
fn inner_name(name: &[u8], endings: &[(&str, &str)]) -> Vec<u8> {
    let folded = name.to_ascii_lowercase();
    for (ending, instead) in endings {
        if folded.ends_with(ending.as_bytes()) && name.len() > ending.len() {
            let kept = name.len() - ending.len();
            let mut inner = name.get(..kept).unwrap_or(name).to_vec();
            inner.extend_from_slice(instead.as_bytes());
            return inner;
        }
    }
    name.to_vec()
}

/// All members of a gzip file one after another, zeros after the last ignored, anything else an error.
struct Gzip<'a> {
    member: Option<flate2::bufread::GzDecoder<&'a [u8]>>,
}

impl<'a> Gzip<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Gzip { member: Some(flate2::bufread::GzDecoder::new(bytes)) }
    }
}

impl Read for Gzip<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let rest = *member.get_ref();
            if rest.iter().all(|&byte| byte == 0) {
                self.member = None;
            } else if rest.starts_with(&[0x1f, 0x8b]) {
                self.member = Some(flate2::bufread::GzDecoder::new(rest));
            } else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "bytes after the end of the stream"));
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::testing::Said;
    use std::io::Write;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn members_of_gzip_are_one_stream() {
        let mut file = packed(b"one ");
        file.extend(packed(b"two"));
        file.extend([0; 7]);
        let said = Said::named(Format::Gzip, b"notes.txt.gz", &file);
        assert_eq!(said.done.refusal, None);
        assert_eq!(said.names(), [b"notes.txt".to_vec()]);
        assert_eq!(said.members.first().unwrap().1, b"one two");
    }

    #[test]
    fn what_is_cut_and_what_is_wrong_are_told_apart() {
        let file = packed(&b"some text ".repeat(50));
        let cut = Said::of(Format::Gzip, file.get(..file.len() - 5).unwrap());
        assert_eq!(cut.done.refusal.as_ref().unwrap().why, Refused::Truncated);
        let mut wrong = file.clone();
        let at = wrong.len() - 6;
        *wrong.get_mut(at).unwrap() ^= 1;
        let wrong = Said::of(Format::Gzip, &wrong);
        assert_eq!(wrong.done.refusal.as_ref().unwrap().why, Refused::Malformed);
        let mut junk = file;
        junk.extend(b"junk");
        let junk = Said::of(Format::Gzip, &junk);
        assert_eq!(junk.done.refusal.as_ref().unwrap().why, Refused::Malformed);
    }

    #[test]
    fn a_packed_archive_is_one_container() {
        let mut builder = ::tar::Builder::new(Vec::new());
        let mut header = ::tar::Header::new_gnu();
        header.set_size(5);
        builder.append_data(&mut header, "a.txt", &b"hello"[..]).unwrap();
        let file = packed(&builder.into_inner().unwrap());
        let said = Said::named(Format::Gzip, b"x.tgz", &file);
        assert_eq!(said.names(), [b"a.txt".to_vec()]);
        assert_eq!(said.done.format, Format::Gzip);
    }

    #[test]
    fn names_lose_the_ending_alone() {
        assert_eq!(inner_name(b"A.TGZ", &[(".tgz", ".tar")]), b"A.tar");
        assert_eq!(inner_name(b".gz", &[(".gz", "")]), b".gz");
        assert_eq!(inner_name(b"", &[(".gz", "")]), b"");
    }
}
