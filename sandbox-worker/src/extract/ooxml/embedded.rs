//! Documents inside of an Office Open XML document: each is a member.
//!
//! Objects of other programs lie in an OLE file that wraps the real one; where the wrapping is known it is taken off, so
//! that a PDF dropped into a report is a PDF.

use crate::extract::Output;
use crate::extract::package::Package;
use crate::extract::stream::{self, ReadError};
use shared::{MemberEnd, MemberHead, MemberKind};
use std::io::{Cursor, Read};

const OLE: &[u8] = &[0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1];

/// Says the members.
pub(super) fn extract(package: &mut Package<'_>, out: &mut Output<'_>) {
    let wanted = |name: &str| {
        let folded = name.replace('\\', "/").to_ascii_lowercase();
        // Relationships of embedded parts are XML of the package.
        let inside = folded.contains("/embeddings/") || folded.contains("/afchunk");
        inside && !folded.contains("/_rels/") && !folded.ends_with('/')
    };
    let names: Vec<String> = package.names().iter().filter(|name| wanted(name)).cloned().collect();
    for name in names {
        member(package, &name, out);
        out.progress(out.counts().1, 0);
    }
}

fn member(package: &mut Package<'_>, name: &str, out: &mut Output<'_>) {
    let base = name.rsplit(['/', '\\']).next().unwrap_or(name).as_bytes().to_vec();
    let mut part = match package.part(name) {
        Ok(part) => part,
        Err(refusal) => {
            out.member(head(base));
            out.member_end(MemberEnd::Failed(refusal));
            return;
        }
    };
    let (start, failure) = stream::read_prefix(&mut part, OLE.len());
    if start == OLE && failure.is_none() {
        return wrapped(
            stream::read_capped(Cursor::new(start).chain(part), stream::PART_CAP),
            name,
            base,
            out,
        );
    }
    out.member(head(base));
    out.member_data(&start);
    let result = match failure {
        Some(error) => Err(error),
        None => stream::copy_member(&mut part, out),
    };
    out.member_end(stream::end_of(result));
}

/// A member in an OLE file: what is wrapped, or the file itself.
fn wrapped(bytes: Result<Vec<u8>, ReadError>, name: &str, base: Vec<u8>, out: &mut Output<'_>) {
    match bytes {
        Ok(bytes) => {
            let (inner, bytes) = native_package(&bytes).unwrap_or((Vec::new(), bytes));
            out.member(head(if inner.is_empty() { base } else { inner }));
            out.member_data(&bytes);
            out.member_end(MemberEnd::Whole);
        }
        Err(error) => {
            out.member(head(base));
            out.member_end(MemberEnd::Failed(error.refusal(name)));
        }
    }
}

fn head(name: Vec<u8>) -> MemberHead {
    MemberHead { name, kind: MemberKind::File, mtime: None }
}

/// The name and the bytes of what an OLE file wraps, where it is a wrapping that is known.
pub(in crate::extract) fn native_package(bytes: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut file = cfb::CompoundFile::open(Cursor::new(bytes)).ok()?;
    let read = |file: &mut cfb::CompoundFile<Cursor<&[u8]>>, path: &str| {
        let stream = file.open_stream(path).ok()?;
        stream::read_capped(stream, stream::PART_CAP).ok()
    };
    if let Some(native) = read(&mut file, "/\u{1}Ole10Native") {
        return unwrapped(&native);
    }
    ["/Package", "/CONTENTS", "/EmbeddedOdf"]
        .iter()
        .find_map(|path| Some((Vec::new(), read(&mut file, path)?)))
}

/// Takes apart the stream `\1Ole10Native`: size, 2 bytes, label, path, 4 bytes, temporary path with its length before
/// it, then the bytes with their length before them. Strings end in NUL.
pub(in crate::extract) fn unwrapped(native: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut rest = native.get(6..)?;
    let label = string(&mut rest)?;
    let path = string(&mut rest)?;
    rest = rest.get(4..)?;
    let length = number(&mut rest)?;
    rest = rest.get(length..)?;
    let length = number(&mut rest)?;
    let bytes = rest.get(..length)?.to_vec();
    let name = if label.is_empty() { path } else { label };
    let name = name.rsplit(|&byte| byte == b'\\' || byte == b'/').next().unwrap_or_default().to_vec();
    Some((name, bytes))
}

fn string(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let end = rest.iter().position(|&byte| byte == 0)?;
    let string = rest.get(..end)?.to_vec();
    *rest = rest.get(end + 1..)?;
    Some(string)
}

fn number(rest: &mut &[u8]) -> Option<usize> {
    let number = u32::from_le_bytes(rest.get(..4)?.try_into().ok()?);
    *rest = rest.get(4..)?;
    usize::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::unwrapped;

    #[test]
    fn the_wrapping_comes_off() {
        let mut native = vec![0, 0, 0, 0, 2, 0];
        native.extend(b"a.txt\0C:\\dir\\a.txt\0\0\0\x03\0");
        native.extend(4_u32.to_le_bytes());
        native.extend(b"tmp\0");
        native.extend(5_u32.to_le_bytes());
        native.extend(b"hello and more");
        assert_eq!(unwrapped(&native), Some((b"a.txt".to_vec(), b"hello".to_vec())));
        assert_eq!(unwrapped(native.get(..native.len() - 12).unwrap()), None);
    }
}
