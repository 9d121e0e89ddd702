//! Forgets kept texts that no record refers to any more.
//!
//! The writer forgets what it replaces itself. It does not see it all: a text that waits for its sink is not waited for any
//! more once its document goes, changes or is shut out, and between a kept text and the ledger a supervisor can die. Where
//! that may have happened it is noted, and all kept texts are held against all records when a run has come to its end. Both
//! are read from one end to the other: where nothing was noted, nothing is read.

use super::{Readers, RunError};
use crate::ledger::{LedgerHandle, Reader};
use crate::rules::reconcile::{Merge, Met};
use crate::sink::texts::Texts;
use shared::ContentHash;
use std::path::Path;
use std::sync::Arc;

/// Under this name it is kept whether there is something to look for.
const NOTE: &str = "kept texts to sweep";
/// Hashes that are read at a time.
const PIECE: usize = 2000;

/// From here on a kept text may be left behind without a record.
///
/// # Errors
/// The ledger cannot be written.
pub(super) async fn note(ledger: &LedgerHandle) -> Result<(), RunError> {
    Ok(ledger.note(NOTE, 1).await?)
}

/// Looks for what was left behind, if that was noted, and forgets it. Nothing may be on its way to the ledger meanwhile.
///
/// # Errors
/// One of the two stores cannot be read or written.
pub(super) async fn sweep(
    ledger: &LedgerHandle,
    readers: &Arc<Readers>,
    state: &Path,
) -> Result<(), RunError> {
    let (noted, waiting) = readers.with(|reader| Ok((reader.note(NOTE)?, reader.unsent(None, 1)?))).await?;
    if noted != Some(1) {
        return Ok(());
    }
    let (readers, state) = (readers.clone(), state.to_owned());
    let swept = tokio::task::spawn_blocking(move || {
        let mut texts = Texts::open(&state)?;
        let unused = unused(&readers.open()?, &texts)?;
        Ok::<_, RunError>(texts.forget(&unused)?)
    });
    swept.await.map_err(|_| RunError::Ended)??;
    // What still waits may be left behind as well.
    if waiting.is_empty() {
        ledger.note(NOTE, 0).await?;
    }
    Ok(())
}

fn unused(reader: &Reader, texts: &Texts) -> Result<Vec<ContentHash>, RunError> {
    let mut merge = Merge::new(reader.references().map(|of| of.map_err(RunError::from)));
    let (mut unused, mut last) = (Vec::new(), None);
    loop {
        let hashes = texts.hashes(last, PIECE)?;
        let Some(behind) = hashes.last() else { return Ok(unused) };
        last = Some(*behind);
        for hash in hashes {
            merge.held(hash, &mut |met| {
                if let Met::Held(hash) = met {
                    unused.push(hash);
                }
                Ok(())
            })?;
        }
    }
}
