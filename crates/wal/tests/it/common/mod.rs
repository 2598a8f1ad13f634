//! What the tests share: one identity, a clock that counts, and short ways to open, fill and read a
//! log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fence::{Hlc, NodeId};
use wal::{Clock, Disk, FaultyDisk, Log, LogIdentity, OpenError, Options, Record, Recovery, Wal};

pub const NODE: NodeId = NodeId(0x0123_4567_89ab_cdef);
pub const IDENTITY: LogIdentity = LogIdentity { node: NODE, log: 1 };
pub const FOLDER: &str = "/data/wal";

pub fn clock() -> Clock {
    let mut count = 0;
    Box::new(move || {
        count += 1;
        Hlc { wall_ms: 1_000 + count, logical: 0, node: NODE }
    })
}

pub fn segment(id: u64) -> PathBuf {
    Path::new(FOLDER).join(format!("segment_{id:08}.wal"))
}

pub fn mark() -> PathBuf {
    Path::new(FOLDER).join("wal.mark")
}

pub fn shared(disk: &FaultyDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

pub fn open(disk: &FaultyDisk, options: &Options) -> Result<(Log, Recovery), OpenError> {
    Log::open(shared(disk), FOLDER, IDENTITY, options.clone())
}

/// Opens and runs the log as a task.
pub fn start(disk: &FaultyDisk, options: &Options) -> (Wal, Recovery) {
    let (log, recovery) = open(disk, options).unwrap();
    (Wal::start_task(log, clock()), recovery)
}

/// All records of a log that is not running.
pub fn records(log: &Log) -> Vec<Record> {
    log.read(log.first_lsn()..u64::MAX).collect::<Result<_, _>>().unwrap()
}

/// Opens, reads everything, and lets go again.
pub fn contents(disk: &FaultyDisk, options: &Options) -> Result<Vec<Record>, OpenError> {
    open(disk, options).map(|(log, _)| records(&log))
}

pub fn payloads(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| String::from_utf8_lossy(&record.payload).into_owned()).collect()
}

pub fn one(text: &str) -> Vec<(u8, Vec<u8>)> {
    vec![(1, text.as_bytes().to_vec())]
}

/// Lets every task run until nothing is left to do but wait.
pub async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
