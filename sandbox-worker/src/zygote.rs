//! The zygote: takes requests on the control socket and makes a child for each.
//!
//! Single-threaded, jailed before the first request, and never in touch with a document: it passes descriptors on.
//! Its children belong to the supervisor, which reaps them. It ends when the socket closes.

use crate::child;
use crate::jail::child::Given;
use crate::jail::zygote::{Cage, enter};
use crate::sys::{self, Fork, MessageError};
use crate::{memory, recorder};
use shared::ask::{MESSAGE_MAX, PROTOCOL};
use shared::{Ask, Format, Hello, Reply, Request, frame};
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// Exit status where there is no supervisor, or one that is not of our build.
const EXIT_NO_SUPERVISOR: i32 = 2;

/// The whole program, as a zygote.
pub fn main_impl() {
    let parent = nix::unistd::getppid();
    memory::set_wiping(true);
    sys::tune_malloc();
    let Ok(control) = sys::adopt_control() else { sys::exit(EXIT_NO_SUPERVISOR) };
    let mut zygote = Zygote { control, buffer: vec![0; MESSAGE_MAX] };
    let Ok((hello, _)) = zygote.receive::<Hello>() else { sys::exit(EXIT_NO_SUPERVISOR) };
    warm_up();
    let cage = if hello.protocol == PROTOCOL {
        enter(&hello, parent)
            .map_err(|failed| Reply::Broken { step: failed.step, errno: failed.errno as i32 })
    } else {
        Err(Reply::Broken { step: format!("protocol {PROTOCOL}"), errno: 0 })
    };
    match cage {
        Ok(cage) => zygote.serve(cage, hello.faults),
        Err(broken) => zygote.send(&broken, None),
    }
}

/// What every child would otherwise do once for itself.
fn warm_up() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location();
        let message = panic.payload_as_str().unwrap_or_default();
        recorder::panicked(place.map_or("", |p| p.file()), place.map_or(0, |p| p.line()), message);
    }));
    // Draws the keys of hash maps, which would be a system call.
    drop(HashMap::<u8, u8>::new());
}

struct Zygote {
    control: OwnedFd,
    buffer: Vec<u8>,
}

impl Zygote {
    fn serve(&mut self, mut cage: Cage, faults: bool) {
        let listener = cage.listener.take();
        let ready = Reply::Ready {
            protocol: PROTOCOL,
            layers: cage.standing.layers(),
            absent: cage.standing.absent().to_vec(),
            proofs: std::mem::take(&mut cage.proofs),
            touched_kib: cage.touched_kib,
            code_base: sys::code_base(),
        };
        self.send(&ready, listener.as_ref());
        drop(listener);
        while let Ok((Request::Spawn(ask), descriptors)) = self.receive::<Request>() {
            let (reply, pidfd) = self.spawn(&cage, faults, &ask, descriptors);
            self.send(&reply, pidfd.as_ref());
        }
    }

    fn spawn(
        &self,
        cage: &Cage,
        faults: bool,
        ask: &Ask,
        descriptors: Vec<OwnedFd>,
    ) -> (Reply, Option<OwnedFd>) {
        let refused =
            |step: &str, errno| (Reply::Refused { nonce: ask.nonce, step: step.to_owned(), errno }, None);
        if ask.format == Format::Fault && !faults {
            return refused("faults_off", libc::EPERM);
        }
        let Ok([document, result, recorder]) = <[OwnedFd; 3]>::try_from(descriptors) else {
            return refused("descriptors", libc::EBADF);
        };
        let given = Given { document, result, recorder };
        match sys::fork_beside() {
            Ok(Fork::Child) => child::run(cage, ask, given),
            Ok(Fork::Parent(pidfd)) => (Reply::Spawned { nonce: ask.nonce }, Some(pidfd)),
            Err(errno) => refused("clone", errno as i32),
        }
    }

    /// One message. Its bytes are wiped: the next child inherits this memory.
    fn receive<T: serde::de::DeserializeOwned>(&mut self) -> Result<(T, Vec<OwnedFd>), MessageError> {
        let (length, descriptors) = sys::receive(&self.control, &mut self.buffer)?;
        let bytes = self.buffer.get_mut(..length).ok_or(MessageError::Cut)?;
        let message = frame::decode(bytes).map_err(|_| MessageError::Cut);
        bytes.fill(0);
        Ok((message?, descriptors))
    }

    fn send(&self, reply: &Reply, descriptor: Option<&OwnedFd>) {
        if sys::send(&self.control, &frame::encode(reply), descriptor).is_err() {
            sys::exit(EXIT_NO_SUPERVISOR);
        }
    }
}
