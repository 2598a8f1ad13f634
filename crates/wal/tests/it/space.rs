//! A full disk: refused early, a reserve for what must still be said, and it goes on by itself.

use std::time::Duration;

use crate::common::*;
use wal::faulty::CrashMode;
use wal::{AppendError, AppendOptions, FaultyDisk, Options, Wal};

fn options() -> Options {
    Options { space_check: Duration::from_secs(1), ..Options::small(4_096) }
}

async fn essential(wal: &Wal, size: usize) -> Result<u64, AppendError> {
    wal.enqueue_with(vec![(2, vec![2; size])], AppendOptions::essential()).await?.await
}

/// Fills the log until it refuses. Returns the last LSN that was taken.
async fn fill(wal: &Wal) -> u64 {
    let mut last = 0;
    loop {
        match wal.append_durable(vec![(1, vec![1; 900])]).await {
            Ok(lsn) => last = lsn,
            Err(AppendError::NotWritten(why)) => {
                assert!(why.contains("space is low"), "{why}");
                return last;
            }
            Err(other) => panic!("{other}"),
        }
        assert!(last < 10_000);
    }
}

/// A full disk is noticed before it is too late: new work is refused without harm, and a reserve
/// serves essential records.
#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_new_work_and_lets_essential_records_end_it() {
    let disk = FaultyDisk::new(1);
    disk.set_capacity(100_000);
    let (wal, _) = start(&disk, &options());
    let last = fill(&wal).await;
    assert!(last > 40, "{last}");
    assert!(wal.poisoned().is_none() && wal.metrics().low_space);
    assert_eq!(wal.try_append(1, vec![]).err().map(|error| error.not_written()), Some(true));
    // Others take the rest of the disk. The reserve is ours.
    disk.plant(std::path::Path::new("/data/others"), &[], free(&disk));
    let mut ends = 0;
    let refused = loop {
        match essential(&wal, 400).await {
            Ok(lsn) => {
                ends += 1;
                assert_eq!(lsn, last + ends);
            }
            Err(error) => break error,
        }
    };
    assert!(
        matches!(&refused, AppendError::NotWritten(why) if why.contains("reserve")),
        "{refused}"
    );
    assert!(ends >= 14, "the reserve of two segments less a largest record each: {ends}");
    assert!(wal.poisoned().is_none(), "a refusal is not a failure");
    disk.crash(CrashMode::LoseAll);
    disk.power_on();
    assert_eq!(contents(&disk, &options()).unwrap().len() as u64, last + ends);
}

fn free(disk: &FaultyDisk) -> u64 {
    use wal::Disk;
    disk.free_bytes(std::path::Path::new(FOLDER)).unwrap()
}

/// Others fill the disk while the log has room in its own segment: that is noticed, not only when
/// the next one is made.
#[tokio::test(start_paused = true)]
async fn space_that_others_take_is_noticed_in_time() {
    let disk = FaultyDisk::new(1);
    disk.set_capacity(100_000);
    let (wal, _) = start(&disk, &options());
    wal.append_durable(vec![(1, vec![1; 100])]).await.unwrap();
    assert!(!wal.metrics().low_space);
    disk.plant(std::path::Path::new("/data/others"), &[], free(&disk));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(wal.metrics().low_space);
    assert_eq!(wal.try_append(1, vec![]).err().map(|error| error.not_written()), Some(true));
    essential(&wal, 100).await.unwrap();
    disk.set_capacity(300_000);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!wal.metrics().low_space);
    wal.append_durable(vec![(1, vec![1; 100])]).await.unwrap();
}

/// Work resumes by itself when space returns.
#[tokio::test(start_paused = true)]
async fn it_goes_on_by_itself_when_space_is_back() {
    let disk = FaultyDisk::new(1);
    disk.set_capacity(100_000);
    let (wal, _) = start(&disk, &options());
    let last = fill(&wal).await;
    essential(&wal, 900).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(wal.append(1, vec![]).await.is_err(), "nothing has changed yet");
    disk.set_capacity(200_000);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(wal.append_durable(vec![(1, vec![1; 900])]).await, Ok(last + 2));
    assert!(!wal.metrics().low_space);
    assert_eq!(wal.metrics().no_space, 2);
    // The reserve is whole again.
    assert!(disk.files().iter().any(|path| path.ends_with("wal.reserve")));
}

/// WAL-80, LEDG-62: removing old segments is the other way to get space back, and works at once.
#[tokio::test(start_paused = true)]
async fn truncation_gives_space_back() {
    let disk = FaultyDisk::new(1);
    disk.set_capacity(100_000);
    let (wal, _) = start(&disk, &options());
    let last = fill(&wal).await;
    assert!(wal.truncate_before(last).await.unwrap() > 5);
    assert_eq!(wal.append_durable(vec![(1, vec![1; 900])]).await, Ok(last + 1));
}

/// A log on a full disk can be opened and read.
#[tokio::test(start_paused = true)]
async fn a_log_on_a_full_disk_opens() {
    let disk = FaultyDisk::new(1);
    let (wal, _) = start(&disk, &options());
    for _ in 0..10 {
        wal.append_durable(vec![(1, vec![1; 900])]).await.unwrap();
    }
    wal.close().await.unwrap();
    disk.set_capacity(1_000);
    let (wal, recovery) = start(&disk, &options());
    assert_eq!(recovery.records, 10);
    settle().await;
    let refused = wal.append(1, vec![]).await;
    assert!(matches!(refused, Err(AppendError::NotWritten(_))), "{refused:?}");
}
