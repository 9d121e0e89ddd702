//! OpenDocument, and the StarOffice files that it came from: text by walking `content.xml` and `styles.xml`.
//!
//! All four kinds share their elements for paragraphs, cells, notes and frames, so one walk reads them all. A cell may say
//! that it is repeated a million times: a repetition is written out a few times only, for that is padding, not text.

use super::events::{self, Piece};
use super::package::Package;
use super::{Done, Output, stream};
use quick_xml::events::BytesStart;
use shared::{Format, MemberEnd, MemberHead, MemberKind, Metadata, Refusal, Refused};

const ENGINE: &str = "quick-xml 0.42.0";

/// How often a repeated cell with text is written out at most.
const REPEATED_MAX: usize = 16;

/// How many spaces one element of spaces gives at most.
const SPACES_MAX: usize = 64;

/// Which OpenDocument format is packed, if any.
pub(super) fn identify(package: &mut Package<'_>) -> Option<Format> {
    if let Some(format) = package.peek("mimetype", 200).as_deref().and_then(format_of) {
        return Some(format);
    }
    if !package.has("content.xml") {
        return None;
    }
    let mut found = None;
    let part = package.part("META-INF/manifest.xml").ok()?;
    // A manifest that breaks off has said the root's type before: it is the first entry.
    let broken = events::walk(part, &mut |piece| {
        if let Piece::Open(element) = piece
            && found.is_none()
            && events::attribute(element, "full-path").as_deref() == Some("/")
        {
            found = events::attribute(element, "media-type").as_deref().and_then(format_of);
        }
    });
    found.or_else(|| broken.err().map(|_| Format::Odt))
}

fn format_of(media_type: &str) -> Option<Format> {
    let media_type = media_type.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    let kind = media_type
        .strip_prefix("application/vnd.oasis.opendocument.")
        .or_else(|| media_type.strip_prefix("application/vnd.sun.xml."))?;
    Some(match kind.split(['-', '.']).next().unwrap_or(kind) {
        "spreadsheet" | "calc" | "database" | "base" => Format::Ods,
        "presentation" | "impress" => Format::Odp,
        "graphics" | "draw" | "chart" | "formula" | "image" | "math" => Format::Odg,
        _ => Format::Odt,
    })
}

/// Says the text, the metadata and the embedded objects of an OpenDocument file.
pub(super) fn extract(format: Format, package: &mut Package<'_>, out: &mut Output<'_>) -> Done {
    if encrypted(package) {
        return Done::refused(format, ENGINE, Refused::Encrypted, super::package::PASSWORD);
    }
    out.metadata(metadata(package));
    let mut refusal = None;
    for name in ["content.xml", "styles.xml"] {
        if name == "styles.xml" && !package.has(name) {
            continue;
        }
        let mut text = Text::new(name == "styles.xml");
        let result =
            package.part(name).and_then(|part| events::walk(part, &mut |piece| text.hear(piece, out)));
        if let Err(error) = result {
            refusal = refusal.or(Some(error));
        }
        out.progress(1, 2);
    }
    if let Err(error) = objects(package, out) {
        refusal = refusal.or(Some(error));
    }
    match refusal {
        Some(Refusal { why, message }) => Done::refused(format, ENGINE, why, message),
        None => Done::whole(format, ENGINE),
    }
}

/// Whether the manifest says that the parts are ciphertext.
fn encrypted(package: &mut Package<'_>) -> bool {
    let mut found = false;
    let Ok(part) = package.part("META-INF/manifest.xml") else { return false };
    // A broken manifest is no reason to refuse the text.
    let walked = events::walk(part, &mut |piece| {
        if let Piece::Open(element) = piece {
            found |= events::local(element.name().0) == "encryption-data";
        }
    });
    found && (walked.is_ok() || package.has("content.xml"))
}

fn metadata(package: &mut Package<'_>) -> Metadata {
    let mut metadata = Metadata::default();
    let mut path = String::new();
    let Ok(part) = package.part("meta.xml") else { return metadata };
    // What a broken part said before it broke is as good as the rest.
    let walked = events::walk(part, &mut |piece| match piece {
        Piece::Open(element) => {
            events::local(element.name().0).clone_into(&mut path);
            if path == "document-statistic" {
                let pages =
                    ["page-count", "table-count"].iter().find_map(|name| events::attribute(element, name));
                metadata.pages = pages.and_then(|pages| pages.parse().ok());
            }
        }
        Piece::Close(_) => path.clear(),
        Piece::Text(text) => {
            let field = match path.as_str() {
                "title" => &mut metadata.title,
                "initial-creator" => &mut metadata.author,
                "creator" if metadata.author.is_none() => &mut metadata.author,
                "subject" => &mut metadata.subject,
                "keyword" => &mut metadata.keywords,
                "creation-date" => &mut metadata.created,
                "date" => &mut metadata.modified,
                "generator" => &mut metadata.producer,
                _ => return,
            };
            field.get_or_insert_default().push_str(text);
        }
    });
    if walked.is_err() {
        metadata.pages = None;
    }
    metadata
}

/// Embedded objects that are no OpenDocument parts themselves are documents of their own; those that are, are read here.
fn objects(package: &mut Package<'_>, out: &mut Output<'_>) -> Result<(), Refusal> {
    let names: Vec<String> = package.names().to_vec();
    let mut failed = Ok(());
    for name in names {
        let base = name.rsplit('/').next().unwrap_or(&name).to_owned();
        if name.starts_with("Object ") && name.ends_with("/content.xml") {
            let mut text = Text::new(false);
            let result =
                package.part(&name).and_then(|part| events::walk(part, &mut |piece| text.hear(piece, out)));
            failed = failed.and(result);
        } else if base == name && base.starts_with("Object ") && !base.ends_with('/') {
            out.member(MemberHead { name: base.into_bytes(), kind: MemberKind::File, mtime: None });
            let end = match package.part(&name) {
                Ok(mut part) => stream::end_of(stream::copy_member(&mut part, out)),
                Err(refusal) => MemberEnd::Failed(refusal),
            };
            out.member_end(end);
        }
    }
    failed
}

/// The state of the walk.
struct Text {
    /// Only what lies in the headers and footers of master pages.
    masters_only: bool,
    in_master: u32,
    /// Depth inside elements whose characters are no text.
    silent: u32,
    /// Depth inside paragraphs and headings.
    paragraph: u32,
    /// The text of the cell that is open, where it is repeated.
    cell: Option<(String, usize)>,
    /// Something was written since the row began.
    row_has_text: bool,
    /// Cells since the last one with text in this row.
    tabs: usize,
}

impl Text {
    fn new(masters_only: bool) -> Self {
        Text { masters_only, in_master: 0, silent: 0, paragraph: 0, cell: None, row_has_text: false, tabs: 0 }
    }

    fn hear(&mut self, piece: Piece<'_>, out: &mut Output<'_>) {
        match piece {
            Piece::Open(element) => self.open(element, out),
            Piece::Close(name) => self.close(name, out),
            Piece::Text(text) if self.paragraph > 0 && self.silent == 0 => self.write(text, out),
            Piece::Text(_) => {}
        }
    }

    fn open(&mut self, element: &BytesStart<'_>, out: &mut Output<'_>) {
        let name = element.name();
        match events::local(name.0) {
            "master-page" => self.in_master += 1,
            // Ruby pronunciation repeats its base; a tracked deletion is no text of the document.
            "ruby-text" | "tracked-changes" => self.silent += 1,
            "p" | "h" if name.0.starts_with("text:") || !name.0.contains(':') => self.paragraph += 1,
            "tab" | "tab-stop" if self.paragraph > 0 => self.write("\t", out),
            "line-break" if self.paragraph > 0 => self.write("\n", out),
            "s" if self.paragraph > 0 => {
                let count = events::attribute(element, "c").and_then(|count| count.parse().ok()).unwrap_or(1);
                self.write(&" ".repeat(SPACES_MAX.min(count)), out);
            }
            "table-row" => (self.row_has_text, self.tabs) = (false, 0),
            "table-cell" | "covered-table-cell" => {
                let count = events::attribute(element, "number-columns-repeated");
                let count = count.and_then(|count| count.parse().ok()).unwrap_or(1_usize);
                self.cell = Some((String::new(), count));
            }
            _ => {}
        }
    }

    fn close(&mut self, name: &str, out: &mut Output<'_>) {
        match name {
            "master-page" => self.in_master = self.in_master.saturating_sub(1),
            "ruby-text" | "tracked-changes" => self.silent = self.silent.saturating_sub(1),
            "p" | "h" if self.paragraph > 0 => {
                self.paragraph -= 1;
                self.write("\n", out);
            }
            "table-cell" | "covered-table-cell" => self.cell_over(out),
            "table-row" if self.row_has_text => self.write("\n", out),
            _ => {}
        }
    }

    fn cell_over(&mut self, out: &mut Output<'_>) {
        let Some((text, count)) = self.cell.take() else { return };
        let text = text.trim_end();
        if text.is_empty() {
            self.tabs = self.tabs.saturating_add(count).min(REPEATED_MAX);
            return;
        }
        for _ in 0..count.min(REPEATED_MAX) {
            if self.row_has_text {
                self.write(&"\t".repeat(self.tabs.max(1)), out);
            }
            self.write(text, out);
            (self.row_has_text, self.tabs) = (true, 1);
        }
    }

    fn write(&mut self, text: &str, out: &mut Output<'_>) {
        if self.masters_only && self.in_master == 0 {
            return;
        }
        match &mut self.cell {
            Some((cell, _)) => cell.push_str(text),
            None => out.text(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::extract::testing::{self, Said};
    use shared::{Format, Refused};

    fn sheet(content: &[u8]) -> Said {
        let media = b"application/vnd.oasis.opendocument.spreadsheet";
        Said::of(Format::Zip, &testing::zip(&[(b"mimetype", media), (b"content.xml", content)]))
    }

    #[test]
    fn cells_are_separated_and_repetitions_are_capped() {
        let said = sheet(
            b"<d xmlns:text='t' xmlns:table='u'><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell>\
              <table:table-cell table:number-columns-repeated='1000000'/><table:table-cell \
              table:number-columns-repeated='999999999'><text:p>b&amp;c</text:p></table:table-cell></table:table-row></d>",
        );
        assert_eq!(said.done.refusal, None);
        assert_eq!(said.done.format, Format::Ods);
        assert_eq!(said.text.matches("b&c").count(), super::REPEATED_MAX);
        assert!(said.text.starts_with("a\t"), "{:?}", said.text);
    }

    #[test]
    fn spaces_and_breaks_are_text() {
        let said = sheet(
            b"<d xmlns:text='t'><text:p>a<text:s text:c='3'/>b<text:tab/>c<text:line-break/>d</text:p></d>",
        );
        assert_eq!(said.text, "a   b\tc\nd\n");
    }

    #[test]
    fn a_broken_part_gives_its_text_and_the_reason() {
        let said = sheet(b"<d xmlns:text='t'><text:p>first</text:p><text:p>sec");
        assert_eq!(said.text, "first\nsec");
        assert_eq!(said.done.refusal.as_ref().unwrap().why, Refused::Malformed);
    }

    #[test]
    fn ciphertext_is_not_read() {
        let manifest = b"<m:manifest xmlns:m='x'><m:file-entry m:full-path='content.xml'><m:encryption-data/></m:file-entry></m:manifest>";
        let said = Said::of(
            Format::Odt,
            &testing::zip(&[
                (b"mimetype", b"application/vnd.oasis.opendocument.text"),
                (b"META-INF/manifest.xml", manifest),
                (b"content.xml", b"\x01\x02"),
            ]),
        );
        assert_eq!(said.done.refusal.as_ref().unwrap().why, Refused::Encrypted);
        assert_eq!(said.text, "");
    }
}
