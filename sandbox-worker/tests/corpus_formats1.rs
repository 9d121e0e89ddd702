//! Text, HTML, XML, RTF, PDF and mail, held against a corpus of real and hostile files with known outcomes.
//!
//! The corpus lies outside of the repository; without it there is nothing to do, and the test says so. Every file is read
//! by a process of its own under limits, which is this very program started again: some of the files exhaust memory, the
//! stack or the clock of whoever reads them. Run it with `--features measure`.
#![cfg(feature = "measure")]
#![expect(clippy::print_stdout, reason = "what falls short is listed for the reader of the test")]

use sandbox_worker::extract::measure::extract_in_process;
use sandbox_worker::extract::{Document, Frames, Output};
use shared::frame::Kind;
use shared::{Answer, Format, Refused};
use std::path::{Path, PathBuf};
use std::process::Command;

const FILE: &str = "LAZARET_CORPUS_FILE";
const FORMAT: &str = "LAZARET_CORPUS_FORMAT";
const RESULT: &str = "LAZARET_CORPUS_RESULT";

/// The marks between the fields of a result: no text has them.
const FIELD: char = '\u{1f}';
const RECORD: char = '\u{1e}';

#[derive(Default)]
struct Listener {
    text: String,
    members: Vec<Vec<u8>>,
}

impl Frames for Listener {
    fn frame(&mut self, kind: Kind, payload: &[u8]) {
        match Answer::decode(kind, payload).expect("frames are within their bounds") {
            Answer::Text(text) => self.text.push_str(&text),
            Answer::Member(_) => self.members.push(Vec::new()),
            Answer::MemberData(bytes) => self.members.last_mut().expect("a member began").extend(bytes),
            _ => {}
        }
    }

    fn raw(&mut self, _bytes: &[u8]) {}

    fn nonce(&self) -> [u8; 16] {
        [0; 16]
    }
}

/// The child: reads one file and its members, and writes down what came of each.
#[test]
#[ignore = "started by the test of the corpus, once for each file"]
fn child() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let bytes = std::fs::read(file).expect("the corpus is readable");
    let format = Format::named(&std::env::var(FORMAT).expect("a format")).expect("a known format");
    let mut records = String::new();
    read(format, &bytes, 0, &mut records);
    std::fs::write(std::env::var_os(RESULT).expect("a place for the result"), records).expect("writable");
}

fn read(format: Format, bytes: &[u8], depth: u32, records: &mut String) {
    let mut listener = Listener::default();
    let mut out = Output::new(&mut listener);
    let done = extract_in_process(format, &Document { bytes, name: b"", passwords: &[] }, &mut out);
    out.flush();
    let why = done.refusal.map_or_else(|| "-".to_owned(), |refusal| format!("{:?}", refusal.why));
    records.extend([&why, done.format.name(), &listener.text].map(|field| format!("{field}{FIELD}")));
    records.push(RECORD);
    for member in listener.members.iter().filter(|_| depth < 5) {
        if let Some(format) = sniff(member) {
            read(format, member, depth + 1, records);
        }
    }
}

fn sniff(bytes: &[u8]) -> Option<Format> {
    let head = String::from_utf8_lossy(bytes.get(..2048).unwrap_or(bytes)).to_ascii_lowercase();
    let is = |start: &str| head.starts_with(start);
    Some(match () {
        () if is("%pdf") => Format::Pdf,
        () if is("{\\rtf") => Format::Rtf,
        () if bytes.starts_with(b"\xd0\xcf\x11\xe0") => Format::Ole,
        () if is("pk") => return None,
        () if head.contains("<html") => Format::Html,
        () if ["subject:", "from:", "received:", "date:", "content-type:"]
            .iter()
            .any(|h| head.contains(h)) =>
        {
            Format::Eml
        }
        () => Format::Text,
    })
}

struct Row {
    path: String,
    format: Format,
    accept: Vec<String>,
    snippet: String,
    sure: bool,
}

struct Record {
    why: String,
    archive: bool,
    text: String,
}

fn fold(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

fn rows(table: &str) -> Vec<Row> {
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let column: Vec<&str> = line.split('\t').collect();
            let format = match column[3] {
                "text" | "text/plain" if column[1].ends_with(".xml") => Format::Xml,
                "text" | "text/plain" => Format::Text,
                "msg" => Format::Ole,
                name @ ("pdf" | "html" | "rtf" | "eml" | "mbox") => Format::named(name)?,
                _ => return None,
            };
            Some(Row {
                path: column[1].to_owned(),
                format,
                accept: column[5].split('|').map(str::to_owned).collect(),
                snippet: fold(column[7]),
                sure: column[8] == "sure",
            })
        })
        .collect()
}

fn run(root: &Path, row: &Row, result: &Path) -> Option<Vec<Record>> {
    if result.exists() {
        std::fs::remove_file(result).expect("a file of this test");
    }
    let me = std::env::current_exe().expect("this program");
    let ended = Command::new("prlimit")
        .args(["--as=1500000000", "--cpu=20", "--core=0"])
        .arg(me)
        .args(["--exact", "child", "--ignored", "--quiet"])
        .env(FILE, root.join("files").join(&row.path))
        .env(FORMAT, row.format.name())
        .env(RESULT, result)
        .env("RUST_MIN_STACK", "8388608")
        .output()
        .expect("prlimit is part of the system");
    if !ended.status.success() {
        return None;
    }
    let text = std::fs::read_to_string(result).ok()?;
    Some(
        text.split(RECORD)
            .filter(|record| !record.is_empty())
            .map(|record| {
                let mut fields = record.split(FIELD).map(str::to_owned);
                let (why, format, text) = (fields.next(), fields.next(), fields.next());
                let archive = format
                    .and_then(|name| Format::named(&name))
                    .is_some_and(|f| f.role() == shared::format::Role::Archive);
                Record { why: why.unwrap_or_default(), archive, text: fold(&text.unwrap_or_default()) }
            })
            .collect(),
    )
}

/// As the record's state would be: a text, part of a text or none.
fn state(record: &Record) -> &'static str {
    let letters = record.text.chars().filter(|c| c.is_alphanumeric()).count();
    let wrong = record.text.chars().filter(|c| *c == '\u{fffd}').count();
    match (record.why.as_str(), letters > 0) {
        ("-", _) if record.archive => "indexed",
        ("-", true) if wrong <= letters => "indexed",
        ("-", _) | (_, true) => "suspect",
        _ => "quarantined",
    }
}

fn fits(want: &str, row: &Row, records: Option<&[Record]>) -> bool {
    let Some([own, inner @ ..]) = records else { return want == "contain" };
    let state = state(own);
    let is = |why: Refused| own.why == format!("{why:?}");
    match want {
        "ok" | "ok-container" if row.snippet.is_empty() => {
            state == "indexed" || (want == "ok-container" && !inner.is_empty())
        }
        "ok" | "ok-container" if own.text.contains(&row.snippet) => {
            state == "indexed" || want == "ok-container"
        }
        "ok" | "ok-container" => inner.iter().any(|record| record.text.contains(&row.snippet)),
        "recoverable" => state != "quarantined",
        "silent-empty" => state == "suspect",
        "encrypted" => is(Refused::Encrypted),
        "encrypted-partial" => is(Refused::Encrypted) || inner.iter().any(|record| record.why == "Encrypted"),
        "malformed" | "truncated" => is(Refused::Malformed) || is(Refused::Truncated),
        "unsupported" => is(Refused::Unsupported),
        "contain" => true,
        _ => false,
    }
}

#[test]
fn the_corpus_comes_out_as_it_must() {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/corpus"));
    let root = std::env::var_os("LAZARET_CORPUS").map_or(root, PathBuf::from);
    let Ok(table) = std::fs::read_to_string(root.join("expected.tsv")) else {
        println!("no corpus at {}: nothing was held against it", root.display());
        return;
    };
    let result = std::env::temp_dir().join(format!("lazaret-corpus-{}", std::process::id()));
    let (mut good, mut sure) = (0, 0);
    for row in rows(&table) {
        let records = run(&root, &row, &result);
        let fine = row.accept.iter().any(|want| fits(want, &row, records.as_deref()));
        if row.sure {
            sure += 1;
            good += usize::from(fine);
        }
        if !fine {
            let got = records.as_ref().and_then(|r| r.first()).map_or_else(
                || "it died".to_owned(),
                |own| {
                    format!(
                        "{} ({}) {:?}",
                        state(own),
                        own.why,
                        own.text.chars().take(120).collect::<String>()
                    )
                },
            );
            println!(
                "{}: got {got}; right: {:?}, text {:?}, sure: {}",
                row.path, row.accept, row.snippet, row.sure
            );
        }
    }
    if result.exists() {
        std::fs::remove_file(&result).expect("a file of this test");
    }
    println!("{good} of {sure} sure rows are right");
    assert!(good * 100 >= sure * 95, "{good} of {sure}");
}
