//! What is printed before a run: one line for all scenarios together, and one for each.

use std::collections::VecDeque;
use std::time::Duration;

use plan::{Executor, Rate, Stage};
use schedule;

use super::resolve::{ENDLESS, Resolved, Scenario};
use super::segment::Segment;
use super::values::duration_text;

/// `(100.00%) 1 scenario, 10 max VUs, 1m0s max duration (incl. graceful stop):`, then
/// `* default: 10 looping VUs for 30s (gracefulStop: 30s)` for each scenario.
pub fn describe(resolved: &Resolved) -> Vec<String> {
    let segment = resolved.options.execution_segment.unwrap_or(Segment::WHOLE);
    let count = resolved.scenarios.len();
    let noun = if count == 1 { "scenario" } else { "scenarios" };
    let needs = Needs::of(&resolved.scenarios);
    let end = needs.end.map_or_else(|| "infinite".to_string(), duration_text);
    let header = format!(
        "({:.2}%) {count} {noun}, {} max VUs, {end} max duration (incl. graceful stop):",
        segment.length() * 100.0,
        needs.vus_max,
    );
    let lines = resolved.scenarios.iter().map(|scenario| format!("* {}", line(scenario)));
    std::iter::once(header).chain(lines).collect()
}

/// The most virtual users that all scenarios together can have at the same time.
pub fn max_vus(scenarios: &[Scenario]) -> u64 {
    Needs::of(scenarios).vus_max
}

fn line(scenario: &Scenario) -> String {
    let load = &scenario.load;
    let length = duration_text(schedule::latest_end(load));
    let mut notes = Vec::new();
    let what = match &load.executor {
        Executor::ConstantVus { vus, duration } if scenario.externally_controlled => {
            let length = match *duration {
                ENDLESS => "infinite duration".to_string(),
                _ => format!("{length} duration"),
            };
            // Nothing else applies to it.
            return format!(
                "{}: Externally controlled execution with {vus} VUs, {} max VUs, {length}",
                scenario.name, scenario.vus_max
            );
        }
        Executor::ConstantVus { vus, .. } => format!("{vus} looping VUs for {length}"),
        Executor::RampingVus { stages, graceful_ramp_down, .. } => {
            notes.push(format!("gracefulRampDown: {}", duration_text(*graceful_ramp_down)));
            let vus = schedule::vus_max(load);
            format!("Up to {vus} looping VUs for {length} over {} stages", stages.len())
        }
        Executor::PerVuIterations { vus, iterations, .. } => {
            notes.push(format!("maxDuration: {length}"));
            format!("{iterations} iterations for each of {vus} VUs")
        }
        Executor::SharedIterations { vus, iterations, .. } => {
            notes.push(format!("maxDuration: {length}"));
            format!("{iterations} iterations shared among {vus} VUs")
        }
        Executor::ConstantArrivalRate { rate, vus, max_vus, .. } => {
            notes.push(range(*vus, *max_vus));
            format!("{:.2} iterations/s for {length}", per_second(*rate))
        }
        Executor::RampingArrivalRate { start, stages, vus, max_vus } => {
            notes.push(range(*vus, *max_vus));
            let rates = stages.iter().map(|stage| per_second(stage.to));
            let peak = rates.fold(per_second(*start), f64::max);
            format!("Up to {peak:.2} iterations/s for {length} over {} stages", stages.len())
        }
    };
    if scenario.exec != "default" {
        notes.push(format!("exec: {}", scenario.exec));
    }
    if !load.start_after.is_zero() {
        notes.push(format!("startTime: {}", duration_text(load.start_after)));
    }
    if !load.graceful_stop.is_zero() {
        notes.push(format!("gracefulStop: {}", duration_text(load.graceful_stop)));
    }
    match notes.is_empty() {
        true => format!("{}: {what}", scenario.name),
        false => format!("{}: {what} ({})", scenario.name, notes.join(", ")),
    }
}

fn range(vus: Option<u32>, max_vus: Option<u32>) -> String {
    match (vus, max_vus) {
        (Some(vus), Some(max)) if vus < max => format!("maxVUs: {vus}-{max}"),
        (vus, max) => format!("maxVUs: {}", max.or(vus).unwrap_or(0)),
    }
}

fn per_second(rate: Rate) -> f64 {
    rate.events as f64 / rate.per.as_secs_f64()
}

/// How many virtual users must be there, and until when.
struct Needs {
    vus_max: u64,
    /// `None`: a scenario has no end.
    end: Option<Duration>,
}

impl Needs {
    fn of(scenarios: &[Scenario]) -> Needs {
        let mut changes: Vec<(Duration, i64)> = Vec::new();
        let mut endless = false;
        for scenario in scenarios {
            let mut before = 0;
            for (time, vus) in reserved(scenario) {
                changes.push((scenario.load.start_after + time, i64::from(vus) - before));
                before = i64::from(vus);
            }
            endless |=
                scenario.externally_controlled && schedule::latest_end(&scenario.load) == ENDLESS;
        }
        // Stable: of what happens at the same time, the scenario that is listed first goes first.
        changes.sort_by_key(|(time, _)| *time);
        let (mut vus, mut vus_max) = (0, 0);
        for (_, change) in &changes {
            vus += change;
            vus_max = vus_max.max(vus);
        }
        let end = changes.last().map_or(Duration::ZERO, |(time, _)| *time);
        Needs { vus_max: u64::try_from(vus_max).unwrap_or(0), end: (!endless).then_some(end) }
    }
}

/// From when on how many virtual users are kept for a scenario, since its start; the last entry is
/// its end, with none. Who is removed by a ramp is kept until the time to finish is over.
fn reserved(scenario: &Scenario) -> Vec<(Duration, u32)> {
    let load = &scenario.load;
    let end = schedule::latest_end(load) + load.graceful_stop;
    match &load.executor {
        Executor::RampingVus { start, stages, graceful_ramp_down }
            if step_count(*start, stages) <= STEPS_MAX =>
        {
            let mut held = held(&planned(*start, stages), *graceful_ramp_down);
            held.retain(|(time, _)| *time <= end);
            // A ramp to zero may be over long before the end.
            if held.last().is_some_and(|(_, vus)| *vus > 0) {
                held.push((end, 0));
            }
            held
        }
        _ => vec![(Duration::ZERO, scenario.vus_max), (end, 0)],
    }
}

/// Ramps of more steps are counted with their highest number all the time.
const STEPS_MAX: u64 = 1_000_000;

fn step_count(start: u32, stages: &[Stage<u32>]) -> u64 {
    let before = std::iter::once(start).chain(stages.iter().map(|stage| stage.to));
    stages.iter().zip(before).map(|(stage, from)| u64::from(from.abs_diff(stage.to))).sum()
}

/// The steps of a ramp in their order, also those that a jump undoes in the same moment: their
/// virtual users must be there all the same. Who is left after the last step goes on until the end.
fn planned(start: u32, stages: &[Stage<u32>]) -> Vec<(Duration, u32)> {
    let mut steps = vec![(Duration::ZERO, start)];
    let (mut from, mut begin) = (start, Duration::ZERO);
    for stage in stages {
        let end = begin + stage.over;
        if stage.over.is_zero() {
            steps.push((end, stage.to));
        } else {
            let count = u128::from(from.abs_diff(stage.to));
            for step in 1..=from.abs_diff(stage.to) {
                let after = (stage.over.as_nanos() * u128::from(step)).div_ceil(count);
                let vus = if stage.to > from { from + step } else { from - step };
                steps.push((begin + Duration::from_nanos(after as u64), vus));
            }
        }
        (from, begin) = (stage.to, end);
    }
    steps
}

/// The highest value of the last `hold`, for steps in the order of time.
fn held(steps: &[(Duration, u32)], hold: Duration) -> Vec<(Duration, u32)> {
    // A value changes at a step, and `hold` after one, when what was before is forgotten.
    let mut times: Vec<Duration> =
        steps.iter().flat_map(|(time, _)| [*time, *time + hold]).collect();
    times.sort();
    times.dedup();
    let mut window = Window { steps, hold, candidates: VecDeque::new(), seen: 0 };
    let mut held: Vec<(Duration, u32)> = Vec::new();
    let mut note = |time: Duration, vus: u32| {
        if held.last().is_none_or(|(_, before)| *before != vus) {
            held.push((time, vus));
        }
    };
    for time in times {
        let mut highest = window.highest(time);
        while window.take_step(time) {
            highest = window.highest(time);
            note(time, highest);
        }
        note(time, highest);
    }
    held
}

/// The steps of the last `hold` that may still be the highest.
struct Window<'a> {
    steps: &'a [(Duration, u32)],
    hold: Duration,
    /// Indexes of steps, with falling values.
    candidates: VecDeque<usize>,
    seen: usize,
}

impl Window<'_> {
    /// Takes in the next step if it is not after `time`.
    fn take_step(&mut self, time: Duration) -> bool {
        let Some((_, vus)) = self.steps.get(self.seen).filter(|(at, _)| *at <= time) else {
            return false;
        };
        while self.candidates.back().is_some_and(|last| self.steps[*last].1 <= *vus) {
            self.candidates.pop_back();
        }
        self.candidates.push_back(self.seen);
        self.seen += 1;
        true
    }

    /// The highest value at `time`; a step counts until `hold` after the one that followed it.
    fn highest(&mut self, time: Duration) -> u32 {
        let followers = &self.steps[..self.seen];
        let is_over = |index: &usize| {
            followers.get(index + 1).is_some_and(|(follower, _)| *follower + self.hold <= time)
        };
        while self.candidates.front().is_some_and(is_over) {
            self.candidates.pop_front();
        }
        self.candidates.front().map_or(0, |index| self.steps[*index].1)
    }
}
