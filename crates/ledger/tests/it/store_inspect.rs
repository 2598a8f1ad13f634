//! What an operator sees of a data folder, good, torn and damaged; looking changes nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::store_support::{
    GROUP, NODE, SEGMENT, blank, command, folder, limits, log_id, open, run,
};
use ledger::inspect::{self, ContentLine, InspectError, Inspection, RecordWords};
use ledger::store::Storage;
use ledger::types::Vote;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft::{Membership, RaftSnapshotBuilder};
use wal::faulty::CrashMode;
use wal::{Disk, FaultyDisk};

fn shared(disk: &FaultyDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn everything(disk: &FaultyDisk) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    disk.files().into_iter().map(|path| (path.clone(), disk.dump(&path))).collect()
}

async fn fill(disk: &FaultyDisk) -> Storage {
    let storage = open(disk, 1).unwrap();
    storage.set_group(GROUP, limits()).await.unwrap();
    let (mut log, mut machine) = (storage.log_store(), storage.state_machine());
    log.save_vote(&Vote::new(1, NODE)).await.unwrap();
    let mut members = blank(1, 0);
    members.payload = openraft::EntryPayload::Membership(Membership::new(
        vec![[NODE].into()],
        BTreeMap::from([(
            NODE,
            ledger::types::Member { address: "a:1".into(), ..Default::default() },
        )]),
    ));
    log.blocking_append([members.clone()]).await.unwrap();
    machine.apply([members]).await.unwrap();
    for index in 1..=20 {
        log.blocking_append([command(1, index)]).await.unwrap();
        machine.apply([command(1, index)]).await.unwrap();
    }
    log.blocking_append([blank(1, 21), blank(1, 22)]).await.unwrap();
    log.truncate(log_id(1, 22)).await.unwrap();
    log.save_committed(Some(log_id(1, 20))).await.unwrap();
    machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    log.purge(log_id(1, 10)).await.unwrap();
    storage.blobs().put(b"a plan".to_vec()).await.unwrap();
    storage
}

#[test]
fn records_are_shown_with_their_commands_while_the_node_runs() {
    let disk = FaultyDisk::new(1);
    run(async {
        let storage = fill(&disk).await;
        let before = everything(&disk);
        let look = Inspection::open(shared(&disk), &folder()).unwrap();
        assert_eq!(look.identity(), storage.identity());
        let lines: Vec<_> = look.records(0..u64::MAX).unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(
            lines.iter().map(|line| line.lsn).collect::<Vec<_>>(),
            Vec::from_iter(1..=lines.len() as u64)
        );
        let commands: Vec<_> = lines
            .iter()
            .filter_map(|line| match &line.words {
                RecordWords::Entry { position, content: ContentLine::Commands(commands) } => {
                    Some((position.index, commands[0].name, commands[0].job.is_some()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(commands[0], (1, "OpenSession", false));
        assert_eq!(commands[1], (2, "CreateJob", true));
        assert_eq!(commands.len(), 20);
        let kinds: Vec<_> = lines.iter().map(|line| line.words.kind()).collect();
        for kind in ["vote", "entry", "truncate", "committed", "base"] {
            assert!(kinds.contains(&kind), "no {kind} in {kinds:?}");
        }
        let text = lines.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(text.contains("entry 0 (term 1): members: "), "{text}");
        assert!(text.contains("CreateJob "), "{text}");
        assert!(text.contains("in term 1"), "{text}");
        let part: Vec<_> = look.records(3..5).unwrap().map(|line| line.unwrap().lsn).collect();
        assert_eq!(part, [3, 4]);
        let snapshots: Vec<_> = look.snapshots().unwrap().collect();
        assert_eq!(snapshots.len(), 1);
        assert_eq!(snapshots[0].header.as_ref().unwrap().last.unwrap().index, 20);
        assert_eq!(look.blobs().unwrap(), (1, 6));
        assert_eq!(everything(&disk), before, "looking changes nothing");
        storage.log_store().blocking_append([blank(1, 22)]).await.expect("the node goes on");
    });
}

#[test]
fn a_good_folder_is_sound_and_counted() {
    let disk = FaultyDisk::new(1);
    run(async {
        fill(&disk).await.close().await.unwrap();
        let before = everything(&disk);
        let report = inspect::verify(&shared(&disk), &folder()).unwrap();
        assert!(report.is_sound(), "{:?}", report.problems);
        assert_eq!(report.log.kinds["entry"], 23);
        assert_eq!(report.log.kinds["vote"], 1);
        assert_eq!(report.log.commands, 20);
        assert_eq!(report.log.records, report.log.kinds.values().sum::<u64>());
        assert_eq!((report.log.first_lsn, report.log.last_lsn), (1, report.log.records));
        assert_eq!(report.log.last_entry.unwrap().index, 21);
        assert_eq!(report.log.purged.unwrap().index, 10);
        assert_eq!(report.log.torn, None);
        assert_eq!(report.snapshots.len(), 1);
        assert_eq!(report.snapshots[0].jobs, 19);
        assert_eq!((report.blobs.blobs, report.blobs.unnamed), (1, 1));
        assert_eq!(report.blobs.missing.len(), 19, "the plans that the jobs name");
        assert_eq!(everything(&disk), before);
    });
}

/// WAL-16: the tail that a crash left is named with its place, and is no damage.
#[test]
fn a_torn_tail_is_told_and_not_cut() {
    let disk = FaultyDisk::new(1);
    run(async {
        let storage = fill(&disk).await;
        let entries: Vec<_> = (22..24).map(|index| command(1, index)).collect();
        // The power fails in the middle of the flush of this one.
        disk.fail_power_after(1);
        assert!(storage.log_store().blocking_append(entries).await.is_err());
        disk.crash(CrashMode::KeepAll);
        drop(storage);
        disk.power_on();
        let segment = folder().join("wal/segment_00000001.wal");
        let bytes = disk.dump(&segment).unwrap();
        disk.plant(&segment, &bytes[..bytes.len() - 100], SEGMENT);
        let before = everything(&disk);
        let report = inspect::verify(&shared(&disk), &folder()).unwrap();
        assert!(report.is_sound(), "{:?}", report.problems);
        let torn = report.log.torn.expect("a torn tail");
        assert!(torn.offset > 0 && torn.bytes > 0, "{torn:?}");
        assert_eq!(everything(&disk), before, "nothing was cut");
        let storage = open(&disk, 2).expect("the start cuts it");
        assert_eq!(storage.recovered().wal.torn.as_ref().map(|cut| cut.offset), Some(torn.offset));
    });
}

/// WAL-79: damage is named with its place.
#[test]
fn damage_in_log_snapshot_and_blob_is_found_and_named() {
    let disk = FaultyDisk::new(1);
    run(async {
        fill(&disk).await.close().await.unwrap();
        let find = |part: &str| {
            let files = disk.files();
            files.into_iter().find(|path| path.to_string_lossy().contains(part)).unwrap()
        };
        let (segment, snapshot, blob) = (find("segment_"), find("snapshot_"), find("blobs/"));
        for (path, bit) in [(&segment, 8 * 900), (&snapshot, 8 * 60), (&blob, 3)] {
            assert!(disk.flip(path, bit));
            let before = everything(&disk);
            let report = inspect::verify(&shared(&disk), &folder()).unwrap();
            assert_eq!(everything(&disk), before);
            assert!(!report.is_sound());
            let text = report.problems.join("\n");
            let wanted = if *path == segment { "offset" } else { "damaged" };
            assert!(text.contains(wanted), "{text}");
            assert!(disk.flip(path, bit));
        }
        disk.erase(&snapshot);
        let report = inspect::verify(&shared(&disk), &folder()).unwrap();
        assert!(report.is_sound(), "the log reaches back to its beginning: {:?}", report.problems);
    });
}

#[test]
fn another_folder_is_refused_by_name() {
    let disk = FaultyDisk::new(1);
    disk.plant(&folder().join("notes.txt"), b"hello", 5);
    let opened = Inspection::open(shared(&disk), &folder());
    assert!(matches!(opened, Err(InspectError::NotADataFolder { .. })));
    let verified = inspect::verify(&shared(&disk), &folder());
    assert!(matches!(verified, Err(InspectError::NotADataFolder { .. })));
}
