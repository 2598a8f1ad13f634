//! The comparison before an exchange: who knows the same is spared the rest, and nothing is taken
//! from strangers.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fence::BootId;
use futures_util::{Stream, StreamExt, stream};
use membership::agent::{Agent, AgentConfig};
use membership::envelope::{Domain, KeyRing};
use membership::{Digest, Peer, Role, State};
use node::http::HttpConfig;
use node::wire::proto::membership_server::{Membership, MembershipServer};
use node::wire::{self, proto};
use prost::Message;
use rand010::SeedableRng;
use rand010::rngs::StdRng;
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::cluster::exchange::{count, introduction, raw, record};
use crate::cluster::harness::{World, id, key, page, state_of, until, whole};

pub fn http() -> Option<HttpConfig> {
    Some(HttpConfig { bind: ([127, 0, 0, 1], 0).into(), beyond_loopback: false })
}

/// The value of a line of `/metrics`.
pub async fn metric(address: SocketAddr, line: &str) -> u64 {
    let (_, text) = page(address, "/metrics").await;
    let found = text.lines().find_map(|l| l.strip_prefix(line)).unwrap_or_default();
    found.trim().parse().unwrap()
}

/// Once everybody knows everybody, members compare and exchange no more.
#[tokio::test(flavor = "multi_thread")]
async fn who_knows_the_same_is_spared_the_exchange() {
    let world = World::new();
    let first = world.start(Role::Manager, 1, &[]).await;
    let mut config = world.config(Role::Manager, 2, &[first.address()]);
    config.http = http();
    let second = node::Member::start(config).await.unwrap();
    whole(&[&first, &second], 1).await;
    let http = second.http_address().unwrap();
    let exchanged = r#"volley_membership_exchanges_total{direction="out"}"#;
    let before = metric(http, exchanged).await;
    assert!(before >= 1, "the join pulls everything");
    let mut spared = 0;
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        spared = metric(http, "volley_membership_exchanges_spared_total").await;
        if spared >= 2 {
            break;
        }
    }
    assert!(spared >= 2);
    assert_eq!(metric(http, exchanged).await, before);
}

/// An earlier version of the program: it gossips and exchanges, and has never heard of comparisons.
pub struct Old {
    pub introduction: proto::Introduction,
    pub record: proto::Record,
    pub asked: AtomicUsize,
    pub exchanged: AtomicUsize,
}

type Parts<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Membership for Old {
    async fn hello(
        &self,
        _: Request<proto::HelloRequest>,
    ) -> Result<Response<proto::HelloReply>, Status> {
        let from = Some(self.introduction.clone());
        Ok(Response::new(proto::HelloReply { from, you: None }))
    }

    type ExchangeStream = Parts<proto::StatePart>;

    async fn exchange(
        &self,
        request: Request<Streaming<proto::StatePart>>,
    ) -> Result<Response<Self::ExchangeStream>, Status> {
        let mut parts = request.into_inner();
        while parts.message().await?.is_some() {}
        self.exchanged.fetch_add(1, Ordering::Relaxed);
        let part = proto::StatePart {
            from: Some(self.record.clone()),
            introduction: Some(self.introduction.clone()),
            ..proto::StatePart::default()
        };
        Ok(Response::new(Box::pin(stream::iter([Ok(part)]))))
    }

    /// What the server of a program without this call says.
    async fn compare(
        &self,
        _: Request<proto::CompareRequest>,
    ) -> Result<Response<proto::CompareReply>, Status> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Err(Status::unimplemented(""))
    }

    type MembersStream = Parts<proto::MembersPart>;

    async fn members(
        &self,
        _: Request<proto::MembersRequest>,
    ) -> Result<Response<Self::MembersStream>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn keys(
        &self,
        _: Request<proto::KeysRequest>,
    ) -> Result<Response<proto::KeysReply>, Status> {
        Err(Status::unimplemented(""))
    }
}

/// Starts the gossip of manager `number`, on a port of its own.
fn gossip(world: &World, number: u128, bind: SocketAddr) -> Agent {
    let (node, role, boot) = (id(number), Role::Manager, BootId(1));
    let domain = Domain {
        cluster: "test".into(),
        environment: "ci".into(),
        roles: vec![Role::Manager, Role::Worker],
    };
    let peer = Peer { node, role, address: bind, boot, generation: 0 };
    Agent::start(AgentConfig {
        identity: membership::Identity { peer, datacenter: "fra".into(), domain },
        bind,
        ring: KeyRing::new(key(1).0).unwrap(),
        settings: world.config(Role::Manager, number, &[]).membership(),
        seeds: Vec::new(),
        rng: StdRng::seed_from_u64(7),
    })
    .unwrap()
}

/// The wire contract only grows: a member exchanges with an older program as it always did.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_program_is_exchanged_with_as_before() {
    let world = World::new();
    let listener = world
        .network(Role::Manager, 2)
        .listen(SocketAddr::from(([127, 0, 0, 1], 0)))
        .await
        .unwrap();
    let address = listener.address;
    let _gossip = gossip(&world, 2, address);
    let old = Arc::new(Old {
        introduction: introduction(2, Role::Manager, address.port()),
        record: record(2, Role::Manager, address.port()),
        asked: AtomicUsize::new(0),
        exchanged: AtomicUsize::new(0),
    });
    let incoming = listener.incoming.map(Ok::<_, std::io::Error>);
    let server = Server::builder().add_service(MembershipServer::from_arc(Arc::clone(&old)));
    let serving = tokio::spawn(server.serve_with_incoming(incoming));
    let mut config = world.config(Role::Manager, 1, &[address]);
    config.http = http();
    let first = node::Member::start(config).await.unwrap();
    until("a later exchange", || {
        let (asked, exchanged) =
            (old.asked.load(Ordering::Relaxed), old.exchanged.load(Ordering::Relaxed));
        asked >= 1 && exchanged >= 2
    })
    .await;
    assert_eq!(state_of(&first, 2), Some(State::Confirmed));
    let http = first.http_address().unwrap();
    assert_eq!(metric(http, "volley_membership_exchanges_spared_total").await, 0);
    serving.abort();
}

/// A digest is looked at only when its teller is who its certificate says.
#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_believes_nobody_but_its_caller() {
    let world = World::new();
    let first = world.start(Role::Manager, 1, &[]).await;
    let mut client = raw(&world, Role::Manager, 2, first.address()).await;
    let request = |digest: Digest| proto::CompareRequest {
        from: Some(record(2, Role::Manager, 9)),
        introduction: Some(introduction(2, Role::Manager, 9)),
        digest: Some(wire::digest_out(digest)),
    };
    let some = Digest { members: 2, sum: 77 };
    let reply = client.compare(request(some)).await.unwrap().into_inner();
    assert!(!reply.same);
    // The simulation counts 600 for both, with all frames.
    let bytes = request(some).encoded_len() + reply.encoded_len();
    assert!(bytes < 450, "{bytes} bytes");
    assert_eq!(wire::record_in(reply.from.unwrap()).unwrap().peer.node, id(1));
    assert!(first.view().entries.is_empty(), "a difference by itself is no news");
    let mut others = Vec::new();
    let mut bad = request(some);
    bad.introduction = Some(introduction(3, Role::Manager, 9));
    others.push(("another node's word", bad, Code::PermissionDenied));
    let mut bad = request(some);
    bad.from = Some(record(3, Role::Manager, 9));
    others.push(("a digest told by another", bad, Code::InvalidArgument));
    let mut bad = request(some);
    bad.introduction.as_mut().unwrap().identity.as_mut().unwrap().cluster = "other".into();
    others.push(("another cluster", bad, Code::PermissionDenied));
    let mut bad = request(some);
    bad.digest = None;
    others.push(("no digest", bad, Code::InvalidArgument));
    others.push(("nothing", proto::CompareRequest::default(), Code::InvalidArgument));
    for (what, request, code) in others {
        let status = client.compare(request).await.expect_err(what);
        assert_eq!(status.code(), code, "{what}: {}", status.message());
        assert!(first.view().entries.is_empty(), "{what}");
    }
    // Now the second one is there, and is told of by an exchange. Soon both know the same.
    let free = std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let twin = gossip(&world, 2, free);
    let known = |mut request: proto::CompareRequest| {
        request.from = Some(record(2, Role::Manager, free.port()));
        request.introduction = Some(introduction(2, Role::Manager, free.port()));
        request
    };
    let part = proto::StatePart {
        from: known(request(some)).from,
        introduction: known(request(some)).introduction,
        ..proto::StatePart::default()
    };
    assert_eq!(count(&mut client, vec![part]).await.unwrap(), 0);
    let mut same = false;
    for _ in 0..200 {
        let (_, digest) = twin.digest().await.unwrap();
        same = client.compare(known(request(digest))).await.unwrap().into_inner().same;
        if same {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(same);
    assert_eq!(state_of(&first, 2), Some(State::Confirmed));
}
