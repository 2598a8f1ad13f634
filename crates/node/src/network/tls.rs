//! The real network: TCP with mutual TLS, nothing else.
//!
//! No slow or silent stranger can hold it up: handshakes are bounded in number and time, connections in number, and
//! whatever is refused is counted by kind.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use trust::{
    Acceptor, Arrival, Connector, Credentials, CredentialsError, Expected, HandshakeError,
    Identity, Incoming, IncomingLimits, Keeper, Policy,
};

use super::reload::{Fingerprint, ReloadError};
use super::{Caller, ConnectError, Connection, Direction, Listener, Network};
use crate::config::CredentialFiles;

/// A kind of refusal is logged at most this often; the counters have them all.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Bounds of the network, each with a default that works.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For a whole handshake. 5 s.
    pub handshake: Duration,
    /// Handshakes under way at once; at the bound the oldest gives way. 256.
    pub handshakes_max: usize,
    /// Connections that others may have open to one listener; one more is closed at once. 1,024.
    pub connections_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            handshakes_max: IncomingLimits::default().handshakes_max,
            connections_max: 1024,
        }
    }
}

/// TCP with mutual TLS.
pub struct Mutual {
    keeper: Arc<Keeper>,
    policy: Policy,
    limits: Limits,
    connector: Connector,
    files: Option<CredentialFiles>,
    seen: Mutex<Option<Fingerprint>>,
    tally: Arc<Tally>,
}

/// How often what has happened, and when it was last logged.
#[derive(Default)]
struct Tally {
    counts: Mutex<BTreeMap<(Direction, &'static str), u64>>,
    logged: Mutex<BTreeMap<(Direction, &'static str), Instant>>,
}

impl Tally {
    fn add(&self, direction: Direction, kind: &'static str) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((direction, kind)).or_default() += 1;
    }

    fn refused(&self, direction: Direction, address: &str, error: &HandshakeError) {
        let kind = error.kind();
        self.add(direction, kind);
        let now = Instant::now();
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let last = logged.get(&(direction, kind));
        if last.is_none_or(|at| now - *at >= LOG_EVERY) {
            logged.insert((direction, kind), now);
            let direction = direction.name();
            tracing::warn!(direction, address, kind, "no connection: {error}");
        }
    }
}

impl Mutual {
    /// Loads the files. They are looked at again by [`Network::reload`].
    ///
    /// # Errors
    /// If peers would refuse what is in them.
    pub fn load(
        files: CredentialFiles,
        policy: Policy,
        limits: Limits,
    ) -> Result<Self, CredentialsError> {
        let seen = Fingerprint::of(&files);
        let CredentialFiles { certificate, key, ca } = &files;
        let keeper = Keeper::new(Credentials::load(certificate, key, ca)?);
        let mut network = Self::new(keeper, policy, limits)?;
        network.files = Some(files);
        network.seen = Mutex::new(seen.ok());
        Ok(network)
    }

    /// With credentials from elsewhere; they are changed through the keeper.
    ///
    /// # Errors
    /// If the cryptography offers no TLS 1.3.
    pub fn new(
        keeper: Arc<Keeper>,
        policy: Policy,
        limits: Limits,
    ) -> Result<Self, CredentialsError> {
        let connector =
            Connector::new(&keeper, policy, limits.handshake).map_err(|error| no_tls(&error))?;
        let (seen, tally) = (Mutex::new(None), Arc::default());
        Ok(Self { keeper, policy, limits, connector, files: None, seen, tally })
    }

    /// Who this node is, as its certificate says.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.keeper.current().identity().clone()
    }

    /// When the certificate in use ends, in seconds since 1970.
    #[must_use]
    pub fn not_after(&self) -> u64 {
        self.keeper.current().not_after()
    }
}

fn no_tls(error: &HandshakeError) -> CredentialsError {
    CredentialsError::Pem { what: "key", why: error.to_string() }
}

impl Network for Mutual {
    fn connect(
        &self,
        address: &str,
        expected: Expected,
    ) -> BoxFuture<'static, Result<Connection, ConnectError>> {
        let (connector, tally) = (self.connector.clone(), Arc::clone(&self.tally));
        let address = address.to_owned();
        Box::pin(async move {
            let direction = Direction::Outbound;
            let dialed = async {
                let stream = TcpStream::connect(&address).await?;
                stream.set_nodelay(true)?;
                Ok::<_, io::Error>((stream.peer_addr()?, stream))
            };
            let (to, stream) = match dialed.await {
                Ok(dialed) => dialed,
                Err(error) => {
                    tally.add(direction, "unreachable");
                    return Err(ConnectError::Io { address, error });
                }
            };
            match connector.connect(stream, expected).await {
                Ok(secured) => {
                    tally.add(direction, "connected");
                    let caller = Caller { address: to, peer: Some(Arc::clone(secured.peer())) };
                    Ok(Connection::new(secured, caller))
                }
                Err(error) => {
                    tally.refused(direction, &address, &error);
                    Err(ConnectError::Handshake { address, error })
                }
            }
        })
    }

    fn listen(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<Listener>> {
        let (keeper, policy, limits) = (Arc::clone(&self.keeper), self.policy, self.limits);
        let tally = Arc::clone(&self.tally);
        Box::pin(async move {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            let acceptor =
                Acceptor::new(&keeper, policy, limits.handshake).map_err(io::Error::other)?;
            let bounds = IncomingLimits { handshakes_max: limits.handshakes_max };
            let incoming = Incoming::new(listener, acceptor, bounds);
            let places = Arc::new(Semaphore::new(limits.connections_max));
            let accepts = Accepts { incoming, places, tally };
            let incoming = stream::unfold(accepts, |mut accepts| async move {
                let connection = accepts.next().await;
                Some((connection, accepts))
            });
            Ok(Listener { address, incoming: Box::pin(incoming) })
        })
    }

    fn counts(&self) -> Vec<(Direction, &'static str, u64)> {
        let counts = self.tally.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|((direction, kind), count)| (*direction, *kind, *count)).collect()
    }

    fn has_files(&self) -> bool {
        self.files.is_some()
    }

    fn reload(&self) -> Result<bool, ReloadError> {
        let Some(files) = &self.files else { return Ok(false) };
        let found = Fingerprint::of(files)?;
        {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.as_ref() == Some(&found) {
                return Ok(false);
            }
        }
        let CredentialFiles { certificate, key, ca } = files;
        let credentials =
            Credentials::load(certificate, key, ca).map_err(ReloadError::Credentials)?;
        self.keeper.swap(credentials).map_err(ReloadError::Swap)?;
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        Ok(true)
    }
}

struct Accepts {
    incoming: Incoming,
    places: Arc<Semaphore>,
    tally: Arc<Tally>,
}

impl Accepts {
    async fn next(&mut self) -> Connection {
        let direction = Direction::Inbound;
        loop {
            match self.incoming.next().await {
                Arrival::Connected { from, stream } => {
                    let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
                        self.tally.add(direction, "too_many");
                        tracing::warn!(%from, "too many connections: one is closed");
                        continue;
                    };
                    self.tally.add(direction, "connected");
                    let caller = Caller { address: from, peer: Some(Arc::clone(stream.peer())) };
                    return Connection::new(*stream, caller).in_place(place);
                }
                Arrival::Failed { from, error } => {
                    self.tally.refused(direction, &from.to_string(), &error);
                }
                Arrival::Listener { error } => {
                    self.tally.add(direction, "listener");
                    tracing::warn!(%error, "a connection could not be accepted");
                }
            }
        }
    }
}

impl std::fmt::Debug for Mutual {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let files: Option<&PathBuf> = self.files.as_ref().map(|files| &files.certificate);
        f.debug_struct("Mutual").field("certificate", &files).finish_non_exhaustive()
    }
}
