//! The pages, one after the other: text, what forms and notes say, and which are pictures of pages.

use super::super::Output;
use pdfboss_core::source::{Immediate, block_on};
use pdfboss_core::{Annotation, Document, FileSpec, Page};
use pdfboss_output::{ExtractReport, FontCache, ReadingOrder, SkipCause, SkippedTextKind};
use shared::Refused;
use std::collections::HashSet;

/// A page with less text than this may be a picture with a page number under it.
const LITTLE_TEXT: usize = 100;

/// A picture that covers so much of a page is the page.
const MOST_OF_A_PAGE: f32 = 0.5;

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

/// Says the text of all pages, a sign of life for each. Before the text of a page stand as many form feeds as pages ended
/// since there was text: which lines stand on most pages can be told.
pub(super) fn read(pdf: &Document, total: usize, out: &mut Output<'_>) -> Read {
    let (fonts, hidden) = (FontCache::default(), pdf.oc_state());
    let mut read = Read::default();
    let mut said = HashSet::new();
    for index in 0..total {
        let extracted = pdf.page(index).and_then(|page| {
            let order = ReadingOrder::Content;
            let extracted = pdfboss_output::extract_text_reporting_cached_with(
                Immediate(pdf),
                &page,
                &fonts,
                hidden.as_ref(),
                None,
                order,
            );
            block_on(extracted).map(|(text, report)| (page, text, report))
        });
        match extracted {
            Ok((page, text, report)) => one(pdf, &page, &fonts, (&text, &report), &mut read, &mut said, out),
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
    fonts: &FontCache,
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
    if visible.len() < LITTLE_TEXT && is_a_picture(pdf, page, fonts) {
        read.images += 1;
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

fn is_a_picture(pdf: &Document, page: &Page, fonts: &FontCache) -> bool {
    let Ok((images, _)) = pdfboss_text::placed_images_reporting_cached(pdf, page, fonts) else {
        return false;
    };
    let area = |x0: f32, y0: f32, x1: f32, y1: f32| (x1 - x0).max(0.0) * (y1 - y0).max(0.0);
    let page_box = page.crop_box;
    let whole = area(page_box.x0, page_box.y0, page_box.x1, page_box.y1);
    images.iter().filter(|image| !image.stencil || image.width > 256).any(|image| {
        let b = image.bbox;
        let (x0, y0) = (b.x0.max(page_box.x0), b.y0.max(page_box.y0));
        let (x1, y1) = (b.x1.min(page_box.x1), b.y1.min(page_box.y1));
        area(x0, y0, x1, y1) >= whole * MOST_OF_A_PAGE
    })
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
