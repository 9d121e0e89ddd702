//! Whose result a document can have: what extract and recognise say belongs to the content, not to the place.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::account::failed_for_good;
use super::due::{self, Present};
use super::kind::{Kind, Stage, State};
use super::versions;
use crate::ledger::{Pipeline, Record, Task};
use shared::Format;

/// What can be taken over from another record of the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Its text, with what the record says of it.
    Text,
    /// Its fault, and how often it was tried.
    Fault,
}

/// What `of` has for `whom`, whose bytes have the same hash, were found to be of `format`, and would be carried with
/// `current`.
pub fn share(
    of: &Record,
    whom: &Record,
    format: Format,
    current: &Pipeline,
    present: Present<'_>,
) -> Option<Share> {
    let same = of.id != whom.id
        && of.fetched
        && of.sha256.is_some()
        && has_format(of, format)
        // What has members is a place of its own.
        && of.listed_whole.is_none();
    if !same || !is_new_enough(of, whom) || versions::is_stale(&of.pipeline, current) {
        return None;
    }
    if of.state == State::Deleted {
        return gone(of, current, present);
    }
    if due::due(of, current, present).is_some() {
        return None;
    }
    match of.state {
        State::Indexed | State::Suspect if has_text(of) => Some(Share::Text),
        State::Pending if of.task == Some(Task::Delete) && has_text(of) => Some(Share::Text),
        State::Quarantined if is_of_content(of) => Some(Share::Fault),
        _ => None,
    }
}

/// What is gone, or was moved just now, speaks for its bytes where they failed for good.
fn gone(of: &Record, current: &Pipeline, present: Present<'_>) -> Option<Share> {
    let why = failed_for_good(of).filter(|_| is_of_content(of))?;
    let stood = Record { state: State::Quarantined, why: Some(why), ..of.clone() };
    due::due(&stood, current, present).is_none().then_some(Share::Fault)
}

/// A person wants it tried: what was made before is not asked.
fn is_new_enough(of: &Record, whom: &Record) -> bool {
    let made_after = |since| of.last_attempt.is_some_and(|at| at > since);
    whom.requeued_at.is_none_or(|since| of.same_as.is_none() && made_after(since))
        && of.requeued_at.is_none_or(made_after)
}

/// The child finds out what a compound file or a package really is, from the same bytes.
fn has_format(of: &Record, format: Format) -> bool {
    matches!(format, Format::Ole | Format::Zip) || of.format.as_deref() == Some(format.name())
}

fn has_text(of: &Record) -> bool {
    let in_sink = of.in_sink.as_ref();
    of.text.is_some() && in_sink.is_some_and(|sink| sink.sha256 == of.sha256 && sink.pipeline == of.pipeline)
}

/// A fault of extract or of what follows it, and none of ours.
fn is_of_content(of: &Record) -> bool {
    let ours = matches!(
        of.kind,
        Some(
            Kind::WorkerLost
                | Kind::SupervisorLost
                | Kind::InternalPanic
                | Kind::ExtractorBroken
                | Kind::MemoryPressure
                | Kind::SinkRejected
        )
    );
    let stage = matches!(of.stage, Some(Stage::Extract | Stage::Recognise | Stage::Normalise | Stage::Check));
    stage && !ours
}

#[cfg(test)]
#[path = "sharing_tests.rs"]
mod tests;
