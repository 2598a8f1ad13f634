//! k6's CSV: fixed columns for the system tags in alphabetical order, everything else in
//! `extra_tags`.

use std::io::Write;

use stats::Layout;

use super::metrics::{Metric, MetricType};
use super::tags::{Cache, Key, Tags};
use super::writer::PointEncoder;

/// k6's default system tags.
pub(super) const SYSTEM_TAGS: [&str; 14] = [
    "check",
    "error",
    "error_code",
    "expected_response",
    "group",
    "method",
    "name",
    "proto",
    "scenario",
    "service",
    "status",
    "subproto",
    "tls_version",
    "url",
];

pub(super) struct Csv {
    metrics: Vec<(String, MetricType)>,
    tags: Cache,
}

impl Csv {
    pub(super) fn new(layout: &Layout) -> Csv {
        Csv { metrics: super::metrics::table(layout), tags: Cache::new(columns) }
    }
}

impl PointEncoder for Csv {
    fn head(&self, out: &mut Vec<u8>) {
        let tags = SYSTEM_TAGS.join(",");
        let _ = writeln!(out, "metric_name,timestamp,metric_value,{tags},extra_tags,metadata");
    }

    fn point(
        &mut self,
        layout: &Layout,
        metric: Metric,
        at_unix_ns: u64,
        value: f64,
        key: Key,
        out: &mut Vec<u8>,
    ) {
        let Some((name, _)) = self.metrics.get(metric.0) else {
            return;
        };
        let seconds = at_unix_ns / 1_000_000_000;
        let tags = self.tags.text(key, layout);
        // Names of metrics are words; only tags can need quotes. Writing to a vector cannot fail.
        let _ = writeln!(out, "{name},{seconds},{value:.6},{tags},");
    }
}

/// The tag columns and `extra_tags`, escaped by the `csv` crate.
fn columns(tags: &Tags) -> String {
    let value =
        |name: &str| tags.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value);
    let extra: Vec<String> = tags
        .iter()
        .filter(|(name, _)| !SYSTEM_TAGS.contains(&&**name))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let extra = extra.join("&");
    let fields = SYSTEM_TAGS.iter().map(|name| value(name)).chain([&*extra]);
    let mut writer =
        csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(vec![]);
    // A vector takes everything, and the text was UTF-8.
    let written = writer.write_record(fields).and_then(|()| Ok(writer.flush()?));
    debug_assert!(written.is_ok());
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned()
}
