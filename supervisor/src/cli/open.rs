//! Opens the ledger for the commands that only read, and finds the document that a command names.

use super::Common;
use super::error::{Cause, CliError};
use crate::ledger::{Reader, Record, SourceId, Unresolved};
use crate::report::style::{quoted, safe};
use std::collections::BTreeMap;

/// The ledger of the state folder. Creates nothing.
pub(super) fn ledger(common: &Common) -> Result<Reader, CliError> {
    Ok(Reader::open(&common.state)?)
}

/// The names of the sources.
pub(super) fn source_names(reader: &Reader) -> Result<BTreeMap<SourceId, String>, CliError> {
    Ok(reader.sources()?.into_iter().map(|source| (source.id, source.name)).collect())
}

/// The document that `doc` names, and the name of its source.
pub(super) fn document(reader: &Reader, doc: &str) -> Result<(String, Record), CliError> {
    let record = reader.resolve(doc)?.map_err(|why| unresolved(doc, why))?;
    let source = source_names(reader)?.remove(&record.source).unwrap_or_default();
    Ok((source, record))
}

fn unresolved(doc: &str, why: Unresolved) -> CliError {
    match why {
        Unresolved::Nothing => CliError::new(Cause::Absent, format!("no document is named {}", quoted(&safe(doc))))
            .hint("DOC is an id, at least 4 digits that only one id begins with, or an exact path; `lazaret list` shows all"),
        Unresolved::Ambiguous(candidates) => {
            let mut message = format!("several documents are named {}:", quoted(&safe(doc)));
            for (id, path) in candidates {
                message.push_str("\n  ");
                message.push_str(&id.to_string());
                message.push_str("  ");
                message.push_str(&safe(&path));
            }
            CliError::new(Cause::Absent, message).hint("name one of them by its id")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::{DocumentId, Identity};

    #[test]
    fn what_names_no_one_document_says_why() {
        let id = DocumentId::derive("s", &Identity::item(b"a"));
        let candidates = vec![(id, "a\u{1b}b".to_owned())];
        let error = unresolved("abcd", Unresolved::Ambiguous(candidates));
        assert_eq!(
            error.text(),
            format!(
                "error: several documents are named abcd:\n  {id}  a\\u{{1b}}b\nhint: name one of them by its id"
            )
        );
        assert_eq!(error.exit().code(), 1);
        assert!(
            unresolved("x y", Unresolved::Nothing)
                .text()
                .starts_with("error: no document is named 'x y'\nhint: ")
        );
    }
}
