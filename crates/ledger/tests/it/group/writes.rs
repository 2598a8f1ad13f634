//! Writes and reads in a healthy group, and their bounds.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fence::NodeId;
use ledger::{NotCommitted, Observer, Overload, ReadLevel, Written};
use ledger_state::{BlobRef, Command, Reply, RequestId, Submission};

use crate::group::harness::*;

/// LEDG-116: the embedded default is a group of one; what it acknowledged is there after a crash.
#[tokio::test(flavor = "multi_thread")]
async fn a_single_node_is_a_group_and_remembers() {
    let mut group = Group::prepare(1, 0, |_| ());
    group.up(0).await;
    let first = create(group.node(0), 1).await;
    let epoch = claimed(&group.node(0).propose(claim(group.node(0), first), LONG).await);
    let (id, boot) = (group.node(0).status().group, group.node(0).session().boot);
    assert!(id.is_some());

    group.kill(0);
    group.up(0).await;
    assert_eq!(group.node(0).status().group, id, "the same group");
    assert!(group.node(0).session().boot > boot, "another life");
    assert_eq!(owner_epoch(group.node(0), first).await, Some(epoch));
    let again = group.node(0).submit(job(1), LONG).await;
    assert!(
        matches!(again, Submission::Accepted { duplicate: true, job, .. } if job == first),
        "{again:?}"
    );
}

/// LEDG-124, LEDG-115: any node takes writes and hands them to the leader once; a strong read sees
/// them everywhere.
#[tokio::test(flavor = "multi_thread")]
async fn every_node_writes_and_reads_what_was_acknowledged() {
    let group = Group::start(3).await;
    let leader = group.leader().await;
    let mut epochs = Vec::new();
    for (index, node) in group.running() {
        let id = create(node, index as u64).await;
        epochs.push((id, claimed(&node.propose(claim(node, id), LONG).await)));
        for (_, reader) in group.running() {
            assert_eq!(owner_epoch(reader, id).await, Some(epochs[index].1));
        }
        let forwarded = node.metrics().forwarded.get();
        assert_eq!(forwarded > 0, index != leader, "node {index} forwarded {forwarded}");
    }
    let mut unique: Vec<_> = epochs.iter().map(|(_, epoch)| epoch.number).collect();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), 3, "every epoch is one of its own");
    group.converge().await;

    let follower = group.node(group.pair().await.1);
    let read =
        follower.read(ReadLevel::Eventual, LONG, |state| state.jobs().count()).await.unwrap();
    assert_eq!(read.value, 3);
    assert!(read.applied > 0);
}

/// LEDG-56: many callers share an entry, and each gets its own answer.
#[tokio::test(flavor = "multi_thread")]
async fn commands_share_entries_and_answers_do_not() {
    let group = Group::start(3).await;
    let leader = group.leader().await;
    let node = group.node(leader);
    create(node, 0).await;
    let before = node.status().last_log;
    let mut calls = Vec::new();
    for number in 1..=300 {
        let node = node.handle();
        calls.push(tokio::spawn(async move { create(&node, number).await }));
    }
    for (number, call) in (1..).zip(calls) {
        assert_eq!(call.await.unwrap(), job_id(number));
    }
    let entries = node.status().last_log - before;
    assert!(entries < 150, "300 commands took {entries} entries");
    let largest = node.metrics().batch_size.cumulative().last().unwrap().0;
    assert!(largest > 1, "nothing was batched");
}

/// R10, LEDG-108: what waits is bounded in count, bytes and size, and refused by name.
#[tokio::test(flavor = "multi_thread")]
async fn too_much_is_refused_by_name() {
    let group = Group::start_with(1, |config| {
        config.limits.open_requests = 2;
        config.limits.proposal_bytes = 2_000;
    })
    .await;
    let node = group.node(0);
    create(node, 1).await;
    let cancel = |bytes: usize| Command::CancelJob {
        job: job_id(1),
        reason: "x".repeat(bytes),
        requestor: String::new(),
        nonce: [1; 16],
        grace: None,
    };
    let large = node.propose(cancel(3_000), LONG).await;
    assert!(
        matches!(large, Written::NotCommitted(NotCommitted::TooLarge { limit: 2_000, .. })),
        "{large:?}"
    );
    let calls = (0..50).map(|_| node.propose(cancel(1), LONG));
    let results = futures_util::future::join_all(calls).await;
    let overloaded = NotCommitted::Overloaded { what: Overload::OpenRequests };
    let refused =
        results.iter().filter(|r| **r == Written::NotCommitted(overloaded.clone())).count();
    let done = results.iter().filter(|r| matches!(r, Written::Committed { .. })).count();
    assert!(refused > 0 && done > 0 && refused + done == 50, "{refused} refused, {done} done");
    assert_eq!(node.metrics().proposals.get().get("overloaded"), Some(&(refused as u64)));
}

/// R9: the ledger's time moves with the leader's monotonic clock.
#[tokio::test(flavor = "multi_thread")]
async fn the_ledgers_time_moves() {
    let group = Group::start_with(1, |config| {
        config.timing.advance = Duration::from_millis(50);
    })
    .await;
    let node = group.node(0);
    let began = tokio::time::Instant::now();
    until("a second of ledger time", async || {
        let read = node.read(ReadLevel::Eventual, LONG, |state| state.now_ms()).await;
        read.unwrap().value > 1_000
    })
    .await;
    assert!(began.elapsed() > Duration::from_millis(950), "it runs ahead of the clock");
}

/// A refusal of the state machine is an answer, not an error of the write.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_the_state_is_committed() {
    let group = Group::start(1).await;
    let node = group.node(0);
    let unknown = node.propose(claim(node, job_id(9)), LONG).await;
    assert!(matches!(unknown, Written::Committed { reply: Reply::Refused(_), .. }), "{unknown:?}");
}

#[derive(Default)]
struct Witness {
    leaders: Mutex<Vec<(NodeId, u64)>>,
    acknowledged: Mutex<Vec<RequestId>>,
    blobs: Mutex<Vec<BlobRef>>,
    digests: Mutex<BTreeMap<u64, u64>>,
}

impl Observer for Witness {
    fn wants_digests(&self) -> bool {
        true
    }

    fn applied(&self, node: NodeId, index: u64, digest: u64) {
        let known = *self.digests.lock().unwrap().entry(index).or_insert(digest);
        assert_eq!(known, digest, "{node} differs at {index}");
    }

    fn became_leader(&self, node: NodeId, term: u64) {
        self.leaders.lock().unwrap().push((node, term));
    }

    fn acknowledged(&self, _: NodeId, request: RequestId, _: &Reply) {
        self.acknowledged.lock().unwrap().push(request);
    }

    fn blob_acknowledged(&self, _: NodeId, blob: &BlobRef) {
        self.blobs.lock().unwrap().push(*blob);
    }
}

/// LEDG-165: whoever watches sees every acknowledgement, every leadership, and equal states at
/// equal places.
#[tokio::test(flavor = "multi_thread")]
async fn an_observer_sees_what_is_promised() {
    let witness = Arc::new(Witness::default());
    let mut group = Group::prepare(3, 3, |_| ());
    group.observer = Arc::clone(&witness) as Arc<dyn Observer>;
    for index in 0..3 {
        group.up(index).await;
    }
    let (leader, follower) = group.pair().await;
    let job = create(group.node(follower), 1).await;
    let _ = claimed(&group.node(follower).propose(claim(group.node(follower), job), LONG).await);
    let blob = group.node(follower).put_blob(b"bytes".to_vec(), LONG).await.unwrap();
    group.converge().await;

    let mine = group.node(follower).session();
    let acknowledged = witness.acknowledged.lock().unwrap().clone();
    let seqs: Vec<u64> =
        acknowledged.iter().filter(|id| id.session == mine).map(|id| id.seq).collect();
    assert_eq!(seqs, [1, 2]);
    assert_eq!(*witness.blobs.lock().unwrap(), [blob]);
    let term = group.node(leader).status().term;
    assert!(witness.leaders.lock().unwrap().contains(&(group.node(leader).id(), term)));
    assert!(!witness.digests.lock().unwrap().is_empty());
}

/// A submission that can never be accepted is rejected without a place in the log.
#[tokio::test(flavor = "multi_thread")]
async fn nonsense_is_rejected_at_the_door() {
    let group = Group::start(1).await;
    create(group.node(0), 1).await;
    let mut nameless = job(2);
    nameless.tenant.clear();
    let rejected = group.node(0).submit(nameless, LONG).await;
    assert!(matches!(rejected, Submission::Rejected(_)), "{rejected:?}");
    let mut other_body = job(1);
    other_body.fingerprint = [9; 32];
    let rejected = group.node(0).submit(other_body, LONG).await;
    assert!(matches!(rejected, Submission::Rejected(_)), "{rejected:?}");
}
