//! What a run takes in hand, and what not: whatever the times say, all that changed is taken, and nothing that did not. An
//! extraction is made once: copies share it, and moved or touched files keep it.

use serde_json::Value;
use std::io::Write;
use std::time::{Duration, SystemTime};
use tests::questions::{state, told};
use tests::scripts::act;
use tests::zip::zip;
use tests::{Programs, Scratch};

const PROGRAMS: Programs = tests::programs!();

const LETTER: &str = "A letter about the harbour.\n";

fn new() -> Scratch {
    Scratch::new(PROGRAMS)
}

#[test]
fn an_unchanged_source_starts_nothing() {
    let scratch = new();
    scratch.put("a.txt", LETTER);
    scratch.put("b.pdf", "%PDF-1.4\nnothing of a document\n");
    scratch.put("box.zip", zip(&[("in.txt", "The harbour inside.\n")]));
    scratch.run().ended(0);
    let before = (scratch.events(), scratch.starts());
    assert_eq!(before.1, 4, "one attempt a document");
    for _ in 0..3 {
        scratch.run().ended(0);
    }
    assert_eq!((scratch.events(), scratch.starts()), before);
}

#[test]
fn a_file_that_comes_with_old_times_is_found() {
    let scratch = new();
    scratch.put("first.txt", LETTER);
    scratch.run().ended(0);
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_262_304_000);
    let path = scratch.put("restored.txt", LETTER);
    std::fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    let moved = scratch.path.join("elsewhere.txt");
    std::fs::write(&moved, LETTER).unwrap();
    std::fs::rename(&moved, scratch.source().join("moved.txt")).unwrap();
    scratch.run().ended(0);
    assert_eq!(scratch.found("harbour"), ["first.txt", "moved.txt", "restored.txt"]);
    assert_eq!(scratch.list()["restored.txt"]["mtime"], "2010-01-01T00:00:00.000Z");
}

#[test]
fn a_time_in_the_future_hides_no_later_edit() {
    let scratch = new();
    let path = scratch.put("skewed.txt", LETTER);
    let future = SystemTime::now() + Duration::from_secs(400_000_000);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(future).unwrap();
    scratch.run().ended(0);
    std::fs::write(&path, "A letter about the lighthouse.\n").unwrap();
    scratch.run().ended(0);
    assert_eq!(scratch.outcome("skewed.txt"), "indexed -");
    assert_eq!(scratch.found("lighthouse"), ["skewed.txt"]);
    assert!(scratch.found("harbour").is_empty());
}

#[test]
fn an_edit_that_leaves_size_and_times_is_found() {
    let scratch = new();
    let path = scratch.put("sly.txt", "The ebb goes out.\n");
    let then = std::fs::metadata(&path).unwrap().modified().unwrap();
    scratch.run().ended(0);
    std::fs::write(&path, "The tide comes in\n").unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
    scratch.run().ended(0);
    assert_eq!(scratch.text("sly.txt").trim(), "The tide comes in");
    assert!(scratch.found("ebb").is_empty());
}

#[test]
fn a_file_that_grows_while_it_is_read_is_no_document_yet() {
    let scratch = new().with("children=1");
    let path = scratch.put("growing.txt", "x".repeat(64 << 20));
    let growing = std::thread::spawn(move || {
        let mut file = std::fs::File::options().append(true).open(path).unwrap();
        let until = std::time::Instant::now() + Duration::from_secs(4);
        while std::time::Instant::now() < until {
            file.write_all(b" and one more word").unwrap();
        }
    });
    scratch.run().ended(0);
    growing.join().unwrap();
    let found = scratch.outcome("growing.txt");
    assert_eq!(found, "retrying source.changed");
    assert!(scratch.found("word").is_empty());
    // Once it stands still the next listing sees other bytes, and its time has come.
    scratch.put("growing.txt", LETTER);
    scratch.run().ended(0);
    assert_eq!(scratch.outcome("growing.txt"), "indexed -");
}

#[test]
fn policies_are_judged_at_every_listing() {
    let mut scratch = new();
    scratch.put("keep.txt", LETTER);
    scratch.put("draft/a.txt", LETTER);
    scratch.put("b.tmp", LETTER);
    scratch.put("box.zip", zip(&[("in.txt", "The harbour inside.\n")]));
    scratch.run().ended(0);
    let all = ["b.tmp", "box.zip!/in.txt", "draft/a.txt", "keep.txt"];
    assert_eq!(scratch.found("harbour"), all);
    scratch.settings = vec!["policy.exclude=['*.tmp', 'draft', '*.zip']".to_owned()];
    scratch.run().ended(0);
    for path in ["b.tmp", "draft", "draft/a.txt", "box.zip", "box.zip!/in.txt"] {
        assert_eq!(scratch.outcome(path), "excluded policy.path", "{path}");
        assert_eq!(scratch.list()[path]["in_sink"], Value::Null, "{path}");
    }
    assert_eq!(scratch.found("harbour"), ["keep.txt"]);
    let silent = scratch.events();
    scratch.run().ended(0);
    assert_eq!(scratch.events(), silent);
    scratch.settings.clear();
    scratch.run().ended(0);
    assert_eq!(scratch.found("harbour"), all);
    for path in ["b.tmp", "draft/a.txt", "box.zip", "box.zip!/in.txt", "keep.txt"] {
        assert_eq!(scratch.outcome(path), "indexed -", "{path}");
    }
    assert_eq!(scratch.outcome("draft"), "deleted policy.path");
    // A file too large is a policy of its own, and growing out of it is a change.
    scratch.settings = vec!["limits.input=20".to_owned()];
    scratch.run().ended(0);
    assert_eq!(scratch.outcome("keep.txt"), "excluded policy.too_large");
    assert!(scratch.found("harbour").is_empty());
}

#[test]
fn formats_that_are_let_in_or_shut_out_are_judged_again() {
    let mut scratch = new();
    scratch.put("a.csv", "harbour,1\nquay,2\nmole,3\n");
    scratch.put("b.txt", "A letter of the harbour.\n");
    scratch.settings = vec!["policy.types=['text']".to_owned()];
    scratch.run().ended(0);
    assert_eq!(scratch.standing()["a.csv"], "excluded - policy.type 1");
    scratch.settings.clear();
    scratch.run().ended(0);
    assert_eq!(scratch.standing()["a.csv"], "indexed - - 1");
    assert_eq!(scratch.found("harbour").len(), 2);
    scratch.settings = vec!["policy.types=['csv']".to_owned()];
    scratch.run().ended(0);
    assert_eq!(scratch.hits("harbour"), [("a.csv".to_owned(), false)]);
    assert_eq!(scratch.list()["b.txt"]["state"], "excluded");
}

#[test]
fn touching_everything_extracts_nothing_again() {
    let scratch = new();
    for n in 0..10 {
        scratch.put(&format!("{n}.txt"), format!("A letter about the harbour, number {n}.\n"));
    }
    scratch.put("box.zip", zip(&[("in.txt", "The harbour inside.\n"), ("bad.pdf", "%PDF-1.4\nnothing\n")]));
    scratch.put("bad.pdf", "%PDF-1.4\nnothing of a document\n");
    scratch.run().ended(0);
    let before = scratch.list();
    let now = SystemTime::now() + Duration::from_secs(5);
    for entry in std::fs::read_dir(scratch.source()).unwrap() {
        std::fs::File::options().write(true).open(entry.unwrap().path()).unwrap().set_modified(now).unwrap();
    }
    scratch.run().ended(0);
    let after = scratch.list();
    for (path, record) in &before {
        let mut record = record.clone();
        if after[path]["parent"] == Value::Null {
            assert_ne!(after[path]["mtime"], record["mtime"], "{path}: the times are brought up to date");
        }
        record["mtime"] = after[path]["mtime"].clone();
        assert_eq!(after[path], record, "{path}");
    }
    let silent = scratch.events();
    scratch.run().ended(0);
    assert_eq!(scratch.events(), silent, "an unchanged source makes no event");
}

#[test]
fn what_is_moved_keeps_its_extraction() {
    let scratch = new();
    for n in 0..150 {
        scratch.put(&format!("old/{n:03}.txt"), format!("Letter number {n} of the harbour.\n"));
    }
    scratch.run().ended(0);
    std::fs::rename(scratch.source().join("old"), scratch.source().join("new")).unwrap();
    std::fs::rename(scratch.source().join("new/007.txt"), scratch.source().join("seven.txt")).unwrap();
    let said = scratch.run().ended(0);
    assert!(!said.stdout.contains("nothing is deleted"), "{}", said.stdout);
    let records = scratch.list();
    let moved: Vec<_> = records.iter().filter(|(path, _)| !path.starts_with("old/")).collect();
    assert_eq!(moved.len(), 150);
    for (path, record) in moved {
        assert_eq!(told(record), "indexed - - 0", "{path}: no child was made for it");
    }
    assert!(records.iter().filter(|(path, _)| path.starts_with("old/")).all(|(_, r)| state(r) == "deleted"));
    assert_eq!(scratch.found("harbour").len(), 150);
}

#[test]
fn the_same_bytes_are_worked_on_once() {
    let scratch = new().with("cage.faults=true");
    for n in 0..40 {
        scratch.put(&format!("copy-{n:02}.txt"), "The same letter, forty times.\n");
        scratch.put(&format!("crash-{n:02}"), act("all alike", "signal segv"));
    }
    scratch.run().ended(0);
    let made = |prefix: &str, attempts: u64| {
        scratch
            .list()
            .iter()
            .filter(|(path, record)| path.starts_with(prefix) && record["attempts"] == attempts)
            .count()
    };
    assert_eq!((made("copy", 1), made("copy", 0)), (1, 39));
    assert_eq!((made("crash", 1), made("crash", 0)), (1, 39));
    let records = scratch.list();
    let maker =
        records.values().find(|record| record["attempts"] == 1 && state(record) == "indexed").unwrap();
    for (path, record) in records.iter().filter(|(_, record)| record["attempts"] == 0) {
        assert!(record["same_as"].is_string(), "{path}");
        if path.starts_with("copy") {
            assert_eq!((state(record), &record["same_as"]), ("indexed", &maker["id"]), "{path}");
        } else {
            assert_eq!(told(record), "quarantined permanent crash.segv 0", "{path}");
        }
    }
    assert_eq!(scratch.found("forty").len(), 40);

    // A further copy takes the result of before, and one that a person asks for is made anew, for all that share it.
    scratch.put("later.txt", "The same letter, forty times.\n");
    scratch.run().ended(0);
    assert_eq!(scratch.list()["later.txt"]["same_as"], maker["id"]);
    scratch.call(&["reprocess", "--path", "later.txt"]).ended(0);
    scratch.run().ended(0);
    let again: Vec<_> = scratch.list().into_values().filter(|record| record["format"] == "text").collect();
    assert_eq!(again.len(), 41);
    assert!(again.iter().all(|record| state(record) == "indexed"));
    let makers: Vec<_> = again.iter().filter(|record| record["attempts"] == 1).collect();
    assert_eq!(makers.len(), 1);
    assert!(again.iter().filter(|r| r["attempts"] == 0).all(|r| r["same_as"] == makers[0]["id"]));
    // The maker goes; what it made stays.
    std::fs::remove_file(scratch.source().join(makers[0]["path"].as_str().unwrap())).unwrap();
    scratch.run().ended(0);
    assert_eq!(scratch.found("forty").len(), 40);
    assert_eq!(scratch.status()["balanced"], true);
}
