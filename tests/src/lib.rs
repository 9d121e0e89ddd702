//! The harness of the process tests: a state folder of one's own, the program as its user starts it, and what it printed.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

pub mod caged;
pub mod external;
pub mod faults;
pub mod fuse;
pub mod manifest;
pub mod million;
pub mod nobody;
pub mod questions;
pub mod scripts;
pub mod sys;
pub mod zip;

/// The two programs under test: see [`programs!`].
#[derive(Debug, Clone, Copy)]
pub struct Programs {
    pub lazaret: &'static str,
    pub worker: &'static str,
}

/// The two programs under test, as they are built for the process test that says this.
#[macro_export]
macro_rules! programs {
    () => {
        $crate::Programs {
            lazaret: env!("CARGO_BIN_EXE_lazaret-under-test"),
            worker: env!("CARGO_BIN_EXE_worker-under-test"),
        }
    };
}

/// A scratch folder with a state folder in it; removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    programs: Programs,
    pub path: PathBuf,
    pub settings: Vec<String>,
    pub variables: Vec<(String, String)>,
}

impl Scratch {
    /// An empty one.
    pub fn new(programs: Programs) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("lazaret-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("the scratch folder can be made");
        Scratch { programs, path, settings: Vec::new(), variables: Vec::new() }
    }

    /// The same with this setting for every command.
    #[must_use]
    pub fn with(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }

    /// Where the state is.
    pub fn state(&self) -> PathBuf {
        self.path.join("state")
    }

    /// A folder for a source, made where it is missing.
    pub fn source(&self) -> PathBuf {
        let source = self.path.join("source");
        std::fs::create_dir_all(&source).expect("the source can be made");
        source
    }

    /// Puts a file into the source.
    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.source().join(name);
        std::fs::create_dir_all(path.parent().expect("a file has a folder")).expect("the folder can be made");
        std::fs::write(&path, bytes).expect("the file can be written");
        path
    }

    /// The program with these words, and the settings where it takes them.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.programs.lazaret);
        command.args(words).arg("--state").arg(self.state());
        if matches!(words.first(), Some(&("run" | "extract" | "doctor" | "reconcile"))) {
            command.arg("--set").arg(format!("cage.worker='{}'", self.programs.worker));
            for setting in &self.settings {
                command.arg("--set").arg(setting);
            }
        }
        command.envs(self.variables.iter().cloned()).stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    #[must_use]
    pub fn call(&self, words: &[&str]) -> Said {
        let output = self.command(words).output().expect("the program starts");
        Said::of(&output)
    }

    /// Runs over the source.
    #[must_use]
    pub fn run(&self) -> Said {
        let source = self.source();
        self.call(&["run", source.to_str().expect("scratch paths are UTF-8")])
    }

    /// Starts a run over the source and lets it be.
    pub fn start(&self) -> Child {
        let source = self.source();
        let mut command = self.command(&["run", source.to_str().expect("scratch paths are UTF-8")]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts")
    }

    /// All records, by path.
    pub fn list(&self) -> BTreeMap<String, Value> {
        let said = self.call(&["list", "--format", "jsonl"]);
        assert_eq!(said.status, 0, "{said:?}");
        said.stdout
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("each line is an object"))
            .map(|record| (record["path"].as_str().expect("a path is a string").to_owned(), record))
            .collect()
    }

    /// The equation.
    pub fn status(&self) -> Value {
        let said = self.call(&["status", "--format", "json"]);
        serde_json::from_str(&said.stdout).expect("status is an object")
    }

    /// The text of a document, by id or path.
    pub fn text(&self, doc: &str) -> String {
        self.call(&["text", doc]).stdout
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.path).ok();
    }
}

/// What a command said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The exit status; 128 and the signal's number where a signal ended it.
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Said {
    /// From what the system gives.
    pub fn of(output: &Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let signal = output.status.signal().map(|signal| 128 + signal);
        Said {
            status: output.status.code().or(signal).unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Fails the test unless the command ended with this status.
    pub fn ended(self, status: i32) -> Self {
        assert_eq!(self.status, status, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

/// The repository's root.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the repository")
}

/// Case and white space folded, as texts are compared.
pub fn folded(text: &str) -> String {
    text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}
