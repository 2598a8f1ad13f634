//! Mutual TLS between nodes: TLS 1.3 only, HTTP/2 by ALPN, a deadline on every handshake.
//!
//! Sessions are never resumed and early data is never taken: a resumed session would skip the look
//! at the certificate, and with it its dates and its role. A handshake costs two Ed25519
//! signatures; connections live for hours.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::client::{ResolvesClientCert, Resumption};
use rustls::server::{NoServerSessionStorage, ResolvesServerCert};
use rustls::{ClientConfig, ServerConfig};
use rustls_pki_types::{CertificateDer, ServerName};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use crate::admit::{Expected, Policy, Refusal};
use crate::credentials::{Keeper, not_after_of};
use crate::identity::Identity;
use crate::verify::{VerifyInitiator, VerifyTarget, refusal_of};

const ALPN: &[u8] = b"h2";

/// After a refusal the socket stays open this long, or until the peer closes, so that our alert
/// arrives: closing a socket with unread bytes resets the connection, and the alert with it.
const LINGER: Duration = Duration::from_millis(250);
const LINGER_BYTES_MAX: u64 = 64 * 1024;

/// Who is at the other end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub identity: Identity,
    /// When its certificate ends, in seconds since 1970. The connection outlives it unless the
    /// owner closes it.
    pub not_after: u64,
    /// SHA-256 of its certificate.
    pub fingerprint: [u8; 32],
}

impl Peer {
    fn read(certificates: Option<&[CertificateDer<'_>]>) -> Result<Self, HandshakeError> {
        let leaf = certificates
            .and_then(<[_]>::first)
            .ok_or(HandshakeError::Refused(Refusal::NoCertificate))?;
        let identity = Identity::from_certificate(leaf)
            .map_err(|why| HandshakeError::Refused(Refusal::Identity(why)))?;
        Ok(Self {
            identity,
            not_after: not_after_of(leaf),
            fingerprint: Sha256::digest(leaf).into(),
        })
    }
}

/// How a handshake ended without a connection.
#[derive(Debug)]
pub enum HandshakeError {
    /// We refused the peer.
    Refused(Refusal),
    /// The peer refused us; it knows why, we see its alert. With TLS 1.3 an initiator often sees
    /// this only at its first read: see [`refused_by_peer`].
    RefusedByPeer {
        alert: String,
    },
    TimedOut {
        after: Duration,
    },
    /// Made to leave because too many handshakes were under way and this was the oldest.
    Evicted,
    /// Not TLS 1.3, not HTTP/2, or not TLS at all.
    Protocol {
        why: String,
    },
    Io(io::Error),
}

impl HandshakeError {
    /// A short name for metrics; the set is fixed.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.kind(),
            Self::RefusedByPeer { .. } => "refused_by_peer",
            Self::TimedOut { .. } => "timed_out",
            Self::Evicted => "evicted",
            Self::Protocol { .. } => "protocol",
            Self::Io(_) => "io",
        }
    }

    fn from_io(error: io::Error) -> Self {
        if let Some(alert) = refused_by_peer(&error) {
            return Self::RefusedByPeer { alert };
        }
        match tls_error(&error) {
            Some(
                tls @ (rustls::Error::InvalidCertificate(_)
                | rustls::Error::NoCertificatesPresented),
            ) => Self::Refused(refusal_of(tls)),
            Some(tls) => Self::Protocol { why: tls.to_string() },
            None => Self::Io(error),
        }
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::RefusedByPeer { alert } => write!(
                f,
                "the peer refused this node's certificate (TLS alert {alert}); its log says why"
            ),
            Self::TimedOut { after } => write!(f, "no TLS handshake within {after:?}"),
            Self::Evicted => f.write_str(
                "the handshake was the oldest of too many at once and made room for a newer one",
            ),
            Self::Protocol { why } if why.contains("InvalidContentType") => f.write_str(
                "whatever listens there does not speak TLS: is it another program, an HTTP server for example? Is the \
                 port a manager's?",
            ),
            Self::Protocol { why } => {
                write!(f, "the peer does not speak TLS 1.3 with HTTP/2: {why}")
            }
            Self::Io(error) => write!(f, "the connection broke during the TLS handshake: {error}"),
        }
    }
}

impl std::error::Error for HandshakeError {}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())
}

/// The alert in an error of a read or a write, if the peer has refused us after all.
#[must_use]
pub fn refused_by_peer(error: &io::Error) -> Option<String> {
    match tls_error(error) {
        Some(rustls::Error::AlertReceived(alert)) => Some(format!("{alert:?}")),
        _ => None,
    }
}

/// A verified stream with the identity of its other end.
#[derive(Debug)]
pub struct Secured<IO> {
    peer: Arc<Peer>,
    stream: TlsStream<IO>,
}

impl<IO> Secured<IO> {
    #[must_use]
    pub fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// The stream underneath, for socket options.
    #[must_use]
    pub fn get_ref(&self) -> &IO {
        self.stream.get_ref().0
    }

    fn new(stream: TlsStream<IO>) -> Result<Self, HandshakeError> {
        let (_, session) = stream.get_ref();
        if session.alpn_protocol() != Some(ALPN) {
            return Err(HandshakeError::Protocol { why: "HTTP/2 was not offered by ALPN".into() });
        }
        let peer = Arc::new(Peer::read(session.peer_certificates())?);
        Ok(Self { peer, stream })
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for Secured<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Secured<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The answering end.
#[derive(Clone)]
pub struct Acceptor {
    tls: TlsAcceptor,
    deadline: Duration,
}

impl Acceptor {
    /// `deadline` is for the whole handshake.
    ///
    /// # Errors
    /// If the cryptography offers no TLS 1.3.
    pub fn new(
        keeper: &Arc<Keeper>,
        policy: Policy,
        deadline: Duration,
    ) -> Result<Self, HandshakeError> {
        let provider = Arc::clone(&keeper.current().provider);
        let verifier = Arc::new(VerifyInitiator { keeper: Arc::clone(keeper), policy });
        let resolver: Arc<dyn ResolvesServerCert> = Arc::clone(keeper) as _;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| HandshakeError::Protocol { why: error.to_string() })?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { tls: TlsAcceptor::from(Arc::new(config)), deadline })
    }

    /// Does the handshake on a connection that was opened to us. Run it in a task of its own: see
    /// [`crate::Incoming`].
    ///
    /// # Errors
    /// If the peer is refused, is too slow, or does not speak our protocol.
    pub async fn accept<IO>(&self, io: IO) -> Result<Secured<IO>, HandshakeError>
    where
        IO: AsyncRead + AsyncWrite + Unpin,
    {
        let handshake = self.tls.accept(io).into_fallible();
        match timeout(self.deadline, handshake).await {
            Err(_) => Err(HandshakeError::TimedOut { after: self.deadline }),
            Ok(Ok(stream)) => Secured::new(TlsStream::Server(stream)),
            Ok(Err((error, io))) => {
                let error = HandshakeError::from_io(error);
                if matches!(error, HandshakeError::Refused(_)) {
                    linger(io).await;
                }
                Err(error)
            }
        }
    }
}

/// Lets our alert arrive before the socket closes.
async fn linger<IO: AsyncRead + AsyncWrite + Unpin>(mut io: IO) {
    let drained = async {
        if io.shutdown().await.is_ok() {
            let _ = tokio::io::copy(&mut io.take(LINGER_BYTES_MAX), &mut tokio::io::sink()).await;
        }
    };
    let _ = timeout(LINGER, drained).await;
}

/// The opening end.
#[derive(Clone)]
pub struct Connector {
    config: Arc<ClientConfig>,
    keeper: Arc<Keeper>,
    policy: Policy,
    deadline: Duration,
}

impl Connector {
    /// `policy.expected` is replaced at each connection.
    ///
    /// # Errors
    /// If the cryptography offers no TLS 1.3.
    pub fn new(
        keeper: &Arc<Keeper>,
        policy: Policy,
        deadline: Duration,
    ) -> Result<Self, HandshakeError> {
        let provider = Arc::clone(&keeper.current().provider);
        let verifier = Arc::new(VerifyTarget { keeper: Arc::clone(keeper), policy });
        let resolver: Arc<dyn ResolvesClientCert> = Arc::clone(keeper) as _;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| HandshakeError::Protocol { why: error.to_string() })?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(resolver);
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(Self { config: Arc::new(config), keeper: Arc::clone(keeper), policy, deadline })
    }

    /// Does the handshake on a connection that we opened, and makes sure that `expected` answers
    /// it.
    ///
    /// # Errors
    /// If the peer is refused, is too slow, or does not speak our protocol. That the *peer* refuses
    /// *us* may show only at the first read.
    pub async fn connect<IO>(
        &self,
        io: IO,
        expected: Expected,
    ) -> Result<Secured<IO>, HandshakeError>
    where
        IO: AsyncRead + AsyncWrite + Unpin,
    {
        let mut config = ClientConfig::clone(&self.config);
        let policy = Policy { expected: Some(expected), ..self.policy };
        let verifier = VerifyTarget { keeper: Arc::clone(&self.keeper), policy };
        config.dangerous().set_certificate_verifier(Arc::new(verifier));
        // The name is not sent and not compared; peers are known by the identity in their
        // certificate.
        let name = ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let handshake = TlsConnector::from(Arc::new(config)).connect(name, io);
        match timeout(self.deadline, handshake).await {
            Err(_) => Err(HandshakeError::TimedOut { after: self.deadline }),
            Ok(Ok(stream)) => Secured::new(TlsStream::Client(stream)),
            Ok(Err(error)) => Err(HandshakeError::from_io(error)),
        }
    }
}
