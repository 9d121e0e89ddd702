//! Formats that say what they are in their first bytes.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use shared::Format;

/// `(offset, bytes, format)`; the first that fits counts, so that longer ones stand first.
const MAGIC: &[(usize, &[u8], Format)] = &[
    (0, b"PK\x03\x04", Format::Zip),
    (0, b"PK\x05\x06", Format::Zip),
    (0, b"PK\x07\x08", Format::Zip),
    (0, b"PK00PK\x03\x04", Format::Zip),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Format::Ole),
    (0, b"{\\rtf", Format::Rtf),
    (0, b"\x1f\x8b", Format::Gzip),
    (0, b"BZh", Format::Bzip2),
    (0, b"\xfd7zXZ\0", Format::Xz),
    (0, b"7z\xbc\xaf\x27\x1c", Format::SevenZip),
    (0, b"Rar!\x1a\x07", Format::Rar),
    (0, b"MSCF\0\0\0\0", Format::Cab),
    (0, b"\x28\xb5\x2f\xfd", Format::Zstd),
    (0, b"LZIP\x01", Format::Lzip),
    (0, b"\x1f\x9d", Format::Compress),
    (0, b"!<arch>\n", Format::Ar),
    (0, b"070701", Format::Cpio),
    (0, b"070702", Format::Cpio),
    (0, b"070707", Format::Cpio),
    (0, b"\xc7\x71", Format::Cpio),
    (257, b"ustar", Format::Tar),
    (0, b"\x89PNG\r\n\x1a\n", Format::Png),
    (0, b"\xff\xd8\xff", Format::Jpeg),
    (0, b"GIF87a", Format::Gif),
    (0, b"GIF89a", Format::Gif),
    (0, b"II*\0", Format::Tiff),
    (0, b"MM\0*", Format::Tiff),
    (0, b"8BPS", Format::Psd),
    (0, b"AT&TFORM", Format::Djvu),
    (0, b"!BDN", Format::Pst),
    (4, b"Standard Jet DB", Format::Mdb),
    (4, b"Standard ACE DB", Format::Mdb),
    (0, b"\xe4\x52\x5c\x7b\x8c\xd8\xa7\x4d", Format::OneNote),
    (0, b"ITSF", Format::Chm),
    (0, b"\x78\x9f\x3e\x22", Format::Tnef),
    (0, b"\xffWPC", Format::Wordperfect),
    (0, b"%!PS", Format::Postscript),
    (0, b"\xc5\xd0\xd3\xc6", Format::Postscript),
    (0, b"AC10", Format::Dwg),
    (0, b"\xd7\xcd\xc6\x9a", Format::Wmf),
    (0, b"\x01\0\x09\0\0\x03", Format::Wmf),
    (40, b" EMF", Format::Emf),
    (0, b"SQLite format 3\0", Format::Sqlite),
    (0, b"\x7fELF", Format::Executable),
    (0, b"\xcf\xfa\xed\xfe", Format::Executable),
    (0, b"\xce\xfa\xed\xfe", Format::Executable),
    (0, b"\0asm", Format::Wasm),
    (0, b"wOFF", Format::Font),
    (0, b"wOF2", Format::Font),
    (0, b"OTTO\0", Format::Font),
    (0, b"\0\x01\0\0\0", Format::Font),
    (0, b"true\0", Format::Font),
    (0, b"ttcf\0", Format::Font),
    (0, b"ID3", Format::Audio),
    (0, b"fLaC", Format::Audio),
    (0, b"OggS", Format::Audio),
    (0, b"MThd\0\0\0\x06", Format::Audio),
    (0, b".snd\0", Format::Audio),
    (0, b"\x1a\x45\xdf\xa3", Format::Video),
    (0, b"FLV\x01", Format::Video),
    (0, b"\0\0\x01\xba", Format::Video),
    (0, b"\0\0\x01\xb3", Format::Video),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", Format::Video),
    (0, b"HWP Document File", Format::Hwp),
];

/// By magic numbers, and what is nearly one.
pub(super) fn by_magic(head: &[u8]) -> Option<Format> {
    let fits = |at: usize, bytes: &[u8]| head.get(at..at + bytes.len()) == Some(bytes);
    let plain = MAGIC.iter().find(|(at, bytes, _)| fits(*at, bytes)).map(|&(_, _, format)| format);
    plain.or_else(|| chunked(head)).or_else(|| class_or_fat(head)).or_else(|| pdf(head))
}

/// Containers whose kind stands in their second word.
fn chunked(head: &[u8]) -> Option<Format> {
    let word = |at: usize| head.get(at..at + 4);
    match (word(0)?, word(4)?) {
        (b"RIFF", _) => Some(match word(8)? {
            b"WEBP" => Format::Webp,
            b"AVI " => Format::Video,
            b"WAVE" => Format::Audio,
            _ => Format::Unknown,
        }),
        (b"FORM", _) if word(8)?.starts_with(b"AIF") => Some(Format::Audio),
        (_, b"ftyp") => Some(match word(8)? {
            b"heic" | b"heix" | b"hevc" | b"heim" | b"heis" | b"mif1" | b"msf1" | b"avif" | b"avis" => {
                Format::Heif
            }
            b"M4A " | b"M4B " => Format::Audio,
            _ => Format::Video,
        }),
        (_, b"moov" | b"mdat") => Some(Format::Video),
        _ => None,
    }
}

/// A Java class and a fat Mach-O file begin alike: the one goes on with its version, the other with a small count.
fn class_or_fat(head: &[u8]) -> Option<Format> {
    let rest = head.strip_prefix(b"\xca\xfe\xba\xbe")?;
    let number = rest.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))?;
    Some(if number < 40 { Format::Executable } else { Format::JavaClass })
}

/// Readers accept junk before the header, in the first kilobyte; an HTML page that speaks of PDF is none.
fn pdf(head: &[u8]) -> Option<Format> {
    let start = head.get(..1024 + 5).unwrap_or(head);
    start.windows(5).any(|window| window == b"%PDF-").then_some(Format::Pdf)
}

/// Short marks that a text could begin with: they count only with more to support them.
pub(super) fn weak(head: &[u8], size: u64) -> Option<Format> {
    if head.starts_with(b"MZ") && head.len() >= 64 && head.contains(&0) {
        return Some(Format::Executable);
    }
    if head.starts_with(b"BM") && head.get(6..10) == Some(&[0; 4]) && size >= 26 {
        return Some(Format::Bmp);
    }
    let audio = matches!(head, [0xff, second, third, ..] if second & 0xe6 == 0xe2 && third & 0xf0 != 0xf0 && third & 0xc != 0xc);
    if audio && head.contains(&0) {
        return Some(Format::Audio);
    }
    // The end of a ZIP archive, where its beginning is damaged or something stands before it.
    let whole = head.len() as u64 == size;
    if whole && head.contains(&0) && head.windows(4).any(|window| window == b"PK\x05\x06") {
        return Some(Format::Zip);
    }
    old_tar(head).then_some(Format::Tar)
}

/// A tar from before `ustar`: its header's checksum is right.
fn old_tar(head: &[u8]) -> bool {
    let Some(header) = head.get(..512) else { return false };
    let (Some(field), Some(&first)) = (header.get(148..156), header.first()) else { return false };
    let digits: Vec<u8> = field.iter().copied().filter(|byte| !matches!(byte, b' ' | 0)).collect();
    let written = std::str::from_utf8(&digits).ok().and_then(|digits| u32::from_str_radix(digits, 8).ok());
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    let field: u32 = field.iter().map(|&byte| u32::from(byte)).sum();
    first != 0 && written == Some(sum - field + 8 * u32::from(b' '))
}
