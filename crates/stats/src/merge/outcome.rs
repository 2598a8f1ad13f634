//! What the merged counts are for: live views, and the result at the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Merge;
use crate::history::History;
use crate::last_words::LastWords;
use crate::layout::Layout;
use crate::result::{
    ErrorSample, GeneratorStats, Outcome, RunResult, StopReason, ThresholdResult, TimelineEntry,
    Verdict, WorkflowResult,
};
use crate::script_result::{ScriptFailure, ScriptResult, threshold_results};
use crate::series::{SeriesLayout, SeriesWindow, ThresholdOutcome};
use crate::snapshot::Snapshot;
use crate::verdict::{Evidence, LostWorker, judge};
use crate::window::Window;

/// Everything about a run that its counts say.
#[derive(Debug)]
pub struct Finished {
    pub layout: Arc<Layout>,
    pub totals: Window,
    pub thresholds: Vec<ThresholdResult>,
    pub error_samples: Vec<ErrorSample>,
    pub history: History,
    pub generator: GeneratorStats,
    pub verdict: Verdict,
    pub notes: Vec<String>,
    /// Nothing that was counted is missing from the sums (R17); otherwise the verdict says why.
    pub exact: bool,
    pub series: Option<(Arc<SeriesLayout>, Box<SeriesWindow>, Vec<ThresholdOutcome>)>,
    /// Virtual users that each workflow had made, over all its shards.
    pub vus_made: Vec<u64>,
}

/// What only the owner of the job knows about a run.
#[derive(Debug)]
pub struct Head {
    pub plan: String,
    pub started_unix_ms: u64,
    pub elapsed: Duration,
    pub outcome: Outcome,
    pub last_words: LastWords,
    pub stop: StopReason,
    pub workflows: Vec<WorkflowResult>,
    pub timeline: Vec<TimelineEntry>,
    pub notes: Vec<String>,
    /// Of a script's run.
    pub script: Option<ScriptHead>,
}

#[derive(Debug, Default)]
pub struct ScriptHead {
    pub strict: bool,
    pub setup_data: Option<String>,
    pub failure: Option<ScriptFailure>,
    pub marked_failed: Option<String>,
}

impl Merge {
    /// Counts, thresholds, warnings and history; plan, state and workflows are the owner's to say.
    pub fn fill(&mut self, snapshot: &mut Snapshot) {
        self.aggregate.fill(snapshot);
        snapshot.thresholds = match &self.series_thresholds {
            Some(thresholds) => {
                let layout = self.schema.series.as_deref();
                layout.map_or_else(Vec::new, |layout| {
                    threshold_results(layout, thresholds.outcomes())
                })
            }
            None => self.evaluator.evaluate(self.ticked),
        };
        let values = snapshot.thresholds.iter().map(|threshold| threshold.value);
        self.aggregate.history.note_thresholds(values);
        snapshot.warnings = self.verdict(false).reasons;
    }

    /// Virtual users, iterations and drops of a workflow, for the owner's view of it.
    pub fn workflow_counts(&self, workflow: usize) -> (u64, u64, u64) {
        let (iterations, dropped) = self.aggregate.iterations_of(workflow);
        (self.aggregate.vus_of(workflow), iterations, dropped)
    }

    fn verdict(&self, over: bool) -> Verdict {
        self.verdict_with(over, &self.lost)
    }

    fn verdict_with(&self, over: bool, lost: &[LostWorker]) -> Verdict {
        judge(&Evidence {
            totals: &self.aggregate.totals,
            loop_lag: &self.aggregate.loop_lag,
            panicked_cores: &[],
            expects_requests: over && !self.schema.layout.steps.is_empty(),
            lost,
            stalls: &self.stalls,
            incomplete: &self.incomplete,
            cut_short: &[],
            layout: &self.schema.layout,
        })
    }

    /// What the result would be now. `lost`: workers that the owner knows to be lost.
    pub fn so_far(&mut self, lost: &[LostWorker]) -> Finished {
        let series = match (&self.schema.series, &self.aggregate.series, &self.series_thresholds) {
            (Some(layout), Some(totals), Some(thresholds)) => {
                Some((layout.clone(), totals.clone(), thresholds.outcomes().to_vec()))
            }
            _ => None,
        };
        let thresholds = match &series {
            Some((layout, _, outcomes)) => threshold_results(layout, outcomes),
            None => self.evaluator.evaluate(self.ticked),
        };
        let lost: Vec<LostWorker> = self.lost.iter().chain(lost).cloned().collect();
        Finished {
            layout: self.schema.layout.clone(),
            thresholds,
            error_samples: self.aggregate.error_samples(),
            history: self.aggregate.history.clone(),
            totals: self.aggregate.totals.clone(),
            generator: self.generator(),
            verdict: self.verdict_with(false, &lost),
            notes: self.notes(),
            exact: self.incomplete.is_empty(),
            series,
            vus_made: self.vus_made(),
        }
    }

    /// The run is over at `elapsed`: what is pending is counted, and streams that have not ended
    /// are given up.
    pub fn finish(mut self, elapsed: Duration) -> Finished {
        let unfinished: Vec<_> =
            self.streams.iter().filter(|(_, stream)| stream.live).map(|(key, _)| *key).collect();
        for key in unfinished {
            self.give_up(key, "it had not ended when the result was made");
        }
        for pending in std::mem::take(&mut self.pending).into_values() {
            self.aggregate.add_delta(&pending.delta);
        }
        if elapsed > self.ticked || !self.aggregate.open_tick().is_empty() {
            self.close_tick(elapsed.max(self.ticked));
        }
        let verdict = self.verdict(true);
        let exact = self.incomplete.is_empty();
        let notes = self.notes();
        let generator = self.generator();
        let vus_made = self.vus_made();
        let series = match (self.schema.series.clone(), self.aggregate.series.take()) {
            (Some(layout), Some(totals)) => {
                let thresholds = self.series_thresholds.take().unwrap_or_default();
                let outcomes = thresholds.finish(&layout, &totals, elapsed);
                Some((layout, totals, outcomes))
            }
            _ => None,
        };
        let thresholds = match &series {
            Some((layout, _, outcomes)) => threshold_results(layout, outcomes),
            None => self.evaluator.finish(elapsed),
        };
        Finished {
            layout: self.schema.layout.clone(),
            thresholds,
            error_samples: self.aggregate.error_samples(),
            history: self.aggregate.history,
            totals: self.aggregate.totals,
            generator,
            verdict,
            notes,
            exact,
            series,
            vus_made,
        }
    }

    /// An attempt that joins later makes those of the one before again, on another worker.
    fn vus_made(&self) -> Vec<u64> {
        let mut most: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for (key, stream) in &self.streams {
            let made = most.entry((key.workflow, key.shard)).or_default();
            *made = (*made).max(stream.generator.vus_made);
        }
        let of = |number: usize| {
            let own = most.iter().filter(|((workflow, _), _)| *workflow as usize == number);
            own.map(|(_, made)| made).sum()
        };
        (0..self.schema.layout.workflows.len()).map(of).collect()
    }

    fn generator(&self) -> GeneratorStats {
        let (cpu_user, cpu_system) = self.aggregate.cpu_sum();
        let most = |of: fn(&crate::wire::Generator) -> u64| {
            self.streams.values().map(|stream| of(&stream.generator)).max().unwrap_or(0)
        };
        let shards: std::collections::BTreeSet<(u32, u32)> =
            self.streams.keys().map(|key| (key.workflow, key.shard)).collect();
        GeneratorStats {
            cores: shards.len(),
            cpu_user,
            cpu_system,
            memory_max_bytes: most(|generator| generator.memory_max_bytes),
            descriptors_max: most(|generator| generator.descriptors_max),
            descriptors_limit: most(|generator| generator.descriptors_limit),
            loop_lag_p99_ms: self.aggregate.loop_lag.percentile_ms(99.0),
            loop_lag_max_ms: self.aggregate.loop_lag.max_ms(),
            busiest_core: self.aggregate.busiest_core,
        }
    }

    fn notes(&self) -> Vec<String> {
        let sum = |of: fn(&crate::wire::Generator) -> u64| {
            self.streams.values().map(|stream| of(&stream.generator)).sum::<u64>()
        };
        let dropped = sum(|generator| generator.samples_dropped);
        let mut notes = self.aggregate.notes(dropped, sum(|generator| generator.unrecordable));
        if self.judged_without > 0 {
            notes.push(format!(
                "thresholds were judged without {} streams that had been silent for {:?}",
                self.judged_without, self.settings.silence
            ));
        }
        if self.refused > 0 {
            notes.push(format!("{} frames of statistics were refused", self.refused));
        }
        notes
    }
}

impl Finished {
    pub fn into_result(self, head: Head) -> RunResult {
        let script = self.series.map(|(layout, totals, thresholds)| {
            let head = head.script.unwrap_or_default();
            Box::new(ScriptResult {
                layout,
                totals: *totals,
                thresholds,
                strict: head.strict,
                setup_data: head.setup_data,
                failure: head.failure,
                marked_failed: head.marked_failed,
            })
        });
        let mut notes = head.notes;
        notes.extend(self.notes);
        let mut workflows = head.workflows;
        for (workflow, made) in workflows.iter_mut().zip(self.vus_made) {
            // Of a rate, the plan only says how many there may be.
            workflow.vus_max = if made > 0 { made } else { workflow.vus_max };
        }
        let cores = cores_at_once(&workflows).max(self.generator.cores.min(1));
        let generator = GeneratorStats { cores, ..self.generator };
        RunResult {
            plan: head.plan,
            started_unix_ms: head.started_unix_ms,
            elapsed: head.elapsed,
            outcome: head.outcome,
            verdict: self.verdict,
            stop: head.stop,
            layout: self.layout,
            totals: self.totals,
            issued: head.last_words.issued(),
            last_words: head.last_words,
            workflows,
            thresholds: self.thresholds,
            error_samples: self.error_samples,
            timeline: head.timeline,
            generator,
            history: self.history,
            notes,
            script,
            fail_on: crate::result::VerdictState::Invalid,
        }
    }
}

/// The most cores that workflows had beside each other; one after another they use the same ones.
fn cores_at_once(workflows: &[WorkflowResult]) -> usize {
    let at = |moment: Duration| {
        let there = |one: &&WorkflowResult| one.started <= moment && moment < one.ended;
        workflows.iter().filter(there).map(|one| one.cores).sum()
    };
    workflows.iter().map(|one| at(one.started)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkflowStatus;

    #[test]
    fn cores_are_counted_where_workflows_overlap() {
        let workflow = |cores: usize, from: u64, to: u64| WorkflowResult {
            name: String::new(),
            status: WorkflowStatus::Completed,
            started: Duration::from_secs(from),
            ended: Duration::from_secs(to),
            cores,
            vus_max: 1,
        };
        assert_eq!(cores_at_once(&[]), 0);
        assert_eq!(cores_at_once(&[workflow(2, 0, 5), workflow(2, 5, 9)]), 2, "one after another");
        let beside = [workflow(2, 0, 5), workflow(3, 4, 9), workflow(1, 8, 10)];
        assert_eq!(cores_at_once(&beside), 5);
    }
}
