//! `lazaret show`: one record with every attempt.

use super::args::{Format, ShowArgs};
use super::{Common, Exit, Outcome, open};
use crate::report::{Printer, json, show};
use jiff::tz::TimeZone;

pub(super) fn run(common: &Common, args: &ShowArgs, printer: &mut Printer) -> Outcome {
    let reader = open::ledger(common)?;
    let (source, record) = open::document(&reader, &args.doc)?;
    let history = reader.history(record.id)?;
    match args.format {
        Format::Json => printer.line(&json::line(&json::record_with_history(&source, &record, &history)))?,
        Format::Text => printer.line(&show::show(&source, &record, &history, &TimeZone::system()))?,
    }
    Ok(Exit::Completed)
}
