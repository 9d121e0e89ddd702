//! `lazaret status`: the equation per source, and what is to be known of failures, breakers and the last run.

use super::args::{Format, StatusArgs};
use super::{CliError, Common, Exit, Outcome, coverage, open};
use crate::ledger::Reader;
use crate::report::status::{BreakerView, Overview, status};
use crate::report::{Printer, json};
use crate::rules::breaker::{Breaker, Scope};
use jiff::Timestamp;
use jiff::tz::TimeZone;

pub(super) fn run(common: &Common, args: &StatusArgs, printer: &mut Printer) -> Outcome {
    let overview = overview(&open::ledger(common)?, args.format)?;
    match args.format {
        Format::Json => printer.line(&json::line(&json::overview(&overview)))?,
        Format::Text => printer.line(&status(&overview, &TimeZone::system()))?,
    }
    let is_covered = coverage::reaches(&overview.books, args.require_coverage, printer)?;
    Ok(if overview.books.balanced && is_covered { Exit::Completed } else { Exit::Short })
}

fn overview(reader: &Reader, format: Format) -> Result<Overview, CliError> {
    let now = Timestamp::now().as_millisecond();
    let sources = reader.sources()?;
    let ids: Vec<_> = sources.iter().map(|source| source.id).collect();
    let mut standings = reader.standings(now)?;
    let standings = sources
        .into_iter()
        .map(|source| (source.name, standings.remove(&source.id).unwrap_or_default()))
        .collect();
    Ok(Overview {
        books: reader.books()?,
        clusters: if format == Format::Text { reader.clusters(&ids)? } else { Vec::new() },
        standings,
        breakers: reader.breakers()?.into_iter().map(view).collect(),
        last_run: reader.last_run()?,
        now,
    })
}

/// Only what is open stands in the ledger.
fn view((scope, name, breaker): (Scope, String, Breaker)) -> BreakerView {
    BreakerView {
        scope: scope.name().to_owned(),
        name,
        state: "open".to_owned(),
        kind: Some(breaker.kind.name().to_owned()),
        message: Some(breaker.message),
        since: Some(breaker.since),
        next_probe: Some(breaker.next_probe),
        failures: breaker.failures,
    }
}
