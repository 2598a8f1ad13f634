//! The summary for programs: the object for `handleSummary`, and the file of `--summary-export`.
//!
//! Both say the same. The older shape has a metric's values beside its thresholds, calls a rate's
//! value `value`, keeps groups and checks by name, and says `true` of a threshold that **failed**.

use md5::{Digest, Md5};
use plan::MetricKind;
use serde_json::{Map, Value, json};
use stats::series::{Sink, Target, kind_name};

use super::Results;
use super::tree::{Check, Group};

pub(super) fn data(results: &Results<'_>) -> Value {
    let options = results.options;
    let labels: Vec<&str> = options.trend_stats.iter().map(|stat| &*stat.label).collect();
    json!({
        "root_group": group(&root(results)),
        "options": {
            "summaryTrendStats": labels,
            "summaryTimeUnit": options.time_unit.map_or("", |unit| unit.name()),
            "noColor": options.no_color,
        },
        "state": {
            "isStdOutTTY": options.stdout_is_terminal,
            "isStdErrTTY": options.stderr_is_terminal,
            "testRunDurationMs": number(results.duration.as_secs_f64() * 1e3),
        },
        "metrics": by_key(results, metric),
    })
}

pub(super) fn export(results: &Results<'_>) -> String {
    let document = json!({
        "root_group": old_group(&root(results)),
        "metrics": by_key(results, old_metric),
    });
    let mut text = Vec::new();
    let indented = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut writer = serde_json::Serializer::with_formatter(&mut text, indented);
    // A vector takes everything, and all keys are text.
    let written = serde::Serialize::serialize(&document, &mut writer);
    debug_assert!(written.is_ok());
    String::from_utf8(text).unwrap_or_default()
}

fn root<'a>(results: &Results<'a>) -> Group<'a> {
    Group::tree(results.layout, results.total, |place| place.entered)
}

/// All metrics and sub-metrics that a summary shows.
fn by_key(results: &Results<'_>, describe: fn(&Results<'_>, Target, &Sink) -> Value) -> Value {
    let Results { layout, total, .. } = *results;
    let shown = layout.targets().filter(|target| total.is_shown(layout, *target));
    let described = shown.map(|target| {
        let empty = Sink::new(layout.get(target.metric).kind);
        let sink = total.target_sink(target).unwrap_or(&empty);
        (layout.key(target).to_owned(), describe(results, target, sink))
    });
    Value::Object(described.collect())
}

fn metric(results: &Results<'_>, target: Target, sink: &Sink) -> Value {
    let known = results.layout.get(target.metric);
    let mut object = Map::new();
    object.insert("type".to_owned(), kind_name(known.kind).into());
    object.insert("contains".to_owned(), known.contains.name().into());
    object.insert("values".to_owned(), Value::Object(values(results, sink)));
    let thresholds = thresholds(results, target, |ok| json!({ "ok": ok }));
    if !thresholds.is_empty() {
        object.insert("thresholds".to_owned(), thresholds.into());
    }
    Value::Object(object)
}

fn old_metric(results: &Results<'_>, target: Target, sink: &Sink) -> Value {
    let values = values(results, sink).into_iter().map(|(name, value)| match sink.kind() {
        MetricKind::Rate if name == "rate" => ("value".to_owned(), value),
        _ => (name, value),
    });
    let mut object: Map<String, Value> = values.collect();
    let thresholds = thresholds(results, target, |ok| Value::Bool(!ok));
    if !thresholds.is_empty() {
        object.insert("thresholds".to_owned(), thresholds.into());
    }
    Value::Object(object)
}

fn values(results: &Results<'_>, sink: &Sink) -> Map<String, Value> {
    let named = |pairs: &[(&str, f64)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), number(*value))).collect()
    };
    match sink {
        Sink::Counter { sum, .. } => named(&[("count", *sum), ("rate", results.per_second(*sum))]),
        Sink::Gauge { value, min, max, .. } => {
            named(&[("value", *value), ("min", *min), ("max", *max)])
        }
        Sink::Rate { trues, total } => {
            let rate = if *total == 0 { 0.0 } else { *trues as f64 / *total as f64 };
            named(&[("rate", rate), ("passes", *trues as f64), ("fails", (total - trues) as f64)])
        }
        Sink::Trend(_) => {
            let stats = results.options.trend_stats.iter();
            let value = |aggregation| sink.value(aggregation, results.duration);
            stats
                .map(|stat| {
                    let value = value(stat.aggregation).unwrap_or_default();
                    (stat.label.clone(), number(value))
                })
                .collect()
        }
    }
}

fn thresholds(
    results: &Results<'_>,
    target: Target,
    describe: fn(bool) -> Value,
) -> Map<String, Value> {
    let outcomes = results.outcomes.iter().filter(|outcome| outcome.target == target);
    outcomes.map(|outcome| (outcome.text.clone(), describe(outcome.ok))).collect()
}

fn group(known: &Group<'_>) -> Value {
    json!({
        "name": known.name,
        "path": known.path,
        "id": id(&known.path),
        "groups": known.groups.iter().map(group).collect::<Vec<_>>(),
        "checks": known.checks.iter().map(|known_check| check(known, known_check))
            .collect::<Vec<_>>(),
    })
}

fn old_group(known: &Group<'_>) -> Value {
    let groups = known.groups.iter().map(|inner| (inner.name.to_owned(), old_group(inner)));
    let checks = known.checks.iter();
    let checks = checks.map(|inner| (inner.name.to_owned(), check(known, inner)));
    json!({
        "name": known.name,
        "path": known.path,
        "id": id(&known.path),
        "groups": groups.collect::<Map<_, _>>(),
        "checks": checks.collect::<Map<_, _>>(),
    })
}

fn check(of: &Group<'_>, check: &Check<'_>) -> Value {
    let path = format!("{}::{}", of.path, check.name);
    json!({
        "name": check.name,
        "path": path,
        "id": id(&path),
        "passes": check.passes,
        "fails": check.fails,
    })
}

fn id(path: &str) -> String {
    let digest = Md5::digest(path.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whole numbers without a point, as JavaScript writes them; what JSON lacks is `null`.
pub(super) fn number(value: f64) -> Value {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT_MAX {
        Value::from(value as i64)
    } else {
        Value::from(value)
    }
}
