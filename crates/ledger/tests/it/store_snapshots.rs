//! Snapshots: which one is taken, what becomes of a damaged one, and what is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::store_support::{GROUP, command, folder, limits, log_id, open, run};
use fence::GroupId;
use ledger::store::{OpenError, SnapshotError, Storage};
use ledger::types::SnapshotBytes;
use ledger_state::State;
use openraft::RaftSnapshotBuilder;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine, StorageHelper};
use wal::FaultyDisk;
use wal::faulty::{Fault, Injection};

fn file(index: u64) -> PathBuf {
    folder().join("snapshots").join(format!("snapshot_{index:016}.snap"))
}

fn snapshot_names(disk: &FaultyDisk) -> Vec<String> {
    let inside = |path: &Path| path.parent() == Some(&folder().join("snapshots"));
    disk.files().iter().filter(|path| inside(path)).map(|path| name(path)).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

async fn start(disk: &FaultyDisk) -> Storage {
    let storage = open(disk, 1).expect("opens");
    storage.set_group(GROUP, limits()).await.unwrap();
    storage
}

/// Appends and applies entries, and makes a snapshot of the last.
async fn advance(storage: &Storage, from: u64, to: u64) {
    let (mut log, mut machine) = (storage.log_store(), storage.state_machine());
    for index in from..=to {
        log.blocking_append([command(1, index)]).await.unwrap();
        machine.apply([command(1, index)]).await.unwrap();
    }
    log.save_committed(Some(log_id(1, to))).await.unwrap();
    machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
}

/// Three snapshots, the log purged up to the newest, closed in order. Returns the digest of the
/// state.
async fn three(disk: &FaultyDisk) -> u64 {
    let storage = start(disk).await;
    for (from, to) in [(0, 19), (20, 39), (40, 59)] {
        advance(&storage, from, to).await;
        storage.log_store().purge(log_id(1, to)).await.unwrap();
    }
    advance_log(&storage, 60, 69).await;
    let digest = storage.shared().read(State::digest);
    storage.close().await.unwrap();
    digest
}

async fn advance_log(storage: &Storage, from: u64, to: u64) {
    let (mut log, mut machine) = (storage.log_store(), storage.state_machine());
    for index in from..=to {
        log.blocking_append([command(1, index)]).await.unwrap();
        machine.apply([command(1, index)]).await.unwrap();
    }
    log.save_committed(Some(log_id(1, to))).await.unwrap();
}

/// Starts as the consensus does: what was committed is applied again.
async fn recover(disk: &FaultyDisk) -> Storage {
    let storage = open(disk, 2).expect("opens");
    let (mut log, mut machine) = (storage.log_store(), storage.state_machine());
    StorageHelper::new(&mut log, &mut machine).get_initial_state().await.expect("starts");
    storage
}

/// LEDG-77: the newest are kept, older ones go. LEDG-78: a restart begins with the newest.
#[test]
fn the_newest_two_are_kept_and_a_restart_comes_to_the_same_state() {
    let disk = FaultyDisk::new(1);
    run(async {
        let digest = three(&disk).await;
        assert_eq!(
            snapshot_names(&disk),
            ["snapshot_0000000000000039.snap", "snapshot_0000000000000059.snap"]
        );
        let storage = recover(&disk).await;
        assert_eq!(storage.recovered().snapshot, Some(59));
        assert_eq!(storage.recovered().entries, 10);
        assert_eq!(storage.shared().read(State::digest), digest);
        assert_eq!(storage.shared().index(), Some(69));
    });
}

/// LEDG-82: rot in the newest snapshot. The one before it is taken, and the log reaches back to it,
/// though the consensus had purged further.
#[test]
fn a_damaged_newest_snapshot_costs_nothing() {
    let disk = FaultyDisk::new(1);
    run(async {
        let digest = three(&disk).await;
        let length = disk.dump(&file(59)).unwrap().len() as u64;
        assert!(disk.flip(&file(59), length * 4));
        let storage = recover(&disk).await;
        assert_eq!(storage.recovered().snapshot, Some(39));
        assert_eq!(storage.recovered().damaged_snapshots, [file(59)]);
        assert_eq!(storage.shared().read(State::digest), digest);
        assert_eq!(storage.shared().index(), Some(69));
        // It is kept for whoever wants to know, under a name that nobody takes for a snapshot.
        let kept = snapshot_names(&disk);
        assert!(kept.contains(&"damaged_snapshot_0000000000000059.snap".into()), "{kept:?}");
        // Life goes on: the next one is written, and the log is purged again.
        advance(&storage, 70, 79).await;
        storage.log_store().purge(log_id(1, 79)).await.unwrap();
        let digest = storage.shared().read(State::digest);
        storage.close().await.unwrap();
        let storage = recover(&disk).await;
        assert_eq!(storage.recovered().snapshot, Some(79));
        assert_eq!(storage.shared().read(State::digest), digest);
    });
}

/// LEDG-82: both are damaged, and the log does not reach back. Refused, nothing changed; the
/// operator is told what to do.
#[test]
fn with_no_good_snapshot_the_folder_is_refused_and_left_as_it_is() {
    let disk = FaultyDisk::new(1);
    run(async {
        three(&disk).await;
        for index in [39, 59] {
            assert!(disk.flip(&file(index), 8 * 40));
        }
        let before = snapshot_names(&disk);
        let refused = open(&disk, 2).err().expect("refused");
        assert!(matches!(refused, OpenError::StateLost { .. }) && refused.wants_reset());
        let text = refused.to_string();
        assert!(text.contains("damaged") && text.contains("readmit"), "{text}");
        assert_eq!(snapshot_names(&disk), before);
    });
}

/// LEDG-82: a snapshot that is missing altogether is the same as a damaged one.
#[test]
fn a_missing_snapshot_is_noticed() {
    let disk = FaultyDisk::new(1);
    run(async {
        three(&disk).await;
        disk.erase(&file(59));
        disk.erase(&file(39));
        assert!(matches!(open(&disk, 2), Err(OpenError::StateLost { .. })));
    });
}

/// Without any snapshot the whole log is replayed (LEDG-81), damaged snapshot or not.
#[test]
fn a_damaged_first_snapshot_is_made_up_for_by_the_whole_log() {
    let disk = FaultyDisk::new(1);
    run(async {
        let storage = start(&disk).await;
        advance(&storage, 0, 29).await;
        let digest = storage.shared().read(State::digest);
        storage.close().await.unwrap();
        disk.plant(&file(29), b"VLLYSNAP\x01 cut off", 18);
        let storage = recover(&disk).await;
        assert_eq!(storage.recovered().snapshot, None);
        assert_eq!(storage.shared().read(State::digest), digest);
    });
}

#[test]
fn a_snapshot_of_a_newer_program_is_refused_by_name() {
    let disk = FaultyDisk::new(1);
    run(async {
        three(&disk).await;
        let mut bytes = disk.dump(&file(59)).unwrap();
        bytes[8] = 4;
        disk.plant(&file(59), &bytes, bytes.len() as u64);
        let refused = open(&disk, 2).err().expect("refused").to_string();
        assert!(refused.contains("version 4"), "{refused}");
        assert_eq!(disk.dump(&file(59)).unwrap(), bytes, "nothing was changed");
    });
}

/// Every bit of a small snapshot file, and every cut.
#[test]
fn no_flipped_bit_and_no_cut_of_a_snapshot_goes_unnoticed() {
    let disk = FaultyDisk::new(1);
    let (storage, bytes) = run(async {
        let storage = start(&disk).await;
        advance(&storage, 0, 2).await;
        let snapshot = storage.state_machine().get_current_snapshot().await.unwrap().unwrap();
        (storage, snapshot.snapshot.0.to_vec())
    });
    storage.check_snapshot(&SnapshotBytes(Arc::new(bytes.clone()))).expect("good");
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let checked = storage.check_snapshot(&SnapshotBytes(Arc::new(bad)));
        assert!(checked.is_err(), "bit {bit} was not noticed");
    }
    for cut in 0..bytes.len() {
        let checked = storage.check_snapshot(&SnapshotBytes(Arc::new(bytes[..cut].to_vec())));
        assert!(checked.is_err(), "a cut at {cut} was not noticed");
    }
    println!("{} bits and {} cuts, all noticed", bytes.len() * 8, bytes.len());
}

/// A snapshot that was received is verified before it replaces anything.
#[test]
fn a_bad_snapshot_from_another_member_changes_nothing() {
    let disk = FaultyDisk::new(1);
    run(async {
        let leader = start(&FaultyDisk::new(2)).await;
        advance(&leader, 0, 9).await;
        let sent = leader.state_machine().get_current_snapshot().await.unwrap().unwrap();
        let storage = start(&disk).await;
        let mut machine = storage.state_machine();

        let mut bad = sent.snapshot.0.to_vec();
        let middle = bad.len() / 2;
        bad[middle] ^= 1;
        let bad = Box::new(SnapshotBytes(Arc::new(bad)));
        assert!(machine.install_snapshot(&sent.meta, bad).await.is_err());
        let mut other = sent.meta.clone();
        other.last_log_id = Some(log_id(1, 8));
        let bytes = Box::new(SnapshotBytes(sent.snapshot.0.clone()));
        assert!(machine.install_snapshot(&other, bytes).await.is_err());
        assert_eq!(storage.shared().index(), None);
        assert!(snapshot_names(&disk).is_empty());

        let bytes = Box::new(SnapshotBytes(sent.snapshot.0.clone()));
        machine.install_snapshot(&sent.meta, bytes).await.expect("the good one is taken");
        assert_eq!(storage.shared().index(), Some(9));
        let (theirs, ours) = (leader.shared(), storage.shared());
        assert_eq!(theirs.read(State::digest), ours.read(State::digest));
    });
}

#[test]
fn a_snapshot_of_another_group_is_refused() {
    run(async {
        let stranger = open(&FaultyDisk::new(2), 1).unwrap();
        let group = GroupId { cluster: 1, generation: 0 };
        stranger.set_group(group, limits()).await.unwrap();
        advance(&stranger, 0, 9).await;
        let sent = stranger.state_machine().get_current_snapshot().await.unwrap().unwrap();
        let storage = start(&FaultyDisk::new(1)).await;
        let checked = storage.check_snapshot(&sent.snapshot);
        assert!(matches!(checked, Err(SnapshotError::Mismatch { .. })));
        assert!(storage.state_machine().install_snapshot(&sent.meta, sent.snapshot).await.is_err());
        assert_eq!(storage.shared().index(), None);
    });
}

/// The consensus purges the log for a received snapshot before the state machine has written it. A
/// power failure in between must leave a folder that opens, with everything that was acknowledged.
#[test]
fn a_purge_that_runs_ahead_of_its_snapshot_waits_for_it_on_disk() {
    let disk = FaultyDisk::new(1);
    run(async {
        let leader = start(&FaultyDisk::new(2)).await;
        advance(&leader, 0, 49).await;
        let sent = leader.state_machine().get_current_snapshot().await.unwrap().unwrap();
        let storage = start(&disk).await;
        advance_log(&storage, 0, 9).await;
        let digest = storage.shared().read(State::digest);
        storage.log_store().purge(log_id(1, 49)).await.unwrap();
        let state = storage.log_store().get_log_state().await.unwrap();
        assert_eq!(state.last_purged_log_id, Some(log_id(1, 49)), "the consensus sees its purge");

        // Time enough for the lazy note of what is committed.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let crashed = disk.snapshot();
        crashed.crash(wal::faulty::CrashMode::KeepAll);
        crashed.power_on();
        let again = recover(&crashed).await;
        assert_eq!(again.shared().index(), Some(9));
        assert_eq!(again.shared().read(State::digest), digest);

        // Entries behind the snapshot are written only when it is there.
        let mut log = storage.log_store();
        let append = tokio::spawn(async move { log.blocking_append([command(1, 50)]).await });
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert!(!append.is_finished());
        storage.state_machine().install_snapshot(&sent.meta, sent.snapshot).await.unwrap();
        append.await.unwrap().expect("appended");
        disk.crash(wal::faulty::CrashMode::LoseAll);
        disk.power_on();
        let again = recover(&disk).await;
        assert_eq!(again.shared().index(), Some(49));
        let state = again.log_store().get_log_state().await.unwrap();
        assert_eq!(state.last_log_id, Some(log_id(1, 50)));
    });
}

/// A disk that fails for a while stops no node: the snapshot is tried again.
#[test]
fn a_snapshot_that_cannot_be_written_is_tried_again() {
    let disk = FaultyDisk::new(1);
    run(async {
        let storage = start(&disk).await;
        advance_log(&storage, 0, 9).await;
        for fault in [Fault::NoSpace, Fault::WriteError, Fault::SyncError] {
            disk.inject(Injection { fault, path: "snapshots".into(), skip: 0 });
        }
        let mut builder = storage.state_machine().get_snapshot_builder().await;
        builder.build_snapshot().await.expect("succeeds in the end");
        assert_eq!(snapshot_names(&disk), ["snapshot_0000000000000009.snap"]);
        storage.close().await.unwrap();
        assert_eq!(recover(&disk).await.recovered().snapshot, Some(9));
    });
}

/// The newest file rots while the node runs: the next member that asks gets a good one.
#[test]
fn a_snapshot_that_rots_under_a_running_node_is_made_again() {
    let disk = FaultyDisk::new(1);
    run(async {
        let storage = start(&disk).await;
        advance(&storage, 0, 9).await;
        assert!(disk.flip(&file(9), 500));
        let sent = storage.state_machine().get_current_snapshot().await.unwrap().unwrap();
        storage.check_snapshot(&sent.snapshot).expect("good");
    });
}

/// The log is given up behind the snapshots, and only there; nothing pins it.
#[test]
fn purging_removes_segments_and_memory_and_the_trigger_counts_bytes() {
    let disk = FaultyDisk::new(1);
    run(async {
        let storage = start(&disk).await;
        assert_eq!(storage.log_bytes_since_snapshot(), 0);
        let mut most = 0;
        for round in 0..30 {
            advance_log(&storage, round * 20, round * 20 + 19).await;
            assert!(storage.log_bytes_since_snapshot() > 20 * 20);
            let mut builder = storage.state_machine().get_snapshot_builder().await;
            builder.build_snapshot().await.unwrap();
            assert_eq!(storage.log_bytes_since_snapshot(), 0);
            storage.log_store().purge(log_id(1, round * 20 + 19)).await.unwrap();
            assert_eq!(storage.log_size(), (0, 0));
            most = most.max(storage.wal_metrics().segments);
        }
        assert!(storage.wal_metrics().truncated_segments > 5);
        assert!(most <= 5, "{most} segments at most");
        let digest = storage.shared().read(State::digest);
        storage.close().await.unwrap();
        let storage = recover(&disk).await;
        assert_eq!(storage.shared().read(State::digest), digest);
    });
}

/// A command before the group is known would give epochs of no group.
#[test]
fn no_command_is_applied_before_the_group_is_known() {
    run(async {
        let storage = open(&FaultyDisk::new(1), 1).unwrap();
        let mut machine = storage.state_machine();
        assert!(machine.apply([command(1, 1)]).await.is_err());
        assert_eq!(storage.shared().index(), None);
    });
}
