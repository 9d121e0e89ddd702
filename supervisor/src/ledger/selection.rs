//! Which documents are meant: a filter over all of them, or `DOC` on a command line.

use super::SourceRow;
use super::reader::one;
use super::record::Record;
use super::row::{self, COLUMNS};
use crate::rules::kind::{Class, Kind, Stage, State};
use rusqlite::Connection;
use shared::DocumentId;
use std::ops::ControlFlow;

/// Which records are meant. Empty: all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub state: Option<State>,
    pub class: Option<Class>,
    pub kind: Option<Kind>,
    pub stage: Option<Stage>,
    /// By the source's name.
    pub source: Option<String>,
}

/// Why `DOC` on a command line names no one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unresolved {
    /// Nothing has this id, path or prefix.
    Nothing,
    /// Several have: id and shown path of at most 20.
    Ambiguous(Vec<(DocumentId, String)>),
}

/// The shortest prefix of an id that is taken for one, in hex digits.
const PREFIX_MIN: usize = 4;
/// How many candidates are named.
const CANDIDATES: usize = 20;
/// Up to so many documents in a state are found by the state and then sorted; beyond, all are read in order.
const SORTED_MAX: i64 = 50_000;

/// Calls `each` with the source's name and the record, by source and path, until it says stop.
pub(super) fn list(
    db: &Connection,
    sources: &[SourceRow],
    filter: &Filter,
    each: &mut dyn FnMut(&str, &Record) -> ControlFlow<()>,
) -> rusqlite::Result<()> {
    let wanted = |source: &&SourceRow| filter.source.as_ref().is_none_or(|name| *name == source.name);
    for source in sources.iter().filter(wanted) {
        let sql = query(db, filter, source.id.0)?;
        let mut statement = db.prepare_cached(&sql)?;
        let mut rows = statement.query((
            source.id.0,
            filter.state.map(State::name),
            filter.class.map(Class::name),
            filter.kind.map(Kind::name),
            filter.stage.map(Stage::name),
        ))?;
        while let Some(row) = rows.next()? {
            let stored = row::read(row)?;
            if each(&source.name, &stored.record).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// What finds the documents of one source: by the filter's own index and then sorted, or all in their order where most
/// of them are meant. Takes source, state, class, kind, stage.
fn query(db: &Connection, filter: &Filter, source: i64) -> rusqlite::Result<String> {
    let by_kind = filter.class.is_some() || filter.kind.is_some() || filter.stage.is_some();
    let index = match filter.state {
        _ if by_kind => "documents_by_kind",
        Some(state) if count(db, source, state)? <= SORTED_MAX => "documents_by_state",
        _ => "documents_by_path",
    };
    let mut conditions = String::from("source = ?1 AND (?2 IS NULL OR state = ?2)");
    if by_kind {
        conditions.push_str(" AND kind IS NOT NULL");
    }
    for (given, condition) in [
        (filter.state.is_some() && index != "documents_by_path", " AND state = ?2"),
        (filter.kind.is_some(), " AND kind = ?4"),
        (filter.class.is_some(), " AND class = ?3"),
        (filter.stage.is_some(), " AND stage = ?5"),
    ] {
        if given {
            conditions.push_str(condition);
        }
    }
    // All five parameters have to occur for the same values to fit every form of the query.
    Ok(format!(
        "SELECT {COLUMNS} FROM documents INDEXED BY {index} WHERE {conditions}
         AND (?3 IS NULL OR class = ?3) AND (?4 IS NULL OR kind = ?4) AND (?5 IS NULL OR stage = ?5)
         ORDER BY path, number"
    ))
}

fn count(db: &Connection, source: i64, state: State) -> rusqlite::Result<i64> {
    db.prepare_cached("SELECT coalesce(sum(n), 0) FROM counters WHERE source = ?1 AND state = ?2")?
        .query_row((source, state.name()), |row| row.get(0))
}

/// An exact id goes before an exact shown path before a prefix of an id.
pub(super) fn resolve(db: &Connection, doc: &str) -> rusqlite::Result<Result<Record, Unresolved>> {
    if let Some(id) = DocumentId::parse(doc)
        && let Some(record) = one(db, "id = ?1", [id.0])?
    {
        return Ok(Ok(record));
    }
    let by_path = candidates(db, "source IN (SELECT id FROM sources) AND path = ?1", [doc])?;
    if !by_path.is_empty() {
        return choose(db, by_path);
    }
    match prefix_range(doc) {
        Some((from, to)) => choose(db, candidates(db, "id BETWEEN ?1 AND ?2", (from, to))?),
        None => Ok(Err(Unresolved::Nothing)),
    }
}

fn choose(
    db: &Connection,
    candidates: Vec<(DocumentId, String)>,
) -> rusqlite::Result<Result<Record, Unresolved>> {
    match candidates.as_slice() {
        [] => Ok(Err(Unresolved::Nothing)),
        [(id, _)] => Ok(one(db, "id = ?1", [id.0])?.ok_or(Unresolved::Nothing)),
        _ => Ok(Err(Unresolved::Ambiguous(candidates))),
    }
}

fn candidates(
    db: &Connection,
    condition: &str,
    values: impl rusqlite::Params,
) -> rusqlite::Result<Vec<(DocumentId, String)>> {
    let sql = format!("SELECT id, path FROM documents WHERE {condition} ORDER BY id LIMIT {CANDIDATES}");
    let mut statement = db.prepare_cached(&sql)?;
    statement.query_map(values, |row| Ok((DocumentId(row.get(0)?), row.get(1)?)))?.collect()
}

/// The smallest and the largest id with this prefix, if it is one.
fn prefix_range(prefix: &str) -> Option<([u8; 20], [u8; 20])> {
    if !(PREFIX_MIN..=40).contains(&prefix.len()) {
        return None;
    }
    let from = DocumentId::parse(&format!("{prefix:0<40}"))?;
    let to = DocumentId::parse(&format!("{prefix:f<40}"))?;
    Some((from.0, to.0))
}
