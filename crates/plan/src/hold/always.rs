//! Conditions that hold whatever was measured: a tick beside them says nothing.

use super::BUILT_IN;
use crate::model::{Comparison, Hold, MetricKind};

/// Times that are longer than nothing wherever anything was measured. Others are 0 where a
/// connection is used again, and `max > 0` asks whether one was made.
const NEVER_ZERO: [&str; 4] =
    ["http_req_duration", "http_req_waiting", "latency", "iteration_duration"];

/// What to write in the place of a condition that always holds; `None`: it can fail.
pub fn always(metric: &str, kind: MetricKind, hold: &Hold) -> Option<String> {
    let built_in = BUILT_IN.iter().any(|(name, _)| *name == metric);
    let from = |least: f64| match hold.op {
        Comparison::GreaterOrEqual => hold.value <= least,
        Comparison::Greater => hold.value < least,
        _ => false,
    };
    // "However many fail, that is all right": a plan has no other way to say so, and it is meant.
    let allows_all = match metric {
        "http_req_failed" => hold.op == Comparison::LessOrEqual && hold.value == 1.0,
        "checks" => hold.op == Comparison::GreaterOrEqual && hold.value == 0.0,
        _ => false,
    };
    if allows_all {
        return None;
    }
    let at_zero = hold.op == Comparison::Greater && hold.value == 0.0;
    let help = match kind {
        MetricKind::Rate if hold.op == Comparison::LessOrEqual && hold.value >= 1.0 => {
            share(metric)
        }
        MetricKind::Rate if from(0.0) => share(metric),
        // Values of the plan's own may be below 0.
        _ if !built_in => return None,
        MetricKind::Counter if from(0.0) && metric == "dropped_iterations" => "write `count < 1`",
        MetricKind::Counter if from(0.0) => "write `count > 0`, or how many it must be",
        MetricKind::Gauge if from(0.0) => "write `value > 0`, or how many it must be",
        MetricKind::Trend if from(0.0) || (at_zero && NEVER_ZERO.contains(&metric)) => {
            "did you mean `<`? For example `p(95) < 200ms`"
        }
        _ => return None,
    };
    Some(help.to_owned())
}

/// Of a metric that is a share, what is usually asked for.
fn share(metric: &str) -> &'static str {
    match metric {
        "http_req_failed" => "write `rate < 1%`, or how many may fail",
        "checks" => "write `rate > 99%`, or how many must pass",
        _ => "write `rate < 1%` or `rate > 99%`",
    }
}
