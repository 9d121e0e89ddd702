//! `kill -9` of the supervisor: at named points and at arbitrary instants. The next run goes on with the same books, and in the
//! end everything is as if nothing had happened.

use serde_json::Value;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use supervisor::fault_point::Point;
use tests::{Programs, Said, Scratch, manifest};

const PROGRAMS: Programs = tests::programs!();

/// What may differ: how often, when and at what price.
const BESIDE: [&str; 8] = [
    "attempts",
    "first_seen",
    "first_failed",
    "last_attempt",
    "next_attempt",
    "usage",
    "evidence",
    "same_as",
];

/// All that must be the same, texts and a search included.
fn picture(scratch: &Scratch) -> BTreeMap<String, Value> {
    let mut records = scratch.list();
    for record in records.values_mut() {
        let id = record["id"].as_str().expect("an id is a string").to_owned();
        let object = record.as_object_mut().expect("a record is an object");
        for key in BESIDE {
            object.remove(key);
        }
        object.insert("kept".to_owned(), scratch.text(&id).into());
    }
    let found = scratch.call(&["search", "harbour", "--format", "jsonl", "--limit", "1000"]).ended(0);
    let mut hits: Vec<Value> = found
        .stdout
        .lines()
        .map(|line| {
            let mut hit: Value = serde_json::from_str(line).expect("each line is an object");
            // What was removed from the index weighs on until its segments are merged.
            hit.as_object_mut().expect("a hit is an object").remove("score");
            hit
        })
        .collect();
    assert!(!hits.is_empty(), "the search finds something");
    hits.sort_by_key(|hit| hit["id"].to_string());
    records.insert("the search".to_owned(), hits.into());
    records
}

fn over_the_fixtures(scratch: &Scratch) -> Said {
    let files = manifest::files();
    scratch.call(&["run", files.to_str().expect("the path is UTF-8")])
}

/// A number from the environment: how hard to try.
fn number(variable: &str, default: u32) -> u32 {
    std::env::var(variable).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Fails with the documents that differ, and how.
fn compare(scratch: &Scratch, expected: &BTreeMap<String, Value>, when: &str) {
    let found = picture(scratch);
    let mut paths: Vec<&String> = expected.keys().chain(found.keys()).collect();
    paths.dedup();
    let mut differences = Vec::new();
    for path in paths {
        let (wanted, had) = (expected.get(path), found.get(path));
        if wanted != had {
            differences.push(format!("{path}\n  expected {wanted:?}\n  found    {had:?}"));
        }
    }
    differences.sort();
    differences.dedup();
    assert!(differences.is_empty(), "{when}:\n{}", differences.join("\n"));
    assert_eq!(scratch.status()["balanced"], true, "{when}");
}

fn undisturbed() -> BTreeMap<String, Value> {
    let scratch = Scratch::new(PROGRAMS);
    over_the_fixtures(&scratch).ended(0);
    picture(&scratch)
}

#[test]
fn dying_at_any_named_point_loses_nothing_and_doubles_nothing() {
    let expected = undisturbed();
    for point in Point::ALL.iter().filter(|point| **point != Point::Poison) {
        let mut scratch = Scratch::new(PROGRAMS).with("retry.max_crashes=100000");
        let (mut died, wanted) = (0, number("LAZARET_DEATHS_A_POINT", 3));
        for nth in [1, 2, 3, 5, 8].into_iter().cycle() {
            if died == wanted {
                break;
            }
            scratch.variables = vec![("LAZARET_DIE_AT".to_owned(), format!("{}:{nth}", point.name()))];
            match over_the_fixtures(&scratch).status {
                137 => died += 1,
                // It came through before the point was reached so often: from the start again.
                0 => {
                    assert!(nth > 1 || died > 0, "{point:?} is never reached");
                    compare(&scratch, &expected, &format!("{point:?} {nth}, after {died} deaths"));
                    scratch = Scratch::new(PROGRAMS).with("retry.max_crashes=100000");
                }
                other => panic!("{point:?} {nth} after {died} deaths: {other}"),
            }
        }
        scratch.variables.clear();
        over_the_fixtures(&scratch).ended(0);
        compare(&scratch, &expected, &format!("{point:?}, after {died} deaths"));
    }
}

#[test]
fn dying_at_arbitrary_instants_loses_nothing_and_doubles_nothing() {
    let expected = undisturbed();
    let deaths = number("LAZARET_DEATHS", 20);
    let scratch = Scratch::new(PROGRAMS).with("retry.max_crashes=100000");
    let files = manifest::files();
    let random = RandomState::new();
    for death in 0..deaths {
        let mut command = scratch.command(&["run", files.to_str().expect("the path is UTF-8")]);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut child = command.spawn().expect("the program starts");
        // The instant is arbitrary on purpose: whatever is under way then must survive.
        std::thread::sleep(Duration::from_millis(random.hash_one(death) % 700));
        child.kill().ok();
        child.wait().expect("the child was started here");
        let status = scratch.call(&["status", "--format", "json"]);
        if status.status == 0 {
            let status: Value = serde_json::from_str(&status.stdout).expect("status is an object");
            assert_eq!(status["balanced"], true, "after death {death}");
        }
    }
    over_the_fixtures(&scratch).ended(0);
    compare(&scratch, &expected, &format!("after {deaths} deaths"));
}

#[test]
fn a_document_that_kills_the_supervisor_is_quarantined_and_its_neighbours_are_not() {
    let mut scratch = Scratch::new(PROGRAMS);
    for n in 0..12 {
        scratch.put(&format!("{n:02}.txt"), format!("An innocent neighbour, number {n}, of the harbour.\n"));
    }
    scratch.put("05-LAZARET-POISON.txt", "Every supervisor that touches this dies.\n");
    scratch.variables.push(("LAZARET_DIE_AT".to_owned(), "poison".to_owned()));
    let mut deaths = 0;
    while scratch.run().status == 137 {
        deaths += 1;
        assert!(deaths < 10, "the poison is never quarantined");
    }
    assert_eq!(deaths, 4, "once among others, three times alone");
    let records = scratch.list();
    let poison = &records["05-LAZARET-POISON.txt"];
    assert_eq!(
        (poison["state"].as_str(), poison["why"].as_str(), poison["kind"].as_str()),
        (Some("quarantined"), Some("gave_up"), Some("supervisor.lost"))
    );
    let others = records.iter().filter(|(path, _)| !path.contains("POISON"));
    for (path, record) in others {
        assert_eq!(record["state"], "indexed", "{path}");
    }
}
