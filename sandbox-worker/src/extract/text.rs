//! Plain text, CSV and JSON: the bytes in their charset.
//!
//! The one question here is whether the bytes are text at all. What is not is refused: a decoder makes letters of
//! anything, and letters without meaning would be indexed as if they were read.

use super::charset::{self, Charset};
use super::{Document, Done, Output};
use shared::{Format, Metadata, Refused};

const ENGINE: &str = "encoding_rs 0.8";

/// So much of a document is looked at to tell text from other bytes.
const SAMPLE: usize = 64 << 10;

/// Says the text of `document`, or that it has none.
pub(super) fn extract(format: Format, document: &Document<'_>, out: &mut Output<'_>) -> Done {
    let bytes = document.bytes;
    if is_ebcdic(bytes) {
        return Done::refused(Format::Text, ENGINE, Refused::Unsupported, "text in EBCDIC");
    }
    let found = charset::find(bytes, None);
    let body = bytes.get(found.mark..).unwrap_or_default();
    if !is_text(found.charset, body) {
        return Done::refused(Format::Unknown, ENGINE, Refused::Unsupported, "the bytes are not text");
    }
    out.metadata(Metadata { charset: Some(found.charset.name().to_owned()), ..Metadata::default() });
    found.charset.decode_into(body, |piece| out.text(piece));
    Done::whole(format, ENGINE)
}

/// Whether hardly a character of the beginning is one that no text has.
fn is_text(charset: Charset, bytes: &[u8]) -> bool {
    let sample = bytes.get(..SAMPLE).unwrap_or(bytes);
    let text = charset.decode(sample);
    let total = text.chars().count();
    let noise = text.chars().filter(|c| charset::is_noise(*c)).count();
    let wrong = text.chars().filter(|c| *c == '\u{fffd}').count();
    noise * 20 <= total && (noise + wrong) * 5 <= total
}

/// EBCDIC's space is `@`, and its letters lie beyond ASCII.
fn is_ebcdic(bytes: &[u8]) -> bool {
    let sample = bytes.get(..SAMPLE).unwrap_or(bytes);
    let count = |wanted: fn(u8) -> bool| sample.iter().filter(|byte| wanted(**byte)).count();
    let letters = count(
        |b| matches!(b, 0x81..=0x89 | 0x91..=0x99 | 0xa2..=0xa9 | 0xc1..=0xc9 | 0xd1..=0xd9 | 0xe2..=0xe9),
    );
    let spaces = count(|b| b == 0x40);
    let ascii = count(|b| b == b' ' || b.is_ascii_alphabetic());
    let both = letters + spaces;
    sample.len() >= 64
        && letters * 4 > sample.len()
        && spaces * 20 > sample.len()
        && both * 2 > sample.len()
        && ascii * 10 < both
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn read(bytes: &[u8]) -> testing::Said {
        testing::said(bytes, |document, out| extract(Format::Text, document, out))
    }

    #[test]
    fn text_comes_out_as_it_is() {
        let said = read("a,b\n1,ä\n".as_bytes());
        assert_eq!(said.text, "a,b\n1,ä\n");
        assert_eq!(said.metadata.charset.as_deref(), Some("UTF-8"));
        assert_eq!(said.done.refusal, None);
    }

    #[test]
    fn bytes_that_are_not_text_are_refused() {
        let bytes: Vec<u8> = (0..=255).cycle().take(4096).collect();
        let said = read(&bytes);
        assert_eq!(said.done.format, Format::Unknown);
        assert_eq!(said.why(), Some(Refused::Unsupported));
        assert_eq!(said.text, "");
    }

    #[test]
    fn ebcdic_is_not_taken_for_letters() {
        let line =
            b"\xc9\xa3\x40\x89\xa2\x40\x81\x40\x93\x96\x95\x87\x40\x91\x96\x99\x95\x85\xa8\x40".repeat(8);
        assert_eq!(read(&line).why(), Some(Refused::Unsupported));
    }
}
