//! Targets, headers and connection settings.

use std::path::Path;

use super::Context;
use crate::model::{HttpOptions, HttpVersion, IpFamily, ProxyChoice};
use crate::template::{Escape, Part, Template};
use crate::tree::{Node, shorten};
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
        }
    } else if node.text().is_some_and(str::is_empty) {
        cx.report(node.place, "the target is empty").help("write http://HOST:PORT");
    }
    template
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
            cx.report(node.place, "the URL has no host").done();
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
            cx.report(entry.value.place, "a header is one line").done();
        }
    }
    let headers = cx.templates(node, Escape::Header);
    for (entry, (_, value)) in node.map(Node::entries).unwrap_or_default().iter().zip(&headers) {
        if entry.key.eq_ignore_ascii_case("authorization") {
            doubled_scheme(cx, &entry.value, value);
        }
    }
    headers
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

fn tls(cx: &Context<'_>, node: &Node, http: &mut HttpOptions) {
    let Some(node) = node.get("tls") else { return };
    let file = |key: &str| node.get(key).filter(|node| node.text().is_some()).map(|n| cx.file(n));
    if let Some(insecure) = node.get("insecure").and_then(Node::flag) {
        http.tls.insecure = insecure;
    }
    http.tls.ca = file("ca").or(http.tls.ca.take());
    http.tls.certificate = file("certificate").or(http.tls.certificate.take());
    http.tls.key = file("key").or(http.tls.key.take());
    if let Some(name) = node.get("server_name").and_then(Node::text) {
        http.tls.server_name = Some(name.to_owned());
    }
    match (&http.tls.certificate, &http.tls.key) {
        (Some(_), None) => cx.report(node.place, "`certificate` needs a `key`").done(),
        (None, Some(_)) => cx.report(node.place, "`key` needs a `certificate`").done(),
        (Some(certificate), Some(key)) => key_fits(cx, node, certificate, key),
        (None, None) => {}
    }
}

/// A key of another certificate would fail every connection.
fn key_fits(cx: &Context<'_>, node: &Node, certificate: &Path, key: &Path) {
    let Some(fits) = cx.key_fits.filter(|_| certificate.is_file() && key.is_file()) else {
        return;
    };
    if let Err(message) = fits(certificate, key) {
        let place = node.get("key").or(node.get("certificate")).unwrap_or(node).place;
        cx.report(place, message).help(
            "name the key that the certificate was made for, both in PEM; \
             `openssl x509 -noout -pubkey -in CERTIFICATE` and `openssl pkey -pubout -in KEY` print the same then",
        );
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
                Ok(address) => http.local_addresses.push(address),
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
