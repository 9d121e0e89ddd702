//! Namespaces, and the empty root inside of one.

use super::layers::{Failed, Standing};
use crate::seccomp::{self, Listener, Program};
use crate::sys::{self, Fork};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Gid, Pid, Uid, chdir, pipe2, pivot_root, read, setgroups, setresgid, setresuid, write};
use shared::Layer;

/// Those that are unshared for their own sake; the process namespace needs a keeper besides.
const PLAIN: &[(Layer, CloneFlags)] = &[
    (Layer::NetworkNamespace, CloneFlags::CLONE_NEWNET),
    (Layer::IpcNamespace, CloneFlags::CLONE_NEWIPC),
    (Layer::UtsNamespace, CloneFlags::CLONE_NEWUTS),
    (Layer::CgroupNamespace, CloneFlags::CLONE_NEWCGROUP),
];

/// Becomes a user that nothing else is.
pub(crate) fn change_user(number: u32) -> Result<(), Failed> {
    let (uid, gid) = (Uid::from_raw(number), Gid::from_raw(number));
    setgroups(&[]).map_err(Failed::at("setgroups"))?;
    setresgid(gid, gid, gid).map_err(Failed::at("setresgid"))?;
    setresuid(uid, uid, uid).map_err(Failed::at("setresuid"))
}

/// Whether user `number` may make a user namespace here. Found out by a child that tries, since there is no way back.
pub(crate) fn user_namespace_possible(number: u32) -> Result<(), Failed> {
    let Some(pid) = nix_fork()? else {
        let tried = change_user(number)
            .and_then(|()| unshare(CloneFlags::CLONE_NEWUSER).map_err(Failed::at("unshare(user)")));
        sys::exit(tried.err().map_or(0, |failed| failed.errno as i32))
    };
    match waitpid(pid, None).map_err(Failed::at("waitpid"))? {
        WaitStatus::Exited(_, 0) => Ok(()),
        WaitStatus::Exited(_, errno) => Err(Failed::at("unshare(user)")(Errno::from_raw(errno))),
        _ => Err(Failed::at("unshare(user)")(Errno::EINTR)),
    }
}

fn nix_fork() -> Result<Option<Pid>, Failed> {
    match sys::fork().map_err(Failed::at("fork"))? {
        Fork::Child => Ok(None),
        Fork::Parent(pid) => Ok(Some(Pid::from_raw(pid))),
    }
}

/// Enters a user namespace in which only our own ids exist.
pub(super) fn enter_user() -> Result<(), Failed> {
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(Failed::at("unshare(user)"))?;
    put("/proc/self/setgroups", "deny")?;
    put("/proc/self/uid_map", &format!("{uid} {uid} 1"))?;
    put("/proc/self/gid_map", &format!("{gid} {gid} 1"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the kernel takes a namespace's settings as files; no document is there yet"
)]
pub(crate) fn put(path: &str, text: &str) -> Result<(), Failed> {
    std::fs::write(path, text).map_err(|error| Failed {
        step: path.to_owned(),
        errno: Errno::from_raw(error.raw_os_error().unwrap_or(0)),
    })
}

/// Enters the namespaces that only have to be unshared.
pub(super) fn enter_plain(standing: &mut Standing) {
    for &(layer, flag) in PLAIN {
        standing.put_up(layer, || unshare(flag).map_err(Failed::at("unshare")));
    }
}

/// Enters a mount namespace with an empty, read-only root.
pub(super) fn enter_empty_root() -> Result<(), Failed> {
    let locked = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let nothing = None::<&str>;
    unshare(CloneFlags::CLONE_NEWNS).map_err(Failed::at("unshare(mount)"))?;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)
        .map_err(Failed::at("making / private"))?;
    // A directory that is there on every machine; whatever is mounted there, this lies over it.
    mount(Some("none"), "/proc", Some("tmpfs"), locked, Some("size=4k,nr_inodes=2,mode=555"))
        .map_err(Failed::at("mounting an empty root"))?;
    chdir("/proc").map_err(Failed::at("chdir"))?;
    pivot_root(".", ".").map_err(Failed::at("pivot_root"))?;
    // The old root lies over the new one now, in the same place.
    umount2(".", MntFlags::MNT_DETACH).map_err(Failed::at("unmounting the old root"))?;
    chdir("/").map_err(Failed::at("chdir"))?;
    let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | locked;
    mount(nothing, "/", nothing, read_only, nothing).map_err(Failed::at("making / read-only"))
}

/// From the next fork on, processes live in a namespace of their own.
pub(super) fn unshare_processes() -> Result<(), Failed> {
    unshare(CloneFlags::CLONE_NEWPID).map_err(Failed::at("unshare(pid)"))
}

/// Forks the keeper: the first process of the new namespace. It sleeps, and dies with the zygote; the kernel kills
/// everything in the namespace with it. Returns once it is tied to the zygote.
pub(super) fn start_keeper() -> Result<(), Failed> {
    let (from_keeper, to_zygote) = pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(Failed::at("pipe"))?;
    if nix_fork()?.is_none() {
        let tied = prctl::set_pdeathsig(Signal::SIGKILL).and_then(|()| sys::ignore_child_ends());
        // Where the zygote is gone already, nobody reads this.
        if tied.is_err() || write(&to_zygote, &[1]) != Ok(1) || sys::close_from(0).is_err() {
            sys::exit(1);
        }
        let filter = Program::assemble(&seccomp::KEEPER, Listener::Nobody);
        if sys::install_filter(filter.instructions(), false).is_err() {
            sys::exit(1);
        }
        sys::sleep_for_ever();
    }
    drop(to_zygote);
    match read(&from_keeper, &mut [0]).map_err(Failed::at("keeper"))? {
        1 => Ok(()),
        _ => Err(Failed::at("keeper")(Errno::ECHILD)),
    }
}
