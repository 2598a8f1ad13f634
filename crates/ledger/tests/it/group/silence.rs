//! The leader says who does not answer it, and everybody who hears it knows.

use std::collections::BTreeSet;

use fence::NodeId;

use crate::group::harness::*;

fn silent(group: &Group, index: usize) -> BTreeSet<NodeId> {
    group.node(index).silent().borrow().clone()
}

/// R6: a member that is cut off from the others is reported by the leader to all that hear it, by
/// nobody once it is back, and never by the one that is cut off.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_cut_off_is_reported_until_it_is_back() {
    let group = Group::start(3).await;
    let (_, cut) = group.pair().await;
    let name = BTreeSet::from([group.node(cut).id()]);
    group.places[cut].switch.cut(true);
    for other in (0..3).filter(|other| *other != cut) {
        until("the report", async || silent(&group, other) == name).await;
    }
    assert_eq!(silent(&group, cut), BTreeSet::new(), "it hears no leader, so it says nothing");
    group.places[cut].switch.cut(false);
    for index in 0..3 {
        until("that it is back", async || silent(&group, index).is_empty()).await;
    }
}

/// A new leader knows that the old one is silent; where connections are refused, it need not wait
/// for it to be so.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_reports_the_old_one() {
    let mut group = Group::start(3).await;
    let old = group.leader().await;
    let name = BTreeSet::from([group.node(old).id()]);
    group.kill(old);
    for other in (0..3).filter(|other| *other != old) {
        until("the report", async || silent(&group, other) == name).await;
    }
    group.up(old).await;
    for index in 0..3 {
        until("that it is back", async || silent(&group, index).is_empty()).await;
    }
}

/// A leader without a majority may be the one that is cut off: it reports nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_without_a_majority_reports_nobody() {
    let mut group = Group::start(3).await;
    let leader = group.leader().await;
    for other in (0..3).filter(|other| *other != leader) {
        group.kill(other);
    }
    until("no majority", async || !group.node(leader).status().leads).await;
    until("nobody", async || silent(&group, leader).is_empty()).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(silent(&group, leader), BTreeSet::new());
}
