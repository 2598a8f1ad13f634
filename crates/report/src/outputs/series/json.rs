//! k6's JSON lines: one object per point, the definition of a metric before its first.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use stats::series::{
    MetricId, SampleTags, SeriesLayout, SeriesSample, SeriesThreshold, SubMetric, kind_name,
};

use super::{Clock, Encoder, TagText};

pub(super) struct Json {
    layout: Arc<SeriesLayout>,
    /// By metric, once its definition was written: `"metric":"name","type":"Point"`, quoted.
    names: Vec<Option<String>>,
    tags: TagText,
    clock: Clock,
}

impl Json {
    pub(super) fn new(layout: Arc<SeriesLayout>) -> Json {
        let names = vec![None; layout.metrics().len()];
        Json { layout, names, tags: TagText::new(), clock: Clock::new() }
    }
}

impl Encoder<SeriesSample> for Json {
    fn sample(&mut self, sample: &SeriesSample, out: &mut Vec<u8>) {
        let Some(name) = self.names.get_mut(sample.metric.0 as usize) else {
            debug_assert!(false, "{:?} is not in the layout", sample.metric);
            return;
        };
        // Writing to a vector cannot fail.
        let name = name.get_or_insert_with(|| {
            let _ = writeln!(out, "{}", definition(&self.layout, sample.metric));
            quote(&self.layout.get(sample.metric).name)
        });
        let time = self.clock.nanosecond(sample.at_unix_ns);
        let value = number(sample.value);
        let tags = self.tags.get(&sample.tags, tags_and_metadata);
        let _ = write!(out, r#"{{"metric":{name},"type":"Point","data":{{"time":"{time}","#);
        let _ = writeln!(out, r#""value":{value},{tags}}}}}"#);
    }
}

fn definition(layout: &SeriesLayout, id: MetricId) -> String {
    let metric = layout.get(id);
    let name = quote(&metric.name);
    let thresholds = layout.thresholds().iter();
    let thresholds = thresholds.filter(|known| known.metric == id && known.sub.is_none());
    let thresholds: Vec<String> = thresholds.map(threshold).collect();
    let subs: Vec<String> = metric.subs.iter().map(|sub| submetric(layout.get_sub(*sub))).collect();
    let subs = if subs.is_empty() { "null".to_owned() } else { format!("[{}]", subs.join(",")) };
    let (kind, contains) = (kind_name(metric.kind), metric.contains.name());
    let thresholds = thresholds.join(",");
    let what = format!(r#""name":{name},"type":"{kind}","contains":"{contains}""#);
    let more = format!(r#""thresholds":[{thresholds}],"submetrics":{subs}"#);
    format!(r#"{{"type":"Metric","data":{{{what},{more}}},"metric":{name}}}"#)
}

fn threshold(known: &SeriesThreshold) -> String {
    let text = quote(&known.spec.text);
    if !known.spec.abort_on_fail {
        return text;
    }
    let delay = match known.spec.delay_abort_eval {
        Duration::ZERO => "null".to_owned(),
        delay => quote(&duration(delay)),
    };
    format!(r#"{{"threshold":{text},"abortOnFail":true,"delayAbortEval":{delay}}}"#)
}

fn submetric(sub: &SubMetric) -> String {
    let tags = object(&mut sub.tags.iter().map(|(name, value)| (&**name, &**value)));
    format!(r#"{{"name":{},"suffix":{},"tags":{tags}}}"#, quote(&sub.key), quote(sub.filter()))
}

fn tags_and_metadata(tags: &SampleTags) -> String {
    let text = format!(r#""tags":{}"#, object(&mut tags.pairs()));
    if tags.metadata().len() == 0 {
        return text;
    }
    format!(r#"{text},"metadata":{}"#, object(&mut tags.metadata()))
}

fn object(pairs: &mut dyn Iterator<Item = (&str, &str)>) -> String {
    let pairs = pairs.map(|(name, value)| format!("{}:{}", quote(name), quote(value)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}

/// With the signs escaped that could end a script in a web page, as Go does.
fn quote(text: &str) -> String {
    let quoted = serde_json::to_string(text).expect("a string always serialises");
    if !quoted.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return quoted;
    }
    quoted
        .replace('<', r"\u003c")
        .replace('>', r"\u003e")
        .replace('&', r"\u0026")
        .replace('\u{2028}', r"\u2028")
        .replace('\u{2029}', r"\u2029")
}

/// The shortest text for a number as Go has it: with an exponent from a million on, and below a
/// ten-thousandth.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "null".to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// `1h0m0s`, `1m30.5s`, `500ms`: as Go writes durations.
fn duration(time: Duration) -> String {
    let fraction = |value: f64| format!("{value}");
    let nanos = time.as_nanos();
    if nanos < 1_000 {
        return format!("{nanos}ns");
    } else if nanos < 1_000_000 {
        return format!("{}µs", fraction(nanos as f64 / 1e3));
    } else if nanos < 1_000_000_000 {
        return format!("{}ms", fraction(nanos as f64 / 1e6));
    }
    let minutes = time.as_secs() / 60;
    let seconds = (nanos - u128::from(minutes) * 60_000_000_000) as f64 / 1e9;
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{}s", fraction(seconds)),
        (0, minutes) => format!("{minutes}m{}s", fraction(seconds)),
        (hours, minutes) => format!("{hours}h{minutes}m{}s", fraction(seconds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        let table = [
            (0.0, "0"),
            (-0.0, "-0"),
            (-1.0, "-1"),
            (0.1, "0.1"),
            (1e-7, "1e-07"),
            (1e-6, "1e-06"),
            (0.0001, "0.0001"),
            (100.0, "100"),
            (999_999.0, "999999"),
            (1e6, "1e+06"),
            (123_456_789.123_456_79, "1.2345678912345679e+08"),
            (1e300, "1e+300"),
            (0.300_000_000_000_000_04, "0.30000000000000004"),
            (f64::INFINITY, "null"),
        ];
        for (value, text) in table {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        let table = [(10_000, "10s"), (90_500, "1m30.5s"), (3_600_000, "1h0m0s"), (500, "500ms")];
        for (ms, text) in table {
            assert_eq!(duration(Duration::from_millis(ms)), text);
        }
    }
}
