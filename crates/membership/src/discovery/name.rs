//! Seeds and DNS names as they stand in the configuration.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::Question;

/// The longest name that DNS knows.
const NAME_BYTES_MAX: usize = 253;

/// One configured address: `host`, `host:port`, `1.2.3.4:9000`, `[::1]:9000`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seed {
    Address(SocketAddr),
    Host { host: String, port: u16 },
}

/// A name that stands for many nodes: `_volley._udp.example.org` (SRV), or
/// `nodes.example.org[:port]` (A and AAAA, as a Kubernetes headless service has it).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DnsName(pub(super) Question);

/// A text that is neither.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    pub found: String,
    pub why: &'static str,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.found, self.why)
    }
}

impl std::error::Error for NameError {}

fn error(text: &str, why: &'static str) -> NameError {
    NameError { found: text.chars().take(80).collect(), why }
}

/// Splits `host[:port]` and checks both parts.
fn host_and_port(text: &str, default_port: u16) -> Result<(String, u16), NameError> {
    let (host, port) = match text.rsplit_once(':') {
        None => (text, default_port),
        Some((host, port)) => {
            let number =
                port.parse().map_err(|_| error(text, "the port is not a number up to 65535"))?;
            (host, number)
        }
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    if port == 0 {
        return Err(error(text, "port 0 is nobody's"));
    }
    if host.is_empty() || host.len() > NAME_BYTES_MAX {
        return Err(error(text, "a host name has 1 to 253 characters"));
    }
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if !host.split('.').all(label) {
        return Err(error(
            text,
            "it is not a host name or an address (`host`, `host:port`, `[::1]:port`)",
        ));
    }
    Ok((host.to_ascii_lowercase(), port))
}

impl Seed {
    /// Reads one entry of the list of seeds.
    ///
    /// # Errors
    /// If it is neither an address nor a host name.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, NameError> {
        let text = text.trim();
        if let Ok(address) = text.parse::<SocketAddr>() {
            if address.port() == 0 {
                return Err(error(text, "port 0 is nobody's"));
            }
            return Ok(Self::Address(address));
        }
        let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Ok(Self::Address(SocketAddr::new(ip, default_port)));
        }
        let (host, port) = host_and_port(text, default_port)?;
        // `1.2.3` or `1.2.3.400` is a mistyped address, and asking DNS for it would only hide that.
        if host.rsplit('.').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit())) {
            return Err(error(text, "it looks like an address but is none"));
        }
        Ok(Self::Host { host, port })
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        match self {
            Self::Address(address) => address.port(),
            Self::Host { port, .. } => *port,
        }
    }

    /// The same host at another port.
    #[must_use]
    pub fn at_port(&self, port: u16) -> Self {
        match self {
            Self::Address(address) => Self::Address(SocketAddr::new(address.ip(), port)),
            Self::Host { host, .. } => Self::Host { host: host.clone(), port },
        }
    }

    pub(super) fn question(&self) -> Option<Question> {
        match self {
            Self::Address(_) => None,
            Self::Host { host, port } => {
                Some(Question::Address { name: host.clone(), port: *port })
            }
        }
    }
}

impl From<SocketAddr> for Seed {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address)
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Host { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

impl DnsName {
    /// Reads one entry of the list of DNS names. A name that begins with an underscore is asked for
    /// SRV records.
    ///
    /// # Errors
    /// If it is not a name.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, NameError> {
        let text = text.trim();
        if text.parse::<IpAddr>().is_ok() || text.parse::<SocketAddr>().is_ok() {
            return Err(error(text, "it is an address; put it among the seeds"));
        }
        if text.starts_with('_') {
            if text.contains(':') {
                return Err(error(text, "SRV records bring their own port; leave it away"));
            }
            let (name, _) = host_and_port(text, 1)?;
            return Ok(Self(Question::Srv { name }));
        }
        let (name, port) = host_and_port(text, default_port)?;
        Ok(Self(Question::Address { name, port }))
    }
}
