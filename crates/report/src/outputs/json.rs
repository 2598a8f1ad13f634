//! k6's JSON lines: one object per point, preceded by the definition of its metric.

use std::io::Write;

use stats::Layout;

use super::metrics::{Metric, MetricType};
use super::tags::{Cache, Key, Tags};
use super::writer::PointEncoder;

pub(super) struct Json {
    /// Names in quotes, ready to be written.
    metrics: Vec<(String, MetricType)>,
    /// Metrics whose definition has been written.
    defined: Vec<bool>,
    tags: Cache,
    /// The second that was written last, as text: many points share it.
    second: (u64, String),
}

impl Json {
    pub(super) fn new(layout: &Layout) -> Json {
        let metrics = super::metrics::table(layout).into_iter();
        let metrics: Vec<_> = metrics.map(|(name, kind)| (quote(&name), kind)).collect();
        Json {
            defined: vec![false; metrics.len()],
            metrics,
            tags: Cache::new(object),
            second: (u64::MAX, String::new()),
        }
    }
}

impl PointEncoder for Json {
    fn point(
        &mut self,
        layout: &Layout,
        metric: Metric,
        at_unix_ns: u64,
        value: f64,
        key: Key,
        out: &mut Vec<u8>,
    ) {
        let Some((name, kind)) = self.metrics.get(metric.0) else {
            return;
        };
        // Writing to a vector cannot fail.
        if !std::mem::replace(&mut self.defined[metric.0], true) {
            let MetricType { kind, contains } = kind;
            let _ = write!(out, r#"{{"type":"Metric","data":{{"name":{name},"type":"{kind}","#);
            let _ = write!(out, r#""contains":"{contains}","thresholds":[],"submetrics":null}},"#);
            let _ = writeln!(out, r#""metric":{name}}}"#);
        }
        let (second, nanos) = (at_unix_ns / 1_000_000_000, at_unix_ns % 1_000_000_000);
        if self.second.0 != second {
            let mut text = stats::time::rfc3339_ms(second * 1000);
            text.truncate("2026-05-09T14:34:45".len());
            self.second = (second, text);
        }
        let time = &self.second.1;
        let value = if value.is_finite() { value } else { 0.0 };
        let _ = write!(
            out,
            r#"{{"metric":{name},"type":"Point","data":{{"time":"{time}.{nanos:09}Z","#
        );
        let tags = self.tags.text(key, layout);
        let _ = writeln!(out, r#""value":{value},"tags":{tags}}}}}"#);
    }
}

fn object(tags: &Tags) -> String {
    let parts: Vec<String> =
        tags.iter().map(|(name, value)| format!("{}:{}", quote(name), quote(value))).collect();
    format!("{{{}}}", parts.join(","))
}

fn quote(text: &str) -> String {
    serde_json::to_string(text).expect("a string always serialises")
}
