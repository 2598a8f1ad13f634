//! Random sequences of what the consensus may ask, with restarts and power failures in between,
//! against a map.

use std::collections::BTreeMap;

use crate::store_support::{GROUP, NODE, command, limits, log_id, open, run};
use ledger::store::{LogStore, StateMachine, Storage};
use ledger::types::{LogId, SnapshotBytes, Vote};
use ledger_state::State;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine, StorageHelper};
use openraft::{EntryPayload, RaftLogReader, RaftSnapshotBuilder, Snapshot};
use proptest::prelude::*;
use wal::FaultyDisk;
use wal::faulty::CrashMode;

#[derive(Clone, Debug)]
enum Op {
    Vote,
    Append(u64),
    /// Drop some of what is not committed, and go on in a new term.
    Replace(u64),
    Commit(u64),
    Snapshot,
    /// Give up entries, down to so many before the snapshot.
    Purge(u64),
    /// Take a snapshot from another member that is so many entries ahead.
    Install(u64),
    Close,
    Kill,
    Crash(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => Just(Op::Vote),
        6 => (1u64..6).prop_map(Op::Append),
        2 => (0u64..4).prop_map(Op::Replace),
        4 => (0u64..3).prop_map(Op::Commit),
        3 => Just(Op::Snapshot),
        3 => (0u64..4).prop_map(Op::Purge),
        1 => (1u64..20).prop_map(Op::Install),
        1 => Just(Op::Close),
        1 => Just(Op::Kill),
        2 => any::<u8>().prop_map(Op::Crash),
    ]
}

#[derive(Default)]
struct Model {
    term: u64,
    vote: u64,
    entries: BTreeMap<u64, u64>,
    terms: BTreeMap<u64, u64>,
    purged: Option<u64>,
    committed: Option<u64>,
    applied: Option<u64>,
    snapshot: Option<u64>,
}

impl Model {
    fn next(&self) -> u64 {
        let last = self.entries.last_key_value().map(|(index, _)| *index);
        last.max(self.purged).map_or(0, |last| last + 1)
    }

    fn id(&self, index: u64) -> LogId {
        log_id(self.terms[&index], index)
    }

    fn append(&mut self, count: u64) -> Vec<ledger::types::Entry> {
        let from = self.next();
        (from..from + count)
            .map(|index| {
                self.entries.insert(index, self.term);
                self.terms.insert(index, self.term);
                command(self.term, index)
            })
            .collect()
    }
}

struct Life {
    storage: Storage,
    log: LogStore,
    machine: StateMachine,
}

async fn begin(disk: &FaultyDisk) -> Life {
    let storage = open(disk, 1).expect("opens");
    storage.set_group(GROUP, limits()).await.expect("group");
    let (mut log, mut machine) = (storage.log_store(), storage.state_machine());
    StorageHelper::new(&mut log, &mut machine).get_initial_state().await.expect("starts");
    Life { storage, log, machine }
}

/// The state after the entries up to `applied`, computed beside the storage.
fn reference(applied: Option<u64>) -> State {
    let mut state = State::new(GROUP, limits());
    for index in 0..applied.map_or(0, |applied| applied + 1) {
        if let EntryPayload::Normal(batch) = command(1, index).payload {
            state.apply(index, &batch.proposals);
        }
    }
    state
}

/// What another member would send that has applied up to `index`.
async fn foreign_snapshot(model: &Model, index: u64) -> Snapshot<ledger::types::TypeConfig> {
    let other = begin(&FaultyDisk::new(9)).await;
    let mut machine = other.machine.clone();
    let entries = (0..=index).map(|i| command(model.terms.get(&i).copied().unwrap_or(1), i));
    machine.apply(entries.collect::<Vec<_>>()).await.expect("applies");
    machine.get_snapshot_builder().await.build_snapshot().await.expect("builds")
}

async fn perform(life: &mut Life, model: &mut Model, disk: &FaultyDisk, op: &Op) {
    match *op {
        Op::Vote => {
            model.term += 1;
            model.vote = model.term;
            life.log.save_vote(&Vote::new(model.term, NODE)).await.expect("votes");
        }
        Op::Append(count) => {
            let entries = model.append(count);
            life.log.blocking_append(entries).await.expect("appends");
        }
        Op::Replace(keep) => {
            let from = model.committed.map_or(0, |committed| committed + 1) + keep;
            if from < model.next() && model.purged.is_none_or(|purged| from > purged) {
                life.log.truncate(model.id(from)).await.expect("truncates");
                model.entries.split_off(&from);
                model.terms.split_off(&from);
            }
            model.term += 1;
            let entries = model.append(1);
            life.log.blocking_append(entries).await.expect("appends");
        }
        Op::Commit(behind) => {
            let Some(upto) = model.next().checked_sub(behind + 1) else { return };
            if Some(upto) <= model.committed.max(model.purged) {
                return;
            }
            life.log.save_committed(Some(model.id(upto))).await.expect("commits");
            model.committed = Some(upto);
            let from = model.applied.map_or(0, |applied| applied + 1);
            let entries = life.log.try_get_log_entries(from..upto + 1).await.expect("reads");
            life.machine.apply(entries).await.expect("applies");
            model.applied = Some(upto);
        }
        Op::Snapshot => {
            if model.applied.is_some() && model.applied != model.snapshot {
                let mut builder = life.machine.get_snapshot_builder().await;
                builder.build_snapshot().await.expect("builds");
                model.snapshot = model.applied;
            }
        }
        Op::Purge(keep) => {
            let Some(upto) = model.snapshot.and_then(|at| at.checked_sub(keep)) else { return };
            if Some(upto) > model.purged {
                life.log.purge(model.id(upto)).await.expect("purges");
                model.entries = model.entries.split_off(&(upto + 1));
                model.purged = Some(upto);
            }
        }
        Op::Install(ahead) => {
            let index = model.applied.map_or(0, |applied| applied) + ahead;
            for i in model.next()..=index {
                model.terms.insert(i, model.term);
            }
            let Snapshot { meta, snapshot } = foreign_snapshot(model, index).await;
            let sent = Box::new(SnapshotBytes(snapshot.0.clone()));
            life.storage.check_snapshot(&sent).expect("verifies");
            // In the order of the consensus: the log is purged first.
            life.log.purge(model.id(index)).await.expect("purges");
            life.machine.install_snapshot(&meta, sent).await.expect("installs");
            model.entries = model.entries.split_off(&(index + 1));
            model.purged = Some(index);
            model.snapshot = Some(index);
            model.applied = Some(index);
            model.committed = model.committed.max(Some(index));
        }
        Op::Close | Op::Kill | Op::Crash(_) => unreachable!("{disk:p} is restarted elsewhere"),
    }
}

async fn compare(life: &mut Life, model: &Model) {
    let state = life.log.get_log_state().await.expect("state");
    assert_eq!(state.last_purged_log_id.map(|id| id.index), model.purged);
    assert_eq!(state.last_log_id.map_or(0, |id| id.index + 1), model.next());
    let vote = life.log.read_vote().await.expect("vote");
    assert_eq!(vote.map_or(0, |vote| vote.leader_id.term), model.vote);
    let entries = life.log.try_get_log_entries(0..u64::MAX).await.expect("entries");
    let found: BTreeMap<u64, u64> =
        entries.iter().map(|entry| (entry.log_id.index, entry.log_id.leader_id.term)).collect();
    assert_eq!(found, model.entries);
    let shared = life.storage.shared();
    assert_eq!(shared.index(), model.applied);
    let digest = shared.read(State::digest);
    assert_eq!(digest, reference(model.applied).digest(), "the state is that of its entries");
}

async fn restart(life: Life, disk: &FaultyDisk, op: &Op) -> Life {
    let Life { storage, log, machine } = life;
    drop((log, machine));
    match op {
        Op::Close => storage.close().await.expect("closes"),
        Op::Kill => {
            disk.kill();
            drop(storage);
        }
        Op::Crash(kind) => {
            let mode = match kind % 3 {
                0 => CrashMode::LoseAll,
                1 => CrashMode::KeepAll,
                _ => CrashMode::Random,
            };
            disk.crash(mode);
            drop(storage);
            disk.power_on();
        }
        _ => unreachable!(),
    }
    begin(disk).await
}

fn follow(ops: &[Op], seed: u64) {
    let disk = FaultyDisk::new(seed);
    run(async {
        let mut model = Model { term: 1, ..Model::default() };
        let mut life = begin(&disk).await;
        for op in ops {
            if matches!(op, Op::Close | Op::Kill | Op::Crash(_)) {
                life = restart(life, &disk, op).await;
                // How far it was committed need not be remembered; what is applied follows from
                // that.
                let applied = life.storage.shared().index();
                assert!(applied >= model.snapshot && applied <= model.applied);
                if matches!(op, Op::Close) {
                    assert_eq!(applied, model.applied, "a clean end forgets nothing");
                }
                model.applied = applied;
                // A purge before its snapshot was written is made again later; the entries are
                // still there.
                let state = life.log.get_log_state().await.expect("state");
                let purged = state.last_purged_log_id.map(|id| id.index);
                assert!(purged <= model.purged);
                let first = purged.map_or(0, |purged| purged + 1);
                for index in first..model.purged.map_or(0, |purged| purged + 1) {
                    model.entries.insert(index, model.terms[&index]);
                }
                model.purged = purged;
            } else {
                perform(&mut life, &mut model, &disk, op).await;
            }
            compare(&mut life, &model).await;
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 400, ..ProptestConfig::default() })]

    /// LEDG-80 LEDG-81 LEDG-78
    #[test]
    fn the_log_and_the_state_are_those_of_a_map(
        ops in proptest::collection::vec(op(), 1..60),
        seed in any::<u64>(),
    ) {
        follow(&ops, seed);
    }
}
