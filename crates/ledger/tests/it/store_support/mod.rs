//! What the storage tests share: options from a seed, entries, a disk in memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fence::{BootId, GroupId, Hlc, NodeId};
use ledger::blobs::BlobLimits;
use ledger::store::{OpenError, Storage, StoreOptions, WalOwner};
use ledger::types::{Batch, Entry, LogId};
use ledger_state::{
    BlobRef, Command, CreateJob, IdempotencyKey, Limits, Proposal, RequestId, SessionId,
};
use openraft::{EntryPayload, LeaderId};
use wal::{Disk, FaultyDisk};

pub const NODE: NodeId = NodeId(7);
pub const GROUP: GroupId = GroupId { cluster: 0xbeef, generation: 0 };

/// Small segments, so that a few entries fill some.
pub const SEGMENT: u64 = 4096;

pub fn options(seed: u64) -> StoreOptions {
    let drawn = AtomicU64::new(seed);
    let time = AtomicU64::new(1);
    StoreOptions {
        node: Some(NODE),
        draw: Arc::new(move || drawn.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)),
        clock: Arc::new(move || Hlc {
            wall_ms: time.fetch_add(1, Ordering::Relaxed),
            ..Hlc::default()
        }),
        wal: wal::Options::small(SEGMENT),
        blobs: BlobLimits::default(),
        snapshot_bytes: 1 << 30,
    }
}

pub fn folder() -> PathBuf {
    PathBuf::from("/data")
}

pub fn open(disk: &FaultyDisk, seed: u64) -> Result<Storage, OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Storage::open(disk, folder(), options(seed), WalOwner::Task)
}

pub fn log_id(term: u64, index: u64) -> LogId {
    LogId::new(LeaderId::new(term, NODE), index)
}

pub fn blank(term: u64, index: u64) -> Entry {
    Entry { log_id: log_id(term, index), payload: EntryPayload::Blank }
}

/// A session is opened by the first entry; every later one creates a job of its own.
pub fn command(term: u64, index: u64) -> Entry {
    let session = SessionId { node: NODE, boot: BootId(1) };
    let proposal = Proposal {
        request: RequestId { session, seq: index.max(1) },
        settled: index.max(1) - 1,
        at: Hlc { wall_ms: index, ..Hlc::default() },
        command: if index <= 1 { Command::OpenSession } else { create_job(index) },
    };
    Entry {
        log_id: log_id(term, index),
        payload: EntryPayload::Normal(Batch { time_ms: 0, proposals: vec![proposal] }),
    }
}

pub fn create_job(number: u64) -> Command {
    let key = IdempotencyKey { client: "test".into(), sequence: number, nonce: [7; 16] };
    Command::CreateJob(Box::new(CreateJob {
        tenant: "tenant".into(),
        key,
        fingerprint: [3; 32],
        name: format!("job {number}"),
        plan: BlobRef { hash: [number as u8; 32], bytes: 100 },
        age_ms: 0,
        rehearsal: false,
    }))
}

pub fn limits() -> Limits {
    Limits::default()
}

/// Runs a test on one thread with a clock that only moves when everybody waits.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("runtime");
    runtime.block_on(test)
}
