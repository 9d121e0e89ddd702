//! The walk itself: depth first, by name, one directory at a time.
//!
//! No path is ever given to the kernel whole: each directory is opened from its parent's descriptor, so that neither a link
//! nor the length of a path can lead astray. Descriptors of far ancestors are given back and opened again on the way up.

use super::compare::{Verdict, compare};
use super::entries::Entries;
use super::kernel::{file_type, open_directory, read, special};
use super::known::{Cursor, Known, all_below, join};
use super::losses::Losses;
use super::pulse::{Hung, Pulse};
use super::verify::{Verify, was_read};
use super::{Batch, Listed, ListingError, Unchanged};
use crate::fault_point::{Point, reach};
use crate::ledger::{Change, Event, KnownItem, LedgerError, Millis, Seen, Settle, SourceRow, Stat};
use crate::rules::fault::Fault;
use crate::rules::kind::{Kind, Stage, State};
use crate::rules::policy;
use crate::settings::Policy;
use crate::source::errno::{fault, stat_of};
use crate::source::open;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, SFlag, fstat, fstatat};
use shared::{DocumentId, Identity};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The most events, and the most items to be verified, that are handed over at once: documents under way wait for the
/// transaction that records the events.
const BATCH: usize = 64;
/// After so many items and directories without either the receiver hears of the progress all the same.
const SILENCE: u64 = 5_000;
/// So many descriptors of directories are held at a time.
const HELD: usize = 64;

/// Takes what differs.
pub(super) type Each<'a> = &'a mut dyn FnMut(Batch) -> ControlFlow<()>;

impl From<LedgerError> for ListingError {
    fn from(error: LedgerError) -> Self {
        ListingError::Ledger(error)
    }
}

/// A directory that is being walked: its own items are done, these directories are left, last first.
struct Level {
    fd: Option<OwnedFd>,
    path: Vec<u8>,
    left: Vec<Subdirectory>,
}

struct Subdirectory {
    name: Vec<u8>,
    /// What the ledger knows under its very path: a record of the directory itself, or a file that it took the place of.
    known: Option<Box<KnownItem>>,
}

/// A listing without the ledger.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    pub(super) source: &'a SourceRow,
    pub(super) policy: &'a Policy,
    pub(super) input_limit: u64,
    pub(super) state: &'a Path,
    pub(super) now: Millis,
    pub(super) accept_deletions: bool,
    pub(super) deletion_guard: f64,
    pub(super) verify: Option<Verify>,
    pub(super) pulse: &'a Pulse,
    pub(super) hung: &'a Hung,
}

pub(super) struct Walker<'a> {
    listing: Terms<'a>,
    known: &'a dyn Known,
    each: Each<'a>,
    batch: Vec<Event>,
    verify: Vec<Unchanged>,
    told: u64,
    listed: Listed,
    losses: Losses,
    /// Items known before; 0 at the first listing.
    before: u64,
    visited: HashSet<(u64, u64)>,
    state: Option<(u64, u64)>,
}

impl<'a> Walker<'a> {
    pub(super) fn new(listing: Terms<'a>, known: &'a dyn Known, each: Each<'a>) -> Result<Self, LedgerError> {
        let state = nix::sys::stat::stat(listing.state).ok().map(|stat| (stat.st_dev, stat.st_ino));
        Ok(Walker {
            listing,
            known,
            each,
            batch: Vec::new(),
            verify: Vec::new(),
            told: 0,
            listed: Listed::default(),
            losses: Losses::default(),
            before: known.items_count()?,
            visited: HashSet::new(),
            state,
        })
    }

    pub(super) fn run(mut self) -> Result<Listed, ListingError> {
        let pulse = self.listing.pulse;
        let opened = pulse.during(b"", || {
            let root = open::root(&self.listing.source.root)?;
            let stat = fstat(&root)?;
            Ok((root, stat))
        });
        let (root, stat) = opened.map_err(|errno: Errno| self.root_error(errno.into()))?;
        if self.state == Some((stat.st_dev, stat.st_ino)) {
            return Err(self.root_error(std::io::Error::other("it is the state folder itself")));
        }
        self.visited.insert((stat.st_dev, stat.st_ino));
        let entries =
            pulse.during(b"", || read(&root, pulse)).map_err(|errno| self.root_error(errno.into()))?;
        if let Some(errno) = entries.broken {
            return Err(self.root_error(errno.into()));
        }
        let empty = entries.is_empty();
        let left = self.items(root.as_fd(), b"", &entries)?;
        drop(entries);
        self.descend(Level { fd: Some(root), path: Vec::new(), left })?;
        self.settle_losses(empty, stat.st_dev)?;
        self.hand_over()?;
        Ok(self.listed)
    }

    fn root_error(&self, source: std::io::Error) -> ListingError {
        ListingError::Root { path: self.listing.source.root.clone(), source }
    }

    fn descend(&mut self, root: Level) -> Result<(), ListingError> {
        let mut levels = vec![root];
        while let Some(level) = levels.last_mut() {
            self.tell()?;
            let Some(next) = level.left.pop() else {
                levels.pop();
                continue;
            };
            let path = join(&level.path, &next.name);
            // Judged before it is opened: what hangs can be excluded.
            if let Some(rejection) = policy::judge_directory(&path, self.listing.policy) {
                self.rejected_directory(&path, next.known.as_deref(), rejection)?;
                continue;
            }
            if self.listing.hung.contains(&path) {
                self.unreadable(&path, next.known.as_deref(), silent("the directory"))?;
                continue;
            }
            // What hangs in there must not keep what was seen before it from being recorded and carried.
            if !self.batch.is_empty() {
                self.hand_over()?;
            }
            let opened = self.listing.pulse.during(&path, || {
                let parent = self.reopened(level)?;
                open_directory(parent, &next.name)
            });
            if let Some(below) = self.directory(path, next, opened)? {
                let far = levels.len().checked_sub(HELD).and_then(|far| levels.get_mut(far));
                if let Some(far) = far.filter(|far| !far.path.is_empty()) {
                    far.fd = None;
                }
                levels.push(below);
            }
        }
        Ok(())
    }

    /// The descriptor of a level, opened again where it was given back.
    fn reopened<'l>(&self, level: &'l mut Level) -> nix::Result<BorrowedFd<'l>> {
        if level.fd.is_none() {
            let root = open::root(&self.listing.source.root)?;
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
            level.fd = Some(open::beneath(root.as_fd(), &level.path, flags)?);
        }
        level.fd.as_ref().map(AsFd::as_fd).ok_or(Errno::EBADF)
    }

    /// One directory: a record of its own where it is not walked or not read to the end; else its items, and what is left below.
    fn directory(
        &mut self,
        path: Vec<u8>,
        this: Subdirectory,
        opened: nix::Result<(OwnedFd, FileStat)>,
    ) -> Result<Option<Level>, ListingError> {
        let known = this.known.as_deref();
        let (fd, stat) = match opened {
            Ok(opened) => opened,
            // It went, or became something else, while the walk was on its way: the next listing says what.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Ok(None),
            Err(errno) => {
                self.unreadable(&path, known, fault(Stage::Discover, errno, "the directory"))?;
                return Ok(None);
            }
        };
        if self.state == Some((stat.st_dev, stat.st_ino)) {
            return self.state_folder(&path).map(|()| None);
        }
        if !self.visited.insert((stat.st_dev, stat.st_ino)) {
            let message = "the directory is met a second time; it is not walked again";
            let rejection = Fault::new(Stage::Discover, Kind::PolicyPath, message);
            self.rejected_directory(&path, known, rejection)?;
            return Ok(None);
        }
        let pulse = self.listing.pulse;
        let entries = pulse.during(&path, || read(&fd, pulse)).unwrap_or_else(Entries::unreadable);
        match entries.broken {
            Some(errno) => {
                self.unreadable(&path, known, fault(Stage::Discover, errno, "the directory"))?;
            }
            None => self.walked(known)?,
        }
        let left = self.items(fd.as_fd(), &path, &entries)?;
        Ok(Some(Level { fd: Some(fd), path, left }))
    }

    /// A directory was read: a record that it could not be, or was excluded, is over; a file of its name is gone.
    fn walked(&mut self, known: Option<&KnownItem>) -> Result<(), ListingError> {
        let Some(known) = known.filter(|known| is_there(known)) else { return Ok(()) };
        if known.stat.is_some() {
            self.losses.lost(known.id, known.stat.as_ref());
            return Ok(());
        }
        self.push(known.id, None, Change::Gone)
    }

    fn state_folder(&mut self, path: &[u8]) -> Result<(), ListingError> {
        let shown = String::from_utf8_lossy(path);
        self.listed
            .alerts
            .push(format!("the state folder lies inside of the source ({shown}) and is left out"));
        self.lost_below(path)
    }

    fn rejected_directory(
        &mut self,
        path: &[u8],
        known: Option<&KnownItem>,
        rejection: Fault,
    ) -> Result<(), ListingError> {
        self.listed.items += 1;
        match compare(known, None, Some(&rejection)) {
            Verdict::Same => {}
            Verdict::New => self.seen(path, known, None, Some((rejection.clone(), None)))?,
            Verdict::Changed | Verdict::Rejected => {
                let id = self.id(path);
                self.push(id, None, Change::Rejected { fault: Box::new(rejection.clone()) })?;
            }
        }
        let known = self.known;
        all_below(known, path, &mut |item| {
            let settled = item.leaving || matches!(item.state, State::Deleted | State::Excluded);
            if settled && item.kind == Some(rejection.kind) || item.state == State::Deleted {
                return Ok(());
            }
            self.push(item.id, None, Change::Rejected { fault: Box::new(rejection.clone()) })
        })
    }

    fn unreadable(
        &mut self,
        path: &[u8],
        known: Option<&KnownItem>,
        fault: Fault,
    ) -> Result<(), ListingError> {
        self.listed.unreadable += 1;
        self.listed.items += 1;
        if known.is_some_and(|known| known.state == State::Retrying && known.kind == Some(fault.kind)) {
            return Ok(());
        }
        self.seen(path, known, None, Some((fault, Some(Settle::Retry { next_attempt: None }))))
    }

    /// The items of one directory, merged with what is known; gives the directories in it, last first.
    fn items(
        &mut self,
        fd: BorrowedFd<'_>,
        path: &[u8],
        entries: &Entries,
    ) -> Result<Vec<Subdirectory>, ListingError> {
        let complete = entries.broken.is_none();
        let mut cursor = Cursor::new(self.known, path);
        let mut left = Vec::new();
        for (name, directory) in entries.iter() {
            while let Some(missing) = cursor.before(Some(name))? {
                self.missing(&missing, complete);
            }
            let known = cursor.exactly(name)?;
            let whole = join(path, name);
            let stat = if directory { None } else { self.stat(fd, &whole, name, known.as_ref())? };
            let is_directory = directory || stat.is_some_and(|stat| file_type(&stat) == SFlag::S_IFDIR);
            match stat {
                _ if is_directory => {
                    left.push(Subdirectory { name: name.to_vec(), known: known.map(Box::new) });
                }
                Some(stat) => self.item(&whole, known.as_ref(), &stat)?,
                None => {}
            }
        }
        while let Some(missing) = cursor.before(None)? {
            self.missing(&missing, complete);
        }
        if complete {
            self.missing_directories(path, &left)?;
        }
        left.reverse();
        Ok(left)
    }

    /// The stat of an entry, where it can be had.
    fn stat(
        &mut self,
        fd: BorrowedFd<'_>,
        path: &[u8],
        name: &[u8],
        known: Option<&KnownItem>,
    ) -> Result<Option<FileStat>, ListingError> {
        let fault = if self.listing.hung.contains(path) {
            silent("stat")
        } else {
            let name = OsStr::from_bytes(name);
            let stat = self.listing.pulse.during(path, || fstatat(fd, name, AtFlags::AT_SYMLINK_NOFOLLOW));
            match stat {
                Ok(stat) => return Ok(Some(stat)),
                // Its name was read a moment ago: whether it is gone is for the next listing to say.
                Err(Errno::ENOENT) => return Ok(None),
                Err(errno) => fault(Stage::Discover, errno, "stat"),
            }
        };
        self.listed.items += 1;
        if !known.is_some_and(is_there) {
            let settle = Some(Settle::Retry { next_attempt: None });
            self.seen(path, known, None, Some((fault, settle)))?;
        }
        Ok(None)
    }

    fn item(&mut self, path: &[u8], known: Option<&KnownItem>, stat: &FileStat) -> Result<(), ListingError> {
        self.listed.items += 1;
        let seen = stat_of(stat);
        let rejection = if file_type(stat) == SFlag::S_IFREG {
            policy::judge(path, &seen, self.listing.policy, self.listing.input_limit, self.listing.now)
        } else {
            Some(Fault::new(Stage::Discover, Kind::PolicySpecialFile, special(stat)))
        };
        match compare(known, Some(&seen), rejection.as_ref()) {
            Verdict::Same => self.unchanged(path, known, seen)?,
            Verdict::New | Verdict::Changed => {
                self.seen(path, known, Some(&seen), rejection.map(|fault| (fault, None)))?;
            }
            Verdict::Rejected => {
                let fault = rejection.map(Box::new).expect("a verdict of rejection has one");
                let id = self.id(path);
                self.push(id, None, Change::Rejected { fault })?;
            }
        }
        self.tell()
    }

    /// The receiver hears of the progress, also where there is nothing to record.
    fn tell(&mut self) -> Result<(), ListingError> {
        if self.progress().saturating_sub(self.told) >= SILENCE { self.hand_over() } else { Ok(()) }
    }

    /// Items and directories seen so far.
    fn progress(&self) -> u64 {
        self.listed.items + self.visited.len() as u64
    }

    /// Nothing that a listing sees has changed: perhaps it is this one's turn to be read all the same.
    fn unchanged(&mut self, path: &[u8], known: Option<&KnownItem>, stat: Stat) -> Result<(), ListingError> {
        let (Some(known), Some(verify)) = (known, self.listing.verify) else { return Ok(()) };
        if !was_read(known) || !verify.picks(known.id) {
            return Ok(());
        }
        self.verify.push(Unchanged { id: known.id, path: path.to_vec(), stat });
        if self.verify.len() >= BATCH { self.hand_over() } else { Ok(()) }
    }

    fn missing(&mut self, known: &KnownItem, complete: bool) {
        if complete && is_there(known) {
            self.losses.lost(known.id, known.stat.as_ref());
        }
    }

    /// Directories that have known items and are not there any more take these along.
    fn missing_directories(&mut self, path: &[u8], present: &[Subdirectory]) -> Result<(), ListingError> {
        if self.before == 0 {
            return Ok(());
        }
        for name in self.known.directories_in(path)? {
            if present.binary_search_by(|there| there.name.cmp(&name)).is_err() {
                self.lost_below(&join(path, &name))?;
            }
        }
        Ok(())
    }

    fn lost_below(&mut self, path: &[u8]) -> Result<(), ListingError> {
        let losses = &mut self.losses;
        all_below(self.known, path, &mut |item| {
            if is_there(&item) {
                losses.lost(item.id, item.stat.as_ref());
            }
            Ok(())
        })
    }

    /// Deletes what is lost, or says why not.
    fn settle_losses(&mut self, root_is_empty: bool, device: u64) -> Result<(), ListingError> {
        self.listed.root_device = device;
        if self.losses.is_empty() {
            return Ok(());
        }
        if let Some(reason) = self.reason_to_keep(root_is_empty, device) {
            // The next listing must see the change again, as long as nobody confirmed it.
            self.listed.root_device = self.listing.source.root_device.unwrap_or(device);
            let count = self.losses.count();
            let documents = if count == 1 { "document is" } else { "documents are" };
            self.listed.alerts.push(format!(
                "{reason}: {count} {documents} missing and none is deleted; `run --accept-deletions` confirms it"
            ));
            return Ok(());
        }
        if self.losses.not_kept() > 0 {
            let rest = self.losses.not_kept();
            self.listed
                .alerts
                .push(format!("{rest} more documents are missing; the next listing deletes them"));
        }
        for id in self.losses.take() {
            self.listed.gone += 1;
            self.push(id, None, Change::Gone)?;
        }
        Ok(())
    }

    fn reason_to_keep(&self, root_is_empty: bool, device: u64) -> Option<&'static str> {
        if self.listing.accept_deletions {
            None
        } else if root_is_empty {
            Some("the root is empty")
        } else if self.listing.source.root_device.is_some_and(|known| known != device) {
            Some("the root is on another device than before")
        } else if self.losses.are_too_many(self.before, self.listing.deletion_guard) {
            Some("too many are missing at once")
        } else {
            None
        }
    }

    fn id(&self, path: &[u8]) -> DocumentId {
        DocumentId::derive(&self.listing.source.name, &Identity::item(path))
    }

    /// It is there: new, changed, or with a fault that is known already.
    fn seen(
        &mut self,
        path: &[u8],
        known: Option<&KnownItem>,
        stat: Option<&Stat>,
        fault: Option<(Fault, Option<Settle>)>,
    ) -> Result<(), ListingError> {
        let known_before = known.filter(|known| known.state != State::Deleted);
        match known_before {
            Some(_) => self.listed.changed += 1,
            None => self.listed.new += 1,
        }
        // Also where it took the place of another.
        let arrived = stat.filter(|stat| !is_the_file(known_before, stat) && self.before > 0);
        if let Some(stat) = arrived {
            self.losses.arrived(stat);
        }
        let (fault, settle) = fault.map_or((None, None), |(fault, settle)| (Some(Box::new(fault)), settle));
        let seen = Seen {
            source: self.listing.source.id,
            identity: Identity::item(path),
            within: None,
            position: 0,
            size: stat.map(|stat| stat.size),
            mtime_ns: stat.map(|stat| stat.mtime_ns),
            stat: stat.copied(),
            sha256: None,
            fault,
            settle,
            damage: None,
        };
        let expects = if known.is_none() { Some(0) } else { None };
        self.push(self.id(path), expects, Change::Seen(Box::new(seen)))
    }

    fn push(&mut self, doc: DocumentId, expects: Option<u64>, change: Change) -> Result<(), ListingError> {
        self.batch.push(Event { doc, expects, at: self.listing.now, change });
        if self.batch.len() >= BATCH { self.hand_over() } else { Ok(()) }
    }

    fn hand_over(&mut self) -> Result<(), ListingError> {
        reach(Point::Listing);
        self.told = self.progress();
        let batch = Batch {
            events: std::mem::take(&mut self.batch),
            verify: std::mem::take(&mut self.verify),
            items: self.listed.items,
        };
        match (self.each)(batch) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(ListingError::Stopped),
        }
    }
}

/// The file system did not answer this question when it was asked before.
fn silent(act: &str) -> Fault {
    let message = format!("{act}: its file system does not answer");
    Fault::new(Stage::Discover, Kind::SourceTimeout, message)
}

/// Known, and neither gone nor on its way to be.
fn is_there(known: &KnownItem) -> bool {
    // Of what leaves, that with a policy's kind is to be excluded.
    let being_deleted = known.leaving && !known.kind.is_some_and(|kind| kind.name().starts_with("policy."));
    known.state != State::Deleted && !being_deleted
}

/// Whether it is the very file that was known here, edited or not.
fn is_the_file(known: Option<&KnownItem>, stat: &Stat) -> bool {
    known.and_then(|known| known.stat).is_some_and(|before| before.ino == stat.ino)
}
