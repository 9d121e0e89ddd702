//! Which unchanged items a listing picks to be read again. Pure.
//!
//! Size, times and inode can all stand still while bytes move: a disk that rots, a clock that was set back. Reading
//! everything in each run would cost what the listing is there to save; a share of it finds every such item in the end.

use crate::ledger::KnownItem;
use crate::rules::kind::State;
use shared::DocumentId;

/// A share of the unchanged items, another one for each salt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verify {
    /// From 0 to 1.
    pub share: f64,
    /// What differs from run to run: the time of the listing.
    pub salt: u64,
}

impl Verify {
    /// Whether the document is one of the share. The same for the same salt; over many salts all have their turn.
    pub fn picks(self, id: DocumentId) -> bool {
        let (first, _) = id.0.split_first_chunk().expect("an id has more than 8 bytes");
        let mixed = mixed(u64::from_le_bytes(*first) ^ mixed(self.salt));
        // The upper 32 bits: exact as a floating point number.
        f64::from(u32::try_from(mixed >> 32).unwrap_or(u32::MAX)) < self.share * 2_f64.powi(32)
    }
}

/// Whether bytes of it were read before, so that there is something to hold a second reading against. What is pending or
/// retrying is read again anyway.
pub(super) fn was_read(known: &KnownItem) -> bool {
    matches!(known.state, State::Indexed | State::Suspect | State::Quarantined) && !known.leaving
}

/// Spreads every bit over all others (the end of SplitMix64).
fn mixed(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::Identity;

    fn ids(count: u32) -> Vec<DocumentId> {
        (0..count).map(|n| DocumentId::derive("s", &Identity::item(format!("d/{n}").as_bytes()))).collect()
    }

    fn picked(ids: &[DocumentId], share: f64, salt: u64) -> usize {
        ids.iter().filter(|id| Verify { share, salt }.picks(**id)).count()
    }

    #[test]
    fn it_is_the_share_for_every_salt() {
        let ids = ids(20_000);
        for salt in [0, 1, 2, 1_764_547_200_000, 1_764_547_200_001, u64::MAX] {
            let count = picked(&ids, 0.01, salt);
            // 200 are expected, give or take 14 (a standard deviation): five of them.
            assert!((130..=270).contains(&count), "{salt}: {count}");
            assert_eq!((picked(&ids, 0.0, salt), picked(&ids, 1.0, salt)), (0, 20_000));
        }
    }

    #[test]
    fn every_item_has_its_turn_and_each_run_another_share() {
        let ids = ids(2_000);
        let salts = (0..2_000_u64).map(|run| 1_764_547_200_000 + run * 86_400_000);
        let mut turns = vec![0_u32; ids.len()];
        for salt in salts {
            for (turns, id) in turns.iter_mut().zip(&ids) {
                *turns += u32::from(Verify { share: 0.01, salt }.picks(*id));
            }
        }
        // 20 turns are expected for each; that one of 2,000 had none would be a chance of 1 in 250,000.
        assert!(turns.iter().all(|&turns| turns > 0), "{:?}", turns.iter().min());
        assert!(turns.iter().all(|&turns| turns < 60), "{:?}", turns.iter().max());
    }
}
