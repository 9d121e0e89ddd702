//! Documents as a table for people. Long listings come in pieces of equal shape, so that none is held in memory whole.

use super::style;
use crate::ledger::Record;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};

/// So many rows make one piece.
pub const PIECE: usize = 500;
/// Characters of an id that are shown.
pub const ID_SHOWN: usize = 8;
const MESSAGE_SHOWN: usize = 100;

/// A piece of the table, the first one with its header. Nothing is wrapped or filled up behind the path, so that it can be
/// copied from a narrow terminal, too.
pub fn documents(rows: &[Record], first: bool) -> String {
    let mut table = plain();
    if first {
        table.set_header(["ID", "STATE", "KIND", "PATH: MESSAGE"]);
    }
    for record in rows {
        let id: String = record.id.to_string().chars().take(ID_SHOWN).collect();
        let kind = record.kind.map_or("", |kind| kind.name());
        let mut path = style::safe(&record.identity.shown());
        if let Some(message) = &record.message {
            path.push_str(": ");
            path.push_str(&style::short(message, MESSAGE_SHOWN));
        }
        table.add_row([id, record.state.name().to_owned(), kind.to_owned(), path]);
    }
    for (index, fixed) in [(0, 10), (1, 13), (2, 25)] {
        if let Some(column) = table.column_mut(index) {
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(fixed)));
        }
    }
    trimmed(&table)
}

/// A table without lines.
pub(super) fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.force_no_tty();
    table
}

pub(super) fn trimmed(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json::tests::sample;

    #[test]
    fn a_table_is_safe_to_look_at() {
        let mut record = sample();
        record.identity = shared::Identity::item("a\u{1b}[2J.pdf".as_bytes());
        let table = documents(&[record.clone()], true);
        let mut lines = table.lines();
        assert!(lines.next().unwrap().trim_start().starts_with("ID"), "{table}");
        let row = lines.next().unwrap();
        for part in [
            record.id.to_string().get(..8).unwrap(),
            "quarantined",
            "crash.segv",
            "a\\u{1b}[2J.pdf",
            "SIGSEGV",
        ] {
            assert!(row.contains(part), "{row}");
        }
        assert_eq!(documents(&[record], false).lines().count(), 1);
    }
}
