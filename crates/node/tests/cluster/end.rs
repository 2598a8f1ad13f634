//! A node that has lost its data folder hears it from the others, and stops with the reason.

use std::time::Duration;

use membership::{Role, State};
use node::End;
use tokio::time::timeout;

use crate::harness::{DEADLINE, World, id, state_of, until, whole};

/// R2: a deleted folder; the node comes back as start 1 with its old certificate, and is told so when it says hello,
/// even though the boots are equal.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lost_its_folder_is_told_and_stops() {
    let world = World::new();
    let first = world.start(Role::Manager, 1, &[]).await;
    let seed = [first.address()];
    let worker = world.start(Role::Worker, 2, &seed).await;
    whole(&[&first, &worker], 1).await;
    until("the exchange", || worker.is_ready()).await;
    drop(worker);
    until("the death", || state_of(&first, 2) == Some(State::Dead)).await;
    std::fs::remove_dir_all(world.config(Role::Worker, 2, &[]).data).unwrap();

    let worker = world.start(Role::Worker, 2, &seed).await;
    let end = timeout(DEADLINE, worker.ended()).await.expect("told");
    let End::DataLost { said_by, other_folder: true, .. } = &end else { panic!("{end:?}") };
    assert_eq!(*said_by, id(1));
    let text = end.to_string();
    assert!(text.contains("data folder was lost") && text.contains("new node id"), "{text}");
}

/// The seed itself has lost its folder and knows nobody: those who find it tell it.
#[tokio::test(flavor = "multi_thread")]
async fn a_seed_that_lost_its_folder_is_told_by_those_who_find_it() {
    let world = World::new();
    let first = world.start(Role::Manager, 1, &[]).await;
    let address = first.address();
    let second = world.start(Role::Manager, 2, &[address]).await;
    let third = world.start(Role::Manager, 3, &[address]).await;
    whole(&[&first, &second, &third], 2).await;
    until("hellos", || second.hellos().contains_key(&id(1))).await;
    drop(first);
    until("the death", || state_of(&second, 1) == Some(State::Dead)).await;
    let mut config = world.config(Role::Manager, 1, &[]);
    std::fs::remove_dir_all(&config.data).unwrap();
    config.bind = address;
    let first = node::Member::start(config).await.unwrap();
    let end = timeout(DEADLINE * 2, first.ended()).await.expect("told");
    assert!(matches!(end, End::DataLost { .. }), "{end:?}");
}

/// An old copy of a folder is an earlier life; the later one is known.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_copy_of_a_folder_is_told_apart() {
    let world = World::new();
    let first = world.start(Role::Manager, 1, &[]).await;
    let seed = [first.address()];
    let data = world.config(Role::Worker, 2, &[]).data;
    let mut copy = None;
    for _ in 0..3 {
        let worker = world.start(Role::Worker, 2, &seed).await;
        whole(&[&first, &worker], 1).await;
        copy = copy.or_else(|| std::fs::read(data.join("node")).ok());
        worker.leave(Duration::from_secs(10)).await.unwrap();
    }
    std::fs::write(data.join("node"), copy.unwrap()).unwrap();
    let worker = world.start(Role::Worker, 2, &seed).await;
    let end = timeout(DEADLINE, worker.ended()).await.expect("told");
    assert!(matches!(end, End::DataLost { other_folder: false, .. }), "{end:?}");
}
