//! The memory of scripts: each has a limit, and all together have one.
//!
//! A script that allocates without end gets an exception when its own limit is reached. When all
//! scripts together have used up the budget, only those above their fair share are refused more, so
//! that a greedy one does not starve its neighbours.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use rquickjs::allocator::Allocator;

use crate::slab;

/// A script reports its use in steps of this size; all scripts share one counter.
const GRAIN: i64 = 64 << 10;

/// What all scripts of this process may use.
pub struct Budget {
    limit: i64,
    each: usize,
    used: AtomicI64,
    heaps: AtomicU64,
    /// Bytes that runtimes had not freed when they ended.
    leaked: AtomicU64,
}

impl Budget {
    /// `all`: bytes for all scripts together; `each`: for any one of them.
    pub fn new(all: u64, each: usize) -> Arc<Budget> {
        let limit = i64::try_from(all).unwrap_or(i64::MAX);
        Arc::new(Budget {
            limit,
            each,
            used: AtomicI64::new(0),
            heaps: AtomicU64::new(0),
            leaked: AtomicU64::new(0),
        })
    }

    /// Bytes in use by all scripts, to some tens of kilobytes for each.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed).max(0) as u64
    }

    /// Bytes that were lost for good when their runtime ended: a mistake of ours.
    pub fn leaked(&self) -> u64 {
        self.leaked.load(Ordering::Relaxed)
    }

    fn fair_share(&self) -> usize {
        let heaps = self.heaps.load(Ordering::Relaxed).max(1);
        (self.limit as u64 / heaps) as usize
    }
}

pub struct Heap {
    budget: Arc<Budget>,
    used: usize,
    unreported: i64,
}

impl Heap {
    pub fn new(budget: Arc<Budget>) -> Heap {
        budget.heaps.fetch_add(1, Ordering::Relaxed);
        Heap { budget, used: 0, unreported: 0 }
    }

    #[inline]
    fn has_room(&self, more: usize) -> bool {
        if more < GRAIN as usize && self.used < GRAIN as usize {
            return true;
        }
        let after = self.used.saturating_add(more);
        if after > self.budget.each {
            return false;
        }
        let all = self.budget.used.load(Ordering::Relaxed).saturating_add(more as i64);
        all <= self.budget.limit || after <= self.budget.fair_share()
    }

    #[inline]
    fn count(&mut self, change: i64) {
        self.used = self.used.wrapping_add_signed(change as isize);
        self.unreported += change;
        if self.unreported.abs() >= GRAIN {
            self.budget.used.fetch_add(self.unreported, Ordering::Relaxed);
            self.unreported = 0;
        }
    }

    #[inline]
    fn counted(&mut self, pointer: *mut u8) -> *mut u8 {
        if !pointer.is_null() {
            // SAFETY: just allocated.
            self.count(unsafe { Heap::usable_size(pointer) } as i64);
        }
        pointer
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        self.budget.used.fetch_add(self.unreported - self.used as i64, Ordering::Relaxed);
        self.budget.heaps.fetch_sub(1, Ordering::Relaxed);
        self.budget.leaked.fetch_add(self.used as u64, Ordering::Relaxed);
    }
}

// SAFETY: memory comes from the slabs or from the C library's allocator, which keep what the trait
// asks for; a refused allocation is a null pointer, which QuickJS turns into an exception.
unsafe impl Allocator for Heap {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        if !self.has_room(size) {
            return std::ptr::null_mut();
        }
        let mut pointer = std::ptr::null_mut();
        if size <= slab::SMALL_MAX {
            pointer = slab::alloc(size);
        }
        if pointer.is_null() {
            // SAFETY: any size is allowed.
            pointer = unsafe { libc::malloc(size) }.cast();
        }
        self.counted(pointer)
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        let Some(bytes) = count.checked_mul(size) else { return std::ptr::null_mut() };
        let pointer = self.alloc(bytes);
        if !pointer.is_null() {
            // SAFETY: just allocated with this size.
            unsafe { pointer.write_bytes(0, bytes) };
        }
        pointer
    }

    unsafe fn dealloc(&mut self, pointer: *mut u8) {
        if pointer.is_null() {
            return;
        }
        // SAFETY: the caller's promise: allocated here, on this thread, and not freed.
        unsafe {
            self.count(-(Heap::usable_size(pointer) as i64));
            free(pointer);
        }
    }

    unsafe fn realloc(&mut self, pointer: *mut u8, size: usize) -> *mut u8 {
        if pointer.is_null() {
            return self.alloc(size);
        }
        // SAFETY: the caller's promise: allocated here and not freed.
        let before = unsafe { Heap::usable_size(pointer) };
        if size > before && !self.has_room(size - before) {
            return std::ptr::null_mut();
        }
        let is_small = slab::size_of(pointer).is_some();
        if is_small && size <= before && size * 2 > before {
            return pointer;
        }
        if !is_small && size > slab::SMALL_MAX {
            // SAFETY: as above; it is the C library's.
            let moved: *mut u8 = unsafe { libc::realloc(pointer.cast(), size) }.cast();
            if !moved.is_null() {
                self.count(-(before as i64));
            }
            return self.counted(moved);
        }
        let moved = self.alloc(size);
        if !moved.is_null() {
            // SAFETY: two blocks, both at least this long.
            unsafe {
                std::ptr::copy_nonoverlapping(pointer, moved, before.min(size));
                self.dealloc(pointer);
            }
        }
        moved
    }

    unsafe fn usable_size(pointer: *mut u8) -> usize {
        // SAFETY: the caller's promise.
        slab::size_of(pointer)
            .unwrap_or_else(|| unsafe { libc::malloc_usable_size(pointer.cast()) })
    }
}

/// # Safety
/// Allocated by a heap on this thread, and not freed.
unsafe fn free(pointer: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        match slab::size_of(pointer) {
            Some(size) => slab::dealloc(pointer, size),
            None => libc::free(pointer.cast()),
        }
    }
}
