//! Metrics as scripts know them: a name, a value, any tags; sub-metrics by tag filter.
//!
//! A plan's metrics are known before the run, step by step ([`crate::Layout`]). A script makes its
//! own as it likes, tags each value as it likes, and asks for parts of them by filter
//! (`http_req_duration{status:200}`). This is the counting for that:
//!
//! ```text
//!                    SeriesLayout: metrics, sub-metrics, thresholds (fixed for a run)
//!                         │
//! record, check ──▶ SeriesWindow of a core ──merge──▶ SeriesWindow of the run ──▶ Thresholds
//!                         ├─ one sink per metric                              └──▶ summaries
//!                         ├─ one sink per sub-metric, where the tags match
//!                         └─ groups and their checks; with sections on, a sink for each metric in
//!                            each group of each scenario
//! ```
//!
//! - [`SeriesWindow::merge`] is associative and commutative, so totals do not depend on the order
//!   in which cores hand in their windows (sums of fractions: up to the last bits).
//! - **Limits**: a trend keeps a few hundred values as they are and counts the rest in buckets
//!   ([`Distribution`]); the tree of groups and checks takes [`TREE_NODES_MAX`] nodes and counts
//!   what it left out. Tags are looked at, never stored.

pub(crate) mod distribution;
mod expression;
mod layout;
mod sample;
mod sink;
mod thresholds;
pub(crate) mod tree;
mod window;

#[cfg(test)]
mod properties;

pub use distribution::{Distribution, EXACT_VALUES_MAX};
pub use expression::{TagFilter, ThresholdError, parse_hold, parse_key};
pub use layout::{
    MetricError, SeriesLayout, SeriesMetric, SeriesThreshold, SubId, SubMetric, ThresholdSpec,
};
pub use plan::MetricKind;
pub use sample::{SampleTags, SeriesSample, SeriesSink};
pub use sink::Sink;
pub use thresholds::{Target, ThresholdOutcome, Thresholds};
pub use tree::{CheckNode, Place, TREE_NODES_MAX};
pub use window::SeriesWindow;

/// Number of a metric in its [`SeriesLayout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetricId(pub u32);

/// What the values of a metric are, which decides how they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Contains {
    Default,
    /// Milliseconds.
    Time,
    /// Bytes.
    Data,
}

impl Contains {
    pub fn name(self) -> &'static str {
        match self {
            Contains::Default => "default",
            Contains::Time => "time",
            Contains::Data => "data",
        }
    }
}

/// `counter`, `gauge`, `rate`, `trend`.
pub fn kind_name(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Rate => "rate",
        MetricKind::Trend => "trend",
    }
}

/// The tags of one value. Asked only where a sub-metric or a section needs to know.
pub trait Tags {
    fn tag(&self, key: &str) -> Option<&str>;
}

/// No tags at all: `vus` and its like.
impl Tags for () {
    fn tag(&self, _key: &str) -> Option<&str> {
        None
    }
}

impl Tags for [(&str, &str)] {
    fn tag(&self, key: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }
}

impl<const N: usize> Tags for [(&str, &str); N] {
    fn tag(&self, key: &str) -> Option<&str> {
        self.as_slice().tag(key)
    }
}

/// The metrics that every run has, by number.
pub mod builtin {
    use super::Contains::{self, Data, Default, Time};
    use super::MetricId;
    use super::MetricKind::{self, Counter, Gauge, Rate, Trend};

    /// Constants and table come from one list, so that they cannot disagree.
    macro_rules! metrics {
        ($($constant:ident $name:literal $kind:ident $contains:ident,)*) => {
            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Number { $($constant),* }
            $(pub const $constant: MetricId = MetricId(Number::$constant as u32);)*
            pub(super) const ALL: &[(&str, MetricKind, Contains)] =
                &[$(($name, $kind, $contains)),*];
        };
    }

    metrics! {
        VUS "vus" Gauge Default,
        VUS_MAX "vus_max" Gauge Default,
        ITERATIONS "iterations" Counter Default,
        ITERATION_DURATION "iteration_duration" Trend Time,
        DROPPED_ITERATIONS "dropped_iterations" Counter Default,
        CHECKS "checks" Rate Default,
        GROUP_DURATION "group_duration" Trend Time,
        DATA_SENT "data_sent" Counter Data,
        DATA_RECEIVED "data_received" Counter Data,
        HTTP_REQS "http_reqs" Counter Default,
        HTTP_REQ_FAILED "http_req_failed" Rate Default,
        HTTP_REQ_DURATION "http_req_duration" Trend Time,
        HTTP_REQ_BLOCKED "http_req_blocked" Trend Time,
        HTTP_REQ_CONNECTING "http_req_connecting" Trend Time,
        HTTP_REQ_TLS_HANDSHAKING "http_req_tls_handshaking" Trend Time,
        HTTP_REQ_SENDING "http_req_sending" Trend Time,
        HTTP_REQ_WAITING "http_req_waiting" Trend Time,
        HTTP_REQ_RECEIVING "http_req_receiving" Trend Time,
        WS_SESSIONS "ws_sessions" Counter Default,
        WS_MSGS_SENT "ws_msgs_sent" Counter Default,
        WS_MSGS_RECEIVED "ws_msgs_received" Counter Default,
        WS_PING "ws_ping" Trend Time,
        WS_SESSION_DURATION "ws_session_duration" Trend Time,
        WS_CONNECTING "ws_connecting" Trend Time,
    }
}
