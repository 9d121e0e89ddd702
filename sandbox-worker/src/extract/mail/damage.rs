//! What a mail parser passes over in silence: encryption, and an end that is missing.

use mail_parser::{Message, MimeHeaders};

/// How the message is encrypted, if all of it is.
pub(super) fn encrypted(message: &Message<'_>) -> Option<&'static str> {
    let kind = message.root_part().content_type();
    let is = |ctype: &str, subtype: &str| {
        kind.is_some_and(|kind| {
            kind.ctype().eq_ignore_ascii_case(ctype)
                && kind.subtype().is_some_and(|s| s.eq_ignore_ascii_case(subtype))
        })
    };
    if is("multipart", "encrypted") {
        return Some("an encrypted message (multipart/encrypted)");
    }
    if is("application", "pkcs7-mime") || is("application", "x-pkcs7-mime") {
        let how = kind.and_then(|kind| kind.attribute("smime-type")).unwrap_or("enveloped-data");
        return (!how.eq_ignore_ascii_case("signed-data")).then_some("an encrypted message (S/MIME)");
    }
    let mut bodies = message.text_bodies();
    let first = bodies.next().and_then(|part| part.text_contents())?.trim_start();
    let alone = first.starts_with("-----BEGIN PGP MESSAGE-----") && bodies.next().is_none();
    alone.then_some("an encrypted message (PGP)")
}

/// How the message was cut, if it evidently was: a boundary that never closes is common in honest mails, so that its
/// last line must be cut too.
pub(super) fn cut(message: &Message<'_>, bytes: &[u8]) -> Option<String> {
    let boundary = message.root_part().content_type()?.attribute("boundary")?;
    let (open, close) = (format!("--{boundary}"), format!("--{boundary}--"));
    let has = |wanted: &str| bytes.windows(wanted.len().max(1)).any(|window| window == wanted.as_bytes());
    if !has(&open) || has(&close) {
        return None;
    }
    let base64 = message.parts.last().and_then(|part| part.content_transfer_encoding());
    let base64 = base64.is_some_and(|encoding| encoding.eq_ignore_ascii_case("base64"));
    let mid_line = !bytes.ends_with(b"\n");
    let part = message.parts.last()?;
    let encoded = bytes.get(part.offset_body as usize..).unwrap_or_default();
    let digits =
        encoded.iter().filter(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=')).count();
    (mid_line || (base64 && digits % 4 != 0))
        .then(|| format!("it ends before its boundary {boundary:?} closes"))
}
