//! One level of options, as written: everything is optional and nothing has a default yet.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::network::{Dns, HostAddress, HostnamePattern, IpRange, TlsAuth, TlsVersions};
use super::problem::Place;
use super::scenario::ScenarioOptions;
use super::segment::{Segment, SegmentSequence};

/// One level of options: script, config file, environment or flags.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Options {
    pub paused: Option<bool>,
    pub vus: Option<u32>,
    pub duration: Option<Duration>,
    pub iterations: Option<u64>,
    pub stages: Option<Vec<StageOptions>>,
    /// In the order in which they were written.
    pub scenarios: Option<Vec<ScenarioOptions>>,
    pub execution_segment: Option<Segment>,
    pub execution_segment_sequence: Option<SegmentSequence>,
    pub no_setup: Option<bool>,
    pub setup_timeout: Option<Duration>,
    pub no_teardown: Option<bool>,
    pub teardown_timeout: Option<Duration>,
    pub handle_summary_timeout: Option<Duration>,
    /// Requests per second of all virtual users together; 0: no limit.
    pub rps: Option<u32>,
    pub dns: Dns,
    pub max_redirects: Option<u32>,
    pub user_agent: Option<String>,
    pub batch: Option<u32>,
    pub batch_per_host: Option<u32>,
    pub http_debug: Option<HttpDebug>,
    pub insecure_skip_tls_verify: Option<bool>,
    pub tls_cipher_suites: Option<Vec<String>>,
    pub tls_version: Option<TlsVersions>,
    pub tls_auth: Option<Vec<TlsAuth>>,
    pub throw: Option<bool>,
    pub thresholds: Option<Thresholds>,
    pub blacklist_ips: Option<Vec<IpRange>>,
    pub block_hostnames: Option<Vec<HostnamePattern>>,
    pub hosts: Option<Vec<(String, HostAddress)>>,
    pub no_connection_reuse: Option<bool>,
    pub no_vu_connection_reuse: Option<bool>,
    pub min_iteration_duration: Option<Duration>,
    /// For k6's hosted service: kept for scripts that read it, otherwise ignored.
    pub cloud: Option<serde_json::Value>,
    pub ext: Option<serde_json::Value>,
    pub summary_trend_stats: Option<Vec<String>>,
    pub summary_time_unit: Option<String>,
    pub system_tags: Option<Vec<String>>,
    pub tags: Option<BTreeMap<String, String>>,
    pub metric_samples_buffer_size: Option<u64>,
    pub no_cookies_reset: Option<bool>,
    pub discard_response_bodies: Option<bool>,
    pub console_output: Option<String>,
    /// As written; [`super::values::local_addresses`] lists the addresses.
    pub local_ips: Option<(String, Vec<IpAddr>)>,

    /// Where `duration`, `iterations`, `stages` or `scenarios` come from, for messages.
    pub load_place: Option<Place>,
    /// The level whose shortcut replaced scenarios of a lower level.
    pub scenarios_replaced_by: Option<Place>,
}

impl Options {
    /// Whether this level says anything about the shape of the load; `vus` alone does not.
    pub(super) fn has_load(&self) -> bool {
        self.duration.is_some()
            || self.iterations.is_some()
            || self.stages.is_some()
            || self.scenarios.is_some()
    }
}

/// A stage as written; what is missing is an error later, with the stage's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StageOptions {
    pub duration: Option<Duration>,
    /// Virtual users, or iterations per `timeUnit`.
    pub target: Option<u64>,
}

/// Metric expressions, as `http_req_duration{status:200}`, with what must hold, in order.
pub type Thresholds = Vec<(String, Vec<Threshold>)>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Threshold {
    /// The expression, for example `p(95)<200`; parsed elsewhere.
    pub threshold: String,
    pub abort_on_fail: bool,
    pub delay_abort_eval: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpDebug {
    Headers,
    /// With bodies.
    Full,
}
