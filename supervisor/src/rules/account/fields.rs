//! Which fields of a record speak together: where it rests, what failed, what an attempt found out. Which event calls for which of them
//! is not said here.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::ledger::{Facts, Record, Stat, Task};
use crate::rules::fault::{Evidence, Fault};
use crate::rules::kind::{Class, Stage, State, Why};

/// `pending` with this task.
pub(super) fn queue(new: &mut Record, task: Task) {
    if task != Task::Large {
        new.large = None;
    }
    if !matches!(task, Task::Write { .. }) {
        new.unsent = None;
    }
    rest(new, State::Pending);
    new.task = Some(task);
}

/// In this state with nothing to do.
pub(super) fn rest(new: &mut Record, state: State) {
    if !matches!(state, State::Pending | State::Retrying) {
        new.rested = None;
        new.large = None;
        new.tried = 0;
        new.unsent = None;
    }
    new.state = state;
    new.task = None;
    new.why = None;
    new.next_attempt = None;
}

/// As if it had never been tried. What the last attempt found stays readable: an attempt that meets the same bytes
/// again needs it.
pub(super) fn start_anew(new: &mut Record) {
    new.attempts = 0;
    new.tried = 0;
    new.crashes = 0;
    new.alone = false;
    new.large = None;
    new.first_failed = None;
}

/// Why a document that is gone would be in quarantine if it were not: its bytes gave no text and never will, as they are. One that
/// had a text has none any more, and the members of a container are gone with it.
pub(in crate::rules) fn failed_for_good(gone: &Record) -> Option<Why> {
    let of_content = gone.fetched
        && gone.text.is_none()
        && gone.listed_whole.is_none()
        && matches!(gone.stage, Some(Stage::Extract | Stage::Recognise | Stage::Normalise | Stage::Check));
    match gone.class.filter(|_| of_content && gone.state == State::Deleted)? {
        Class::Permanent => Some(Why::Permanent),
        Class::Corrupt => Some(Why::Corrupt),
        Class::Transient | Class::Rejected => None,
    }
}

pub(super) fn note_fault(new: &mut Record, fault: &Fault) {
    new.class = fault.class;
    new.kind = Some(fault.kind);
    new.stage = Some(fault.stage);
    new.message = (!fault.message.is_empty()).then(|| fault.message.clone());
    new.hostile = fault.hostile;
    new.evidence = (fault.evidence != Evidence::default()).then(|| fault.evidence.clone());
}

pub(super) fn clear_fault(new: &mut Record) {
    new.class = None;
    new.kind = None;
    new.stage = None;
    new.message = None;
    new.hostile = false;
    new.evidence = None;
    new.damage = None;
}

/// Takes over what an attempt found; what it did not find out stays. Who made the result is always of this attempt.
pub(super) fn note_facts(new: &mut Record, facts: &Facts) {
    if facts.sha256.is_some() {
        new.sha256 = facts.sha256;
        new.fetched = true;
    }
    if let Some(stat) = facts.stat {
        note_stat(new, stat);
    }
    keep_unless(&mut new.size, &facts.size);
    keep_unless(&mut new.format, &facts.format);
    keep_unless(&mut new.media_type, &facts.media_type);
    keep_unless(&mut new.text, &facts.text);
    keep_unless(&mut new.usage, &facts.usage);
    keep_unless(&mut new.damage, &facts.damage);
    keep_unless(&mut new.listed_whole, &facts.listed_whole);
    keep_unless(&mut new.listed, &facts.listed);
    if !facts.pipeline.is_empty() {
        new.pipeline.clone_from(&facts.pipeline);
    }
    new.same_as = facts.same_as;
    if facts.same_as.is_some() {
        // Another made it; nothing was tried here. The tries of a content count all the same, whoever makes the next.
        new.attempts = 0;
        new.tried = facts.tried.unwrap_or(0);
    }
}

pub(super) fn note_stat(new: &mut Record, stat: Stat) {
    new.stat = Some(stat);
    new.size = Some(stat.size);
    new.mtime_ns = Some(stat.mtime_ns);
}

pub(super) fn keep_unless<T: Clone>(old: &mut Option<T>, new: &Option<T>) {
    if new.is_some() {
        old.clone_from(new);
    }
}
