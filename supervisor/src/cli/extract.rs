//! `lazaret extract`: one document through the same path and cage as in a run, and nothing stored.

use super::args::{ExtractArgs, Format};
use super::settings::settings;
use super::{Cause, CliError, Common, Exit, Outcome, threads};
use crate::ledger::{Change, Event, Facts, InSink, Record, Seen, SourceId};
use crate::path::bytes::Outermost;
use crate::path::{Came, Carried, Errand, Means, Place, Room, Trip, carry};
use crate::pool::Pool;
use crate::report::style::{quoted, safe};
use crate::report::{Printer, json};
use crate::rules::account::{Verdict, apply};
use crate::rules::budget::Budget;
use crate::rules::fault::Fault;
use crate::rules::kind::{Class, Stage, State, Why};
use crate::rules::retry::Lane;
use crate::run::Machine;
use crate::run::desk::now;
use crate::settings::Settings;
use serde_json::{Value, json as object};
use shared::{ContentHash, DocumentId, Identity};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) fn run(common: &Common, args: &ExtractArgs, printer: &mut Printer) -> Outcome {
    let settings = settings(common)?;
    let file = args.file.canonicalize().map_err(|error| missing(&args.file, &error))?;
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        return Err(CliError::new(
            Cause::Usage,
            format!("{} is no file", safe(&args.file.display().to_string())),
        ));
    };
    let found = file.metadata().map_err(|error| missing(&args.file, &error))?;
    if found.is_dir() {
        let shown = safe(&args.file.display().to_string());
        return Err(CliError::new(Cause::Usage, format!("{shown} is a folder"))
            .hint(format!("`lazaret run {}` ingests all that is in it", quoted(&shown))));
    }
    let size = found.len();
    let runtime = threads::runtime()?;
    let (source, identity) = (folder.to_string_lossy().into_owned(), Identity::item(name.as_bytes()));
    let record = first(&source, identity);
    let (record, carried) = runtime.block_on(through(settings, folder.to_owned(), record, size))?;
    runtime.shutdown_background();
    told(args.format, &source, record, carried, printer)
}

fn missing(path: &Path, error: &std::io::Error) -> CliError {
    CliError::new(Cause::Usage, format!("cannot read {}: {error}", safe(&path.display().to_string())))
}

/// A record as a listing would make it.
fn first(source: &str, identity: Identity) -> Record {
    let doc = DocumentId::derive(source, &identity);
    let seen = Seen::named(SourceId(0), identity);
    let seen = Event { doc, expects: Some(0), at: now(), change: Change::Seen(Box::new(seen)) };
    match apply(None, &seen) {
        Verdict::Changed(record) => *record,
        Verdict::Overtaken => unreachable!("a first sight always makes a record"),
    }
}

async fn through(
    settings: Settings,
    root: PathBuf,
    record: Record,
    file_size: u64,
) -> Result<(Record, Carried), CliError> {
    let pool = Pool::start(&settings.cage, 1).await?;
    let budget = Budget::new(file_size, &settings.limits);
    let machine = Machine::look();
    let room = Room { spool: std::env::temp_dir(), memory_cap: machine.total / 4, large: false };
    let means = Means::new(settings, pool, room, None).await.map_err(crate::run::RunError::from)?;
    let path = record.identity.0.first().map(|level| level.name.clone()).unwrap_or_default();
    let record = step(&record, Change::Started { stage: Stage::Fetch, alone: false });
    let outermost = Outermost::new(Arc::new(root), &path);
    let trip = Trip { errand: Errand::Carry, lane: Lane::Normal, budget, outermost };
    let carried = carry(&means, &record, &Place::Item, trip).await;
    Ok((record, carried))
}

fn step(record: &Record, change: Change) -> Record {
    let event = Event { doc: record.id, expects: None, at: now(), change };
    match apply(Some(record), &event) {
        Verdict::Changed(record) => *record,
        Verdict::Overtaken => record.clone(),
    }
}

fn told(format: Format, source: &str, record: Record, carried: Carried, printer: &mut Printer) -> Outcome {
    let Carried { facts, came, members, .. } = carried;
    let members: Vec<Value> = members
        .iter()
        .map(|member| {
            let identity = record.identity.member(&member.head.name, member.occurrence);
            object!({
                "path": identity.shown(),
                "size": member.bytes.size(),
                "sha256": member.bytes.sha256.to_string(),
                "message": member.refusal.as_ref().map(|refusal| refusal.message.clone()),
            })
        })
        .collect();
    let (record, content) = match came {
        Came::Broken(error) => return Err(CliError::of(Cause::Structural, &error)),
        Came::Failed(fault) | Came::Held(fault) => (failed(&record, fault, facts), None),
        Came::Same => (record, None),
        Came::Text(product) => {
            let in_sink = InSink {
                sink: String::new(),
                sha256: facts.sha256,
                pipeline: facts.pipeline.clone(),
                text: ContentHash::of(product.text.as_bytes()),
                state: product.state,
            };
            let fault = product.fault.map(Box::new);
            let change = Change::Written { state: product.state, facts: Box::new(facts), in_sink, fault };
            (Record { in_sink: None, ..step(&record, change) }, Some(product.text))
        }
    };
    let found = content.as_deref().is_some_and(|text| !text.trim().is_empty());
    match format {
        Format::Json => {
            let mut value = json::record(source, &record);
            if let Value::Object(object) = &mut value {
                object.insert("content".to_owned(), content.as_deref().into());
                object.insert("members".to_owned(), members.into());
            }
            printer.line(&json::line(&value))?;
        }
        Format::Text => {
            printer.document(content.as_deref().unwrap_or_default())?;
            if record.state != State::Indexed {
                printer.note(&why(&record));
            }
        }
    }
    Ok(if found { Exit::Completed } else { Exit::Short })
}

/// As the run would settle it, if it had only this one attempt.
fn failed(record: &Record, fault: Fault, facts: Facts) -> Record {
    if fault.class == Some(Class::Rejected) {
        return step(record, Change::Rejected { fault: Box::new(fault) });
    }
    let settle = match fault.class {
        Some(Class::Transient) => crate::ledger::Settle::Retry { next_attempt: None },
        Some(Class::Corrupt) => crate::ledger::Settle::Quarantine { why: Why::Corrupt },
        _ => crate::ledger::Settle::Quarantine { why: Why::Permanent },
    };
    step(record, Change::Failed { fault: Box::new(fault), settle, facts: Box::new(facts) })
}

fn why(record: &Record) -> String {
    let kind = record.kind.map_or("", |kind| kind.name());
    let message = record.message.as_deref().unwrap_or_default();
    safe(&format!("{}: {} {kind}: {message}", record.identity.shown(), record.state))
}
