//! The commands over the ledger, on the real programs: what a person requeues, what is compared and repaired, how a live run is
//! steered, and what spreadsheets and scripts get.

use serde_json::Value;
use shared::{ContentHash, DocumentId, Identity};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::process::Child;
use std::time::{Duration, Instant};
use supervisor::rules::kind::State;
use supervisor::sink::embedded::Embedded;
use supervisor::sink::texts::Texts;
use supervisor::sink::{Batch, Entry};
use tests::nobody::nobody_can_start;
use tests::{Programs, Said, Scratch};

const PROGRAMS: Programs = tests::programs!();

const LETTER: &str = "A letter about the harbour, the barges and the tide.\n";
const SEGV: &str = "#!lazaret-fault 1\nsignal segv\n";

fn new() -> Scratch {
    Scratch::new(PROGRAMS).with("cage.faults=true")
}

/// Good ones, crashes, one that is damaged, one that is shut out; all after one run.
fn mixed() -> Scratch {
    let scratch = new();
    scratch.put("good.txt", LETTER);
    scratch.put("sub/deep/other.txt", "Other words of the quay.\n");
    scratch.put("sub/crash.txt", SEGV);
    scratch.put("crash.txt", SEGV.replace("segv", "abort"));
    scratch.put("damaged.txt", "#!lazaret-fault 1\ntruncated cut off\n");
    scratch.put("hollow.txt", "#!lazaret-fault 1\nmetadata\n");
    scratch.put("hostile.txt", "#!lazaret-fault 1\nsyscall socket-inet\n");
    scratch.put("empty.txt", "");
    scratch.run().ended(0);
    scratch
}

fn states(scratch: &Scratch) -> BTreeMap<String, String> {
    let state = |record: &Value| record["state"].as_str().expect("a word").to_owned();
    scratch.list().iter().map(|(path, record)| (path.clone(), state(record))).collect()
}

/// The paths of the objects that a command prints, one a line.
fn paths(said: &Said) -> Vec<String> {
    said.stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("each line is an object"))
        .map(|object| object["path"].as_str().expect("a path").to_owned())
        .collect()
}

fn shown(scratch: &Scratch, doc: &str) -> Value {
    let said = scratch.call(&["show", doc, "--format", "json"]).ended(0);
    serde_json::from_str(&said.stdout).expect("an object")
}

fn attempts_made(scratch: &Scratch, doc: &str) -> usize {
    shown(scratch, doc)["history"].as_array().expect("a list").len()
}

fn last_line(said: &Said) -> &str {
    said.stdout.lines().last().unwrap_or_default()
}

/// Asks again and again until it holds; fails where the run ends before.
fn until(run: &mut Child, what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert_eq!(run.try_wait().expect("our own child"), None, "the run ended before {what}");
        assert!(began.elapsed() < Duration::from_secs(120), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn every_filter_means_what_it_says() {
    let scratch = mixed();
    let crash = shown(&scratch, "sub/crash.txt");
    let fingerprint = crash["evidence"]["fingerprint"].as_str().expect("a crash has one").to_owned();
    let id = crash["id"].as_str().expect("an id").to_owned();
    let version =
        format!("normalise={}", shown(&scratch, "good.txt")["pipeline"]["normalise"].as_str().unwrap());
    let listed = |words: &[&str]| {
        let words = [&["list", "--format", "jsonl"], words].concat();
        paths(&scratch.call(&words).ended(0))
    };
    let all = listed(&[]);
    assert_eq!(all.len(), 8);
    let none: [&str; 0] = [];
    assert_eq!(listed(&["--state-is", "indexed"]), ["good.txt", "sub/deep/other.txt"]);
    assert_eq!(listed(&["--why", "corrupt"]), ["damaged.txt"]);
    assert_eq!(listed(&["--why", "gave_up"]), none);
    assert_eq!(listed(&["--class", "rejected"]), ["empty.txt"]);
    assert_eq!(listed(&["--kind", "crash.segv"]), ["sub/crash.txt"]);
    assert_eq!(listed(&["--stage", "extract", "--class", "corrupt"]), ["damaged.txt"]);
    assert_eq!(listed(&["--path", "sub/**"]), ["sub/crash.txt", "sub/deep/other.txt"]);
    assert_eq!(listed(&["--path", "*crash*"]), ["crash.txt"]);
    assert_eq!(listed(&["--path", "**/*crash*"]), ["crash.txt", "sub/crash.txt"]);
    assert_eq!(listed(&["--path", "**/crash.txt", "--kind", "crash.abort"]), ["crash.txt"]);
    assert_eq!(listed(&["--format-is", "text"]), ["good.txt", "sub/deep/other.txt"]);
    let texts = listed(&["--version", &version, "--format-is", "text"]);
    assert_eq!(texts, ["good.txt", "sub/deep/other.txt"]);
    let extract = shown(&scratch, "good.txt")["pipeline"]["extract"].as_str().unwrap().to_owned();
    let other = format!("extract={extract}");
    assert_eq!(listed(&["--version", &version, "--version", &other]), texts);
    assert_eq!(listed(&["--version", &version, "--version", "extract=never"]), none);
    assert_eq!(listed(&["--hostile"]), ["hostile.txt"]);
    assert_eq!(listed(&["--damage", "transfer"]), none);
    assert_eq!(listed(&["--fingerprint", &fingerprint.to_uppercase()]), ["sub/crash.txt"]);
    assert_eq!(listed(&["--errno", "EACCES"]), none);
    assert_eq!(listed(&["--min-size", "1", "--max-size", "26B"]), ["sub/deep/other.txt"]);
    assert_eq!(listed(&["--max-size", "0"]), ["empty.txt"]);
    assert_eq!(listed(&["--id", &id]), ["sub/crash.txt"]);
    assert_eq!(listed(&["--id", id.get(..12).unwrap(), "--state-is", "indexed"]), none);
    assert_eq!(listed(&["--since", "1h"]), all);
    assert_eq!(listed(&["--since", "2999-01-01"]), none);
    assert_eq!(
        listed(&["--first-failed-before", "2999-01-01T00:00:00Z", "--state-is", "suspect"]),
        ["hollow.txt"]
    );
    assert_eq!(listed(&["--first-failed-before", "1d"]), none);
    assert_eq!(listed(&["--limit", "3"]), all[..3]);
    assert_eq!(listed(&["--limit", "0"]), none);
    scratch.call(&["list", "--source", "nowhere"]).ended(2);
}

#[test]
fn a_person_s_word_requeues_what_is_meant_and_nothing_else() {
    let scratch = mixed();
    let before = states(&scratch);
    for words in [
        &["retry"][..],
        &["reprocess"],
        &["retry", "--state-is", "indexed"],
        &["reprocess", "--state-is", "excluded"],
    ] {
        let said = scratch.call(words).ended(2);
        assert!(said.stderr.starts_with("error: `"), "{said:?}");
    }
    // Nothing is changed, and what would be is named.
    let dry = scratch.call(&["retry", "--path", "**/crash.txt", "--dry-run", "--format", "jsonl"]).ended(0);
    assert_eq!(paths(&dry), ["crash.txt", "sub/crash.txt"]);
    let dry = scratch.call(&["retry", "--all", "--dry-run"]).ended(0);
    assert_eq!(last_line(&dry), "5 documents would be requeued");
    assert_eq!(dry.stdout.lines().count(), 1 + 5 + 1);
    assert_eq!(states(&scratch), before);

    let said = scratch.call(&["retry", "--kind", "crash.segv"]).ended(0);
    assert_eq!(said.stdout, "1 document requeued; the next `lazaret run` takes it\n");
    let record = &scratch.list()["sub/crash.txt"];
    assert_eq!(
        (&record["state"], &record["attempts"], &record["first_failed"]),
        (&"pending".into(), &0.into(), &Value::Null)
    );
    assert_eq!(states(&scratch).values().filter(|state| *state == "pending").count(), 1);
    scratch.run().ended(0);
    assert_eq!(states(&scratch), before);
    assert_eq!((attempts_made(&scratch, "sub/crash.txt"), attempts_made(&scratch, "crash.txt")), (2, 1));

    let said = scratch.call(&["reprocess", "--path", "{good,empty}.txt", "--format", "jsonl"]).ended(0);
    assert_eq!(said.stdout, "{\"requeued\":1,\"shared\":0,\"moved_on\":0}\n");
    assert_eq!(scratch.list()["good.txt"]["state"], "pending");
    assert_eq!(scratch.text("good.txt"), LETTER.trim_end(), "the old text can still be had");
    let said = scratch.call(&["reprocess", "--all"]).ended(0);
    assert_eq!(last_line(&said), "7 documents requeued; the next `lazaret run` takes them");
    scratch.run().ended(0);
    assert_eq!(states(&scratch), before);
    assert_eq!(attempts_made(&scratch, "good.txt"), 2);
    assert_eq!(scratch.status()["balanced"], true);
}

#[test]
fn stale_is_what_was_made_under_another_version() {
    let scratch = mixed();
    let said = scratch.call(&["reprocess", "--stale"]).ended(0);
    assert_eq!(said.stdout, "0 documents requeued\n");
    let db = rusqlite::Connection::open(scratch.state().join("ledger.sqlite")).unwrap();
    let changed = db
        .execute(
            "UPDATE documents SET rest = json_set(rest, '$.in_sink.pipeline.extract', 'of long ago')
             WHERE path IN ('good.txt', 'hollow.txt')",
            [],
        )
        .unwrap();
    assert_eq!(changed, 2);
    drop(db);
    let dry = scratch.call(&["reprocess", "--stale", "--dry-run", "--format", "jsonl"]).ended(0);
    assert_eq!(paths(&dry), ["good.txt", "hollow.txt"]);
    let said = scratch.call(&["reprocess", "--stale", "--state-is", "indexed"]).ended(0);
    assert_eq!(last_line(&said), "1 document requeued; the next `lazaret run` takes it");
    scratch.run().ended(0);
    let dry = scratch.call(&["reprocess", "--stale", "--dry-run", "--format", "jsonl"]).ended(0);
    assert_eq!(paths(&dry), ["hollow.txt"]);
}

/// A live run of one child over documents that take half a second each.
fn slowly(scratch: &Scratch, documents: usize) -> Child {
    for n in 0..documents {
        scratch.put(&format!("slow/{n:02}.txt"), format!("#!lazaret-fault 1\ntext number {n}\nslow 10 50\n"));
    }
    scratch.start()
}

fn ctl(scratch: &Scratch, word: &str) -> Value {
    let said = scratch.call(&["ctl", word, "--format", "json"]);
    serde_json::from_str(&said.stdout).unwrap_or_default()
}

/// How many documents a live run has in flight; `None` where it does not answer yet.
fn in_flight(scratch: &Scratch) -> Option<usize> {
    ctl(scratch, "status")["in_flight"].as_array().map(Vec::len)
}

#[test]
fn a_live_run_takes_what_is_requeued_beside_it() {
    let scratch = new().with("children=1");
    scratch.put("crash.txt", SEGV);
    scratch.run().ended(0);
    let mut run = slowly(&scratch, 6);
    until(&mut run, "something is in flight", || in_flight(&scratch).is_some_and(|n| n > 0));
    let said = scratch.call(&["retry", "--kind", "crash.segv"]).ended(0);
    assert_eq!(said.stdout, "1 document requeued; the run that is on takes it\n");
    let refused = scratch.call(&["reconcile"]).ended(1);
    assert!(
        refused.stderr.contains("in use by another run") && refused.stderr.contains("hint: "),
        "{refused:?}"
    );
    assert_eq!(run.wait().expect("our own child").code(), Some(0));
    assert_eq!(attempts_made(&scratch, "crash.txt"), 2);
    let status = scratch.status();
    assert_eq!((&status["total"]["quarantined"], &status["balanced"]), (&1.into(), &true.into()));
}

#[test]
fn a_live_run_pauses_goes_on_and_drains() {
    let scratch = new().with("children=1");
    let mut run = slowly(&scratch, 60);
    until(&mut run, "something is in flight", || in_flight(&scratch).is_some_and(|n| n > 0));
    assert_eq!(ctl(&scratch, "pause")["order"], "pause");
    until(&mut run, "the pause holds", || in_flight(&scratch) == Some(0));
    assert_eq!(ctl(&scratch, "status")["order"], "pause");
    let indexed = || scratch.status()["total"]["indexed"].as_u64();
    // What was in flight is committed within a second.
    until(&mut run, "all is at rest", || {
        let db = rusqlite::Connection::open(scratch.state().join("ledger.sqlite")).unwrap();
        let count = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        count("SELECT count(*) FROM documents WHERE state = 'pending' AND queue IS NULL") == 0
    });
    let done = indexed();
    assert!(done < Some(60));
    for _ in 0..10 {
        assert_eq!((in_flight(&scratch), indexed()), (Some(0), done), "nothing new is taken up");
    }
    assert_eq!(ctl(&scratch, "resume")["order"], "go");
    until(&mut run, "it goes on", || in_flight(&scratch).is_some_and(|n| n > 0));
    let told = scratch.call(&["ctl", "drain"]).ended(0);
    assert_eq!(told.stdout, "order           drain\n");
    assert_eq!(run.wait().expect("our own child").code(), Some(130));
    let status = scratch.status();
    assert!(status["total"]["pending"].as_u64() > Some(0), "what was not in flight is left: {status}");
    assert_eq!((&status["last_run"]["outcome"], &status["balanced"]), (&"interrupted".into(), &true.into()));
    scratch.call(&["ctl", "pause"]).ended(1);
}

#[test]
fn a_table_for_spreadsheets_is_rfc_4180_and_runs_no_formula() {
    let scratch = new();
    let formula = "=HYPERLINK(\"x\"),1.txt";
    scratch.put(formula, LETTER);
    scratch.put("two\nlines, and \"quotes\" Ünï.txt", LETTER);
    scratch.put("@at.txt", "");
    scratch.run().ended(0);
    let csv = scratch.call(&["list", "--format", "csv"]).ended(0).stdout;
    let rows = rows(&csv);
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{rows:?}");
    let at = rows[0].iter().position(|name| name == "path").expect("a column");
    let mut paths: Vec<&str> = rows[1..].iter().map(|row| row[at].as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, [&format!("'{formula}"), "'@at.txt", "two\nlines, and \"quotes\" Ünï.txt"]);
    let limited = scratch.call(&["list", "--format", "csv", "--limit", "1"]).ended(0).stdout;
    assert_eq!(self::rows(&limited).len(), 2);
}

/// Reads CSV strictly: every row ends with CR LF, quotes are doubled inside of quotes and nowhere else.
fn rows(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut rest = csv.chars().peekable();
    let mut quoted = false;
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => cell.extend(rest.next()),
            '"' if quoted => {
                quoted = false;
                assert!(matches!(rest.peek(), Some(',' | '\r')), "a quote inside of a cell");
            }
            c if quoted => cell.push(c),
            '"' => {
                assert_eq!(cell, "", "a quote inside of a cell");
                quoted = true;
            }
            ',' => row.push(std::mem::take(&mut cell)),
            '\r' => {
                assert_eq!(rest.next(), Some('\n'), "a bare CR");
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            '\n' => panic!("a bare LF"),
            c => cell.push(c),
        }
    }
    assert!(row.is_empty() && cell.is_empty() && !quoted, "the last row ends");
    rows
}

#[test]
fn status_tells_what_fails_since_when_and_what_is_due() {
    let scratch =
        new().with("kinds.\"crash.segv\".class='transient'").with("kinds.\"crash.segv\".delay='2h'");
    scratch.put("crash.txt", SEGV);
    scratch.put("good.txt", LETTER);
    scratch.run().ended(0);
    let status = scratch.status();
    let source = &status["sources"][0];
    let record = &scratch.list()["crash.txt"];
    assert_eq!(source["oldest_failure"], record["first_failed"]);
    assert_eq!(source["next_due"], record["next_attempt"]);
    assert_eq!(source["due_now"], 0);
    let due: BTreeMap<&str, u64> = source["due"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, n)| (key.as_str(), n.as_u64().unwrap()))
        .collect();
    assert_eq!(due, BTreeMap::from([("now", 0), ("within_hour", 0), ("within_day", 1), ("later", 0)]));
    assert_eq!((&source["coverage"], &status["breakers"]), (&0.5.into(), &Value::Array(Vec::new())));
    assert_eq!(status["last_run"]["outcome"], "completed");
    assert!(status["last_run"]["began"].as_str() <= status["last_run"]["ended"].as_str());
    let text = scratch.call(&["status"]).ended(0).stdout;
    for part in
        ["  oldest failure ", "  due again: 1 within the day; the first at ", "Last run: completed, began "]
    {
        assert!(text.contains(part), "{text}");
    }
    scratch.call(&["status", "--require-coverage", "0.5"]).ended(0);
    scratch.call(&["status", "--require-coverage", "0.51", "--format", "json"]).ended(3);
}

/// A state as a run leaves it, and then all kinds of things go wrong.
struct Drifted {
    scratch: Scratch,
    stray: DocumentId,
}

fn text_id(scratch: &Scratch, path: &str) -> DocumentId {
    DocumentId::parse(scratch.list()[path]["id"].as_str().unwrap()).unwrap()
}

fn drifted() -> Drifted {
    let scratch = new();
    for name in [
        "same.txt",
        "grown.txt",
        "gone.txt",
        "emptied.txt",
        "lost.txt",
        "altered.txt",
        "unkept.txt",
        "marked.txt",
    ] {
        scratch.put(name, format!("Words of {name} about the harbour.\n"));
    }
    scratch.run().ended(0);
    scratch.call(&["reconcile"]).ended(0);
    let id = |path: &str| text_id(&scratch, path);
    let stray = DocumentId::derive("nowhere", &Identity::item(b"stray"));
    let entry =
        |id, text: &str, state| Entry { id, title: None, path: "x".to_owned(), state, text: text.into() };
    let marked = scratch.text("marked.txt");
    let writes = vec![
        entry(id("altered.txt"), "something else", State::Indexed),
        entry(id("marked.txt"), &marked, State::Suspect),
        entry(stray, "a stray text of the harbour", State::Indexed),
    ];
    let removals = vec![id("lost.txt")];
    Embedded::open(&scratch.state()).unwrap().0.commit(&Batch { writes, removals }).unwrap();
    let unkept = ContentHash::of(scratch.text("unkept.txt").as_bytes());
    let mut texts = Texts::open(&scratch.state()).unwrap();
    texts.forget(&[unkept]).unwrap();
    texts.keep(&[(ContentHash::of(b"no one's"), "no one's")]).unwrap();
    drop(texts);
    scratch.put("new.txt", LETTER);
    scratch.put("emptied.txt", "");
    scratch.put("grown.txt", "Words that have grown since.\n");
    std::fs::remove_file(scratch.source().join("gone.txt")).unwrap();
    Drifted { scratch, stray }
}

/// Kind, place (a path or an id) and whether it was repaired, in order.
fn drifts(said: &Said) -> Vec<(String, String, bool)> {
    let mut drifts: Vec<_> = said
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("each line is an object"))
        .map(|drift| {
            let word = |key: &str| drift[key].as_str().map(str::to_owned);
            let place = word("path").or_else(|| word("id")).unwrap_or_default();
            (word("kind").expect("a kind"), place, drift["repaired"] == true)
        })
        .collect();
    drifts.sort();
    drifts
}

fn expected(of: &[(&str, &str, bool)]) -> Vec<(String, String, bool)> {
    of.iter().map(|(kind, place, repaired)| ((*kind).to_owned(), (*place).to_owned(), *repaired)).collect()
}

#[test]
fn each_drift_is_found_by_name_repaired_where_it_can_be_and_gone() {
    let Drifted { scratch, stray } = drifted();
    let reconcile = |words: &[&str]| scratch.call(&[&["reconcile", "--format", "jsonl"], words].concat());
    let stray = stray.to_string();
    let with = |repaired: bool| {
        expected(&[
            ("changed", "emptied.txt", false),
            ("changed", "grown.txt", false),
            ("missing_kept_text", "unkept.txt", false),
            ("missing_text", "altered.txt", repaired),
            ("missing_text", "lost.txt", repaired),
            ("missing_text", "marked.txt", repaired),
            ("orphan_kept_text", "", repaired),
            ("orphan_text", &stray, repaired),
            ("unrecorded", "new.txt", repaired),
            ("vanished", "gone.txt", false),
        ])
    };
    // Looking changes nothing.
    let before = scratch.list();
    for _ in 0..2 {
        assert_eq!(drifts(&reconcile(&[]).ended(3)), with(false));
    }
    assert_eq!(scratch.list(), before);
    let text = scratch.call(&["reconcile"]).ended(3).stdout;
    assert!(text.contains("unrecorded        new.txt: the ledger does not have it\n"), "{text}");
    assert!(text.ends_with(
        "10 drifts: 1 unrecorded, 1 vanished, 2 changed, 3 missing_text, 1 missing_kept_text, 1 orphan_text, 1 orphan_kept_text\n"
    ), "{text}");
    let json = scratch.call(&["reconcile", "--format", "json"]).ended(3);
    let json: Value = serde_json::from_str(&json.stdout).expect("one object");
    assert_eq!((&json["left"], &json["found"]["missing_text"]), (&10.into(), &3.into()));

    assert_eq!(drifts(&reconcile(&["--repair"]).ended(3)), with(true));
    let left = expected(&[
        ("changed", "emptied.txt", false),
        ("changed", "grown.txt", false),
        ("missing_kept_text", "unkept.txt", false),
        ("vanished", "gone.txt", false),
    ]);
    assert_eq!(drifts(&reconcile(&[]).ended(3)), left);
    assert_eq!(scratch.list()["new.txt"]["state"], "pending");
    scratch.run().ended(0);
    assert_eq!(drifts(&reconcile(&[]).ended(3)), left[2..3]);
    let found = |word: &str| paths(&scratch.call(&["search", word, "--format", "jsonl"]).ended(0));
    assert_eq!(found("stray"), [""; 0]);
    assert_eq!(found("lost harbour"), ["lost.txt"]);
    assert_eq!(found("altered harbour"), ["altered.txt"]);
    assert_eq!(scratch.list()["gone.txt"]["state"], "deleted");

    // What a repair leaves alone, a person's word heals.
    let id = text_id(&scratch, "unkept.txt").to_string();
    scratch.call(&["reprocess", "--id", &id]).ended(0);
    scratch.run().ended(0);
    let said = scratch.call(&["reconcile"]).ended(0);
    assert_eq!(said.stdout, "No drift: source, ledger and sink agree.\n");
    assert_eq!(scratch.status()["balanced"], true);
}

#[test]
fn an_index_that_is_gone_is_missing_every_text_and_is_written_again() {
    let scratch = mixed();
    let texts = scratch.list().values().filter(|record| !record["in_sink"].is_null()).count();
    std::fs::remove_dir_all(scratch.state().join("index")).unwrap();
    let said = scratch.call(&["reconcile", "--repair", "--format", "jsonl"]).ended(0);
    assert_eq!(drifts(&said).len(), texts);
    assert!(drifts(&said).iter().all(|(kind, _, repaired)| kind == "missing_text" && *repaired));
    scratch.call(&["reconcile"]).ended(0);
    scratch.run().ended(0);
    scratch.call(&["reconcile"]).ended(0);
    assert_eq!(paths(&scratch.call(&["search", "barges", "--format", "jsonl"]).ended(0)), ["good.txt"]);
}

#[test]
fn books_that_were_tampered_with_are_told() {
    let scratch = mixed();
    let db = rusqlite::Connection::open(scratch.state().join("ledger.sqlite")).unwrap();
    db.execute("UPDATE counters SET n = n + 1 WHERE state = 'indexed'", []).unwrap();
    drop(db);
    let said = scratch.call(&["reconcile", "--repair", "--format", "jsonl"]).ended(3);
    assert_eq!(drifts(&said), expected(&[("unbalanced", "", false)]));
    assert!(said.stdout.contains("2 documents are indexed, the events say 3"), "{said:?}");
}

#[test]
fn sources_are_meant_by_name_or_folder_and_a_root_that_is_gone_is_said() {
    let scratch = new();
    let settings = scratch.path.join("lazaret.toml");
    let folder = |name: &str| {
        let folder = scratch.path.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("a.txt"), format!("Words of {name}.\n")).unwrap();
        folder
    };
    let (one, two) = (folder("one"), folder("two"));
    let toml = format!("[[connector]]\nname = \"first\"\npath = \"{}\"\n", one.display());
    std::fs::write(&settings, toml).unwrap();
    scratch.call(&["run", "--config", settings.to_str().unwrap()]).ended(0);
    scratch.call(&["run", two.to_str().unwrap()]).ended(0);
    std::fs::write(one.join("b.txt"), LETTER).unwrap();
    std::fs::write(two.join("c.txt"), LETTER).unwrap();
    let found = |words: &[&str], status| {
        let said = scratch.call(&[&["reconcile", "--format", "jsonl"], words].concat()).ended(status);
        drifts(&said).into_iter().map(|(kind, place, _)| format!("{kind} {place}")).collect::<Vec<_>>()
    };
    assert_eq!(found(&["first"], 3), ["unrecorded b.txt"]);
    assert_eq!(found(&[two.to_str().unwrap()], 3), ["unrecorded c.txt"]);
    assert_eq!(found(&[], 3), ["unrecorded b.txt", "unrecorded c.txt"]);
    assert_eq!(found(&["third"], 2), [""; 0]);
    std::fs::rename(&two, scratch.path.join("away")).unwrap();
    assert_eq!(found(&["--repair"], 3), ["unlistable ", "unrecorded b.txt"]);
    let text = scratch.call(&["reconcile"]).ended(3).stdout;
    assert!(text.contains(&format!("unlistable        {}: the root ", two.display())), "{text}");
    assert_eq!(scratch.status()["total"]["deleted"], 0);
}

/// The program as an ordinary user, whom file modes bind.
#[test]
fn what_cannot_be_read_is_said_and_nothing_below_it_is_missed() {
    let scratch = new();
    scratch.put("closed/inside.txt", LETTER);
    scratch.put("good.txt", "Words.\n");
    let source = scratch.source();
    if !nobody_can_start(PROGRAMS) {
        return;
    }
    scratch.run_as_nobody(&[]).ended(0);
    let closed = source.join("closed");
    let mode = |mode| std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(mode)).unwrap();
    let found = |status| {
        let said = scratch.call_as_nobody(&["reconcile", "--format", "jsonl"]).ended(status);
        drifts(&said).into_iter().map(|(kind, place, _)| format!("{kind} {place}")).collect::<Vec<_>>()
    };
    mode(0o0);
    assert_eq!(found(3), ["unlistable closed"]);
    // Once a run has recorded that, it is still so.
    scratch.run_as_nobody(&[]).ended(0);
    assert_eq!(found(3), ["unlistable closed"]);
    let said = scratch.call_as_nobody(&["retry", "--all"]).ended(0);
    assert_eq!(said.stdout, "0 documents requeued\n", "only a listing settles a directory");
    mode(0o755);
    assert_eq!(found(3), ["changed closed"]);
    scratch.run_as_nobody(&[]).ended(0);
    assert_eq!(found(0), [""; 0]);
}
