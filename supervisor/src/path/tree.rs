//! An outermost item with all that is inside of it.
//!
//! Its documents are carried several at a time, but what they contain is counted in order, the containers one after the
//! other as they were found: the limits over all levels cut at the same member in every run. To that end a child spools
//! at most what was left when it began, and its members are counted again, in order, when its turn has come.
//!
//! A container at rest that has members that are due is passed through: its child gives out the bytes again, and
//! nothing of the container itself is settled.

use super::bytes::Outermost;
use super::collect::{Member, has_bytes};
use super::members::{Judge, differs, settle_of_listing};
use super::spool::Spool;
use super::{Came, Carried, Errand, Place, Trip, carry};
use crate::ledger::{Change, Event, Facts, Record, Seen, SourceRow, Stat, Within};
use crate::rules::budget::Budget;
use crate::rules::fault::Fault;
use crate::rules::kind::{Class, Kind, Stage, State};
use crate::rules::retry::Lane;
use crate::run::RunError;
use crate::run::desk::Desk;
use shared::{ContentHash, DocumentId, Identity};
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// One document on its way.
#[derive(Debug, Clone)]
struct Node {
    record: Record,
    errand: Errand,
    place: Place,
    /// The hashes of the containers around it: bytes equal to one of these are a snake that eats its tail.
    above: Arc<Vec<ContentHash>>,
}

/// Why a whole tree cannot go on.
type Halt = RunError;

/// An outermost item with all that is due in it.
pub struct Tree {
    desk: Desk,
    source: Arc<SourceRow>,
    budget: Budget,
    /// What the ledger knew when the tree was taken up, by id. Empty for an item that never had members.
    known: HashMap<DocumentId, Record>,
    lane: Lane,
    outermost: Outermost,
    queue: VecDeque<Step>,
}

/// What is next in order.
enum Step {
    /// To be carried, or passed through.
    Take(Box<Node>),
    /// A container that nothing has to be had from: only what it counted.
    Count { entries: u64, bytes: u64 },
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").field("queue", &self.queue.len()).finish_non_exhaustive()
    }
}

impl Tree {
    /// Takes up the outermost item `root`. `known` are the records of all that is in it, itself included; empty where it
    /// is new.
    pub fn new(desk: Desk, source: Arc<SourceRow>, root: Record, known: Vec<Record>, lane: Lane) -> Self {
        let known: HashMap<_, _> = known.into_iter().map(|record| (record.id, record)).collect();
        let size = root.size.unwrap_or(0);
        let budget = Budget::new(size, &desk.means.settings.limits);
        let path = root.identity.0.first().map(|level| level.name.clone()).unwrap_or_default();
        let outermost = Outermost::new(Arc::new(PathBuf::from(&source.root)), &path);
        let mut tree = Tree { desk, source, budget, known, lane, outermost, queue: VecDeque::new() };
        tree.begin(root);
        tree
    }

    fn begin(&mut self, root: Record) {
        let errand = if self.desk.is_due(&root, self.lane) { Errand::Carry } else { Errand::Members };
        self.queue.push_back(Step::Take(Box::new(Node {
            record: root,
            errand,
            place: Place::Item,
            above: Arc::default(),
        })));
    }

    /// Carries all of it.
    ///
    /// # Errors
    /// What is structural: the ledger, our own disk, the writer gone.
    pub async fn carry(mut self) -> Result<(), Halt> {
        let width = if self.lane == Lane::Normal { self.desk.width } else { 1 };
        let mut under_way: VecDeque<UnderWay> = VecDeque::new();
        loop {
            // Told to stop, it finishes what is in flight; the rest stays pending.
            while under_way.len() < width
                && !self.desk.orders.is_stopped()
                && let Some(step) = self.queue.pop_front()
            {
                under_way.push_back(self.start(step));
            }
            let Some(front) = under_way.pop_front() else { return Ok(()) };
            match front {
                UnderWay::Count { entries, bytes } => self.budget.carry_over(entries, bytes),
                UnderWay::Node(node, carrying) => self.finish(*node, carrying).await?,
            }
        }
    }

    fn start(&mut self, step: Step) -> UnderWay {
        let node = match step {
            Step::Count { entries, bytes } => return UnderWay::Count { entries, bytes },
            Step::Take(node) => node,
        };
        let trip = Trip {
            errand: node.errand,
            lane: self.lane,
            budget: self.budget.clone(),
            outermost: self.outermost.clone(),
        };
        let (desk, own) = (self.desk.clone(), (*node).clone());
        let task = tokio::spawn(async move { take(&desk, own, trip).await });
        UnderWay::Node(node, Carrying(task))
    }

    async fn finish(&mut self, node: Node, mut carrying: Carrying) -> Result<(), Halt> {
        let taken = match (&mut carrying.0).await {
            Ok(taken) => taken?,
            Err(error) if error.is_panic() && node.errand == Errand::Members => {
                // Nothing of the container is settled; those that want its members have to be told.
                return self.unreachable(&node.record, None, "its container could not be opened again").await;
            }
            Err(error) if error.is_panic() => return self.desk.panicked(&node.record, error).await,
            Err(_) => return Err(RunError::Ended),
        };
        match taken {
            Some(taken) if node.errand == Errand::Carry => self.settle(node, taken).await,
            Some(taken) => self.passed(node, taken).await,
            None => Ok(()),
        }
    }

    /// A document was carried: its members get their records, then it goes where it belongs.
    async fn settle(&mut self, node: Node, taken: Taken) -> Result<(), Halt> {
        let Taken { record, carried } = taken;
        self.desk.fetched(&self.source, &node.place, &carried);
        let Carried { mut facts, came, members, spool, attempts } = carried;
        let mut product = match came {
            Came::Broken(error) => return Err(RunError::spool(&self.desk.means.spool, error)),
            Came::Failed(fault) => {
                let tried = attempts.unwrap_or(record.attempts);
                let message = cannot_open(&fault);
                let for_good = is_for_good(fault.class);
                self.desk.failed(&record, fault, facts, tried, self.lane).await?;
                if for_good {
                    // It is not opened again for its members' sake: they would only see it fail once more.
                    return self.unreachable(&record, None, &message).await;
                }
                return Ok(());
            }
            Came::Held(fault) => return self.desk.held(&record, fault, true).await,
            Came::Same => {
                self.desk.same(&record, facts.stat).await?;
                return self.below_unchanged(&node).await;
            }
            Came::Text(product) => product,
        };
        if !members.is_empty() || self.known.values().any(|known| known.parent == Some(record.id)) {
            let (members, cut) = self.count(members);
            if let Some(over) = cut {
                product.state = State::Suspect;
                let fault = product.fault.get_or_insert_with(|| super::draw::over_limit(&over));
                fault.evidence.limit.clone_from(&over.evidence.limit);
                facts.listed_whole = Some(false);
            }
            facts.listed_whole.get_or_insert(true);
            facts.listed.get_or_insert_default();
            let given = Given { sha256: facts.sha256, whole: facts.listed_whole != Some(false), spool };
            self.list(&node, &record, members, given).await?;
        }
        self.desk.write(record, product, facts).await
    }

    /// Counts members in order, over all levels. What comes behind the one that passes a limit is left out.
    fn count(&mut self, mut members: Vec<Member>) -> (Vec<Member>, Option<Fault>) {
        for n in 0..members.len() {
            let member = &mut members[n];
            let over =
                self.budget.member_begins().and_then(|()| self.budget.member_bytes(member.bytes.size()));
            let over = over.err().or_else(|| member.over.as_deref().cloned());
            if let Some(over) = over {
                member.over = Some(Box::new(over.clone()));
                members.truncate(n + 1);
                return (members, Some(over));
            }
        }
        (members, None)
    }

    /// Records the members of a container: new ones, changed ones, and those that are gone. Queues what is due.
    async fn list(
        &mut self,
        node: &Node,
        container: &Record,
        members: Vec<Member>,
        given: Given,
    ) -> Result<(), Halt> {
        let mut events = Vec::new();
        let mut seen = Vec::new();
        for member in members {
            let identity = container.identity.member(&member.head.name, member.occurrence);
            let id = DocumentId::derive(&self.source.name, &identity);
            let fault = self.judge(&node.above, given.sha256).refusal(&identity, &member);
            let known = self.known.get(&id);
            if known.is_none_or(|known| differs(known, &member, fault.as_ref())) {
                events.push(self.seen(container, id, identity, &member, fault));
            }
            seen.push((id, member));
        }
        if given.whole {
            events.extend(self.gone(container, &seen));
        }
        let changed = self.desk.record(events).await?;
        self.known.extend(changed.into_iter().map(|record| (record.id, record)));
        self.queue_members(node, &given, seen);
        Ok(())
    }

    fn seen(
        &self,
        container: &Record,
        doc: DocumentId,
        identity: Identity,
        member: &Member,
        fault: Option<Fault>,
    ) -> Event {
        let settle = fault.as_ref().map(settle_of_listing);
        let seen = Seen {
            source: self.source.id,
            identity,
            within: Some(Within { container: container.id, root: container.root }),
            position: member.position,
            size: has_bytes(member).then(|| member.bytes.size()),
            mtime_ns: member.head.mtime.and_then(|s| s.checked_mul(1_000_000_000)),
            stat: None::<Stat>,
            sha256: (has_bytes(member) && member.over.is_none() && member.refusal.is_none())
                .then_some(member.bytes.sha256),
            fault: fault.map(Box::new),
            settle,
            damage: member.damage,
        };
        self.desk.event(doc, None, Change::Seen(Box::new(seen)))
    }

    /// Against what the members of a container are held that lies below `above` and has this hash itself.
    fn judge<'a>(&'a self, above: &'a [ContentHash], container: Option<ContentHash>) -> Judge<'a> {
        Judge { settings: &self.desk.means.settings, budget: &self.budget, above, container }
    }

    fn gone(&self, container: &Record, seen: &[(DocumentId, Member)]) -> Vec<Event> {
        let here: HashSet<_> = seen.iter().map(|(id, _)| *id).collect();
        let mut gone: Vec<_> = self
            .known
            .values()
            .filter(|known| {
                known.parent == Some(container.id)
                    && known.state != State::Deleted
                    && !here.contains(&known.id)
            })
            .collect();
        gone.sort_by_key(|known| known.position);
        gone.into_iter().map(|known| self.desk.event(known.id, None, Change::Gone)).collect()
    }

    /// Queues what is due among members whose bytes are at hand.
    fn queue_members(&mut self, node: &Node, given: &Given, members: Vec<(DocumentId, Member)>) {
        let mut above = (*node.above).clone();
        above.extend(given.sha256);
        let above = Arc::new(above);
        for (id, member) in members {
            let Some(record) = self.known.get(&id).cloned() else { continue };
            let errand = if self.desk.is_due(&record, self.lane) {
                Errand::Carry
            } else if self.has_due_below(&record) {
                Errand::Members
            } else {
                if let Some(listed) = record.listed {
                    self.queue.push_back(Step::Count { entries: listed.entries, bytes: listed.bytes });
                }
                continue;
            };
            let place = Place::Member { spool: given.spool.clone(), bytes: member.bytes };
            let above = above.clone();
            self.queue.push_back(Step::Take(Box::new(Node { record, errand, place, above })));
        }
    }

    fn has_due_below(&self, container: &Record) -> bool {
        // Whether it was listed to its end does not matter: a death can come between its members' records and its own.
        self.known.values().any(|known| {
            known.identity.0.len() > container.identity.0.len()
                && known.identity.0.starts_with(&container.identity.0)
                && self.desk.is_due(known, self.lane)
        })
    }

    /// A container's bytes turned out to be those of the last time: what is due inside of it is still due.
    async fn below_unchanged(&mut self, node: &Node) -> Result<(), Halt> {
        if self.has_due_below(&node.record.rested.as_deref().cloned().unwrap_or_else(|| node.record.clone()))
        {
            let again = Node { errand: Errand::Members, ..node.clone() };
            self.queue.push_front(Step::Take(Box::new(again)));
        }
        Ok(())
    }

    /// A container was passed through for its members' bytes.
    async fn passed(&mut self, node: Node, taken: Taken) -> Result<(), Halt> {
        let Taken { record, carried } = taken;
        let Carried { facts, came, members, spool, .. } = carried;
        match came {
            Came::Broken(error) => Err(RunError::spool(&self.desk.means.spool, error)),
            Came::Text(_) | Came::Same if record.sha256 == facts.sha256 => {
                let (members, _) = self.count(members);
                let members = self.given_out(&node, &record, members, facts.sha256).await?;
                let there: HashSet<_> = members.iter().map(|(id, _)| *id).collect();
                self.queue_members(&node, &Given { sha256: facts.sha256, whole: true, spool }, members);
                self.unreachable(&record, Some(&there), "its container does not give it out again").await
            }
            // Other bytes: the container is listed first, and that settles its members.
            Came::Text(_) | Came::Same => {
                let events = vec![self.desk.event(record.id, Some(record.revision), Change::Requeued)];
                for record in self.desk.record(events).await? {
                    self.known.insert(record.id, record.clone());
                    let again = Node { record, errand: Errand::Carry, ..node.clone() };
                    self.queue.push_front(Step::Take(Box::new(again)));
                }
                Ok(())
            }
            // Nothing is wrong with them: they wait with it.
            Came::Held(fault) => self.hold_below(&record, &fault).await,
            Came::Failed(fault) => self.unreachable(&record, None, &cannot_open(&fault)).await,
        }
    }

    /// Those members whose bytes a container gives out that is passed through. Of the others, what is due goes to rest with what
    /// now stands against it.
    async fn given_out(
        &mut self,
        node: &Node,
        container: &Record,
        members: Vec<Member>,
        sha256: Option<ContentHash>,
    ) -> Result<Vec<(DocumentId, Member)>, Halt> {
        let (mut given, mut events) = (Vec::new(), Vec::new());
        for member in members {
            let identity = container.identity.member(&member.head.name, member.occurrence);
            let id = DocumentId::derive(&self.source.name, &identity);
            match self.judge(&node.above, sha256).refusal(&identity, &member) {
                None => given.push((id, member)),
                Some(fault)
                    if self.known.get(&id).is_some_and(|known| self.desk.is_due(known, self.lane)) =>
                {
                    events.push(self.seen(container, id, identity, &member, Some(fault)));
                }
                Some(_) => {}
            }
        }
        let settled = self.desk.record(events).await?;
        self.known.extend(settled.into_iter().map(|record| (record.id, record)));
        Ok(given)
    }

    /// What is due below a container that waits for its extractor waits as well.
    async fn hold_below(&mut self, container: &Record, fault: &Fault) -> Result<(), Halt> {
        let mut below: Vec<_> = self
            .known
            .values()
            .filter(|known| known.id != container.id && known.identity.0.starts_with(&container.identity.0))
            .filter(|known| self.desk.is_due(known, self.lane))
            .cloned()
            .collect();
        below.sort_by(|a, b| a.identity.cmp(&b.identity));
        for record in below {
            self.desk.held(&record, fault.clone(), false).await?;
        }
        Ok(())
    }

    /// Due documents below a container that cannot be had: those that are, or lie in, what is directly below it and not in
    /// `there`, or all.
    async fn unreachable(
        &mut self,
        container: &Record,
        there: Option<&HashSet<DocumentId>>,
        message: &str,
    ) -> Result<(), Halt> {
        let mut lost: Vec<_> = self
            .known
            .values()
            .filter(|known| known.identity.0.starts_with(&container.identity.0) && known.id != container.id)
            .filter(|known| {
                let at = container.identity.0.len() + 1;
                let around = known.identity.0.get(..at).map(|levels| Identity(levels.to_vec()));
                let id = around.map(|around| DocumentId::derive(&self.source.name, &around));
                there.is_none_or(|there| id.is_some_and(|id| !there.contains(&id)))
            })
            .filter(|known| self.desk.is_due(known, self.lane))
            .cloned()
            .collect();
        lost.sort_by(|a, b| a.identity.cmp(&b.identity));
        for record in lost {
            let fault = Fault::new(Stage::Fetch, Kind::SourceUnreachable, message);
            if let Some(record) = self.desk.begin(&record, Stage::Fetch, self.lane).await? {
                self.known.insert(record.id, record.clone());
                let attempts = record.attempts;
                self.desk.failed(&record, fault, Facts::default(), attempts, self.lane).await?;
            }
        }
        Ok(())
    }
}

enum UnderWay {
    Node(Box<Node>, Carrying),
    Count { entries: u64, bytes: u64 },
}

/// A document that is being carried. Where its tree ends early this does as well, and its child with it.
struct Carrying(JoinHandle<Result<Option<Taken>, Halt>>);

impl Drop for Carrying {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a container's child gave beside the members.
struct Given {
    /// Of the container's bytes.
    sha256: Option<ContentHash>,
    /// The listing went to the end.
    whole: bool,
    /// The members' bytes.
    spool: Option<Arc<Spool>>,
}

struct Taken {
    /// As it stands after its start was journaled.
    record: Record,
    carried: Carried,
}

fn cannot_open(fault: &Fault) -> String {
    format!("its container could not be opened again: {}: {}", fault.kind, fault.message)
}

/// Whether the same bytes meet it again.
fn is_for_good(class: Option<Class>) -> bool {
    matches!(class, Some(Class::Permanent | Class::Corrupt))
}

/// What has stood against a container for good since it was last opened, if anything: its bytes have not moved since.
fn stands_against(container: &Record) -> Option<Fault> {
    if let Some(met) = &container.large {
        return Some((**met).clone());
    }
    let fault = container.fault().filter(|fault| fault.stage >= Stage::Extract && is_for_good(fault.class));
    fault.filter(|_| container.state == State::Quarantined && container.fetched)
}

/// Journals the start and carries one document; `None` where it has moved on meanwhile.
async fn take(desk: &Desk, node: Node, trip: Trip) -> Result<Option<Taken>, Halt> {
    let record = match node.errand {
        Errand::Members => node.record,
        Errand::Carry => match desk.begin(&node.record, Stage::Fetch, trip.lane).await? {
            Some(record) => record,
            None => return Ok(None),
        },
    };
    let _shown = desk.in_flight(&record);
    let carried = match stands_against(&record).filter(|_| node.errand == Errand::Members) {
        Some(fault) => Carried::of(Facts::default(), Came::Failed(fault)),
        None => carry(&desk.means, &record, &node.place, trip).await,
    };
    if let Place::Member { spool: Some(spool), bytes } = &node.place {
        spool.forget(&bytes.range);
    }
    Ok(Some(Taken { record, carried }))
}
