//! Opens the ledger for the commands that only read, and finds the document that a command names.

use super::Common;
use super::error::{Cause, CliError};
use crate::ledger::{Reader, Record, SourceId, Unresolved};
use crate::report::style::{quoted, safe};
use shared::{DocumentId, Identity};
use std::collections::BTreeMap;

/// The ledger of the state folder. Creates nothing.
pub(super) fn ledger(common: &Common) -> Result<Reader, CliError> {
    Ok(Reader::open(&common.state)?)
}

/// The names of the sources.
pub(super) fn source_names(reader: &Reader) -> Result<BTreeMap<SourceId, String>, CliError> {
    Ok(reader.sources()?.into_iter().map(|source| (source.id, source.name)).collect())
}

/// # Errors
/// No source has this name; those that there are are told.
pub(super) fn known_source(reader: &Reader, name: &str) -> Result<(), CliError> {
    let names: Vec<String> = reader.sources()?.into_iter().map(|source| source.name).collect();
    if names.iter().any(|known| known == name) {
        return Ok(());
    }
    let known: Vec<String> = names.iter().map(|name| quoted(&safe(name))).collect();
    Err(CliError::new(Cause::Usage, format!("no source is named {}", quoted(&safe(name))))
        .hint(format!("the ledger knows: {}", known.join(", "))))
}

/// The document that `doc` names, and the name of its source.
pub(super) fn document(reader: &Reader, doc: &str) -> Result<(String, Record), CliError> {
    let mut names = source_names(reader)?;
    let mut found = reader.resolve(doc)?;
    if let (Err(Unresolved::Nothing), Some((source, path))) = (&found, below_a_source(&names, doc)) {
        // The same path may be in other sources, too: only that of this one is meant.
        found = reader.resolve(&DocumentId::derive(&source, &Identity::item(path.as_bytes())).to_string())?;
    }
    let record = found.map_err(|why| unresolved(doc, why))?;
    let source = names.remove(&record.source).unwrap_or_default();
    Ok((source, record))
}

/// A file as the shell names it: the source whose folder it is in, and its path below that. Only for sources that are named
/// by their folder.
fn below_a_source(names: &BTreeMap<SourceId, String>, doc: &str) -> Option<(String, String)> {
    let file = std::path::absolute(doc).ok()?;
    // What is inside of a container is no file: only its folder has to be there.
    let folder = file.parent()?.canonicalize().ok()?;
    let file = folder.join(file.file_name()?);
    names.values().filter(|name| name.starts_with('/')).find_map(|name| {
        let path = file.strip_prefix(name).ok()?.to_str()?;
        Some((name.clone(), path.to_owned()))
    })
}

fn unresolved(doc: &str, why: Unresolved) -> CliError {
    match why {
        Unresolved::Nothing => CliError::new(Cause::Absent, format!("no document is named {}", quoted(&safe(doc))))
            .hint("DOC is an id, at least 4 digits that only one id begins with, or a path as `lazaret list` shows it"),
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
