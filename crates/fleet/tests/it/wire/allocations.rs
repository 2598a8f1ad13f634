//! What reading something costs.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// Counts what each thread asks for.
struct Counting;

impl Counting {
    fn add(bytes: usize) {
        // A thread that is ending counts nothing more.
        let _ = ALLOCATED.try_with(|sum| sum.set(sum.get().saturating_add(bytes)));
    }
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::add(size.saturating_sub(layout.size()));
        // SAFETY: as the caller promised.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Does it, and says how many bytes it asked for.
pub fn counted<T>(work: impl FnOnce() -> T) -> (T, usize) {
    ALLOCATED.set(0);
    let done = work();
    (done, ALLOCATED.get())
}
