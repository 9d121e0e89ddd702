//! XML as a walk over what opens, what closes and the text between, while it inflates.
//!
//! No tree, so that depth costs nothing; no entity of the document's own, so that a billion laughs stay ten lines and
//! nothing outside is ever asked for. What was heard before an error stands.

use quick_xml::encoding::DecodingReader;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Error, Reader};
use shared::{Refusal, Refused};
use std::io::BufRead;

/// What the walk meets.
#[derive(Debug)]
pub(super) enum Piece<'e> {
    /// An element begins; an empty one closes at once.
    Open(&'e BytesStart<'e>),
    /// The element of this local name ends.
    Close(&'e str),
    /// Characters, with references to characters resolved.
    Text(&'e str),
}

/// Walks `source` to its end and tells `hear` of each piece.
///
/// # Errors
/// `Malformed` where the source is no XML or ends inside of an element, or what reading it gave.
pub(super) fn walk(source: impl BufRead, hear: &mut dyn FnMut(Piece<'_>)) -> Result<(), Refusal> {
    let mut reader = Reader::from_reader(DecodingReader::new(source));
    reader.config_mut().check_end_names = false;
    reader.config_mut().allow_unmatched_ends = true;
    reader.config_mut().allow_dangling_amp = true;
    let mut buffer = Vec::new();
    let mut depth = 0_u64;
    let mut elements = false;
    loop {
        buffer.clear();
        match reader.read_event_into(&mut buffer).map_err(|error| refusal_of(&error))? {
            Event::Start(element) => {
                depth += 1;
                elements = true;
                hear(Piece::Open(&element));
            }
            Event::Empty(element) => {
                elements = true;
                hear(Piece::Open(&element));
                hear(Piece::Close(local(element.name().0)));
            }
            Event::End(element) => {
                depth = depth.saturating_sub(1);
                hear(Piece::Close(local(element.name().0)));
            }
            Event::Text(text) => hear(Piece::Text(&text.xml10_content())),
            Event::CData(text) => hear(Piece::Text(&text.xml10_content())),
            Event::GeneralRef(reference) => referred(&reference, hear),
            Event::Eof if depth > 0 => return Err(malformed("the XML ends inside of an element".to_owned())),
            Event::Eof if !elements => return Err(malformed("no XML element".to_owned())),
            Event::Eof => return Ok(()),
            Event::Decl(_) | Event::Comment(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
}

/// A name without its prefix.
pub(super) fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}

/// The value of the first attribute of this local name.
pub(super) fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut attributes = element.attributes();
    attributes.with_checks(false);
    attributes.flatten().find(|attribute| local(attribute.key.0) == name).map(|attribute| {
        match quick_xml::escape::unescape(&attribute.value) {
            Ok(value) => value.into_owned(),
            Err(_) => attribute.value.to_string(),
        }
    })
}

fn referred(reference: &BytesRef<'_>, hear: &mut dyn FnMut(Piece<'_>)) {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        hear(Piece::Text(character.encode_utf8(&mut [0; 4])));
    } else if let Some(text) = quick_xml::escape::resolve_predefined_entity(&reference.xml10_content()) {
        hear(Piece::Text(text));
    }
    // An entity of the document's own is left out: only a declaration could say what it is.
}

fn refusal_of(error: &Error) -> Refusal {
    match error {
        Error::Io(error) => Refusal { why: super::stream::refused_by(error), message: error.to_string() },
        error => malformed(error.to_string()),
    }
}

fn malformed(message: String) -> Refusal {
    Refusal { why: Refused::Malformed, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(xml: &[u8]) -> (String, Result<(), Refusal>) {
        let mut heard = String::new();
        let result = walk(xml, &mut |piece| match piece {
            Piece::Open(element) => heard.extend(["<", local(element.name().0), ">"]),
            Piece::Close(name) => heard.extend(["</", name, ">"]),
            Piece::Text(text) => heard.push_str(text),
        });
        (heard, result)
    }

    #[test]
    fn characters_are_resolved_and_entities_are_not() {
        let (heard, result) =
            text(b"<!DOCTYPE a [<!ENTITY b 'boom'>]><x:a>1 &lt; &#x32;&b;<c/><![CDATA[&]]></x:a>");
        assert_eq!(heard, "<a>1 < 2<c></c>&</a>");
        assert_eq!(result, Ok(()));
    }

    #[test]
    fn what_came_before_an_error_stands() {
        let (heard, result) = text(b"<a>text<b>more");
        assert_eq!(heard, "<a>text<b>more");
        assert_eq!(result.unwrap_err().why, Refused::Malformed);
        assert_eq!(text(b"no markup").1.unwrap_err().why, Refused::Malformed);
    }

    #[test]
    fn other_charsets_are_decoded() {
        let utf16: Vec<u8> = "\u{feff}<a>\u{fc}</a>".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(text(&utf16).0, "<a>\u{fc}</a>");
    }
}
