//! One gRPC channel per peer: made when first needed, pinged while idle, made anew when it breaks,
//! with growing pauses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout};
use tonic::transport::{Channel, Endpoint, Uri};
use trust::Expected;

use super::{ConnectError, Connection, Network};

/// More peers than one node talks to at a time; beyond it the one that was not used for longest is
/// forgotten.
const CHANNELS_MAX: usize = 256;

/// Times of a channel.
#[derive(Clone, Copy, Debug)]
pub struct ChannelTiming {
    /// For making a connection, handshake included. 2 s.
    pub connect: Duration,
    /// Pings on an idle connection. 10 s.
    pub keepalive: Duration,
    /// How long a ping may stay unanswered. 5 s.
    pub keepalive_timeout: Duration,
    /// The pause after a first failure; doubled up to `rest_last`. 100 ms.
    pub rest_first: Duration,
    pub rest_last: Duration,
}

impl ChannelTiming {
    /// The defaults, scaled.
    #[must_use]
    pub fn paced(pace: f64) -> Self {
        let scale = |ms: u64| Duration::from_millis(ms).mul_f64(pace);
        Self {
            connect: scale(2000),
            keepalive: scale(10_000),
            keepalive_timeout: scale(5000),
            rest_first: scale(100),
            rest_last: scale(5000),
        }
    }
}

/// The channels of one node.
pub struct Channels {
    network: Arc<dyn Network>,
    timing: ChannelTiming,
    open: Mutex<BTreeMap<(SocketAddr, KeyOf), (Channel, Instant)>>,
}

/// [`Expected`] as a key.
type KeyOf = (trust::Role, Option<fence::NodeId>);

impl Channels {
    #[must_use]
    pub fn new(network: Arc<dyn Network>, timing: ChannelTiming) -> Self {
        Self { network, timing, open: Mutex::default() }
    }

    /// The channel to whoever is expected at this address. Nothing is sent before it is used.
    #[must_use]
    pub fn to(&self, address: SocketAddr, expected: Expected) -> Channel {
        let now = Instant::now();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (address, (expected.role, expected.node));
        if let Some((channel, used)) = open.get_mut(&key) {
            *used = now;
            return channel.clone();
        }
        if open.len() >= CHANNELS_MAX {
            let oldest = open.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| *key);
            oldest.and_then(|key| open.remove(&key));
        }
        let network = Arc::clone(&self.network);
        let channel = channel(network, address.to_string(), expected, self.timing);
        open.insert(key, (channel.clone(), now));
        channel
    }
}

/// A channel that connects when it is first used.
pub(crate) fn channel(
    network: Arc<dyn Network>,
    address: String,
    expected: Expected,
    timing: ChannelTiming,
) -> Channel {
    let rest = Arc::new(Mutex::new(Rest { failures: 0, until: Instant::now() }));
    let dial = Dial { network, address, expected, timing, rest };
    endpoint(&timing).connect_with_connector_lazy(dial)
}

/// A channel on a connection that is there already; it is not made anew.
///
/// # Errors
/// If the other end does not speak HTTP/2.
pub async fn channel_on(
    connection: Connection,
    timing: &ChannelTiming,
) -> Result<Channel, tonic::transport::Error> {
    let mut once = Some(connection);
    let connector = tower::service_fn(move |_: Uri| {
        let taken = once.take().ok_or_else(|| std::io::Error::other("the connection is gone"));
        async move { taken.map(TokioIo::new) }
    });
    endpoint(timing).connect_with_connector(connector).await
}

fn endpoint(timing: &ChannelTiming) -> Endpoint {
    // The name in the URI is not used for anything: the connector knows the address.
    Endpoint::from_static("http://node.invalid")
        .connect_timeout(timing.connect)
        .http2_keep_alive_interval(timing.keepalive)
        .keep_alive_timeout(timing.keepalive_timeout)
        .keep_alive_while_idle(true)
}

struct Rest {
    failures: u32,
    until: Instant,
}

/// Dials when tonic asks for a connection, and not more often than it should.
#[derive(Clone)]
struct Dial {
    network: Arc<dyn Network>,
    address: String,
    expected: Expected,
    timing: ChannelTiming,
    rest: Arc<Mutex<Rest>>,
}

impl tower::Service<Uri> for Dial {
    type Response = TokioIo<Connection>;
    type Error = ConnectError;
    type Future = BoxFuture<'static, Result<Self::Response, ConnectError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let address = this.address.clone();
            let left = {
                let rest = this.rest.lock().unwrap_or_else(PoisonError::into_inner);
                rest.until.saturating_duration_since(Instant::now())
            };
            if !left.is_zero() {
                let for_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
                return Err(ConnectError::Resting { address, for_ms });
            }
            let dialing = this.network.connect(&address, this.expected);
            let dialed = timeout(this.timing.connect, dialing).await.unwrap_or_else(|_| {
                let error = std::io::ErrorKind::TimedOut.into();
                Err(ConnectError::Io { address, error })
            });
            let mut rest = this.rest.lock().unwrap_or_else(PoisonError::into_inner);
            if dialed.is_ok() {
                rest.failures = 0;
            } else {
                let pause = this.timing.rest_first * (1 << rest.failures.min(10));
                rest.failures = rest.failures.saturating_add(1);
                rest.until = Instant::now() + pause.min(this.timing.rest_last);
            }
            dialed.map(TokioIo::new)
        })
    }
}
