//! What a listing misses, held back until the whole listing is known: a share that is half mounted must not empty the index.
//!
//! Of each loss 44 bytes are kept, of at most [`KEPT`] losses. Where there are more and nothing stands against their deletion, the
//! rest is found again by the next listing.

use crate::ledger::Stat;
use shared::DocumentId;
use std::collections::HashMap;

/// So many losses, and as many arrivals, are kept at most.
const KEPT: usize = 1_000_000;
/// Up to so many losses need no one's word.
const FEW: u64 = 100;

/// What survives a move: inode, size, modification time.
type Mark = (u64, u64, i64);

fn mark(stat: &Stat) -> Mark {
    (stat.ino, stat.size, stat.mtime_ns)
}

/// What is missing so far.
#[derive(Debug, Default)]
pub(super) struct Losses {
    kept: Vec<(DocumentId, Option<Mark>)>,
    not_kept: u64,
    /// How often each arrived: names of one file (hard links) have all one mark, and each makes up for one loss only.
    arrived: HashMap<Mark, u32>,
}

impl Losses {
    pub(super) fn lost(&mut self, id: DocumentId, stat: Option<&Stat>) {
        if self.kept.len() < KEPT {
            self.kept.push((id, stat.map(mark)));
        } else {
            self.not_kept += 1;
        }
    }

    /// An item that was not here: perhaps one of the lost, moved.
    pub(super) fn arrived(&mut self, stat: &Stat) {
        if self.arrived.len() < KEPT {
            *self.arrived.entry(mark(stat)).or_default() += 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// How many are lost, moves not counted.
    pub(super) fn count(&self) -> u64 {
        let mut lost: HashMap<Mark, u32> = HashMap::new();
        let mut moved = 0;
        for mark in self.kept.iter().filter_map(|(_, mark)| *mark) {
            let Some(&arrived) = self.arrived.get(&mark) else { continue };
            let lost = lost.entry(mark).or_default();
            *lost += 1;
            moved += u64::from(*lost <= arrived);
        }
        self.kept.len() as u64 - moved + self.not_kept
    }

    /// Whether these are too many of `known` to be believed without a person's word.
    pub(super) fn are_too_many(&self, known: u64, guard: f64) -> bool {
        let count = self.count();
        count > FEW && as_float(count) > guard * as_float(known)
    }

    /// How many the next listing has to find again.
    pub(super) fn not_kept(&self) -> u64 {
        self.not_kept
    }

    pub(super) fn take(&mut self) -> Vec<DocumentId> {
        std::mem::take(&mut self.kept).into_iter().map(|(id, _)| id).collect()
    }
}

/// Exact far beyond any count of documents.
fn as_float(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(count: u8) -> Losses {
        let mut losses = Losses::default();
        for n in 0..count {
            let stat = Stat { size: 1, mtime_ns: 1, ctime_ns: 1, dev: 1, ino: n.into() };
            losses.lost(DocumentId([n; 20]), Some(&stat));
        }
        losses
    }

    #[test]
    fn more_than_a_hundred_and_more_than_the_share_are_too_many() {
        assert!(!losses(100).are_too_many(100, 0.1));
        assert!(losses(101).are_too_many(1009, 0.1));
        assert!(!losses(101).are_too_many(1010, 0.1));
        assert!(!losses(200).are_too_many(200, 1.0));
    }

    #[test]
    fn what_arrived_elsewhere_is_not_lost() {
        let mut losses = losses(101);
        losses.arrived(&Stat { size: 1, mtime_ns: 1, ctime_ns: 77, dev: 1, ino: 7 });
        assert_eq!(losses.count(), 100);
        assert!(!losses.are_too_many(101, 0.1));
        assert_eq!(losses.take().len(), 101);
    }

    #[test]
    fn one_name_that_arrives_makes_up_for_one_that_is_lost() {
        let stat = Stat { size: 1, mtime_ns: 1, ctime_ns: 1, dev: 1, ino: 9 };
        let mut losses = Losses::default();
        for n in 0..5 {
            losses.lost(DocumentId([n; 20]), Some(&stat));
        }
        losses.arrived(&stat);
        losses.arrived(&stat);
        assert_eq!(losses.count(), 3);
    }
}
