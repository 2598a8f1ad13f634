//! Programs of different versions: those of one major talk, others refuse each other by name, on
//! both sides.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use ledger::wire::refusal_name;
use membership::Role;
use node::wire::proto::membership_server::MembershipServer;
use node::wire::{self, proto};
use tonic::transport::Server;
use tonic::{Code, Status};
use trust::PROTOCOL;

use crate::cluster::compare::{Old, http, metric};
use crate::cluster::exchange::{count, introduction, raw, record};
use crate::cluster::harness::{World, until};

fn speaking(number: u128, port: u16, major: u32, minor: u32) -> proto::Introduction {
    let program = "9.9.9".to_owned();
    proto::Introduction {
        protocol: Some(proto::Protocol { major, minor, program }),
        ..introduction(number, Role::Manager, port)
    }
}

fn refused(status: &Status, name: &str) {
    assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
    assert_eq!(refusal_name(status), Some(name), "{status:?}");
    assert!(status.message().contains("bring"), "what to do: {}", status.message());
}

/// CORE-105, CORE-106: every first contact says what is spoken; another major is refused by name, a
/// later minor and those who do not say it are talked to.
#[tokio::test(flavor = "multi_thread")]
async fn another_major_is_refused_by_name_and_a_later_minor_is_not() {
    let world = World::new();
    let mut config = world.config(Role::Manager, 1, &[]);
    config.http = http();
    let first = node::Member::start(config).await.unwrap();
    let mut client = raw(&world, Role::Manager, 2, first.address()).await;
    let major = u32::from(PROTOCOL.major);
    let hello = |from| proto::HelloRequest { from: Some(from), you: None };
    for (from, name) in [
        (speaking(2, 9, major + 1, 0), "protocol_too_new"),
        (speaking(2, 9, major - 1, 7), "protocol_too_old"),
    ] {
        let status = client.hello(hello(from.clone())).await.unwrap_err();
        refused(&status, name);
        // Whoever was told knows what is spoken here.
        let told = wire::not_understood_by(&status).unwrap().to_string();
        assert!(told.contains(&format!("the peer speaks protocol {PROTOCOL}")), "{told}");
        // Nor does it get the state, by either way.
        let part = proto::StatePart {
            from: Some(record(2, Role::Manager, 9)),
            introduction: Some(from.clone()),
            ..proto::StatePart::default()
        };
        refused(&count(&mut client, vec![part]).await.unwrap_err(), name);
        let digest = Some(proto::Digest { members: 1, sum: 1 });
        let (told, from) = (Some(record(2, Role::Manager, 9)), Some(from));
        let request = proto::CompareRequest { from: told, introduction: from, digest };
        refused(&client.compare(request).await.unwrap_err(), name);
    }
    assert!(first.view().entries.is_empty());
    let at = first.http_address().unwrap();
    let counted = |kind: &str| format!("volley_membership_calls_refused_total{{kind=\"{kind}\"}}");
    assert_eq!(metric(at, &counted("protocol_too_new")).await, 3);
    assert_eq!(metric(at, &counted("protocol_too_old")).await, 3);

    let later = speaking(2, 9, major, u32::from(PROTOCOL.minor) + 5);
    for from in [later, introduction(2, Role::Manager, 9)] {
        let reply = client.hello(hello(from)).await.unwrap().into_inner();
        let protocol = reply.from.unwrap().protocol.unwrap();
        assert_eq!((protocol.major, protocol.minor), (major, PROTOCOL.minor.into()));
        assert_eq!(protocol.program, env!("CARGO_PKG_VERSION"));
    }
    for bad in [speaking(2, 9, 70_000, 0), speaking(2, 9, major, 70_000)] {
        let status = client.hello(hello(bad)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains("protocol"), "{}", status.message());
    }
}

/// The other side of it: a member that finds a node of another major says so and does not join it.
#[tokio::test(flavor = "multi_thread")]
async fn a_later_program_is_not_joined_and_named() {
    let world = World::new();
    let network = world.network(Role::Manager, 2);
    let listener = network.listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.address;
    let later = Arc::new(Old {
        introduction: speaking(2, address.port(), u32::from(PROTOCOL.major) + 1, 3),
        record: record(2, Role::Manager, address.port()),
        asked: AtomicUsize::new(0),
        exchanged: AtomicUsize::new(0),
    });
    let incoming = listener.incoming.map(Ok::<_, std::io::Error>);
    let server = Server::builder().add_service(MembershipServer::from_arc(Arc::clone(&later)));
    let serving = tokio::spawn(server.serve_with_incoming(incoming));
    let first = world.start(Role::Manager, 1, &[address]).await;
    let named = || {
        let notices = first.search().notices;
        notices.iter().any(|notice| notice.contains("Protocol") && notice.contains("major: 2"))
    };
    until("it is said", named).await;
    assert_eq!(later.exchanged.load(Ordering::Relaxed), 0);
    assert!(first.view().entries.is_empty());
    serving.abort();
}
