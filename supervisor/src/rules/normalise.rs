//! One form for every text, whatever it came out of, and what is known of a text.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::check::measure_words;
use crate::ledger::TextFacts;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// Below so many words a guess at the language is a guess.
const LANGUAGE_WORDS: u64 = 50;
/// So many characters decide the language.
const LANGUAGE_CHARS: usize = 20_000;

/// NFC, `\n` alone between lines and between pages, no control characters, no invisible characters that part words, no blanks at the end
/// of lines, at most two empty lines together, none at the ends.
pub fn normalise(text: String) -> String {
    if is_clean(&text) {
        return text;
    }
    let text = match is_nfc_quick(text.chars()) {
        IsNormalized::Yes => text,
        _ => text.nfc().collect(),
    };
    tidy(&text)
}

/// Nothing to do: printable ASCII, single newlines or up to three, no blanks before them.
fn is_clean(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (mut newlines, mut last) = (0, b'\n');
    for &byte in bytes {
        match byte {
            b'\n' if last == b' ' || last == b'\t' || newlines == 3 => return false,
            b'\n' => newlines += 1,
            b'\t' | b' '..=b'~' => newlines = 0,
            _ => return false,
        }
        last = byte;
    }
    !matches!(bytes.first(), Some(b'\n' | b' ' | b'\t'))
        && !matches!(bytes.last(), Some(b'\n' | b' ' | b'\t'))
}

fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut newlines = 0;
    let mut blanks = String::new();
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\r' => {
                if chars.peek() != Some(&'\n') {
                    newline(&mut newlines, &mut blanks);
                }
            }
            // Every other thing that ends a line or a paragraph.
            '\n' | '\u{b}' | '\u{85}' | '\u{2028}' | '\u{2029}' => newline(&mut newlines, &mut blanks),
            // A page ends where a line does.
            '\u{c}' if newlines == 0 => newline(&mut newlines, &mut blanks),
            '\u{c}' => blanks.clear(),
            ' ' | '\t' | '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => {
                blanks.push(char);
            }
            _ if is_invisible(char) => {}
            // A control stands where something could not be shown: it parts words.
            _ if char.is_control() => blanks.push(' '),
            _ => {
                if !out.is_empty() {
                    out.extend(std::iter::repeat_n('\n', newlines.min(3)));
                    out.push_str(&blanks);
                }
                newlines = 0;
                blanks.clear();
                out.push(char);
            }
        }
    }
    out
}

fn newline(newlines: &mut usize, blanks: &mut String) {
    *newlines += 1;
    blanks.clear();
}

/// Within words these keep a search from finding them. The joiners of Persian and the Indic scripts (U+200C, U+200D) mean
/// something and stay.
fn is_invisible(char: char) -> bool {
    matches!(
        char,
        '\0' | '\u{ad}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}'
            | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
    )
}

/// Size, language and quality of a text.
pub fn facts(text: &str) -> TextFacts {
    let measures = measure_words(text);
    let language = (measures.words >= LANGUAGE_WORDS).then(|| language(text)).flatten();
    let share = |count: u64, of: u64| if of == 0 { 0.0 } else { as_float(count) / as_float(of) };
    let readable = share(measures.readable, measures.visible);
    let penalty = (4.0 * measures.junk).min(1.0).max(measures.glyph_codes);
    TextFacts {
        chars: measures.chars,
        words: measures.words,
        language,
        quality: (readable * (1.0 - penalty)).clamp(0.0, 1.0),
    }
}

fn as_float(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// The language of a text, where it is recognised for sure: ISO 639-3.
pub(super) fn language(text: &str) -> Option<String> {
    let end = text.char_indices().nth(LANGUAGE_CHARS).map_or(text.len(), |(at, _)| at);
    let info = whatlang::detect(text.get(..end)?)?;
    info.is_reliable().then(|| info.lang().code().to_owned())
}

/// Whether a recognised text has words enough to tell, and they are of no language: a picture that lies on its side, or stands on its
/// head, reads like that.
pub fn reads_like_nothing(text: &str) -> bool {
    measure_words(text).words >= LANGUAGE_WORDS && language(text).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mess_has_one_clean_form() {
        for (raw, clean) in [
            ("plain\ntext", "plain\ntext"),
            ("a\r\nb\rc\n", "a\nb\nc"),
            ("e\u{301}", "\u{e9}"),
            ("soft\u{ad}hyphen zero\u{200b}width \u{feff}x", "softhyphen zerowidth x"),
            ("a\0b\u{1}c", "ab c"),
            ("a  \t\nb", "a\nb"),
            ("a\n\n\n\n\n\nb", "a\n\n\nb"),
            ("a\n \n \n \n \nb", "a\n\n\nb"),
            ("\n\n a", "a"),
            ("page\u{c}next", "page\nnext"),
            ("page\n\u{c}\u{c}next\n\n\u{c} last", "page\nnext\n\n last"),
            ("\u{645}\u{6cc}\u{200c}\u{62e}", "\u{645}\u{6cc}\u{200c}\u{62e}"),
            ("", ""),
            ("\0\u{1}", ""),
        ] {
            assert_eq!(normalise(raw.to_owned()), clean, "{raw:?}");
            assert_eq!(normalise(clean.to_owned()), clean, "once more");
        }
    }

    #[test]
    fn the_fast_way_and_the_slow_way_agree() {
        for text in ["a\n\n\nb", "a \nb", "a\n\n\n\nb", " a", "a ", "a\tb", "\u{e9}", "a\n"] {
            assert_eq!(normalise(text.to_owned()), tidy(text), "{text:?}");
        }
    }

    #[test]
    fn a_page_on_its_head_reads_like_nothing() {
        let turned =
            "LOOT6'ST TJOT Wd 403eqnNDUT aysedy ayy Aq paydeace sem jesodoid ey a4 UBYM payeEs AjjeW4OJ ";
        let upright = "the pilot boat left the harbour before dawn and the tide was already turning ";
        assert!(reads_like_nothing(&turned.repeat(6)));
        assert!(!reads_like_nothing(&upright.repeat(6)));
        assert!(!reads_like_nothing(turned), "too few words to tell");
    }

    #[test]
    fn facts_tell_size_language_and_quality() {
        let english =
            "The quick brown fox jumps over the lazy dog and then it sleeps in the sun for a while. "
                .repeat(8);
        let facts_of = facts(&english);
        assert_eq!(facts_of.language.as_deref(), Some("eng"));
        assert_eq!(facts_of.words, 19 * 8);
        assert!(facts_of.quality > 0.9);
        assert_eq!(facts("short").language, None);
        assert_eq!(facts("中文文本").words, 3);
        assert!(facts("\u{fffd}\u{fffd}\u{fffd}a").quality < 0.1);
        assert!(facts("").quality < f64::EPSILON);
    }
}
