//! Reads the ledger of a state folder, live or not, over a connection that cannot write.

use super::books::{self, Books};
use super::clusters::{self, Cluster};
use super::error::{LedgerError, io, sql};
use super::event::Event;
use super::history::{self, Attempt};
use super::items::{self, KnownItem};
use super::record::{Millis, Record, SourceId};
use super::row::{self, COLUMNS};
use super::selection::{self, Filter, Unresolved};
use super::{InHand, RunEnd, RunRow, SourceRow, open};
use crate::rules::breaker::{Breaker, Scope};
use crate::rules::kind::{Kind, Stage, State};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Params, Row};
use shared::{ContentHash, DocumentId};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A position in the order in which documents became due.
pub type Queue = i64;

/// A document that is due.
#[derive(Debug, Clone, PartialEq)]
pub struct Due {
    pub queue: Queue,
    pub record: Record,
    /// There are records of members of this outermost item, of whatever attempt.
    pub has_members: bool,
}

/// Reads the ledger of a state folder, live or not; changes nothing and creates nothing. One connection: not shared
/// between threads.
#[derive(Debug)]
pub struct Reader {
    db: Connection,
    path: PathBuf,
}

impl Reader {
    /// Opens the ledger of `state` for reading.
    ///
    /// # Errors
    /// There is none; another schema than this program's; damage; I/O.
    pub fn open(state: &Path) -> Result<Reader, LedgerError> {
        let path = open::file(state);
        match std::fs::metadata(&path) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(LedgerError::Missing(state.to_owned()));
            }
            Err(error) => return Err(io(&path, error)),
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&path, flags).map_err(|error| sql(&path, error))?;
        let reader = Reader { db, path };
        reader.ask(|db| {
            db.set_prepared_statement_cache_capacity(64);
            db.busy_timeout(Duration::from_secs(60))?;
            db.execute_batch("PRAGMA cache_size = -2048; PRAGMA temp_store = MEMORY;")
        })?;
        open::refuse_other_schema(&reader.db, &reader.path)?;
        Ok(reader)
    }

    pub(super) fn ask<T>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, LedgerError> {
        question(&self.db).map_err(|error| sql(&self.path, error))
    }

    /// All sources, by name.
    ///
    /// # Errors
    /// Structural ones, as for every method here.
    pub fn sources(&self) -> Result<Vec<SourceRow>, LedgerError> {
        self.ask(|db| {
            let mut statement =
                db.prepare_cached("SELECT id, name, root, root_device FROM sources ORDER BY name")?;
            statement.query_map([], source_row)?.collect()
        })
    }

    /// The record of this id.
    pub fn record(&self, id: DocumentId) -> Result<Option<Record>, LedgerError> {
        self.ask(|db| one(db, "id = ?1", [id.0]))
    }

    /// An exact id, else an exact shown path, else an unambiguous prefix of an id of at least 4 digits.
    pub fn resolve(&self, doc: &str) -> Result<Result<Record, Unresolved>, LedgerError> {
        self.ask(|db| selection::resolve(db, doc))
    }

    /// Calls `each` with the name of the source and the record, by source and path, until it says stop.
    pub fn list(
        &self,
        filter: &Filter,
        each: &mut dyn FnMut(&str, &Record) -> ControlFlow<()>,
    ) -> Result<(), LedgerError> {
        let sources = self.sources()?;
        self.in_one_view(|db| selection::list(db, &sources, filter, each))
    }

    /// Every attempt on a document, oldest first: `{attempt, stage, kind, class, message, started, ended, pipeline,
    /// usage, evidence}`.
    pub fn history(&self, id: DocumentId) -> Result<Vec<Attempt>, LedgerError> {
        self.ask(|db| history::history(db, id))
    }

    /// Calls `each` with every event, oldest first, until it says stop.
    pub fn events(&self, each: &mut dyn FnMut(Event) -> ControlFlow<()>) -> Result<(), LedgerError> {
        self.in_one_view(|db| history::events(db, each))
    }

    /// The books, counted and compared.
    pub fn books(&self) -> Result<Books, LedgerError> {
        self.in_one_view(books::books)
    }

    /// How many documents of these sources are in each state, by the counters that the events moved: at any size of the
    /// ledger at once.
    pub fn counted(&self, sources: &[SourceId]) -> Result<BTreeMap<State, u64>, LedgerError> {
        let sql = format!(
            "SELECT state, sum(n) FROM counters WHERE source IN ({}) GROUP BY state",
            in_list(sources)
        );
        self.ask(|db| {
            let mut statement = db.prepare_cached(&sql)?;
            let mut rows = statement.query([])?;
            let mut counted = BTreeMap::new();
            while let Some(row) = rows.next()? {
                if let Some(state) = State::named(row.get_ref(0)?.as_str()?) {
                    counted.insert(state, row.get::<_, i64>(1)?.max(0).unsigned_abs());
                }
            }
            Ok(counted)
        })
    }

    /// Everything of these sources that is not `indexed`, `pending` or `deleted`, clustered, largest first.
    pub fn clusters(&self, sources: &[SourceId]) -> Result<Vec<Cluster>, LedgerError> {
        self.in_one_view(|db| clusters::clusters(db, sources))
    }

    /// Pending documents of these sources with a task that no attempt has taken, behind `after` in the order in which
    /// they became due. What is gone and has to leave the sink comes along only if `gone` says so.
    pub fn due(
        &self,
        sources: &[SourceId],
        after: Queue,
        gone: bool,
        limit: usize,
    ) -> Result<Vec<Due>, LedgerError> {
        let sources = in_list(sources);
        let gone = if gone { "" } else { "AND json_extract(rest, '$.task') IS NOT 'Delete'" };
        let sql = format!(
            "SELECT {COLUMNS}, EXISTS (SELECT 1 FROM documents AS member WHERE member.root = documents.id)
             FROM documents INDEXED BY documents_due WHERE queue > ?1 AND source IN ({sources}) {gone} ORDER BY queue LIMIT ?2"
        );
        self.ask(|db| {
            let mut statement = db.prepare_cached(&sql)?;
            let mut rows = statement.query((after, at_most(limit)))?;
            let mut due = Vec::new();
            while let Some(row) = rows.next()? {
                let stored = row::read(row)?;
                let has_members = row.get(row::COUNT)?;
                due.push(Due { queue: stored.queue.unwrap_or(after), record: stored.record, has_members });
            }
            Ok(due)
        })
    }

    /// Retrying documents of these sources whose time has come at `now`; those without a time, where they were last tried
    /// before `began`. Without those that are to be tried alone or that wait for an extractor, and without the
    /// records of directories, which only a listing settles. What is further away than `longest_wait_ms` was noted under
    /// a clock that has been set back since, and is due as well.
    pub fn retries(
        &self,
        sources: &[SourceId],
        now: Millis,
        began: Millis,
        longest_wait_ms: u64,
        limit: usize,
    ) -> Result<Vec<Record>, LedgerError> {
        let of = format!(
            "source IN ({}) AND state = 'retrying' AND kind IS NOT 'extractor.broken'
             AND json_extract(rest, '$.alone') IS NULL
             AND (parent IS NOT NULL OR json_extract(rest, '$.stat') IS NOT NULL)",
            in_list(sources)
        );
        let last = "coalesce(json_extract(rest, '$.last_attempt'), 0)";
        let beyond = now.saturating_add(Millis::try_from(longest_wait_ms).unwrap_or(Millis::MAX));
        // A piece each, so that an index finds it and gives it in order.
        let pieces = [
            ("documents_untimed", format!("next_attempt IS NULL AND {last} < ?1 ORDER BY {last}"), began),
            (
                "documents_untimed",
                format!("next_attempt IS NULL AND {last} > ?1 ORDER BY {last}"),
                now.max(began.saturating_sub(1)),
            ),
            ("documents_retrying", "next_attempt <= ?1 ORDER BY next_attempt".to_owned(), now),
            ("documents_retrying", "next_attempt > ?1 ORDER BY next_attempt".to_owned(), beyond),
        ];
        self.ask(|db| {
            let mut due = Vec::new();
            for (index, piece, moment) in pieces {
                let sql = format!(
                    "SELECT {COLUMNS} FROM documents INDEXED BY {index} WHERE {of} AND {piece}, number LIMIT ?2"
                );
                let mut statement = db.prepare_cached(&sql)?;
                let rows = statement.query_map((moment, at_most(limit - due.len())), |row| {
                    row::read(row).map(|stored| stored.record)
                })?;
                due.extend(rows.collect::<rusqlite::Result<Vec<_>>>()?);
            }
            Ok(due)
        })
    }

    /// Documents of these sources that wait for the large lane.
    pub fn large(&self, sources: &[SourceId], limit: usize) -> Result<Vec<Record>, LedgerError> {
        let sql = format!(
            "source IN ({}) AND state = 'pending' AND json_extract(rest, '$.task') = 'Large' ORDER BY number LIMIT ?1",
            in_list(sources)
        );
        self.ask(|db| many(db, &sql, [at_most(limit)]))
    }

    /// Documents of a source in this state behind the row `after`, with their rows' numbers, in the order of these.
    pub fn in_state(
        &self,
        source: SourceId,
        state: State,
        after: i64,
        limit: usize,
    ) -> Result<Vec<(i64, Record)>, LedgerError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM documents WHERE source = ?1 AND state = ?2 AND number > ?3 ORDER BY number LIMIT ?4"
        );
        self.ask(|db| numbered(db, &sql, (source.0, state.name(), after, at_most(limit))))
    }

    /// Documents of all sources with this kind of fault in this state, as [`Reader::in_state`].
    pub fn of_kind(
        &self,
        kind: Kind,
        state: State,
        after: i64,
        limit: usize,
    ) -> Result<Vec<(i64, Record)>, LedgerError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM documents NOT INDEXED WHERE number > ?3 AND kind = ?1 AND state = ?2
             ORDER BY number LIMIT ?4"
        );
        self.ask(|db| numbered(db, &sql, (kind.name(), state.name(), after, at_most(limit))))
    }

    /// A living item of a source whose bytes can be read, chosen by `random` in `[0, 1)`.
    pub fn any_item(&self, source: SourceId, random: f64) -> Result<Option<Record>, LedgerError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM documents NOT INDEXED
             WHERE number >= (SELECT max(number) FROM documents) * ?2 AND source = ?1 AND parent IS NULL
             AND state NOT IN ('deleted', 'excluded') AND json_extract(rest, '$.stat') IS NOT NULL
             ORDER BY number LIMIT 1"
        );
        self.ask(|db| {
            let find = |share: f64| {
                db.prepare_cached(&sql)?
                    .query_row((source.0, share), |row| row::read(row).map(|stored| stored.record))
                    .optional()
            };
            match find(random)? {
                Some(record) => Ok(Some(record)),
                // The source's items may all lie before that row.
                None => find(0.0),
            }
        })
    }

    /// The breakers that are open.
    pub fn breakers(&self) -> Result<Vec<(Scope, String, Breaker)>, LedgerError> {
        self.ask(|db| {
            let mut statement =
                db.prepare_cached("SELECT scope, name, body FROM breakers ORDER BY scope, name")?;
            let mut rows = statement.query([])?;
            let mut breakers = Vec::new();
            while let Some(row) = rows.next()? {
                let Some(scope) = row::word(row, 0, Scope::named)? else { continue };
                let body: String = row.get(2)?;
                let breaker = serde_json::from_str(&body).map_err(|error| row::damaged(2, error))?;
                breakers.push((scope, row.get(1)?, breaker));
            }
            Ok(breakers)
        })
    }

    /// What was kept under this name.
    pub fn note(&self, name: &str) -> Result<Option<i64>, LedgerError> {
        self.ask(|db| {
            db.prepare_cached("SELECT value FROM meta WHERE name = ?1")?
                .query_row([name], |row| row.get(0))
                .optional()
        })
    }

    /// Documents of these sources that the supervisor died with, and that are therefore to be tried with nothing beside
    /// them.
    pub fn alone(&self, sources: &[SourceId]) -> Result<Vec<Record>, LedgerError> {
        let sources = in_list(sources);
        let sql = format!(
            "SELECT {COLUMNS} FROM documents INDEXED BY documents_retrying
             WHERE source IN ({sources}) AND state = 'retrying' AND json_extract(rest, '$.alone')
             UNION ALL SELECT {COLUMNS} FROM documents INDEXED BY documents_by_state
             WHERE source IN ({sources}) AND state = 'pending' AND json_extract(rest, '$.task') = 'Carry'
             AND json_extract(rest, '$.alone') ORDER BY number"
        );
        self.ask(|db| {
            let mut statement = db.prepare_cached(&sql)?;
            statement.query_map([], |row| row::read(row).map(|stored| stored.record))?.collect()
        })
    }

    /// The earliest time at which something of these sources is due again.
    pub fn next_due(&self, sources: &[SourceId]) -> Result<Option<Millis>, LedgerError> {
        let sql = format!(
            "SELECT min(next_attempt) FROM documents WHERE source IN ({}) AND state = 'retrying'
             AND kind IS NOT 'extractor.broken'",
            in_list(sources)
        );
        self.ask(|db| db.prepare_cached(&sql)?.query_row([], |row| row.get(0)))
    }

    /// All documents of an outermost item, itself included, containers before their members, members in order.
    pub fn tree(&self, root: DocumentId) -> Result<Vec<Record>, LedgerError> {
        let mut members = self.ask(|db| many(db, "root = ?1 ORDER BY parent, position DESC", [root.0]))?;
        let Some(item) = self.record(root)? else { return Ok(Vec::new()) };
        let mut tree = Vec::with_capacity(members.len() + 1);
        let mut open = vec![item];
        // Members of one container lie together, the last position first, so that they come off the stack in order.
        members.sort_by_key(|member| member.parent);
        while let Some(next) = open.pop() {
            let from = members.partition_point(|member| member.parent < Some(next.id));
            let to = members.partition_point(|member| member.parent <= Some(next.id));
            open.extend(members.get(from..to).unwrap_or_default().iter().cloned());
            tree.push(next);
        }
        Ok(tree)
    }

    /// The members of a container, in order.
    pub fn members(&self, container: DocumentId) -> Result<Vec<Record>, LedgerError> {
        self.ask(|db| many(db, "parent = ?1 ORDER BY position", [container.0]))
    }

    /// The records whose bytes have this hash and that have a result (if only their sink has not), had one until they were found gone just now, or are gone and had
    /// failed for good: at most `limit` of them, tombstones last (they may be many, where a file is moved again and again), else the
    /// newest first.
    pub fn with_content(&self, sha256: ContentHash, limit: usize) -> Result<Vec<Record>, LedgerError> {
        let sql = "sha256 = ?1 AND (state IN ('indexed', 'suspect', 'quarantined')
             OR state = 'pending' AND json_extract(rest, '$.task') = 'Delete' OR unsent IS NOT NULL
             OR state = 'deleted' AND class IN ('permanent', 'corrupt'))
             ORDER BY state = 'deleted', number DESC LIMIT ?2";
        self.ask(|db| many(db, sql, (sha256.0, at_most(limit))))
    }

    /// The known items of a directory (raw path below the root, empty for the root) whose names sort behind `after`, by
    /// name, tombstones included.
    pub fn items_in(
        &self,
        source: SourceId,
        directory: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<KnownItem>, LedgerError> {
        self.ask(|db| items::items_in(db, source, directory, after, limit))
    }

    /// The names of the directories directly below a directory that have known items that are not gone, in or below
    /// them.
    pub fn directories_in(&self, source: SourceId, directory: &[u8]) -> Result<Vec<Vec<u8>>, LedgerError> {
        self.ask(|db| items::directories_in(db, source, directory))
    }

    /// Items (not members) of a source that are not gone, in all.
    pub fn items_count(&self, source: SourceId) -> Result<u64, LedgerError> {
        self.ask(|db| items::items_count(db, source))
    }

    /// What was in hand when the ledger was last written.
    pub fn in_hand(&self) -> Result<Vec<InHand>, LedgerError> {
        self.ask(|db| {
            let mut statement = db.prepare_cached(
                "SELECT documents.id, in_hand.stage, in_hand.alone FROM in_hand
                 JOIN documents ON documents.number = in_hand.doc ORDER BY in_hand.doc",
            )?;
            let mut rows = statement.query([])?;
            let mut in_hand = Vec::new();
            while let Some(row) = rows.next()? {
                let stage = row::word(row, 1, Stage::named)?.unwrap_or(Stage::Fetch);
                in_hand.push(InHand { doc: DocumentId(row.get(0)?), stage, alone: row.get(2)? });
            }
            Ok(in_hand)
        })
    }

    /// The newest run, if there was one.
    pub fn last_run(&self) -> Result<Option<RunRow>, LedgerError> {
        self.ask(|db| {
            db.prepare_cached("SELECT id, began, boot_id, ended, end FROM runs ORDER BY id DESC LIMIT 1")?
                .query_row([], |row| {
                    Ok(RunRow {
                        id: row.get(0)?,
                        began: row.get(1)?,
                        boot_id: row.get(2)?,
                        ended: row.get(3)?,
                        end: row::word(row, 4, RunEnd::named)?,
                    })
                })
                .optional()
        })
    }

    /// Whether any record still refers to this kept text.
    pub fn text_used(&self, text: ContentHash) -> Result<bool, LedgerError> {
        self.ask(|db| {
            db.prepare_cached(
                "SELECT 1 FROM documents WHERE kept = ?1 UNION ALL SELECT 1 FROM documents WHERE unsent = ?1",
            )?
            .exists([text.0])
        })
    }

    /// Documents that are `retrying` because their sink did not take their text, with their revisions; of this source, or of
    /// all. At most `limit`.
    pub fn unsent(
        &self,
        source: Option<SourceId>,
        limit: usize,
    ) -> Result<Vec<(DocumentId, u64)>, LedgerError> {
        self.ask(|db| {
            let mut statement = db.prepare_cached(
                "SELECT id, revision FROM documents INDEXED BY documents_unsent
                 WHERE unsent IS NOT NULL AND state = 'retrying' AND (?1 IS NULL OR source = ?1) LIMIT ?2",
            )?;
            let row = |row: &Row<'_>| Ok((DocumentId(row.get(0)?), row::unsigned(row, 1)?));
            statement.query_map((source.map(|id| id.0), at_most(limit)), row)?.collect()
        })
    }

    /// The ids that the sink must hold, for a comparison with it.
    pub fn in_sink(&self, each: &mut dyn FnMut(DocumentId)) -> Result<(), LedgerError> {
        self.ask(|db| {
            let mut statement = db.prepare_cached("SELECT id FROM documents WHERE kept IS NOT NULL")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                each(DocumentId(row.get(0)?));
            }
            Ok(())
        })
    }

    /// Several questions of one moment.
    pub(super) fn in_one_view<T>(
        &self,
        questions: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, LedgerError> {
        self.ask(|db| {
            let view = db.unchecked_transaction()?;
            let answer = questions(&view)?;
            view.commit()?;
            Ok(answer)
        })
    }
}

/// The first record for which `condition` holds.
pub(super) fn one(db: &Connection, condition: &str, values: impl Params) -> rusqlite::Result<Option<Record>> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM documents WHERE {condition}"))?
        .query_row(values, |row| row::read(row).map(|stored| stored.record))
        .optional()
}

/// Records with the numbers of their rows.
fn numbered(db: &Connection, sql: &str, values: impl Params) -> rusqlite::Result<Vec<(i64, Record)>> {
    let mut statement = db.prepare_cached(sql)?;
    statement.query_map(values, |row| row::read(row).map(|stored| (stored.number, stored.record)))?.collect()
}

/// All records for which `condition` holds.
pub(super) fn many(db: &Connection, condition: &str, values: impl Params) -> rusqlite::Result<Vec<Record>> {
    let mut statement = db.prepare_cached(&format!("SELECT {COLUMNS} FROM documents WHERE {condition}"))?;
    statement.query_map(values, |row| row::read(row).map(|stored| stored.record))?.collect()
}

/// Reads `id, name, root, root_device`.
pub(super) fn source_row(row: &Row<'_>) -> rusqlite::Result<SourceRow> {
    let root: Vec<u8> = row.get(2)?;
    Ok(SourceRow {
        id: SourceId(row.get(0)?),
        name: row.get(1)?,
        root: PathBuf::from(OsStr::from_bytes(&root)),
        root_device: row.get::<_, Option<i64>>(3)?.map(i64::cast_unsigned),
    })
}

/// Numbers of sources, for `IN (…)`.
pub(super) fn in_list(sources: &[SourceId]) -> String {
    if sources.is_empty() {
        // An empty list is none that an index could serve.
        return "NULL".to_owned();
    }
    sources.iter().map(|source| source.0.to_string()).collect::<Vec<_>>().join(", ")
}

fn at_most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
