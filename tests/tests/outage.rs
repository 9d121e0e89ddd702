//! The index is out of reach for a while: its folder is moved away under a live run and comes back, as a volume does that is
//! unmounted. What was extracted is kept, nothing is extracted twice, and nothing that was to leave the index stays in it.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use tests::{Programs, Said, Scratch};

const PROGRAMS: Programs = tests::programs!();

/// So many documents, each of which takes a child more than a second.
fn slow(documents: usize, window: usize) -> Scratch {
    let scratch = Scratch::new(PROGRAMS)
        .with("cage.faults=true")
        .with("children=2")
        .with(&format!("breaker.sink.window={window}"));
    for number in 0..documents {
        let act = format!(
            "#!lazaret-fault 1\n# {number}\nslow 12 100\ntext the harbour master's letter {number}\n"
        );
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
        std::fs::remove_dir_all(&self.index).ok();
        std::fs::rename(self.away, self.index).unwrap();
    }
}

/// Starts a run and waits until a document is in flight: before its first commit.
fn at_work(scratch: &Scratch) -> Child {
    let source = scratch.source();
    let mut command = scratch.command(&["run", source.to_str().unwrap()]);
    let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    in_flight(scratch, run)
}

fn in_flight(scratch: &Scratch, mut run: Child) -> Child {
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

fn history(scratch: &Scratch, doc: &str) -> Vec<(String, String)> {
    let word = |attempt: &Value, key: &str| attempt[key].as_str().unwrap_or("-").to_owned();
    let attempts = scratch.history(doc);
    attempts.iter().map(|attempt| (word(attempt, "stage"), word(attempt, "kind"))).collect()
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
    assert_eq!(scratch.found("harbour").len(), 6);
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
    assert_eq!(scratch.found("harbour").len(), 10);
    assert!(all(&scratch).iter().all(|told| told.starts_with("indexed")), "{:?}", all(&scratch));
    assert_eq!(breakers(&scratch), Vec::<Value>::new());
}

#[test]
fn what_is_to_leave_an_index_that_is_down_leaves_it_later() {
    let scratch = slow(0, 50);
    let gone = scratch.put("gone.txt", "the pilot's farewell\n");
    scratch.put("stays.txt", "the harbour of the town\n");
    scratch.run().ended(0);
    assert_eq!(scratch.found("pilot").len(), 1);
    std::fs::remove_file(gone).unwrap();
    scratch.put("new.fault", "#!lazaret-fault 1\nslow 12 100\ntext a new letter to the harbour\n");
    let run = at_work(&scratch);
    let outage = Outage::of(&scratch);
    end(run).ended(1);
    let total = scratch.status()["total"].clone();
    assert_eq!((&total["pending"], &total["deleted"]), (&1.into(), &0.into()), "{total}");
    outage.over();
    scratch.run().ended(0);
    let total = scratch.status()["total"].clone();
    assert_eq!((&total["pending"], &total["deleted"], &total["indexed"]), (&0.into(), &1.into(), &2.into()));
    assert_eq!((scratch.found("pilot").len(), scratch.found("harbour").len()), (0, 2));
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
    assert_eq!(scratch.found("harbour").len(), 2);
}

/// One outage, to the end of its run; then `meanwhile` befalls the source, and the next run finds all as it should be.
fn outlived(scratch: &Scratch, meanwhile: impl FnOnce()) {
    let run = at_work(scratch);
    let outage = Outage::of(scratch);
    end(run).ended(1);
    meanwhile();
    outage.over();
    scratch.run().ended(0);
    let compared = scratch.call(&["reconcile", "--format", "json"]);
    assert_eq!(compared.status, 0, "{}", compared.stdout);
}

#[test]
fn what_waits_for_its_sink_may_go_change_and_be_touched_meanwhile() {
    let scratch = slow(3, 1);
    let gone = scratch.put("gone.txt", "the pilot's farewell\n");
    scratch.put("other.txt", "the first word of the harbour\n");
    let touched = scratch.put("touched.txt", "the same word of the harbour\n");
    outlived(&scratch, || {
        std::fs::remove_file(gone).unwrap();
        scratch.put("other.txt", "the second and longer word of the harbour\n");
        let touched = std::fs::File::options().write(true).open(touched).unwrap();
        touched.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    });
    let total = scratch.status()["total"].clone();
    assert_eq!(
        (&total["indexed"], &total["deleted"], &total["discovered"]),
        (&5.into(), &1.into(), &5.into())
    );
    assert_eq!(
        (scratch.found("pilot").len(), scratch.found("first").len(), scratch.found("second").len()),
        (0, 0, 1)
    );
    let of_the_same = history(&scratch, "touched.txt");
    assert_eq!(of_the_same.len(), 2, "and nothing extracted it again: {of_the_same:?}");
}

#[test]
fn what_a_lost_index_held_of_older_bytes_is_not_kept() {
    let scratch = slow(0, 1);
    scratch.put("other.txt", "the first word of the harbour\n");
    scratch.run().ended(0);
    scratch.put("other.txt", "the second and longer word of the harbour\n");
    scratch.put("new.fault", "#!lazaret-fault 1\nslow 12 100\ntext a new letter to the harbour\n");
    let away = scratch.state().join("index-away");
    let run = at_work(&scratch);
    Outage::of(&scratch);
    end(run).ended(1);
    std::fs::remove_dir_all(away).unwrap();
    scratch.run().ended(0);
    assert_eq!((scratch.found("first").len(), scratch.found("harbour").len()), (0, 2));
    scratch.call(&["reconcile", "--format", "json"]).ended(0);
}

#[test]
fn a_folder_that_stands_where_the_index_was_is_not_taken_for_it() {
    let scratch = slow(6, 1);
    scratch.put("first.txt", "the first word of the harbour\n");
    let run = at_work(&scratch);
    // The writer has the index open, and the folder that a volume was mounted on is there again.
    while scratch.status()["total"]["indexed"] == 0 {
        std::thread::yield_now();
    }
    let outage = Outage::of(&scratch);
    std::fs::create_dir(&outage.index).unwrap();
    let said = end(run).ended(1);
    assert!(said.stderr.contains("another folder is in its place"), "{said:?}");
    outage.over();
    let indexed = scratch.status()["total"]["indexed"].as_u64().unwrap();
    assert!(scratch.found("harbour").len() as u64 >= indexed, "what is called indexed can be found");
    scratch.run().ended(0);
    assert_eq!(scratch.found("harbour").len(), 7);
    scratch.call(&["reconcile", "--format", "json"]).ended(0);
}

#[test]
fn a_sink_that_comes_back_under_a_later_connector_gets_what_is_the_earlier_ones() {
    let scratch = slow(2, 1);
    let gone = scratch.put("gone.txt", "the pilot's farewell\n");
    scratch.run().ended(0);
    std::fs::remove_file(gone).unwrap();
    scratch.put("new.fault", "#!lazaret-fault 1\nslow 12 100\ntext a new letter to the harbour\n");
    let scratch = scratch.with("retry.floor='100ms'").with("retry.cap='100ms'");
    let later = scratch.path.join("later");
    std::fs::create_dir(&later).unwrap();
    for number in 0..6 {
        let act = format!("#!lazaret-fault 1\n# {number}\nslow 12 100\ntext a later letter {number}\n");
        std::fs::write(later.join(format!("later-{number}.fault")), act).unwrap();
    }
    let source = scratch.source();
    let words = ["run", source.to_str().unwrap(), later.to_str().unwrap()];
    let run = scratch.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let run = in_flight(&scratch, run);
    let outage = Outage::of(&scratch);
    while !scratch.list().contains_key("later-0.fault") {
        std::thread::yield_now();
    }
    outage.over();
    end(run).ended(0);
    let total = scratch.status()["total"].clone();
    assert_eq!((&total["indexed"], &total["deleted"], &total["pending"]), (&9.into(), &1.into(), &0.into()));
    assert_eq!((scratch.found("pilot").len(), scratch.found("letter").len()), (0, 9));
}

#[test]
fn a_copy_of_what_waits_for_its_sink_takes_its_text() {
    let scratch = slow(2, 1);
    outlived(&scratch, || {
        let bytes = std::fs::read(scratch.source().join("0.fault")).unwrap();
        scratch.put("copy.fault", bytes);
    });
    let records = scratch.list();
    assert_eq!(told(&records["copy.fault"]), "indexed - - 0");
    assert_eq!(records["copy.fault"]["same_as"], records["0.fault"]["id"]);
    assert_eq!(scratch.found("harbour").len(), 3);
}
