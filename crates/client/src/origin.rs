//! Where requests go: scheme, host, port, and the addresses behind them.
//!
//! Names are resolved once, before anything is measured (EXEC-20 to EXEC-25), and all addresses are
//! kept and used in turn, so that one address does not take the whole load. A plan may ask for a
//! new look-up from time to time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use base64::Engine as _;
use percent_encoding::percent_decode_str;
use plan::{HttpOptions, IpFamily};
use stats::ErrorKind;
use url::Url;

use crate::Failure;
use crate::proxy::{Proxies, Proxy};

/// One scheme, host and port, as one core sees it.
#[derive(Debug)]
pub struct Origin {
    /// Number within the core's table.
    pub id: usize,
    pub tls: bool,
    pub host: String,
    pub port: u16,
    /// Value of the `host` header.
    pub authority: String,
    pub unix: Option<PathBuf>,
    /// Who is asked instead.
    pub proxy: Option<Arc<Proxy>>,
    addresses: RefCell<Vec<SocketAddr>>,
    next: Cell<usize>,
}

impl Origin {
    /// The proxy that reads what is sent to this origin; through a tunnel it sees nothing of it.
    pub fn reader(&self) -> Option<&Proxy> {
        self.proxy.as_deref().filter(|_| !self.tls && self.unix.is_none())
    }

    /// The next address in turn.
    pub fn address(&self) -> Option<SocketAddr> {
        let addresses = self.addresses.borrow();
        if addresses.is_empty() {
            return None;
        }
        let turn = self.next.get();
        self.next.set(turn.wrapping_add(1));
        Some(addresses[turn % addresses.len()])
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.borrow().clone()
    }

    pub fn set_addresses(&self, addresses: Vec<SocketAddr>) {
        *self.addresses.borrow_mut() = addresses;
    }
}

/// The origins that one core has met, and the rules by which names become addresses.
pub struct OriginTable {
    origins: RefCell<Vec<Rc<Origin>>>,
    by_key: RefCell<BTreeMap<(bool, String, u16), usize>>,
    overrides: Vec<(String, String)>,
    family: IpFamily,
    first_only: bool,
    /// The plan's target, if it is a Unix socket: host `unix` leads there.
    unix: Option<PathBuf>,
    proxies: Arc<Proxies>,
}

impl OriginTable {
    pub fn new(http: &HttpOptions, unix: Option<PathBuf>) -> OriginTable {
        OriginTable {
            origins: RefCell::default(),
            by_key: RefCell::default(),
            overrides: http.hosts.clone(),
            first_only: http.first_address,
            family: http.ip,
            unix,
            proxies: Arc::default(),
        }
    }

    /// The same table, before it knows any origin, by way of these proxies.
    #[must_use]
    pub fn through(self, proxies: Arc<Proxies>) -> OriginTable {
        OriginTable { proxies, ..self }
    }

    pub fn all(&self) -> Vec<Rc<Origin>> {
        self.origins.borrow().clone()
    }

    pub fn get(&self, id: usize) -> Rc<Origin> {
        self.origins.borrow()[id].clone()
    }

    /// The origin of a URL, made known if it was not.
    pub fn intern(&self, url: &Url) -> Result<Rc<Origin>, Failure> {
        let bad = |message: String| Failure::new(ErrorKind::Redirect, message);
        let shown = || plan::mask_userinfo(url.as_str());
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            other => {
                return Err(bad(format!("cannot follow a URL of scheme `{other}`: {}", shown())));
            }
        };
        let host = url.host_str().ok_or_else(|| bad(format!("URL has no host: {}", shown())))?;
        let port = url.port_or_known_default().unwrap_or(80);
        let key = (tls, host.to_owned(), port);
        if let Some(&id) = self.by_key.borrow().get(&key) {
            return Ok(self.get(id));
        }
        let unix = self.unix.clone().filter(|_| host == UNIX_HOST);
        let mut origins = self.origins.borrow_mut();
        let origin = Rc::new(Origin {
            id: origins.len(),
            tls,
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port,
            authority: render_authority(url),
            unix,
            proxy: self.proxies.to(tls, host, port),
            addresses: RefCell::default(),
            next: Cell::new(0),
        });
        origins.push(origin.clone());
        self.by_key.borrow_mut().insert(key, origin.id);
        Ok(origin)
    }

    /// Looks the host up, by the plan's overrides first.
    pub async fn resolve(&self, origin: &Origin) -> Result<(), Failure> {
        // With a proxy, names are the proxy's business.
        if origin.unix.is_some() || origin.proxy.is_some() {
            return Ok(());
        }
        let (host, port) = self.overridden(&origin.host, origin.port);
        let mut addresses = lookup(&host, port, self.family).await?;
        if self.first_only {
            addresses.truncate(1);
        }
        origin.set_addresses(addresses);
        Ok(())
    }

    fn overridden(&self, host: &str, port: u16) -> (String, u16) {
        let with_port = format!("{host}:{port}");
        let exact = self.overrides.iter().find(|(name, _)| *name == with_port || name == host);
        let fits = |pattern: &str| {
            let end = pattern.strip_prefix('*');
            end.is_some_and(|end| with_port.ends_with(end) || host.ends_with(end))
        };
        let found = exact.or_else(|| self.overrides.iter().find(|(name, _)| fits(name)));
        let Some((_, to)) = found else { return (host.to_owned(), port) };
        if let Ok(address) = to.parse::<SocketAddr>() {
            return (address.ip().to_string(), address.port());
        }
        match to.rsplit_once(':') {
            Some((name, digits)) if !name.contains(':') => match digits.parse() {
                Ok(other) => (name.to_owned(), other),
                Err(_) => (to.clone(), port),
            },
            _ => (to.trim_matches(['[', ']']).to_owned(), port),
        }
    }
}

/// The host under which a Unix socket appears in URLs.
pub const UNIX_HOST: &str = "unix.invalid";

/// Addresses of a host, in the family asked for.
pub async fn lookup(host: &str, port: u16, family: IpFamily) -> Result<Vec<SocketAddr>, Failure> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let found = tokio::net::lookup_host((host, port)).await;
    let found = found.map_err(|error| {
        Failure::new(ErrorKind::Dns, format!("cannot resolve `{host}`: {error}"))
    })?;
    let addresses = wanted(found.collect(), family);
    if addresses.is_empty() {
        let message = format!("`{host}` has no address of the family asked for");
        return Err(Failure::new(ErrorKind::Dns, message));
    }
    Ok(addresses)
}

/// Those of a name's addresses that are to be used.
fn wanted(mut addresses: Vec<SocketAddr>, family: IpFamily) -> Vec<SocketAddr> {
    addresses.dedup();
    let has = |fits: fn(&SocketAddr) -> bool| addresses.iter().any(fits);
    let only: Option<fn(&SocketAddr) -> bool> = match family {
        IpFamily::V4 => Some(SocketAddr::is_ipv4),
        IpFamily::V6 => Some(SocketAddr::is_ipv6),
        IpFamily::Any if has(SocketAddr::is_ipv4) => Some(SocketAddr::is_ipv4),
        IpFamily::PreferV6 if has(SocketAddr::is_ipv6) => Some(SocketAddr::is_ipv6),
        IpFamily::Any | IpFamily::PreferV6 | IpFamily::Both => None,
    };
    if let Some(fits) = only {
        addresses.retain(fits);
    }
    addresses
}

/// Value of the `host` header: the port only where it is not the scheme's own.
pub fn render_authority(url: &Url) -> String {
    let host = match url.host_str() {
        Some(UNIX_HOST) | None => "localhost",
        Some(host) => host,
    };
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// An absolute URL, or one relative to `base`.
pub fn parse_url(base: Option<&Url>, text: &str) -> Result<Url, Failure> {
    let parsed = match base {
        Some(base) => base.join(text),
        None => Url::parse(text),
    };
    parsed.map_err(|error| {
        let shown = plan::mask_broken_url(text);
        Failure::new(ErrorKind::Protocol, format!("bad URL `{shown}`: {error}"))
    })
}

/// Takes user and password out of a URL; what they are as the value of an `authorization` header.
pub fn take_userinfo(url: &mut Url) -> Option<String> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut pair: Vec<u8> = percent_decode_str(url.username()).collect();
    pair.push(b':');
    pair.extend(percent_decode_str(url.password().unwrap_or_default()));
    // Only a URL without a host refuses these, and such a one has no user.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    Some(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_both_families_gives_the_one_that_is_wanted() {
        let both: Vec<SocketAddr> =
            ["127.0.0.1:80", "[::1]:80", "127.0.0.2:80"].map(|text| text.parse().unwrap()).into();
        for (family, given) in [
            (IpFamily::Any, "127.0.0.1:80 127.0.0.2:80"),
            (IpFamily::V4, "127.0.0.1:80 127.0.0.2:80"),
            (IpFamily::V6, "[::1]:80"),
            (IpFamily::PreferV6, "[::1]:80"),
            (IpFamily::Both, "127.0.0.1:80 [::1]:80 127.0.0.2:80"),
        ] {
            let shown: Vec<_> =
                wanted(both.clone(), family).iter().map(SocketAddr::to_string).collect();
            assert_eq!(shown.join(" "), given, "{family:?}");
        }
        assert_eq!(wanted(vec![both[0]], IpFamily::PreferV6), [both[0]]);
        assert_eq!(wanted(vec![both[1]], IpFamily::Any), [both[1]]);
        assert_eq!(wanted(vec![both[1]], IpFamily::V4), []);
    }
}
