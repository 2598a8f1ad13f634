//! Members find each other, notice who is gone, and come together again.

use std::time::Duration;

use fence::BootId;
use membership::discovery::Phase;
use membership::{Role, State};
use node::Member;
use node::http::HttpConfig;

use crate::cluster::harness::{World, id, page, state_of, until, whole};

/// GATE-110, GATE-113, DET-130, CORE-135: managers and workers become one membership, with
/// round-trip times, health and metrics.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_forms_from_one_seed() {
    let world = World::new();
    let mut config = world.config(Role::Manager, 1, &[]);
    config.http = Some(HttpConfig { bind: ([127, 0, 0, 1], 0).into(), beyond_loopback: false });
    let first = Member::start(config).await.unwrap();
    let seed = [first.address()];
    let second = world.start(Role::Manager, 2, &seed).await;
    let third = world.start(Role::Manager, 3, &seed).await;
    let fourth = world.start(Role::Worker, 4, &seed).await;
    let fifth = world.start(Role::Worker, 5, &seed).await;
    let all = [&first, &second, &third, &fourth, &fifth];
    whole(&all, 4).await;
    until("everybody ready", || all.iter().all(|member| member.is_ready())).await;
    assert_eq!(second.search().phase, Phase::Joined);
    until("the round-trip times", || {
        first.view().entries.iter().all(|entry| entry.rtt.is_some() && entry.two_way)
    })
    .await;
    until("the three signals", || {
        all.iter().skip(1).all(|other| first.health(other.identity().node).is_some_and(|h| h.live))
    })
    .await;
    assert!(first.hellos().contains_key(&id(2)), "who said hello is known");

    let http = first.http_address().unwrap();
    let (status, text) = page(http, "/metrics").await;
    assert_eq!(status, 200);
    assert!(text.contains("volley_membership_members{state=\"confirmed\"} 4"), "{text}");
    assert!(
        text.contains("volley_node_connections_total{direction=\"inbound\",kind=\"connected\"}")
    );
    assert!(text.contains("volley_membership_rtt_seconds_count 4"));
    for metric in ["lookups_total{", "probes_total{", "joins_total{", "rounds_failed_total "] {
        assert!(text.contains(&format!("\nvolley_discovery_{metric}")), "{metric}: {text}");
    }
    assert_eq!(page(http, "/livez").await, (200, "ok\n".to_owned()));
    assert_eq!(page(http, "/readyz").await.0, 200);
    let (_, text) = page(http, "/debug/membership").await;
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["members"]["confirmed"], 4);
    assert_eq!(json["node"], id(1).to_string());
    let (_, text) = page(http, "/debug/members").await;
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 4);
    assert_eq!(json[0]["heartbeat"]["stage"], "active");
    for path in ["/debug/peers/unconfirmed", "/debug/discovery", "/debug/tasks"] {
        assert_eq!(page(http, path).await.0, 200, "{path}");
    }
    assert_eq!(page(http, "/debug/nothing").await.0, 404);
}

/// R2: a crash is a death, a farewell is not, and a restart in the same folder is a new life.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_a_farewell_and_a_restart_are_told_apart() {
    let world = World::new();
    let first = world.start(Role::Manager, 1, &[]).await;
    let seed = [first.address()];
    let second = world.start(Role::Manager, 2, &seed).await;
    let third = world.start(Role::Worker, 3, &seed).await;
    let fourth = world.start(Role::Worker, 4, &seed).await;
    whole(&[&first, &second, &third, &fourth], 3).await;

    fourth.leave(Duration::from_secs(10)).await.unwrap();
    until("the farewell", || state_of(&first, 4) == Some(State::Left)).await;
    assert_eq!(third.life().boot, BootId(1));
    drop(third);
    until("the death", || state_of(&first, 3) == Some(State::Dead)).await;

    // It comes back without a seed: it remembers, or is found.
    let third = world.start(Role::Worker, 3, &seed).await;
    assert_eq!(third.life().boot, BootId(2));
    until("the new life", || state_of(&first, 3) == Some(State::Confirmed)).await;
    let view = first.view();
    let entry = view.entries.iter().find(|entry| entry.peer.node == id(3)).unwrap();
    assert_eq!(entry.peer.boot, BootId(2));
    assert!(entry.deaths >= 1);
}

/// GATE-114: what was learned is kept; after a restart a node finds its peers without any seed.
#[tokio::test(flavor = "multi_thread")]
async fn peers_are_remembered_for_the_next_start() {
    let world = World::new();
    let first = world.start(Role::Manager, 1, &[]).await;
    let second = world.start(Role::Manager, 2, &[first.address()]).await;
    whole(&[&first, &second], 1).await;
    second.leave(Duration::from_secs(10)).await.unwrap();
    let second = world.start(Role::Manager, 2, &[]).await;
    whole(&[&first, &second], 1).await;
    assert_eq!(second.life().boot, BootId(2));
}

/// GATE-110: two clusters that started apart become one when one node of each is told of the other.
#[tokio::test(flavor = "multi_thread")]
async fn islands_that_hear_of_each_other_merge() {
    let world = World::new();
    let a = world.start(Role::Manager, 1, &[]).await;
    let b = world.start(Role::Manager, 2, &[a.address()]).await;
    // The other island has a seed that is not there yet.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let c = world.start(Role::Manager, 3, &[port]).await;
    let d = world.start(Role::Manager, 4, &[c.address()]).await;
    whole(&[&a, &b], 1).await;
    whole(&[&c, &d], 1).await;
    // Now somebody of the first island appears at that address.
    let mut config = world.config(Role::Manager, 5, &[a.address()]);
    config.bind = port;
    let bridge = Member::start(config).await.unwrap();
    whole(&[&a, &b, &c, &d, &bridge], 4).await;
    assert!(c.search().counts.joins >= 1);
}
