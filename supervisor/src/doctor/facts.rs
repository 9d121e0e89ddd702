//! Facts about the machine that bear on the cage, as the kernel tells them.

use std::fs;

/// Name and value of each fact; what cannot be read is `unknown`.
pub(super) fn all() -> Vec<(String, String)> {
    let files = [
        ("kernel", "/proc/sys/kernel/osrelease"),
        ("security_modules", "/sys/kernel/security/lsm"),
        ("seccomp_actions", "/proc/sys/kernel/seccomp/actions_avail"),
        ("max_user_namespaces", "/proc/sys/user/max_user_namespaces"),
        ("unprivileged_userns_clone", "/proc/sys/kernel/unprivileged_userns_clone"),
        ("apparmor_restrict_unprivileged_userns", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        ("yama_ptrace_scope", "/proc/sys/kernel/yama/ptrace_scope"),
        ("io_uring_disabled", "/proc/sys/kernel/io_uring_disabled"),
        ("memfd_noexec", "/proc/sys/vm/memfd_noexec"),
        ("core_pattern", "/proc/sys/kernel/core_pattern"),
        ("suid_dumpable", "/proc/sys/fs/suid_dumpable"),
        ("overcommit_memory", "/proc/sys/vm/overcommit_memory"),
    ];
    let mut facts: Vec<_> = files.iter().map(|(name, file)| ((*name).to_owned(), line(file))).collect();
    facts.push(("landlock_abi".to_owned(), landlock_abi()));
    facts.push(("cgroups".to_owned(), cgroups()));
    facts.push(("container".to_owned(), container().to_owned()));
    facts.push(("uid".to_owned(), nix::unistd::geteuid().to_string()));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for (name, field) in [
        ("own_seccomp", "Seccomp:"),
        ("own_no_new_privileges", "NoNewPrivs:"),
        ("own_bounding_set", "CapBnd:"),
    ] {
        let value = status.lines().find_map(|line| line.strip_prefix(field)).map(str::trim);
        facts.push((name.to_owned(), value.unwrap_or("unknown").to_owned()));
    }
    facts
}

fn line(file: &str) -> String {
    fs::read_to_string(file).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn landlock_abi() -> String {
    crate::sys::landlock_abi().map_or_else(|error| format!("none: {error}"), |abi| abi.to_string())
}

fn cgroups() -> String {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    match (own.lines().any(|line| line.starts_with("0::")), own.lines().count()) {
        (_, 0) => "none".to_owned(),
        (true, 1) => "version 2".to_owned(),
        (true, _) => "both versions".to_owned(),
        (false, _) => "version 1".to_owned(),
    }
}

fn container() -> &'static str {
    if fs::exists("/.dockerenv").unwrap_or(false) {
        "docker"
    } else if fs::exists("/run/.containerenv").unwrap_or(false) {
        "podman"
    } else {
        "none known"
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_fact_has_a_value() {
        let facts = super::all();
        assert!(facts.iter().all(|(name, value)| !name.is_empty() && !value.is_empty()), "{facts:?}");
        assert!(facts.iter().any(|(name, _)| name == "kernel"));
    }
}
