//! The pages, one after the other: text, what forms and notes say, and which are pictures of pages.

use super::super::Output;
use pdfboss_core::source::{Immediate, block_on};
use pdfboss_core::{Annotation, Document, FileSpec, OcState, Page, Rect};
use pdfboss_output::{ExtractReport, FontCache, ReadingOrder, SkipCause, SkippedTextKind};
use shared::Refused;
use std::collections::HashSet;

/// A page with less text than this may be a picture with a page number under it.
const LITTLE_TEXT: usize = 100;

/// A picture that covers so much of a page is the page, whatever number stands under it.
const MOST_OF_A_PAGE: f32 = 0.5;

/// On a page without a letter a picture of this share may be what there is to read.
const PART_OF_A_PAGE: f32 = 0.1;

/// What the pages gave, besides text.
#[derive(Default)]
pub(super) struct Read {
    pub(super) with_text: u32,
    pub(super) images: u32,
    pub(super) pages_skipped: u64,
    pub(super) skipped: Option<(Refused, String)>,
    /// Files that hang on notes.
    pub(super) attached: Vec<FileSpec>,
    /// Pages that ended and of which the text does not say so yet.
    ended: usize,
}

/// Reads pages one by one; what they share is read once.
pub(super) struct Pages<'a> {
    pdf: &'a Document,
    fonts: FontCache,
    hidden: Option<OcState>,
}

impl<'a> Pages<'a> {
    pub(super) fn of(pdf: &'a Document) -> Self {
        Pages { pdf, fonts: FontCache::default(), hidden: pdf.oc_state() }
    }

    /// A page, its text, and what the engine had to leave out of it.
    pub(super) fn read(&self, index: usize) -> pdfboss_core::Result<(Page, String, ExtractReport)> {
        let page = self.pdf.page(index)?;
        let extracted = pdfboss_output::extract_text_reporting_cached_with(
            Immediate(self.pdf),
            &page,
            &self.fonts,
            self.hidden.as_ref(),
            None,
            ReadingOrder::Content,
        );
        block_on(extracted).map(|(text, report)| (page, text, report))
    }

    /// Whether a page with this text is a picture, and which share of the page a picture then must cover at least.
    pub(super) fn picture(&self, page: &Page, text: &str) -> Option<f32> {
        let letters = text.chars().any(char::is_alphanumeric);
        let least = if letters { MOST_OF_A_PAGE } else { PART_OF_A_PAGE };
        let is_one = text.trim().len() < LITTLE_TEXT && has_a_picture(self.pdf, page, &self.fonts, least);
        is_one.then_some(least)
    }
}

/// Says the text of all pages, a sign of life for each. Before the text of a page stand as many form feeds as pages ended
/// since there was text: which lines stand on most pages can be told.
pub(super) fn read(pdf: &Document, total: usize, out: &mut Output<'_>) -> Read {
    let pages = Pages::of(pdf);
    let mut read = Read::default();
    let mut said = HashSet::new();
    for index in 0..total {
        match pages.read(index) {
            Ok((page, text, report)) => {
                read.images += u32::from(pages.picture(&page, &text).is_some());
                one(pdf, &page, (&text, &report), &mut read, &mut said, out);
            }
            Err(error) => read.skip(Refused::Malformed, format!("page {}: {error}", index + 1)),
        }
        read.ended += 1;
        out.progress(index as u64 + 1, total as u64);
    }
    fields(pdf, &mut said, out);
    read
}

fn one(
    pdf: &Document,
    page: &Page,
    (text, report): (&str, &ExtractReport),
    read: &mut Read,
    said: &mut HashSet<String>,
    out: &mut Output<'_>,
) {
    let visible = text.trim();
    if !visible.is_empty() {
        read.say(visible, out);
        read.with_text += 1;
    }
    if let Some((why, message)) = loss(report, text) {
        read.skip(why, format!("page {}: {message}", page.index + 1));
    }
    for note in pdf.annotations(page) {
        if let Some(file) = &note.file {
            read.attached.push(file.clone());
        }
        if let Some(contents) = contents(&note)
            && !text.contains(contents)
            && said.insert(contents.to_owned())
        {
            read.say(contents, out);
        }
    }
}

impl Read {
    /// A line of the page at hand. Of pages without text nothing is said until one has some: form feeds alone are no text.
    fn say(&mut self, text: &str, out: &mut Output<'_>) {
        out.text(&"\u{c}".repeat(std::mem::take(&mut self.ended)));
        out.line(text);
    }

    fn skip(&mut self, why: Refused, message: String) {
        self.pages_skipped += 1;
        self.skipped.get_or_insert((why, message));
    }
}

/// What the engine left out that may have been text. A picture that is missing is none.
fn loss(report: &ExtractReport, text: &str) -> Option<(Refused, String)> {
    let lost = report.skipped.iter().find(|skipped| match skipped.kind {
        SkippedTextKind::PageContents | SkippedTextKind::Form => true,
        SkippedTextKind::FontEncoding => text.contains('\u{fffd}'),
        SkippedTextKind::XObject => false,
    })?;
    let why = match lost.cause {
        SkipCause::UnsupportedFilter(_) => Refused::Unsupported,
        _ => Refused::Malformed,
    };
    Some((why, format!("{}: {}", lost.kind, lost.cause)))
}

fn has_a_picture(pdf: &Document, page: &Page, fonts: &FontCache, least: f32) -> bool {
    let Ok((images, _)) = pdfboss_text::placed_images_reporting_cached(pdf, page, fonts) else {
        return false;
    };
    let images = images.iter().filter(|image| may_be_a_page(image.stencil, image.width));
    images.map(|image| image.bbox).any(|place| covers(page, place, least))
}

/// A stencil that is this narrow is a shade or a pattern.
pub(super) fn may_be_a_page(stencil: bool, width: u32) -> bool {
    !stencil || width > 256
}

/// Whether what is drawn there covers at least this share of the page.
pub(super) fn covers(page: &Page, place: Rect, least: f32) -> bool {
    overlap(place, page.crop_box) >= overlap(page.crop_box, page.crop_box) * least
}

/// The area that both have.
pub(super) fn overlap(one: Rect, other: Rect) -> f32 {
    one.intersect(other).map_or(0.0, |both| both.width() * both.height())
}

/// What a reader of the page would see of a note. A link's is a description, a widget's belongs to its field, a
/// pop-up's to its parent.
fn contents(note: &Annotation) -> Option<&str> {
    if matches!(note.subtype.as_str(), "Link" | "Widget" | "Popup") {
        return None;
    }
    note.contents.as_deref().map(str::trim).filter(|contents| !contents.is_empty())
}

/// The values that were filled in: they are drawn by a viewer, not by the page.
fn fields(pdf: &Document, said: &mut HashSet<String>, out: &mut Output<'_>) {
    for field in pdf.form_fields() {
        if field.flags.password() {
            continue;
        }
        let values = field.text().into_iter().chain(field.selected());
        for value in values {
            let value = value.trim();
            if !value.is_empty() && said.insert(value.to_owned()) {
                out.line(value);
            }
        }
    }
}
