//! The equation counted a second time, slowly and in another way: from the events alone, against every row and every counter.
//!
//! `LAZARET_RECORDS` says how many documents (20,000 without it). What an event does is told here anew, from its stored text,
//! by nothing that the program itself uses.

use rusqlite::Connection;
use serde_json::Value;
use std::collections::BTreeMap;
use tests::{Programs, Scratch, million};

const PROGRAMS: Programs = tests::programs!();

/// A document, as its events tell it.
#[derive(Debug, Default)]
struct Told {
    state: String,
    in_sink: bool,
    /// Where it goes once it has left the sink.
    leaves_for: Option<&'static str>,
}

impl Told {
    fn hear(&mut self, change: &Value) {
        let (word, said) = match change {
            Value::String(word) => (word.as_str(), &Value::Null),
            Value::Object(map) => {
                map.iter().next().map(|(word, said)| (word.as_str(), said)).expect("one word")
            }
            _ => panic!("{change}"),
        };
        match word {
            "Fetched" | "Ready" | "Touched" => {}
            "Seen" if said["fault"].is_null() => self.becomes("pending"),
            "Seen" | "Failed" | "Lost" => self.settles(&said["settle"]),
            "Started" | "Requeued" | "RequeuedByHand" | "Due" | "PutBack" => self.becomes("pending"),
            "Held" => self.becomes("retrying"),
            "Written" => {
                self.in_sink = true;
                let state = said["state"].as_str().expect("a word").to_owned();
                self.becomes(&state);
            }
            "Unwritten" if ["indexed", "suspect"].contains(&self.state.as_str()) => self.becomes("pending"),
            "Unwritten" => self.in_sink = false,
            "Rejected" => self.leaves("excluded"),
            "Gone" => self.leaves("deleted"),
            "Left" => {
                self.in_sink = false;
                let end = self.leaves_for.take().expect("only what leaves has left");
                self.becomes(end);
            }
            _ => panic!("an event that this test does not know: {change}"),
        }
    }

    fn settles(&mut self, settle: &Value) {
        match settle {
            Value::String(word) if word == "AtOnce" => self.becomes("retrying"),
            Value::String(word) if word == "Large" => self.becomes("pending"),
            Value::Object(map) if map.contains_key("Retry") => self.becomes("retrying"),
            Value::Object(map) if map.contains_key("Quarantine") => self.becomes("quarantined"),
            _ => self.leaves("excluded"),
        }
    }

    fn leaves(&mut self, end: &'static str) {
        if self.in_sink {
            self.leaves_for = Some(end);
            self.becomes("pending");
        } else {
            self.becomes(end);
        }
    }

    fn becomes(&mut self, state: &str) {
        state.clone_into(&mut self.state);
    }
}

/// By number of the source and name of the counter.
type Counters = BTreeMap<(i64, String), i64>;

/// What the events say: each document, and how often each counter moved.
fn from_the_events(db: &Connection) -> (BTreeMap<i64, Told>, Counters) {
    let mut documents: BTreeMap<i64, Told> = BTreeMap::new();
    let mut sources: BTreeMap<i64, i64> = BTreeMap::new();
    let mut counters = Counters::new();
    let mut statement =
        db.prepare("SELECT doc, change FROM events WHERE revision IS NOT NULL ORDER BY seq").unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let doc: i64 = row.get(0).unwrap();
        let change: Value = serde_json::from_str(&row.get::<_, String>(1).unwrap()).unwrap();
        if let Some(source) = change["Seen"]["source"].as_i64() {
            sources.insert(doc, source);
        }
        let told = documents.entry(doc).or_default();
        let was_there = !["", "deleted"].contains(&told.state.as_str());
        told.hear(&change);
        let step = i64::from(told.state != "deleted") - i64::from(was_there);
        *counters.entry((sources[&doc], "discovered".to_owned())).or_default() += step;
    }
    for (doc, told) in &documents {
        *counters.entry((sources[doc], told.state.clone())).or_default() += 1;
    }
    (documents, counters)
}

/// Every row, by no index.
fn from_the_rows(db: &Connection) -> (BTreeMap<i64, String>, Counters) {
    let (mut states, mut counters) = (BTreeMap::new(), Counters::new());
    let mut statement = db.prepare("SELECT number, source, state FROM documents NOT INDEXED").unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let (number, source, state): (i64, i64, String) =
            (row.get(0).unwrap(), row.get(1).unwrap(), row.get(2).unwrap());
        if state != "deleted" {
            *counters.entry((source, "discovered".to_owned())).or_default() += 1;
        }
        *counters.entry((source, state.clone())).or_default() += 1;
        states.insert(number, state);
    }
    (states, counters)
}

fn stored(db: &Connection) -> Counters {
    let mut statement =
        db.prepare("SELECT source, state, n FROM counters WHERE state != 'items' AND n != 0").unwrap();
    let counters = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?))).unwrap();
    counters.map(Result::unwrap).collect()
}

#[test]
fn the_equation_holds_when_it_is_counted_from_the_events_alone() {
    let records = std::env::var("LAZARET_RECORDS").ok().and_then(|word| word.parse().ok()).unwrap_or(20_000);
    let scratch = Scratch::new(PROGRAMS);
    million::fill(&scratch.state(), records).unwrap();
    // People come along, too.
    scratch.call(&["retry", "--kind", "time.wall"]).ended(0);
    scratch.call(&["reprocess", "--path", "department-00?1/**"]).ended(0);
    let db = Connection::open(scratch.state().join("ledger.sqlite")).unwrap();
    let (told, moved) = from_the_events(&db);
    let (states, counted) = from_the_rows(&db);
    assert_eq!(told.len() as u64, records);
    assert_eq!(states.len() as u64, records);
    for (number, state) in &states {
        assert_eq!(&told[number].state, state, "document {number}");
    }
    assert_eq!(moved, counted);
    assert_eq!(stored(&db), counted);
    for source in [1, 2] {
        let of = |name: &str| counted.get(&(source, name.to_owned())).copied().unwrap_or(0);
        let right = ["indexed", "suspect", "retrying", "quarantined", "excluded", "pending"].map(of);
        assert!(right.iter().all(|count| *count > 0), "every state occurs: {right:?}");
        assert_eq!(of("discovered"), right.iter().sum::<i64>());
    }
    // What `status` tells is the same.
    let status = scratch.status();
    assert_eq!(status["balanced"], true);
    for (number, source) in [1, 2].iter().zip(status["sources"].as_array().unwrap()) {
        for name in
            ["discovered", "indexed", "suspect", "retrying", "quarantined", "excluded", "pending", "deleted"]
        {
            let count = counted.get(&(*number, name.to_owned())).copied().unwrap_or(0);
            assert_eq!(source[name], count, "{name} of {}", source["name"]);
        }
    }
}
