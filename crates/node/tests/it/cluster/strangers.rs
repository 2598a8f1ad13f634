//! Those who have no business here are refused by kind, and change nothing.

use std::time::Duration;

use membership::Role;
use node::client::ClientOptions;
use node::network::ConnectError;
use node::{ClientError, CredentialFiles, Member, MembersClient, StartError};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use trust::{Expected, Validity};

use crate::cluster::harness::{DEADLINE, World, connections, days, id, now, until, whole};

async fn knock(files: CredentialFiles, at: &Member) -> Result<MembersClient, ClientError> {
    let address = at.address().to_string();
    let options =
        ClientOptions { credentials: files, address, role: Role::Manager, deadline: DEADLINE };
    let client = MembersClient::connect(options).await?;
    // With TLS 1.3 the refusal may show only when something is asked.
    client.members().await.map(|_| client)
}

/// R22: another cluster, a forbidden role and an expired certificate are refused in the handshake
/// and counted by kind.
#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_refused_in_the_handshake_and_counted() {
    let world = World::new();
    let manager = world.start(Role::Manager, 1, &[]).await;
    let worker = world.start(Role::Worker, 2, &[manager.address()]).await;
    whole(&[&manager, &worker], 1).await;

    // Another cluster with a CA of its own: the two do not know each other, and the first to look
    // says so.
    let other = World::of("other", TempDir::new().unwrap());
    let error = knock(other.files(Role::Client, 8), &manager).await.err().unwrap();
    assert!(error.to_string().contains("not issued by a CA that this node trusts"), "{error}");
    until("its alert", || connections(&manager, "inbound", "refused_by_peer") >= 1).await;
    // A certificate of a CA that is no longer trusted here, shown by somebody who trusts both.
    let old = World::of("test", TempDir::new().unwrap());
    let files = old.files(Role::Client, 9);
    let both = format!("{}{}", old.ca.certificate(), world.ca.certificate());
    std::fs::write(&files.ca, both).unwrap();
    assert!(knock(files, &manager).await.is_err());
    until("the unknown CA", || connections(&manager, "inbound", "unknown_authority") >= 1).await;

    // A client may not reach a worker, whoever it says it expects there.
    let network = world.network(Role::Client, 900);
    let expected = Expected { role: Role::Worker, node: None };
    let refused = network.connect(&worker.address().to_string(), expected).await;
    assert!(matches!(refused, Err(ConnectError::Handshake { .. })), "{refused:?}");
    assert_eq!(refused.unwrap_err().kind(), "role");

    // Somebody else answers than was expected.
    let expected = Expected { role: Role::Manager, node: Some(id(77)) };
    let refused = network.connect(&manager.address().to_string(), expected).await.unwrap_err();
    assert_eq!(refused.kind(), "receiver");

    // An expired certificate is refused at home already, with the reason.
    let past = Validity { not_before: now() - 1000, not_after: now() - 10 };
    let files = world.files_in(&world.path("expired"), Role::Client, 901, past);
    let error = knock(files, &manager).await.err().unwrap();
    assert!(error.to_string().contains("expired"), "{error}");

    // The cluster stands as it stood.
    whole(&[&manager, &worker], 1).await;
    assert_eq!(manager.view().entries.len(), 1);
}

/// A member whose certificate runs out while it lives is refused by the others when it connects
/// again.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_runs_out_is_refused_with_its_kind() {
    let world = World::new();
    let manager = world.start(Role::Manager, 1, &[]).await;
    let soon = Validity { not_before: now() - 1000, not_after: now() + 2 };
    let files = world.files_in(&world.path("soon"), Role::Client, 902, soon);
    let policy = trust::Policy { gates: trust::Gates::None, expected: None };
    let network = node::network::Mutual::load(files, policy, node::network::Limits::default());
    let network: std::sync::Arc<dyn node::network::Network> = std::sync::Arc::new(network.unwrap());
    let address = manager.address().to_string();
    let client =
        MembersClient::connect_on(&network, &address, Role::Manager, DEADLINE).await.unwrap();
    client.members().await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let client = MembersClient::connect_on(&network, &address, Role::Manager, DEADLINE).await;
    if let Ok(client) = client {
        assert!(client.members().await.is_err());
    }
    until("the expired certificate", || connections(&manager, "inbound", "expired") >= 1).await;
}

/// Certificates are exchanged while the node runs; bad ones leave the old ones in use.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_swapped_without_a_restart() {
    let world = World::new();
    let folder = world.path("own");
    let soon = Validity { not_before: now() - 1000, not_after: now() + 6 };
    let mut config = world.config(Role::Manager, 1, &[]);
    config.credentials = world.files_in(&folder, Role::Manager, 1, soon);
    let files = config.credentials.clone();
    let manager = Member::start(config).await.unwrap();
    assert!(knock(world.files(Role::Client, 900), &manager).await.is_ok());

    // Garbage first: nothing happens to those who connect.
    std::fs::write(&files.certificate, "garbage").unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(knock(world.files(Role::Client, 900), &manager).await.is_ok());

    let fresh = world.ca.issue(Role::Manager, "fra", id(1), days(30)).unwrap();
    std::fs::write(&files.key, &fresh.key).unwrap();
    std::fs::write(&files.certificate, &fresh.certificate).unwrap();
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert!(
        knock(world.files(Role::Client, 900), &manager).await.is_ok(),
        "the old one has expired"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_work_is_refused_at_the_start() {
    let world = World::new();
    let start = |change: fn(&mut node::Config)| {
        let mut config = world.config(Role::Manager, 1, &[]);
        change(&mut config);
        async move { Member::start(config).await.err().unwrap() }
    };
    let error = start(|config| config.bind = ([0, 0, 0, 0], 0).into()).await;
    assert!(matches!(error, StartError::NoAddress { .. }), "{error}");
    let error = start(|config| config.pace = 0.0).await;
    assert!(matches!(error, StartError::Pace { .. }), "{error}");
    let error = start(|config| {
        let bind = ([0, 0, 0, 0], 0).into();
        config.http = Some(node::http::HttpConfig { bind, beyond_loopback: false });
    })
    .await;
    assert!(matches!(error, StartError::HttpBeyondLoopback { .. }), "{error}");
    let mut config = world.config(Role::Manager, 1, &[]);
    for role in [Role::Client, Role::Recruit] {
        config.credentials = world.files(role, 9);
        let error = Member::start(config.clone()).await.err().unwrap();
        assert!(error.to_string().contains(&format!("is a {role}'s")), "{error}");
    }
    let taken = world.start(Role::Manager, 1, &[]).await;
    let mut config = world.config(Role::Manager, 2, &[]);
    config.bind = taken.address();
    let error = Member::start(config).await.err().unwrap();
    assert!(matches!(error, StartError::Listen { .. }), "{error}");
    let error = Member::start(world.config(Role::Manager, 1, &[])).await.err().unwrap();
    assert!(error.to_string().contains("in use by another process"), "{error}");
}

/// The endpoints have no password, so idle connections must not keep a scrape out for ever, nor use
/// up the node.
#[tokio::test(flavor = "multi_thread")]
async fn connections_to_the_endpoints_are_bounded() {
    let world = World::new();
    let mut config = world.config(Role::Manager, 1, &[]);
    let bind = ([127, 0, 0, 1], 0).into();
    config.http = Some(node::http::HttpConfig { bind, beyond_loopback: false });
    let manager = Member::start(config).await.unwrap();
    let address = manager.http_address().unwrap();
    let mut idle = Vec::new();
    for _ in 0..64 {
        idle.push(tokio::net::TcpStream::connect(address).await.unwrap());
    }
    // They are accepted one by one, so all of them are before this one, which is closed without a
    // word.
    let mut late = tokio::net::TcpStream::connect(address).await.unwrap();
    let ended = tokio::time::timeout(DEADLINE, late.read(&mut [0; 8])).await.unwrap();
    assert!(!matches!(ended, Ok(1..)), "{ended:?}");
    idle.truncate(60);
    let mut found = None;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let _ = stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .await;
        let mut text = String::new();
        if stream.read_to_string(&mut text).await.is_ok() && text.starts_with("HTTP/1.1 200") {
            found = Some(text);
            break;
        }
    }
    let text = found.expect("a place was given up");
    let line = text.lines().find_map(|line| line.strip_prefix("volley_node_http_refused_total "));
    assert!(line.unwrap().parse::<u64>().unwrap() >= 1);
    drop(idle);
}
