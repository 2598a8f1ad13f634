//! What a script's run leaves beyond a plan's: its groups, checks and metrics.

use std::time::Duration;

use plan::Aggregation;
use serde_json::{Map, Value, json};
use stats::ScriptResult;
use stats::series::{Contains, Sink, builtin, kind_name};

pub(super) fn part(script: &ScriptResult, elapsed: Duration) -> Value {
    let places = script.totals.places();
    let groups: Vec<Value> = places
        .iter()
        .map(|place| {
            let checks: Vec<Value> = place
                .checks()
                .iter()
                .map(|check| {
                    json!({ "name": &*check.name, "passes": check.passes, "fails": check.fails })
                })
                .collect();
            json!({ "scenario": &*place.scenario, "group": &*place.group, "checks": checks })
        })
        .collect();
    let mut metrics = Map::new();
    for (id, metric) in script.layout.metrics() {
        let Some(sink) = script.totals.sink(id).filter(|sink| !sink.is_empty()) else { continue };
        let mut part = values(sink, elapsed);
        part["kind"] = kind_name(metric.kind).into();
        part["contains"] = metric.contains.name().into();
        part["custom"] = script.layout.is_custom(id).into();
        part["time"] = (metric.contains == Contains::Time).into();
        metrics.insert(metric.name.clone(), part);
    }
    let left_out = script.totals.checks_left_out();
    let duration = script.totals.sink(builtin::GROUP_DURATION);
    json!({
        "groups": groups,
        "checks_left_out": left_out,
        "metrics": metrics,
        "grouped": duration.is_some_and(|sink| !sink.is_empty()),
    })
}

fn values(sink: &Sink, elapsed: Duration) -> Value {
    let value = |aggregation| sink.value(aggregation, elapsed);
    match sink {
        Sink::Counter { sum, .. } => {
            json!({ "count": sum, "rate": value(Aggregation::Rate) })
        }
        Sink::Gauge { value, min, max, .. } => json!({ "value": value, "min": min, "max": max }),
        Sink::Rate { trues, total } => {
            json!({ "passes": trues, "fails": total - trues, "rate": value(Aggregation::Rate) })
        }
        Sink::Trend(values) => json!({
            "count": values.count(), "avg": values.avg(), "min": values.min(), "med": values.med(),
            "p90": values.percentile(90.0), "p95": values.percentile(95.0),
            "p99": values.percentile(99.0), "max": values.max(),
        }),
    }
}
