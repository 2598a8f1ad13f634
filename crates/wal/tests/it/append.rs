//! Appending: group commit, bounds, the four modes, flush and close.

use std::time::Duration;

use crate::common::*;
use tokio::time::Instant;
use wal::faulty::Operation;
use wal::{AppendError, AppendOptions, Durability, FaultyDisk, Log, Options, Wal};

fn segment_syncs(disk: &FaultyDisk) -> usize {
    let sync = |call: &wal::faulty::Call| {
        call.operation == Operation::Sync && call.path.to_string_lossy().contains("segment_")
    };
    disk.calls().iter().filter(|call| sync(call)).count()
}

fn slow(disk: &FaultyDisk, millis: u64) {
    disk.set_flush_delay(Duration::from_millis(millis), Duration::from_millis(millis));
}

/// WAL-12, WAL-37, LEDG-55, LEDG-56: writers that wait together share one flush.
#[tokio::test(start_paused = true)]
async fn group_commit_is_one_flush_for_all_and_nobody_is_answered_before() {
    let disk = FaultyDisk::new(1);
    let (wal, _) = start(&disk, &Options::default());
    disk.note_calls(true);
    slow(&disk, 5);
    let mut pending = Vec::new();
    for text in ["a", "b", "c"] {
        pending.push(wal.enqueue_durable(one(text)).await.unwrap());
    }
    settle().await;
    assert_eq!(*wal.durable_lsn().borrow(), 0, "the flush is still running");
    for (i, pending) in pending.into_iter().enumerate() {
        assert_eq!(pending.await.unwrap(), i as u64 + 1);
    }
    assert_eq!(segment_syncs(&disk), 1);
    assert_eq!(wal.metrics().batches, 1);
}

/// WAL-33: the byte limit starts the flush at once; and nothing locks up.
#[tokio::test(start_paused = true)]
async fn a_full_batch_is_flushed_before_the_interval() {
    let disk = FaultyDisk::new(1);
    let options = Options {
        flush_bytes: 1_000,
        flush_interval: Duration::from_secs(60),
        ..Options::default()
    };
    let (wal, _) = start(&disk, &options);
    let mut durable = wal.durable_lsn();
    let begun = Instant::now();
    for round in 1..=3 {
        wal.append(1, vec![0; 400]).await.unwrap();
        settle().await;
        assert_eq!(*durable.borrow_and_update(), (round - 1) * 3);
        wal.append(1, vec![0; 400]).await.unwrap();
        wal.append(1, vec![0; 400]).await.unwrap();
        settle().await;
        assert_eq!(*durable.borrow_and_update(), round * 3);
    }
    assert_eq!(begun.elapsed(), Duration::ZERO, "no timer was needed");
}

/// WAL-22, WAL-25: numbers rise in the order of the file, however many write.
#[tokio::test(start_paused = true)]
async fn ten_thousand_writers_get_ascending_numbers_in_file_order() {
    let disk = FaultyDisk::new(1);
    let options = Options { queue_records: 100, ..Options::default() };
    let (wal, _) = start(&disk, &options);
    let mut writers = tokio::task::JoinSet::new();
    for i in 0..10_000u32 {
        let wal = wal.clone();
        writers.spawn(async move {
            (wal.append_durable(vec![(1, i.to_le_bytes().to_vec())]).await.unwrap(), i)
        });
    }
    let mut answers = writers.join_all().await;
    answers.sort_unstable();
    let metrics = wal.metrics();
    assert_eq!(metrics.writes, 10_000);
    assert!(metrics.batches <= 200, "{} batches", metrics.batches);
    wal.close().await.unwrap();
    let found = contents(&disk, &options).unwrap();
    assert_eq!(found.len(), 10_000);
    for (record, (lsn, i)) in found.iter().zip(answers) {
        assert_eq!((record.lsn, record.payload.as_slice()), (lsn, &i.to_le_bytes()[..]));
    }
    assert!(
        found.windows(2).all(|pair| pair[0].lsn + 1 == pair[1].lsn && pair[0].hlc < pair[1].hlc)
    );
}

/// WAL-34: a trickle must not push the flush away.
#[tokio::test(start_paused = true)]
async fn a_slow_trickle_does_not_delay_a_durable_write() {
    let disk = FaultyDisk::new(1);
    slow(&disk, 3);
    let (wal, _) = start(&disk, &Options::default());
    let begun = Instant::now();
    let first = wal.enqueue_durable(one("durable")).await.unwrap();
    let trickle = tokio::spawn({
        let wal = wal.clone();
        async move {
            for _ in 0..600 {
                wal.append(1, vec![0; 64]).await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    first.await.unwrap();
    assert!(begun.elapsed() <= Duration::from_millis(13), "{:?}", begun.elapsed());
    // And what nobody waits for is durable one interval and one flush after it was appended.
    let mut durable = wal.durable_lsn();
    let appended = Instant::now();
    let lsn = wal.append(1, vec![0; 64]).await.unwrap();
    durable.wait_for(|durable| *durable >= lsn).await.unwrap();
    assert!(appended.elapsed() <= Duration::from_millis(10 + 3 + 3), "{:?}", appended.elapsed());
    trickle.await.unwrap();
}

/// WAL-43, WAL-48: bounded in records and in bytes.
#[tokio::test(start_paused = true)]
async fn with_a_stalled_disk_writers_wait_and_memory_is_bounded() {
    for options in [
        Options { queue_records: 16, ..Options::default() },
        Options { max_record_bytes: 1_000, queue_bytes: 16 * 1_040, ..Options::default() },
    ] {
        let disk = FaultyDisk::new(1);
        slow(&disk, 2_000);
        let (wal, _) = start(&disk, &options);
        let mut writers = tokio::task::JoinSet::new();
        for _ in 0..200 {
            let wal = wal.clone();
            writers.spawn(async move { wal.append_durable(vec![(1, vec![7; 1_000])]).await });
        }
        let mut most = (0, 0);
        while !writers.is_empty() {
            let metrics = wal.metrics();
            most = (most.0.max(metrics.queue_records), most.1.max(metrics.queue_bytes));
            tokio::select! {
                biased;
                done = writers.join_next() => { done.unwrap().unwrap().unwrap(); }
                () = tokio::time::sleep(Duration::from_millis(500)) => {}
            }
        }
        assert!(most.0 <= 16 && most.0 >= 15, "{most:?}");
        assert!(most.1 <= 16 * 1_040, "{most:?}");
        assert_eq!(wal.metrics().writes, 200);
    }
}

/// WAL-42: a full queue refuses at once.
#[tokio::test(start_paused = true)]
async fn try_append_with_a_full_queue_says_so_and_writes_nothing() {
    let disk = FaultyDisk::new(1);
    let options = Options { queue_records: 4, ..Options::default() };
    let (wal, _) = start(&disk, &options);
    slow(&disk, 1_000);
    let mut taken = Vec::new();
    for i in 0..10u8 {
        match wal.try_append(1, vec![i]) {
            Ok(_) => taken.push(vec![i]),
            Err(error) => assert_eq!(error, AppendError::QueueFull),
        }
    }
    assert_eq!(taken.len(), 4);
    assert!(matches!(wal.try_enqueue_durable(one("x")), Err(AppendError::QueueFull)));
    assert_eq!(wal.metrics().queue_full, 7);
    wal.close().await.unwrap();
    let found = contents(&disk, &options).unwrap();
    assert_eq!(found.into_iter().map(|record| record.payload).collect::<Vec<_>>(), taken);
}

/// A refusal at the deadline is a refusal; the retry is the only copy.
#[tokio::test(start_paused = true)]
async fn append_timeout_refuses_for_good_and_a_retry_is_the_only_copy() {
    let disk = FaultyDisk::new(1);
    let options = Options { queue_records: 1, ..Options::default() };
    let (wal, _) = start(&disk, &options);
    slow(&disk, 500);
    let stuck = wal.enqueue_durable(one("stuck")).await.unwrap();
    settle().await;
    let begun = Instant::now();
    let wait = Duration::from_millis(100);
    let refused = wal.append_timeout(1, b"again".to_vec(), wait).await;
    assert_eq!(refused, Err(AppendError::QueueFull));
    assert_eq!(begun.elapsed(), wait);
    stuck.await.unwrap();
    wal.append_timeout(1, b"again".to_vec(), wait).await.unwrap();
    wal.close().await.unwrap();
    assert_eq!(payloads(&contents(&disk, &options).unwrap()), ["stuck", "again"]);
}

/// WAL-51: closing loses nothing that was taken.
#[tokio::test(start_paused = true)]
async fn close_writes_all_that_was_accepted() {
    let disk = FaultyDisk::new(1);
    let options = Options::default();
    let (wal, _) = start(&disk, &options);
    for i in 0..5_000u32 {
        wal.append(1, i.to_le_bytes().to_vec()).await.unwrap();
    }
    let pending = wal.enqueue_durable(one("last")).await.unwrap();
    let (first, second) = tokio::join!(wal.close(), wal.close());
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert_eq!(pending.await, Ok(5_001), "everything accepted is answered");
    assert_eq!(wal.append(1, vec![]).await, Err(AppendError::Shutdown));
    assert_eq!(wal.try_append(1, vec![]), Err(AppendError::Shutdown));
    assert_eq!(wal.flush().await, Err(AppendError::Shutdown));
    disk.crash(wal::faulty::CrashMode::LoseAll);
    disk.power_on();
    assert_eq!(contents(&disk, &options).unwrap().len(), 5_001);
}

/// WAL-51: the last handle that goes closes the log.
#[tokio::test(start_paused = true)]
async fn dropping_all_handles_writes_all_that_was_accepted() {
    let disk = FaultyDisk::new(1);
    let options = Options::default();
    let (wal, _) = start(&disk, &options);
    let mut durable = wal.durable_lsn();
    let clone = wal.clone();
    for _ in 0..10 {
        wal.append(1, vec![1]).await.unwrap();
    }
    drop(wal);
    clone.append(1, vec![2]).await.unwrap();
    drop(clone);
    durable.wait_for(|durable| *durable == 11).await.unwrap();
    settle().await;
    assert_eq!(contents(&disk, &options).unwrap().len(), 11, "and the lock is free again");
}

/// WAL-50: a flush is an answer of the disk.
#[tokio::test(start_paused = true)]
async fn flush_returns_after_the_data_is_on_the_disk() {
    let disk = FaultyDisk::new(1);
    slow(&disk, 500);
    let (wal, _) = start(&disk, &Options::default());
    let begun = Instant::now();
    for _ in 0..10 {
        wal.append(1, b"payload".to_vec()).await.unwrap();
    }
    assert_eq!(wal.flush().await, Ok(10));
    assert!(begun.elapsed() >= Duration::from_millis(500));
    let durable = disk.dump_durable(&segment(1)).unwrap();
    assert_eq!(durable.windows(7).filter(|bytes| bytes == b"payload").count(), 10);
}

/// WAL-8, WAL-9, WAL-14: what each mode of durability promises.
#[tokio::test(start_paused = true)]
async fn each_mode_writes_and_reads_back_and_flushes_as_it_promises() {
    use Durability::{Flush, Fsync, FsyncBatch, None};
    assert_eq!([None as u8, Flush as u8, Fsync as u8, FsyncBatch as u8], [0, 1, 2, 3]);
    for mode in [None, Flush, Fsync, FsyncBatch] {
        let disk = FaultyDisk::new(1);
        let options = Options { durability: mode, ..Options::default() };
        let (wal, _) = start(&disk, &options);
        disk.note_calls(true);
        for text in ["a", "b", "c"] {
            wal.append(1, text.as_bytes().to_vec()).await.unwrap();
        }
        settle().await;
        let written = disk.dump(&segment(1)).unwrap().len() > 72;
        assert_eq!((mode, written), (mode, mode != None), "NONE stays in memory for now");
        tokio::time::sleep(Duration::from_millis(20)).await;
        let syncs = segment_syncs(&disk);
        let expected = match mode {
            None | Flush => 0,
            Fsync => 3,
            FsyncBatch => 1,
        };
        assert_eq!((mode, syncs), (mode, expected));
        // One append may ask for more than its log, or for less.
        let lsn = wal.append_durable(one("d")).await.unwrap();
        assert_eq!((*wal.durable_lsn().borrow(), segment_syncs(&disk)), (lsn, 1));
        let less = AppendOptions { durability: Some(Flush), ..AppendOptions::default() };
        wal.enqueue_with(one("e"), less).await.unwrap().await.unwrap();
        assert_eq!((*wal.durable_lsn().borrow(), segment_syncs(&disk)), (lsn, 0));
        wal.close().await.unwrap();
        assert_eq!(payloads(&contents(&disk, &options).unwrap()), ["a", "b", "c", "d", "e"]);
    }
}

/// WAL-83, WAL-35: a flush holds up no writer.
#[tokio::test(start_paused = true)]
async fn writes_during_a_flush_are_taken_at_once_and_share_the_next() {
    let disk = FaultyDisk::new(1);
    let (wal, _) = start(&disk, &Options::default());
    slow(&disk, 100);
    disk.note_calls(true);
    let first = wal.enqueue_durable(one("first")).await.unwrap();
    settle().await;
    let begun = Instant::now();
    let mut later = Vec::new();
    for _ in 0..50 {
        later.push(wal.enqueue_durable(one("later")).await.unwrap());
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    first.await.unwrap();
    for pending in later {
        pending.await.unwrap();
    }
    assert_eq!(begun.elapsed(), Duration::from_millis(200));
    assert_eq!(segment_syncs(&disk), 2);
}

/// LEDG-53: no number is used up by what is refused; an empty payload is a record.
#[tokio::test(start_paused = true)]
async fn too_large_is_refused_before_it_gets_a_number_and_empty_is_legal() {
    let disk = FaultyDisk::new(1);
    let options = Options::small(4_096);
    let (wal, _) = start(&disk, &options);
    assert_eq!(wal.append(1, vec![]).await, Ok(1));
    let refused = wal.append(1, vec![0; 1_025]).await;
    assert_eq!(refused, Err(AppendError::TooLarge { bytes: 1_025, limit: 1_024 }));
    let many = wal.append_durable(vec![(1, vec![0; 1_000]); 5]).await;
    assert_eq!(many, Err(AppendError::TooLarge { bytes: 5_200, limit: 4_096 }));
    assert_eq!(wal.append(2, vec![]).await, Ok(2));
    assert_eq!(wal.append_durable(vec![(3, vec![0; 1_024]), (4, vec![])]).await, Ok(4));
    wal.close().await.unwrap();
    let found = contents(&disk, &options).unwrap();
    let sizes: Vec<_> = found.iter().map(|record| (record.kind, record.payload.len())).collect();
    assert_eq!(sizes, [(1, 0), (2, 0), (3, 1_024), (4, 0)]);
}

/// WAL-47: giving up on the wait changes nothing; giving up on the queue writes nothing.
#[tokio::test(start_paused = true)]
async fn an_abandoned_append_is_written_if_and_only_if_it_was_accepted() {
    let disk = FaultyDisk::new(1);
    let options = Options { queue_records: 2, ..Options::default() };
    let (wal, _) = start(&disk, &options);
    slow(&disk, 100);
    drop(wal.enqueue_durable(one("accepted")).await.unwrap());
    drop(wal.enqueue_durable(one("accepted")).await.unwrap());
    let millisecond = Duration::from_millis(1);
    let abandoned = tokio::time::timeout(millisecond, wal.append_durable(one("abandoned"))).await;
    assert!(abandoned.is_err());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(wal.append_durable(one("next")).await, Ok(3));
    wal.close().await.unwrap();
    assert_eq!(payloads(&contents(&disk, &options).unwrap()), ["accepted", "accepted", "next"]);
}

/// The owner on its own thread does the same as the one in a task. WAL-28, WAL-54.
#[test]
fn the_owner_thread_answers_and_ends() {
    let disk = FaultyDisk::new(1);
    let (log, _) = open(&disk, &Options::default()).unwrap();
    let wal = Wal::start_thread(log, clock());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        for i in 1..=100 {
            assert_eq!(wal.append_durable(one("x")).await, Ok(i));
        }
        wal.close().await.unwrap();
    });
    assert_eq!(contents(&disk, &Options::default()).unwrap().len(), 100);
}

/// What contradicts itself is refused at the door.
#[test]
fn options_that_contradict_each_other_are_refused() {
    let good = Options::default();
    let bad = [
        Options { segment_bytes: 1_000, ..good.clone() },
        Options { queue_bytes: 100, ..good.clone() },
        Options { queue_records: 0, ..good.clone() },
        Options { reserve_bytes: 10, ..good.clone() },
        Options { flush_interval: Duration::ZERO, ..good },
    ];
    for options in bad {
        let opened = Log::open(shared(&FaultyDisk::new(1)), FOLDER, IDENTITY, options);
        assert!(matches!(opened, Err(wal::OpenError::Options(_))));
    }
}

/// Every figure of the log is there and counts what it says.
#[tokio::test(start_paused = true)]
async fn metrics_count_what_happened() {
    let disk = FaultyDisk::new(1);
    slow(&disk, 3);
    let (wal, _) = start(&disk, &Options::default());
    for _ in 0..4 {
        wal.append_durable(vec![(1, vec![0; 60]); 5]).await.unwrap();
    }
    let metrics = wal.metrics();
    assert_eq!((metrics.writes, metrics.batches, metrics.bytes), (20, 4, 2_000));
    assert_eq!((metrics.fsyncs, metrics.average_batch(), metrics.durable_lsn), (4, 5, 20));
    // 3 ms lies below 2^12 microseconds.
    assert_eq!(metrics.fsync_micros[12], 4);
    assert!(!metrics.poisoned && !metrics.low_space);
}
