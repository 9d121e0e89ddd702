//! Outlook's MSG: an OLE file whose streams are named after the properties of a message.
//!
//! A message inside a message is a storage, not a file. It is written out as a file of its own, so that a child of its
//! own reads it; its times are set to a constant, for the same message must always have the same bytes.

mod inner;
mod lzfu;

use super::{Document, Done, Output, charset, html, rtf, stream};
use shared::{Format, MemberEnd, MemberHead, MemberKind, Metadata, Refusal, Refused};
use std::io::Cursor;

const ENGINE: &str = "cfb 0.16";

pub(super) type Ole<'a> = cfb::CompoundFile<Cursor<&'a [u8]>>;

/// Properties by number, as the specification of the format lists them.
mod property {
    pub(super) const CLASS: u16 = 0x001a;
    pub(super) const SUBJECT: u16 = 0x0037;
    pub(super) const SENDER_NAME: u16 = 0x0c1a;
    pub(super) const SENDER_ADDRESS: u16 = 0x0c1f;
    pub(super) const SENDER_SMTP: u16 = 0x5d01;
    pub(super) const TO: u16 = 0x0e04;
    pub(super) const CC: u16 = 0x0e03;
    pub(super) const BODY: u16 = 0x1000;
    pub(super) const RTF: u16 = 0x1009;
    pub(super) const HTML: u16 = 0x1013;
    pub(super) const DATA: u16 = 0x3701;
    pub(super) const SHORT_NAME: u16 = 0x3704;
    pub(super) const LONG_NAME: u16 = 0x3707;
    pub(super) const DISPLAY_NAME: u16 = 0x3001;
    pub(super) const MEDIA_TYPE: u16 = 0x370e;
    pub(super) const CONTENT_ID: u16 = 0x3712;
    pub(super) const SUBMITTED: u16 = 0x0039;
    pub(super) const DELIVERED: u16 = 0x0e06;
    pub(super) const CODE_PAGE: u16 = 0x3ffd;
}

/// Says the headers, the body and the attachments of one message.
pub(super) fn extract(document: &Document<'_>, out: &mut Output<'_>) -> Done {
    let mut file = match cfb::CompoundFile::open(Cursor::new(document.bytes)) {
        Ok(file) => file,
        Err(error) => return Done::refused(Format::Msg, ENGINE, Refused::Malformed, error.to_string()),
    };
    let mut message = Message { limit: document.bytes.len() as u64, fixed: Vec::new(), file: &mut file };
    message.fixed = message.stream("/__properties_version1.0").unwrap_or_default();
    message.say(out)
}

struct Message<'m, 'b> {
    file: &'m mut Ole<'b>,
    /// No stream is longer than the file that holds it.
    limit: u64,
    /// The properties of fixed size: 32 bytes of header, then 16 for each.
    fixed: Vec<u8>,
}

impl Message<'_, '_> {
    fn say(&mut self, out: &mut Output<'_>) -> Done {
        let facts = self.metadata();
        let class = self.text("", property::CLASS).unwrap_or_default();
        out.metadata(facts.clone());
        let html = self.html();
        let body = self.body(html.as_deref());
        if let Some(how) = self.encrypted(&class, body.as_deref().unwrap_or_default()) {
            return Done::refused(Format::Msg, ENGINE, Refused::Encrypted, how);
        }
        let cc = self.text("", property::CC);
        for (name, value) in [
            ("Subject", &facts.title),
            ("From", &facts.from),
            ("To", &facts.to),
            ("Cc", &cc),
            ("Date", &facts.created),
        ] {
            if let Some(value) = value.as_ref().filter(|value| !value.trim().is_empty()) {
                out.line(&format!("{name}: {value}"));
            }
        }
        if let Some(body) = &body {
            out.line(body);
        }
        let lost = self.attachments(html.as_deref().unwrap_or_default(), out);
        if let Some(message) = lost {
            return Done::refused(Format::Msg, ENGINE, Refused::Malformed, message);
        }
        Done::whole(Format::Msg, ENGINE)
    }

    fn encrypted(&mut self, class: &str, body: &str) -> Option<&'static str> {
        if class.eq_ignore_ascii_case("IPM.Note.SMIME") {
            return Some("an encrypted message (S/MIME)");
        }
        if body.trim_start().starts_with("-----BEGIN PGP MESSAGE-----") {
            return Some("an encrypted message (PGP)");
        }
        let pgp = self.attachment_storages().iter().any(|storage| {
            let kind = self.text(storage, property::MEDIA_TYPE);
            kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/pgp-encrypted"))
        });
        (pgp && body.trim().is_empty()).then_some("an encrypted message (PGP/MIME)")
    }

    fn attachment_storages(&self) -> Vec<String> {
        let entries = self.file.read_root_storage();
        let storages =
            entries.filter(|entry| entry.is_storage() && entry.name().starts_with("__attach_version1.0_"));
        storages.map(|entry| format!("/{}", entry.name())).collect()
    }

    fn metadata(&mut self) -> Metadata {
        let name = self.text("", property::SENDER_NAME);
        let address =
            self.text("", property::SENDER_SMTP).or_else(|| self.text("", property::SENDER_ADDRESS));
        let from = match (name, address.filter(|address| address.contains('@'))) {
            (Some(name), Some(address)) if name != address => Some(format!("{name} <{address}>")),
            (name, address) => name.or(address),
        };
        Metadata {
            title: self.text("", property::SUBJECT),
            author: self.text("", property::SENDER_NAME),
            to: self.text("", property::TO),
            created: self.time(property::SUBMITTED).or_else(|| self.time(property::DELIVERED)),
            from,
            ..Metadata::default()
        }
    }

    /// The plain body, else the HTML one, else the RTF one.
    fn body(&mut self, html: Option<&str>) -> Option<String> {
        if let Some(body) = self.text("", property::BODY).filter(|body| !body.trim().is_empty()) {
            return Some(body);
        }
        if let Some(html) = html {
            return Some(html::text_of(html));
        }
        let packed = self.stream(&stream_name("", property::RTF, "0102"))?;
        Some(rtf::text_of(&lzfu::unpack(&packed)?))
    }

    fn html(&mut self) -> Option<String> {
        if let Some(bytes) = self.stream(&stream_name("", property::HTML, "0102")) {
            return Some(html::decoded(&bytes));
        }
        self.text("", property::HTML)
    }

    /// A property that is text, in UTF-16 or in the message's code page.
    fn text(&mut self, storage: &str, number: u16) -> Option<String> {
        if let Some(bytes) = self.stream(&stream_name(storage, number, "001F")) {
            return Some(
                encoding_rs::UTF_16LE.decode_without_bom_handling(&bytes).0.trim_end_matches('\0').to_owned(),
            );
        }
        let bytes = self.stream(&stream_name(storage, number, "001E"))?;
        let page = self.value(property::CODE_PAGE, 0x0003).and_then(|value| {
            let number = i32::from_le_bytes(*value.first_chunk::<4>()?);
            rtf::code_page(number)
        });
        let text = match page {
            Some(page) if std::str::from_utf8(&bytes).is_err() => {
                page.decode_without_bom_handling(&bytes).0.into_owned()
            }
            _ => charset::text(&bytes).0.into_owned(),
        };
        Some(text.trim_end_matches('\0').to_owned())
    }

    fn value(&self, number: u16, kind: u16) -> Option<[u8; 8]> {
        let (entries, _) = self.fixed.get(32..)?.as_chunks::<16>();
        let tag = (u32::from(number) << 16 | u32::from(kind)).to_le_bytes();
        entries
            .iter()
            .find(|entry| entry.starts_with(&tag))
            .and_then(|entry| entry.last_chunk::<8>().copied())
    }

    /// A time in steps of 100 ns since 1601, as RFC 3339.
    fn time(&self, number: u16) -> Option<String> {
        let ticks = u64::from_le_bytes(self.value(number, 0x0040)?);
        let seconds = i64::try_from(ticks / 10_000_000).ok()? - 11_644_473_600;
        (ticks > 0).then(|| mail_parser::DateTime::from_timestamp(seconds).to_rfc3339())
    }

    fn stream(&mut self, path: &str) -> Option<Vec<u8>> {
        let mut stream = self.file.open_stream(path).ok()?;
        let most = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let (bytes, failure) = stream::read_prefix(&mut stream, most);
        failure.is_none().then_some(bytes)
    }

    /// Sends the attachments; what of them was lost, if anything was.
    fn attachments(&mut self, html: &str, out: &mut Output<'_>) -> Option<String> {
        let mut lost = None;
        for storage in self.attachment_storages() {
            let id = self.text(&storage, property::CONTENT_ID).filter(|id| !id.is_empty());
            if id.is_some_and(|id| html.contains(&format!("cid:{id}"))) {
                continue;
            }
            let name = [property::LONG_NAME, property::SHORT_NAME, property::DISPLAY_NAME];
            let name = name
                .into_iter()
                .find_map(|number| self.text(&storage, number).filter(|name| !name.is_empty()));
            let head = MemberHead {
                name: name.unwrap_or_default().into_bytes(),
                kind: MemberKind::File,
                mtime: None,
            };
            out.member(head);
            let end = match self.attached(&storage) {
                Some(bytes) => {
                    out.member_data(&bytes);
                    MemberEnd::Whole
                }
                None => {
                    let message = format!("no data in {storage}");
                    lost.get_or_insert_with(|| message.clone());
                    MemberEnd::Failed(Refusal { why: Refused::Malformed, message })
                }
            };
            out.member_end(end);
        }
        lost
    }

    fn attached(&mut self, storage: &str) -> Option<Vec<u8>> {
        let inner = stream_name(storage, property::DATA, "000D");
        if self.file.is_storage(&inner) {
            return inner::as_file(self.file, &inner, self.limit).ok();
        }
        self.stream(&stream_name(storage, property::DATA, "0102"))
    }
}

fn stream_name(storage: &str, number: u16, kind: &str) -> String {
    format!("{storage}/__substg1.0_{number:04X}{kind}")
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use std::io::Write;

    fn wide(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    fn message() -> Vec<u8> {
        let mut file = cfb::CompoundFile::create(Cursor::new(Vec::new())).expect("in memory");
        let mut put = |path: &str, bytes: &[u8]| {
            file.create_stream(path).expect("a stream").write_all(bytes).expect("in memory");
        };
        put("/__properties_version1.0", &[0; 32]);
        put("/__substg1.0_0037001F", &wide("The subject"));
        put("/__substg1.0_1000001F", &wide("The body"));
        let inner = "/__attach_version1.0_#00000000/__substg1.0_3701000D";
        file.create_storage_all(inner).expect("a storage");
        let mut put = |path: &str, bytes: &[u8]| {
            file.create_stream(path).expect("a stream").write_all(bytes).expect("in memory");
        };
        put(&format!("{inner}/__properties_version1.0"), &[0; 24]);
        put(&format!("{inner}/__substg1.0_0037001F"), &wide("Inside"));
        put("/__attach_version1.0_#00000000/__substg1.0_3001001F", &wide("Inside"));
        file.into_inner().into_inner()
    }

    #[test]
    fn headers_body_and_the_message_inside() {
        let said = testing::said(&message(), extract);
        assert_eq!(said.done.refusal, None);
        assert_eq!(said.text, "Subject: The subject\nThe body\n");
        assert_eq!(said.members.len(), 1);
        assert_eq!(said.members[0].0.name, b"Inside");
        let inner = testing::said(&said.members[0].1, extract);
        assert_eq!(inner.metadata.title.as_deref(), Some("Inside"));
        let again = testing::said(&message(), extract);
        assert_eq!(said.members[0].1, again.members[0].1);
    }

    #[test]
    fn what_is_no_ole_file_is_malformed() {
        assert_eq!(testing::said(b"nothing", extract).why(), Some(Refused::Malformed));
    }
}
