//! Durable appends per second with 1, 16 and 128 writers, beside what the disk itself can do.
//!
//! `cargo run --release -p wal --example append_rate -- [FOLDER] [SECONDS]`
//!
//! The raw row writes 256 bytes into a preallocated file and flushes them, one after the other: the
//! most that one writer who waits for each flush can get from this disk. It is measured before and
//! after, because disks vary.

#![allow(clippy::disallowed_methods)] // It measures real time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fence::{Hlc, NodeId};
use wal::{Disk, Log, LogIdentity, Options, RealDisk, Wal};

const RECORD: usize = 256;

fn raw(folder: &Path, time: Duration) -> f64 {
    let path = folder.join("raw");
    let file = RealDisk.create(&path).expect("a file for the raw rate");
    file.allocate(64 << 20).expect("space for the raw rate");
    let bytes = [7; RECORD];
    let (begun, mut count) = (Instant::now(), 0u64);
    while begun.elapsed() < time {
        file.write_all_at(&bytes, count * RECORD as u64 % (64 << 20)).expect("write");
        file.sync_data().expect("flush");
        count += 1;
    }
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    RealDisk.remove(&path).expect("remove");
    rate
}

struct Row {
    rate: f64,
    flushes: f64,
    batch: f64,
    p50: Duration,
    p99: Duration,
}

fn appends(folder: &Path, writers: usize, time: Duration) -> Row {
    let folder = folder.join(format!("log-{writers}"));
    let node = NodeId(1);
    let identity = LogIdentity { node, log: 1 };
    let (log, _) = Log::open(Arc::new(RealDisk), &folder, identity, Options::default())
        .expect("a log to measure");
    let mut count = 0;
    let clock = Box::new(move || {
        count += 1;
        Hlc { wall_ms: count, logical: 0, node }
    });
    let wal = Wal::start_thread(log, clock);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("runtime");
    let done = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    let mut times: Vec<Duration> = runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..writers {
            let (wal, done) = (wal.clone(), Arc::clone(&done));
            tasks.spawn(async move {
                let mut times = Vec::new();
                while begun.elapsed() < time {
                    let sent = Instant::now();
                    wal.append_durable(vec![(1, vec![7; RECORD])]).await.expect("append");
                    times.push(sent.elapsed());
                    done.fetch_add(1, Ordering::Relaxed);
                }
                times
            });
        }
        tasks.join_all().await.into_iter().flatten().collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let metrics = wal.metrics();
    runtime.block_on(wal.close()).expect("close");
    std::fs::remove_dir_all(&folder).expect("remove");
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    Row {
        rate: done.load(Ordering::Relaxed) as f64 / seconds,
        flushes: metrics.fsyncs as f64 / seconds,
        batch: metrics.writes as f64 / metrics.fsyncs.max(1) as f64,
        p50: at(0.5),
        p99: at(0.99),
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(5.0);
    let time = Duration::from_secs_f64(seconds);
    let folder = folder.join(format!("append-rate-{}", std::process::id()));
    RealDisk.create_folder(&folder).expect("a folder to measure in");
    let before = raw(&folder, time);
    let rows: Vec<(usize, Row)> =
        [1, 16, 128].map(|writers| (writers, appends(&folder, writers, time))).into();
    let after = raw(&folder, time);
    std::fs::remove_dir_all(&folder).expect("remove");
    let raw = f64::midpoint(before, after);
    let single = rows[0].1.rate;
    println!(
        "{RECORD}-byte records, {seconds} s each; raw write + flush {before:.0}/s before, {after:.0}/s after"
    );
    println!(
        "| writers | durable appends/s | x one writer | x raw | flushes/s | records per flush | p50 | p99 |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (writers, Row { rate, flushes, batch, p50, p99 }) in rows {
        println!(
            "| {writers} | {rate:.0} | {:.1} | {:.2} | {flushes:.0} | {batch:.1} | {p50:.0?} | {p99:.0?} |",
            rate / single,
            rate / raw
        );
    }
}
