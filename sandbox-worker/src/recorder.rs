//! The writing end of the flight recorder: atomics into the page that the supervisor reads after this child's death.
//!
//! Costs no system call, and works inside a crash handler and inside the allocator: nothing here allocates or locks.

use crate::sys;
use shared::recorder::{self, AllocFailure, PANIC_FILE_MAX, PANIC_MESSAGE_MAX, Stage, offset};
use std::sync::atomic::Ordering::Relaxed;

/// Writes one word at its offset.
pub(crate) fn set(offset: usize, value: u64) {
    sys::word(offset).store(value.to_le(), Relaxed);
}

/// The page is this child's from here on.
pub(crate) fn open() {
    set(offset::MAGIC, recorder::MAGIC);
}

/// What the child is doing.
pub(crate) fn stage(stage: Stage) {
    set(offset::STAGE, stage as u64);
}

/// How far the parser is.
pub(crate) fn position(done: u64) {
    set(offset::POSITION, done);
}

pub(crate) fn allocation_peak(bytes: u64) {
    set(offset::ALLOC_PEAK, bytes);
}

pub(crate) fn allocation_failed(bytes: u64, why: AllocFailure) {
    set(offset::ALLOC_FAILED, bytes);
    set(offset::ALLOC_WHY, why as u64);
}

/// A step of the cage's setup that failed.
pub(crate) fn setup_failed(step: u64, errno: i32) {
    set(offset::SETUP_ERRNO, u64::from(errno.unsigned_abs()));
    set(offset::SETUP_STEP, step);
}

/// A panic; a later one takes an earlier one's place.
pub(crate) fn panicked(file: &str, line: u32, message: &str) {
    text(offset::PANIC_FILE, offset::PANIC_FILE_LEN, cut(file, PANIC_FILE_MAX));
    text(offset::PANIC_MESSAGE, offset::PANIC_MESSAGE_LEN, cut(message, PANIC_MESSAGE_MAX));
    set(offset::PANIC_LINE, u64::from(line));
    set(offset::PANICKED, 1);
}

fn cut(text: &str, most: usize) -> &[u8] {
    text.as_bytes().get(..text.floor_char_boundary(most)).unwrap_or_default()
}

fn text(at: usize, length_at: usize, bytes: &[u8]) {
    for (index, piece) in bytes.chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..piece.len()].copy_from_slice(piece);
        sys::word(at + 8 * index).store(u64::from_ne_bytes(word), Relaxed);
    }
    set(length_at, bytes.len() as u64);
}

#[cfg(test)]
pub(crate) mod testing {
    //! The page of the test process itself, one test at a time.

    use super::sys;
    use shared::recorder::{Recording, SIZE};
    use std::sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed};

    static PAGE: Mutex<()> = Mutex::new(());

    /// The page, cleared and for the caller alone.
    pub(crate) fn own_page() -> MutexGuard<'static, ()> {
        let guard = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
        for at in (0..SIZE).step_by(8) {
            sys::word(at).store(0, Relaxed);
        }
        guard
    }

    pub(crate) fn word(at: usize) -> u64 {
        sys::word(at).load(Relaxed)
    }

    pub(crate) fn read() -> Recording {
        let mut page = [0; SIZE];
        for at in (0..SIZE).step_by(8) {
            page[at..at + 8].copy_from_slice(&word(at).to_ne_bytes());
        }
        Recording::read(&page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_the_supervisor_reads() {
        let _page = testing::own_page();
        open();
        stage(Stage::Parse);
        position(7);
        allocation_failed(1 << 30, AllocFailure::Kernel);
        panicked("src/x.rs", 12, &"ä".repeat(400));
        setup_failed(3, 13);
        let read = testing::read();
        assert!(read.mapped);
        assert_eq!((read.stage, read.position), (Stage::Parse as u64, 7));
        let failed = read.alloc_failed.unwrap();
        assert_eq!((failed.bytes, failed.why), (1 << 30, AllocFailure::Kernel));
        let panic = read.panic.unwrap();
        assert_eq!((panic.file.as_str(), panic.line), ("src/x.rs", 12));
        assert_eq!(panic.message, "ä".repeat(256));
        assert_eq!(read.setup, Some((3, 13)));
    }
}
