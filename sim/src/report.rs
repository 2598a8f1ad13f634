//! The scoreboard: what a campaign did, how much of it, and what to type to see a failure again.

use std::fmt::Write;

use crate::outcome::Totals;
use crate::scenario::Scenario;

/// A campaign of at least so many seeds fails if a mark was never reached.
pub const MARKS_REQUIRED_FROM: u64 = 256;

/// Whether the campaign as a whole is good: no violation, and enough seeds to have seen everything.
#[must_use]
pub fn passed(totals: &Totals, scenario: &Scenario) -> bool {
    let unreached = totals.seeds >= MARKS_REQUIRED_FROM && !unreached(totals, scenario).is_empty();
    totals.failed == 0 && totals.replayed == totals.replayed_equal && !unreached
}

/// Marks, and fault classes, that no seed has reached.
#[must_use]
pub fn unreached(totals: &Totals, scenario: &Scenario) -> Vec<&'static str> {
    let marks = scenario.marks.iter().copied().filter(|mark| !totals.marks.contains_key(*mark));
    let faults = scenario
        .faults
        .iter()
        .copied()
        .filter(|class| totals.faults.get(*class).copied().unwrap_or(0) == 0);
    marks.chain(faults).collect()
}

fn hours(ms: u64) -> f64 {
    ms as f64 / 3_600_000.0
}

/// Simulated time over processor time.
fn speed_up(totals: &Totals) -> f64 {
    totals.simulated_ms as f64 / totals.core_ms.max(1) as f64
}

/// One line while it runs.
#[must_use]
pub fn progress(totals: &Totals, goal: u64) -> String {
    format!(
        "seed {} of {goal}: {} failed, {:.2} simulated hours",
        totals.next_seed,
        totals.failed,
        hours(totals.simulated_ms)
    )
}

/// The scoreboard as text.
#[must_use]
pub fn text(totals: &Totals, scenario: &Scenario, replay: &str) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "{name:<28} {value}");
    };
    let seeds = totals.seeds;
    line("scenario", scenario.name.to_owned());
    line("seeds run / failed", format!("{seeds} / {}", totals.failed));
    if seeds > 0 && totals.failed == 0 {
        line("95 % bound per seed", format!("{:.4} %", 300.0 / seeds as f64));
    }
    let per_seed = totals.core_ms as f64 / 1_000.0 / seeds.max(1) as f64;
    line("simulated hours", format!("{:.2}", hours(totals.simulated_ms)));
    line("speed-up per core", format!("{:.0} x ({per_seed:.3} s per seed)", speed_up(totals)));
    line("faults per seed, median", totals.median_faults().to_string());
    line("determinism", format!("{} / {} replays equal", totals.replayed_equal, totals.replayed));
    let histories = totals.histories;
    line(
        "linearizable histories",
        format!(
            "{} checked, {} illegal, {} undecided",
            histories.checked, histories.illegal, histories.undecided
        ),
    );
    let missing = unreached(totals, scenario);
    let defined = scenario.marks.len() + scenario.faults.len();
    line("marks and classes reached", format!("{} / {defined}", defined - missing.len()));
    for name in missing {
        line("  never reached", name.to_owned());
    }
    table(&mut out, "faults by class", scenario.faults, |class| {
        let count = totals.faults.get(class).copied().unwrap_or(0);
        format!("{count:>9}   in {} seeds", totals.seeds_with_fault.get(class).unwrap_or(&0))
    });
    table(&mut out, "sometimes", scenario.marks, |mark| {
        format!("in {} seeds", totals.marks.get(mark).unwrap_or(&0))
    });
    let names: Vec<&str> = totals.counts.keys().map(String::as_str).collect();
    table(&mut out, "what happened", &names, |name| format!("{:>9}", totals.counts[name]));
    for failure in &totals.failures {
        let _ = writeln!(out, "\nseed {} FAILED", failure.seed);
        for violation in &failure.violations {
            let at = violation.at_ms as f64 / 1_000.0;
            let _ = writeln!(out, "  {} at {at:.3} s: {}", violation.invariant, violation.detail);
        }
        let _ = writeln!(out, "  again: {replay} --replay {}", failure.seed);
    }
    out
}

fn table(out: &mut String, title: &str, rows: &[&str], value: impl Fn(&str) -> String) {
    let _ = writeln!(out, "\n{title}");
    for row in rows {
        let _ = writeln!(out, "  {row:<26} {}", value(row));
    }
}
