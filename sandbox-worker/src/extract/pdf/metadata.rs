//! What a PDF says about itself: the information dictionary, and XMP where that says nothing.

use pdfboss_core::{Date, Document, Object};
use quick_xml::Reader;
use quick_xml::events::Event;
use shared::Metadata;

/// XMP is a few KiB; more is a picture of the page inside it, or a bomb.
const XMP_MAX: usize = 4 << 20;

/// Reads both; the dictionary wins.
pub(super) fn of(pdf: &Document) -> Metadata {
    let info = pdf.metadata();
    let date =
        |parsed: Option<Date>, raw: &Option<String>| parsed.map(Date::to_iso8601).or_else(|| raw.clone());
    let mut facts = Metadata {
        created: date(info.creation_date_parsed(), &info.creation_date),
        modified: date(info.mod_date_parsed(), &info.mod_date),
        title: info.title,
        author: info.author,
        subject: info.subject,
        keywords: info.keywords,
        producer: info.producer.or(info.creator),
        ..Metadata::default()
    };
    if let Some(xmp) = xmp(pdf) {
        merge(&mut facts, &xmp);
    }
    facts
}

fn xmp(pdf: &Document) -> Option<String> {
    let catalog = pdf.resolve(pdf.xref().trailer.get("Root")?).ok()?;
    let stream = pdf.resolve(catalog.as_dict()?.get("Metadata")?).ok()?;
    let Object::Stream(stream) = stream else { return None };
    let bytes = pdf.stream_data(&stream).ok()?;
    (bytes.len() <= XMP_MAX).then(|| super::super::charset::text(&bytes).0.into_owned())
}

fn merge(facts: &mut Metadata, xmp: &str) {
    let mut reader = Reader::from_str(xmp);
    reader.config_mut().check_end_names = false;
    let mut property = String::new();
    loop {
        match reader.read_event() {
            Ok(Event::Start(start) | Event::Empty(start)) => {
                let name = start.name().as_ref().to_owned();
                for attribute in start.attributes().with_checks(false).flatten() {
                    take(facts, attribute.key.as_ref(), &attribute.value);
                }
                if !name.starts_with("rdf:") {
                    property = name;
                }
            }
            Ok(Event::Text(text)) => take(facts, &property, &text.xml10_content()),
            Ok(Event::Eof) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

fn take(facts: &mut Metadata, property: &str, value: &str) {
    let field = match property {
        "dc:title" => &mut facts.title,
        "dc:creator" => &mut facts.author,
        "dc:description" => &mut facts.subject,
        "pdf:Keywords" => &mut facts.keywords,
        "pdf:Producer" => &mut facts.producer,
        "xmp:CreateDate" => &mut facts.created,
        "xmp:ModifyDate" => &mut facts.modified,
        _ => return,
    };
    let value = value.trim();
    if !value.is_empty() && field.as_ref().is_none_or(|old| old.trim().is_empty()) {
        *field = Some(
            quick_xml::escape::unescape(value).map_or_else(|_| value.to_owned(), |text| text.into_owned()),
        );
    }
}

/// Seconds since 1970 (days from the civil calendar, with March as the first month).
pub(super) fn seconds(date: Date) -> i64 {
    let (year, month) = (i64::from(date.year), i64::from(date.month));
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + i64::from(date.day)
        - 719_469;
    let minutes = (days * 24 + i64::from(date.hour)) * 60 + i64::from(date.minute);
    (minutes - i64::from(date.utc_offset_minutes)) * 60 + i64::from(date.second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_become_seconds() {
        let at = |text| seconds(Date::parse_pdf(text).expect("a date"));
        assert_eq!(at("D:19700101000000Z"), 0);
        assert_eq!(at("D:20240229120000Z"), 1_709_208_000);
        assert_eq!(at("D:20240229140000+02'00"), 1_709_208_000);
    }

    #[test]
    fn xmp_fills_what_is_missing() {
        let mut facts = Metadata { title: Some("kept".to_owned()), ..Metadata::default() };
        merge(
            &mut facts,
            "<x><rdf:Description xmp:CreateDate='2020-01-01'><dc:title><rdf:Alt><rdf:li>no</rdf:li></rdf:Alt></dc:title>\
             <dc:creator><rdf:Seq><rdf:li>Ann</rdf:li></rdf:Seq></dc:creator></rdf:Description></x>",
        );
        assert_eq!(facts.title.as_deref(), Some("kept"));
        assert_eq!(facts.author.as_deref(), Some("Ann"));
        assert_eq!(facts.created.as_deref(), Some("2020-01-01"));
    }
}
