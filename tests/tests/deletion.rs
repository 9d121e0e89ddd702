//! What is gone from a source: a tombstone that is not found any more, with all that was inside; and nothing is taken for gone
//! that was only out of reach.

use serde_json::Value;
use std::time::Duration;
use tests::zip::zip;
use tests::{Programs, Scratch};

const PROGRAMS: Programs = tests::programs!();

const LETTER: &str = "A letter about the harbour.\n";

fn new() -> Scratch {
    Scratch::new(PROGRAMS)
}

#[test]
fn a_deleted_file_is_a_tombstone_and_is_not_found_any_more() {
    let scratch = new();
    let path = scratch.put("gone.txt", LETTER);
    scratch.put("stays.txt", "A letter about the lighthouse.\n");
    scratch.put("d/e/deep.txt", LETTER);
    scratch.run().ended(0);
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_dir_all(scratch.source().join("d")).unwrap();
    scratch.run().ended(0);
    let record = &scratch.list()["gone.txt"];
    assert_eq!((record["state"].as_str(), &record["in_sink"]), (Some("deleted"), &Value::Null));
    assert_eq!(scratch.outcome("d/e/deep.txt"), "deleted -");
    assert!(scratch.found("harbour").is_empty());
    assert_eq!((scratch.total("discovered"), scratch.total("deleted")), (1, 2));
    // Back again: the same document, not another one.
    let id = record["id"].clone();
    scratch.put("gone.txt", LETTER);
    scratch.run().ended(0);
    assert_eq!(scratch.list()["gone.txt"]["id"], id);
    assert_eq!(scratch.outcome("gone.txt"), "indexed -");
    assert_eq!(scratch.found("harbour"), ["gone.txt"]);
    assert_eq!((scratch.total("discovered"), scratch.total("deleted")), (2, 1));
}

#[test]
fn a_container_takes_its_members_along_and_brings_them_back() {
    let scratch = new();
    let path = scratch
        .put("box.zip", zip(&[("one.txt", "The harbour, one.\n"), ("d/two.txt", "The harbour, two.\n")]));
    scratch.run().ended(0);
    assert_eq!(scratch.found("harbour"), ["box.zip!/d/two.txt", "box.zip!/one.txt"]);
    let ids: Vec<Value> = scratch.list().values().map(|record| record["id"].clone()).collect();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    scratch.put("other.txt", "Another one.\n");
    scratch.run().ended(0);
    for path in ["box.zip", "box.zip!/one.txt", "box.zip!/d/two.txt"] {
        assert_eq!(scratch.outcome(path), "deleted -");
    }
    assert!(scratch.found("harbour").is_empty());
    std::fs::write(&path, bytes).unwrap();
    scratch.run().ended(0);
    assert_eq!(scratch.found("harbour"), ["box.zip!/d/two.txt", "box.zip!/one.txt"]);
    let mut again = scratch.list();
    again.remove("other.txt");
    assert_eq!(again.values().map(|record| record["id"].clone()).collect::<Vec<_>>(), ids);
    assert_eq!(scratch.total("deleted"), 0);
}

#[test]
fn a_container_with_new_bytes_settles_its_members_one_by_one() {
    let scratch = new();
    scratch.put(
        "box.zip",
        zip(&[
            ("same.txt", "The harbour, as ever.\n"),
            ("edited.txt", "The harbour, before.\n"),
            ("lost.txt", "The harbour, lost.\n"),
        ]),
    );
    scratch.run().ended(0);
    let before = scratch.list();
    scratch.put(
        "box.zip",
        zip(&[
            ("same.txt", "The harbour, as ever.\n"),
            ("edited.txt", "The lighthouse, after.\n"),
            ("new.txt", "The harbour, new.\n"),
        ]),
    );
    scratch.run().ended(0);
    let after = scratch.list();
    assert_eq!(after["box.zip!/same.txt"], before["box.zip!/same.txt"], "not touched at all");
    assert_eq!(scratch.outcome("box.zip!/lost.txt"), "deleted -");
    assert_eq!(scratch.outcome("box.zip!/new.txt"), "indexed -");
    assert_eq!(scratch.text("box.zip!/edited.txt").trim(), "The lighthouse, after.");
    assert_eq!(after["box.zip!/edited.txt"]["id"], before["box.zip!/edited.txt"]["id"]);
    assert_eq!(scratch.found("harbour"), ["box.zip!/new.txt", "box.zip!/same.txt"]);
    assert_eq!(scratch.found("lighthouse"), ["box.zip!/edited.txt"]);
}

#[test]
fn a_container_that_breaks_leaves_its_members_as_they_are() {
    let scratch = new();
    let bytes = zip(&[("one.txt", "The harbour, one.\n"), ("two.txt", "The harbour, two.\n")]);
    let path = scratch.put("box.zip", &bytes);
    scratch.run().ended(0);
    std::fs::write(&path, b"PK\x03\x04 and nothing more of it").unwrap();
    scratch.run().ended(0);
    for member in ["box.zip!/one.txt", "box.zip!/two.txt"] {
        assert_eq!(scratch.outcome(member), "indexed -");
    }
    assert_ne!(scratch.outcome("box.zip"), "indexed -");
    assert_eq!(scratch.found("harbour"), ["box.zip!/one.txt", "box.zip!/two.txt"]);
    std::fs::write(&path, &bytes).unwrap();
    scratch.run().ended(0);
    assert_eq!(scratch.outcome("box.zip"), "indexed -");
    assert_eq!(scratch.total("discovered"), 3);
}

#[test]
fn a_root_that_comes_up_empty_is_one_alert_and_deletes_nothing() {
    let scratch = new();
    for n in 0..5 {
        scratch.put(&format!("d/{n}.txt"), LETTER);
    }
    scratch.run().ended(0);
    let source = scratch.source();
    let away = scratch.path.join("away");
    std::fs::rename(&source, &away).unwrap();
    std::fs::create_dir(&source).unwrap();
    for _ in 0..2 {
        let said = scratch.run().ended(0);
        assert_eq!(
            said.stdout.matches("the root is empty: 5 documents are missing and none is deleted").count(),
            1
        );
        assert_eq!((scratch.total("indexed"), scratch.total("deleted")), (5, 0));
        assert_eq!(scratch.found("harbour").len(), 5);
    }
    let source = source.to_str().unwrap();
    scratch.call(&["run", source, "--accept-deletions"]).ended(0);
    assert_eq!((scratch.total("discovered"), scratch.total("deleted")), (0, 5));
    assert!(scratch.found("harbour").is_empty());
    std::fs::remove_dir(source).unwrap();
    std::fs::rename(&away, source).unwrap();
    scratch.run().ended(0);
    assert_eq!((scratch.total("indexed"), scratch.total("deleted")), (5, 0));
}

#[test]
fn too_many_losses_at_once_are_not_believed_but_moves_are() {
    let scratch = new();
    for n in 0..250 {
        scratch.put(&format!("d/{n}.txt"), format!("The harbour, number {n}.\n"));
    }
    scratch.put("stays.txt", "The lighthouse.\n");
    scratch.run().ended(0);
    let source = scratch.source();
    std::fs::rename(source.join("d"), source.join("moved")).unwrap();
    let said = scratch.run().ended(0);
    assert!(!said.stdout.contains("missing"), "{}", said.stdout);
    assert_eq!((scratch.total("indexed"), scratch.total("deleted")), (251, 250));
    let found = scratch.found("harbour");
    assert_eq!(found.len(), 250);
    assert!(found.iter().all(|path| path.starts_with("moved/")));
    for n in 0..101 {
        std::fs::remove_file(source.join(format!("moved/{n}.txt"))).unwrap();
    }
    let said = scratch.run().ended(0);
    assert!(said.stdout.contains("101 documents are missing and none is deleted"), "{}", said.stdout);
    assert_eq!(scratch.total("indexed"), 251);
    std::fs::write(source.join("moved/0.txt"), "The harbour, number 0.\n").unwrap();
    scratch.run().ended(0);
    assert_eq!((scratch.total("indexed"), scratch.total("deleted")), (151, 350));
}

#[test]
fn files_that_vanish_between_listing_and_fetch_are_no_storm_of_errors() {
    let scratch = new().with("children=1").with("cage.faults=true");
    let slow = "#!lazaret-fault 1\nslow 20 100\ntext The harbour, slowly.\n";
    for n in 0..8 {
        scratch.put(&format!("a{n}.fault"), slow.replace("slowly", &format!("slowly, {n}")));
    }
    let doomed: Vec<_> =
        (0..100).map(|n| scratch.put(&format!("z/{n:03}.txt"), format!("Number {n}.\n"))).collect();
    let mut run = scratch.start();
    let since = std::time::Instant::now();
    loop {
        let said = scratch.call(&["status", "--format", "json"]);
        let status: Value = serde_json::from_str(&said.stdout).unwrap_or_default();
        if status["total"]["discovered"] == 108 {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "the listing ends");
        std::thread::sleep(Duration::from_millis(20));
    }
    for path in &doomed {
        std::fs::remove_file(path).unwrap();
    }
    assert!(run.wait().unwrap().success());
    let records = scratch.list();
    for n in 0..100 {
        let record = &records[&format!("z/{n:03}.txt")];
        let found = (record["state"].as_str().unwrap(), record["kind"].as_str().unwrap_or("-"));
        assert!(matches!(found, ("retrying", "source.vanished") | ("indexed", "-")), "{n}: {found:?}");
    }
    assert!(scratch.total("retrying") > 90, "most were not fetched yet");
    let source = scratch.source();
    scratch.call(&["run", source.to_str().unwrap(), "--accept-deletions"]).ended(0);
    assert_eq!((scratch.total("indexed"), scratch.total("deleted")), (8, 100));
}
