//! Mappings of the descriptors that come with a request.

use super::page;
use nix::errno::Errno;
use shared::recorder::SIZE;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Maps the document for reading, for as long as this process lives.
///
/// # Errors
/// The kernel's; `EFBIG` for a size that no address space holds.
pub(crate) fn map_document(document: BorrowedFd<'_>, size: u64) -> Result<&'static [u8], Errno> {
    let size = usize::try_from(size).map_err(|_| Errno::EFBIG)?;
    if size == 0 {
        return Ok(&[]);
    }
    let base = map(document, size, libc::PROT_READ, libc::MAP_PRIVATE)?;
    // SAFETY: the kernel just mapped `size` bytes there, readable, and nothing in this crate unmaps them. Their
    // content does not change: the supervisor seals a memfd against writing; with a file it takes the risk, and a
    // file that shrinks ends this process alone, by SIGBUS.
    Ok(unsafe { std::slice::from_raw_parts(base.cast(), size) })
}

/// Maps the recorder page, for as long as this process lives.
///
/// # Errors
/// The kernel's.
pub(crate) fn map_page(memfd: BorrowedFd<'_>) -> Result<(), Errno> {
    let base = map(memfd, SIZE, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED)?;
    page::use_mapping(base.cast());
    Ok(())
}

fn map(
    descriptor: BorrowedFd<'_>,
    size: usize,
    protection: i32,
    flags: i32,
) -> Result<*mut libc::c_void, Errno> {
    // SAFETY: without MAP_FIXED the kernel chooses an unused range, so no live memory is touched.
    let base =
        unsafe { libc::mmap(std::ptr::null_mut(), size, protection, flags, descriptor.as_raw_fd(), 0) };
    if base == libc::MAP_FAILED { Err(Errno::last()) } else { Ok(base) }
}
