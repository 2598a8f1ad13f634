//! The arithmetic of load: what is due when, and on which shard.
//!
//! A load is a function of the time since its workflow's load began, and never of who asks. Shard
//! `s` of `n` takes every n-th unit of it, so that the parts add up to the whole exactly, for every
//! n:
//!
//! ```text
//! arrivals  0 1 2 3 4 5 6 7 8 …     shard 1 of 3:  1 4 7 …      arrival i belongs to shard i mod n
//! VUs       0 1 2 3 | 4 5 6         active at t:   i < vus_at(t), on shard i mod n
//! ```
//!
//! Nobody has to tell the shards anything while they run: a shard that knows `(s, n)` and the plan
//! knows its share of every moment. Only what people change has to be told, and it has a moment too
//! (`rates`). A time is always *half-open*: what is due at the very end of a
//! load is not due.
//!
//! Not here: `start_after`, pacing and `graceful_stop`, which are waiting and not dividing; the
//! engine does them.

pub mod allocation;
mod arrivals;
pub mod job;
mod rates;
mod stages;
mod units;
mod vus;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tables;

pub use arrivals::{Arrivals, Shard};
pub use rates::{RATE_CHANGES_APART, RATE_CHANGES_MAX, RateChange, begun_at_most, rate_per_second};
pub use stages::{next_stage_change, stage_at, stage_names, stage_spans};
pub use units::Units;
pub use vus::{SELF_SIZED_VUS_MAX, next_change, scaled_vus, vus_at, vus_max};

use std::time::Duration;

use plan::{Executor, Load, Rate};

/// `total` in `parts` parts that differ by at most one; the first parts get the remainder.
///
/// # Panics
/// If `parts` is zero.
pub fn spread(total: u64, parts: usize) -> Vec<u64> {
    (0..parts).map(|part| share(total, part, parts)).collect()
}

/// How many of the numbers `0..total` belong to this shard: those with `i % shards == shard`.
pub fn share(total: u64, shard: usize, shards: usize) -> u64 {
    assert!(shard < shards, "shard {shard} of {shards} does not exist");
    let (shard, shards) = (shard as u64, shards as u64);
    total / shards + u64::from(shard < total % shards)
}

/// Planned length of the load, without `start_after` and `graceful_stop`. `None`: it ends when its
/// iterations are done, at [`latest_end`] at the latest.
pub fn duration(load: &Load) -> Option<Duration> {
    match &load.executor {
        Executor::ConstantVus { duration, .. } | Executor::ConstantArrivalRate { duration, .. } => {
            Some(*duration)
        }
        Executor::RampingVus { stages, .. } => Some(total_length(stages)),
        Executor::RampingArrivalRate { stages, .. } => Some(total_length(stages)),
        Executor::PerVuIterations { .. } | Executor::SharedIterations { .. } => None,
    }
}

/// When the load has ended whatever happens, without `start_after` and `graceful_stop`.
pub fn latest_end(load: &Load) -> Duration {
    match &load.executor {
        Executor::PerVuIterations { max_duration, .. }
        | Executor::SharedIterations { max_duration, .. } => *max_duration,
        _ => duration(load).expect("every other executor has a length"),
    }
}

/// Whether the load is a number of iterations, and ends with the last of them.
pub fn counts_iterations(executor: &Executor) -> bool {
    Units::of(executor).is_counted()
}

/// How many iterations the plan asks for; `None` where it depends on how fast the target answers.
pub fn expected_iterations(load: &Load) -> Option<u64> {
    match &load.executor {
        Executor::ConstantVus { .. } | Executor::RampingVus { .. } => None,
        executor => match Units::of(executor).counted(0, 1) {
            Some((_, iterations)) => Some(iterations),
            None => Arrivals::new(executor).map(|arrivals| arrivals.total()),
        },
    }
}

/// One line for people: `ramping-vus, up to 50 VUs over 30s`.
pub fn describe(load: &Load) -> String {
    let length = text(latest_end(load));
    match &load.executor {
        Executor::ConstantVus { vus, .. } => format!("constant-vus, {} for {length}", users(*vus)),
        Executor::RampingVus { .. } => {
            format!("ramping-vus, up to {} over {length}", users(vus_max(load)))
        }
        Executor::PerVuIterations { vus, iterations, .. } => {
            format!("per-vu-iterations, {} x {iterations}", users(*vus))
        }
        Executor::SharedIterations { vus, iterations, .. } => {
            format!("shared-iterations, {iterations} shared by {}", users(*vus))
        }
        Executor::ConstantArrivalRate { rate, .. } => {
            format!("constant-arrival-rate, {} for {length}", per(*rate))
        }
        Executor::RampingArrivalRate { start, stages, .. } => {
            let peak = stages.iter().map(|stage| stage.to).fold(*start, faster);
            format!("ramping-arrival-rate, up to {} over {length}", per(peak))
        }
    }
}

fn total_length<T>(stages: &[plan::Stage<T>]) -> Duration {
    stages.iter().map(|stage| stage.over).sum()
}

fn users(vus: u32) -> String {
    if vus == 1 { "1 VU".to_string() } else { format!("{vus} VUs") }
}

/// The higher of two rates, compared exactly.
fn faster(a: Rate, b: Rate) -> Rate {
    let a_scaled = u128::from(a.events) * b.per.as_nanos();
    let b_scaled = u128::from(b.events) * a.per.as_nanos();
    if b_scaled > a_scaled { b } else { a }
}

/// `200/s`, `90/m`, `3/10s`.
pub fn per(rate: Rate) -> String {
    let length = text(rate.per);
    let unit = match length.strip_prefix('1') {
        Some(unit) if unit.chars().all(char::is_alphabetic) => unit,
        _ => &length,
    };
    format!("{}/{unit}", rate.events)
}

/// A duration as a plan writes it: `1h30m`, `90s` as `1m30s`, `250ms`.
fn text(duration: Duration) -> String {
    const UNITS: [(u128, &str); 6] = [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let mut rest = duration.as_nanos();
    let mut out = String::new();
    for (length, unit) in UNITS {
        if rest >= length {
            out.push_str(&format!("{}{unit}", rest / length));
            rest %= length;
        }
    }
    if out.is_empty() { "0s".to_string() } else { out }
}
