//! The file system of a command: an empty root with the system's programs and libraries in it, read-only; a scratch
//! folder with a quota; the document, read-only; three devices. No /proc, no /home, no configuration but what the
//! dynamic linker, fonts and alternatives need.

use super::{Way, init};
use crate::jail::Failed;
use crate::sys;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{chdir, getegid, geteuid, pivot_root};
use shared::launch::{Launch, SCRATCH};
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::{self, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// What every command sees, where it is there.
pub(super) const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/fonts",
];
/// Devices that every command has.
pub(super) const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/urandom"];
/// Where the document's folder is.
pub(super) const INPUT: &str = "/input";

/// The new root is built here: a directory that is there on every machine, and that is of no use in the cage.
const STAGE: &str = "/proc";
const NOTHING: Option<&str> = None;
/// What a folder for one file takes besides its bytes.
const FOLDER: u64 = 64 << 10;

/// Whose the cage's files are. Asked before its namespaces are entered, in which ids have no names yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Owner {
    pub(super) fn of(way: Way) -> Owner {
        match way.later {
            Some(number) => Owner { uid: number, gid: number },
            None => Owner { uid: geteuid().as_raw(), gid: getegid().as_raw() },
        }
    }
}

/// The document's path in the cage.
pub(super) fn document(extension: &str) -> String {
    // It comes from a closed list, and must not be a path all the same.
    let plain: String = extension.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{INPUT}/document.{plain}")
}

/// Builds the root for a command and enters it.
pub(super) fn build(way: Way, owner: Owner, launch: &Launch, bytes: &OwnedFd) -> Result<(), Failed> {
    begin(way, owner)?;
    for shown in &launch.shown {
        show(Path::new(OsStr::from_bytes(shown)))?;
    }
    scratch(owner, launch.limits.scratch, launch.limits.inodes)?;
    if !launch.stdin {
        put_document(launch, bytes).map_err(|error| at("the document", &error))?;
    }
    enter()
}

/// The same with nothing in it, to find out whether it can be had.
pub(super) fn build_empty(way: Way, owner: Owner) -> Result<(), Failed> {
    begin(way, owner)?;
    scratch(owner, FOLDER, 8)?;
    enter()
}

fn begin(way: Way, owner: Owner) -> Result<(), Failed> {
    if way.has_user_namespace() {
        init::name_user(owner)?;
    }
    mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING)
        .map_err(Failed::at("making / private"))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("none"), STAGE, Some("tmpfs"), flags, Some("size=256k,nr_inodes=1024,mode=755"))
        .map_err(Failed::at("mounting an empty root"))?;
    for path in SYSTEM {
        show(Path::new(path))?;
    }
    for path in DEVICES {
        let target = target(Path::new(path));
        make_file(&target)?;
        bind(Path::new(path), &target, true)?;
    }
    Ok(())
}

/// Shows a file or folder of the machine at the same place, if it is there. A symbolic link stays one.
fn show(path: &Path) -> Result<(), Failed> {
    let target = target(path);
    if fs::symlink_metadata(&target).is_ok() {
        return Ok(());
    }
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(at(path, &error)),
    };
    if metadata.is_symlink() {
        let points_to = fs::read_link(path).map_err(|error| at(path, &error))?;
        parents(&target)?;
        return symlink(points_to, &target).map_err(|error| at(path, &error));
    }
    if metadata.is_dir() {
        fs::create_dir_all(&target).map_err(|error| at(path, &error))?;
    } else {
        make_file(&target)?;
    }
    bind(path, &target, false)
}

fn bind(path: &Path, target: &Path, devices: bool) -> Result<(), Failed> {
    let named = |what: &str| format!("{what} {}", path.display());
    mount(Some(path), target, NOTHING, MsFlags::MS_BIND | MsFlags::MS_REC, NOTHING)
        .map_err(Failed::at(named("showing")))?;
    let target =
        CString::new(target.as_os_str().as_bytes()).map_err(|_| Failed::at("a path")(Errno::EINVAL))?;
    sys::make_read_only(&target, devices).map_err(Failed::at(named("making read-only")))
}

fn scratch(owner: Owner, size: u64, inodes: u64) -> Result<(), Failed> {
    let Owner { uid, gid } = owner;
    let target = target(Path::new(SCRATCH));
    fs::create_dir_all(&target).map_err(|error| at(SCRATCH, &error))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let options = format!("size={size},nr_inodes={inodes},mode=700,uid={uid},gid={gid}");
    mount(Some("none"), &target, Some("tmpfs"), flags, Some(options.as_str()))
        .map_err(Failed::at("mounting the scratch folder"))?;
    // Many programs know no other place for what they write. Where the program itself lies there, it stays a folder.
    match symlink(SCRATCH, format!("{STAGE}/tmp")) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(at("/tmp", &error)),
        _ => Ok(()),
    }
}

/// Copies the document in. It cannot be shown as it is: the kernel shows nothing that lies in no file system of ours.
fn put_document(launch: &Launch, bytes: &OwnedFd) -> io::Result<()> {
    let folder = target(Path::new(INPUT));
    fs::create_dir_all(&folder)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let options = format!("size={},nr_inodes=8,mode=755", launch.size.saturating_add(FOLDER));
    mount(Some("none"), &folder, Some("tmpfs"), flags, Some(options.as_str()))?;
    let mut from = File::from(bytes.as_fd().try_clone_to_owned()?);
    from.rewind()?;
    let mut to = File::create_new(target(Path::new(&document(&launch.extension))))?;
    io::copy(&mut io::Read::take(&mut from, launch.size), &mut to)?;
    drop(to);
    let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | flags;
    Ok(mount(NOTHING, &folder, NOTHING, read_only, NOTHING)?)
}

/// Makes the stage the root, and lets go of the old one.
fn enter() -> Result<(), Failed> {
    chdir(STAGE).map_err(Failed::at("chdir"))?;
    pivot_root(".", ".").map_err(Failed::at("pivot_root"))?;
    // The old root lies over the new one now, in the same place.
    umount2(".", MntFlags::MNT_DETACH).map_err(Failed::at("unmounting the old root"))?;
    chdir("/").map_err(Failed::at("chdir"))?;
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    mount(NOTHING, "/", NOTHING, flags | MsFlags::MS_NOSUID | MsFlags::MS_NODEV, NOTHING)
        .map_err(Failed::at("making / read-only"))
}

fn target(path: &Path) -> PathBuf {
    let below: PathBuf =
        path.components().filter(|part| matches!(part, std::path::Component::Normal(_))).collect();
    Path::new(STAGE).join(below)
}

fn parents(target: &Path) -> Result<(), Failed> {
    match target.parent() {
        Some(folder) => fs::create_dir_all(folder).map_err(|error| at(folder, &error)),
        None => Ok(()),
    }
}

fn make_file(target: &Path) -> Result<(), Failed> {
    parents(target)?;
    File::create_new(target).map(drop).map_err(|error| at(target, &error))
}

fn at(path: impl AsRef<Path>, error: &io::Error) -> Failed {
    let errno = Errno::from_raw(error.raw_os_error().unwrap_or(0));
    Failed { step: path.as_ref().display().to_string(), errno }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_out_of_the_stage() {
        assert_eq!(target(Path::new("/usr/lib")), Path::new("/proc/usr/lib"));
        assert_eq!(target(Path::new("/a/../../etc")), Path::new("/proc/a/etc"));
        assert_eq!(document("pdf"), "/input/document.pdf");
        assert_eq!(document("../x"), "/input/document.x");
    }
}
