//! Peers that do not play by the rules: a stolen certificate without its key, and a client that
//! wants to resume.
//!
//! They are built on rustls directly, with every check of their own switched off.

use std::sync::Arc;

use crate::common::*;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, HandshakeKind, ServerConfig, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use trust::{Arrival, IncomingLimits, Policy, Role};

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Shows one certificate and signs with whatever key it has.
#[derive(Debug)]
struct Impostor(Arc<CertifiedKey>);

impl Impostor {
    fn new(certificate: &str, key: &str) -> Arc<Self> {
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let key = provider().key_provider.load_private_key(key).unwrap();
        Arc::new(Self(Arc::new(CertifiedKey::new(chain, key))))
    }
}

impl ResolvesClientCert for Impostor {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl ResolvesServerCert for Impostor {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// Believes everybody.
#[derive(Debug)]
struct Gullible;

impl ServerCertVerifier for Gullible {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

fn client(impostor: &Arc<Impostor>) -> Arc<ClientConfig> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Gullible))
        .with_client_cert_resolver(Arc::clone(impostor) as _);
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.resumption = Resumption::in_memory_sessions(16);
    Arc::new(config)
}

fn name() -> ServerName<'static> {
    ServerName::try_from("manager.test").unwrap()
}

/// R22: certificates are public; only the key proves who is there. Asked of the initiator.
#[tokio::test]
async fn a_client_with_a_stolen_certificate_is_refused() {
    let authority = Authority::new("prod", "live");
    let (victim, own) = (authority.issue(Role::Worker, 2), authority.issue(Role::Worker, 3));
    let impostor = Impostor::new(&victim.certificate, &own.key);
    let server = authority.keeper(Role::Manager, 1);
    let mut incoming = listen(&server, Policy::default(), IncomingLimits::default()).await;
    let stream = TcpStream::connect(incoming.local_address().unwrap()).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(client(&impostor));
    let (arrival, _) = tokio::join!(incoming.next(), connector.connect(name(), stream));
    assert_eq!(refused(arrival), "bad_signature");
}

/// R22: the same, asked of the target.
#[tokio::test]
async fn a_server_with_a_stolen_certificate_is_refused() {
    let authority = Authority::new("prod", "live");
    let (victim, own) = (authority.issue(Role::Manager, 1), authority.issue(Role::Manager, 3));
    let impostor = Impostor::new(&victim.certificate, &own.key);
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(impostor);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let serving = async {
        let (stream, _) = listener.accept().await.unwrap();
        acceptor.accept(stream).await.map(|_| ())
    };
    let client = authority.keeper(Role::Worker, 2);
    let (_, opened) =
        tokio::join!(serving, dial(&client, Policy::default(), to, any(Role::Manager)));
    assert_eq!(opened.unwrap_err().kind(), "bad_signature");
}

/// R22: a resumed session would skip the look at the certificate, so there is none.
#[tokio::test]
async fn sessions_are_never_resumed() {
    let authority = Authority::new("prod", "live");
    let issued = authority.issue(Role::Worker, 2);
    let config = client(&Impostor::new(&issued.certificate, &issued.key));
    let server = authority.keeper(Role::Manager, 1);
    let mut incoming = listen(&server, Policy::default(), IncomingLimits::default()).await;
    let to = incoming.local_address().unwrap();
    for _ in 0..3 {
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(&config));
        let stream = TcpStream::connect(to).await.unwrap();
        let (arrival, opened) = tokio::join!(incoming.next(), connector.connect(name(), stream));
        let Arrival::Connected { mut stream, .. } = arrival else { panic!("{arrival:?}") };
        let mut opened = opened.unwrap();
        // Tickets would come with the first bytes.
        stream.write_all(b"x").await.unwrap();
        stream.flush().await.unwrap();
        opened.read_exact(&mut [0; 1]).await.unwrap();
        assert_eq!(opened.get_ref().1.handshake_kind(), Some(HandshakeKind::Full));
        assert_eq!(opened.get_ref().1.tls13_tickets_received(), 0);
    }
}
