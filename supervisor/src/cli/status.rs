//! `lazaret status`: the equation per source.

use super::args::{Format, StatusArgs};
use super::{Common, Exit, Outcome, open};
use crate::report::{Printer, json, status};

pub(super) fn run(common: &Common, args: &StatusArgs, printer: &mut Printer) -> Outcome {
    let reader = open::ledger(common)?;
    let books = reader.books()?;
    match args.format {
        Format::Json => printer.line(&json::line(&json::books(&books)))?,
        Format::Text => {
            let sources: Vec<_> = reader.sources()?.into_iter().map(|source| source.id).collect();
            printer.line(&status::status(&books, &reader.clusters(&sources)?))?;
        }
    }
    Ok(if books.balanced { Exit::Completed } else { Exit::Short })
}
