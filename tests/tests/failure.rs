//! Failure as a state, on the real program: what is tried again and when, what waits for what, what is shared, and what opens
//! and closes breakers.

use rusqlite::Connection;
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use tests::{Programs, Said, Scratch};

const PROGRAMS: Programs = Programs {
    lazaret: env!("CARGO_BIN_EXE_lazaret-under-test"),
    worker: env!("CARGO_BIN_EXE_worker-under-test"),
};

fn new() -> Scratch {
    Scratch::new(PROGRAMS)
}

fn act(note: &str, line: &str) -> String {
    format!("#!lazaret-fault 1\n# {note}\n{line}\n")
}

/// State, why, kind and attempts, in words.
fn told(record: &Value) -> String {
    let word = |key: &str| record[key].as_str().unwrap_or("-").to_owned();
    format!("{} {} {} {}", word("state"), word("why"), word("kind"), record["attempts"])
}

fn each(scratch: &Scratch) -> BTreeMap<String, String> {
    scratch.list().iter().map(|(path, record)| (path.clone(), told(record))).collect()
}

fn count(scratch: &Scratch, wanted: impl Fn(&Value) -> bool) -> usize {
    scratch.list().values().filter(|record| wanted(record)).count()
}

fn kind(record: &Value) -> &str {
    record["kind"].as_str().unwrap_or("-")
}

fn state(record: &Value) -> &str {
    record["state"].as_str().expect("a state is a word")
}

fn found(scratch: &Scratch, word: &str) -> Vec<(String, bool)> {
    let said = scratch.call(&["search", word, "--format", "jsonl", "--limit", "10000"]).ended(0);
    said.stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("each line is an object"))
        .map(|hit| (hit["path"].as_str().unwrap().to_owned(), hit["stale"].as_bool().unwrap()))
        .collect()
}

/// How many attempts the ledger knows of, in all.
fn starts(scratch: &Scratch) -> i64 {
    let db = Connection::open(scratch.state().join("ledger.sqlite")).unwrap();
    db.query_row("SELECT count(*) FROM events WHERE change LIKE '{\"Started\"%'", [], |row| row.get(0))
        .unwrap()
}

/// A settings file with this text, and a run over the source with it.
fn run_with(scratch: &Scratch, settings: &str) -> Said {
    let file = scratch.path.join("settings.toml");
    std::fs::write(&file, settings).unwrap();
    let (file, source) = (file.to_str().unwrap().to_owned(), scratch.source());
    scratch.call(&["run", source.to_str().unwrap(), "--config", &file])
}

/// A Python script of its own, beside the source.
fn script(scratch: &Scratch, name: &str, text: &str) -> PathBuf {
    let path = scratch.path.join(name);
    std::fs::write(
        &path,
        format!("#!/usr/bin/env python3\nimport os, signal, sys\ntext = sys.stdin.read()\n{text}\n"),
    )
    .unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&scratch.path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn extractor(format: &str, script: &Path) -> String {
    format!("[[extractor]]\nformat = \"{format}\"\ncommand = [\"{}\"]\n", script.display())
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A run as an ordinary user, whom file modes bind.
fn run_as_nobody(scratch: &Scratch, more: &[&str]) -> Said {
    let source = scratch.source();
    let mut command = scratch.command(&[&["run", source.to_str().unwrap()], more].concat());
    if is_root() {
        nix::unistd::chown(&scratch.path, Some(65534.into()), Some(65534.into())).unwrap();
        command.uid(65534).gid(65534);
    }
    Said::of(&command.output().expect("the program starts"))
}

fn allow(files: &[PathBuf], allowed: bool) {
    for file in files {
        let mode = if allowed { 0o644 } else { 0 };
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
        if is_root() {
            nix::unistd::chown(file, Some(65534.into()), Some(65534.into())).unwrap();
        }
    }
}

#[test]
fn a_transient_failure_is_tried_again_with_delay_until_it_heals() {
    let scratch =
        new().with("kinds.\"source.denied\".delay='50ms'").with("kinds.\"source.denied\".attempts=1000");
    let file = scratch.put("locked.txt", "The key was lost, and found again.\n");
    allow(std::slice::from_ref(&file), false);
    let first = run_as_nobody(&scratch, &[]).ended(0);
    assert!(first.stdout.contains("due"), "the summary says when: {}", first.stdout);
    let record = &scratch.list()["locked.txt"];
    assert_eq!((state(record), kind(record)), ("retrying", "source.denied"));
    assert!(record["next_attempt"].is_string(), "{record}");
    let tried = record["attempts"].as_u64().unwrap();

    // One run that waits for what is due, and in the middle of it somebody finds the key.
    let source = scratch.source();
    let mut command = scratch.command(&["run", source.to_str().unwrap(), "--until-settled"]);
    if is_root() {
        command.uid(65534).gid(65534);
    }
    let mut run =
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    while scratch.list()["locked.txt"]["attempts"].as_u64().unwrap() < tried + 3 {
        assert!(run.try_wait().unwrap().is_none(), "it waits for what is due");
    }
    allow(std::slice::from_ref(&file), true);
    assert!(run.wait().unwrap().success());
    let record = &scratch.list()["locked.txt"];
    assert_eq!(state(record), "indexed");
    assert!(record["attempts"].as_u64().unwrap() > tried + 3, "{record}");
}

#[test]
fn attempts_that_are_used_up_end_in_a_state_with_a_name() {
    let scratch =
        new().with("kinds.\"source.denied\".delay='1ms'").with("kinds.\"source.denied\".attempts=3");
    let file = scratch.put("locked.txt", "Nobody has the key.\n");
    allow(std::slice::from_ref(&file), false);
    run_as_nobody(&scratch, &["--until-settled"]).ended(0);
    assert_eq!(each(&scratch)["locked.txt"], "quarantined gave_up source.denied 3");
    // It is still a document that is missing, and a person's word brings it back.
    assert_eq!(scratch.status()["sources"][0]["quarantined"], 1);
    allow(&[file], true);
    scratch.call(&["retry", "--kind", "source.denied"]).ended(0);
    run_as_nobody(&scratch, &[]).ended(0);
    assert_eq!(each(&scratch)["locked.txt"], "indexed - - 1");
}

#[test]
fn a_permanent_failure_waits_for_the_pipeline_and_for_nothing_else() {
    let scratch = new().with("cage.faults=true");
    scratch.put("page.ps", "%!PS-Adobe-3.0\n(The harbour in winter) show\n");
    scratch.put("crash", act("one", "signal segv"));
    scratch.put("good.txt", "A good text about the quay.\n");
    scratch.run().ended(0);
    let before = each(&scratch);
    assert_eq!(before["page.ps"], "quarantined permanent format.unsupported 1");
    assert_eq!(before["crash"], "quarantined permanent crash.segv 1");
    let started = starts(&scratch);
    for _ in 0..3 {
        scratch.run().ended(0);
    }
    assert_eq!((each(&scratch), starts(&scratch)), (before.clone(), started), "nothing was tried blindly");

    // An engine for the format appears: exactly what it concerns is due.
    let script = script(&scratch, "reads-ps", "print(text.split('(')[1].split(')')[0])");
    run_with(&scratch, &extractor("postscript", &script)).ended(0);
    let after = each(&scratch);
    assert_eq!(after["page.ps"], "indexed - - 1");
    assert_eq!(scratch.text("page.ps"), "The harbour in winter");
    assert_eq!((&after["crash"], &after["good.txt"]), (&before["crash"], &before["good.txt"]));
    assert_eq!(starts(&scratch), started + 1);
    // Taken away again, it takes nothing along.
    scratch.run().ended(0);
    assert_eq!((each(&scratch), starts(&scratch)), (after, started + 1));
}

#[test]
fn another_version_makes_due_exactly_what_failed_with_it() {
    let scratch = new();
    for n in 0..6 {
        scratch.put(&format!("good-{n}.csv"), format!("harbour,{n}\nquay,2\nmole,3\n"));
        scratch.put(&format!("bad-{n}.csv"), format!("broken,{n}\nquay,2\nmole,3\n"));
        scratch.put(&format!("other-{n}.txt"), format!("Another text, number {n}.\n"));
    }
    let path =
        script(&scratch, "reads-csv", "sys.exit('cannot read this') if 'broken' in text else print(text)");
    let settings = extractor("csv", &path);
    run_with(&scratch, &settings).ended(0);
    let first = scratch.list();
    assert_eq!(told(&first["bad-3.csv"]), "quarantined permanent extractor.failed 1");
    assert_eq!(first["bad-3.csv"]["message"], "exit status 1: cannot read this");
    assert_eq!(first["bad-3.csv"]["evidence"]["exit_code"], 1);
    assert_eq!(count(&scratch, |record| state(record) == "indexed"), 12);
    let started = starts(&scratch);

    script(&scratch, "reads-csv", "print(text) # mended");
    run_with(&scratch, &settings).ended(0);
    let second = scratch.list();
    assert_eq!(starts(&scratch), started + 6, "six were due");
    for (path, record) in &second {
        assert_eq!(state(record), "indexed", "{path}");
        if path.starts_with("bad") {
            assert_ne!(record["pipeline"]["extract"], first[path]["pipeline"]["extract"]);
        } else {
            assert_eq!(record, &first[path], "what was good stays as it was");
        }
    }
    // What was made under the old version is found by name.
    let file = scratch.path.join("settings.toml");
    let stale =
        ["reprocess", "--stale", "--dry-run", "--format", "jsonl", "--config", file.to_str().unwrap()];
    let said = scratch.call(&stale).ended(0);
    let good = said.stdout.lines().filter(|line| line.contains("good-")).count();
    assert_eq!(
        (good, said.stdout.contains("bad-"), said.stdout.contains("other-")),
        (6, false, false),
        "{said:?}"
    );
}

#[test]
fn a_raised_limit_makes_due_what_met_it_and_nothing_else() {
    let limits = |memory: &str| {
        let mut scratch = new();
        scratch.settings = vec![
            "cage.faults=true".to_owned(),
            format!("limits.memory='{memory}'"),
            format!("limits.large.memory='{memory}'"),
            "limits.large.wall='120s'".to_owned(),
            "limits.large.cpu='30s'".to_owned(),
            "limits.large.stalled='30s'".to_owned(),
            "limits.large.output='64MiB'".to_owned(),
        ];
        scratch
    };
    let mut scratch = limits("64MiB");
    scratch.put("hungry", act("one", "panic-huge"));
    scratch.put("crash", act("two", "signal segv"));
    scratch.run().ended(0);
    assert_eq!(each(&scratch)["hungry"], "quarantined permanent memory.limit 1");
    assert_eq!(scratch.list()["hungry"]["evidence"]["limit"]["value"], 64 << 20);
    let started = starts(&scratch);
    for (memory, more) in [("64MiB", 0), ("48MiB", 0), ("512MiB", 1), ("1GiB", 1)] {
        scratch.settings.clone_from(&limits(memory).settings);
        scratch.run().ended(0);
        assert_eq!(starts(&scratch), started + more, "{memory}");
    }
    // With enough memory it does what it wanted to do.
    assert_eq!(each(&scratch)["hungry"], "quarantined permanent parse.panic 1");
}

#[test]
fn what_meets_a_limit_is_tried_once_more_in_the_large_lane() {
    let mut scratch =
        new().with("cage.faults=true").with("limits.memory='64MiB'").with("limits.large.memory='512MiB'");
    scratch.put("larger", act("one", "panic-huge"));
    scratch.put("too-large", act("two", "grow"));
    scratch.put("good.txt", "A good text.\n");
    scratch.run().ended(0);
    let records = each(&scratch);
    assert_eq!(records["larger"], "quarantined permanent parse.panic 2", "there was room for its last words");
    assert_eq!(records["too-large"], "quarantined permanent memory.limit 2");
    assert_eq!(scratch.list()["too-large"]["evidence"]["limit"]["value"], 512 << 20);
    let started = starts(&scratch);
    scratch.run().ended(0);
    assert_eq!(starts(&scratch), started, "and never again");

    // What was too slow gets its last try there.
    scratch.settings.extend(["limits.stalled='200ms'", "limits.large.stalled='300ms'"].map(str::to_owned));
    scratch.settings.extend(["retry.attempts=3", "kinds.\"time.stalled\".delay='1ms'"].map(str::to_owned));
    scratch.put("sleepy", act("three", "sleep"));
    let source = scratch.source();
    scratch.call(&["run", source.to_str().unwrap(), "--until-settled"]).ended(0);
    assert_eq!(each(&scratch)["sleepy"], "quarantined gave_up time.stalled 3");
    let limits: Vec<Value> =
        history(&scratch, "sleepy").iter().map(|a| a["evidence"]["limit"]["value"].clone()).collect();
    assert_eq!(limits, [200, 200, 300]);
}

fn history(scratch: &Scratch, path: &str) -> Vec<Value> {
    let said = scratch.call(&["show", path, "--format", "json"]).ended(0);
    let shown: Value = serde_json::from_str(&said.stdout).unwrap();
    shown["history"].as_array().unwrap().clone()
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
    assert_eq!(found(&scratch, "forty").len(), 40);

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
    assert_eq!(found(&scratch, "forty").len(), 40);
    assert_eq!(scratch.status()["balanced"], true);
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
    assert_eq!(found(&scratch, "harbour").len(), 150);
}

#[test]
fn damage_at_the_source_is_said_to_be_there() {
    let scratch = new();
    let files = tests::repository().join("fixtures/files");
    scratch.put("cut.docx", std::fs::read(files.join("damaged/cut.docx")).unwrap());
    scratch.put("garbage.pdf", std::fs::read(files.join("damaged/garbage.pdf")).unwrap());
    scratch.put("glyphs.txt", std::fs::read(files.join("damaged/glyphs.txt")).unwrap());
    scratch.put("inside.zip", std::fs::read(files.join("archives/one-bad-member.zip")).unwrap());
    scratch.put("good.txt", "Nothing is wrong with it.\n");
    scratch.run().ended(0);
    for (path, record) in scratch.list() {
        let expected = if record["class"] == "corrupt" { Value::from("source") } else { Value::Null };
        assert_eq!(record["damage"], expected, "{path}");
    }
    assert_eq!(scratch.list()["cut.docx"]["damage"], "source");
}

#[test]
fn a_source_that_is_down_is_one_alert_and_heals_by_itself() {
    let number = std::env::var("LAZARET_FILES").ok().and_then(|n| n.parse().ok()).unwrap_or(400_usize);
    let scratch = new();
    let alerts = scratch.path.join("alerts");
    let settings = [format!("alert.command=['/bin/sh', '-c', 'cat >> {}']", alerts.display())];
    let mut scratch = scratch;
    scratch.settings.extend(settings);
    let files: Vec<_> = (0..number)
        .map(|n| scratch.put(&format!("{}/{n:05}.txt", n % 10), format!("Letter {n} of the harbour.\n")))
        .collect();
    allow(&files, true);
    run_as_nobody(&scratch, &[]).ended(0);
    assert_eq!(count(&scratch, |record| state(record) == "indexed"), number);

    allow(&files, false);
    let down = run_as_nobody(&scratch, &[]).ended(3);
    assert_eq!(down.stdout.matches("breaker is open").count(), 1, "{}", down.stdout);
    assert_eq!(
        count(&scratch, |record| state(record) == "retrying" && kind(record) == "source.denied"),
        number
    );
    let tried = count(&scratch, |record| record["attempts"] == 1);
    assert!((40..=80).contains(&tried), "{tried} of {number} were tried");
    assert_eq!(found(&scratch, "harbour").len(), number.min(10_000), "the old texts are still there");
    assert!(found(&scratch, "harbour").iter().all(|(_, stale)| *stale), "and marked");
    let status = scratch.status();
    assert_eq!(
        (&status["balanced"], &status["sources"][0]["deleted"]),
        (&Value::from(true), &Value::from(0))
    );
    assert_eq!(status["breakers"][0]["scope"], "source");
    assert_eq!(status["breakers"][0]["kind"], "source.denied");
    let told = std::fs::read_to_string(&alerts).unwrap();
    assert_eq!(told.lines().count(), 1, "{told}");
    let alert: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(alert["topic"], "breaker");

    // Another night of the same: a probe, and nothing else.
    let started = starts(&scratch);
    run_as_nobody(&scratch, &[]).ended(3);
    assert_eq!(starts(&scratch), started);
    assert_eq!(std::fs::read_to_string(&alerts).unwrap(), told, "the alert was raised once");

    allow(&files, true);
    run_as_nobody(&scratch, &[]).ended(0);
    assert_eq!(count(&scratch, |record| state(record) == "indexed"), number);
    assert!(found(&scratch, "harbour").iter().all(|(_, stale)| !*stale));
    assert_eq!(scratch.status()["breakers"], Value::Array(Vec::new()));
    assert_eq!(count(&scratch, |record| !record["same_as"].is_null()), 0);
}

#[test]
fn a_folder_that_nobody_may_read_does_not_stop_its_source() {
    let scratch = new();
    let locked: Vec<_> =
        (0..120).map(|n| scratch.put(&format!("locked/{n:03}.txt"), format!("Secret {n}.\n"))).collect();
    let open: Vec<_> =
        (0..30).map(|n| scratch.put(&format!("open/{n:03}.txt"), format!("Open letter {n}.\n"))).collect();
    allow(&locked, false);
    allow(&open, true);
    run_as_nobody(&scratch, &[]).ended(0);
    assert_eq!(count(&scratch, |record| state(record) == "indexed"), 30);
    assert_eq!(count(&scratch, |record| kind(record) == "source.denied" && record["attempts"] == 1), 120);
}

#[test]
fn an_extractor_that_crashes_on_everything_costs_no_document() {
    let scratch = new();
    for n in 0..30 {
        scratch.put(&format!("{n:02}.csv"), format!("harbour,{n}\nquay,2\nmole,3\n"));
        scratch.put(&format!("{n:02}.txt"), format!("A letter, number {n}.\n"));
    }
    let path = script(&scratch, "reads-csv", "os.kill(os.getpid(), signal.SIGSEGV)");
    let settings = extractor("csv", &path);
    let broken = run_with(&scratch, &settings).ended(3);
    assert!(broken.stdout.contains("reads-csv"), "{}", broken.stdout);
    let csv = |record: &Value| record["path"].as_str().unwrap().ends_with(".csv");
    assert_eq!(count(&scratch, |r| csv(r) && told(r) == "retrying - extractor.broken 0"), 30);
    assert_eq!(count(&scratch, |r| !csv(r) && state(r) == "indexed"), 30, "the other formats go on");
    let status = scratch.call(&["status"]).ended(0);
    assert!(status.stdout.contains("extractor reads-csv: open"), "{}", status.stdout);
    assert!(
        status.stdout.contains("its built-in document did not come back: crash.segv"),
        "{}",
        status.stdout
    );
    run_with(&scratch, &settings).ended(3);
    assert_eq!(count(&scratch, |r| csv(r) && told(r) == "retrying - extractor.broken 0"), 30);

    script(&scratch, "reads-csv", "print(text)");
    run_with(&scratch, &settings).ended(0);
    assert_eq!(count(&scratch, |r| state(r) == "indexed"), 60, "one run leaves nothing behind");
    assert_eq!(scratch.status()["breakers"], Value::Array(Vec::new()));
}

#[test]
fn one_crash_on_most_documents_is_the_extractor_s() {
    let scratch = new().with("cage.faults=true");
    for n in 0..80 {
        scratch.put(&format!("{n:02}"), act(&format!("document {n}"), "signal segv"));
    }
    scratch.put("good.txt", "A text that another extractor reads.\n");
    let said = scratch.run().ended(3);
    assert!(said.stdout.contains("the extractor fault is not used any more"), "{}", said.stdout);
    let waiting = count(&scratch, |r| state(r) == "retrying" && kind(r) == "extractor.broken");
    let quarantined = count(&scratch, |r| state(r) == "quarantined");
    assert_eq!((waiting + quarantined, quarantined), (80, 0), "no document pays for it");
    assert_eq!(each(&scratch)["good.txt"], "indexed - - 1");
    // It crashes still: the probe is one document, and it is not lost by that.
    let started = starts(&scratch);
    scratch.run().ended(3);
    assert_eq!(starts(&scratch), started + 1);
    assert_eq!(count(&scratch, |r| kind(r) == "extractor.broken" && state(r) == "retrying"), 80);

    // For who fuzzes, it is a finding each.
    let mut scratch = scratch;
    scratch.settings.push("breaker.extractor.window=0".to_owned());
    scratch.run().ended(0);
    assert_eq!(count(&scratch, |r| state(r) == "quarantined" && kind(r) == "crash.segv"), 80);
}

#[test]
fn a_chain_of_extractors_keeps_each_verdict() {
    let scratch = new();
    scratch.put("one.csv", "harbour,1\nquay,2\nmole,3\n");
    scratch.put("two.csv", "broken,2\nquay,2\nmole,3\n");
    scratch.put("three.csv", "lost,3\nquay,2\nmole,3\n");
    let first = script(
        &scratch,
        "first",
        "sys.exit('not for me') if text.strip() != 'lazaret,1' and 'harbour' not in text else print(text)",
    );
    let second =
        script(&scratch, "second", "sys.exit('nor for me') if 'lost' in text else print('second', text)");
    let settings = [extractor("csv", &first), extractor("csv", &second)].concat();
    run_with(&scratch, &settings).ended(0);
    let records = scratch.list();
    assert_eq!(scratch.text("one.csv"), "harbour,1\nquay,2\nmole,3");
    assert_eq!(scratch.text("two.csv"), "second broken,2\nquay,2\nmole,3");
    assert_eq!(told(&records["three.csv"]), "quarantined permanent extractor.failed 1");
    let verdicts = |path: &str| -> Vec<(String, String)> {
        let verdicts = records[path]["evidence"]["verdicts"].as_array().unwrap();
        let word = |said: &Value, key: &str| said[key].as_str().unwrap_or("-").to_owned();
        verdicts.iter().map(|said| (word(said, "engine"), word(said, "message"))).collect()
    };
    let said = |engine: &str, message: &str| (engine.to_owned(), message.to_owned());
    assert_eq!(verdicts("one.csv"), [said("first", "-")]);
    assert_eq!(verdicts("two.csv"), [said("first", "exit status 1: not for me"), said("second", "-")]);
    assert_eq!(
        verdicts("three.csv"),
        [said("first", "exit status 1: not for me"), said("second", "exit status 1: nor for me")]
    );
    let extract = |path: &str| records[path]["pipeline"]["extract"].as_str().unwrap().matches(" > ").count();
    assert_eq!((extract("one.csv"), extract("two.csv")), (0, 1));
    // What the first took does not depend on the second.
    script(&scratch, "second", "print('changed', text)");
    let started = starts(&scratch);
    run_with(&scratch, &settings).ended(0);
    assert_eq!(starts(&scratch), started + 1);
    assert_eq!(scratch.text("three.csv"), "changed lost,3\nquay,2\nmole,3");
}

#[test]
fn a_command_that_is_not_there_stops_the_run_before_anything_starts() {
    let scratch = new();
    scratch.put("one.csv", "harbour,1\nquay,2\nmole,3\n");
    let said =
        run_with(&scratch, "[[extractor]]\nformat = \"csv\"\ncommand = [\"no-such-program\"]\n").ended(1);
    assert!(said.stderr.contains("there is no program no-such-program on the PATH"), "{}", said.stderr);
}

#[test]
fn pictures_and_pages_that_are_pictures_are_read() {
    let scratch = new();
    let word = std::fs::read(tests::repository().join("supervisor/src/path/builtin/builtin.png")).unwrap();
    scratch.put("word.png", &word);
    run_with(&scratch, "[recognise]\nenabled = false\n").ended(0);
    assert_eq!(each(&scratch)["word.png"], "quarantined permanent extractor.unavailable 1");
    scratch.run().ended(0);
    assert_eq!(each(&scratch)["word.png"], "indexed - - 1", "due when there is something that reads it");
    assert_eq!(scratch.text("word.png").trim().to_lowercase(), "lazaret");
    let record = &scratch.list()["word.png"];
    assert!(record["pipeline"]["recognise"].as_str().unwrap().starts_with("tesseract "), "{record}");
}

#[test]
fn other_passwords_make_due_what_was_locked() {
    let scratch = new().with("cage.faults=true");
    scratch.put("locked", act("one", "encrypted needs a password"));
    scratch.put("crash", act("two", "signal segv"));
    scratch.run().ended(0);
    let started = starts(&scratch);
    let passwords = scratch.path.join("passwords");
    std::fs::write(&passwords, "open sesame\n").unwrap();
    let settings = format!("[passwords]\nfile = \"{}\"\n", passwords.display());
    run_with(&scratch, &settings).ended(0);
    run_with(&scratch, &settings).ended(0);
    assert_eq!(starts(&scratch), started + 1);
    assert_eq!(each(&scratch)["locked"], "quarantined permanent parse.encrypted 1");
}

#[test]
fn formats_that_are_let_in_or_shut_out_are_judged_again() {
    let mut scratch = new();
    scratch.put("a.csv", "harbour,1\nquay,2\nmole,3\n");
    scratch.put("b.txt", "A letter of the harbour.\n");
    scratch.settings = vec!["policy.types=['text']".to_owned()];
    scratch.run().ended(0);
    assert_eq!(each(&scratch)["a.csv"], "excluded - policy.type 1");
    scratch.settings.clear();
    scratch.run().ended(0);
    assert_eq!(each(&scratch)["a.csv"], "indexed - - 1");
    assert_eq!(found(&scratch, "harbour").len(), 2);
    scratch.settings = vec!["policy.types=['csv']".to_owned()];
    scratch.run().ended(0);
    assert_eq!(found(&scratch, "harbour"), [("a.csv".to_owned(), false)]);
    assert_eq!(scratch.list()["b.txt"]["state"], "excluded");
}

#[test]
fn a_machine_that_rebooted_counts_for_nobody() {
    let mut scratch = new();
    scratch.put("05-LAZARET-POISON.txt", "Every supervisor that touches this dies.\n");
    scratch.put("good.txt", "An innocent neighbour.\n");
    scratch.variables.push(("LAZARET_DIE_AT".to_owned(), "poison".to_owned()));
    for death in 0..6 {
        assert_eq!(scratch.run().status, 137, "death {death}");
        let db = Connection::open(scratch.state().join("ledger.sqlite")).unwrap();
        db.execute("UPDATE runs SET boot_id = 'another boot'", []).unwrap();
    }
    scratch.variables.clear();
    scratch.run().ended(0);
    assert_eq!(scratch.list()["05-LAZARET-POISON.txt"]["state"], "indexed");
    assert_eq!(scratch.status()["balanced"], true);
}
