//! What a command and all its descendants use together, as the kernel tells it. Only a look: who is in the tree may
//! change while it is counted.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// The kernel's ticks of processor time a second, as its files tell it on this architecture.
const TICKS: u64 = 100;
const PAGE: u64 = 4096;

/// Sums over the processes that live at the moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) processes: u64,
    /// Processor time in ms, of those too that their parents have reaped.
    pub(super) cpu_ms: u64,
    /// How long their first threads waited for a processor, in ns.
    pub(super) waited_ns: u64,
    /// Bytes of memory of their own. What they share since a fork is counted for each.
    pub(super) memory: u64,
}

impl Tree {
    /// Time in which they were at work or waited to be.
    pub(super) fn busy(&self) -> Duration {
        Duration::from_millis(self.cpu_ms) + Duration::from_nanos(self.waited_ns)
    }

    /// Of these processes.
    pub(super) fn of(pids: &[i32]) -> Tree {
        let mut tree = Tree::default();
        for &pid in pids {
            if let Some(process) = Process::read(pid) {
                tree.add(pid, &process);
            }
        }
        tree
    }

    fn add(&mut self, pid: i32, process: &Process) {
        self.processes += 1;
        self.cpu_ms += process.ticks * 1000 / TICKS;
        self.memory += own_pages(pid).unwrap_or(0) * PAGE;
        self.waited_ns += waited(pid).unwrap_or(0);
    }
}

/// A process and all its descendants, found by looking at all processes of the machine.
pub(super) fn below(root: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let all: BTreeMap<i32, Process> = pids.filter_map(|pid| Some((pid, Process::read(pid)?))).collect();
    all.keys().copied().filter(|&pid| descends(pid, root, &all)).collect()
}

/// Bytes of memory of their own, with each its part of what they share. The kernel looks at every page for that: only for
/// when it matters. `None` where it does not tell.
pub(super) fn fair_memory(pids: &[i32]) -> Option<u64> {
    let mut sum = 0;
    for pid in pids {
        match fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
            Ok(text) => sum += fair_share(&text)?,
            // It has ended meanwhile, or is about to and has none any more.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => {}
            Err(_) => return None,
        }
    }
    Some(sum)
}

fn fair_share(rollup: &str) -> Option<u64> {
    let kib = |name: &str| {
        let rest = rollup.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some((kib("Pss_Anon:")? + kib("Pss_Shmem:").unwrap_or(0)) << 10)
}

fn descends(mut pid: i32, root: i32, all: &BTreeMap<i32, Process>) -> bool {
    // Parents change while this is read: a cycle is not impossible.
    for _ in 0..all.len() {
        if pid == root {
            return true;
        }
        match all.get(&pid) {
            Some(process) => pid = process.parent,
            None => return false,
        }
    }
    false
}

struct Process {
    parent: i32,
    ticks: u64,
}

impl Process {
    fn read(pid: i32) -> Option<Process> {
        Process::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(stat: &str) -> Option<Process> {
        // The name is in parentheses and may contain anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<i64>().ok().and_then(|n| u64::try_from(n).ok());
        // User and system, its own and that of the children that it has reaped.
        let ticks = (11..=14).map(|at| number(at).unwrap_or(0)).sum();
        Some(Process { parent: fields.get(1)?.parse().ok()?, ticks })
    }
}

/// Resident pages without those of files and of memory that is shared on purpose.
fn own_pages(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let mut pages = text.split_whitespace().skip(1).map(str::parse::<u64>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(shared))
}

fn waited(pid: i32) -> Option<u64> {
    fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_understood_whatever_the_name() {
        let line = "42 (a) b) S 7 42 42 0 -1 4194560 100 0 0 0 3 4 5 6 20 0 1 0 900 8000000 250 0 0 0";
        let process = Process::parse(line).unwrap();
        assert_eq!((process.parent, process.ticks), (7, 18));
        assert!(Process::parse("42 (a").is_none());
    }

    #[test]
    fn this_process_is_in_its_own_tree_and_not_below_another() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(below(own).contains(&own) && !below(own).contains(&1));
        let of = Tree::of(&[own]);
        assert!(of.processes == 1 && of.memory > 1 << 16);
        assert_eq!(Tree::of(&[-1]), Tree::default());
        assert!(fair_memory(&[own]).is_some_and(|bytes| bytes > 1 << 16));
        assert_eq!(fair_memory(&[i32::MAX]), Some(0), "there is no such process");
        assert_eq!(fair_share("Rss: 9 kB\nPss_Anon:   3 kB\nPss_Shmem: 1 kB\n"), Some(4096));
    }

    #[test]
    fn descent_follows_parents_and_ends() {
        let process = |parent| Process { parent, ticks: 0 };
        let all = BTreeMap::from([
            (1, process(0)),
            (2, process(1)),
            (3, process(2)),
            (8, process(9)),
            (9, process(8)),
        ]);
        assert!(descends(3, 1, &all) && descends(1, 1, &all));
        assert!(!descends(3, 8, &all) && !descends(8, 1, &all));
    }
}
