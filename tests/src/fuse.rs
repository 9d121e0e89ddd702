//! A folder that misbehaves on purpose: a file system in memory, served to the kernel over `/dev/fuse` by a thread of the test.
//!
//! It owns what the kernel is told: names, stats, bytes, and the scripted faults among them. It knows nothing of the program under
//! test. Nothing is cached by the kernel unless a test asks for that, so that each look of the program is a request here. A request that
//! hangs is put aside and costs no thread; like a file system whose waits can be killed, an interrupt answers it.

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

mod wire;

use wire::{Answer, Attributes, Request};

/// What the program asks of a file or a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// To look it up by name, or for its stat.
    Stat,
    Open,
    /// Bytes of a file.
    Read,
    /// Names in a folder.
    List,
}

/// What it gets instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Fail(Errno),
    /// No answer until [`Mount::heal`], an interrupt, or the end.
    Hang,
}

#[derive(Debug, Clone, Copy)]
struct Fault {
    operation: Operation,
    /// So many bytes or names come before it.
    after: u64,
    act: Act,
}

/// What an opening of a file finds.
#[derive(Debug, Clone)]
pub struct Version {
    pub bytes: Vec<u8>,
    /// In seconds; modification and change time.
    pub time: u64,
}

/// The time of a file that does not say another.
pub const TIME: u64 = 1_700_000_000;

impl Version {
    /// With the usual time.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Version { bytes: bytes.as_ref().to_vec(), time: TIME }
    }
}

#[derive(Debug)]
struct Node {
    parent: usize,
    name: String,
    /// The n-th opening finds the n-th, later ones the last; none is a folder's.
    versions: Vec<Version>,
    opens: u64,
    faults: Vec<Fault>,
    /// One opening that fails.
    refused: Option<(u64, Errno)>,
}

impl Node {
    fn version(&self, opening: u64) -> Option<&Version> {
        let last = self.versions.len().checked_sub(1)?;
        self.versions.get(usize::try_from(opening).unwrap_or(last).min(last))
    }

    fn fault(&self, operation: Operation) -> Option<Fault> {
        self.faults.iter().find(|fault| fault.operation == operation).copied()
    }
}

/// All there is, by node number: the root is 0, the kernel's number one more.
#[derive(Debug)]
struct Tree {
    nodes: Vec<Node>,
    cached: bool,
    hanging: Vec<Request>,
}

/// The parent of what was taken away.
const NOWHERE: usize = usize::MAX;

/// What a request gets.
enum Reply {
    Answer(Answer),
    Error(Errno),
    Hang,
    /// Nobody waits any more for the hanging request of this number.
    Interrupted(u64),
    Nothing,
}

/// A mounted file system; unmounted when dropped.
#[derive(Debug)]
pub struct Mount {
    path: PathBuf,
    shared: Arc<Shared>,
    serving: Option<Serving>,
}

#[derive(Debug)]
struct Serving {
    device: Arc<File>,
    stop: PipeWriter,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    tree: Mutex<Tree>,
    /// Told when a request begins to hang.
    hangs: Condvar,
}

impl Mount {
    /// Mounts an empty one over this folder. `None`, said aloud, where this machine does not let us.
    pub fn at(path: &Path) -> Option<Self> {
        match Self::mounted(path) {
            Ok(mount) => Some(mount),
            Err(error) => {
                skipped(&format!("no file system can be served over /dev/fuse here: {error}"));
                None
            }
        }
    }

    fn mounted(path: &Path) -> std::io::Result<Self> {
        let device = File::options()
            .read(true)
            .write(true)
            .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
            .open("/dev/fuse")?;
        let options =
            format!("fd={},rootmode=40755,user_id=0,group_id=0,allow_other", device.as_fd().as_raw_fd());
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("lazaret-test"), path, Some("fuse"), flags, Some(options.as_str()))?;
        let root = Node {
            parent: 0,
            name: String::new(),
            versions: Vec::new(),
            opens: 0,
            faults: Vec::new(),
            refused: None,
        };
        let tree = Tree { nodes: vec![root], cached: false, hanging: Vec::new() };
        let shared = Arc::new(Shared { tree: Mutex::new(tree), hangs: Condvar::new() });
        let (device, (stopped, stop)) = (Arc::new(device), std::io::pipe()?);
        let thread = std::thread::spawn({
            let (device, shared) = (device.clone(), shared.clone());
            move || shared.serve(&device, &stopped)
        });
        Ok(Mount { path: path.to_owned(), shared, serving: Some(Serving { device, stop, thread }) })
    }

    /// Puts a file there, with its folders.
    pub fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        self.versions(path, vec![Version::of(bytes)]);
    }

    /// Puts a file there of which each opening finds another version, and those after the last one the last. The stat speaks of the
    /// version that was opened last.
    pub fn versions(&self, path: &str, versions: Vec<Version>) {
        let mut tree = self.shared.lock();
        let at = path.split('/').fold(0, |at, name| tree.child_or_new(at, name));
        let node = &mut tree.nodes[at];
        node.versions = versions;
        node.opens = 0;
    }

    /// Other bytes, as many as before, while the stat stands still.
    ///
    /// # Panics
    /// Where there is no such file.
    pub fn rot(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let mut tree = self.shared.lock();
        let at = tree.find(path);
        let time = tree.nodes[at].version(u64::MAX).expect("it is a file").time;
        tree.nodes[at].versions = vec![Version { bytes: bytes.as_ref().to_vec(), time }];
    }

    /// Takes a file or a folder away.
    ///
    /// # Panics
    /// Where there is no such thing.
    pub fn remove(&self, path: &str) {
        let mut tree = self.shared.lock();
        let at = tree.find(path);
        tree.nodes[at].parent = NOWHERE;
    }

    /// From now on this operation on this path does that, after so many bytes or names.
    ///
    /// # Panics
    /// Where there is no such file.
    pub fn fault(&self, path: &str, operation: Operation, after: u64, act: Act) {
        let mut tree = self.shared.lock();
        let at = tree.find(path);
        tree.nodes[at].faults.push(Fault { operation, after, act });
    }

    /// The opening of this number, from 0 on, fails like that.
    ///
    /// # Panics
    /// Where there is no such file.
    pub fn fault_opening(&self, path: &str, opening: u64, errno: Errno) {
        let mut tree = self.shared.lock();
        let at = tree.find(path);
        tree.nodes[at].refused = Some((opening, errno));
    }

    /// The same for every file.
    pub fn fault_everywhere(&self, operation: Operation, act: Act) {
        let mut tree = self.shared.lock();
        for node in tree.nodes.iter_mut().filter(|node| !node.versions.is_empty()) {
            node.faults.push(Fault { operation, after: 0, act });
        }
    }

    /// The kernel keeps what it has read of a file from one opening to the next, as it does on a disk.
    pub fn cached(&self) {
        self.shared.lock().cached = true;
    }

    /// Takes away all faults and answers what hangs.
    pub fn heal(&self) {
        let hanging = {
            let mut tree = self.shared.lock();
            tree.nodes.iter_mut().for_each(|node| node.faults.clear());
            std::mem::take(&mut tree.hanging)
        };
        if let Some(serving) = &self.serving {
            hanging.into_iter().for_each(|request| self.shared.take(&serving.device, request));
        }
    }

    /// How often a file was opened.
    ///
    /// # Panics
    /// Where there is no such file.
    pub fn opens(&self, path: &str) -> u64 {
        let tree = self.shared.lock();
        tree.nodes[tree.find(path)].opens
    }

    /// How many requests hang.
    pub fn hanging(&self) -> usize {
        self.shared.lock().hanging.len()
    }

    /// Waits until a request hangs.
    ///
    /// # Panics
    /// Where none does for a minute.
    pub fn wait_for_a_hang(&self) {
        let none = |tree: &mut Tree| tree.hanging.is_empty();
        let waited = self.shared.hangs.wait_timeout_while(self.shared.lock(), Duration::from_mins(1), none);
        let (_tree, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!waited.timed_out(), "a request hangs");
    }

    /// The server dies and the mount stays: whoever asks gets ENOTCONN, whoever waits ECONNABORTED.
    pub fn die(&mut self) {
        let Some(Serving { device, stop, thread }) = self.serving.take() else { return };
        drop(stop);
        // It panicked, or it did not: either way it serves no more.
        thread.join().ok();
        drop(device);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        umount2(&self.path, MntFlags::MNT_DETACH).ok();
        self.die();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until the other end of `stopped` is closed, or nobody can ask any more.
    fn serve(&self, device: &File, stopped: &PipeReader) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let mut ready = [device.as_fd(), stopped.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            if poll(&mut ready, PollTimeout::NONE).is_err() {
                continue;
            }
            if ready[1].any() != Some(false) {
                return;
            }
            match (&*device).read(&mut buffer) {
                Ok(length) => {
                    if let Some(request) = Request::of(&buffer[..length]) {
                        self.take(device, request);
                    }
                }
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return,
                // Interrupted, or taken back while it was about to be read.
                Err(_) => {}
            }
        }
    }

    fn take(&self, device: &File, request: Request) {
        let (unique, reply) = {
            let mut tree = self.lock();
            match tree.handle(&request) {
                Reply::Hang => {
                    tree.hanging.push(request);
                    self.hangs.notify_all();
                    return;
                }
                Reply::Nothing => return,
                Reply::Interrupted(hung) => (hung, Reply::Error(Errno::EINTR)),
                reply => (request.unique, reply),
            }
        };
        let (answer, error) = match reply {
            Reply::Answer(answer) => (answer, 0),
            Reply::Error(errno) => (Answer::default(), -(errno as i32)),
            Reply::Hang | Reply::Interrupted(_) | Reply::Nothing => return,
        };
        // Refused where whoever asked is gone; nothing is owed then.
        (&*device).write_all(&answer.framed(unique, error)).ok();
    }
}

impl Tree {
    fn child(&self, parent: usize, name: &str) -> Option<usize> {
        let mut all = self.nodes.iter().enumerate().skip(1);
        all.find(|(_, node)| node.parent == parent && node.name == name).map(|(at, _)| at)
    }

    fn child_or_new(&mut self, parent: usize, name: &str) -> usize {
        self.child(parent, name).unwrap_or_else(|| {
            let (versions, faults) = (Vec::new(), Vec::new());
            self.nodes.push(Node {
                parent,
                name: name.to_owned(),
                versions,
                opens: 0,
                faults,
                refused: None,
            });
            self.nodes.len() - 1
        })
    }

    fn find(&self, path: &str) -> usize {
        let mut names = path.split('/').filter(|name| !name.is_empty());
        let found = names.try_fold(0, |at, name| self.child(at, name));
        found.unwrap_or_else(|| panic!("there is no {path}"))
    }

    fn interrupted(&mut self, interrupt: &Request) -> Reply {
        let hung = interrupt.number(0);
        let at = self.hanging.iter().position(|request| request.unique == hung);
        at.map_or(Reply::Nothing, |at| Reply::Interrupted(self.hanging.remove(at).unique))
    }

    fn handle(&mut self, request: &Request) -> Reply {
        match request.opcode {
            wire::INTERRUPT => return self.interrupted(request),
            wire::INIT => return Reply::Answer(wire::greeting()),
            wire::FORGET | wire::BATCH_FORGET => return Reply::Nothing,
            wire::RELEASE | wire::RELEASEDIR | wire::DESTROY => return Reply::Answer(Answer::default()),
            _ => {}
        }
        let at = usize::try_from(request.node).unwrap_or(0).wrapping_sub(1);
        if at >= self.nodes.len() {
            return Reply::Error(Errno::ESTALE);
        }
        match request.opcode {
            wire::LOOKUP => match self.child(at, &request.name()) {
                Some(child) => self
                    .unless(child, Operation::Stat)
                    .unwrap_or_else(|| Reply::Answer(Answer::entry(&self.attributes(child)))),
                None => Reply::Error(Errno::ENOENT),
            },
            wire::GETATTR => self
                .unless(at, Operation::Stat)
                .unwrap_or_else(|| Reply::Answer(Answer::stat(&self.attributes(at)))),
            wire::OPEN | wire::OPENDIR => self.unless(at, Operation::Open).unwrap_or_else(|| self.open(at)),
            wire::READ => self.read(at, request.number(0), request.number(8), request.count(16)),
            wire::READDIR => self.list(at, request.number(8), request.count(16)),
            _ => Reply::Error(Errno::ENOSYS),
        }
    }

    /// What a fault that strikes at once makes of it.
    fn unless(&self, at: usize, operation: Operation) -> Option<Reply> {
        self.nodes[at].fault(operation).map(|fault| reply_of(fault.act))
    }

    fn attributes(&self, at: usize) -> Attributes {
        let node = &self.nodes[at];
        let version = node.version(node.opens.saturating_sub(1));
        Attributes {
            node: at as u64 + 1,
            size: version.map_or(0, |version| version.bytes.len() as u64),
            time: version.map_or(TIME, |version| version.time),
            folder: node.versions.is_empty(),
        }
    }

    fn open(&mut self, at: usize) -> Reply {
        let node = &mut self.nodes[at];
        let opening = node.opens;
        node.opens += 1;
        if let Some((_, errno)) = node.refused.filter(|(refused, _)| *refused == opening) {
            return Reply::Error(errno);
        }
        Reply::Answer(Answer::opened(opening, self.cached))
    }

    fn read(&self, at: usize, opening: u64, from: u64, count: u64) -> Reply {
        let node = &self.nodes[at];
        let Some(version) = node.version(opening) else { return Reply::Error(Errno::EISDIR) };
        let mut end = from + count;
        if let Some(fault) = node.fault(Operation::Read) {
            if from >= fault.after {
                return reply_of(fault.act);
            }
            end = end.min(fault.after);
        }
        let cut = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(version.bytes.len());
        Reply::Answer(Answer(version.bytes[cut(from)..cut(end)].to_vec()))
    }

    fn list(&self, at: usize, from: u64, room: u64) -> Reply {
        let fault = self.nodes[at].fault(Operation::List);
        let mut answer = Answer::default();
        let names = self.nodes.iter().enumerate().skip(1).filter(|(_, node)| node.parent == at);
        for ((child, node), position) in names.zip(0..).skip(usize::try_from(from).unwrap_or(usize::MAX)) {
            if fault.is_some_and(|fault| position >= fault.after) {
                break;
            }
            if !answer.add_name(&node.name, &self.attributes(child), position + 1, room) {
                return Reply::Answer(answer);
            }
        }
        match fault {
            Some(fault) if answer.0.is_empty() => reply_of(fault.act),
            _ => Reply::Answer(answer),
        }
    }
}

fn reply_of(act: Act) -> Reply {
    match act {
        Act::Fail(errno) => Reply::Error(errno),
        Act::Hang => Reply::Hang,
    }
}

/// Says that a test was not made here.
#[expect(clippy::print_stderr, reason = "whoever runs the tests must see it")]
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}
