//! A record as a row: columns for what is filtered, sorted or counted, JSON for the rest. Each fact stands in one of the
//! two, never in both.

use super::compact;
use super::record::{
    InSink, Listed, Millis, Pipeline, Record, SourceId, Stat, Task, TextFacts, Unsent, Usage,
};
use crate::rules::fault::{Evidence, Fault};
use crate::rules::kind::{Class, Damage, Kind, Stage, State, Why};
use rusqlite::types::{FromSqlError, Type};
use rusqlite::{Row, Statement};
use serde::{Deserialize, Serialize};
use shared::{ContentHash, DocumentId, Identity};

macro_rules! columns {
    () => {
        "id, source, identity, parent, root, position, revision, state, why, class, kind, stage, sha256, \
         next_attempt, rest, number, queue"
    };
}

/// The columns that [`read`] reads, in its order.
pub(super) const COLUMNS: &str = columns!();

/// How many they are.
pub(super) const COUNT: usize = 17;

/// Finds a row by its id.
pub(super) const FIND: &str = concat!("SELECT ", columns!(), " FROM documents WHERE id = ?1");

/// A record with what only the store knows of it.
#[derive(Debug)]
pub(super) struct Stored {
    pub record: Record,
    /// The row's number.
    pub number: i64,
    pub queue: Option<i64>,
}

#[derive(Serialize, Deserialize)]
struct Rest {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    message: Option<String>,
    #[serde(skip_serializing_if = "is_false", default)]
    hostile: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    media_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    size: Option<u64>,
    #[serde(skip_serializing_if = "is_false", default)]
    fetched: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    mtime_ns: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    stat: Option<Stat>,
    #[serde(skip_serializing_if = "is_zero", default)]
    attempts: u32,
    #[serde(skip_serializing_if = "is_zero", default)]
    crashes: u32,
    #[serde(skip_serializing_if = "is_false", default)]
    alone: bool,
    #[serde(skip_serializing_if = "is_zero", default)]
    tried: u32,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    large: Option<Box<Fault>>,
    first_seen: Millis,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    first_failed: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    last_attempt: Option<Millis>,
    #[serde(skip_serializing_if = "Pipeline::is_empty", default)]
    pipeline: Pipeline,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    damage: Option<Damage>,
    #[serde(with = "compact::option", skip_serializing_if = "Option::is_none", default)]
    same_as: Option<DocumentId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    in_sink: Option<InSink>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    unsent: Option<Box<Unsent>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    text: Option<TextFacts>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    evidence: Option<Evidence>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    requeued_at: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    rested: Option<Box<Record>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    task: Option<Task>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    listed_whole: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    listed: Option<Listed>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Reads a record from the columns [`COLUMNS`].
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let text = row.get_ref(14)?.as_str().map_err(|error| damaged(14, error))?;
    let rest: Rest = serde_json::from_str(text).map_err(|error| damaged(14, error))?;
    let id = DocumentId(row.get(0)?);
    let record = Record {
        id,
        source: SourceId(row.get(1)?),
        identity: row
            .get_ref(2)?
            .as_blob()
            .ok()
            .and_then(Identity::decode)
            .ok_or_else(|| damaged(2, FromSqlError::InvalidType))?,
        parent: row.get::<_, Option<[u8; 20]>>(3)?.map(DocumentId),
        root: row.get::<_, Option<[u8; 20]>>(4)?.map_or(id, DocumentId),
        position: unsigned(row, 5)?,
        revision: unsigned(row, 6)?,
        state: word(row, 7, State::named)?.ok_or_else(|| damaged(7, FromSqlError::InvalidType))?,
        why: word(row, 8, Why::named)?,
        class: word(row, 9, Class::named)?,
        kind: word(row, 10, Kind::named)?,
        stage: word(row, 11, Stage::named)?,
        sha256: row.get::<_, Option<[u8; 32]>>(12)?.map(ContentHash),
        next_attempt: row.get(13)?,
        message: rest.message,
        hostile: rest.hostile,
        format: rest.format,
        media_type: rest.media_type,
        size: rest.size,
        fetched: rest.fetched,
        mtime_ns: rest.mtime_ns,
        stat: rest.stat,
        attempts: rest.attempts,
        crashes: rest.crashes,
        alone: rest.alone,
        tried: rest.tried,
        large: rest.large,
        first_seen: rest.first_seen,
        first_failed: rest.first_failed,
        last_attempt: rest.last_attempt,
        pipeline: rest.pipeline,
        damage: rest.damage,
        same_as: rest.same_as,
        in_sink: rest.in_sink,
        unsent: rest.unsent,
        text: rest.text,
        usage: rest.usage,
        evidence: rest.evidence,
        rested: rest.rested,
        task: rest.task,
        listed_whole: rest.listed_whole,
        listed: rest.listed,
        requeued_at: rest.requeued_at,
    };
    Ok(Stored { record, number: row.get(15)?, queue: row.get(16)? })
}

/// Binds a record and its queue number to `:name` parameters: those of them that the statement has.
pub(super) fn bind(
    statement: &mut Statement<'_>,
    record: &Record,
    queue: Option<i64>,
) -> rusqlite::Result<()> {
    let rest = Rest {
        message: record.message.clone(),
        hostile: record.hostile,
        format: record.format.clone(),
        media_type: record.media_type.clone(),
        size: record.size,
        fetched: record.fetched,
        mtime_ns: record.mtime_ns,
        stat: record.stat,
        attempts: record.attempts,
        crashes: record.crashes,
        alone: record.alone,
        tried: record.tried,
        large: record.large.clone(),
        first_seen: record.first_seen,
        first_failed: record.first_failed,
        last_attempt: record.last_attempt,
        pipeline: record.pipeline.clone(),
        damage: record.damage,
        same_as: record.same_as,
        in_sink: record.in_sink.clone(),
        unsent: record.unsent.clone(),
        text: record.text.clone(),
        usage: record.usage,
        evidence: record.evidence.clone(),
        rested: record.rested.clone(),
        task: record.task.clone(),
        listed_whole: record.listed_whole,
        listed: record.listed,
        requeued_at: record.requeued_at,
    };
    let rest = json(&rest)?;
    statement.raw_bind_parameter(1, record.id.0)?;
    statement.raw_bind_parameter(2, signed(record.position)?)?;
    statement.raw_bind_parameter(3, signed(record.revision)?)?;
    statement.raw_bind_parameter(4, record.state.name())?;
    statement.raw_bind_parameter(5, record.why.map(Why::name))?;
    statement.raw_bind_parameter(6, record.class.map(Class::name))?;
    statement.raw_bind_parameter(7, record.kind.map(Kind::name))?;
    statement.raw_bind_parameter(8, record.stage.map(Stage::name))?;
    statement.raw_bind_parameter(9, record.sha256.map(|hash| hash.0))?;
    statement.raw_bind_parameter(10, record.in_sink.as_ref().map(|sink| sink.text.0))?;
    statement.raw_bind_parameter(11, record.next_attempt)?;
    statement.raw_bind_parameter(12, queue)?;
    statement.raw_bind_parameter(13, rest)?;
    statement.raw_bind_parameter(14, record.unsent.as_ref().map(|unsent| unsent.in_sink.text.0))
}

/// Brings the row of a known document up to date; takes what [`bind`] binds.
pub(super) const UPDATE: &str = "
UPDATE documents SET position = ?2, revision = ?3, state = ?4, why = ?5, class = ?6, kind = ?7, stage = ?8, sha256 = ?9,
    kept = ?10, next_attempt = ?11, queue = ?12, rest = ?13, unsent = ?14 WHERE id = ?1";

/// Makes a row; takes what [`bind`] binds, then source, identity, path, parent, root.
pub(super) const INSERT: &str = "
INSERT INTO documents (id, position, revision, state, why, class, kind, stage, sha256, kept, next_attempt, queue, rest,
    unsent, source, identity, path, parent, root)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)";

/// What a value looks like in the store.
pub(super) fn json<T: Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// A column that cannot be what was written there.
pub(super) fn damaged(
    column: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

/// A word in a column; null is none.
pub(super) fn word<T>(
    row: &Row<'_>,
    column: usize,
    named: impl Fn(&str) -> Option<T>,
) -> rusqlite::Result<Option<T>> {
    let word = row.get_ref(column)?.as_str_or_null().map_err(|error| damaged(column, error))?;
    match word {
        None => Ok(None),
        Some(word) => match named(word) {
            Some(meaning) => Ok(Some(meaning)),
            None => Err(damaged(column, FromSqlError::Other(format!("`{word}` is no word of ours").into()))),
        },
    }
}

/// A count in a column.
pub(super) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let count: i64 = row.get(column)?;
    u64::try_from(count).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, count))
}

/// A count for a column.
pub(super) fn signed(count: u64) -> rusqlite::Result<i64> {
    i64::try_from(count).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// Sixty-four bits that are no count (a device, an inode), kept as they are.
pub(super) fn bits(value: u64) -> i64 {
    value.cast_signed()
}
