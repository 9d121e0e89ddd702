//! Names of system calls by their x86-64 numbers, and which of them no honest parser makes.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

/// `AUDIT_ARCH_X86_64`.
pub const NATIVE: u32 = 0xc000_003e;
/// Set in the numbers of the x32 calls, which go through the same door.
const X32: u32 = 0x4000_0000;

/// Whether the call came through the door of another architecture.
pub fn is_foreign(number: i32, arch: u32) -> bool {
    arch != NATIVE || number.cast_unsigned() & X32 != 0 && number >= 0
}

/// The call's name; its number where it has none.
pub fn name(number: i32, arch: u32) -> String {
    if arch != NATIVE {
        return format!("{number} of architecture {arch:#x}");
    }
    let known = usize::try_from(number).ok().and_then(|number| match number {
        0..424 => FIRST.get(number),
        _ => SINCE_424.get(number - 424),
    });
    match known {
        Some(name) => (*name).to_owned(),
        None => number.to_string(),
    }
}

/// Whether no honest parser makes this call: talking to others, making or touching processes, changing what binds it,
/// using parts of the kernel that are known for their holes. Sleeping, reading or asking is forbidden, and honest.
/// `first` is the first argument where it is known.
pub fn is_hostile(number: i32, arch: u32, first: Option<u64>) -> bool {
    const THREAD: u64 = 0x0001_0000;
    let name = name(number, arch);
    // A library that starts a thread is in the wrong place, not evil.
    if name == "clone" && first.is_some_and(|flags| flags & THREAD != 0) {
        return false;
    }
    is_foreign(number, arch) || HOSTILE.contains(&name.as_str())
}

#[rustfmt::skip]
const HOSTILE: &[&str] = &[
    "socket", "socketpair", "connect", "bind", "listen", "accept", "accept4", "sendto", "recvfrom", "sendmsg",
    "recvmsg", "sendmmsg", "recvmmsg", "setsockopt",
    "fork", "vfork", "clone", "clone3", "execve", "execveat", "setsid", "setpgid", "unshare", "setns", "kill", "tkill",
    "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open", "pidfd_send_signal", "pidfd_getfd", "ptrace",
    "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp", "migrate_pages",
    "move_pages", "get_robust_list",
    "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick",
    "mount_setattr", "swapon", "swapoff", "quotactl", "quotactl_fd", "name_to_handle_at", "open_by_handle_at",
    "rename", "renameat", "renameat2", "mkdir", "mkdirat", "rmdir", "link", "linkat", "unlink", "unlinkat", "symlink",
    "symlinkat", "mknod", "mknodat", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat",
    "truncate", "setxattr", "lsetxattr", "fsetxattr",
    "io_uring_setup", "io_uring_enter", "io_uring_register", "io_setup", "userfaultfd", "bpf", "perf_event_open",
    "keyctl", "add_key", "request_key", "modify_ldt", "iopl", "ioperm",
    "mq_open", "shmget", "shmat", "semget", "msgget", "fanotify_init",
    "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "setfsuid", "setfsgid", "capset",
    "seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "setrlimit", "personality",
    "reboot", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "acct", "syslog",
    "sethostname", "setdomainname", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "vhangup",
];

#[rustfmt::skip]
const FIRST: [&str; 335] = [
    "read", "write", "open", "close", "stat", "fstat", "lstat", "poll", "lseek", "mmap", "mprotect", "munmap",
    "brk", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "ioctl", "pread64", "pwrite64", "readv",
    "writev", "access", "pipe", "select", "sched_yield", "mremap", "msync", "mincore", "madvise", "shmget",
    "shmat", "shmctl", "dup", "dup2", "pause", "nanosleep", "getitimer", "alarm", "setitimer", "getpid",
    "sendfile", "socket", "connect", "accept", "sendto", "recvfrom", "sendmsg", "recvmsg", "shutdown", "bind",
    "listen", "getsockname", "getpeername", "socketpair", "setsockopt", "getsockopt", "clone", "fork",
    "vfork", "execve", "exit", "wait4", "kill", "uname", "semget", "semop", "semctl", "shmdt", "msgget",
    "msgsnd", "msgrcv", "msgctl", "fcntl", "flock", "fsync", "fdatasync", "truncate", "ftruncate", "getdents",
    "getcwd", "chdir", "fchdir", "rename", "mkdir", "rmdir", "creat", "link", "unlink", "symlink", "readlink",
    "chmod", "fchmod", "chown", "fchown", "lchown", "umask", "gettimeofday", "getrlimit", "getrusage",
    "sysinfo", "times", "ptrace", "getuid", "syslog", "getgid", "setuid", "setgid", "geteuid", "getegid",
    "setpgid", "getppid", "getpgrp", "setsid", "setreuid", "setregid", "getgroups", "setgroups", "setresuid",
    "getresuid", "setresgid", "getresgid", "getpgid", "setfsuid", "setfsgid", "getsid", "capget", "capset",
    "rt_sigpending", "rt_sigtimedwait", "rt_sigqueueinfo", "rt_sigsuspend", "sigaltstack", "utime", "mknod",
    "uselib", "personality", "ustat", "statfs", "fstatfs", "sysfs", "getpriority", "setpriority",
    "sched_setparam", "sched_getparam", "sched_setscheduler", "sched_getscheduler", "sched_get_priority_max",
    "sched_get_priority_min", "sched_rr_get_interval", "mlock", "munlock", "mlockall", "munlockall",
    "vhangup", "modify_ldt", "pivot_root", "_sysctl", "prctl", "arch_prctl", "adjtimex", "setrlimit",
    "chroot", "sync", "acct", "settimeofday", "mount", "umount2", "swapon", "swapoff", "reboot",
    "sethostname", "setdomainname", "iopl", "ioperm", "create_module", "init_module", "delete_module",
    "get_kernel_syms", "query_module", "quotactl", "nfsservctl", "getpmsg", "putpmsg", "afs_syscall",
    "tuxcall", "security", "gettid", "readahead", "setxattr", "lsetxattr", "fsetxattr", "getxattr",
    "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr", "removexattr", "lremovexattr",
    "fremovexattr", "tkill", "time", "futex", "sched_setaffinity", "sched_getaffinity", "set_thread_area",
    "io_setup", "io_destroy", "io_getevents", "io_submit", "io_cancel", "get_thread_area", "lookup_dcookie",
    "epoll_create", "epoll_ctl_old", "epoll_wait_old", "remap_file_pages", "getdents64", "set_tid_address",
    "restart_syscall", "semtimedop", "fadvise64", "timer_create", "timer_settime", "timer_gettime",
    "timer_getoverrun", "timer_delete", "clock_settime", "clock_gettime", "clock_getres", "clock_nanosleep",
    "exit_group", "epoll_wait", "epoll_ctl", "tgkill", "utimes", "vserver", "mbind", "set_mempolicy",
    "get_mempolicy", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr",
    "kexec_load", "waitid", "add_key", "request_key", "keyctl", "ioprio_set", "ioprio_get", "inotify_init",
    "inotify_add_watch", "inotify_rm_watch", "migrate_pages", "openat", "mkdirat", "mknodat", "fchownat",
    "futimesat", "newfstatat", "unlinkat", "renameat", "linkat", "symlinkat", "readlinkat", "fchmodat",
    "faccessat", "pselect6", "ppoll", "unshare", "set_robust_list", "get_robust_list", "splice", "tee",
    "sync_file_range", "vmsplice", "move_pages", "utimensat", "epoll_pwait", "signalfd", "timerfd_create",
    "eventfd", "fallocate", "timerfd_settime", "timerfd_gettime", "accept4", "signalfd4", "eventfd2",
    "epoll_create1", "dup3", "pipe2", "inotify_init1", "preadv", "pwritev", "rt_tgsigqueueinfo",
    "perf_event_open", "recvmmsg", "fanotify_init", "fanotify_mark", "prlimit64", "name_to_handle_at",
    "open_by_handle_at", "clock_adjtime", "syncfs", "sendmmsg", "setns", "getcpu", "process_vm_readv",
    "process_vm_writev", "kcmp", "finit_module", "sched_setattr", "sched_getattr", "renameat2", "seccomp",
    "getrandom", "memfd_create", "kexec_file_load", "bpf", "execveat", "userfaultfd", "membarrier", "mlock2",
    "copy_file_range", "preadv2", "pwritev2", "pkey_mprotect", "pkey_alloc", "pkey_free", "statx",
    "io_pgetevents", "rseq",
];

#[rustfmt::skip]
const SINCE_424: &[&str] = &[
    "pidfd_send_signal", "io_uring_setup", "io_uring_enter", "io_uring_register", "open_tree", "move_mount",
    "fsopen", "fsconfig", "fsmount", "fspick", "pidfd_open", "clone3", "close_range", "openat2",
    "pidfd_getfd", "faccessat2", "process_madvise", "epoll_pwait2", "mount_setattr", "quotactl_fd",
    "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "memfd_secret",
    "process_mrelease", "futex_waitv", "set_mempolicy_home_node", "cachestat", "fchmodat2",
    "map_shadow_stack", "futex_wake", "futex_wait", "futex_requeue", "statmount", "listmount",
    "lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules", "mseal", "setxattrat", "getxattrat",
    "listxattrat", "removexattrat", "open_tree_attr", "file_getattr", "file_setattr",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_names() {
        for (number, expected) in [
            (0, "read"),
            (41, "socket"),
            (57, "fork"),
            (59, "execve"),
            (101, "ptrace"),
            (334, "rseq"),
            (424, "pidfd_send_signal"),
            (425, "io_uring_setup"),
            (435, "clone3"),
            (462, "mseal"),
            (469, "file_setattr"),
            (400, "400"),
            (999, "999"),
            (-1, "-1"),
        ] {
            assert_eq!(name(number, NATIVE), expected);
        }
    }

    #[test]
    fn the_same_numbers_are_told_apart_by_their_door() {
        assert!(is_foreign(11, 0x4000_0003));
        assert!(is_foreign(0x4000_0000 + 1, NATIVE));
        assert!(!is_foreign(1, NATIVE));
        assert!(!is_foreign(-1, NATIVE));
        assert_eq!(name(11, 0x4000_0003), "11 of architecture 0x40000003");
    }

    #[test]
    fn sleeping_and_threads_are_honest_and_sockets_are_not() {
        assert!(is_hostile(41, NATIVE, None));
        assert!(is_hostile(56, NATIVE, Some(17)), "a fork by clone");
        assert!(!is_hostile(56, NATIVE, Some(0x003d_0f00)), "a thread");
        assert!(!is_hostile(35, NATIVE, None), "nanosleep");
        assert!(!is_hostile(0, NATIVE, None), "read");
    }

    #[test]
    fn every_hostile_name_is_a_name() {
        for hostile in HOSTILE {
            assert!(FIRST.contains(hostile) || SINCE_424.contains(hostile), "{hostile}");
        }
    }
}
