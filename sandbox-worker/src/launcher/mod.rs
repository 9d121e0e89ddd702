//! The launcher: starts external commands, each in a cage of its own.
//!
//! It is exec'd afresh by the supervisor and stays lean: it parses nothing and never sees a document's bytes. For each
//! command it makes the first process of a new set of namespaces ([`init`]), which builds an empty root with a view of
//! the system's programs in it ([`root`]), and in there the process that shuts its cage ([`lock`]) and becomes the
//! command. What can be had is tried out once, before the first command: where there are no namespaces, Landlock and
//! the filter have to do, and where Landlock cannot forbid the network either, nothing is run.

mod init;
mod lock;
mod probe;
mod root;
mod wall;

use crate::jail::zygote::only_fixed_descriptors;
use crate::jail::{Failed, namespaces};
use crate::sys::{self, Fork, Kin, MessageError};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Pid, geteuid, getppid, setsid};
use shared::Layer;
use shared::ask::MESSAGE_MAX;
use shared::frame;
use shared::launch::{Greeting, Launch, PROTOCOL, Reply};
use std::os::fd::OwnedFd;

pub use probe::probe;

/// Exit status where there is no supervisor, or one that is not of our build.
const EXIT_NO_SUPERVISOR: i32 = 2;

/// Since this version Landlock forbids TCP: without namespaces nothing else does.
const ABI_OF_PORTS: i64 = 4;

/// What a command's cage is made of besides the user namespace.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// How cages are made here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way {
    /// Flags of the namespaces, none where there are none to be had.
    namespaces: u64,
    /// Becomes this user behind its mounts: where root may not make a user namespace as somebody else.
    later: Option<u32>,
    /// The commands' user is nobody else's, so that a limit on its processes is a limit on theirs.
    own_user: bool,
    /// The kernel's version of Landlock.
    landlock: i64,
}

impl Way {
    fn has_namespaces(self) -> bool {
        self.namespaces != 0
    }

    fn has_user_namespace(self) -> bool {
        self.namespaces & u64::from(libc::CLONE_NEWUSER.unsigned_abs()) != 0
    }
}

/// The whole program, as a launcher.
pub fn main_impl() {
    let parent = getppid();
    sys::tune_malloc();
    let Ok(control) = sys::adopt_control() else { sys::exit(EXIT_NO_SUPERVISOR) };
    if only_fixed_descriptors().is_err() {
        sys::exit(EXIT_NO_SUPERVISOR);
    }
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let Ok(own) = open("/proc/self/exe", flags, Mode::empty()) else { sys::exit(EXIT_NO_SUPERVISOR) };
    let mut launcher = Launcher { control: Some(control), buffer: vec![0; MESSAGE_MAX], own };
    let Ok((greeting, _)) = launcher.receive::<Greeting>() else { sys::exit(EXIT_NO_SUPERVISOR) };
    let mut account = Account::default();
    let prepared = if greeting.protocol == PROTOCOL {
        prepare(&greeting, parent, &mut account)
    } else {
        Err(Failed { step: format!("protocol {PROTOCOL}"), errno: Errno::UnknownErrno })
    };
    match prepared {
        Ok(way) => launcher.serve(way, account),
        Err(failed) => launcher.send(&Reply::Unfit { why: failed.words() }, None),
    }
}

/// Which layers hold for every command, and which do not.
#[derive(Debug, Default)]
struct Account {
    layers: Vec<String>,
    absent: Vec<(String, String)>,
}

impl Account {
    fn holds(&mut self, name: &str) {
        self.layers.push(name.to_owned());
    }

    fn lacks(&mut self, name: &str, why: impl Into<String>) {
        self.absent.push((name.to_owned(), why.into()));
    }
}

fn prepare(greeting: &Greeting, parent: Pid, account: &mut Account) -> Result<Way, Failed> {
    sys::clear_environment();
    // Fails only for the leader of a session, which then needs no new one.
    setsid().ok();
    umask(Mode::S_IWGRP | Mode::S_IWOTH);
    // First to go when the machine runs out of memory. Where it is not allowed, others are as likely.
    namespaces::put("/proc/self/oom_score_adj", "1000").ok();
    let way = choose(greeting, account)?;
    // After the change of the user, which would clear it.
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(Failed::at("pdeathsig"))?;
    if getppid() != parent {
        sys::exit(0);
    }
    for layer in [
        Layer::Descriptors,
        Layer::Environment,
        Layer::Capabilities,
        Layer::NoNewPrivileges,
        Layer::ParentDeath,
        Layer::Rlimits,
    ] {
        account.holds(layer.name());
    }
    if way.landlock > 0 {
        account.holds("landlock");
    } else {
        account.lacks("landlock", "the kernel has no Landlock, or it is off");
    }
    account.holds("seccomp");
    if sys::write_execute_can_be_denied() {
        account.holds(lock::WRITE_EXECUTE);
    } else {
        account.lacks(lock::WRITE_EXECUTE, "the kernel is older than 6.3");
    }
    Ok(way)
}

/// Tries out what can be had, the best first.
fn choose(greeting: &Greeting, account: &mut Account) -> Result<Way, Failed> {
    let bare = greeting.bare && cfg!(feature = "omit-layers");
    let all = u64::from(NAMESPACES.unsigned_abs());
    let user = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let mut way = Way { namespaces: all | user, later: None, own_user: false, landlock: sys::landlock_abi() };
    let mut why_no_user_namespace = None;
    if geteuid().is_root() {
        match namespaces::user_namespace_possible(greeting.user) {
            Ok(()) => {
                become_user(greeting.user)?;
                way.own_user = true;
            }
            Err(failed) => {
                way.namespaces = all;
                way.later = user_possible(greeting.user).then_some(greeting.user);
                way.own_user = way.later.is_some();
                why_no_user_namespace = Some(failed.words());
            }
        }
    }
    let tried = if bare { Err(left_out()) } else { attempt(way) };
    match tried {
        Ok(()) => match why_no_user_namespace {
            None => account.holds(Layer::UserNamespace.name()),
            Some(why) => account.lacks(Layer::UserNamespace.name(), why),
        },
        Err(failed) => {
            way = without_namespaces(way, &failed)?;
            account.lacks(Layer::UserNamespace.name(), failed.words());
        }
    }
    for layer in [
        Layer::MountNamespace,
        Layer::NetworkNamespace,
        Layer::PidNamespace,
        Layer::IpcNamespace,
        Layer::UtsNamespace,
        Layer::CgroupNamespace,
    ] {
        if way.has_namespaces() {
            account.holds(layer.name());
        } else {
            account.lacks(layer.name(), "namespaces are not to be had");
        }
    }
    if way.own_user {
        account.holds(Layer::Uid.name());
    } else {
        account.lacks(Layer::Uid.name(), "started by a user who can become no other");
    }
    Ok(way)
}

fn left_out() -> Failed {
    Failed { step: "left out".to_owned(), errno: Errno::UnknownErrno }
}

/// What is left where there are no namespaces.
fn without_namespaces(way: Way, failed: &Failed) -> Result<Way, Failed> {
    if way.landlock < ABI_OF_PORTS {
        let step = format!(
            "there are no namespaces ({}), and this kernel's Landlock, version {}, does not forbid the network",
            failed.words(),
            way.landlock
        );
        return Err(Failed { step, errno: Errno::UnknownErrno });
    }
    if let Some(user) = way.later {
        become_user(user)?;
    }
    Ok(Way { namespaces: 0, later: None, ..way })
}

fn become_user(number: u32) -> Result<(), Failed> {
    namespaces::change_user(number)?;
    // The change made this process's own /proc files root's.
    prctl::set_dumpable(true).map_err(Failed::at("dumpable"))
}

/// Whether we can become this user. Found out by a child that tries, since there is no way back.
fn user_possible(number: u32) -> bool {
    use nix::sys::wait::{WaitStatus, waitpid};
    match sys::fork() {
        Ok(Fork::Child) => sys::exit(i32::from(namespaces::change_user(number).is_err())),
        Ok(Fork::Parent(pid)) => {
            waitpid(Pid::from_raw(pid), None) == Ok(WaitStatus::Exited(Pid::from_raw(pid), 0))
        }
        Err(_) => false,
    }
}

/// Builds a cage once, with nothing in it.
fn attempt(way: Way) -> Result<(), Failed> {
    let (from_child, to_us) = nix::unistd::pipe2(OFlag::O_CLOEXEC).map_err(Failed::at("pipe"))?;
    let own = root::Owner::of(way);
    match sys::fork_into(way.namespaces, Kin::Child).map_err(Failed::at("clone3"))? {
        Fork::Child => {
            if let Err(failed) = root::build_empty(way, own) {
                init::tell(&to_us, &failed);
            }
            sys::exit(0);
        }
        Fork::Parent(pidfd) => {
            drop(to_us);
            let told = init::told(&from_child);
            let end = nix::sys::wait::waitid(
                nix::sys::wait::Id::PIDFd(std::os::fd::AsFd::as_fd(&pidfd)),
                nix::sys::wait::WaitPidFlag::WEXITED,
            );
            match (told, end) {
                (Some(failed), _) => Err(failed),
                (None, Ok(nix::sys::wait::WaitStatus::Exited(_, 0))) => Ok(()),
                (None, _) => Err(Failed::at("a cage on trial")(Errno::ECHILD)),
            }
        }
    }
}

struct Launcher {
    /// `None` only in what was forked from this process.
    control: Option<OwnedFd>,
    buffer: Vec<u8>,
    /// Our own program, opened by whoever we were at first.
    own: OwnedFd,
}

impl Launcher {
    fn serve(&mut self, way: Way, account: Account) {
        let Account { layers, absent } = account;
        let ready = Reply::Ready { protocol: PROTOCOL, layers, absent, namespaces: way.has_namespaces() };
        self.send(&ready, None);
        while let Ok((launch, descriptors)) = self.receive::<Launch>() {
            let (reply, pidfd) = self.launch(way, &launch, descriptors);
            self.send(&reply, pidfd.as_ref());
        }
    }

    fn launch(&mut self, way: Way, launch: &Launch, descriptors: Vec<OwnedFd>) -> (Reply, Option<OwnedFd>) {
        let refused =
            |step: &str, errno| (Reply::Refused { step: step.to_owned(), errno: errno as i32 }, None);
        let Ok([status, document, output, complaints]) = <[OwnedFd; 4]>::try_from(descriptors) else {
            return refused("descriptors", Errno::EBADF);
        };
        let Ok(own) = self.own.try_clone() else { return refused("descriptors", Errno::EMFILE) };
        let given = init::Given { status, document, output, complaints, own };
        let owner = root::Owner::of(way);
        let forked = match way.namespaces {
            0 => sys::fork_beside(),
            flags => sys::fork_into(flags, Kin::Sibling),
        };
        match forked {
            Ok(Fork::Child) => {
                // Nobody but the launcher itself is to keep the supervisor's socket open.
                drop(self.control.take());
                init::run(way, owner, launch, given)
            }
            Ok(Fork::Parent(pidfd)) => (Reply::Spawned, Some(pidfd)),
            Err(errno) => refused("clone3", errno),
        }
    }

    fn receive<T: serde::de::DeserializeOwned>(&mut self) -> Result<(T, Vec<OwnedFd>), MessageError> {
        let control = self.control.as_ref().ok_or(MessageError::Closed)?;
        let (length, descriptors) = sys::receive(control, &mut self.buffer)?;
        let bytes = self.buffer.get(..length).ok_or(MessageError::Cut)?;
        Ok((frame::decode(bytes).map_err(|_| MessageError::Cut)?, descriptors))
    }

    fn send(&self, reply: &Reply, descriptor: Option<&OwnedFd>) {
        let sent = self.control.as_ref().map(|control| sys::send(control, &frame::encode(reply), descriptor));
        if !matches!(sent, Some(Ok(()))) {
            sys::exit(EXIT_NO_SUPERVISOR);
        }
    }
}
