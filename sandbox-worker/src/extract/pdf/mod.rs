//! PDF: opens the document, reads its pages, then what hangs beside them.
//!
//! One engine reads everything; it is lenient, so an empty text proves nothing. Hence its *reporting* call, whose list of
//! skipped streams becomes a refusal here, and a second engine that is asked where the first one found nothing at all.

mod attachments;
mod metadata;
mod pages;
mod pictures;
mod samples;
mod second;

use super::{Document, Done, Output};
use pdfboss_core::Error;
use shared::{Format, Refused};

const ENGINE: &str = "pdfboss 2.16.1";

/// Some printers put their own header before the PDF's.
const JUNK_MAX: usize = 64 << 10;

/// Says the text, the metadata and the attachments of `document`.
pub(super) fn extract(document: &Document<'_>, out: &mut Output<'_>) -> Done {
    let bytes = without_junk(document.bytes);
    match open(bytes, document.passwords) {
        Ok(pdf) => read(&pdf, bytes, document.passwords, out),
        Err(Error::Encrypted) => {
            Done::refused(Format::Pdf, ENGINE, Refused::Encrypted, "no password that was tried opens it")
        }
        Err(error) => broken(bytes, document.passwords, out, &error.to_string()),
    }
}

/// Sends the pictures of those pages of `document` that have hardly any text, as members named `page-0001.jpg` and the like, in
/// the order of the pages.
pub(super) fn pictures(document: &Document<'_>, out: &mut Output<'_>) -> Done {
    match open(without_junk(document.bytes), document.passwords) {
        Ok(pdf) => pictures::send(&pdf, out),
        Err(Error::Encrypted) => {
            Done::refused(Format::Pdf, ENGINE, Refused::Encrypted, "no password that was tried opens it")
        }
        Err(error) => Done::refused(Format::Pdf, ENGINE, Refused::Malformed, error.to_string()),
    }
}

fn without_junk(bytes: &[u8]) -> &[u8] {
    let head = bytes.get(..JUNK_MAX).unwrap_or(bytes);
    let at = head.windows(5).position(|window| window == b"%PDF-").unwrap_or(0);
    bytes.get(at..).unwrap_or(bytes)
}

/// Opens with the empty password, then with each that was given. Only a wrong password is worth another try.
fn open(bytes: &[u8], passwords: &[String]) -> Result<pdfboss_core::Document, Error> {
    let empty = String::new();
    for password in std::iter::once(&empty).chain(passwords) {
        // Each password is tried as the user's and as the owner's.
        match pdfboss_core::Document::load_with_password(bytes.to_vec(), password) {
            Err(Error::Encrypted) => {}
            opened => return opened,
        }
    }
    Err(Error::Encrypted)
}

fn read(pdf: &pdfboss_core::Document, bytes: &[u8], passwords: &[String], out: &mut Output<'_>) -> Done {
    let total = pdf.flattened_page_count();
    if total == 0 {
        return broken(bytes, passwords, out, "no page can be reached");
    }
    let mut facts = metadata::of(pdf);
    facts.decrypted = pdf.is_encrypted() && !pdf.is_locked();
    let read = pages::read(pdf, total, out);
    facts.pages = u32::try_from(total).ok();
    facts.pages_with_text = Some(read.with_text);
    facts.page_images = Some(read.images);
    out.metadata(facts);
    attachments::send(pdf, &read.attached, out);
    if !out.has_text() && read.images == 0 && second::read(bytes, passwords, out) {
        let message = "the first engine found no text; this is the second's";
        return Done::refused(Format::Pdf, second::ENGINE, Refused::Malformed, message);
    }
    if let Some((why, message)) = read.skipped {
        // What a cut took away is missed here first, as pages that cannot be read.
        let why = if is_cut(bytes) { Refused::Truncated } else { why };
        let done = (total as u64).saturating_sub(read.pages_skipped);
        return Done::refused(Format::Pdf, ENGINE, why, message).with_parts(done, total as u64);
    }
    if is_cut(bytes) {
        return Done::refused(Format::Pdf, ENGINE, Refused::Truncated, "the file ends without its trailer");
    }
    Done::whole(Format::Pdf, ENGINE)
}

/// Nothing can be had from the first engine: what the second makes of it, and whether the file was cut or is wrong.
fn broken(bytes: &[u8], passwords: &[String], out: &mut Output<'_>, message: &str) -> Done {
    let engine = if second::read(bytes, passwords, out) { second::ENGINE } else { ENGINE };
    let why = if is_cut(bytes) { Refused::Truncated } else { Refused::Malformed };
    Done::refused(Format::Pdf, engine, why, message)
}

/// Whether the end is missing: every whole file ends by naming its cross-reference table. An older end, with objects after
/// it, is that of an earlier version of the document, or of the first page of one that is made for the web.
fn is_cut(bytes: &[u8]) -> bool {
    let last = |word: &[u8]| bytes.windows(word.len()).rposition(|window| window == word);
    let Some(end) = last(b"%%EOF").max(last(b"startxref")) else { return true };
    let after = bytes.get(end..).unwrap_or_default();
    after.windows(4).any(|window| window == b" obj")
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    const HELLO: &str = "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n\
        3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>\
        /Annots[6 0 R]>>endobj\n4 0 obj<</Length 38>>stream\nBT /F 12 Tf 20 100 Td (Hello) Tj ET   \nendstream endobj\n\
        5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\n\
        6 0 obj<</Type/Annot/Subtype/Text/Rect[0 0 9 9]/Contents(A note)>>endobj\n\
        7 0 obj<</Title(Its title)/CreationDate(D:20240102030405Z)>>endobj\n";

    fn whole() -> String {
        format!("{HELLO}trailer<</Root 1 0 R/Size 8/Info 7 0 R>>\nstartxref\n0\n%%EOF\n")
    }

    #[test]
    fn text_notes_and_metadata_come_out() {
        let said = testing::said(whole().as_bytes(), extract);
        assert_eq!(said.done.refusal, None);
        assert!(said.text.contains("Hello") && said.text.contains("A note"), "{:?}", said.text);
        assert_eq!(said.metadata.title.as_deref(), Some("Its title"));
        assert_eq!(said.metadata.created.as_deref(), Some("2024-01-02T03:04:05Z"));
        assert_eq!((said.metadata.pages, said.metadata.pages_with_text), (Some(1), Some(1)));
    }

    #[test]
    fn form_feeds_tell_pages_apart_and_are_no_text() {
        let blank =
            |number: u32| format!("{number} 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\n");
        let last = "13 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>endobj\n";
        let more = (8..12).map(blank).collect::<String>() + last + "trailer";
        let pages = whole()
            .replace("/Kids[3 0 R]/Count 1", "/Kids[8 0 R 3 0 R 9 0 R 10 0 R 13 0 R 11 0 R]/Count 6")
            .replace("trailer", &more);
        let said = testing::said(pages.as_bytes(), extract);
        assert_eq!(said.text, "\u{c}Hello\nA note\n\u{c}\u{c}\u{c}Hello\n");
        let none = pages.replace("Hello", "").replace("/Annots[6 0 R]", "");
        assert_eq!(testing::said(none.as_bytes(), extract).text, "");
    }

    #[test]
    fn a_file_without_its_end_is_truncated_and_keeps_its_text() {
        let said = testing::said(HELLO.as_bytes(), extract);
        assert_eq!(said.why(), Some(Refused::Truncated));
        assert!(said.text.contains("Hello"));
    }

    #[test]
    fn the_end_of_an_older_version_is_not_the_end() {
        let updated = format!("{}8 0 obj<</Some/Thing>>endobj\n9 0 obj<</Cut", whole());
        let said = testing::said(updated.as_bytes(), extract);
        assert_eq!(said.why(), Some(Refused::Truncated));
        assert!(said.text.contains("Hello"));
    }

    #[test]
    fn junk_before_the_header_is_passed_over() {
        let junk = format!("@PJL SET X=1\n{}", whole());
        assert!(testing::said(junk.as_bytes(), extract).text.contains("Hello"));
    }

    #[test]
    fn no_page_is_a_malformed_file() {
        let none = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n\
            trailer<</Root 1 0 R/Size 3>>\nstartxref\n0\n%%EOF\n";
        assert_eq!(testing::said(none, extract).why(), Some(Refused::Malformed));
    }
}
