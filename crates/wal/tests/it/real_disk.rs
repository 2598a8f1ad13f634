//! The same log on the disk of this computer, and a process that is killed in the middle of its
//! work.

#![allow(clippy::disallowed_methods)] // Real processes, real time.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{IDENTITY, clock, one};
use wal::{Disk, Log, OpenError, Options, RealDisk, Recovery, Wal};

fn options() -> Options {
    Options { reserve_bytes: 1 << 20, low_water_bytes: 1 << 20, ..Options::small(1 << 20) }
}

fn open(folder: &Path) -> Result<(Log, Recovery), OpenError> {
    Log::open(Arc::new(RealDisk), folder, IDENTITY, options())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

/// LEDG-48: names, sizes and rights of the files; the lock; segments that are given back.
#[test]
fn files_are_named_sized_locked_and_private() {
    use std::os::unix::fs::MetadataExt;
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("deep").join("wal");
    let (log, _) = open(&folder).unwrap();
    let refused = open(&folder).err().unwrap();
    assert!(matches!(refused, OpenError::Locked { .. }), "{refused}");
    let wal = Wal::start_thread(log, clock());
    runtime().block_on(async {
        for i in 0..12u8 {
            wal.append_durable(vec![(1, vec![i; 250_000])]).await.unwrap();
        }
        wal.truncate_before(5).await.unwrap();
        wal.close().await.unwrap();
    });
    assert_eq!(
        RealDisk.list(&folder).unwrap(),
        ["segment_00000002.wal", "segment_00000003.wal", "wal.lock", "wal.mark", "wal.reserve"]
    );
    for (name, len) in
        [("segment_00000002.wal", 72 + 4 * 250_040), ("segment_00000003.wal", 1 << 20)]
    {
        let metadata = std::fs::metadata(folder.join(name)).unwrap();
        assert_eq!((metadata.len(), metadata.mode() & 0o777), (len, 0o600), "{name}");
    }
    let (log, recovery) = open(&folder).unwrap();
    assert_eq!((recovery.first_lsn, recovery.last_lsn), (5, 12));
    let found: Vec<_> = log.read(5..100).map(Result::unwrap).collect();
    assert_eq!(found.len(), 8);
    assert!(found.iter().all(|record| record.payload == vec![record.lsn as u8 - 1; 250_000]));
}

/// A torn tail on a real file is cut, and what was cut reads as zeros afterwards.
#[test]
fn a_torn_tail_is_cut_on_a_real_file() {
    use std::os::unix::fs::FileExt;
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let wal = Wal::start_thread(open(folder).unwrap().0, clock());
    runtime().block_on(async {
        wal.append_durable(one("kept")).await.unwrap();
        wal.close().await.unwrap();
    });
    let path = folder.join("segment_00000001.wal");
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0xab; 30], 72 + 44).unwrap();
    file.write_all_at(&[0xcd; 30], 500_000).unwrap();
    let (_, recovery) = open(folder).unwrap();
    let torn = recovery.torn.unwrap();
    assert_eq!((recovery.records, torn.offset, torn.bytes), (1, 116, 500_030 - 116));
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 1 << 20);
    assert!(bytes[116..].iter().all(|byte| *byte == 0));
}

/// Set for the process that is killed: the folder it writes to.
const CHILD: &str = "WAL_TEST_CHILD_FOLDER";

/// Not a test of its own: what the killed process does. Eight writers, each answer printed at once.
#[test]
fn child_that_is_killed() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let (log, recovery) = open(Path::new(&folder)).unwrap();
    println!("opened {}", recovery.last_lsn);
    let wal = Wal::start_thread(log, clock());
    runtime().block_on(async {
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..8u32 {
            let wal = wal.clone();
            writers.spawn(async move {
                for count in 0u32.. {
                    let text = format!("{}:{writer}:{count}", std::process::id());
                    let lsn = wal.append_durable(one(&text)).await.unwrap();
                    println!("ack {lsn} {text}");
                    // Some that nobody waits for, in between.
                    wal.append(2, vec![0; 500]).await.unwrap();
                }
            });
        }
        writers.join_all().await;
    });
}

/// WAL-10: twenty kills of a real process, and every acknowledged record is there with its content.
#[test]
fn twenty_kills_lose_nothing_that_was_acknowledged() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let mut acknowledged: Vec<(u64, String)> = Vec::new();
    for round in 0..20u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["real_disk::child_that_is_killed", "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut acks = Vec::new();
            // The last line may be cut by the kill.
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let Some(ack) = line.strip_prefix("ack ") else { continue };
                let Some((lsn, text)) = ack.split_once(' ') else { continue };
                if let Ok(lsn) = lsn.parse::<u64>() {
                    acks.push((lsn, text.to_owned()));
                }
            }
            acks
        });
        std::thread::sleep(Duration::from_millis(150 + round * 17 % 60));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut acks = reader.join().unwrap();
        if acks.last().is_some_and(|(_, text)| text.split(':').count() != 3) {
            acks.pop();
        }
        acknowledged.extend(acks);
    }
    let (log, recovery) = open(folder).unwrap();
    let found: Vec<_> = log.read(1..u64::MAX).map(Result::unwrap).collect();
    for (lsn, text) in &acknowledged {
        let record = &found[*lsn as usize - 1];
        assert_eq!(record.lsn, *lsn);
        let payload = String::from_utf8_lossy(&record.payload);
        // A line that the kill has cut is a prefix.
        assert!(payload.starts_with(text.as_str()), "{lsn}: {payload} is not {text}");
    }
    println!("20 kills, {} acknowledged, {} recovered", acknowledged.len(), recovery.records);
    assert!(acknowledged.len() > 200);
}
