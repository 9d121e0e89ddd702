//! What bytes are, from the first of them alone. The name is a hint among kinds of text and nothing more.
//!
//! It looks at no more than the head and follows no structure: which OOXML or OLE file it is, the child finds out.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod magic;
mod text;

use shared::Format;

/// What the head says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identified {
    pub format: Format,
    /// The extension, where it promises another format.
    pub extension_mismatch: Option<String>,
}

/// Tells the format from the first bytes (at most 4 KiB are looked at). `size` is the whole document's, `name` its raw
/// innermost name; `faults`: documents of the fault language are carried out.
pub fn identify(head: &[u8], size: u64, name: &[u8], faults: bool) -> Identified {
    let head = head.get(..4096).unwrap_or(head);
    let format = magic::by_magic(head)
        .or_else(|| fault(head, faults))
        .or_else(|| magic::weak(head, size))
        .or_else(|| text::by_text(head, extension(name).as_deref()))
        .unwrap_or(Format::Unknown);
    Identified { format, extension_mismatch: extension_mismatch(format, name) }
}

fn fault(head: &[u8], faults: bool) -> Option<Format> {
    head.starts_with(b"#!lazaret-fault 1").then_some(if faults { Format::Fault } else { Format::Text })
}

/// The extension in lower case.
fn extension(name: &[u8]) -> Option<String> {
    let name = name.rsplit(|&byte| byte == b'/').next()?;
    let dot = name.iter().rposition(|&byte| byte == b'.').filter(|&dot| dot > 0)?;
    let extension = std::str::from_utf8(name.get(dot + 1..)?).ok()?;
    (!extension.is_empty() && extension.len() <= 8).then(|| extension.to_ascii_lowercase())
}

/// The extension, where it is one that belongs to formats and `format` is none of them.
pub fn extension_mismatch(format: Format, name: &[u8]) -> Option<String> {
    let extension = extension(name)?;
    let promised = promised(&extension)?;
    (!promised.contains(&format)).then_some(extension)
}

/// The formats that an extension goes with. The containers of a format (ZIP, OLE) stand for it until the child has looked.
fn promised(extension: &str) -> Option<&'static [Format]> {
    use Format as F;
    Some(match extension {
        "pdf" => &[F::Pdf],
        "docx" | "docm" | "dotx" => &[F::Docx, F::Zip, F::Ole],
        "xlsx" | "xlsm" | "xltx" => &[F::Xlsx, F::Zip, F::Ole],
        "xlsb" => &[F::Xlsb, F::Zip, F::Ole],
        "pptx" | "pptm" | "ppsx" => &[F::Pptx, F::Zip, F::Ole],
        "odt" | "ott" => &[F::Odt, F::Zip],
        "ods" => &[F::Ods, F::Zip],
        "odp" => &[F::Odp, F::Zip],
        "epub" => &[F::Epub, F::Zip],
        "doc" | "dot" => &[F::Doc, F::Ole, F::Rtf],
        "xls" => &[F::Xls, F::Ole],
        "ppt" | "pps" => &[F::Ppt, F::Ole],
        "msg" => &[F::Msg, F::Ole, F::Eml],
        "rtf" => &[F::Rtf],
        "html" | "htm" => &[F::Html, F::Xml],
        "eml" => &[F::Eml],
        "mbox" => &[F::Mbox],
        "zip" => &[F::Zip],
        "tar" => &[F::Tar],
        "gz" | "tgz" => &[F::Gzip],
        "bz2" => &[F::Bzip2],
        "xz" => &[F::Xz],
        "7z" => &[F::SevenZip],
        "rar" => &[F::Rar],
        "png" => &[F::Png],
        "jpg" | "jpeg" => &[F::Jpeg],
        "gif" => &[F::Gif],
        "tif" | "tiff" => &[F::Tiff],
        "bmp" => &[F::Bmp],
        "webp" => &[F::Webp],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(head: &[u8]) -> Format {
        identify(head, head.len() as u64, b"x", false).format
    }

    #[test]
    fn heads_are_told_apart() {
        let mut tar = vec![0; 512];
        tar[..4].copy_from_slice(b"file");
        let sum: u32 = tar.iter().map(|&byte| u32::from(byte)).sum::<u32>() + 8 * 32;
        tar[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let utf16 = |text: &str| {
            [&[0xff, 0xfe][..], &text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>()].concat()
        };
        for (head, expected) in [
            (&b"%PDF-1.7\n"[..], Format::Pdf),
            (b"junk\n%PDF-1.4", Format::Pdf),
            (b"PK\x03\x04\x14\0", Format::Zip),
            (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Format::Ole),
            (b"{\\rtf1\\ansi", Format::Rtf),
            (b"\x1f\x8b\x08\0", Format::Gzip),
            (b"BZh91AY&SY", Format::Bzip2),
            (b"\xfd7zXZ\0", Format::Xz),
            (b"7z\xbc\xaf\x27\x1c", Format::SevenZip),
            (b"Rar!\x1a\x07\0", Format::Rar),
            (b"\x1f\x9d\x90", Format::Compress),
            (b"\x89PNG\r\n\x1a\n", Format::Png),
            (b"\xff\xd8\xff\xe0", Format::Jpeg),
            (b"RIFF\0\0\0\0WEBPVP8 ", Format::Webp),
            (b"RIFF\0\0\0\0WAVEfmt ", Format::Audio),
            (b"\0\0\0\x18ftypheic", Format::Heif),
            (b"\0\0\0\x18ftypisom", Format::Video),
            (b"\x7fELF\x02", Format::Executable),
            (b"!BDN", Format::Pst),
            (b"SQLite format 3\0", Format::Sqlite),
            (&tar, Format::Tar),
            (b"<!DOCTYPE html><p>x", Format::Html),
            (b"\xef\xbb\xbf <HTML>", Format::Html),
            (b"<?xml version='1.0'?><a/>", Format::Xml),
            (b"<?xml version='1.0'?>\n<html xmlns='x'>", Format::Html),
            (b"<svg xmlns='x'/>", Format::Xml),
            (&utf16("<html><body>"), Format::Html),
            (&utf16("From: a\r\nTo: b\r\n\r\nx"), Format::Eml),
            (b"From: a@b\nSubject: x\n\nhello", Format::Eml),
            (b"Received: from x\n\tby y\nTo: b\n\n", Format::Eml),
            (b"From a@b Mon Jan 1 00:00:00 2001\nFrom: a\nTo: b\n\n", Format::Mbox),
            (b"{\"a\": [1, 2]}", Format::Json),
            (b"[1, 2, 3]", Format::Json),
            (b"a,b,c\n1,2,3\n4,5,6\n", Format::Csv),
            (b"From: here to there\nit goes", Format::Text),
            (b"hello", Format::Text),
            (b"#!lazaret-fault 1\nspin", Format::Text),
            (b"\x1b$B$3$s\x1b(B", Format::Text),
            (b"\x8f\xe0\xa8\xa2\xa5\xe2", Format::Text),
            (&utf16("hello"), Format::Text),
            (b"h\0e\0l\0l\0o\0", Format::Text),
            (b"\0\x01\x02\x03\x04", Format::Unknown),
        ] {
            assert_eq!(format(head), expected, "{:?}", String::from_utf8_lossy(head));
        }
        assert_eq!(identify(b"#!lazaret-fault 1\n", 18, b"x", true).format, Format::Fault);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut state: u32 = 1;
        for length in 0..600 {
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state.to_le_bytes()[3]
            };
            let bytes: Vec<u8> = (0..length).map(|_| next()).collect();
            identify(&bytes, u64::from(state), &bytes, true);
        }
    }

    #[test]
    fn only_an_extension_that_promises_another_format_is_a_mismatch() {
        assert_eq!(extension_mismatch(Format::Zip, b"a.docx"), None);
        assert_eq!(extension_mismatch(Format::Pdf, b"dir/a.DOC").as_deref(), Some("doc"));
        assert_eq!(extension_mismatch(Format::Pdf, b"a.xyz"), None);
        assert_eq!(extension_mismatch(Format::Text, b"README"), None);
    }
}
