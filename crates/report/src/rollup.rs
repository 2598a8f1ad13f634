//! The sums that every report needs, computed once: stages folded into steps, steps into the whole.
//!
//! A name that occurs in one workflow only is used as it is; one that occurs in several is shown as
//! `workflow/name`, so that a reader of the result never has to guess which one is meant.

use std::collections::BTreeMap;
use std::time::Duration;

use stats::{
    Block, CheckCount, CheckLayout, CustomValue, Layout, RunResult, StepLayout, StepStats, totals,
};

/// One step over all stages.
#[derive(Debug, Clone)]
pub struct StepTotal {
    /// Unique within the result.
    pub key: String,
    pub workflow: usize,
    pub stats: StepStats,
    /// Requests per second while the step's workflow ran.
    pub rate: f64,
}

/// One check over all stages.
#[derive(Debug, Clone)]
pub struct CheckTotal {
    /// Unique within the result.
    pub key: String,
    pub name: String,
    pub step: usize,
    pub count: CheckCount,
}

#[derive(Debug, Clone)]
pub struct Rollup {
    /// All requests of the run, setup and teardown included: what a target has seen.
    pub total: StepStats,
    pub rate: f64,
    /// Indexed as [`Layout::steps`].
    pub steps: Vec<StepTotal>,
    /// Indexed as [`Layout::checks`].
    pub checks: Vec<CheckTotal>,
    /// Sum of all checks.
    pub checked: CheckCount,
    /// Iterations, drops, lags and custom metrics of all workflows (its steps and checks stay
    /// empty).
    pub all: Block,
    /// The same per workflow.
    pub workflows: Vec<Block>,
}

impl Rollup {
    pub fn new(result: &RunResult) -> Rollup {
        let (layout, window) = (&*result.layout, &result.totals);
        let mut workflows: Vec<Block> = layout.workflows.iter().map(|_| hollow(layout)).collect();
        for (stage, block) in blocks(result) {
            workflows[layout.stages[stage].workflow].merge(block);
        }
        let mut all = hollow(layout);
        workflows.iter().for_each(|block| all.merge(block));
        let checks = check_totals(layout, &totals::checks(window, layout));
        let checked = checks.iter().fold(CheckCount::default(), |sum, check| CheckCount {
            passes: sum.passes + check.count.passes,
            fails: sum.fails + check.count.fails,
        });
        let total = totals::grand_total(window, layout);
        let rate = per_second(total.requests, result.elapsed);
        Rollup { total, rate, steps: step_totals(result), checks, checked, all, workflows }
    }

    pub fn dropped(&self) -> u64 {
        self.all.dropped.iter().sum()
    }
}

/// Every stage that has counted anything, with its number.
pub(crate) fn blocks(result: &RunResult) -> impl Iterator<Item = (usize, &Block)> {
    let stages = result.layout.stages.len();
    let blocks = result.totals.blocks.iter().take(stages).enumerate();
    blocks.filter_map(|(stage, block)| block.as_deref().map(|block| (stage, block)))
}

pub(crate) fn per_second(count: u64, over: Duration) -> f64 {
    if over.is_zero() { 0.0 } else { count as f64 / over.as_secs_f64() }
}

/// How long a workflow ran; the whole run for one that has no record of its own (setup, teardown).
pub(crate) fn active(result: &RunResult, workflow: usize) -> Duration {
    let name = &result.layout.workflows[workflow].name;
    let own = result.workflows.iter().find(|workflow| workflow.name == *name);
    let span = own.map_or(Duration::ZERO, |own| own.ended.saturating_sub(own.started));
    if span.is_zero() { result.elapsed } else { span }
}

/// A block that sums everything except steps and checks, whose numbers differ between workflows.
fn hollow(layout: &Layout) -> Block {
    let metrics = layout.metrics.iter().map(|metric| CustomValue::new(metric.kind)).collect();
    Block { metrics, ..Block::default() }
}

fn step_totals(result: &RunResult) -> Vec<StepTotal> {
    let layout = &*result.layout;
    let steps = layout.steps.iter().zip(step_keys(layout)).enumerate();
    steps
        .map(|(number, (step, key))| {
            let stats = totals::step_total(&result.totals, layout, number);
            let rate = per_second(stats.requests, active(result, step.workflow));
            StepTotal { key, workflow: step.workflow, stats, rate }
        })
        .collect()
}

fn check_totals(layout: &Layout, counts: &[CheckCount]) -> Vec<CheckTotal> {
    let step_keys = step_keys(layout);
    let seen = occurrences(layout.checks.iter().map(|check| &*check.name));
    let key = |check: &CheckLayout| match seen.get(&*check.name) {
        Some(1) => check.name.clone(),
        _ => format!("{}/{}", step_keys[check.step], check.name),
    };
    let mut keys: Vec<String> = layout.checks.iter().map(key).collect();
    number_repeats(&mut keys);
    let checks = layout.checks.iter().zip(keys).zip(counts);
    checks
        .map(|((check, key), count)| CheckTotal {
            key,
            name: check.name.clone(),
            step: check.step,
            count: *count,
        })
        .collect()
}

pub(crate) fn step_keys(layout: &Layout) -> Vec<String> {
    let seen = occurrences(layout.steps.iter().map(|step| &*step.name));
    let key = |step: &StepLayout| match seen.get(&*step.name) {
        Some(1) => step.name.clone(),
        _ => format!("{}/{}", layout.workflows[step.workflow].name, step.name),
    };
    let mut keys: Vec<String> = layout.steps.iter().map(key).collect();
    number_repeats(&mut keys);
    keys
}

fn occurrences<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut seen = BTreeMap::new();
    names.for_each(|name| *seen.entry(name).or_default() += 1);
    seen
}

/// The last resort against two equal keys in one document: `name`, `name #2`.
fn number_repeats(keys: &mut [String]) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for key in keys {
        let times = seen.entry(key.clone()).or_default();
        *times += 1;
        if *times > 1 {
            *key = format!("{key} #{times}");
        }
    }
}
