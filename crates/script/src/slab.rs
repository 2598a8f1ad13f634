//! Small blocks for all scripts of one thread, from chunks that each hold one size.
//!
//! A JavaScript runtime is a thousand small blocks. A general allocator pays some bytes for each
//! and leaves holes between them; a slab per runtime wastes half a page for every size. Here all
//! runtimes of a thread take from the same chunks, without locks, because a virtual user never
//! leaves its thread.
//!
//! All chunks lie in one range of addresses, reserved once: an address tells whether a block is
//! from here, and the chunk's number its size.

use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Larger blocks are the C library's.
pub const SMALL_MAX: usize = 512;
const CHUNK_BYTES: usize = 64 << 10;
/// Addresses, not memory.
const RESERVED_BYTES: usize = 64 << 30;
const CHUNKS: usize = RESERVED_BYTES / CHUNK_BYTES;
const CLASSES: usize = class_of(SMALL_MAX) + 1;

/// In steps of 8 up to 128, of 16 up to 256, of 32 up to 512: a block is at most an eighth too
/// large.
const fn class_of(size: usize) -> usize {
    match size {
        0..=8 => 0,
        9..=128 => size.div_ceil(8) - 1,
        129..=256 => 16 + (size - 128).div_ceil(16) - 1,
        _ => 24 + (size - 256).div_ceil(32) - 1,
    }
}

const fn size_of_class(class: usize) -> usize {
    match class {
        0..16 => (class + 1) * 8,
        16..24 => 128 + (class - 15) * 16,
        _ => 256 + (class - 23) * 32,
    }
}

/// The reserved range, or nothing where the system gives none.
struct Range {
    start: usize,
    /// Chunks handed out so far.
    used: AtomicUsize,
    /// Chunks of threads that have ended.
    free: Mutex<Vec<usize>>,
    classes: Box<[AtomicU8]>,
}

fn range() -> Option<&'static Range> {
    static RANGE: OnceLock<Option<Range>> = OnceLock::new();
    RANGE.get_or_init(reserve).as_ref()
}

fn reserve() -> Option<Range> {
    // SAFETY: asks for fresh addresses; nothing is overlaid.
    let start = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        libc::mmap(null_mut(), RESERVED_BYTES, libc::PROT_NONE, flags, -1, 0)
    };
    if start == libc::MAP_FAILED {
        return None;
    }
    let classes = (0..CHUNKS).map(|_| AtomicU8::new(0)).collect();
    Some(Range {
        start: start as usize,
        used: AtomicUsize::new(0),
        free: Mutex::default(),
        classes,
    })
}

impl Range {
    /// Number of the chunk that an address is in.
    #[inline]
    fn chunk(&self, address: usize) -> Option<usize> {
        let offset = address.wrapping_sub(self.start);
        (offset < RESERVED_BYTES).then_some(offset / CHUNK_BYTES)
    }

    fn take(&self, class: usize) -> Option<usize> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let chunk = match free {
            Some(chunk) => chunk,
            None => {
                let chunk = self.used.fetch_add(1, Ordering::Relaxed);
                if chunk >= CHUNKS {
                    return None;
                }
                let address = self.start + chunk * CHUNK_BYTES;
                let access = libc::PROT_READ | libc::PROT_WRITE;
                // SAFETY: within the reserved range, and this chunk is nobody else's.
                if unsafe { libc::mprotect(address as *mut _, CHUNK_BYTES, access) } != 0 {
                    return None;
                }
                chunk
            }
        };
        self.classes[chunk].store(class as u8, Ordering::Relaxed);
        Some(chunk)
    }
}

/// Size of a block of ours; `None`: it is the C library's.
#[inline]
pub fn size_of(block: *mut u8) -> Option<usize> {
    let range = range()?;
    let chunk = range.chunk(block as usize)?;
    Some(size_of_class(usize::from(range.classes[chunk].load(Ordering::Relaxed))))
}

/// One thread's blocks.
struct Slabs {
    /// Freed blocks by size; each holds the address of the next.
    free: [*mut u8; CLASSES],
    /// The part of a chunk that was never used, by size.
    fresh: [(usize, usize); CLASSES],
    chunks: Vec<usize>,
}

impl Drop for Slabs {
    fn drop(&mut self) {
        // No script outlives its thread, so every block is free.
        if let Some(range) = range() {
            let mut free = range.free.lock().unwrap_or_else(PoisonError::into_inner);
            free.append(&mut self.chunks);
        }
    }
}

thread_local! {
    static SLABS: UnsafeCell<Slabs> = const {
        UnsafeCell::new(Slabs {
            free: [null_mut(); CLASSES],
            fresh: [(0, 0); CLASSES],
            chunks: Vec::new(),
        })
    };
}

/// A block of at least `size` bytes, at most [`SMALL_MAX`]. Null: there is no memory.
#[inline]
pub fn alloc(size: usize) -> *mut u8 {
    let class = class_of(size);
    let taken = SLABS.try_with(|slabs| {
        // SAFETY: one thread, and nothing in here calls back.
        let slabs = unsafe { &mut *slabs.get() };
        let block = slabs.free[class];
        if !block.is_null() {
            // SAFETY: a free block holds the address of the next one.
            slabs.free[class] = unsafe { block.cast::<*mut u8>().read() };
            return block;
        }
        slabs.fresh_block(class)
    });
    taken.unwrap_or(null_mut())
}

/// # Safety
/// The block is from [`alloc`] on this thread, and free from now on.
#[inline]
pub unsafe fn dealloc(block: *mut u8, size: usize) {
    let class = class_of(size);
    let _ = SLABS.try_with(|slabs| {
        // SAFETY: as above; the caller gives the block away, and it holds at least an address.
        unsafe {
            let slabs = &mut *slabs.get();
            block.cast::<*mut u8>().write(slabs.free[class]);
            slabs.free[class] = block;
        }
    });
}

impl Slabs {
    #[cold]
    fn fresh_block(&mut self, class: usize) -> *mut u8 {
        let size = size_of_class(class);
        let (next, end) = self.fresh[class];
        if next + size <= end && next != 0 {
            self.fresh[class].0 = next + size;
            return next as *mut u8;
        }
        let Some(range) = range() else { return null_mut() };
        let Some(chunk) = range.take(class) else { return null_mut() };
        self.chunks.push(chunk);
        let start = range.start + chunk * CHUNK_BYTES;
        self.fresh[class] = (start + size, start + CHUNK_BYTES);
        start as *mut u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_a_class_that_is_large_enough_and_not_much_larger() {
        for size in 1..=SMALL_MAX {
            let given = size_of_class(class_of(size));
            assert!(given >= size, "{size} {given}");
            assert!(given <= size.max(8) + 8.max(size / 8 + 8), "{size} {given}");
        }
        assert_eq!(size_of_class(CLASSES - 1), SMALL_MAX);
    }

    #[test]
    fn blocks_do_not_overlap_and_are_used_again() {
        std::thread::spawn(|| {
            let blocks: Vec<_> = (0..5000).map(|n| (alloc(1 + n % 512), 1 + n % 512)).collect();
            for (n, &(block, size)) in blocks.iter().enumerate() {
                assert!(size_of(block).unwrap() >= size);
                // SAFETY: just allocated with this size.
                unsafe { block.write_bytes(n as u8, size) };
            }
            for (n, &(block, size)) in blocks.iter().enumerate() {
                // SAFETY: as above.
                let content = unsafe { std::slice::from_raw_parts(block, size) };
                assert!(content.iter().all(|byte| *byte == n as u8));
            }
            let (last, size) = blocks[4999];
            // SAFETY: from `alloc` on this thread.
            unsafe { dealloc(last, size_of(last).unwrap()) };
            assert_eq!(alloc(size), last);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_is_not_ours_is_told_apart() {
        let outside = Box::into_raw(Box::new(7u64));
        assert_eq!(size_of(outside.cast()), None);
        // SAFETY: made a box just now.
        drop(unsafe { Box::from_raw(outside) });
    }
}
