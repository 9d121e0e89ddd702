//! The second opinion, for documents of which the first engine makes nothing.
//!
//! It may panic on damage that the first one took. That must not cost what is known by then, so a panic counts as "no".

use super::super::Output;
use lopdf::{Document, LoadOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(super) const ENGINE: &str = "lopdf 0.47";

/// More pages than this are not asked for: they would be damage that claims to be pages.
const PAGES_MAX: usize = 10_000;

/// So much may one page's content grow to.
const CONTENT_MAX: usize = 64 << 20;

/// Says the text that this engine finds; whether there was any.
pub(super) fn read(bytes: &[u8], passwords: &[String], out: &mut Output<'_>) -> bool {
    let Ok(texts) = catch_unwind(AssertUnwindSafe(|| texts(bytes, passwords))) else { return false };
    let mut any = false;
    for text in texts.iter().map(|text| text.trim()).filter(|text| text.chars().any(char::is_alphanumeric)) {
        out.line(text);
        any = true;
    }
    any
}

fn texts(bytes: &[u8], passwords: &[String]) -> Vec<String> {
    let first = Document::load_mem(bytes).ok();
    let opened = first.or_else(|| {
        passwords.iter().find_map(|password| {
            Document::load_mem_with_options(bytes, LoadOptions::with_password(password)).ok()
        })
    });
    let Some(pdf) = opened else { return Vec::new() };
    let pages = pdf.get_pages();
    pages
        .keys()
        .take(PAGES_MAX)
        .filter_map(|number| pdf.extract_text_with_limit(&[*number], CONTENT_MAX).ok())
        .collect()
}
