//! Extractors of a test's own, and documents that misbehave: what makes an attempt end as the test wants it.

use crate::{Said, Scratch};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A document in the fault language that does this; `note` makes it different from others that do the same.
pub fn act(note: &str, line: &str) -> String {
    format!("#!lazaret-fault 1\n# {note}\n{line}\n")
}

/// The settings by which this script reads a format.
pub fn extractor(format: &str, script: &Path) -> String {
    format!("[[extractor]]\nformat = \"{format}\"\ncommand = [\"{}\"]\n", script.display())
}

impl Scratch {
    /// A Python script beside the source, which every user may run. It has the document in `text`.
    pub fn script(&self, name: &str, code: &str) -> PathBuf {
        let path = self.path.join(name);
        let head = "#!/usr/bin/env python3\nimport os, signal, sys\ntext = sys.stdin.read()\n";
        std::fs::write(&path, format!("{head}{code}\n")).expect("the script can be written");
        for path in [&path, &self.path] {
            std::fs::set_permissions(path, Permissions::from_mode(0o755)).expect("the mode can be set");
        }
        path
    }

    /// Runs over the source with a settings file of this text.
    #[must_use]
    pub fn run_with(&self, settings: &str) -> Said {
        let file = self.path.join("settings.toml");
        std::fs::write(&file, settings).expect("the settings can be written");
        let (file, source) = (file.to_str(), self.source());
        let words = ["run", source.to_str().expect("scratch paths are UTF-8"), "--config"];
        self.call(&[&words[..], &[file.expect("scratch paths are UTF-8")]].concat())
    }
}
