//! Attacks on the Landlock layers, made by the zygote on itself between their putting up and the filter's.
//!
//! Once the filter stands, nothing in here can make the calls that Landlock forbids, so nobody could tell whether it
//! would: the filter would be all there is, and Landlock a claim. Here the calls are still to be had. What a child adds
//! is rehearsed by a process that exists for that, by the very function that a child uses.
#![expect(clippy::disallowed_types, reason = "it attacks the cage: the network must be out of reach")]

use super::Standing;
use super::child::own_domain;
use crate::sys::{self, Fork};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::signal::kill;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, getsockname, listen, socket,
};
use nix::sys::stat::Mode;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, getppid};
use shared::Layer;
use shared::ask::{Held, Proof};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

/// Since this version of Landlock TCP ports can be forbidden; since that one abstract sockets and signals.
const ABI_OF_PORTS: i64 = 4;
const ABI_OF_SCOPES: i64 = 6;

/// What the throw-away process met, as bits of its exit status.
const TRACED: i32 = 1;
const SIGNALLED: i32 = 2;
const NO_DOMAIN: i32 = 4;

/// An abstract socket that listens, from before the domain: what nobody inside may connect to.
#[derive(Debug)]
pub(super) struct Lure {
    _socket: OwnedFd,
    address: UnixAddr,
}

impl Lure {
    /// Lays it out. `None` where there are no such sockets.
    pub(super) fn lay() -> Option<Lure> {
        let stream = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).ok()?;
        // The kernel chooses a name that nobody has.
        bind(stream.as_raw_fd(), &UnixAddr::new_unnamed()).ok()?;
        listen(&stream, Backlog::new(1).ok()?).ok()?;
        let address = getsockname(stream.as_raw_fd()).ok()?;
        Some(Lure { _socket: stream, address })
    }

    fn bite(&self) -> Result<(), Errno> {
        let stream = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
        connect(stream.as_raw_fd(), &self.address)
    }
}

/// Attacks the domain that this process is in.
pub(super) fn of_zygote(lure: Option<&Lure>, parent: Pid) -> Proof {
    let abi = sys::landlock_abi();
    let root = open("/", OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty()).map(drop);
    let mut attempts = vec![Attempt::of("opening /", root, Errno::EACCES)];
    if abi >= ABI_OF_PORTS {
        attempts.push(Attempt::of("a TCP port", tcp_port(), Errno::EACCES));
        // A machine without such sockets has no port to forbid.
        attempts.retain(|attempt| attempt.answer != Err(Errno::EAFNOSUPPORT));
    }
    if abi >= ABI_OF_SCOPES {
        if let Some(lure) = lure {
            attempts.push(Attempt::of("an abstract socket", lure.bite(), Errno::EPERM));
        }
        attempts.push(Attempt::of("a signal to the supervisor", kill(parent, None), Errno::EPERM));
    }
    proof(Layer::LandlockZygote, &attempts, abi)
}

/// Attacks the domain that a child enters. `None` where no process can be made for it.
pub(super) fn of_child(standing: &Standing) -> Option<Proof> {
    let pid = match sys::fork().ok()? {
        Fork::Child => sys::exit(attack_neighbour(standing)),
        Fork::Parent(pid) => Pid::from_raw(pid),
    };
    let abi = sys::landlock_abi();
    let met = match waitpid(pid, None) {
        Ok(WaitStatus::Exited(_, met)) => met,
        _ => NO_DOMAIN,
    };
    if met & NO_DOMAIN != 0 {
        let words = "a rehearsing process could not enter its domain".to_owned();
        return Some(Proof { layer: Layer::LandlockChild, held: Held::Not, words });
    }
    let answer = |bit| if met & bit == 0 { Err(Errno::EPERM) } else { Ok(()) };
    let mut attempts = vec![Attempt::of("tracing a neighbour", answer(TRACED), Errno::EPERM)];
    if abi >= ABI_OF_SCOPES {
        attempts.push(Attempt::of("a signal to a neighbour", answer(SIGNALLED), Errno::EPERM));
    }
    Some(proof(Layer::LandlockChild, &attempts, abi))
}

/// As a child would: enters the domain and goes for whatever lives beside it under the same user id, which is the
/// keeper where there is a process namespace and the zygote where there is none.
fn attack_neighbour(standing: &Standing) -> i32 {
    if own_domain(standing).is_err() {
        return NO_DOMAIN;
    }
    let neighbour = match getppid().as_raw() {
        0 => Pid::from_raw(1),
        _ => getppid(),
    };
    let bit = |result: Result<(), Errno>, bit| if result == Err(Errno::EPERM) { 0 } else { bit };
    bit(sys::look_into(neighbour.as_raw()), TRACED) | bit(kill(neighbour, None), SIGNALLED)
}

/// The lowest port of this machine, on which nobody listens.
fn tcp_port() -> Result<(), Errno> {
    let port = SocketAddr::from(([127, 0, 0, 1], 1));
    let refused = |error: io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(0));
    TcpStream::connect(port).map(drop).map_err(refused)
}

/// What was tried and what came of it.
struct Attempt {
    what: &'static str,
    answer: Result<(), Errno>,
    refused: bool,
}

impl Attempt {
    fn of(what: &'static str, answer: Result<(), Errno>, refusal: Errno) -> Self {
        Attempt { what, answer, refused: answer == Err(refusal) }
    }

    fn words(&self) -> String {
        match self.answer {
            Ok(()) => format!("{} succeeded", self.what),
            Err(errno) => format!("{}: {errno:?}", self.what),
        }
    }
}

fn proof(layer: Layer, attempts: &[Attempt], abi: i64) -> Proof {
    let through: Vec<_> = attempts.iter().filter(|attempt| !attempt.refused).map(Attempt::words).collect();
    if !through.is_empty() {
        return Proof { layer, held: Held::Not, words: through.join(", ") };
    }
    let words = attempts.iter().map(Attempt::words).collect::<Vec<_>>().join(", ");
    if abi < ABI_OF_SCOPES {
        let words = format!("{words}; this kernel's Landlock, version {abi}, knows no more");
        return Proof { layer, held: Held::Partly, words };
    }
    Proof { layer, held: Held::Wholly, words }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_domain_the_attacks_succeed_and_are_told() {
        let lure = Lure::lay().expect("this machine has abstract sockets");
        let proof = of_zygote(Some(&lure), Pid::this());
        assert_eq!((proof.layer, proof.held), (Layer::LandlockZygote, Held::Not));
        assert!(proof.words.contains("opening / succeeded"), "{}", proof.words);
        assert!(proof.words.contains("an abstract socket succeeded"), "{}", proof.words);
    }

    #[test]
    fn an_old_kernel_holds_in_part() {
        let attempts = [Attempt::of("opening /", Err(Errno::EACCES), Errno::EACCES)];
        assert_eq!(proof(Layer::LandlockZygote, &attempts, 3).held, Held::Partly);
        assert_eq!(proof(Layer::LandlockZygote, &attempts, 7).held, Held::Wholly);
        let through = [Attempt::of("opening /", Err(Errno::ENOENT), Errno::EACCES)];
        assert_eq!(proof(Layer::LandlockZygote, &through, 7).held, Held::Not);
    }
}
