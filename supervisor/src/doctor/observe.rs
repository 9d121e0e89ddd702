//! What the kernel says of a live child, and which layers that proves.
//!
//! A child's files in /proc are root's, because it is not dumpable: an ordinary user sees less of it. What a child cannot
//! have otherwise than its zygote (namespaces, root) is then read at the zygote, and its descriptors it tells itself.

use super::Attack;
use shared::Layer;
use shared::ask::{Held, Proof};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// As whose the kernel shows what belongs to a user that our user namespace does not know, such as the machine's root.
const UNMAPPED: &str = "65534";

/// What speaks for a layer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// It was seen or attacked, and how.
    Whole(String),
    /// The same, and what this kernel cannot forbid.
    Part(String),
}

/// Everything by which a claimed layer is judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evidence<'a> {
    pub(super) seen: &'a Seen,
    /// What documents said that looked around.
    pub(super) probes: &'a str,
    /// How the attacks from inside ended.
    pub(super) attacks: &'a [Attack],
    /// How the zygote's attacks on itself ended.
    pub(super) proofs: &'a [Proof],
}

/// A child as it is seen from outside.
#[derive(Debug, Default)]
pub(super) struct Seen {
    status: BTreeMap<String, String>,
    zygote_status: BTreeMap<String, String>,
    own_uid: String,
    /// By name of the namespace: whether it is another than ours. Missing where it cannot be told.
    namespaces: BTreeMap<String, bool>,
    /// `None` where they cannot be seen.
    descriptors: Option<Vec<i32>>,
    root_entries: Option<usize>,
    limits: String,
    cgroup: String,
    environ_owner: Option<u32>,
}

impl Seen {
    /// Reads it, quickly: the child waits.
    pub(super) fn of(pid: i32, zygote: i32) -> Self {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok().map(|entries| {
            let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            let mut numbers: Vec<i32> = numbers.collect();
            numbers.sort_unstable();
            numbers
        });
        let names = ["user", "mnt", "net", "pid", "ipc", "uts", "cgroup"];
        let is_other = |name: &&str| {
            // The zygote itself does not live in the process namespace that its children live in.
            let of_zygote = if *name == "pid" { "pid_for_children" } else { name };
            let theirs = fs::read_link(format!("/proc/{pid}/ns/{name}"))
                .or_else(|_| fs::read_link(format!("/proc/{zygote}/ns/{of_zygote}")))
                .ok()?;
            let ours = fs::read_link(format!("/proc/self/ns/{name}")).ok()?;
            Some(((*name).to_owned(), theirs != ours))
        };
        let entries = |pid: i32| fs::read_dir(format!("/proc/{pid}/root")).ok().map(Iterator::count);
        Seen {
            status: fields(&read("status")),
            zygote_status: fields(&fs::read_to_string(format!("/proc/{zygote}/status")).unwrap_or_default()),
            own_uid: nix::unistd::geteuid().to_string(),
            namespaces: names.iter().filter_map(is_other).collect(),
            descriptors,
            root_entries: entries(pid).or_else(|| entries(zygote)),
            limits: read("limits"),
            cgroup: read("cgroup"),
            environ_owner: fs::metadata(format!("/proc/{pid}/environ")).ok().map(|file| file.uid()),
        }
    }

    fn says(&self, field: &str) -> &str {
        self.status.get(field).map_or("", String::as_str)
    }

    fn uid(&self) -> &str {
        self.says("Uid").split_whitespace().next().unwrap_or_default()
    }

    fn filters(status: &BTreeMap<String, String>) -> u32 {
        status.get("Seccomp_filters").and_then(|count| count.parse().ok()).unwrap_or(0)
    }

    /// The soft limit of this name; `None` where it is unlimited or unknown.
    fn limit(&self, name: &str) -> Option<u64> {
        let line = self.limits.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    }
}

/// `Name: value` by name.
fn fields(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

/// Whether a claimed layer holds: how that is known, or what is seen instead.
pub(super) fn judge(layer: Layer, evidence: &Evidence<'_>) -> Result<Finding, String> {
    let &Evidence { seen, probes, attacks, proofs } = evidence;
    if seen.status.is_empty() {
        return Err("no child could be looked at".to_owned());
    }
    match layer {
        Layer::Descriptors => match &seen.descriptors {
            Some(numbers) => shown(numbers == &[0, 1, 2, 3], "open", &format!("{numbers:?}")),
            None => probe(probes, "fds", "[0, 1, 2, 3]"),
        },
        Layer::Environment => probe(probes, "environ", "0"),
        Layer::Uid => shown(seen.uid() != seen.own_uid, "its user id is", seen.uid()),
        Layer::UserNamespace => namespace(seen, "user"),
        Layer::MountNamespace => {
            namespace(seen, "mnt")?;
            let entries = seen.root_entries.map_or_else(|| "unknown".to_owned(), |count| count.to_string());
            shown(seen.root_entries == Some(0), "entries of its root:", &entries)
        }
        Layer::NetworkNamespace => namespace(seen, "net"),
        Layer::PidNamespace => namespace(seen, "pid"),
        Layer::IpcNamespace => namespace(seen, "ipc"),
        Layer::UtsNamespace => namespace(seen, "uts"),
        Layer::CgroupNamespace => namespace(seen, "cgroup"),
        Layer::Capabilities => capabilities(seen),
        Layer::NoNewPrivileges => {
            shown(seen.says("NoNewPrivs") == "1", "NoNewPrivs is", seen.says("NoNewPrivs"))
        }
        Layer::SeccompZygote => {
            let filters = Seen::filters(&seen.zygote_status);
            shown(
                seen.says("Seccomp") == "2" && filters > own_filters(),
                "filters of the zygote:",
                &filters.to_string(),
            )
        }
        Layer::SeccompChild => {
            let (child, zygote) = (Seen::filters(&seen.status), Seen::filters(&seen.zygote_status));
            shown(child > zygote, "filters of the child and the zygote:", &format!("{child}, {zygote}"))
        }
        Layer::SeccompListener => attacked(attacks, "syscall socket-inet"),
        Layer::MemoryBudget => attacked(attacks, "grow"),
        Layer::Rlimits => {
            let tight = seen.limit("Max core file size") == Some(0)
                && seen.limit("Max processes") == Some(0)
                && seen.limit("Max file size") == Some(0)
                && seen.limit("Max cpu time").is_some()
                && seen.limit("Max address space").is_some();
            shown(
                tight,
                "limits on core, processes, files, time and memory:",
                if tight { "set" } else { "not all set" },
            )
        }
        Layer::NotDumpable => {
            probe(probes, "dumpable", "0")?;
            let owner = seen.environ_owner.map_or_else(String::new, |owner| owner.to_string());
            let not_its_own = owner != seen.uid() || owner == "0" || owner == UNMAPPED;
            shown(not_its_own, "its files in /proc belong to", &owner)
        }
        Layer::Cgroup => shown(
            seen.cgroup.contains("/lazaret-"),
            "its cgroup has our name:",
            if seen.cgroup.contains("/lazaret-") { "yes" } else { "no" },
        ),
        Layer::LandlockZygote | Layer::LandlockChild => attacked_by_zygote(proofs, layer),
        Layer::ParentDeath => probe(probes, "parent-death", "SIGKILL"),
    }
}

fn shown(holds: bool, what: &str, value: &str) -> Result<Finding, String> {
    let words = format!("{what} {value}");
    if holds { Ok(Finding::Whole(words)) } else { Err(format!("claimed, but {words}")) }
}

fn namespace(seen: &Seen, name: &str) -> Result<Finding, String> {
    match seen.namespaces.get(name) {
        Some(true) => Ok(Finding::Whole(format!("its {name} namespace is not ours"))),
        Some(false) => Err(format!("claimed, but its {name} namespace is ours")),
        None => Err(format!("claimed, but its {name} namespace cannot be seen")),
    }
}

/// Who has no capability to begin with may not empty the bounding set either. It says what a program could be given that
/// is started anew, and without new privileges none is given anything.
fn capabilities(seen: &Seen) -> Result<Finding, String> {
    let is_empty =
        |set: &&str| !seen.says(set).is_empty() && seen.says(set).chars().all(|digit| digit == '0');
    let held = ["CapInh", "CapPrm", "CapEff", "CapAmb"];
    if held.iter().all(is_empty) && !is_empty(&"CapBnd") && seen.says("NoNewPrivs") == "1" {
        return Ok(Finding::Whole("it has none, and without new privileges can be given none".to_owned()));
    }
    let sets: Vec<_> = held.iter().chain(&["CapBnd"]).map(|set| seen.says(set)).collect();
    let empty = held.iter().chain(&["CapBnd"]).all(is_empty);
    shown(empty, "its capabilities are", &sets.join(" "))
}

fn attacked_by_zygote(proofs: &[Proof], layer: Layer) -> Result<Finding, String> {
    match proofs.iter().find(|proof| proof.layer == layer) {
        Some(Proof { held: Held::Wholly, words, .. }) => Ok(Finding::Whole(words.clone())),
        Some(Proof { held: Held::Partly, words, .. }) => Ok(Finding::Part(words.clone())),
        Some(Proof { held: Held::Not, words, .. }) => Err(format!("claimed, but {words}")),
        None => Err("claimed, but the worker did not attack it".to_owned()),
    }
}

fn probe(probes: &str, name: &str, good: &str) -> Result<Finding, String> {
    let said = probes.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    match said {
        Some(value) => shown(value == good, &format!("a child finds {name}"), value),
        None => Err(format!("claimed, but the probe {name} did not answer")),
    }
}

fn attacked(attacks: &[Attack], name: &str) -> Result<Finding, String> {
    match attacks.iter().find(|attack| attack.name == name) {
        Some(attack) => shown(attack.held, &format!("the attack `{name}` ended as"), &attack.got),
        None => Err("it was not attacked".to_owned()),
    }
}

/// Filters that we live under ourselves, in a container for instance: a zygote inherits them.
fn own_filters() -> u32 {
    Seen::filters(&fields(&fs::read_to_string("/proc/self/status").unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_absent() {
        let bare = Seen { status: fields("Uid:\t0\t0\t0\t0\n"), own_uid: "0".to_owned(), ..Seen::default() };
        let evidence = Evidence { seen: &bare, probes: "", attacks: &[], proofs: &[] };
        for &layer in Layer::ALL {
            assert!(judge(layer, &evidence).is_err(), "{layer:?}");
        }
    }

    #[test]
    fn the_zygote_s_own_attacks_count_as_they_ended() {
        let seen = Seen { status: fields("Uid:\t0\t0\t0\t0\n"), ..Seen::default() };
        let found = |held| {
            let proofs = [Proof { layer: Layer::LandlockChild, held, words: "words".to_owned() }];
            judge(Layer::LandlockChild, &Evidence { seen: &seen, probes: "", attacks: &[], proofs: &proofs })
        };
        assert_eq!(found(Held::Wholly), Ok(Finding::Whole("words".to_owned())));
        assert_eq!(found(Held::Partly), Ok(Finding::Part("words".to_owned())));
        assert_eq!(found(Held::Not), Err("claimed, but words".to_owned()));
    }

    #[test]
    fn what_an_ordinary_user_cannot_see_is_told_from_inside() {
        let seen = Seen { status: fields("Uid:\t1\t1\t1\t1\n"), ..Seen::default() };
        let found =
            |probes| judge(Layer::Descriptors, &Evidence { seen: &seen, probes, attacks: &[], proofs: &[] });
        assert!(found("fds: [0, 1, 2, 3]\n").is_ok());
        assert!(found("fds: [0, 1, 2, 3, 7]\n").is_err());
        assert!(found("").is_err());
    }

    #[test]
    fn a_bounding_set_counts_where_privileges_could_be_had() {
        let found = |rest: &str| {
            let none = "CapInh:\t0000\nCapPrm:\t0000\nCapEff:\t0000\nCapAmb:\t0000\n";
            let seen = Seen { status: fields(&format!("{none}{rest}")), ..Seen::default() };
            capabilities(&seen).is_ok()
        };
        assert!(found("CapBnd:\t0000\nNoNewPrivs:\t0\n"));
        assert!(found("CapBnd:\t01ff\nNoNewPrivs:\t1\n"));
        assert!(!found("CapBnd:\t01ff\nNoNewPrivs:\t0\n"));
        assert!(!found(""));
    }

    #[test]
    fn limits_are_read_by_name() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\n\
                      Max cpu time              1                    2                    seconds\n\
                      Max core file size        0                    0                    bytes\n\
                      Max address space         unlimited            unlimited            bytes\n";
        let seen = Seen { limits: limits.to_owned(), ..Seen::default() };
        assert_eq!(seen.limit("Max cpu time"), Some(1));
        assert_eq!(seen.limit("Max core file size"), Some(0));
        assert_eq!(seen.limit("Max address space"), None);
    }
}
