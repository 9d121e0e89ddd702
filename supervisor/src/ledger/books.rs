//! The counters: moved by each event, and compared with the rows whenever somebody asks.

use super::record::{Record, SourceId};
use crate::rules::kind::State;
use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeMap;

/// The equation of one source, or of all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    pub name: String,
    pub discovered: u64,
    pub indexed: u64,
    pub suspect: u64,
    pub retrying: u64,
    pub quarantined: u64,
    pub excluded: u64,
    pub pending: u64,
    pub deleted: u64,
}

impl Counts {
    /// How many are in this state.
    pub fn of(&self, state: State) -> u64 {
        match state {
            State::Indexed => self.indexed,
            State::Suspect => self.suspect,
            State::Retrying => self.retrying,
            State::Quarantined => self.quarantined,
            State::Excluded => self.excluded,
            State::Pending => self.pending,
            State::Deleted => self.deleted,
        }
    }

    fn of_mut(&mut self, state: State) -> &mut u64 {
        match state {
            State::Indexed => &mut self.indexed,
            State::Suspect => &mut self.suspect,
            State::Retrying => &mut self.retrying,
            State::Quarantined => &mut self.quarantined,
            State::Excluded => &mut self.excluded,
            State::Pending => &mut self.pending,
            State::Deleted => &mut self.deleted,
        }
    }

    /// Everything but the tombstones: the right side of the equation.
    pub fn in_states(&self) -> u64 {
        State::ALL.iter().filter(|&&state| state != State::Deleted).map(|&state| self.of(state)).sum()
    }

    /// Adds another's counts to these.
    pub fn add(&mut self, other: &Counts) {
        self.discovered += other.discovered;
        for &state in State::ALL {
            *self.of_mut(state) += other.of(state);
        }
    }
}

/// The equation, counted from the rows and compared with the counters that the events moved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Books {
    pub sources: Vec<Counts>,
    pub total: Counts,
    /// Every counter equals its rows, and the equation holds for each source.
    pub balanced: bool,
    /// What does not, in words.
    pub differences: Vec<String>,
}

/// The counter of first sights + returns − deletions.
pub(super) const DISCOVERED: &str = "discovered";
/// The counter of items (not members) that are not gone.
pub(super) const ITEMS: &str = "items";

/// How far events have moved the counters. Collected over a transaction and written before its commit.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Moves(pub(super) BTreeMap<(SourceId, &'static str), i64>);

impl Moves {
    /// Notes that a record became another one, or came to be.
    pub(super) fn note(&mut self, old: Option<&Record>, new: &Record) {
        let was = old.map(|old| old.state);
        if was == Some(new.state) {
            return;
        }
        if let Some(was) = was {
            self.by(new.source, was.name(), -1);
        }
        self.by(new.source, new.state.name(), 1);
        let step =
            i64::from(new.state != State::Deleted) - i64::from(was.is_some_and(|was| was != State::Deleted));
        if step != 0 {
            self.by(new.source, DISCOVERED, step);
            if new.parent.is_none() {
                self.by(new.source, ITEMS, step);
            }
        }
    }

    fn by(&mut self, source: SourceId, counter: &'static str, step: i64) {
        *self.0.entry((source, counter)).or_insert(0) += step;
    }

    /// Moves the counters of the store.
    pub(super) fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        let mut statement = db.prepare_cached(
            "INSERT INTO counters (source, state, n) VALUES (?1, ?2, ?3)
             ON CONFLICT (source, state) DO UPDATE SET n = n + ?3",
        )?;
        for ((source, counter), step) in &self.0 {
            statement.execute((source.0, counter, step))?;
        }
        Ok(())
    }
}

/// Counts the rows and compares. To be called inside one read transaction.
pub(super) fn books(db: &Connection) -> rusqlite::Result<Books> {
    let mut sources: BTreeMap<i64, (Counts, BTreeMap<String, i64>)> = BTreeMap::new();
    let mut statement = db.prepare_cached("SELECT id, name FROM sources")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let counts = Counts { name: row.get(1)?, ..Counts::default() };
        sources.insert(row.get(0)?, (counts, BTreeMap::new()));
    }
    let mut differences = Vec::new();
    for ((source, word), count) in counted(db)? {
        match (sources.get_mut(&source), State::named(&word)) {
            (Some((counts, _)), Some(state)) => *counts.of_mut(state) = count,
            (None, _) => differences.push(format!("{count} documents belong to no source (number {source})")),
            (_, None) => {
                differences.push(format!("{count} documents are in no state that there is (`{word}`)"));
            }
        }
    }
    let mut statement = db.prepare_cached("SELECT source, state, n FROM counters")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Some((_, counters)) = sources.get_mut(&row.get(0)?) {
            counters.insert(row.get(1)?, row.get(2)?);
        }
    }
    let mut books = Books::default();
    for (mut counts, counters) in sources.into_values() {
        compare(&mut counts, &counters, &mut differences);
        books.total.add(&counts);
        books.sources.push(counts);
    }
    books.sources.sort_by(|a, b| a.name.cmp(&b.name));
    books.balanced = differences.is_empty();
    books.differences = differences;
    Ok(books)
}

/// A source and a state.
type Group = (i64, String);

/// How many rows there are of each source and state that occur.
///
/// To count the entries of an index one by one is most of what `status` costs, and nearly all of them are of one group. SQLite
/// counts a whole table by its pages, so that group is what is left of the whole without all others.
fn counted(db: &Connection) -> rusqlite::Result<Vec<(Group, u64)>> {
    let Some((largest, others)) =
        groups(db)?.split_last().map(|(last, others)| (last.clone(), others.to_vec()))
    else {
        return Ok(Vec::new());
    };
    let whole = db
        .prepare_cached("SELECT count(*) FROM documents")?
        .query_row([], |row| super::row::unsigned(row, 0))?;
    let mut statement = db.prepare_cached(
        "SELECT count(*) FROM documents INDEXED BY documents_by_state WHERE source = ?1 AND state = ?2",
    )?;
    let mut counted = Vec::with_capacity(others.len() + 1);
    for group in others {
        let count = statement.query_row((group.0, &group.1), |row| super::row::unsigned(row, 0))?;
        counted.push((group, count));
    }
    let rest: u64 = counted.iter().map(|(_, count)| count).sum();
    counted.push((largest, whole.saturating_sub(rest)));
    Ok(counted)
}

/// The sources and states that occur in rows; the one that the counters say is the largest comes last.
fn groups(db: &Connection) -> rusqlite::Result<Vec<Group>> {
    // Each is found by one step down the index. A comparison of both columns at once would pass all entries of the last one.
    let mut beside = db.prepare_cached(
        "SELECT source, state FROM documents INDEXED BY documents_by_state WHERE source = ?1 AND state > ?2
         ORDER BY state LIMIT 1",
    )?;
    let mut behind = db.prepare_cached(
        "SELECT source, state FROM documents INDEXED BY documents_by_state WHERE source > ?1
         ORDER BY source, state LIMIT 1",
    )?;
    let mut size =
        db.prepare_cached("SELECT coalesce(sum(n), 0) FROM counters WHERE source = ?1 AND state = ?2")?;
    let mut groups: Vec<(i64, Group)> = Vec::new();
    let mut last: Group = (i64::MIN, String::new());
    let group = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    loop {
        let mut found = beside.query_row((last.0, &last.1), group).optional()?;
        if found.is_none() {
            found = behind.query_row([last.0], group).optional()?;
        }
        let Some(next) = found else { break };
        groups.push((size.query_row((next.0, &next.1), |row| row.get(0))?, next.clone()));
        last = next;
    }
    groups.sort();
    Ok(groups.into_iter().map(|(_, group)| group).collect())
}

fn compare(counts: &mut Counts, counters: &BTreeMap<String, i64>, differences: &mut Vec<String>) {
    let counter = |name: &str| counters.get(name).copied().unwrap_or(0);
    for &state in State::ALL {
        let (rows, events) = (counts.of(state), counter(state.name()));
        if i64::try_from(rows) != Ok(events) {
            differences
                .push(format!("{}: {rows} documents are {state}, the events say {events}", counts.name));
        }
    }
    let (rows, events) = (counts.in_states(), counter(DISCOVERED));
    counts.discovered = u64::try_from(events).unwrap_or(0);
    if i64::try_from(rows) != Ok(events) {
        differences.push(format!(
            "{}: {rows} documents are in a state, first sights and returns less deletions say {events}",
            counts.name
        ));
    }
}
