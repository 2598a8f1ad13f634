//! Reading: by range, at the live end, from several places at once; and only what verifies.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use wal::faulty::CrashMode;
use wal::{FaultyDisk, Options, ReadError, Reader, Wal};

/// A running log with `count` records, each with its LSN as payload, over several segments.
async fn running(disk: &FaultyDisk, options: &Options, count: u64) -> Wal {
    let (wal, _) = start(disk, options);
    append(&wal, 1..=count).await;
    wal.flush().await.unwrap();
    wal
}

async fn append(wal: &Wal, lsns: std::ops::RangeInclusive<u64>) {
    for lsn in lsns {
        assert_eq!(wal.append(3, lsn.to_le_bytes().to_vec()).await, Ok(lsn));
    }
}

fn lsns(reader: &Reader, range: std::ops::Range<u64>) -> Vec<u64> {
    let check = |record: Result<wal::Record, ReadError>| {
        let record = record.unwrap();
        assert_eq!((record.kind, record.payload), (3, record.lsn.to_le_bytes().to_vec()));
        record.lsn
    };
    reader.read(range).map(check).collect()
}

/// WAL-59: a follower sees whole, durable records only, and all of them.
#[tokio::test(start_paused = true)]
async fn a_follower_sees_each_record_once_and_never_before_it_is_durable() {
    let disk = FaultyDisk::new(1);
    disk.set_flush_delay(Duration::from_millis(1), Duration::from_millis(9));
    let options = Options::small(4_096);
    let wal = running(&disk, &options, 10).await;
    let durable = wal.durable_lsn();
    let mut follow = wal.reader().follow(1, wal.durable_lsn());
    let follower = tokio::spawn(async move {
        let mut seen = 0;
        while let Some(record) = follow.next().await {
            let record = record.unwrap();
            seen += 1;
            assert_eq!(record.lsn, seen);
            assert!(record.lsn <= *durable.borrow());
        }
        seen
    });
    for lsn in 11..=1_000 {
        append(&wal, lsn..=lsn).await;
        if lsn % 7 == 0 {
            tokio::time::sleep(Duration::from_millis(lsn % 13)).await;
        }
    }
    wal.close().await.unwrap();
    assert_eq!(follower.await.unwrap(), 1_000, "the end of the log ends it");
    assert!(disk.files().len() > 10);
}

/// It waits, and a dropped wait loses nothing.
#[tokio::test(start_paused = true)]
async fn a_follower_waits_for_what_is_not_there_yet() {
    let disk = FaultyDisk::new(1);
    let wal = running(&disk, &Options::default(), 3).await;
    let mut follow = wal.reader().follow(3, wal.durable_lsn());
    assert_eq!(follow.next().await.unwrap().unwrap().lsn, 3);
    let second = Duration::from_secs(1);
    assert!(tokio::time::timeout(second, follow.next()).await.is_err());
    wal.append(3, vec![]).await.unwrap();
    assert_eq!(follow.next().await.unwrap().unwrap().lsn, 4);
    assert_eq!(follow.position(), 5);
}

/// WAL-65: whoever reads a long log lets others run at least every 100 records.
#[tokio::test(start_paused = true)]
async fn a_long_scan_lets_others_run() {
    let disk = FaultyDisk::new(1);
    let wal = running(&disk, &Options::default(), 1_000).await;
    let mut follow = wal.reader().follow(1, wal.durable_lsn());
    let turns = Arc::new(Mutex::new(0));
    let other = Arc::clone(&turns);
    let other = tokio::spawn(async move {
        loop {
            *other.lock().unwrap() += 1;
            tokio::task::yield_now().await;
        }
    });
    let (mut last, mut alone) = (0, 0);
    for lsn in 1..=1_000 {
        assert_eq!(follow.next().await.unwrap().unwrap().lsn, lsn);
        let now = *turns.lock().unwrap();
        alone = if now == last { alone + 1 } else { 0 };
        last = now;
        assert!(alone < 100, "nobody else has run for {alone} records before {lsn}");
    }
    assert!(last >= 9, "{last} turns in 1,000 records");
    other.abort();
}

/// WAL-64: records across the border of a chunk, and larger than one.
#[tokio::test(start_paused = true)]
async fn records_across_a_chunk_border_are_put_together() {
    let disk = FaultyDisk::new(1);
    let (wal, _) = start(&disk, &Options::default());
    let sizes = [65_400, 100, 200_000, 0, 65_536, 65_495, 65_497, 1, 300_000];
    for (i, size) in sizes.iter().enumerate() {
        wal.append_durable(vec![(1, vec![i as u8; *size])]).await.unwrap();
    }
    let found: Vec<_> = wal.reader().read(1..100).map(Result::unwrap).collect();
    assert_eq!(found.len(), sizes.len());
    for (i, record) in found.iter().enumerate() {
        assert_eq!(record.payload, vec![i as u8; sizes[i]]);
    }
}

/// WAL-57, WAL-58, WAL-75: nothing is read ahead of the consumer but one chunk.
#[tokio::test(start_paused = true)]
async fn a_slow_consumer_costs_one_chunk() {
    let disk = FaultyDisk::new(1);
    let (wal, _) = start(&disk, &Options::default());
    for _ in 0..20 {
        wal.append_durable(vec![(1, vec![0; 1_000]); 100]).await.unwrap();
    }
    let mut records = wal.reader().read(1..u64::MAX);
    for _ in 0..10 {
        records.next().unwrap().unwrap();
    }
    assert_eq!((records.records_read(), records.bytes_read()), (10, 65_536));
}

/// WAL-69: consumers share a reader, each record goes to one of them, and all see the end.
#[tokio::test(start_paused = true)]
async fn four_consumers_on_one_reader_all_see_the_end() {
    let disk = FaultyDisk::new(1);
    let wal = running(&disk, &Options::small(4_096), 400).await;
    let records = Arc::new(Mutex::new(wal.reader().read(1..401)));
    let mut consumers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let records = Arc::clone(&records);
        consumers.spawn(async move {
            let mut mine = Vec::new();
            loop {
                let next = records.lock().unwrap().next();
                let Some(record) = next else { return mine };
                mine.push(record.unwrap().lsn);
                tokio::task::yield_now().await;
            }
        });
    }
    let mut all = consumers.join_all().await;
    assert!(all.iter().all(|mine| mine.len() == 100), "everybody had a share");
    let mut all: Vec<u64> = all.drain(..).flatten().collect();
    all.sort_unstable();
    assert_eq!(all, (1..=400).collect::<Vec<_>>());
}

/// WAL-67, WAL-70: half-open ranges, independent readers, interleaved.
#[tokio::test(start_paused = true)]
async fn independent_readers_return_their_own_ranges() {
    let disk = FaultyDisk::new(1);
    let wal = running(&disk, &Options::small(8_192), 3_000).await;
    let reader = wal.reader();
    let ranges = [0..1_000u64, 500..1_500, 2_000..3_000, 2_999..3_100, 5..5];
    let mut open: Vec<_> = ranges.iter().map(|range| reader.read(range.clone())).collect();
    let mut found = vec![Vec::new(); ranges.len()];
    loop {
        let mut more = false;
        for (records, found) in open.iter_mut().zip(&mut found) {
            if let Some(record) = records.next() {
                found.push(record.unwrap().lsn);
                more = true;
            }
        }
        if !more {
            break;
        }
    }
    for (range, found) in ranges.iter().zip(found) {
        let expected: Vec<u64> = (range.start.max(1)..range.end.min(3_001)).collect();
        assert_eq!(found, expected, "{range:?}");
    }
}

/// WAL-72: what the index answers is what a scan finds; it is only a cache in memory.
#[tokio::test(start_paused = true)]
async fn a_lookup_by_the_index_equals_a_scan() {
    let disk = FaultyDisk::new(1);
    let options =
        Options { segment_bytes: 8 << 20, max_record_bytes: 1 << 20, ..Options::default() };
    let (wal, _) = start(&disk, &options);
    for _ in 0..40 {
        wal.append_durable(vec![(1, vec![9; 20_000]); 20]).await.unwrap();
    }
    let scanning = wal.reader();
    let whole: Vec<_> = scanning.read(1..801).map(Result::unwrap).collect();
    assert_eq!(whole.len(), 800);
    for lsn in [1, 2, 14, 15, 399, 400, 401, 777, 800] {
        let mut indexed = scanning.read(lsn..lsn + 1);
        let mut fresh = wal.reader().read(lsn..lsn + 1);
        let (by_index, by_scan) =
            (indexed.next().unwrap().unwrap(), fresh.next().unwrap().unwrap());
        assert_eq!((by_index.lsn, &by_index), (lsn, &by_scan));
        assert!(indexed.bytes_read() <= fresh.bytes_read());
        assert!(indexed.bytes_read() <= 512 << 10, "{} bytes for LSN {lsn}", indexed.bytes_read());
    }
    // Removed segments are not found by a remembered place either.
    wal.truncate_before(500).await.unwrap();
    let gone = scanning.read(14..15).next().unwrap();
    assert!(matches!(gone, Err(ReadError::Truncated { wanted: 14, .. })));
}

/// WAL-60, WAL-61, WAL-62, WAL-77: an error comes once, with its place, after everything before it.
#[tokio::test(start_paused = true)]
async fn damage_ends_the_reading_with_its_place() {
    let disk = FaultyDisk::new(1);
    let wal = running(&disk, &Options::default(), 10).await;
    let offset = 72 + 48 * 4;
    disk.flip(&segment(1), (offset + 45) * 8);
    let mut records = wal.reader().read(1..11);
    let good: Vec<u64> = records.by_ref().take(4).map(|record| record.unwrap().lsn).collect();
    assert_eq!(good, [1, 2, 3, 4]);
    match records.next() {
        Some(Err(ReadError::Corruption { segment: 1, offset: at, lsn: 5, why })) => {
            assert_eq!(at, offset);
            assert!(why.contains("stored") && why.contains("computed"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    assert!(records.next().is_none());
}

/// `verify` says what opening would find and cut, and changes nothing. WAL-68.
#[tokio::test(start_paused = true)]
async fn verify_looks_and_changes_nothing() {
    let disk = FaultyDisk::new(1);
    let options = Options { durability: wal::Durability::Flush, ..Options::default() };
    let (wal, _) = start(&disk, &options);
    append(&wal, 1..=3).await;
    settle().await;
    disk.crash(CrashMode::KeepAll);
    disk.power_on();
    let bytes = disk.dump(&segment(1)).unwrap();
    disk.plant(&segment(1), &bytes[..bytes.len() - 10], 4_096);
    let before = disk.dump(&segment(1));
    let seen = wal::verify(&disk, Path::new(FOLDER)).unwrap();
    assert_eq!((seen.records, seen.last_lsn), (2, 2));
    let torn = seen.torn.unwrap();
    assert_eq!((torn.offset, torn.records_dropped), (72 + 96, 0));
    assert_eq!(disk.dump(&segment(1)), before);
    let reader = Reader::open(shared(&disk), FOLDER).unwrap();
    assert_eq!((reader.identity(), lsns(&reader, 1..3)), (IDENTITY, vec![1, 2]));
    assert!(matches!(reader.read(1..10).last(), Some(Err(ReadError::Corruption { lsn: 3, .. }))));
}
