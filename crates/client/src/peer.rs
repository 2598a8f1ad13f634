//! Who is at the other end of a connection, and what was agreed with them. Found out once per
//! connection, looked at by whoever shows single exchanges.

use std::net::SocketAddr;

use rustls::ProtocolVersion;

use crate::io::Stream;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// `None` for a Unix socket. A proxy's, where there is one.
    pub address: Option<SocketAddr>,
    /// `tls1.3`, if the connection is encrypted.
    pub tls_version: Option<&'static str>,
    /// The name that IANA has for it: `TLS_AES_256_GCM_SHA384`.
    pub cipher: Option<String>,
}

impl Peer {
    pub(crate) fn of(stream: &Stream) -> Peer {
        let Some(session) = stream.session() else {
            return Peer { address: stream.peer_address(), tls_version: None, cipher: None };
        };
        let version = match session.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "tls1.2",
            Some(ProtocolVersion::TLSv1_3) => "tls1.3",
            _ => "unknown",
        };
        // rustls writes `TLS13_AES_256_GCM_SHA384` where the registry has no number.
        let cipher = session
            .negotiated_cipher_suite()
            .map(|suite| format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1));
        Peer { address: stream.peer_address(), tls_version: Some(version), cipher }
    }
}
