//! Figures, not promises: what a snapshot costs while entries are applied. Run with
//! `--ignored --nocapture`.

#![allow(clippy::disallowed_methods, reason = "measures real time, outside of any simulation")]

use std::sync::Arc;
use std::time::Instant;

use crate::store_support::{GROUP, NODE, blank, command, create_job, limits, log_id, options};
use fence::{BootId, Hlc};
use ledger::store::{Storage, WalOwner};
use ledger::types::{Batch, Entry};
use ledger_state::{Proposal, RequestId, SessionId};
use openraft::storage::{RaftLogStorageExt, RaftStateMachine, StorageHelper};
use openraft::{EntryPayload, RaftSnapshotBuilder};
use wal::RealDisk;

/// An entry with as many commands as a busy leader batches.
fn batch(index: u64, count: u64) -> Entry {
    let session = SessionId { node: NODE, boot: BootId(1) };
    let proposals = (0..count).map(|position| {
        let seq = 2 + (index - 2) * count + position;
        Proposal {
            request: RequestId { session, seq },
            settled: seq - 1,
            at: Hlc { wall_ms: seq, ..Hlc::default() },
            command: create_job(seq),
        }
    });
    let payload = EntryPayload::Normal(Batch { time_ms: 0, proposals: proposals.collect() });
    Entry { log_id: log_id(1, index), payload }
}

#[test]
#[ignore = "a measurement"]
fn what_a_snapshot_costs() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for jobs in [10_000_u64, 100_000] {
        let place = tempfile::tempdir().unwrap();
        runtime.block_on(async {
            let mut options = options(1);
            options.wal = wal::Options::default();
            let start = || {
                let disk = Arc::new(RealDisk);
                let data = place.path().to_path_buf();
                Storage::open(disk, data, options.clone(), WalOwner::Thread).unwrap()
            };
            let storage = start();
            storage.set_group(GROUP, limits()).await.unwrap();
            let (mut log, mut machine) = (storage.log_store(), storage.state_machine());
            let begin = Instant::now();
            log.blocking_append([blank(1, 0), command(1, 1)]).await.unwrap();
            machine.apply([blank(1, 0), command(1, 1)]).await.unwrap();
            for index in 2..2 + jobs / 100 {
                log.blocking_append([batch(index, 100)]).await.unwrap();
                machine.apply([batch(index, 100)]).await.unwrap();
            }
            let (entries, bytes) = storage.log_size();
            let filled = begin.elapsed();
            assert_eq!(storage.shared().read(|state| state.jobs().len() as u64), jobs);

            for _ in 0..3 {
                let shared = storage.shared();
                let begin = Instant::now();
                let copy = shared.copy();
                let copied = begin.elapsed();
                let begin = Instant::now();
                let bytes = shared.read(ledger_state::State::encode);
                let encoded = begin.elapsed();
                let begin = Instant::now();
                drop(copy);
                let dropped = begin.elapsed();
                let size = bytes.len();
                println!("{jobs} jobs: copied in {copied:?}, encoded ({size}) in {encoded:?}, dropped in {dropped:?}");
            }
            let begin = Instant::now();
            let mut builder = machine.get_snapshot_builder().await;
            let taken = begin.elapsed();
            let next = 2 + jobs / 100;
            let task = tokio::spawn(async move {
                let begin = Instant::now();
                let built = builder.build_snapshot().await.unwrap();
                (built, begin.elapsed())
            });
            // Entries go on being applied meanwhile: the longest time that one takes.
            let mut longest = std::time::Duration::ZERO;
            let mut applied = 0;
            while !task.is_finished() {
                let begin = Instant::now();
                machine.apply([batch(next + applied, 1)]).await.unwrap();
                longest = longest.max(begin.elapsed());
                applied += 1;
                tokio::task::yield_now().await;
            }
            let (built, wrote) = task.await.unwrap();
            println!(
                "{jobs} jobs: {entries} entries, {bytes} bytes of log, filled in {filled:?}; snapshot {} bytes, \
                 taken in {taken:?}, encoded and written in {wrote:?}; {applied} entries applied meanwhile, \
                 the slowest in {longest:?}",
                built.snapshot.0.len()
            );
            drop((log, machine));
            storage.close().await.unwrap();
            let begin = Instant::now();
            let storage = start();
            let opened = begin.elapsed();
            let (mut log, mut machine) = (storage.log_store(), storage.state_machine());
            StorageHelper::new(&mut log, &mut machine).get_initial_state().await.unwrap();
            println!("{jobs} jobs: opened again in {opened:?}");
            drop((log, machine));
            storage.close().await.unwrap();
        });
    }
}
