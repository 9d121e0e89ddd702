//! The last steps before a process becomes the command: descriptors, limits, privileges, Landlock, the filter, exec.
//! The first step that fails ends it: nothing is run in less of a cage than was promised.

use super::{Way, root, wall};
use crate::jail::zygote::drop_capabilities;
use crate::jail::{Failed, namespaces};
use crate::seccomp::{self, Listener, Program};
use crate::sys;
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Whence, chdir, lseek, setsid};
use shared::launch::{INPUT, Launch, LaunchLimits, SCRATCH};
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};

/// The name of the layer by which memory that was written never becomes executable.
pub(super) const WRITE_EXECUTE: &str = "no-write-execute";

/// Where the document is open for a command that has no root of its own.
const DOCUMENT_FD: i32 = 3;
/// Address space and data beyond the limit on memory: what threads and libraries reserve and never touch. The limit itself
/// is kept over all processes of the command together; these are for one that outruns it.
const RESERVED: u64 = 1 << 30;
const SLACK: u64 = 256 << 20;
const STACK: u64 = 8 << 20;

/// The descriptors that the command gets.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) document: OwnedFd,
    pub(super) output: OwnedFd,
    pub(super) complaints: OwnedFd,
    /// The launcher's own program.
    pub(super) own: OwnedFd,
}

/// Becomes the command. Returns only where that fails.
pub(super) fn become_command(way: Way, launch: &Launch, inner: Inner) -> Failed {
    let error = match lock(way, launch, &inner) {
        Ok((program, arguments)) => {
            let environment = environment(way);
            let errno = match program.is_empty() {
                true => sys::execute_file(inner.own.as_raw_fd(), &arguments, &environment),
                false => sys::execute(&program, &arguments, &environment),
            };
            Failed::at(format!("exec {}", program.to_string_lossy()))(errno)
        }
        Err(failed) => failed,
    };
    // They have other numbers by now, and are closed with the process.
    std::mem::forget(inner);
    error
}

fn lock(way: Way, launch: &Launch, inner: &Inner) -> Result<(CString, Vec<CString>), Failed> {
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| Failed::at("arguments")(Errno::EINVAL));
    let program = text(&launch.program)?;
    let place = match way.has_namespaces() {
        true => root::document(&launch.extension),
        false => format!("/proc/self/fd/{DOCUMENT_FD}"),
    };
    let arguments = launch.arguments.iter().map(|argument| text(&filled(argument, place.as_bytes())));
    let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
    setsid().map_err(Failed::at("setsid"))?;
    sys::plain_signals().map_err(Failed::at("signals"))?;
    let first_closed = descriptors(way, launch, inner).map_err(Failed::at("descriptors"))?;
    chdir(if way.has_namespaces() { SCRATCH } else { "/" }).map_err(Failed::at("chdir"))?;
    limits(way, &launch.limits).map_err(Failed::at("limits"))?;
    if let Some(user) = way.later {
        namespaces::change_user(user)?;
    }
    // Behind the change of the user, which would clear it.
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(Failed::at("pdeathsig"))?;
    drop_capabilities()?;
    prctl::set_no_new_privs().map_err(Failed::at("no_new_privs"))?;
    if !launch.jit && sys::write_execute_can_be_denied() {
        sys::deny_write_execute().map_err(Failed::at(WRITE_EXECUTE))?;
    }
    wall::enter(way, launch, inner)?;
    sys::close_on_exec_from(first_closed).map_err(Failed::at("close_range"))?;
    let policy = if way.has_namespaces() { seccomp::COMMAND } else { seccomp::BARE_COMMAND };
    let filter = Program::assemble(&policy, Listener::Nobody);
    sys::install_filter(filter.instructions(), false).map_err(Failed::at("seccomp"))?;
    Ok((program, arguments))
}

/// Gives the command its descriptors: the number of the first that it must not have. Standard input is the launcher's
/// null device where it is not the document.
fn descriptors(way: Way, launch: &Launch, inner: &Inner) -> Result<i32, Errno> {
    // Whoever reads the same file by another descriptor may have left it anywhere.
    lseek(&inner.document, 0, Whence::SeekSet)?;
    sys::place(if launch.stdin { inner.document.as_raw_fd() } else { 0 }, 0)?;
    sys::place(inner.output.as_raw_fd(), 1)?;
    sys::place(inner.complaints.as_raw_fd(), 2)?;
    if launch.stdin || way.has_namespaces() {
        return Ok(DOCUMENT_FD);
    }
    sys::place(inner.document.as_raw_fd(), DOCUMENT_FD)?;
    Ok(DOCUMENT_FD + 1)
}

fn limits(way: Way, limits: &LaunchLimits) -> Result<(), Errno> {
    let seconds = limits.cpu_ms.div_ceil(1000);
    let memory = limits.memory;
    let both = |value: u64| (value, value);
    let mut all = vec![
        (libc::RLIMIT_AS, both(memory.saturating_add(RESERVED))),
        (libc::RLIMIT_DATA, both(memory.saturating_add(SLACK))),
        (libc::RLIMIT_STACK, both(STACK)),
        (libc::RLIMIT_CPU, (seconds, seconds.saturating_add(1))),
        (libc::RLIMIT_FSIZE, both(limits.file)),
        (libc::RLIMIT_NOFILE, both(256)),
        (libc::RLIMIT_CORE, both(0)),
        (libc::RLIMIT_MSGQUEUE, both(0)),
        (libc::RLIMIT_RTPRIO, both(0)),
        (libc::RLIMIT_NICE, both(0)),
        (libc::RLIMIT_MEMLOCK, both(64 << 10)),
    ];
    if way.has_user_namespace() || way.own_user {
        // Elsewhere it would count what its user runs besides.
        all.push((libc::RLIMIT_NPROC, both(limits.processes)));
    }
    all.into_iter().try_for_each(|(resource, (soft, hard))| sys::limit(resource, soft, hard))
}

fn environment(way: Way) -> Vec<CString> {
    let folder = if way.has_namespaces() { SCRATCH } else { "/nonexistent" };
    [
        "PATH=/usr/local/bin:/usr/bin:/bin".to_owned(),
        format!("HOME={folder}"),
        format!("TMPDIR={folder}"),
        "LANG=C.UTF-8".to_owned(),
        "LC_ALL=C.UTF-8".to_owned(),
        // One processor for one document: the others have documents of their own.
        "OMP_THREAD_LIMIT=1".to_owned(),
    ]
    .into_iter()
    .filter_map(|variable| CString::new(variable).ok())
    .collect()
}

/// The argument with the document's place in it.
fn filled(argument: &[u8], place: &[u8]) -> Vec<u8> {
    let mark = INPUT.as_bytes();
    let mut filled = Vec::with_capacity(argument.len() + place.len());
    let mut rest = argument;
    while let Some((first, behind)) = rest.split_first() {
        if let Some(behind) = rest.strip_prefix(mark) {
            filled.extend_from_slice(place);
            rest = behind;
        } else {
            filled.push(*first);
            rest = behind;
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_replaced_wherever_it_stands() {
        assert_eq!(filled(b"{input}", b"/a"), b"/a");
        assert_eq!(filled(b"--in={input},{input}", b"/a"), b"--in=/a,/a");
        assert_eq!(filled(b"{inpu}", b"/a"), b"{inpu}");
        assert_eq!(filled(b"", b"/a"), b"");
    }
}
