//! How counts travel: compact, versioned, bounded.
//!
//! ```text
//! "V" version kind │ body                                   │ crc32c
//!                  │ key, [first, last], windows, counters, │
//!                  │ buckets, messages, gauges (a frame)    │
//! ```
//!
//! Whole numbers are varints; of a histogram only the buckets in use are written, as distances.
//! What is read is checked against the [`Schema`] of the run before anything is made of it: numbers
//! out of range, counts that contradict each other and sizes beyond the limits are refused by name
//! ([`WireError`]). Memory for a list is taken as its elements arrive, so a length that lies costs
//! nothing.
//!
//! Counters of a frame are sums since the start of the stream, distributions are deltas (R17).
//! Values by tag, custom metrics and a script's series count as distributions.

mod bytes;
mod content;
mod counts;
mod frame;
pub(crate) mod kind;
mod report;
mod series;

#[cfg(test)]
mod properties;

use std::fmt;
use std::sync::Arc;

use crate::layout::Layout;
use crate::series::{SeriesLayout, kind_name};

pub(crate) use bytes::{Reader, Writer, open, seal};
pub use content::{Content, FailureMessage, Generator, MESSAGES_MAX};
pub(crate) use content::{read_content, write_content};
pub(crate) use counts::{read_delta, read_sparse, write_delta, write_sparse};
pub(crate) use frame::read_fingerprint;
pub use frame::{Body, FRAME_BYTES_MAX, Frame, GapReason, StreamKey};
pub use report::{
    RESULT_BYTES_MAX, decode_result, decode_schema, decode_snapshot, encode_result, encode_schema,
    encode_snapshot,
};
pub(crate) use report::{read_plain, write_plain};
pub(crate) use series::{read_series, write_series};

/// Of this code. Bytes of a later one are refused.
pub const VERSION: u8 = 1;

/// What the numbers in a frame mean; both ends make it from the same plan or script.
#[derive(Debug, Clone)]
pub struct Schema {
    pub layout: Arc<Layout>,
    /// Of a script's run.
    pub series: Option<Arc<SeriesLayout>>,
    fingerprint: u32,
}

impl Schema {
    pub fn new(layout: Arc<Layout>, series: Option<Arc<SeriesLayout>>) -> Schema {
        let mut names = String::new();
        for workflow in &layout.workflows {
            let (steps, stages) = (&workflow.steps, &workflow.stages);
            names.push_str(&format!("w{} {steps:?} {stages:?}\n", workflow.name));
        }
        layout.steps.iter().for_each(|step| names.push_str(&format!("s{}\n", step.name)));
        layout.checks.iter().for_each(|check| names.push_str(&format!("c{}\n", check.name)));
        layout.stages.iter().for_each(|stage| names.push_str(&format!("t{}\n", stage.name)));
        for metric in &layout.metrics {
            names.push_str(&format!("m{} {}\n", metric.name, kind_name(metric.kind)));
        }
        if let Some(series) = &series {
            for (_, metric) in series.metrics() {
                names.push_str(&format!("n{} {}\n", metric.name, kind_name(metric.kind)));
            }
            series.subs().for_each(|(_, sub)| names.push_str(&format!("u{}\n", sub.key)));
            names.push_str(if series.sections() { "sections" } else { "" });
        }
        Schema { layout, series, fingerprint: crc32c::crc32c(names.as_bytes()) }
    }

    /// Of the names; two plans that differ in them have different ones, but for bad luck.
    pub fn fingerprint(&self) -> u32 {
        self.fingerprint
    }
}

/// Why bytes were refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WireError {
    /// They do not begin as ours do, or are of another kind.
    Foreign,
    FutureVersion {
        found: u8,
    },
    Checksum,
    Truncated {
        at: usize,
    },
    /// More bytes follow than the content has.
    Trailing {
        bytes: usize,
    },
    TooLarge {
        bytes: usize,
        limit: usize,
    },
    /// A number beyond what the plan, or anything, has.
    OutOfRange {
        what: &'static str,
        value: u64,
        limit: u64,
    },
    /// Two statements that cannot both be true.
    Contradiction {
        what: &'static str,
    },
    NotText {
        what: &'static str,
    },
    /// Made for another plan or script.
    OtherSchema {
        found: u32,
        expected: u32,
    },
}

impl std::error::Error for WireError {}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Foreign => f.write_str("not statistics of the expected kind"),
            WireError::FutureVersion { found } => write!(
                f,
                "statistics of format {found}, and this node reads up to {VERSION}: upgrade it first"
            ),
            WireError::Checksum => f.write_str("the checksum of the statistics does not fit"),
            WireError::Truncated { at } => write!(f, "statistics end too early, at byte {at}"),
            WireError::Trailing { bytes } => write!(f, "{bytes} bytes too many in statistics"),
            WireError::TooLarge { bytes, limit } => {
                write!(f, "statistics of {bytes} bytes, and {limit} are allowed")
            }
            WireError::OutOfRange { what, value, limit } => {
                write!(f, "{what} {value} in statistics is beyond {limit}")
            }
            WireError::Contradiction { what } => {
                write!(f, "statistics contradict themselves: {what}")
            }
            WireError::NotText { what } => write!(f, "{what} in statistics is not text"),
            WireError::OtherSchema { found, expected } => write!(
                f,
                "statistics of another plan (fingerprint {found:08x}, expected {expected:08x})"
            ),
        }
    }
}
