//! RTF: by an engine, and by a plain reader where the engine gives up.
//!
//! The engine wants a well-formed document and may panic on one that is not; the plain reader takes what comes. Whether a
//! document was cut is counted in braces, for the engine does not tell.

mod plain;

use super::{Document, Done, Output};
use rtf_parser_tt::RtfDocument;
use shared::{Format, Metadata, Refused};
use std::panic::catch_unwind;

const ENGINE: &str = "rtf-parser-tt 0.6";
const OWN: &str = "lazaret-rtf 1";

/// The engine keeps every token of the document; a larger one is for the plain reader.
const ENGINE_MAX: usize = 32 << 20;

/// Says the text of `document`.
pub(super) fn extract(document: &Document<'_>, out: &mut Output<'_>) -> Done {
    let bytes = document.bytes.trim_ascii_start();
    if !bytes.starts_with(b"{\\rtf") {
        return Done::refused(Format::Rtf, OWN, Refused::Malformed, "it does not begin as RTF does");
    }
    let own = plain::read(bytes);
    let engine = match by_engine(bytes) {
        // An engine that lost its way early has less; its order and its lists are better where it has not.
        Some((text, metadata)) if letters(&text) * 10 >= letters(&own.text) * 9 => {
            out.metadata(metadata);
            out.text(&text);
            ENGINE
        }
        _ => {
            out.metadata(Metadata { title: own.title, author: own.author, ..Metadata::default() });
            out.text(&own.text);
            OWN
        }
    };
    if own.open_groups > 0 {
        let message = format!("the document ends with {} groups open", own.open_groups);
        return Done::refused(Format::Rtf, engine, Refused::Truncated, message);
    }
    Done::whole(Format::Rtf, engine)
}

pub(super) use plain::code_page;

/// The text of RTF in bytes: the body of a mail.
pub(super) fn text_of(bytes: &[u8]) -> String {
    plain::read(bytes).text
}

fn letters(text: &str) -> usize {
    text.chars().filter(|c| c.is_alphanumeric()).count()
}

fn by_engine(bytes: &[u8]) -> Option<(String, Metadata)> {
    if bytes.len() > ENGINE_MAX {
        return None;
    }
    let document = catch_unwind(|| RtfDocument::from_bytes(bytes).ok()).ok()??;
    let info = &document.info;
    let metadata = Metadata {
        title: info.title.clone(),
        author: info.author.clone(),
        subject: info.subject.clone(),
        keywords: info.keywords.clone(),
        ..Metadata::default()
    };
    Some((document.get_text(), metadata))
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn text_in_a_code_page_and_in_unicode() {
        let rtf = br"{\rtf1\ansi\ansicpg1250{\fonttbl{\f0\fcharset238 Arial;}}{\info{\title Its title}}\f0 za\'bf\'f3\u322?\'e6 \u8364?\par two}";
        let said = testing::said(rtf, extract);
        assert_eq!(said.text.trim(), "zażółć €\ntwo");
        assert_eq!(said.metadata.title.as_deref(), Some("Its title"));
        assert_eq!(said.done.refusal, None);
    }

    #[test]
    fn a_cut_document_keeps_its_text_and_says_so() {
        let said = testing::said(br"{\rtf1\ansi some text {\b bold", extract);
        assert_eq!(said.why(), Some(Refused::Truncated));
        assert!(said.text.contains("some text bold"), "{:?}", said.text);
    }

    #[test]
    fn what_is_no_rtf_is_malformed() {
        assert_eq!(testing::said(b"hello", extract).why(), Some(Refused::Malformed));
    }
}
