//! A memory cgroup for each zygote, below our own: the kernel's count and the last of the limits on memory.
//!
//! The zygote sits in its leaf from the start and its children inherit that: moving a process costs milliseconds. So
//! the limit is the leaf's, and what one child did is the difference of the counters before and after it.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the zygote itself, the kernel's tables and the pipe may take beside a child's budget, in bytes.
const OVERHEAD: u64 = 128 << 20;
/// Names of our leaves begin so; then our pid and its start time, so that those of the dead are known.
const PREFIX: &str = "lazaret-";

/// Where leaves can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    directory: PathBuf,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The counters of a leaf.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// Processes that the kernel killed in it for want of memory.
    pub(super) killed: u64,
    /// How often its own limit was met.
    pub(super) limited: u64,
}

/// One leaf; removed when dropped, which the kernel allows once it is empty.
#[derive(Debug)]
pub(super) struct Leaf {
    directory: PathBuf,
    version: Version,
    kills: fs::File,
    limit_hits: fs::File,
    limit: u64,
    removed: bool,
}

impl Place {
    /// The place of this process. It is looked for once: to make it we may have to move, and would look elsewhere then.
    pub(super) fn ours() -> Result<Place, String> {
        static OURS: OnceLock<Result<Place, String>> = OnceLock::new();
        OURS.get_or_init(Place::find).clone()
    }

    /// Finds the place, and sweeps away what dead supervisors left there.
    fn find() -> Result<Place, String> {
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
        let place = locate(&own, &mounts).ok_or("no memory controller is mounted")?;
        if place.version == Version::Two {
            delegate(&place.directory)?;
        }
        place.sweep();
        // Whether leaves can be made is known only by making one.
        place.leaf().map_err(|error| format!("{}: {error}", place.directory.display()))?;
        Ok(place)
    }

    /// Makes a leaf.
    pub(super) fn leaf(&self) -> io::Result<Leaf> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        let born = start_time(pid).unwrap_or(0);
        let directory = self.directory.join(format!("{PREFIX}{pid}-{born}-{number}"));
        fs::create_dir(&directory)?;
        let (kills, limit_hits) = match self.version {
            Version::One => ("memory.oom_control", "memory.failcnt"),
            Version::Two => ("memory.events", "memory.events.local"),
        };
        let files = fs::File::open(directory.join(kills))
            .and_then(|kills| Ok((kills, fs::File::open(directory.join(limit_hits))?)));
        match files {
            Ok((kills, limit_hits)) => {
                Ok(Leaf { directory, version: self.version, kills, limit_hits, limit: 0, removed: false })
            }
            Err(error) => {
                fs::remove_dir(&directory)?;
                Err(error)
            }
        }
    }

    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_str().is_some_and(is_stale) && fs::remove_dir(entry.path()).is_err() {
                tracing::debug!(leaf = ?entry.path(), "a stale cgroup is still in use");
            }
        }
    }
}

impl Leaf {
    /// Moves a process into it.
    pub(super) fn admit(&self, pid: i32) -> io::Result<()> {
        fs::write(self.directory.join("cgroup.procs"), pid.to_string())
    }

    /// The processes in it.
    pub(super) fn members(&self) -> io::Result<Vec<i32>> {
        let text = fs::read_to_string(self.directory.join("cgroup.procs"))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Makes room for a child with this budget and a document of this size, in bytes, and for little more.
    pub(super) fn fit(&mut self, memory: u64, document: u64) -> io::Result<()> {
        let wanted = memory.saturating_add(document).saturating_add(OVERHEAD);
        if (wanted..=wanted.saturating_mul(2)).contains(&self.limit) {
            return Ok(());
        }
        self.limit_to(wanted)
    }

    /// Sets the limit, in bytes, of all that is in it.
    pub(super) fn limit_to(&mut self, wanted: u64) -> io::Result<()> {
        if self.limit == wanted {
            return Ok(());
        }
        let file = match self.version {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        };
        fs::write(self.directory.join(file), wanted.to_string())?;
        self.limit = wanted;
        Ok(())
    }

    /// Removes it if it is empty by now. Gives whether it has gone.
    pub(super) fn remove(&mut self) -> bool {
        self.removed = self.removed || fs::remove_dir(&self.directory).is_ok();
        self.removed
    }

    /// What has been counted so far. A counter that cannot be read stands still.
    pub(super) fn counters(&self) -> Counters {
        let mut buffer = [0; 512];
        let killed = read(&self.kills, &mut buffer).map_or(0, |text| field(text, "oom_kill"));
        let limited = read(&self.limit_hits, &mut buffer).map_or(0, |text| match self.version {
            Version::One => text.trim().parse().unwrap_or(0),
            Version::Two => field(text, "max"),
        });
        Counters { killed, limited }
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        if !self.remove() {
            tracing::debug!(leaf = ?self.directory, "a cgroup stays behind until the next start");
        }
    }
}

impl Counters {
    /// What was counted since `before`.
    pub(super) fn since(self, before: Counters) -> Counters {
        Counters {
            killed: self.killed.saturating_sub(before.killed),
            limited: self.limited.saturating_sub(before.limited),
        }
    }
}

fn read<'a>(file: &fs::File, buffer: &'a mut [u8]) -> Option<&'a str> {
    let length = file.read_at(buffer, 0).ok()?;
    std::str::from_utf8(buffer.get(..length)?).ok()
}

/// The number on the line `name NUMBER`.
fn field(text: &str, name: &str) -> u64 {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok()).unwrap_or(0)
}

fn is_stale(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else { return false };
    let mut parts = rest.split('-').map(str::parse::<u64>);
    let (Some(Ok(pid)), Some(Ok(born))) = (parts.next(), parts.next()) else { return false };
    u32::try_from(pid).ok().and_then(start_time) != Some(born)
}

/// When the process started, in the kernel's ticks since boot.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Our own memory cgroup's directory, from the two files that tell it.
fn locate(own: &str, mounts: &str) -> Option<Place> {
    let path_of = |controller: &str| {
        own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let controllers = parts.next()?;
            let path = parts.next()?;
            controllers.split(',').any(|name| name == controller).then_some(path)
        })
    };
    let mount_of = |kind: &str, option: &str| {
        mounts.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut left = left.split(' ').skip(3);
            let (root, point) = (left.next()?, left.next()?);
            let mut right = right.split(' ');
            let is = right.next()? == kind
                && (option.is_empty() || right.nth(1)?.split(',').any(|name| name == option));
            is.then_some((root, point))
        })
    };
    let below = |path: &str, (root, point): (&str, &str)| {
        Path::new(path).strip_prefix(root).ok().map(|rest| Path::new(point).join(rest))
    };
    let one = path_of("memory").zip(mount_of("cgroup", "memory"));
    if let Some(directory) = one.and_then(|(path, mount)| below(path, mount)) {
        return Some(Place { directory, version: Version::One });
    }
    let (path, mount) = path_of("").zip(mount_of("cgroup2", ""))?;
    Some(Place { directory: below(path, mount)?, version: Version::Two })
}

/// Switches the memory controller on for leaves of `directory`. The kernel refuses that while processes sit in it, so
/// we move ourselves into a leaf first; other processes there mean that it was not delegated to us.
fn delegate(directory: &Path) -> Result<(), String> {
    let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap_or_default();
    let has_memory = |text: &str| text.split_whitespace().any(|name| name == "memory");
    if !has_memory(&read("cgroup.controllers")) {
        return Err("the memory controller is not delegated to this cgroup".to_owned());
    }
    if has_memory(&read("cgroup.subtree_control")) {
        return Ok(());
    }
    let pid = std::process::id();
    let seat = directory.join(format!("{PREFIX}{pid}-{}-supervisor", start_time(pid).unwrap_or(0)));
    let failed = |error: io::Error| format!("the memory controller cannot be switched on: {error}");
    fs::create_dir(&seat).map_err(failed)?;
    fs::write(seat.join("cgroup.procs"), pid.to_string()).map_err(failed)?;
    fs::write(directory.join("cgroup.subtree_control"), "+memory").map_err(|error| {
        // Back to where we were: nothing is to stay changed.
        let back = fs::write(directory.join("cgroup.procs"), pid.to_string());
        let gone = back.and_then(|()| fs::remove_dir(&seat));
        format!("{}{}", failed(error), gone.err().map_or_else(String::new, |left| format!("; {left}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_one_is_found_below_our_own_cgroup() {
        let own = "4:memory:/box/a\n1:cpu:/\n0::/\n";
        let mounts = "30 25 0:26 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n\
                      31 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let directory = PathBuf::from("/sys/fs/cgroup/memory/box/a");
        assert_eq!(locate(own, mounts), Some(Place { directory, version: Version::One }));
    }

    #[test]
    fn version_two_is_found_below_a_container_s_root() {
        let own = "0::/docker/x/y\n";
        let mounts = "30 25 0:26 /docker/x /sys/fs/cgroup rw,nosuid - cgroup2 cgroup rw\n";
        let directory = PathBuf::from("/sys/fs/cgroup/y");
        assert_eq!(locate(own, mounts), Some(Place { directory, version: Version::Two }));
        assert_eq!(locate(own, ""), None);
    }

    #[test]
    fn only_leaves_of_the_dead_are_stale() {
        let pid = std::process::id();
        let born = start_time(pid).unwrap();
        assert!(!is_stale(&format!("{PREFIX}{pid}-{born}-0")));
        assert!(is_stale(&format!("{PREFIX}{pid}-{}-0", born + 1)), "another process has the number now");
        assert!(is_stale(&format!("{PREFIX}4194999-1-0")));
        assert!(!is_stale("somebody-else"));
        assert!(!is_stale("lazaret-notes"));
    }

    #[test]
    fn counters_are_read_by_name() {
        let events = "low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 0\n";
        assert_eq!(field(events, "oom_kill"), 2);
        assert_eq!(field(events, "max"), 7);
        assert_eq!(field(events, "absent"), 0);
    }
}
