//! The first engine: `office_oxide`, called so that it starts no thread.
//!
//! Its usual entrance parses on a thread of its own, and so does every package embedded in a document; the cage ends a
//! process that tries. So the readers of the single formats are called, and embedded packages are left closed: they are
//! members, documents of their own.

use super::{Engine, Reading};
use crate::extract::package::Package;
use crate::extract::{Document, stream};
use office_oxide::core::Error;
use office_oxide::docx::{DocxDocument, DocxError};
use office_oxide::pptx::{PptxDocument, PptxError};
use office_oxide::xlsx::{XlsxDocument, XlsxError};
use shared::{Format, Refusal, Refused};
use std::io::Cursor;

/// The words with which the engine says that it left a package closed.
const CLOSED: &str = "skipped embedded package";

/// How the lines begin, after their bracket, with which it says in the text what it left out.
const NOTICES: [&str; 10] = [
    "nested table deeper than ",
    "nested tables deeper than ",
    "text box nested too deeply ",
    "sheet truncated: ",
    "workbook truncated: ",
    "output truncated: ",
    "pivot cache truncated: ",
    "comments truncated: ",
    "unreadable sheet ",
    "unreadable slide ",
];

/// The most characters it may give. More than what a child may say by default; a cut is a notice.
const TEXT_MAX: usize = 96 << 20;

pub(super) struct Office;

/// Sets the engine's limits for this process: no embedded packages, and parts no larger than what this process holds.
pub(in crate::extract) fn limit() {
    office_oxide::limits::set_max_embedded_depth(0);
    office_oxide::limits::set_max_part_bytes(4 * stream::PART_CAP);
    office_oxide::limits::set_max_text_chars(TEXT_MAX);
}

impl Engine for Office {
    fn name(&self) -> &'static str {
        "office_oxide 0.1.16"
    }

    fn read(
        &self,
        format: Format,
        document: &Document<'_>,
        _package: &mut Package<'_>,
    ) -> Result<Reading, Refusal> {
        limit();
        let source = Cursor::new(document.bytes);
        match format {
            Format::Docx => {
                DocxDocument::from_reader(source).map(|read| docx(&read)).map_err(|error| match &error {
                    DocxError::Core(core) => refusal_of(core),
                    other => malformed(other),
                })
            }
            Format::Pptx => {
                PptxDocument::from_reader(source).map(|read| pptx(&read)).map_err(|error| match &error {
                    PptxError::Core(core) => refusal_of(core),
                    other => malformed(other),
                })
            }
            _ => XlsxDocument::from_reader(source).map(|read| xlsx(&read)).map_err(|error| match &error {
                XlsxError::Core(core) => refusal_of(core),
                other => malformed(other),
            }),
        }
    }
}

fn docx(read: &DocxDocument) -> Reading {
    let lost = read.unreadable_parts.iter().map(String::clone);
    reading(read.plain_text(), lost)
}

fn pptx(read: &PptxDocument) -> Reading {
    let lost = read.unreadable_parts.iter().map(|(part, reason)| format!("{part}: {reason}"));
    reading(read.plain_text(), lost)
}

fn xlsx(read: &XlsxDocument) -> Reading {
    let lost = read.unreadable_sheets.iter().chain(&read.unreadable_parts);
    let lost = lost.map(|(part, reason)| format!("{part}: {reason}"));
    let damaged = read
        .worksheets
        .iter()
        .filter_map(|sheet| sheet.damage.as_ref().map(|damage| format!("{}: {damage}", sheet.name)));
    let mut text = read.plain_text();
    // The names of empty sheets are no text.
    let named = |line: &str| read.worksheets.iter().any(|sheet| sheet.name.trim() == line);
    if text.lines().map(str::trim).all(|line| line.is_empty() || named(line)) {
        text.clear();
    }
    reading(text, lost.chain(damaged))
}

fn reading(text: String, lost: impl Iterator<Item = String>) -> Reading {
    let (text, notices) = without_notices(&text);
    let lost: Vec<String> = lost.chain(notices).filter(|line| !line.contains(CLOSED)).collect();
    let loss = (!lost.is_empty()).then(|| Refusal { why: Refused::Malformed, message: lost.join("; ") });
    Reading { text, loss }
}

/// The text without the lines in which the engine says, in the text itself, what it left out; and those lines. A document
/// that forges one is taken for partial, no more.
pub(in crate::extract) fn without_notices(text: &str) -> (String, Vec<String>) {
    let (mut kept, mut notices) = (String::with_capacity(text.len()), Vec::new());
    for line in text.lines() {
        if is_notice(line) {
            notices.push(line.to_owned());
        } else {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    (kept, notices)
}

fn is_notice(line: &str) -> bool {
    let Some(said) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) else { return false };
    NOTICES.iter().any(|start| said.starts_with(start))
        || said.contains(CLOSED)
        || said.starts_with("sheet ") && said.contains(" cut short: ")
}

fn malformed(error: &dyn std::error::Error) -> Refusal {
    Refusal { why: Refused::Malformed, message: error.to_string() }
}

fn refusal_of(error: &Error) -> Refusal {
    let why = match error {
        Error::Zip(error) => crate::extract::package::refusal_of(error).why,
        Error::Io(error) => stream::refused_by(error),
        Error::Unsupported(_) | Error::PackageLimit(_) | Error::DecompressionLimit { .. } => {
            Refused::Unsupported
        }
        _ => Refused::Malformed,
    };
    // A part that ends early makes a broken package, not a file that is too short.
    let why = if why == Refused::Truncated { Refused::Malformed } else { why };
    Refusal { why, message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_losses_and_no_text() {
        let text =
            "a\n[nested table deeper than 100 levels not shown]\n[1] b\n[x: skipped embedded package: y]";
        let read = reading(text.to_owned(), std::iter::empty());
        assert_eq!(read.text, "a\n[1] b\n");
        assert_eq!(read.loss.unwrap().message, "[nested table deeper than 100 levels not shown]");
    }
}
