//! Finds what has become due although its bytes stand still: by another version of the stage that failed, by a raised limit, by
//! other passwords, by a policy that thinks otherwise.
//!
//! All records at rest of a source are looked at, page by page, but only where something that they could depend on differs from
//! what it was when they were last looked at: whatever has failed since then has failed under what holds now.

use super::RunError;
use super::desk::Desk;
use crate::ledger::{Change, Event, Facts, Pipeline, Record, Settle, SourceId};
use crate::rules::due::{self, Due};
use crate::rules::kind::{Kind, State};
use shared::{ContentHash, Format};
use std::collections::HashSet;
use std::fmt::Write as _;

/// How many records are looked at in one go.
const PAGE: usize = 512;

/// Records as due what has become due in this source. Gives how many documents.
pub(super) async fn fall_due(desk: &Desk, source: SourceId) -> Result<usize, RunError> {
    let (everything, types) = marks(desk);
    let mut found = 0;
    if changed(desk, source, "due", everything).await? {
        for state in [State::Quarantined, State::Suspect, State::Excluded] {
            found += each(desk, source, state, &|record| event(desk, record)).await?;
        }
        found += each(desk, source, State::Retrying, &|record| waiting(desk, record)).await?;
        desk.ledger.note(&name(source, "due"), everything).await?;
    }
    if changed(desk, source, "types", types).await? {
        for state in [State::Indexed, State::Suspect] {
            found += each(desk, source, state, &|record| rejection(desk, record)).await?;
        }
        desk.ledger.note(&name(source, "types"), types).await?;
    }
    Ok(found)
}

fn name(source: SourceId, what: &str) -> String {
    format!("{what} of source {}", source.0)
}

async fn changed(desk: &Desk, source: SourceId, what: &str, mark: i64) -> Result<bool, RunError> {
    let name = name(source, what);
    Ok(desk.readers.with(move |reader| reader.note(&name)).await? != Some(mark))
}

async fn each(
    desk: &Desk,
    source: SourceId,
    state: State,
    event: &(dyn Fn(&Record) -> Option<Event> + Sync),
) -> Result<usize, RunError> {
    let (mut after, mut found) = (0, 0);
    loop {
        let page = desk.readers.with(move |reader| reader.in_state(source, state, after, PAGE)).await?;
        let Some((last, _)) = page.last() else { return Ok(found) };
        after = *last;
        let mut seen = HashSet::new();
        let events: Vec<_> = page
            .iter()
            .filter_map(|(_, record)| event(record))
            .filter(|event| seen.insert(event.doc))
            .collect();
        found += desk.record(events).await?.len();
    }
}

/// What makes this record due, if anything does.
pub(super) fn event(desk: &Desk, record: &Record) -> Option<Event> {
    // A member that its container left out or would not give up was never looked at: it has no format.
    let format = record.format.as_deref().and_then(Format::named);
    let current = format.map_or_else(Pipeline::new, |format| desk.means.engines.pipeline(format));
    match due::due(record, &current, desk.means.present())? {
        Due::Itself => Some(desk.event(record.id, Some(record.revision), Change::Requeued)),
        Due::Large => {
            let facts = Facts { same_as: record.same_as, tried: Some(record.tried), ..Facts::default() };
            let (fault, facts) = (Box::new(record.fault()?), Box::new(facts));
            let change = Change::Failed { fault, settle: Settle::Large, facts };
            Some(desk.event(record.id, Some(record.revision), change))
        }
        Due::Container => Some(desk.event(record.parent?, None, Change::Requeued)),
    }
}

/// What waits for an extractor may have another by now, or one more behind it. Where it has not, it waits on and no attempt is
/// counted. Who has to be tried alone had its turn at the start of the run, and would be left behind now: it waits for the probe.
fn waiting(desk: &Desk, record: &Record) -> Option<Event> {
    let waits = record.kind == Some(Kind::ExtractorBroken) && !record.alone;
    waits.then(|| desk.event(record.id, Some(record.revision), Change::Due))
}

fn rejection(desk: &Desk, record: &Record) -> Option<Event> {
    let fault = due::is_rejected(record, &desk.means.settings)?;
    let change = Change::Rejected { fault: Box::new(fault) };
    Some(desk.event(record.id, Some(record.revision), change))
}

/// One number each for all that a fault can depend on, and for the formats that are let in.
fn marks(desk: &Desk) -> (i64, i64) {
    let settings = &desk.means.settings;
    let mut words = String::new();
    for &format in Format::ALL {
        let pipeline = desk.means.engines.pipeline(format);
        write!(words, "{}={pipeline:?};", format.name()).expect("a String takes everything");
    }
    let large = desk.means.large.then_some(&settings.large);
    let types = format!("{:?}", settings.policy.types);
    let pages = settings.recognise.pages;
    write!(words, "{:?};{large:?};{:?};{types};{pages}", settings.limits, settings.passwords_mark())
        .expect("a String takes everything");
    (mark(&words), mark(&types))
}

fn mark(words: &str) -> i64 {
    let ContentHash(hash) = ContentHash::of(words.as_bytes());
    let (eight, _) = hash.split_first_chunk().expect("a hash has 32 bytes");
    i64::from_le_bytes(*eight)
}
