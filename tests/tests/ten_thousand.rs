//! Thousands of documents that misbehave in every way that a child can: each has the kind that it scripts, and the live
//! supervisor has, seen from outside, at the end what it had at the beginning.
//!
//! `LAZARET_DOCUMENTS` says how many (2,000 without it). What a supervisor holds changes from one moment to the next, with
//! what is in flight; so it is looked at behind gates: enough documents in a row that say little and take long that there
//! are no others in flight.

#![expect(clippy::print_stderr, reason = "what was measured is told with --nocapture")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Child;
use std::time::Duration;
use tests::{Programs, Scratch, faults};

const PROGRAMS: Programs = tests::programs!();

/// What a run of two children has in flight.
const IN_FLIGHT: usize = 8;
/// Documents of a gate: some more, for while a straggler from before it keeps one child, the other goes on.
const GATE: usize = 12;
/// Signs of life, 2 s of them: far longer than looking takes.
const GATE_ACT: &str = "lines 3\nslow 20 100";
/// In front of a gate nothing but a line of text for so many documents: members and what waits for a clock are through by
/// then.
const AISLE: usize = 40;
/// One in so many documents waits for a clock.
const SLOW_ONE_IN: usize = 100;
/// Until here the index's writer, the caches of the ledger and the allocator grow to their working size.
const WARM_UP: usize = 2000;

/// What there is of a process, by kind and number, from outside.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    /// By what they lead to.
    descriptors: BTreeMap<String, usize>,
    children: usize,
    threads: usize,
    temporary_files: usize,
}

/// So many descriptors and threads the stores may have more at one moment than at another: a merge of the index that is
/// under way, one more reader of the ledger.
const STORES_MOST: usize = 4;
/// Of each of two stores, ledger and texts, four connections stay open for whoever asks next; each holds two files.
const CONNECTIONS_MOST: usize = 2 * 4 * 2;

impl Held {
    /// Descriptors of the index, the ledger and the texts: their number moves a little, with what they are at.
    fn stores(&self) -> usize {
        self.descriptors.iter().filter(|(sort, _)| is_store(sort)).map(|(_, count)| count).sum()
    }

    /// Everything that comes and goes with documents.
    fn without_stores(&self) -> BTreeMap<&str, usize> {
        let others = self.descriptors.iter().filter(|(sort, _)| !is_store(sort) && !is_document(sort));
        others.map(|(sort, count)| (sort.as_str(), *count)).collect()
    }
}

/// The bytes of a document in flight: the last one taken up may not have been fetched yet.
fn is_document(sort: &str) -> bool {
    sort.starts_with("/memfd:document")
}

fn is_store(sort: &str) -> bool {
    ["index", "ledger", "texts"].iter().any(|store| sort.starts_with(store))
}

struct Look {
    held: Held,
    resident_kib: u64,
    /// Of it, what is no file's: the index is mapped.
    anonymous_kib: u64,
}

fn look(pid: u32, state: &Path) -> Look {
    let proc = Path::new("/proc").join(pid.to_string());
    let mut descriptors = BTreeMap::new();
    for entry in std::fs::read_dir(proc.join("fd")).expect("the supervisor lives").flatten() {
        // One that is closed while we look was no leak.
        if let Ok(target) = std::fs::read_link(entry.path()) {
            *descriptors.entry(sort_of(&target.to_string_lossy(), state)).or_insert(0) += 1;
        }
    }
    let tasks: Vec<_> = std::fs::read_dir(proc.join("task")).expect("it has threads").flatten().collect();
    let children = tasks
        .iter()
        .map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default())
        .map(|children| children.split_whitespace().count())
        .sum();
    let status = std::fs::read_to_string(proc.join("status")).expect("it has a status");
    let kib = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)).expect("it has memory");
        value.trim().trim_end_matches(" kB").parse().expect("a number of kB")
    };
    let (resident_kib, anonymous_kib) = (kib("VmRSS:"), kib("RssAnon:"));
    let temporary_files = std::fs::read_dir(state.join("spool")).map_or(0, Iterator::count);
    Look {
        held: Held { descriptors, children, threads: tasks.len(), temporary_files },
        resident_kib,
        anonymous_kib,
    }
}

/// Numbers of pipes, sockets and deleted files differ each time, and so do names of the index's parts.
fn sort_of(target: &str, state: &Path) -> String {
    if target.contains("/lazaret-") && target.starts_with("/sys/fs/cgroup") {
        return target.rsplit('/').next().unwrap_or_default().to_owned();
    }
    match target.strip_prefix(&*state.to_string_lossy()) {
        Some(below) => below.trim_start_matches('/').split('/').next().unwrap_or_default().to_owned(),
        None if target.contains(":[") && !target.starts_with("anon_inode") => {
            target.split(':').next().unwrap_or_default().to_owned()
        }
        None => target.to_owned(),
    }
}

/// Waits until nothing but this gate's documents is in flight, and looks.
fn look_behind(gate: usize, run: &mut Child, scratch: &Scratch) -> Look {
    let name = format!("gate-{gate:05}");
    loop {
        assert!(run.try_wait().expect("it is ours").is_none(), "the run ended before {name} was seen");
        if at_gate(scratch, &name) {
            let look = look(run.id(), &scratch.state());
            if at_gate(scratch, &name) {
                return look;
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn at_gate(scratch: &Scratch, name: &str) -> bool {
    let said = scratch.call(&["ctl", "status", "--format", "json"]);
    let Ok(status) = serde_json::from_str::<Value>(&said.stdout) else { return false };
    let Some(in_flight) = status["in_flight"].as_array() else { return false };
    in_flight.len() == IN_FLIGHT
        && in_flight.iter().all(|one| one["path"].as_str().is_some_and(|p| p.contains(name)))
}

/// Fills the source; what each document must end as, by path.
fn write_documents(scratch: &Scratch, count: usize, gates: &[usize]) -> BTreeMap<String, String> {
    let (slow, quick): (Vec<_>, Vec<_>) = faults::acts().into_iter().partition(faults::Act::is_slow);
    // What takes until the deadline comes once, behind all gates: in front of one it would keep a child for too long.
    let (longest, slow): (Vec<_>, Vec<_>) = slow.into_iter().partition(|act| act.ends_as == "time.wall");
    let aisle = faults::Act { line: "text in the aisle".to_owned(), ends_as: "indexed".to_owned() };
    let mut expected = BTreeMap::new();
    for number in 0..count {
        if gates.contains(&number) {
            for one in 0..GATE {
                let path = format!("{number:05}-gate-{number:05}-{one}");
                scratch.put(&path, format!("#!lazaret-fault 1\n# {path}\n{GATE_ACT}\n"));
                expected.insert(path, "indexed".to_owned());
            }
        }
        let in_aisle = gates.iter().any(|&gate| (gate.saturating_sub(AISLE)..gate).contains(&number));
        let act = if in_aisle {
            &aisle
        } else if number + 20 == count {
            &longest[0]
        } else if number % SLOW_ONE_IN == SLOW_ONE_IN / 2 {
            &slow[number / SLOW_ONE_IN % slow.len()]
        } else {
            &quick[number % quick.len()]
        };
        let path = format!("{number:05}");
        scratch.put(&path, act.document(&path));
        expected.insert(path, act.ends_as.clone());
    }
    expected
}

#[test]
fn each_has_its_kind_and_nothing_grows() {
    let count = std::env::var("LAZARET_DOCUMENTS").ok().and_then(|n| n.parse().ok()).unwrap_or(2000_usize);
    assert!(count > 1200, "there is nothing to compare");
    let mut scratch = Scratch::new(PROGRAMS);
    scratch.settings.extend(faults::SETTINGS.map(str::to_owned));
    let warm = WARM_UP.min(count / 2);
    // Behind the last gate there are still documents: in front of an empty queue less would be in flight.
    let gates = [100, warm, count - 50];
    let expected = write_documents(&scratch, count, &gates);
    let mut run = scratch.start();
    let [early, warm, late] = gates.map(|gate| look_behind(gate, &mut run, &scratch));
    assert!(run.wait().expect("it is ours").success());
    let resident = [early.resident_kib, warm.resident_kib, late.resident_kib];
    let anonymous = [early.anonymous_kib, warm.anonymous_kib, late.anonymous_kib];
    eprintln!("anonymous {anonymous:?} KiB");
    eprintln!("behind {gates:?} of {count}: {resident:?} KiB, {:?}", late.held);
    let documents = |held: &Held| {
        held.descriptors.iter().filter(|(sort, _)| is_document(sort)).map(|(_, count)| *count).sum::<usize>()
    };
    assert!(documents(&late.held) <= IN_FLIGHT, "{:?}", late.held);
    for before in [&early.held, &warm.held] {
        let earlier = before.without_stores();
        for (sort, held) in late.held.without_stores() {
            // What is in flight may be a step further or less far at the moment of a look; a leak is one a document.
            let most = earlier.get(sort).copied().unwrap_or(0) + IN_FLIGHT / 2;
            assert!(held <= most, "{sort}: {held}, before {most}: {:?}", late.held);
        }
        assert_eq!(late.held.children, before.children);
        assert_eq!(late.held.temporary_files, before.temporary_files);
        assert!(late.held.threads <= before.threads + STORES_MOST, "{:?}", late.held);
        assert!(late.held.stores() <= before.stores() + CONNECTIONS_MOST, "{:?}", late.held);
    }
    if count >= 2 * WARM_UP {
        assert!(late.resident_kib * 100 <= warm.resident_kib * 105, "{resident:?} KiB");
    }
    let ends: BTreeMap<_, _> = faults::ends(&scratch).into_iter().collect();
    let wrong: Vec<_> = expected
        .iter()
        .filter(|(path, end)| ends.get(*path) != Some(*end))
        .map(|(path, end)| format!("{path} is to end as {end}, and ended as {:?}", ends.get(path)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(scratch.status()["balanced"], true);
}
