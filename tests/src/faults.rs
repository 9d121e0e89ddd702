//! The acts of the fault language and as what each ends: read from the page that describes the language to its users, so
//! that what is tested is what is promised.

use crate::Scratch;

/// One act, as it stands in a document, and the end that the page promises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    pub line: String,
    /// A kind, or `indexed`.
    pub ends_as: String,
}

impl Act {
    /// Whether a child carries it out until a clock stops it.
    pub fn is_slow(&self) -> bool {
        self.ends_as.starts_with("time.")
    }

    /// A document with this act; `note` makes it different from others with the same.
    pub fn document(&self, note: &str) -> String {
        format!("#!lazaret-fault 1\n# {note}\n{}\n", self.line)
    }
}

/// The limits that the page names, with no large lane beside them, the language switched on, and one attempt for each
/// document.
pub const SETTINGS: [&str; 14] = [
    "cage.faults=true",
    "limits.memory='64MiB'",
    "limits.cpu='2s'",
    "limits.stalled='1s'",
    "limits.wall='8s'",
    "limits.output='1MiB'",
    "limits.entries=10",
    "limits.large.memory='64MiB'",
    "limits.large.cpu='2s'",
    "limits.large.stalled='1s'",
    "limits.large.wall='8s'",
    "limits.large.output='1MiB'",
    "retry.attempts=1",
    "children=2",
];

/// All acts in the tables of `fixtures/faults/README.md`.
///
/// # Panics
/// Where the page is missing, or a row has no act or not one end.
pub fn acts() -> Vec<Act> {
    let page = super::repository().join("fixtures/faults/README.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    page.lines().filter(|line| line.starts_with("| `")).flat_map(row).collect()
}

fn row(line: &str) -> Vec<Act> {
    let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
    let &[acts, _, end] = cells.as_slice() else { panic!("not three cells: {line}") };
    let (acts, end) = (quoted(acts), quoted(end));
    assert!(!acts.is_empty() && end.len() == 1, "no act, or not one end: {line}");
    acts.iter().map(|act| Act { line: (*act).to_owned(), ends_as: end[0].to_owned() }).collect()
}

/// What stands between backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// What became of each document of the source, by path: its kind, or its state where it has none.
pub fn ends(scratch: &Scratch) -> Vec<(String, String)> {
    let end = |record: &serde_json::Value| {
        let words = record["kind"].as_str().or_else(|| record["state"].as_str());
        words.unwrap_or_default().to_owned()
    };
    scratch.list().iter().map(|(path, record)| (path.clone(), end(record))).collect()
}
