//! Bad ground under the books: a state folder of another version, damage, rows altered by hand, a second supervisor, a full
//! disk, a lost index, signals. Each ends with a clear word and the right exit code, and loses nothing more.

use rusqlite::Connection;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};
use tests::nobody::skipped;
use tests::{Programs, Said, Scratch};

const PROGRAMS: Programs = tests::programs!();

/// A scratch with some documents that were ingested.
fn ingested() -> Scratch {
    let scratch = Scratch::new(PROGRAMS);
    for n in 0..20 {
        scratch.put(&format!("{n:02}.txt"), format!("A letter about the harbour, number {n}.\n"));
    }
    scratch.run().ended(0);
    scratch
}

fn ledger(scratch: &Scratch) -> PathBuf {
    scratch.state().join("ledger.sqlite")
}

/// Every file of the state folder with its bytes, but for the lock's note and what SQLite makes for readers.
fn bytes(state: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![state.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the folder can be read") {
            let path = entry.expect("the entry can be read").path();
            let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file() && name != "lock" && !name.ends_with("-shm") {
                let bytes = std::fs::read(&path).expect("the file can be read");
                if !(name.ends_with("-wal") && bytes.is_empty()) {
                    files.insert(path, bytes);
                }
            }
        }
    }
    files
}

fn attempts(scratch: &Scratch) -> Vec<(String, u64)> {
    scratch
        .list()
        .into_iter()
        .map(|(path, record)| (path, record["attempts"].as_u64().expect("attempts are a number")))
        .collect()
}

/// Waits until something holds.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_secs(60), "{what} in a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Documents that take a while, each in a child that gives signs of life.
fn slow(count: usize, pauses: u32) -> Scratch {
    let scratch = Scratch::new(PROGRAMS).with("cage.faults=true").with("children=2");
    for n in 0..count {
        let text = format!("#!lazaret-fault 1\nslow {pauses} 100\ntext The harbour, slowly, number {n}.\n");
        scratch.put(&format!("{n:03}.fault"), text);
    }
    scratch
}

/// A run whose output is kept.
fn started(scratch: &Scratch) -> Child {
    let source = scratch.source();
    let mut command = scratch.command(&["run", source.to_str().expect("scratch paths are UTF-8")]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    command.spawn().expect("the program starts")
}

fn until_something_is_in_flight(scratch: &Scratch) {
    wait_until("something is in flight", || {
        let said = scratch.call(&["ctl", "status", "--format", "json"]);
        let status: Value = serde_json::from_str(&said.stdout).unwrap_or_default();
        status["in_flight"].as_array().is_some_and(|in_flight| !in_flight.is_empty())
    });
}

fn ended(child: Child) -> Said {
    let output: Output = child.wait_with_output().expect("the program was started here");
    Said::of(&output)
}

fn signal(child: &Child, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid fits"));
    nix::sys::signal::kill(pid, signal).expect("the program was started here");
}

#[test]
fn a_state_folder_of_a_newer_version_is_left_alone() {
    let scratch = ingested();
    let db = Connection::open(ledger(&scratch)).unwrap();
    db.pragma_update(None, "user_version", 1000).unwrap();
    db.close().unwrap();
    let before = bytes(&scratch.state());
    for said in [
        scratch.run(),
        scratch.call(&["status"]),
        scratch.call(&["list"]),
        scratch.call(&["search", "harbour"]),
    ] {
        let said = said.ended(1);
        assert!(
            said.stderr.contains("ledger.sqlite was made by a newer lazaret (schema 1000"),
            "{}",
            said.stderr
        );
    }
    assert_eq!(bytes(&scratch.state()), before);
}

#[test]
fn a_damaged_page_is_found_after_an_unclean_end_and_nothing_is_written() {
    let mut scratch = ingested();
    let db = Connection::open(ledger(&scratch)).unwrap();
    let page: i64 = db
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'documents_by_path'", [], |row| {
            row.get(0)
        })
        .unwrap();
    let size: i64 = db.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
    db.close().unwrap();
    scratch.put("new.txt", "One more letter.\n");
    scratch.variables = vec![("LAZARET_DIE_AT".to_owned(), "listing".to_owned())];
    assert_eq!(scratch.run().status, 137);
    scratch.variables.clear();
    let file = std::fs::File::options().write(true).open(ledger(&scratch)).unwrap();
    let place = u64::try_from((page - 1) * size + 8).unwrap();
    file.write_all_at(&[0xa5; 200], place).unwrap();
    let before = bytes(&scratch.state());
    let said = scratch.run().ended(1);
    assert!(said.stderr.contains("ledger.sqlite is damaged"), "{}", said.stderr);
    assert!(said.stderr.contains("put a copy of the state folder back"), "{}", said.stderr);
    assert_eq!(bytes(&scratch.state()), before);
}

#[test]
fn a_row_that_was_altered_by_hand_unbalances_the_books() {
    let scratch = ingested();
    let db = Connection::open(ledger(&scratch)).unwrap();
    db.execute("UPDATE documents SET state = 'quarantined' WHERE path = '03.txt'", []).unwrap();
    db.close().unwrap();
    let said = scratch.call(&["status", "--format", "json"]).ended(3);
    let status: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(status["balanced"], false);
    scratch.run().ended(3);
    let db = Connection::open(ledger(&scratch)).unwrap();
    db.execute("UPDATE documents SET state = 'indexed' WHERE path = '03.txt'", []).unwrap();
    db.close().unwrap();
    scratch.run().ended(0);
    assert_eq!(scratch.status()["balanced"], true);
}

#[test]
fn a_row_that_was_taken_out_by_hand_unbalances_the_books() {
    let scratch = ingested();
    let db = Connection::open(ledger(&scratch)).unwrap();
    db.execute("DELETE FROM documents WHERE path = '03.txt'", []).unwrap();
    db.close().unwrap();
    let said = scratch.call(&["status", "--format", "json"]).ended(3);
    let status: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(status["balanced"], false);
}

#[test]
fn a_second_supervisor_is_told_who_is_at_work() {
    let scratch = slow(2, 600);
    let first = started(&scratch);
    until_something_is_in_flight(&scratch);
    let second = scratch.run().ended(1);
    assert!(
        second.stderr.contains(&format!("in use by another run (process {})", first.id())),
        "{}",
        second.stderr
    );
    signal(&first, nix::sys::signal::Signal::SIGKILL);
    assert_eq!(ended(first).status, 137);
    // The lock heals by itself: the next run is not refused.
    let third = started(&scratch);
    until_something_is_in_flight(&scratch);
    signal(&third, nix::sys::signal::Signal::SIGKILL);
    ended(third);
}

#[test]
fn a_signal_drains_the_run_and_the_next_one_goes_on() {
    for (sent, code) in [(nix::sys::signal::Signal::SIGINT, 130), (nix::sys::signal::Signal::SIGTERM, 143)] {
        let scratch = slow(40, 2);
        let run = started(&scratch);
        until_something_is_in_flight(&scratch);
        signal(&run, sent);
        let said = ended(run).ended(code);
        assert!(said.stdout.starts_with("Run interrupted"), "{}", said.stdout);
        let status = scratch.status();
        assert_eq!(status["balanced"], true);
        assert_eq!(status["total"]["retrying"], 0, "nothing was lost: {status}");
        let left = status["total"]["pending"].as_u64().unwrap();
        assert!(left > 0, "it stopped in the middle: {status}");
        scratch.run().ended(0);
        assert_eq!(scratch.status()["total"]["indexed"], 40);
        assert!(attempts(&scratch).iter().all(|(_, attempts)| *attempts == 1), "{:?}", attempts(&scratch));
        assert_eq!(scratch.found("harbour").len(), 40);
    }
}

#[test]
fn a_second_signal_puts_back_what_is_in_flight() {
    let scratch = slow(3, 100);
    let run = started(&scratch);
    until_something_is_in_flight(&scratch);
    let since = Instant::now();
    // Two of a kind that arrive together are one.
    signal(&run, nix::sys::signal::Signal::SIGINT);
    signal(&run, nix::sys::signal::Signal::SIGTERM);
    let said = ended(run);
    assert!(matches!(said.status, 130 | 143), "{said:?}");
    assert!(since.elapsed() < Duration::from_secs(9), "the children would take ten seconds");
    assert!(said.stdout.starts_with("Run interrupted"), "{}", said.stdout);
    all_put_back(&scratch);
}

#[test]
fn an_index_that_is_gone_or_damaged_is_made_anew_from_the_kept_texts() {
    let scratch = ingested();
    let before = attempts(&scratch);
    let index = scratch.state().join("index");
    std::fs::remove_dir_all(&index).unwrap();
    let said = scratch.run().ended(0);
    assert!(said.stdout.contains("20 documents are to be written again from kept texts"), "{}", said.stdout);
    assert_eq!((attempts(&scratch), scratch.found("harbour").len()), (before.clone(), 20));
    for entry in std::fs::read_dir(&index).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "term" || kind == "idx" || kind == "store") {
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            let middle = file.metadata().unwrap().len() / 2;
            file.write_all_at(&[0xa5; 16], middle).unwrap();
        }
    }
    let said = scratch.run().ended(0);
    assert!(said.stdout.contains("20 documents are to be written again from kept texts"), "{}", said.stdout);
    assert_eq!((attempts(&scratch), scratch.found("harbour").len()), (before, 20));
    let silent = scratch.run().ended(0);
    assert!(!silent.stdout.contains("written again"), "{}", silent.stdout);
}

#[test]
fn kept_texts_that_are_gone_as_well_are_extracted_again() {
    let scratch = ingested();
    std::fs::remove_dir_all(scratch.state().join("index")).unwrap();
    for name in ["texts.sqlite", "texts.sqlite-wal", "texts.sqlite-shm"] {
        std::fs::remove_file(scratch.state().join(name)).ok();
    }
    scratch.run().ended(0);
    assert_eq!(scratch.status()["total"]["indexed"], 20);
    assert_eq!(scratch.found("harbour").len(), 20);
    assert_eq!(scratch.text("07.txt").trim(), "A letter about the harbour, number 7.");
}

#[test]
fn a_source_that_is_no_folder_is_2_where_it_is_unknown_and_1_where_it_is_known() {
    let scratch = ingested();
    let nowhere = scratch.path.join("nowhere");
    let said = scratch.call(&["run", nowhere.to_str().unwrap()]).ended(2);
    assert!(said.stderr.contains("cannot ingest"), "{}", said.stderr);
    let file = scratch.put("07.txt", "A letter about the harbour, number 7.\n");
    scratch.call(&["run", file.to_str().unwrap()]).ended(2);
    let source = scratch.source();
    std::fs::rename(&source, scratch.path.join("away")).unwrap();
    let said = scratch.call(&["run", source.to_str().unwrap()]).ended(1);
    assert!(said.stderr.contains(source.to_str().unwrap()), "{}", said.stderr);
    scratch.call(&["run"]).ended(1);
    assert_eq!(scratch.status()["total"]["indexed"], 20, "nothing is deleted");
    assert_eq!(scratch.found("harbour").len(), 20);
}

#[test]
fn coverage_that_is_asked_for_must_hold_for_each_source() {
    let scratch = ingested();
    let poor = scratch.path.join("poor");
    std::fs::create_dir_all(&poor).unwrap();
    std::fs::write(poor.join("good.txt"), "One that is good.\n").unwrap();
    std::fs::write(poor.join("bad.pdf"), "%PDF-1.4\nnothing of a document\n").unwrap();
    std::fs::write(poor.join("empty.txt"), "").unwrap();
    let (rich, poor) = (scratch.source(), poor);
    let (rich, poor) = (rich.to_str().unwrap(), poor.to_str().unwrap());
    scratch.call(&["run", rich, "--require-coverage", "1"]).ended(0);
    scratch.call(&["run", rich, poor, "--require-coverage", "0.5"]).ended(0);
    let said = scratch.call(&["run", rich, poor, "--require-coverage", "0.51"]).ended(3);
    assert_eq!(
        said.stderr.lines().last(),
        Some(&*format!("{poor}: coverage is 50.0 %, and 0.51 was asked for"))
    );
    scratch.call(&["run", rich, "--require-coverage", "0.51"]).ended(0);
    scratch.call(&["run", rich, "--require-coverage", "1.1"]).ended(2);
}

#[test]
fn commands_that_only_read_create_no_state_folder() {
    let scratch = Scratch::new(PROGRAMS);
    for words in [
        &["status"][..],
        &["list"],
        &["show", "a.txt"],
        &["text", "a.txt"],
        &["search", "harbour"],
        &["ctl", "status"],
    ] {
        let said = scratch.call(words).ended(1);
        assert!(said.stderr.starts_with("error: "), "{words:?}: {}", said.stderr);
    }
    scratch.call(&["run"]).ended(2);
    scratch.call(&["run", "/nowhere/at/all"]).ended(2);
    assert!(!scratch.state().exists());
}

#[test]
fn the_state_folder_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = ingested();
    assert_eq!(std::fs::metadata(scratch.state()).unwrap().permissions().mode() & 0o777, 0o700);
}

/// Of letters that do not compress.
fn noise(seed: u64, length: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = format!("The harbour, number {seed}. ");
    while text.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let word = WORDS[usize::try_from(state % 64).unwrap()];
        write!(text, "{word} {:x} ", state >> 8).unwrap();
    }
    text
}

const WORDS: [&str; 64] = [
    "anchor",
    "ballast",
    "barge",
    "beacon",
    "berth",
    "bollard",
    "bow",
    "breaker",
    "buoy",
    "cabin",
    "cable",
    "canal",
    "captain",
    "cargo",
    "chain",
    "chart",
    "coast",
    "compass",
    "crane",
    "crew",
    "current",
    "deck",
    "dock",
    "drift",
    "ebb",
    "ferry",
    "fleet",
    "fog",
    "gale",
    "gangway",
    "hatch",
    "haven",
    "helm",
    "hull",
    "jetty",
    "keel",
    "lantern",
    "ledger",
    "lighthouse",
    "lock",
    "mast",
    "mooring",
    "net",
    "oar",
    "pier",
    "pilot",
    "port",
    "quay",
    "raft",
    "reef",
    "rope",
    "rudder",
    "sail",
    "salt",
    "shoal",
    "shore",
    "sluice",
    "stern",
    "storm",
    "surge",
    "tide",
    "wharf",
    "winch",
    "yard",
];

#[test]
fn a_disk_that_fills_up_stops_the_run_and_the_next_one_goes_on() {
    let scratch = Scratch::new(PROGRAMS);
    let state = scratch.state();
    std::fs::create_dir_all(&state).unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=12m", "lazaret-test"]).arg(&state).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        skipped("only root, where it may mount, can make a disk that is full");
        return;
    }
    let unmount = Unmount(state.clone());
    const COUNT: usize = 400;
    for n in 0..COUNT {
        scratch.put(&format!("{n:04}.txt"), noise(n as u64 + 1, 64 << 10));
    }
    let said = scratch.run().ended(1);
    assert!(said.stderr.contains("no space left on the disk"), "{}", said.stderr);
    assert!(said.stderr.contains(state.to_str().unwrap()), "the path is named: {}", said.stderr);
    assert!(said.stderr.contains("make room and run again"), "{}", said.stderr);
    let larger = Command::new("mount").args(["-o", "remount,size=512m"]).arg(&state).status().unwrap();
    assert!(larger.success());
    let status = scratch.status();
    assert_eq!(status["balanced"], true, "{status}");
    assert!(
        status["total"]["indexed"].as_u64().unwrap() < COUNT as u64,
        "it stopped in the middle: {status}"
    );
    for state in ["retrying", "quarantined", "suspect", "excluded"] {
        assert_eq!(status["total"][state], 0, "nothing is put down to the documents: {status}");
    }
    scratch.run().ended(0);
    let status = scratch.status();
    assert_eq!((&status["balanced"], &status["total"]["indexed"]), (&Value::Bool(true), &COUNT.into()));
    assert_eq!(scratch.found("harbour").len(), COUNT);
    drop(unmount);
}

/// Takes a mount away, whatever becomes of the test.
struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

#[test]
fn a_run_that_reaches_its_deadline_is_aborted_and_what_was_in_flight_is_put_back() {
    let mut scratch = slow(3, 100);
    scratch.settings.push("run.deadline='1s'".to_owned());
    let said = scratch.run().ended(1);
    assert!(said.stderr.contains("the run has reached its deadline of 1"), "{}", said.stderr);
    assert!(said.stdout.starts_with("Run aborted"), "{}", said.stdout);
    all_put_back(&scratch);
}

#[test]
fn a_connector_that_reaches_its_deadline_is_aborted_and_the_next_one_does_not_start() {
    let scratch = slow(3, 100);
    let other = scratch.path.join("other");
    std::fs::create_dir_all(&other).unwrap();
    std::fs::write(other.join("a.txt"), "The harbour.\n").unwrap();
    let settings = scratch.path.join("settings.toml");
    let text = format!(
        "[[connector]]\nname = 'slow'\npath = '{}'\ndeadline = '1s'\n[[connector]]\nname = 'other'\npath = '{}'\n",
        scratch.source().display(),
        other.display()
    );
    std::fs::write(&settings, text).unwrap();
    let said = scratch.call(&["run", "--config", settings.to_str().unwrap()]).ended(1);
    assert!(said.stderr.contains("the connector slow has reached its deadline of 1"), "{}", said.stderr);
    all_put_back(&scratch);
    let status = scratch.status();
    let other =
        status["sources"].as_array().unwrap().iter().find(|source| source["name"] == "other").unwrap();
    assert_eq!(other["discovered"], 0, "{status}");
}

#[test]
fn a_run_in_which_nothing_moves_is_aborted_and_what_was_in_flight_is_put_back() {
    let mut scratch = slow(3, 100);
    scratch.settings.push("run.watchdog='2s'".to_owned());
    let said = scratch.run().ended(1);
    assert!(said.stderr.contains("nothing has come to an end for 2"), "{}", said.stderr);
    assert!(said.stderr.contains(".fault"), "what hangs is named: {}", said.stderr);
    all_put_back(&scratch);
}

/// Everything is pending, as if nothing had been begun.
fn all_put_back(scratch: &Scratch) {
    let status = scratch.status();
    assert_eq!(
        (&status["balanced"], &status["total"]["pending"]),
        (&Value::Bool(true), &3.into()),
        "{status}"
    );
    for (path, record) in scratch.list() {
        assert_eq!((&record["attempts"], &record["kind"]), (&0.into(), &Value::Null), "{path}");
    }
    let db = Connection::open(ledger(scratch)).unwrap();
    let in_hand: i64 = db.query_row("SELECT count(*) FROM in_hand", [], |row| row.get(0)).unwrap();
    assert_eq!(in_hand, 0);
}
