//! The program as an ordinary user, whom file modes bind: where the tests run as root they start it as `nobody`.

use crate::{Programs, Said, Scratch};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NOBODY: u32 = 65534;

/// Says that a test was not made here.
#[expect(clippy::print_stderr, reason = "whoever runs the tests must see it")]
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// Whether an ordinary user can start the programs where this build lies; the tests that need one are skipped where not.
pub fn nobody_can_start(programs: Programs) -> bool {
    let mut command = Command::new(programs.worker);
    become_nobody(&mut command);
    let started = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if started.is_err() {
        skipped("an ordinary user cannot start the programs where this build lies");
    }
    started.is_ok()
}

/// Whether an ordinary user may read these files; they are that user's own.
pub fn allow(files: &[PathBuf], allowed: bool) {
    for file in files {
        let mode = if allowed { 0o644 } else { 0 };
        std::fs::set_permissions(file, Permissions::from_mode(mode)).expect("the mode can be set");
        give_to_nobody(file);
    }
}

impl Scratch {
    /// The program with these words, to be started as an ordinary user; the folders are that user's own.
    pub fn command_as_nobody(&self, words: &[&str]) -> Command {
        for folder in [&self.path, &self.source()] {
            give_to_nobody(folder);
        }
        let mut command = self.command(words);
        become_nobody(&mut command);
        command
    }

    /// Runs the program to its end as an ordinary user.
    #[must_use]
    pub fn call_as_nobody(&self, words: &[&str]) -> Said {
        Said::of(&self.command_as_nobody(words).output().expect("the program starts"))
    }

    /// Runs over the source as an ordinary user, with these words more.
    #[must_use]
    pub fn run_as_nobody(&self, more: &[&str]) -> Said {
        let source = self.source();
        let source = source.to_str().expect("scratch paths are UTF-8");
        self.call_as_nobody(&[&["run", source], more].concat())
    }
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

fn become_nobody(command: &mut Command) {
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
}

fn give_to_nobody(path: &Path) {
    if is_root() {
        nix::unistd::chown(path, Some(NOBODY.into()), Some(NOBODY.into())).expect("root may give it away");
    }
}
