//! Messages with descriptors on the control socket.

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Why there is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageError {
    /// The other end is closed.
    Closed,
    /// It does not fit: the other end is not of our build.
    Cut,
    /// The kernel's.
    Kernel(Errno),
}

/// The most descriptors that come with one message.
const DESCRIPTORS_MAX: usize = 4;

/// Takes over the control socket, on its fixed number.
///
/// # Errors
/// `EBADF` where nothing is open there.
pub(crate) fn adopt_control() -> Result<OwnedFd, Errno> {
    // SAFETY: F_GETFD on a number that may be closed only answers EBADF.
    Errno::result(unsafe { libc::fcntl(shared::ask::CONTROL_FD, libc::F_GETFD) })?;
    // SAFETY: it is open, the supervisor put it there for this program, and this is called once, by the zygote.
    Ok(unsafe { OwnedFd::from_raw_fd(shared::ask::CONTROL_FD) })
}

/// Receives one message into `buffer`: its length and its descriptors.
///
/// # Errors
/// See [`MessageError`].
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), MessageError> {
    let mut space = nix::cmsg_space!([RawFd; DESCRIPTORS_MAX]);
    let mut pieces = [IoSliceMut::new(buffer)];
    let message =
        recvmsg::<()>(socket.as_raw_fd(), &mut pieces, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)
            .map_err(MessageError::Kernel)?;
    let mut descriptors = Vec::with_capacity(DESCRIPTORS_MAX);
    for control in message.cmsgs().map_err(|_| MessageError::Cut)? {
        if let ControlMessageOwned::ScmRights(numbers) = control {
            for number in numbers {
                // SAFETY: the kernel made this descriptor for this very message, and nothing else owns it.
                descriptors.push(unsafe { OwnedFd::from_raw_fd(number) });
            }
        }
    }
    if message.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC) {
        return Err(MessageError::Cut);
    }
    if message.bytes == 0 { Err(MessageError::Closed) } else { Ok((message.bytes, descriptors)) }
}

/// Sends one message, with a descriptor where one is given.
///
/// # Errors
/// The kernel's.
pub(crate) fn send(socket: &OwnedFd, bytes: &[u8], descriptor: Option<&OwnedFd>) -> Result<(), Errno> {
    let pieces = [IoSlice::new(bytes)];
    let numbers = descriptor.map(|descriptor| [descriptor.as_raw_fd()]);
    let controls = numbers.as_ref().map(|numbers| [ControlMessage::ScmRights(numbers)]);
    let controls = controls.as_ref().map_or(&[][..], |controls| &controls[..]);
    sendmsg::<()>(socket.as_raw_fd(), &pieces, controls, MsgFlags::MSG_NOSIGNAL, None).map(drop)
}
