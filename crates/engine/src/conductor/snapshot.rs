//! What the live view is told.

use std::time::Duration;

use plan::Executor;
use stats::verdict::{CutShort, Evidence, judge};
use stats::{DropCause, Snapshot, WorkflowSnapshot, WorkflowState};

use super::Conductor;

impl Conductor {
    pub(super) fn snapshot(&mut self) -> Snapshot {
        let elapsed = self.elapsed();
        let mut snapshot = Snapshot {
            plan: self.plan.name.clone(),
            elapsed,
            planned: planned(&self.plan),
            state: self.state,
            thresholds: self.evaluator.evaluate(elapsed),
            ..Snapshot::default()
        };
        snapshot.workflows = (0..self.plan.workflows.len())
            .map(|workflow| self.workflow_snapshot(workflow))
            .collect();
        snapshot.warnings = self.verdict(false).reasons;
        let values = snapshot.thresholds.iter().map(|threshold| threshold.value);
        self.aggregate.history.note_thresholds(values);
        self.aggregate.fill(&mut snapshot);
        snapshot
    }

    pub(super) fn verdict(&self, over: bool) -> stats::Verdict {
        let cut_short = if over { self.cut_short() } else { Vec::new() };
        judge(&Evidence {
            totals: &self.aggregate.totals,
            loop_lag: &self.aggregate.loop_lag,
            panicked_cores: &self.panicked,
            expects_requests: over && !self.program.layout.steps.is_empty(),
            lost: &[],
            stalls: &[],
            incomplete: &[],
            cut_short: &cut_short,
            layout: &self.program.layout,
        })
    }

    /// Loads of virtual users for a time that had no data row left before it was over.
    fn cut_short(&self) -> Vec<CutShort> {
        let elapsed = self.elapsed();
        let of = |(number, workflow): (usize, &plan::Workflow)| {
            let timed = matches!(
                workflow.load.executor,
                Executor::ConstantVus { .. } | Executor::RampingVus { .. }
            );
            let layout = self.program.layout.workflows.iter().find(|w| w.name == workflow.name)?;
            let blocks = self.aggregate.totals.blocks.iter();
            let mut blocks = blocks.skip(layout.stages.start).take(layout.stages.len()).flatten();
            let rowless = blocks.any(|block| block.dropped[DropCause::DataExhausted as usize] > 0);
            let of = workflow.load.executor.scheduled().filter(|_| timed && rowless)?;
            let (started, ended) = self.job.span(number, elapsed);
            let after = ended.saturating_sub(started);
            let ends = |set: &&plan::DataSet| {
                set.when_exhausted == plan::WhenExhausted::Stop
                    && set.order != plan::DataOrder::UniquePerVu
                    && set.used_by.contains(&number)
            };
            let set = self.plan.data.iter().filter(ends).min_by_key(|set| set.rows)?;
            (after < of).then(|| CutShort {
                workflow: workflow.name.clone(),
                after,
                of,
                set: set.name.clone(),
                rows: set.rows,
            })
        };
        self.plan.workflows.iter().enumerate().filter_map(of).collect()
    }

    fn workflow_snapshot(&self, workflow: usize) -> WorkflowSnapshot {
        let load = &self.plan.workflows[workflow].load;
        let state = self.job.state(workflow);
        let t = self.schedule_time(workflow);
        let (iterations, dropped) = self.aggregate.iterations_of(workflow);
        let by_time = t.as_secs_f64() / schedule::latest_end(load).as_secs_f64().max(1e-9);
        let by_count = match (schedule::duration(load), schedule::expected_iterations(load)) {
            (None, Some(expected)) => iterations as f64 / expected.max(1) as f64,
            _ => by_time,
        };
        let progress = match state {
            WorkflowState::Waiting | WorkflowState::Skipped => 0.0,
            WorkflowState::Completed => 1.0,
            _ => by_count.clamp(0.0, 1.0),
        };
        let stages = schedule::stage_names(load);
        let stage = stages.get(schedule::stage_at(load, t)).cloned().unwrap_or_default();
        WorkflowSnapshot {
            name: self.job.name(workflow).to_owned(),
            state,
            progress,
            load: schedule::describe(load),
            stage,
            vus: self.aggregate.vus_of(workflow),
            iterations,
            dropped,
        }
    }
}

/// Layers one after another, each as long as its longest workflow; a guess where iterations are
/// counted.
pub(super) fn planned(plan: &plan::Plan) -> Option<Duration> {
    let mut total = Duration::ZERO;
    for layer in plan::layers(plan) {
        let lengths = layer.iter().map(|&workflow| {
            let load = &plan.workflows[workflow].load;
            Some(load.start_after + schedule::duration(load)?)
        });
        total += lengths.collect::<Option<Vec<_>>>()?.into_iter().max().unwrap_or_default();
    }
    Some(total)
}
