//! The words of the recorder page. Until a child has mapped its page they lie in a page of this process, so that no
//! writer has to ask whether there is one.

use shared::recorder::SIZE;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

const WORDS: usize = SIZE / 8;

static OWN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
static MAPPED: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

/// The word at this offset of the page; the first one where the offset lies outside.
pub(crate) fn word(offset: usize) -> &'static AtomicU64 {
    let index = if offset < SIZE { offset / 8 } else { 0 };
    let base = MAPPED.load(Relaxed);
    if base.is_null() {
        return &OWN[index];
    }
    // SAFETY: `map_page` is the only writer of MAPPED: a mapping of SIZE bytes, aligned to a page and never unmapped.
    // The index is below WORDS. The supervisor only reads the other side, and atomics allow that.
    unsafe { &*base.add(index) }
}

/// From here on the words lie in this mapping.
pub(super) fn use_mapping(base: *mut AtomicU64) {
    MAPPED.store(base, Relaxed);
}
