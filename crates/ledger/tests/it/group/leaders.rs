//! Leaders that die, are cut off, and come back.

use std::time::Duration;

use ledger::{NotCommitted, ReadError, ReadLevel, Written};
use tokio::time::{Instant, sleep};

use crate::group::harness::*;

/// CORE-17: the leader dies, another one leads, nothing acknowledged is lost, and the old one comes
/// back.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_leader_is_replaced_and_rejoins() {
    let mut group = Group::start(3).await;
    let old = group.leader().await;
    let first = create(group.node(old), 1).await;
    let epoch = claimed(&group.node(old).propose(claim(group.node(old), first), LONG).await);

    group.kill(old);
    let new = group.leader().await;
    assert_ne!(new, old);
    assert_eq!(owner_epoch(group.node(new), first).await, Some(epoch));
    create(group.node(new), 2).await;

    group.up(old).await;
    assert_eq!(owner_epoch(group.node(old), first).await, Some(epoch));
    create(group.node(old), 3).await;
    group.converge().await;
    let count = group.node(old).read(ReadLevel::Strong, LONG, |state| state.jobs().count()).await;
    assert_eq!(count.unwrap().value, 3);
}

/// A member that comes back at another address is the same member: the others ask for its name
/// again, and it is needed for the majority.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_may_come_back_at_another_address() {
    let mut group = Group::start(3).await;
    let (leader, mover) = group.pair().await;
    create(group.node(leader), 1).await;
    group.kill(mover);
    create(group.node(leader), 2).await;
    group.relocate(mover);
    group.up(mover).await;
    group.converge().await;
    group.kill(leader);
    let new = group.leader().await;
    create(group.node(new), 3).await;
    let count = group.node(mover).read(ReadLevel::Strong, LONG, |state| state.jobs().count()).await;
    assert_eq!(count.unwrap().value, 3);
}

/// LEDG-69: requests under way while the leader dies are executed once, whoever answers them.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_outlive_a_leader_are_executed_once() {
    let mut group = Group::start(3).await;
    let (leader, follower) = group.pair().await;
    for number in 0..40 {
        create(group.node(follower), number).await;
    }
    let node = group.node(follower).handle();
    let calls: Vec<_> = (0..40)
        .map(|number| {
            let node = node.handle();
            tokio::spawn(async move {
                sleep(Duration::from_millis(number * 2)).await;
                let written = node.propose(claim(&node, job_id(number)), LONG).await;
                (number, written)
            })
        })
        .collect();
    sleep(Duration::from_millis(30)).await;
    group.kill(leader);
    for call in calls {
        let (number, written) = call.await.unwrap();
        let epoch = match written {
            Written::Unknown(request) => claimed(&node.retry(request, LONG).await),
            written => claimed(&written),
        };
        assert_eq!(owner_epoch(&node, job_id(number)).await, Some(epoch), "job {number}");
    }
    assert_eq!(node.status().open_requests, 0);
}

/// CORE-10, LEDG-69: a leader whose followers are gone says so, and a retry resolves what it left
/// open.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_without_a_majority_refuses_and_a_retry_resolves() {
    let mut group = Group::start(3).await;
    let leader = group.leader().await;
    let job = create(group.node(leader), 1).await;
    let others: Vec<usize> = (0..3).filter(|index| *index != leader).collect();
    for index in &others {
        group.kill(*index);
    }
    let node = group.node(leader);
    // Appended, and not known to be committed.
    let unknown = node.propose(claim(node, job), Duration::from_millis(300)).await;
    let Written::Unknown(request) = unknown else { panic!("{unknown:?}") };

    until("the leader to stop claiming", async || !node.status().leads).await;
    let began = Instant::now();
    let refused = node.propose(claim(node, job), LONG).await;
    assert_eq!(refused, Written::NotCommitted(NotCommitted::NoQuorum));
    let read = node.read(ReadLevel::Strong, LONG, |_| ()).await;
    assert_eq!(read, Err(ReadError::NoQuorum));
    assert!(began.elapsed() < LONG / 2, "refused at once, not at the deadline");
    assert!(node.read(ReadLevel::Eventual, LONG, |_| ()).await.is_ok());

    for index in &others {
        group.up(*index).await;
    }
    group.leader().await;
    let node = group.node(leader);
    let epoch = claimed(&node.retry(request, LONG).await);
    assert_eq!(owner_epoch(group.node(others[0]), job).await, Some(epoch));
    assert_eq!(
        node.retry(request, LONG).await,
        Written::Unknown(request),
        "settled, and forgotten"
    );
}

/// CORE-20, CORE-22: a node that was cut off comes back without a higher term, and the leader
/// stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_returning_node_does_not_disturb_the_leader() {
    for _ in 0..5 {
        if a_node_returns_while_the_others_stay_calm().await {
            return;
        }
    }
    panic!("in five groups a node that was never cut off stood for election");
}

/// Cuts a follower off and lets it return. False if another node stood for election meanwhile,
/// which a machine without time for its nodes can cause: then the run says nothing about the
/// node that returned.
async fn a_node_returns_while_the_others_stay_calm() -> bool {
    let group = Group::start(3).await;
    let (leader, follower) = group.pair().await;
    let elections = |index: usize| group.node(index).metrics().elections.get();
    let of_the_others = || (0..3).filter(|index| *index != follower).map(elections).sum::<u64>();
    let (term, before) = (group.node(leader).status().term, of_the_others());
    let stood = elections(follower);
    group.places[follower].switch.cut(true);
    let asked = || group.node(follower).metrics().pre_votes_asked.get();
    let asked_before = asked();
    until("some rounds of pre-votes", async || asked() >= asked_before + 6).await;
    create(group.node(leader), 1).await;
    assert_eq!(elections(follower), stood, "asking is not standing");
    assert_eq!(group.node(follower).status().term, term, "asking changes nothing");

    group.places[follower].switch.cut(false);
    create(group.node(follower), 2).await;
    group.converge().await;
    let now = (group.leader().await, group.node(leader).status().term);
    assert_eq!(elections(follower), stood, "it returned as a follower");
    if of_the_others() > before {
        return false;
    }
    assert_eq!(now, (leader, term));
    true
}

/// A leader that is cut off neither writes nor reads; after the heal it follows and has caught up.
#[tokio::test(flavor = "multi_thread")]
async fn a_cut_off_leader_is_replaced_and_follows() {
    let group = Group::start(3).await;
    let old = group.leader().await;
    let job = create(group.node(old), 1).await;
    group.places[old].switch.cut(true);
    let ghost =
        group.node(old).propose(claim(group.node(old), job), Duration::from_millis(400)).await;
    assert!(matches!(ghost, Written::Unknown(_)), "{ghost:?}");
    until("another leader", async || {
        group.running().any(|(index, node)| index != old && node.status().leads)
    })
    .await;
    let new = group.running().find(|(index, node)| *index != old && node.status().leads);
    let (_, new) = new.unwrap();
    let epoch = claimed(&new.propose(claim(new, job), LONG).await);
    let stale = group.node(old).read(ReadLevel::Strong, Duration::from_secs(1), |_| ()).await;
    assert!(stale.is_err(), "{stale:?}");

    group.places[old].switch.cut(false);
    let deposed = || {
        let status = group.node(old).status();
        status.leader.is_some_and(|(leader, _)| leader != status.node)
    };
    until("the old leader to follow", async || deposed()).await;
    assert_eq!(owner_epoch(group.node(old), job).await, Some(epoch));
    group.converge().await;
    // The write that was unknown lost the race, and says so under its own number.
    let Written::Unknown(request) = ghost else { unreachable!() };
    let resolved = group.node(old).retry(request, LONG).await;
    assert!(matches!(resolved, Written::Committed { .. }), "{resolved:?}");
    assert_eq!(owner_epoch(new, job).await, Some(epoch), "executed once");
}

/// LEDG-118: a follower that is far behind gets a snapshot instead of a log that is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_far_behind_is_sent_a_snapshot() {
    let mut group = Group::start_with(3, |config| {
        config.limits.snapshot_entries = 20;
        config.limits.keep_entries = 2;
    })
    .await;
    let (leader, follower) = group.pair().await;
    group.kill(follower);
    for number in 0..80 {
        create(group.node(leader), number).await;
    }
    until("a snapshot", async || group.node(leader).status().snapshot.is_some_and(|at| at > 40))
        .await;
    group.up(follower).await;
    let read = group.node(follower).read(ReadLevel::Strong, LONG, |state| state.jobs().count());
    assert_eq!(read.await.unwrap().value, 80);
    assert!(group.node(follower).metrics().snapshots_taken.get() > 0, "it came by the log");
    group.converge().await;
}

/// LEDG-105: all stop at once, all come back, nothing acknowledged is lost and reads are never old.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_stopped_as_a_whole_remembers() {
    let mut group = Group::start(3).await;
    let leader = group.leader().await;
    let mut epochs = Vec::new();
    for number in 0..10 {
        let node = group.node(leader);
        let id = create(node, number).await;
        epochs.push((id, claimed(&node.propose(claim(node, id), LONG).await)));
    }
    for index in 0..3 {
        group.kill(index);
    }
    for index in 0..3 {
        group.up(index).await;
    }
    for (id, epoch) in epochs {
        for index in 0..3 {
            assert_eq!(owner_epoch(group.node(index), id).await, Some(epoch));
        }
    }
}

/// LEDG-57, R10: a leader whose disk fails stops serving, says why, and another one leads; nothing
/// acknowledged is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_disk_fails_stops_and_is_replaced() {
    let mut group = Group::prepare(3, 3, |_| ());
    let disks: Vec<_> = (0..3).map(wal::FaultyDisk::new).collect();
    for (index, disk) in disks.iter().enumerate() {
        group.places[index].disk = std::sync::Arc::new(disk.clone());
        group.up(index).await;
    }
    let old = group.leader().await;
    let job = create(group.node(old), 1).await;
    disks[old].power_off();
    let written = group.node(old).propose(claim(group.node(old), job), LONG).await;
    assert!(!matches!(written, Written::Committed { .. }), "{written:?}");
    let mut failed = group.node(old).failed();
    let why = tokio::time::timeout(LONG, failed.wait_for(Option::is_some)).await.unwrap();
    tracing::info!("{:?}", why.unwrap().clone());
    assert!(!group.node(old).status().leads);
    let stopped = group.node(old).propose(claim(group.node(old), job), LONG).await;
    assert!(matches!(stopped, Written::NotCommitted(NotCommitted::Stopped(_))), "{stopped:?}");
    let read = group.node(old).read(ReadLevel::Strong, LONG, |_| ()).await;
    assert!(matches!(read, Err(ReadError::Stopped(_))), "{read:?}");

    let new = group.leader().await;
    assert_ne!(new, old);
    let count = group.node(new).read(ReadLevel::Strong, LONG, |state| state.jobs().count()).await;
    assert_eq!(count.unwrap().value, 1);
    create(group.node(new), 2).await;
}

/// A node that is asked to stop does so in order: its folder can be opened at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_lets_go_of_everything() {
    let mut group = Group::start(3).await;
    let leader = group.leader().await;
    create(group.node(leader), 1).await;
    let node = group.places[leader].node.take().unwrap();
    node.shutdown().await;
    assert!(group.leader().await != leader);
    group.up(leader).await;
    create(group.node(leader), 2).await;
    group.converge().await;
}
