//! Opening what is there: torn tails are cut, damage is refused, nothing acknowledged is lost
//! silently.

use std::path::Path;
use std::time::Duration;

use crate::common::*;
use wal::faulty::{CrashMode, Fault, Injection, Operation};
use wal::{AppendError, FaultyDisk, Log, LogIdentity, OpenError, Options, Wal};

fn inject(disk: &FaultyDisk, fault: Fault, path: &str, skip: u64) {
    disk.inject(Injection { fault, path: path.into(), skip });
}

/// A closed log with these records, one flush each.
async fn filled(options: &Options, texts: &[&str]) -> FaultyDisk {
    let disk = FaultyDisk::new(7);
    let (wal, _) = start(&disk, options);
    for text in texts {
        wal.append_durable(one(text)).await.unwrap();
    }
    wal.close().await.unwrap();
    disk
}

/// A log whose records were written and never flushed or acknowledged.
async fn unflushed(options: &Options, texts: &[&str]) -> FaultyDisk {
    let disk = FaultyDisk::new(7);
    let options = Options { durability: wal::Durability::Flush, ..options.clone() };
    let (wal, _) = start(&disk, &options);
    for text in texts {
        wal.append(1, text.as_bytes().to_vec()).await.unwrap();
    }
    settle().await;
    disk.crash(CrashMode::KeepAll);
    disk.power_on();
    disk
}

/// Replaces bytes of a file, durably.
fn edit(disk: &FaultyDisk, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = disk.dump(path).unwrap();
    change(&mut bytes);
    disk.plant(path, &bytes, bytes.len() as u64);
}

fn find(disk: &FaultyDisk, path: &Path, text: &str) -> usize {
    let bytes = disk.dump(path).unwrap();
    bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap()
}

/// WAL-24, LEDG-60: the next number follows the last one in the file.
#[tokio::test(start_paused = true)]
async fn a_restart_continues_the_sequence() {
    let disk = filled(&Options::default(), &["a", "b"]).await;
    let (wal, recovery) = start(&disk, &Options::default());
    assert_eq!((recovery.records, recovery.last_lsn, recovery.incarnation), (2, 2, 2));
    assert_eq!(recovery.max_hlc.unwrap().wall_ms, 1_002);
    assert_eq!(recovery.max_hlc.unwrap().node, NODE);
    assert_eq!(wal.append_durable(one("c")).await, Ok(3));
    wal.close().await.unwrap();
    let found = contents(&disk, &Options::default()).unwrap();
    assert_eq!(payloads(&found), ["a", "b", "c"]);
}

/// WAL-18, WAL-79: each field of a record in the middle, and the place is named.
#[tokio::test(start_paused = true)]
async fn a_flipped_bit_in_the_middle_is_refused_with_its_place() {
    let options = Options::default();
    let clean = filled(&options, &["first", "second", "third"]).await;
    let start_of_second = find(&clean, &segment(1), "second") - 40;
    for (field, byte) in [("crc", 0), ("length", 8), ("lsn", 16), ("durable", 32), ("payload", 42)]
    {
        let disk = clean.snapshot();
        disk.flip(&segment(1), (start_of_second + byte) as u64 * 8);
        let before = disk.dump(&segment(1));
        match open(&disk, &options).map(|_| ()) {
            Err(error @ OpenError::Corruption { segment: 1, offset, lsn: 2, .. }) => {
                assert_eq!(offset, start_of_second as u64, "{field}");
                assert!(error.is_damage());
            }
            other => panic!("{field}: {other:?}"),
        }
        assert_eq!(disk.dump(&segment(1)), before, "nothing was changed");
    }
}

/// LEDG-61: the durable LSN in later records convicts a hole even when the witness knows nothing of
/// it.
#[tokio::test(start_paused = true)]
async fn a_hole_below_what_a_later_record_knows_as_durable_is_damage() {
    let options = Options::default();
    let disk = FaultyDisk::new(1);
    let (wal, _) = start(&disk, &options);
    let old_mark = disk.dump(&mark()).unwrap();
    for text in ["first", "second", "third"] {
        wal.append_durable(one(text)).await.unwrap();
    }
    wal.close().await.unwrap();
    disk.plant(&mark(), &old_mark, 8_192);
    let byte = find(&disk, &segment(1), "first");
    disk.flip(&segment(1), byte as u64 * 8);
    let error = open(&disk, &options).err().unwrap();
    assert!(matches!(error, OpenError::Corruption { lsn: 1, .. }), "{error}");
}

/// LEDG-61: pages reach the disk in any order; whole records behind a hole are dropped with it.
#[tokio::test(start_paused = true)]
async fn records_behind_a_hole_above_the_watermark_are_dropped() {
    let options = Options::default();
    let disk = unflushed(&options, &["first", "second", "third", "fourth"]).await;
    let byte = find(&disk, &segment(1), "second");
    edit(&disk, &segment(1), |bytes| bytes[byte - 40..byte + 6].fill(0));
    let (log, recovery) = open(&disk, &options).unwrap();
    let torn = recovery.torn.unwrap();
    assert_eq!((torn.segment, torn.offset, torn.records_dropped), (1, byte as u64 - 40, 2));
    assert_eq!(payloads(&records(&log)), ["first"]);
    // What was dropped does not come back, although the next record ends exactly where the old
    // third began.
    let wal = Wal::start_task(log, clock());
    assert_eq!(wal.append_durable(one("SECOND")).await, Ok(2));
    wal.close().await.unwrap();
    let (log, recovery) = open(&disk, &options).unwrap();
    assert_eq!(
        (payloads(&records(&log)), recovery.torn),
        (vec!["first".into(), "SECOND".into()], None)
    );
    assert_eq!(Wal::start_task(log, clock()).metrics().torn_cuts, 0);
}

/// A length is compared with the file and the limit before anything is made of it.
#[tokio::test(start_paused = true)]
async fn an_oversized_length_is_refused_without_allocating() {
    let options = Options { max_record_bytes: 1 << 20, ..Options::default() };
    let disk = unflushed(&options, &["first", "second"]).await;
    let byte = find(&disk, &segment(1), "second") - 40 + 8;
    for length in [u32::MAX, (1 << 20) + 1, 1 << 20] {
        let disk = disk.snapshot();
        edit(&disk, &segment(1), |bytes| {
            bytes[byte..byte + 4].copy_from_slice(&length.to_le_bytes());
        });
        let (log, recovery) = open(&disk, &options).unwrap();
        assert_eq!(payloads(&records(&log)), ["first"]);
        let why = recovery.torn.unwrap().why;
        let expected = if length > 1 << 20 { "over the limit" } else { "payload bytes" };
        assert!(why.contains(expected), "{why}");
    }
}

/// LEDG-52: an acknowledged batch over several segments survives as a whole.
#[tokio::test(start_paused = true)]
async fn a_batch_over_two_segments_survives_a_power_failure_right_after_the_answer() {
    let options = Options::small(4_096);
    let disk = FaultyDisk::new(1);
    let (wal, _) = start(&disk, &options);
    disk.note_calls(true);
    wal.append_durable(vec![(1, vec![1; 900]); 3]).await.unwrap();
    let lsn = wal.append_durable(vec![(1, vec![2; 900]); 4]).await.unwrap();
    disk.crash(CrashMode::LoseAll);
    disk.power_on();
    // Four fit: the first of the batch is in the old segment, the others are in the new one.
    assert_eq!(disk.dump_durable(&segment(1)).unwrap().len(), 72 + 4 * 940);
    let found = contents(&disk, &options).unwrap();
    assert_eq!((lsn, found.len()), (7, 7));
    assert!(disk.files().contains(&segment(2)));
    // The old segment was flushed before the new one was made, and the new name before it was used.
    let calls = disk.calls();
    let at = |operation: Operation, name: &str| {
        let here = |call: &wal::faulty::Call| {
            call.operation == operation && call.path.to_string_lossy().ends_with(name)
        };
        calls.iter().rposition(here).unwrap()
    };
    let made = at(Operation::Create, "segment_00000002.wal");
    let flushed = at(Operation::Sync, "segment_00000001.wal");
    assert!(at(Operation::Write, "segment_00000001.wal") < flushed && flushed < made);
    let folder = calls[made..].iter().position(|call| call.operation == Operation::SyncFolder);
    let write = |call: &wal::faulty::Call| call.operation == Operation::Write && call.len > 900;
    let record = calls[made..].iter().position(write);
    assert!(folder.unwrap() < record.unwrap());
}

/// LEDG-48, LEDG-51, LEDG-62: what was truncated is gone, and its numbers are not used again.
#[tokio::test(start_paused = true)]
async fn truncation_removes_whole_segments_and_numbers_never_go_back() {
    let options = Options::small(4_096);
    let disk = FaultyDisk::new(1);
    let (wal, _) = start(&disk, &options);
    for _ in 0..12 {
        wal.append_durable(vec![(1, vec![0; 900])]).await.unwrap();
    }
    // Four to a segment: 1-4, 5-8, 9-12 (active).
    assert_eq!(wal.truncate_before(8).await, Ok(1));
    assert_eq!(wal.truncate_before(9).await, Ok(1));
    assert_eq!(wal.truncate_before(1_000).await, Ok(0), "the active one stays");
    assert_eq!(wal.metrics().truncated_segments, 2);
    disk.crash(CrashMode::LoseAll);
    disk.power_on();
    let (log, recovery) = open(&disk, &options).unwrap();
    assert_eq!((recovery.first_lsn, recovery.last_lsn, recovery.records), (9, 12, 4));
    let early: Vec<_> = log.read(1..20).collect();
    assert!(matches!(early[..], [Err(wal::ReadError::Truncated { wanted: 1, first: 9 })]));
    let wal = Wal::start_task(log, clock());
    for lsn in 13..=16 {
        assert_eq!(wal.append_durable(vec![(1, vec![0; 900])]).await, Ok(lsn));
    }
    // An active segment without a single record keeps the numbers too.
    wal.truncate_before(13).await.unwrap();
    wal.close().await.unwrap();
    let names: Vec<_> =
        disk.files().into_iter().filter(|p| p.extension().is_some_and(|e| e == "wal")).collect();
    assert!(!names.contains(&segment(1)) && !names.contains(&segment(2)));
    let (_, recovery) = open(&disk, &options).unwrap();
    assert_eq!(recovery.last_lsn, 16);
}

/// LEDG-61: a sealed segment must be complete, whatever the watermark says.
#[tokio::test(start_paused = true)]
async fn damage_in_a_sealed_segment_is_refused() {
    let options = Options::small(4_096);
    let disk = FaultyDisk::new(1);
    let (wal, _) = start(&disk, &options);
    for _ in 0..10 {
        wal.append_durable(vec![(1, vec![5; 900])]).await.unwrap();
    }
    wal.close().await.unwrap();
    for change in 0..4 {
        let disk = disk.snapshot();
        match change {
            0 => assert!(disk.flip(&segment(2), 8 * 3_000)),
            1 => edit(&disk, &segment(2), |bytes| bytes.truncate(3_000)),
            2 => edit(&disk, &segment(2), |bytes| bytes.push(1)),
            _ => assert!(disk.erase(&segment(2))),
        }
        let error = open(&disk, &options).err().unwrap();
        assert!(matches!(error, OpenError::Corruption { .. }), "{change}: {error}");
    }
    // The oldest one missing is noticed as well: nobody has truncated.
    let (one_gone, last_gone) = (disk.snapshot(), disk.snapshot());
    one_gone.erase(&segment(1));
    let error = open(&one_gone, &options).err().unwrap();
    assert!(matches!(error, OpenError::Corruption { lsn: 1, .. }), "{error}");
    last_gone.erase(&segment(3));
    let error = open(&last_gone, &options).err().unwrap();
    assert!(matches!(error, OpenError::AcknowledgedLost { acknowledged: 10, found: 8 }), "{error}");
}

/// WAL-3, WAL-13, LEDG-57: one failed flush ends it, and there is no second try.
#[tokio::test(start_paused = true)]
async fn a_failed_flush_poisons_the_log() {
    let options = Options::default();
    let disk = FaultyDisk::new(1);
    let (wal, _) = start(&disk, &options);
    wal.append_durable(one("good")).await.unwrap();
    disk.note_calls(true);
    disk.set_flush_delay(Duration::from_millis(10), Duration::from_millis(10));
    inject(&disk, Fault::SyncError, "segment_", 0);
    let waiters = [
        wal.enqueue_durable(one("lost")).await.unwrap(),
        wal.enqueue_durable(one("lost")).await.unwrap(),
    ];
    settle().await;
    let queued = wal.enqueue_durable(one("never")).await.unwrap();
    for waiter in waiters {
        assert!(matches!(waiter.await, Err(AppendError::Indeterminate(_))));
    }
    assert!(matches!(queued.await, Err(AppendError::Poisoned(_))));
    for _ in 0..3 {
        assert!(matches!(wal.append(1, vec![]).await, Err(AppendError::Poisoned(_))));
        assert!(matches!(wal.append_durable(one("no")).await, Err(AppendError::Poisoned(_))));
        assert!(matches!(wal.flush().await, Err(AppendError::Poisoned(_))));
    }
    let why = wal.poisoned().unwrap();
    assert!(why.contains("flushing") && why.contains("segment_00000001.wal"), "{why}");
    assert!(wal.metrics().poisoned && wal.close().await.is_err());
    let syncs = disk.calls().into_iter().filter(|call| call.operation == Operation::Sync);
    assert_eq!(syncs.filter(|call| call.path == segment(1)).count(), 1, "no second try");
    // Opened again while the computer runs: the lost pages can still be read. They are written once
    // more before anybody relies on them, so that they survive the next power failure.
    let (log, recovery) = open(&disk, &options).unwrap();
    assert_eq!(recovery.records, 3);
    drop(log);
    disk.crash(CrashMode::LoseAll);
    disk.power_on();
    assert_eq!(payloads(&contents(&disk, &options).unwrap()), ["good", "lost", "lost"]);
}

/// A failed write ends it too.
#[tokio::test(start_paused = true)]
async fn a_failed_write_poisons_the_log() {
    for fault in [Fault::WriteError, Fault::NoSpace] {
        let disk = FaultyDisk::new(3);
        let (wal, _) = start(&disk, &Options::default());
        wal.append_durable(one("good")).await.unwrap();
        inject(&disk, fault, "segment_", 0);
        let answer = wal.append_durable(one("bad")).await;
        assert!(matches!(answer, Err(AppendError::Indeterminate(_))), "{answer:?}");
        assert!(matches!(wal.append_durable(one("x")).await, Err(AppendError::Poisoned(_))));
        drop(wal);
        disk.crash(CrashMode::Random);
        disk.power_on();
        let found = contents(&disk, &Options::default()).unwrap();
        assert_eq!(found[0].payload, b"good");
        assert!(found.len() <= 2);
    }
}

/// A short write is continued.
#[tokio::test(start_paused = true)]
async fn a_short_write_is_continued() {
    let disk = FaultyDisk::new(1);
    let (wal, _) = start(&disk, &Options::default());
    for _ in 0..5 {
        inject(&disk, Fault::ShortWrite, "segment_", 0);
    }
    let text = "a long enough payload to be cut somewhere".repeat(20);
    wal.append_durable(one(&text)).await.unwrap();
    assert!(disk.counts().of(Fault::ShortWrite) == 5);
    disk.crash(CrashMode::LoseAll);
    disk.power_on();
    assert_eq!(payloads(&contents(&disk, &Options::default()).unwrap()), [text]);
}

/// LEDG-61: a flush that lied is found at the next start and named.
#[tokio::test(start_paused = true)]
async fn a_lying_flush_is_named_at_the_next_start() {
    let options = Options::default();
    let disk = FaultyDisk::new(1);
    let (wal, _) = start(&disk, &options);
    wal.append_durable(one("kept")).await.unwrap();
    inject(&disk, Fault::SyncLie, "segment_", 0);
    assert_eq!(wal.append_durable(one("lost")).await, Ok(2), "the disk has confirmed it");
    // The witness reaches the disk with its own flush, at most a second later.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    disk.crash(CrashMode::LoseAll);
    disk.power_on();
    let error = open(&disk, &options).err().unwrap();
    assert!(matches!(error, OpenError::AcknowledgedLost { acknowledged: 2, found: 1 }), "{error}");
    assert!(error.is_damage());
    assert!(error.to_string().contains("confirmed a flush that it did not make"), "{error}");
}

/// LEDG-61: rot in the last acknowledged batch is not taken for a torn tail.
#[tokio::test(start_paused = true)]
async fn rot_in_the_last_acknowledged_record_is_refused() {
    let disk = filled(&Options::default(), &["first", "last"]).await;
    let byte = find(&disk, &segment(1), "last");
    disk.flip(&segment(1), byte as u64 * 8);
    let error = open(&disk, &Options::default()).err().unwrap();
    assert!(matches!(error, OpenError::Corruption { lsn: 2, .. }), "{error}");
}

/// The rule for a witness that is gone: refuse, unless the operator decides otherwise.
#[tokio::test(start_paused = true)]
async fn a_missing_or_unreadable_witness_is_refused_until_an_operator_decides() {
    let options = Options::default();
    let clean = filled(&options, &["a", "b"]).await;
    for unreadable in [false, true] {
        let disk = clean.snapshot();
        if unreadable {
            disk.plant(&mark(), &[0xff; 5_000], 5_000);
        } else {
            disk.erase(&mark());
        }
        let error = open(&disk, &options).err().unwrap();
        assert!(matches!(error, OpenError::Witness { .. }) && error.is_damage(), "{error}");
        let decided = Options { rebuild_witness: true, ..options.clone() };
        assert_eq!(contents(&disk, &decided).unwrap().len(), 2);
        assert_eq!(contents(&disk, &options).unwrap().len(), 2, "once is enough");
    }
    // All segments gone, the witness is not: that was a log.
    let disk = clean.snapshot();
    disk.erase(&segment(1));
    let error = open(&disk, &options).err().unwrap();
    assert!(matches!(error, OpenError::AcknowledgedLost { acknowledged: 2, found: 0 }), "{error}");
}

/// Foreign, future and other logs' files are refused by name and left alone.
#[tokio::test(start_paused = true)]
async fn what_is_not_ours_is_refused_by_name_and_left_alone() {
    let options = Options::default();
    let clean = filled(&options, &["a"]).await;
    let head = |disk: &FaultyDisk, change: &dyn Fn(&mut Vec<u8>)| {
        edit(disk, &segment(1), |bytes| change(bytes));
    };
    let disk = clean.snapshot();
    head(&disk, &|bytes| bytes[..8].copy_from_slice(b"SQLite f"));
    let before = disk.dump(&segment(1));
    let error = open(&disk, &options).err().unwrap();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    assert_eq!(disk.dump(&segment(1)), before);

    let disk = clean.snapshot();
    head(&disk, &|bytes| bytes[8] = 9);
    let error = open(&disk, &options).err().unwrap();
    assert!(matches!(error, OpenError::Version { found: 9, supported: 1, .. }), "{error}");

    let other = LogIdentity { log: 2, ..IDENTITY };
    let error = Log::open(shared(&clean), FOLDER, other, options.clone()).err().unwrap();
    assert!(matches!(error, OpenError::OtherLog { .. }), "{error}");

    // Another log's segment, whole in itself, under a name of ours.
    let disk = clean.snapshot();
    let bytes = disk.dump(&segment(1)).unwrap();
    disk.plant(&segment(2), &bytes, 1 << 16);
    let error = open(&disk, &options).err().unwrap();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");

    // WAL-40: one log belongs to one process.
    let (_held, _) = open(&clean, &options).unwrap();
    assert!(matches!(open(&clean, &options).err(), Some(OpenError::Locked { .. })));
}

/// A misdirected read is detected, because the place is part of the checksum; and it does no
/// lasting harm.
#[tokio::test(start_paused = true)]
async fn a_misdirected_read_is_detected_every_time() {
    let options = Options::default();
    let texts: Vec<String> = (0..50).map(|i| format!("record number {i:04}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let logs = [(true, filled(&options, &texts).await), (false, unflushed(&options, &texts).await)];
    for (acknowledged, clean) in logs {
        let (mut struck, mut refused) = (0, 0);
        for (skip, seed) in (0..12).flat_map(|skip| (0..8).map(move |seed| (skip, seed))) {
            let disk = clean.snapshot();
            // Lets the generator go on, so that the wrong place is another one each time.
            disk.set_flush_delay(Duration::from_micros(1), Duration::from_micros(2));
            for _ in 0..seed {
                wal::Disk::pending_delay(&disk);
            }
            inject(&disk, Fault::MisdirectedRead, "segment_", skip);
            let opened = contents(&disk, &options);
            if disk.counts().of(Fault::MisdirectedRead) == 0 {
                break;
            }
            struck += 1;
            refused += u32::from(opened.is_err());
            // Whatever that one said: with good reads nothing is wrong, and what was acknowledged
            // is there.
            for found in opened.into_iter().chain([contents(&disk, &options).unwrap()]) {
                assert_eq!(payloads(&found), texts[..found.len()], "never a wrong record");
                assert!(found.len() == texts.len() || !acknowledged);
            }
        }
        assert!(struck >= 16 && refused >= 8, "{struck} struck, {refused} refused");
    }
}

/// Read errors reach whoever opens. WAL-3.
#[tokio::test(start_paused = true)]
async fn a_read_error_is_reported_and_changes_nothing() {
    let disk = filled(&Options::default(), &["a"]).await;
    inject(&disk, Fault::ReadError, "segment_", 1);
    let error = open(&disk, &Options::default()).err().unwrap();
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
    assert_eq!(contents(&disk, &Options::default()).unwrap().len(), 1);
}

/// A crash by drop must not write: the destructors run without power.
#[test]
fn a_crash_by_drop_writes_nothing() {
    let disk = FaultyDisk::new(1);
    let options = Options::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let (wal, _) = start(&disk, &options);
        wal.append_durable(one("durable")).await.unwrap();
        for _ in 0..10 {
            wal.append(1, b"accepted".to_vec()).await.unwrap();
        }
        std::mem::forget(wal);
    });
    let changes = disk.changes();
    drop(runtime);
    assert_eq!(disk.changes(), changes);
    disk.crash(CrashMode::LoseAll);
    disk.power_on();
    assert_eq!(contents(&disk, &options).unwrap().len(), 1);
}

/// LEDG-50: a nearly full last segment is not continued; files are named after their segments.
#[tokio::test(start_paused = true)]
async fn a_nearly_full_segment_is_followed_by_a_new_one_at_open() {
    let options = Options::small(4_096);
    let disk = FaultyDisk::new(1);
    let (wal, _) = start(&disk, &options);
    wal.append_durable(vec![(1, vec![0; 900]); 4]).await.unwrap();
    wal.close().await.unwrap();
    let (_, recovery) = open(&disk, &options).unwrap();
    assert_eq!(recovery.last_lsn, 4);
    assert!(disk.files().contains(&segment(2)));
    let (_, recovery) = open(&disk, &options).unwrap();
    assert_eq!((recovery.segments, recovery.last_lsn), (2, 4));
}

/// A flush that failed while a log was made or begun anew leaves nothing uncertain behind: what the
/// next life acknowledges survives a power failure.
#[tokio::test(start_paused = true)]
async fn a_failed_flush_of_a_name_costs_no_later_record() {
    let options = Options::small(4_096);
    let mut failed = 0;
    for skip in 0..12 {
        let disk = FaultyDisk::new(skip);
        inject(&disk, Fault::SyncError, FOLDER, skip);
        // The first life ends where the flush fails: in the beginning, or at a new segment.
        if let Ok((log, _)) = open(&disk, &options) {
            let wal = Wal::start_task(log, clock());
            for _ in 0..8 {
                let _ = wal.append_durable(vec![(1, vec![b'x'; 900])]).await;
            }
            failed += u32::from(wal.poisoned().is_some());
            let _ = wal.close().await;
        } else {
            failed += 1;
        }
        settle().await;
        disk.kill();
        let (wal, _) = start(&disk, &options);
        wal.append_durable(one("later")).await.unwrap();
        drop(wal);
        settle().await;
        disk.crash(CrashMode::LoseAll);
        disk.power_on();
        let found = contents(&disk, &options).unwrap_or_else(|error| panic!("{skip}: {error}"));
        assert_eq!(payloads(&found).last().map(String::as_str), Some("later"), "{skip}");
    }
    assert!(failed > 8, "only {failed} flushes have failed");
}
