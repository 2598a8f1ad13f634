//! Targets, headers and connection settings.

use super::Context;
use super::tls::tls;
use crate::model::{HttpOptions, HttpVersion, IpFamily, ProxyChoice};
use crate::template::{Escape, Part, Template};
use crate::tree::{Entry, Node, shorten};
use crate::units;

const SCHEMES: [&str; 2] = ["http://", "https://"];

pub fn target(cx: &Context<'_>, node: &Node) -> Template {
    let template = cx.template(node, Escape::None);
    cx.no_secret(node, Some(&template), "the target");
    if let Some(Part::Text(text)) = template.parts.first() {
        let known = SCHEMES.iter().any(|scheme| has_host(text, scheme));
        if !known && text.strip_prefix("unix:").is_none_or(str::is_empty) {
            cx.report(node.place, format!("the target `{}` is not an address", shorten(text)))
                .help("write http://HOST:PORT, https://HOST or unix:/PATH/TO/SOCKET");
        } else {
            port(cx, node, text, template.parts.len() > 1);
        }
    } else if node.text().is_some_and(str::is_empty) {
        cx.report(node.place, "the target is empty").help("write http://HOST:PORT");
    }
    template
}

/// `http://host:8080search`: a slash is missing, or there are no such ports.
fn port(cx: &Context<'_>, node: &Node, url: &str, goes_on: bool) {
    let Some((_, rest)) = url.split_once("://") else { return };
    let end = rest.find(['/', '?', '#']);
    let authority = &rest[..end.unwrap_or(rest.len())];
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    // `[::1]:8080`, and `host:${port}`.
    let after = host.rsplit_once(']').map_or(host, |(_, after)| after);
    let Some((_, port)) = after.split_once(':') else { return };
    // Of a password with a slash in it nothing is repeated.
    let password = end.is_some_and(|end| rest[end..].contains('@'));
    if port.parse::<u16>().is_ok() || port.is_empty() || goes_on && end.is_none() || password {
        return;
    }
    let digits = port.find(|c: char| !c.is_ascii_digit()).unwrap_or(port.len());
    let help = match digits {
        0 => "write http://HOST:PORT/PATH".to_owned(),
        _ if digits < port.len() => {
            format!("a `/` is missing: `:{}/{}`", &port[..digits], shorten(&port[digits..]))
        }
        _ => "ports are from 1 to 65535".to_owned(),
    };
    cx.report(node.place, format!("`{}` is not a port", shorten(port))).help(help);
}

fn has_host(text: &str, scheme: &str) -> bool {
    text.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        && !text.contains(char::is_whitespace)
}

/// A URL of a step: absolute, or relative to the target.
pub fn url(cx: &Context<'_>, node: &Node) -> Template {
    let template = cx.template(node, Escape::Url);
    let blank = |part: &Part| matches!(part, Part::Text(t) if t.contains(char::is_whitespace));
    if template.parts.iter().any(blank) {
        cx.report(node.place, "a URL cannot contain blanks").help("write `%20`");
    }
    let first = match template.parts.first() {
        Some(Part::Text(first)) => first,
        // `${base}/cart`: what it begins with is known only when it runs.
        Some(Part::Reference(_)) => return template,
        None => {
            if node.text().is_some_and(str::is_empty) {
                cx.report(node.place, "the URL is empty").help("write `/` for the root");
            }
            return template;
        }
    };
    if first.starts_with('/') {
        if !cx.has_target {
            cx.report(node.place, "a relative URL, and the plan has no `target`")
                .help("add `target: http://HOST:PORT` at the top, or write the whole URL");
        }
    } else if let Some((scheme, _)) = first.split_once("://") {
        // The host may be a reference: `http://${host}/`.
        let known = matches!(scheme, "http" | "https");
        let alone = SCHEMES.contains(&first.as_str()) && template.parts.len() == 1;
        if !known {
            let message = format!("the scheme `{}` is not supported", shorten(scheme));
            cx.report(node.place, message).help("requests are made with http and https");
        } else if alone || SCHEMES.iter().any(|s| first.starts_with(&format!("{s}/"))) {
            cx.report(node.place, "the URL has no host").help("write http://HOST:PORT/PATH");
        } else {
            port(cx, node, first, template.parts.len() > 1);
        }
    } else {
        let message = format!("`{}` is not a URL", shorten(first));
        cx.report(node.place, message).help("begin with `/`, `http://` or `https://`");
    }
    template
}

pub fn headers(cx: &Context<'_>, node: Option<&Node>) -> Vec<(String, Template)> {
    for entry in node.map(Node::entries).unwrap_or_default() {
        if !is_token(&entry.key) {
            let message = format!("`{}` cannot name a header", shorten(&entry.key));
            cx.report(entry.place, message).help("use letters, digits and `-`");
        }
        if entry.value.text().is_some_and(|text| text.contains(['\r', '\n', '\0'])) {
            let ends = entry.value.text().is_some_and(|text| !text.trim_end().contains('\n'));
            let help = match ends {
                true => "`|` adds the end of the line: write the value behind the colon, or `|-`",
                false => "write its value in one line; `>-` joins lines by a blank",
            };
            cx.report(entry.value.place, "a header is one line").help(help);
        }
    }
    twice(cx, node.map(Node::entries).unwrap_or_default());
    let headers = cx.templates(node, Escape::Header);
    for (entry, (_, value)) in node.map(Node::entries).unwrap_or_default().iter().zip(&headers) {
        if entry.key.eq_ignore_ascii_case("authorization") {
            doubled_scheme(cx, &entry.value, value);
            bare_basic(cx, &entry.value, value);
        }
        let framing = ["content-length", "transfer-encoding"];
        if framing.iter().any(|name| entry.key.eq_ignore_ascii_case(name)) {
            let message = format!("`{}` is set by itself, from the body", shorten(&entry.key));
            cx.report(entry.place, message).help("remove it: sent twice it is refused by servers");
        }
    }
    headers
}

/// `Accept` and `accept` in one map: the second would take the place of the first.
fn twice(cx: &Context<'_>, entries: &[Entry]) {
    for (number, entry) in entries.iter().enumerate() {
        let same = |other: &&Entry| other.key.eq_ignore_ascii_case(&entry.key);
        if let Some(first) = entries[..number].iter().find(same) {
            let (name, other) = (shorten(&entry.key), shorten(&first.key));
            let message = format!("the header `{name}` is given twice: names have no case");
            let line = first.place.line;
            cx.report(entry.place, message)
                .help(format!("`{other}` in line {line} is the same header: keep one of them"));
        }
    }
}

/// What a value begins with, if that is fixed.
fn beginning(template: &Template) -> &str {
    match template.parts.first() {
        Some(Part::Text(text)) => text.trim_start(),
        _ => "",
    }
}

/// The word of an authentication scheme that a text begins with, as it is written there.
pub fn scheme(template: &Template) -> Option<&str> {
    let (word, rest) = beginning(template).split_once(' ')?;
    let known = ["bearer", "basic"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme));
    (known && (!rest.trim().is_empty() || template.parts.len() > 1)).then_some(word)
}

/// `authorization: Bearer Bearer ${token}`.
fn doubled_scheme(cx: &Context<'_>, node: &Node, value: &Template) {
    let Some(word) = scheme(value) else { return };
    let rest = beginning(value)[word.len()..].trim_start();
    let again = rest.split(' ').next().unwrap_or_default();
    if again.eq_ignore_ascii_case(word) {
        cx.report(node.place, format!("the word `{word}` stands here twice"))
            .help(format!("write it once: `authorization: {word} ...`"));
    }
}

/// `authorization: Basic ${user}:${password}`: what follows the word is base64, without a colon.
fn bare_basic(cx: &Context<'_>, node: &Node, value: &Template) {
    let Some(word) = scheme(value).filter(|word| word.eq_ignore_ascii_case("basic")) else {
        return;
    };
    let colon = |part: &Part| matches!(part, Part::Text(text) if text.contains(':'));
    if value.parts.iter().any(colon) {
        let message = format!("what follows `{word}` is base64, and here stands `user:password`");
        cx.report(node.place, message).help(
            "write `auth: { basic: { user: NAME, password: WORD } }` in the step, which encodes it",
        );
    }
}

/// RFC 9110's token: names of headers, methods.
pub fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

pub fn defaults(cx: &Context<'_>, node: Option<&Node>) -> (HttpOptions, Vec<(String, Template)>) {
    let options = refine(cx, node, &HttpOptions::default());
    (options, headers(cx, node.and_then(|node| node.get("headers"))))
}

/// The settings of `base`, changed by what is given here.
pub fn refine(cx: &Context<'_>, node: Option<&Node>, base: &HttpOptions) -> HttpOptions {
    let mut http = base.clone();
    let Some(node) = node else { return http };
    let flag = |key: &str, old: bool| node.get(key).and_then(Node::flag).unwrap_or(old);
    let word = |key: &str| node.get(key).and_then(Node::text).map(str::to_ascii_lowercase);
    match word("version").as_deref() {
        Some("auto") => http.version = HttpVersion::Auto,
        Some("1.1") => http.version = HttpVersion::Http1,
        Some("2") => http.version = HttpVersion::Http2,
        _ => {}
    }
    match word("ip").as_deref() {
        Some("any") => http.ip = IpFamily::Any,
        Some("v4") => http.ip = IpFamily::V4,
        Some("v6") => http.ip = IpFamily::V6,
        _ => {}
    }
    match word("cookies").as_deref() {
        Some("true") => (http.cookies, http.keep_cookies) = (true, false),
        Some("keep") => (http.cookies, http.keep_cookies) = (true, true),
        Some("false") => (http.cookies, http.keep_cookies) = (false, false),
        _ => {}
    }
    http.keep_alive = flag("keep_alive", http.keep_alive);
    http.compression = flag("compression", http.compression);
    http.warm = flag("warm", http.warm);
    for (key, setting) in
        [("timeout", &mut http.timeout), ("connect_timeout", &mut http.connect_timeout)]
    {
        if let Some(duration) = cx.duration(node.get(key)) {
            cx.not_zero(node.get(key), Some(duration));
            *setting = duration;
        }
    }
    if let Some(refresh) = cx.duration(node.get("dns_refresh")) {
        cx.not_zero(node.get("dns_refresh"), Some(refresh));
        http.dns_refresh = Some(refresh);
    }
    if let Some(count) = node.get("redirects").and_then(redirects) {
        http.redirects = count;
    }
    if let Some(count) = node.get("connections").and_then(Node::count) {
        http.connections = u32::try_from(count).unwrap_or(u32::MAX);
        if !(1..=1000).contains(&count) {
            cx.report(node.place, "`connections` is from 1 to 1000").done();
        }
    }
    if let Some(limit) = node.get("body_limit").and_then(Node::text) {
        http.body_limit = units::size(limit).unwrap_or(http.body_limit);
    }
    tls(cx, node, &mut http);
    addresses(cx, node, &mut http);
    http
}

pub fn redirects(node: &Node) -> Option<u32> {
    match node.flag() {
        Some(true) => Some(HttpOptions::default().redirects),
        Some(false) => Some(0),
        None => node.count().map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
    }
}

fn addresses(cx: &Context<'_>, node: &Node, http: &mut HttpOptions) {
    for entry in node.get("hosts").map(Node::entries).unwrap_or_default() {
        let address = entry.value.text().unwrap_or_default();
        let known = address.parse::<std::net::IpAddr>().is_ok()
            || address.parse::<std::net::SocketAddr>().is_ok();
        if !known && entry.value.text().is_some() {
            cx.report(entry.value.place, format!("`{}` is not an address", shorten(address)))
                .help("write 127.0.0.1, 127.0.0.1:8080, ::1 or [::1]:8080");
        }
        http.hosts.retain(|(host, _)| *host != entry.key);
        http.hosts.push((entry.key.clone(), address.to_owned()));
    }
    if let Some(list) = node.get("local_addresses") {
        http.local_addresses.clear();
        for item in list.one_or_many() {
            match item.text().unwrap_or_default().parse() {
                Ok(address) => {
                    if let Some(Err(message)) = cx.is_here.map(|is_here| is_here(address)) {
                        cx.report(item.place, message).help(
                            "name addresses that this machine has (`ip address` lists them), or leave \
                             `local_addresses` out",
                        );
                    }
                    http.local_addresses.push(address);
                }
                Err(_) => cx
                    .report(item.place, "not an IP address")
                    .help("write an address of this machine, for example 10.0.0.5"),
            }
        }
    }
    if let Some(proxy) = node.get("proxy").filter(|proxy| proxy.text().is_some()) {
        let url = proxy.text().unwrap_or_default();
        http.proxy = Some(match url {
            "environment" => ProxyChoice::Environment,
            url => {
                if !has_host(url, "http://") {
                    cx.report(proxy.place, "not an HTTP proxy").help(
                        "write http://HOST:PORT, or `environment` for HTTP_PROXY and its kin",
                    );
                }
                ProxyChoice::Url(url.to_owned())
            }
        });
    }
}
