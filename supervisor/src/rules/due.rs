//! What has become due although its bytes stand still: something that its fault rests on has changed.
//!
//! A permanent or corrupt fault is met again by the same bytes, under the same limits, with the same version of the stage
//! that failed. So a document is due when one of these is another one, and by no clock.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::kind::{Kind, Stage, State};
use super::{policy, retry, versions};
use crate::ledger::{Pipeline, Record};
use crate::settings::Settings;
use shared::{ContentHash, Format, Limits};

/// What a record has to be held against.
#[derive(Debug, Clone, Copy)]
pub struct Present<'a> {
    pub settings: &'a Settings,
    /// Whether there is a large lane.
    pub large: bool,
}

/// The limit that text recognition has of its own, by name.
pub const PAGES: &str = "recognise.pages";

/// What has to be done with a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// To be carried again.
    Itself,
    /// To be carried in the large lane alone: under the ordinary limits it would meet the same one again.
    Large,
    /// Its container is to be listed again: it was left out there.
    Container,
}

/// Whether a document is due, and how; `current` is the pipeline that its format has today.
pub fn due(record: &Record, current: &Pipeline, present: Present<'_>) -> Option<Due> {
    let (kind, stage) = (record.kind?, record.stage?);
    match record.state {
        State::Excluded => excluded(record, kind, present),
        State::Quarantined | State::Suspect => {
            let otherwise = passwords_changed(record, kind, present.settings)
                || engine_changed(record, kind, stage, current)
                || limit_was_raised(record, Present { large: false, ..present });
            if otherwise {
                return Some(Due::Itself);
            }
            let sent = record.state == State::Quarantined && retry::met_a_limit(kind);
            limit_was_raised(record, present).then_some(if sent { Due::Large } else { Due::Itself })
        }
        _ => None,
    }
}

fn excluded(record: &Record, kind: Kind, present: Present<'_>) -> Option<Due> {
    if kind == Kind::PolicyType {
        let format = record.format.as_deref().and_then(Format::named)?;
        return policy::judge_format(format, &present.settings.policy).is_none().then_some(Due::Itself);
    }
    // An item is judged by every listing of its source.
    (record.parent.is_some() && limit_was_raised(record, present)).then_some(Due::Container)
}

fn limit_was_raised(record: &Record, present: Present<'_>) -> bool {
    let Some(limit) = record.evidence.as_ref().and_then(|evidence| evidence.limit.as_ref()) else {
        return false;
    };
    if limit.name == PAGES {
        return present.settings.recognise.pages as u64 > limit.value;
    }
    let (normal, large) = (&present.settings.limits, &present.settings.large);
    let now = match value_of(&limit.name, normal) {
        Some(now) if present.large && is_of_a_child(&limit.name) => {
            value_of(&limit.name, large).map_or(now, |large| now.max(large))
        }
        Some(now) => now,
        None => return false,
    };
    now > limit.value
}

/// Whether how a document stood before a listing saw other times still stands, now that its bytes turn out to have this hash: a
/// failure for as long as it is not due, a text for as long as it would be made like this again. What waits for its next attempt goes
/// on waiting for it, unless what failed was to have these bytes, or an extractor as a whole.
pub fn stands(rested: &Record, sha256: ContentHash, current: &Pipeline, present: Present<'_>) -> bool {
    let settled = match rested.state {
        State::Indexed | State::Suspect => !versions::is_stale(&rested.pipeline, current),
        State::Quarantined => is_of_these_bytes(rested),
        State::Retrying if rested.large.is_none() => is_of_these_bytes(rested),
        // On its way to the large lane.
        _ => rested.large.is_some(),
    };
    // What only the large lane can help goes there as it stands.
    let as_it_is = matches!(due(rested, current, present), None | Some(Due::Large));
    settled && rested.sha256 == Some(sha256) && as_it_is
}

/// Whether how it stands speaks of the bytes whose hash the record has.
fn is_of_these_bytes(rested: &Record) -> bool {
    rested.fetched && rested.kind.is_none_or(Kind::is_of_the_bytes)
}

/// Whether the large lane has more of what sent a document there than it met; always where nothing is known of that.
pub fn large_has_more(record: &Record, present: Present<'_>) -> bool {
    let met = record.large.as_ref().and_then(|fault| fault.evidence.limit.as_ref());
    let more =
        |limit: &super::fault::Limit| value_of(&limit.name, &present.settings.large) > Some(limit.value);
    present.large && met.is_none_or(more)
}

/// What a child is held to. What the supervisor counts it counts by the ordinary limits, in every lane.
fn is_of_a_child(name: &str) -> bool {
    matches!(name, "wall_ms" | "stalled_ms" | "cpu_ms" | "memory" | "output")
}

/// The value of the limit that evidence calls so, in its own unit.
pub fn value_of(name: &str, limits: &Limits) -> Option<u64> {
    Some(match name {
        "input" => limits.input,
        "fetch_ms" => limits.fetch_ms,
        "wall_ms" => limits.wall_ms,
        "stalled_ms" => limits.stalled_ms,
        "cpu_ms" => limits.cpu_ms,
        "memory" => limits.memory,
        "output" => limits.output,
        "expansion" => limits.expansion,
        "ratio" => limits.ratio,
        "depth" => limits.depth.into(),
        "entries" => limits.entries,
        _ => return None,
    })
}

fn passwords_changed(record: &Record, kind: Kind, settings: &Settings) -> bool {
    kind == Kind::ParseEncrypted
        && record.evidence.as_ref().and_then(|evidence| evidence.passwords.as_deref())
            != settings.passwords_mark().as_deref()
}

fn engine_changed(record: &Record, kind: Kind, stage: Stage, current: &Pipeline) -> bool {
    if !matches!(stage, Stage::Identify | Stage::Extract | Stage::Recognise | Stage::Normalise | Stage::Check)
    {
        return false;
    }
    let appeared = |stage| {
        record.pipeline.get(&stage).is_none_or(|made| made == versions::NONE)
            && current.get(&stage).is_some_and(|version| version != versions::NONE)
    };
    let unread = matches!(kind, Kind::FormatUnsupported | Kind::ExtractorUnavailable);
    versions::has_moved_on(&record.pipeline, current, stage)
        || (unread && stage == Stage::Identify && appeared(Stage::Extract))
}

/// Whether a policy now rejects a document that has a text: its format was taken off the list.
pub fn is_rejected(record: &Record, settings: &Settings) -> Option<super::fault::Fault> {
    let format = record.format.as_deref().and_then(Format::named)?;
    policy::judge_format(format, &settings.policy)
}

#[cfg(test)]
#[path = "due_tests.rs"]
mod tests;
