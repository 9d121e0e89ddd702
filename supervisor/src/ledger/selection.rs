//! Which documents are meant: a filter over all of them, or `DOC` on a command line.

use super::SourceRow;
use super::reader::one;
use super::record::{Millis, Record};
use super::row::{self, COLUMNS};
use crate::rules::kind::{Class, Damage, Kind, Stage, State, Why};
use globset::GlobMatcher;
use rusqlite::{Connection, params_from_iter};
use shared::DocumentId;
use std::ops::ControlFlow;

/// Which records are meant: those for which all that is given holds. Nothing given: all.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub state: Option<State>,
    /// Only documents in one of these states; empty: in any.
    pub among: Vec<State>,
    pub why: Option<Why>,
    pub class: Option<Class>,
    pub kind: Option<Kind>,
    pub stage: Option<Stage>,
    /// By the source's name.
    pub source: Option<String>,
    /// Matches the path as shown.
    pub path: Option<GlobMatcher>,
    /// By the name in [`shared::Format`].
    pub format: Option<String>,
    /// Made under a version of this stage that begins with this text; each of them holds.
    pub versions: Vec<(Stage, String)>,
    /// The last attempt, or the first sight where there was none, is not before this.
    pub since: Option<Millis>,
    pub first_failed_before: Option<Millis>,
    /// Only hostile ones.
    pub hostile: bool,
    pub damage: Option<Damage>,
    pub fingerprint: Option<String>,
    /// By name: `EACCES`.
    pub errno: Option<String>,
    /// In bytes, this one included.
    pub min_size: Option<u64>,
    /// In bytes, this one included.
    pub max_size: Option<u64>,
    /// The first and the last id, see [`id_range`].
    pub ids: Option<(DocumentId, DocumentId)>,
}

impl Filter {
    /// Whether this record is meant, its source aside.
    pub fn matches(&self, record: &Record) -> bool {
        let evidence = record.evidence.as_ref();
        given(self.state, |state| record.state == state)
            && (self.among.is_empty() || self.among.contains(&record.state))
            && given(self.why, |why| record.why == Some(why))
            && given(self.class, |class| record.class == Some(class))
            && given(self.kind, |kind| record.kind == Some(kind))
            && given(self.stage, |stage| record.stage == Some(stage))
            && given(self.format.as_deref(), |format| record.format.as_deref() == Some(format))
            && self.versions.iter().all(|(stage, text)| {
                record.pipeline.get(stage).is_some_and(|version| version.starts_with(text.as_str()))
            })
            && given(self.since, |since| record.last_attempt.unwrap_or(record.first_seen) >= since)
            && given(self.first_failed_before, |time| record.first_failed.is_some_and(|at| at < time))
            && (!self.hostile || record.hostile)
            && given(self.damage, |damage| record.damage == Some(damage))
            && given(self.fingerprint.as_ref(), |hex| {
                evidence.and_then(|evidence| evidence.fingerprint.as_ref()) == Some(hex)
            })
            && given(self.errno.as_ref(), |name| {
                evidence.and_then(|evidence| evidence.errno.as_ref()) == Some(name)
            })
            && given(self.min_size, |least| record.size.is_some_and(|size| size >= least))
            && given(self.max_size, |most| record.size.is_some_and(|size| size <= most))
            && given(self.ids, |(first, last)| (first..=last).contains(&record.id))
            && given(self.path.as_ref(), |glob| glob.is_match(record.identity.shown()))
    }

    fn is_of(&self, source: &SourceRow) -> bool {
        self.source.as_ref().is_none_or(|name| *name == source.name)
    }

    /// The states that are meant; empty: all.
    fn states(&self) -> Vec<State> {
        self.state.map_or_else(|| self.among.clone(), |state| vec![state])
    }
}

fn given<T>(wanted: Option<T>, holds: impl FnOnce(T) -> bool) -> bool {
    wanted.is_none_or(holds)
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
/// Up to so many documents are found by an index and then sorted; beyond, all are read in order.
const SORTED_MAX: usize = if cfg!(test) { 10 } else { 50_000 };

/// Calls `each` with the source's name and the record, by source and path, until it says stop.
pub(super) fn list(
    db: &Connection,
    sources: &[SourceRow],
    filter: &Filter,
    each: &mut dyn FnMut(&str, &Record) -> ControlFlow<()>,
) -> rusqlite::Result<()> {
    for source in sources.iter().filter(|source| filter.is_of(source)) {
        let mut each = |record: &Record| each(&source.name, record);
        let flow = match few(db, filter, source.id.0)? {
            Some(few) => by_number(db, filter, few.iter().map(|(_, number)| *number), &mut each)?,
            None => by_path(db, filter, source.id.0, &mut each)?,
        };
        if flow.is_break() {
            break;
        }
    }
    Ok(())
}

/// The paths and numbers of the documents of a source for which the columns say yes, by path: where an index finds them and
/// they are few enough to be sorted.
fn few(db: &Connection, filter: &Filter, source: i64) -> rusqlite::Result<Option<Vec<(String, i64)>>> {
    let Some(index) = index(filter) else { return Ok(None) };
    let Conditions { sql, values } = conditions(filter);
    let sql = format!(
        "SELECT path, number FROM documents INDEXED BY {index} WHERE source = {source}{sql} LIMIT {}",
        SORTED_MAX + 1
    );
    let mut statement = db.prepare_cached(&sql)?;
    let found = statement.query_map(params_from_iter(values), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut found: Vec<(String, i64)> = found.collect::<rusqlite::Result<_>>()?;
    if found.len() > SORTED_MAX {
        return Ok(None);
    }
    found.sort_unstable();
    Ok(Some(found))
}

/// The index that finds what the filter means, if there is one that is better than reading all in order.
fn index(filter: &Filter) -> Option<&'static str> {
    if filter.ids.is_some() {
        return Some("sqlite_autoindex_documents_1");
    }
    if filter.class.is_some() || filter.kind.is_some() || filter.stage.is_some() {
        return Some("documents_by_kind");
    }
    (!filter.states().is_empty()).then_some("documents_by_state")
}

fn by_number(
    db: &Connection,
    filter: &Filter,
    numbers: impl Iterator<Item = i64>,
    each: &mut dyn FnMut(&Record) -> ControlFlow<()>,
) -> rusqlite::Result<ControlFlow<()>> {
    let mut statement = db.prepare_cached(&format!("SELECT {COLUMNS} FROM documents WHERE number = ?1"))?;
    for number in numbers {
        let record = statement.query_row([number], |row| row::read(row).map(|stored| stored.record))?;
        if filter.matches(&record) && each(&record).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn by_path(
    db: &Connection,
    filter: &Filter,
    source: i64,
    each: &mut dyn FnMut(&Record) -> ControlFlow<()>,
) -> rusqlite::Result<ControlFlow<()>> {
    let Conditions { sql, values } = conditions(filter);
    let mut statement = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM documents INDEXED BY documents_by_path WHERE source = {source}{sql}
         ORDER BY path, number"
    ))?;
    let mut rows = statement.query(params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        let record = row::read(row)?.record;
        if filter.matches(&record) && each(&record).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Where a walk over what a filter means stands: in the order in which the documents were first seen, so that what changes
/// on the way is met once.
#[derive(Debug)]
pub struct Walk {
    sources: Vec<i64>,
    /// Those that an index found; `None`: all rows are read.
    few: Option<Vec<i64>>,
    after: i64,
}

/// The beginning of a walk.
pub(super) fn walk(db: &Connection, sources: &[SourceRow], filter: &Filter) -> rusqlite::Result<Walk> {
    let sources: Vec<i64> =
        sources.iter().filter(|source| filter.is_of(source)).map(|source| source.id.0).collect();
    let mut numbers = Some(Vec::new());
    for &source in &sources {
        match (few(db, filter, source)?, &mut numbers) {
            (Some(few), Some(numbers)) => numbers.extend(few.into_iter().map(|(_, number)| number)),
            _ => numbers = None,
        }
    }
    if let Some(numbers) = &mut numbers {
        // The next one is taken from the end.
        numbers.sort_unstable_by(|a, b| b.cmp(a));
    }
    Ok(Walk { sources, few: numbers, after: 0 })
}

/// The next of a walk, `limit` of them at most; none at its end.
pub(super) fn next(
    db: &Connection,
    filter: &Filter,
    walk: &mut Walk,
    limit: usize,
) -> rusqlite::Result<Vec<Record>> {
    let mut next = Vec::new();
    if let Some(few) = &mut walk.few {
        while next.len() < limit && !few.is_empty() {
            let numbers = few.split_off(few.len().saturating_sub(limit));
            let flow = by_number(db, filter, numbers.into_iter().rev(), &mut |record| {
                next.push(record.clone());
                ControlFlow::Continue(())
            })?;
            if flow.is_break() {
                break;
            }
        }
        return Ok(next);
    }
    let sources = walk.sources.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let Conditions { sql, values } = conditions(filter);
    let mut statement = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM documents NOT INDEXED WHERE number > {} AND source IN ({sources}){sql}
         ORDER BY number",
        walk.after
    ))?;
    let mut rows = statement.query(params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        let stored = row::read(row)?;
        walk.after = stored.number;
        if filter.matches(&stored.record) {
            next.push(stored.record);
            if next.len() == limit {
                break;
            }
        }
    }
    Ok(next)
}

/// What the columns can say of a filter, to be put behind `source = …`.
struct Conditions {
    sql: String,
    values: Vec<String>,
}

fn conditions(filter: &Filter) -> Conditions {
    let mut sql = String::new();
    let mut values = Vec::new();
    let mut and = |condition: String| {
        sql.push_str(" AND ");
        sql.push_str(&condition);
    };
    let states = filter.states();
    if !states.is_empty() {
        let words: Vec<String> = states.iter().map(|state| format!("'{state}'")).collect();
        and(format!("state IN ({})", words.join(", ")));
    }
    if filter.class.is_some() || filter.kind.is_some() || filter.stage.is_some() {
        and("kind IS NOT NULL".to_owned());
    }
    let words = [
        ("why", filter.why.map(Why::name)),
        ("class", filter.class.map(Class::name)),
        ("kind", filter.kind.map(Kind::name)),
        ("stage", filter.stage.map(Stage::name)),
    ];
    for (column, word) in words {
        if let Some(word) = word {
            and(format!("{column} = '{word}'"));
        }
    }
    if let Some((first, last)) = filter.ids {
        and(format!("id BETWEEN x'{first}' AND x'{last}'"));
    }
    if let Some(glob) = &filter.path {
        let prefix = literal_prefix(glob.glob().glob());
        if let Some(end) = behind(prefix) {
            and("path >= ?1 AND path < ?2".to_owned());
            values.extend([prefix.to_owned(), end]);
        }
    }
    Conditions { sql, values }
}

/// What every text that a glob matches begins with.
fn literal_prefix(glob: &str) -> &str {
    let end = glob.find(['*', '?', '[', '{', '\\']).unwrap_or(glob.len());
    glob.get(..end).unwrap_or_default()
}

/// The first text behind all that begin with `prefix`; `None` where there is no such text, or no prefix.
fn behind(prefix: &str) -> Option<String> {
    let last = prefix.chars().next_back()?;
    let next = if last == '\u{d7ff}' { '\u{e000}' } else { char::from_u32(u32::from(last) + 1)? };
    let mut end = prefix.strip_suffix(last)?.to_owned();
    end.push(next);
    Some(end)
}

/// Calls `each` with all records that share the result of this one, itself included, until it says stop. Those that were
/// changed since, or are gone, do not.
pub(super) fn sharing(
    db: &Connection,
    record: &Record,
    each: &mut dyn FnMut(&Record) -> ControlFlow<()>,
) -> rusqlite::Result<()> {
    let maker = record.same_as.unwrap_or(record.id);
    let mut statement = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM documents WHERE id = ?1
         UNION ALL SELECT {COLUMNS} FROM documents INDEXED BY documents_by_maker
         WHERE json_extract(rest, '$.same_as') IS NOT NULL AND json_extract(rest, '$.same_as') = ?2"
    ))?;
    let mut rows = statement.query((maker.0, maker.to_string()))?;
    while let Some(row) = rows.next()? {
        let other = row::read(row)?.record;
        let shares = other.state != State::Deleted && other.sha256 == record.sha256;
        if (shares || other.id == record.id) && each(&other).is_break() {
            break;
        }
    }
    Ok(())
}

/// Whether any record names this one as the one that made its result.
pub(super) fn made_others(db: &Connection, id: DocumentId) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT 1 FROM documents INDEXED BY documents_by_maker
         WHERE json_extract(rest, '$.same_as') IS NOT NULL AND json_extract(rest, '$.same_as') = ?1",
    )?
    .exists([id.to_string()])
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
    match id_range(doc) {
        Some((from, to)) => choose(db, candidates(db, "id BETWEEN ?1 AND ?2", (from.0, to.0))?),
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
pub fn id_range(prefix: &str) -> Option<(DocumentId, DocumentId)> {
    if !(PREFIX_MIN..=40).contains(&prefix.len()) {
        return None;
    }
    Some((DocumentId::parse(&format!("{prefix:0<40}"))?, DocumentId::parse(&format!("{prefix:f<40}"))?))
}
