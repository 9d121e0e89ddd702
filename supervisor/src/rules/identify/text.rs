//! Tells kinds of text from one another, and text from bytes that are none.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use shared::Format;
use std::borrow::Cow;

/// Fields of a mail's header; two of them at the very start make a mail.
const FIELDS: &[&str] = &[
    "received",
    "from",
    "to",
    "subject",
    "date",
    "message-id",
    "mime-version",
    "return-path",
    "delivered-to",
    "cc",
    "bcc",
    "sender",
    "reply-to",
    "content-type",
    "content-transfer-encoding",
    "in-reply-to",
    "references",
    "dkim-signature",
    "authentication-results",
    "arc-seal",
    "x-mailer",
    "x-received",
    "x-original-to",
    "envelope-to",
    "list-id",
    "user-agent",
    "x-mozilla-status",
    "x-priority",
    "importance",
    "status",
    "x-account-key",
    "x-uidl",
];

/// Of these at least one must be there: the others are in web requests and source files, too.
const TELLING: &[&str] = &[
    "received",
    "from",
    "subject",
    "message-id",
    "mime-version",
    "return-path",
    "delivered-to",
    "to",
    "x-received",
];

/// What kind of text it is, or `None` for bytes that are no text. `extension` decides between kinds of text where the
/// content leaves it open.
pub(super) fn by_text(head: &[u8], extension: Option<&str>) -> Option<Format> {
    let text = decoded(head)?;
    let start = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    if start.is_empty() {
        return Some(Format::Text);
    }
    Some(
        markup(start, extension)
            .or_else(|| mail(start))
            .or_else(|| data(start, extension))
            .unwrap_or(Format::Text),
    )
}

/// The head as text, ASCII right at least; `None` for what is no text.
fn decoded(head: &[u8]) -> Option<Cow<'_, str>> {
    let wide = |bytes: &[u8], unit: fn(u8, u8) -> u16| -> Cow<'static, str> {
        let units = bytes.chunks_exact(2).map(|pair| unit(pair[0], pair[1]));
        let chars = char::decode_utf16(units).map(|unit| unit.unwrap_or('\u{fffd}'));
        Cow::Owned(chars.collect())
    };
    let little = |low: u8, high: u8| u16::from_le_bytes([low, high]);
    let big = |high: u8, low: u8| u16::from_be_bytes([high, low]);
    match head {
        [0xff, 0xfe, 0, 0, rest @ ..] => Some(four_bytes(rest, u32::from_le_bytes)),
        [0, 0, 0xfe, 0xff, rest @ ..] => Some(four_bytes(rest, u32::from_be_bytes)),
        [0xff, 0xfe, rest @ ..] => Some(wide(rest, little)),
        [0xfe, 0xff, rest @ ..] => Some(wide(rest, big)),
        _ => {
            if head.contains(&0) {
                // Without a mark: in UTF-16 of a Western text every other byte is nothing.
                let zeros = |odd: usize| head.iter().skip(odd).step_by(2).filter(|&&byte| byte == 0).count();
                let most = head.len() / 2 * 7 / 10;
                let plausible = |text: Cow<'static, str>| is_text(text.chars()).then_some(text);
                return match (zeros(0), zeros(1)) {
                    (0, odd) if odd > most => plausible(wide(head, little)),
                    (even, 0) if even > most => plausible(wide(head, big)),
                    _ => None,
                };
            }
            let text = String::from_utf8_lossy(head);
            is_text(head.iter().map(|&byte| char::from(byte))).then_some(text)
        }
    }
}

fn four_bytes(bytes: &[u8], unit: fn([u8; 4]) -> u32) -> Cow<'static, str> {
    let chars = bytes
        .chunks_exact(4)
        .map(|four| char::from_u32(unit([four[0], four[1], four[2], four[3]])).unwrap_or('\u{fffd}'));
    Cow::Owned(chars.collect())
}

/// Of a text, few characters are controls. Bytes above 127 may be any charset; those from 128 to 159 are letters in many. An
/// escape begins a shift in ISO-2022.
fn is_text(chars: impl Iterator<Item = char>) -> bool {
    let (mut all, mut controls) = (0_usize, 0_usize);
    for char in chars {
        all += 1;
        let control = matches!(char, '\0'..='\u{8}' | '\u{e}'..='\u{1a}' | '\u{1c}'..='\u{1f}' | '\u{7f}');
        controls += usize::from(control);
    }
    // One in fifty: a stray form of control is in many an honest text, and in binary formats it is one in five.
    controls * 50 <= all
}

fn starts_with(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
}

fn markup(text: &str, extension: Option<&str>) -> Option<Format> {
    if !text.starts_with('<') {
        return None;
    }
    let mut rest = text;
    // What may stand before the root.
    loop {
        rest = rest.trim_start();
        let end = match rest {
            _ if rest.starts_with("<?") => "?>",
            _ if rest.starts_with("<!--") => "-->",
            _ => break,
        };
        match rest.split_once(end) {
            Some((_, behind)) => rest = behind,
            None => break,
        }
    }
    let html = [
        "<!doctype html",
        "<html",
        "<head",
        "<body",
        "<title",
        "<meta",
        "<script",
        "<style",
        "<link",
        "<table",
        "<div",
        "<p>",
        "<p ",
        "<h1",
        "<h2",
        "<h3",
        "<br",
        "<a ",
        "<span",
        "<img",
        "<font",
        "<center",
        "<ul",
        "<ol",
        "<pre",
    ];
    if html.iter().any(|start| starts_with(rest, start)) {
        return Some(Format::Html);
    }
    let named = matches!(extension, Some("html" | "htm" | "xhtml"));
    if text.starts_with("<?xml") || starts_with(rest, "<svg") || starts_with(rest, "<!doctype") {
        return Some(if named { Format::Html } else { Format::Xml });
    }
    if named {
        return Some(Format::Html);
    }
    let element = rest.chars().nth(1).is_some_and(|c| c.is_alphabetic() || c == '_');
    let xml = element && (rest.contains("</") || rest.contains("/>") || rest.contains("xmlns"));
    xml.then_some(Format::Xml)
}

fn mail(text: &str) -> Option<Format> {
    if let Some(rest) = text.strip_prefix("From ") {
        let (line, header) = rest.split_once('\n')?;
        let sure = is_dated(line);
        let likely = line.contains(':') && line.split_whitespace().count() >= 3;
        return (sure || (likely && fields(header) >= 1)).then_some(Format::Mbox);
    }
    (fields(text) >= 2).then_some(Format::Eml)
}

/// The line goes on as mailboxes have it: an address, then `Mon Jun 01 10:00:00 2009`.
fn is_dated(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    let has = |test: fn(&str) -> bool| words.iter().any(|word| test(word));
    let weekday =
        has(|word| ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].contains(&word.trim_end_matches(',')));
    let year = has(|word| word.len() == 4 && (word.starts_with("19") || word.starts_with("20")));
    let clock = has(|word| word.len() >= 5 && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b':'));
    weekday && year && clock
}

/// How many known fields stand in the header that begins here; 0 where it is no header or has no telling one.
fn fields(text: &str) -> usize {
    let (mut known, mut telling) = (0, false);
    for line in text.lines() {
        if line.is_empty() {
            break;
        }
        if line.starts_with([' ', '\t']) || line.starts_with('>') {
            continue;
        }
        let Some((name, _)) = line.split_once(':') else { break };
        let name = name.trim_end().to_ascii_lowercase();
        if name.is_empty() || name.contains(|c: char| !c.is_ascii_graphic()) {
            break;
        }
        known += usize::from(FIELDS.contains(&name.as_str()));
        telling |= TELLING.contains(&name.as_str());
    }
    if telling { known } else { 0 }
}

fn data(text: &str, extension: Option<&str>) -> Option<Format> {
    if json(text) {
        return Some(Format::Json);
    }
    let separators: &[char] = match extension {
        Some("csv" | "tsv" | "tab") => &[',', ';', '\t', '|'],
        // A name that says text is believed where the content could be either.
        Some("txt" | "text" | "md" | "log") => &[],
        _ => &[',', ';', '\t'],
    };
    separators.iter().any(|&separator| table(text, separator)).then_some(Format::Csv)
}

/// It begins as JSON does.
fn json(text: &str) -> bool {
    let second = |from: &str| from.chars().skip(1).find(|c| !c.is_whitespace());
    match text.chars().next() {
        Some('{') => {
            let quoted = second(text) == Some('"') && text.contains("\":") || text.contains("\" :");
            quoted || (second(text) == Some('}') && text.trim_end().len() <= 64)
        }
        Some('[') => {
            matches!(second(text), Some('{' | '[' | '"' | ']' | '0'..='9' | '-')) && {
                // A log line begins with a bracket, too: what is between brackets there is no list.
                let behind = text.trim_end();
                behind.ends_with(']')
                    || behind.contains("\",")
                    || behind.contains("},")
                    || behind.contains("\":")
            }
        }
        _ => false,
    }
}

/// Each of the first lines has the same number of separators, two at least in all.
fn table(text: &str, separator: char) -> bool {
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.len() > 2 && !text.ends_with('\n') {
        // The head may end within it.
        lines.pop();
    }
    if lines.len() < 2 {
        return false;
    }
    let count = |line: &str| {
        let mut quoted = false;
        line.chars()
            .filter(|&char| {
                quoted ^= char == '"';
                !quoted && char == separator
            })
            .count()
    };
    let first = count(lines[0]);
    first > 0 && first * lines.len() >= 3 && lines.iter().take(20).all(|line| count(line) == first)
}
