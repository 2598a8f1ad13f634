//! A segment file of the write-ahead log, made of whatever the fuzzer thinks of, goes through
//! recovery and reading.
//!
//! The first byte of the input chooses the shape: the rest is the whole file, or stands behind a
//! good head, or is a recipe for a good segment and changes to it. The last shape is what gets past
//! the checksums.

#![no_main]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use fence::{Hlc, NodeId};
use libfuzzer_sys::fuzz_target;
use wal::{Clock, Durability, FaultyDisk, Log, LogIdentity, Options, Record, Wal};

/// Notes the largest single allocation.
struct Watching;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

const FOLDER: &str = "/wal";
const IDENTITY: LogIdentity = LogIdentity { node: NodeId(5), log: 9 };
const SEGMENT_BYTES: u64 = 1 << 13;

fn options() -> Options {
    Options {
        rebuild_witness: true,
        durability: Durability::Flush,
        reserve_bytes: 0,
        ..Options::small(SEGMENT_BYTES)
    }
}

fn segment() -> PathBuf {
    Path::new(FOLDER).join("segment_00000001.wal")
}

/// Opens a disk with this one segment, and reads all that it gives.
fn recover(bytes: &[u8], len: u64) -> Option<Vec<Record>> {
    let disk = FaultyDisk::new(1);
    disk.plant(&segment(), bytes, len);
    let seen = wal::verify(&disk, Path::new(FOLDER));
    drop(seen);
    let (log, recovery) = Log::open(Arc::new(disk), FOLDER, IDENTITY, options()).ok()?;
    let first = recovery.first_lsn;
    let records: Vec<Record> =
        log.read(first..u64::MAX).map(|record| record.expect("recovery has verified it")).collect();
    assert_eq!(records.len() as u64, recovery.records);
    assert!(records.iter().zip(first..).all(|(record, lsn)| record.lsn == lsn));
    Some(records)
}

thread_local! {
    static RUNTIME: tokio::runtime::Runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    /// A segment without records.
    static HEAD: Vec<u8> = encode(&[]);
}

/// The bytes of a segment with these records, none of them flushed.
fn encode(records: &[(u8, Vec<u8>, u64, u32)]) -> Vec<u8> {
    let disk = FaultyDisk::new(1);
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let (log, _) = Log::open(Arc::new(disk.clone()), FOLDER, IDENTITY, options()).unwrap();
            let stamps: Vec<(u64, u32)> =
                records.iter().map(|(_, _, wall, logical)| (*wall, *logical)).collect();
            let mut stamps = stamps.into_iter();
            let clock: Clock = Box::new(move || {
                let (wall_ms, logical) = stamps.next().unwrap_or_default();
                Hlc { wall_ms, logical, node: IDENTITY.node }
            });
            let wal = Wal::start_task(log, clock);
            let plain =
                wal::AppendOptions { durability: Some(Durability::Flush), ..Default::default() };
            for (kind, payload, _, _) in records {
                let pending =
                    wal.enqueue_with(vec![(*kind, payload.clone())], plain).await.unwrap();
                pending.await.unwrap();
            }
            let mut bytes = disk.dump(&segment()).unwrap();
            // The zeros at the end are left out of a dump, those of the last record included.
            bytes.resize(
                72 + records.iter().map(|(_, payload, _, _)| 40 + payload.len()).sum::<usize>(),
                0,
            );
            disk.power_off();
            drop(wal);
            // The owner sees that its disk is dead, and ends.
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
            bytes
        })
    })
}

/// A good segment from a recipe, and then changes to it.
fn mutated(recipe: &[u8]) {
    let mut rest = recipe;
    let mut take = |n: usize| {
        let (head, tail) = rest.split_at(n.min(rest.len()));
        rest = tail;
        head
    };
    let count = take(1).first().map_or(0, |byte| byte % 8);
    let mut given = Vec::new();
    for i in 0..count {
        let head = take(3).to_vec();
        let [kind, length, stamp] = head[..] else { break };
        given.push((
            kind,
            take(length.into()).to_vec(),
            u64::from(stamp) << (stamp % 57),
            u32::from(i),
        ));
    }
    let good = encode(&given);
    let mut bytes = good.clone();
    let len = SEGMENT_BYTES as usize;
    loop {
        let change = take(3).to_vec();
        let [low, high, value] = change[..] else { break };
        let at = usize::from(u16::from_le_bytes([low, high])) % (good.len() + 200);
        if bytes.len() <= at {
            bytes.resize(at + 1, 0);
        }
        bytes[at] ^= value;
    }
    let Some(found) = recover(&bytes, len as u64) else {
        assert_ne!(bytes[..good.len().min(bytes.len())], good[..], "a good segment was refused");
        return;
    };
    // What is delivered is a prefix of what was given, and says so in the same bytes.
    assert!(found.len() <= given.len());
    for (record, (kind, payload, wall_ms, logical)) in found.iter().zip(&given) {
        assert_eq!((record.kind, &record.payload), (*kind, payload));
        assert_eq!((record.hlc.wall_ms, record.hlc.logical), (*wall_ms, *logical));
    }
    if found.is_empty() {
        // A segment without a record may be one whose head was never finished; it is made anew.
        return;
    }
    let again: Vec<_> = found
        .iter()
        .map(|record| (record.kind, record.payload.clone(), record.hlc.wall_ms, record.hlc.logical))
        .collect();
    let encoded = encode(&again);
    let padded: Vec<u8> =
        bytes.iter().copied().chain(std::iter::repeat(0)).take(encoded.len()).collect();
    assert_eq!(encoded, padded, "what was delivered re-encodes to other bytes");
}

fuzz_target!(|data: &[u8]| {
    let Some((shape, rest)) = data.split_first() else { return };
    LARGEST.store(0, Relaxed);
    match shape % 3 {
        0 => drop(recover(rest, rest.len() as u64)),
        1 => {
            let mut bytes = HEAD.with(Clone::clone);
            bytes.extend_from_slice(rest);
            let len = bytes.len() as u64;
            drop(recover(&bytes, len));
        }
        _ => mutated(rest),
    }
    let limit = 16 * data.len() + (64 << 10);
    let largest = LARGEST.load(Relaxed);
    assert!(largest <= limit, "an allocation of {largest} bytes for {} bytes of input", data.len());
});
