//! How it ended: timeline, generator, verdict, hints, and the line that says pass or fail.

use std::fmt::Write;
use std::time::Duration;

use stats::{TimelineEntry, VerdictState};

use super::table::{self, Tone};
use super::{Look, Page, hints, line, wrap};
use crate::exit_code::Exit;
use crate::format;

impl Page<'_> {
    pub(super) fn timeline(&mut self) {
        // Start and end are in the head already: only what happened between them is news.
        let end = self.result.elapsed.saturating_sub(Duration::from_millis(100));
        let between = |entry: &TimelineEntry| !entry.at.is_zero() && entry.at < end;
        if !self.result.timeline.iter().any(between) {
            return;
        }
        self.section("TIMELINE", "");
        for entry in &self.result.timeline {
            let at = format::moment(entry.at);
            let event = format::fit(&format::clean(&entry.event), self.look.width - 14);
            line!(self, "  {at:>8}  {event}");
        }
    }

    pub(super) fn conclusion(&mut self, exit: &Exit) {
        line!(self);
        let generator = self.generator_text();
        self.labelled("generator", &generator);
        let verdict = &self.result.verdict;
        let (word, tone) = match verdict.state {
            VerdictState::Valid => ("valid", Tone::Green),
            VerdictState::Degraded => ("degraded", Tone::Yellow),
            VerdictState::Invalid => ("invalid", Tone::Red),
        };
        match verdict.reasons.is_empty() {
            true => self.labelled("verdict", &self.paint(tone, word)),
            false => {
                let text = format!("{word}: {}", verdict.reasons.join("; "));
                self.labelled("verdict", &self.paint(tone, &text));
            }
        }
        for note in &self.result.notes {
            self.labelled("note", &format::clean(note));
        }
        let hints = hints::hints(self.result, self.rollup);
        if !hints.is_empty() {
            self.section("WHAT TO LOOK AT NEXT", "");
            for hint in hints {
                for (i, part) in wrap(&hint, self.look.width - 4).iter().enumerate() {
                    line!(self, "  {} {part}", if i == 0 { "•" } else { " " });
                }
            }
        }
        line!(self);
        let last = last_line(exit, self.result.verdict.state, self.look);
        self.out += &last;
    }

    fn generator_text(&self) -> String {
        let generator = &self.result.generator;
        let cpu = (generator.cpu_user + generator.cpu_system).as_secs_f64();
        let elapsed = self.result.elapsed.as_secs_f64();
        let available = elapsed * generator.cores.max(1) as f64;
        let share = if available > 0.0 { cpu / available } else { 0.0 };
        format!(
            "{}, {} busy (one core at most {}), {} memory, wake-up lag p99 {} max {}",
            format::plural(generator.cores as u64, "core"),
            format::percent((share * 100.0).round() / 100.0),
            format::percent((generator.busiest_core * 100.0).round() / 100.0),
            format::bytes(generator.memory_max_bytes as f64),
            format::time_ms(generator.loop_lag_p99_ms),
            format::time_ms(generator.loop_lag_max_ms),
        )
    }
}

/// Passed or failed, and why: the last thing on the screen.
pub(super) fn last_line(exit: &Exit, verdict: VerdictState, look: Look) -> String {
    let (word, tone) = match (exit.passed(), verdict) {
        (true, VerdictState::Degraded) => ("! PASSED", Tone::Yellow),
        (true, _) => ("✓ PASSED", Tone::Green),
        (false, _) => ("✗ FAILED", Tone::Red),
    };
    let word = table::paint(look.color, tone, word);
    // The code is kept together by blanks that do not break, until the lines are made.
    let text = format!("{} (exit\u{a0}code\u{a0}{})", exit.reason, exit.code);
    let mut out = String::new();
    for (i, part) in wrap(&text, look.width - 10).iter().enumerate() {
        let part = part.replace('\u{a0}', " ");
        let _ = writeln!(out, "{}  {part}", if i == 0 { &*word } else { "        " });
    }
    out
}
