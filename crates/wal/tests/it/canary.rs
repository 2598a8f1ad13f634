//! The known bug that a simulation puts back must be visible here too: an answer before the flush
//! loses records.
#![cfg(feature = "canary")]

use crate::common::*;
use fence::canary::{self, Canary};
use wal::faulty::CrashMode;
use wal::{FaultyDisk, Options};

#[tokio::test(start_paused = true)]
async fn answering_before_the_flush_loses_what_was_acknowledged() {
    for bug in [None, Some(Canary::AckBeforeFsync)] {
        canary::set(bug);
        let disk = FaultyDisk::new(1);
        let (wal, _) = start(&disk, &Options::default());
        assert_eq!(wal.append_durable(one("acknowledged")).await, Ok(1));
        disk.crash(CrashMode::LoseAll);
        disk.power_on();
        drop(wal);
        let found = contents(&disk, &Options::default()).unwrap().len();
        assert_eq!((bug, found), (bug, usize::from(bug.is_none())));
    }
    canary::set(None);
}
