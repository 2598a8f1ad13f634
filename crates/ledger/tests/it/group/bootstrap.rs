//! How groups begin, and how they must not.

use ledger::{Bootstrap, Change, Changed, NotChanged};

use crate::group::harness::*;

/// LEDG-120: nodes with different lists make no group, and say why.
#[tokio::test(flavor = "multi_thread")]
async fn different_lists_make_no_group() {
    let mut group = Group::prepare(3, 3, |_| ());
    let addresses: Vec<String> = group.places.iter().map(|place| place.address.clone()).collect();
    group.up_as(0, Bootstrap::Peers(addresses[..2].to_vec())).await;
    group.up_as(1, Bootstrap::Peers(addresses.clone())).await;
    until("the reason", async || {
        let waiting = group.node(0).status().waiting_for.unwrap_or_default();
        waiting.contains("another list")
    })
    .await;
    assert_eq!(group.node(0).status().group, None);
    assert_eq!(group.node(1).status().group, None);

    // The same nodes with the same list: a group. A restart changes nothing.
    group.kill(0);
    group.up_as(0, Bootstrap::Peers(addresses.clone())).await;
    group.up_as(2, Bootstrap::Peers(addresses)).await;
    group.leader().await;
    let id = group.node(0).status().group;
    create(group.node(1), 1).await;
    group.kill(0);
    group.up(0).await;
    create(group.node(0), 2).await;
    assert_eq!(group.node(0).status().group, id);
}

/// LEDG-117: a founder that has lost its disk founds no second group.
#[tokio::test(flavor = "multi_thread")]
async fn a_founder_without_its_disk_founds_nothing() {
    let mut group = Group::start(3).await;
    create(group.node(1), 1).await;
    group.kill(0);
    group.lose_disk(0);
    group.up(0).await;
    until("the reason", async || {
        let waiting = group.node(0).status().waiting_for.unwrap_or_default();
        waiting.contains("already belongs")
    })
    .await;
    assert_eq!(group.node(0).status().group, None);
    create(group.node(1), 2).await;
}

/// A member of one group is not taken into another.
#[tokio::test(flavor = "multi_thread")]
async fn groups_do_not_mix() {
    let one = Group::start(1).await;
    let two = Group::start(1).await;
    let admit = Change::Admit { address: two.places[0].address.clone() };
    let refused = one.node(0).change_members(admit, LONG).await;
    let other = two.node(0).status().group.unwrap();
    assert_eq!(refused, Changed::Not(NotChanged::OtherGroup(other)));
}
