//! What must become of each document of `fixtures/files`.

use serde::Deserialize;
use std::path::PathBuf;

/// `fixtures/manifest.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub document: Vec<Expected>,
}

/// One document.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// As `list` shows it.
    pub path: String,
    pub state: String,
    pub kind: Option<String>,
    /// Must occur in its text, case and white space folded.
    pub snippet: Option<String>,
    pub why: Option<String>,
    /// What must become of it where the fault language is switched on.
    pub with_faults: Option<Ending>,
}

/// A state and a kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ending {
    pub state: String,
    pub kind: Option<String>,
}

/// The folder of the fixtures.
pub fn files() -> PathBuf {
    super::repository().join("fixtures/files")
}

/// Reads it.
pub fn read() -> Manifest {
    let path = super::repository().join("fixtures/manifest.toml");
    let text = std::fs::read_to_string(path).expect("the manifest is there");
    toml::from_str(&text).expect("the manifest is what fixtures/make wrote")
}
