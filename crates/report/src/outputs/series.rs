//! The samples of a script: values with tags, in k6's formats.
//!
//! The text is k6's own, down to the way Go writes numbers and escapes text, but for two things: a
//! number that JSON lacks (infinity) is `null`, because a line must be JSON; and where k6 leaves
//! the order of tags to chance they are sorted.

mod csv;
mod json;

use std::sync::Arc;

use stats::series::{SeriesLayout, SeriesSample, SeriesSink};

use super::queue::{BatchWriter, Encoder, QUEUED_BYTES_MAX, Written};
use super::target::{Format, Target};
use csv::Csv;
use json::Json;

/// System tags that are on unless the script says otherwise, sorted.
pub const DEFAULT_SYSTEM_TAGS: [&str; 14] = super::csv::SYSTEM_TAGS;

/// A sample's part of its tags, which it shares with the samples of the same request.
const TAG_BYTES_GUESS: usize = 64;

/// `K6_CSV_TIME_FORMAT`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CsvTime {
    #[default]
    Unix,
    UnixMilli,
    UnixMicro,
    UnixNano,
    Rfc3339,
    Rfc3339Nano,
}

impl CsvTime {
    pub const ALL: [(&str, CsvTime); 6] = [
        ("unix", CsvTime::Unix),
        ("unix_milli", CsvTime::UnixMilli),
        ("unix_micro", CsvTime::UnixMicro),
        ("unix_nano", CsvTime::UnixNano),
        ("rfc3339", CsvTime::Rfc3339),
        ("rfc3339_nano", CsvTime::Rfc3339Nano),
    ];
}

impl std::str::FromStr for CsvTime {
    type Err = String;

    fn from_str(text: &str) -> Result<CsvTime, String> {
        let known = CsvTime::ALL.iter().find(|(name, _)| *name == text);
        known.map(|(_, time)| *time).ok_or_else(|| {
            let names = CsvTime::ALL.map(|(name, _)| name).join(", ");
            format!("`{text}` is not a time format for CSV; choose one of {names}")
        })
    }
}

#[derive(Debug, Clone)]
pub struct SeriesFileOptions {
    /// The system tags that are on: columns of the CSV.
    pub system_tags: Vec<String>,
    pub csv_time: CsvTime,
}

impl Default for SeriesFileOptions {
    fn default() -> Self {
        let system_tags = DEFAULT_SYSTEM_TAGS.iter().map(|tag| (*tag).to_owned()).collect();
        SeriesFileOptions { system_tags, csv_time: CsvTime::Unix }
    }
}

/// Writes the samples of a script's run; [`SeriesWriter::finish`] ends it.
pub struct SeriesWriter(BatchWriter<SeriesSample>);

impl SeriesWriter {
    /// `None` if no target wants samples. Files are emptied here, and the first lines written.
    #[expect(clippy::needless_pass_by_value, reason = "callers share the layout as an Arc")]
    pub fn start(
        targets: &[Target],
        layout: Arc<SeriesLayout>,
        options: &SeriesFileOptions,
    ) -> Result<Option<SeriesWriter>, Vec<String>> {
        let encoder = |format: Format| -> Box<dyn Encoder<SeriesSample>> {
            match format {
                Format::Csv => Box::new(Csv::new(Arc::clone(&layout), options)),
                _ => Box::new(Json::new(Arc::clone(&layout))),
            }
        };
        let weigh = |batch: &[SeriesSample]| {
            size_of_val::<[SeriesSample]>(batch) + batch.len() * TAG_BYTES_GUESS
        };
        Ok(BatchWriter::start(targets, encoder, weigh, QUEUED_BYTES_MAX)?.map(SeriesWriter))
    }

    /// For the engine's cores: takes a batch, or refuses it at once.
    pub fn sink(&self) -> SeriesSink {
        self.0.sink()
    }

    /// Writes what is queued and closes the files. Sinks that are still around refuse from now on.
    pub fn finish(self) -> Written {
        self.0.finish()
    }
}

/// Text made from tags. The samples of a request come together and share their tags, so it is
/// enough to remember the last.
struct TagText {
    last: Option<Arc<stats::series::SampleTags>>,
    text: String,
}

impl TagText {
    fn new() -> TagText {
        TagText { last: None, text: String::new() }
    }

    fn get(
        &mut self,
        tags: &Arc<stats::series::SampleTags>,
        render: impl FnOnce(&stats::series::SampleTags) -> String,
    ) -> &str {
        if !self.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, tags)) {
            self.text = render(tags);
            self.last = Some(Arc::clone(tags));
        }
        &self.text
    }
}

/// Wall-clock time to the second, as text: many points share it.
struct Clock {
    second: u64,
    text: String,
}

impl Clock {
    fn new() -> Clock {
        Clock { second: u64::MAX, text: String::new() }
    }

    /// `2026-05-09T14:34:45`
    fn second(&mut self, at_unix_ns: u64) -> &str {
        let second = at_unix_ns / 1_000_000_000;
        if self.second != second {
            self.second = second;
            self.text = stats::time::rfc3339_ms(second * 1000);
            self.text.truncate("2026-05-09T14:34:45".len());
        }
        &self.text
    }

    /// `2026-05-09T14:34:45.23953Z`, without zeros at the end.
    fn nanosecond(&mut self, at_unix_ns: u64) -> String {
        let fraction = format!(".{:09}", at_unix_ns % 1_000_000_000);
        let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
        format!("{}{fraction}Z", self.second(at_unix_ns))
    }
}
