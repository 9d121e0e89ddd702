//! What a supervisor leaves behind: documents in hand, and an index that is not what the ledger believes.

use super::alerts::{Alerts, Topic};
use super::desk::now;
use super::{Readers, RunError, sweep};
use crate::ledger::{Change, Durability, Event, LedgerHandle, boot_id};
use crate::report::style::count;
use crate::rules::retry;
use crate::settings::Retry;
use crate::sink::embedded::Embedded;
use shared::DocumentId;
use std::sync::Arc;

/// Events of one transaction.
const BATCH: usize = 1000;

/// Records what was lost with the last supervisor, and raises what people should know.
pub(super) async fn recover(
    ledger: &LedgerHandle,
    readers: &Arc<Readers>,
    retry: &Retry,
    anew: Option<&Embedded>,
    alerts: &Alerts,
) -> Result<(), RunError> {
    let lost = lost(ledger, readers, retry).await?;
    if lost > 0 {
        let words = format!(
            "the last run ended without warning; {} tried one by one, which it had in hand",
            count(lost as u64, "document is", "documents are")
        );
        alerts.raise(Topic::Recovery, None, &words);
    }
    let last = readers.with(|reader| reader.last_run()).await?;
    if anew.is_some() || last.is_some_and(|run| run.ended.is_none()) {
        // A text was perhaps kept of which the ledger never heard; and what is only remembered of a lost index goes.
        sweep::note(ledger).await?;
    }
    if let Some(index) = anew {
        let again = unwritten(ledger, readers).await?;
        if again > 0 {
            let words = format!(
                "the embedded index was missing or damaged; {} to be written again from kept texts",
                count(again as u64, "document is", "documents are")
            );
            alerts.raise(Topic::Recovery, None, &words);
        }
        index.mark_known()?;
    }
    Ok(())
}

async fn lost(ledger: &LedgerHandle, readers: &Arc<Readers>, retry: &Retry) -> Result<usize, RunError> {
    let in_hand = readers
        .with(|reader| {
            let mut lost = Vec::new();
            for hand in reader.in_hand()? {
                if let Some(record) = reader.record(hand.doc)? {
                    lost.push((hand, record));
                }
            }
            Ok(lost)
        })
        .await?;
    let last = readers.with(|reader| reader.last_run()).await?;
    // A machine that went down took the supervisor with it: that counts for nobody.
    let rebooted = last.is_none_or(|run| run.boot_id.is_none() || run.boot_id != boot_id());
    let events: Vec<_> = in_hand
        .iter()
        .map(|(hand, record)| {
            let alone = hand.alone && !rebooted;
            let settle = retry::supervisor_lost(record.crashes, alone, retry.max_crashes);
            let change = Change::Lost { stage: hand.stage, alone, settle };
            Event { doc: hand.doc, expects: None, at: now(), change }
        })
        .collect();
    let lost = events.len();
    if lost > 0 {
        ledger.append(events, Durability::Journal).await?;
    }
    Ok(lost)
}

async fn unwritten(ledger: &LedgerHandle, readers: &Arc<Readers>) -> Result<usize, RunError> {
    let documents = readers
        .with(|reader| {
            let mut documents: Vec<DocumentId> = Vec::new();
            reader.in_sink(&mut |id| documents.push(id))?;
            Ok(documents)
        })
        .await?;
    for batch in documents.chunks(BATCH) {
        let events = batch
            .iter()
            .map(|&doc| Event { doc, expects: None, at: now(), change: Change::Unwritten })
            .collect();
        ledger.append(events, Durability::Synced).await?;
    }
    Ok(documents.len())
}

/// What was in flight when the run was given up is as if it had not been begun. Where the ledger is what failed, the next
/// run finds it in hand.
pub(super) async fn put_back(ledger: &LedgerHandle, readers: &Arc<Readers>) {
    let done = async {
        let in_hand = readers.with(|reader| reader.in_hand()).await?;
        let back = |doc| Event { doc, expects: None, at: now(), change: Change::PutBack };
        ledger.append(in_hand.into_iter().map(|hand| back(hand.doc)).collect(), Durability::Journal).await
    };
    if let Err(error) = done.await {
        tracing::debug!(%error, "what was in flight could not be put back");
    }
}
