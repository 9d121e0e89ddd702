//! What `status` asks beside the books: how old failures are, and when what is to be tried again is due. Each answer comes
//! from an index alone, so that it takes no longer in a ledger of a million records.

use super::error::LedgerError;
use super::reader::Reader;
use super::record::{Millis, SourceId};
use super::row::unsigned;
use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeMap;

const HOUR_MS: Millis = 3_600_000;

/// How many documents are to be tried again when.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dues {
    /// Their time has come, or they are due with the next run.
    pub now: u64,
    /// Within the next hour.
    pub within_hour: u64,
    /// Behind that, within the next 24 hours.
    pub within_day: u64,
    pub later: u64,
}

/// How the failures of a source stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// When the document that has been retrying or quarantined the longest failed first.
    pub oldest_failure: Option<Millis>,
    pub due: Dues,
    /// The earliest time at which one is due.
    pub next_due: Option<Millis>,
}

impl Reader {
    /// How the failures of each source stand at `now`.
    ///
    /// # Errors
    /// Structural ones, as for every method here.
    pub fn standings(&self, now: Millis) -> Result<BTreeMap<SourceId, Standing>, LedgerError> {
        let sources = self.sources()?;
        self.in_one_view(|db| {
            let mut standings = BTreeMap::new();
            for source in sources {
                standings.insert(source.id, standing(db, source.id, now)?);
            }
            Ok(standings)
        })
    }
}

fn standing(db: &Connection, source: SourceId, now: Millis) -> rusqlite::Result<Standing> {
    let oldest_failure = db
        .prepare_cached(
            "SELECT json_extract(rest, '$.first_failed') FROM documents INDEXED BY documents_failed
             WHERE source = ?1 AND state IN ('retrying', 'quarantined')
                 AND json_extract(rest, '$.first_failed') IS NOT NULL
             ORDER BY json_extract(rest, '$.first_failed') LIMIT 1",
        )?
        .query_row([source.0], |row| row.get(0))
        .optional()?;
    let times = (source.0, now, now.saturating_add(HOUR_MS), now.saturating_add(24 * HOUR_MS));
    let (due, next_due) = db
        .prepare_cached(
            "SELECT coalesce(sum(next_attempt IS NULL OR next_attempt <= ?2), 0),
                 coalesce(sum(next_attempt > ?2 AND next_attempt <= ?3), 0),
                 coalesce(sum(next_attempt > ?3 AND next_attempt <= ?4), 0),
                 coalesce(sum(next_attempt > ?4), 0), min(next_attempt)
             FROM documents INDEXED BY documents_retrying WHERE source = ?1 AND state = 'retrying'",
        )?
        .query_row(times, |row| {
            let due = Dues {
                now: unsigned(row, 0)?,
                within_hour: unsigned(row, 1)?,
                within_day: unsigned(row, 2)?,
                later: unsigned(row, 3)?,
            };
            Ok((due, row.get(4)?))
        })?;
    Ok(Standing { oldest_failure, due, next_due })
}
