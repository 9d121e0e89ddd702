//! The table of attacks: what a document tries, and what its end must be called.

use super::{Attack, name_of};
use crate::pool::Outcome;

/// One attack.
pub(super) struct Planned {
    /// In the fault language.
    pub(super) act: &'static str,
    /// The kind, or `ended`.
    expected: &'static str,
    /// Of the evidence: the name of the call, or the finer name.
    exactly: Option<&'static str>,
}

const fn attack(act: &'static str, expected: &'static str) -> Planned {
    Planned { act, expected, exactly: None }
}

const fn precise(act: &'static str, expected: &'static str, exactly: &'static str) -> Planned {
    Planned { act, expected, exactly: Some(exactly) }
}

/// All of them.
pub(super) const ALL: &[Planned] = &[
    precise("syscall socket-inet", "violation.syscall", "socket"),
    precise("syscall socket-vsock", "violation.syscall", "socket"),
    precise("syscall fork", "violation.syscall", "fork"),
    precise("syscall execve", "violation.syscall", "execve"),
    precise("syscall ptrace", "violation.syscall", "ptrace"),
    precise("syscall kill-parent", "violation.syscall", "kill"),
    precise("syscall mmap-rwx", "violation.syscall", "mmap"),
    precise("syscall io_uring_setup", "violation.syscall", "io_uring_setup"),
    precise("syscall keyctl", "violation.syscall", "keyctl"),
    precise("syscall bpf", "violation.syscall", "bpf"),
    precise("syscall mount", "violation.syscall", "mount"),
    attack("syscall seccomp", "violation.syscall"),
    attack("syscall landlock_restrict_self", "violation.syscall"),
    attack("syscall unknown-number", "violation.syscall"),
    attack("int80", "violation.arch"),
    attack("x32", "violation.arch"),
    attack("syscall openat", "ended"),
    attack("raise STOP", "violation.syscall"),
    precise("grow", "memory.limit", "mem.budget"),
    attack("spin", "time.cpu"),
    attack("stack-overflow", "crash.stack_overflow"),
    attack("garbage", "violation.protocol"),
    attack("flood", "output.limit"),
];

impl Planned {
    /// How it ended against how it must.
    pub(super) fn judge(&self, outcome: &Outcome) -> Attack {
        let got = name_of(outcome);
        let detail = match outcome {
            Outcome::Failed(fault) => {
                fault.evidence.syscall.clone().or_else(|| fault.evidence.detail.clone())
            }
            Outcome::Ended(_) | Outcome::Stopped => None,
        };
        let exact = self.exactly.is_none_or(|exactly| detail.as_deref() == Some(exactly));
        let words = |kind: &str, exactly: Option<&str>| match exactly {
            Some(exactly) => format!("{kind} ({exactly})"),
            None => kind.to_owned(),
        };
        Attack {
            name: self.act.to_owned(),
            expected: words(self.expected, self.exactly),
            held: got == self.expected && exact,
            got: words(&got, detail.as_deref().filter(|_| self.exactly.is_some())),
        }
    }
}
