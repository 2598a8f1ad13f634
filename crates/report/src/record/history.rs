//! The history as the record has it: columns, one entry per slot.
//!
//! Columns compress well and are what charts want. A histogram is a flat list: the first bucket's
//! number, its count, then distance and count of each further bucket.

use std::ops::Range;

use serde_json::{Map, Value, json};
use stats::history::{
    BUCKETS_PER_OCTAVE, Exponential, History, MetricSlot, RELATIVE_ERROR, Row, SCALE, Slot,
};
use stats::{DropCause, ErrorKind, RunResult};

use crate::rollup::step_keys;

/// `within`: of these slots only. Rows and metrics are the same for every part of a run, so that
/// parts can be put together.
pub(crate) fn part(result: &RunResult, within: Range<usize>) -> Value {
    let history = &result.history;
    let all = history.slots();
    let slots = all.get(within.clone()).unwrap_or_default();
    let seconds = |ns: u64| (ns as f64 / 1e6).round() / 1e3;
    let column = |of: &dyn Fn(&Slot) -> Value| -> Vec<Value> { slots.iter().map(of).collect() };
    let mut dropped = Map::new();
    for cause in DropCause::ALL {
        if all.iter().any(|slot| slot.dropped[cause as usize] > 0) {
            let counts = column(&|slot| slot.dropped[cause as usize].into());
            dropped.insert(cause.name().to_owned(), counts.into());
        }
    }
    let thresholds: Vec<Value> = (0..result.thresholds.len())
        .map(|number| column(&|slot| json!(slot.thresholds.get(number).copied().flatten())).into())
        .collect();
    json!({
        "scale": SCALE,
        "buckets_per_octave": BUCKETS_PER_OCTAVE,
        "unit": "s",
        "relative_error": RELATIVE_ERROR,
        "ticks_per_slot": history.ticks_per_slot(),
        "at_s": column(&|slot| seconds(slot.at_ns).into()),
        "over_s": column(&|slot| seconds(slot.over_ns).into()),
        "vus": column(&|slot| slot.vus.into()),
        "iterations": column(&|slot| slot.iterations.into()),
        "iterations_interrupted": column(&|slot| slot.iterations_interrupted.into()),
        "dropped": dropped,
        "checks_passed": column(&|slot| slot.checks[0].into()),
        "checks_failed": column(&|slot| slot.checks[1].into()),
        "cores_busy": column(&|slot| {
            let share = slot.busy_ns as f64 / (slot.over_ns.max(1)) as f64;
            ((share * 1e3).round() / 1e3).into()
        }),
        "loop_lag_max_ms": column(&|slot| ((slot.lag_max_ns as f64 / 1e3).round() / 1e3).into()),
        "thresholds": thresholds,
        "rows": rows(result, &within),
        "metrics": metrics(history, slots),
    })
}

fn rows(result: &RunResult, within: &Range<usize>) -> Vec<Value> {
    let history = &result.history;
    let keys = step_keys(&result.layout);
    let none = Row::default();
    let mut rows = Vec::new();
    for (number, name) in history.rows().iter().enumerate() {
        let number = number as u32;
        let all: Vec<&Row> =
            history.slots().iter().map(|slot| slot.rows.get(&number).unwrap_or(&none)).collect();
        if all.iter().all(|row| row.requests == 0) {
            continue;
        }
        let here = all.get(within.clone()).unwrap_or_default();
        let column =
            |of: &dyn Fn(&Row) -> Value| -> Vec<Value> { here.iter().map(|row| of(row)).collect() };
        let mut row = json!({
            "step": keys.get(name.step as usize),
            "tags": name.tags,
            "requests": column(&|row| row.requests.into()),
            "failed": column(&|row| row.failed.into()),
            "max_ms": column(&|row| ((row.latency.max_ms() * 1e3).round() / 1e3).into()),
            "sum_ms": column(&|row| row.latency.sum_ms().round().into()),
            "latency": column(&|row| flat(&row.latency)),
        });
        if name.tags.is_none() {
            row["data_sent"] = column(&|row| row.bytes_sent.into()).into();
            row["data_received"] = column(&|row| row.bytes_received.into()).into();
            row["status"] = classes(here, &all);
            row["errors"] = errors(here, &all);
        }
        rows.push(row);
    }
    rows
}

fn flat(histogram: &Exponential) -> Value {
    let mut flat: Vec<i64> = Vec::with_capacity(histogram.buckets().len() * 2 + 2);
    let mut last = 0;
    for (bucket, count) in histogram.buckets() {
        let bucket = i64::from(*bucket);
        flat.push(bucket - last);
        flat.push(i64::try_from(*count).unwrap_or(i64::MAX));
        last = bucket;
    }
    match (histogram.zeros(), flat.is_empty()) {
        (0, true) => Value::from(0),
        (0, false) => flat.into(),
        (zeros, _) => json!({ "zeros": zeros, "buckets": flat }),
    }
}

/// By the first digit of the status, only those that occurred.
fn classes(here: &[&Row], all: &[&Row]) -> Value {
    let names = ["1xx", "2xx", "3xx", "4xx", "5xx"];
    let mut classes = Map::new();
    for (class, name) in names.into_iter().enumerate() {
        if all.iter().any(|row| row.status[class] > 0) {
            let counts: Vec<u64> = here.iter().map(|row| row.status[class]).collect();
            classes.insert(name.to_owned(), counts.into());
        }
    }
    classes.into()
}

/// By kind, only those that occurred.
fn errors(here: &[&Row], all: &[&Row]) -> Value {
    let mut errors = Map::new();
    for kind in ErrorKind::ALL {
        let of = |row: &&Row| {
            let found = row.errors.iter().find(|(known, _)| *known == kind as u8);
            found.map_or(0, |(_, count)| *count)
        };
        if all.iter().any(|row| of(row) > 0) {
            let counts: Vec<u64> = here.iter().map(of).collect();
            errors.insert(kind.name().to_owned(), counts.into());
        }
    }
    errors.into()
}

fn metrics(history: &History, slots: &[Slot]) -> Vec<Value> {
    let mut metrics = Vec::new();
    for (number, name) in history.metrics().iter().enumerate() {
        let of = |slot: &'_ Slot| slot.metrics.get(&(number as u32)).map(MetricSlot::kind);
        let Some(kind) = history.slots().iter().find_map(of) else { continue };
        let values: Vec<Option<&MetricSlot>> =
            slots.iter().map(|slot| slot.metrics.get(&(number as u32))).collect();
        let shown: Vec<Value> = values
            .iter()
            .map(|value| match value {
                None => Value::Null,
                Some(MetricSlot::Counter(sum)) => json!(sum),
                Some(MetricSlot::Gauge(value)) => json!(value),
                Some(MetricSlot::Rate { trues, total }) => json!([trues, total]),
                Some(MetricSlot::Trend(values)) => flat(values),
            })
            .collect();
        metrics.push(json!({
            "name": name.name, "kind": stats::series::kind_name(kind), "time": name.time,
            "values": shown,
        }));
    }
    metrics
}
