//! The allocator of the worker's program: the C library's, with the books of [`crate::memory`] around it.

use crate::memory;
use shared::recorder::AllocFailure;
use std::alloc::{GlobalAlloc, Layout, System};

/// Counts every allocation and refuses those beyond the budget of a child. To be made the `#[global_allocator]` of a
/// program, not of this library: tests and benchmarks of the library keep the plain one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Budgeted;

// SAFETY: every block comes from System and goes back to it with the layout it came with; refusing by null is what
// the trait provides for.
unsafe impl GlobalAlloc for Budgeted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !memory::may_take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise about `layout` is passed on.
        booked(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !memory::may_take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise about `layout` is passed on.
        booked(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        memory::gave_back(layout.size());
        if memory::wipes() {
            // SAFETY: the block is the caller's to give up, `layout.size()` bytes long, and not yet given back.
            unsafe { wipe(block, layout.size()) };
        }
        // SAFETY: the caller's promise about `block` and `layout` is passed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let growth = size.saturating_sub(layout.size());
        if growth > 0 && !memory::may_take(growth) {
            return std::ptr::null_mut();
        }
        if memory::wipes() {
            // SAFETY: the caller's promise about `block`, `layout` and `size` is passed on.
            return unsafe { move_and_wipe(*self, block, layout, size) };
        }
        // SAFETY: the caller's promise about `block`, `layout` and `size` is passed on.
        let moved = unsafe { System.realloc(block, layout, size) };
        if moved.is_null() {
            memory::failed(size, AllocFailure::Kernel);
        } else {
            memory::gave_back(layout.size());
            memory::took(size);
        }
        moved
    }
}

fn booked(block: *mut u8, size: usize) -> *mut u8 {
    if block.is_null() {
        memory::failed(size, AllocFailure::Kernel);
    } else {
        memory::took(size);
    }
    block
}

/// # Safety
/// As of [`GlobalAlloc::realloc`].
unsafe fn move_and_wipe(allocator: Budgeted, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    // SAFETY: `size` is not zero and does not overflow with this alignment, by the contract of realloc.
    let moved = unsafe { allocator.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
    if !moved.is_null() {
        // SAFETY: two live blocks of at least that many bytes, the new one fresh from the allocator.
        unsafe { std::ptr::copy_nonoverlapping(block, moved, layout.size().min(size)) };
        // SAFETY: the caller gives `block` up where the answer is not null.
        unsafe { allocator.dealloc(block, layout) };
    }
    moved
}

/// # Safety
/// `block` must be `size` bytes that may be written.
unsafe fn wipe(block: *mut u8, size: usize) {
    for offset in 0..size {
        // SAFETY: within the block, by this function's contract. Volatile, so that it is not left out as a dead write.
        unsafe { block.add(offset).write_volatile(0) };
    }
}
