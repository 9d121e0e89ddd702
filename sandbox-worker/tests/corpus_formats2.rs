//! Office documents, books and archives of the corpus, each read in a process of its own under a limit of memory and time,
//! and held against the outcomes that are right. The corpus is no part of the repository: without it nothing is checked.
#![cfg(feature = "measure")]
#![expect(clippy::print_stderr, reason = "a test says what it left out and what went wrong")]

use sandbox_worker::extract::measure::extract_in_process;
use sandbox_worker::extract::{Document, Done, Frames, Output};
use shared::frame::Kind;
use shared::{Answer, Format, MemberEnd, MemberKind, Refused};
use std::path::{Path, PathBuf};
use std::process::Command;

const FORMATS: &[&str] = &[
    "7z",
    "cab",
    "doc",
    "docx",
    "epub",
    "gzip",
    "odf",
    "ole-encrypted-ooxml",
    "other",
    "ppt",
    "pptx",
    "pub",
    "rar",
    "tar",
    "vsdx",
    "xls",
    "xlsx",
    "zip",
];

/// Containers inside one another that the test follows.
const DEPTH: u32 = 3;

fn corpus() -> PathBuf {
    let places =
        [Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus"), "/work/shared/corpus".into()];
    places.iter().find(|place| place.is_dir()).unwrap_or(&places[1]).clone()
}

#[test]
fn the_corpus_comes_out_right() {
    let Ok(table) = std::fs::read_to_string(corpus().join("expected.tsv")) else {
        eprintln!("no corpus at {}: nothing was checked", corpus().display());
        return;
    };
    let mut lines = table.lines();
    let header: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let column = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let (path, format, accept, snippet, confidence) =
        (column("path"), column("format"), column("accept"), column("snippet"), column("confidence"));
    let (mut right, mut sure) = (0, 0);
    for line in lines {
        let row: Vec<&str> = line.split('\t').collect();
        if !FORMATS.contains(&row[format]) {
            continue;
        }
        let got = in_a_child(&corpus().join("files").join(row[path]), row[accept], row[snippet]);
        let good = got.starts_with("right");
        if row[confidence] == "sure" {
            sure += 1;
            right += u32::from(good);
        }
        if !good || std::env::var_os("CORPUS_ALL").is_some() {
            eprintln!(
                "{} {}: {got}; right: {}; text: {:?}",
                row[confidence], row[path], row[accept], row[snippet]
            );
        }
    }
    eprintln!("{right} of {sure} sure rows are right");
    assert!(right * 100 >= sure * 95, "{right} of {sure} sure rows are right");
}

/// Runs [`one_document`] of this very program; what it wrote, or how it died.
fn in_a_child(path: &Path, accept: &str, snippet: &str) -> String {
    let report = std::env::temp_dir().join(format!("corpus-formats2-{}", std::process::id()));
    std::fs::write(&report, "").unwrap();
    let output = Command::new("timeout")
        .args(["-s", "KILL", "60", "prlimit", "--as=1073741824", "--cpu=30", "--core=0", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "one_document"])
        .env("RUST_MIN_STACK", "8388608")
        .env("CORPUS_DOCUMENT", path)
        .env("CORPUS_ACCEPT", accept)
        .env("CORPUS_SNIPPET", snippet)
        .env("CORPUS_REPORT", &report)
        .output()
        .unwrap();
    let said = std::fs::read_to_string(&report).unwrap();
    std::fs::remove_file(&report).unwrap();
    if !said.is_empty() {
        return said;
    }
    let outcome =
        if accept.split('|').any(|want| want == "contain" || want == "policy") { "right" } else { "wrong" };
    format!(
        "{outcome}: died: {} {}",
        output.status,
        String::from_utf8_lossy(&output.stdout).chars().take(300).collect::<String>()
    )
}

#[test]
#[ignore = "run by the other test, in a process of its own"]
fn one_document() {
    let Some(path) = std::env::var_os("CORPUS_DOCUMENT") else { return };
    let bytes = std::fs::read(&path).unwrap();
    let name = Path::new(&path).file_name().unwrap().to_string_lossy().into_owned();
    let record = Record::of(name.as_bytes(), &bytes, 0);
    let accept = std::env::var("CORPUS_ACCEPT").unwrap();
    let snippet = fold(&std::env::var("CORPUS_SNIPPET").unwrap());
    let right = accept.split('|').any(|want| record.fits(want, &snippet));
    let said = format!(
        "{}: {:?} {:?}, {} bytes of text, members {:?}",
        if right { "right" } else { "wrong" },
        record.done.format,
        record.done.refusal,
        record.text.len(),
        record.members.iter().map(|member| (member.name.clone(), member.failed)).collect::<Vec<_>>(),
    );
    std::fs::write(std::env::var_os("CORPUS_REPORT").unwrap(), said).unwrap();
    if std::env::var_os("CORPUS_TEXT").is_some() {
        eprintln!("{}", record.text);
    }
}

fn fold(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

fn sniff(bytes: &[u8]) -> Format {
    let starts = |magic: &[u8]| bytes.starts_with(magic);
    match () {
        () if starts(b"PK") => Format::Zip,
        () if starts(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1") => Format::Ole,
        () if starts(b"\x1f\x8b") => Format::Gzip,
        () if starts(b"BZh") => Format::Bzip2,
        () if starts(b"\xfd7zXZ\0") => Format::Xz,
        () if starts(b"7z\xbc\xaf\x27\x1c") => Format::SevenZip,
        () if starts(b"Rar!") => Format::Rar,
        () if starts(b"MSCF") => Format::Cab,
        () if bytes.get(257..262) == Some(b"ustar") => Format::Tar,
        () if starts(b"%PDF") => Format::Pdf,
        () if starts(b"<html") || starts(b"<!DOCTYPE html") => Format::Html,
        () if bytes.contains(&0) => Format::Unknown,
        () => Format::Text,
    }
}

struct Record {
    done: Done,
    text: String,
    members: Vec<Member>,
}

struct Member {
    name: String,
    kind: MemberKind,
    bytes: Vec<u8>,
    failed: Option<Refused>,
    record: Option<Box<Record>>,
}

impl Record {
    fn of(name: &[u8], bytes: &[u8], depth: u32) -> Record {
        let mut collector = Collector::default();
        let mut out = Output::new(&mut collector);
        let done = extract_in_process(sniff(bytes), &Document { bytes, name, passwords: &[] }, &mut out);
        out.flush();
        let mut record = Record { done, text: fold(&collector.text), members: collector.members };
        for member in &mut record.members {
            if depth < DEPTH && member.kind == MemberKind::File && member.failed.is_none() {
                member.record = Some(Box::new(Record::of(member.name.as_bytes(), &member.bytes, depth + 1)));
            }
            member.bytes = vec![0; usize::from(!member.bytes.is_empty())];
        }
        record
    }

    fn why(&self) -> Option<Refused> {
        self.done.refusal.as_ref().map(|refusal| refusal.why)
    }

    fn has_something(&self) -> bool {
        !self.text.is_empty() || !self.members.is_empty()
    }

    fn indexed(&self) -> bool {
        self.why().is_none() && self.has_something()
    }

    fn suspect(&self) -> bool {
        self.why().is_none() && !self.has_something() || self.why().is_some() && self.has_something()
    }

    fn anywhere(&self, snippet: &str) -> bool {
        self.text.contains(snippet) || self.inside(snippet)
    }

    fn inside(&self, snippet: &str) -> bool {
        self.members
            .iter()
            .any(|member| member.record.as_ref().is_some_and(|record| record.anywhere(snippet)))
    }

    fn fits(&self, want: &str, snippet: &str) -> bool {
        match want {
            "ok" if snippet.is_empty() => self.indexed(),
            "ok" => self.indexed() && self.text.contains(snippet) || self.inside(snippet),
            "ok-container" if snippet.is_empty() => {
                self.indexed() || !self.members.is_empty() || self.suspect()
            }
            "ok-container" => {
                self.anywhere(snippet)
                    || self.members.iter().any(|member| fold(&member.name).contains(snippet))
            }
            "recoverable" => self.indexed() || self.suspect(),
            "silent-empty" => self.suspect(),
            "encrypted" => self.why() == Some(Refused::Encrypted),
            "encrypted-partial" => {
                self.why() == Some(Refused::Encrypted)
                    || self.members.iter().any(|member| member.failed == Some(Refused::Encrypted))
            }
            "malformed" | "truncated" => matches!(self.why(), Some(Refused::Malformed | Refused::Truncated)),
            "unsupported" => self.why() == Some(Refused::Unsupported),
            "policy" => {
                self.members.iter().any(|member| member.kind != MemberKind::File || member.bytes.is_empty())
            }
            "contain" => true,
            other => panic!("an outcome that is not known: {other}"),
        }
    }
}

#[derive(Default)]
struct Collector {
    text: String,
    members: Vec<Member>,
}

impl Frames for Collector {
    fn frame(&mut self, kind: Kind, payload: &[u8]) {
        match Answer::decode(kind, payload).unwrap() {
            Answer::Text(text) => self.text.push_str(&text),
            Answer::Member(head) => self.members.push(Member {
                name: String::from_utf8_lossy(&head.name).into_owned(),
                kind: head.kind,
                bytes: Vec::new(),
                failed: None,
                record: None,
            }),
            Answer::MemberData(bytes) => self.members.last_mut().unwrap().bytes.extend(bytes),
            Answer::MemberEnd(MemberEnd::Failed(refusal)) => {
                self.members.last_mut().unwrap().failed = Some(refusal.why);
            }
            _ => {}
        }
    }

    fn raw(&mut self, _bytes: &[u8]) {}

    fn nonce(&self) -> [u8; 16] {
        [0; 16]
    }
}
