//! Every `unsafe` block of this crate, each behind a safe function that keeps the block's invariant.
//!
//! Here are only the calls that neither std nor nix has: process creation with a pidfd, reaping by pidfd with resource
//! usage, descriptors out of a control message, and the seccomp listener.
#![expect(unsafe_code, reason = "the one file of the crate where it is allowed")]

use nix::sys::socket::{ControlMessageOwned, MsgFlags, RecvMsg, SockaddrStorage, recvmsg};
use std::ffi::CStr;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdRegisterError};

/// Keeps the C library from giving every thread a heap of its own: texts and rows pass from thread to thread here, and
/// what one heap frees another cannot use, so that memory would grow with the length of a run.
pub fn few_heaps() {
    // SAFETY: sets a parameter of the allocator and touches no memory of ours. Called before any thread is started.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 2) };
}

/// How a process ended, by the kernel's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaped {
    /// Exit status, or the signal where `killed`.
    pub status: i32,
    /// Ended by a signal.
    pub killed: bool,
    /// The kernel wrote, or tried to write, a core file.
    pub core: bool,
    /// Processor time, user and system.
    pub cpu_ms: u64,
    /// The most memory that was resident at any moment.
    pub peak_rss_kib: u64,
}

/// Starts `program`, with `word` as its argument where there is one, with an empty environment (but for `variable`, for a test that leaves a layer out) and exactly four descriptors: 0, 1 and 2 are `null`, 3 is `control`.
/// Gives its process id and a pidfd.
///
/// The program gets no exit signal: this process is told of its end by the pidfd alone, and whoever ignores SIGCHLD
/// cannot make the kernel reap it unseen. A failed exec is told by exit status 127.
///
/// # Errors
/// The kernel makes no process.
pub fn start_program(
    program: &CStr,
    word: Option<&CStr>,
    null: BorrowedFd<'_>,
    control: BorrowedFd<'_>,
    variable: Option<&CStr>,
) -> io::Result<(i32, OwnedFd)> {
    let arguments = [program.as_ptr(), word.map_or(std::ptr::null(), CStr::as_ptr), std::ptr::null()];
    let environment = [variable.map_or(std::ptr::null(), CStr::as_ptr), std::ptr::null()];
    let (null, control) = (null.as_raw_fd(), control.as_raw_fd());
    let mut pidfd: libc::c_int = -1;
    // SAFETY: without CLONE_VM the new process has a copy of this memory and runs `become_program` on a copy of this
    // stack, alone in it; the third argument is where the kernel puts the pidfd, valid for the call. All that the new
    // process touches was made above, and it makes nothing but async-signal-safe calls.
    let pid = unsafe {
        let flags = libc::c_ulong::from(libc::CLONE_PIDFD.unsigned_abs());
        libc::syscall(libc::SYS_clone, flags, 0_usize, &raw mut pidfd, 0_usize, 0_usize)
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: this is the new process, single-threaded; the pointers end in null and outlive the call.
            unsafe { become_program(program.as_ptr(), &arguments, &environment, null, control) }
        }
        pid => {
            // SAFETY: the kernel has just made this descriptor for us, and nobody else knows of it.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok((i32::try_from(pid).map_err(io::Error::other)?, pidfd))
        }
    }
}

/// Only async-signal-safe calls: other threads of the parent may have held any lock at the moment of the fork.
///
/// # Safety
/// To be called in a fresh process only, with null-terminated lists.
unsafe fn become_program(
    program: *const libc::c_char,
    arguments: &[*const libc::c_char; 3],
    environment: &[*const libc::c_char; 2],
    null: RawFd,
    control: RawFd,
) -> ! {
    // SAFETY: plain system calls on descriptors and on pointers that the caller keeps alive. Neither source is below 4
    // when it is copied: `control` is moved out of the way first.
    unsafe {
        let mut none = MaybeUninit::<libc::sigset_t>::zeroed();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let control = libc::fcntl(control, libc::F_DUPFD_CLOEXEC, 4);
        let null = libc::fcntl(null, libc::F_DUPFD_CLOEXEC, 4);
        let placed = [(null, 0), (null, 1), (null, 2), (control, 3)]
            .iter()
            .all(|&(from, to)| from >= 4 && libc::dup2(from, to) == to);
        let cloexec = libc::c_ulong::from(libc::CLOSE_RANGE_CLOEXEC);
        let shut = libc::syscall(libc::SYS_close_range, 4_usize, libc::c_ulong::from(u32::MAX), cloexec) == 0;
        if placed && shut {
            libc::execve(program, arguments.as_ptr(), environment.as_ptr());
        }
        libc::_exit(127)
    }
}

/// Reaps the process behind `pidfd` if it has ended; it must be a child of this process.
///
/// # Errors
/// It is no child of this process, or was reaped before.
pub fn reap(pidfd: BorrowedFd<'_>) -> io::Result<Option<Reaped>> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::__WALL;
    let id = pidfd.as_raw_fd();
    // SAFETY: both out-pointers are to zeroed memory of the right types, for the length of the call.
    let done = unsafe {
        libc::syscall(libc::SYS_waitid, libc::P_PIDFD, id, info.as_mut_ptr(), options, usage.as_mut_ptr())
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all zeroes is a value of both types, and the kernel wrote over them; `si_pid` and `si_status` are the
    // fields that waitid fills (zeroes where nothing has ended).
    let (pid, status, code, usage) = unsafe {
        let info = info.assume_init();
        (info.si_pid(), info.si_status(), info.si_code, usage.assume_init())
    };
    if pid == 0 {
        return Ok(None);
    }
    let ms = |time: libc::timeval| {
        u64::try_from(time.tv_sec).unwrap_or(0) * 1000 + u64::try_from(time.tv_usec).unwrap_or(0) / 1000
    };
    Ok(Some(Reaped {
        status,
        killed: code != libc::CLD_EXITED,
        core: code == libc::CLD_DUMPED,
        cpu_ms: ms(usage.ru_utime) + ms(usage.ru_stime),
        peak_rss_kib: u64::try_from(usage.ru_maxrss).unwrap_or(0),
    }))
}

/// Sends SIGKILL through a pidfd: never to a process that has the number by now.
///
/// # Errors
/// The process is gone already.
pub fn kill(pidfd: BorrowedFd<'_>) -> io::Result<()> {
    signal(pidfd, libc::SIGKILL)
}

/// Sends any signal through a pidfd.
///
/// # Errors
/// The process is gone already.
pub fn signal(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    // SAFETY: no memory is passed but a null pointer, which the call allows.
    let done = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, std::ptr::null::<u8>(), 0)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Receives one packet and up to two descriptors, without blocking. Gives the packet's length; 0 is the end.
///
/// # Errors
/// As `recvmsg`; a packet that does not fit is an error.
pub fn receive(socket: BorrowedFd<'_>, into: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = nix::cmsg_space!([RawFd; 2]);
    let mut slices = [IoSliceMut::new(into)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    let message: RecvMsg<'_, '_, SockaddrStorage> =
        recvmsg(socket.as_raw_fd(), &mut slices, Some(&mut space), flags)?;
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(received) = control {
            // SAFETY: the kernel has just put these descriptors into our table, and nobody else knows of them.
            descriptors.extend(received.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    if message.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet from the worker is too long"));
    }
    Ok(message.bytes)
}

/// Lets the runtime watch a descriptor for something to read. Must be called in the runtime.
///
/// # Errors
/// The kernel's, with the descriptor.
pub fn watch(fd: OwnedFd) -> Result<AsyncFd<OwnedFd>, (OwnedFd, io::Error)> {
    // SAFETY: the descriptor is owned by what is made here, which gives it out by reference only and deregisters it
    // before it lets go of it: it is the same open descriptor for as long as the runtime knows it.
    let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    registered.map_err(AsyncFdRegisterError::into_parts)
}

/// A system call that the kernel holds, waiting for our word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Who called, in our pid namespace.
    pub pid: u32,
    pub number: i32,
    /// `AUDIT_ARCH_*`.
    pub arch: u32,
    pub arguments: [u64; 6],
}

/// Takes one notification of a seccomp listener that is readable.
///
/// # Errors
/// `ENOENT` where the caller died meanwhile.
pub fn held_call(listener: BorrowedFd<'_>) -> io::Result<Held> {
    // _IOWR('!', 0, struct seccomp_notif)
    const RECEIVE: libc::c_ulong =
        3 << 30 | (size_of::<libc::seccomp_notif>() as libc::c_ulong) << 16 | 0x21 << 8;
    let mut notification = MaybeUninit::<libc::seccomp_notif>::zeroed();
    // SAFETY: the kernel fills the structure, which it wants zeroed; all zeroes is a value of it.
    let notification = unsafe {
        if libc::ioctl(listener.as_raw_fd(), RECEIVE, notification.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        notification.assume_init()
    };
    Ok(Held {
        pid: notification.pid,
        number: notification.data.nr,
        arch: notification.data.arch,
        arguments: notification.data.args,
    })
}

/// The version of Landlock that the kernel has.
///
/// # Errors
/// It has none, or it is switched off.
pub fn landlock_abi() -> io::Result<i32> {
    const VERSION: libc::c_ulong = 1;
    // SAFETY: with this flag the call takes a null pointer and the size 0, and makes nothing.
    let abi =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION) };
    if abi < 0 { Err(io::Error::last_os_error()) } else { i32::try_from(abi).map_err(io::Error::other) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_program_starts_with_nothing_and_is_reaped() {
        let null = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let (_pid, pidfd) = start_program(c"/bin/false", None, null.as_fd(), null.as_fd(), None).unwrap();
        assert_eq!(wait(&pidfd), (1, false));
        let (_pid, pidfd) = start_program(c"/nowhere", None, null.as_fd(), null.as_fd(), None).unwrap();
        assert_eq!(wait(&pidfd), (127, false));
        assert!(reap(pidfd.as_fd()).is_err(), "reaped once only");
    }

    #[test]
    fn a_kill_is_told_from_an_exit() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let null = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        // `cat` of /dev/null would end at once: the shell that reads from descriptor 3 waits for us.
        let (_pid, pidfd) = start_program(c"/bin/sh", None, theirs.as_fd(), null.as_fd(), None).unwrap();
        kill(pidfd.as_fd()).unwrap();
        assert_eq!(wait(&pidfd), (libc::SIGKILL, true));
        drop(ours);
    }

    fn wait(pidfd: &OwnedFd) -> (i32, bool) {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        poll(&mut [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)], PollTimeout::from(10_000_u16)).unwrap();
        let reaped = reap(pidfd.as_fd()).unwrap().unwrap();
        (reaped.status, reaped.killed)
    }
}
