//! The metrics that samples become: k6's names, types and order.

/// Type and content as k6 names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MetricType {
    pub kind: &'static str,
    pub contains: &'static str,
}

const COUNTER: MetricType = MetricType { kind: "counter", contains: "default" };
const DATA: MetricType = MetricType { kind: "counter", contains: "data" };
const RATE: MetricType = MetricType { kind: "rate", contains: "default" };
const GAUGE: MetricType = MetricType { kind: "gauge", contains: "default" };
const TIME: MetricType = MetricType { kind: "trend", contains: "time" };
const TREND: MetricType = MetricType { kind: "trend", contains: "default" };

/// Index into the table below; custom metrics follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Metric(pub usize);

pub(super) const BUILT_IN: [(&str, MetricType); 17] = [
    ("http_reqs", COUNTER),
    ("http_req_duration", TIME),
    ("http_req_blocked", TIME),
    ("http_req_connecting", TIME),
    ("http_req_tls_handshaking", TIME),
    ("http_req_sending", TIME),
    ("http_req_waiting", TIME),
    ("http_req_receiving", TIME),
    ("http_req_failed", RATE),
    // Ours: from the intended start.
    ("latency", TIME),
    ("data_sent", DATA),
    ("data_received", DATA),
    ("iteration_duration", TIME),
    ("iterations", COUNTER),
    ("checks", RATE),
    ("vus", GAUGE),
    ("dropped_iterations", COUNTER),
];

/// The first twelve come with every request, in this order.
pub(super) const OF_REQUEST: usize = 12;
pub(super) const ITERATION_DURATION: Metric = Metric(12);
pub(super) const ITERATIONS: Metric = Metric(13);
pub(super) const CHECKS: Metric = Metric(14);
pub(super) const VUS: Metric = Metric(15);
pub(super) const DROPPED_ITERATIONS: Metric = Metric(16);

/// All metrics of a run, by number.
pub(super) fn table(layout: &stats::Layout) -> Vec<(String, MetricType)> {
    let built_in = BUILT_IN.iter().map(|(name, kind)| ((*name).to_owned(), *kind));
    let custom = layout.metrics.iter().map(|metric| {
        let kind = match metric.kind {
            plan::MetricKind::Counter => COUNTER,
            plan::MetricKind::Gauge => GAUGE,
            plan::MetricKind::Rate => RATE,
            plan::MetricKind::Trend if metric.time => TIME,
            plan::MetricKind::Trend => TREND,
        };
        (metric.name.clone(), kind)
    });
    built_in.chain(custom).collect()
}

pub(super) fn custom(index: u32) -> Metric {
    Metric(BUILT_IN.len() + index as usize)
}

/// The values of [`OF_REQUEST`] metrics; times in milliseconds.
pub(super) fn of_request(sample: &stats::RequestSample) -> [f64; OF_REQUEST] {
    let ms = |ns: u64| ns as f64 / 1e6;
    [
        1.0,
        ms(sample.duration_ns),
        ms(sample.blocked_ns),
        ms(sample.connecting_ns),
        ms(sample.tls_ns),
        ms(sample.sending_ns),
        ms(sample.waiting_ns),
        ms(sample.receiving_ns),
        f64::from(u8::from(sample.failed)),
        ms(sample.latency_ns),
        sample.bytes_sent as f64,
        sample.bytes_received as f64,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_metrics_match_the_table() {
        let named = [
            (ITERATION_DURATION, "iteration_duration"),
            (ITERATIONS, "iterations"),
            (CHECKS, "checks"),
            (VUS, "vus"),
            (DROPPED_ITERATIONS, "dropped_iterations"),
        ];
        for (metric, name) in named {
            assert_eq!(BUILT_IN[metric.0].0, name);
        }
        assert_eq!(BUILT_IN[OF_REQUEST - 1].0, "data_received");
    }
}
