//! Whether a text is worth having: is it the document's at all?
//!
//! An honest short document in any language passes; so do tables of figures. What is measured is measured on the normalised
//! text, and the measures are kept as evidence.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::fault::Measures;
use super::kind::Kind;
use shared::{Format, Metadata};

/// Below so many letters and digits a page, on average, a document of pages has almost nothing.
const PAGE_LETTERS: u64 = 8;
/// The same where no page holds a picture that could be the text: a page's own number, and no word beside it.
const BARE_PAGE_LETTERS: u64 = 4;
/// A document of pages, or of an office program, that is at least so large should say something.
const SIZEABLE: u64 = 256 << 10;
/// And that is at least so many letters and digits.
const SIZEABLE_LETTERS: u64 = 10;
/// More junk than this share is no text.
const JUNK: f64 = 0.2;
/// A few marks of what could not be decoded in a short text are no verdict.
const JUNK_LEAST: u64 = 4;
/// More glyph codes among the words than this is no text.
const GLYPH_CODES: f64 = 0.3;
/// Texts below so many words are not judged by their words.
const WORDS_LEAST: u64 = 50;
/// A PDF's text whose visible characters are letters and digits to less than this share is made of wrong glyphs. Sparse
/// tables have few of them, too, and leaders in a table of contents are many: it is low, and for no other format.
const READABLE: f64 = 0.15;
/// Documents with so many pages are held against the share of their pages that have text.
const PAGES_LEAST: u32 = 4;
/// Less than this share of pages with text is too little.
const PAGES_SHARE: f64 = 0.5;

/// What the content check says of a document's text, and what it rests on. `size` is the document's, in bytes.
pub fn check(text: &str, format: Format, size: u64, metadata: Option<&Metadata>) -> (Option<Kind>, Measures) {
    let counted = measure_words(text);
    let pages = metadata.and_then(|metadata| metadata.pages);
    let pages_with_text = pages.zip(metadata.and_then(|metadata| metadata.pages_with_text));
    let share = pages_with_text
        .filter(|&(pages, _)| pages > 0)
        .map(|(pages, with)| f64::from(with.min(pages)) / f64::from(pages));
    let measures = Measures {
        chars: counted.chars,
        letters: counted.letters,
        words: counted.words,
        junk: counted.junk,
        glyph_codes: counted.glyph_codes,
        pages_with_text: share,
        common_words: common_words(text, counted.words),
    };
    let images = metadata.and_then(|metadata| metadata.page_images).unwrap_or(0);
    let kind = if is_garbled(&counted, format) {
        Some(Kind::ContentGarbled)
    } else if counted.readable == 0 {
        Some(Kind::ContentEmpty)
    } else if is_near_empty(&counted, format, size, pages, images) {
        Some(Kind::ContentNearEmpty)
    } else if pages.is_some_and(|pages| pages >= PAGES_LEAST)
        && share.is_some_and(|share| share < PAGES_SHARE)
    {
        Some(Kind::ContentUnderExtracted)
    } else {
        None
    };
    (kind, measures)
}

fn is_garbled(counted: &Counted, format: Format) -> bool {
    let junk = counted.junk_chars >= JUNK_LEAST && counted.junk > JUNK;
    let codes = counted.codes >= JUNK_LEAST && counted.glyph_codes > GLYPH_CODES;
    let marks = format == Format::Pdf
        && counted.words >= WORDS_LEAST
        && counted.visible > 0
        && as_float(counted.readable) / as_float(counted.visible) < READABLE;
    junk || codes || marks
}

/// Only where pages, or an office program's size, promise more; of plain text, mail and data a word may be all.
fn is_near_empty(counted: &Counted, format: Format, size: u64, pages: Option<u32>, images: u32) -> bool {
    let paged = matches!(format, Format::Pdf | Format::Pptx | Format::Ppt | Format::Odp);
    let office = matches!(format, Format::Docx | Format::Doc | Format::Odt | Format::Rtf | Format::Epub);
    if !paged && !office {
        return false;
    }
    let sizeable = size >= SIZEABLE && counted.readable < SIZEABLE_LETTERS;
    let pages = u64::from(pages.unwrap_or(1).max(1));
    let thinner_than = |letters: u64| paged && counted.readable < letters.saturating_mul(pages);
    let scanned = images > 0 && thinner_than(PAGE_LETTERS);
    sizeable || scanned || (pages >= u64::from(PAGES_LEAST) && thinner_than(BARE_PAGE_LETTERS))
}

/// What is counted in a text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Counted {
    pub(super) chars: u64,
    pub(super) letters: u64,
    /// Letters, marks on letters, and digits.
    pub(super) readable: u64,
    /// Everything but blanks.
    pub(super) visible: u64,
    pub(super) words: u64,
    pub(super) junk_chars: u64,
    /// Among the visible.
    pub(super) junk: f64,
    pub(super) codes: u64,
    /// Glyph codes among words and codes.
    pub(super) glyph_codes: f64,
}

/// Counts characters and words. A word is a run of letters and digits; of scripts without blanks each pair of neighbours is
/// one, a single character too.
pub(super) fn measure_words(text: &str) -> Counted {
    let mut counted = Counted::default();
    for token in text.split_whitespace() {
        let codes = glyph_codes(token);
        counted.codes += codes;
        if codes == 0 {
            counted.words += words(token);
        }
    }
    for char in text.chars() {
        counted.chars += 1;
        counted.letters += u64::from(char.is_alphabetic());
        counted.readable += u64::from(char.is_alphanumeric() || is_mark(char));
        counted.visible += u64::from(!char.is_whitespace());
        counted.junk_chars += u64::from(is_junk(char));
    }
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { as_float(part) / as_float(whole) };
    counted.junk = share(counted.junk_chars, counted.visible);
    counted.glyph_codes = share(counted.codes, counted.codes + counted.words);
    counted
}

fn words(token: &str) -> u64 {
    let (mut words, mut run, mut wide) = (0, false, 0_u64);
    for char in token.chars() {
        if is_wide(char) {
            wide += 1;
            run = false;
            continue;
        }
        words += pairs(std::mem::take(&mut wide));
        let part = char.is_alphanumeric()
            || is_mark(char)
            || (run && matches!(char, '\'' | '’' | '\u{200c}' | '\u{200d}'));
        words += u64::from(part && !run);
        run = part;
    }
    words + pairs(wide)
}

/// How many bigrams a run of so many characters has.
fn pairs(run: u64) -> u64 {
    if run == 1 { 1 } else { run.saturating_sub(1) }
}

/// Scripts that are written without blanks between words.
fn is_wide(char: char) -> bool {
    matches!(char, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{323af}' | '\u{e00}'..='\u{e7f}' | '\u{e80}'..='\u{eff}' | '\u{1000}'..='\u{109f}'
        | '\u{1780}'..='\u{17ff}')
        && char.is_alphanumeric()
}

/// Signs that belong to letters: accents, the vowels of Indic scripts, points of Hebrew and Arabic.
fn is_mark(char: char) -> bool {
    unicode_normalization::char::is_combining_mark(char)
}

/// Characters that stand for what could not be decoded.
fn is_junk(char: char) -> bool {
    matches!(char, '\u{fffd}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}')
        // Never a character: glyphs that map to nothing.
        || matches!(char, '\u{fdd0}'..='\u{fdef}' | '\u{fffe}' | '\u{ffff}')
        || (char.is_control() && !matches!(char, '\n' | '\t' | '\r'))
}

/// How many codes of glyphs a token is made of: `(cid:12)`, `/G21`, `/g5/g17`.
fn glyph_codes(token: &str) -> u64 {
    let cids = token.matches("(cid:").count() as u64;
    if cids > 0 {
        return cids;
    }
    let Some(rest) = token.strip_prefix('/') else { return 0 };
    let code = |part: &str| {
        let digits = part.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let letters = part.len() - digits.len();
        (1..=3).contains(&letters)
            && !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    if rest.split('/').all(code) { rest.split('/').count() as u64 } else { 0 }
}

/// The commonest words of fifteen languages.
const COMMON: &[&str] = &[
    "the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "der", "die", "und", "das", "ist",
    "nicht", "mit", "de", "la", "le", "les", "et", "des", "est", "que", "el", "en", "y", "los", "un", "una",
    "o", "do", "da", "e", "os", "il", "di", "che", "non", "per", "het", "een", "van", "och", "att", "det",
    "som", "og", "er", "på", "ja", "on", "ei", "w", "i", "na", "z", "nie", "się", "a", "v", "je", "se", "ve",
    "bir", "bu", "и", "в", "не", "на", "что", "с", "і", "та", "az", "és", "egy", "hogy", "και", "το", "να",
    "של", "את", "في", "من", "على",
];

fn common_words(text: &str, words: u64) -> Option<f64> {
    if words < WORDS_LEAST {
        return None;
    }
    let (mut all, mut common) = (0, 0);
    for token in text.split_whitespace().take(2_000) {
        let word = token.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        all += u64::from(!word.is_empty());
        common += u64::from(COMMON.contains(&word.as_str()));
    }
    (all > 0).then(|| as_float(common) / as_float(all))
}

fn as_float(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// What a finding of the check means, for people.
pub fn explain(kind: Kind) -> &'static str {
    match kind {
        Kind::ContentEmpty => "no letter and no digit came out of it",
        Kind::ContentNearEmpty => "far less text came out of it than a document of its size holds",
        Kind::ContentUnderExtracted => "text came out of only some of its pages",
        Kind::ContentGarbled => "what came out of it does not read like text",
        _ => "its text is doubtful",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str, format: Format) -> Option<Kind> {
        check(text, format, 1_000, None).0
    }

    fn pages(pages: u32, with_text: u32, page_images: u32) -> Metadata {
        Metadata {
            pages: Some(pages),
            pages_with_text: Some(with_text),
            page_images: Some(page_images),
            ..Metadata::default()
        }
    }

    #[test]
    fn honest_documents_pass_in_every_language() {
        for text in [
            "hello",
            "x",
            "42",
            "1.5\t2.5\t-3e9\n4 5 6\n",
            "a,b,c\n1,2,3\n",
            "{\"a\": [1, 2, {\"b\": null}]}",
            "中文",
            "日本語のテキストです。",
            "ภาษาไทย",
            "हिन्दी में पाठ",
            "שלום",
            "نص عربي",
            "Привет, мир!",
            "/usr/bin /etc/passwd",
        ] {
            assert_eq!(kind(text, Format::Text), None, "{text:?}");
        }
        let figures = "1,234.50 -17.25 (3.1) ".repeat(100);
        assert_eq!(kind(&figures, Format::Xlsx), None);
        let sparse = ",,,,,,,1,,,,,,,,\n".repeat(100);
        assert_eq!(kind(&sparse, Format::Csv), None);
        assert_eq!(check("Invoice 17", Format::Pdf, 40_000, Some(&pages(1, 1, 0))).0, None);
    }

    #[test]
    fn what_says_nothing_is_empty() {
        for text in ["", " \n", "---", "\u{2022} \u{2022}"] {
            assert_eq!(kind(text, Format::Pdf), Some(Kind::ContentEmpty), "{text:?}");
        }
    }

    #[test]
    fn almost_nothing_where_pages_promise_more_is_near_empty() {
        let scan = |text: &str, pages: &Metadata| check(text, Format::Pdf, 90_000, Some(pages)).0;
        assert_eq!(scan("p1", &pages(1, 1, 1)), Some(Kind::ContentNearEmpty));
        assert_eq!(scan("1 2 3 4 5", &pages(5, 5, 0)), Some(Kind::ContentNearEmpty));
        assert_eq!(scan("Title", &pages(1, 1, 0)), None);
        let one_word_a_page = "Potato 0\n".repeat(30);
        assert_eq!(scan(&one_word_a_page, &pages(30, 30, 0)), None);
        assert_eq!(scan(&one_word_a_page, &pages(30, 30, 30)), Some(Kind::ContentNearEmpty));
        assert_eq!(check("ab", Format::Docx, 1 << 20, None).0, Some(Kind::ContentNearEmpty));
        assert_eq!(check("ab", Format::Text, 1 << 20, None).0, None);
    }

    #[test]
    fn what_could_not_be_decoded_is_garbled() {
        for text in [
            "\u{fffd}\u{fffd}\u{fffd}\u{fffd}",
            "\u{ffff}\u{ffff}\u{ffff}\u{ffff}",
            "(cid:12)(cid:7) (cid:3) (cid:44)",
            "/G21/G33 /G01 /G5A",
            "\u{e001}\u{e002}\u{e003}\u{e004} ab",
        ] {
            assert_eq!(kind(text, Format::Pdf), Some(Kind::ContentGarbled), "{text:?}");
        }
        let symbols = "a!§$%&/()=? ".repeat(60);
        assert_eq!(kind(&symbols, Format::Pdf), Some(Kind::ContentGarbled));
        assert_eq!(kind("caf\u{fffd}", Format::Text), None);
    }

    #[test]
    fn pages_without_text_are_under_extracted_from_four_on() {
        let text = "A page with enough words to be a page of text. ".repeat(20);
        let with = |metadata: &Metadata| check(&text, Format::Pdf, 90_000, Some(metadata)).0;
        assert_eq!(with(&pages(4, 1, 3)), Some(Kind::ContentUnderExtracted));
        assert_eq!(with(&pages(4, 2, 2)), None);
        assert_eq!(with(&pages(3, 1, 2)), None);
        assert_eq!(with(&pages(0, 0, 0)), None);
    }

    #[test]
    fn words_are_runs_and_pairs() {
        for (text, words) in
            [("don't stop", 2), ("a-b c", 3), ("中文文本", 3), ("中", 1), ("abc中文def", 3), ("...", 0)]
        {
            assert_eq!(measure_words(text).words, words, "{text:?}");
        }
    }

    #[test]
    fn measures_are_shares() {
        let (_, measures) = check(&"the cat ".repeat(50), Format::Text, 400, None);
        assert_eq!((measures.words, measures.letters), (100, 300));
        assert!((measures.common_words.unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(check("the", Format::Text, 3, None).1.common_words, None);
    }
}
