//! Why a request failed, with k6's numbers and words: scripts compare them.

use client::{Cause, Failure};
use stats::ErrorKind;

pub const GENERAL: u16 = 1000;
pub const INVALID_URL: u16 = 1020;
const REQUEST_TIMEOUT: u16 = 1050;
const DNS: u16 = 1100;
const DNS_NO_SUCH_HOST: u16 = 1101;
const BLACKLISTED_IP: u16 = 1110;
const BLOCKED_HOSTNAME: u16 = 1111;
const TCP: u16 = 1200;
const BROKEN_PIPE: u16 = 1201;
const DIAL: u16 = 1210;
const DIAL_TIMEOUT: u16 = 1211;
const DIAL_REFUSED: u16 = 1212;
const RESET_BY_PEER: u16 = 1220;
const TLS: u16 = 1300;
const NOT_TLS: u16 = 1301;
const UNKNOWN_AUTHORITY: u16 = 1310;
const WRONG_NAME: u16 = 1311;
const HTTP2_GO_AWAY: u16 = 1610;
const HTTP2_STREAM: u16 = 1630;
const HTTP2_CONNECTION: u16 = 1650;
const DECOMPRESSION: u16 = 1701;

#[derive(Debug, Clone)]
pub struct Trouble {
    /// 0: the call was wrong, nothing was tried.
    pub code: u16,
    /// What `error` of the response says: the same for the same cause, fit for a tag.
    pub text: String,
    /// What the log says: with addresses and reasons.
    pub detail: String,
    pub kind: ErrorKind,
}

impl Trouble {
    /// Nothing was tried: the call itself was wrong.
    pub fn refused(code: u16, text: impl Into<String>) -> Trouble {
        let text = text.into();
        Trouble { code, detail: text.clone(), text, kind: ErrorKind::Protocol }
    }

    pub fn general(text: String) -> Trouble {
        Trouble::refused(GENERAL, text)
    }

    pub fn dial(why: String) -> Trouble {
        let text = format!("dial tcp: {why}");
        Trouble { code: DIAL, detail: text.clone(), text, kind: ErrorKind::Connect }
    }

    pub fn blocked_name(host: &str, pattern: &str) -> Trouble {
        Trouble {
            code: BLOCKED_HOSTNAME,
            text: "hostname is blocked".to_owned(),
            detail: format!("hostname ({host}) is in a blocked pattern ({pattern})"),
            kind: ErrorKind::Local,
        }
    }

    pub fn blacklisted(address: &str, range: &str) -> Trouble {
        Trouble {
            code: BLACKLISTED_IP,
            text: "ip is blacklisted".to_owned(),
            detail: format!("IP ({address}) is in a blacklisted range ({range})"),
            kind: ErrorKind::Local,
        }
    }

    pub fn timeout() -> Trouble {
        Trouble {
            code: REQUEST_TIMEOUT,
            text: "request timeout".to_owned(),
            detail: "request timeout".to_owned(),
            kind: ErrorKind::Timeout,
        }
    }

    pub fn undecodable(failure: &Failure) -> Trouble {
        let text = format!("error decompressing response body ({})", failure.message);
        Trouble { code: DECOMPRESSION, detail: text.clone(), text, kind: ErrorKind::Body }
    }

    /// `deadline_passed`: the time for the whole request is over.
    pub fn from_failure(failure: Failure, deadline_passed: bool) -> Trouble {
        let Failure { kind, message, cause } = failure;
        let (code, text) = match (kind, cause) {
            (ErrorKind::Timeout, Cause::ConnectTimeout) if !deadline_passed => {
                (DIAL_TIMEOUT, "dial: i/o timeout")
            }
            (ErrorKind::Timeout, _) => (REQUEST_TIMEOUT, "request timeout"),
            (ErrorKind::Dns, _) if message.contains("family") => (DNS, "lookup: no usable address"),
            (ErrorKind::Dns, _) => (DNS_NO_SUCH_HOST, "lookup: no such host"),
            (ErrorKind::Refused, _) => (DIAL_REFUSED, "dial: connection refused"),
            (ErrorKind::Reset, Cause::GoAway) => (HTTP2_GO_AWAY, "http2: server sent GOAWAY"),
            (ErrorKind::Protocol, Cause::GoAway) => (HTTP2_CONNECTION, "http2: connection error"),
            (_, Cause::StreamReset) => (HTTP2_STREAM, "http2: stream error"),
            (_, Cause::Closed(false)) => (GENERAL, "EOF"),
            (_, Cause::Closed(true)) => (GENERAL, "unexpected EOF"),
            (ErrorKind::Reset, Cause::System(libc::ECONNRESET)) => {
                (RESET_BY_PEER, "read: connection reset by peer")
            }
            (ErrorKind::Reset, Cause::System(libc::EPIPE)) => (BROKEN_PIPE, "write: broken pipe"),
            (ErrorKind::Reset, Cause::System(_)) => (TCP, ""),
            (ErrorKind::Connect | ErrorKind::Local, _) => (DIAL, ""),
            (ErrorKind::Tls, Cause::UnknownAuthority) => {
                (UNKNOWN_AUTHORITY, "x509: unknown authority")
            }
            (ErrorKind::Tls, Cause::WrongName) => {
                (WRONG_NAME, "x509: certificate doesn't match hostname")
            }
            (ErrorKind::Tls, Cause::NotTls) => {
                (NOT_TLS, "tls: first record does not look like a TLS handshake")
            }
            (ErrorKind::Tls, _) => (TLS, ""),
            _ => (GENERAL, ""),
        };
        let text = if text.is_empty() { message.clone() } else { text.to_owned() };
        Trouble { code, text, detail: message, kind }
    }
}
