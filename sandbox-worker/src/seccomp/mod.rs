//! Which system calls there are for a zygote and for its children.
//!
//! The policy is two tables ([`table`]): the long one is the zygote's, installed once and inherited by every child
//! for free; the short one is a child's own and takes away what only the zygote needs, since each instruction
//! is paid for at every document. The kernel asks both and the more severe answer wins, so the short one must let
//! through what the long one reports to the supervisor: a report loses against everything but permission.
//!
//! An external command has a table of its own ([`command`]), which is the other way round: it names what is denied.

mod assemble;
mod command;
#[cfg(test)]
mod evaluate;
mod table;

pub(crate) use assemble::Program;

use crate::sys;
use nix::errno::Errno;
use std::os::fd::OwnedFd;

/// What the kernel does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allow,
    /// The call fails with this error: an honest library may try it and goes on.
    Errno(i32),
    /// The supervisor is told by the kernel, and kills; where nobody can be told, the kernel kills.
    Report,
    /// The process's own handler notes the call and ends.
    Trap,
}

/// What is demanded of one argument, counted from 0. Where the kernel reads an `int`, the upper half is not looked
/// at: the kernel does not look at it either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// The lower half has this value.
    Is(u8, u32),
    /// All of it has this value.
    IsLong(u8, u32),
    /// The lower half is one of these.
    OneOf(u8, &'static [u32]),
    /// The lower half, without these bits, is one of those.
    OneOfWithout(u8, u32, &'static [u32]),
    /// No bit is set but these.
    Within(u8, u32),
    /// These bits are set.
    Has(u8, u32),
    /// The lower half is the process's own number.
    OwnProcess(u8),
}

/// One way to make a call, and the verdict on it: all checks must hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) when: &'static [Check],
    pub(crate) then: Verdict,
}

/// A system call by name and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) number: u32,
}

/// A line of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    pub(crate) calls: &'static [Call],
    /// Looked at in this order.
    pub(crate) cases: &'static [Case],
    /// Where no case holds.
    pub(crate) otherwise: Verdict,
    /// The reason.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "for the reader; a test demands that each rule has one")
    )]
    pub(crate) why: &'static str,
}

/// A table, and what becomes of calls that it does not name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy<'a> {
    pub(crate) rules: &'a [Rule],
    /// Of this machine's own calls.
    pub(crate) default: Verdict,
    /// Of calls through the door of another architecture.
    pub(crate) foreign: Verdict,
}

/// Whether reports are heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listener {
    Heard,
    Nobody,
}

/// The policy of a zygote, under which its children live too.
pub(crate) const ZYGOTE: Policy<'static> =
    Policy { rules: table::ZYGOTE, default: Verdict::Trap, foreign: Verdict::Report };

/// What a child takes away from itself.
pub(crate) const CHILD: Policy<'static> =
    Policy { rules: table::CHILD, default: Verdict::Allow, foreign: Verdict::Allow };

/// The policy of the process that holds the process namespace: it only sleeps.
pub(crate) const KEEPER: Policy<'static> =
    Policy { rules: table::KEEPER, default: Verdict::Report, foreign: Verdict::Report };

/// The policy of an external command: everything that programs do, but for what reaches out of a cage.
pub(crate) const COMMAND: Policy<'static> =
    Policy { rules: command::COMMAND, default: Verdict::Allow, foreign: Verdict::Report };

/// The same for a command without a process namespace of its own: it stays in its group and signals nobody.
pub(crate) const BARE_COMMAND: Policy<'static> =
    Policy { rules: command::BARE, default: Verdict::Allow, foreign: Verdict::Report };

/// Installs the zygote's filter: with a listener where the kernel gives one.
///
/// # Errors
/// The kernel's, where it gives no filter at all. With a filter and no listener the second value says why.
pub(crate) fn enter_zygote(listener: Listener) -> Result<(Option<OwnedFd>, Option<Errno>), Errno> {
    let mut why = None;
    if listener == Listener::Heard {
        match sys::install_filter(Program::assemble(&ZYGOTE, Listener::Heard).instructions(), true) {
            Ok(listener) => return Ok((listener, None)),
            Err(errno) => why = Some(errno),
        }
    }
    sys::install_filter(Program::assemble(&ZYGOTE, Listener::Nobody).instructions(), false)?;
    Ok((None, why))
}
