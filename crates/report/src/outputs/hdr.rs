//! The text that HdrHistogram prints and its plotter reads: percentile distributions of latency.
//!
//! One block per step, each after a comment with its name; where there are several steps, all of
//! them together come first. Values are milliseconds. The ticks get closer towards 100 %, five to
//! each halving of what is left, because the tail is what such a plot is for.

use std::fmt::Write;

use stats::{RunResult, Trend};

use crate::rollup::Rollup;

/// Points per halving of the distance to 100 %, HdrHistogram's usual number.
const TICKS_PER_HALF: f64 = 5.0;

pub fn hdr(result: &RunResult) -> String {
    let rollup = Rollup::new(result);
    let mut out = String::new();
    let used: Vec<_> = rollup.steps.iter().filter(|step| !step.stats.latency.is_empty()).collect();
    if used.len() != 1 {
        block(&mut out, "all steps", &rollup.total.latency);
    }
    for step in used {
        block(&mut out, &step.key, &step.stats.latency);
    }
    out
}

fn block(out: &mut String, name: &str, trend: &Trend) {
    if !out.is_empty() {
        out.push('\n');
    }
    // Writing to a `String` cannot fail.
    let _ = writeln!(out, "#[Step = {}, latency in milliseconds]", crate::format::clean(name));
    let _ = writeln!(out, "       Value     Percentile TotalCount 1/(1-Percentile)\n");
    for (value, percentile, count) in points(trend) {
        let _ = write!(out, "{value:12.3} {percentile:2.12} {count:10}");
        let _ = match percentile < 1.0 {
            true => writeln!(out, " {:14.2}", 1.0 / (1.0 - percentile)),
            false => writeln!(out, "            inf"),
        };
    }
    let (mean, max, total) = (trend.mean_ms(), trend.max_ms(), trend.count());
    let deviation = deviation(trend);
    let _ = writeln!(out, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
    let _ = writeln!(out, "#[Max     = {max:12.3}, Total count    = {total:12}]");
}

/// (value, percentile as a fraction, values up to here), as HdrHistogram's percentile iterator
/// gives them.
fn points(trend: &Trend) -> Vec<(f64, f64, u64)> {
    let total = trend.count();
    let mut points = Vec::new();
    let mut level = 0.0;
    for (value, _, cumulative) in trend.buckets() {
        let reached = cumulative as f64 / total as f64;
        // A bucket's upper end may lie above the largest value; the exact one is known.
        let value = value.min(trend.max_ms());
        if cumulative == total {
            points.push((value, 1.0, cumulative));
            break;
        }
        while level <= reached {
            points.push((value, level, cumulative));
            let halvings = (1.0 / (1.0 - level)).log2().floor() + 1.0;
            level += 1.0 / (TICKS_PER_HALF * halvings.exp2());
        }
    }
    points
}

fn deviation(trend: &Trend) -> f64 {
    let (mean, count) = (trend.mean_ms(), trend.count().max(1));
    let buckets = trend.buckets();
    let squares: f64 = buckets.iter().map(|(ms, n, _)| (ms - mean).powi(2) * *n as f64).sum();
    (squares / count as f64).sqrt()
}
