//! What `doctor` says, and that `run` works, where less is to be had: as an ordinary user, and without user namespaces.

use serde_json::Value;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tests::{Programs, Said, Scratch};

const PROGRAMS: Programs = tests::programs!();

const NOBODY: u32 = 65534;

/// Forbids user namespaces inside of one, then becomes the program: with all capabilities in there, or with none.
const FORBID: &str = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";
const FORBID_AND_DROP: &str = "echo 0 > /proc/sys/user/max_user_namespaces && \
    exec setpriv --ambient-caps=-all --inh-caps=-all \"$0\" \"$@\"";

/// The programs where everybody may run them, and a folder for each command to start in.
struct Place {
    scratch: Scratch,
    lazaret: PathBuf,
}

impl Place {
    fn new() -> Self {
        let scratch = Scratch::new(PROGRAMS);
        let lazaret = scratch.path.join("lazaret");
        std::fs::copy(PROGRAMS.lazaret, &lazaret).unwrap();
        std::fs::copy(PROGRAMS.worker, scratch.path.join("lazaret-worker")).unwrap();
        scratch.put("a.txt", "The harbour master keeps a list of all ships that came in this week.\n");
        Place { scratch, lazaret }
    }

    /// `doctor`, then `run`, both through `how`; what doctor reported, and the record of the one document.
    fn look(&self, how: impl Fn(&Path) -> Command) -> (Value, Value) {
        let said = self.call(how(&self.lazaret), &["doctor", "--format", "json"]).ended(3);
        let report: Value = serde_json::from_str(&said.stdout).unwrap();
        let source = self.scratch.source();
        self.call(how(&self.lazaret), &["run", source.to_str().unwrap()]).ended(0);
        let said = self.call(how(&self.lazaret), &["show", "a.txt", "--format", "json"]).ended(0);
        (report, serde_json::from_str(&said.stdout).unwrap())
    }

    fn call(&self, mut command: Command, words: &[&str]) -> Said {
        command.args(words).arg("--state").arg(self.scratch.state()).stdin(Stdio::null());
        Said::of(&command.current_dir(&self.scratch.path).output().unwrap())
    }
}

/// Names of the layers in this state. None of them may be a claim that is not true.
fn layers(report: &Value, state: &str) -> Vec<String> {
    let layers = report["layers"].as_array().unwrap();
    for layer in layers {
        assert!(!layer["reason"].as_str().unwrap().starts_with("claimed"), "{layer}");
    }
    let these = layers.iter().filter(|layer| layer["state"] == state);
    these.map(|layer| layer["layer"].as_str().unwrap().to_owned()).collect()
}

fn fix<'a>(report: &'a Value, name: &str) -> &'a str {
    let layers = report["layers"].as_array().unwrap();
    layers.iter().find(|layer| layer["layer"] == name).unwrap()["fix"].as_str().unwrap_or_default()
}

/// The record names the layers that doctor found, no more and no less.
fn carries_layers(record: &Value, report: &Value) {
    let text = record.to_string();
    for name in layers(report, "enforced") {
        assert!(text.contains(&format!("\"{name}\"")), "{name}: {text}");
    }
    for name in layers(report, "absent") {
        assert!(!text.contains(&format!("\"{name}\"")), "{name}: {text}");
    }
    assert_eq!(record["state"], "indexed");
}

fn all_attacks_held(report: &Value) {
    for attack in report["attacks"].as_array().unwrap() {
        assert_eq!(attack["held"], true, "{attack}");
    }
}

#[test]
fn an_ordinary_user_is_contained_and_told_what_is_missing() {
    if !nix::unistd::geteuid().is_root() {
        // Then every other test runs as one.
        return;
    }
    let place = Place::new();
    chown(&place.scratch.path, Some(NOBODY), Some(NOBODY)).unwrap();
    let (report, record) = place.look(|program| {
        let mut command = Command::new(program);
        command.uid(NOBODY).gid(NOBODY);
        command
    });
    all_attacks_held(&report);
    let absent = layers(&report, "absent");
    assert!(absent.contains(&"uid".to_owned()), "{absent:?}");
    assert!(absent.iter().all(|name| ["uid", "cgroup"].contains(&name.as_str())), "{absent:?}");
    assert!(fix(&report, "uid").contains("root"));
    carries_layers(&record, &report);
}

#[test]
fn an_ordinary_user_without_user_namespaces_is_contained_by_the_rest() {
    let (report, record) = Place::new().look(|program| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-user=65534", "--map-group=65534", "--keep-caps"]);
        command.args(["sh", "-c", FORBID_AND_DROP]).arg(program);
        command
    });
    all_attacks_held(&report);
    let absent = layers(&report, "absent");
    for name in ["uid", "user-namespace", "mount-namespace", "pid-namespace", "network-namespace"] {
        assert!(absent.contains(&name.to_owned()), "{name}: {absent:?}");
    }
    assert!(fix(&report, "user-namespace").contains("max_user_namespaces"));
    let enforced = layers(&report, "enforced");
    for name in ["landlock-zygote", "landlock-child", "seccomp-zygote", "seccomp-child", "parent-death"] {
        assert!(enforced.contains(&name.to_owned()), "{name}: {enforced:?}");
    }
    carries_layers(&record, &report);
}

#[test]
fn root_without_user_namespaces_makes_the_others_first() {
    let (report, record) = Place::new().look(|program| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "sh", "-c", FORBID]).arg(program);
        command
    });
    all_attacks_held(&report);
    let absent = layers(&report, "absent");
    assert!(absent.contains(&"user-namespace".to_owned()), "{absent:?}");
    assert!(fix(&report, "user-namespace").contains("max_user_namespaces"));
    let enforced = layers(&report, "enforced");
    for name in ["mount-namespace", "pid-namespace", "network-namespace", "landlock-child"] {
        assert!(enforced.contains(&name.to_owned()), "{name}: {enforced:?}");
    }
    carries_layers(&record, &report);
}
