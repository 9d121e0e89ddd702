//! `--require-coverage`: whether each source has as large a share of its documents indexed as was asked for.

use crate::ledger::Books;
use crate::report::style::{percent, safe};
use crate::report::{Printer, json};
use std::io;

/// Whether each has. Of those that have not it is said, behind what was printed.
///
/// # Errors
/// What was printed could not be written out.
pub(super) fn reaches(books: &Books, wanted: Option<f64>, printer: &mut Printer) -> io::Result<bool> {
    let Some(wanted) = wanted else { return Ok(true) };
    let mut reached = true;
    for source in books.sources.iter().filter(|source| json::coverage(source) < wanted) {
        printer.flush()?;
        let (name, coverage) = (safe(&source.name), percent(json::coverage(source)));
        printer.note(&format!("{name}: coverage is {coverage}, and {wanted} was asked for"));
        reached = false;
    }
    Ok(reached)
}
