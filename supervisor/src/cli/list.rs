//! `lazaret list`: the documents, by source and path, tombstones included.

use super::args::{ListArgs, ListFormat};
use super::{Common, Exit, Outcome, open};
use crate::ledger::Record;
use crate::report::{Printer, csv, json, table};
use std::io;
use std::ops::ControlFlow;

pub(super) fn run(common: &Common, args: &ListArgs, printer: &mut Printer) -> Outcome {
    let reader = open::ledger(common)?;
    let filter = args.filter.filter(&reader)?;
    let mut lister = Lister::new(args.format, printer);
    lister.begin()?;
    let mut failed = None;
    let mut left = args.limit.unwrap_or(u64::MAX);
    if left == 0 {
        return Ok(lister.end().map(|()| Exit::Completed)?);
    }
    reader.list(&filter, &mut |source, record| match lister.document(source, record) {
        Ok(()) => {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(()), Err)?;
    lister.end()?;
    Ok(Exit::Completed)
}

/// Prints documents as they come.
pub(super) struct Lister<'a> {
    format: ListFormat,
    printer: &'a mut Printer,
    /// Of the table, not yet printed.
    rows: Vec<Record>,
    first: bool,
}

impl<'a> Lister<'a> {
    pub(super) fn new(format: ListFormat, printer: &'a mut Printer) -> Self {
        Lister { format, printer, rows: Vec::new(), first: true }
    }

    pub(super) fn begin(&mut self) -> io::Result<()> {
        match self.format {
            ListFormat::Csv => self.printer.line(&csv::header(json::COLUMNS)?),
            ListFormat::Table | ListFormat::Jsonl => Ok(()),
        }
    }

    pub(super) fn document(&mut self, source: &str, record: &Record) -> io::Result<()> {
        match self.format {
            ListFormat::Jsonl => self.printer.line(&json::line(&json::record(source, record))),
            ListFormat::Csv => self.printer.line(&csv::object(json::COLUMNS, &json::record(source, record))?),
            ListFormat::Table => {
                self.rows.push(record.clone());
                if self.rows.len() < table::PIECE { Ok(()) } else { self.piece() }
            }
        }
    }

    pub(super) fn end(&mut self) -> io::Result<()> {
        match self.format {
            ListFormat::Table if self.rows.is_empty() && self.first => {
                self.printer.note("no document");
                Ok(())
            }
            ListFormat::Table if !self.rows.is_empty() => self.piece(),
            ListFormat::Table | ListFormat::Jsonl | ListFormat::Csv => Ok(()),
        }
    }

    fn piece(&mut self) -> io::Result<()> {
        let piece = table::documents(&self.rows, self.first);
        self.rows.clear();
        self.first = false;
        self.printer.line(&piece)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Kept;
    use super::*;
    use crate::report::json::tests::sample;

    fn listed(format: ListFormat, documents: usize) -> (String, String) {
        let (out, err) = (Kept::default(), Kept::default());
        let mut printer = Printer::to(Box::new(out.clone()), Box::new(err.clone()));
        let mut lister = Lister::new(format, &mut printer);
        lister.begin().unwrap();
        (0..documents).for_each(|_| lister.document("docs", &sample()).unwrap());
        lister.end().unwrap();
        (out.text(), err.text())
    }

    #[test]
    fn a_table_comes_in_pieces_under_one_header() {
        let (out, _) = listed(ListFormat::Table, table::PIECE + 1);
        assert_eq!(out.lines().count(), table::PIECE + 2);
        assert_eq!(out.matches("MESSAGE").count(), 1);
        assert_eq!(listed(ListFormat::Table, 0), (String::new(), "no document\n".to_owned()));
    }

    #[test]
    fn programs_get_a_line_a_document_and_nothing_else() {
        assert_eq!(listed(ListFormat::Jsonl, 0).0, "");
        let (out, _) = listed(ListFormat::Jsonl, 2);
        assert!(out.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
        let (out, _) = listed(ListFormat::Csv, 1);
        assert!(out.starts_with("id,source,path,path_bytes,"));
        assert_eq!(out.lines().count(), 2);
    }
}
