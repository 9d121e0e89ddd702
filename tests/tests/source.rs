//! What a folder does to those who ingest it: names that are no text, links in circles, FIFOs, files that nobody may read,
//! shares that come up empty, restores with old times, files that change and go. Each item keeps its record, nothing is
//! taken for deleted that was not, and nothing is extracted again without need.

use serde_json::Value;
use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tests::zip::zip;
use tests::{Programs, Said, Scratch};

const PROGRAMS: Programs = Programs {
    lazaret: env!("CARGO_BIN_EXE_lazaret-under-test"),
    worker: env!("CARGO_BIN_EXE_worker-under-test"),
};

const LETTER: &str = "A letter about the harbour.\n";

fn new() -> Scratch {
    Scratch::new(PROGRAMS)
}

/// Says that a test was not made here.
#[expect(clippy::print_stderr, reason = "whoever runs the tests must see it")]
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// State and kind of a document; `-` for no kind.
fn outcome(scratch: &Scratch, path: &str) -> String {
    let records = scratch.list();
    let record = records.get(path).unwrap_or_else(|| panic!("no record of {path}: {:?}", records.keys()));
    format!("{} {}", record["state"].as_str().unwrap(), record["kind"].as_str().unwrap_or("-"))
}

fn paths_found(scratch: &Scratch, word: &str) -> Vec<String> {
    let said = scratch.call(&["search", word, "--format", "jsonl", "--limit", "10000"]).ended(0);
    let mut paths: Vec<String> = said
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["path"].as_str().unwrap().to_owned())
        .collect();
    paths.sort();
    paths
}

/// How many events the ledger has.
fn events(scratch: &Scratch) -> i64 {
    let db = rusqlite::Connection::open(scratch.state().join("ledger.sqlite")).unwrap();
    db.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap()
}

/// How often a stage took a document in hand.
fn starts(scratch: &Scratch) -> i64 {
    let db = rusqlite::Connection::open(scratch.state().join("ledger.sqlite")).unwrap();
    db.query_row(
        "SELECT count(*) FROM events WHERE change LIKE '{\"started\"%' OR change LIKE '{\"Started\"%'",
        [],
        |row| row.get(0),
    )
    .unwrap()
}

/// How many documents are in a state; the books balance.
fn total(scratch: &Scratch, state: &str) -> u64 {
    let status = scratch.status();
    assert_eq!(status["balanced"], true, "{status}");
    status["total"][state].as_u64().unwrap()
}

/// The program as an ordinary user, whom file modes bind.
fn as_nobody(scratch: &Scratch, words: &[&str]) -> Said {
    let mut command = scratch.command(words);
    if nix::unistd::geteuid().is_root() {
        for path in [scratch.path.clone(), scratch.source()] {
            nix::unistd::chown(&path, Some(65534.into()), Some(65534.into())).unwrap();
        }
        command.uid(65534).gid(65534);
    }
    Said::of(&command.output().expect("the program starts"))
}

/// Whether an ordinary user can start the programs where this build lies; the tests that need one are skipped where not.
fn nobody_can_start() -> bool {
    let mut command = std::process::Command::new(PROGRAMS.worker);
    if nix::unistd::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    let started = command
        .arg("--version")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status();
    if started.is_err() {
        skipped("an ordinary user cannot start the programs where this build lies");
    }
    started.is_ok()
}

#[test]
fn names_that_are_no_text_are_kept_byte_by_byte() {
    let scratch = new();
    let source = scratch.source();
    let names: [&[u8]; 6] = [
        b"bad-\xf1-name.txt",
        b"a\nb.txt",
        "e\u{301}.txt".as_bytes(),
        "\u{e9}.txt".as_bytes(),
        b"bang!.txt",
        b"escape-\x1b[31m.txt",
    ];
    for name in names {
        std::fs::write(source.join(OsStr::from_bytes(name)), LETTER).unwrap();
    }
    std::fs::write(source.join("n".repeat(255)), LETTER).unwrap();
    scratch.put("odd!/in.txt", LETTER);
    scratch.run().ended(0);
    let records = scratch.list();
    assert_eq!(records.len(), 8);
    for (path, record) in &records {
        assert_eq!(record["state"], "indexed", "{path:?}");
        assert_eq!(scratch.text(record["id"].as_str().unwrap()).trim(), LETTER.trim(), "{path:?}");
    }
    for path in
        ["a\nb.txt", "e\u{301}.txt", "\u{e9}.txt", "bang!.txt", "odd!!/in.txt", "escape-\u{1b}[31m.txt"]
    {
        assert_eq!(records[path]["path_bytes"], Value::Null, "{path:?}");
    }
    let bad =
        records.values().find(|record| record["path_bytes"] != Value::Null).expect("one name is no UTF-8");
    assert_eq!(bad["path_bytes"], "YmFkLfEtbmFtZS50eHQ=");
    let table = scratch.call(&["list"]).ended(0).stdout;
    assert!(!table.contains('\u{1b}') && table.lines().count() >= 9, "one line a document: {table}");
    let silent = events(&scratch);
    scratch.run().ended(0);
    assert_eq!(events(&scratch), silent);
}

#[test]
fn paths_longer_than_the_kernel_takes_are_read() {
    let scratch = new();
    let mut at = scratch.source();
    // Beyond 4096 bytes only steps from a directory to the next lead on.
    let name = "d".repeat(60);
    let deep = std::process::Command::new("sh")
        .arg("-c")
        .arg(format!("for i in $(seq 80); do mkdir {name} && cd -P {name} || exit 1; done; printf 'A letter about the harbour.' > end.txt"))
        .current_dir(&at)
        .status()
        .unwrap();
    if !deep.success() {
        skipped("this shell cannot make a path beyond 4096 bytes");
        return;
    }
    at.push(&name);
    scratch.run().ended(0);
    let records = scratch.list();
    let (path, record) = records.iter().next().unwrap();
    assert_eq!((records.len(), path.len(), &record["state"]), (1, 80 * 61 + 7, &Value::from("indexed")));
    assert_eq!(paths_found(&scratch, "harbour"), std::slice::from_ref(path));
}

#[test]
fn what_is_no_regular_file_is_one_record_and_is_not_opened() {
    let scratch = new();
    let source = scratch.source();
    scratch.put("d/good.txt", LETTER);
    nix::unistd::mkfifo(&source.join("a.docx"), nix::sys::stat::Mode::from_bits_truncate(0o644)).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(source.join("b.pdf")).unwrap();
    symlink(".", source.join("d/man")).unwrap();
    symlink("..", source.join("d/up")).unwrap();
    symlink("d/good.txt", source.join("link.txt")).unwrap();
    symlink("/etc/hostname", source.join("out.txt")).unwrap();
    symlink("nowhere", source.join("dangling.txt")).unwrap();
    std::fs::create_dir(source.join("directory.pdf")).unwrap();
    std::fs::write(source.join("directory.pdf/in.txt"), LETTER).unwrap();
    std::fs::hard_link(source.join("d/good.txt"), source.join("hard.txt")).unwrap();
    scratch.run().ended(0);
    let records = scratch.list();
    let found: Vec<_> = records
        .iter()
        .map(|(path, record)| {
            (path.as_str(), record["state"].as_str().unwrap(), record["kind"].as_str().unwrap_or("-"))
        })
        .collect();
    assert_eq!(
        found,
        [
            ("a.docx", "excluded", "policy.special_file"),
            ("b.pdf", "excluded", "policy.special_file"),
            ("d/good.txt", "indexed", "-"),
            ("d/man", "excluded", "policy.special_file"),
            ("d/up", "excluded", "policy.special_file"),
            ("dangling.txt", "excluded", "policy.special_file"),
            ("directory.pdf/in.txt", "indexed", "-"),
            ("hard.txt", "indexed", "-"),
            ("link.txt", "excluded", "policy.special_file"),
            ("out.txt", "excluded", "policy.special_file"),
        ]
    );
    let silent = events(&scratch);
    scratch.run().ended(0);
    assert_eq!(events(&scratch), silent);
}

#[test]
fn what_cannot_be_read_is_a_gap_and_its_siblings_go_on() {
    let scratch = new();
    if !nobody_can_start() {
        return;
    }
    let source = scratch.source();
    let closed = scratch.put("closed.txt", LETTER);
    scratch.put("a_directory/inside.txt", LETTER);
    scratch.put("z/good.txt", LETTER);
    let source = source.to_str().unwrap();
    as_nobody(&scratch, &["run", source]).ended(0);
    assert_eq!(total(&scratch, "indexed"), 3);

    // Unreadable is not deleted: what was known of it stands.
    let directory = scratch.source().join("a_directory");
    std::fs::set_permissions(&directory, Permissions::from_mode(0o0)).unwrap();
    std::fs::set_permissions(&closed, Permissions::from_mode(0o0)).unwrap();
    scratch.put("z/new.txt", LETTER);
    for _ in 0..2 {
        as_nobody(&scratch, &["run", source]).ended(0);
        assert_eq!(outcome(&scratch, "closed.txt"), "retrying source.denied");
        assert_eq!(outcome(&scratch, "a_directory"), "retrying source.denied");
        assert_eq!(outcome(&scratch, "a_directory/inside.txt"), "indexed -");
        assert_eq!(outcome(&scratch, "z/good.txt"), "indexed -");
        assert_eq!(outcome(&scratch, "z/new.txt"), "indexed -");
        assert_eq!(total(&scratch, "deleted"), 0);
    }
    assert_eq!(
        paths_found(&scratch, "harbour"),
        ["a_directory/inside.txt", "closed.txt", "z/good.txt", "z/new.txt"],
        "a failed attempt removes nothing"
    );

    std::fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&closed, Permissions::from_mode(0o644)).unwrap();
    as_nobody(&scratch, &["run", source]).ended(0);
    assert_eq!(outcome(&scratch, "closed.txt"), "indexed -");
    assert_eq!(outcome(&scratch, "a_directory"), "deleted source.denied");
    assert_eq!(outcome(&scratch, "a_directory/inside.txt"), "indexed -");
    assert_eq!(total(&scratch, "discovered"), 4);
}

#[test]
fn a_root_that_nobody_may_read_is_structural_and_deletes_nothing() {
    let scratch = new();
    if !nobody_can_start() {
        return;
    }
    scratch.put("good.txt", LETTER);
    let source = scratch.source();
    let words = ["run", source.to_str().unwrap()];
    as_nobody(&scratch, &words).ended(0);
    std::fs::set_permissions(&source, Permissions::from_mode(0o0)).unwrap();
    let said = as_nobody(&scratch, &words).ended(1);
    std::fs::set_permissions(&source, Permissions::from_mode(0o755)).unwrap();
    assert!(said.stderr.contains(source.to_str().unwrap()), "{}", said.stderr);
    assert_eq!((total(&scratch, "indexed"), total(&scratch, "deleted")), (1, 0));
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
    assert_eq!(paths_found(&scratch, "harbour"), ["first.txt", "moved.txt", "restored.txt"]);
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
    assert_eq!(outcome(&scratch, "skewed.txt"), "indexed -");
    assert_eq!(paths_found(&scratch, "lighthouse"), ["skewed.txt"]);
    assert!(paths_found(&scratch, "harbour").is_empty());
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
    assert!(paths_found(&scratch, "ebb").is_empty());
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
    let silent = events(&scratch);
    scratch.run().ended(0);
    assert_eq!(events(&scratch), silent, "an unchanged source makes no event");
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
    assert_eq!(outcome(&scratch, "d/e/deep.txt"), "deleted -");
    assert!(paths_found(&scratch, "harbour").is_empty());
    assert_eq!((total(&scratch, "discovered"), total(&scratch, "deleted")), (1, 2));
    // Back again: the same document, not another one.
    let id = record["id"].clone();
    scratch.put("gone.txt", LETTER);
    scratch.run().ended(0);
    assert_eq!(scratch.list()["gone.txt"]["id"], id);
    assert_eq!(outcome(&scratch, "gone.txt"), "indexed -");
    assert_eq!(paths_found(&scratch, "harbour"), ["gone.txt"]);
    assert_eq!((total(&scratch, "discovered"), total(&scratch, "deleted")), (2, 1));
}

#[test]
fn a_container_takes_its_members_along_and_brings_them_back() {
    let scratch = new();
    let path = scratch
        .put("box.zip", zip(&[("one.txt", "The harbour, one.\n"), ("d/two.txt", "The harbour, two.\n")]));
    scratch.run().ended(0);
    assert_eq!(paths_found(&scratch, "harbour"), ["box.zip!/d/two.txt", "box.zip!/one.txt"]);
    let ids: Vec<Value> = scratch.list().values().map(|record| record["id"].clone()).collect();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    scratch.put("other.txt", "Another one.\n");
    scratch.run().ended(0);
    for path in ["box.zip", "box.zip!/one.txt", "box.zip!/d/two.txt"] {
        assert_eq!(outcome(&scratch, path), "deleted -");
    }
    assert!(paths_found(&scratch, "harbour").is_empty());
    std::fs::write(&path, bytes).unwrap();
    scratch.run().ended(0);
    assert_eq!(paths_found(&scratch, "harbour"), ["box.zip!/d/two.txt", "box.zip!/one.txt"]);
    let mut again = scratch.list();
    again.remove("other.txt");
    assert_eq!(again.values().map(|record| record["id"].clone()).collect::<Vec<_>>(), ids);
    assert_eq!(total(&scratch, "deleted"), 0);
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
    assert_eq!(outcome(&scratch, "box.zip!/lost.txt"), "deleted -");
    assert_eq!(outcome(&scratch, "box.zip!/new.txt"), "indexed -");
    assert_eq!(scratch.text("box.zip!/edited.txt").trim(), "The lighthouse, after.");
    assert_eq!(after["box.zip!/edited.txt"]["id"], before["box.zip!/edited.txt"]["id"]);
    assert_eq!(paths_found(&scratch, "harbour"), ["box.zip!/new.txt", "box.zip!/same.txt"]);
    assert_eq!(paths_found(&scratch, "lighthouse"), ["box.zip!/edited.txt"]);
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
        assert_eq!(outcome(&scratch, member), "indexed -");
    }
    assert_ne!(outcome(&scratch, "box.zip"), "indexed -");
    assert_eq!(paths_found(&scratch, "harbour"), ["box.zip!/one.txt", "box.zip!/two.txt"]);
    std::fs::write(&path, &bytes).unwrap();
    scratch.run().ended(0);
    assert_eq!(outcome(&scratch, "box.zip"), "indexed -");
    assert_eq!(total(&scratch, "discovered"), 3);
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
    assert_eq!(paths_found(&scratch, "harbour"), all);
    scratch.settings = vec!["policy.exclude=['*.tmp', 'draft', '*.zip']".to_owned()];
    scratch.run().ended(0);
    for path in ["b.tmp", "draft", "draft/a.txt", "box.zip", "box.zip!/in.txt"] {
        assert_eq!(outcome(&scratch, path), "excluded policy.path", "{path}");
        assert_eq!(scratch.list()[path]["in_sink"], Value::Null, "{path}");
    }
    assert_eq!(paths_found(&scratch, "harbour"), ["keep.txt"]);
    let silent = events(&scratch);
    scratch.run().ended(0);
    assert_eq!(events(&scratch), silent);
    scratch.settings.clear();
    scratch.run().ended(0);
    assert_eq!(paths_found(&scratch, "harbour"), all);
    for path in ["b.tmp", "draft/a.txt", "box.zip", "box.zip!/in.txt", "keep.txt"] {
        assert_eq!(outcome(&scratch, path), "indexed -", "{path}");
    }
    assert_eq!(outcome(&scratch, "draft"), "deleted policy.path");
    // A file too large is a policy of its own, and growing out of it is a change.
    scratch.settings = vec!["limits.input=20".to_owned()];
    scratch.run().ended(0);
    assert_eq!(outcome(&scratch, "keep.txt"), "excluded policy.too_large");
    assert!(paths_found(&scratch, "harbour").is_empty());
}

#[test]
fn files_without_bytes_are_excluded_by_name_and_start_no_parser() {
    let scratch = new();
    for name in ["empty.txt", "empty.pdf", "empty.docx"] {
        scratch.put(name, "");
    }
    scratch.run().ended(0);
    for name in ["empty.txt", "empty.pdf", "empty.docx"] {
        assert_eq!(outcome(&scratch, name), "excluded policy.empty_file");
        assert_eq!(scratch.list()[name]["attempts"], 0);
    }
    scratch.put("empty.txt", LETTER);
    scratch.run().ended(0);
    assert_eq!(outcome(&scratch, "empty.txt"), "indexed -");
    scratch.put("empty.txt", "");
    scratch.run().ended(0);
    assert_eq!(outcome(&scratch, "empty.txt"), "excluded policy.empty_file");
    assert!(paths_found(&scratch, "harbour").is_empty());
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
        assert_eq!((total(&scratch, "indexed"), total(&scratch, "deleted")), (5, 0));
        assert_eq!(paths_found(&scratch, "harbour").len(), 5);
    }
    let source = source.to_str().unwrap();
    scratch.call(&["run", source, "--accept-deletions"]).ended(0);
    assert_eq!((total(&scratch, "discovered"), total(&scratch, "deleted")), (0, 5));
    assert!(paths_found(&scratch, "harbour").is_empty());
    std::fs::remove_dir(source).unwrap();
    std::fs::rename(&away, source).unwrap();
    scratch.run().ended(0);
    assert_eq!((total(&scratch, "indexed"), total(&scratch, "deleted")), (5, 0));
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
    assert_eq!((total(&scratch, "indexed"), total(&scratch, "deleted")), (251, 250));
    let found = paths_found(&scratch, "harbour");
    assert_eq!(found.len(), 250);
    assert!(found.iter().all(|path| path.starts_with("moved/")));
    for n in 0..101 {
        std::fs::remove_file(source.join(format!("moved/{n}.txt"))).unwrap();
    }
    let said = scratch.run().ended(0);
    assert!(said.stdout.contains("101 documents are missing and none is deleted"), "{}", said.stdout);
    assert_eq!(total(&scratch, "indexed"), 251);
    std::fs::write(source.join("moved/0.txt"), "The harbour, number 0.\n").unwrap();
    scratch.run().ended(0);
    assert_eq!((total(&scratch, "indexed"), total(&scratch, "deleted")), (151, 350));
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
    let found = outcome(&scratch, "growing.txt");
    assert_eq!(found, "retrying source.changed");
    assert!(paths_found(&scratch, "word").is_empty());
    // Once it stands still the next listing sees other bytes, and its time has come.
    scratch.put("growing.txt", LETTER);
    scratch.run().ended(0);
    assert_eq!(outcome(&scratch, "growing.txt"), "indexed -");
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
    assert!(total(&scratch, "retrying") > 90, "most were not fetched yet");
    let source = scratch.source();
    scratch.call(&["run", source.to_str().unwrap(), "--accept-deletions"]).ended(0);
    assert_eq!((total(&scratch, "indexed"), total(&scratch, "deleted")), (8, 100));
}

#[test]
fn sources_are_apart_and_run_in_order() {
    let scratch = new();
    let (one, two) = (scratch.path.join("one"), scratch.path.join("two"));
    for (root, word) in [(&one, "harbour"), (&two, "lighthouse")] {
        std::fs::create_dir_all(root).unwrap();
        std::fs::write(root.join("same.txt"), format!("A letter about the {word}.\n")).unwrap();
    }
    let settings = scratch.path.join("settings.toml");
    let connector =
        |name: &str, path: &Path| format!("[[connector]]\nname = '{name}'\npath = '{}'\n", path.display());
    std::fs::write(&settings, connector("second", &two) + &connector("first", &one)).unwrap();
    scratch.call(&["run", "--config", settings.to_str().unwrap()]).ended(0);
    let of = |name: &str| {
        let said = scratch.call(&["list", "--source", name, "--format", "jsonl"]).ended(0);
        let record: Value = serde_json::from_str(said.stdout.trim()).unwrap();
        record
    };
    let (first, second) = (of("first"), of("second"));
    assert_ne!(first["id"], second["id"]);
    assert!(
        second["last_attempt"].as_str().unwrap() < first["first_seen"].as_str().unwrap(),
        "strictly in order"
    );
    assert_eq!(scratch.text(first["id"].as_str().unwrap()).trim(), "A letter about the harbour.");
    let said = scratch.call(&["text", "same.txt"]).ended(1);
    assert!(
        said.stderr.contains(first["id"].as_str().unwrap())
            && said.stderr.contains(second["id"].as_str().unwrap())
    );
    // A run touches only the sources that it names, and without a name all that the ledger knows.
    std::fs::remove_file(one.join("same.txt")).unwrap();
    std::fs::write(one.join("other.txt"), LETTER).unwrap();
    std::fs::remove_file(two.join("same.txt")).unwrap();
    std::fs::write(two.join("other.txt"), LETTER).unwrap();
    scratch.call(&["run"]).ended(0);
    assert_eq!((total(&scratch, "indexed"), total(&scratch, "deleted")), (2, 2));
    let status = scratch.status();
    let names: Vec<_> =
        status["sources"].as_array().unwrap().iter().map(|source| source["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["first", "second"]);
}

#[test]
fn the_state_folder_inside_of_the_source_is_left_out() {
    let scratch = new();
    scratch.put("a.txt", LETTER);
    let root = scratch.path.clone();
    let said = scratch.call(&["run", root.to_str().unwrap()]).ended(0);
    assert!(
        said.stdout.contains("the state folder lies inside of the source (state) and is left out"),
        "{}",
        said.stdout
    );
    assert!(scratch.list().keys().all(|path| path.starts_with("source/")), "{:?}", scratch.list().keys());
}

#[test]
fn an_unchanged_source_starts_nothing() {
    let scratch = new();
    scratch.put("a.txt", LETTER);
    scratch.put("b.pdf", "%PDF-1.4\nnothing of a document\n");
    scratch.put("box.zip", zip(&[("in.txt", "The harbour inside.\n")]));
    scratch.run().ended(0);
    let before = (events(&scratch), starts(&scratch));
    assert_eq!(before.1, 4, "one attempt a document");
    for _ in 0..3 {
        scratch.run().ended(0);
    }
    assert_eq!((events(&scratch), starts(&scratch)), before);
}
