//! Connections to the other members.
//!
//! One HTTP/2 connection per address and lane, made when it is first needed: a large blob or a
//! thousand waiting proposals must not stand in the way of a heartbeat. A connection can die
//! without a word (a cut cable, a simulated network that does not send again), so it is pinged
//! while idle, and it is given up and made anew when calls on it have failed for a while.

use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, ConnectError, Response, Status};

use crate::config::{Limits, Timing};
use crate::metrics::Metrics;
use crate::transport::{Connector, Transport};
use crate::wire::proto::ledger_client::LedgerClient;
use crate::wire::{NOT_SENT, not_sent, refusal_name};

pub(crate) type Client = LedgerClient<Channel>;

/// What a call is about; each has a connection of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Heartbeats, entries and votes: the group stands still without them.
    Raft,
    /// Proposals, barriers, changes, questions.
    Work,
    /// Snapshots and blobs.
    Bulk,
}

/// More addresses than a group ever has; beyond it the first one is forgotten.
const LINKS: usize = 256;

struct Link {
    channel: Channel,
    /// When the first of the failures since the last success was seen.
    failing_since: Option<Instant>,
    failures: u32,
    /// No new try before this.
    not_before: Instant,
}

pub(crate) struct Peers {
    transport: Arc<dyn Transport>,
    timing: Timing,
    limits: Limits,
    metrics: Arc<Metrics>,
    links: Mutex<BTreeMap<(Lane, String), Link>>,
    /// When a connection to an address was last refused by its machine.
    refused: Mutex<BTreeMap<String, Instant>>,
}

impl Peers {
    pub(crate) fn new(
        transport: Arc<dyn Transport>,
        timing: Timing,
        limits: Limits,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            transport,
            timing,
            limits,
            metrics,
            links: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    fn dial(&self, address: &str) -> Channel {
        // The name in the URI is not used for anything: the connector knows the address.
        let endpoint = Endpoint::from_static("http://ledger.invalid")
            .connect_timeout(self.timing.connect)
            .http2_keep_alive_interval(self.timing.keepalive)
            .keep_alive_timeout(self.timing.keepalive_timeout)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(16 << 20)
            .buffer_size(self.limits.calls_per_connection)
            .concurrency_limit(self.limits.calls_per_connection);
        let connector = Connector::new(Arc::clone(&self.transport), address.to_owned());
        endpoint.connect_with_connector_lazy(connector)
    }

    fn client(&self, lane: Lane, address: &str) -> Result<Client, Status> {
        let now = Instant::now();
        let key = (lane, address.to_owned());
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = links.get(&key)
            && now < link.not_before
        {
            return Err(not_sent(format!(
                "{address} has just failed; the next try comes in {:?}",
                link.not_before - now
            )));
        }
        let channel = match links.get(&key) {
            Some(link) => link.channel.clone(),
            None => {
                let channel = self.dial(address);
                let link = Link {
                    channel: channel.clone(),
                    failing_since: None,
                    failures: 0,
                    not_before: now,
                };
                if links.len() >= LINKS {
                    links.pop_first();
                }
                links.insert(key, link);
                channel
            }
        };
        Ok(LedgerClient::new(channel)
            .max_decoding_message_size(self.limits.message_bytes)
            .max_encoding_message_size(self.limits.message_bytes))
    }

    fn note(&self, lane: Lane, address: &str, end: End) {
        let now = Instant::now();
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(link) = links.get_mut(&(lane, address.to_owned())) else { return };
        if end == End::Answered {
            link.failing_since = None;
            link.failures = 0;
            return;
        }
        if end == End::Unreachable {
            link.failures = link.failures.saturating_add(1);
            let pause = (self.timing.heartbeat / 8) * (1 << link.failures.min(4));
            link.not_before = now + pause.min(self.timing.heartbeat);
        }
        let since = *link.failing_since.get_or_insert(now);
        if now - since >= self.timing.keepalive_timeout {
            self.metrics.redials.add(1);
            link.channel = self.dial(address);
            link.failing_since = None;
        }
    }

    fn note_refusal(&self, address: &str, status: &Status) {
        let io = causes(status).filter_map(|error| error.downcast_ref::<io::Error>());
        if io.map(io::Error::kind).any(|kind| kind == io::ErrorKind::ConnectionRefused) {
            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            if refused.len() >= LINKS && !refused.contains_key(address) {
                refused.pop_first();
            }
            refused.insert(address.to_owned(), Instant::now());
        }
    }

    /// Whether a connection to it was refused since then: its machine is there, and nobody listens.
    pub(crate) fn was_refused(&self, address: &str, since: Instant) -> bool {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get(address).is_some_and(|at| *at >= since)
    }

    /// Makes a call with a deadline. The answer is an error with a code also if the deadline
    /// passed.
    pub(crate) async fn call<T, F>(
        &self,
        lane: Lane,
        address: &str,
        within: Duration,
        make: impl FnOnce(Client) -> F + Send,
    ) -> Result<T, Status>
    where
        F: Future<Output = Result<Response<T>, Status>> + Send,
    {
        let client = self.client(lane, address)?;
        // Callers may drop this future at a deadline of their own; that is a failed call too.
        let mut guard = Guard { peers: self, lane, address, end: End::Silent };
        let result = timeout(within, make(client)).await;
        let result = match result {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) if never_connected(&status) => {
                self.note_refusal(address, &status);
                Err(not_sent(format!("cannot connect to {address}: {}", status.message())))
            }
            Ok(Err(status)) => Err(status),
            Err(_) => Err(Status::deadline_exceeded(format!(
                "no answer from {address} within {within:?}"
            ))),
        };
        guard.end = match &result {
            Ok(_) => End::Answered,
            Err(status) if refusal_name(status) == Some(NOT_SENT) => End::Unreachable,
            Err(status) if refusal_name(status).is_some() => End::Answered,
            Err(status) if status.code() == Code::Unavailable => End::Unreachable,
            Err(_) => End::Silent,
        };
        result
    }
}

/// The errors behind an error.
fn causes(status: &Status) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(status.source(), |error| (*error).source())
}

/// Whether there was no connection to send anything on. Told by the type of the error, not by its
/// text.
fn never_connected(status: &Status) -> bool {
    causes(status).any(|error| error.is::<ConnectError>())
}

/// How a call ended. One that was answered, by whatever answer, shows that the connection lives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Answered,
    Silent,
    Unreachable,
}

struct Guard<'a> {
    peers: &'a Peers,
    lane: Lane,
    address: &'a str,
    end: End,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.peers.note(self.lane, self.address, self.end);
    }
}
