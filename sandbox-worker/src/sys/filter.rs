//! The two calls that install a restriction of the kernel on this process.

use nix::errno::Errno;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// One instruction of a seccomp filter, as the kernel takes it.
pub(crate) type BpfInstruction = libc::sock_filter;

/// A filter that is complete.
pub(crate) type BpfProgram = [BpfInstruction];

/// Installs a seccomp filter, with a listener for what it reports where one is asked for.
///
/// # Errors
/// The kernel's: `EBUSY` where another listener is in the way, `EINVAL` where the kernel knows none.
pub(crate) fn install_filter(program: &BpfProgram, listener: bool) -> Result<Option<OwnedFd>, Errno> {
    let length = u16::try_from(program.len()).map_err(|_| Errno::E2BIG)?;
    let filter = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    let flags = if listener { libc::SECCOMP_FILTER_FLAG_NEW_LISTENER } else { 0 };
    // SAFETY: `filter` and the program it points to live until the call returns, and the kernel only reads them.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::c_ulong::from(libc::SECCOMP_SET_MODE_FILTER),
            flags,
            &raw const filter,
        )
    };
    let answer = Errno::result(answer)?;
    if !listener {
        return Ok(None);
    }
    let listener = RawFd::try_from(answer).map_err(|_| Errno::EBADF)?;
    // SAFETY: with this flag the kernel answers a new descriptor, which nothing else owns.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(listener) }))
}

/// Enters the domain of a Landlock ruleset.
///
/// # Errors
/// The kernel's.
pub(crate) fn landlock_restrict(ruleset: RawFd) -> Result<(), Errno> {
    // SAFETY: takes a descriptor and flags, no memory.
    let answer = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) };
    Errno::result(answer).map(drop)
}

/// The kernel's version of Landlock, 0 where it has none.
pub(crate) fn landlock_abi() -> i64 {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the kernel takes no memory and answers with a number.
    let answer = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0_usize, 0_usize, VERSION) };
    answer.max(0)
}
