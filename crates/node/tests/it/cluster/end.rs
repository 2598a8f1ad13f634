//! A node that has lost its data folder hears it from the others, and stops with the reason.

use std::time::Duration;

use fence::BootId;
use membership::agent::{Agent, AgentConfig};
use membership::envelope::{Domain, KeyRing};
use membership::{Peer, Role, State};
use node::End;
use rand010::SeedableRng;
use rand010::rngs::StdRng;
use tokio::time::timeout;

use crate::cluster::harness::{DEADLINE, World, id, key, state_of, until, whole};

/// R2: a deleted folder; the node comes back as start 1 with its old certificate, and is told so
/// when it says hello, even though the boots are equal.
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

/// R26: whoever has the gossip key says "manager 2, a later start". Nobody can confirm it, so
/// nobody ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_later_start_that_only_gossip_tells_of_ends_nobody() {
    let world = World::new();
    let first = world.start(Role::Manager, 1, &[]).await;
    let second = world.start(Role::Manager, 2, &[first.address()]).await;
    whole(&[&first, &second], 1).await;
    until("the exchange", || second.is_ready()).await;

    let settings = world.config(Role::Manager, 2, &[]).membership();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let boot = BootId(second.life().boot.0 + 1);
    let peer = Peer { node: id(2), role: Role::Manager, address, boot, generation: 0 };
    let roles = vec![Role::Manager, Role::Worker];
    let domain = Domain { cluster: "test".into(), environment: "ci".into(), roles };
    let liar = Agent::start(AgentConfig {
        identity: membership::Identity { peer, datacenter: "fra".into(), domain },
        bind: address,
        ring: KeyRing::new(key(1).0).unwrap(),
        settings,
        seeds: vec![first.address()],
        rng: StdRng::seed_from_u64(7),
    })
    .unwrap();
    let believes = |entry: &membership::Entry| (entry.peer.node, entry.peer.boot) == (id(2), boot);
    until("it is believed", || first.view().entries.iter().any(believes)).await;
    // More than it takes to ask everybody, and for the anti-entropy to come round.
    let ended = timeout(Duration::from_secs(12), second.ended()).await;
    assert!(ended.is_err(), "{ended:?}");
    drop(liar);
}

/// A copy of a folder in use, started as the same node: this one is real, and the older process
/// gives way.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_gives_way_to_a_later_one_that_shows_the_same_certificate() {
    for (role, number) in [(Role::Worker, 5), (Role::Manager, 6)] {
        let world = World::new();
        let first = world.start(Role::Manager, 1, &[]).await;
        let seed = [first.address()];
        let old = world.start(role, number, &seed).await;
        whole(&[&first, &old], 1).await;
        let mut config = world.config(role, number, &seed);
        let copy = world.path("copy");
        std::fs::create_dir(&copy).unwrap();
        std::fs::copy(config.data.join("node"), copy.join("node")).unwrap();
        config.data = copy;
        let later = node::Member::start(config).await.unwrap();
        assert!(later.life().boot > old.life().boot);
        let end = timeout(DEADLINE * 2, old.ended()).await.expect("told");
        assert!(matches!(end, End::DataLost { .. } | End::Superseded { .. }), "{end:?}");
        assert_eq!(later.life().since, later.life().boot, "it vouches for nobody");
    }
}
