//! What operators see and may do.

use std::net::UdpSocket;
use std::time::Duration;

use membership::envelope::Refusal;
use membership::{Role, State};
use node::client::{KeyAction, MembersEvent};
use node::{ClientError, Member};
use tokio::time::timeout;

use crate::cluster::harness::{DEADLINE, World, id, key, until, whole};

/// The table with the asked node in it, and every change after it; a watch that broke off goes on
/// where it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_resumes_where_it_broke_off() {
    let world = World::new();
    let first = world.start(Role::Manager, 1, &[]).await;
    let second = world.start(Role::Worker, 2, &[first.address()]).await;
    whole(&[&first, &second], 1).await;
    let client = world.operator(&first).await;
    let snapshot = client.members().await.unwrap();
    assert_eq!(snapshot.members.len(), 2);
    let me = snapshot.members.iter().find(|row| row.is_self).unwrap();
    assert_eq!((me.node, me.role, me.datacenter.as_str()), (id(1), Role::Manager, "fra"));
    let other = snapshot.members.iter().find(|row| !row.is_self).unwrap();
    assert_eq!((other.node, other.state, other.boot.0), (id(2), State::Confirmed, 1));

    let mut watch = client.watch(None).await.unwrap();
    let Some(Ok(MembersEvent::Snapshot(snapshot))) = watch.next().await else {
        panic!("a snapshot")
    };
    let place = snapshot.place;
    drop((watch, client));
    // Missed while away: a farewell and a newcomer.
    second.leave(Duration::from_secs(10)).await.unwrap();
    let third = world.start(Role::Worker, 3, &[first.address()]).await;
    whole(&[&third], 1).await;
    let client = world.operator(&first).await;
    let mut watch = client.watch(Some(place)).await.unwrap();
    let mut seen = Vec::new();
    let mut version = place.version;
    while !seen.contains(&(id(3), Some(State::Confirmed))) {
        let event = timeout(DEADLINE, watch.next()).await.unwrap().unwrap().unwrap();
        let MembersEvent::Change(change) = event else { panic!("resumed, not begun again") };
        assert_eq!(change.place.version, version + 1, "nothing is skipped and nothing comes twice");
        version = change.place.version;
        seen.push((change.node, change.to));
    }
    assert!(seen.contains(&(id(2), Some(State::Left))), "{seen:?}");
    // Another process has another stream: it begins with a snapshot.
    let mut other = place;
    other.boot.0 += 7;
    let mut watch = client.watch(Some(other)).await.unwrap();
    assert!(matches!(watch.next().await, Some(Ok(MembersEvent::Snapshot(_)))));
}

/// ARCH-20: keys are rotated in three steps while the gossip goes on: nobody is given up, and the
/// old key opens nothing after.
#[tokio::test(flavor = "multi_thread")]
async fn keys_are_rotated_under_traffic() {
    let world = World::new();
    let mut members = vec![world.start(Role::Manager, 1, &[]).await];
    let seed = [members[0].address()];
    for number in 2..=3 {
        members.push(world.start(Role::Manager, number, &seed).await);
    }
    whole(&members.iter().collect::<Vec<_>>(), 2).await;
    let mut clients = Vec::new();
    for member in &members {
        clients.push(world.operator(member).await);
    }
    let before = clients[0].keys(KeyAction::List).await.unwrap();
    assert_eq!(before.keys, [before.sealing]);
    let mut new = before.sealing;
    for client in &clients {
        let ring = client.keys(KeyAction::Install(key(9))).await.unwrap();
        assert_eq!((ring.keys.len(), ring.sealing), (2, before.sealing));
        new = *ring.keys.iter().find(|id| **id != before.sealing).unwrap();
    }
    for client in &clients {
        assert_eq!(client.keys(KeyAction::Use(new)).await.unwrap().sealing, new);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    for client in &clients {
        assert_eq!(client.keys(KeyAction::Remove(before.sealing)).await.unwrap().keys, [new]);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let refused = |member: &Member| member.view().refusals.of(Refusal::UnknownKey);
    let after: Vec<u64> = members.iter().map(refused).collect();
    tokio::time::sleep(Duration::from_millis(1000)).await;
    assert_eq!(
        members.iter().map(refused).collect::<Vec<_>>(),
        after,
        "everybody understands everybody"
    );
    let deaths = |member: &Member| {
        let counters = member.view().counters.clone();
        counters.deaths_direct + counters.deaths_gossip
    };
    assert!(members.iter().all(|member| deaths(member) == 0), "nobody was given up on the way");
    // Mistakes are refused with a reason.
    let error = clients[0].keys(KeyAction::Remove(new)).await.unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
    let error =
        clients[0].keys(KeyAction::Install(node::secret::GossipKey([7; 32]))).await.unwrap_err();
    assert!(error.to_string().contains("too regular"), "{error}");

    // The rotation outlives a restart, although the configuration still has the old key.
    let last = members.pop().unwrap();
    last.leave(Duration::from_secs(10)).await.unwrap();
    let last = world.start(Role::Manager, 3, &seed).await;
    whole(&[&last], 2).await;
}

/// Only operators touch the keys: a client certificate from this machine. A manager's will not do.
#[tokio::test(flavor = "multi_thread")]
async fn only_operators_touch_the_keys() {
    let world = World::new();
    let first = world.start(Role::Manager, 1, &[]).await;
    let manager = world.client(Role::Manager, 5, first.address()).await;
    let error = manager.keys(KeyAction::List).await.unwrap_err();
    let ClientError::Refused(status) = error else { panic!("{error}") };
    assert_eq!(status.code(), tonic::Code::PermissionDenied);
    let worker = world.client(Role::Worker, 6, first.address()).await;
    assert!(worker.keys(KeyAction::Install(key(3))).await.is_err());
    assert!(worker.members().await.is_ok(), "looking is allowed");
}

/// Operators cannot reach workers: a manager passes a step on, to workers only, and only for
/// operators.
#[tokio::test(flavor = "multi_thread")]
async fn a_manager_passes_keys_on_to_workers() {
    let world = World::new();
    let first = world.start(Role::Manager, 1, &[]).await;
    let second = world.start(Role::Manager, 2, &[first.address()]).await;
    let worker = world.start(Role::Worker, 3, &[first.address()]).await;
    whole(&[&first, &second, &worker], 2).await;
    let operator = world.operator(&first).await;
    let ring = operator.keys_of_worker(id(3), KeyAction::Install(key(9))).await.unwrap();
    assert_eq!(ring.keys.len(), 2);
    assert_eq!(operator.keys(KeyAction::List).await.unwrap().keys.len(), 1, "only the worker's");
    for other in [id(2), id(77)] {
        let error = operator.keys_of_worker(other, KeyAction::List).await.unwrap_err();
        assert!(error.to_string().contains("knows no worker"), "{error}");
    }
    let peer = world.client(Role::Worker, 6, first.address()).await;
    assert!(peer.keys_of_worker(id(3), KeyAction::List).await.is_err());
}

/// Noise on the gossip port is counted by kind and never answered.
#[tokio::test(flavor = "multi_thread")]
async fn noise_is_counted_and_not_answered() {
    let world = World::new();
    let first = world.start(Role::Manager, 1, &[]).await;
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    stranger.send_to(&[7; 200], first.address()).unwrap();
    assert!(stranger.recv_from(&mut [0; 16]).is_err());
    until("the noise to be counted", || first.view().refusals.of(Refusal::Alien) == 1).await;
    assert!(first.view().entries.is_empty());
}
