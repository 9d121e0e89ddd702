//! What it takes to become another program: descriptors, signals, the last restrictions, exec. And the one call on
//! mounts that nix has no wrapper for.

use nix::errno::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::RawFd;

/// Makes `number` mean what `descriptor` means, for the program to come as well.
///
/// # Errors
/// The kernel's.
pub(crate) fn place(descriptor: RawFd, number: RawFd) -> Result<(), Errno> {
    if descriptor == number {
        // SAFETY: changes a flag of a descriptor, no memory.
        return Errno::result(unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) }).map(drop);
    }
    // SAFETY: callers are about to exec: whoever owned the descriptor `number` never runs again in this process.
    Errno::result(unsafe { libc::dup2(descriptor, number) }).map(drop)
}

/// Has every descriptor from `first` on closed by the next exec.
///
/// # Errors
/// The kernel's.
pub(crate) fn close_on_exec_from(first: RawFd) -> Result<(), Errno> {
    // SAFETY: changes flags of descriptors, no memory.
    let answer = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    Errno::result(answer).map(drop)
}

/// Gives the program to come the signals as a shell would: none blocked, none ignored.
///
/// # Errors
/// The kernel's.
pub(crate) fn plain_signals() -> Result<(), Errno> {
    // SAFETY: the defaults run no code of this program. Our own runtime ignores the first, and the first process of
    // a cage the second.
    for signal in [libc::SIGPIPE, libc::SIGABRT] {
        // SAFETY: as above.
        if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
            return Err(Errno::last());
        }
    }
    let mut none = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is written by the first call and read by the second.
    let answer = unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
    };
    Errno::result(answer).map(drop)
}

/// This process does not end by SIGABRT: the one signal that a command's filter lets through where nothing else keeps
/// it from naming us.
///
/// # Errors
/// The kernel's.
pub(crate) fn ignore_aborts() -> Result<(), Errno> {
    // SAFETY: SIG_IGN runs no code.
    if unsafe { libc::signal(libc::SIGABRT, libc::SIG_IGN) } == libc::SIG_ERR {
        Err(Errno::last())
    } else {
        Ok(())
    }
}

/// Of `prctl`; since Linux 6.3.
const SET_WRITE_EXECUTE: libc::c_int = 65;
const GET_WRITE_EXECUTE: libc::c_int = 66;

/// Whether the kernel can keep memory that was written from becoming executable.
pub(crate) fn write_execute_can_be_denied() -> bool {
    // SAFETY: takes numbers, no memory.
    unsafe { libc::prctl(GET_WRITE_EXECUTE, 0, 0, 0, 0) >= 0 }
}

/// Memory that was written never becomes executable, here and in what this process becomes.
///
/// # Errors
/// The kernel's.
pub(crate) fn deny_write_execute() -> Result<(), Errno> {
    const REFUSE_EXEC_GAIN: libc::c_ulong = 1;
    // SAFETY: takes numbers, no memory.
    Errno::result(unsafe { libc::prctl(SET_WRITE_EXECUTE, REFUSE_EXEC_GAIN, 0, 0, 0) }).map(drop)
}

/// Makes a mount and all below it read-only, without devices where `devices` is false, and without any way to gain
/// privileges.
///
/// # Errors
/// The kernel's.
pub(crate) fn make_read_only(path: &CStr, devices: bool) -> Result<(), Errno> {
    let flags = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID;
    let flags = if devices { flags } else { flags | libc::MOUNT_ATTR_NODEV };
    let attributes = libc::mount_attr { attr_set: flags, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: the kernel reads a path and a structure that live until the call returns.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    Errno::result(answer).map(drop)
}

/// Becomes another program. Returns only where that fails.
pub(crate) fn execute(program: &CStr, arguments: &[CString], environment: &[CString]) -> Errno {
    let (arguments, environment) = (list(arguments), list(environment));
    // SAFETY: both lists end in a null pointer and point to texts that live until the call returns, if it does.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    Errno::last()
}

/// Becomes the program in an open file. Returns only where that fails.
pub(crate) fn execute_file(program: RawFd, arguments: &[CString], environment: &[CString]) -> Errno {
    let (arguments, environment) = (list(arguments), list(environment));
    // SAFETY: as for execve; the path is empty, so that the descriptor itself is meant.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program,
            c"".as_ptr(),
            arguments.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    Errno::last()
}

fn list(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}
