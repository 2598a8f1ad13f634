//! The real network: TCP with mutual TLS, nothing else.
//!
//! No slow or silent stranger can hold it up: handshakes are bounded in number and time,
//! connections in number, and whatever is refused is counted by kind.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use trust::{
    Acceptor, Arrival, Connector, Credentials, CredentialsError, Expected, HandshakeError,
    Identity, Incoming, IncomingLimits, Keeper, Policy,
};

use super::reload::{Fingerprint, ReloadError};
use super::{Caller, ConnectError, Connection, Direction, Listener, Network, Places};
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
    /// Connections that others may have open to one listener, shared out as [`super::Places`] says;
    /// one more is closed at once. 1,024.
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

type Kind = (Direction, &'static str);

/// How often what has happened, and what of it was logged.
#[derive(Default)]
struct Tally {
    counts: Mutex<BTreeMap<Kind, u64>>,
    /// When a kind was last logged, and how many have come since that were not.
    logged: Mutex<BTreeMap<Kind, (Instant, u64)>>,
}

impl Tally {
    fn add(&self, direction: Direction, kind: &'static str) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((direction, kind)).or_default() += 1;
    }

    /// Counts it, and says whether it is to be logged, with how many of its kind were not.
    fn note(&self, direction: Direction, kind: &'static str, now: Instant) -> Option<u64> {
        self.add(direction, kind);
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        match logged.get_mut(&(direction, kind)) {
            Some((at, silent)) if now - *at < LOG_EVERY => {
                *silent += 1;
                None
            }
            known => {
                let silent = known.map_or(0, |(_, silent)| *silent);
                logged.insert((direction, kind), (now, 0));
                Some(silent)
            }
        }
    }

    fn refused(
        &self,
        direction: Direction,
        address: &str,
        kind: &'static str,
        why: &dyn std::fmt::Display,
    ) {
        if let Some(others) = self.note(direction, kind, Instant::now()) {
            let direction = direction.name();
            tracing::warn!(direction, address, kind, others, "no connection: {why}");
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
                    tally.refused(direction, &address, error.kind(), &error);
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
            let places = Places::new(limits.connections_max);
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

    fn refused(&self, kind: &'static str, caller: &Caller, why: &str) {
        self.tally.refused(Direction::Inbound, &caller.address.to_string(), kind, &why);
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
    places: Arc<Places>,
    tally: Arc<Tally>,
}

impl Accepts {
    async fn next(&mut self) -> Connection {
        let direction = Direction::Inbound;
        loop {
            match self.incoming.next().await {
                Arrival::Connected { from, stream } => {
                    let who = &stream.peer().identity;
                    let place = match self.places.take(who) {
                        Ok(place) => place,
                        Err(none) => {
                            let why = format!("{} {} has no place", who.role, who.node);
                            self.tally.refused(direction, &from.to_string(), none.kind(), &why);
                            continue;
                        }
                    };
                    self.tally.add(direction, "connected");
                    let caller = Caller { address: from, peer: Some(Arc::clone(stream.peer())) };
                    return Connection::new(*stream, caller).in_place(place);
                }
                Arrival::Failed { from, error } => {
                    self.tally.refused(direction, &from.to_string(), error.kind(), &error);
                }
                Arrival::Listener { error } => {
                    self.tally.refused(direction, "", "listener", &error);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A storm of refusals is one line now and then, which says how many it stands for; all of them
    /// are counted.
    #[test]
    fn refusals_are_logged_now_and_then_with_their_number() {
        let tally = Tally::default();
        let start = Instant::now();
        let note =
            |ms: u64| tally.note(Direction::Inbound, "too_many", start + Duration::from_millis(ms));
        assert_eq!(note(0), Some(0));
        assert!((1..3_000).all(|ms| note(ms).is_none()));
        assert_eq!(note(10_000), Some(2_999));
        assert_eq!(tally.note(Direction::Inbound, "other", start), Some(0), "each kind by itself");
        let counts = tally.counts.lock().unwrap();
        assert_eq!(counts[&(Direction::Inbound, "too_many")], 3_001);
    }
}
