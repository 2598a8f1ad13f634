//! What a plan says, after parsing: plain data that the engine compiles and the control plane
//! divides.
//!
//! Everything here is legal by construction: `read` reports every problem of a file at once and
//! hands out a [`Plan`] only if there was none. Names are kept as the user wrote them; whoever runs
//! a plan resolves them to indexes once, before the first request.

mod network;
mod steps;
mod thresholds;

pub use network::*;
pub use steps::*;
pub use thresholds::*;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use crate::template::Template;

/// A whole load test: what virtual users do, how much of it, and what must hold.
#[derive(Debug, Clone)]
pub struct Plan {
    pub name: String,
    /// Base of relative URLs, for example `http://127.0.0.1:8080` or `unix:/run/app.sock`.
    pub target: Option<Template>,
    pub http: HttpOptions,
    /// Sent with every request of the plan unless a step sets the same header.
    pub headers: Vec<(String, Template)>,
    /// Constants, rendered once per iteration into variables of the same name.
    pub vars: Vec<(String, Template)>,
    pub data: Vec<DataSet>,
    pub metrics: Vec<Metric>,
    pub tags: Vec<(String, Template)>,
    pub setup: Vec<Step>,
    pub teardown: Vec<Step>,
    pub workflows: Vec<Workflow>,
    pub thresholds: Vec<Threshold>,
    /// The longest time the whole job may take; `None`: as long as its workflows take.
    pub timeout: Option<Duration>,
    /// Folder against which data, body and certificate files are resolved.
    pub base_dir: PathBuf,
    /// Files that the plan names, as it writes them, and where they are.
    pub files: Vec<(String, PathBuf)>,
    /// What is legal and hardly meant, each with its place and what to do.
    pub warnings: Vec<crate::Problem>,
}

impl Plan {
    /// Workflows and nothing else.
    pub fn bare(name: impl Into<String>, http: HttpOptions, workflows: Vec<Workflow>) -> Plan {
        Plan {
            name: name.into(),
            target: None,
            http,
            headers: Vec::new(),
            vars: Vec::new(),
            data: Vec::new(),
            metrics: Vec::new(),
            tags: Vec::new(),
            setup: Vec::new(),
            teardown: Vec::new(),
            workflows,
            thresholds: Vec::new(),
            timeout: None,
            base_dir: PathBuf::from("."),
            files: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// Connection and protocol settings; a plan's `defaults`, refined per workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpOptions {
    pub version: HttpVersion,
    /// From the start of a step to the last byte of its response, redirects included.
    pub timeout: Duration,
    pub connect_timeout: Duration,
    /// How many redirects are followed; 0 turns following off.
    pub redirects: u32,
    /// `false`: one connection per request (`connection: close`).
    pub keep_alive: bool,
    /// `false`: the cookie jar is emptied at the start of each iteration.
    pub keep_cookies: bool,
    /// `false`: cookies are neither stored nor sent.
    pub cookies: bool,
    /// Ask for compressed answers; bodies are decoded only where a step reads them.
    pub compression: bool,
    pub tls: TlsOptions,
    /// `None`: resolve each host once, before measuring.
    pub dns_refresh: Option<Duration>,
    /// Which addresses of a host are used.
    pub ip: IpFamily,
    /// Only the first address of a host is used, instead of all in turn. Scripts only.
    pub first_address: bool,
    /// `host` or `host:port` -> address to connect to.
    pub hosts: Vec<(String, String)>,
    /// Source addresses, used in turn by the virtual users.
    pub local_addresses: Vec<std::net::IpAddr>,
    pub proxy: Option<ProxyChoice>,
    /// Open each virtual user's connection before its first iteration is measured.
    pub warm: bool,
    /// At most this many connections per virtual user and host (HTTP/1.1, concurrent steps).
    pub connections: u32,
    /// Longest response body that is read; a longer one is a `body` error.
    pub body_limit: u64,
}

impl Default for HttpOptions {
    fn default() -> Self {
        HttpOptions {
            version: HttpVersion::Auto,
            timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(10),
            redirects: 10,
            keep_alive: true,
            keep_cookies: false,
            cookies: true,
            compression: false,
            tls: TlsOptions::default(),
            dns_refresh: None,
            ip: IpFamily::Any,
            first_address: false,
            hosts: Vec::new(),
            local_addresses: Vec::new(),
            proxy: None,
            warm: false,
            connections: 6,
            body_limit: 64 << 20,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.1 on plain connections; what ALPN gives (HTTP/2 preferred) on TLS.
    Auto,
    Http1,
    /// HTTP/2 by ALPN on TLS, with prior knowledge (h2c) on plain connections.
    Http2,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TlsOptions {
    /// Accept any certificate.
    pub insecure: bool,
    /// Extra trusted roots (PEM).
    pub ca: Option<PathBuf>,
    /// Client certificate chain and key (PEM).
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// Name sent as SNI and checked against the certificate.
    pub server_name: Option<String>,
    /// Whether TLS 1.2 and TLS 1.3 are offered. Scripts only.
    pub versions: (bool, bool),
    /// Names of the cipher suites that are offered; none: all. Scripts only.
    pub cipher_suites: Vec<String>,
    /// Client certificate chain and key themselves, in PEM. Scripts only.
    pub identity: Option<(String, String)>,
}

impl Default for TlsOptions {
    fn default() -> Self {
        TlsOptions {
            insecure: false,
            ca: None,
            certificate: None,
            key: None,
            server_name: None,
            versions: (true, true),
            cipher_suites: Vec::new(),
            identity: None,
        }
    }
}

/// Rows that fill templates: `${data.NAME.COLUMN}`.
#[derive(Debug, Clone)]
pub struct DataSet {
    pub name: String,
    pub file: PathBuf,
    pub format: DataFormat,
    /// Between the fields of a CSV line.
    pub delimiter: u8,
    pub order: DataOrder,
    pub when_exhausted: WhenExhausted,
    /// Column names, read from the file when the plan is checked.
    pub columns: Vec<String>,
    /// Number of rows, read likewise; at least 1.
    pub rows: u64,
    /// Numbers of the workflows that refer to it.
    pub used_by: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataFormat {
    Csv,
    JsonLines,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataOrder {
    /// Row n for the workflow's n-th iteration.
    Sequential,
    Random,
    /// One row per virtual user, for its whole life.
    UniquePerVu,
    /// As sequential, and `recycle` is refused.
    UniquePerIteration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenExhausted {
    Recycle,
    /// The virtual user that finds no row left stops.
    Stop,
}

/// A metric of the user's own, fed by `record` steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    pub name: String,
    pub kind: MetricKind,
    /// Values of a trend are times in milliseconds.
    pub time: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    Counter,
    Gauge,
    Rate,
    Trend,
}

#[derive(Debug, Clone)]
pub struct Workflow {
    pub name: String,
    pub priority: Priority,
    /// Exactly so many cores; none: what its priority or its load needs.
    pub cores: Option<NonZeroU32>,
    pub depends_on: Vec<String>,
    pub load: Load,
    pub http: HttpOptions,
    pub headers: Vec<(String, Template)>,
    pub vars: Vec<(String, Template)>,
    pub tags: Vec<(String, Template)>,
    /// Once, before the workflow's load; what it extracts is visible to all its virtual users.
    pub setup: Vec<Step>,
    pub teardown: Vec<Step>,
    /// Once per virtual user, before its first and after its last iteration; part of none.
    pub vu_setup: Vec<Step>,
    pub vu_teardown: Vec<Step>,
    pub steps: Vec<Step>,
    /// Steps without `needs` are roots and start together.
    pub concurrent: bool,
    pub on_failure: OnFailure,
    pub provide: Vec<Provide>,
    pub uses: Vec<Use>,
}

impl Workflow {
    /// A load and nothing to do yet.
    pub fn bare(name: impl Into<String>, load: Load, http: HttpOptions) -> Workflow {
        Workflow {
            name: name.into(),
            priority: Priority::Auto,
            cores: None,
            depends_on: Vec::new(),
            load,
            http,
            headers: Vec::new(),
            vars: Vec::new(),
            tags: Vec::new(),
            setup: Vec::new(),
            teardown: Vec::new(),
            vu_setup: Vec::new(),
            vu_teardown: Vec::new(),
            steps: Vec::new(),
            concurrent: false,
            on_failure: OnFailure::Continue,
            provide: Vec::new(),
            uses: Vec::new(),
        }
    }
}

/// Whether a workflow generates load, and so whether it gets cores by priority (EXEC-5, EXEC-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkflowClass {
    Test,
    NonTest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    Low,
    #[default]
    Auto,
    Normal,
    High,
    Exclusive,
}

/// What the rest of an iteration does after a failed request or check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    #[default]
    Continue,
    EndIteration,
}

/// A value handed to later workflows: the variable `from`, under the name `key`.
#[derive(Debug, Clone)]
pub struct Provide {
    pub key: String,
    pub from: String,
    pub to: Vec<String>,
    /// All shards' values as one JSON list, instead of the lowest shard's value.
    pub collect: bool,
}

/// A value taken from earlier workflows: `${use.KEY}`.
#[derive(Debug, Clone)]
pub struct Use {
    pub key: String,
    pub from: Vec<String>,
    pub default: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    pub executor: Executor,
    /// Wait this long after the workflow's layer began.
    pub start_after: Duration,
    /// How long running iterations may go on after the end, before they are interrupted.
    pub graceful_stop: Duration,
    /// The first part of the run, tagged `stage: warmup`.
    pub warmup: Option<Duration>,
    /// Shortest time from one iteration's start to the next of the same virtual user.
    pub pacing: Option<Span>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Executor {
    ConstantVus {
        vus: u32,
        duration: Duration,
    },
    RampingVus {
        start: u32,
        stages: Vec<Stage<u32>>,
        graceful_ramp_down: Duration,
    },
    PerVuIterations {
        vus: u32,
        iterations: u64,
        max_duration: Duration,
    },
    SharedIterations {
        vus: u32,
        iterations: u64,
        max_duration: Duration,
    },
    ConstantArrivalRate {
        rate: Rate,
        duration: Duration,
        vus: Option<u32>,
        max_vus: Option<u32>,
    },
    RampingArrivalRate {
        start: Rate,
        stages: Vec<Stage<Rate>>,
        vus: Option<u32>,
        max_vus: Option<u32>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Stage<T> {
    pub name: Option<String>,
    pub to: T,
    pub over: Duration,
}

/// Events per time, kept as written so that schedules stay exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub events: u64,
    pub per: Duration,
}

/// A time between two bounds, drawn anew each time; both equal: a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub min: Duration,
    pub max: Duration,
}
