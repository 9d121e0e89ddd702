//! What an external command may not call. Programs call nearly everything there is, so this table denies, and lets
//! through what it does not name; a denied call fails as if the kernel did not have it or the user no right to it, and
//! an honest program goes on. The walls are the namespaces and Landlock: here is what would get around them.

use super::table::{bits, calls};
use super::{Case, Check, Rule, Verdict};
use Check::{Is, IsLong, OneOf, Within};
use Verdict::{Allow, Errno};

/// All flags of `clone` that make a namespace. `CLONE_NEWTIME` is none of them: there it is part of the signal's number.
const NAMESPACES: u32 = bits(
    libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET,
);
/// `ioctl`s that type into a terminal.
const TYPING: &[u32] = &[0x5412, 0x541c, 0x541d];
/// `ioctl`s that say whom a descriptor signals: `FIOSETOWN`, `SIOCSPGRP`.
const OWNING: &[u32] = &[0x8901, 0x8902];
/// `fcntl`: leases and news of folders.
const WATCHING: &[u32] = &[bits(libc::F_SETLEASE), bits(libc::F_NOTIFY)];
/// `fcntl`: whom a descriptor signals, and how. 15 is `F_SETOWN_EX`, 10 `F_SETSIG`.
const SIGNALLING: &[u32] = &[bits(libc::F_SETOWN), 15, 10];
const TRACING: &[u32] = &[
    bits(libc::PR_SET_DUMPABLE),
    bits(libc::PR_SET_PTRACER),
    bits(libc::PR_SET_MM),
    bits(libc::PR_SET_SECCOMP),
];
/// `personality` only asks with this.
const QUESTION: u32 = u32::MAX;

macro_rules! denied {
    ($($first:expr),* $(,)?) => {
        &[
            $($first,)*
            Rule {
                calls: calls!(SYS_clone),
                cases: &[Case { when: &[Within(0, !NAMESPACES)], then: Allow }],
                otherwise: Errno(libc::EPERM),
                why: "processes and threads, and no namespace of its own: in there it would have privileges",
            },
            Rule {
                calls: calls!(SYS_socketpair),
                cases: &[Case { when: &[Is(0, bits(libc::AF_UNIX))], then: Allow }],
                otherwise: Errno(libc::EACCES),
                why: "parts of a program may talk to one another",
            },
            Rule {
                calls: calls!(SYS_prctl),
                cases: &[Case { when: &[OneOf(0, TRACING)], then: Errno(libc::EPERM) }],
                otherwise: Allow,
                why: "who may trace it, its memory map and its filter stay as they were set",
            },
            Rule {
                calls: calls!(SYS_personality),
                cases: &[
                    Case { when: &[IsLong(0, 0)], then: Allow },
                    Case { when: &[Is(0, QUESTION)], then: Allow },
                ],
                otherwise: Errno(libc::EPERM),
                why: "no other face of the kernel",
            },
            Rule {
                calls: calls!(SYS_clone3),
                cases: &[],
                otherwise: Errno(libc::ENOSYS),
                why: "its flags lie in memory, where no filter sees them; libraries fall back to clone",
            },
            Rule {
                calls: calls!(SYS_memfd_create SYS_memfd_secret),
                cases: &[],
                otherwise: Errno(libc::ENOSYS),
                why: "a file that lies nowhere could be run from nowhere",
            },
            Rule {
                calls: calls!(SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot SYS_open_tree SYS_move_mount SYS_fsopen
                    SYS_fsconfig SYS_fsmount SYS_fspick SYS_mount_setattr SYS_swapon SYS_swapoff SYS_quotactl
                    SYS_quotactl_fd SYS_unshare SYS_setns),
                cases: &[],
                otherwise: Errno(libc::EPERM),
                why: "the file system and the namespaces stay as they were made",
            },
            Rule {
                calls: calls!(SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_process_madvise
                    SYS_pidfd_getfd SYS_kcmp SYS_migrate_pages SYS_move_pages),
                cases: &[],
                otherwise: Errno(libc::EPERM),
                why: "no look into another process",
            },
            Rule {
                calls: calls!(SYS_bpf SYS_perf_event_open SYS_userfaultfd SYS_io_uring_setup SYS_io_uring_enter
                    SYS_io_uring_register SYS_keyctl SYS_add_key SYS_request_key SYS_modify_ldt SYS_iopl SYS_ioperm
                    SYS_vmsplice SYS_fanotify_init SYS_fanotify_mark SYS_lookup_dcookie),
                cases: &[],
                otherwise: Errno(libc::EPERM),
                why: "large surfaces of the kernel, and those that no namespace divides",
            },
            Rule {
                calls: calls!(SYS_open_by_handle_at SYS_name_to_handle_at),
                cases: &[],
                otherwise: Errno(libc::EPERM),
                why: "files by number, past every wall",
            },
            Rule {
                calls: calls!(SYS_mq_open SYS_mq_unlink SYS_mq_timedsend SYS_mq_timedreceive SYS_mq_notify
                    SYS_mq_getsetattr SYS_shmget SYS_shmat SYS_shmctl SYS_shmdt SYS_semget SYS_semop SYS_semtimedop
                    SYS_semctl SYS_msgget SYS_msgsnd SYS_msgrcv SYS_msgctl),
                cases: &[],
                otherwise: Errno(libc::EPERM),
                why: "no memory and no queue that outlives its processes",
            },
            Rule {
                calls: calls!(SYS_reboot SYS_kexec_load SYS_kexec_file_load SYS_init_module SYS_finit_module
                    SYS_delete_module SYS_acct SYS_syslog SYS_settimeofday SYS_clock_settime SYS_adjtimex
                    SYS_clock_adjtime SYS_sethostname SYS_setdomainname SYS_vhangup),
                cases: &[],
                otherwise: Errno(libc::EPERM),
                why: "the machine is not its to run",
            },
        ]
    };
}

/// Of a command in namespaces.
pub(super) const COMMAND: &[Rule] = denied![
    Rule {
        calls: calls!(SYS_socket),
        cases: &[Case { when: &[Is(0, bits(libc::AF_UNIX))], then: Allow }],
        otherwise: Errno(libc::EACCES),
        why: "parts of a program may talk to one another: nobody else is within reach of such a socket",
    },
    Rule {
        calls: calls!(SYS_ioctl),
        cases: &[Case { when: &[OneOf(1, TYPING)], then: Errno(libc::EPERM) }],
        otherwise: Allow,
        why: "nothing is typed into a terminal",
    },
    Rule {
        calls: calls!(SYS_fcntl),
        cases: &[Case { when: &[OneOf(1, WATCHING)], then: Errno(libc::EPERM) }],
        otherwise: Allow,
        why: "no leases on files that others use, and no news of them",
    },
];

/// Of a command without: it can name every process of the machine, and some of them may be the same user's.
pub(super) const BARE: &[Rule] = denied![
    Rule {
        calls: calls!(SYS_socket),
        cases: &[],
        otherwise: Errno(libc::EACCES),
        why: "the machine's own services listen on sockets that have a place in its file system",
    },
    Rule {
        calls: calls!(SYS_ioctl),
        cases: &[
            Case { when: &[OneOf(1, TYPING)], then: Errno(libc::EPERM) },
            Case { when: &[OneOf(1, OWNING)], then: Errno(libc::EPERM) }
        ],
        otherwise: Allow,
        why: "nothing is typed into a terminal, and no process is signalled by way of a descriptor",
    },
    Rule {
        calls: calls!(SYS_fcntl),
        cases: &[
            Case { when: &[OneOf(1, WATCHING)], then: Errno(libc::EPERM) },
            Case { when: &[OneOf(1, SIGNALLING)], then: Errno(libc::EPERM) }
        ],
        otherwise: Allow,
        why: "no leases on files that others use, and no process is signalled by way of a descriptor",
    },
    Rule {
        calls: calls!(SYS_tgkill),
        cases: &[Case { when: &[Is(2, bits(libc::SIGABRT))], then: Allow }],
        otherwise: Errno(libc::EPERM),
        why: "it may abort; its first process does not heed that",
    },
    Rule {
        calls: calls!(SYS_prlimit64 SYS_sched_setaffinity SYS_sched_setscheduler SYS_sched_setparam
            SYS_sched_setattr),
        cases: &[Case { when: &[Is(0, 0)], then: Allow }],
        otherwise: Errno(libc::EPERM),
        why: "its own limits and place, and no other process's",
    },
    Rule {
        calls: calls!(SYS_setsid SYS_setpgid SYS_kill SYS_tkill SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo
            SYS_pidfd_send_signal SYS_setpriority SYS_ioprio_set SYS_process_mrelease),
        cases: &[],
        otherwise: Errno(libc::EPERM),
        why: "its process group is what it is killed by, and no other process is to be reached",
    },
];
