//! The same door, tried with a tool that nobody here wrote: `openssl s_client`.
//!
//! It does not look at our identities, so what is refused here is refused by the server alone.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::*;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use trust::{Arrival, HandshakeError, IncomingLimits, Issued, Keeper, Policy, Role};

struct Stranger<'a> {
    certificate: Option<&'a Issued>,
    trusted: &'a Path,
    extra: &'a [&'a str],
}

/// What the server saw, and what s_client printed.
async fn visit(server: &std::sync::Arc<Keeper>, stranger: Stranger<'_>) -> (Arrival, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut incoming = listen(server, Policy::default(), IncomingLimits::default()).await;
    let to = incoming.local_address().unwrap().to_string();
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &to, "-verify_return_error", "-quiet", "-CAfile"]);
    command.arg(stranger.trusted).args(stranger.extra);
    if let Some(issued) = stranger.certificate {
        let files = issued.write(folder.path()).unwrap();
        command.arg("-cert").arg(files.certificate).arg("-key").arg(files.key);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let child = command.spawn().expect("openssl is installed");
    let answering = async {
        let mut arrival = incoming.next().await;
        if let Arrival::Connected { stream, .. } = &mut arrival {
            stream.write_all(b"welcome\n").await.unwrap();
            stream.shutdown().await.unwrap();
        }
        arrival
    };
    // The tool may fail before it connects; then its words are the ones to read.
    let answering = tokio::time::timeout(DEADLINE * 2, answering);
    let (arrival, output) = tokio::join!(answering, child.wait_with_output());
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (arrival.unwrap_or_else(|_| panic!("nobody came: {text}")), text)
}

fn ca_file(authority: &Authority) -> PathBuf {
    authority.folder.path().join("ca.pem")
}

/// R22, CORE-123: a foreign implementation with the right certificate gets in and is known.
#[tokio::test]
async fn openssl_with_a_certificate_is_welcome() {
    let authority = Authority::new("prod", "live");
    let issued = authority.issue(Role::Worker, 2);
    let stranger = Stranger {
        certificate: Some(&issued),
        trusted: &ca_file(&authority),
        extra: &["-alpn", "h2"],
    };
    let (arrival, text) = visit(&authority.keeper(Role::Manager, 1), stranger).await;
    let Arrival::Connected { stream, .. } = arrival else { panic!("{arrival:?} {text}") };
    assert_eq!(stream.peer().identity, issued.identity);
    assert!(text.contains("welcome"), "{text}");
}

/// CORE-122 .. 124: every refusal, named by the server; the stranger sees an alert and no names.
#[tokio::test]
async fn openssl_is_refused_by_name() {
    let authority = Authority::new("prod", "live");
    let other = Authority::new("prod", "live");
    let staging = Authority::new("staging", "live");
    let testing = Authority::new("prod", "test");
    let trusted = [&authority, &staging, &testing].map(|a| a.ca.certificate()).concat();
    let server = keeper(&authority.issue(Role::Gate, 1), &trusted, now());
    let expired = {
        let validity = trust::Validity { not_before: now() - 1000, not_after: now() - 10 };
        authority.ca.issue(Role::Manager, "fra", fence::NodeId(2), validity).unwrap()
    };
    let cases = [
        ("no_certificate", None),
        ("unknown_authority", Some(other.issue(Role::Manager, 2))),
        ("expired", Some(expired)),
        ("cluster", Some(staging.issue(Role::Manager, 2))),
        ("environment", Some(testing.issue(Role::Manager, 2))),
        ("role", Some(authority.issue(Role::Worker, 2))),
    ];
    for (kind, certificate) in &cases {
        let stranger = Stranger {
            certificate: certificate.as_ref(),
            trusted: &ca_file(&authority),
            extra: &["-alpn", "h2"],
        };
        let (arrival, text) = visit(&server, stranger).await;
        assert_eq!(refused(arrival), *kind);
        assert!(text.contains("alert"), "{kind}: {text}");
        assert!(!text.contains("welcome"), "{kind}: {text}");
    }
}

/// R22: TLS 1.2, and TLS without HTTP/2, are refused.
#[tokio::test]
async fn openssl_must_speak_our_protocol() {
    let authority = Authority::new("prod", "live");
    let (server, issued) = (authority.keeper(Role::Manager, 1), authority.issue(Role::Worker, 2));
    for extra in [&["-alpn", "h2", "-tls1_2"][..], &["-alpn", "http/1.1"], &[]] {
        let stranger =
            Stranger { certificate: Some(&issued), trusted: &ca_file(&authority), extra };
        let (arrival, text) = visit(&server, stranger).await;
        let Arrival::Failed { error, .. } = arrival else { panic!("{extra:?}: {arrival:?}") };
        assert!(matches!(error, HandshakeError::Protocol { .. }), "{extra:?}: {error}");
        assert!(!text.contains("welcome"), "{extra:?}: {text}");
    }
}
