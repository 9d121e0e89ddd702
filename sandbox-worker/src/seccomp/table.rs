//! The policy itself: system call, rule, reason. Calls that need a look at their arguments come first: the kernel
//! remembers the others and does not run the filter for them.

use super::{Call, Case, Check, Rule, Verdict};
use Check::{Has, Is, IsLong, OneOf, OneOfWithout, OwnProcess, Within};
use Verdict::{Allow, Errno, Report, Trap};

macro_rules! calls {
    ($($name:ident)*) => {
        &[$(crate::seccomp::Call {
            name: stringify!($name),
            number: crate::seccomp::table::number(libc::$name),
        }),*]
    };
}
pub(super) use calls;

/// Numbers of calls that the C library's crate does not name yet.
mod newer {
    use super::Call;
    pub(super) const CALLS: &[Call] = &[
        Call { name: "SYS_cachestat", number: 451 },
        Call { name: "SYS_map_shadow_stack", number: 453 },
        Call { name: "SYS_futex_wake", number: 454 },
        Call { name: "SYS_futex_wait", number: 455 },
        Call { name: "SYS_futex_requeue", number: 456 },
        Call { name: "SYS_statmount", number: 457 },
        Call { name: "SYS_listmount", number: 458 },
        Call { name: "SYS_lsm_get_self_attr", number: 459 },
        Call { name: "SYS_lsm_set_self_attr", number: 460 },
        Call { name: "SYS_lsm_list_modules", number: 461 },
        Call { name: "SYS_setxattrat", number: 463 },
        Call { name: "SYS_getxattrat", number: 464 },
        Call { name: "SYS_listxattrat", number: 465 },
        Call { name: "SYS_removexattrat", number: 466 },
        Call { name: "SYS_open_tree_attr", number: 467 },
        Call { name: "SYS_file_getattr", number: 468 },
        Call { name: "SYS_file_setattr", number: 469 },
    ];
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers of calls are small")]
pub(super) const fn number(call: libc::c_long) -> u32 {
    call as u32
}

pub(super) const fn bits(flags: i32) -> u32 {
    flags.cast_unsigned()
}

const READ_WRITE: u32 = bits(libc::PROT_READ | libc::PROT_WRITE);
const PRIVATE_ANONYMOUS: u32 = bits(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
const ANONYMOUS_KINDS: u32 = PRIVATE_ANONYMOUS
    | bits(libc::MAP_NORESERVE | libc::MAP_STACK | libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE);
const DROPPABLE_ANONYMOUS: u32 = 0x08 | bits(libc::MAP_ANONYMOUS);
const FUTEX_FLAGS: u32 = bits(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
const FUTEX_KINDS: &[u32] = &[
    bits(libc::FUTEX_WAIT),
    bits(libc::FUTEX_WAKE),
    bits(libc::FUTEX_WAIT_BITSET),
    bits(libc::FUTEX_WAKE_BITSET),
    bits(libc::FUTEX_REQUEUE),
    bits(libc::FUTEX_CMP_REQUEUE),
];
const ADVICE: &[u32] = &[
    bits(libc::MADV_DONTNEED),
    bits(libc::MADV_FREE),
    bits(libc::MADV_HUGEPAGE),
    bits(libc::MADV_NOHUGEPAGE),
    bits(libc::MADV_DONTDUMP),
];
const OWN_CLOCKS: &[u32] = &[0, 1, 2, 3, 4, 5, 6, 7];
const ABORT: u32 = bits(libc::SIGABRT);
const ZYGOTE_CLONE: u32 = bits(libc::CLONE_PARENT | libc::CLONE_PIDFD);
const QUESTIONS: &[u32] =
    &[bits(libc::PR_GET_DUMPABLE), bits(libc::PR_GET_PDEATHSIG), bits(libc::PR_GET_NO_NEW_PRIVS)];
const RESULT: u32 = 3;
const CONTROL: u32 = 3;
const RULESET: u32 = 4;

/// A zygote's, and with it every child's.
pub(super) const ZYGOTE: &[Rule] = &[
    Rule {
        calls: calls!(SYS_write SYS_writev),
        cases: &[
            Case { when: &[Is(0, RESULT)], then: Allow },
            Case { when: &[OneOf(0, &[1, 2])], then: Errno(libc::EBADF) },
        ],
        otherwise: Report,
        why: "the result, and nothing else; what complains on stderr before it aborts may do so unheard",
    },
    Rule {
        calls: calls!(SYS_mmap),
        cases: &[
            Case {
                when: &[Within(2, READ_WRITE), Within(3, ANONYMOUS_KINDS), Has(3, PRIVATE_ANONYMOUS)],
                then: Allow,
            },
            Case { when: &[IsLong(2, 1), IsLong(3, bits(libc::MAP_PRIVATE))], then: Allow },
            Case { when: &[IsLong(2, READ_WRITE), IsLong(3, bits(libc::MAP_SHARED))], then: Allow },
            Case {
                when: &[Within(2, READ_WRITE), IsLong(3, DROPPABLE_ANONYMOUS)],
                then: Errno(libc::EINVAL),
            },
        ],
        otherwise: Report,
        why: "memory of its own, never executable; the document and the recorder, mapped by a child being set up",
    },
    Rule {
        calls: calls!(SYS_mprotect),
        cases: &[Case { when: &[Within(2, READ_WRITE)], then: Allow }],
        otherwise: Report,
        why: "memory never becomes executable",
    },
    Rule {
        calls: calls!(SYS_mremap),
        cases: &[Case { when: &[Within(3, bits(libc::MREMAP_MAYMOVE))], then: Allow }],
        otherwise: Report,
        why: "growing a big block",
    },
    Rule {
        calls: calls!(SYS_madvise),
        cases: &[Case { when: &[OneOf(2, ADVICE)], then: Allow }],
        otherwise: Errno(libc::EINVAL),
        why: "advice of allocators",
    },
    Rule {
        calls: calls!(SYS_futex),
        cases: &[Case { when: &[OneOfWithout(1, FUTEX_FLAGS, FUTEX_KINDS)], then: Allow }],
        otherwise: Report,
        why: "locks, without priority inheritance and its history",
    },
    Rule {
        calls: calls!(SYS_clock_gettime SYS_clock_getres),
        cases: &[Case { when: &[OneOf(0, OWN_CLOCKS)], then: Allow }],
        otherwise: Errno(libc::EINVAL),
        why: "clocks of the machine and of this process, none of another",
    },
    Rule {
        calls: calls!(SYS_getrandom),
        cases: &[Case { when: &[Within(2, libc::GRND_NONBLOCK | libc::GRND_INSECURE)], then: Allow }],
        otherwise: Errno(libc::EINVAL),
        why: "keys of hash maps",
    },
    Rule {
        calls: calls!(SYS_rt_sigaction),
        cases: &[Case { when: &[Is(0, ABORT)], then: Allow }],
        otherwise: Report,
        why: "abort puts the default back; the crash handlers stay",
    },
    Rule {
        calls: calls!(SYS_tgkill),
        cases: &[Case { when: &[Is(2, ABORT)], then: Allow }],
        otherwise: Report,
        why: "abort; no other signal is ever forged",
    },
    Rule {
        calls: calls!(SYS_fcntl),
        cases: &[Case { when: &[OneOf(1, &[bits(libc::F_GETFD), bits(libc::F_GETFL)])], then: Allow }],
        otherwise: Report,
        why: "asking about a descriptor; no locks, leases or owners",
    },
    Rule {
        calls: calls!(SYS_ioctl),
        cases: &[Case { when: &[Is(1, 0x5401)], then: Errno(libc::ENOTTY) }],
        otherwise: Report,
        why: "nothing here is a terminal, and none is typed into",
    },
    Rule {
        calls: calls!(SYS_prctl),
        cases: &[
            Case { when: &[OneOf(0, QUESTIONS)], then: Allow },
            Case { when: &[Is(0, bits(libc::PR_SET_PDEATHSIG)), IsLong(1, 9)], then: Allow },
            Case { when: &[Is(0, bits(libc::PR_SET_DUMPABLE)), IsLong(1, 0)], then: Allow },
            Case { when: &[Is(0, bits(libc::PR_SET_VMA))], then: Errno(libc::EINVAL) },
        ],
        otherwise: Report,
        why: "a child being set up ties itself tighter; allocators name their memory",
    },
    Rule {
        calls: calls!(SYS_prlimit64),
        cases: &[Case { when: &[Is(0, 0)], then: Allow }],
        otherwise: Report,
        why: "a child being set up sets its own limits",
    },
    Rule {
        calls: calls!(SYS_seccomp),
        cases: &[Case { when: &[Is(0, libc::SECCOMP_SET_MODE_FILTER), Is(1, 0)], then: Allow }],
        otherwise: Report,
        why: "a child being set up installs its own filter",
    },
    Rule {
        calls: calls!(SYS_landlock_restrict_self),
        cases: &[Case { when: &[Is(0, RULESET), Is(1, 0)], then: Allow }],
        otherwise: Report,
        why: "a child being set up enters its own domain",
    },
    Rule {
        calls: calls!(SYS_recvmsg SYS_sendmsg),
        cases: &[Case { when: &[Is(0, CONTROL)], then: Allow }],
        otherwise: Report,
        why: "the zygote's control socket",
    },
    Rule {
        calls: calls!(SYS_dup3),
        cases: &[Case { when: &[Is(1, RESULT)], then: Allow }],
        otherwise: Report,
        why: "a child being set up puts its result pipe in place",
    },
    Rule {
        calls: calls!(SYS_close_range),
        cases: &[Case { when: &[OneOf(0, &[4, 5])], then: Allow }],
        otherwise: Report,
        why: "a child being set up closes what is not its own",
    },
    Rule {
        calls: calls!(SYS_ppoll),
        cases: &[Case { when: &[Is(1, 1)], then: Allow }],
        otherwise: Report,
        why: "a child being set up looks whether its supervisor still listens",
    },
    Rule {
        calls: calls!(SYS_clone),
        cases: &[Case { when: &[IsLong(0, ZYGOTE_CLONE)], then: Allow }],
        otherwise: Report,
        why: "how the zygote makes a child where there is no clone3",
    },
    Rule {
        calls: calls!(SYS_clone3 SYS_close SYS_fstat),
        cases: &[],
        otherwise: Allow,
        why: "the zygote makes a child and closes what it gave it",
    },
    Rule { calls: calls!(SYS_brk SYS_munmap), cases: &[], otherwise: Allow, why: "memory of its own" },
    Rule {
        calls: calls!(SYS_exit SYS_exit_group SYS_rt_sigreturn SYS_restart_syscall SYS_rt_sigprocmask),
        cases: &[],
        otherwise: Allow,
        why: "ending, aborting, and going on after a stop",
    },
    Rule {
        calls: calls!(SYS_getpid SYS_gettid SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_capget SYS_uname
            SYS_gettimeofday SYS_time SYS_sched_yield SYS_getrlimit),
        cases: &[],
        otherwise: Allow,
        why: "questions about itself, whose answers give nothing away",
    },
    Rule {
        calls: calls!(SYS_open SYS_openat SYS_openat2 SYS_creat SYS_access SYS_faccessat SYS_faccessat2 SYS_stat
            SYS_lstat SYS_newfstatat SYS_readlink SYS_readlinkat SYS_getcwd),
        cases: &[],
        otherwise: Errno(libc::EACCES),
        why: "libraries look for files: there are none, and that is no crime",
    },
    Rule {
        calls: calls!(SYS_statx SYS_sched_getaffinity SYS_membarrier SYS_rseq SYS_sysinfo),
        cases: &[],
        otherwise: Errno(libc::ENOSYS),
        why: "libraries go on without",
    },
    Rule {
        calls: calls!(SYS_socket SYS_socketpair SYS_connect SYS_bind SYS_listen SYS_accept SYS_accept4 SYS_sendto
            SYS_recvfrom SYS_sendmmsg SYS_recvmmsg SYS_shutdown SYS_getsockname SYS_getpeername SYS_setsockopt
            SYS_getsockopt),
        cases: &[],
        otherwise: Report,
        why: "no network and no other process to talk to",
    },
    Rule {
        calls: calls!(SYS_fork SYS_vfork SYS_execve SYS_execveat SYS_wait4 SYS_waitid SYS_setsid SYS_setpgid
            SYS_unshare SYS_setns),
        cases: &[],
        otherwise: Report,
        why: "no process besides this one, no program but this",
    },
    Rule {
        calls: calls!(SYS_kill SYS_tkill SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo SYS_pidfd_open
            SYS_pidfd_send_signal SYS_pidfd_getfd SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev
            SYS_process_madvise SYS_process_mrelease SYS_kcmp SYS_get_robust_list SYS_migrate_pages SYS_move_pages),
        cases: &[],
        otherwise: Report,
        why: "no other process is touched",
    },
    Rule {
        calls: calls!(SYS_read SYS_pread64 SYS_readv SYS_preadv SYS_preadv2 SYS_pwrite64 SYS_pwritev SYS_pwritev2
            SYS_sendfile SYS_splice SYS_tee SYS_vmsplice SYS_copy_file_range SYS_dup SYS_dup2 SYS_pipe SYS_pipe2
            SYS_ftruncate SYS_fallocate SYS_flock SYS_fsync SYS_fdatasync SYS_sync_file_range SYS_readahead
            SYS_fadvise64),
        cases: &[],
        otherwise: Report,
        why: "the document is mapped and the result is written: no other use of a descriptor",
    },
    Rule {
        calls: calls!(SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot SYS_chdir SYS_fchdir SYS_open_tree
            SYS_move_mount SYS_fsopen SYS_fsconfig SYS_fsmount SYS_fspick SYS_mount_setattr SYS_swapon SYS_swapoff
            SYS_quotactl SYS_quotactl_fd SYS_name_to_handle_at SYS_open_by_handle_at),
        cases: &[],
        otherwise: Report,
        why: "the file system stays as it was left: empty",
    },
    Rule {
        calls: calls!(SYS_rename SYS_renameat SYS_renameat2 SYS_mkdir SYS_mkdirat SYS_rmdir SYS_link SYS_linkat
            SYS_unlink SYS_unlinkat SYS_symlink SYS_symlinkat SYS_mknod SYS_mknodat SYS_chmod SYS_fchmod SYS_fchmodat
            SYS_fchmodat2 SYS_chown SYS_fchown SYS_lchown SYS_fchownat SYS_truncate SYS_utime SYS_utimes
            SYS_utimensat SYS_futimesat SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_removexattr SYS_lremovexattr
            SYS_fremovexattr),
        cases: &[],
        otherwise: Report,
        why: "no parser changes files",
    },
    Rule {
        calls: calls!(SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register SYS_io_setup SYS_io_submit
            SYS_io_destroy SYS_io_cancel SYS_io_getevents SYS_userfaultfd SYS_bpf SYS_perf_event_open SYS_keyctl
            SYS_add_key SYS_request_key SYS_modify_ldt SYS_iopl SYS_ioperm SYS_arch_prctl),
        cases: &[],
        otherwise: Report,
        why: "large surfaces of the kernel that no parser needs",
    },
    Rule {
        calls: calls!(SYS_mq_open SYS_mq_unlink SYS_mq_timedsend SYS_mq_timedreceive SYS_mq_notify SYS_mq_getsetattr
            SYS_shmget SYS_shmat SYS_shmctl SYS_shmdt SYS_semget SYS_semop SYS_semtimedop SYS_semctl SYS_msgget
            SYS_msgsnd SYS_msgrcv SYS_msgctl SYS_memfd_create SYS_memfd_secret),
        cases: &[],
        otherwise: Report,
        why: "no memory and no queue that is shared with others",
    },
    Rule {
        calls: calls!(SYS_inotify_init SYS_inotify_init1 SYS_inotify_add_watch SYS_fanotify_init SYS_fanotify_mark
            SYS_timerfd_create SYS_timerfd_settime SYS_eventfd SYS_eventfd2 SYS_epoll_create SYS_epoll_create1
            SYS_signalfd SYS_signalfd4 SYS_timer_create SYS_setitimer SYS_alarm),
        cases: &[],
        otherwise: Report,
        why: "objects of the kernel that could be hoarded, and timers that could interrupt",
    },
    Rule {
        calls: calls!(SYS_nanosleep SYS_clock_nanosleep SYS_pause SYS_select SYS_pselect6 SYS_poll SYS_epoll_wait
            SYS_epoll_pwait SYS_rt_sigtimedwait SYS_rt_sigsuspend),
        cases: &[],
        otherwise: Report,
        why: "a parser computes: it has nothing to wait for",
    },
    Rule {
        calls: calls!(SYS_setrlimit SYS_sched_setaffinity SYS_sched_setscheduler SYS_sched_setparam
            SYS_sched_setattr SYS_setpriority SYS_ioprio_set SYS_mlock SYS_mlock2 SYS_mlockall SYS_mbind
            SYS_set_mempolicy SYS_personality SYS_pkey_mprotect SYS_pkey_alloc SYS_remap_file_pages SYS_umask
            SYS_sigaltstack),
        cases: &[],
        otherwise: Report,
        why: "its own limits, priority and memory rules stay as they were set",
    },
    Rule {
        calls: calls!(SYS_setuid SYS_setgid SYS_setreuid SYS_setregid SYS_setresuid SYS_setresgid SYS_setgroups
            SYS_setfsuid SYS_setfsgid SYS_capset SYS_landlock_create_ruleset SYS_landlock_add_rule),
        cases: &[],
        otherwise: Report,
        why: "who it is and what binds it stays as it was set",
    },
    Rule {
        calls: calls!(SYS_reboot SYS_kexec_load SYS_kexec_file_load SYS_init_module SYS_finit_module
            SYS_delete_module SYS_acct SYS_syslog SYS_sethostname SYS_setdomainname SYS_settimeofday
            SYS_clock_settime SYS_adjtimex SYS_clock_adjtime SYS_vhangup SYS_lookup_dcookie),
        cases: &[],
        otherwise: Report,
        why: "the machine is not its to run",
    },
    Rule {
        calls: newer::CALLS,
        cases: &[],
        otherwise: Report,
        why: "newer than any library that a parser here is built on",
    },
];

/// What a child takes away: the calls by which the zygote works and a child is set up.
pub(super) const CHILD: &[Rule] = &[
    Rule {
        calls: calls!(SYS_tgkill),
        cases: &[
            Case { when: &[OwnProcess(0)], then: Allow },
            // Any other signal is reported by the zygote's filter, whomever it is for.
            Case { when: &[Is(2, ABORT)], then: Trap },
        ],
        otherwise: Allow,
        why: "it aborts itself and no other",
    },
    Rule {
        calls: calls!(SYS_mmap),
        cases: &[
            Case { when: &[IsLong(2, 1), IsLong(3, bits(libc::MAP_PRIVATE))], then: Trap },
            Case { when: &[IsLong(2, READ_WRITE), IsLong(3, bits(libc::MAP_SHARED))], then: Trap },
        ],
        otherwise: Allow,
        why: "what is to be mapped is mapped",
    },
    Rule {
        calls: calls!(SYS_prlimit64),
        cases: &[Case { when: &[IsLong(2, 0)], then: Allow }, Case { when: &[Is(0, 0)], then: Trap }],
        otherwise: Allow,
        why: "limits may be asked for",
    },
    Rule {
        calls: calls!(SYS_clone3),
        cases: &[],
        otherwise: Errno(libc::ENOSYS),
        why: "its flags lie in memory, where no filter sees them; libraries fall back to what is reported",
    },
    Rule {
        calls: calls!(SYS_fstat),
        cases: &[],
        otherwise: Errno(libc::EACCES),
        why: "as the other questions about files",
    },
    Rule {
        calls: calls!(SYS_seccomp),
        cases: &[Case { when: &[Is(0, libc::SECCOMP_SET_MODE_FILTER), Is(1, 0)], then: Trap }],
        otherwise: Allow,
        why: "no filter after this one",
    },
    Rule {
        calls: calls!(SYS_clone),
        cases: &[Case { when: &[IsLong(0, ZYGOTE_CLONE)], then: Trap }],
        otherwise: Allow,
        why: "the zygote alone makes children",
    },
    Rule {
        calls: calls!(SYS_sendmsg SYS_recvmsg),
        cases: &[Case { when: &[Is(0, CONTROL)], then: Trap }],
        otherwise: Allow,
        why: "no message and no descriptor leaves but through the result pipe",
    },
    Rule {
        calls: calls!(SYS_landlock_restrict_self),
        cases: &[Case { when: &[Is(0, RULESET), Is(1, 0)], then: Trap }],
        otherwise: Allow,
        why: "its domain is entered",
    },
    Rule {
        calls: calls!(SYS_dup3),
        cases: &[Case { when: &[Is(1, RESULT)], then: Trap }],
        otherwise: Allow,
        why: "its descriptors are in place",
    },
    Rule {
        calls: calls!(SYS_close_range),
        cases: &[Case { when: &[OneOf(0, &[4, 5])], then: Trap }],
        otherwise: Allow,
        why: "its descriptors are in place",
    },
    Rule {
        calls: calls!(SYS_ppoll),
        cases: &[Case { when: &[Is(1, 1)], then: Trap }],
        otherwise: Allow,
        why: "it has nothing to wait for",
    },
];

/// Of the process that holds the process namespace.
pub(super) const KEEPER: &[Rule] = &[Rule {
    calls: calls!(SYS_ppoll SYS_exit_group SYS_restart_syscall SYS_rt_sigreturn),
    cases: &[],
    otherwise: Allow,
    why: "it sleeps until it is killed",
}];
