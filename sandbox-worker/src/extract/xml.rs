//! XML of no special kind: the text of its elements, and of the attributes of elements that have none.
//!
//! Entities that a DOCTYPE declares are not expanded, inner ones (a thousand laughs) no more than outer ones (a file of
//! the machine). Their names are left standing, so that nothing is lost unseen.

use super::charset::{self, Charset};
use super::{Document, Done, Output, html};
use encoding_rs::Encoding;
use quick_xml::Reader;
use quick_xml::events::{BytesRef, BytesStart, Event};
use shared::{Format, Metadata, Refused};

const ENGINE: &str = "quick-xml 0.42";

/// More open elements than this are not followed: their names would be kept for each.
const DEPTH_MAX: usize = 1 << 20;

/// Says the text of `document`. XHTML is read as HTML.
pub(super) fn extract(document: &Document<'_>, out: &mut Output<'_>) -> Done {
    let found = charset::find(document.bytes, declared(document.bytes));
    let body = document.bytes.get(found.mark..).unwrap_or_default();
    let text = found.charset.decode(body);
    if is_xhtml(&text) {
        return html::extract(document, out);
    }
    let mut walk = Walk { out, title: None, pending: None, depth: 0, root: false, line: false };
    let ending = walk.run(&text);
    let title = walk.title.take();
    out.metadata(Metadata { title, charset: Some(name(found.charset)), ..Metadata::default() });
    match ending {
        Ok(()) => Done::whole(Format::Xml, ENGINE),
        Err((why, message)) => Done::refused(Format::Xml, ENGINE, why, message),
    }
}

fn name(charset: Charset) -> String {
    charset.name().to_owned()
}

fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes.trim_ascii_start();
    let head = head.get(..head.iter().position(|b| *b == b'>')?)?.strip_prefix(b"<?xml")?;
    let at = head.windows(8).position(|window| window == b"encoding")?;
    let value = head.get(at + 8..)?.trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let (quote, value) = value.split_first()?;
    Encoding::for_label(value.get(..value.iter().position(|b| b == quote)?)?)
}

fn is_xhtml(text: &str) -> bool {
    let head = text.get(..text.floor_char_boundary(4096)).unwrap_or(text);
    let root = head.find("<html").or_else(|| head.find("<HTML"));
    root.is_some_and(|at| {
        let before = head.get(..at).unwrap_or_default();
        // Only a declaration, a DOCTYPE and comments come before the root.
        before.split('<').skip(1).all(|tag| tag.starts_with(['?', '!']))
    })
}

struct Walk<'o, 'f> {
    out: &'o mut Output<'f>,
    title: Option<String>,
    /// The attributes of an element of which no text came yet.
    pending: Option<String>,
    depth: usize,
    root: bool,
    line: bool,
}

type Ending = Result<(), (Refused, String)>;

impl Walk<'_, '_> {
    fn run(&mut self, text: &str) -> Ending {
        let mut reader = Reader::from_str(text);
        reader.config_mut().allow_dangling_amp = true;
        let mut in_title = false;
        loop {
            match reader.read_event() {
                Ok(Event::Start(start)) => {
                    self.open(&start)?;
                    in_title = self.title.is_none() && start.local_name().as_ref() == "title";
                }
                Ok(Event::Empty(start)) => {
                    self.root = true;
                    self.end_element();
                    self.attributes(&start);
                    self.end_element();
                }
                Ok(Event::End(_)) => {
                    self.depth = self.depth.saturating_sub(1);
                    in_title = false;
                    self.end_element();
                }
                Ok(Event::Text(text)) => self.say(&text.xml10_content(), in_title),
                Ok(Event::CData(text)) => self.say(&text.xml10_content(), in_title),
                Ok(Event::GeneralRef(name)) => self.reference(&name),
                Ok(Event::Eof) => return self.at_end(),
                Ok(_) => {}
                Err(error) => return Err(broken(&error, reader.error_position())),
            }
        }
    }

    fn open(&mut self, start: &BytesStart<'_>) -> Ending {
        self.root = true;
        self.depth += 1;
        self.end_element();
        if self.depth > DEPTH_MAX {
            return Err((Refused::Unsupported, format!("elements nested more than {DEPTH_MAX} deep")));
        }
        self.attributes(start);
        Ok(())
    }

    fn at_end(&mut self) -> Ending {
        self.end_element();
        if self.depth > 0 {
            return Err((Refused::Truncated, format!("the document ends with {} elements open", self.depth)));
        }
        if self.root { Ok(()) } else { Err((Refused::Malformed, "no element".to_owned())) }
    }

    fn attributes(&mut self, start: &BytesStart<'_>) {
        let mut values = String::new();
        for attribute in start.html_attributes().with_checks(false).flatten() {
            let key = attribute.key.as_ref();
            if key.starts_with("xmlns") || key.starts_with("xsi:") {
                continue;
            }
            let value = quick_xml::escape::unescape(&attribute.value)
                .unwrap_or(std::borrow::Cow::Borrowed(&attribute.value));
            // A number or a word of markup is no text of the document.
            if value.chars().filter(|c| c.is_alphabetic()).count() >= 3 {
                values.push_str(value.trim());
                values.push(' ');
            }
        }
        self.pending = Some(values).filter(|values| !values.is_empty());
    }

    fn end_element(&mut self) {
        if let Some(values) = self.pending.take() {
            self.out.line(values.trim_end());
            self.line = false;
        }
        if std::mem::take(&mut self.line) {
            self.out.text("\n");
        }
    }

    fn say(&mut self, text: &str, in_title: bool) {
        if text.trim().is_empty() {
            if self.line {
                self.out.text(" ");
            }
            return;
        }
        self.pending = None;
        if in_title {
            self.title.get_or_insert_with(|| text.trim().to_owned());
        }
        self.out.text(text);
        self.line = true;
    }

    fn reference(&mut self, name: &BytesRef<'_>) {
        if let Ok(Some(c)) = name.resolve_char_ref() {
            self.say(c.encode_utf8(&mut [0; 4]), false);
            return;
        }
        let name = name.xml10_content();
        match quick_xml::escape::resolve_predefined_entity(&name) {
            Some(text) => self.say(text, false),
            None => self.say(&format!("&{name};"), false),
        }
    }
}

fn broken(error: &quick_xml::Error, at: u64) -> (Refused, String) {
    // Every error of this kind is one of a construct that the end of the document cuts.
    let why =
        if matches!(error, quick_xml::Error::Syntax(_)) { Refused::Truncated } else { Refused::Malformed };
    (why, format!("byte {at}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn text_of_elements_and_attributes_of_empty_ones() {
        let said = testing::said(
            b"<?xml version='1.0'?><a><b k='not said'>one &lt; two</b><c note='only here'/></a>",
            extract,
        );
        assert_eq!(said.text, "one < two\nonly here\n");
        assert_eq!(said.done.refusal, None);
    }

    #[test]
    fn a_thousand_laughs_stay_one() {
        let xml = b"<!DOCTYPE x [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;'><!ENTITY f SYSTEM 'file:///etc/passwd'>]><x>&b;&f;</x>";
        assert_eq!(testing::said(xml, extract).text, "&b;&f;\n");
    }

    #[test]
    fn broken_and_cut_documents_keep_their_text_and_say_so() {
        let said = testing::said(b"<a><b>text</c></a>", extract);
        assert_eq!((said.text.trim(), said.why()), ("text", Some(Refused::Malformed)));
        let said = testing::said(b"<a><b>text</b><c", extract);
        assert_eq!((said.text.trim(), said.why()), ("text", Some(Refused::Truncated)));
        let said = testing::said(b"<a><b>text", extract);
        assert_eq!((said.text.trim(), said.why()), ("text", Some(Refused::Truncated)));
    }

    #[test]
    fn the_declared_charset_is_used() {
        let said = testing::said(b"<?xml version='1.0' encoding='ISO-8859-2'?><a>\xb1\xe6\xea</a>", extract);
        assert_eq!(said.text.trim(), "ąćę");
    }

    #[test]
    fn xhtml_is_html() {
        let xml = b"<?xml version='1.0'?><!DOCTYPE html><html xmlns='http://www.w3.org/1999/xhtml'><body><p>a<br/>b</p></body></html>";
        let said = testing::said(xml, extract);
        assert_eq!((said.done.format, said.text.as_str()), (Format::Html, "a\nb\n"));
    }

    #[test]
    fn nesting_beyond_the_limit_is_refused() {
        let xml = "<a>".repeat(DEPTH_MAX + 1);
        assert_eq!(testing::said(xml.as_bytes(), extract).why(), Some(Refused::Unsupported));
    }
}
