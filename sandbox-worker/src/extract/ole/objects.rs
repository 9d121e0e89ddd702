//! Documents inside of an OLE document: Word's `ObjectPool`, Excel's `MBD…` storages, PowerPoint's packed records. Each is
//! a member.
//!
//! An embedded document is a folder of the same file. It becomes a file again by copying its streams into a new one, which
//! is no larger than the file it came from.

use crate::extract::{Output, ooxml, stream};
use shared::{MemberEnd, MemberHead, MemberKind, Refusal, Refused};
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

type File<'a> = cfb::CompoundFile<Cursor<&'a [u8]>>;

/// A name, and the bytes or why they cannot be had.
type Object = (Vec<u8>, Result<Vec<u8>, Refusal>);

/// The most objects that are looked at: 10,000. Beyond, the document is refused as partial.
const OBJECTS_MAX: usize = 10_000;

/// Says the members.
///
/// # Errors
/// Where there are more than are looked at.
pub(super) fn extract(bytes: &[u8], out: &mut Output<'_>) -> Result<(), Refusal> {
    // A file that the text's engine reads and this one does not has no objects that could be told.
    let Ok(mut file) = File::open(Cursor::new(bytes)) else { return Ok(()) };
    let folders: Vec<PathBuf> = file
        .walk()
        .filter(|entry| entry.is_storage() && holds_object(entry.path()))
        .map(|entry| entry.path().to_path_buf())
        .take(OBJECTS_MAX + 1)
        .collect();
    for folder in folders.iter().take(OBJECTS_MAX) {
        if let Some((name, object)) = object(&mut file, folder) {
            out.member(MemberHead { name, kind: MemberKind::File, mtime: None });
            match object {
                Ok(bytes) => {
                    out.member_data(&bytes);
                    out.member_end(MemberEnd::Whole);
                }
                Err(refusal) => out.member_end(MemberEnd::Failed(refusal)),
            }
            out.progress(out.counts().1, folders.len() as u64);
        }
    }
    shown(&mut file, out)?;
    if folders.len() > OBJECTS_MAX {
        let message = format!("more than {OBJECTS_MAX} embedded objects");
        return Err(Refusal { why: Refused::Unsupported, message });
    }
    Ok(())
}

/// The record of PowerPoint that holds an object's file.
const OBJECT_RECORD: u16 = 0x1011;

/// The objects of a presentation: records of its stream, packed by zlib where their instance is 1.
fn shown(file: &mut File<'_>, out: &mut Output<'_>) -> Result<(), Refusal> {
    let Some(records) = read(file, Path::new("/PowerPoint Document")) else { return Ok(()) };
    let records = records?;
    let mut rest = records.as_slice();
    let mut number = 0;
    while let Some((instance, kind, body)) = record(&mut rest) {
        if kind != OBJECT_RECORD {
            continue;
        }
        number += 1;
        let packed = body.get(4..).unwrap_or_default();
        let bytes = match instance {
            0 => Ok(body.to_vec()),
            _ => stream::read_capped(flate2::read::ZlibDecoder::new(packed), stream::PART_CAP),
        };
        let base = format!("object{number}.bin").into_bytes();
        match bytes.map_err(|error| error.refusal("an embedded object")) {
            // The macros lie in the same kind of record.
            Ok(bytes) if is_macros(&bytes) => {}
            Ok(bytes) => {
                let (name, bytes) = ooxml::native_package(&bytes).unwrap_or((Vec::new(), bytes));
                let name = if name.is_empty() { base } else { name };
                out.member(MemberHead { name, kind: MemberKind::File, mtime: None });
                out.member_data(&bytes);
                out.member_end(MemberEnd::Whole);
            }
            Err(refusal) => {
                out.member(MemberHead { name: base, kind: MemberKind::File, mtime: None });
                out.member_end(MemberEnd::Failed(refusal));
            }
        }
        out.progress(out.counts().1, 0);
    }
    Ok(())
}

fn is_macros(bytes: &[u8]) -> bool {
    File::open(Cursor::new(bytes)).is_ok_and(|file| file.is_storage("/VBA"))
}

/// The next record: instance, type, body.
fn record<'a>(rest: &mut &'a [u8]) -> Option<(u16, u16, &'a [u8])> {
    let number = |at: usize| Some(u16::from_le_bytes(rest.get(at..at + 2)?.try_into().ok()?));
    let (instance, kind) = (number(0)? >> 4, number(2)?);
    let length = u32::from_le_bytes(rest.get(4..8)?.try_into().ok()?);
    let end = usize::try_from(length).ok()?.checked_add(8)?;
    let body = rest.get(8..end)?;
    *rest = rest.get(end..)?;
    Some((instance, kind, body))
}

fn holds_object(path: &Path) -> bool {
    let parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    match parts.as_slice() {
        [_, pool, _] => pool == "ObjectPool",
        [_, name] => name.starts_with("MBD"),
        _ => false,
    }
}

/// The name and the bytes of the object in `folder`, if it is a document.
fn object(file: &mut File<'_>, folder: &Path) -> Option<Object> {
    let base = folder.file_name().unwrap_or_default().to_string_lossy().into_owned().into_bytes();
    if let Some(native) = read(file, &folder.join("\u{1}Ole10Native")) {
        let (name, bytes) = native.ok().as_deref().and_then(ooxml::unwrapped)?;
        return Some((if name.is_empty() { base } else { name }, Ok(bytes)));
    }
    for name in ["Package", "CONTENTS", "EmbeddedOdf"] {
        if let Some(bytes) = read(file, &folder.join(name)) {
            return Some((base, bytes));
        }
    }
    let documents = ["WordDocument", "Workbook", "Book", "PowerPoint Document", "VisioDocument"];
    let is_document = documents.iter().any(|name| file.is_stream(folder.join(name)));
    is_document.then(|| (base, rebuilt(file, folder)))
}

fn read(file: &mut File<'_>, path: &Path) -> Option<Result<Vec<u8>, Refusal>> {
    if !file.is_stream(path) {
        return None;
    }
    let what = path.to_string_lossy().into_owned();
    Some(match file.open_stream(path) {
        Ok(source) => stream::read_capped(source, stream::PART_CAP).map_err(|error| error.refusal(&what)),
        Err(error) => Err(Refusal { why: Refused::Malformed, message: format!("{what}: {error}") }),
    })
}

/// No time: the same object must be the same bytes whenever it is read.
fn still(copy: &mut cfb::CompoundFile<Cursor<Vec<u8>>>, path: &Path) -> std::io::Result<()> {
    copy.set_created_time(path, SystemTime::UNIX_EPOCH)?;
    copy.set_modified_time(path, SystemTime::UNIX_EPOCH)
}

/// The folder as a file of its own.
fn rebuilt(file: &mut File<'_>, folder: &Path) -> Result<Vec<u8>, Refusal> {
    let failed = |error: std::io::Error| Refusal { why: Refused::Malformed, message: error.to_string() };
    let mut copy = cfb::CompoundFile::create(Cursor::new(Vec::new())).map_err(failed)?;
    let entries: Vec<(PathBuf, bool)> = file
        .walk_storage(folder)
        .map_err(failed)?
        .skip(1)
        .map(|entry| (entry.path().to_path_buf(), entry.is_stream()))
        .collect();
    for (path, is_stream) in entries {
        let inner = Path::new("/").join(path.strip_prefix(folder).unwrap_or(&path));
        if is_stream {
            let mut source = file.open_stream(&path).map_err(failed)?;
            // No stream is longer than the file that it lies in.
            let (bytes, failure) = stream::read_prefix(&mut source, usize::MAX);
            failure.map_or(Ok(()), Err).map_err(failed)?;
            copy.create_stream(inner).and_then(|mut target| target.write_all(&bytes)).map_err(failed)?;
        } else {
            copy.create_storage(&inner).and_then(|()| still(&mut copy, &inner)).map_err(failed)?;
        }
    }
    still(&mut copy, Path::new("/")).map_err(failed)?;
    copy.flush().map_err(failed)?;
    Ok(copy.into_inner().into_inner())
}

#[cfg(test)]
mod tests {
    use super::record;

    #[test]
    fn records_follow_one_another() {
        let mut rest: &[u8] = &[0x10, 0, 0x11, 0x10, 2, 0, 0, 0, 7, 8, 0, 0, 1, 0, 9, 0, 0, 0];
        assert_eq!(record(&mut rest), Some((1, 0x1011, &[7, 8][..])));
        assert_eq!(record(&mut rest), None);
    }
}
