//! Office Open XML: DOCX, XLSX, XLSB, PPTX and VSDX, transitional and strict, with and without macros.
//!
//! Two engines read the text. The first knows the formats well; the second walks the parts by hand and is asked always,
//! for it costs a tenth: where the first fails, or finds far less, the second's text is the document's. Macros are bytes.

mod embedded;
mod hand;
mod office;
mod properties;
mod sheets;

pub(super) use office::without_notices;

pub(super) use embedded::{native_package, unwrapped};
pub(super) use office::limit as limit_office;

use super::events::{self, Piece};
use super::package::{self, Package};
use super::{Document, Done, Output};
use shared::{Format, Refusal, Refused};

/// One way to read the text of a document.
trait Engine {
    /// Its name and version.
    fn name(&self) -> &'static str;
    /// The text, and what could not be read of it.
    ///
    /// # Errors
    /// Where nothing can be read.
    fn read(
        &self,
        format: Format,
        document: &Document<'_>,
        package: &mut Package<'_>,
    ) -> Result<Reading, Refusal>;
}

/// What an engine found.
#[derive(Debug, Default)]
struct Reading {
    text: String,
    /// What it knows to be missing.
    loss: Option<Refusal>,
}

/// How many letters and digits there are.
fn weight(text: &str) -> usize {
    text.chars().filter(|c| c.is_alphanumeric()).count()
}

/// Which Office Open XML format is packed, if any.
pub(super) fn identify(package: &mut Package<'_>) -> Option<Format> {
    let mut found = None;
    let related = package.has("_rels/.rels");
    if let Ok(part) = package.part("[Content_Types].xml") {
        // Types that were listed before a break are as good as the rest: the parts' names are asked next.
        let broken = events::walk(part, &mut |piece| {
            if let Piece::Open(element) = piece
                && found.is_none()
            {
                found = events::attribute(element, "ContentType").and_then(|media| format_of(&media));
            }
        });
        if found.is_none() && broken.is_ok() && !related {
            return None;
        }
    }
    found.or_else(|| {
        let main = [
            ("word/document.xml", Format::Docx),
            ("xl/workbook.xml", Format::Xlsx),
            ("xl/workbook.bin", Format::Xlsb),
            ("ppt/presentation.xml", Format::Pptx),
            ("visio/document.xml", Format::Vsdx),
        ];
        main.into_iter().find(|(name, _)| package.has(name)).map(|(_, format)| format)
    })
}

fn format_of(media: &str) -> Option<Format> {
    let media = media.to_ascii_lowercase();
    let main = media.strip_suffix(".main+xml").or_else(|| media.strip_suffix(".main"))?;
    let kinds = [
        ("ms-excel.sheet.binary.", Format::Xlsb),
        ("wordprocessingml.", Format::Docx),
        ("ms-word.", Format::Docx),
        ("spreadsheetml.", Format::Xlsx),
        ("ms-excel.", Format::Xlsx),
        ("presentationml.", Format::Pptx),
        ("ms-powerpoint.", Format::Pptx),
        ("ms-visio.", Format::Vsdx),
    ];
    kinds.into_iter().find(|(kind, _)| main.contains(kind)).map(|(_, format)| format)
}

/// Says the text, the metadata and the embedded documents of an Office Open XML file.
pub(super) fn extract(
    format: Format,
    document: &Document<'_>,
    package: &mut Package<'_>,
    out: &mut Output<'_>,
) -> Done {
    if let Some(done) = encrypted(format, package) {
        return done;
    }
    let metadata = properties::read(format, package);
    out.metadata(metadata);
    out.progress(0, 3);
    let (engine, reading) = read(format, document, package, out);
    let refusal = match reading {
        Ok(Reading { text, loss }) => {
            if !text.trim().is_empty() {
                out.text(&text);
            }
            loss
        }
        Err(refusal) => Some(refusal),
    };
    out.progress(2, 3);
    embedded::extract(package, out);
    match refusal {
        Some(Refusal { why, message }) => Done::refused(format, engine, why, message),
        None => Done::whole(format, engine),
    }
}

fn encrypted(format: Format, package: &Package<'_>) -> Option<Done> {
    let xml = |about: &package::About| about.encrypted && about.name.ends_with(b".xml");
    let locked = (0..package.len()).any(|number| package.about(number).is_ok_and(|about| xml(&about)));
    locked.then(|| Done::refused(format, "zip 9.8.2", Refused::Encrypted, package::PASSWORD))
}

fn read(
    format: Format,
    document: &Document<'_>,
    package: &mut Package<'_>,
    out: &mut Output<'_>,
) -> (&'static str, Result<Reading, Refusal>) {
    let second: &dyn Engine = if format == Format::Xlsb { &sheets::Calamine } else { &hand::Hand };
    if format == Format::Vsdx {
        return (second.name(), second.read(format, document, package));
    }
    let first: &dyn Engine = &office::Office;
    let found = first.read(format, document, package);
    out.progress(1, 3);
    let other = second.read(format, document, package);
    choose((first.name(), found), (second.name(), other))
}

type Named = (&'static str, Result<Reading, Refusal>);

/// The second engine's text is taken where the first failed or left something out that the second has, and where it is
/// much more: a half more, and some characters for documents of a few words.
fn choose(first: Named, second: Named) -> Named {
    let better = match (&first.1, &second.1) {
        (Ok(found), Ok(other)) => {
            let (found_weight, other_weight) = (weight(&found.text), weight(&other.text));
            let fuller = found.loss.is_some() && other.loss.is_none() && other_weight >= found_weight;
            fuller || other_weight > found_weight * 3 / 2 + 40
        }
        (Err(_), Ok(other)) => !other.text.trim().is_empty(),
        _ => false,
    };
    if better { second } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::testing::{self, Said};

    const TYPES: &[u8] = b"<Types><Override PartName='/word/document.xml' ContentType='application/vnd.\
openxmlformats-officedocument.wordprocessingml.document.main+xml'/></Types>";
    const RELATIONS: &[u8] = b"<Relationships xmlns='http://schemas.openxmlformats.org/package/2006/relationships'>\
<Relationship Id='r1' Type='http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument' \
Target='word/document.xml'/></Relationships>";

    fn docx(body: &str) -> Vec<u8> {
        let xml = format!(
            "<w:document xmlns:w='http://schemas.openxmlformats.org/wordprocessingml/2006/main'><w:body>{body}"
        );
        testing::zip(&[
            (b"[Content_Types].xml", TYPES),
            (b"_rels/.rels", RELATIONS),
            (b"word/document.xml", xml.as_bytes()),
            (b"word/embeddings/note.txt", b"inside"),
        ])
    }

    #[test]
    fn text_and_embedded_documents_are_said() {
        let said =
            Said::of(Format::Zip, &docx("<w:p><w:r><w:t>Hello</w:t></w:r></w:p></w:body></w:document>"));
        assert_eq!((said.done.format, &said.done.refusal), (Format::Docx, &None));
        assert_eq!(said.text.trim(), "Hello");
        assert_eq!(said.names(), [b"note.txt".to_vec()]);
    }

    #[test]
    fn a_part_that_breaks_off_is_no_success() {
        let said = Said::of(Format::Zip, &docx("<w:p><w:r><w:t>Hello</w:t></w:r></w:p><w:p><w:r><w:t>and"));
        assert_eq!(said.done.refusal.as_ref().unwrap().why, Refused::Malformed);
        assert!(said.text.contains("Hello"));
    }

    #[test]
    fn the_main_parts_are_known_by_their_types() {
        assert_eq!(format_of("application/vnd.ms-excel.sheet.binary.macroEnabled.main"), Some(Format::Xlsb));
        assert_eq!(format_of("application/vnd.ms-word.document.macroEnabled.main+xml"), Some(Format::Docx));
        let template = "application/vnd.openxmlformats-officedocument.presentationml.template.main+xml";
        assert_eq!(format_of(template), Some(Format::Pptx));
        assert_eq!(format_of("application/vnd.ms-visio.drawing.main+xml"), Some(Format::Vsdx));
        assert_eq!(format_of("application/vnd.ms-word.stylesWithEffects+xml"), None);
    }

    #[test]
    fn far_less_text_gives_way() {
        let reading = |text: &str| Ok(Reading { text: text.to_owned(), loss: None });
        let long = "word ".repeat(30);
        assert_eq!(choose(("a", reading("word")), ("b", reading(&long))).0, "b");
        assert_eq!(choose(("a", reading(&long)), ("b", reading(&format!("{long} more")))).0, "a");
    }
}
