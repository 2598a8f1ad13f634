//! The names of a load's parts: what the tag `stage` says about a moment.

use std::time::Duration;

use plan::{Executor, Load, Stage};

/// All stages of a load in order: `warmup` first if there is one, then the stages of a ramp (by
/// their names, or `stage-1` and so on), or `main`.
pub fn stage_names(load: &Load) -> Vec<String> {
    let mut names: Vec<String> = load.warmup.iter().map(|_| "warmup".to_string()).collect();
    match &load.executor {
        Executor::RampingVus { stages, .. } => names.extend(ramp_names(stages)),
        Executor::RampingArrivalRate { stages, .. } => names.extend(ramp_names(stages)),
        _ => names.push("main".to_string()),
    }
    names
}

/// Every stage that has a length, with its begin and end. What is still warm-up belongs to no
/// other.
pub fn stage_spans(load: &Load) -> Vec<(String, Duration, Duration)> {
    let warmup = load.warmup.unwrap_or_default();
    let names = stage_names(load).into_iter().skip(usize::from(load.warmup.is_some()));
    let stages = names.zip(stage_ends(load)).map(|(name, (length, end))| {
        let begin = (end - length).max(warmup);
        (name, begin, end)
    });
    let first = load.warmup.map(|end| ("warmup".to_owned(), Duration::ZERO, end));
    first.into_iter().chain(stages).filter(|(_, begin, end)| begin < end).collect()
}

/// Which of [`stage_names`] the moment belongs to; from the end on, the last one that had any
/// length.
pub fn stage_at(load: &Load, t: Duration) -> usize {
    if load.warmup.is_some_and(|warmup| t < warmup) {
        return 0;
    }
    // Stages of no length contain no moment.
    let mut stage = 0;
    for (index, (length, end)) in stage_ends(load).enumerate() {
        if !length.is_zero() {
            stage = index;
        }
        if t < end {
            break;
        }
    }
    usize::from(load.warmup.is_some()) + stage
}

/// The first moment after `t` at which [`stage_at`] has another value.
pub fn next_stage_change(load: &Load, t: Duration) -> Option<Duration> {
    let now = stage_at(load, t);
    let moments = stage_ends(load).map(|(_, end)| end).chain(load.warmup);
    moments.filter(|moment| *moment > t && stage_at(load, *moment) != now).min()
}

fn ramp_names<T>(stages: &[Stage<T>]) -> impl Iterator<Item = String> + '_ {
    let name = |(index, stage): (usize, &Stage<T>)| {
        stage.name.clone().unwrap_or_else(|| format!("stage-{}", index + 1))
    };
    stages.iter().enumerate().map(name)
}

/// Length and end of each stage, `warmup` not counted. No allocation: the engine asks per
/// iteration.
fn stage_ends(load: &Load) -> impl Iterator<Item = (Duration, Duration)> + '_ {
    (0..).map_while(|index| stage_length(load, index)).scan(Duration::ZERO, |end, length| {
        *end += length;
        Some((length, *end))
    })
}

fn stage_length(load: &Load, index: usize) -> Option<Duration> {
    match &load.executor {
        Executor::RampingVus { stages, .. } => stages.get(index).map(|stage| stage.over),
        Executor::RampingArrivalRate { stages, .. } => stages.get(index).map(|stage| stage.over),
        _ => (index == 0).then(|| super::latest_end(load)),
    }
}
