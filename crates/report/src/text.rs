//! The end-of-test summary on a terminal.
//!
//! The order is k6's, because people know where to look: thresholds first, then checks, then
//! numbers. What is added answers the questions that follow: was the result any good (verdict), did
//! it pass and why (last line), and what to do about it (hints). Sections without content are not
//! printed.
//!
//! Everything fits in [`Look::width`] columns; text that came from a server is cleaned of control
//! characters.

mod brief;
mod conclusion;
mod errors;
mod hints;
mod steps;
mod table;
mod totals;

pub use brief::brief;

use crate::exit_code::NOTHING_MEASURED;
use stats::{RunResult, StopReason, ThresholdResult};

use crate::exit_code::exit_code_of;
use crate::format;
use crate::rollup::{CheckTotal, Rollup};
use table::Tone;

/// How the text is drawn; decided by the caller, who knows the terminal.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Columns of the terminal; see [`WIDTH_MIN`].
    pub width: usize,
    pub color: bool,
}

/// A page that is narrower than this cannot be read; on such a terminal lines go over its edge.
const WIDTH_MIN: usize = 48;
const WIDTH_MAX: usize = 200;

impl Look {
    fn within_bounds(self) -> Look {
        Look { width: self.width.clamp(WIDTH_MIN, WIDTH_MAX), ..self }
    }
}

impl Default for Look {
    fn default() -> Self {
        Look { width: 100, color: false }
    }
}

/// The whole summary, ending with a line feed.
pub fn text(result: &RunResult, look: Look) -> String {
    let rollup = Rollup::new(result);
    let exit = exit_code_of(result, &rollup);
    let mut page = Page::new(result, &rollup, look);
    page.head();
    page.thresholds();
    page.checks();
    page.steps();
    page.stages();
    page.tags();
    page.metrics();
    page.errors();
    page.totals();
    page.workflows();
    page.timeline();
    page.conclusion(&exit);
    page.out
}

/// What all sections share.
struct Page<'a> {
    result: &'a RunResult,
    rollup: &'a Rollup,
    look: Look,
    out: String,
}

/// One line, formatted before it is written, so that its parts may borrow the page.
macro_rules! line {
    ($page:expr) => { $page.out.push('\n') };
    ($page:expr, $($arg:tt)*) => {{
        let line = format!($($arg)*);
        $page.out.push_str(&line);
        $page.out.push('\n');
    }};
}
use line;

impl<'a> Page<'a> {
    fn new(result: &'a RunResult, rollup: &'a Rollup, look: Look) -> Page<'a> {
        let look = look.within_bounds();
        Page { result, rollup, look, out: String::new() }
    }

    fn paint(&self, tone: Tone, text: &str) -> String {
        table::paint(self.look.color, tone, text)
    }

    fn section(&mut self, title: &str, remark: &str) {
        line!(self);
        let fits = title.chars().count() + 2 + remark.chars().count() <= self.look.width;
        let title = self.paint(Tone::Bold, title);
        if remark.is_empty() {
            line!(self, "{title}");
        } else if fits {
            line!(self, "{title}  {}", self.paint(Tone::Dim, remark));
        } else {
            line!(self, "{title}");
            for part in wrap(remark, self.look.width - 2) {
                line!(self, "  {}", self.paint(Tone::Dim, &part));
            }
        }
    }

    /// `  label         text`, continued under the text where it is too long for the line.
    fn labelled(&mut self, label: &str, text: &str) {
        const INDENT: usize = 16;
        for (i, part) in wrap(text, self.look.width - INDENT).iter().enumerate() {
            let label = if i == 0 { label } else { "" };
            line!(self, "  {label:<14}{part}");
        }
    }

    fn head(&mut self) {
        let result = self.result;
        let plan = self.paint(Tone::Bold, &format::clean(&result.plan));
        let elapsed = format::time_ms(result.elapsed.as_secs_f64() * 1e3);
        let started = stats::time::rfc3339_ms(result.started_unix_ms).replace('T', " ");
        let started = started.split('.').next().unwrap_or_default().to_owned();
        let outcome = format!("{:?}", result.outcome).to_lowercase();
        let head = format!("{plan}  {outcome} after {elapsed}, started {started} UTC");
        for part in wrap(&head, self.look.width) {
            line!(self, "{part}");
        }
        let why = match &result.stop {
            StopReason::Finished => return,
            StopReason::Threshold(number) => match result.thresholds.get(*number) {
                Some(threshold) => format!("threshold {} {}", threshold.label, threshold.hold),
                None => "a threshold".to_owned(),
            },
            StopReason::Interrupted => "an interrupt".to_owned(),
            StopReason::Cancelled => "a stop command".to_owned(),
            StopReason::Timeout => "the time limit".to_owned(),
            StopReason::Aborted(reason) if result.script.is_some() => {
                format!("the script: {}", format::clean(reason))
            }
            StopReason::Aborted(reason) => format!("its cluster: {}", format::clean(reason)),
        };
        for part in wrap(&format!("ended early by {why}"), self.look.width) {
            line!(self, "{}", self.paint(Tone::Yellow, &part));
        }
    }

    fn thresholds(&mut self) {
        let thresholds = &self.result.thresholds;
        if thresholds.is_empty() {
            return;
        }
        self.section("THRESHOLDS", "");
        let width = |of: fn(&ThresholdResult) -> &str| {
            thresholds.iter().map(|t| of(t).chars().count()).max().unwrap_or(0).min(44)
        };
        let (label_width, hold_width) = (width(|t| &t.label), width(|t| &t.hold));
        for (number, threshold) in thresholds.iter().enumerate() {
            let measured = match threshold.value {
                Some(value) => format!("measured {}", format::value(value, threshold.unit)),
                None => NOTHING_MEASURED.to_owned(),
            };
            let ended = match self.result.stop == StopReason::Threshold(number) {
                true => ", ended the run",
                false => "",
            };
            let mark = self.mark(threshold.ok && ended.is_empty());
            let tone = if threshold.ok { Tone::Plain } else { Tone::Red };
            let measured = self.paint(tone, &format!("{measured}{ended}"));
            let (label, hold) = (&threshold.label, &threshold.hold);
            let line = format!("  {mark} {label:<label_width$}  {hold:<hold_width$}  {measured}");
            if table::visible_width(&line) <= self.look.width {
                line!(self, "{line}");
                continue;
            }
            for (i, part) in
                wrap(&format!("{label} {hold}"), self.look.width - 8).iter().enumerate()
            {
                line!(self, "  {} {part}", if i == 0 { &*mark } else { "   " });
            }
            line!(self, "      {measured}");
        }
    }

    fn checks(&mut self) {
        let rollup = self.rollup;
        let (passes, fails) = (rollup.checked.passes, rollup.checked.fails);
        if passes + fails == 0 {
            return;
        }
        let of = format::count(passes + fails);
        let share = format::share(passes, passes + fails);
        self.section("CHECKS", &format!("{} of {of} passed ({share})", format::count(passes)));
        let ran = rollup.checks.iter().filter(|check| check.count.passes + check.count.fails > 0);
        let mut last_step = None;
        for check in ran {
            if last_step.replace(check.step) != Some(check.step) {
                let step = &rollup.steps[check.step].key;
                line!(self, "  {step}");
            }
            self.check(check);
        }
    }

    fn check(&mut self, check: &CheckTotal) {
        let (passes, fails) = (check.count.passes, check.count.fails);
        let mark = self.mark(fails == 0);
        let name = format::fit(&format::clean(&check.name), self.look.width - 24);
        if fails == 0 {
            let count = self.paint(Tone::Dim, &format::count(passes));
            line!(self, "    {mark} {name}  {count}");
            return;
        }
        line!(self, "    {mark} {name}");
        let share = format::share(passes, passes + fails);
        let passes = self.paint(Tone::Green, &format!("✓ {}", format::count(passes)));
        let fails = self.paint(Tone::Red, &format!("✗ {}", format::count(fails)));
        line!(self, "      ↳ {share} — {passes} / {fails}");
        let samples = self.result.error_samples.iter().filter(|one| one.step == check.step);
        let begins = format!("{}{}: ", stats::CHECKED, check.name);
        let found = samples.filter_map(|sample| sample.message.strip_prefix(&begins)).next();
        for part in
            found.map(|text| wrap(&format::clean(text), self.look.width - 8)).unwrap_or_default()
        {
            line!(self, "        {part}");
        }
    }

    fn mark(&self, ok: bool) -> String {
        if ok { self.paint(Tone::Green, "✓") } else { self.paint(Tone::Red, "✗") }
    }
}

/// Breaks at spaces; a word longer than a line stands alone.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        // Colour codes take no room; they only occur at the ends of a text.
        let length = table::visible_width(word);
        if used > 0 && used + 1 + length > width {
            lines.push(String::new());
            used = 0;
        }
        let last = lines.last_mut().expect("never empty");
        if used > 0 {
            last.push(' ');
            used += 1;
        }
        last.push_str(word);
        used += length;
    }
    lines
}
