//! The exchange of full states: large ones, lying ones, and those of nobody.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use membership::{Role, State};
use node::client::KeyAction;
use node::wire::proto::membership_client::MembershipClient;
use node::wire::proto::{self, StatePart};
use node::wire::{node_bytes, role_code};
use tonic::Code;
use tonic::transport::Channel;
use trust::Expected;

use crate::cluster::harness::{World, id, until, whole};

/// A raw client on one connection, as a node of this certificate.
pub async fn raw(
    world: &World,
    role: Role,
    number: u128,
    to: SocketAddr,
) -> MembershipClient<Channel> {
    let network = world.network(role, number);
    let timing = node::network::ChannelTiming::paced(1.0);
    let channels = node::network::Channels::new(network, timing);
    MembershipClient::new(channels.to(to, Expected { role: Role::Manager, node: None }))
}

pub fn record(number: u128, role: Role, port: u16) -> proto::Record {
    proto::Record {
        node: node_bytes(id(number)),
        role: role_code(role).into(),
        address: format!("127.0.0.1:{port}"),
        boot: 1,
        generation: 0,
        datacenter: "fra".into(),
        incarnation: 0,
        standing: proto::Standing::Alive.into(),
    }
}

pub fn introduction(number: u128, role: Role, port: u16) -> proto::Introduction {
    proto::Introduction {
        identity: Some(proto::Identity {
            cluster: "test".into(),
            environment: "ci".into(),
            role: role_code(role).into(),
            datacenter: "fra".into(),
            node: node_bytes(id(number)),
        }),
        boot: 1,
        folder: 5,
        group: None,
        voters: None,
        gossip: format!("127.0.0.1:{port}"),
        service: format!("127.0.0.1:{port}"),
        disk: 0,
        protocol: None,
        pace_milli: 0,
    }
}

/// A state of so many synthetic members, in parts.
fn state(from: u128, members: u32) -> Vec<StatePart> {
    let records: Vec<_> = (0..members)
        .map(|n| record(10_000 + u128::from(n), Role::Worker, 20_000 + n as u16))
        .collect();
    let mut parts: Vec<_> = records
        .chunks(512)
        .map(|chunk| StatePart { members: chunk.to_vec(), ..StatePart::default() })
        .collect();
    if parts.is_empty() {
        parts.push(StatePart::default());
    }
    parts[0].from = Some(record(from, Role::Manager, 9));
    parts[0].introduction = Some(introduction(from, Role::Manager, 9));
    parts[0].total = members;
    parts
}

pub async fn count(
    client: &mut MembershipClient<Channel>,
    parts: Vec<StatePart>,
) -> Result<usize, tonic::Status> {
    let mut answer = client.exchange(stream::iter(parts)).await?.into_inner();
    let mut members = 0;
    while let Some(part) = answer.message().await? {
        members += part.members.len();
    }
    Ok(members)
}

/// Two thousand members arrive in one exchange, are known at once as only heard of, and the answer
/// is not swollen by those that nobody has confirmed.
#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_members_in_one_exchange() {
    let world = World::new();
    let first = world.start(Role::Manager, 1, &[]).await;
    let mut client = raw(&world, Role::Manager, 2, first.address()).await;
    assert_eq!(count(&mut client, state(2, 2000)).await.unwrap(), 0);
    until("two thousand", || first.view().count(State::Unconfirmed) >= 2000).await;
    assert_eq!(first.view().count(State::Confirmed), 1, "only the one that spoke");
    // A second one brings nothing new.
    let version = first.view().version;
    count(&mut client, state(2, 2000)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(first.view().version - version < 100);
    // And an operator gets them all, in parts.
    let snapshot = world.operator(&first).await.members().await.unwrap();
    assert_eq!(snapshot.members.len(), 2002);
}

/// Bounds and identities are checked before anything is believed.
#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_too_large_or_of_somebody_else_changes_nothing() {
    let world = World::new();
    let first = world.start(Role::Manager, 1, &[]).await;
    let mut client = raw(&world, Role::Manager, 2, first.address()).await;
    let mut cases: Vec<(&str, Vec<StatePart>, Code)> = Vec::new();
    cases.push(("another node's state", state(3, 1), Code::PermissionDenied));
    let mut parts = state(2, 1);
    parts[0].from = Some(record(3, Role::Manager, 9));
    cases.push(("a state told by another", parts, Code::InvalidArgument));
    let mut parts = state(2, 1);
    parts[0].total = 1_000_000;
    cases.push(("too many announced", parts, Code::InvalidArgument));
    let mut parts = state(2, 1);
    parts[0].total = 0;
    cases.push(("more than announced", parts, Code::InvalidArgument));
    let mut parts = state(2, 600);
    parts.truncate(1);
    cases.push(("fewer than announced", parts, Code::InvalidArgument));
    let mut parts = state(2, 600);
    parts[0].members.clear();
    parts[1].members.clear();
    cases.push(("empty parts", parts, Code::InvalidArgument));
    let mut parts = state(2, 1);
    parts[0].members[0].node = Bytes::from_static(b"short");
    cases.push(("a short id", parts, Code::InvalidArgument));
    let mut parts = state(2, 1);
    parts[0].introduction.as_mut().unwrap().identity.as_mut().unwrap().cluster = "other".into();
    cases.push(("another cluster", parts, Code::PermissionDenied));
    cases.push(("nothing", Vec::new(), Code::InvalidArgument));
    for (what, parts, code) in cases {
        let status = count(&mut client, parts).await.expect_err(what);
        assert_eq!(status.code(), code, "{what}: {}", status.message());
        assert!(first.view().entries.is_empty(), "{what}");
    }
    // A client is no member, whatever it says.
    let mut client = raw(&world, Role::Client, 900, first.address()).await;
    let status = count(&mut client, state(900, 1)).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    let mut request =
        proto::HelloRequest { from: Some(introduction(900, Role::Client, 9)), you: None };
    assert_eq!(client.hello(request.clone()).await.unwrap_err().code(), Code::PermissionDenied);
    request.from = None;
    assert_eq!(client.hello(request).await.unwrap_err().code(), Code::InvalidArgument);
    assert!(first.view().entries.is_empty());
}

/// A join token opens the way to a manager, and to nothing there that is a member's, an operator's
/// or a client's.
#[tokio::test(flavor = "multi_thread")]
async fn a_recruit_reaches_a_manager_and_hears_nothing_of_the_cluster() {
    let world = World::new();
    let manager = world.start(Role::Manager, 1, &[]).await;
    let worker = world.start(Role::Worker, 2, &[manager.address()]).await;
    whole(&[&manager, &worker], 1).await;
    let client = world.client(Role::Recruit, 9, manager.address()).await;
    let error = client.members().await.unwrap_err();
    assert!(error.to_string().contains("a join token is for becoming a worker"), "{error}");
    let error = client.keys(KeyAction::List).await.unwrap_err();
    assert!(error.to_string().contains("may not touch the gossip keys"), "{error}");

    let network = world.network(Role::Recruit, 9);
    let mut recruit = raw(&world, Role::Recruit, 9, manager.address()).await;
    let from = Some(introduction(9, Role::Recruit, 9));
    let hello = recruit.hello(proto::HelloRequest { from, you: None }).await.unwrap_err();
    assert_eq!(hello.code(), Code::PermissionDenied);
    let mut parts = state(9, 0);
    parts[0].from = Some(record(9, Role::Recruit, 9));
    parts[0].introduction = Some(introduction(9, Role::Recruit, 9));
    let exchange = count(&mut recruit, parts).await.unwrap_err();
    assert_eq!(exchange.code(), Code::PermissionDenied, "{exchange}");

    // Workers do not answer to it, and nobody connects to it.
    let expected = Expected { role: Role::Worker, node: None };
    let refused = network.connect(&worker.address().to_string(), expected).await.unwrap_err();
    assert_eq!(refused.kind(), "role");
    assert_eq!(manager.view().entries.len(), 1);
}
