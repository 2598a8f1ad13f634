//! The parts of options that speak of names, addresses and TLS, as typed values.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use plan::units::Wrong;

use super::problem::suggestion;
use super::values::shorten;

/// How names are resolved; what is `None` is k6's default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dns {
    pub ttl: Option<DnsTtl>,
    pub select: Option<DnsSelect>,
    pub policy: Option<DnsPolicy>,
}

/// How long an answer is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsTtl {
    /// As the user wrote it, which is what scripts see.
    pub written: String,
    /// `None`: for ever. Zero: not at all.
    pub keep: Option<Duration>,
}

/// Which of a name's addresses is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DnsSelect {
    First,
    #[default]
    Random,
    RoundRobin,
}

impl DnsSelect {
    const NAMES: [(&'static str, DnsSelect); 3] = [
        ("first", DnsSelect::First),
        ("random", DnsSelect::Random),
        ("roundRobin", DnsSelect::RoundRobin),
    ];

    pub fn parse(text: &str) -> Result<DnsSelect, Wrong> {
        one_of("a way to select addresses", &DnsSelect::NAMES, text)
    }

    pub fn name(self) -> &'static str {
        name_in(&DnsSelect::NAMES, self)
    }
}

/// Which families of addresses are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DnsPolicy {
    #[default]
    PreferIpv4,
    PreferIpv6,
    OnlyIpv4,
    OnlyIpv6,
    Any,
}

impl DnsPolicy {
    const NAMES: [(&'static str, DnsPolicy); 5] = [
        ("preferIPv4", DnsPolicy::PreferIpv4),
        ("preferIPv6", DnsPolicy::PreferIpv6),
        ("onlyIPv4", DnsPolicy::OnlyIpv4),
        ("onlyIPv6", DnsPolicy::OnlyIpv6),
        ("any", DnsPolicy::Any),
    ];

    pub fn parse(text: &str) -> Result<DnsPolicy, Wrong> {
        one_of("a policy for addresses", &DnsPolicy::NAMES, text)
    }

    pub fn name(self) -> &'static str {
        name_in(&DnsPolicy::NAMES, self)
    }
}

fn one_of<T: Copy>(what: &str, names: &[(&str, T)], text: &str) -> Result<T, Wrong> {
    let found = names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        Wrong::new(format!("`{}` is not {what}", shorten(text)), suggestion(text, &known))
    })
}

fn name_in<T: Copy + PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    let found = names.iter().find(|(_, named)| *named == value);
    found.map_or("", |(name, _)| name)
}

/// Where a host of `hosts` is really found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostAddress {
    pub ip: IpAddr,
    /// `None`: the port of the request.
    pub port: Option<u16>,
}

impl HostAddress {
    /// `1.2.3.4`, `1.2.3.4:8080`, `::1`, `[::1]:8080`.
    pub fn parse(text: &str) -> Result<HostAddress, Wrong> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        if let Ok(ip) = bare.parse() {
            return Ok(HostAddress { ip, port: None });
        }
        let wrong = || {
            let message = format!("`{}` is not an IP address", shorten(text));
            Wrong::new(message, "write 1.2.3.4, 1.2.3.4:8080 or [::1]:8080")
        };
        let address: std::net::SocketAddr = text.parse().map_err(|_| wrong())?;
        Ok(HostAddress { ip: address.ip(), port: Some(address.port()) })
    }
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => std::net::SocketAddr::new(self.ip, port).fmt(f),
            None => self.ip.fmt(f),
        }
    }
}

/// A host name in which a `*` at the front stands for anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostnamePattern {
    text: String,
}

impl HostnamePattern {
    pub fn parse(text: &str) -> Result<HostnamePattern, Wrong> {
        let rest = text.strip_prefix('*').unwrap_or(text);
        let legal = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        if rest.chars().all(legal) {
            return Ok(HostnamePattern { text: text.to_ascii_lowercase() });
        }
        let message = format!("`{}` is not a host name or pattern", shorten(text));
        Err(Wrong::new(message, "write shop.example or *.shop.example"))
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Upper and lower case are the same.
    pub fn matches(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        match self.text.strip_prefix('*') {
            Some(end) => host.ends_with(end),
            None => host == self.text,
        }
    }
}

/// A network: `10.0.0.0/8`. The address is the network's first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpRange {
    pub address: IpAddr,
    pub prefix: u8,
}

impl IpRange {
    pub fn parse(text: &str) -> Result<IpRange, Wrong> {
        let wrong = || {
            let message = format!("`{}` is not a network", shorten(text));
            Wrong::new(message, "write an address and its prefix: 10.0.0.0/8, ::1/128")
        };
        let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let prefix: u8 = prefix.parse().map_err(|_| wrong())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        if prefix > longest {
            return Err(wrong());
        }
        Ok(IpRange { address: first_of(address, prefix), prefix })
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        // An address of version 4 may be written as one of version 6.
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4()
            && first_of(address, self.prefix) == self.address
    }
}

fn first_of(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    Tls10,
    Tls11,
    Tls12,
    Tls13,
}

impl TlsVersion {
    const NAMES: [(&'static str, TlsVersion); 4] = [
        ("tls1.0", TlsVersion::Tls10),
        ("tls1.1", TlsVersion::Tls11),
        ("tls1.2", TlsVersion::Tls12),
        ("tls1.3", TlsVersion::Tls13),
    ];

    pub fn parse(text: &str) -> Result<TlsVersion, Wrong> {
        one_of("a version of TLS", &TlsVersion::NAMES, text)
    }

    pub fn name(self) -> &'static str {
        name_in(&TlsVersion::NAMES, self)
    }
}

/// The versions a client offers; `None`: no limit on this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TlsVersions {
    pub min: Option<TlsVersion>,
    pub max: Option<TlsVersion>,
}

/// A client certificate, and the hosts it is shown to.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct TlsAuth {
    /// Empty: every host.
    pub domains: Vec<String>,
    /// The certificate chain itself in PEM, not a file's name.
    pub cert: String,
    pub key: String,
    pub password: Option<String>,
}

/// Keys and passwords do not belong into logs.
impl fmt::Debug for TlsAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsAuth").field("domains", &self.domains).finish_non_exhaustive()
    }
}

/// The cipher suites that scripts may name. Most are obsolete and no TLS library of today offers
/// them; they are known here so that a script that lists them is still read.
pub const CIPHER_SUITES: [&str; 25] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
];

pub(super) fn cipher_suite(text: &str) -> Result<String, Wrong> {
    if CIPHER_SUITES.contains(&text) {
        return Ok(text.to_string());
    }
    let message = format!("`{}` is not a cipher suite", shorten(text));
    Err(Wrong::new(message, suggestion(text, &CIPHER_SUITES)))
}
