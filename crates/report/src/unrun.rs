//! Steps that never ran, and steps whose requests all ended somewhere else: what counts alone hide.

use std::collections::BTreeMap;

use stats::{ErrorKind, LANDED, RunResult, StepStats};

use crate::format;
use crate::rollup::Rollup;

/// Nobody reads more of them.
const SHOWN_MAX: usize = 10;

/// The numbers of steps that never ran although their workflow did.
pub(crate) fn unrun_steps(result: &RunResult, rollup: &Rollup) -> Vec<usize> {
    let began = |workflow: usize| {
        let block = &rollup.workflows[workflow];
        block.iterations + block.iterations_interrupted > 0
    };
    let steps = rollup.steps.iter().enumerate();
    let unrun = steps.filter(|(_, step)| step.stats.requests == 0 && began(step.workflow));
    // What a script sends has no steps.
    unrun.map(|(number, _)| number).filter(|_| result.script.is_none()).collect()
}

/// A sentence for each of them.
pub(crate) fn unrun_words(result: &RunResult, rollup: &Rollup) -> Vec<String> {
    let unrun = unrun_steps(result, rollup);
    let mut words: Vec<String> = unrun
        .iter()
        .take(SHOWN_MAX)
        .map(|number| {
            let step = &rollup.steps[*number];
            let when = &result.layout.steps[*number].when;
            let done = rollup.workflows[step.workflow].iterations;
            let key = &step.key;
            match when.as_slice() {
                _ if done == 0 => format!("step `{key}` never ran: no iteration came that far"),
                [] => format!("step `{key}` never ran in {}", format::plural(done, "iteration")),
                [when] => format!(
                    "step `{key}` was skipped in all {}: `when: {}` was never true",
                    format::plural(done, "iteration"),
                    format::clean(when),
                ),
                several => format!(
                    "step `{key}` was skipped in all {}: `when: {}` were never true together",
                    format::plural(done, "iteration"),
                    format::clean(&several.join("` and `")),
                ),
            }
        })
        .collect();
    if unrun.len() > SHOWN_MAX {
        words.push(format!("{} more steps never ran", unrun.len() - SHOWN_MAX));
    }
    words
}

/// Whether every answer of a step was a redirect that was followed.
fn all_redirected(stats: &StepStats) -> bool {
    let is_redirect = |status: u16| matches!(status, 301 | 302 | 303 | 307 | 308);
    let count = |wanted: bool| -> u64 {
        let counts = stats.status.iter().filter(|(status, _)| is_redirect(*status) == wanted);
        counts.map(|(_, count)| count).sum()
    };
    count(false) > 0 && count(true) >= count(false)
}

/// A login wall: pages that all lead to one other page.
pub(crate) fn login_wall(result: &RunResult, rollup: &Rollup) -> Option<String> {
    let mut landings: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (number, step) in rollup.steps.iter().enumerate() {
        let landed = result.error_samples.iter().find_map(|sample| {
            let is_landing = sample.step == number && sample.kind == ErrorKind::Redirect;
            sample.message.strip_prefix(LANDED).filter(|_| is_landing)
        });
        if let Some(path) = landed.filter(|_| all_redirected(&step.stats)) {
            landings.entry(path).or_default().push(&step.key);
        }
    }
    let used = rollup.steps.iter().filter(|step| step.stats.requests > 0).count();
    let (path, steps) = landings.into_iter().max_by_key(|(_, steps)| steps.len())?;
    if steps.len() < 2 && used > 1 {
        return None;
    }
    let shown: Vec<&str> = steps.iter().take(SHOWN_MAX).copied().collect();
    Some(format!(
        "every request of {} was redirected to {}; is a login missing?",
        shown.join(", "),
        format::clean(path)
    ))
}
