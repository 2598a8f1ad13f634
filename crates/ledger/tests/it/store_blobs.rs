//! Blobs: stored durably, verified on reading, bounded, and collected only when nobody can still
//! want them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::store_support::{folder, open, options, run};
use bytes::Bytes;
use ledger::blobs::{self, BlobError, BlobLimits, Blobs};
use ledger::store::{Storage, StoreOptions, WalOwner};
use ledger_state::BlobRef;
use tokio::time::{Instant, advance};
use wal::faulty::{CrashMode, Fault, Injection};
use wal::{FaultyDisk, RealDisk};

const GRACE: Duration = Duration::from_secs(900);

fn path(blob: &BlobRef) -> PathBuf {
    let name = blobs::name(blob);
    folder().join("blobs").join(&name[..2]).join(&name)
}

fn small(disk: &FaultyDisk, limits: BlobLimits) -> (Storage, Blobs) {
    let options = StoreOptions { blobs: limits, ..options(1) };
    let storage = Storage::open(Arc::new(disk.clone()), folder(), options, WalOwner::Task).unwrap();
    let blobs = storage.blobs();
    (storage, blobs)
}

/// R17a: when `put` returns, the blob survives a power failure; at any call before, it is there in
/// whole or not at all.
#[test]
fn a_blob_that_was_put_survives_and_half_a_blob_is_never_seen() {
    let content = |number: u8| vec![number; 3000];
    for calls in 0.. {
        let disk = FaultyDisk::new(calls);
        let finished = run(async {
            let storage = open(&disk, 1).unwrap();
            let blobs = storage.blobs();
            disk.fail_power_after(calls);
            let mut put = Vec::new();
            for number in 0..3 {
                if let Ok(blob) = blobs.put(content(number)).await {
                    put.push(blob);
                }
            }
            let finished = disk.powered();
            disk.crash(CrashMode::Random);
            drop(storage);
            disk.power_on();
            let storage = open(&disk, 2).unwrap();
            let blobs = storage.blobs();
            for blob in &put {
                assert!(blobs.get(blob).await.is_ok(), "put, and gone after {calls} calls");
            }
            for number in 0..3 {
                let blob = blobs::reference(&content(number));
                match blobs.get(&blob).await {
                    Ok(bytes) => assert_eq!(bytes, content(number)),
                    Err(BlobError::Missing(_)) => {}
                    Err(other) => panic!("after {calls} calls: {other}"),
                }
                // It can be put in any case.
                assert_eq!(blobs.put(content(number)).await.unwrap(), blob);
            }
            let unfinished = disk.files().into_iter().any(|path| path.ends_with(".tmp"));
            assert!(!unfinished);
            finished
        });
        if finished {
            break;
        }
    }
}

#[test]
fn a_damaged_blob_is_reported_not_returned_and_can_be_put_again() {
    let disk = FaultyDisk::new(1);
    run(async {
        let storage = open(&disk, 1).unwrap();
        let blobs = storage.blobs();
        let blob = blobs.put(b"plan".repeat(100)).await.unwrap();
        let used = blobs.usage();
        assert!(disk.flip(&path(&blob), 77));
        assert!(matches!(blobs.get(&blob).await, Err(BlobError::Damaged { .. })));
        blobs.put_as(&blob, b"plan".repeat(100)).await.expect("fetched again");
        assert_eq!(blobs.get(&blob).await.unwrap(), b"plan".repeat(100));
        assert_eq!(blobs.usage(), used);
        disk.plant(&path(&blob), b"plan", 4);
        assert!(matches!(blobs.get(&blob).await, Err(BlobError::Damaged { .. })));
        disk.erase(&path(&blob));
        assert!(matches!(blobs.get(&blob).await, Err(BlobError::Missing(_))));
    });
}

#[test]
fn bytes_that_are_not_the_blob_announced_are_refused() {
    run(async {
        let storage = open(&FaultyDisk::new(1), 1).unwrap();
        let blobs = storage.blobs();
        let wanted = blobs::reference(b"this");
        let refused = blobs.put_as(&wanted, b"that".to_vec()).await;
        assert!(matches!(refused, Err(BlobError::Mismatch { .. })));
        assert_eq!(blobs.usage(), (0, 0));
    });
}

/// R10: bounded one by one and together; what was refused leaves nothing behind.
#[test]
fn blobs_are_bounded_in_size_and_in_sum() {
    let disk = FaultyDisk::new(1);
    run(async {
        let limits = BlobLimits { blob_bytes: 100, total_bytes: 250, grace: GRACE };
        let (_storage, blobs) = small(&disk, limits);
        assert!(matches!(blobs.put(vec![0; 101]).await, Err(BlobError::TooLarge { .. })));
        for number in 0..2 {
            blobs.put(vec![number; 100]).await.unwrap();
        }
        assert!(matches!(blobs.put(vec![2; 100]).await, Err(BlobError::Full { .. })));
        blobs.put(vec![0; 100]).await.expect("one that is there needs no room");
        blobs.put(vec![3; 50]).await.expect("fits");
        assert_eq!(blobs.usage(), (3, 250));
        disk.inject(Injection { fault: Fault::NoSpace, path: "blobs".into(), skip: 0 });
        blobs.collect(&BTreeSet::new(), Instant::now() + GRACE).await.unwrap();
        assert!(matches!(blobs.put(vec![4; 50]).await, Err(BlobError::Io { .. })));
        assert_eq!(blobs.usage(), (0, 0), "a failed put takes no room");
    });
}

/// R17a: a blob is put before the entry that names it is proposed.
#[test]
fn a_blob_that_nothing_names_yet_is_kept_for_the_grace_period() {
    let disk = FaultyDisk::new(1);
    run(async {
        let storage = open(&disk, 1).unwrap();
        let blobs = storage.blobs();
        let named = blobs.put(b"named".to_vec()).await.unwrap();
        let unnamed = blobs.put(b"unnamed".to_vec()).await.unwrap();
        let in_use = BTreeSet::from([named]);
        advance(GRACE - Duration::from_secs(1)).await;
        let collected = blobs.collect(&in_use, Instant::now()).await.unwrap();
        assert_eq!(collected.blobs, 0);
        // A node that is behind knows only an old state: it may not judge by it, however long it
        // waits.
        let current = Instant::now();
        advance(10 * GRACE).await;
        assert_eq!(blobs.collect(&in_use, current).await.unwrap().blobs, 0);
        assert!(blobs.has(&unnamed));
        let collected = blobs.collect(&in_use, Instant::now()).await.unwrap();
        assert_eq!((collected.blobs, collected.bytes), (1, 7));
        assert!(matches!(blobs.get(&unnamed).await, Err(BlobError::Missing(_))));
        assert_eq!(blobs.get(&named).await.unwrap(), b"named");
        assert!(disk.dump(&path(&unnamed)).is_none());

        // Named until now: the grace begins when it is named no more.
        let none = BTreeSet::new();
        assert_eq!(blobs.collect(&none, Instant::now()).await.unwrap().blobs, 0);
        advance(GRACE).await;
        assert_eq!(blobs.collect(&none, Instant::now()).await.unwrap().blobs, 1);
    });
}

/// While a majority is missing, whoever has put a blob cannot name it. However long that takes, the
/// blob waits.
#[test]
fn time_without_a_majority_does_not_count_towards_the_grace() {
    let disk = FaultyDisk::new(1);
    run(async {
        let storage = open(&disk, 1).unwrap();
        let blobs = storage.blobs();
        let plan = blobs.put(b"plan".to_vec()).await.unwrap();
        advance(Duration::from_secs(60)).await;
        let outage = 5 * GRACE;
        advance(outage).await;
        blobs.not_counted(outage);
        assert_eq!(blobs.collect(&BTreeSet::new(), Instant::now()).await.unwrap().blobs, 0);
        assert!(blobs.has(&plan));
        advance(GRACE).await;
        assert_eq!(blobs.collect(&BTreeSet::new(), Instant::now()).await.unwrap().blobs, 1);
    });
}

/// After a restart the grace begins anew: nobody remembers when a blob was put.
#[test]
fn a_restart_gives_every_blob_its_grace_again() {
    let disk = FaultyDisk::new(1);
    run(async {
        let storage = open(&disk, 1).unwrap();
        let blob = storage.blobs().put(b"old".to_vec()).await.unwrap();
        storage.close().await.unwrap();
        advance(5 * GRACE).await;
        let storage = open(&disk, 2).unwrap();
        let blobs = storage.blobs();
        assert_eq!(blobs.usage(), (1, 3));
        assert_eq!(blobs.collect(&BTreeSet::new(), Instant::now()).await.unwrap().blobs, 0);
        assert_eq!(blobs.get(&blob).await.unwrap(), b"old");
    });
}

/// A put during a collection of the same blob, on a slow disk, in both orders.
#[test]
fn a_blob_that_is_put_while_it_is_collected_stays() {
    for slow in [0, 1, 5] {
        let disk = FaultyDisk::new(slow);
        let slow = Duration::from_millis(slow);
        run(async {
            let storage = open(&disk, 1).unwrap();
            let blobs = storage.blobs();
            let blob = blobs.put(b"again".to_vec()).await.unwrap();
            advance(GRACE).await;
            disk.set_flush_delay(slow, slow);
            let none = BTreeSet::new();
            let (collected, put) =
                tokio::join!(blobs.collect(&none, Instant::now()), blobs.put(b"again".to_vec()));
            collected.unwrap();
            put.unwrap();
            assert_eq!(blobs.get(&blob).await.unwrap(), b"again");
            assert_eq!(blobs.usage(), (1, 5));
        });
    }
}

/// On a real disk, with the thread.
#[test]
fn blobs_work_on_a_real_disk() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let start = || {
            let data = place.path().to_path_buf();
            Storage::open(Arc::new(RealDisk), data, options(1), WalOwner::Thread).unwrap()
        };
        let storage = start();
        let content = vec![5; 4 << 20];
        let blob = storage.blobs().put(content.clone()).await.unwrap();
        storage.close().await.unwrap();
        let storage = start();
        assert_eq!(storage.blobs().get(&blob).await.unwrap(), content);
        let collected = storage.blobs().collect(&BTreeSet::new(), Instant::now() + GRACE).await;
        assert_eq!(collected.unwrap().blobs, 1);
        assert_eq!(storage.blobs().usage(), (0, 0));
        storage.close().await.unwrap();
    });
}

fn files(disk: &FaultyDisk, blob: &BlobRef) -> usize {
    let folder = path(blob).parent().unwrap().to_path_buf();
    wal::Disk::list(disk, &folder).map_or(0, |names| names.len())
}

/// Parts in, parts out, for every size around the parts' own; and the same bytes as a whole.
#[test]
fn a_blob_is_written_and_read_in_parts() {
    run(async {
        let disk = FaultyDisk::new(1);
        let storage = open(&disk, 1).unwrap();
        let blobs = storage.blobs();
        for bytes in [0, 1, 99, 100, 101, 350] {
            let content: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
            let blob = blobs::reference(&content);
            assert!(!blobs.has(&blob));
            let mut writer = blobs.begin(blob).await.unwrap();
            for part in content.chunks(100) {
                writer.write(Bytes::copy_from_slice(part)).await.unwrap();
            }
            assert!(!blobs.has(&blob), "not before it is whole");
            writer.finish().await.unwrap();
            assert!(blobs.has(&blob));
            assert_eq!(blobs.get(&blob).await.unwrap(), content);
            let mut reader = blobs.reader(&blob).await.unwrap();
            let mut read = Vec::new();
            while let Some(part) = reader.next(100).await.unwrap() {
                assert!(part.len() <= 100);
                read.extend_from_slice(&part);
            }
            assert_eq!(read, content);
            assert_eq!(blobs.head(&blob, 10).await.unwrap(), &content[..bytes.min(10)]);
        }
    });
}

/// An upload that is cut off, too long, too short or something else leaves neither a file nor a
/// byte in use.
#[test]
fn half_a_blob_leaves_nothing_behind() {
    run(async {
        let disk = FaultyDisk::new(1);
        let storage = open(&disk, 1).unwrap();
        let blobs = storage.blobs();
        let content = Bytes::from(vec![7; 300]);
        let blob = blobs::reference(&content);

        let mut cut_off = blobs.begin(blob).await.unwrap();
        cut_off.write(content.slice(..200)).await.unwrap();
        assert_eq!(blobs.usage(), (0, 300), "room is taken in advance");
        drop(cut_off);

        let mut long = blobs.begin(blob).await.unwrap();
        long.write(content.clone()).await.unwrap();
        let one_more = long.write(Bytes::from_static(b"x")).await;
        assert!(matches!(one_more, Err(BlobError::TooLarge { .. })), "{one_more:?}");
        drop(long);

        let mut other = blobs.begin(blob).await.unwrap();
        other.write(Bytes::from(vec![8; 300])).await.unwrap();
        let finished = other.finish().await;
        assert!(matches!(finished, Err(BlobError::Mismatch { .. })), "{finished:?}");

        // The files are removed beside.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!((blobs.usage(), files(&disk, &blob)), ((0, 0), 0));
        assert!(!blobs.has(&blob));
    });
}

/// A damaged file is found out before its last part is given; one that somebody removed is no
/// longer said to be here.
#[test]
fn a_damaged_or_removed_file_is_not_passed_on_as_the_blob() {
    run(async {
        let disk = FaultyDisk::new(1);
        let storage = open(&disk, 1).unwrap();
        let blobs = storage.blobs();
        let blob = blobs.put(vec![7; 300]).await.unwrap();
        let file = wal::Disk::open(&disk, &path(&blob)).unwrap();
        file.write_all_at(b"x", 5).unwrap();
        let mut reader = blobs.reader(&blob).await.unwrap();
        assert!(reader.next(200).await.unwrap().is_some());
        let last = reader.next(200).await;
        assert!(matches!(last, Err(BlobError::Damaged { .. })), "{last:?}");
        wal::Disk::remove(&disk, &path(&blob)).unwrap();
        assert!(matches!(blobs.reader(&blob).await, Err(BlobError::Missing(_))));
        assert!(!blobs.has(&blob));
        assert_eq!(blobs.usage(), (0, 0));
    });
}
