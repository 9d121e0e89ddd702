//! What tests ask of a state folder: how a document stands, what is found, how much was done. They ask the program, as its
//! user would; only the events, which no command counts, are read from the ledger itself.

use crate::Scratch;
use serde_json::Value;
use std::collections::BTreeMap;

/// State, why, kind and attempts of a record, in words; `-` for what it has not.
pub fn told(record: &Value) -> String {
    let word = |key: &str| record[key].as_str().unwrap_or("-").to_owned();
    format!("{} {} {} {}", word("state"), word("why"), word("kind"), record["attempts"])
}

/// A record's state.
pub fn state(record: &Value) -> &str {
    record["state"].as_str().expect("a state is a word")
}

/// A record's kind; `-` for none.
pub fn kind(record: &Value) -> &str {
    record["kind"].as_str().unwrap_or("-")
}

impl Scratch {
    /// How each document stands, by path, as [`told`] says it.
    pub fn standing(&self) -> BTreeMap<String, String> {
        self.list().into_iter().map(|(path, record)| (path, told(&record))).collect()
    }

    /// State and kind of the document at this path.
    pub fn outcome(&self, path: &str) -> String {
        let records = self.list();
        let record = records.get(path).unwrap_or_else(|| panic!("no record of {path}: {:?}", records.keys()));
        format!("{} {}", state(record), kind(record))
    }

    /// How many records are as wanted.
    pub fn count(&self, wanted: impl Fn(&Value) -> bool) -> usize {
        self.list().values().filter(|record| wanted(record)).count()
    }

    /// How many documents are in this state; the books balance.
    pub fn total(&self, state: &str) -> u64 {
        let status = self.status();
        assert_eq!(status["balanced"], true, "{status}");
        status["total"][state].as_u64().expect("a count is a number")
    }

    /// The attempts of the document at this path, as `show` tells them.
    pub fn history(&self, path: &str) -> Vec<Value> {
        let said = self.call(&["show", path, "--format", "json"]).ended(0);
        let shown: Value = serde_json::from_str(&said.stdout).expect("a record is an object");
        shown["history"].as_array().expect("a history is a list").clone()
    }

    /// The paths of the documents that say this, in order, each with whether its text is marked as stale.
    pub fn hits(&self, word: &str) -> Vec<(String, bool)> {
        let said = self.call(&["search", word, "--format", "jsonl", "--limit", "10000"]).ended(0);
        let hit = |line: &str| {
            let hit: Value = serde_json::from_str(line).expect("each line is an object");
            let path = hit["path"].as_str().expect("a path is a string").to_owned();
            (path, hit["stale"].as_bool().expect("a hit is stale or not"))
        };
        let mut hits: Vec<_> = said.stdout.lines().map(hit).collect();
        hits.sort();
        hits
    }

    /// The paths of the documents that say this, in order.
    pub fn found(&self, word: &str) -> Vec<String> {
        self.hits(word).into_iter().map(|(path, _)| path).collect()
    }

    /// How many events the ledger has.
    pub fn events(&self) -> i64 {
        self.ask("SELECT count(*) FROM events")
    }

    /// How often a document was taken in hand, in all.
    pub fn starts(&self) -> i64 {
        self.ask("SELECT count(*) FROM events WHERE change LIKE '{\"Started\"%'")
    }

    fn ask(&self, query: &str) -> i64 {
        let db = rusqlite::Connection::open(self.state().join("ledger.sqlite")).expect("there is a ledger");
        db.query_row(query, [], |row| row.get(0)).expect("the query is right")
    }
}
