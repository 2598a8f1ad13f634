//! The ledger over mutual TLS: managers among themselves, and nobody else.

use std::sync::Arc;

use fence::{BootId, Hlc};
use futures_util::StreamExt;
use ledger::blobs::BlobLimits;
use ledger::store::{Storage, StoreOptions, WalOwner};
use ledger::{Bootstrap, NodeConfig, Transport};
use membership::{Role, State};
use node::identity::Life;
use node::network::{Direction, LedgerTransport};
use node::{End, Member, StartError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::cluster::harness::{DEADLINE, World, id, until, whole};

#[tokio::test(flavor = "multi_thread")]
async fn only_managers_reach_the_ledger() {
    let world = World::new();
    let free =
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let network = world.network(Role::Manager, 1);
    let server = LedgerTransport::new(Arc::clone(&network), Role::Manager);
    let mut incoming = server.listen(&free).await.unwrap();
    let (echoed, mut echoes) = tokio::sync::mpsc::unbounded_channel();
    let echo = tokio::spawn(async move {
        loop {
            let mut io = incoming.next().await.unwrap().unwrap();
            let mut byte = [0];
            io.read_exact(&mut byte).await.unwrap();
            io.write_all(&byte).await.unwrap();
            echoed.send(byte[0]).unwrap();
        }
    });
    let manager = LedgerTransport::new(world.network(Role::Manager, 2), Role::Manager);
    let mut io = manager.connect(&free).await.unwrap();
    io.write_all(&[42]).await.unwrap();
    let mut byte = [0];
    timeout(DEADLINE, io.read_exact(&mut byte)).await.unwrap().unwrap();
    assert_eq!(byte, [42]);
    // A worker or a client may open a connection to a manager, but has no place in its group; each
    // is counted.
    for (role, number) in [(Role::Worker, 3), (Role::Client, 4)] {
        let other = LedgerTransport::new(world.network(role, number), Role::Manager);
        if let Ok(mut io) = other.connect(&free).await {
            let _ = io.write_all(&[1]).await;
            let read = timeout(DEADLINE, io.read(&mut byte)).await.unwrap();
            assert!(!matches!(read, Ok(1..)), "closed without an answer");
        }
    }
    let counted = (Direction::Inbound, "not_of_group", 2);
    assert!(network.counts().contains(&counted), "{:?}", network.counts());
    assert_eq!(echoes.recv().await, Some(42));
    assert!(echoes.try_recv().is_err() && !echo.is_finished());
    assert!(server.listen("nonsense").await.is_err());
}

fn open(world: &World, number: u128) -> Storage {
    let options = StoreOptions {
        node: Some(id(number)),
        draw: Arc::new(|| {
            let mut bytes = [0; 8];
            getrandom::fill(&mut bytes).unwrap();
            u64::from_le_bytes(bytes)
        }),
        clock: Arc::new(Hlc::default),
        wal: wal::Options { segment_bytes: 16 << 20, reserve_bytes: 0, ..wal::Options::default() },
        blobs: BlobLimits::default(),
        snapshot_bytes: 64 << 20,
    };
    let folder = world.path(&format!("ledger-{number}"));
    Storage::open(Arc::new(wal::RealDisk), folder, options, WalOwner::Thread).unwrap()
}

/// Three managers: their Raft group over mutual TLS, their membership beside it, one node id and
/// one boot for both.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_group_over_mutual_tls_shares_its_identity_with_membership() {
    let world = World::new();
    let listeners: Vec<_> =
        (0..3).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let mut addresses: Vec<String> =
        listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
    addresses.sort();
    drop(listeners);
    let mut nodes = Vec::new();
    let mut members: Vec<Member> = Vec::new();
    for number in 1..=3u128 {
        let storage = open(&world, number);
        let identity = storage.identity();
        let mut config = NodeConfig {
            address: addresses[number as usize - 1].clone(),
            bootstrap: Bootstrap::Peers(addresses.clone()),
            ..NodeConfig::default()
        };
        config.timing.pace = 3.0;
        let network = world.network(Role::Manager, number);
        let transport = Arc::new(LedgerTransport::new(network, Role::Manager));
        nodes.push(ledger::Node::start(config, storage, transport).await.unwrap());
        let seeds: Vec<_> = members.iter().map(Member::address).collect();
        let mut config = world.config(Role::Manager, number, &seeds);
        config.life = Some(Life::new(identity.node, identity.boot, identity.disk.0));
        members.push(Member::start(config).await.unwrap());
    }
    whole(&members.iter().collect::<Vec<_>>(), 2).await;
    until("a leader", || nodes.iter().any(|node| node.status().leads)).await;
    // Who has not heard of the group yet has nobody to ask for a blob.
    until("a group that all know", || nodes.iter().all(|node| node.status().voters.len() == 3))
        .await;
    let blob = nodes[0].put_blob(vec![7; 100_000], DEADLINE).await.unwrap();
    assert_eq!(nodes[2].get_blob(&blob, DEADLINE).await.unwrap(), vec![7; 100_000]);
    for (node, member) in nodes.iter().zip(&members) {
        let status = node.status();
        assert_eq!((status.node, status.boot), (member.life().node, member.life().boot));
    }
    // The next start of the storage is the next life of both.
    nodes.pop().unwrap().shutdown().await;
    drop(members.pop());
    let identity = open(&world, 3).identity();
    assert_eq!((identity.node, identity.boot.0), (id(3), 2));
    let mut config = world.config(Role::Manager, 3, &[members[0].address()]);
    config.life = Some(Life::new(identity.node, identity.boot, identity.disk.0));
    let again = Member::start(config.clone()).await.unwrap();
    until("the second life", || {
        let view = members[0].view();
        view.entries
            .iter()
            .any(|e| e.peer.node == id(3) && e.peer.boot.0 == 2 && e.state == State::Confirmed)
    })
    .await;
    drop(again);
    // A storage of another node is refused.
    config.life = Some(Life::new(id(9), identity.boot, identity.disk.0));
    assert!(matches!(Member::start(config).await, Err(StartError::OtherNode { .. })));
}

/// A manager that has lost its data counts its boots anew. If it comes to the same number as before
/// only the disk shows it, and it is told to stop. A disk that its ledger was given anew comes with
/// a later boot, and is welcome.
#[tokio::test(flavor = "multi_thread")]
async fn a_manager_with_another_disk_in_the_same_life_is_told_to_stop() {
    let world = World::new();
    let first = world.start(Role::Manager, 1, &[]).await;
    let start = |boot: u64, folder: u64| {
        let mut config = world.config(Role::Manager, 2, &[first.address()]);
        config.life = Some(Life::new(id(2), BootId(boot), folder));
        Member::start(config)
    };
    let second = start(1, 70).await.unwrap();
    whole(&[&first, &second], 1).await;
    drop(second);
    let lost = start(1, 71).await.unwrap();
    let end = timeout(DEADLINE, lost.ended()).await.unwrap();
    assert!(matches!(end, End::DataLost { other_folder: true, .. }), "{end}");
    drop(lost);
    let again = start(2, 71).await.unwrap();
    until("the second life", || {
        let view = first.view();
        let is_it = |e: &membership::Entry| e.peer.node == id(2) && e.peer.boot.0 == 2;
        view.entries.iter().any(|e| is_it(e) && e.state == State::Confirmed)
    })
    .await;
    drop(again);
}
