//! OLE compound files: DOC, XLS, PPT and MSG, and the many others that are told by name and not read.
//!
//! The streams of the root say which. An encrypted file is refused before anything else: parts of it read well, and are
//! placeholders ("Permission for this document is restricted").

mod objects;
mod size;

use super::{Document, Done, Output, ooxml, package, stream};
use office_oxide::cfb::{CfbError, CfbReader, SummaryProperties};
use office_oxide::doc::{DocDocument, DocError};
use office_oxide::ppt::{PptDocument, PptError};
use office_oxide::xls::{XlsDocument, XlsError};
use shared::{Format, Metadata, Refusal, Refused};
use std::io::Cursor;

const ENGINE: &str = "office_oxide 0.1.16";

/// Streams and storages of the root that tell a format which nothing here reads.
const OTHERS: [(&str, Format); 7] = [
    ("VisioDocument", Format::Visio),
    ("Props9", Format::Project),
    ("Props12", Format::Project),
    ("Props14", Format::Project),
    ("   114", Format::Project),
    ("BodyText", Format::Hwp),
    ("\u{5}HwpSummaryInformation", Format::Hwp),
];

/// Streams that only files under rights management or a password have.
const LOCKS: [&str; 4] = ["EncryptedPackage", "EncryptionInfo", "\u{9}DRMContent", "\u{9}DRMViewerContent"];

/// Tells which program's file it is, and hands it to who reads it.
pub(super) fn extract(document: &Document<'_>, out: &mut Output<'_>) -> Done {
    ooxml::limit_office();
    let file = match CfbReader::new(Cursor::new(document.bytes)) {
        Ok(file) => file,
        Err(error) => return broken(Format::Ole, document.bytes, Refused::Malformed, error.to_string()),
    };
    // The root alone: what is embedded may be locked, or of another program, on its own.
    let has = |name: &str| file.has_root_entry(name);
    if LOCKS.iter().any(|name| has(name)) {
        return Done::refused(Format::Ole, ENGINE, Refused::Encrypted, package::PASSWORD);
    }
    match () {
        () if has("__properties_version1.0") => super::msg::extract(document, out),
        () if has("Quill") => unread(Format::Publisher),
        () if file.has_stream("WordDocument") => word(document, out),
        () if file.has_stream("Workbook") || file.has_stream("Book") => excel(document, out),
        () if has("Text_Content") && has("PersistentStorage Directory") && !has("PP97_DUALSTORAGE") => {
            Done::refused(Format::Ppt, ENGINE, Refused::Unsupported, "no extractor reads PowerPoint 95")
        }
        () if file.has_stream("PowerPoint Document") || has("PP97_DUALSTORAGE") => powerpoint(document, out),
        () => match OTHERS.iter().find(|(name, _)| has(name)) {
            Some((_, format)) => unread(*format),
            None if size::ends_early(document.bytes) => {
                broken(Format::Ole, document.bytes, Refused::Malformed, "no known streams".to_owned())
            }
            None => unread(Format::Ole),
        },
    }
}

fn unread(format: Format) -> Done {
    Done::refused(format, "none", Refused::Unsupported, format!("no extractor reads {}", format.name()))
}

/// What is damaged is truncated where the file is shorter than its own table of sectors says.
fn broken(format: Format, bytes: &[u8], why: Refused, message: String) -> Done {
    let why = match why {
        Refused::Malformed | Refused::Truncated if size::ends_early(bytes) => Refused::Truncated,
        Refused::Truncated => Refused::Malformed,
        why => why,
    };
    Done::refused(format, ENGINE, why, message)
}

fn word(document: &Document<'_>, out: &mut Output<'_>) -> Done {
    match DocDocument::from_reader(Cursor::new(document.bytes)) {
        Ok(read) => {
            say(read.summary_properties(), None, out);
            out.text(&read.plain_text());
            finish(Format::Doc, document, read.text_complete(), read.warnings(), out)
        }
        Err(error) => {
            let why = match &error {
                DocError::Encrypted => Refused::Encrypted,
                DocError::UnsupportedVersion(_) => Refused::Unsupported,
                DocError::Cfb(error) => of_container(error),
                _ => Refused::Malformed,
            };
            broken(Format::Doc, document.bytes, why, error.to_string())
        }
    }
}

fn excel(document: &Document<'_>, out: &mut Output<'_>) -> Done {
    match XlsDocument::from_reader(Cursor::new(document.bytes)) {
        Ok(read) => {
            say(read.summary_properties(), u32::try_from(read.sheets.len()).ok(), out);
            // What it lacks is told by its warnings, too.
            let (text, _notices) = ooxml::without_notices(&read.plain_text());
            // The names of empty sheets are no text.
            let named = |line: &str| read.sheets.iter().any(|sheet| sheet.name.trim() == line);
            if !text.lines().map(str::trim).all(|line| line.is_empty() || named(line)) {
                out.text(&text);
            }
            finish(Format::Xls, document, !read.truncated(), read.warnings(), out)
        }
        Err(error) => {
            let why = match &error {
                XlsError::Encrypted | XlsError::EncryptionNotSupported(_) => Refused::Encrypted,
                XlsError::UnsupportedVersion(_) => Refused::Unsupported,
                XlsError::Cfb(error) => of_container(error),
                _ => Refused::Malformed,
            };
            if why != Refused::Encrypted && second_reading(document, out) {
                let message = format!("read by calamine 0.38.0 after {ENGINE} failed: {error}");
                return broken(Format::Xls, document.bytes, Refused::Malformed, message);
            }
            broken(Format::Xls, document.bytes, why, error.to_string())
        }
    }
}

/// The second engine for workbooks that the first gives up on. Whether there was any text.
fn second_reading(document: &Document<'_>, out: &mut Output<'_>) -> bool {
    use calamine::Reader;
    let Ok(mut book) = calamine::Xls::new(Cursor::new(document.bytes)) else { return false };
    for (_, range) in book.worksheets() {
        for row in range.rows() {
            let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
            out.line(cells.join("\t").trim_end());
        }
    }
    out.has_text()
}

fn powerpoint(document: &Document<'_>, out: &mut Output<'_>) -> Done {
    match PptDocument::from_reader(Cursor::new(document.bytes)) {
        Ok(read) => {
            say(read.summary_properties(), u32::try_from(read.slides.len()).ok(), out);
            out.text(&read.plain_text());
            for run in read.slides.iter().flat_map(|slide| &slide.text_runs) {
                if run.text_type == office_oxide::ppt::TextType::Notes {
                    out.line(&run.text.replace(['\r', '\u{b}'], "\n"));
                }
            }
            finish(Format::Ppt, document, read.text_complete(), read.warnings(), out)
        }
        Err(error) => {
            let why = match &error {
                PptError::Encrypted => Refused::Encrypted,
                PptError::Cfb(error) => of_container(error),
                _ => Refused::Malformed,
            };
            broken(Format::Ppt, document.bytes, why, error.to_string())
        }
    }
}

fn of_container(error: &CfbError) -> Refused {
    match error {
        CfbError::Io(error) => stream::refused_by(error),
        _ => Refused::Malformed,
    }
}

/// The embedded documents, and what is missing of the text.
fn finish(
    format: Format,
    document: &Document<'_>,
    complete: bool,
    warnings: &[String],
    out: &mut Output<'_>,
) -> Done {
    out.progress(1, 2);
    let objects = objects::extract(document.bytes, out);
    if size::ends_early(document.bytes) {
        return Done::refused(
            format,
            ENGINE,
            Refused::Truncated,
            "the file is shorter than its table of sectors says",
        );
    }
    if !complete {
        return Done::refused(format, ENGINE, Refused::Malformed, warnings.join("; "));
    }
    match objects {
        Ok(()) => Done::whole(format, ENGINE),
        Err(Refusal { why, message }) => Done::refused(format, ENGINE, why, message),
    }
}

fn say(summary: Option<&SummaryProperties>, pages: Option<u32>, out: &mut Output<'_>) {
    let summary = summary.cloned().unwrap_or_default();
    out.metadata(Metadata {
        title: summary.title,
        author: summary.author,
        subject: summary.subject,
        keywords: summary.keywords,
        created: summary.created,
        modified: summary.modified,
        pages,
        ..Metadata::default()
    });
}

#[cfg(test)]
mod tests {
    use crate::extract::testing::Said;
    use shared::{Format, Refused};
    use std::io::{Cursor, Write};

    fn file(streams: &[(&str, &[u8])]) -> Vec<u8> {
        let mut file = cfb::CompoundFile::create(Cursor::new(Vec::new())).unwrap();
        for (name, bytes) in streams {
            file.create_stream(name).unwrap().write_all(bytes).unwrap();
        }
        file.flush().unwrap();
        file.into_inner().into_inner()
    }

    #[test]
    fn the_streams_tell_the_format() {
        let why = |streams: &[(&str, &[u8])]| {
            let done = Said::of(Format::Ole, &file(streams)).done;
            (done.format, done.refusal.unwrap().why)
        };
        let encrypted = [("EncryptionInfo", &b"x"[..]), ("EncryptedPackage", &b"y"[..])];
        assert_eq!(why(&encrypted), (Format::Ole, Refused::Encrypted));
        assert_eq!(why(&[("VisioDocument", b"x")]), (Format::Visio, Refused::Unsupported));
        assert_eq!(why(&[("Else", b"x")]), (Format::Ole, Refused::Unsupported));
        assert_eq!(why(&[("WordDocument", b"x")]), (Format::Doc, Refused::Malformed));
    }

    #[test]
    fn a_file_that_stops_is_truncated() {
        let whole = file(&[("WordDocument", &[7; 9000])]);
        let said = Said::of(Format::Ole, whole.get(..whole.len() - 6000).unwrap());
        assert_eq!(said.done.refusal.unwrap().why, Refused::Truncated);
        assert_eq!(Said::of(Format::Ole, b"\xd0\xcf\x11\xe0").done.refusal.unwrap().why, Refused::Truncated);
    }
}
