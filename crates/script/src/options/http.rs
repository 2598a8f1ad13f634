//! What the options say about requests and connections, with k6's defaults filled in.
//!
//! What the engine's own client has a setting for goes there; the rest is for the script's HTTP
//! module, which does it by itself.

use std::time::Duration;

use plan::{HttpOptions, IpFamily, TlsOptions};

use super::level::{HttpDebug, Options};
use super::network::{
    DnsPolicy, DnsSelect, HostnamePattern, IpRange, TlsAuth, TlsVersion, TlsVersions,
};

const BATCH: u32 = 20;
const BATCH_PER_HOST: u32 = 6;
const MAX_REDIRECTS: u32 = 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const DNS_TTL: Duration = Duration::from_secs(300);

/// A name that is never kept is asked for about as often as this where names are refreshed in the
/// background; more often would be load on the name server, and none on the target.
const DNS_REFRESH_MIN: Duration = Duration::from_secs(1);

/// Everything that shapes a script's requests.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpSettings {
    /// What the engine's client knows: redirects, keep-alive, cookies, TLS trust, names, sources.
    pub http: HttpOptions,
    /// Connections are closed at the end of each iteration.
    pub close_after_iteration: bool,
    /// `None`: the product's own.
    pub user_agent: Option<String>,
    /// Requests of one `http.batch` in flight, in all and per host; 0: no limit.
    pub batch: u32,
    pub batch_per_host: u32,
    /// Bodies are read from the wire but not handed to the script.
    pub discard_response_bodies: bool,
    /// Failed requests throw instead of returning a response with an error.
    pub throw: bool,
    pub http_debug: Option<HttpDebug>,
    /// Requests per second of all virtual users together.
    pub requests_per_second_max: Option<u32>,
    /// Also part of the load where virtual users loop; where arrivals start iterations, a virtual
    /// user stays busy for so long.
    pub min_iteration_duration: Duration,
    pub blocked_hostnames: Vec<HostnamePattern>,
    pub blocked_ips: Vec<IpRange>,
}

/// The HTTP settings of options, merged or resolved.
pub fn http_settings(options: &Options) -> HttpSettings {
    let dns_keep = options.dns.ttl.as_ref().map_or(Some(DNS_TTL), |ttl| ttl.keep);
    let hosts = options.hosts.clone().unwrap_or_default();
    let http = HttpOptions {
        connect_timeout: CONNECT_TIMEOUT,
        redirects: options.max_redirects.unwrap_or(MAX_REDIRECTS),
        keep_alive: !options.no_connection_reuse.unwrap_or(false),
        keep_cookies: options.no_cookies_reset.unwrap_or(false),
        tls: TlsOptions {
            insecure: options.insecure_skip_tls_verify.unwrap_or(false),
            versions: tls_versions(options.tls_version.unwrap_or_default()),
            cipher_suites: options.tls_cipher_suites.clone().unwrap_or_default(),
            identity: identity(options.tls_auth.as_deref().unwrap_or_default()),
            ..TlsOptions::default()
        },
        dns_refresh: dns_keep.map(|keep| keep.max(DNS_REFRESH_MIN)),
        ip: match options.dns.policy.unwrap_or_default() {
            DnsPolicy::OnlyIpv4 => IpFamily::V4,
            DnsPolicy::OnlyIpv6 => IpFamily::V6,
            DnsPolicy::PreferIpv4 => IpFamily::Any,
            DnsPolicy::PreferIpv6 => IpFamily::PreferV6,
            DnsPolicy::Any => IpFamily::Both,
        },
        // In turn and by chance come to the same over many connections.
        first_address: options.dns.select == Some(DnsSelect::First),
        hosts: hosts.into_iter().map(|(host, address)| (host, address.to_string())).collect(),
        local_addresses: options.local_ips.clone().map(|(_, ips)| ips).unwrap_or_default(),
        // As Go's client does, wherever the load runs.
        proxy: Some(plan::ProxyChoice::Environment),
        // How much runs at once is the script's affair: `http.batch` keeps its own limits.
        connections: u32::MAX,
        ..HttpOptions::default()
    };
    HttpSettings {
        http,
        close_after_iteration: options.no_vu_connection_reuse.unwrap_or(false),
        user_agent: options.user_agent.clone(),
        batch: options.batch.unwrap_or(BATCH),
        batch_per_host: options.batch_per_host.unwrap_or(BATCH_PER_HOST),
        discard_response_bodies: options.discard_response_bodies.unwrap_or(false),
        throw: options.throw.unwrap_or(false),
        http_debug: options.http_debug,
        requests_per_second_max: options.rps.filter(|rps| *rps > 0),
        min_iteration_duration: options.min_iteration_duration.unwrap_or_default(),
        blocked_hostnames: options.block_hostnames.clone().unwrap_or_default(),
        blocked_ips: options.blacklist_ips.clone().unwrap_or_default(),
    }
}

/// Only two versions can be had; the older ones of k6 stand for the lower of them.
fn tls_versions(versions: TlsVersions) -> (bool, bool) {
    let old = versions.min.is_none_or(|least| least <= TlsVersion::Tls12);
    let new = versions.max.is_none_or(|most| most >= TlsVersion::Tls13);
    (old, new)
}

/// The first certificate is shown to whoever asks for one.
fn identity(all: &[TlsAuth]) -> Option<(String, String)> {
    all.first().map(|auth| (auth.cert.clone(), auth.key.clone()))
}
