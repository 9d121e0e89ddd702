//! Compares source, ledger and sink, by name, and repairs what can be repaired without a run.
//!
//! It holds the ledger's lock as a run does, so that nothing moves while it looks. The source is listed as a run lists it, but
//! the listing's events are read and not applied; ledger and sink are merged, both in order. Nothing but
//! the ids of what differs is collected, so that a million documents cost no more memory than a thousand.

use super::desk::now;
use super::{RunError, looking};
use crate::ledger::{
    Change, Durability, Event, Ledger, LedgerError, LedgerHandle, Reader, Record, SourceId, SourceRow, Stat,
};
use crate::rules::reconcile::{
    self, Claim, DriftKind, Held, Merge, Met, Reference, Repair, differences, fault_of,
};
use crate::settings::Settings;
use crate::sink::Batch;
use crate::sink::embedded::{Embedded, Search};
use crate::sink::texts::Texts;
use crate::source::folder::ListingError;
use nix::sys::stat::lstat;
use shared::{ContentHash, DocumentId};
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Repairs of one transaction.
const BATCH: usize = 1000;
/// Hashes of kept texts that are read at a time.
const PIECE: usize = 2000;

/// What to compare.
#[derive(Debug)]
pub struct Plan {
    pub settings: Settings,
    pub state: PathBuf,
    /// Names of sources; empty: all that the ledger knows.
    pub sources: Vec<String>,
    pub repair: bool,
}

/// Something that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    pub kind: DriftKind,
    pub source: Option<String>,
    /// As shown, where it has one.
    pub path: Option<String>,
    pub id: Option<DocumentId>,
    /// What differs, for people.
    pub detail: String,
    pub repaired: bool,
}

/// How it went.
#[derive(Debug, Default)]
pub struct Compared {
    pub found: BTreeMap<DriftKind, u64>,
    pub repaired: u64,
    /// What people should know beside.
    pub notes: Vec<String>,
}

impl Compared {
    /// Drift that is still there.
    pub fn left(&self) -> u64 {
        self.found.values().sum::<u64>() - self.repaired
    }
}

/// Takes a drift as soon as it is found; says whether to go on.
pub type Each<'a> = &'a mut dyn FnMut(&Drift) -> ControlFlow<()>;

/// Compares, tells `each` of every drift, and repairs where the plan says so. Blocks.
///
/// # Errors
/// A run is on, or a store cannot be read: nothing can be compared. [`RunError::Ended`] where `each` said stop.
pub fn reconcile(plan: &Plan, each: Each<'_>) -> Result<Compared, RunError> {
    // What there is not is not made.
    if let Err(error @ LedgerError::Missing(_)) = Reader::open(&plan.state) {
        return Err(error.into());
    }
    let ledger = Ledger::open(&plan.state)?;
    let outcome = compare(plan, ledger.handle(), each);
    ledger.close()?;
    outcome
}

fn compare(plan: &Plan, handle: LedgerHandle, each: Each<'_>) -> Result<Compared, RunError> {
    let reader = Reader::open(&plan.state)?;
    let all = reader.sources()?;
    let meant = |source: &&SourceRow| plan.sources.is_empty() || plan.sources.contains(&source.name);
    let sources: Vec<SourceRow> = all.iter().filter(meant).cloned().collect();
    let names = all.into_iter().map(|source| (source.id, source.name)).collect();
    let meant = sources.iter().map(|source| source.id).collect();
    let repairs =
        Repairs { plan, handle, events: Vec::new(), orphans: Vec::new(), kept: Vec::new(), index: None };
    let mut comparison =
        Comparison { plan, reader: &reader, names, meant, repairs, compared: Compared::default(), each };
    for source in &sources {
        comparison.listing(source)?;
    }
    comparison.texts()?;
    comparison.kept_texts()?;
    comparison.books()?;
    Ok(comparison.compared)
}

struct Comparison<'a> {
    plan: &'a Plan,
    reader: &'a Reader,
    names: BTreeMap<SourceId, String>,
    meant: HashSet<SourceId>,
    repairs: Repairs<'a>,
    compared: Compared,
    each: Each<'a>,
}

impl Comparison<'_> {
    /// The source against the ledger.
    fn listing(&mut self, source: &SourceRow) -> Result<(), RunError> {
        let mut unreadable = self.reader.unreadable(source.id)?;
        let plan = self.plan;
        let outcome = looking::look(&plan.settings, &plan.state, source, &mut |event| {
            unreadable.remove(&event.doc);
            self.listed(source, event)
        })?;
        self.repairs.flush()?;
        match outcome {
            Ok(listed) => {
                let notes = listed.alerts.iter().map(|alert| format!("{}: {alert}", source.name));
                self.compared.notes.extend(notes);
            }
            Err(ListingError::Root { path, source: error }) => {
                let drift = Drift {
                    kind: DriftKind::Unlistable,
                    source: Some(source.name.clone()),
                    path: None,
                    id: None,
                    detail: format!("the root {} cannot be listed: {error}", path.display()),
                    repaired: false,
                };
                return self.tell(drift);
            }
            Err(error) => return Err(error.into()),
        }
        self.still_unreadable(unreadable.into_iter().collect())
    }

    /// Of what could not be read before and cannot be now, a listing has nothing new to say.
    fn still_unreadable(&mut self, mut unreadable: Vec<DocumentId>) -> Result<(), RunError> {
        unreadable.sort_unstable();
        for id in unreadable {
            let record = self.reader.record(id)?;
            let message = record.as_ref().and_then(|record| record.message.clone());
            self.found(DriftKind::Unlistable, id, record.as_ref(), message.unwrap_or_default(), false)?;
        }
        Ok(())
    }

    fn listed(&mut self, source: &SourceRow, event: Event) -> Result<(), RunError> {
        let known = self.reader.record(event.doc)?;
        let now = match (&event.change, &known) {
            (Change::Rejected { .. }, Some(known)) => stat_of(source, known),
            (Change::Seen(seen), _) => seen.stat,
            _ => None,
        };
        let Some((kind, repair)) = reconcile::listed(&event.change, known.as_ref(), now) else {
            return Ok(());
        };
        let detail = match kind {
            DriftKind::Unrecorded => match fault_of(&event.change) {
                Some(fault) => format!("the ledger does not have it; it would be {}", fault.kind),
                None => "the ledger does not have it".to_owned(),
            },
            DriftKind::Unlistable => {
                fault_of(&event.change).map_or(String::new(), |fault| fault.message.clone())
            }
            DriftKind::Vanished => {
                let state = known.as_ref().map_or("", |known| known.state.name());
                format!("the source does not have it; the ledger has it as {state}")
            }
            _ if event.change == Change::Gone => {
                "it could not be read or was shut out, and now it is read".to_owned()
            }
            _ => differences(known.as_ref().and_then(|known| known.stat), now)
                .unwrap_or_else(|| "it was leaving, and is there".to_owned()),
        };
        let path = match &event.change {
            Change::Seen(seen) => Some(seen.identity.shown()),
            _ => known.as_ref().map(|known| known.identity.shown()),
        };
        let (source, id) = (Some(source.name.clone()), Some(event.doc));
        let repaired = repair.is_some() && self.repairs.event(event)?;
        self.tell(Drift { kind, source, path, id, detail, repaired })
    }

    /// The ledger against the index.
    fn texts(&mut self) -> Result<(), RunError> {
        let reader = self.reader;
        let mut merge = Merge::new(reader.claims().map(|claim| claim.map_err(RunError::from)));
        if let Some(index) = Search::open(&self.plan.state)? {
            index.held(&mut |held: Held| merge.held(held, &mut |met| self.text(&met)))?;
        }
        merge.end(&mut |met| self.text(&met))?;
        self.repairs.flush()
    }

    fn text(&mut self, met: &Met<Claim, Held>) -> Result<(), RunError> {
        let Some((kind, repair)) = reconcile::text(met) else { return Ok(()) };
        let id = match met {
            Met::Claimed(claim) | Met::Both(claim, _) => claim.id,
            Met::Held(held) => held.id,
        };
        let record = self.reader.record(id)?;
        if record.as_ref().is_some_and(|record| !self.meant.contains(&record.source)) {
            return Ok(());
        }
        let detail = match met {
            Met::Claimed(claim) => format!("the index has no text of it; the ledger says {}", claim.in_sink),
            Met::Both(claim, Held { text: Some(_), state: Some(state), .. }) if *state != claim.in_sink => {
                format!("the index has it as {state}; the ledger says {}", claim.in_sink)
            }
            Met::Both(_, Held { text: None, .. }) => "the index has it more than once".to_owned(),
            Met::Both(..) => "the index has another text of it".to_owned(),
            Met::Held(_) => match &record {
                Some(record) => {
                    format!("the index has a text of it; for the ledger it is {} and has none", record.state)
                }
                None => "the index has a text of it; the ledger has no such document".to_owned(),
            },
        };
        let repaired = match repair {
            Some(Repair::WriteAgain) => self.repairs.write_again(id)?,
            Some(Repair::Remove) => self.repairs.remove(id)?,
            Some(Repair::Record) | None => false,
        };
        self.found(kind, id, record.as_ref(), detail, repaired)
    }

    /// The ledger against the kept texts.
    fn kept_texts(&mut self) -> Result<(), RunError> {
        let reader = self.reader;
        let mut merge = Merge::new(reader.references().map(|of| of.map_err(RunError::from)));
        if let Some(texts) = Texts::open_reader(&self.plan.state)? {
            let mut last = None;
            loop {
                let hashes = texts.hashes(last, PIECE)?;
                let Some(behind) = hashes.last() else { break };
                last = Some(*behind);
                for hash in hashes {
                    merge.held(hash, &mut |met| self.kept_text(&met))?;
                }
            }
        }
        merge.end(&mut |met| self.kept_text(&met))?;
        self.repairs.flush()
    }

    fn kept_text(&mut self, met: &Met<Reference, ContentHash>) -> Result<(), RunError> {
        let Some((kind, _)) = reconcile::kept(met) else { return Ok(()) };
        match met {
            Met::Claimed(of) | Met::Both(of, _) => {
                let record = self.reader.record(of.id)?;
                if record.as_ref().is_some_and(|record| !self.meant.contains(&record.source)) {
                    return Ok(());
                }
                let detail =
                    format!("its text {} is not kept; `lazaret reprocess --id` makes it anew", of.text);
                self.found(kind, of.id, record.as_ref(), detail, false)
            }
            Met::Held(hash) => {
                let repaired = self.repairs.forget(*hash)?;
                let detail = format!("the text {hash} is kept, and no record refers to it");
                self.tell(Drift { kind, source: None, path: None, id: None, detail, repaired })
            }
        }
    }

    fn books(&mut self) -> Result<(), RunError> {
        for difference in self.reader.books()?.differences {
            let kind = DriftKind::Unbalanced;
            self.tell(Drift {
                kind,
                source: None,
                path: None,
                id: None,
                detail: difference,
                repaired: false,
            })?;
        }
        Ok(())
    }

    /// Tells of a drift of one document.
    fn found(
        &mut self,
        kind: DriftKind,
        id: DocumentId,
        record: Option<&Record>,
        detail: String,
        repaired: bool,
    ) -> Result<(), RunError> {
        let source = record.and_then(|record| self.names.get(&record.source).cloned());
        let path = record.map(|record| record.identity.shown());
        self.tell(Drift { kind, source, path, id: Some(id), detail, repaired })
    }

    fn tell(&mut self, drift: Drift) -> Result<(), RunError> {
        *self.compared.found.entry(drift.kind).or_insert(0) += 1;
        self.compared.repaired += u64::from(drift.repaired);
        match (self.each)(&drift) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(RunError::Ended),
        }
    }
}

/// What is at the place of a known item now.
fn stat_of(source: &SourceRow, known: &Record) -> Option<Stat> {
    let path = known.identity.0.first()?;
    let stat = lstat(&source.root.join(std::ffi::OsStr::from_bytes(&path.name))).ok()?;
    Some(crate::source::stat_of(&stat))
}

/// Repairs, gathered and carried out in batches. Without `--repair` there are none.
struct Repairs<'a> {
    plan: &'a Plan,
    handle: LedgerHandle,
    events: Vec<Event>,
    orphans: Vec<DocumentId>,
    kept: Vec<ContentHash>,
    /// Once something was to be removed from it: to open it means to read all of it.
    index: Option<Embedded>,
}

impl Repairs<'_> {
    fn event(&mut self, event: Event) -> Result<bool, RunError> {
        self.events.extend(self.plan.repair.then_some(event));
        self.flush_at(BATCH)
    }

    fn write_again(&mut self, id: DocumentId) -> Result<bool, RunError> {
        self.event(Event { doc: id, expects: None, at: now(), change: Change::Unwritten })
    }

    fn remove(&mut self, id: DocumentId) -> Result<bool, RunError> {
        self.orphans.extend(self.plan.repair.then_some(id));
        self.flush_at(BATCH)
    }

    fn forget(&mut self, text: ContentHash) -> Result<bool, RunError> {
        self.kept.extend(self.plan.repair.then_some(text));
        self.flush_at(BATCH)
    }

    fn flush(&mut self) -> Result<(), RunError> {
        self.flush_at(1).map(drop)
    }

    /// Carries out what has come to so many. Whether repairs are made at all.
    fn flush_at(&mut self, size: usize) -> Result<bool, RunError> {
        if self.events.len() >= size {
            self.handle.append_blocking(std::mem::take(&mut self.events), Durability::Synced)?;
        }
        if self.orphans.len() >= size {
            let removals = std::mem::take(&mut self.orphans);
            let index = match &mut self.index {
                Some(index) => index,
                closed => closed.insert(Embedded::open(&self.plan.state)?.0),
            };
            index.commit(&Batch { writes: Vec::new(), removals })?;
        }
        if self.kept.len() >= size {
            Texts::open(&self.plan.state)?.forget(&std::mem::take(&mut self.kept))?;
        }
        Ok(self.plan.repair)
    }
}
