//! Which requests go through a proxy, and through which.
//!
//! A plan names one proxy for everything, or leaves it to the environment of the process, which is
//! read as Go's `net/http` (and so k6) reads it:
//!
//! ```text
//! HTTP_PROXY, HTTPS_PROXY   by the scheme of the target; in small letters as well
//! NO_PROXY                  shop.test  .shop.test  10.0.0.0/8  127.0.0.1:8080  *
//! ```
//!
//! `localhost` and loopback addresses are never asked through a proxy of the environment.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use plan::ProxyChoice;
use stats::ErrorKind;
use url::Url;

use crate::Failure;
use crate::origin::{lookup, take_userinfo};

/// An HTTP proxy: plain requests go through it in absolute form, TLS through a CONNECT tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// `Basic ...`, if the URL had a user.
    pub authorization: Option<String>,
    pub(crate) address: SocketAddr,
}

impl Proxy {
    async fn resolve(text: &str, named_by: &str) -> Result<Proxy, Failure> {
        let bad = |why: String| {
            let shown = plan::mask_broken_url(text);
            Failure::new(ErrorKind::Connect, format!("{named_by} `{shown}`: {why}"))
        };
        let mut url = Url::parse(text).map_err(|error| bad(error.to_string()))?;
        if url.scheme() != "http" {
            return Err(bad("only http:// proxies are supported".to_owned()));
        }
        let authorization = take_userinfo(&mut url);
        let host = url.host_str().unwrap_or_default().to_owned();
        let port = url.port_or_known_default().unwrap_or(80);
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let addresses = lookup(name, port, plan::IpFamily::Any).await;
        let addresses = addresses.map_err(|failure| bad(failure.message))?;
        Ok(Proxy { host, port, authorization, address: addresses[0] })
    }
}

/// Who decides, before any name is looked up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxyRules {
    /// The proxy's URL, and what named it.
    http: Option<(String, &'static str)>,
    https: Option<(String, &'static str)>,
    spared: Spared,
}

impl ProxyRules {
    /// By this process's own environment, if that was chosen.
    pub fn of_process(choice: Option<&ProxyChoice>) -> ProxyRules {
        ProxyRules::new(choice, &|name| std::env::var(name).ok())
    }

    pub fn new(choice: Option<&ProxyChoice>, env: &dyn Fn(&str) -> Option<String>) -> ProxyRules {
        match choice {
            None => ProxyRules::default(),
            Some(ProxyChoice::Url(url)) => {
                let named = Some((url.clone(), "proxy"));
                ProxyRules { http: named.clone(), https: named, spared: Spared::default() }
            }
            Some(ProxyChoice::Environment) => {
                let found = |names: [&'static str; 2]| {
                    let value = |name| env(name).filter(|value| !value.is_empty());
                    names.into_iter().find_map(|name| value(name).map(|value| (value, name)))
                };
                let proxy = |names| found(names).map(|(value, name)| (with_scheme(value), name));
                let spared = found(["NO_PROXY", "no_proxy"]).unwrap_or_default().0;
                ProxyRules {
                    http: proxy(["HTTP_PROXY", "http_proxy"]),
                    https: proxy(["HTTPS_PROXY", "https_proxy"]),
                    spared: Spared::parse(&spared),
                }
            }
        }
    }

    /// Whether requests to this URL are written for a proxy that reads them: with the whole URL.
    pub fn reads(&self, url: &Url) -> bool {
        let port = url.port_or_known_default().unwrap_or(80);
        url.scheme() == "http"
            && self.choose(false, url.host_str().unwrap_or_default(), port).is_some()
    }

    fn choose(&self, tls: bool, host: &str, port: u16) -> Option<&(String, &'static str)> {
        let proxy = if tls { self.https.as_ref() } else { self.http.as_ref() };
        proxy.filter(|_| host != crate::UNIX_HOST && !self.spared.has(host, port))
    }
}

/// `proxy:3128` is what many write.
fn with_scheme(text: String) -> String {
    if text.contains("://") { text } else { format!("http://{text}") }
}

/// The proxies of one workflow, with their addresses.
#[derive(Debug, Default)]
pub struct Proxies {
    rules: ProxyRules,
    http: Option<Arc<Proxy>>,
    https: Option<Arc<Proxy>>,
}

impl Proxies {
    pub async fn resolve(rules: ProxyRules) -> Result<Proxies, Failure> {
        let mut found = [None, None];
        for (place, named) in found.iter_mut().zip([&rules.http, &rules.https]) {
            if let Some((url, by)) = named {
                *place = Some(Arc::new(Proxy::resolve(url, by).await?));
            }
        }
        let [http, https] = found;
        Ok(Proxies { rules, http, https })
    }

    pub(crate) fn to(&self, tls: bool, host: &str, port: u16) -> Option<Arc<Proxy>> {
        self.rules.choose(tls, host, port)?;
        if tls { self.https.clone() } else { self.http.clone() }
    }
}

/// Who is asked directly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Spared {
    loopback: bool,
    all: bool,
    networks: Vec<(IpAddr, u8)>,
    addresses: Vec<(IpAddr, Option<u16>)>,
    domains: Vec<Domain>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Domain {
    /// With a dot in front.
    end: String,
    port: Option<u16>,
    /// Also the name itself, and not only what is below it.
    itself: bool,
}

impl Spared {
    fn parse(text: &str) -> Spared {
        let mut spared = Spared { loopback: true, ..Spared::default() };
        for entry in text.split(',').map(|entry| entry.trim().to_ascii_lowercase()) {
            if entry == "*" {
                spared.all = true;
            }
            if let Some((ip, bits)) = entry.split_once('/')
                && let (Ok(ip), Ok(bits)) = (ip.parse(), bits.parse())
            {
                spared.networks.push((ip, bits));
                continue;
            }
            let (host, port) = host_and_port(&entry);
            let host = host.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(host);
            if let Ok(ip) = host.parse() {
                spared.addresses.push((ip, port));
            } else if !host.is_empty() {
                let itself = !host.starts_with('.');
                let end = if itself { format!(".{host}") } else { host.to_owned() };
                spared.domains.push(Domain { end, port, itself });
            }
        }
        spared
    }

    fn has(&self, host: &str, port: u16) -> bool {
        if self.all {
            return true;
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let fits = |wanted: Option<u16>| wanted.is_none_or(|wanted| wanted == port);
        if let Ok(ip) = host.parse::<IpAddr>() {
            return self.loopback && ip.is_loopback()
                || self.networks.iter().any(|(network, bits)| contains(*network, *bits, ip))
                || self.addresses.iter().any(|(known, port)| *known == ip && fits(*port));
        }
        self.loopback && host == "localhost"
            || self.domains.iter().any(|domain| {
                let named = host.ends_with(&domain.end) || domain.itself && host == domain.end[1..];
                named && fits(domain.port)
            })
    }
}

fn host_and_port(entry: &str) -> (&str, Option<u16>) {
    let inside = |host: &'_ str| host.starts_with('[') && host.ends_with(']');
    if let Some((host, port)) = entry.rsplit_once(':')
        && (inside(host) || !host.contains(':'))
        && let Ok(port) = port.parse()
    {
        return (host.trim_start_matches('[').trim_end_matches(']'), Some(port));
    }
    (entry, None)
}

fn contains(network: IpAddr, bits: u8, ip: IpAddr) -> bool {
    let (network, ip, width) = match (network, ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
        _ => return false,
    };
    let Some(rest) = u32::checked_sub(width, u32::from(bits)) else { return false };
    // All bits may differ, and a shift by the whole width is none.
    network.checked_shr(rest).unwrap_or(0) == ip.checked_shr(rest).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(vars: &[(&str, &str)], url: &str) -> Option<String> {
        let env = |name: &str| {
            vars.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let rules = ProxyRules::new(Some(&ProxyChoice::Environment), &env);
        let url = Url::parse(url).unwrap();
        let (tls, port) = (url.scheme() == "https", url.port_or_known_default().unwrap());
        rules.choose(tls, url.host_str().unwrap(), port).map(|(url, _)| url.clone())
    }

    /// What `httpproxy.FromEnvironment` of Go decides.
    #[test]
    fn the_environment_is_read_as_go_reads_it() {
        let both = [("HTTP_PROXY", "p:1"), ("https_proxy", "http://s:2")];
        assert_eq!(chosen(&both, "http://a.test/").as_deref(), Some("http://p:1"));
        assert_eq!(chosen(&both, "https://a.test/").as_deref(), Some("http://s:2"));
        assert_eq!(chosen(&[("HTTP_PROXY", "p:1")], "https://a.test/"), None);
        assert_eq!(chosen(&[("HTTP_PROXY", "")], "http://a.test/"), None);
        for url in ["http://localhost/", "http://127.0.0.1:8080/", "http://[::1]/"] {
            assert_eq!(chosen(&both, url), None, "{url}");
        }
        for (spared, url, direct) in [
            ("a.test", "http://a.test/", true),
            ("a.test", "http://x.a.test/", true),
            ("a.test", "http://ba.test/", false),
            (".a.test", "http://a.test/", false),
            (".a.test", "http://x.a.test/", true),
            ("*.a.test", "http://x.a.test/", true),
            ("*.a.test", "http://a.test/", false),
            ("a.test:81", "http://a.test/", false),
            ("a.test:81", "http://a.test:81/", true),
            ("10.0.0.0/8", "http://10.9.8.7/", true),
            ("10.0.0.0/8", "http://11.9.8.7/", false),
            ("fd00::/8", "http://[fd12::1]/", true),
            ("192.0.2.1", "http://192.0.2.1:99/", true),
            ("192.0.2.1:98", "http://192.0.2.1:99/", false),
            ("[2001:db8::1]:99", "http://[2001:db8::1]:99/", true),
            ("b.test, A.TEST", "http://a.test/", true),
            ("*", "http://a.test/", true),
            ("0.0.0.0/0", "http://203.0.113.7/", true),
        ] {
            let vars = [both[0], both[1], ("NO_PROXY", spared)];
            assert_eq!(chosen(&vars, url).is_none(), direct, "{spared} {url}");
        }
    }

    #[test]
    fn a_proxy_that_the_plan_names_is_for_everything() {
        let rules = ProxyRules::new(Some(&ProxyChoice::Url("http://p:1".into())), &|_| None);
        assert!(rules.reads(&Url::parse("http://127.0.0.1/").unwrap()));
        assert!(!rules.reads(&Url::parse("https://127.0.0.1/").unwrap()), "a tunnel is not read");
        assert!(rules.choose(true, "a.test", 443).is_some());
        assert!(rules.choose(false, crate::UNIX_HOST, 80).is_none());
    }
}
