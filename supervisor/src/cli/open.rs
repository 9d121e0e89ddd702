//! Opens the ledger for the commands that only read, and finds the document that a command names.

use super::Common;
use super::error::{Cause, CliError};
use crate::ledger::{Reader, Record, SourceId, Unresolved};
use crate::report::style::{quoted, safe};
use shared::{DocumentId, Identity};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;

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
    if matches!(found, Err(Unresolved::Nothing))
        && let Some(id_or_path) = below_a_source(&names, doc)
    {
        found = reader.resolve(&id_or_path)?;
    }
    let record = found.map_err(|why| unresolved(doc, why))?;
    let source = names.remove(&record.source).unwrap_or_default();
    Ok((source, record))
}

/// Where `doc` is a file as the shell names it, or something inside of one, in a source that is named by its folder: the file's
/// id, or the path below the source's root.
fn below_a_source(names: &BTreeMap<SourceId, String>, doc: &str) -> Option<String> {
    let (file, inside) = doc.split_once("!/").map_or((doc, None), |(file, inside)| (file, Some(inside)));
    let file = std::path::absolute(file).ok()?;
    // The file itself may be gone, or be a link: its folder tells where it is.
    let file = file.parent()?.canonicalize().ok()?.join(file.file_name()?);
    names.values().filter(|name| name.starts_with('/')).find_map(|name| {
        let item = Identity::item(file.strip_prefix(name).ok()?.as_os_str().as_bytes());
        Some(match inside {
            None => DocumentId::derive(name, &item).to_string(),
            Some(inside) => format!("{}!/{inside}", item.shown()),
        })
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
    fn a_file_is_found_by_its_place_in_the_file_system() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let name = root.to_str().unwrap().to_owned();
        std::fs::create_dir(root.join("sub")).unwrap();
        let names = BTreeMap::from([(SourceId(1), "docs".to_owned()), (SourceId(2), name.clone())]);
        let id = DocumentId::derive(&name, &Identity::item(b"sub/a.zip")).to_string();
        assert_eq!(below_a_source(&names, &format!("{name}/sub/../sub/a.zip")), Some(id));
        assert_eq!(
            below_a_source(&names, &format!("{name}/sub/a.zip!/b!/c")).as_deref(),
            Some("sub/a.zip!/b!/c")
        );
        assert_eq!(below_a_source(&names, "/proc/version"), None);
        assert_eq!(below_a_source(&names, "da3f"), None);
    }

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
