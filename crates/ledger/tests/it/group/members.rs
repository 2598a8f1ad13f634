//! Members that come, go, and come back without their memory.

use std::pin::pin;
use std::time::Duration;

use ledger::{Bootstrap, Change, Changed, NotChanged, NotCommitted, ReadLevel, Written};

use crate::group::harness::*;

/// LEDG-101: a node joins as a learner, becomes a voter, another one leaves; writes go on.
#[tokio::test(flavor = "multi_thread")]
async fn members_come_and_go_one_at_a_time() {
    let mut group = Group::prepare(4, 3, |_| ());
    for index in 0..3 {
        group.up(index).await;
    }
    let leader = group.leader().await;
    create(group.node(leader), 1).await;
    group.up_as(3, Bootstrap::Join).await;
    assert!(group.node(3).status().waiting_for.is_some());

    let new = group.node(3).id();
    let follower = group.node(group.pair().await.1);
    let address = group.places[3].address.clone();
    let admit = Change::Admit { address: address.clone() };
    assert_eq!(follower.change_members(admit.clone(), LONG).await, Changed::Done { node: new });
    assert_eq!(follower.change_members(admit, LONG).await, Changed::Done { node: new }, "repeated");
    let status = group.node(leader).status();
    assert_eq!((status.voters.len(), status.learners.len()), (3, 1));
    let promote = Change::Promote { node: new };
    assert_eq!(follower.change_members(promote, LONG).await, Changed::Done { node: new });
    assert_eq!(owner_epoch(group.node(3), job_id(1)).await, None);
    assert_eq!(group.node(leader).status().voters.len(), 4);
    assert_eq!(group.node(3).status().group, group.node(leader).status().group);

    let gone =
        group.running().map(|(index, _)| index).find(|index| *index != leader && *index != 3);
    let gone = gone.unwrap();
    let remove = Change::Remove { node: group.node(gone).id() };
    let removed = group.node(3).change_members(remove, LONG).await;
    assert_eq!(removed, Changed::Done { node: group.node(gone).id() });
    assert_eq!(group.node(leader).status().voters.len(), 3);
    group.kill(gone);
    create(group.node(3), 2).await;
    group.converge().await;
}

/// On a busy machine a leader may be lost in the middle of a change; such an answer says nothing
/// about the change.
fn leader_was_lost(changed: &Changed) -> bool {
    matches!(
        changed,
        Changed::Unknown
            | Changed::Not(NotChanged::NotLeader { .. } | NotChanged::NoQuorum | NotChanged::Busy)
    )
}

/// What whoever leads says to a change.
async fn answer(group: &Group, change: Change) -> Changed {
    let mut answer = Changed::Unknown;
    until("an answer of a leader", async || {
        let leader = group.leader().await;
        answer = group.node(leader).change_members(change.clone(), LONG).await;
        !leader_was_lost(&answer)
    })
    .await;
    answer
}

/// One change at a time, none that would lose the majority, none for a node that is not there.
#[tokio::test(flavor = "multi_thread")]
async fn changes_that_cannot_be_are_refused() {
    let mut group = Group::start(3).await;
    let nobody = Change::Admit { address: "127.0.0.1:1".to_owned() };
    let refused = answer(&group, nobody).await;
    assert!(matches!(refused, Changed::Not(NotChanged::Unreachable(_))), "{refused:?}");
    let stranger = Change::Promote { node: fence::NodeId(7) };
    let refused = answer(&group, stranger).await;
    assert!(matches!(refused, Changed::Not(NotChanged::NoSuchMember(_))), "{refused:?}");

    let (leader, gone) = group.pair().await;
    let third = (0..3).find(|index| *index != leader && *index != gone).unwrap();
    let (one, two) = (group.node(gone).id(), group.node(third).id());
    until("one of two changes to be made", async || {
        let node = group.node(group.leader().await);
        let (first, second) = futures_util::future::join(
            node.change_members(Change::Remove { node: one }, LONG),
            node.change_members(Change::Remove { node: two }, LONG),
        )
        .await;
        if leader_was_lost(&first) {
            return false;
        }
        assert_eq!(first, Changed::Done { node: one });
        assert_eq!(second, Changed::Not(NotChanged::Busy));
        true
    })
    .await;

    // Two voters are left; one of them dies, and taking the other one out would leave a dead group.
    group.kill(gone);
    let (leader, other) = group.pair().await;
    let own = Change::Remove { node: group.node(leader).id() };
    group.kill(other);
    let refused = group.node(leader).change_members(own, Duration::from_secs(2)).await;
    assert!(
        matches!(
            refused,
            Changed::Not(NotChanged::WouldLoseMajority { .. } | NotChanged::NoQuorum)
        ),
        "{refused:?}"
    );
}

/// Starts to take a voter out, and gives up when the change is in the log but not yet complete.
async fn leave_half_removed(group: &Group, leader: usize, leaving: fence::NodeId) -> bool {
    let node = group.node(leader);
    let mut change = pin!(node.change_members(Change::Remove { node: leaving }, LONG));
    loop {
        tokio::select! {
            biased;
            () = tokio::task::yield_now() => {
                if node.status().changing {
                    return true;
                }
            }
            _ = &mut change => return false,
        }
    }
}

/// LEDG-101: a voter whose removal is half done is no member. Admitting it again must not be
/// answered "it is one already", only for the removal to be completed afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_voter_that_is_half_removed_is_really_admitted_again() {
    let group = Group::start(3).await;
    let mut half_done = 0;
    for _ in 0..20 {
        let (leader, leaving) = group.pair().await;
        let id = group.node(leaving).id();
        half_done += u32::from(leave_half_removed(&group, leader, id).await);
        let address = group.places[leaving].address.clone();
        for change in [Change::Admit { address }, Change::Promote { node: id }] {
            assert_eq!(answer(&group, change).await, Changed::Done { node: id });
        }
        // Longer than it takes until half-done changes are looked for.
        tokio::time::sleep(Duration::from_millis(1200)).await;
        let status = group.node(group.leader().await).status();
        assert!(!status.changing);
        assert!(status.voters.iter().any(|(voter, _)| *voter == id), "{status:?}");
        if half_done == 2 {
            return;
        }
    }
    panic!("no removal was caught half done");
}

/// LEDG-117: a node with an empty disk and an old name neither votes nor acknowledges until it is
/// admitted again.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lost_its_disk_counts_for_nothing_until_admitted_again() {
    let mut group = Group::start(3).await;
    let leader = group.leader().await;
    let (other, lost) = {
        let mut others = (0..3).filter(|index| *index != leader);
        (others.next().unwrap(), others.next().unwrap())
    };
    let job = create(group.node(leader), 1).await;
    let id = group.node(lost).id();
    group.kill(lost);
    group.lose_disk(lost);
    group.up(lost).await;
    assert_eq!(group.node(lost).id(), id, "it has its old name");
    let refusals = || group.node(lost).metrics().refusals.get();
    until("appends for the old disk to be refused", async || {
        refusals().get("wrong_disk").is_some_and(|count| *count > 0)
    })
    .await;
    assert_eq!(group.node(lost).status().group, None);
    assert_eq!(group.node(lost).status().applied, 0);

    // With the other follower gone, the leader and a node without memory are no majority.
    group.kill(other);
    let node = group.node(leader);
    until("the leader to stop claiming", async || !node.status().leads).await;
    let refused = node.propose(claim(node, job), LONG).await;
    assert_eq!(refused, Written::NotCommitted(NotCommitted::NoQuorum));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!group.node(lost).status().leads);
    assert_eq!(group.node(lost).metrics().elections.get(), 0);

    group.up(other).await;
    let leader = group.leader().await;
    let admit = Change::Admit { address: group.places[lost].address.clone() };
    let admitted = group.node(leader).change_members(admit, LONG).await;
    assert_eq!(admitted, Changed::Done { node: id });
    let promoted = group.node(leader).change_members(Change::Promote { node: id }, LONG).await;
    assert_eq!(promoted, Changed::Done { node: id });
    let read = group.node(lost).read(ReadLevel::Strong, LONG, |state| state.jobs().count()).await;
    assert_eq!(read.unwrap().value, 1);
    // Now it counts: with the other one gone again, writes go on.
    let leader = group.leader().await;
    if leader != other {
        group.kill(other);
    }
    create(group.node(group.leader().await), 2).await;
}
