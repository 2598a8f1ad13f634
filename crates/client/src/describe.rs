//! A TLS session for people: what was agreed, and whose certificate was shown.

use std::fmt::Write;
use std::net::IpAddr;

use rustls::{ClientConnection, ProtocolVersion};
use stats::time::rfc3339_ms;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// ```text
/// TLS 1.3, TLS_AES_256_GCM_SHA384, HTTP/2 by ALPN
/// certificate for localhost, 127.0.0.1; subject CN=localhost; issued by CN=dev CA; valid ...
/// ```
pub fn describe(session: &ClientConnection) -> String {
    let version = match session.protocol_version() {
        Some(ProtocolVersion::TLSv1_2) => "TLS 1.2",
        Some(ProtocolVersion::TLSv1_3) => "TLS 1.3",
        _ => "TLS",
    };
    let cipher = session.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite()));
    let cipher = cipher.unwrap_or_default().replacen("TLS13_", "TLS_", 1);
    let http = match session.alpn_protocol() {
        Some(b"h2") => "HTTP/2 by ALPN",
        Some(b"http/1.1") => "HTTP/1.1 by ALPN",
        _ => "no ALPN",
    };
    let mut text = format!("{version}, {cipher}, {http}");
    let chain = session.peer_certificates().unwrap_or_default();
    if let Some(shown) = chain.first().and_then(|first| certificate(first)) {
        let _ = write!(text, "\n{shown}");
        if chain.len() > 1 {
            let _ = write!(text, "; {} more in the chain", chain.len() - 1);
        }
    }
    text
}

fn certificate(der: &[u8]) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(der).ok()?;
    let names = parsed.subject_alternative_name().ok().flatten();
    let names: Vec<String> =
        names.iter().flat_map(|names| &names.value.general_names).filter_map(name).collect();
    let names = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
    let day = |seconds: i64| {
        let text = rfc3339_ms(u64::try_from(seconds).unwrap_or(0) * 1000);
        text.split('T').next().unwrap_or_default().to_owned()
    };
    let validity = parsed.validity();
    Some(format!(
        "certificate for {names}; subject {}; issued by {}; valid {} to {}",
        parsed.subject(),
        parsed.issuer(),
        day(validity.not_before.timestamp()),
        day(validity.not_after.timestamp()),
    ))
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let four = <[u8; 4]>::try_from(*bytes).map(IpAddr::from).ok();
            let sixteen = || <[u8; 16]>::try_from(*bytes).map(IpAddr::from).ok();
            four.or_else(sixteen).map(|address| address.to_string())
        }
        GeneralName::URI(uri) => Some((*uri).to_owned()),
        _ => None,
    }
}
