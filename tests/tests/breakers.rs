//! Sources and extractors that fail as a whole: one alert, one probe at a time, no document that pays for it, and one run that
//! heals all.

use serde_json::Value;
use tests::nobody::allow;
use tests::questions::{kind, state, told};
use tests::scripts::{act, extractor};
use tests::{Programs, Scratch};

const PROGRAMS: Programs = tests::programs!();

fn new() -> Scratch {
    Scratch::new(PROGRAMS)
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
    scratch.run_as_nobody(&[]).ended(0);
    assert_eq!(scratch.count(|record| state(record) == "indexed"), number);

    allow(&files, false);
    let down = scratch.run_as_nobody(&[]).ended(3);
    assert_eq!(down.stdout.matches("breaker is open").count(), 1, "{}", down.stdout);
    assert_eq!(
        scratch.count(|record| state(record) == "retrying" && kind(record) == "source.denied"),
        number
    );
    let tried = scratch.count(|record| record["attempts"] == 1);
    assert!((40..=80).contains(&tried), "{tried} of {number} were tried");
    assert_eq!(scratch.found("harbour").len(), number.min(10_000), "the old texts are still there");
    assert!(scratch.hits("harbour").iter().all(|(_, stale)| *stale), "and marked");
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
    let started = scratch.starts();
    scratch.run_as_nobody(&[]).ended(3);
    assert_eq!(scratch.starts(), started);
    assert_eq!(std::fs::read_to_string(&alerts).unwrap(), told, "the alert was raised once");

    allow(&files, true);
    scratch.run_as_nobody(&[]).ended(0);
    assert_eq!(scratch.count(|record| state(record) == "indexed"), number);
    assert!(scratch.hits("harbour").iter().all(|(_, stale)| !*stale));
    assert_eq!(scratch.status()["breakers"], Value::Array(Vec::new()));
    assert_eq!(scratch.count(|record| !record["same_as"].is_null()), 0);
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
    scratch.run_as_nobody(&[]).ended(0);
    assert_eq!(scratch.count(|record| state(record) == "indexed"), 30);
    assert_eq!(scratch.count(|record| kind(record) == "source.denied" && record["attempts"] == 1), 120);
}

#[test]
fn an_extractor_that_crashes_on_everything_costs_no_document() {
    let scratch = new();
    for n in 0..30 {
        scratch.put(&format!("{n:02}.csv"), format!("harbour,{n}\nquay,2\nmole,3\n"));
        scratch.put(&format!("{n:02}.txt"), format!("A letter, number {n}.\n"));
    }
    let path = scratch.script("reads-csv", "os.kill(os.getpid(), signal.SIGSEGV)");
    let settings = extractor("csv", &path);
    let broken = scratch.run_with(&settings).ended(3);
    assert!(broken.stdout.contains("reads-csv"), "{}", broken.stdout);
    let csv = |record: &Value| record["path"].as_str().unwrap().ends_with(".csv");
    assert_eq!(scratch.count(|r| csv(r) && told(r) == "retrying - extractor.broken 0"), 30);
    assert_eq!(scratch.count(|r| !csv(r) && state(r) == "indexed"), 30, "the other formats go on");
    let status = scratch.call(&["status"]).ended(0);
    assert!(status.stdout.contains("extractor reads-csv: open"), "{}", status.stdout);
    assert!(
        status.stdout.contains("its built-in document did not come back: crash.segv"),
        "{}",
        status.stdout
    );
    scratch.run_with(&settings).ended(3);
    assert_eq!(scratch.count(|r| csv(r) && told(r) == "retrying - extractor.broken 0"), 30);

    scratch.script("reads-csv", "print(text)");
    scratch.run_with(&settings).ended(0);
    assert_eq!(scratch.count(|r| state(r) == "indexed"), 60, "one run leaves nothing behind");
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
    let waiting = scratch.count(|r| state(r) == "retrying" && kind(r) == "extractor.broken");
    let quarantined = scratch.count(|r| state(r) == "quarantined");
    assert_eq!((waiting + quarantined, quarantined), (80, 0), "no document pays for it");
    assert_eq!(scratch.standing()["good.txt"], "indexed - - 1");
    // It crashes still: the probe is one document, and it is not lost by that.
    let started = scratch.starts();
    scratch.run().ended(3);
    assert_eq!(scratch.starts(), started + 1);
    assert_eq!(scratch.count(|r| kind(r) == "extractor.broken" && state(r) == "retrying"), 80);

    // For who fuzzes, it is a finding each.
    let mut scratch = scratch;
    scratch.settings.push("breaker.extractor.window=0".to_owned());
    scratch.run().ended(0);
    assert_eq!(scratch.count(|r| state(r) == "quarantined" && kind(r) == "crash.segv"), 80);
}
