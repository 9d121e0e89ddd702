//! The budget of a child: the limit on memory that is met first, always at the same byte, and that says so.
//!
//! The books are plain loads and stores: the process has one thread, and a locked instruction for each allocation
//! would cost more than the allocation. The kernel's own limits stand behind it for what does not go through Rust's
//! allocator. In the zygote there is no budget, and what is freed is wiped, so that no child finds the names and
//! passwords of an earlier document in memory that it inherits.

pub use crate::sys::Budgeted;

use crate::recorder;
use shared::recorder::AllocFailure;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static BUDGET: AtomicUsize = AtomicUsize::new(usize::MAX);
static WIPES: AtomicBool = AtomicBool::new(false);

/// From here on at most `bytes` more than what is in use now may be held.
pub(crate) fn set_budget(bytes: u64) {
    USED.store(0, Relaxed);
    PEAK.store(0, Relaxed);
    BUDGET.store(usize::try_from(bytes).unwrap_or(usize::MAX), Relaxed);
}

/// Whether what is freed is wiped.
pub(crate) fn set_wiping(on: bool) {
    WIPES.store(on, Relaxed);
}

pub(crate) fn wipes() -> bool {
    WIPES.load(Relaxed)
}

/// Whether `size` more bytes are within the budget; notes the refusal where not.
pub(crate) fn may_take(size: usize) -> bool {
    let within = USED.load(Relaxed).checked_add(size).is_some_and(|sum| sum <= BUDGET.load(Relaxed));
    if !within {
        failed(size, AllocFailure::Budget);
    }
    within
}

pub(crate) fn took(size: usize) {
    let used = USED.load(Relaxed).saturating_add(size);
    USED.store(used, Relaxed);
    if used > PEAK.load(Relaxed) {
        PEAK.store(used, Relaxed);
        recorder::allocation_peak(used as u64);
    }
}

/// Blocks from before the budget may come back: the books never go below zero.
pub(crate) fn gave_back(size: usize) {
    USED.store(USED.load(Relaxed).saturating_sub(size), Relaxed);
}

pub(crate) fn failed(size: usize, why: AllocFailure) {
    recorder::allocation_failed(size as u64, why);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::testing;
    use shared::recorder::offset;

    #[test]
    fn the_budget_is_met_at_its_byte() {
        let _page = testing::own_page();
        set_budget(100);
        assert!(may_take(100));
        took(100);
        assert!(!may_take(1));
        assert_eq!(testing::word(offset::ALLOC_FAILED), 1);
        assert_eq!(testing::word(offset::ALLOC_WHY), AllocFailure::Budget as u64);
        gave_back(40);
        assert!(may_take(40));
        assert!(!may_take(41));
        assert!(!may_take(usize::MAX));
        assert_eq!(testing::word(offset::ALLOC_PEAK), 100);
        gave_back(1 << 20);
        assert!(may_take(100), "blocks older than the budget do not lower the books below zero");
        set_budget(u64::MAX);
    }
}
