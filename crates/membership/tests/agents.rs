//! Members on real sockets of this machine.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use fence::{BootId, NodeId};
use membership::agent::{Agent, AgentConfig, KeyChange};
use membership::envelope::{Domain, KeyRing, Refusal};
use membership::{Identity, Peer, Role, Settings, State};
use rand010::SeedableRng;
use rand010::rngs::StdRng;

fn key(seed: u8) -> [u8; 32] {
    std::array::from_fn(|i| (i as u8).wrapping_mul(11).wrapping_add(seed))
}

/// A free port: bound once and given back.
fn free_address() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn start(number: u128, address: SocketAddr, seeds: Vec<SocketAddr>) -> Agent {
    let domain = Domain {
        cluster: "test".into(),
        environment: "loopback".into(),
        roles: vec![Role::Manager, Role::Worker],
    };
    let node = NodeId(number << 100);
    let peer = Peer { node, role: Role::Manager, address, boot: BootId(1), generation: 0 };
    // Ten times the pace, so that the test takes seconds.
    let settings = Settings {
        probe_period: Duration::from_millis(100),
        probe_timeout: Duration::from_millis(50),
        gossip_period: Duration::from_millis(20),
        knock_period: Duration::from_millis(100),
        greet_period: Duration::from_millis(1000),
        ..Settings::default()
    };
    Agent::start(AgentConfig {
        identity: Identity { peer, datacenter: "here".into(), domain },
        bind: address,
        ring: KeyRing::new(key(1)).unwrap(),
        settings,
        seeds,
        rng: StdRng::seed_from_u64(number as u64),
    })
    .unwrap()
}

/// Waits until `holds`, for half a minute at most: the machine may be busy.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what} did not come about");
}

#[tokio::test]
async fn agents_find_each_other_rotate_keys_leave_and_die() {
    let seed = free_address();
    let first = start(1, seed, vec![]);
    let second = start(2, free_address(), vec![seed]);
    let third = start(3, free_address(), vec![seed]);
    let fourth = start(4, free_address(), vec![seed]);
    let all = [&first, &second, &third, &fourth];
    until("a cluster of four", || {
        all.iter().all(|agent| agent.view().count(State::Confirmed) == 3)
    })
    .await;
    let mut id = None;
    for agent in all {
        id = Some(agent.keys(KeyChange::Install(key(2))).await.unwrap().unwrap());
    }
    for agent in all {
        agent.keys(KeyChange::Use(id.unwrap())).await.unwrap().unwrap();
    }
    // Noise from outside is counted and not answered.
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    stranger.send_to(b"hello", first.address()).unwrap();
    assert!(stranger.recv_from(&mut [0; 16]).is_err());
    until("the noise to be counted", || first.view().refusals.of(Refusal::Truncated) == 1).await;
    // An exchange tells a newcomer everything at once.
    let state = first.full_state().await.unwrap();
    assert_eq!(state.members.len(), 3);
    second.merge(state).await.unwrap();

    let version = first.view().version;
    fourth.leave().await.unwrap();
    until("the farewell", || first.view().count(State::Left) == 1).await;
    drop(third);
    until("the death", || first.view().count(State::Dead) == 1).await;
    let changes = first.changes(version).await.unwrap().unwrap();
    assert!(changes.iter().any(|change| change.to == Some(State::Left)));
    assert!(changes.iter().any(|change| change.to == Some(State::Dead)));
    assert!(changes.windows(2).all(|pair| pair[0].version + 1 == pair[1].version));
}

#[test]
fn a_port_that_is_taken_is_an_error_at_once() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let domain = Domain { cluster: "a".into(), environment: "b".into(), roles: vec![Role::Gate] };
    let role = Role::Gate;
    let peer = Peer { node: NodeId(1), role, address, boot: BootId(1), generation: 0 };
    let config = AgentConfig {
        identity: Identity { peer, datacenter: String::new(), domain },
        bind: address,
        ring: KeyRing::new(key(1)).unwrap(),
        settings: Settings::default(),
        seeds: vec![],
        rng: StdRng::seed_from_u64(1),
    };
    assert!(Agent::start(config).is_err());
}
