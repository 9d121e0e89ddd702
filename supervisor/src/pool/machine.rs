//! The machine's own counters: whether memory was short while a child died.

use std::fs;

/// Processes that the kernel has killed for want of memory since boot, in cgroups and altogether.
pub(super) fn oom_kills() -> u64 {
    number_after("/proc/vmstat", "oom_kill ").unwrap_or(0)
}

/// Nanoseconds that a process ran, and waited to run.
pub(super) fn busy_ns(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    Some(numbers.next()?.ok()? + numbers.next()?.ok()?)
}

/// The process behind a pidfd of this process, as a number in our pid namespace.
pub(super) fn pid_of(pidfd: i32) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{pidfd}")).ok()?;
    let pid = text.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse().ok()?;
    (pid > 0).then_some(pid)
}

fn number_after(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_files_are_understood() {
        let me = i32::try_from(std::process::id()).unwrap();
        assert!(busy_ns(me).unwrap() > 0);
        assert!(number_after("/proc/meminfo", "MemAvailable:").unwrap() > 1 << 10);
        assert_eq!(pid_of(-1), None);
    }
}
