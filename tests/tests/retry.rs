//! What is tried again, and when: what may pass after a delay, what met a limit once in the large lane, and all else when what
//! it failed by has changed, and not before.

use rusqlite::Connection;
use serde_json::Value;
use std::process::Stdio;
use tests::nobody::allow;
use tests::questions::{kind, state};
use tests::scripts::{act, extractor};
use tests::{Programs, Scratch};

const PROGRAMS: Programs = tests::programs!();

fn new() -> Scratch {
    Scratch::new(PROGRAMS)
}

#[test]
fn a_transient_failure_is_tried_again_with_delay_until_it_heals() {
    let scratch =
        new().with("kinds.\"source.denied\".delay='50ms'").with("kinds.\"source.denied\".attempts=1000");
    let file = scratch.put("locked.txt", "The key was lost, and found again.\n");
    allow(std::slice::from_ref(&file), false);
    let first = scratch.run_as_nobody(&[]).ended(0);
    assert!(first.stdout.contains("due"), "the summary says when: {}", first.stdout);
    let record = &scratch.list()["locked.txt"];
    assert_eq!((state(record), kind(record)), ("retrying", "source.denied"));
    assert!(record["next_attempt"].is_string(), "{record}");
    let tried = record["attempts"].as_u64().unwrap();

    // One run that waits for what is due, and in the middle of it somebody finds the key.
    let source = scratch.source();
    let mut command = scratch.command_as_nobody(&["run", source.to_str().unwrap(), "--until-settled"]);
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
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
    scratch.run_as_nobody(&["--until-settled"]).ended(0);
    assert_eq!(scratch.standing()["locked.txt"], "quarantined gave_up source.denied 3");
    // It is still a document that is missing, and a person's word brings it back.
    assert_eq!(scratch.status()["sources"][0]["quarantined"], 1);
    allow(&[file], true);
    scratch.call(&["retry", "--kind", "source.denied"]).ended(0);
    scratch.run_as_nobody(&[]).ended(0);
    assert_eq!(scratch.standing()["locked.txt"], "indexed - - 1");
}

#[test]
fn a_permanent_failure_waits_for_the_pipeline_and_for_nothing_else() {
    let scratch = new().with("cage.faults=true");
    scratch.put("page.ps", "%!PS-Adobe-3.0\n(The harbour in winter) show\n");
    scratch.put("crash", act("one", "signal segv"));
    scratch.put("good.txt", "A good text about the quay.\n");
    scratch.run().ended(0);
    let before = scratch.standing();
    assert_eq!(before["page.ps"], "quarantined permanent format.unsupported 1");
    assert_eq!(before["crash"], "quarantined permanent crash.segv 1");
    let started = scratch.starts();
    for _ in 0..3 {
        scratch.run().ended(0);
    }
    assert_eq!(
        (scratch.standing(), scratch.starts()),
        (before.clone(), started),
        "nothing was tried blindly"
    );

    // An engine for the format appears: exactly what it concerns is due.
    let script = scratch.script("reads-ps", "print(text.split('(')[1].split(')')[0])");
    scratch.run_with(&extractor("postscript", &script)).ended(0);
    let after = scratch.standing();
    assert_eq!(after["page.ps"], "indexed - - 1");
    assert_eq!(scratch.text("page.ps"), "The harbour in winter");
    assert_eq!((&after["crash"], &after["good.txt"]), (&before["crash"], &before["good.txt"]));
    assert_eq!(scratch.starts(), started + 1);
    // Taken away again, it takes nothing along.
    scratch.run().ended(0);
    assert_eq!((scratch.standing(), scratch.starts()), (after, started + 1));
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
    assert_eq!(scratch.standing()["hungry"], "quarantined permanent memory.limit 1");
    assert_eq!(scratch.list()["hungry"]["evidence"]["limit"]["value"], 64 << 20);
    let started = scratch.starts();
    for (memory, more) in [("64MiB", 0), ("48MiB", 0), ("512MiB", 1), ("1GiB", 1)] {
        scratch.settings.clone_from(&limits(memory).settings);
        scratch.run().ended(0);
        assert_eq!(scratch.starts(), started + more, "{memory}");
    }
    // With enough memory it does what it wanted to do.
    assert_eq!(scratch.standing()["hungry"], "quarantined permanent parse.panic 1");
}

#[test]
fn what_meets_a_limit_is_tried_once_more_in_the_large_lane() {
    let mut scratch =
        new().with("cage.faults=true").with("limits.memory='64MiB'").with("limits.large.memory='512MiB'");
    scratch.put("larger", act("one", "panic-huge"));
    scratch.put("too-large", act("two", "grow"));
    scratch.put("good.txt", "A good text.\n");
    scratch.run().ended(0);
    let records = scratch.standing();
    assert_eq!(records["larger"], "quarantined permanent parse.panic 2", "there was room for its last words");
    assert_eq!(records["too-large"], "quarantined permanent memory.limit 2");
    assert_eq!(scratch.list()["too-large"]["evidence"]["limit"]["value"], 512 << 20);
    let started = scratch.starts();
    scratch.run().ended(0);
    assert_eq!(scratch.starts(), started, "and never again");

    // What was too slow gets its last try there.
    scratch.settings.extend(["limits.stalled='200ms'", "limits.large.stalled='300ms'"].map(str::to_owned));
    scratch.settings.extend(["retry.attempts=3", "kinds.\"time.stalled\".delay='1ms'"].map(str::to_owned));
    scratch.put("sleepy", act("three", "sleep"));
    let source = scratch.source();
    scratch.call(&["run", source.to_str().unwrap(), "--until-settled"]).ended(0);
    assert_eq!(scratch.standing()["sleepy"], "quarantined gave_up time.stalled 3");
    let limits: Vec<Value> =
        scratch.history("sleepy").iter().map(|a| a["evidence"]["limit"]["value"].clone()).collect();
    assert_eq!(limits, [200, 200, 300]);
}

#[test]
fn other_passwords_make_due_what_was_locked() {
    let scratch = new().with("cage.faults=true");
    scratch.put("locked", act("one", "encrypted needs a password"));
    scratch.put("crash", act("two", "signal segv"));
    scratch.run().ended(0);
    let started = scratch.starts();
    let passwords = scratch.path.join("passwords");
    std::fs::write(&passwords, "open sesame\n").unwrap();
    let settings = format!("[passwords]\nfile = \"{}\"\n", passwords.display());
    scratch.run_with(&settings).ended(0);
    scratch.run_with(&settings).ended(0);
    assert_eq!(scratch.starts(), started + 1);
    assert_eq!(scratch.standing()["locked"], "quarantined permanent parse.encrypted 1");
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
