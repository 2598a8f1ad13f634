//! k6's CSV: a column for each system tag that is on, everything else in `extra_tags` and
//! `metadata`.

use std::io::Write;
use std::sync::Arc;

use stats::series::{SampleTags, SeriesLayout, SeriesSample, Tags};

use super::{Clock, CsvTime, Encoder, SeriesFileOptions, TagText};

/// System tags that are never columns: each virtual user and iteration has its own.
const METADATA: [&str; 2] = ["iter", "vu"];

pub(super) struct Csv {
    layout: Arc<SeriesLayout>,
    columns: Vec<String>,
    time: CsvTime,
    tags: TagText,
    clock: Clock,
}

impl Csv {
    pub(super) fn new(layout: Arc<SeriesLayout>, options: &SeriesFileOptions) -> Csv {
        let mut columns = options.system_tags.clone();
        columns.retain(|tag| !METADATA.contains(&&**tag));
        columns.sort_unstable();
        columns.dedup();
        Csv { layout, columns, time: options.csv_time, tags: TagText::new(), clock: Clock::new() }
    }

    fn time(&mut self, at_unix_ns: u64) -> String {
        match self.time {
            CsvTime::Unix => (at_unix_ns / 1_000_000_000).to_string(),
            CsvTime::UnixMilli => (at_unix_ns / 1_000_000).to_string(),
            CsvTime::UnixMicro => (at_unix_ns / 1000).to_string(),
            CsvTime::UnixNano => at_unix_ns.to_string(),
            CsvTime::Rfc3339 => format!("{}Z", self.clock.second(at_unix_ns)),
            CsvTime::Rfc3339Nano => self.clock.nanosecond(at_unix_ns),
        }
    }
}

impl Encoder<SeriesSample> for Csv {
    fn head(&self, out: &mut Vec<u8>) {
        let mut names = vec!["metric_name", "timestamp", "metric_value"];
        names.extend(self.columns.iter().map(String::as_str));
        names.extend(["extra_tags", "metadata"]);
        out.extend_from_slice(record(&names).as_bytes());
        out.push(b'\n');
    }

    fn sample(&mut self, sample: &SeriesSample, out: &mut Vec<u8>) {
        let time = self.time(sample.at_unix_ns);
        let name = &self.layout.get(sample.metric).name;
        let columns = &self.columns;
        let tags = self.tags.get(&sample.tags, |tags| fields(tags, columns));
        // Names of metrics are words; only tags can need quotes. Writing to a vector cannot fail.
        let _ = write!(out, "{name},{time},");
        let _ = if sample.value.is_infinite() {
            write!(out, "{}Inf", if sample.value > 0.0 { '+' } else { '-' })
        } else {
            write!(out, "{:.6}", sample.value)
        };
        let _ = writeln!(out, ",{tags}");
    }
}

/// The tag columns, `extra_tags` and `metadata`.
fn fields(tags: &SampleTags, columns: &[String]) -> String {
    let joined = |pairs: &mut dyn Iterator<Item = (&str, &str)>| {
        pairs.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
    };
    let is_extra = |(name, _): &(&str, &str)| !columns.iter().any(|column| column == name);
    let extra = joined(&mut tags.pairs().filter(is_extra));
    let metadata = joined(&mut tags.metadata());
    let mut fields: Vec<&str> =
        columns.iter().map(|column| tags.tag(column).unwrap_or_default()).collect();
    fields.extend([&*extra, &*metadata]);
    record(&fields)
}

/// One line, without its end.
fn record(fields: &[&str]) -> String {
    let mut writer =
        csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(vec![]);
    // A vector takes everything, and the text was UTF-8.
    let written = writer.write_record(fields).and_then(|()| Ok(writer.flush()?));
    debug_assert!(written.is_ok());
    let mut line = String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default();
    line.truncate(line.len().saturating_sub(1));
    line
}
