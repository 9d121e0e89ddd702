//! This process: forks, environment, capabilities, limits, descriptors, and its end.

use super::signals;
use nix::errno::Errno;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Where a fork came out.
#[derive(Debug)]
pub(crate) enum Fork<T> {
    /// In the new process.
    Child,
    /// In the old one, with what is known of the new one.
    Parent(T),
}

/// Forks a child of this process.
///
/// # Errors
/// The kernel's.
pub(crate) fn fork() -> Result<Fork<libc::pid_t>, Errno> {
    // SAFETY: this process has one thread, so the child may run any code.
    match Errno::result(unsafe { libc::fork() })? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Forks a sibling: a child of this process's parent, with a pidfd for it.
///
/// # Errors
/// The kernel's.
pub(crate) fn fork_beside() -> Result<Fork<OwnedFd>, Errno> {
    match with_clone3() {
        Err(Errno::ENOSYS) => with_clone(),
        other => other,
    }
}

/// Forks into new namespaces: as a sibling, with a pidfd, or as a child.
///
/// # Errors
/// The kernel's; `ENOSYS` where a container's filter does not know the call, and then no namespaces either.
pub(crate) fn fork_into(namespaces: u64, kin: Kin) -> Result<Fork<OwnedFd>, Errno> {
    let (flags, signal) = match kin {
        Kin::Sibling => (u64::from(libc::CLONE_PARENT.unsigned_abs()), 0),
        Kin::Child => (0, u64::from(libc::SIGCHLD.unsigned_abs())),
    };
    clone3(flags | u64::from(libc::CLONE_PIDFD.unsigned_abs()) | namespaces, signal)
}

/// Whose child a fork is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kin {
    /// Our parent's.
    Sibling,
    /// Ours.
    Child,
}

/// `clone` in place of `clone3`, for a container whose filter does not know the newer one. The zygote's filter allows
/// it with exactly these flags.
pub(crate) const CLONE_FLAGS: libc::c_int = libc::CLONE_PARENT | libc::CLONE_PIDFD;

fn with_clone3() -> Result<Fork<OwnedFd>, Errno> {
    // With CLONE_PARENT the kernel demands 0: the child takes over the signal of the caller itself.
    clone3(u64::from(CLONE_FLAGS.unsigned_abs()), 0)
}

fn clone3(flags: u64, exit_signal: u64) -> Result<Fork<OwnedFd>, Errno> {
    let mut pidfd: RawFd = -1;
    // SAFETY: all fields are integers, for which zero is a value.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = flags;
    arguments.pidfd = (&raw mut pidfd).addr() as u64;
    arguments.exit_signal = exit_signal;
    // SAFETY: without CLONE_VM the child has a copy of this memory and its own stack; this process has one thread, so
    // the child may run any code. The kernel writes one descriptor to `pidfd`, which lives until the call returns.
    let answer = unsafe {
        libc::syscall(libc::SYS_clone3, &raw mut arguments, std::mem::size_of::<libc::clone_args>())
    };
    came_out(answer, pidfd)
}

fn with_clone() -> Result<Fork<OwnedFd>, Errno> {
    let mut pidfd: RawFd = -1;
    // SAFETY: as for clone3; the third argument is where the kernel writes the pidfd.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_clone,
            libc::c_long::from(CLONE_FLAGS),
            0_usize,
            &raw mut pidfd,
            0_usize,
            0_usize,
        )
    };
    came_out(answer, pidfd)
}

fn came_out(answer: libc::c_long, pidfd: RawFd) -> Result<Fork<OwnedFd>, Errno> {
    if Errno::result(answer)? == 0 {
        return Ok(Fork::Child);
    }
    // SAFETY: the kernel made this descriptor for this call, and nothing else owns it.
    Ok(Fork::Parent(unsafe { OwnedFd::from_raw_fd(pidfd) }))
}

/// Ends this process at once: nothing is flushed, dropped or run.
pub(crate) fn exit(status: i32) -> ! {
    // SAFETY: `_exit` ends the process; there is nothing after it.
    unsafe { libc::_exit(status) }
}

/// Waits for a signal that ends this process.
pub(crate) fn sleep_for_ever() -> ! {
    loop {
        // SAFETY: no descriptors, no time limit, no mask: only sleeps.
        unsafe { libc::syscall(libc::SYS_ppoll, 0_usize, 0_usize, 0_usize, 0_usize, 0_usize) };
    }
}

/// Children of this process vanish when they end, without anybody waiting for them.
///
/// # Errors
/// The kernel's.
pub(crate) fn ignore_child_ends() -> Result<(), Errno> {
    // SAFETY: SIG_IGN runs no code.
    if unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) } == libc::SIG_ERR {
        Err(Errno::last())
    } else {
        Ok(())
    }
}

/// How many variables the environment has.
#[expect(clippy::disallowed_methods, reason = "counts what must not be there, and reads none of it")]
pub(crate) fn environment_size() -> usize {
    std::env::vars_os().count()
}

/// Empties the environment, and overwrites what it said on the stack.
pub(crate) fn clear_environment() {
    unsafe extern "C" {
        static mut environ: *mut *mut libc::c_char;
    }
    // SAFETY: one thread, so nobody reads the environment meanwhile. The list is the C library's: pointers to strings
    // that end with a NUL and may be written, a null pointer behind the last.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            std::ptr::write_bytes(*entry, 0, libc::strlen(*entry));
            entry = entry.add(1);
        }
        libc::clearenv();
    }
}

/// Closes every descriptor from `first` on.
///
/// # Errors
/// The kernel's.
pub(crate) fn close_from(first: RawFd) -> Result<(), Errno> {
    // SAFETY: callers are the start of the zygote, the keeper and a child about to parse: whoever owned one of these
    // descriptors never runs again in this process.
    Errno::result(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) }).map(drop)
}

/// Makes `number` mean what `descriptor` means. What was open there is closed.
///
/// # Errors
/// The kernel's.
pub(crate) fn duplicate_to(descriptor: RawFd, number: RawFd) -> Result<(), Errno> {
    // SAFETY: the fixed numbers 0 to 4 belong to the cage: only the zygote and the child put anything there.
    Errno::result(unsafe { libc::dup3(descriptor, number, libc::O_CLOEXEC) }).map(drop)
}

/// How many bytes the file behind a descriptor has. By the plain call: the filter knows no other.
///
/// # Errors
/// The kernel's.
pub(crate) fn file_size(descriptor: RawFd) -> Result<u64, Errno> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel's own layout of `stat` on this architecture is the one of the C library.
    Errno::result(unsafe { libc::syscall(libc::SYS_fstat, descriptor, status.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so all of it is written.
    Ok(u64::try_from(unsafe { status.assume_init() }.st_size).unwrap_or(0))
}

/// Sets a limit, soft and hard. Where the hard limit is lower already, it stays.
///
/// # Errors
/// The kernel's.
pub(crate) fn limit(resource: u32, soft: u64, hard: u64) -> Result<(), Errno> {
    let wanted = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    match set_limit(resource, wanted) {
        Err(Errno::EPERM) => {
            let ceiling = read_limit(resource)?.rlim_max;
            set_limit(resource, libc::rlimit { rlim_cur: soft.min(ceiling), rlim_max: hard.min(ceiling) })
        }
        other => other,
    }
}

fn set_limit(resource: u32, wanted: libc::rlimit) -> Result<(), Errno> {
    // SAFETY: the kernel reads one `rlimit` that lives until the call returns.
    Errno::result(unsafe { libc::syscall(libc::SYS_prlimit64, 0, resource, &raw const wanted, 0_usize) })
        .map(drop)
}

fn read_limit(resource: u32) -> Result<libc::rlimit, Errno> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one `rlimit` that lives until the call returns.
    Errno::result(unsafe { libc::syscall(libc::SYS_prlimit64, 0, resource, 0_usize, &raw mut now) })?;
    Ok(now)
}

/// Process number, as this process sees itself.
pub(crate) fn own_id() -> u32 {
    std::process::id()
}

/// Asks the kernel for something inside another process that only one may know who may trace it.
///
/// # Errors
/// The kernel's: `EPERM` where this process may not.
pub(crate) fn look_into(pid: i32) -> Result<(), Errno> {
    let (mut head, mut length) = (0_usize, 0_usize);
    // SAFETY: the kernel writes two words that live until the call returns; the address that it tells is not used.
    let answer = unsafe { libc::syscall(libc::SYS_get_robust_list, pid, &raw mut head, &raw mut length) };
    Errno::result(answer).map(drop)
}

/// Whether nobody holds the reading end of the pipe behind `descriptor` any more.
pub(crate) fn listener_gone(descriptor: RawFd) -> bool {
    let mut poll = libc::pollfd { fd: descriptor, events: 0, revents: 0 };
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: one pollfd and one timespec that live until the call returns.
    let ready = unsafe {
        libc::syscall(libc::SYS_ppoll, &raw mut poll, 1_usize, &raw const at_once, 0_usize, 0_usize)
    };
    ready > 0 && poll.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0
}

/// Writes all of `first` and then all of `second` to a descriptor, in as few calls as it takes.
///
/// # Errors
/// The kernel's: `EPIPE` where nobody reads any more.
pub(crate) fn send_all(descriptor: RawFd, mut first: &[u8], mut second: &[u8]) -> Result<(), Errno> {
    while !first.is_empty() || !second.is_empty() {
        let pieces = [first, second]
            .map(|piece| libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() });
        // SAFETY: both pieces are live slices, and the kernel only reads them.
        let sent = match Errno::result(unsafe { libc::writev(descriptor, pieces.as_ptr(), 2) }) {
            Ok(sent) => usize::try_from(sent).unwrap_or(0),
            Err(Errno::EINTR) => 0,
            Err(other) => return Err(other),
        };
        let from_first = sent.min(first.len());
        first = first.get(from_first..).unwrap_or_default();
        second = second.get(sent - from_first..).unwrap_or_default();
    }
    Ok(())
}

/// Gives the C library's allocator fixed thresholds: one arena, big blocks from the kernel, and no memory given back
/// bit by bit by a process that ends soon.
pub(crate) fn tune_malloc() {
    for (parameter, value) in [
        (libc::M_ARENA_MAX, 1),
        (libc::M_MMAP_THRESHOLD, 256 << 10),
        (libc::M_TRIM_THRESHOLD, 64 << 20),
        (libc::M_TOP_PAD, 256 << 10),
    ] {
        // SAFETY: sets a number inside the allocator; one thread.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Where the program's own code lies.
pub(crate) fn code_base() -> u64 {
    // SAFETY: reads an entry of the auxiliary vector.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    // The program headers lie right behind the ELF header, in the first page of the file.
    headers & !0xfff
}

/// The lowest address that the main stack may reach with a limit of `size` bytes, and its end.
fn stack_bounds(size: u64) -> Result<(u64, u64), Errno> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut lowest = std::ptr::null_mut();
    let mut length = 0;
    // SAFETY: the attributes are written by the first call, read by the second and given back by the third.
    let answer = unsafe {
        let answer = libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr());
        if answer == 0 {
            libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut length);
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
        }
        answer
    };
    if answer != 0 {
        return Err(Errno::from_raw(answer));
    }
    let top = (lowest.addr() as u64).saturating_add(length as u64);
    Ok((top.saturating_sub(size), top))
}

/// Tells the crash handlers where the main stack lies, with a limit of `size` bytes.
///
/// # Errors
/// The C library's, which asks /proc.
pub(crate) fn set_stack_bounds_of(size: u64) -> Result<(), Errno> {
    let (lowest, top) = stack_bounds(size)?;
    signals::set_stack_bounds(lowest, top);
    Ok(())
}

/// `NOROOT`, `NO_SETUID_FIXUP` and `NO_CAP_AMBIENT_RAISE`, each with its lock, and `KEEP_CAPS` locked to off.
const SECURE: u64 = 0b1110_1111;

/// Being root means nothing from here on, for good.
///
/// # Errors
/// `EPERM` where this process has no capability to begin with.
pub(crate) fn set_securebits() -> Result<(), Errno> {
    // SAFETY: takes a number, no memory.
    Errno::result(unsafe { libc::prctl(libc::PR_SET_SECUREBITS, SECURE, 0, 0, 0) }).map(drop)
}

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    process: i32,
}

/// Effective, permitted, inheritable; low words and high words.
type CapabilityWords = [[u32; 3]; 2];

const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

/// Empties every capability set, the bounding set first where that is allowed.
///
/// # Errors
/// The kernel's.
pub(crate) fn drop_capabilities() -> Result<(), Errno> {
    for capability in 0..64_u64 {
        // SAFETY: takes numbers, no memory. EINVAL behind the last capability; EPERM where there are none to drop.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
            break;
        }
    }
    // SAFETY: takes numbers, no memory.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    let header = CapabilityHeader { version: CAPABILITY_VERSION_3, process: 0 };
    let none: CapabilityWords = [[0; 3]; 2];
    // SAFETY: header and sets have the kernel's layout for this version and live until the call returns.
    Errno::result(unsafe { libc::syscall(libc::SYS_capset, &raw const header, &raw const none) }).map(drop)
}

/// Whether any capability is left.
///
/// # Errors
/// The kernel's.
pub(crate) fn has_capabilities() -> Result<bool, Errno> {
    let mut header = CapabilityHeader { version: CAPABILITY_VERSION_3, process: 0 };
    let mut sets: CapabilityWords = [[0; 3]; 2];
    // SAFETY: header and sets have the kernel's layout for this version and live until the call returns.
    Errno::result(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, &raw mut sets) })?;
    Ok(sets.iter().flatten().any(|&word| word != 0))
}
