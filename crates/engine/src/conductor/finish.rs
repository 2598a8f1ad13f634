//! The end of a run: the last counts, and everything that is known put together.

use base::clock;
use std::time::Duration;

use stats::{
    GeneratorStats, Issued, Outcome, Progress, RunResult, RunState, Snapshot, WorkflowResult,
    WorkflowStatus,
};

use super::{Conductor, Input};
use crate::core::Command;
use crate::machine;

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
        let generator = self.generator();
        let workflows =
            (0..self.plan.workflows.len()).map(|w| self.workflow_result(w, elapsed)).collect();
        let error_samples = self.aggregate.error_samples();
        let issued = Issued::Exact(self.aggregate.totals.sent());
        let script = self.script_result(elapsed);
        let thresholds = match &script {
            Some(script) => stats::threshold_results(&script.layout, &script.thresholds),
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
            issued,
            last_words: stats::LastWords::default(),
            workflows,
            thresholds,
            error_samples,
            timeline: self.timeline,
            generator,
            history: self.aggregate.history,
            totals: self.aggregate.totals,
            notes: self.notes,
            script,
            fail_on: stats::VerdictState::Invalid,
        }
    }

    fn generator(&self) -> GeneratorStats {
        let (cpu_user, cpu_system) = self.aggregate.cpu_sum();
        GeneratorStats {
            cores: self.cores.len(),
            cpu_user,
            cpu_system,
            memory_max_bytes: machine::memory_max_bytes(),
            descriptors_max: self.descriptors_max.max(machine::open_descriptors()),
            descriptors_limit: self.descriptors_limit,
            loop_lag_p99_ms: self.aggregate.loop_lag.percentile_ms(99.0),
            loop_lag_max_ms: self.aggregate.loop_lag.max_ms(),
            busiest_core: self.aggregate.busiest_core,
        }
    }

    /// Shows the run in full to whoever wants to see it. Nobody: it costs nothing.
    pub(super) fn show_progress(&mut self) {
        let Some(sink) = self.progress.clone().filter(|sink| sink.is_wanted()) else { return };
        let result = self.result_so_far();
        let planned = super::snapshot::planned(&self.plan);
        sink.take(Progress { state: self.state, planned, result });
    }

    /// What the result would be if the run ended now.
    fn result_so_far(&mut self) -> RunResult {
        let elapsed = self.elapsed();
        let workflows = 0..self.plan.workflows.len();
        let script = self.script_progress();
        let thresholds = match &script {
            Some(script) => stats::threshold_results(&script.layout, &script.thresholds),
            None => self.evaluator.evaluate(elapsed),
        };
        RunResult {
            plan: self.plan.name.clone(),
            started_unix_ms: self.started_unix_ms,
            elapsed,
            outcome: self.job.outcome().unwrap_or(Outcome::Completed),
            verdict: self.verdict(false),
            stop: self.job.stop_reason(),
            layout: self.program.layout.clone(),
            issued: Issued::Exact(self.aggregate.totals.sent()),
            last_words: stats::LastWords::default(),
            workflows: workflows.map(|w| self.workflow_result(w, elapsed)).collect(),
            thresholds,
            error_samples: self.aggregate.error_samples(),
            timeline: self.timeline.clone(),
            generator: self.generator(),
            history: self.aggregate.history.clone(),
            totals: self.aggregate.totals.clone(),
            notes: self.notes.clone(),
            script,
            fail_on: stats::VerdictState::Invalid,
        }
    }

    /// Nothing runs any more; what was counted since the last tick is still with the cores.
    fn collect_last_counts(&mut self) {
        let until = clock::now().after(LAST_COUNTS_WAIT);
        // A tick that is still open is waited for first, so that the last swap is the last.
        for last in [false, true] {
            if last {
                self.ask_for_counts(clock::now());
            }
            while let Some((asked, left)) = self.tick {
                let left_ns = until.nanos_since(clock::now());
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
        let dropped = self.aggregate.samples_dropped;
        self.notes.extend(self.aggregate.notes(dropped, self.unrecordable));
        if self.cookies_lost > 0 {
            self.notes.push(format!(
                "`vu_setup` got cookies for {} virtual users, and they were forgotten before the first iteration: \
                 cookies last one iteration; if they are a session, write `defaults: {{ cookies: keep }}`",
                self.cookies_lost
            ));
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
