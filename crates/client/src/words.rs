//! What went wrong on a connection, in words that a person can act on; the libraries' own names for
//! it are for those who know the libraries.

use std::io;

use rustls::{AlertDescription as Alert, CertificateError as Bad, Error as Tls};

/// An I/O error, which may have one of TLS inside.
pub fn io_words(error: &io::Error) -> String {
    if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<Tls>()) {
        return tls_words(tls);
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            "the server closed the connection without a word".to_owned()
        }
        _ => error.to_string(),
    }
}

fn tls_words(error: &Tls) -> String {
    match error {
        Tls::InvalidCertificate(bad) => certificate_words(bad),
        Tls::InvalidMessage(_) => {
            "the answer is not TLS; that port may speak plain HTTP".to_owned()
        }
        Tls::AlertReceived(alert) => alert_words(*alert),
        Tls::PeerIncompatible(_) => {
            "the server has no TLS version, cipher or signature in common with this client"
                .to_owned()
        }
        Tls::PeerMisbehaved(_) => format!("the server breaks the rules of TLS ({error})"),
        Tls::NoApplicationProtocol => {
            "the server speaks none of the HTTP versions that were offered".to_owned()
        }
        other => other.to_string(),
    }
}

fn certificate_words(bad: &Bad) -> String {
    match bad {
        Bad::UnknownIssuer | Bad::BadSignature => {
            "the certificate is signed by nobody who is trusted here".to_owned()
        }
        Bad::Expired | Bad::ExpiredContext { .. } => "the certificate has expired".to_owned(),
        Bad::NotValidYet | Bad::NotValidYetContext { .. } => {
            "the certificate is not valid yet; are the clocks right?".to_owned()
        }
        Bad::NotValidForName => "the certificate is for another name".to_owned(),
        Bad::NotValidForNameContext { expected, presented } => match presented.as_slice() {
            [] => format!(
                "the certificate has no alternative name (SAN), so it is not for `{}`",
                expected.to_str()
            ),
            names => format!(
                "the certificate is not for `{}` but for {}",
                expected.to_str(),
                names.iter().map(|name| plain_name(name)).collect::<Vec<_>>().join(", ")
            ),
        },
        Bad::Revoked => "the certificate was revoked".to_owned(),
        Bad::InvalidPurpose | Bad::InvalidPurposeContext { .. } => {
            "the certificate is not meant for servers".to_owned()
        }
        other if is_authority(other) => {
            "the certificate is an authority's (CA:TRUE) and not a server's; to trust exactly this \
             one, give it as `ca`"
                .to_owned()
        }
        other => format!("the certificate cannot be used ({other:?})"),
    }
}

/// `DnsName("shop.example")` is not for people.
fn plain_name(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    format!("`{}`", inner.unwrap_or(name).trim_matches('"'))
}

/// The server shows the certificate of an authority as its own.
pub fn is_authority(bad: &Bad) -> bool {
    matches!(bad, Bad::Other(other) if other.to_string().contains("CaUsedAsEndEntity"))
}

fn alert_words(alert: Alert) -> String {
    let why = match alert {
        Alert::ProtocolVersion => "it wants another version of TLS",
        Alert::HandshakeFailure | Alert::InsufficientSecurity => "no cipher is common to both",
        Alert::CertificateRequired => "it wants a client certificate",
        Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateUnknown
        | Alert::UnknownCA
        | Alert::AccessDenied => "it does not accept our certificate",
        Alert::CertificateExpired => "our certificate has expired",
        Alert::UnrecognisedName => "it has no certificate for this name",
        Alert::NoApplicationProtocol => "it speaks none of the HTTP versions that were offered",
        Alert::InternalError => "it has trouble of its own",
        other => return format!("the server refused the connection (TLS alert {other:?})"),
    };
    format!("the server refused the connection: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internals_of_tls_do_not_show() {
        let wrap = |error: Tls| io::Error::new(io::ErrorKind::InvalidData, error);
        let closed = io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "peer closed connection without sending TLS close_notify: https://docs.rs/rustls",
        );
        for (error, said) in [
            (wrap(Tls::InvalidCertificate(Bad::UnknownIssuer)), "signed by nobody who is trusted"),
            (wrap(Tls::InvalidCertificate(Bad::Expired)), "has expired"),
            (wrap(Tls::AlertReceived(Alert::CertificateRequired)), "wants a client certificate"),
            (
                wrap(Tls::InvalidMessage(rustls::InvalidMessage::InvalidContentType)),
                "the answer is not TLS",
            ),
            (closed, "closed the connection without a word"),
        ] {
            let words = io_words(&error);
            assert!(words.contains(said), "{words}");
            for internal in ["rustls", "close_notify", "Invalid", "UnknownIssuer"] {
                assert!(!words.contains(internal), "{words}");
            }
        }
    }
}
