//! What k6 says at the end of a run, from a script's metrics: the same words, the same numbers, the
//! same places, so that people and programs that read k6's results can read ours.
//!
//! ```text
//!                           ┌─▶ text     compact, full, legacy: the summary on the terminal
//! Results (layout, totals, ─┼─▶ data     the object for `handleSummary(data)`
//! outcomes, duration)       └─▶ export   `--summary-export`, the older shape of the same
//! ```
//!
//! Where the reference is odd (two ways of rounding, dots twice as wide as needed), so is this:
//! a diff of two summaries should show the difference of two systems, not of two tools.

mod cells;
mod data;
mod legacy;
mod numbers;
mod sections;
mod stats;
mod text;
mod tree;

pub use stats::{TimeUnit, TrendStat};

use std::time::Duration;

use ::stats::series::{SeriesLayout, SeriesWindow, ThresholdOutcome};

/// How the user wants it.
#[derive(Debug, Clone)]
pub struct SummaryOptions {
    /// `summaryTrendStats`
    pub trend_stats: Vec<TrendStat>,
    /// `summaryTimeUnit`; `None`: what suits the value.
    pub time_unit: Option<TimeUnit>,
    /// `--no-color`
    pub no_color: bool,
    pub stdout_is_terminal: bool,
    pub stderr_is_terminal: bool,
}

impl Default for SummaryOptions {
    fn default() -> Self {
        SummaryOptions {
            trend_stats: TrendStat::defaults(),
            time_unit: None,
            no_color: false,
            stdout_is_terminal: false,
            stderr_is_terminal: false,
        }
    }
}

/// `--summary-mode`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SummaryMode {
    #[default]
    Compact,
    /// Also each group and scenario; the layout must count sections.
    Full,
    Legacy,
}

impl SummaryMode {
    pub const ALL: [SummaryMode; 3] =
        [SummaryMode::Compact, SummaryMode::Full, SummaryMode::Legacy];

    pub fn name(self) -> &'static str {
        match self {
            SummaryMode::Compact => "compact",
            SummaryMode::Full => "full",
            SummaryMode::Legacy => "legacy",
        }
    }
}

impl std::str::FromStr for SummaryMode {
    type Err = String;

    fn from_str(text: &str) -> Result<SummaryMode, String> {
        SummaryMode::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| {
            let known = SummaryMode::ALL.map(SummaryMode::name).join(", ");
            format!("`{text}` is not a summary mode; choose one of {known}")
        })
    }
}

/// A finished run.
#[derive(Debug, Clone, Copy)]
pub struct Results<'a> {
    pub layout: &'a SeriesLayout,
    pub total: &'a SeriesWindow,
    pub outcomes: &'a [ThresholdOutcome],
    pub duration: Duration,
    pub options: &'a SummaryOptions,
}

impl Results<'_> {
    /// What is printed when the script has no `handleSummary`.
    pub fn text(&self, mode: SummaryMode) -> String {
        match mode {
            SummaryMode::Compact | SummaryMode::Full => text::text(self, mode),
            SummaryMode::Legacy => legacy::text(self),
        }
    }

    /// The argument of `handleSummary`, as JSON. Numbers that JSON lacks are `null`.
    pub fn data(&self) -> serde_json::Value {
        data::data(self)
    }

    /// The file of `--summary-export`.
    pub fn export(&self) -> String {
        data::export(self)
    }

    fn has_colors(&self) -> bool {
        self.options.stdout_is_terminal && !self.options.no_color
    }
}
