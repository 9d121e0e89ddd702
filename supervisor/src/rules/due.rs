//! What has become due although its bytes stand still: something that its fault rests on has changed.
//!
//! A permanent or corrupt fault is met again by the same bytes, under the same limits, with the same version of the stage
//! that failed. So a document is due when one of these is another one, and by no clock.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use super::kind::{Kind, Stage, State};
use super::{policy, versions};
use crate::ledger::{Pipeline, Record};
use crate::settings::Settings;
use shared::{Format, Limits};

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
    /// Its container is to be listed again: it was left out there.
    Container,
}

/// Whether a document is due, and how; `current` is the pipeline that its format has today.
pub fn due(record: &Record, current: &Pipeline, present: Present<'_>) -> Option<Due> {
    let (kind, stage) = (record.kind?, record.stage?);
    match record.state {
        State::Excluded => excluded(record, kind, present),
        State::Quarantined | State::Suspect => {
            let moved = limit_was_raised(record, present)
                || passwords_changed(record, kind, present.settings)
                || engine_changed(record, kind, stage, current);
            moved.then_some(Due::Itself)
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
        Some(now) if present.large => value_of(&limit.name, large).map_or(now, |large| now.max(large)),
        Some(now) => now,
        None => return false,
    };
    now > limit.value
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
