//! The power fails at every single call that changes the disk, in the middle of appends, votes,
//! purges and snapshots. After the next start nothing that was acknowledged is missing, and the log
//! has no hole.

use std::collections::BTreeMap;

use crate::store_support::{GROUP, NODE, blank, command, limits, log_id, open, run};
use ledger::store::{LogStore, StateMachine, Storage};
use ledger::types::{LogId, StorageError, Vote};
use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine, StorageHelper};
use openraft::{RaftLogReader, RaftSnapshotBuilder};
use wal::FaultyDisk;
use wal::faulty::{CrashMode, Fault, Injection};

/// What the consensus asks of the storage.
#[derive(Clone, Debug)]
enum Op {
    Vote(u64),
    /// Entries of a term, from an index on.
    Append {
        term: u64,
        from: u64,
        count: u64,
    },
    Truncate(u64),
    Commit(u64),
    /// Apply up to here and write a snapshot.
    Snapshot(u64),
    Purge(u64),
}

/// What must be there: entries by index with their term, the vote, how far it is purged.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    vote: u64,
    entries: BTreeMap<u64, u64>,
    purged: Option<u64>,
    /// LeaseTerms of everything ever committed, for log ids.
    terms: BTreeMap<u64, u64>,
    committed: Option<u64>,
    snapshot: Option<u64>,
}

impl Model {
    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Vote(term) => self.vote = term,
            Op::Append { term, from, count } => {
                for index in from..from + count {
                    self.entries.insert(index, term);
                    self.terms.insert(index, term);
                }
            }
            Op::Truncate(from) => drop(self.entries.split_off(&from)),
            Op::Commit(upto) => self.committed = Some(upto),
            Op::Snapshot(upto) => self.snapshot = Some(upto),
            Op::Purge(upto) => {
                self.entries = self.entries.split_off(&(upto + 1));
                self.purged = Some(upto);
            }
        }
    }

    fn id(&self, index: u64) -> LogId {
        log_id(self.terms[&index], index)
    }
}

fn script() -> Vec<Op> {
    let mut ops = vec![Op::Vote(1), Op::Append { term: 1, from: 0, count: 3 }, Op::Commit(2)];
    let mut next = 3;
    for term in 2..6 {
        ops.push(Op::Vote(term));
        ops.push(Op::Append { term, from: next, count: 5 });
        ops.push(Op::Append { term, from: next + 5, count: 2 });
        // The last two were never committed, and another leader replaces them.
        ops.push(Op::Truncate(next + 5));
        ops.push(Op::Append { term: term + 1, from: next + 5, count: 3 });
        ops.push(Op::Commit(next + 7));
        ops.push(Op::Snapshot(next + 7));
        ops.push(Op::Purge(next + 4));
        next += 8;
    }
    ops.push(Op::Append { term: 7, from: next, count: 4 });
    ops
}

struct Life {
    storage: Storage,
    log: LogStore,
    machine: StateMachine,
}

async fn perform(life: &mut Life, model: &Model, op: &Op) -> Result<(), StorageError> {
    match *op {
        Op::Vote(term) => life.log.save_vote(&Vote::new(term, NODE)).await,
        Op::Append { term, from, count } => {
            let entries: Vec<_> = (from..from + count).map(|index| command(term, index)).collect();
            life.log.blocking_append(entries).await
        }
        Op::Truncate(from) => life.log.truncate(model.id(from)).await,
        Op::Commit(upto) => life.log.save_committed(Some(model.id(upto))).await,
        Op::Snapshot(upto) => {
            let applied = life.storage.shared().index().map_or(0, |index| index + 1);
            let entries = life.log.try_get_log_entries(applied..upto + 1).await?;
            life.machine.apply(entries).await?;
            let mut builder = life.machine.get_snapshot_builder().await;
            // A disk without power fails for good: one try is enough here.
            tokio::select! {
                biased;
                built = builder.build_snapshot() => built.map(|_| ()),
                () = tokio::time::sleep(std::time::Duration::from_millis(500)) => Err(lost()),
            }
        }
        Op::Purge(upto) => life.log.purge(model.id(upto)).await,
    }
}

fn lost() -> StorageError {
    let subject = openraft::ErrorSubject::Store;
    StorageError::from_io_error(subject, openraft::ErrorVerb::Write, std::io::Error::other("lost"))
}

async fn begin(disk: &FaultyDisk) -> Option<Life> {
    let storage = open(disk, 1).ok()?;
    storage.set_group(GROUP, limits()).await.ok()?;
    let (log, machine) = (storage.log_store(), storage.state_machine());
    Some(Life { storage, log, machine })
}

/// Runs the script until the power fails. Returns what was acknowledged, and what was under way.
async fn live(disk: &FaultyDisk) -> (Model, Option<Op>) {
    let mut model = Model::default();
    let Some(mut life) = begin(disk).await else { return (model, None) };
    for op in script() {
        if let Err(_error) = perform(&mut life, &model, &op).await {
            return (model, Some(op));
        }
        model.apply(&op);
    }
    (model, None)
}

/// Everything acknowledged is there; beyond it only what was under way, in whole or as a prefix.
async fn check(disk: &FaultyDisk, model: &Model, under_way: Option<&Op>, what: &str) {
    let storage = open(disk, 2).unwrap_or_else(|error| panic!("{what}: does not open: {error}"));
    let (mut log, mut machine) = (storage.log_store(), storage.state_machine());
    let after = under_way.map(|op| {
        let mut after = model.clone();
        after.apply(op);
        after
    });

    let vote = log.read_vote().await.unwrap().map_or(0, |vote| vote.leader_id.term);
    let votes = [Some(model.vote), after.as_ref().map(|after| after.vote)];
    assert!(votes.contains(&Some(vote)), "{what}: vote {vote}, acknowledged {}", model.vote);

    let state = log.get_log_state().await.unwrap();
    let purged = state.last_purged_log_id.map(|id| id.index);
    let purges = [Some(model.purged), after.as_ref().map(|after| after.purged)];
    assert!(purges.contains(&Some(purged)), "{what}: purged {purged:?} of {:?}", model.purged);

    let entries = log.try_get_log_entries(0..u64::MAX).await.unwrap();
    let found: BTreeMap<u64, u64> =
        entries.iter().map(|entry| (entry.log_id.index, entry.log_id.leader_id.term)).collect();
    let first = purged.map_or(0, |purged| purged + 1);
    for (expected, index) in (first..).zip(found.keys()) {
        assert_eq!(*index, expected, "{what}: a hole");
    }
    let beyond = after.as_ref().unwrap_or(model);
    for (index, term) in &model.entries {
        let gone = purged.is_some_and(|purged| *index <= purged);
        let replaced = !beyond.entries.contains_key(index);
        assert!(
            gone || replaced || found.get(index) == Some(term),
            "{what}: entry {index} of term {term} was acknowledged, found {:?}",
            found.get(index)
        );
    }
    for (index, term) in &found {
        let known =
            model.entries.get(index) == Some(term) || beyond.entries.get(index) == Some(term);
        assert!(known, "{what}: entry {index} of term {term} was never written");
    }

    // The consensus can start from it, and the state is that of the committed entries.
    let initial = StorageHelper::new(&mut log, &mut machine).get_initial_state().await;
    initial.unwrap_or_else(|error| panic!("{what}: does not start: {error}"));
    let applied = storage.shared().index();
    assert!(
        applied >= model.snapshot,
        "{what}: applied {applied:?}, snapshot {:?}",
        model.snapshot
    );
    let jobs = storage.shared().read(|state| state.jobs().len() as u64);
    let wanted = applied.map_or(0, |applied| applied.saturating_sub(1));
    assert_eq!(jobs, wanted, "{what}: jobs after entry {applied:?}");
}

fn every_call(mode: impl Fn(u64) -> CrashMode) -> u64 {
    let mut calls = 0;
    loop {
        let disk = FaultyDisk::new(calls);
        disk.fail_power_after(calls);
        let (model, under_way) = run(live(&disk));
        let finished = disk.powered();
        disk.crash(mode(calls));
        disk.power_on();
        let what = format!("power failed after {calls} calls, during {under_way:?}");
        // The first start after it meets the same fate; the second must do.
        let twice = disk.snapshot();
        twice.fail_power_after(calls % 17);
        run(async { drop(begin(&twice).await) });
        twice.crash(mode(calls + 1));
        twice.power_on();
        run(check(&disk, &model, under_way.as_ref(), &what));
        run(check(&twice, &model, under_way.as_ref(), &format!("{what}, then again")));
        if finished {
            return calls;
        }
        calls += 1;
    }
}

/// LEDG-82 WAL-12
#[test]
fn power_failure_at_every_call_that_loses_all_that_was_not_flushed() {
    let calls = every_call(|_| CrashMode::LoseAll);
    println!("{calls} calls, each the last one");
    assert!(calls > 100, "the script makes more calls than {calls}");
}

/// LEDG-82 WAL-12
#[test]
fn power_failure_at_every_call_that_keeps_everything() {
    every_call(|_| CrashMode::KeepAll);
}

/// LEDG-82 WAL-12
#[test]
fn power_failure_at_every_call_that_keeps_some_and_tears_some() {
    every_call(|_| CrashMode::Random);
}

/// The disk refuses one call: nothing that was acknowledged is lost, and nothing is acknowledged
/// after it.
fn every_fault(fault: Fault, path: &str) -> u64 {
    for skip in 0.. {
        let disk = FaultyDisk::new(skip);
        disk.inject(Injection { fault, path: path.into(), skip });
        let (model, under_way) = run(live(&disk));
        let hit = disk.counts().of(fault) > 0;
        let what = format!("{fault:?} number {skip} in {path}, during {under_way:?}");
        if !hit {
            return skip;
        }
        // That an old snapshot could not be removed is nobody's loss.
        let noticed = under_way.is_some() || model == Model::default();
        assert!(noticed || path == "snapshots", "{what}: unnoticed");
        // The process starts again; or the power fails as well.
        let crashed = disk.snapshot();
        disk.kill();
        crashed.crash(CrashMode::LoseAll);
        crashed.power_on();
        run(check(&disk, &model, under_way.as_ref(), &what));
        run(check(&crashed, &model, under_way.as_ref(), &format!("{what}, then a power failure")));
    }
    unreachable!("the script makes a finite number of calls")
}

/// WAL-3 WAL-13: a failed flush is never taken for a good one, whichever it is.
#[test]
fn no_flush_of_the_log_may_fail_unnoticed() {
    let flushes = every_fault(Fault::SyncError, "wal/segment");
    assert!(flushes > 20, "only {flushes}");
}

/// WAL-3 WAL-13
#[test]
fn no_write_of_the_log_may_fail_unnoticed() {
    let writes = every_fault(Fault::WriteError, "wal/segment");
    assert!(writes > 20, "only {writes}");
}

/// LEDG-82: the snapshot is not there before its file is flushed, so the log is still whole.
#[test]
fn a_failed_flush_of_a_snapshot_loses_nothing() {
    assert!(every_fault(Fault::SyncError, "snapshots") > 3);
}

/// LEDG-55: how far the log is committed is noted with the next entry, and costs no flush of its
/// own.
#[test]
fn a_note_of_what_is_committed_costs_no_flush() {
    let disk = FaultyDisk::new(1);
    run(async {
        let storage = open(&disk, 1).expect("opens");
        let mut log = storage.log_store();
        log.blocking_append([blank(1, 0)]).await.expect("appended");
        let flushes = storage.wal_metrics().fsyncs;
        log.save_committed(Some(log_id(1, 0))).await.expect("noted");
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        assert_eq!(storage.wal_metrics().fsyncs, flushes);
        log.blocking_append([blank(1, 1)]).await.expect("appended");
        assert_eq!(storage.wal_metrics().fsyncs, flushes + 1);
        drop((log, storage));
        disk.crash(CrashMode::LoseAll);
        disk.power_on();
        let storage = open(&disk, 2).expect("opens again");
        let committed = storage.log_store().read_committed().await.expect("reads");
        assert_eq!(committed, Some(log_id(1, 0)), "it was flushed with the entry after it");
    });
}
