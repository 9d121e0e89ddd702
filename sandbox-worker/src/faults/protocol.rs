//! Acts that break the rules of the answer: its frames, their order, their payloads, and the recorder page.

use super::{ENGINE, Line, Next};
use crate::extract::{Frames, Output};
use crate::{recorder, sys};
use shared::frame::{self, HEADER, Kind, PAYLOAD_MAX};
use shared::recorder::SIZE;
use shared::{End, Format, Metadata};

/// All of them.
#[cfg(test)]
pub(super) const NAMES: &[&str] = &[
    "garbage",
    "wrong-magic",
    "wrong-nonce",
    "oversized",
    "zero-flood",
    "two-ends",
    "after-end",
    "half-frame",
    "end-then-crash",
    "no-end",
    "no-locked",
    "bad-payload",
    "flood",
    "member-flood",
    "wrong-counts",
    "drip",
    "recorder-lies",
    "clear-recorder",
];

pub(super) fn act(line: Line<'_>, out: &mut Output<'_>) -> Next {
    out.flush();
    match line.act {
        // The child looked for it before the first frame.
        "no-locked" => return Next::Act,
        "recorder-lies" => return fill_recorder(u64::MAX),
        "clear-recorder" => return fill_recorder(0),
        "member-flood" => member_flood(out),
        "flood" => flood(out),
        "wrong-counts" => return finish(out, 1, 1),
        _ => {}
    }
    let (text, members) = out.counts();
    let frames = out.frames();
    let nonce = frames.nonce();
    match line.act {
        "garbage" => frames.raw(&[0xa5; 4096]),
        "wrong-magic" => frames.raw(&changed(frame::header(Kind::Text, &nonce, 0), 0)),
        "wrong-nonce" => frames.raw(&changed(frame::header(Kind::Text, &nonce, 0), 4)),
        "oversized" => frames.raw(&frame::header(Kind::Text, &nonce, u32::MAX)),
        "zero-flood" => loop {
            frames.frame(Kind::Text, &[]);
        },
        "half-frame" => {
            frames.raw(&frame::header(Kind::Text, &nonce, 100));
            frames.raw(b"not a hundred bytes");
            sys::exit(0);
        }
        "drip" => drip(frames, nonce, line.number(0).unwrap_or(200)),
        "two-ends" => frames.frame(Kind::End, &end(text, members)),
        "after-end" => {
            frames.frame(Kind::End, &end(text, members));
            frames.frame(Kind::Text, b"more");
            sys::exit(0);
        }
        "end-then-crash" => {
            frames.frame(Kind::End, &end(text, members));
            sys::null_read();
        }
        "no-end" => sys::exit(0),
        "bad-payload" => return bad_payload(line.operand, frames),
        _ => return Next::Unknown,
    }
    Next::Act
}

fn end(text_bytes: u64, members: u64) -> Vec<u8> {
    let engine = ENGINE.to_owned();
    frame::encode(&End { format: Format::Fault, refusal: None, parts: None, engine, text_bytes, members })
}

fn finish(out: &mut Output<'_>, more_text: u64, more_members: u64) -> Next {
    let (text, members) = out.counts();
    out.frames().frame(Kind::End, &end(text + more_text, members + more_members));
    sys::exit(0)
}

fn changed(mut header: [u8; HEADER], at: usize) -> [u8; HEADER] {
    header[at] ^= 0xff;
    header
}

fn drip(frames: &mut dyn Frames, nonce: [u8; 16], milliseconds: u64) -> ! {
    frames.raw(&frame::header(Kind::Text, &nonce, 60_000));
    loop {
        frames.raw(b".");
        sys::wait(Some(milliseconds));
    }
}

fn flood(out: &mut Output<'_>) -> ! {
    let much = "word ".repeat(PAYLOAD_MAX / 5);
    loop {
        out.text(&much);
    }
}

fn member_flood(out: &mut Output<'_>) -> ! {
    loop {
        super::speech::member("m", b"x", out);
    }
}

/// Payloads that lie about what is in them.
fn bad_payload(name: &str, frames: &mut dyn Frames) -> Next {
    let long_length = [1, 253, 0, 0, 0, 0, 0, 1, 0, 0];
    match name {
        "utf8" => frames.frame(Kind::Text, b"\xff\xfe"),
        "length" => frames.frame(Kind::Metadata, &long_length),
        "bool" => frames.frame(Kind::Metadata, &[2]),
        "empty" => frames.frame(Kind::End, &[]),
        "string" => {
            let title = Some("x".repeat(60_000));
            frames.frame(Kind::Metadata, &frame::encode(&Metadata { title, ..Metadata::default() }));
        }
        "trailing" => {
            let mut payload = frame::encode(&Metadata::default());
            payload.push(0);
            frames.frame(Kind::Metadata, &payload);
        }
        _ => return Next::Unknown,
    }
    Next::Act
}

fn fill_recorder(value: u64) -> Next {
    for offset in (8..SIZE).step_by(8) {
        recorder::set(offset, value);
    }
    if value == 0 {
        recorder::set(0, 0);
    }
    Next::Act
}
