//! Failed requests: how many of each kind, one message each, one exchange to look at.

use super::table::Tone;
use super::{Page, line, wrap};
use crate::format;

/// Lines of an exchange that are shown; the rest is in the file of `--summary`.
const EXCHANGE_LINES_MAX: usize = 12;
/// Samples shown.
const SAMPLES_MAX: usize = 12;

impl Page<'_> {
    pub(super) fn errors(&mut self) {
        let failed = self.rollup.total.failed;
        let samples = self.result.error_samples.iter().filter(|sample| sample.count > 0);
        let mut samples: Vec<_> = samples.collect();
        if failed == 0 && samples.is_empty() {
            return;
        }
        let share = format::share(failed, self.rollup.total.requests);
        self.section("ERRORS", &format!("{} failed ({share})", format::plural(failed, "request")));
        samples.sort_by_key(|sample| std::cmp::Reverse(sample.count));
        for sample in samples.iter().take(SAMPLES_MAX) {
            let step = self.rollup.steps.get(sample.step).map_or("?", |step| &step.key);
            let kind = self.paint(Tone::Red, &format!("{:<9}", sample.kind.name()));
            let count = format::count(sample.count);
            line!(self, "  {kind} {count:>9} × in {step}");
            for part in wrap(&format::clean(&sample.message), self.look.width - 12) {
                line!(self, "            {part}");
            }
            if let Some(exchange) = &sample.exchange {
                self.exchange(exchange);
            }
        }
        if samples.len() > SAMPLES_MAX {
            let more = samples.len() - SAMPLES_MAX;
            line!(self, "  and {more} more kinds, in the file of --summary");
        }
    }

    fn exchange(&mut self, exchange: &str) {
        for text in exchange_lines(exchange, self.look.width - 14) {
            line!(self, "            {}", self.paint(Tone::Dim, &text));
        }
    }
}

/// The beginning of an exchange, as wide as there is room.
pub(super) fn exchange_lines(exchange: &str, width: usize) -> Vec<String> {
    let lines: Vec<&str> = exchange.trim_end().lines().collect();
    let shown = lines.iter().take(EXCHANGE_LINES_MAX);
    let mut shown: Vec<String> = shown
        .map(|text| format!("│ {}", format::fit(&format::clean(text.trim_end()), width)))
        .collect();
    if lines.len() > EXCHANGE_LINES_MAX {
        shown.push(format!("│ … {} more lines", lines.len() - EXCHANGE_LINES_MAX));
    }
    shown
}
