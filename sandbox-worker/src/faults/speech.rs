//! Acts that an honest extractor could commit, and probes that say what they met.

use super::{ENGINE, Line, Next};
use crate::extract::{Done, Output};
use crate::sys;
use nix::errno::Errno;
use shared::{Format, MemberEnd, MemberHead, MemberKind, Metadata, Refused};

const SENTENCES: [&str; 4] = [
    "The committee met in the large hall on Tuesday and approved the minutes of the previous meeting.",
    "All figures in this report are given in thousands unless the heading of the table says otherwise.",
    "The delivery was late, but the goods were complete and in the condition that had been agreed upon.",
    "Please return the signed form to the office before the end of the month, together with a copy.",
];

pub(super) fn act(line: Line<'_>, out: &mut Output<'_>) -> Next {
    match line.act {
        "text" => out.line(line.operand),
        "lines" => lines(line.number(0).unwrap_or(10), out),
        "nonsense" => nonsense(line.number(0).unwrap_or(10), out),
        "metadata" => out.metadata(metadata()),
        "member" => {
            let (name, text) = line.operand.split_once(' ').unwrap_or((line.operand, ""));
            member(name, text.as_bytes(), out);
        }
        "progress" => out.progress(line.number(0).unwrap_or(1), line.number(1).unwrap_or(0)),
        "slow" => slow(line.number(0).unwrap_or(10), line.number(1).unwrap_or(100), out),
        "encrypted" => return refuse(Refused::Encrypted, line),
        "malformed" => return refuse(Refused::Malformed, line),
        "truncated" => return refuse(Refused::Truncated, line),
        "unsupported" => return refuse(Refused::Unsupported, line),
        "probe" => match probe(line.operand) {
            Some(answer) => out.line(&format!("{}: {answer}", line.operand)),
            None => return Next::Unknown,
        },
        _ => return Next::Unknown,
    }
    Next::Act
}

fn refuse(why: Refused, line: Line<'_>) -> Next {
    Next::Done(Done::refused(Format::Fault, ENGINE, why, line.operand))
}

fn lines(count: u64, out: &mut Output<'_>) {
    for (_, sentence) in (0..count).zip(SENTENCES.iter().cycle()) {
        out.line(sentence);
    }
}

/// Letters without a language, always the same.
fn nonsense(count: u64, out: &mut Output<'_>) {
    let mut state = 1_u32;
    for _ in 0..count {
        let line: String = (0..60)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                char::from(b'!' + u8::try_from(state >> 24).unwrap_or(0) % 90)
            })
            .collect();
        out.line(&line);
    }
}

fn metadata() -> Metadata {
    Metadata {
        title: Some("A title".to_owned()),
        author: Some("An author".to_owned()),
        pages: Some(1),
        ..Metadata::default()
    }
}

pub(super) fn member(name: &str, bytes: &[u8], out: &mut Output<'_>) {
    out.member(MemberHead { name: name.as_bytes().to_vec(), kind: MemberKind::File, mtime: None });
    out.member_data(bytes);
    out.member_end(MemberEnd::Whole);
}

fn slow(count: u64, milliseconds: u64, out: &mut Output<'_>) {
    for done in 1..=count {
        out.progress(done, count);
        sys::wait(Some(milliseconds));
    }
}

/// A harmless look around, and what came of it.
fn probe(what: &str) -> Option<String> {
    let answer = |result: Result<i64, Errno>| result.map_or_else(|e| format!("{e:?}"), |n| n.to_string());
    Some(match what {
        "openat" | "statx" | "clone3" => answer(sys::forbidden_call(what)?),
        "environ" => sys::environment_size().to_string(),
        "fds" => format!("{:?}", (0..64).filter(|&number| sys::is_open(number)).collect::<Vec<_>>()),
        "ids" => format!("uid {} pid {}", nix::unistd::geteuid(), sys::own_id()),
        "dumpable" => answer(sys::question(libc::PR_GET_DUMPABLE)),
        "no-new-privileges" => answer(sys::question(libc::PR_GET_NO_NEW_PRIVS)),
        "parent-death" => match nix::sys::prctl::get_pdeathsig() {
            Ok(Some(signal)) => signal.to_string(),
            Ok(None) => "none".to_owned(),
            Err(errno) => format!("{errno:?}"),
        },
        "capabilities" => sys::has_capabilities().map_or_else(|e| format!("{e:?}"), |any| any.to_string()),
        _ => return None,
    })
}
