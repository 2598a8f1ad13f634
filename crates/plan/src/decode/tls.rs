//! TLS settings, looked at when the plan is read: what is wrong with a file or a name is said with
//! its line, and not by every connection.

use std::path::Path;

use super::Context;
use crate::model::HttpOptions;
use crate::tree::{Node, shorten};

/// A file of certificates or keys is at most so long.
const PEM_BYTES_MAX: u64 = 16 << 20;

pub fn tls(cx: &Context<'_>, node: &Node, http: &mut HttpOptions) {
    let Some(node) = node.get("tls") else { return };
    let file = |key: &str| node.get(key).filter(|node| node.text().is_some()).map(|n| cx.file(n));
    if let Some(insecure) = node.get("insecure").and_then(Node::flag) {
        http.tls.insecure = insecure;
    }
    if let Some(ca) = file("ca") {
        trusted(cx, node, &ca);
        http.tls.ca = Some(ca);
    }
    http.tls.certificate = file("certificate").or(http.tls.certificate.take());
    http.tls.key = file("key").or(http.tls.key.take());
    if let Some(name) = node.get("server_name").filter(|name| name.text().is_some()) {
        server_name(cx, name);
        http.tls.server_name = name.text().map(str::to_owned);
    }
    match (&http.tls.certificate, &http.tls.key) {
        (Some(_), None) => cx.report(node.place, "`certificate` needs a `key`").done(),
        (None, Some(_)) => cx.report(node.place, "`key` needs a `certificate`").done(),
        (Some(certificate), Some(key)) => pair(cx, node, certificate, key),
        (None, None) => {}
    }
}

/// What a file in PEM holds, by its labels.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Holds {
    certificate: bool,
    key: bool,
}

impl Holds {
    /// `None`: there is no file to look into, which is reported elsewhere.
    fn of(path: &Path) -> Option<Holds> {
        let size = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?.len();
        if size > PEM_BYTES_MAX {
            return Some(Holds { certificate: false, key: false });
        }
        let bytes = std::fs::read(path).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        Some(Holds {
            certificate: text.contains("-----BEGIN CERTIFICATE-----"),
            key: text.contains("PRIVATE KEY-----"),
        })
    }

    /// What stands there in the place of what is wanted.
    fn instead(self) -> &'static str {
        match (self.certificate, self.key) {
            (_, true) => "a private key",
            (true, false) => "a certificate",
            (false, false) => "nothing in PEM",
        }
    }
}

const TO_PEM: &str =
    "PEM begins with `-----BEGIN`; `openssl x509 -inform DER -in FILE` turns DER into it";

/// The file of `ca`.
fn trusted(cx: &Context<'_>, node: &Node, path: &Path) {
    let Some(holds) = Holds::of(path) else { return };
    let Some(given) = node.get("ca") else { return };
    let name = shorten(given.text().unwrap_or_default());
    if !holds.certificate {
        let message = format!("`{name}` holds {} and no certificate", holds.instead());
        return cx.report(given.place, message).help(match holds.key {
            true => "name the PEM file with the certificate of the CA".to_owned(),
            false => format!("name the PEM file with the certificate of the CA; {TO_PEM}"),
        });
    }
    if let Some(Err(message)) = cx.ca_reads.map(|reads| reads(path)) {
        cx.report(given.place, message)
            .help("name a PEM file with the certificate of the CA; `openssl x509 -noout -text -in FILE` reads one");
    }
}

/// `server_name: https://shop.example`.
fn server_name(cx: &Context<'_>, node: &Node) {
    let name = node.text().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_name = !name.is_empty()
        && name.len() <= 253
        && name.chars().all(plain)
        && name.trim_end_matches('.').split('.').all(|part| (1..=63).contains(&part.len()));
    if is_name || name.parse::<std::net::IpAddr>().is_ok() {
        return;
    }
    let bare = name.split_once("://").map_or(name, |(_, rest)| rest);
    let bare = bare.split(['/', '?', '#']).next().unwrap_or_default();
    let bare = bare.rsplit_once(':').map_or(bare, |(host, _)| host);
    let help = match !bare.is_empty() && bare != name && bare.chars().all(plain) {
        true => format!("write the name alone: `server_name: {}`", shorten(bare)),
        false => "write a host name, for example `server_name: shop.example`".to_owned(),
    };
    cx.report(node.place, format!("`{}` is not the name of a server", shorten(name))).help(help);
}

/// A client certificate and its key: a key of another certificate would fail every connection.
fn pair(cx: &Context<'_>, node: &Node, certificate: &Path, key: &Path) {
    let (Some(first), Some(second)) = (Holds::of(certificate), Holds::of(key)) else { return };
    let given = |name: &str| node.get(name).unwrap_or(node);
    let shown = |name: &str| shorten(given(name).text().unwrap_or_default());
    if !first.certificate && second.certificate && first.key && !second.key {
        let message = "the certificate and its key are swapped";
        return cx.report(given("certificate").place, message).help(format!(
            "write `certificate: {}, key: {}`",
            shown("key"),
            shown("certificate")
        ));
    }
    for (name, holds, wanted) in
        [("certificate", first, first.certificate), ("key", second, second.key)]
    {
        if !wanted {
            let what = if name == "key" { "private key" } else { "certificate" };
            let message = format!("`{}` holds {} and no {what}", shown(name), holds.instead());
            return cx
                .report(given(name).place, message)
                .help(format!("name the PEM file with the {what}; {TO_PEM}"));
        }
    }
    let Some(fits) = cx.key_fits else { return };
    if let Err(message) = fits(certificate, key) {
        let place = node.get("key").or(node.get("certificate")).unwrap_or(node).place;
        cx.report(place, message).help(
            "name the key that the certificate was made for, both in PEM; \
             `openssl x509 -noout -pubkey -in CERTIFICATE` and `openssl pkey -pubout -in KEY` print the same then",
        );
    }
}
