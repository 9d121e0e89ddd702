//! The index is out of reach for a while: its folder is moved away under a live run and comes back, as a volume does that is
//! unmounted. What was extracted is kept, nothing is extracted twice, and nothing that was to leave the index stays in it.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use tests::{Programs, Said, Scratch};

const PROGRAMS: Programs = Programs {
    lazaret: env!("CARGO_BIN_EXE_lazaret-under-test"),
    worker: env!("CARGO_BIN_EXE_worker-under-test"),
};

/// So many documents, each of which takes a child half a second.
fn slow(documents: usize, window: usize) -> Scratch {
    let scratch = Scratch::new(PROGRAMS)
        .with("cage.faults=true")
        .with("children=2")
        .with(&format!("breaker.sink.window={window}"));
    for number in 0..documents {
        let act =
            format!("#!lazaret-fault 1\n# {number}\nslow 5 100\ntext the harbour master's letter {number}\n");
        scratch.put(&format!("{number}.fault"), act);
    }
    scratch
}

/// The index of a live run, moved away.
struct Outage {
    index: PathBuf,
    away: PathBuf,
}

impl Outage {
    fn of(scratch: &Scratch) -> Self {
        let (index, away) = (scratch.state().join("index"), scratch.state().join("index-away"));
        std::fs::rename(&index, &away).unwrap();
        Outage { index, away }
    }

    fn over(self) {
        std::fs::rename(self.away, self.index).unwrap();
    }
}

/// Starts a run and waits until a document is in flight: before its first commit.
fn at_work(scratch: &Scratch) -> Child {
    let source = scratch.source();
    let mut command = scratch.command(&["run", source.to_str().unwrap()]);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    loop {
        let said = scratch.call(&["ctl", "status", "--format", "json"]);
        let status: Value = serde_json::from_str(&said.stdout).unwrap_or_default();
        if status["in_flight"].as_array().is_some_and(|all| !all.is_empty()) {
            return run;
        }
        assert_eq!(run.try_wait().unwrap(), None, "the run ended before anything was in flight");
        std::thread::yield_now();
    }
}

fn end(run: Child) -> Said {
    Said::of(&run.wait_with_output().unwrap())
}

fn told(record: &Value) -> String {
    let word = |key: &str| record[key].as_str().unwrap_or("-").to_owned();
    format!("{} {} {} {}", word("state"), word("kind"), word("stage"), record["attempts"])
}

fn all(scratch: &Scratch) -> Vec<String> {
    let mut told: Vec<_> = scratch.list().values().map(told).collect();
    told.dedup();
    told
}

fn found(scratch: &Scratch, word: &str) -> usize {
    scratch.call(&["search", word, "--format", "jsonl", "--limit", "100"]).ended(0).stdout.lines().count()
}

fn history(scratch: &Scratch, doc: &str) -> Vec<(String, String)> {
    let said = scratch.call(&["show", doc, "--format", "json"]).ended(0);
    let shown: Value = serde_json::from_str(&said.stdout).unwrap();
    let word = |attempt: &Value, key: &str| attempt[key].as_str().unwrap_or("-").to_owned();
    let attempts = shown["history"].as_array().unwrap().iter();
    attempts.map(|attempt| (word(attempt, "stage"), word(attempt, "kind"))).collect()
}

fn breakers(scratch: &Scratch) -> Vec<Value> {
    scratch.status()["breakers"].as_array().cloned().unwrap_or_default()
}

#[test]
fn an_index_that_is_down_to_the_end_keeps_the_texts_for_the_next_run() {
    let scratch = slow(6, 4);
    let run = at_work(&scratch);
    let outage = Outage::of(&scratch);
    let said = end(run).ended(1);
    assert!(said.stderr.contains("error: the embedded index is down"), "{said:?}");
    assert!(said.stderr.contains("the texts are kept"), "{said:?}");
    let alerts = said.stdout.lines().filter(|line| line.contains("its breaker is open: texts are kept"));
    assert_eq!(alerts.count(), 1, "{said:?}");
    assert_eq!(all(&scratch), ["retrying sink.unavailable write 1"]);
    let open = breakers(&scratch);
    assert_eq!((&open[0]["scope"], &open[0]["name"]), (&"sink".into(), &"embedded".into()), "{open:?}");
    assert_eq!(scratch.status()["balanced"], true);

    outage.over();
    // What is kept needs no extractor: where there is none for them, they are written all the same.
    let scratch = scratch.with("cage.faults=false");
    scratch.run().ended(0);
    assert_eq!(all(&scratch), ["indexed - - 2"]);
    assert_eq!(found(&scratch, "harbour"), 6);
    assert_eq!(breakers(&scratch), Vec::<Value>::new());
    let told = history(&scratch, "3.fault");
    assert_eq!(told, [("write".into(), "sink.unavailable".into()), ("write".into(), "-".into())]);
    scratch.call(&["reconcile", "--format", "json"]).ended(0);
}

#[test]
fn an_index_that_comes_back_in_time_gets_all_in_the_same_run() {
    let scratch = slow(10, 1);
    let mut run = at_work(&scratch);
    let outage = Outage::of(&scratch);
    while breakers(&scratch).is_empty() {
        assert_eq!(run.try_wait().unwrap(), None, "the run ended before its breaker opened");
        std::thread::yield_now();
    }
    outage.over();
    let said = end(run).ended(0);
    assert!(said.stdout.contains("its breaker is open: texts are kept"), "{said:?}");
    assert_eq!(found(&scratch, "harbour"), 10);
    assert!(all(&scratch).iter().all(|told| told.starts_with("indexed")), "{:?}", all(&scratch));
    assert_eq!(breakers(&scratch), Vec::<Value>::new());
}

#[test]
fn what_is_to_leave_an_index_that_is_down_leaves_it_later() {
    let scratch = slow(0, 50);
    let gone = scratch.put("gone.txt", "the pilot's farewell\n");
    scratch.put("stays.txt", "the harbour of the town\n");
    scratch.run().ended(0);
    assert_eq!(found(&scratch, "pilot"), 1);
    std::fs::remove_file(gone).unwrap();
    scratch.put("new.fault", "#!lazaret-fault 1\nslow 5 100\ntext a new letter to the harbour\n");
    let run = at_work(&scratch);
    let outage = Outage::of(&scratch);
    end(run).ended(1);
    let total = scratch.status()["total"].clone();
    assert_eq!((&total["pending"], &total["deleted"]), (&1.into(), &0.into()), "{total}");
    outage.over();
    scratch.run().ended(0);
    let total = scratch.status()["total"].clone();
    assert_eq!((&total["pending"], &total["deleted"], &total["indexed"]), (&0.into(), &1.into(), &2.into()));
    assert_eq!((found(&scratch, "pilot"), found(&scratch, "harbour")), (0, 2));
    scratch.call(&["reconcile", "--format", "json"]).ended(0);
}

#[test]
fn without_a_breaker_each_text_waits_its_own_time() {
    let scratch = slow(2, 0);
    let run = at_work(&scratch);
    let outage = Outage::of(&scratch);
    end(run).ended(0);
    for record in scratch.list().values() {
        assert_eq!(told(record), "retrying sink.unavailable write 1");
        assert!(record["next_attempt"].is_string(), "{record}");
    }
    assert_eq!(breakers(&scratch), Vec::<Value>::new());
    outage.over();
    // Not before its time; a person's word is asked for nothing else.
    scratch.run().ended(0);
    assert_eq!(all(&scratch), ["retrying sink.unavailable write 1"]);
    scratch.call(&["retry", "--kind", "sink.unavailable"]).ended(0);
    scratch.run().ended(0);
    assert_eq!(found(&scratch, "harbour"), 2);
}
