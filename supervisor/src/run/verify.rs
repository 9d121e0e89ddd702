//! The verify pass: of what a listing saw no change in, a share is read again, past the page cache. Bytes can move while size,
//! times and inode stand still.
//!
//! It comes when all that is new has been carried. What differs is carried anew; what does not leaves no trace.

use super::RunError;
use super::desk::Desk;
use crate::ledger::{Change, Record, SourceRow};
use crate::source::fetch::rehash;
use crate::source::folder::Unchanged;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;

/// So many are remembered at most; another run picks others.
const PICKED_MAX: usize = 100_000;
/// So many are read at a time.
const READ_AT_A_TIME: usize = 4;

/// What a listing picked.
#[derive(Debug, Clone, Default)]
pub(super) struct Picked(Arc<Mutex<Vec<Unchanged>>>);

impl Picked {
    /// Remembers some more.
    pub(super) fn add(&self, more: Vec<Unchanged>) {
        let mut picked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = PICKED_MAX.saturating_sub(picked.len());
        picked.extend(more.into_iter().take(room));
    }

    fn take(&self) -> Vec<Unchanged> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reads again what was picked. Gives how many documents turned out to have other bytes and are pending now.
pub(super) async fn verify(desk: &Desk, source: &Arc<SourceRow>, picked: &Picked) -> Result<usize, RunError> {
    let mut left = picked.take().into_iter();
    let mut reading = JoinSet::new();
    let mut found = 0;
    loop {
        while reading.len() < READ_AT_A_TIME
            && !desk.orders.is_stopped()
            && let Some(one) = left.next()
        {
            let (desk, source) = (desk.clone(), source.clone());
            reading.spawn(async move { differs(&desk, &source, one).await });
        }
        match reading.join_next().await {
            None => return Ok(found),
            Some(done) => {
                if let Some(record) = done.map_err(|_| RunError::Ended)?? {
                    let event = desk.event(record.id, Some(record.revision), Change::Requeued);
                    found += desk.record(vec![event]).await?.len();
                }
            }
        }
    }
}

/// The record, if its bytes are others by now.
async fn differs(desk: &Desk, source: &SourceRow, one: Unchanged) -> Result<Option<Record>, RunError> {
    let id = one.id;
    let Some(record) = desk.readers.with(move |reader| reader.record(id)).await? else { return Ok(None) };
    // It has moved on, or nothing is known of its bytes.
    if record.stat != Some(one.stat) || record.task.is_some() || !record.fetched {
        return Ok(None);
    }
    let limits = &desk.means.settings.limits;
    match rehash(&source.root, &one.path, limits.fetch_ms, limits.input).await {
        Ok(again) if again.stat == one.stat && Some(again.sha256) != record.sha256 => Ok(Some(record)),
        // What changed by now, or cannot be read, is the next listing's and the next fetch's to say.
        Ok(_) | Err(_) => Ok(None),
    }
}
