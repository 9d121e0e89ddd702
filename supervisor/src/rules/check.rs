//! Whether a text is worth having: is it the document's at all?
//!
//! An honest short document in any language passes; so do tables of figures, and lists of names. Six things are measured, on
//! the normalised text but for what only the raw one shows, and the measures are kept as evidence. Where the verdict is that the text is not
//! the document's, it also says who might do better.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod count;
mod pages;
#[cfg(test)]
mod tests;
mod words;

pub(in crate::rules) use count::measure_words;
pub use pages::Raw;

use super::fault::Measures;
use super::kind::Kind;
use super::normalise;
use crate::settings::Check;
use count::{Counted, as_float, share};
use shared::{Format, Metadata};

/// A document of pages, or of an office program, that is at least so large should say something.
const SIZEABLE: u64 = 256 << 10;
/// And that is at least so many letters and digits.
const SIZEABLE_LETTERS: u64 = 10;
/// A few marks of what could not be decoded in a short text are no verdict.
const JUNK_LEAST: u64 = 4;
/// A PDF's text whose visible characters are letters and digits to less than this share is made of wrong glyphs. Sparse
/// tables have few of them, too, and leaders in a table of contents are many: it is low, and for no other format.
const READABLE: f64 = 0.15;
/// Documents with so many pages are held against the share of their pages that have text, and against repeated lines.
const PAGES_LEAST: u32 = 4;
/// A text is judged by its words where so much of what is visible is letters: in a table of figures it is less.
const LETTERS: f64 = 0.5;
/// More pairs of letters than this that hardly ever stand together are no language's that the lists know of. Of honest texts
/// in 114 languages, and of lists of names, species and commands, those with few common words were below it but for
/// Mongolian and Vietnamese (0.31, 0.27), which are recognised; texts whose letters had been shifted or exchanged
/// were above it but for one in forty.
const ODD_PAIRS: f64 = 0.25;
/// More than this no honest text had: that a language is recognised in it, perhaps by its alphabet alone, says nothing.
const ODD_SURELY: f64 = 0.4;
/// Where the charset may have been mistaken and no glyphs can have been, letters beyond ASCII are at least this share of all letters.
const FOREIGN: f64 = 0.3;

/// What the content check says of a document's text, and what it rests on. `text` is normalised, `raw` what it showed
/// before; `size` is the document's, in bytes.
pub fn check(
    text: &str,
    raw: &Raw,
    format: Format,
    size: u64,
    metadata: Option<&Metadata>,
    thresholds: &Check,
) -> (Option<Kind>, Measures) {
    let subject = Subject {
        counted: with_controls(measure_words(text), raw),
        format,
        size,
        pages: metadata.and_then(|metadata| metadata.pages),
        images: metadata.and_then(|metadata| metadata.page_images).unwrap_or(0),
        thresholds,
    };
    let mut measures = subject.measures(raw, metadata);
    measures.common_words = words::common(text);
    // Of a text that reads well nobody asks for more.
    if measures.common_words.is_some_and(|share| share < thresholds.common_words) {
        measures.odd_pairs = words::odd_pairs(text);
    }
    let kind = subject.verdict(text, &measures);
    (kind, measures)
}

fn with_controls(mut counted: Counted, raw: &Raw) -> Counted {
    counted.junk_chars += raw.controls;
    counted.visible += raw.controls;
    counted.junk = share(counted.junk_chars, counted.visible);
    counted
}

/// A text that is judged.
struct Subject<'a> {
    counted: Counted,
    format: Format,
    size: u64,
    pages: Option<u32>,
    /// Pages that are pictures.
    images: u32,
    thresholds: &'a Check,
}

impl Subject<'_> {
    fn measures(&self, raw: &Raw, metadata: Option<&Metadata>) -> Measures {
        let with_text = metadata.and_then(|metadata| metadata.pages_with_text);
        let pages = self.pages.filter(|&pages| pages > 0);
        Measures {
            chars: self.counted.chars,
            letters: self.counted.letters,
            words: self.counted.words,
            junk: self.counted.junk,
            glyph_codes: self.counted.glyph_codes,
            chars_a_page: pages.map(|pages| as_float(self.counted.readable) / f64::from(pages)),
            pages_with_text: pages
                .zip(with_text)
                .map(|(pages, with)| f64::from(with.min(pages)) / f64::from(pages)),
            repeated_lines: raw.repeated_lines,
            common_words: None,
            odd_pairs: None,
        }
    }

    fn verdict(&self, text: &str, measures: &Measures) -> Option<Kind> {
        if self.is_garbled(text, measures) {
            Some(Kind::ContentGarbled)
        } else if self.counted.readable == 0 {
            Some(Kind::ContentEmpty)
        } else if self.is_near_empty() || self.is_stamped(measures) {
            Some(Kind::ContentNearEmpty)
        } else if self.is_under_extracted(measures) {
            Some(Kind::ContentUnderExtracted)
        } else {
            None
        }
    }

    fn is_garbled(&self, text: &str, measures: &Measures) -> bool {
        let counted = &self.counted;
        let junk = counted.junk_chars >= JUNK_LEAST && counted.junk > self.thresholds.junk;
        let codes = counted.codes >= JUNK_LEAST && counted.glyph_codes > self.thresholds.glyph_codes;
        let marks = self.format == Format::Pdf
            && counted.words >= words::WORDS_LEAST
            && counted.visible > 0
            && share(counted.readable, counted.visible) < READABLE;
        junk || codes || marks || self.has_no_words(text, measures)
    }

    /// Few common words, letters that stand together as in no language, and no language that is recognised: each of the
    /// three alone is said of honest texts.
    fn has_no_words(&self, text: &str, measures: &Measures) -> bool {
        let counted = &self.counted;
        measures.common_words.is_some_and(|share| share < self.thresholds.common_words)
            && share(counted.letters, counted.visible) >= LETTERS
            && (self.format == Format::Pdf || share(counted.foreign, counted.letters) >= FOREIGN)
            && measures.odd_pairs.is_some_and(|share| {
                share > ODD_SURELY || (share > ODD_PAIRS && normalise::language(text).is_none())
            })
    }

    /// Only where pages, or an office program's size, promise more; of plain text, mail and data a word may be all.
    fn is_near_empty(&self) -> bool {
        let paged = matches!(self.format, Format::Pdf | Format::Pptx | Format::Ppt | Format::Odp);
        let office =
            matches!(self.format, Format::Docx | Format::Doc | Format::Odt | Format::Rtf | Format::Epub);
        if !paged && !office {
            return false;
        }
        let readable = self.counted.readable;
        let sizeable = self.size >= SIZEABLE && readable < SIZEABLE_LETTERS;
        let pages = u64::from(self.pages.unwrap_or(1).max(1));
        let thinner_than = |letters: u64| paged && readable < letters.saturating_mul(pages);
        let scanned = self.images > 0 && thinner_than(self.thresholds.near_empty);
        // Where no page holds a picture that could be the text: a page's own number, and no word beside it.
        let bare = pages >= u64::from(PAGES_LEAST) && thinner_than(self.thresholds.near_empty / 2);
        sizeable || scanned || bare
    }

    /// Most pages are pictures, and nearly all there is was stamped on each: a form, whose labels are on each page as well,
    /// is no picture.
    fn is_stamped(&self, measures: &Measures) -> bool {
        let pages = self.pages.unwrap_or(0);
        pages >= PAGES_LEAST
            && self.images.saturating_mul(2) > pages
            && measures.repeated_lines.is_some_and(|share| share > self.thresholds.repeated_lines)
    }

    fn is_under_extracted(&self, measures: &Measures) -> bool {
        self.pages.is_some_and(|pages| pages >= PAGES_LEAST)
            && measures.pages_with_text.is_some_and(|share| share < self.thresholds.under_extracted)
    }
}

/// Who might do better with a document than whose text the check did not accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The pictures of its pages can be recognised.
    Recognise,
    /// Another extractor, which is left to be tried, may read it.
    NextExtractor,
    /// Nobody: what came out is all there is.
    Suspect,
}

/// Where a text goes on which the check says `kind`. `another`: an extractor of the format has not been tried yet. To be
/// asked once for each text: what `Recognise` brings is the last.
pub fn route(kind: Kind, format: Format, metadata: Option<&Metadata>, another: bool) -> Route {
    let pictures =
        format == Format::Pdf && metadata.and_then(|metadata| metadata.page_images).unwrap_or(0) > 0;
    match kind {
        // Letters are there: another engine may know what its glyphs mean.
        Kind::ContentGarbled if another => Route::NextExtractor,
        Kind::ContentGarbled | Kind::ContentEmpty | Kind::ContentNearEmpty | Kind::ContentUnderExtracted
            if pictures =>
        {
            Route::Recognise
        }
        Kind::ContentEmpty | Kind::ContentNearEmpty | Kind::ContentUnderExtracted if another => {
            Route::NextExtractor
        }
        _ => Route::Suspect,
    }
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
