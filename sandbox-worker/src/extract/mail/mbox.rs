//! MBOX: messages one after the other, each after a line that begins with `From `.
//!
//! The text of a message may have such lines. A writer that knows quotes them with `>`; for the others' sake a line
//! counts only where a message can begin: after an empty line or at the start, and with a time and a year in it or a header
//! after it.

use super::super::{Document, Done, Output};
use super::ENGINE;
use mail_parser::MessageParser;
use shared::{ContentHash, Format, MemberEnd, MemberHead, MemberKind, Refused};

/// Sends every message as a member, named by its Message-ID, else by its content.
pub(in super::super) fn mbox(document: &Document<'_>, out: &mut Output<'_>) -> Done {
    let mut rest = document.bytes;
    let mut messages = 0;
    let Some(()) = begins_message(rest).then_some(()) else {
        return Done::refused(Format::Mbox, ENGINE, Refused::Malformed, "no message begins at its start");
    };
    while !rest.is_empty() {
        let (_, after) = split_line(rest);
        let length = length_of_message(after);
        let (message, next) = after.split_at(length);
        send(&unquoted(message), out);
        messages += 1;
        out.progress(messages, 0);
        rest = next;
    }
    Done::whole(Format::Mbox, ENGINE)
}

fn begins_message(bytes: &[u8]) -> bool {
    if !bytes.starts_with(b"From ") {
        return false;
    }
    let (line, after) = split_line(bytes);
    let (next, _) = split_line(after);
    let name = next.iter().position(|b| *b == b':').and_then(|at| next.get(..at));
    is_envelope(line) || name.is_some_and(|name| !name.is_empty() && name.iter().all(u8::is_ascii_graphic))
}

/// Whether the line is as delivery agents write it, with a time and a year.
fn is_envelope(line: &[u8]) -> bool {
    let words = || line.split(u8::is_ascii_whitespace);
    let digits = |word: &[u8]| word.iter().filter(|b| b.is_ascii_digit()).count();
    let time = words().any(|word| word.contains(&b':') && matches!(digits(word), 4 | 6));
    time && words().any(|word| word.len() == 4 && digits(word) == 4)
}

fn length_of_message(bytes: &[u8]) -> usize {
    let mut at = 0;
    let mut after_empty = false;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        if after_empty && begins_message(rest) {
            return at;
        }
        let (line, next) = split_line(rest);
        after_empty = line.trim_ascii().is_empty();
        at += rest.len() - next.len();
    }
    bytes.len()
}

/// The first line without its end, and what follows.
fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|b| *b == b'\n') {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[]),
    }
}

/// Takes one `>` off every line that was quoted because it looked like the start of a message.
fn unquoted(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len());
    for line in message.split_inclusive(|b| *b == b'\n') {
        let marks = line.iter().take_while(|b| **b == b'>').count();
        let quoted = marks > 0 && line.get(marks..).is_some_and(|rest| rest.starts_with(b"From "));
        out.extend_from_slice(line.get(usize::from(quoted)..).unwrap_or_default());
    }
    out
}

fn send(bytes: &[u8], out: &mut Output<'_>) {
    let headers = MessageParser::default().parse_headers(bytes);
    let id =
        headers.as_ref().and_then(|headers| headers.message_id()).map(str::trim).filter(|id| !id.is_empty());
    let name = id.map_or_else(|| ContentHash::of(bytes).to_string(), str::to_owned);
    let mtime = headers.as_ref().and_then(|headers| headers.date()).map(mail_parser::DateTime::to_timestamp);
    out.member(MemberHead { name: name.into_bytes(), kind: MemberKind::File, mtime });
    out.member_data(bytes);
    out.member_end(MemberEnd::Whole);
}

#[cfg(test)]
mod tests {
    use super::super::super::testing;
    use super::*;

    #[test]
    fn messages_are_split_named_and_unquoted() {
        let file = b"From a Tue\nMessage-ID: <1@x>\nSubject: one\n\nFrom here on\n>From the start\n>>From x\n\nFrom b Tue\nSubject: two\n\nsecond\n";
        let said = testing::said(file, mbox);
        assert_eq!((said.done.format, said.done.refusal.as_ref()), (Format::Mbox, None));
        assert_eq!(said.members.len(), 2);
        assert_eq!(said.members[0].0.name, b"1@x");
        assert!(said.members[0].1.ends_with(b"From here on\nFrom the start\n>From x\n\n"));
        assert_eq!(said.members[1].1, b"Subject: two\n\nsecond\n");
        assert_eq!(
            said.members[1].0.name,
            ContentHash::of(b"Subject: two\n\nsecond\n").to_string().as_bytes()
        );
    }

    #[test]
    fn what_does_not_begin_with_a_message_is_malformed() {
        assert_eq!(testing::said(b"Subject: x\n\n", mbox).why(), Some(Refused::Malformed));
    }
}
