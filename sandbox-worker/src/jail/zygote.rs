//! What a zygote puts up once, for itself and every child.
//!
//! The order matters: what needs the outer /proc comes before the root is emptied, what needs privileges before they
//! are dropped, the keeper is forked once everything that it is to inherit stands, and the filter is last.

use super::layers::Failed;
use super::rehearsal::{self, Lure};
use super::{RULESET_FD, Standing, landlock, namespaces};
use crate::seccomp::{self, Listener};
use crate::sys;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::{Pid, geteuid, getppid, setsid};
use shared::ask::Proof;
use shared::{Hello, Layer};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

/// The limit on the stack, in bytes.
const STACK: u64 = 8 << 20;
/// Layers that each child puts up for itself, and fails over where it cannot.
const OF_CHILDREN: [Layer; 4] =
    [Layer::Rlimits, Layer::NotDumpable, Layer::MemoryBudget, Layer::SeccompChild];

/// A cage that stands.
#[derive(Debug)]
pub(crate) struct Cage {
    pub(crate) standing: Standing,
    /// How the layers held that were attacked while they could be.
    pub(crate) proofs: Vec<Proof>,
    /// On which the supervisor hears of dangerous calls; to be passed on, and closed here.
    pub(crate) listener: Option<OwnedFd>,
    /// Kilobytes of memory in use.
    pub(crate) touched_kib: u64,
    /// Bytes of address space in use.
    pub(crate) address_space: u64,
}

/// Puts the zygote's part up.
///
/// # Errors
/// The step without which there is no cage.
pub(crate) fn enter(hello: &Hello, parent: Pid) -> Result<Cage, Failed> {
    let mut standing = Standing::none(hello.omit);
    one_thread()?;
    standing.put_up(Layer::Environment, empty_environment);
    standing.put_up(Layer::Descriptors, only_fixed_descriptors);
    // Before any file of our own can take its number.
    standing.put_up(Layer::LandlockChild, leave_ruleset);
    // Fails only for the leader of a session, which then needs no new one.
    setsid().ok();
    sys::set_stack_bounds_of(STACK).map_err(Failed::at("stack"))?;
    sys::install_handlers().map_err(Failed::at("handlers"))?;
    // First to go when the machine runs out of memory. Where it is not allowed, others are as likely.
    namespaces::put("/proc/self/oom_score_adj", "1000").ok();
    let memory_use = File::open("/proc/self/statm").ok();
    enter_namespaces(hello, &mut standing);
    fixed_limits().map_err(Failed::at("limits"))?;
    standing.put_up(Layer::ParentDeath, || die_with(parent));
    standing.put_up(Layer::Capabilities, drop_capabilities);
    if !standing.omits(Layer::NoNewPrivileges) {
        prctl::set_no_new_privs().map_err(Failed::at("no_new_privs"))?;
    }
    standing.stands(Layer::NoNewPrivileges);
    let lure = Lure::lay();
    standing.put_up(Layer::LandlockZygote, landlock::enter);
    if standing.layers().has(Layer::PidNamespace) && !standing.omits(Layer::PidNamespace) {
        // Without a first process the namespace admits no other: no child could be made.
        namespaces::start_keeper()?;
    }
    for layer in OF_CHILDREN {
        standing.stands(layer);
    }
    let proofs = rehearse(&standing, lure, parent);
    let (address_space, touched_kib) = memory_use.map_or((0, 0), |file| pages_in_use(&file));
    let listener = enter_filter(&mut standing)?;
    Ok(Cage { standing, proofs, listener, touched_kib, address_space })
}

/// A fork of a process with threads may find locks that nobody will ever release.
fn one_thread() -> Result<(), Failed> {
    match std::fs::read_dir("/proc/self/task").map(Iterator::count) {
        Ok(1) | Err(_) => Ok(()),
        Ok(_) => Err(Failed::at("the zygote has threads")(Errno::EBUSY)),
    }
}

fn empty_environment() -> Result<(), Failed> {
    sys::clear_environment();
    match sys::environment_size() {
        0 => Ok(()),
        _ => Err(Failed::at("clearenv")(Errno::ENOTEMPTY)),
    }
}

/// Nothing is open but the null device, three times, and the control socket.
pub(crate) fn only_fixed_descriptors() -> Result<(), Failed> {
    sys::close_from(shared::ask::CONTROL_FD + 1).map_err(Failed::at("close_range"))?;
    let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(Failed::at("/dev/null"))?;
    for number in 0..shared::ask::CONTROL_FD {
        if number != null.as_raw_fd() {
            sys::duplicate_to(null.as_raw_fd(), number).map_err(Failed::at("dup3"))?;
        }
    }
    if null.as_raw_fd() < shared::ask::CONTROL_FD {
        // It is one of the three.
        let _number = null.into_raw_fd();
    }
    Ok(())
}

/// User and namespaces. Root gives its user up first and then needs a user namespace for the others; where that is
/// forbidden, it makes the others while it still is root.
fn enter_namespaces(hello: &Hello, standing: &mut Standing) {
    let user = hello.uid_base.saturating_add(hello.slot);
    let root = geteuid().is_root() && !standing.omits(Layer::Uid);
    let forbidden = if root { namespaces::user_namespace_possible(user).err() } else { None };
    if forbidden.is_some() || root && standing.omits(Layer::UserNamespace) {
        standing.put_up(Layer::UserNamespace, || forbidden.map_or(Ok(()), Err));
        enter_inner(standing);
        change_user(standing, user);
    } else {
        change_user(standing, user);
        standing.put_up(Layer::UserNamespace, namespaces::enter_user);
        enter_inner(standing);
    }
}

fn change_user(standing: &mut Standing, user: u32) {
    standing.put_up(Layer::Uid, || {
        let own = geteuid();
        if !own.is_root() {
            let step = format!("started by user {own}, who can become no other");
            return Err(Failed { step, errno: Errno::UnknownErrno });
        }
        namespaces::change_user(user)?;
        // The change made this process's own /proc files root's.
        prctl::set_dumpable(true).map_err(Failed::at("dumpable"))
    });
}

fn enter_inner(standing: &mut Standing) {
    namespaces::enter_plain(standing);
    standing.put_up(Layer::PidNamespace, namespaces::unshare_processes);
    standing.put_up(Layer::MountNamespace, namespaces::enter_empty_root);
}

/// Limits that are the same for every child.
fn fixed_limits() -> Result<(), Errno> {
    sys::limit(libc::RLIMIT_STACK, STACK, STACK)?;
    for resource in [
        libc::RLIMIT_FSIZE,
        libc::RLIMIT_CORE,
        libc::RLIMIT_MEMLOCK,
        libc::RLIMIT_MSGQUEUE,
        libc::RLIMIT_SIGPENDING,
        libc::RLIMIT_RTPRIO,
        libc::RLIMIT_NICE,
        libc::RLIMIT_LOCKS,
    ] {
        sys::limit(resource, 0, 0)?;
    }
    Ok(())
}

/// After the change of the user, which would clear it.
fn die_with(parent: Pid) -> Result<(), Failed> {
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(Failed::at("pdeathsig"))?;
    if getppid() != parent {
        // It was quicker: there is nobody to tell.
        sys::exit(0);
    }
    Ok(())
}

pub(crate) fn drop_capabilities() -> Result<(), Failed> {
    // EPERM where there is no capability to begin with: then there is nothing to lock.
    sys::set_securebits().ok();
    sys::drop_capabilities().map_err(Failed::at("capset"))?;
    if sys::has_capabilities().map_err(Failed::at("capget"))? {
        return Err(Failed::at("capabilities are left")(Errno::EPERM));
    }
    Ok(())
}

/// Made once: entering a ruleset costs a child a tenth of making one.
fn leave_ruleset() -> Result<(), Failed> {
    let ruleset = landlock::ruleset()?;
    if ruleset.as_raw_fd() == RULESET_FD {
        let _number = ruleset.into_raw_fd();
        return Ok(());
    }
    sys::duplicate_to(ruleset.as_raw_fd(), RULESET_FD).map_err(Failed::at("dup3"))
}

/// While there is no filter yet.
fn rehearse(standing: &Standing, lure: Option<Lure>, parent: Pid) -> Vec<Proof> {
    let stands = |layer| standing.layers().has(layer);
    let zygote = stands(Layer::LandlockZygote).then(|| rehearsal::of_zygote(lure.as_ref(), parent));
    let child = stands(Layer::LandlockChild).then(|| rehearsal::of_child(standing)).flatten();
    zygote.into_iter().chain(child).collect()
}

fn enter_filter(standing: &mut Standing) -> Result<Option<OwnedFd>, Failed> {
    if standing.omits(Layer::SeccompZygote) {
        standing.stands(Layer::SeccompZygote);
        standing.stands(Layer::SeccompListener);
        return Ok(None);
    }
    let wanted = if standing.omits(Layer::SeccompListener) { Listener::Nobody } else { Listener::Heard };
    let (listener, why) = seccomp::enter_zygote(wanted).map_err(Failed::at("seccomp"))?;
    standing.stands(Layer::SeccompZygote);
    match why {
        Some(errno) => standing.lacks(Layer::SeccompListener, Failed::at("seccomp listener")(errno).words()),
        None => standing.stands(Layer::SeccompListener),
    }
    Ok(listener)
}

/// Bytes of address space and KiB of memory, by a file that was opened while there was a /proc.
#[expect(clippy::disallowed_methods, reason = "the kernel's own short file; no document is there yet")]
fn pages_in_use(mut file: &File) -> (u64, u64) {
    const PAGE: u64 = 4096;
    let mut text = String::new();
    if file.read_to_string(&mut text).is_err() {
        return (0, 0);
    }
    let mut words = text.split(' ').map(|word| word.parse::<u64>().unwrap_or(0));
    let (size, resident) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
    (size * PAGE, resident * (PAGE >> 10))
}
