//! `lazaret retry` and `lazaret reprocess`: what a person wants to be carried again. They only append events, also beside a
//! live run; what follows is the run's.

use super::args::{ListFormat, NamesFormat, ReprocessArgs, RequeueArgs, RetryArgs};
use super::list::Lister;
use super::settings::settings;
use super::{Cause, CliError, Common, Exit, Outcome, open};
use crate::ledger::{
    Applied, Change, Durability, Event, Filter, Ledger, LedgerHandle, Millis, Reader, Record, SourceId,
};
use crate::path::engines::Engines;
use crate::report::style::{count, grouped};
use crate::report::{Printer, json};
use crate::rules::kind::State;
use crate::rules::versions::is_stale;
use jiff::Timestamp;
use serde_json::json;
use shared::{DocumentId, Format};
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

/// Events of one transaction, and records that are looked at in one go.
const BATCH: usize = 1000;

/// What a person's word can bring back where no rule would.
const FAILED: [State; 3] = [State::Retrying, State::Quarantined, State::Suspect];
/// Everything that has bytes to be carried.
const CARRIED: [State; 5] =
    [State::Indexed, State::Suspect, State::Retrying, State::Quarantined, State::Pending];

pub(super) fn retry(common: &Common, args: &RetryArgs, printer: &mut Printer) -> Outcome {
    run(common, &args.requeue, &Wanted { states: &FAILED, stale: false, command: "retry" }, printer)
}

pub(super) fn reprocess(common: &Common, args: &ReprocessArgs, printer: &mut Printer) -> Outcome {
    let wanted = Wanted { states: &CARRIED, stale: args.stale, command: "reprocess" };
    run(common, &args.requeue, &wanted, printer)
}

/// What one of the two commands is after.
struct Wanted<'a> {
    states: &'a [State],
    /// Only what was made under a version that is no longer current.
    stale: bool,
    command: &'a str,
}

fn run(common: &Common, args: &RequeueArgs, wanted: &Wanted<'_>, printer: &mut Printer) -> Outcome {
    if !args.filter.is_given() && !wanted.stale && !args.all && !args.dry_run {
        let command = wanted.command;
        return Err(CliError::new(
            Cause::Usage,
            format!("`{command}` without a filter concerns all documents"),
        )
        .hint(format!(
            "say which (`lazaret {command} --help`), or `--all`; `--dry-run` tells what it would do"
        )));
    }
    if let Some(state) = args.filter.state_is
        && !wanted.states.contains(&state)
    {
        let states: Vec<&str> = wanted.states.iter().map(|state| state.name()).collect();
        let message =
            format!("`{}` concerns what is {}, never what is {state}", wanted.command, states.join(" or "));
        return Err(CliError::new(Cause::Usage, message));
    }
    let ledger = if args.dry_run { None } else { Some(Ledger::attach(&common.state)?) };
    let outcome = with(common, args, wanted, ledger.as_ref(), printer);
    let beside = ledger.as_ref().is_some_and(Ledger::is_beside);
    if let Some(ledger) = ledger {
        ledger.close()?;
    }
    let counted = outcome?;
    told(&counted, args, beside, printer)?;
    Ok(Exit::Completed)
}

fn with(
    common: &Common,
    args: &RequeueArgs,
    wanted: &Wanted<'_>,
    ledger: Option<&Ledger>,
    printer: &mut Printer,
) -> Result<Counted, CliError> {
    let reader = open::ledger(common)?;
    let mut filter = args.filter.filter(&reader)?;
    filter.among = wanted.states.to_vec();
    let format = match args.format {
        NamesFormat::Text => ListFormat::Table,
        NamesFormat::Jsonl => ListFormat::Jsonl,
    };
    let mut requeue = Requeue {
        reader: &reader,
        names: open::source_names(&reader)?,
        now: Timestamp::now().as_millisecond(),
        out: match ledger {
            Some(ledger) => Out::Append { handle: ledger.handle(), events: Vec::new() },
            None => Out::Name(Lister::new(format, printer)),
        },
        makers: HashSet::new(),
        counted: Counted::default(),
    };
    let engines = if wanted.stale { Some(engines(common)?) } else { None };
    requeue.all(&filter, engines.as_ref())?;
    requeue.end()
}

/// The engines that a run under these settings would use.
fn engines(common: &Common) -> Result<Engines, CliError> {
    let settings = settings(common)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::of(Cause::Structural, &error))?;
    let engines = runtime.block_on(Engines::find(&settings));
    Ok(engines.map_err(crate::run::RunError::from)?)
}

/// How many there were.
#[derive(Debug, Default)]
struct Counted {
    /// In all.
    requeued: u64,
    /// Of them: only because they share a result with one that was meant.
    shared: u64,
    /// Changed by a live run while they were looked at.
    moved_on: u64,
}

/// Where what is found goes.
enum Out<'a> {
    Append { handle: LedgerHandle, events: Vec<Event> },
    Name(Lister<'a>),
}

struct Requeue<'a> {
    reader: &'a Reader,
    names: BTreeMap<SourceId, String>,
    now: Millis,
    out: Out<'a>,
    /// Those whose results were shared: all that share them have been requeued.
    makers: HashSet<DocumentId>,
    counted: Counted,
}

impl Requeue<'_> {
    fn all(&mut self, filter: &Filter, engines: Option<&Engines>) -> Result<(), CliError> {
        let reader = self.reader;
        let mut walk = reader.walk(filter)?;
        loop {
            let page = reader.next(filter, &mut walk, BATCH)?;
            if page.is_empty() {
                return Ok(());
            }
            for record in page {
                let is_meant = engines.is_none_or(|engines| was_made_otherwise(&record, engines));
                if can_be_carried(&record) && is_meant {
                    self.with_its_kin(&record)?;
                }
            }
        }
    }

    /// A document, and all that share its result: what is due for one of them is due for all.
    fn with_its_kin(&mut self, record: &Record) -> Result<(), CliError> {
        let maker = record.maker();
        if self.makers.contains(&maker) {
            return Ok(());
        }
        if record.same_as.is_none() && !self.reader.made_others(record.id)? {
            return self.one(record);
        }
        self.makers.insert(maker);
        let reader = self.reader;
        let mut failed = None;
        reader.sharing(record, &mut |kin| {
            if !can_be_carried(kin) {
                return ControlFlow::Continue(());
            }
            self.counted.shared += u64::from(kin.id != record.id);
            match self.one(kin) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    fn one(&mut self, record: &Record) -> Result<(), CliError> {
        self.counted.requeued += 1;
        match &mut self.out {
            Out::Name(lister) => {
                let source = self.names.get(&record.source).map_or("", String::as_str);
                Ok(lister.document(source, record)?)
            }
            Out::Append { events, .. } => {
                let change = Change::RequeuedByHand;
                // Where a live run has moved it on, the person's word was about something else.
                events.push(Event { doc: record.id, expects: Some(record.revision), at: self.now, change });
                if events.len() < BATCH { Ok(()) } else { self.append() }
            }
        }
    }

    fn append(&mut self) -> Result<(), CliError> {
        let Out::Append { handle, events } = &mut self.out else { return Ok(()) };
        let applied = handle.append_blocking(std::mem::take(events), Durability::Synced)?;
        let overtaken =
            applied.iter().filter(|applied| matches!(applied, Applied::Overtaken(_))).count() as u64;
        self.counted.requeued -= overtaken;
        self.counted.moved_on += overtaken;
        Ok(())
    }

    fn end(mut self) -> Result<Counted, CliError> {
        self.append()?;
        if let Out::Name(lister) = &mut self.out {
            lister.end()?;
        }
        Ok(self.counted)
    }
}

/// Not what is leaving, what a policy keeps out, or the record of a directory or a name that could not be read, which only
/// a listing settles.
fn can_be_carried(record: &Record) -> bool {
    CARRIED.contains(&record.state)
        && !record.is_leaving()
        && (record.parent.is_some() || record.stat.is_some())
}

/// Whether the result that stands was made under a version that is no longer current.
fn was_made_otherwise(record: &Record, engines: &Engines) -> bool {
    let Some(format) = record.format.as_deref().and_then(Format::named) else { return false };
    let made = match (record.state, &record.in_sink) {
        (State::Indexed | State::Suspect, Some(in_sink)) => &in_sink.pipeline,
        _ => &record.pipeline,
    };
    is_stale(made, &engines.pipeline(format))
}

fn told(counted: &Counted, args: &RequeueArgs, beside: bool, printer: &mut Printer) -> Result<(), CliError> {
    let Counted { requeued, shared, moved_on } = *counted;
    if args.format == NamesFormat::Jsonl {
        if !args.dry_run {
            let counts = json!({"requeued": requeued, "shared": shared, "moved_on": moved_on});
            printer.line(&json::line(&counts))?;
        }
        return Ok(());
    }
    let mut line = count(requeued, "document", "documents");
    line.push_str(if args.dry_run { " would be requeued" } else { " requeued" });
    if shared > 0 {
        line.push_str(&for_sharing(shared));
    }
    if moved_on > 0 {
        line.push_str(&["; ", &grouped(moved_on), " had moved on meanwhile"].concat());
    }
    if requeued > 0 && !args.dry_run {
        line.push_str(if beside { "; the run that is on takes " } else { "; the next `lazaret run` takes " });
        line.push_str(if requeued == 1 { "it" } else { "them" });
    }
    printer.line(&line)?;
    Ok(())
}

fn for_sharing(shared: u64) -> String {
    format!(", {} of them for sharing a result with one that is meant", grouped(shared))
}
