//! Mail: one message (EML), or many in one file (MBOX).
//!
//! A message's headers are its first lines of text, then come its bodies. Attachments and messages inside it are members,
//! each read by a child of its own, so that depth is the supervisor's to limit. Pictures that the body shows are no members.

mod damage;
mod mbox;

use super::{Document, Done, Output, charset, html, text};
use mail_parser::{
    Address, Encoding, HeaderName, Message, MessageParser, MessagePart, MimeHeaders, PartType,
};
use shared::{Format, MemberEnd, MemberHead, MemberKind, Metadata, Refused};
use std::borrow::Cow;
use std::collections::HashSet;
use std::mem::ManuallyDrop;

pub(super) use mbox::mbox;

const ENGINE: &str = "mail-parser 0.11.9";

/// An alternative with fewer words of its own than this is no text of its own.
const NEW_WORDS: usize = 5;

/// Says the headers, the bodies and the attachments of one message.
pub(super) fn eml(document: &Document<'_>, out: &mut Output<'_>) -> Done {
    let bytes = as_bytes(document.bytes);
    // It is never dropped: messages inside of one another are dropped one inside of the other, and a mail of a hundred thousand
    // would use up the stack after all was said. The child ends with it anyway.
    let parsed = ManuallyDrop::new(MessageParser::default().parse(bytes.as_ref()));
    let Some(message) = parsed.as_ref().filter(|message| is_mail(message)) else {
        // The first lines looked like headers, and are none that a mail has.
        return text::extract(Format::Text, document, out);
    };
    out.metadata(metadata(message));
    if let Some(how) = damage::encrypted(message) {
        return Done::refused(Format::Eml, ENGINE, Refused::Encrypted, how);
    }
    say_headers(message, out);
    say_bodies(message, out);
    let mtime = message.date().map(mail_parser::DateTime::to_timestamp);
    for &id in &message.attachments {
        if let Some(part) = message.part(id).filter(|part| !is_body(part) && !is_shown(message, id, part)) {
            send(message, part, mtime, out);
        }
    }
    match damage::cut(message, &bytes) {
        Some(how) => Done::refused(Format::Eml, ENGINE, Refused::Truncated, how),
        None => Done::whole(Format::Eml, ENGINE),
    }
}

/// A mail that an editor stored as UTF-16 is a mail in UTF-8.
fn as_bytes(bytes: &[u8]) -> Cow<'_, [u8]> {
    let found = charset::find(bytes.get(..4096).unwrap_or(bytes), None);
    let body = bytes.get(found.mark..).unwrap_or_default();
    if !found.charset.name().starts_with("UTF-16") && !found.charset.name().starts_with("UTF-32") {
        return Cow::Borrowed(body);
    }
    Cow::Owned(found.charset.decode(body).into_owned().into_bytes())
}

fn is_mail(message: &Message<'_>) -> bool {
    message.headers().iter().any(|header| {
        matches!(
            header.name,
            HeaderName::Subject
                | HeaderName::From
                | HeaderName::To
                | HeaderName::Date
                | HeaderName::Received
                | HeaderName::MessageId
                | HeaderName::MimeVersion
                | HeaderName::ContentType
                | HeaderName::Sender
                | HeaderName::ReturnPath
                | HeaderName::Cc
                | HeaderName::Bcc
        )
    })
}

fn metadata(message: &Message<'_>) -> Metadata {
    Metadata {
        title: message.subject().map(str::to_owned),
        author: message
            .from()
            .and_then(Address::first)
            .and_then(|a| a.name().or_else(|| a.address()))
            .map(str::to_owned),
        created: message.date().map(mail_parser::DateTime::to_rfc3339),
        from: message.from().map(addresses),
        to: message.to().map(addresses),
        charset: charset_of(message),
        ..Metadata::default()
    }
}

fn charset_of(message: &Message<'_>) -> Option<String> {
    let body = message.text_body.first().and_then(|id| message.part(*id))?;
    body.content_type()?.attribute("charset").map(str::to_owned)
}

/// The addresses as a reader writes them, as many as a record holds.
fn addresses(list: &Address<'_>) -> String {
    let mut text = String::new();
    for address in list.iter() {
        if text.len() > shared::answer::STRING_MAX {
            break;
        }
        if !text.is_empty() {
            text.push_str(", ");
        }
        match (address.name(), address.address()) {
            (Some(name), Some(address)) => text.extend([name, " <", address, ">"]),
            (Some(one), None) | (None, Some(one)) => text.push_str(one),
            (None, None) => {}
        }
    }
    text
}

fn say_headers(message: &Message<'_>, out: &mut Output<'_>) {
    let list = |name: &str, list: Option<&Address<'_>>, out: &mut Output<'_>| {
        if let Some(list) = list {
            out.line(&format!("{name}: {}", addresses(list)));
        }
    };
    if let Some(subject) = message.subject() {
        out.line(&format!("Subject: {subject}"));
    }
    list("From", message.from(), out);
    list("To", message.to(), out);
    list("Cc", message.cc(), out);
    if let Some(date) = message.date() {
        out.line(&format!("Date: {}", date.to_rfc3339()));
    }
    out.text("\n");
}

fn say_bodies(message: &Message<'_>, out: &mut Output<'_>) {
    let (mut done, mut words) = (HashSet::new(), HashSet::new());
    for &id in &message.text_body {
        let Some(body) = message.part(id).and_then(body_of).filter(|_| done.insert(id)) else { continue };
        words.extend(words_of(&body).map(str::to_lowercase));
        out.line(&body);
    }
    // An alternative says the same again, as a rule. Where it does not, leaving it out would lose what it says.
    for &id in message.html_body.iter().chain(&message.attachments) {
        let part = message.part(id).filter(|part| message.html_body.contains(&id) || is_body(part));
        let Some(body) = part.and_then(body_of).filter(|_| done.insert(id)) else { continue };
        let (all, new) = words_of(&body).fold((0, 0), |(all, new), word| {
            (all + 1, new + usize::from(!words.contains(&word.to_lowercase())))
        });
        if new >= NEW_WORDS && new * 4 >= all {
            out.line(&body);
        }
    }
}

/// A text without a name that nobody calls an attachment: a body, where the mail's structure is too damaged to say so.
fn is_body(part: &MessagePart<'_>) -> bool {
    let text = matches!(part.body, PartType::Text(_) | PartType::Html(_));
    let attached = part.content_disposition().is_some_and(mail_parser::ContentType::is_attachment);
    text && !attached && part.attachment_name().is_none()
}

fn body_of<'b>(part: &'b MessagePart<'_>) -> Option<Cow<'b, str>> {
    match &part.body {
        PartType::Text(body) => Some(Cow::Borrowed(body)),
        PartType::Html(body) => Some(Cow::Owned(html::text_of(body))),
        _ => None,
    }
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Whether the body shows this part: a picture beside it in a `related` whole, called by its Content-ID.
fn is_shown(message: &Message<'_>, id: u32, part: &MessagePart<'_>) -> bool {
    let picture = part.content_type().is_some_and(|kind| kind.ctype().eq_ignore_ascii_case("image"));
    if !picture || part.content_id().is_none() {
        return false;
    }
    message.parts.iter().any(|whole| {
        let related = whole
            .content_type()
            .and_then(|kind| kind.subtype())
            .is_some_and(|s| s.eq_ignore_ascii_case("related"));
        related && matches!(&whole.body, PartType::Multipart(ids) if ids.contains(&id))
    })
}

fn send(message: &Message<'_>, part: &MessagePart<'_>, mtime: Option<i64>, out: &mut Output<'_>) {
    let bytes: &[u8] = match &part.body {
        // Where it was not encoded, the inner message's bytes lie within the outer one's.
        PartType::Message(inner) if part.encoding != Encoding::None => inner.raw_message(),
        PartType::Message(_) => slice(message, part),
        PartType::Multipart(_) => return,
        _ => part.contents(),
    };
    let name = part.attachment_name().unwrap_or_default().as_bytes().to_vec();
    out.member(MemberHead { name, kind: MemberKind::File, mtime });
    out.member_data(bytes);
    out.member_end(MemberEnd::Whole);
}

fn slice<'m>(message: &'m Message<'_>, part: &MessagePart<'_>) -> &'m [u8] {
    let (from, to) = (part.offset_body as usize, part.offset_end as usize);
    message.raw_message.get(from..to).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    const MIXED: &str = "From: Ann <a@x.org>\r\nTo: b@x.org\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n\
        Date: Tue, 2 Jan 2024 03:04:05 +0000\r\nContent-Type: multipart/mixed; boundary=B\r\n\r\n--B\r\n\
        Content-Type: multipart/related; boundary=R\r\n\r\n--R\r\nContent-Type: text/html\r\n\r\n<p>Hello <b>you</b>\r\n\
        --R\r\nContent-Type: image/png\r\nContent-ID: <p>\r\nContent-Transfer-Encoding: base64\r\n\r\nAAAA\r\n--R--\r\n\
        --B\r\nContent-Type: text/csv; name=t.csv\r\nContent-Disposition: attachment; filename=t.csv\r\n\r\na,b\r\n\
        --B\r\nContent-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\nThe inner one\r\n--B--\r\n";

    #[test]
    fn headers_bodies_and_attachments() {
        let said = testing::said(MIXED.as_bytes(), eml);
        assert_eq!(said.done.refusal, None);
        assert_eq!(said.metadata.title.as_deref(), Some("Grüße"));
        assert_eq!(said.metadata.created.as_deref(), Some("2024-01-02T03:04:05Z"));
        assert!(
            said.text.starts_with("Subject: Grüße\nFrom: Ann <a@x.org>\nTo: b@x.org\n"),
            "{:?}",
            said.text
        );
        assert!(said.text.contains("Hello you") && !said.text.contains("inner"));
        let members: Vec<_> =
            said.members.iter().map(|(head, bytes, _)| (head.name.as_slice(), bytes.as_slice())).collect();
        assert_eq!(members.len(), 2);
        assert_eq!(members[0], (b"t.csv".as_slice(), b"a,b".as_slice()));
        assert!(members[1].1.starts_with(b"Subject: inner"));
        assert_eq!(said.members[0].0.mtime, Some(1_704_164_645));
    }

    #[test]
    fn the_plain_one_of_alternatives_is_taken() {
        let mail = "Subject: s\n\n".replace("\n\n", "\nContent-Type: multipart/alternative; boundary=B\n\n")
            + "--B\nContent-Type: text/plain\n\nplain\n--B\nContent-Type: text/html\n\n<p>rich\n--B--\n";
        let said = testing::said(mail.as_bytes(), eml);
        assert!(said.text.contains("plain") && !said.text.contains("rich"));
    }

    #[test]
    fn an_alternative_that_says_something_else_is_not_lost() {
        let mail = "Subject: s\nContent-Type: multipart/alternative; boundary=B\n\n--B\nContent-Type: text/plain\n\n\
            Please use another program\n--B\nContent-Type: text/html\n\n<p>What the letter really says is this\n--B--\n";
        let said = testing::said(mail.as_bytes(), eml);
        assert!(said.text.contains("another program") && said.text.contains("really says"));
    }

    #[test]
    fn an_encrypted_message_is_not_an_empty_one() {
        let mail = "Subject: s\nContent-Type: application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m\n\
            Content-Transfer-Encoding: base64\n\nMIIB\n";
        let said = testing::said(mail.as_bytes(), eml);
        assert_eq!((said.why(), said.text.as_str()), (Some(Refused::Encrypted), ""));
    }

    #[test]
    fn a_cut_attachment_is_noticed() {
        let at = MIXED.find("AAAA").expect("it is there") + 3;
        let said = testing::said(&MIXED.as_bytes()[..at], eml);
        assert_eq!(said.why(), Some(Refused::Truncated));
        assert!(said.text.contains("Hello you"));
    }

    #[test]
    fn what_has_no_header_of_a_mail_is_text() {
        let said = testing::said(b"Note: this\nis text\n", eml);
        assert_eq!((said.done.format, said.text.as_str()), (Format::Text, "Note: this\nis text\n"));
    }
}
