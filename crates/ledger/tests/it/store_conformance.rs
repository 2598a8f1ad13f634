//! openraft's own storage suite, on a real disk with a thread and on the simulated one with a task.

use std::sync::Arc;

use crate::store_support::{folder, options};
use ledger::store::{LogStore, StateMachine, Storage, WalOwner};
use ledger::types::{StorageError, TypeConfig};
use openraft::testing::{StoreBuilder, Suite};
use wal::{FaultyDisk, RealDisk};

struct OnRealDisk;

impl StoreBuilder<TypeConfig, LogStore, StateMachine, (Storage, tempfile::TempDir)> for OnRealDisk {
    async fn build(
        &self,
    ) -> Result<((Storage, tempfile::TempDir), LogStore, StateMachine), StorageError> {
        let place = tempfile::tempdir().expect("a folder");
        let disk = Arc::new(RealDisk);
        let data = place.path().join("data");
        let storage =
            Storage::open(disk, data, options(1), WalOwner::Thread).expect("a new folder opens");
        let (log, machine) = (storage.log_store(), storage.state_machine());
        Ok(((storage, place), log, machine))
    }
}

struct OnFaultyDisk;

impl StoreBuilder<TypeConfig, LogStore, StateMachine, Storage> for OnFaultyDisk {
    async fn build(&self) -> Result<(Storage, LogStore, StateMachine), StorageError> {
        let disk = Arc::new(FaultyDisk::new(1));
        let storage =
            Storage::open(disk, folder(), options(1), WalOwner::Task).expect("a new folder opens");
        let (log, machine) = (storage.log_store(), storage.state_machine());
        Ok((storage, log, machine))
    }
}

/// LEDG-79
#[test]
fn openrafts_suite_passes_on_a_real_disk() {
    Suite::test_all(OnRealDisk).expect("conforms");
}

/// LEDG-79
#[test]
fn openrafts_suite_passes_on_the_simulated_disk() {
    Suite::test_all(OnFaultyDisk).expect("conforms");
}
