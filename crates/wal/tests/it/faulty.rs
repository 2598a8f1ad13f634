//! The faulty disk keeps the rules it is there to enforce; a test disk that is too kind proves
//! nothing.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use wal::faulty::{CrashMode, Fault, Faults, Injection};
use wal::{Disk, DiskFile, FaultyDisk};

fn path(name: &str) -> std::path::PathBuf {
    Path::new("/d").join(name)
}

fn disk(seed: u64) -> FaultyDisk {
    let disk = FaultyDisk::new(seed);
    disk.create_folder(Path::new("/d")).unwrap();
    disk
}

/// A durable, empty file.
fn file(disk: &FaultyDisk, name: &str) -> Box<dyn DiskFile> {
    let file = disk.create(&path(name)).unwrap();
    disk.sync_folder(Path::new("/d")).unwrap();
    file
}

fn crash(disk: &FaultyDisk, mode: CrashMode) {
    disk.crash(mode);
    disk.power_on();
}

fn text(disk: &FaultyDisk, name: &str) -> Option<String> {
    disk.dump(&path(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[test]
fn what_was_not_flushed_is_visible_and_not_durable() {
    let disk = disk(1);
    let file = file(&disk, "f");
    file.write_all_at(b"flushed", 0).unwrap();
    file.sync_data().unwrap();
    file.write_all_at(b"FLUSHED and more", 0).unwrap();
    assert_eq!(text(&disk, "f").unwrap(), "FLUSHED and more");
    disk.kill();
    assert_eq!(text(&disk, "f").unwrap(), "FLUSHED and more", "a dead process takes nothing along");
    assert!(file.sync_data().is_err(), "but its handles are dead");
    crash(&disk, CrashMode::LoseAll);
    assert_eq!(text(&disk, "f").unwrap(), "flushed");
}

#[test]
fn names_are_durable_only_after_a_flush_of_the_folder() {
    let disk = disk(1);
    let kept = file(&disk, "kept");
    kept.write_all_at(b"old", 0).unwrap();
    kept.sync_data().unwrap();
    let made = disk.create(&path("made")).unwrap();
    made.write_all_at(b"new", 0).unwrap();
    made.sync_data().unwrap();
    let before = disk.snapshot();
    disk.rename(&path("made"), &path("kept")).unwrap();
    assert_eq!(text(&disk, "kept").unwrap(), "new");
    let renamed = disk.snapshot();
    crash(&disk, CrashMode::LoseAll);
    assert_eq!((text(&disk, "kept").unwrap(), text(&disk, "made")), ("old".into(), None));
    crash(&before, CrashMode::KeepAll);
    assert_eq!(text(&before, "made").unwrap(), "new");
    renamed.sync_folder(Path::new("/d")).unwrap();
    crash(&renamed, CrashMode::LoseAll);
    assert_eq!((text(&renamed, "kept").unwrap(), text(&renamed, "made")), ("new".into(), None));
    renamed.remove(&path("kept")).unwrap();
    crash(&renamed, CrashMode::LoseAll);
    assert_eq!(text(&renamed, "kept").unwrap(), "new", "a removal needs the flush too");
}

#[test]
fn without_power_nothing_works_and_nothing_changes() {
    let disk = disk(1);
    let file = file(&disk, "f");
    let lock = disk.lock(&path("lock")).unwrap();
    file.write_all_at(b"a", 0).unwrap();
    disk.fail_power_after(1);
    file.write_all_at(b"b", 1).unwrap();
    assert!(file.write_all_at(b"c", 2).is_err(), "the fuse has blown");
    assert!(!disk.powered());
    let changes = disk.changes();
    assert!(file.sync_data().is_err() && file.set_len(0).is_err());
    assert!(disk.create(&path("g")).is_err() && disk.remove(&path("f")).is_err());
    assert!(disk.list(Path::new("/d")).is_err());
    assert_eq!((disk.changes(), disk.counts().of(Fault::PowerFailure)), (changes, 1));
    crash(&disk, CrashMode::KeepAll);
    assert_eq!(text(&disk, "f").unwrap(), "ab");
    assert!(file.write_all_at(b"z", 0).is_err(), "a handle from before stays dead");
    let again = disk.lock(&path("lock")).unwrap();
    drop(lock);
    assert_eq!(disk.lock(&path("lock")).err().unwrap().kind(), ErrorKind::WouldBlock);
    drop(again);
    assert!(disk.lock(&path("lock")).is_ok());
}

#[test]
fn a_failed_flush_loses_the_pages_and_a_lying_one_keeps_them_pending() {
    for (fault, fails) in [(Fault::SyncError, true), (Fault::SyncLie, false)] {
        let disk = disk(1);
        let file = file(&disk, "f");
        file.write_all_at(b"x", 0).unwrap();
        disk.inject(Injection { fault, path: "/d/f".into(), skip: 0 });
        assert_eq!(file.sync_data().is_err(), fails);
        assert_eq!(text(&disk, "f").unwrap(), "x", "still readable");
        let lied = disk.snapshot();
        file.sync_data().unwrap();
        crash(&disk, CrashMode::KeepAll);
        // After the failure the second flush confirms what is not there; after the lie it makes
        // good.
        assert_eq!(text(&disk, "f").unwrap(), if fails { "" } else { "x" });
        crash(&lied, CrashMode::LoseAll);
        assert_eq!(text(&lied, "f").unwrap(), "");
        assert_eq!(disk.counts().of(fault), 1);
    }
}

#[test]
fn capacity_is_a_limit_and_removal_gives_back() {
    let disk = disk(1);
    disk.set_capacity(1_000);
    let f = file(&disk, "f");
    f.allocate(900).unwrap();
    f.write_all_at(&[1; 900], 0).unwrap();
    assert_eq!(f.write_all_at(&[1; 101], 900).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(disk.free_bytes(Path::new("/d")).unwrap(), 100);
    disk.remove(&path("f")).unwrap();
    file(&disk, "g").allocate(1_000).unwrap();
    assert_eq!(disk.counts().of(Fault::NoSpace), 1);
}

/// Everything follows from the seed: crashes, tears, faults, delays.
#[test]
fn the_same_seed_gives_the_same_disk() {
    let run = |seed| {
        let disk = disk(seed);
        disk.set_faults(Faults { short_write: 300_000, write_error: 50_000, ..Faults::default() });
        disk.set_flush_delay(Duration::from_millis(1), Duration::from_millis(50));
        let mut seen = Vec::new();
        for round in 0..30u8 {
            let name = format!("f{}", round % 3);
            let file = match disk.open(&path(&name)) {
                Ok(file) => file,
                Err(_) => file(&disk, &name),
            };
            let failed = file.write_all_at(&[round; 2_000], u64::from(round) * 700).is_err();
            seen.push((failed, disk.pending_delay()));
            if round % 7 == 0 {
                crash(&disk, CrashMode::Random);
            }
        }
        crash(&disk, CrashMode::Random);
        let files: Vec<_> = disk.files().iter().map(|path| disk.dump(path).unwrap()).collect();
        (seen, files, disk.counts())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
    assert!(run(5).2.of(Fault::TornWrite) > 0 && run(5).2.of(Fault::LostWrite) > 0);
}
