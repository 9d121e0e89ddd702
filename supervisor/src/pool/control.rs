//! The socket to one zygote or launcher: whole messages with descriptors beside them.
//!
//! The other end is ours until it speaks for a document; still every message is capped and decoded as hostile data.

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde::Serialize;
use serde::de::DeserializeOwned;
use shared::ask::MESSAGE_MAX;
use shared::frame;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use tokio::io::unix::AsyncFd;

/// Our end.
#[derive(Debug)]
pub(super) struct Control {
    socket: AsyncFd<OwnedFd>,
    buffer: Vec<u8>,
}

impl Control {
    /// Takes a SEQPACKET socket that does not block. Needs the runtime.
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Control {
            socket: crate::sys::watch(socket).map_err(|(_socket, error)| error)?,
            buffer: vec![0; MESSAGE_MAX],
        })
    }

    /// Sends one message. The socket holds far more than one, and every message is answered before the next: one that
    /// does not go through at once means a zygote that does not listen.
    pub(super) fn send<T: Serialize>(&self, message: &T, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = frame::encode(message);
        if bytes.len() > MESSAGE_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message to the worker is too long"));
        }
        let raw: Vec<_> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&raw)];
        let rights = if raw.is_empty() { &[][..] } else { &rights[..] };
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        sendmsg::<()>(self.socket.as_raw_fd(), &[IoSlice::new(&bytes)], rights, flags, None)?;
        Ok(())
    }

    /// Waits for the next message. The end of the stream is an error.
    pub(super) async fn receive<T: DeserializeOwned>(&mut self) -> io::Result<(T, Vec<OwnedFd>)> {
        let mut descriptors = Vec::new();
        let length = loop {
            let mut guard = self.socket.readable().await?;
            let buffer = &mut self.buffer;
            match guard
                .try_io(|socket| crate::sys::receive(socket.get_ref().as_fd(), buffer, &mut descriptors))
            {
                Ok(length) => break length?,
                Err(_not_ready) => {}
            }
        };
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let bytes = self.buffer.get(..length).unwrap_or_default();
        let reply = frame::decode(bytes).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidData, "the worker said nothing that is known")
        })?;
        Ok((reply, descriptors))
    }

    /// The next message, if one is there already; none where it is no message.
    pub(super) fn receive_now<T: DeserializeOwned>(&mut self) -> Option<T> {
        let socket = self.socket.get_ref().as_fd();
        let length = crate::sys::receive(socket, &mut self.buffer, &mut Vec::new()).ok()?;
        frame::decode(self.buffer.get(..length)?).ok()
    }
}
