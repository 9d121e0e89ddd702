//! The breakers of a run: what they have seen, what follows when one opens, and the probes that close it.
//!
//! A source's breaker looks at the fetches of its items. Before it opens one item elsewhere in the source is tried, so that a folder
//! that nobody may read does not pass for a source that is down. An extractor's is the gate's ([`crate::path::gate`]); here is
//! what follows from it. An open breaker stands in the ledger, and each run begins with a probe of it.

use super::alerts::Topic;
use super::desk::{Desk, now, random};
use super::{RunError, connector};
use crate::ledger::{Change, Event, Millis, Reader, Record, SourceId, SourceRow};
use crate::path::gate::{self, Trip};
use crate::report::time;
use crate::rules::breaker::{Breaker, Policy, Scope, Window};
use crate::rules::fault::Fault;
use crate::rules::kind::{Kind, Stage, State};
use crate::sink::embedded;
use crate::source::fetch;
use shared::{DocumentId, Identity};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

/// What the breakers of a run know.
#[derive(Debug, Default)]
pub struct Breakers {
    policy: Policy,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    windows: HashMap<SourceId, Window<(), ()>>,
    tripped: HashMap<SourceId, (Fault, u64)>,
    open: HashMap<SourceId, Breaker>,
    /// Extractors that were probed in this run already.
    probed: HashSet<String>,
}

/// How many events go into one transaction.
const BATCH: usize = 512;
/// How many items are looked at for one that lies elsewhere.
const ELSEWHERE: usize = 64;
/// How many waiting documents are asked for one that gets as far as its extractor.
const ASKED: usize = 8;

impl Breakers {
    /// With this policy for sources, and these open since earlier runs.
    pub fn new(policy: Policy) -> Self {
        Breakers { policy, inner: Mutex::default() }
    }

    /// Notes how the fetch of an item went.
    pub fn fetched(&self, source: SourceId, fault: Option<&Fault>) {
        if fault.is_some_and(|fault| !is_of_the_source(fault)) {
            return;
        }
        let mut inner = self.lock();
        let window = inner.windows.entry(source).or_default();
        let opened = window.note(fault.map(|_| ()), (), self.policy);
        if let (Some((_, failures)), Some(fault)) = (opened, fault) {
            inner.tripped.insert(source, (fault.clone(), failures.len() as u64));
        }
    }

    /// Why the source's breaker is open, if it is.
    pub fn open(&self, source: SourceId) -> Option<Breaker> {
        self.lock().open.get(&source).cloned()
    }

    fn tripped(&self, source: SourceId) -> Option<(Fault, u64)> {
        self.lock().tripped.remove(&source)
    }

    fn set(&self, source: SourceId, breaker: Option<Breaker>) {
        let mut inner = self.lock();
        inner.windows.remove(&source);
        match breaker {
            Some(breaker) => drop(inner.open.insert(source, breaker)),
            None => drop(inner.open.remove(&source)),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A fault that may concern all items of a source alike. That one vanished or changed is its own affair, and that we lack
/// descriptors is ours.
fn is_of_the_source(fault: &Fault) -> bool {
    !fault.is_our_own()
        && matches!(
            fault.kind,
            Kind::SourceUnreachable
                | Kind::SourceIo
                | Kind::SourceTimeout
                | Kind::SourceThrottled
                | Kind::SourceDenied
        )
}

/// What a document is told that waits for its source.
pub(super) fn waits(breaker: &Breaker) -> Fault {
    let message = format!(
        "not tried: the source's breaker is open since {}: {}; a probe that passes makes it due",
        time::utc(breaker.since),
        breaker.message
    );
    Fault::new(Stage::Fetch, breaker.kind, message)
}

/// What one connector does about breakers.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    pub(super) desk: &'a Desk,
    pub(super) source: &'a SourceRow,
    /// What there is beside what failed may not be known yet.
    pub(super) listing: bool,
}

impl Watch<'_> {
    /// At the start: probes what is open.
    pub(super) async fn begin(&self) -> Result<(), RunError> {
        let open = self.desk.readers.with(|reader| reader.breakers()).await?;
        self.release_forgotten(&open).await?;
        for (scope, name, breaker) in open {
            match scope {
                Scope::Source if name == self.source.name => {
                    let off = self.desk.breakers.policy.window == 0;
                    let first = self.desk.breakers.open(self.source.id).is_none();
                    self.desk.breakers.set(self.source.id, Some(breaker.clone()));
                    if off || first || breaker.probe_is_due(&self.desk.means.settings.retry, now()) {
                        self.probe(&breaker).await?;
                    }
                }
                Scope::Extractor => self.probe_extractor(&name, &breaker).await?,
                Scope::Source | Scope::Sink => {}
            }
        }
        Ok(())
    }

    /// After documents came to an end: what has opened meanwhile. Gives whether anything has.
    pub(super) async fn look(&self) -> Result<bool, RunError> {
        let mut opened = false;
        for trip in self.desk.means.gate.trips() {
            self.extractor_opened(&trip).await?;
            opened = true;
        }
        if let Some((fault, failures)) = self.desk.breakers.tripped(self.source.id) {
            opened |= self.source_failed(&fault, failures).await?;
        }
        Ok(opened)
    }

    /// In the middle of a run, when the delay is over.
    pub(super) async fn probe_if_due(&self) -> Result<(), RunError> {
        match self.desk.breakers.open(self.source.id) {
            Some(breaker) if breaker.probe_is_due(&self.desk.means.settings.retry, now()) => {
                self.probe(&breaker).await
            }
            _ => Ok(()),
        }
    }

    async fn source_failed(&self, fault: &Fault, failures: u64) -> Result<bool, RunError> {
        let (tried, elsewhere) = self.try_one(Some(&self.failing_folders().await?)).await?;
        let Err(again) = tried else { return Ok(false) };
        if self.listing && !elsewhere {
            return Ok(false);
        }
        let message = if again.message.is_empty() { fault.message.clone() } else { again.message };
        let retry = &self.desk.means.settings.retry;
        let breaker = Breaker::open(fault.kind, message, failures, retry, random(), now());
        self.store(Some(breaker.clone())).await?;
        let words = format!(
            "{failures} of the last {} fetches failed ({}: {}); its breaker is open: nothing more is tried, nothing is deleted, \
             and a probe that passes makes all of it due",
            self.desk.breakers.policy.window, breaker.kind, breaker.message
        );
        self.desk.alerts.raise(Topic::Breaker, Some(&self.source.name), &words);
        Ok(true)
    }

    async fn probe(&self, breaker: &Breaker) -> Result<(), RunError> {
        let passed = self.desk.breakers.policy.window == 0 || self.try_one(None).await?.0.is_ok();
        if passed {
            // In this order: what a death leaves half done is done again by the next probe.
            self.release_source().await?;
            return self.store(None).await;
        }
        let retry = &self.desk.means.settings.retry;
        let still = breaker.probed(breaker.message.clone(), retry, random(), now());
        self.store(Some(still)).await?;
        let words = format!(
            "its breaker is open since {} ({}: {}); the probe has failed again",
            time::utc(breaker.since),
            breaker.kind,
            breaker.message
        );
        self.desk.alerts.mention(Some(&self.source.name), &words);
        Ok(())
    }

    async fn store(&self, breaker: Option<Breaker>) -> Result<(), RunError> {
        self.desk.ledger.breaker(Scope::Source, &self.source.name, breaker.as_ref()).await?;
        self.desk.breakers.set(self.source.id, breaker);
        Ok(())
    }

    /// Opens one item of the source and reads its first bytes; one outside of these folders, if that can be had. Gives whether
    /// it was.
    async fn try_one(
        &self,
        outside: Option<&HashSet<Vec<u8>>>,
    ) -> Result<(Result<(), Fault>, bool), RunError> {
        let (mut chosen, mut elsewhere) = (None, false);
        for _ in 0..ELSEWHERE {
            let (id, random) = (self.source.id, random());
            let item = self.desk.readers.with(move |reader| reader.any_item(id, random)).await?;
            let Some(item) = item else { break };
            elsewhere = outside.is_none_or(|folders| !folders.contains(&folder_of(&item)));
            chosen = Some(item);
            if elsewhere {
                break;
            }
        }
        // Nothing to probe: nothing is wrong with it.
        let Some(item) = chosen else { return Ok((Ok(()), false)) };
        let path = item.identity.0.first().map(|level| level.name.clone()).unwrap_or_default();
        let outcome = fetch::probe(&self.source.root, &path, self.desk.means.settings.limits.fetch_ms).await;
        let told = match outcome {
            Err(fault) if is_of_the_source(&fault) => Err(fault),
            // What is gone or is no file any more says that the source answers.
            Ok(()) | Err(_) => Ok(()),
        };
        Ok((told, elsewhere))
    }

    /// The folders of what failed last.
    async fn failing_folders(&self) -> Result<HashSet<Vec<u8>>, RunError> {
        let id = self.source.id;
        let failing =
            self.desk.readers.with(move |reader| reader.in_state(id, State::Retrying, 0, BATCH)).await?;
        Ok(failing.iter().map(|(_, record)| folder_of(record)).collect())
    }

    /// All that waits for the source is due.
    async fn release_source(&self) -> Result<(), RunError> {
        let mut after = 0;
        loop {
            let id = self.source.id;
            let page = self
                .desk
                .readers
                .with(move |reader| reader.in_state(id, State::Retrying, after, BATCH))
                .await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = *last;
            let waiting = page.iter().map(|(_, record)| record).filter(|record| {
                matches!(record.stage, Some(Stage::Fetch))
                    && !record.alone
                    && connector::can_be_carried(record)
            });
            self.desk.record(waiting.map(|record| self.due(record)).collect()).await?;
        }
    }

    fn due(&self, record: &Record) -> Event {
        self.desk.event(record.id, Some(record.revision), Change::Due)
    }

    async fn extractor_opened(&self, trip: &Trip) -> Result<(), RunError> {
        let retry = &self.desk.means.settings.retry;
        let failures = trip.documents.len() as u64;
        let breaker = Breaker::open(trip.kind, trip.message.clone(), failures, retry, random(), now());
        self.desk.ledger.breaker(Scope::Extractor, &trip.extractor, Some(&breaker)).await?;
        let fault = gate::broken(&trip.extractor, Stage::Extract, &trip.message);
        let held = |doc| {
            let change = Change::Held { fault: Box::new(fault.clone()), attempted: true };
            self.desk.event(doc, None, change)
        };
        self.desk.record(trip.documents.iter().copied().map(held).collect()).await?;
        self.hold_those_who_share(trip, &fault).await?;
        let words = format!(
            "the extractor {} is not used any more: {}; its documents wait, and are due when a probe passes at the start of a run",
            trip.extractor, trip.message
        );
        self.desk.alerts.raise(Topic::Breaker, None, &words);
        Ok(())
    }

    /// What has the same bytes took over the failure, and is let off as well.
    async fn hold_those_who_share(&self, trip: &Trip, fault: &Fault) -> Result<(), RunError> {
        for &id in &trip.documents {
            let share = move |reader: &Reader| {
                let mut others = Vec::new();
                if let Some(record) = reader.record(id)? {
                    reader.sharing(&record, &mut |other| {
                        if other.id != id && other.same_as == Some(id) && other.state == State::Quarantined {
                            others.push((other.id, other.revision));
                        }
                        ControlFlow::Continue(())
                    })?;
                }
                Ok(others)
            };
            let others = self.desk.readers.with(share).await?;
            for batch in others.chunks(BATCH) {
                let held = |(doc, revision): &(_, _)| {
                    let change = Change::Held { fault: Box::new(fault.clone()), attempted: false };
                    self.desk.event(*doc, Some(*revision), change)
                };
                self.desk.record(batch.iter().map(held).collect()).await?;
            }
        }
        Ok(())
    }

    /// The built-in document first, then one of those that wait.
    async fn probe_extractor(&self, name: &str, breaker: &Breaker) -> Result<(), RunError> {
        let means = &self.desk.means;
        let first = self.desk.breakers.lock().probed.insert(name.to_owned());
        if !first && !breaker.probe_is_due(&means.settings.retry, now()) {
            return Ok(());
        }
        means.gate.shut(name, &breaker.message);
        let off = means.settings.breakers.extractor.window == 0;
        let works = off || means.try_out(name).await.is_ok();
        let passed = works && (off || breaker.failures == 0 || self.one_of_them(name, breaker).await?);
        if passed {
            self.release_extractor(name).await?;
            self.desk.ledger.breaker(Scope::Extractor, name, None).await?;
            means.gate.reopen(name);
            return Ok(());
        }
        let still = breaker.probed(breaker.message.clone(), &means.settings.retry, random(), now());
        self.desk.ledger.breaker(Scope::Extractor, name, Some(&still)).await?;
        let words = format!(
            "the extractor {name} is not used since {}: {}; the probe has failed again",
            time::utc(breaker.since),
            breaker.message
        );
        self.desk.alerts.mention(None, &words);
        Ok(())
    }

    /// One document that waits for this extractor goes through it, another one each time: the first might crash for a reason
    /// of its own. One that does not get as far says nothing, and the next is asked. Where none waits, nothing speaks against it.
    async fn one_of_them(&self, name: &str, breaker: &Breaker) -> Result<bool, RunError> {
        let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
        self.each_waiting(name, &mut |record| {
            let waiting = if record.source == self.source.id { &mut here } else { &mut elsewhere };
            waiting.push(record.id);
        })
        .await?;
        let mut waiting = if here.is_empty() { elsewhere } else { here };
        let turn = usize::try_from(breaker.probes).unwrap_or(0) % waiting.len().max(1);
        waiting.rotate_left(turn);
        for &id in waiting.iter().take(ASKED) {
            if let Some(works) = self.ask(name, id).await? {
                return Ok(works);
            }
        }
        Ok(waiting.len() <= ASKED)
    }

    /// Sends one document through the extractor; `None` where it did not get as far.
    async fn ask(&self, name: &str, id: DocumentId) -> Result<Option<bool>, RunError> {
        let found = self.desk.readers.with(move |reader| Ok((reader.record(id)?, reader.sources()?))).await?;
        let (Some(one), sources) = found else { return Ok(None) };
        let Some(source) = sources.into_iter().find(|source| source.id == one.source) else {
            return Ok(None);
        };
        let Some(one) = self.desk.record(vec![self.due(&one)]).await?.pop() else { return Ok(None) };
        self.desk.means.gate.let_through(name, with_containers(&source, &one));
        connector::only(self.desk, &source, &one).await?;
        self.desk.means.gate.let_through(name, Vec::new());
        let Some(now) = self.desk.readers.with(move |reader| reader.record(id)).await? else {
            return Ok(None);
        };
        let crashed = now.evidence.as_ref().is_some_and(|evidence| evidence.fingerprint.is_some());
        let failed = crashed && matches!(now.state, State::Quarantined | State::Retrying);
        if failed || now.kind == Some(Kind::ExtractorBroken) {
            let why = self.desk.means.gate.is_shut(name).unwrap_or_default();
            self.desk.held(&now, gate::broken(name, Stage::Extract, &why), failed).await?;
            return Ok(Some(false));
        }
        let got_as_far = match now.state {
            State::Indexed | State::Suspect => true,
            State::Quarantined | State::Retrying | State::Pending => {
                now.stage.is_some_and(|stage| stage >= Stage::Extract)
            }
            State::Excluded | State::Deleted => false,
        };
        Ok(got_as_far.then_some(true))
    }

    async fn release_extractor(&self, name: &str) -> Result<(), RunError> {
        let mut waiting = Vec::new();
        self.each_waiting(name, &mut |record| waiting.push((record.id, record.revision))).await?;
        self.desk.due(&waiting).await
    }

    /// What waits for an extractor whose breaker is not open is due: a document is told to wait before the breaker is noted, and
    /// a death in between leaves nothing that would ever probe for it.
    async fn release_forgotten(&self, open: &[(Scope, String, Breaker)]) -> Result<(), RunError> {
        let open: HashSet<&str> = open
            .iter()
            .filter(|(scope, _, _)| *scope == Scope::Extractor)
            .map(|(_, name, _)| name.as_str())
            .collect();
        let mut waiting = Vec::new();
        self.all_waiting(&mut |record, engine| {
            if !engine.is_some_and(|engine| open.contains(engine)) {
                waiting.push((record.id, record.revision));
            }
        })
        .await?;
        self.desk.due(&waiting).await
    }

    async fn each_waiting(&self, name: &str, each: &mut (dyn FnMut(&Record) + Send)) -> Result<(), RunError> {
        self.all_waiting(&mut |record, engine| {
            if engine == Some(name) {
                each(record);
            }
        })
        .await
    }

    /// All that waits for an extractor, and for which.
    async fn all_waiting(
        &self,
        each: &mut (dyn FnMut(&Record, Option<&str>) + Send),
    ) -> Result<(), RunError> {
        let mut after = 0;
        loop {
            let page = self
                .desk
                .readers
                .with(move |reader| reader.of_kind(Kind::ExtractorBroken, State::Retrying, after, BATCH))
                .await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = *last;
            for (_, record) in &page {
                each(record, record.evidence.as_ref().and_then(|evidence| evidence.engine.as_deref()));
            }
        }
    }
}

/// A document and all that it lies in: its bytes come through the containers around it.
fn with_containers(source: &SourceRow, record: &Record) -> Vec<DocumentId> {
    let levels = &record.identity.0;
    (1..=levels.len())
        .filter_map(|depth| levels.get(..depth))
        .map(|around| DocumentId::derive(&source.name, &Identity(around.to_vec())))
        .collect()
}

fn folder_of(record: &Record) -> Vec<u8> {
    let name = record.identity.0.first().map_or(&[][..], |level| &level.name);
    name.iter().rposition(|byte| *byte == b'/').map_or_else(Vec::new, |at| name[..at].to_vec())
}

/// Whether the breaker of the source of this name is among the open ones.
pub(super) fn is_open(open: &[(Scope, String, Breaker)], source: &str) -> bool {
    open.iter().any(|(scope, name, _)| *scope == Scope::Source && name == source)
}

/// The sink's breaker, if it is among these.
pub(super) fn of_sink(open: Vec<(Scope, String, Breaker)>) -> Option<Breaker> {
    open.into_iter()
        .find(|(scope, name, _)| *scope == Scope::Sink && name == embedded::NAME)
        .map(|(_, _, breaker)| breaker)
}

/// When the next probe of one of these breakers is due.
pub(super) fn next_probe(open: &[(Scope, String, Breaker)], names: &[String]) -> Option<Millis> {
    open.iter()
        .filter(|(scope, name, _)| *scope == Scope::Source && names.contains(name))
        .map(|(_, _, breaker)| breaker.next_probe)
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: SourceId = SourceId(1);

    #[test]
    fn only_what_may_concern_all_items_counts() {
        let breakers = Breakers::new(Policy { window: 4, share: 1.0 });
        let mut ours = Fault::new(Stage::Fetch, Kind::SourceIo, "EMFILE");
        ours.evidence.detail = Some(crate::rules::fault::OUR_OWN.to_owned());
        for _ in 0..10 {
            breakers.fetched(SOURCE, Some(&ours));
            breakers.fetched(SOURCE, Some(&Fault::new(Stage::Fetch, Kind::SourceVanished, "")));
            breakers.fetched(SOURCE, Some(&Fault::new(Stage::Fetch, Kind::PolicyTooLarge, "")));
        }
        assert!(breakers.tripped(SOURCE).is_none());
        let denied = Fault::new(Stage::Fetch, Kind::SourceDenied, "EACCES");
        for n in 0..4 {
            assert!(breakers.tripped(SOURCE).is_none(), "{n}");
            breakers.fetched(SOURCE, Some(&denied));
        }
        assert_eq!(breakers.tripped(SOURCE).unwrap().1, 4);
    }

    #[test]
    fn one_good_fetch_in_a_full_window_may_be_enough() {
        let breakers = Breakers::new(Policy { window: 4, share: 1.0 });
        let denied = Fault::new(Stage::Fetch, Kind::SourceDenied, "EACCES");
        for fault in [Some(&denied), Some(&denied), None, Some(&denied), Some(&denied), Some(&denied)] {
            breakers.fetched(SOURCE, fault);
        }
        assert!(breakers.tripped(SOURCE).is_none());
    }
}
