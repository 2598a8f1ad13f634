//! Mutual TLS on real sockets: who is let in, and by which name the rest is refused.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use fence::NodeId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use trust::{
    Arrival, Expected, Gates, HandshakeError, IncomingLimits, Keeper, Policy, Refusal, Role,
    Validity, refused_by_peer,
};

/// Both ends at once: what the server saw, and what the client saw up to its first read.
async fn meet(server: &Arc<Keeper>, client: &Arc<Keeper>, policy: Policy) -> (Arrival, String) {
    let mut incoming = listen(server, policy, IncomingLimits::default()).await;
    let to = incoming.local_address().unwrap();
    let expected = any(server.current().identity().role);
    let opening = async {
        match dial(client, policy, to, expected).await {
            Err(error) => error.kind().to_owned(),
            Ok(mut stream) => match stream.read(&mut [0; 1]).await {
                Ok(read) => format!("read {read}"),
                Err(error) => match refused_by_peer(&error) {
                    Some(_) => "refused_by_peer".to_owned(),
                    None => format!("{:?}", error.kind()),
                },
            },
        }
    };
    let answering = async {
        let mut arrival = incoming.next().await;
        if let Arrival::Connected { stream, .. } = &mut arrival {
            stream.write_all(b"x").await.unwrap();
            stream.flush().await.unwrap();
        }
        arrival
    };
    tokio::join!(answering, opening)
}

/// CORE-123, R22
#[tokio::test]
async fn the_right_peer_is_accepted_and_known_on_both_sides() {
    let authority = Authority::new("prod", "live");
    let (server, client) = (authority.keeper(Role::Manager, 1), authority.keeper(Role::Worker, 2));
    let mut incoming = listen(&server, Policy::default(), IncomingLimits::default()).await;
    let to = incoming.local_address().unwrap();
    let expected = Expected { role: Role::Manager, node: Some(NodeId(1)) };
    let (arrival, opened) =
        tokio::join!(incoming.next(), dial(&client, Policy::default(), to, expected));
    let mut opened = opened.unwrap();
    let Arrival::Connected { mut stream, from } = arrival else { panic!("{arrival:?}") };

    assert_eq!(&stream.peer().identity, client.current().identity());
    assert_eq!(&opened.peer().identity, server.current().identity());
    assert_eq!(opened.peer().not_after, server.current().not_after());
    assert_eq!(from, opened.get_ref().local_addr().unwrap());
    opened.write_all(b"ping").await.unwrap();
    opened.flush().await.unwrap();
    let mut buffer = [0; 4];
    stream.read_exact(&mut buffer).await.unwrap();
    assert_eq!(&buffer, b"ping");
}

/// CORE-122: another CA, on either side.
#[tokio::test]
async fn another_authority_is_refused_on_the_side_that_does_not_trust_it() {
    let (ours, theirs) = (Authority::new("prod", "live"), Authority::new("prod", "live"));
    let server = ours.keeper(Role::Manager, 1);
    // This client trusts our CA too, so only the server can refuse.
    let both = format!("{}{}", ours.ca.certificate(), theirs.ca.certificate());
    let stranger = keeper(&theirs.issue(Role::Worker, 2), &both, now());
    let (arrival, seen) = meet(&server, &stranger, Policy::default()).await;
    assert_eq!(refused(arrival), "unknown_authority");
    assert_eq!(seen, "refused_by_peer");

    // This one does not, and refuses first; the server sees its alert.
    let (arrival, seen) = meet(&server, &theirs.keeper(Role::Worker, 2), Policy::default()).await;
    assert_eq!(seen, "unknown_authority");
    let Arrival::Failed { error, .. } = arrival else { panic!("{arrival:?}") };
    assert_eq!(error.kind(), "refused_by_peer");
}

/// CORE-122: expired, and not valid yet; the peer's clock may be wrong, ours decides for us.
#[tokio::test]
async fn certificates_outside_their_time_are_refused() {
    let authority = Authority::new("prod", "live");
    let (ca, trusted) = (&authority.ca, authority.ca.certificate());
    let (server, client) = (authority.keeper(Role::Manager, 1), authority.keeper(Role::Worker, 2));
    let past = Validity { not_before: now() - 1000, not_after: now() - 10 };
    let future = Validity { not_before: now() + 1000, not_after: now() + 2000 };
    for (validity, kind) in [(past, "expired"), (future, "not_yet_valid")] {
        let issue = |role, node| {
            let issued = ca.issue(role, "fra", NodeId(node), validity).unwrap();
            keeper(&issued, trusted, validity.not_before + 1)
        };
        let (arrival, seen) = meet(&server, &issue(Role::Worker, 2), Policy::default()).await;
        assert_eq!((refused(arrival).as_str(), seen.as_str()), (kind, "refused_by_peer"));
        let (arrival, seen) = meet(&issue(Role::Manager, 1), &client, Policy::default()).await;
        assert_eq!(seen, kind);
        let Arrival::Failed { error, .. } = arrival else { panic!("{arrival:?}") };
        assert_eq!(error.kind(), "refused_by_peer");
    }
}

/// CORE-122: one company CA may serve many clusters; they stay apart.
#[tokio::test]
async fn other_clusters_and_environments_are_refused_even_under_a_trusted_ca() {
    let ours = Authority::new("prod", "live");
    let server = ours.keeper(Role::Manager, 1);
    for (cluster, environment, kind) in [
        ("staging", "live", "cluster"),
        ("prod", "test", "environment"),
        ("staging", "test", "cluster"),
    ] {
        let theirs = Authority::new(cluster, environment);
        let both = format!("{}{}", ours.ca.certificate(), theirs.ca.certificate());
        let server = keeper(&ours.issue(Role::Manager, 1), &both, now());
        let client = keeper(&theirs.issue(Role::Worker, 2), &both, now());
        // The initiator looks first, and names its own cluster as ours.
        let (arrival, seen) = meet(&server, &client, Policy::default()).await;
        assert_eq!(seen, kind);
        let Arrival::Failed { error, .. } = arrival else { panic!("{arrival:?}") };
        assert_eq!(error.kind(), "refused_by_peer");
        // A client that does not look is refused by the server: see the test with another tool.
    }
    // A worker of the same cluster is welcome, so the server was not simply deaf.
    let (arrival, seen) = meet(&server, &ours.keeper(Role::Worker, 2), Policy::default()).await;
    assert!(matches!(arrival, Arrival::Connected { .. }), "{arrival:?}");
    assert_eq!(seen, "read 1");
}

/// CORE-124: all pairs on sockets, with and without gates.
#[tokio::test]
async fn the_role_matrix_holds_on_sockets() {
    let authority = Authority::new("prod", "live");
    for gates in [Gates::Configured, Gates::None] {
        let policy = Policy { gates, expected: None };
        for initiator in Role::ALL {
            for target in Role::ALL {
                let server = authority.keeper(target, 1);
                let client = authority.keeper(initiator, 2);
                let (arrival, seen) = meet(&server, &client, policy).await;
                if initiator.may_open(target, gates == Gates::Configured) {
                    assert!(matches!(arrival, Arrival::Connected { .. }), "{initiator} {target}");
                    assert_eq!(seen, "read 1");
                } else {
                    assert!(matches!(arrival, Arrival::Failed { .. }), "{initiator} {target}");
                    assert_eq!(seen, "role");
                }
            }
        }
    }
}

/// CORE-124: the target does not rely on the initiator's own check.
#[tokio::test]
async fn a_target_refuses_a_client_that_believes_there_are_no_gates() {
    let authority = Authority::new("prod", "live");
    let (server, client) = (authority.keeper(Role::Manager, 1), authority.keeper(Role::Client, 2));
    let mut incoming = listen(&server, Policy::default(), IncomingLimits::default()).await;
    let to = incoming.local_address().unwrap();
    let lenient = Policy { gates: Gates::None, expected: None };
    let (arrival, opened) =
        tokio::join!(incoming.next(), dial(&client, lenient, to, any(Role::Manager)));
    let expected = Refusal::Role { initiator: Role::Client, target: Role::Manager };
    match arrival {
        Arrival::Failed { error: HandshakeError::Refused(refusal), .. } => {
            assert_eq!(refusal, expected);
            assert!(refusal.to_string().contains("where gates are configured"));
        }
        other => panic!("{other:?}"),
    }
    let error = opened.unwrap().read(&mut [0; 1]).await.unwrap_err();
    assert!(refused_by_peer(&error).is_some(), "{error}");
}

/// CORE-121: an address that belongs to another node now is noticed before anything is sent.
#[tokio::test]
async fn another_node_at_the_address_is_refused() {
    let authority = Authority::new("prod", "live");
    let (server, client) = (authority.keeper(Role::Manager, 1), authority.keeper(Role::Worker, 2));
    let mut incoming = listen(&server, Policy::default(), IncomingLimits::default()).await;
    let to = incoming.local_address().unwrap();
    let expected = Expected { role: Role::Manager, node: Some(NodeId(9)) };
    let (_, opened) = tokio::join!(incoming.next(), dial(&client, Policy::default(), to, expected));
    assert_eq!(opened.unwrap_err().kind(), "receiver");
}

/// R22: rotation. New handshakes see the new certificate, old connections go on, and so does a
/// change of CA.
#[tokio::test]
async fn a_certificate_is_swapped_under_a_live_server() {
    let old = Authority::new("prod", "live");
    let new = Authority::new("prod", "live");
    let both = format!("{}{}", old.ca.certificate(), new.ca.certificate());
    let server = keeper(&old.issue(Role::Manager, 1), &both, now());
    let client = keeper(&old.issue(Role::Worker, 2), &both, now());
    let mut incoming = listen(&server, Policy::default(), IncomingLimits::default()).await;
    let to = incoming.local_address().unwrap();

    let (arrival, first) =
        tokio::join!(incoming.next(), dial(&client, Policy::default(), to, any(Role::Manager)));
    let mut first = first.unwrap();
    let Arrival::Connected { stream: mut kept, .. } = arrival else { panic!("{arrival:?}") };

    // Server and client move to the new CA, one after the other, and end by trusting only that.
    let only_new = new.ca.certificate();
    server.swap(credentials(&new.issue(Role::Manager, 1), &both, now())).unwrap();
    client.swap(credentials(&new.issue(Role::Worker, 2), &both, now())).unwrap();
    server.swap(credentials(&new.issue(Role::Manager, 1), only_new, now())).unwrap();
    let (arrival, second) =
        tokio::join!(incoming.next(), dial(&client, Policy::default(), to, any(Role::Manager)));
    let second = second.unwrap();
    assert!(matches!(arrival, Arrival::Connected { .. }));
    assert_ne!(first.peer().fingerprint, second.peer().fingerprint);
    assert_eq!(first.peer().identity, second.peer().identity);

    first.write_all(b"still here").await.unwrap();
    first.flush().await.unwrap();
    let mut buffer = [0; 10];
    kept.read_exact(&mut buffer).await.unwrap();
    assert_eq!(&buffer, b"still here");

    // Who stayed with the old CA is a stranger now.
    let late = keeper(&old.issue(Role::Worker, 3), &both, now());
    let (arrival, _) =
        tokio::join!(incoming.next(), dial(&late, Policy::default(), to, any(Role::Manager)));
    assert_eq!(refused(arrival), "unknown_authority");
}

/// R10, spike 1: forty silent connections from one address, which has four of the sixteen places:
/// an honest peer comes in at once, and whoever comes from elsewhere keeps its place.
#[tokio::test]
async fn a_slow_handshake_does_not_stop_others() {
    let authority = Authority::new("prod", "live");
    let (server, client) = (authority.keeper(Role::Manager, 1), authority.keeper(Role::Worker, 2));
    let mut incoming =
        listen(&server, Policy::default(), IncomingLimits { handshakes_max: 16 }).await;
    let to = incoming.local_address().unwrap();
    let elsewhere = tokio::net::TcpSocket::new_v4().unwrap();
    elsewhere.bind(([127, 0, 0, 2], 0).into()).unwrap();
    let mut elsewhere = elsewhere.connect(to).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(to).await.unwrap();
        // The first bytes of a handshake, and then nothing.
        stream.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
        silent.push(stream);
    }
    let begun = Instant::now();
    let (evicted, opened) = tokio::join!(
        async {
            let mut evicted = 0;
            loop {
                match incoming.next().await {
                    Arrival::Connected { stream, .. } => break (evicted, stream),
                    Arrival::Failed { error: HandshakeError::Evicted, .. } => evicted += 1,
                    other => panic!("{other:?}"),
                }
            }
        },
        dial(&client, Policy::default(), to, any(Role::Manager)),
    );
    opened.unwrap();
    assert!(begun.elapsed() < DEADLINE / 2, "took {:?}", begun.elapsed());
    assert_eq!(evicted.0, 37, "forty-one handshakes, four places");
    let still_there = timeout(Duration::from_millis(50), elsewhere.read(&mut [0; 1])).await;
    assert!(still_there.is_err(), "{still_there:?}");
    // Those that gave way are closed, so the bound is one on sockets too.
    for stream in &mut silent[..36] {
        let read = timeout(DEADLINE / 2, stream.read(&mut [0; 1])).await.expect("is closed");
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
}

/// R10: a peer that sends nothing is given up at the deadline, on both sides.
#[tokio::test]
async fn a_handshake_has_a_deadline() {
    let authority = Authority::new("prod", "live");
    let short = Duration::from_millis(50);
    let server = authority.keeper(Role::Manager, 1);
    let (near, _far) = tokio::io::duplex(1024);
    let acceptor = trust::Acceptor::new(&server, Policy::default(), short).unwrap();
    assert_eq!(acceptor.accept(near).await.unwrap_err().kind(), "timed_out");
    let (near, _far) = tokio::io::duplex(64 * 1024);
    let connector = trust::Connector::new(&server, Policy::default(), short).unwrap();
    let error = connector.connect(near, any(Role::Manager)).await.unwrap_err();
    assert_eq!(error.kind(), "timed_out");
}

/// Not TLS at all: refused as such, and the listener goes on.
#[tokio::test]
async fn rubbish_is_refused_and_the_listener_lives_on() {
    let authority = Authority::new("prod", "live");
    let (server, client) = (authority.keeper(Role::Manager, 1), authority.keeper(Role::Worker, 2));
    let mut incoming = listen(&server, Policy::default(), IncomingLimits::default()).await;
    let to = incoming.local_address().unwrap();
    for rubbish in
        [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], b"GET / HTTP/1.1\r\n\r\n", &[0xff; 600]]
    {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all(rubbish).await.unwrap();
        let arrival = timeout(DEADLINE, incoming.next()).await.unwrap();
        let Arrival::Failed { error, .. } = arrival else { panic!("{arrival:?}") };
        assert_eq!(error.kind(), "protocol");
    }
    drop(TcpStream::connect(to).await.unwrap());
    let arrival = timeout(DEADLINE, incoming.next()).await.unwrap();
    let Arrival::Failed { error, .. } = arrival else { panic!("{arrival:?}") };
    assert_eq!(error.kind(), "io");
    let (arrival, _) =
        tokio::join!(incoming.next(), dial(&client, Policy::default(), to, any(Role::Manager)));
    assert!(matches!(arrival, Arrival::Connected { .. }));
}
