//! Asking DNS: a small trait, and the resolver of this machine behind it.
//!
//! The resolver's own cache is off. [`super::DnsCache`] is the only one, because it knows when a
//! node is alone and must ask again soon.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use hickory_resolver::config::LookupIpStrategy;
use hickory_resolver::{ResolveError, TokioResolver};

/// SRV records of one answer that are followed.
const TARGETS_MAX: usize = 64;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    Srv {
        name: String,
    },
    /// A and AAAA; the port is the configured one.
    Address {
        name: String,
        port: u16,
    },
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Srv { name } => write!(f, "SRV {name}"),
            Self::Address { name, port } => write!(f, "A/AAAA {name} (port {port})"),
        }
    }
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub addresses: Vec<SocketAddr>,
    /// The shortest among the records.
    pub ttl: Option<Duration>,
}

/// Why nothing came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupError {
    /// The name does not exist, or has no such records.
    NoSuchName,
    TimedOut,
    Failed {
        why: String,
    },
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchName => f.write_str("the name does not exist or has no such records"),
            Self::TimedOut => f.write_str("no name server answered in time"),
            Self::Failed { why } => write!(f, "the lookup failed: {why}"),
        }
    }
}

impl std::error::Error for LookupError {}

/// Somebody who can answer a [`Question`]. The caller sets the deadline.
pub trait Resolver: Send + Sync {
    fn lookup<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Result<Answer, LookupError>> + Send + 'a>>;
}

/// DNS as this machine is configured for it (`/etc/resolv.conf`, `/etc/hosts`).
pub struct SystemResolver {
    resolver: TokioResolver,
}

impl SystemResolver {
    /// # Errors
    /// If the machine's configuration cannot be read.
    pub fn new(lookup_deadline: Duration) -> Result<Self, LookupError> {
        let builder = TokioResolver::builder_tokio().map_err(|error| failure(&error))?;
        Ok(Self::with(builder, lookup_deadline))
    }

    /// With name servers of one's own.
    #[must_use]
    pub fn with(
        mut builder: hickory_resolver::ResolverBuilder<
            hickory_resolver::name_server::TokioConnectionProvider,
        >,
        lookup_deadline: Duration,
    ) -> Self {
        let options = builder.options_mut();
        options.cache_size = 0;
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        // Two tries fit the deadline; a lost datagram does not cost the whole of it.
        options.timeout = lookup_deadline / 2;
        options.attempts = 1;
        Self { resolver: builder.build() }
    }

    async fn addresses(&self, name: &str, port: u16) -> Result<Answer, LookupError> {
        let found = self.resolver.lookup_ip(name).await.map_err(|error| failure(&error))?;
        let ttl =
            found.as_lookup().record_iter().map(hickory_resolver::proto::rr::Record::ttl).min();
        Ok(Answer {
            addresses: found.iter().map(|ip| SocketAddr::new(ip, port)).collect(),
            ttl: ttl.map(|seconds| Duration::from_secs(seconds.into())),
        })
    }

    async fn services(&self, name: &str) -> Result<Answer, LookupError> {
        let found = self.resolver.srv_lookup(name).await.map_err(|error| failure(&error))?;
        let own_ttl =
            found.as_lookup().record_iter().map(hickory_resolver::proto::rr::Record::ttl).min();
        let mut ttl = own_ttl.map(|seconds| Duration::from_secs(seconds.into()));
        let mut targets: Vec<_> = found.iter().collect();
        targets.sort_by_key(|srv| (srv.priority(), srv.target().clone(), srv.port()));
        targets.truncate(TARGETS_MAX);
        let mut addresses = Vec::new();
        let mut last_error = LookupError::NoSuchName;
        for srv in targets {
            // A target of `.` says that the service is decidedly not there (RFC 2782).
            if srv.target().is_root() {
                continue;
            }
            match self.addresses(&srv.target().to_utf8(), srv.port()).await {
                Ok(answer) => {
                    addresses.extend(answer.addresses);
                    ttl = [ttl, answer.ttl].into_iter().flatten().min();
                }
                // One target without an address does not hide the others.
                Err(error) => last_error = error,
            }
        }
        if addresses.is_empty() { Err(last_error) } else { Ok(Answer { addresses, ttl }) }
    }
}

impl Resolver for SystemResolver {
    fn lookup<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Result<Answer, LookupError>> + Send + 'a>> {
        Box::pin(async move {
            match question {
                Question::Srv { name } => self.services(name).await,
                Question::Address { name, port } => self.addresses(name, *port).await,
            }
        })
    }
}

fn failure(error: &ResolveError) -> LookupError {
    use hickory_resolver::proto::ProtoErrorKind;
    if error.is_nx_domain() || error.is_no_records_found() {
        // A server that fails says so with a response code, and its silence is no proof of absence.
        if let Some(ProtoErrorKind::NoRecordsFound { response_code, .. }) =
            error.proto().map(hickory_resolver::proto::ProtoError::kind)
        {
            use hickory_resolver::proto::op::ResponseCode::{NXDomain, NoError};
            if !matches!(response_code, NXDomain | NoError) {
                return LookupError::Failed { why: response_code.to_string() };
            }
        }
        return LookupError::NoSuchName;
    }
    match error.proto().map(hickory_resolver::proto::ProtoError::kind) {
        Some(ProtoErrorKind::Timeout) => LookupError::TimedOut,
        _ => LookupError::Failed { why: error.to_string() },
    }
}
