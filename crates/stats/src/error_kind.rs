//! Why a request failed without an acceptable answer.

use serde::{Deserialize, Serialize};

/// One word per cause that a user can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The host name did not resolve.
    Dns,
    /// Nobody listens there.
    Refused,
    /// No route, no permission, no local port left: the connection could not be attempted.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// No complete answer in time.
    Timeout,
    /// The connection broke before the answer was complete.
    Reset,
    /// The answer was not HTTP.
    Protocol,
    /// The body could not be decoded or was longer than allowed.
    Body,
    /// An answer came, with a status that this step does not expect.
    Status,
    /// Too many redirects, or one that leads nowhere.
    Redirect,
    /// The generator itself ran out of something (descriptors, ports).
    Local,
    /// An answer came, and a value that the step takes from it was not there.
    Extract,
    /// The request needs a value that nothing has set; it was not sent.
    NoValue,
}

impl ErrorKind {
    pub const ALL: [ErrorKind; 13] = [
        ErrorKind::Dns,
        ErrorKind::Refused,
        ErrorKind::Connect,
        ErrorKind::Tls,
        ErrorKind::Timeout,
        ErrorKind::Reset,
        ErrorKind::Protocol,
        ErrorKind::Body,
        ErrorKind::Status,
        ErrorKind::Redirect,
        ErrorKind::Local,
        ErrorKind::Extract,
        ErrorKind::NoValue,
    ];

    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Dns => "dns",
            ErrorKind::Refused => "refused",
            ErrorKind::Connect => "connect",
            ErrorKind::Tls => "tls",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Reset => "reset",
            ErrorKind::Protocol => "protocol",
            ErrorKind::Body => "body",
            ErrorKind::Status => "status",
            ErrorKind::Redirect => "redirect",
            ErrorKind::Local => "local",
            ErrorKind::Extract => "extract",
            ErrorKind::NoValue => "no_value",
        }
    }
}
