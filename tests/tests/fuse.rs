//! A source that misbehaves for real: errors, silence, damage on the way, decay at rest, and a file system that dies.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use tests::fuse::{Act, Mount, Operation, TIME, Version};
use tests::questions::{kind, state};
use tests::zip::zip;
use tests::{Programs, Said, Scratch};

const PROGRAMS: Programs = tests::programs!();

/// What makes a PDF no document: it ends where it begins.
const NO_PDF: &str = "%PDF-1.4\nnothing of a document\n";

/// Nothing is verified by chance: openings are counted.
fn new() -> Scratch {
    Scratch::new(PROGRAMS).with("verify.share=0.0")
}

/// A mount over the source. It has to go before the scratch folder does: name it after that.
fn mounted(scratch: &Scratch) -> Option<Mount> {
    Mount::at(&scratch.source())
}

/// State and kind, by path.
fn outcomes(scratch: &Scratch) -> BTreeMap<String, String> {
    let told = |record: &Value| format!("{} {}", state(record), kind(record));
    scratch.list().iter().map(|(path, record)| (path.clone(), told(record))).collect()
}

fn count(scratch: &Scratch, outcome: &str) -> usize {
    outcomes(scratch).values().filter(|found| *found == outcome).count()
}

fn start(scratch: &Scratch, more: &[&str]) -> Child {
    let source = scratch.source();
    let mut command = scratch.command(&[&["run", source.to_str().unwrap()], more].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(child: Child, status: i32) -> Said {
    Said::of(&child.wait_with_output().unwrap()).ended(status)
}

/// An archive with one letter in it, and as many bytes of which the directory is damaged.
fn sound_and_damaged() -> (Vec<u8>, Vec<u8>) {
    let sound = zip(&[("letter.txt", "A letter about the harbour.\n")]);
    let mut damaged = sound.clone();
    let end = damaged.len();
    damaged[end - 60..].fill(0);
    (sound, damaged)
}

#[test]
fn bytes_damaged_on_the_way_are_fetched_again_at_once() {
    let scratch = new();
    let Some(fuse) = mounted(&scratch) else { return };
    let (sound, damaged) = sound_and_damaged();
    fuse.versions("box.zip", [&damaged, &sound].map(Version::of).to_vec());
    scratch.run().ended(0);
    assert_eq!(outcomes(&scratch)["box.zip"], "indexed -");
    assert_eq!(outcomes(&scratch)["box.zip!/letter.txt"], "indexed -");
    assert_eq!(scratch.text("box.zip!/letter.txt").trim(), "A letter about the harbour.");
    assert_eq!(fuse.opens("box.zip"), 3, "a fetch, a second look, and a fetch of the fresh bytes");
    let history = scratch.history("box.zip");
    assert_eq!(history.len(), 2);
    assert_eq!(
        (&history[0]["kind"], &history[0]["class"], &history[0]["damage"]),
        (&"transfer.damaged".into(), &"transient".into(), &"transfer".into())
    );
    assert_eq!((&history[1]["kind"], &history[1]["damage"]), (&Value::Null, &Value::Null));
    assert_eq!(scratch.list()["box.zip"]["damage"], Value::Null);
}

#[test]
fn the_page_cache_does_not_speak_for_the_source() {
    let scratch = new();
    let Some(fuse) = mounted(&scratch) else { return };
    let (sound, damaged) = sound_and_damaged();
    fuse.versions("box.zip", [&damaged, &damaged, &sound].map(Version::of).to_vec());
    fuse.cached();
    // Into the page cache, where the damage stays for whoever reads it in the ordinary way.
    let path = scratch.source().join("box.zip");
    assert_eq!(std::fs::read(&path).unwrap(), damaged);
    scratch.run().ended(0);
    assert_eq!(outcomes(&scratch)["box.zip!/letter.txt"], "indexed -");
    assert_eq!(scratch.history("box.zip")[0]["kind"], "transfer.damaged");
    assert_eq!(std::fs::read(&path).unwrap(), sound, "nor is it left there");
}

#[test]
fn the_same_damaged_bytes_twice_are_the_sources() {
    let scratch = new();
    let Some(fuse) = mounted(&scratch) else { return };
    fuse.put("bad.pdf", NO_PDF);
    scratch.run().ended(0);
    let record = &scratch.list()["bad.pdf"];
    let told = [&record["state"], &record["why"], &record["kind"], &record["damage"]];
    assert_eq!(told, ["quarantined", "corrupt", "parse.truncated", "source"]);
    assert_eq!(fuse.opens("bad.pdf"), 2);
    scratch.run().ended(0);
    assert_eq!(fuse.opens("bad.pdf"), 2, "and not tried blindly");
}

#[test]
fn what_changes_between_two_readings_is_no_damage() {
    let scratch = new();
    let Some(fuse) = mounted(&scratch) else { return };
    let (sound, damaged) = sound_and_damaged();
    fuse.versions(
        "box.zip",
        vec![Version { bytes: damaged, time: TIME }, Version { bytes: sound, time: TIME + 1 }],
    );
    scratch.run().ended(0);
    let record = &scratch.list()["box.zip"];
    assert_eq!([&record["state"], &record["kind"]], ["retrying", "source.changed"]);
    assert_eq!((&record["damage"], fuse.opens("box.zip")), (&Value::Null, 2));
    // The next listing sees other bytes, and waits for no delay.
    scratch.run().ended(0);
    assert_eq!(outcomes(&scratch)["box.zip!/letter.txt"], "indexed -");
}

#[test]
fn where_each_reading_gives_other_bytes_it_is_given_up_in_the_end() {
    let scratch = new();
    let Some(fuse) = mounted(&scratch) else { return };
    let readings = (0..40).map(|n| Version::of(format!("{NO_PDF}number {n:02}\n")));
    fuse.versions("bad.pdf", readings.collect());
    scratch.run().ended(0);
    let record = &scratch.list()["bad.pdf"];
    let told = [&record["state"], &record["why"], &record["kind"], &record["damage"]];
    assert_eq!(told, ["quarantined", "gave_up", "transfer.damaged", "transfer"]);
    assert_eq!((&record["attempts"], fuse.opens("bad.pdf")), (&5.into(), 10));
}

#[test]
fn nothing_is_given_up_as_damaged_before_a_second_reading() {
    let scratch = new();
    let Some(fuse) = mounted(&scratch) else { return };
    let sound = "<html><body><p>The harbour</p></body></html>";
    let damaged = format!("%PDF-1.4\n{}", "x".repeat(sound.len() - 9));
    fuse.versions("page", [&damaged, &damaged, sound].map(Version::of).to_vec());
    fuse.fault_opening("page", 1, Errno::EIO);
    scratch.run().ended(0);
    let record = &scratch.list()["page"];
    assert_eq!([&record["state"], &record["kind"]], ["retrying", "source.io"]);
    let message = record["message"].as_str().unwrap();
    assert!(message.contains("a second look could not be had") && message.contains("parse."), "{message}");
    scratch.call(&["retry", "--kind", "source.io"]).ended(0);
    scratch.run().ended(0);
    assert_eq!(outcomes(&scratch)["page"], "indexed -");
}

#[test]
fn an_archive_is_looked_at_once_more_for_all_its_bad_members() {
    let scratch = new();
    let Some(fuse) = mounted(&scratch) else { return };
    let bad: Vec<_> = (0..5).map(|n| format!("{NO_PDF}number {n}\n")).collect();
    let names: Vec<_> = (0..5).map(|n| format!("{n}.pdf")).collect();
    let members: Vec<_> = names.iter().zip(&bad).map(|(name, bad)| (name.as_str(), bad.as_str())).collect();
    fuse.put("box.zip", zip(&members));
    scratch.run().ended(0);
    let records = scratch.list();
    for name in &names {
        let record = &records[&format!("box.zip!/{name}")];
        assert_eq!([&record["state"], &record["kind"]], ["quarantined", "parse.truncated"]);
        assert_eq!(record["damage"], "source");
    }
    assert_eq!(fuse.opens("box.zip"), 2, "one fetch, and one second look for all five");
}

#[test]
fn damage_on_the_way_shows_in_a_member_as_well() {
    let scratch = new();
    let Some(fuse) = mounted(&scratch) else { return };
    // Both are whole archives, of one size: only the member tells.
    let page = "<html><body><p>The harbour</p></body></html>";
    let pdf = format!("%PDF-1.4\n{}", "x".repeat(page.len() - 9));
    let versions = [zip(&[("a.bin", &pdf)]), zip(&[("a.bin", page)])];
    fuse.versions("box.zip", versions.iter().map(Version::of).collect());
    scratch.run().ended(0);
    assert_eq!(outcomes(&scratch)["box.zip!/a.bin"], "indexed -");
    assert_eq!(scratch.text("box.zip!/a.bin").trim(), "The harbour");
    assert_eq!(scratch.history("box.zip!/a.bin")[0]["kind"], "transfer.damaged");
    assert_eq!(scratch.status()["balanced"], true);
}

#[test]
fn errors_of_the_source_are_tried_again_until_they_heal() {
    let scratch = new()
        .with("breaker.source.window=0")
        .with("kinds.\"source.io\"={delay='50ms', attempts=1000}")
        .with("kinds.\"source.unreachable\"={delay='50ms', attempts=1000}");
    let Some(fuse) = mounted(&scratch) else { return };
    let failing = [
        ("eio.txt", Operation::Read, 4096, Errno::EIO, "source.io"),
        ("eagain.txt", Operation::Read, 0, Errno::EAGAIN, "source.io"),
        ("late.txt", Operation::Read, 20_000, Errno::ETIMEDOUT, "source.unreachable"),
        ("down.txt", Operation::Open, 0, Errno::EHOSTDOWN, "source.unreachable"),
        ("denied.txt", Operation::Open, 0, Errno::EACCES, "source.denied"),
    ];
    for (name, operation, after, errno, _) in failing {
        fuse.put(name, format!("The harbour of {name}. ").repeat(1_000));
        fuse.fault(name, operation, after, Act::Fail(errno));
    }
    fuse.put("good.txt", "A good text.\n");
    let mut run = start(&scratch, &["--until-settled"]);
    while scratch.call(&["list"]).status != 0 {}
    let tried =
        |name: &str| scratch.list().get(name).map_or(0, |record| record["attempts"].as_u64().unwrap());
    while failing.iter().take(4).any(|failing| tried(failing.0) < 3) {
        assert!(run.try_wait().unwrap().is_none(), "it waits for what is due");
    }
    let records = scratch.list();
    for (name, _, _, errno, kind) in failing {
        let attempts = scratch.history(name);
        assert_eq!(attempts[0]["kind"], kind, "{name}");
        assert_eq!(attempts[0]["evidence"]["errno"], format!("{errno:?}"), "{name}");
        assert!(matches!(records[name]["state"].as_str(), Some("retrying" | "pending")), "{name}");
        assert_eq!(scratch.found(name).len(), 0, "no part of it can be found");
    }
    fuse.heal();
    ended(run, 0);
    // What was denied waits for the next run, and for no more.
    assert_eq!(
        (count(&scratch, "indexed -"), outcomes(&scratch)["denied.txt"].as_str()),
        (5, "retrying source.denied")
    );
    scratch.run().ended(0);
    assert_eq!(count(&scratch, "indexed -"), 6);
}

#[test]
fn a_file_that_hangs_costs_itself_alone() {
    let scratch = new().with("limits.fetch='300ms'");
    let Some(fuse) = mounted(&scratch) else { return };
    for n in 0..20 {
        fuse.put(&format!("{n:02}.txt"), format!("The harbour, number {n}.\n").repeat(500));
    }
    fuse.fault("03.txt", Operation::Read, 4096, Act::Hang);
    fuse.fault("04.txt", Operation::Open, 0, Act::Hang);
    scratch.run().ended(0);
    let outcomes = outcomes(&scratch);
    assert_eq!(
        (&*outcomes["03.txt"], &*outcomes["04.txt"]),
        ("retrying source.timeout", "retrying source.timeout")
    );
    assert_eq!(count(&scratch, "indexed -"), 18);
    assert!(scratch.list()["03.txt"]["next_attempt"].is_string());
}

#[test]
fn a_source_that_hangs_is_one_alert_and_heals_by_the_next_run() {
    let scratch = new().with("limits.fetch='300ms'").with("breaker.source.window=8").with("children=2");
    let Some(fuse) = mounted(&scratch) else { return };
    for n in 0..40 {
        fuse.put(&format!("{n:02}.txt"), format!("The harbour, number {n}.\n"));
    }
    fuse.fault_everywhere(Operation::Read, Act::Hang);
    let said = scratch.run().ended(3);
    assert_eq!(said.stdout.matches("breaker is open").count(), 1, "{}", said.stdout);
    let records = scratch.list();
    assert_eq!(count(&scratch, "retrying source.timeout"), 40);
    assert!(records.values().filter(|record| record["attempts"] == 0).count() > 10, "most were spared");
    assert_eq!(scratch.status()["balanced"], true);
    fuse.heal();
    scratch.run().ended(0);
    assert_eq!(count(&scratch, "indexed -"), 40);
}

#[test]
fn no_more_threads_than_a_bounded_number_hang() {
    let scratch = new().with("limits.fetch='100ms'").with("breaker.source.window=0").with("children=8");
    let Some(fuse) = mounted(&scratch) else { return };
    for n in 0..100 {
        fuse.put(&format!("{n:02}.txt"), format!("The harbour, number {n}.\n"));
    }
    fuse.fault_everywhere(Operation::Open, Act::Hang);
    scratch.run().ended(0);
    let records = scratch.list();
    let refused = |record: &&Value| record["message"].as_str().unwrap().contains("no further one is opened");
    assert_eq!(count(&scratch, "retrying source.timeout"), 100);
    assert!(records.values().filter(refused).count() >= 100 - 96, "beyond 64, and what was on its way then");
    assert_eq!(fuse.hanging(), 0, "the program is gone, and nobody waits any more");
}

#[test]
fn a_listing_that_breaks_off_deletes_nothing_below_it() {
    let scratch = new();
    let Some(fuse) = mounted(&scratch) else { return };
    for n in 0..10 {
        fuse.put(&format!("d/{n}.txt"), format!("The harbour, number {n}.\n"));
        fuse.put(&format!("d/z{n}/in.txt"), format!("The lighthouse, number {n}.\n"));
    }
    fuse.put("e/gone.txt", "A letter that goes.\n");
    fuse.put("e/stays.txt", "A letter that stays.\n");
    scratch.run().ended(0);
    assert_eq!(count(&scratch, "indexed -"), 22);
    for path in ["d/1.txt", "d/9.txt", "d/z9", "e/gone.txt"] {
        fuse.remove(path);
    }
    for errno in [Errno::EAGAIN, Errno::EIO, Errno::ETIMEDOUT] {
        fuse.heal();
        fuse.fault("d", Operation::List, 5, Act::Fail(errno));
        let said = scratch.run().ended(0);
        let outcomes = outcomes(&scratch);
        let lost: Vec<_> = outcomes.iter().filter(|(_, told)| told.starts_with("deleted")).collect();
        assert_eq!(lost.len(), 1, "{errno}: {lost:?} {}", said.stdout);
        assert_eq!(outcomes["e/gone.txt"], "deleted -");
        assert!(outcomes["d"].starts_with("retrying source."), "{errno}: {}", outcomes["d"]);
        assert_eq!(scratch.found("lighthouse").len(), 10, "{errno}");
        let said = scratch.call(&["reconcile", "--format", "jsonl"]).ended(3);
        assert!(!said.stdout.contains("d/"), "{errno}: nothing below it is drift: {}", said.stdout);
    }
    fuse.heal();
    scratch.run().ended(0);
    let outcomes = outcomes(&scratch);
    for path in ["d", "d/1.txt", "d/9.txt", "d/z9/in.txt"] {
        assert!(outcomes[path].starts_with("deleted"), "{path}: {}", outcomes[path]);
    }
    assert_eq!(count(&scratch, "indexed -"), 18);
}

#[test]
fn a_root_that_cannot_be_listed_to_its_end_stops_the_run_and_deletes_nothing() {
    let scratch = new();
    let Some(fuse) = mounted(&scratch) else { return };
    for n in 0..10 {
        fuse.put(&format!("{n}.txt"), format!("The harbour, number {n}.\n"));
    }
    scratch.run().ended(0);
    fuse.fault("", Operation::List, 5, Act::Fail(Errno::EAGAIN));
    let said = scratch.run().ended(1);
    assert!(said.stderr.contains("cannot be listed"), "{}", said.stderr);
    assert_eq!(count(&scratch, "indexed -"), 10);
}

#[test]
fn decay_behind_a_stat_that_stands_still_is_found_by_reading_again() {
    let mut scratch = new();
    let Some(fuse) = mounted(&scratch) else { return };
    fuse.cached();
    fuse.put("a.txt", "The harbour in winter.\n");
    fuse.put("b.txt", "The lighthouse in June.\n");
    scratch.run().ended(0);
    fuse.rot("a.txt", "The orchard in winters\n");
    scratch.run().ended(0);
    assert_eq!((fuse.opens("a.txt"), scratch.found("harbour").len()), (1, 1), "no listing sees it");
    scratch.settings = vec!["verify.share=1.0".to_owned()];
    scratch.run().ended(0);
    assert_eq!(scratch.text("a.txt").trim(), "The orchard in winters");
    assert_eq!(
        (scratch.found("harbour").len(), scratch.found("orchard").len(), scratch.found("lighthouse").len()),
        (0, 1, 1)
    );
    assert_eq!(fuse.opens("b.txt"), 2, "what is sound is read, and no more");
    // A source that cannot be read does not make the verify pass forget what it has.
    fuse.fault_everywhere(Operation::Read, Act::Fail(Errno::EIO));
    scratch.run().ended(0);
    assert_eq!(count(&scratch, "indexed -"), 2);
}

#[test]
fn a_file_system_that_dies_in_the_middle_loses_nothing() {
    let scratch = new().with("breaker.source.window=8").with("children=1");
    let source = scratch.source();
    let Some(mut fuse) = Mount::at(&source) else { return };
    let fill = |fuse: &Mount| {
        for n in 0..40 {
            fuse.put(&format!("{n:02}.txt"), format!("The harbour, number {n}.\n"));
        }
    };
    fill(&fuse);
    for n in 10..40 {
        fuse.fault(&format!("{n:02}.txt"), Operation::Read, 0, Act::Hang);
    }
    let run = start(&scratch, &[]);
    fuse.wait_for_a_hang();
    while count(&scratch, "indexed -") < 10 {}
    fuse.die();
    let said = ended(run, 3);
    assert!(said.stdout.contains("breaker is open"), "{}", said.stdout);
    assert_eq!(count(&scratch, "indexed -"), 10);
    assert_eq!(count(&scratch, "retrying source.unreachable"), 30);
    // Dead at the start of a run: it cannot be listed, and that says nothing about what was in it.
    let said = scratch.call(&["run", source.to_str().unwrap()]).ended(1);
    assert!(said.stderr.contains("cannot be listed"), "{}", said.stderr);
    assert_eq!((count(&scratch, "indexed -"), scratch.found("harbour").len()), (10, 10));
    drop(fuse);
    let Some(fuse) = mounted(&scratch) else { return };
    fill(&fuse);
    scratch.run().ended(0);
    assert_eq!(count(&scratch, "indexed -"), 40);
}

#[test]
fn a_stat_that_fails_says_nothing_about_what_is_known() {
    let scratch = new();
    let Some(fuse) = mounted(&scratch) else { return };
    fuse.put("known.txt", "A letter about the harbour.\n");
    scratch.run().ended(0);
    fuse.put("new.txt", "A letter about the quay.\n");
    for errno in [Errno::EIO, Errno::ETIMEDOUT] {
        for path in ["known.txt", "new.txt"] {
            fuse.fault(path, Operation::Stat, 0, Act::Fail(errno));
        }
        scratch.run().ended(0);
        let outcomes = outcomes(&scratch);
        assert_eq!(outcomes["known.txt"], "indexed -");
        assert!(outcomes["new.txt"].starts_with("retrying source."), "{errno}: {}", outcomes["new.txt"]);
        fuse.heal();
    }
    scratch.run().ended(0);
    assert_eq!(count(&scratch, "indexed -"), 2);
}

/// Folders before and behind one that hangs when its names are asked for.
fn with_a_folder_that_hangs(fuse: &Mount) {
    for folder in ["a", "hangs", "z"] {
        for n in 0..5 {
            fuse.put(&format!("{folder}/{n}.txt"), format!("The harbour, {folder}, number {n}.\n"));
        }
    }
    fuse.fault("hangs", Operation::List, 0, Act::Hang);
}

#[test]
fn an_interrupt_does_not_wait_for_a_listing_that_hangs() {
    let scratch = new();
    let Some(fuse) = mounted(&scratch) else { return };
    with_a_folder_that_hangs(&fuse);
    let run = start(&scratch, &[]);
    fuse.wait_for_a_hang();
    kill(Pid::from_raw(run.id().cast_signed()), Signal::SIGINT).unwrap();
    let said = ended(run, 130);
    assert!(said.stdout.contains("interrupted"), "{}", said.stdout);
    assert!(scratch.list().len() >= 5, "what comes before it is recorded");
    fuse.heal();
    scratch.run().ended(0);
    assert_eq!(count(&scratch, "indexed -"), 15);
}

#[test]
fn a_listing_that_hangs_is_ended_by_the_watchdog() {
    let scratch = new().with("run.watchdog='1s'");
    let Some(fuse) = mounted(&scratch) else { return };
    with_a_folder_that_hangs(&fuse);
    let said = scratch.run().ended(1);
    assert!(said.stderr.contains("the listing"), "{}", said.stderr);
    assert_eq!(count(&scratch, "indexed -"), 5, "what comes before it is carried");
    assert_eq!(scratch.status()["balanced"], true);
    fuse.heal();
    scratch.run().ended(0);
    assert_eq!(count(&scratch, "indexed -"), 15);
}

#[test]
fn what_lies_behind_a_folder_that_hangs_is_listed_and_carried() {
    let scratch = new().with("limits.fetch='3s'");
    let Some(fuse) = mounted(&scratch) else { return };
    with_a_folder_that_hangs(&fuse);
    fuse.heal();
    scratch.run().ended(0);
    assert_eq!(count(&scratch, "indexed -"), 15);
    fuse.remove("hangs/0.txt");
    fuse.remove("z/0.txt");
    fuse.put("z/new.txt", "The harbour, z, a new one.\n");
    // The kernel locks a folder while it asks for one of its entries: that hangs as well.
    fuse.put("s/slow.txt", "The harbour, one that hangs.\n");
    fuse.fault("hangs", Operation::List, 0, Act::Hang);
    fuse.fault("s/slow.txt", Operation::Stat, 0, Act::Hang);
    scratch.run().ended(0);
    let told = outcomes(&scratch);
    assert_eq!(told["hangs"], "retrying source.timeout");
    assert_eq!(told["s"], "retrying source.timeout");
    assert_eq!((&*told["hangs/0.txt"], &*told["z/0.txt"]), ("indexed -", "deleted -"));
    assert_eq!(told["z/new.txt"], "indexed -");
    fuse.heal();
    scratch.run().ended(0);
    let told = outcomes(&scratch);
    assert_eq!((&*told["hangs"], &*told["hangs/0.txt"]), ("deleted source.timeout", "deleted -"));
    assert_eq!(count(&scratch, "indexed -"), 15);
}

#[test]
fn a_file_system_that_dies_under_the_listing_deletes_nothing() {
    let scratch = new();
    let Some(mut fuse) = mounted(&scratch) else { return };
    with_a_folder_that_hangs(&fuse);
    fuse.heal();
    scratch.run().ended(0);
    fuse.fault("hangs", Operation::List, 0, Act::Hang);
    let run = start(&scratch, &[]);
    fuse.wait_for_a_hang();
    fuse.die();
    ended(run, 0);
    assert_eq!(count(&scratch, "indexed -"), 15);
    assert_eq!(outcomes(&scratch)["hangs"], "retrying source.unreachable");
    assert_eq!(outcomes(&scratch)["z"], "retrying source.unreachable");
}

#[test]
fn a_comparison_passes_by_what_hangs_as_well() {
    let scratch = new().with("limits.fetch='3s'");
    let Some(fuse) = mounted(&scratch) else { return };
    with_a_folder_that_hangs(&fuse);
    fuse.heal();
    scratch.run().ended(0);
    fuse.put("a/new.txt", "The harbour, a new one before it.\n");
    fuse.put("z/new.txt", "The harbour, a new one behind it.\n");
    fuse.fault("hangs", Operation::List, 0, Act::Hang);
    let said = scratch.call(&["reconcile", "--format", "json"]).ended(3);
    let told: Value = serde_json::from_str(&said.stdout).unwrap();
    let drifts = told["drifts"].as_array().unwrap().iter();
    let drifts: Vec<_> = drifts.map(|drift| (drift["kind"].as_str(), drift["path"].as_str())).collect();
    let expected = [("unrecorded", "a/new.txt"), ("unlistable", "hangs"), ("unrecorded", "z/new.txt")];
    assert_eq!(drifts, expected.map(|(kind, path)| (Some(kind), Some(path))));
    fuse.heal();
    scratch.run().ended(0);
    scratch.call(&["reconcile", "--format", "json"]).ended(0);
}
