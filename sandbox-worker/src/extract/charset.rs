//! Which charset bytes are in, and their text. For plain text, HTML, XML and the parts of mails.
//!
//! The order matters more than the statistics: a byte order mark is proof; bytes that are valid UTF-8 with anything beyond
//! ASCII in them are UTF-8 whatever a header claims; a pattern of NULs is UTF-16 or UTF-32. Only then is a declaration
//! believed, and only where the bytes can be decoded by it. The guess comes last.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};
use std::borrow::Cow;

/// A charset, with what `encoding_rs` leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charset {
    /// One of the web platform's.
    Web(&'static Encoding),
    Utf32Le,
    Utf32Be,
}

/// What the bytes were found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) charset: Charset,
    /// Bytes of the byte order mark.
    pub(super) mark: usize,
}

/// So much is looked at for a guess; more makes it slower, not better.
const SAMPLE: usize = 256 << 10;

impl Charset {
    /// The name for the record.
    pub(super) fn name(self) -> &'static str {
        match self {
            Charset::Web(encoding) => encoding.name(),
            Charset::Utf32Le => "UTF-32LE",
            Charset::Utf32Be => "UTF-32BE",
        }
    }

    /// Decodes `bytes` piece by piece, so that a large text is not in memory twice.
    pub(super) fn decode_into(self, bytes: &[u8], mut piece: impl FnMut(&str)) {
        match self {
            Charset::Web(encoding) if encoding == UTF_8 => {
                for chunk in bytes.utf8_chunks() {
                    in_pieces(chunk.valid(), &mut piece);
                    if !chunk.invalid().is_empty() {
                        piece("\u{fffd}");
                    }
                }
            }
            Charset::Web(encoding) => decode_web(encoding, bytes, &mut piece),
            Charset::Utf32Le => decode_utf32(bytes, u32::from_le_bytes, &mut piece),
            Charset::Utf32Be => decode_utf32(bytes, u32::from_be_bytes, &mut piece),
        }
    }

    /// Decodes all of `bytes`.
    pub(super) fn decode(self, bytes: &[u8]) -> Cow<'_, str> {
        if self == Charset::Web(UTF_8)
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            return Cow::Borrowed(text);
        }
        let mut text = String::new();
        self.decode_into(bytes, |piece| text.push_str(piece));
        Cow::Owned(text)
    }
}

/// Finds the charset of `bytes`. `declared` is what the document says of itself, if anything.
pub(super) fn find(bytes: &[u8], declared: Option<&'static Encoding>) -> Found {
    if let Some(found) = by_mark(bytes) {
        return found;
    }
    let plain = |charset| Found { charset, mark: 0 };
    if let Some(charset) = by_nulls(bytes) {
        return plain(charset);
    }
    let utf8 = Utf8Share::of(bytes);
    if utf8.convincing() {
        return plain(Charset::Web(UTF_8));
    }
    // A document that was read byte by byte to find this declaration is not UTF-16, whatever it says.
    if let Some(encoding) = declared.filter(|&e| e != UTF_8 && e != UTF_16LE && e != UTF_16BE)
        && (utf8.beyond == 0 || decodes(encoding, bytes))
    {
        return plain(Charset::Web(encoding));
    }
    if utf8.beyond == 0 && utf8.wrong == 0 && !bytes.contains(&0x1b) {
        return plain(Charset::Web(UTF_8));
    }
    plain(Charset::Web(guess(bytes)))
}

/// The bytes as text, in the charset that they are in.
pub(super) fn text(bytes: &[u8]) -> (Cow<'_, str>, &'static str) {
    let found = find(bytes, None);
    (found.charset.decode(bytes.get(found.mark..).unwrap_or_default()), found.charset.name())
}

fn by_mark(bytes: &[u8]) -> Option<Found> {
    let (charset, mark) = match bytes {
        [0xff, 0xfe, 0, 0, ..] => (Charset::Utf32Le, 4),
        [0, 0, 0xfe, 0xff, ..] => (Charset::Utf32Be, 4),
        [0xef, 0xbb, 0xbf, ..] => (Charset::Web(UTF_8), 3),
        [0xff, 0xfe, ..] => (Charset::Web(UTF_16LE), 2),
        [0xfe, 0xff, ..] => (Charset::Web(UTF_16BE), 2),
        _ => return None,
    };
    Some(Found { charset, mark })
}

/// Text in a Latin script has a NUL in every second byte of UTF-16, in three of four of UTF-32.
fn by_nulls(bytes: &[u8]) -> Option<Charset> {
    let sample =
        bytes.get(..SAMPLE.min(bytes.len()) & !3).filter(|sample| !sample.is_empty()).or_else(|| {
            // Two or three bytes can be one character of UTF-16.
            bytes.get(..bytes.len() & !1)
        })?;
    if sample.is_empty() {
        // One byte is no character of it, and has no share of NULs to speak of.
        return None;
    }
    let mut nulls = [0_usize; 4];
    for (n, _) in sample.iter().enumerate().filter(|(_, byte)| **byte == 0) {
        nulls[n % 4] += 1;
    }
    let quarter = sample.len() / 4;
    let many = |n: usize| quarter > 0 && nulls[n] * 10 >= quarter * 9;
    let few = |n: usize| nulls[n] * 10 <= quarter;
    if many(2) && many(3) && few(0) {
        return Some(Charset::Utf32Le);
    }
    if many(0) && many(1) && few(3) {
        return Some(Charset::Utf32Be);
    }
    let (even, odd) = (nulls[0] + nulls[2], nulls[1] + nulls[3]);
    let half = sample.len() / 2;
    // A fifth is enough: a text in another script has NULs beside its spaces, digits and line ends alone.
    if odd * 5 >= half && even * 50 <= odd && utf16_is_clean(sample, u16::from_le_bytes) {
        return Some(Charset::Web(UTF_16LE));
    }
    if even * 5 >= half && odd * 50 <= even && utf16_is_clean(sample, u16::from_be_bytes) {
        return Some(Charset::Web(UTF_16BE));
    }
    None
}

fn utf16_is_clean(sample: &[u8], unit: fn([u8; 2]) -> u16) -> bool {
    let (pairs, _) = sample.as_chunks::<2>();
    let units = pairs.iter().map(|pair| unit(*pair));
    let wrong = char::decode_utf16(units).filter(|c| c.as_ref().map_or(true, |c| is_noise(*c))).count();
    wrong * 50 <= sample.len() / 2
}

/// How much of the bytes is UTF-8.
struct Utf8Share {
    /// Characters beyond ASCII.
    beyond: usize,
    /// Sequences that are none.
    wrong: usize,
}

impl Utf8Share {
    fn of(bytes: &[u8]) -> Self {
        let (mut beyond, mut wrong) = (0, 0);
        for chunk in bytes.utf8_chunks() {
            // Every character beyond ASCII has one byte that begins it.
            beyond += chunk.valid().bytes().filter(|byte| *byte >= 0xc0).count();
            wrong += usize::from(!chunk.invalid().is_empty());
        }
        // A text that was cut inside of its last character is no less UTF-8.
        if wrong == 1 && bytes.utf8_chunks().last().is_some_and(|chunk| cut_short(chunk.invalid())) {
            wrong = 0;
        }
        Utf8Share { beyond, wrong }
    }

    fn convincing(&self) -> bool {
        self.beyond > 0 && self.wrong * 20 <= self.beyond
    }
}

fn cut_short(invalid: &[u8]) -> bool {
    std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none())
}

fn decodes(encoding: &'static Encoding, bytes: &[u8]) -> bool {
    let sample = bytes.get(..SAMPLE).unwrap_or(bytes);
    let (text, _) = encoding.decode_without_bom_handling(sample);
    let wrong = text.chars().filter(|c| *c == '\u{fffd}' || matches!(c, '\u{80}'..='\u{9f}')).count();
    wrong * 50 <= text.chars().count()
}

fn guess(bytes: &[u8]) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    let sample = bytes.get(..SAMPLE).unwrap_or(bytes);
    detector.feed(sample, sample.len() == bytes.len());
    detector.guess(None, Utf8Detection::Allow)
}

/// A character that no text has.
pub(super) fn is_noise(c: char) -> bool {
    c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\x0c' | '\x0b' | '\x08' | '\x1b' | '\x1a' | '\u{85}')
}

fn in_pieces(mut text: &str, piece: &mut impl FnMut(&str)) {
    while text.len() > PIECE {
        let (head, tail) = text.split_at(text.floor_char_boundary(PIECE));
        piece(head);
        text = tail;
    }
    piece(text);
}

const PIECE: usize = 32 << 10;

fn decode_web(encoding: &'static Encoding, mut bytes: &[u8], piece: &mut impl FnMut(&str)) {
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let mut held = String::with_capacity(PIECE);
    loop {
        let (result, read, _) = decoder.decode_to_string(bytes, &mut held, true);
        piece(&held);
        held.clear();
        bytes = bytes.get(read..).unwrap_or_default();
        if result == encoding_rs::CoderResult::InputEmpty {
            return;
        }
    }
}

fn decode_utf32(bytes: &[u8], unit: fn([u8; 4]) -> u32, piece: &mut impl FnMut(&str)) {
    let (units, _) = bytes.as_chunks::<4>();
    for some in units.chunks(PIECE / 4) {
        let text: String =
            some.iter().map(|four| char::from_u32(unit(*four)).unwrap_or('\u{fffd}')).collect();
        piece(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(bytes: &[u8]) -> &'static str {
        find(bytes, None).charset.name()
    }

    #[test]
    fn a_mark_is_proof() {
        assert_eq!(name(b"\xef\xbb\xbfa"), "UTF-8");
        assert_eq!(name(b"\xff\xfea\0"), "UTF-16LE");
        assert_eq!(name(b"\xff\xfe\0\0a\0\0\0"), "UTF-32LE");
        assert_eq!(text(b"\0\0\xfe\xff\0\0\0a").0, "a");
    }

    #[test]
    fn nulls_tell_utf16_and_utf32_without_a_mark() {
        let wide: Vec<u8> = "plain words".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(text(&wide), (Cow::Borrowed("plain words"), "UTF-16BE"));
        let wider: Vec<u8> = "plain words".chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
        assert_eq!(text(&wider), (Cow::Borrowed("plain words"), "UTF-32LE"));
        assert_eq!((text(b"x"), name(b"x\0")), ((Cow::Borrowed("x"), "UTF-8"), "UTF-16LE"));
    }

    #[test]
    fn valid_utf8_wins_over_statistics_and_declarations() {
        assert_eq!(find("größer".as_bytes(), Some(encoding_rs::WINDOWS_1252)).charset.name(), "UTF-8");
        assert_eq!(name("cut: größ".as_bytes().split_last().expect("not empty").1), "UTF-8");
    }

    #[test]
    fn legacy_charsets_are_guessed() {
        let russian = "Однажды, в студеную зимнюю пору, я из лесу вышел";
        for encoding in [encoding_rs::KOI8_R, encoding_rs::WINDOWS_1251, encoding_rs::IBM866] {
            let (bytes, _, _) = encoding.encode(russian);
            assert_eq!(text(&bytes).0, russian, "{}", encoding.name());
        }
        let (bytes, _, _) = encoding_rs::SHIFT_JIS.encode("全文検索の技術調査について、これはテストです");
        assert_eq!(name(&bytes), "Shift_JIS");
        let (bytes, _, _) = encoding_rs::GB18030.encode("这是一个简单的中文文本文件，用于测试编码检测");
        assert!(matches!(name(&bytes), "GBK" | "gb18030"));
    }

    #[test]
    fn a_large_text_comes_in_pieces() {
        let long = "ä".repeat(PIECE);
        let mut pieces = 0;
        let mut whole = String::new();
        Charset::Web(UTF_8).decode_into(long.as_bytes(), |piece| {
            pieces += 1;
            whole.push_str(piece);
        });
        assert!(pieces >= 2);
        assert_eq!(whole, long);
    }
}
