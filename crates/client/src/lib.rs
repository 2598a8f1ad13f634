//! The HTTP client of a virtual user: connections of its own, cookies of its own, timings of every
//! phase.
//!
//! ```text
//! Client ──acquire──▶ pool of one origin ──▶ h1::Connection   one exchange at a time, bytes in, bytes out
//!    │                                  └──▶ h2::Connection   many streams, driven by a task of its own
//!    └─ connect: address ▶ TCP / Unix ▶ proxy ▶ TLS (ALPN decides the version)
//! ```
//!
//! The HTTP/1.1 side is written for cost: a request is one buffer and one write, an answer is
//! parsed where the kernel put it (a buffer shared by all connections of a core), and a body is
//! copied only if a step reads it. Nothing in here knows of steps, checks or statistics.

mod body;
mod chunked;
mod connect;
mod cookies;
mod deadline;
mod describe;
mod h1;
mod h2;
mod head;
mod io;
mod origin;
mod peer;
mod pool;
mod proxy;
mod response;
mod tls;
mod trusted;
mod words;

pub use body::{CODINGS, decode_body, encode_body};
pub use cookies::{Jar, SetCookie};
pub use deadline::{Deadline, Deadlines};
pub use origin::{Origin, OriginTable, UNIX_HOST, parse_url, render_authority, take_userinfo};
pub use peer::Peer;
pub use pool::{Client, LazyTls, Outgoing, Settings};
pub use proxy::{Proxies, Proxy, ProxyRules};
pub use response::{Keep, Response};
pub use tls::{ca_reads, client_config, key_fits};

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use stats::ErrorKind;

/// Why an exchange came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: ErrorKind,
    pub message: String,
    pub cause: Cause,
}

/// What exactly happened, where the kind alone does not say it: k6 has a number for each of these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cause {
    #[default]
    Unsaid,
    /// The operating system's error, on a connection that was up.
    System(i32),
    /// The peer closed the connection; true: in the middle of its answer.
    Closed(bool),
    /// No connection within the time for connecting; the time for the exchange was not over.
    ConnectTimeout,
    /// The peer does not speak TLS at all.
    NotTls,
    UnknownAuthority,
    /// The certificate is for another name.
    WrongName,
    CertificateInvalid,
    /// HTTP/2: the peer gave up the connection, or this stream.
    GoAway,
    StreamReset,
}

impl Failure {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into(), cause: Cause::Unsaid }
    }

    pub fn because(mut self, cause: Cause) -> Failure {
        self.cause = cause;
        self
    }

    /// What an I/O error means once a connection is up.
    pub(crate) fn from_io(error: &std::io::Error) -> Failure {
        use std::io::ErrorKind as Io;
        let kind = match error.kind() {
            Io::TimedOut => ErrorKind::Timeout,
            Io::InvalidData => ErrorKind::Tls,
            _ => ErrorKind::Reset,
        };
        let cause = error.raw_os_error().map_or(Cause::Unsaid, Cause::System);
        Failure::new(kind, words::io_words(error)).because(cause)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.message)
    }
}

/// The phases of one exchange, as k6 names them, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Phases {
    /// Until a connection was at hand; connecting and handshaking are part of it.
    pub blocked: u64,
    pub connecting: u64,
    pub tls_handshaking: u64,
    pub sending: u64,
    pub waiting: u64,
    pub receiving: u64,
}

impl Phases {
    /// k6's `http_req_duration`.
    pub fn duration(&self) -> u64 {
        self.sending + self.waiting + self.receiving
    }
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy)]
pub struct ExchangeEnd {
    /// `None`: no complete answer came.
    pub status: Option<u16>,
    pub error: Option<stats::ErrorKind>,
    pub latency_ns: u64,
}

/// What is known of an exchange while it runs; it outlives a cancelled one, so that nothing written
/// goes uncounted.
#[derive(Debug, Default)]
pub struct Progress {
    /// At least one byte of the request left this process.
    pub sent: Cell<bool>,
    pub bytes_sent: Cell<u64>,
    pub bytes_received: Cell<u64>,
    /// Earlier tries that were written to a kept-alive connection which the server had closed.
    pub retries: Cell<u32>,
    pub phases: Cell<Phases>,
    /// 1 or 2.
    pub version: Cell<u8>,
    /// Who is at the other end, once there is a connection.
    pub peer: RefCell<Option<Rc<Peer>>>,
}

impl Progress {
    pub fn reset(&self) {
        self.sent.set(false);
        self.bytes_sent.set(0);
        self.bytes_received.set(0);
        self.retries.set(0);
        self.phases.set(Phases::default());
        self.version.set(1);
        *self.peer.borrow_mut() = None;
    }
}
