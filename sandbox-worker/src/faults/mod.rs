//! The fault language: documents that say how their parser is to misbehave.
//!
//! They prove the cage and its bookkeeping: each act has a real cause, nothing is pretended. Carried out only inside
//! a closed cage and only where the supervisor's settings allow the language; it is plain text everywhere else. The
//! language is described in `fixtures/faults/README.md`.

mod crashes;
mod protocol;
mod speech;

use crate::extract::{Document, Done, Output};
use crate::jail::Jailed;
use shared::{Format, Refused};

/// The first line of every such document.
pub(crate) const FIRST_LINE: &str = "#!lazaret-fault 1";

const ENGINE: &str = "fault 1";

/// What an act leads to.
pub(crate) enum Next {
    /// The next line.
    Act,
    /// The end of the document, as an honest extractor would put it.
    Done(Done),
    /// There is no act of that name, or its operand is wrong.
    Unknown,
}

/// One line: an act and its operand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) act: &'a str,
    pub(crate) operand: &'a str,
}

impl Line<'_> {
    /// The n-th word of the operand as a number.
    pub(crate) fn number(&self, index: usize) -> Option<u64> {
        self.operand.split_whitespace().nth(index)?.parse().ok()
    }
}

/// Whether the document asks that the frame which says that the cage is shut be kept back.
pub(crate) fn keeps_locked_back(bytes: &[u8]) -> bool {
    lines(&String::from_utf8_lossy(bytes)).any(|line| line.act == "no-locked")
}

/// Carries the document out, line by line.
pub(crate) fn carry_out(_cage: &Jailed, document: &Document<'_>, out: &mut Output<'_>) -> Done {
    let text = String::from_utf8_lossy(document.bytes);
    if text.lines().next().map(str::trim_end) != Some(FIRST_LINE) {
        return Done::refused(
            Format::Fault,
            ENGINE,
            Refused::Malformed,
            "the first line is not the language's",
        );
    }
    for line in lines(&text) {
        match act(line, out) {
            Next::Act => {}
            Next::Done(done) => return done,
            Next::Unknown => {
                let message = format!("no such act: {} {}", line.act, line.operand);
                return Done::refused(Format::Fault, ENGINE, Refused::Malformed, message);
            }
        }
    }
    Done::whole(Format::Fault, ENGINE)
}

fn act(line: Line<'_>, out: &mut Output<'_>) -> Next {
    for part in [speech::act, crashes::act, protocol::act] {
        match part(line, out) {
            Next::Unknown => {}
            known => return known,
        }
    }
    Next::Unknown
}

fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
        let (act, operand) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        Line { act, operand: operand.trim() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_acts_and_operands() {
        let read: Vec<_> = lines("#!lazaret-fault 1\n\n# why\ntext  two words \nspin\n")
            .map(|line| (line.act, line.operand))
            .collect();
        assert_eq!(read, [("text", "two words"), ("spin", "")]);
        assert!(keeps_locked_back(b"#!lazaret-fault 1\nno-locked\n"));
        assert!(!keeps_locked_back(b"#!lazaret-fault 1\ntext no-locked\n"));
    }

    #[test]
    fn every_act_is_described() {
        let described = include_str!("../../../fixtures/faults/README.md");
        for name in crate::sys::forbidden_names() {
            assert!(described.contains(&format!("`syscall {name}`")), "{name}");
        }
        for name in protocol::NAMES {
            let alone = described.contains(&format!("`{name}`"));
            assert!(alone || described.contains(&format!("`{name} ")), "{name}");
        }
    }
}
