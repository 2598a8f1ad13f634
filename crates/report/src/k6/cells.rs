//! A metric's values as text, and a table of them.
//!
//! ```text
//! http_req_duration......: avg=1.2ms  min=87µs p(95)=2ms     a trend: one column for each number
//! http_reqs..............: 26     15.9/s                     the rest: the value, then extras
//! vus....................: 1      min=1 max=1
//! ```

use stats::series::{Contains, Sink};

use super::Results;
use super::numbers;

/// One line of a table.
#[derive(Debug)]
pub(super) struct Row {
    /// What stands at the left: a name, or `  { tag:value }`.
    pub label: String,
    /// The metric's full name, for the order.
    pub key: String,
    pub cells: Cells,
}

#[derive(Debug)]
pub(super) enum Cells {
    /// One text for each of the wanted statistics.
    Trend(Vec<String>),
    Other {
        value: String,
        extras: Vec<String>,
    },
}

impl Cells {
    pub(super) fn of(sink: &Sink, contains: Contains, results: &Results<'_>) -> Cells {
        let unit = results.options.time_unit;
        let text = |value: f64| numbers::value(value, contains, unit);
        match sink {
            Sink::Trend(_) => Cells::Trend(
                results
                    .options
                    .trend_stats
                    .iter()
                    .map(|stat| {
                        let value = sink.value(stat.aggregation, results.duration);
                        let value = value.unwrap_or_default();
                        let is_count = stat.aggregation == plan::Aggregation::Count;
                        if is_count { numbers::plain(value) } else { text(value) }
                    })
                    .collect(),
            ),
            Sink::Counter { sum, .. } => {
                let rate = format!("{}/s", text(results.per_second(*sum)));
                Cells::Other { value: text(*sum), extras: vec![rate] }
            }
            Sink::Gauge { value, min, max, .. } => Cells::Other {
                value: text(*value),
                extras: vec![format!("min={}", text(*min)), format!("max={}", text(*max))],
            },
            Sink::Rate { trues, total } => Cells::share(*trues, *total),
        }
    }

    pub(super) fn share(part: u64, whole: u64) -> Cells {
        let fraction = if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let extras = vec![format!("{part} out of {whole}")];
        Cells::Other { value: numbers::percent(fraction), extras }
    }
}

impl Results<'_> {
    pub(super) fn per_second(&self, sum: f64) -> f64 {
        if self.duration.is_zero() { 0.0 } else { sum / self.duration.as_secs_f64() }
    }
}

/// How parts of a line are dressed for a terminal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub colors: bool,
    pub dots: &'static str,
    pub extra: &'static str,
}

pub(super) const VALUE: &str = "36";
pub(super) const GOOD: &str = "32";
pub(super) const BAD: &str = "31";

impl Style {
    pub(super) fn paint(self, code: &str, text: &str) -> String {
        if self.colors { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Column widths over all lines that stand together.
#[derive(Debug, Default)]
pub(super) struct Widths {
    trend: Vec<usize>,
    value: usize,
    extras: Vec<usize>,
}

impl Widths {
    pub(super) fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Widths {
        let mut widths = Widths::default();
        for row in rows {
            match &row.cells {
                Cells::Trend(texts) => widen(&mut widths.trend, texts),
                Cells::Other { value, extras } => {
                    widths.value = widths.value.max(width(value));
                    widen(&mut widths.extras, extras);
                }
            }
        }
        widths
    }

    /// What stands behind the colon.
    pub(super) fn line(&self, cells: &Cells, results: &Results<'_>, style: Style) -> String {
        match cells {
            Cells::Trend(texts) => {
                let stats = results.options.trend_stats.iter();
                let columns = stats.zip(texts).zip(&self.trend).map(|((stat, text), wide)| {
                    let pad = " ".repeat(wide - width(text));
                    format!("{}={}{pad}", stat.label, style.paint(VALUE, text))
                });
                columns.collect::<Vec<_>>().join(" ")
            }
            Cells::Other { value, extras } => {
                let pad = " ".repeat(self.value - width(value));
                let mut line = format!("{}{pad}", style.paint(VALUE, value));
                for (extra, wide) in extras.iter().zip(&self.extras) {
                    line.push(' ');
                    line.push_str(&style.paint(style.extra, extra));
                    // One extra alone ends the line; several are columns.
                    if extras.len() > 1 {
                        line.push_str(&" ".repeat(wide - width(extra)));
                    }
                }
                line
            }
        }
    }
}

/// The label, and dots up to the colon.
pub(super) fn dotted(label: &str, wide: usize, style: Style) -> String {
    let dots = format!("{}:", ".".repeat(wide.saturating_sub(width(label))));
    format!("{label}{}", style.paint(style.dots, &dots))
}

fn widen(widths: &mut Vec<usize>, texts: &[String]) {
    widths.resize(widths.len().max(texts.len()), 0);
    for (wide, text) in widths.iter_mut().zip(texts) {
        *wide = (*wide).max(width(text));
    }
}

pub(super) fn width(text: &str) -> usize {
    text.chars().count()
}
