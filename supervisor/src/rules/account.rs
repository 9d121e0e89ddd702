//! What an event does to the books: one pure function, total over every change in every state.
//!
//! It knows no store and no clock. An event that names another revision than the record has, or that has nothing to say
//! in the state that the record is in, is overtaken: whoever stores it keeps it as history, and nothing else moves. A
//! document that is leaving the sink is let go by nothing but its removal, its return, or another word on where it goes,
//! because the sink may already have dropped it.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod fields;

pub(super) use self::fields::failed_for_good;
use self::fields::{clear_fault, keep_unless, note_facts, note_fault, note_stat, queue, rest, start_anew};
use super::fault::{Evidence, Fault};
use super::kind::{Class, Kind, Stage, State, Why};
use crate::ledger::{
    Change, Event, Facts, InSink, Millis, Pipeline, Record, Seen, Settle, Stat, Task, Unsent,
};

/// What an event does to a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The record is this from now on.
    Changed(Box<Record>),
    /// The document has moved on, or the event says nothing new: nothing changes.
    Overtaken,
}

/// Says what `event` makes of `record`, which is the record of the event's document, if it has one.
pub fn apply(record: Option<&Record>, event: &Event) -> Verdict {
    let revision = record.map_or(0, |record| record.revision);
    if event.expects.is_some_and(|expected| expected != revision) {
        return Verdict::Overtaken;
    }
    let changed = match (record, &event.change) {
        (None, Change::Seen(seen)) => Some(first_sight(event, seen)),
        (None, _) => None,
        (Some(old), Change::Seen(seen)) => seen_again(old, seen, event.at),
        (Some(old), _) if old.state == State::Deleted => None,
        (Some(old), change) => known(old, change, event.at),
    };
    match changed {
        Some(mut record) => {
            record.revision = revision + 1;
            Verdict::Changed(Box::new(record))
        }
        None => Verdict::Overtaken,
    }
}

/// Everything but sightings, of a document that is not deleted.
fn known(old: &Record, change: &Change, at: Millis) -> Option<Record> {
    match change {
        Change::Seen(seen) => seen_again(old, seen, at),
        Change::Gone => gone(old),
        Change::Rejected { fault } => rejected(old, fault),
        Change::Left => left(old),
        Change::Touched { stat } => touched(old, *stat),
        // Its policy has changed its mind.
        Change::Requeued if old.state == State::Excluded => Some(requeued(old)),
        _ if old.is_leaving() || old.state == State::Excluded => None,
        Change::Started { .. } => Some(started(old, at)),
        Change::Fetched { .. } | Change::Ready if !is_carried(old) => None,
        Change::Fetched { sha256, size, format, media_type } => {
            let mut new = old.clone();
            new.sha256 = Some(*sha256);
            new.fetched = true;
            new.size = Some(*size);
            keep_unless(&mut new.format, format);
            keep_unless(&mut new.media_type, media_type);
            Some(new)
        }
        Change::Ready => Some(old.clone()),
        Change::Failed { fault, settle, facts } => Some(failed(old, fault, *settle, facts, at)),
        Change::Written { state, facts, in_sink, fault } => {
            written(old, *state, facts, in_sink, fault.as_deref(), at)
        }
        Change::Unsent { fault, settle, unsent, attempted } => {
            not_taken(old, fault, *settle, unsent, *attempted, at)
        }
        Change::Same { stat } => same(old, *stat),
        Change::Requeued => Some(requeued(old)),
        Change::RequeuedByHand => Some(requeued_by_hand(old, at)),
        Change::Due => due(old),
        Change::Held { fault, attempted } => held(old, fault, *attempted, at),
        Change::Unwritten => unwritten(old),
        Change::PutBack => put_back(old),
        Change::Lost { stage, alone, settle } => lost(old, *stage, *alone, *settle, at),
    }
}

fn first_sight(event: &Event, seen: &Seen) -> Record {
    let mut new = Record {
        id: event.doc,
        source: seen.source,
        identity: seen.identity.clone(),
        parent: seen.within.map(|within| within.container),
        root: seen.within.map_or(event.doc, |within| within.root),
        position: seen.position,
        revision: 0,
        state: State::Pending,
        why: None,
        class: None,
        kind: None,
        stage: None,
        message: None,
        hostile: false,
        format: None,
        media_type: None,
        size: None,
        sha256: None,
        fetched: false,
        mtime_ns: None,
        stat: None,
        attempts: 0,
        crashes: 0,
        alone: false,
        tried: 0,
        large: None,
        first_seen: event.at,
        first_failed: None,
        last_attempt: None,
        next_attempt: None,
        pipeline: Pipeline::new(),
        damage: None,
        same_as: None,
        in_sink: None,
        unsent: None,
        text: None,
        usage: None,
        evidence: None,
        rested: None,
        task: Some(Task::Carry),
        listed_whole: None,
        listed: None,
        requeued_at: None,
    };
    list(&mut new, seen);
    match &seen.fault {
        Some(fault) => rest_with(&mut new, fault, seen.settle, event.at),
        None => queue(&mut new, Task::Carry),
    }
    new
}

fn seen_again(old: &Record, seen: &Seen, at: Millis) -> Option<Record> {
    let mut new = old.clone();
    let other_bytes = has_other_bytes(old, seen);
    list(&mut new, seen);
    if other_bytes {
        new.fetched = seen.sha256.is_some();
    }
    match &seen.fault {
        Some(fault) => {
            if other_bytes || old.state == State::Deleted || old.is_leaving() {
                start_anew(&mut new);
            }
            rest_with(&mut new, fault, seen.settle, at);
        }
        None if old.is_leaving() => back_in_time(&mut new, old, other_bytes),
        None if other_bytes || !is_current(old) => {
            if seen.stat.is_some()
                && let Some(stood) = stood(old)
            {
                new.rested = Some(Box::new(stood));
            }
            start_anew(&mut new);
            queue(&mut new, Task::Carry);
        }
        None => {}
    }
    (new != *old).then_some(new)
}

/// How a document goes on where its bytes turn out to be the same, whatever its times say: only other bytes start attempts anew.
/// What is back with the bytes that it had failed on for good has failed on them for good.
fn stood(old: &Record) -> Option<Record> {
    let stood = Record { rested: None, ..old.clone() };
    match old.state {
        State::Indexed | State::Suspect | State::Quarantined => Some(stood),
        // What keeps it from being read, or from being carried, says nothing of these bytes: how it stood before still counts.
        State::Retrying => {
            let of_bytes = old.fetched && old.kind.is_some_and(Kind::is_of_the_bytes);
            (old.large.is_some() || of_bytes).then_some(stood)
        }
        State::Deleted => {
            failed_for_good(old).map(|why| Record { state: State::Quarantined, why: Some(why), ..stood })
        }
        State::Pending | State::Excluded => old.large.is_some().then_some(stood),
    }
}

/// Notes what the listing sees.
fn list(new: &mut Record, seen: &Seen) {
    new.position = seen.position;
    keep_unless(&mut new.size, &seen.size);
    keep_unless(&mut new.mtime_ns, &seen.mtime_ns);
    keep_unless(&mut new.stat, &seen.stat);
    if seen.sha256.is_some() {
        new.sha256 = seen.sha256;
        new.fetched = true;
    }
    if seen.fault.is_some() {
        new.damage = seen.damage;
    }
}

/// Whether the listing sees other bytes than the record speaks of. Where neither times nor a hash can tell, they are
/// taken for others.
fn has_other_bytes(old: &Record, seen: &Seen) -> bool {
    if let Some(stat) = seen.stat {
        return old.stat != Some(stat);
    }
    if let Some(sha256) = seen.sha256 {
        return !old.fetched || old.sha256 != Some(sha256);
    }
    if seen.fault.is_some() {
        return seen.size != old.size || seen.mtime_ns != old.mtime_ns;
    }
    !(old.task == Some(Task::Carry) && seen.size == old.size && seen.mtime_ns == old.mtime_ns)
}

/// Whether the record still holds for bytes that did not change. What was gone or excluded is to be carried again; so
/// is what failed in a listing that now succeeds.
fn is_current(old: &Record) -> bool {
    match old.state {
        State::Deleted | State::Excluded => false,
        State::Retrying | State::Quarantined => old.stage != Some(Stage::Discover),
        State::Indexed | State::Suspect | State::Pending => true,
    }
}

/// It was leaving the sink and is back: its kept text is written again where it still is the text of these bytes.
fn back_in_time(new: &mut Record, old: &Record, other_bytes: bool) {
    let kept = old.in_sink.as_ref().filter(|sink| {
        let same = !other_bytes && old.fetched && old.sha256.is_some() && sink.sha256 == old.sha256;
        // What befell a container has befallen its members: it is listed again, and they come back with it.
        // On its way to `excluded` the policy's fault has replaced what made it suspect.
        same && old.listed_whole.is_none() && (old.task == Some(Task::Delete) || sink.state == State::Indexed)
    });
    let task = kept.map_or(Task::Carry, |sink| Task::Write { state: sink.state });
    if task == Task::Carry {
        start_anew(new);
    } else if old.task == Some(Task::Exclude) {
        clear_fault(new);
    }
    queue(new, task);
}

fn gone(old: &Record) -> Option<Record> {
    if old.task == Some(Task::Delete) {
        return None;
    }
    let mut new = old.clone();
    leave(&mut new, Task::Delete, State::Deleted);
    Some(new)
}

fn rejected(old: &Record, fault: &Fault) -> Option<Record> {
    let mut new = old.clone();
    note_fault(&mut new, fault);
    leave(&mut new, Task::Exclude, State::Excluded);
    (new != *old).then_some(new)
}

/// Out of the sink first, where it is in one; else at its end at once.
fn leave(new: &mut Record, task: Task, end: State) {
    if new.in_sink.is_some() {
        queue(new, task);
    } else {
        rest(new, end);
    }
}

fn left(old: &Record) -> Option<Record> {
    let end = match old.task {
        Some(Task::Delete) => State::Deleted,
        Some(Task::Exclude) => State::Excluded,
        _ => return None,
    };
    let mut new = old.clone();
    new.in_sink = None;
    rest(&mut new, end);
    Some(new)
}

/// The bytes are those of the last time: as it stood then, with the times of now.
fn same(old: &Record, stat: Option<Stat>) -> Option<Record> {
    let mut new = old.rested.as_deref()?.clone();
    new.in_sink.clone_from(&old.in_sink);
    if let Some(stat) = stat.or(old.stat) {
        note_stat(&mut new, stat);
    }
    Some(new)
}

fn touched(old: &Record, stat: Stat) -> Option<Record> {
    if old.stat == Some(stat) {
        return None;
    }
    let mut new = old.clone();
    note_stat(&mut new, stat);
    Some(new)
}

fn started(old: &Record, at: Millis) -> Record {
    let mut new = old.clone();
    new.attempts = old.attempts.max(old.tried).saturating_add(1);
    new.tried = 0;
    new.last_attempt = Some(at);
    // Whatever was kept of an earlier attempt, this one makes its own.
    new.unsent = None;
    let task = old.task.clone().unwrap_or_else(|| task_of(&new));
    queue(&mut new, task);
    new
}

fn failed(old: &Record, fault: &Fault, settle: Settle, facts: &Facts, at: Millis) -> Record {
    let mut new = old.clone();
    note_facts(&mut new, facts);
    rest_with(&mut new, fault, Some(settle), at);
    // After a death the document stays apart until an attempt comes to a good end.
    new.alone = old.crashes > 0 && new.large.is_none();
    if fault.evidence == Evidence::default() && facts.evidence.is_some() {
        new.evidence.clone_from(&facts.evidence);
    }
    new
}

fn written(
    old: &Record,
    state: State,
    facts: &Facts,
    in_sink: &InSink,
    fault: Option<&Fault>,
    at: Millis,
) -> Option<Record> {
    if !matches!(state, State::Indexed | State::Suspect) {
        return None;
    }
    let mut new = old.clone();
    match (state, fault) {
        (State::Suspect, Some(fault)) => {
            note_fault(&mut new, fault);
            new.first_failed = old.first_failed.or(Some(at));
        }
        // Its kept text was written again: what made it suspect stands in the record.
        (State::Suspect, None) => {}
        _ => {
            let evidence = new.evidence.take().filter(|_| {
                // The fault of what was unsent is the sink's.
                matches!(old.task, Some(Task::Write { .. })) && old.unsent.is_none()
            });
            clear_fault(&mut new);
            new.evidence = evidence;
        }
    }
    note_facts(&mut new, facts);
    if fault.is_none_or(|fault| fault.evidence == Evidence::default()) && facts.evidence.is_some() {
        new.evidence.clone_from(&facts.evidence);
    }
    if old.unsent.is_some() {
        new.attempts = new.attempts.saturating_add(1);
        new.last_attempt = Some(at);
    }
    new.in_sink = Some(in_sink.clone());
    new.alone = false;
    new.crashes = 0;
    rest(&mut new, state);
    Some(new)
}

/// The record as it will be once the sink has taken what waits for it; `None` where nothing does.
pub fn once_taken(record: &Record) -> Option<Record> {
    let unsent = record.unsent.as_deref()?;
    let at = record.last_attempt.unwrap_or(record.first_seen);
    let fault = unsent.fault.as_deref();
    written(record, unsent.in_sink.state, &unsent.facts, &unsent.in_sink, fault, at)
}

/// The sink did not take its text. The attempt that made it was counted at its start; each further offer is one more.
fn not_taken(
    old: &Record,
    fault: &Fault,
    settle: Settle,
    unsent: &Unsent,
    attempted: bool,
    at: Millis,
) -> Option<Record> {
    if !is_carried(old) {
        return None;
    }
    let mut new = old.clone();
    note_facts(&mut new, &unsent.facts);
    if attempted && matches!(old.task, Some(Task::Write { .. })) {
        new.attempts = new.attempts.saturating_add(1);
    }
    new.last_attempt = Some(at);
    new.alone = false;
    new.crashes = 0;
    new.large = None;
    rest_with(&mut new, fault, Some(settle), at);
    new.unsent = (new.state == State::Retrying).then(|| {
        // The record has the times by now; those that a listing sees later are not taken back by the write.
        let facts = Facts { stat: None, ..(*unsent.facts).clone() };
        Box::new(Unsent { facts: Box::new(facts), ..unsent.clone() })
    });
    Some(new)
}

fn requeued(old: &Record) -> Record {
    let mut new = old.clone();
    start_anew(&mut new);
    queue(&mut new, Task::Carry);
    new
}

fn requeued_by_hand(old: &Record, at: Millis) -> Record {
    Record { requeued_at: Some(at), rested: None, ..requeued(old) }
}

fn due(old: &Record) -> Option<Record> {
    if old.state != State::Retrying {
        return None;
    }
    let mut new = old.clone();
    queue(&mut new, task_of(old));
    Some(new)
}

/// What is to be done with it when its time has come.
fn task_of(record: &Record) -> Task {
    match &record.unsent {
        Some(unsent) => Task::Write { state: unsent.in_sink.state },
        None if record.large.is_some() => Task::Large,
        None => Task::Carry,
    }
}

/// A breaker holds what is waiting, what was just being tried, and what failed for the reason that opened it. What has a
/// text, and waits only for the sink, is not concerned.
fn held(old: &Record, fault: &Fault, attempted: bool, at: Millis) -> Option<Record> {
    let waits = match old.state {
        State::Pending => matches!(old.task, Some(Task::Carry | Task::Large)),
        State::Retrying | State::Quarantined => old.unsent.is_none(),
        State::Indexed | State::Suspect | State::Excluded | State::Deleted => false,
    };
    if !waits {
        return None;
    }
    let mut new = old.clone();
    if attempted {
        take_back_attempt(&mut new);
    }
    rest_with(&mut new, fault, Some(Settle::Retry { next_attempt: None }), at);
    Some(new)
}

fn take_back_attempt(new: &mut Record) {
    new.attempts = new.attempts.saturating_sub(1);
    if new.attempts == 0 {
        new.last_attempt = None;
    }
}

fn unwritten(old: &Record) -> Option<Record> {
    let sink = old.in_sink.as_ref()?;
    let mut new = old.clone();
    match (old.state, &old.task) {
        (State::Indexed | State::Suspect, _) => queue(&mut new, Task::Write { state: sink.state }),
        (State::Pending, Some(Task::Write { .. })) => return None,
        // What could still be found was of an earlier success; the state speaks of the newest bytes and stands.
        _ => new.in_sink = None,
    }
    Some(new)
}

fn put_back(old: &Record) -> Option<Record> {
    if old.state != State::Pending {
        return None;
    }
    let mut new = old.clone();
    take_back_attempt(&mut new);
    Some(new)
}

fn lost(old: &Record, stage: Stage, alone: bool, settle: Settle, at: Millis) -> Option<Record> {
    if old.state != State::Pending {
        return None;
    }
    let mut new = old.clone();
    if alone {
        new.crashes = old.crashes.saturating_add(1);
    }
    let fault = Fault::new(stage, Kind::SupervisorLost, LOST);
    rest_with(&mut new, &fault, Some(settle), at);
    new.alone = new.large.is_none();
    if new.large.is_some() {
        // In the large lane nothing is beside it anyway.
        queue(&mut new, Task::Large);
    }
    Some(new)
}

/// The message of `supervisor.lost`.
pub const LOST: &str = "the supervisor died while it had this document in hand";

/// At rest with this fault, where `settle` says; a rejection needs no word on where it goes.
fn rest_with(new: &mut Record, fault: &Fault, settle: Option<Settle>, at: Millis) {
    note_fault(new, fault);
    let settle = settle.unwrap_or(match fault.class {
        Some(Class::Rejected) => Settle::Exclude,
        _ => Settle::Retry { next_attempt: None },
    });
    if settle == Settle::Exclude {
        leave(new, Task::Exclude, State::Excluded);
        return;
    }
    new.first_failed = new.first_failed.or(Some(at));
    match settle {
        Settle::Retry { next_attempt } => {
            rest(new, State::Retrying);
            new.next_attempt = next_attempt;
        }
        Settle::AtOnce => {
            rest(new, State::Retrying);
            new.next_attempt = Some(at);
        }
        Settle::Quarantine { why } => {
            rest(new, State::Quarantined);
            new.why = Some(why);
        }
        Settle::Large => {
            new.large = Some(Box::new(fault.clone()));
            queue(new, Task::Large);
        }
        // A failure put nothing into the sink, and no state is claimed before its act.
        Settle::Suspect | Settle::Exclude => {
            rest(new, State::Quarantined);
            new.why = Some(Why::Permanent);
        }
    }
}

fn is_carried(record: &Record) -> bool {
    record.state == State::Pending
        && matches!(record.task, Some(Task::Carry | Task::Large | Task::Write { .. }))
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
