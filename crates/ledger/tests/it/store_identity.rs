//! Who a data folder is, and when it is refused.

use std::path::Path;
use std::sync::Arc;

use crate::store_support::{GROUP, NODE, SEGMENT, blank, folder, limits, open, options, run};
use fence::{BootId, GroupId, NodeId};
use ledger::store::{Draw, IdentityError, OpenError, Storage, WalOwner};
use ledger::types::Vote;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use wal::{Disk, FaultyDisk, RealDisk};

fn draw() -> Draw {
    Arc::new(|| 0xd15c)
}

fn log_files(disk: &FaultyDisk) -> Vec<std::path::PathBuf> {
    disk.files().into_iter().filter(|path| path.starts_with(folder().join("wal"))).collect()
}

/// A folder with some entries and a vote, closed in order.
async fn used(disk: &FaultyDisk) -> ledger::store::Identity {
    let storage = open(disk, 1).expect("opens");
    let mut log = storage.log_store();
    log.save_vote(&Vote::new(3, NODE)).await.unwrap();
    for index in 0..40 {
        log.blocking_append([blank(3, index)]).await.unwrap();
    }
    let identity = storage.identity();
    drop(log);
    storage.close().await.unwrap();
    identity
}

/// R2: a node keeps its id, and every start raises its boot id.
#[test]
fn every_start_is_a_new_life_of_the_same_node_on_the_same_disk() {
    let disk = FaultyDisk::new(1);
    run(async {
        let mut before = None;
        for life in 1..=5 {
            let storage = open(&disk, life).expect("opens");
            let identity = storage.identity();
            assert_eq!(identity.boot, BootId(life));
            assert_eq!(identity.node, NODE);
            assert_eq!(*before.get_or_insert(identity.disk), identity.disk);
            assert_eq!(storage.recovered().new_folder, life == 1);
            drop(storage);
            // The number is durable when the node learns it: a power failure gives no life twice.
            disk.crash(wal::faulty::CrashMode::LoseAll);
            disk.power_on();
        }
    });
}

#[test]
fn a_node_without_a_given_id_draws_one_and_keeps_it() {
    let disk = FaultyDisk::new(1);
    run(async {
        let start = |seed| {
            let options = ledger::store::StoreOptions { node: None, ..options(seed) };
            Storage::open(Arc::new(disk.clone()), folder(), options, WalOwner::Task)
        };
        let first = start(11).expect("opens");
        let node = first.identity().node;
        assert_ne!(node, NodeId::default());
        first.close().await.unwrap();
        let second = start(12).expect("opens");
        assert_eq!(second.identity().node, node);
    });
}

#[test]
fn a_folder_of_another_node_is_refused_and_left_alone() {
    let disk = FaultyDisk::new(1);
    run(async {
        used(&disk).await;
        let before = disk.dump(&folder().join("identity"));
        let options = ledger::store::StoreOptions { node: Some(NodeId(8)), ..options(2) };
        let opened = Storage::open(Arc::new(disk.clone()), folder(), options, WalOwner::Task);
        assert!(matches!(opened, Err(OpenError::OtherNode { found: NODE, .. })));
        assert_eq!(disk.dump(&folder().join("identity")), before);
    });
}

/// Every bit of the identity file.
#[test]
fn a_damaged_foreign_or_future_identity_is_refused_by_name_and_not_written_over() {
    let disk = FaultyDisk::new(1);
    run(async { used(&disk).await });
    let path = folder().join("identity");
    let good = disk.dump(&path).unwrap();
    // The file's length counts too: trailing zeros are part of it.
    for bit in 0..good.len() as u64 * 8 {
        disk.flip(&path, bit);
        run(async {
            match open(&disk, 2) {
                Err(OpenError::Identity(
                    IdentityError::Damaged { .. }
                    | IdentityError::Foreign { .. }
                    | IdentityError::Version { .. },
                )) => {}
                Err(other) => panic!("bit {bit}: {other}"),
                Ok(_) => panic!("bit {bit} was not noticed"),
            }
        });
        disk.flip(&path, bit);
        assert_eq!(disk.dump(&path).unwrap(), good, "bit {bit}: the file was written over");
    }
    let mut future = good.clone();
    future[8] = 9;
    disk.plant(&path, &future, future.len() as u64);
    run(async {
        let refused = open(&disk, 2).err().expect("refused").to_string();
        assert!(refused.contains("version 9"), "{refused}");
    });
    disk.plant(&path, b"[settings]\nname = \"something else\"\n", 35);
    run(async {
        let refused = open(&disk, 2).err().expect("refused").to_string();
        assert!(refused.contains("not a Volley identity file"), "{refused}");
    });
}

#[test]
fn a_log_without_an_identity_is_refused() {
    let disk = FaultyDisk::new(1);
    run(async {
        used(&disk).await;
        assert!(disk.erase(&folder().join("identity")));
        assert!(matches!(open(&disk, 2), Err(OpenError::NoIdentity { .. })));
        assert_eq!(disk.dump(&folder().join("identity")), None, "no new one was made");
    });
}

/// A log that was copied from another node's folder.
#[test]
fn a_log_of_another_disk_is_refused() {
    let (disk, other) = (FaultyDisk::new(1), FaultyDisk::new(2));
    run(async {
        used(&disk).await;
        let options = ledger::store::StoreOptions { node: Some(NODE), ..options(77) };
        let storage =
            Storage::open(Arc::new(other.clone()), folder(), options, WalOwner::Task).unwrap();
        storage.close().await.unwrap();
    });
    for path in log_files(&disk) {
        disk.erase(&path);
    }
    for path in log_files(&other) {
        let bytes = other.dump(&path).unwrap();
        disk.plant(&path, &bytes, SEGMENT);
    }
    run(async {
        let refused = open(&disk, 3).err().expect("refused");
        assert!(matches!(refused, OpenError::Wal(wal::OpenError::OtherLog { .. })), "{refused}");
    });
}

/// LEDG-117: votes and entries are gone, so the node comes back as one that was never admitted.
#[test]
fn a_lost_log_gives_the_node_a_new_disk_with_which_it_must_not_vote() {
    let disk = FaultyDisk::new(1);
    run(async {
        let before = used(&disk).await;
        assert!(!before.awaits_admission);
        for path in log_files(&disk) {
            disk.erase(&path);
        }
        let storage = open(&disk, 50).expect("opens, as a newcomer");
        let now = storage.identity();
        assert!(storage.fresh_disk() && now.awaits_admission);
        assert_ne!(now.disk, before.disk);
        assert_eq!(now.node, before.node);
        assert_eq!(storage.recovered().lost_disk, Some(before.disk));
        storage.close().await.unwrap();

        // It does not become old by starting once more, only by being admitted.
        let storage = open(&disk, 51).expect("opens");
        assert!(storage.fresh_disk());
        assert_eq!(storage.identity().disk, now.disk);
        storage.admitted().await.unwrap();
        assert!(!storage.fresh_disk());
        storage.close().await.unwrap();
        let storage = open(&disk, 52).expect("opens");
        assert!(!storage.fresh_disk());
    });
}

/// LEDG-117: a whole folder that was lost; the configuration still names the node.
#[test]
fn a_node_that_lost_its_whole_folder_has_another_disk() {
    let disk = FaultyDisk::new(1);
    run(async {
        let before = used(&disk).await;
        for path in disk.files() {
            disk.erase(&path);
        }
        let storage = open(&disk, 60).expect("opens");
        assert!(storage.fresh_disk());
        assert_eq!(storage.identity().node, before.node);
        assert_ne!(storage.identity().disk, before.disk);
    });
}

/// LEDG-117 WAL-79: rot in the acknowledged part. The operator is told what to do, and can do it.
#[test]
fn a_damaged_log_is_refused_with_the_remedy_and_reset_moves_it_aside() {
    let disk = FaultyDisk::new(1);
    run(async {
        let before = used(&disk).await;
        let segment = log_files(&disk)
            .into_iter()
            .find(|path| path.to_string_lossy().contains("segment_"))
            .unwrap();
        assert!(disk.flip(&segment, 8 * 300));
        let bytes = disk.dump(&segment).unwrap();
        let refused = open(&disk, 2).err().expect("refused");
        assert!(matches!(refused, OpenError::LogDamaged { .. }) && refused.wants_reset());
        assert!(refused.to_string().contains("volley debug ledger reset"), "{refused}");
        assert_eq!(disk.dump(&segment).unwrap(), bytes, "nothing was changed");

        let given = Storage::reset(&disk, &folder(), &draw(), "damaged").expect("resets");
        assert_ne!(given, before.disk);
        let kept = disk.files().into_iter().find(|path| {
            path.file_name() == segment.file_name() && disk.dump(path).as_ref() == Some(&bytes)
        });
        assert!(kept.expect("the log is kept").starts_with(folder()), "in the same folder");

        let storage = open(&disk, 3).expect("opens");
        assert!(storage.fresh_disk() && storage.identity().awaits_admission);
        assert_eq!(storage.identity().disk, given);
        assert!(storage.identity().boot > before.boot);
        assert_eq!(storage.recovered().entries, 0);
    });
}

/// LEDG-117: the log ends before what was acknowledged.
#[test]
fn a_log_that_lost_its_acknowledged_end_is_refused() {
    let disk = FaultyDisk::new(1);
    run(async {
        used(&disk).await;
        let last = log_files(&disk)
            .into_iter()
            .rfind(|path| path.to_string_lossy().contains("segment_"))
            .unwrap();
        let bytes = disk.dump(&last).unwrap();
        disk.plant(&last, &bytes[..bytes.len() - 120], SEGMENT);
        let refused = open(&disk, 2).err().expect("refused");
        assert!(refused.wants_reset(), "{refused}");
    });
}

#[test]
fn a_group_is_fixed_once_and_for_all() {
    let disk = FaultyDisk::new(1);
    run(async {
        let storage = open(&disk, 1).unwrap();
        assert_eq!(storage.identity().group, None);
        storage.set_group(GROUP, limits()).await.unwrap();
        storage.set_group(GROUP, limits()).await.expect("the same again is no change");
        let other = GroupId { cluster: 1, generation: 0 };
        let refused = storage.set_group(other, limits()).await.expect_err("refused");
        assert!(matches!(refused, OpenError::OtherGroup { known: GROUP, .. }));
        storage.close().await.unwrap();
        let storage = open(&disk, 2).unwrap();
        assert_eq!(storage.identity().group, Some(GROUP));
        assert_eq!(storage.shared().read(|state| state.group()), GROUP);
        assert_eq!(storage.limits(), Some(limits()));
    });
}

/// WAL-40
#[test]
fn a_folder_that_is_in_use_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let start =
        |path: &Path| Storage::open(disk.clone(), path.to_path_buf(), options(1), WalOwner::Thread);
    run(async {
        let first = start(place.path()).expect("opens");
        let second = start(place.path()).err().expect("refused");
        assert!(matches!(second, OpenError::InUse { .. }), "{second}");
        let reset = Storage::reset(disk.as_ref(), place.path(), &draw(), "test");
        assert!(matches!(reset, Err(OpenError::InUse { .. })));
        assert_eq!(first.identity().boot, BootId(1), "the refused one took no life");
        first.close().await.expect("closes");
        let third = start(place.path()).expect("free again");
        assert_eq!(third.identity().boot, BootId(2));
        third.close().await.expect("closes");
    });
}
