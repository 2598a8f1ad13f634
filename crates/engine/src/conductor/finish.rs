//! The end of a run: the last counts, and everything that is known put together.

use std::time::Duration;

use stats::{
    GeneratorStats, Outcome, RunResult, RunState, Snapshot, WorkflowResult, WorkflowStatus,
};

use super::{Conductor, Input};
use crate::core::Command;
use crate::machine;
use client::Mono;

/// A core that does not hand over its last counts by then will not.
const LAST_COUNTS_WAIT: Duration = Duration::from_secs(10);

impl Conductor {
    pub(super) fn finish(mut self, publish: &mut dyn FnMut(Snapshot)) -> RunResult {
        self.note_event("run ended");
        let elapsed = self.elapsed();
        self.collect_last_counts();
        self.state = RunState::Done;
        publish(self.snapshot());
        self.broadcast(|| Command::Quit);
        for core in &mut self.cores {
            core.join();
        }
        let verdict = self.verdict(true);
        self.add_notes();
        let (cpu_user, cpu_system) = self
            .aggregate
            .cpu_total
            .values()
            .fold((Duration::ZERO, Duration::ZERO), |(user, system), (core_user, core_system)| {
                (user + *core_user, system + *core_system)
            });
        let generator = GeneratorStats {
            cores: self.cores.len(),
            cpu_user,
            cpu_system,
            memory_max_bytes: machine::memory_max_bytes(),
            descriptors_max: self.descriptors_max.max(machine::open_descriptors()),
            descriptors_limit: self.descriptors_limit,
            loop_lag_p99_ms: self.aggregate.loop_lag.percentile_ms(99.0),
            loop_lag_max_ms: self.aggregate.loop_lag.max_ms(),
            busiest_core: self.aggregate.busiest_core,
        };
        let workflows =
            (0..self.plan.workflows.len()).map(|w| self.workflow_result(w, elapsed)).collect();
        let error_samples = self.aggregate.error_samples();
        let script = self.script_result(elapsed);
        let thresholds = match &script {
            Some(script) => super::scripted::threshold_results(script),
            None => self.evaluator.finish(elapsed),
        };
        RunResult {
            plan: self.plan.name,
            started_unix_ms: self.started_unix_ms,
            elapsed,
            outcome: self.job.outcome().unwrap_or(Outcome::Failed),
            verdict,
            stop: self.job.stop_reason(),
            layout: self.program.layout.clone(),
            workflows,
            thresholds,
            error_samples,
            timeline: self.timeline,
            generator,
            history: self.aggregate.history,
            totals: self.aggregate.totals,
            notes: self.notes,
            script,
        }
    }

    /// Nothing runs any more; what was counted since the last tick is still with the cores.
    fn collect_last_counts(&mut self) {
        let until = Mono::now().plus(LAST_COUNTS_WAIT);
        // A tick that is still open is waited for first, so that the last swap is the last.
        for last in [false, true] {
            if last {
                self.ask_for_counts(Mono::now());
            }
            while let Some((asked, left)) = self.tick {
                let left_ns = until.since(Mono::now());
                if left == 0 || left_ns == 0 {
                    self.close_tick(asked);
                    break;
                }
                match self.inbox.recv_timeout(Duration::from_nanos(left_ns)) {
                    Ok(Input::Report(report)) => self.take_report(report),
                    Ok(Input::Request(_)) => {}
                    Err(_) => {
                        self.close_tick(asked);
                        break;
                    }
                }
            }
        }
    }

    fn add_notes(&mut self) {
        let folded: u64 = (self.aggregate.totals.blocks.iter().flatten())
            .flat_map(|block| &block.steps)
            .map(|step| step.tags_folded)
            .sum();
        if folded > 0 {
            self.notes.push(format!(
                "{folded} requests had tag values beyond the limit of {} per step; they are counted \
                 under `other`",
                stats::TAG_SETS_MAX
            ));
        }
        if self.aggregate.samples_dropped > 0 {
            self.notes.push(format!(
                "{} samples did not reach the output files: writing was slower than the load",
                self.aggregate.samples_dropped
            ));
        }
        if self.unrecordable > 0 {
            let count = self.unrecordable;
            self.notes.push(format!(
                "{count} values for custom metrics were no numbers and were left out"
            ));
        }
        let steps = || self.aggregate.totals.blocks.iter().flatten().flat_map(|block| &block.steps);
        let requests: u64 = steps().map(|step| step.requests).sum();
        let failed: u64 = steps().map(|step| step.failed).sum();
        if self.aggregate.busiest_core > 0.95 && failed * 2 < requests {
            self.notes.push(
                "a generator core was fully used: the target may be able to do more; give `--cores` or \
                 more machines to find out"
                    .to_owned(),
            );
        }
        if let Some(error) = self.job.setup_error() {
            self.notes.push(format!("setup failed: {error}"));
        }
        if let Some(error) = self.job.teardown_error() {
            self.notes.push(format!("teardown failed: {error}"));
        }
    }

    fn workflow_result(&self, workflow: usize, elapsed: Duration) -> WorkflowResult {
        let (started, ended) = self.job.span(workflow, elapsed);
        WorkflowResult {
            name: self.job.name(workflow).to_owned(),
            status: self.job.status(workflow).cloned().unwrap_or(WorkflowStatus::Stopped),
            started,
            ended,
            cores: self.workflows[workflow].cores.len(),
            vus_max: self.workflows[workflow].vus_max,
        }
    }
}
