//! `--output FORMAT=FILE`: results in the formats that other tools read.
//!
//! | Format | Written | Made from | For |
//! |---|---|---|---|
//! | `json` | during the run | every sample | k6's JSON lines: jq, notebooks |
//! | `csv` | during the run | every sample | k6's CSV: spreadsheets |
//! | `junit` | at the end | the result | CI systems |
//! | `hdr` | at the end | the histograms | the HdrHistogram plotter |
//!
//! ```text
//! check_targets ──▶ SampleWriter::start ──▶ … run … ──▶ finish ──▶ write_results
//!   before any        opens json, csv                    notes       junit, hdr
//!   load                                                  └────────────┴──▶ RunResult::notes
//! ```
//!
//! Samples come from a plan ([`SampleWriter`]) or from a script ([`SeriesWriter`]); `.gz` at the
//! end of a file's name compresses it.
//!
//! A file that cannot be created is an error before any load is generated. A file that fails later
//! (full disk) is remembered, said once as a note, and costs nothing else: the run goes on, other
//! files too.

mod csv;
mod hdr;
mod json;
mod junit;
mod metrics;
mod queue;
mod series;
mod tags;
mod target;
mod writer;

pub use hdr::hdr;
pub use junit::junit;
pub use queue::Written;
pub use series::{CsvTime, DEFAULT_SYSTEM_TAGS, SeriesFileOptions, SeriesWriter};
pub use target::{Format, Target, check_targets, check_writable};
pub use writer::SampleWriter;

use std::io::{self, Write};

use stats::RunResult;

/// Writes what is made from the finished result.
pub fn write_results(targets: &[Target], result: &RunResult) -> Written {
    let mut written = Written::default();
    for target in targets {
        let text = match target.format {
            Format::Junit => junit(result),
            Format::Hdr => hdr(result),
            Format::Json | Format::Csv => continue,
        };
        if let Err(error) = write_all(target, text.as_bytes()) {
            written.trouble(target, &error, "");
        }
    }
    written
}

fn write_all(target: &Target, bytes: &[u8]) -> io::Result<()> {
    let mut file = target.open()?;
    file.write_all(bytes)?;
    file.flush()
}
