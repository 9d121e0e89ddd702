//! The walk over real folders, against a ledger in memory that applies the events as they come.

use super::known::Known;
use super::walk::{Terms, Walker};
use super::*;
use crate::ledger::{Change, KnownItem, SourceId};
use crate::rules::kind::{Class, Kind, State};
use crate::settings::{Policy, Settings};
use shared::{DocumentId, Identity};
use std::cell::RefCell;
use std::collections::BTreeMap;

#[derive(Default)]
struct Memory(RefCell<BTreeMap<Vec<u8>, KnownItem>>);

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    path.iter().rposition(|&byte| byte == b'/').map_or((b"", path), |at| (&path[..at], &path[at + 1..]))
}

impl Known for Memory {
    fn items_in(
        &self,
        directory: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<KnownItem>, LedgerError> {
        let items = self.0.borrow();
        let mut found: Vec<KnownItem> = items
            .iter()
            .filter(|(path, item)| {
                split(path).0 == directory && after.is_none_or(|after| item.name.as_slice() > after)
            })
            .map(|(_, item)| item.clone())
            .collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found.truncate(limit);
        Ok(found)
    }

    fn directories_in(&self, directory: &[u8]) -> Result<Vec<Vec<u8>>, LedgerError> {
        let prefix = if directory.is_empty() { Vec::new() } else { [directory, b"/"].concat() };
        let mut names: Vec<Vec<u8>> = Vec::new();
        for (path, item) in self.0.borrow().iter() {
            let Some(rest) = path.strip_prefix(prefix.as_slice()) else { continue };
            if let Some(end) =
                rest.iter().position(|&byte| byte == b'/').filter(|_| item.state != State::Deleted)
            {
                names.push(rest[..end].to_vec());
            }
        }
        names.dedup();
        Ok(names)
    }

    fn items_count(&self) -> Result<u64, LedgerError> {
        Ok(self.0.borrow().values().filter(|item| item.state != State::Deleted).count() as u64)
    }
}

impl Memory {
    fn apply(&self, event: Event) {
        let mut items = self.0.borrow_mut();
        if let Change::Seen(seen) = &event.change {
            let path = &seen.identity.0[0].name;
            assert_eq!(event.doc, DocumentId::derive("s", &Identity::item(path)));
            assert!(event.expects.is_none() || !items.contains_key(path), "a new item has no record");
            let class = seen.fault.as_ref().and_then(|fault| fault.class);
            let state = match class {
                Some(Class::Rejected) => State::Excluded,
                Some(_) => State::Retrying,
                None => State::Indexed,
            };
            let kind = seen.fault.as_ref().map(|fault| fault.kind);
            let name = split(path).1.to_vec();
            let item = KnownItem { name, id: event.doc, stat: seen.stat, state, kind, leaving: false };
            items.insert(path.clone(), item);
            return;
        }
        let item = items.values_mut().find(|item| item.id == event.doc).expect("it is known");
        match event.change {
            Change::Gone => (item.state, item.kind) = (State::Deleted, None),
            Change::Rejected { fault } => (item.state, item.kind) = (State::Excluded, Some(fault.kind)),
            other => panic!("no listing says {other:?}"),
        }
    }

    fn state(&self, path: &str) -> Option<(State, Option<Kind>)> {
        self.0.borrow().get(path.as_bytes()).map(|item| (item.state, item.kind))
    }
}

struct Place {
    root: PathBuf,
    memory: Memory,
    policy: Policy,
    accept: bool,
    device: Option<u64>,
    verify: Option<Verify>,
    hung: Hung,
    /// What the last listing picked.
    picked: RefCell<Vec<Unchanged>>,
}

impl Place {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("lazaret-walk-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&root));
        std::fs::create_dir_all(&root).unwrap();
        Place {
            root,
            memory: Memory::default(),
            policy: Policy::default(),
            accept: false,
            device: None,
            verify: None,
            hung: Hung::new(),
            picked: RefCell::default(),
        }
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Lists, and gives how it went and how many events there were.
    fn list(&self) -> (Listed, usize) {
        self.try_list().unwrap()
    }

    fn try_list(&self) -> Result<(Listed, usize), ListingError> {
        let source = SourceRow {
            id: SourceId(1),
            name: "s".into(),
            root: self.root.clone(),
            root_device: self.device,
        };
        let state = self.root.join("state");
        let terms = Terms {
            source: &source,
            policy: &self.policy,
            input_limit: 100,
            state: &state,
            now: 1,
            accept_deletions: self.accept,
            deletion_guard: 0.1,
            verify: self.verify,
            pulse: &Pulse::default(),
            hung: &self.hung,
        };
        let mut events = 0;
        self.picked.borrow_mut().clear();
        let mut each = |batch: Batch| {
            assert!(batch.events.len() <= 64 && batch.verify.len() <= 64);
            events += batch.events.len();
            batch.events.into_iter().for_each(|event| self.memory.apply(event));
            self.picked.borrow_mut().extend(batch.verify);
            ControlFlow::Continue(())
        };
        let listed = Walker::new(terms, &self.memory, &mut each)?.run()?;
        Ok((listed, events))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.root));
    }
}

fn rejected(kind: Kind) -> Option<(State, Option<Kind>)> {
    Some((State::Excluded, Some(kind)))
}

const THERE: Option<(State, Option<Kind>)> = Some((State::Indexed, None));
const GONE: Option<(State, Option<Kind>)> = Some((State::Deleted, None));

#[test]
fn everything_is_seen_once_and_then_nothing_is_said() {
    let place = Place::new("once");
    place.write("a", "1");
    place.write("sub/deep/b", "2");
    place.write("empty", "");
    place.write("large", &"x".repeat(101));
    place.write("state/ledger", "x");
    std::os::unix::fs::symlink("a", place.root.join("link")).unwrap();
    nix::unistd::mkfifo(&place.root.join("fifo"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    let (listed, events) = place.list();
    assert_eq!((listed.items, listed.new, events), (6, 6, 6));
    assert_eq!(listed.alerts.len(), 1, "the state folder is left out and said so");
    assert_eq!(place.memory.state("state/ledger"), None);
    assert_eq!(place.memory.state("sub/deep/b"), THERE);
    assert_eq!(place.memory.state("empty"), rejected(Kind::PolicyEmptyFile));
    assert_eq!(place.memory.state("large"), rejected(Kind::PolicyTooLarge));
    assert_eq!(place.memory.state("link"), rejected(Kind::PolicySpecialFile));
    assert_eq!(place.memory.state("fifo"), rejected(Kind::PolicySpecialFile));
    let (listed, events) = place.list();
    assert_eq!((listed.items, listed.new, listed.changed, listed.gone, events), (6, 0, 0, 0, 0));
}

#[test]
fn changes_losses_and_returns_are_told() {
    let place = Place::new("changes");
    for path in ["a", "b", "gone/x", "gone/y/z"] {
        place.write(path, "1");
    }
    place.list();
    place.write("a", "22");
    std::fs::remove_file(place.root.join("b")).unwrap();
    std::fs::remove_dir_all(place.root.join("gone")).unwrap();
    let (listed, events) = place.list();
    assert_eq!((listed.changed, listed.gone, events), (1, 3, 4));
    for path in ["b", "gone/x", "gone/y/z"] {
        assert_eq!(place.memory.state(path), GONE, "{path}");
    }
    place.write("b", "1");
    let (listed, events) = place.list();
    assert_eq!((listed.new, listed.gone, events), (1, 0, 1));
    assert_eq!(place.memory.state("b"), THERE);
}

#[test]
fn a_file_and_a_directory_may_change_places() {
    let place = Place::new("places");
    place.write("x", "1");
    place.write("y/z", "1");
    place.list();
    std::fs::remove_file(place.root.join("x")).unwrap();
    std::fs::remove_dir_all(place.root.join("y")).unwrap();
    place.write("x/z", "1");
    place.write("y", "1");
    place.list();
    assert_eq!((place.memory.state("x"), place.memory.state("y/z")), (GONE, GONE));
    assert_eq!((place.memory.state("x/z"), place.memory.state("y")), (THERE, THERE));
}

#[test]
fn policies_are_judged_again_at_every_listing() {
    let mut place = Place::new("policies");
    for path in ["keep", "cache/a", "cache/sub/b", "x.tmp"] {
        place.write(path, "1");
    }
    place.list();
    let sets = ["policy.exclude=['cache', '*.tmp']".to_owned()];
    place.policy = Settings::load(None, &sets).unwrap().policy;
    place.list();
    for path in ["cache", "cache/a", "cache/sub/b", "x.tmp"] {
        assert_eq!(place.memory.state(path), rejected(Kind::PolicyPath), "{path}");
    }
    assert_eq!(place.memory.state("keep"), THERE);
    assert_eq!(place.list().1, 0);
    place.policy = Policy::default();
    place.list();
    for path in ["cache/a", "cache/sub/b", "x.tmp"] {
        assert_eq!(place.memory.state(path), THERE, "{path}");
    }
    assert_eq!(place.memory.state("cache"), GONE, "its own record ends when it is walked");
}

#[test]
fn too_many_losses_at_once_need_a_persons_word() {
    let mut place = Place::new("guard");
    for n in 0..150 {
        place.write(&format!("d/{n}"), &n.to_string());
    }
    place.write("stays", "1");
    place.list();
    std::fs::rename(place.root.join("d"), place.root.with_extension("aside")).unwrap();
    let (listed, events) = place.list();
    assert_eq!((listed.gone, events, listed.alerts.len()), (0, 0, 1), "{:?}", listed.alerts);
    assert!(listed.alerts[0].contains("150 documents"));
    std::fs::rename(place.root.with_extension("aside"), place.root.join("moved")).unwrap();
    let (listed, _) = place.list();
    assert_eq!((listed.gone, listed.new), (150, 150), "what only moved is no loss");
    std::fs::remove_dir_all(place.root.join("moved")).unwrap();
    assert_eq!(place.list().0.gone, 0);
    place.accept = true;
    assert_eq!(place.list().0.gone, 150);
}

#[test]
fn an_empty_root_and_another_device_delete_nothing() {
    let mut place = Place::new("mount");
    place.write("a", "1");
    place.write("b", "1");
    let device = place.list().0.root_device;
    place.device = Some(device + 1);
    std::fs::remove_file(place.root.join("a")).unwrap();
    let (listed, events) = place.list();
    assert_eq!((listed.gone, events, listed.root_device), (0, 0, device + 1));
    place.device = Some(device);
    std::fs::remove_file(place.root.join("b")).unwrap();
    let (listed, _) = place.list();
    assert_eq!(listed.gone, 0);
    assert!(listed.alerts[0].starts_with("the root is empty"));
    place.accept = true;
    assert_eq!(place.list().0.gone, 2);
}

#[test]
fn a_tree_deeper_than_any_path_may_be_is_walked() {
    use nix::fcntl::{OFlag, openat};
    use nix::sys::stat::Mode;
    let place = Place::new("deep");
    let name = "d".repeat(200);
    let mut at = crate::source::open::root(&place.root).unwrap();
    for _ in 0..100 {
        nix::sys::stat::mkdirat(&at, name.as_str(), Mode::S_IRWXU).unwrap();
        at = openat(&at, name.as_str(), OFlag::O_DIRECTORY, Mode::empty()).unwrap();
        let file = openat(&at, "zz", OFlag::O_CREAT | OFlag::O_WRONLY, Mode::S_IRUSR).unwrap();
        nix::unistd::write(&file, b"x").unwrap();
        nix::sys::stat::mkdirat(&at, "e", Mode::S_IRWXU).unwrap();
    }
    assert_eq!(place.list().0.new, 100);
    assert_eq!(place.list().1, 0);
}

#[test]
fn names_are_bytes() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new("bytes");
    std::fs::write(place.root.join(std::ffi::OsStr::from_bytes(b"\xff!")), "x").unwrap();
    place.list();
    assert!(place.memory.0.borrow().contains_key(&b"\xff!"[..]));
    assert_eq!(place.list().1, 0);
}

#[test]
fn what_hangs_is_passed_by_and_keeps_what_is_known_of_it() {
    let mut place = Place::new("hung");
    for path in ["a/1", "hangs/2", "hangs/below/3", "z/4", "z/5"] {
        place.write(path, "x");
    }
    assert_eq!(place.list().0.new, 5);
    place.hung = [b"hangs".to_vec(), b"z/5".to_vec(), b"z/6".to_vec()].into();
    place.write("z/6", "x");
    place.write("z/7", "x");
    let (listed, _) = place.list();
    assert_eq!((listed.unreadable, listed.gone, listed.new), (1, 0, 3), "the folder, z/6 and z/7");
    let known = place.memory.0.borrow();
    for path in ["hangs", "z/6"] {
        let known = &known[path.as_bytes()];
        assert_eq!((known.state, known.kind), (State::Retrying, Some(Kind::SourceTimeout)), "{path}");
    }
    assert_eq!(known[&b"z/5"[..]].kind, None, "it was there before");
}

#[test]
fn an_unreadable_directory_has_a_record_and_keeps_what_is_below() {
    if nix::unistd::geteuid().is_root() {
        // Root may read everything: nothing can be shown here.
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new("denied");
    place.write("d/x", "1");
    place.list();
    let mode =
        |mode| std::fs::set_permissions(place.root.join("d"), PermissionsExt::from_mode(mode)).unwrap();
    mode(0o000);
    assert_eq!(place.list().0.unreadable, 1);
    assert_eq!(place.memory.state("d"), Some((State::Retrying, Some(Kind::SourceDenied))));
    assert_eq!(place.memory.state("d/x"), THERE);
    assert_eq!(place.list().1, 0);
    mode(0o700);
    place.list();
    assert_eq!((place.memory.state("d"), place.memory.state("d/x")), (GONE, THERE));
}

#[test]
fn a_root_that_cannot_be_listed_is_an_error_and_a_stop_is_one() {
    let place = Place::new("root");
    std::fs::remove_dir_all(&place.root).unwrap();
    assert!(matches!(place.try_list(), Err(ListingError::Root { .. })));
    std::fs::create_dir_all(place.root.join("state")).unwrap();
    place.write("a", "1");
    let source = SourceRow { id: SourceId(1), name: "s".into(), root: place.root.clone(), root_device: None };
    let terms = Terms {
        source: &source,
        policy: &place.policy,
        input_limit: 1,
        state: &place.root.join("state"),
        now: 1,
        accept_deletions: false,
        deletion_guard: 0.1,
        verify: None,
        pulse: &Pulse::default(),
        hung: &Hung::new(),
    };
    let mut stop = |_: Batch| ControlFlow::Break(());
    let stopped = Walker::new(terms, &place.memory, &mut stop).unwrap().run();
    assert!(matches!(stopped, Err(ListingError::Stopped)));
}

impl Place {
    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Sets the modification time, in seconds since 1970.
    fn date(&self, path: &str, seconds: i64) {
        let times = nix::sys::time::TimeSpec::new(seconds, 0);
        let flags = nix::sys::stat::UtimensatFlags::NoFollowSymlink;
        nix::sys::stat::utimensat(nix::fcntl::AT_FDCWD, &self.path(path), &times, &times, flags).unwrap();
    }

    /// What one listing says: new, changed, gone.
    fn said(&self) -> (u64, u64, u64) {
        let listed = self.list().0;
        assert!(listed.alerts.is_empty(), "{:?}", listed.alerts);
        (listed.new, listed.changed, listed.gone)
    }
}

#[test]
fn a_directory_of_five_thousand_that_is_renamed_is_no_loss() {
    let place = Place::new("renamed");
    for n in 0..5_000 {
        place.write(&format!("before/{n}"), "1");
    }
    assert_eq!(place.said(), (5_000, 0, 0));
    std::fs::rename(place.path("before"), place.path("behind")).unwrap();
    assert_eq!(place.said(), (5_000, 0, 5_000));
    assert_eq!(place.said(), (0, 0, 0));
}

#[test]
fn files_that_are_moved_over_others_are_no_losses() {
    let place = Place::new("over");
    for n in 0..300 {
        place.write(&format!("a/{n}"), "1");
        place.write(&format!("b/{n}"), "22");
    }
    assert_eq!(place.said(), (600, 0, 0));
    std::fs::remove_dir_all(place.path("b")).unwrap();
    std::fs::rename(place.path("a"), place.path("b")).unwrap();
    assert_eq!(place.said(), (0, 300, 300));
}

#[test]
fn names_of_one_file_make_up_for_as_many_losses_as_arrive() {
    let place = Place::new("links");
    place.write("one", "1");
    for n in 0..200 {
        place.write(&format!("other/{n}"), "1");
        std::fs::create_dir_all(place.path("links")).unwrap();
        std::fs::hard_link(place.path("one"), place.path(&format!("links/{n}"))).unwrap();
    }
    assert_eq!(place.said(), (401, 0, 0));
    std::fs::remove_dir_all(place.path("links")).unwrap();
    std::fs::hard_link(place.path("one"), place.path("another")).unwrap();
    let listed = place.list().0;
    assert_eq!(listed.gone, 0);
    assert!(listed.alerts[0].contains("199 documents are missing"), "{:?}", listed.alerts);
}

#[test]
fn a_hard_link_is_a_document_and_an_edit_is_seen_under_each_name() {
    let place = Place::new("hard");
    place.write("a", "1");
    std::fs::hard_link(place.path("a"), place.path("b")).unwrap();
    assert_eq!(place.said(), (2, 0, 0));
    std::fs::write(place.path("b"), "22").unwrap();
    assert_eq!(place.said(), (0, 2, 0));
    std::fs::remove_file(place.path("a")).unwrap();
    let (_, changed, gone) = place.said();
    // The count of links moves the change time of the name that is left: it is looked at again.
    assert_eq!((changed, gone), (1, 1));
}

#[test]
fn no_time_hides_a_change() {
    const YEARS: [i64; 6] = [-2_208_988_800, -1, 0, 2_147_483_648, 4_102_444_800, 9_000_000_000];
    let place = Place::new("times");
    for seconds in YEARS {
        place.write(&seconds.to_string(), "old");
        place.date(&seconds.to_string(), seconds);
    }
    assert_eq!(place.said(), (6, 0, 0));
    assert_eq!(place.said(), (0, 0, 0));
    for seconds in YEARS {
        // Restored from a backup: older bytes of the same length under the time that they had then.
        let path = seconds.to_string();
        std::fs::remove_file(place.path(&path)).unwrap();
        place.write(&path, "bak");
        place.date(&path, seconds);
    }
    assert_eq!(place.said(), (0, 6, 0));
    for seconds in YEARS {
        // An edit in place that keeps size and time: only the change time differs.
        let path = seconds.to_string();
        std::fs::write(place.path(&path), "new").unwrap();
        place.date(&path, seconds);
    }
    assert_eq!(place.said(), (0, 6, 0));
    for seconds in YEARS {
        // A later edit, with a time before what was known.
        let path = seconds.to_string();
        std::fs::write(place.path(&path), "now").unwrap();
        place.date(&path, 1_000_000);
    }
    assert_eq!(place.said(), (0, 6, 0));
    assert_eq!(place.said(), (0, 0, 0));
}

#[test]
fn a_file_that_was_a_directory_for_a_while_is_back() {
    let place = Place::new("back");
    place.write("x", "1");
    assert_eq!(place.said(), (1, 0, 0));
    std::fs::remove_file(place.path("x")).unwrap();
    place.write("x/in", "1");
    assert_eq!(place.said(), (1, 0, 1));
    std::fs::remove_dir_all(place.path("x")).unwrap();
    place.write("x", "1");
    assert_eq!(place.said(), (1, 0, 1));
    assert_eq!((place.memory.state("x"), place.memory.state("x/in")), (THERE, GONE));
}

#[test]
fn a_share_of_what_is_unchanged_is_picked_and_nothing_else() {
    let mut place = Place::new("verify");
    for n in 0..1_000 {
        place.write(&format!("d/{n}"), "1");
    }
    place.write("large", &"x".repeat(101));
    place.verify = Some(Verify { share: 1.0, salt: 1 });
    place.list();
    assert!(place.picked.borrow().is_empty(), "what is new is read anyway");
    place.write("d/7", "22");
    place.list();
    let picked = place.picked.borrow().clone();
    assert_eq!(picked.len(), 999, "neither the changed one nor the excluded one");
    assert!(picked.iter().all(|one| one.path != b"d/7" && one.stat.size == 1));
    assert_eq!(picked[0].id, DocumentId::derive("s", &Identity::item(&picked[0].path)));
    let mut seen = std::collections::BTreeSet::new();
    for salt in 0..100 {
        place.verify = Some(Verify { share: 0.1, salt });
        assert_eq!(place.list().1, 0, "what is picked makes no event");
        let picked = place.picked.borrow();
        assert!((50..=150).contains(&picked.len()), "{}", picked.len());
        seen.extend(picked.iter().map(|one| one.path.clone()));
    }
    assert_eq!(seen.len(), 1_000);
    place.verify = Some(Verify { share: 0.0, salt: 1 });
    place.list();
    assert!(place.picked.borrow().is_empty());
}
