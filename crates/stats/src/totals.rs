//! Sums over a window's table: what tables and summaries show of a run.

use crate::layout::Layout;
use crate::trend::Trend;
use crate::window::{Block, CheckCount, DropCause, StepStats, Window};

/// Everything that is counted by iteration.
#[derive(Debug, Clone, Default)]
pub struct IterationTotal {
    pub iterations: u64,
    pub interrupted: u64,
    pub duration: Trend,
    /// Indexed by [`DropCause`].
    pub dropped: [u64; DropCause::ALL.len()],
    pub start_lag: Trend,
    pub late_starts: u64,
}

/// One step over all stages; the step by its number in the layout.
pub fn step_total(window: &Window, layout: &Layout, step: usize) -> StepStats {
    let workflow = layout.steps[step].workflow;
    let local = step - layout.workflows[workflow].steps.start;
    let mut total = StepStats::default();
    for (_, block) in blocks(window, layout, Some(workflow)) {
        total.merge(&block.steps[local]);
    }
    total
}

/// One step in one stage; `None` if the stage has not begun or is another workflow's.
pub fn step_in_stage<'a>(
    window: &'a Window,
    layout: &Layout,
    step: usize,
    stage: usize,
) -> Option<&'a StepStats> {
    let workflow = layout.steps[step].workflow;
    if layout.stages[stage].workflow != workflow {
        return None;
    }
    let local = step - layout.workflows[workflow].steps.start;
    window.blocks.get(stage)?.as_deref().map(|block| &block.steps[local])
}

/// All requests of one workflow.
pub fn workflow_total(window: &Window, layout: &Layout, workflow: usize) -> StepStats {
    sum_of_steps(blocks(window, layout, Some(workflow)))
}

/// All requests of one stage.
pub fn stage_total(window: &Window, layout: &Layout, stage: usize) -> StepStats {
    sum_of_steps(blocks(window, layout, None).filter(|(other, _)| *other == stage))
}

/// All requests, setup and teardown included: what the target has seen.
pub fn grand_total(window: &Window, layout: &Layout) -> StepStats {
    sum_of_steps(blocks(window, layout, None))
}

/// Iterations of one workflow, or of all.
pub fn iterations(window: &Window, layout: &Layout, workflow: Option<usize>) -> IterationTotal {
    let mut total = IterationTotal::default();
    for (_, block) in blocks(window, layout, workflow) {
        total.iterations += block.iterations;
        total.interrupted += block.iterations_interrupted;
        total.duration.merge(&block.iteration_duration);
        for (mine, theirs) in total.dropped.iter_mut().zip(&block.dropped) {
            *mine += theirs;
        }
        total.start_lag.merge(&block.start_lag);
        total.late_starts += block.late_starts;
    }
    total
}

/// Every check over all stages, indexed as in the layout.
pub fn checks(window: &Window, layout: &Layout) -> Vec<CheckCount> {
    let mut counts = vec![CheckCount::default(); layout.checks.len()];
    for (stage, block) in blocks(window, layout, None) {
        let first = layout.workflow_of_stage(stage).checks.start;
        for (count, check) in counts[first..].iter_mut().zip(&block.checks) {
            count.passes += check.passes;
            count.fails += check.fails;
        }
    }
    counts
}

fn sum_of_steps<'a>(blocks: impl Iterator<Item = (usize, &'a Block)>) -> StepStats {
    let mut total = StepStats::default();
    for (_, block) in blocks {
        block.steps.iter().for_each(|step| total.merge(step));
    }
    total
}

/// The blocks that exist, with their stages; of one workflow or of all.
fn blocks<'a>(
    window: &'a Window,
    layout: &'a Layout,
    workflow: Option<usize>,
) -> impl Iterator<Item = (usize, &'a Block)> {
    let wanted = move |stage: usize| {
        workflow.is_none_or(|workflow| layout.stages[stage].workflow == workflow)
    };
    let block = |(stage, block): (usize, &'a Option<Box<Block>>)| Some((stage, block.as_deref()?));
    window.blocks.iter().enumerate().filter_map(block).filter(move |(stage, _)| wanted(*stage))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{layout, one_tick};

    #[test]
    fn totals_add_up_over_stages_workflows_and_the_run() {
        let layout = layout();
        let window = one_tick(&layout);
        let counts = |stats: StepStats| (stats.requests, stats.failed, stats.duration.count());
        assert_eq!(counts(step_total(&window, &layout, 0)), (17, 0, 14));
        assert_eq!(counts(step_total(&window, &layout, 2)), (5, 1, 5));
        assert_eq!(counts(step_total(&window, &layout, 3)), (0, 0, 0));
        assert_eq!(counts(workflow_total(&window, &layout, 0)), (27, 1, 24));
        assert_eq!(counts(stage_total(&window, &layout, 0)), (4, 0, 4));
        assert_eq!(counts(grand_total(&window, &layout)), (32, 2, 29));
        assert_eq!(step_in_stage(&window, &layout, 0, 0).map(|step| step.requests), Some(4));
        assert!(step_in_stage(&window, &layout, 0, 2).is_none());
        let checks = checks(&window, &layout);
        assert_eq!([checks[0].fails, checks[1].passes], [1, 10]);
        assert_eq!(iterations(&window, &layout, None).iterations, 29);
        assert_eq!(iterations(&window, &layout, Some(1)).duration.max_ms(), 10.0);
    }
}
