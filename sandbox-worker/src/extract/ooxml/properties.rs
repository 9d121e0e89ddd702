//! What the document says about itself: `docProps/core.xml` and `docProps/app.xml`.

use crate::extract::events::{self, Piece};
use crate::extract::package::Package;
use shared::{Format, Metadata};

/// Reads both parts; what is missing or broken stays unsaid.
pub(super) fn read(format: Format, package: &mut Package<'_>) -> Metadata {
    let mut metadata = Metadata::default();
    for part in ["docProps/core.xml", "docProps/app.xml"] {
        let mut field = String::new();
        let Ok(source) = package.part(part) else { continue };
        let mut heard = metadata.clone();
        let walked = events::walk(source, &mut |piece| match piece {
            Piece::Open(element) => events::local(element.name().0).clone_into(&mut field),
            Piece::Close(_) => field.clear(),
            Piece::Text(text) => say(format, &field, text, &mut heard),
        });
        if walked.is_ok() {
            metadata = heard;
        }
    }
    if matches!(format, Format::Xlsx | Format::Xlsb) {
        let sheets = package
            .names()
            .iter()
            .filter(|name| name.to_ascii_lowercase().starts_with("xl/worksheets/sheet"));
        metadata.pages = u32::try_from(sheets.count()).ok();
    }
    metadata
}

fn say(format: Format, field: &str, text: &str, metadata: &mut Metadata) {
    let place = match field {
        "title" => &mut metadata.title,
        "creator" => &mut metadata.author,
        "subject" => &mut metadata.subject,
        "keywords" => &mut metadata.keywords,
        "created" => &mut metadata.created,
        "modified" => &mut metadata.modified,
        "Application" => &mut metadata.producer,
        "Pages" if matches!(format, Format::Docx | Format::Vsdx) => {
            metadata.pages = text.trim().parse().ok();
            return;
        }
        "Slides" if format == Format::Pptx => {
            metadata.pages = text.trim().parse().ok();
            return;
        }
        _ => return,
    };
    place.get_or_insert_default().push_str(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::testing;

    #[test]
    fn both_parts_are_read() {
        let core = b"<cp:c xmlns:cp='a' xmlns:dc='b'><dc:title>A &amp; B</dc:title><dc:creator>me</dc:creator></cp:c>";
        let app = b"<P><Application>Word</Application><Pages>3</Pages><Slides>9</Slides></P>";
        let file = testing::zip(&[(b"docProps/core.xml", core), (b"docProps/app.xml", app)]);
        let metadata = read(Format::Docx, &mut Package::open(&file).unwrap());
        assert_eq!(metadata.title.as_deref(), Some("A & B"));
        assert_eq!(metadata.author.as_deref(), Some("me"));
        assert_eq!((metadata.producer.as_deref(), metadata.pages), (Some("Word"), Some(3)));
    }
}
