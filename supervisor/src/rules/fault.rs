//! Why an attempt failed: stage, kind, class and the evidence, as they were known at the moment of failure.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::kind::{Class, Kind, Stage};
use serde::{Deserialize, Serialize};
use shared::Metadata;

/// `evidence.detail` of a fault that our own machine is to blame for: descriptors, memory, the spool's disk.
pub const OUR_OWN: &str = "supervisor.resources";

/// The longest message that is kept, in bytes of UTF-8.
pub const MESSAGE_MAX: usize = 8 << 10;

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub stage: Stage,
    pub kind: Kind,
    /// `None` for the `content.*` kinds that no class goes with.
    pub class: Option<Class>,
    /// The raw error, word for word, at most [`MESSAGE_MAX`] bytes.
    pub message: String,
    /// An act that no honest parser commits.
    pub hostile: bool,
    pub evidence: Evidence,
}

impl Fault {
    /// Whether what was short is ours (descriptors, memory), whatever the document.
    pub fn is_our_own(&self) -> bool {
        self.evidence.detail.as_deref() == Some(OUR_OWN)
    }

    /// A fault of this kind with the kind's own class and no evidence yet.
    pub fn new(stage: Stage, kind: Kind, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        message.truncate(message.floor_char_boundary(MESSAGE_MAX));
        Fault {
            stage,
            kind,
            class: kind.default_class(),
            message,
            hostile: false,
            evidence: Evidence::default(),
        }
    }

    /// The same with this evidence.
    #[must_use]
    pub fn with(mut self, evidence: Evidence) -> Self {
        self.evidence = evidence;
        self
    }
}

/// What a verdict rests on. In JSON only what is there is written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// The signal that ended the child, by name: `SIGSEGV`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The forbidden system call, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syscall: Option<String>,
    /// Equal for equal crashes: hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<shared::Parts>,
    /// The verdict is an inference: the mechanism itself left no trace.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
    /// The layers of the cage that held.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<String>,
    /// The rule of the protocol that was broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Why the supervisor killed the child, where it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub killed_for: Option<String>,
    /// The finer name of what happened, such as `mem.budget` or `setup.landlock`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// File and line of a panic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Addresses of a crash as offsets into the worker's file, innermost first: hex.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<String>,
    /// Bytes of the allocation that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<u64>,
    /// The system's error number, by name: `EACCES`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<String>,
    /// What the content check measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measures: Option<Measures>,
    /// The engine that took the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// What the document says about itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// The name that the file's extension promises, where its bytes are of another format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension_mismatch: Option<String>,
    /// What the engines before the last one of a chain said, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<Said>,
    /// Tells one list of passwords from another: the one that was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passwords: Option<String>,
    /// The source asked to be left alone for so long, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// A counter of the machine or of the cgroup that moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counter: Option<String>,
}

impl Eq for Evidence {}

/// What one engine of a chain said of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    pub engine: String,
    /// `None`: a text that passed the check.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kind: Option<Kind>,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub message: String,
}

/// A limit that was met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The setting: `memory`, `expansion`.
    pub name: String,
    /// Its value then, in the setting's own unit (bytes, ms, count).
    pub value: u64,
    /// What was measured, where that is more than "reached".
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub measured: Option<u64>,
}

/// What the content check measured. Shares are between 0 and 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    pub chars: u64,
    pub letters: u64,
    pub words: u64,
    /// U+FFFD, control and private-use characters, and letters that are UTF-8 read in the wrong charset, among all.
    pub junk: f64,
    /// Glyph codes such as `(cid:12)` among all words.
    pub glyph_codes: f64,
    /// Letters and digits a page, on average, where pages are counted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub chars_a_page: Option<f64>,
    /// Pages with text among pages, where pages are told apart.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pages_with_text: Option<f64>,
    /// Lines that stand on most pages among all lines, by their characters; where pages are told apart and four have text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub repeated_lines: Option<f64>,
    /// Words among the 2,000 commonest of fifteen languages; absent below 50 words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub common_words: Option<f64>,
    /// Pairs of letters that hardly ever stand together in these languages, among all pairs; measured where few words are common.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub odd_pairs: Option<f64>,
}
