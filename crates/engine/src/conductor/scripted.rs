//! What a script's run needs beyond a plan's: virtual users made beforehand, k6's thresholds, a
//! script's wish to end it all.

use std::sync::Arc;
use std::time::Duration;

use schedule::job::Event;
use script::log::{Level, Line};
use stats::series::{SeriesWindow, ThresholdOutcome, Thresholds, builtin};
use stats::{RunState, ScriptFailure, ScriptResult, StopReason};

use super::{Conductor, Input};
use crate::core::{Command, Hook};
use crate::options::Control;
use crate::program::CompileError;
use crate::script::{
    HookError, INIT_FAILED, Instance, SETUP_DATA, ScriptEnd, ScriptRun, abort_failure,
};
use crate::shard::Stop;
use crate::vars::Base;

pub(super) struct ScriptState {
    pub instance: Arc<Instance>,
    run: Arc<ScriptRun>,
    thresholds: Thresholds,
    failure: Option<ScriptFailure>,
    setup_failed: bool,
    marked_failed: Option<String>,
    /// Shards whose virtual users are still being made.
    making: usize,
    making_error: Option<String>,
}

impl ScriptState {
    pub fn new(run: &Arc<ScriptRun>, cores: usize) -> ScriptState {
        ScriptState {
            instance: Arc::new(Instance::new(cores)),
            thresholds: Thresholds::new(&run.layout),
            run: run.clone(),
            failure: None,
            setup_failed: false,
            marked_failed: None,
            making: 0,
            making_error: None,
        }
    }
}

impl Conductor {
    /// Makes all virtual users that the scenarios begin with, and waits for them. An interrupt
    /// leaves at once.
    pub(super) fn make_users(&mut self) -> Result<(), CompileError> {
        let Some(script) = &mut self.script else { return Ok(()) };
        for (workflow, cores) in self.job.seats() {
            let shards = cores.len();
            let wanted = u64::from(script.run.scenarios[workflow].vus_before);
            for (shard, &core) in cores.iter().enumerate() {
                let count = schedule::share(wanted, shard, shards);
                let entry = Box::default();
                let order = Command::MakeUsers { workflow, shard, shards, count, entry };
                self.cores[core].send(order);
                script.making += 1;
            }
        }
        while self.script.as_ref().is_some_and(|script| script.making > 0) && !self.job.is_done() {
            match self.inbox.recv() {
                Ok(Input::Report(report)) => self.take_report(report),
                Ok(Input::Request(request)) => {
                    let ends = matches!(request.control, Control::Interrupt | Control::Stop);
                    self.take_request(request);
                    if ends {
                        self.broadcast(|| Command::Stop { how: Stop::Now });
                    }
                }
                Err(_) => break,
            }
        }
        let error = self.script.as_mut().and_then(|script| script.making_error.take());
        error.map_or(Ok(()), |error| match error.starts_with(INIT_FAILED) {
            // What was thrown is in the log of this machine already.
            true => Err(CompileError(INIT_FAILED.to_owned())),
            false => Err(CompileError(error)),
        })
    }

    /// The limit of a scenario that is controlled from outside.
    pub(super) fn most_vus(&self, workflow: usize) -> Option<u32> {
        let scenario = self.script.as_ref()?.run.scenarios.get(workflow)?;
        (scenario.executor == "externally-controlled").then_some(scenario.vus_max)
    }

    pub(super) fn users_made(&mut self, result: Result<(), String>) {
        if let Some(script) = &mut self.script {
            script.making -= 1;
            if let Err(error) = result {
                script.making_error.get_or_insert(error);
            }
        }
    }

    /// A script asked for something that concerns everybody.
    pub(super) fn grant(&mut self, wish: ScriptEnd) {
        let Some(script) = &mut self.script else { return };
        match wish {
            ScriptEnd::MarkFailed(reason) => {
                let line = format!("test marked as failed: {reason}");
                (script.run.logger)(Line::new(Level::Error, line));
                script.marked_failed.get_or_insert(reason);
            }
            ScriptEnd::Abort(reason) => {
                if script.failure.is_none() {
                    (script.run.logger)(Line::new(Level::Error, reason.as_str()));
                }
                script.failure.get_or_insert(abort_failure(&reason));
                self.note_event(reason.as_str());
                self.step(Event::StopRequested { reason: StopReason::Aborted(reason) });
                self.broadcast(|| Command::Stop { how: Stop::Now });
            }
        }
    }

    pub(super) fn note_script_failure(&mut self, what: Hook, result: &Result<Base, HookError>) {
        if let (Some(script), Err(error)) = (&mut self.script, result)
            && let Some(failure) = error.failure
        {
            script.setup_failed |= what == Hook::Setup;
            script.failure.get_or_insert(failure);
        }
    }

    pub(super) fn script_setup_failed(&self) -> bool {
        self.script.as_ref().is_some_and(|script| script.setup_failed)
    }

    /// Once a second: users as metrics, thresholds, and whether one of them ends the run.
    pub(super) fn watch_series(&mut self, elapsed: Duration) {
        let vus = self.aggregate.vus_total();
        let (Some(script), Some(totals)) = (&mut self.script, &mut self.aggregate.series) else {
            return;
        };
        let layout = &script.run.layout;
        if self.state == RunState::Running && !self.job.is_done() {
            let now = elapsed.as_nanos() as u64;
            totals.record(layout, builtin::VUS, vus as f64, now, &());
            let all = script.instance.vus_initialized() as f64;
            totals.record(layout, builtin::VUS_MAX, all, now, &());
        }
        script.thresholds.evaluate(layout, totals, elapsed);
        let values = script.thresholds.outcomes().iter().map(|outcome| outcome.value);
        self.aggregate.history.note_thresholds(values);
        if self.state != RunState::Running {
            return;
        }
        let Some(broken) = script.thresholds.broken_abort(elapsed) else { return };
        let event = format!("threshold broken: {} {}", broken.key, broken.text);
        let number = script.thresholds.outcomes().iter().position(|one| std::ptr::eq(one, broken));
        let reason = StopReason::Threshold(number.unwrap_or(0));
        let line = format!(
            "the threshold `{}` on `{}` was crossed and has abortOnFail: the test ends here",
            broken.text, broken.key
        );
        (script.run.logger)(Line::new(Level::Error, line));
        self.note_event(event);
        self.step(Event::StopRequested { reason });
        self.broadcast(|| Command::Stop { how: Stop::Now });
    }

    pub(super) fn script_result(&mut self, elapsed: Duration) -> Option<Box<ScriptResult>> {
        let totals = *self.aggregate.series.take()?;
        let script = self.script.as_mut()?;
        let thresholds = std::mem::take(&mut script.thresholds);
        let outcomes = thresholds.finish(&script.run.layout, &totals, elapsed);
        self.script_result_of(totals, outcomes)
    }

    /// The same while the run goes on.
    pub(super) fn script_progress(&self) -> Option<Box<ScriptResult>> {
        let totals = (**self.aggregate.series.as_ref()?).clone();
        let outcomes = self.script.as_ref()?.thresholds.outcomes().to_vec();
        self.script_result_of(totals, outcomes)
    }

    fn script_result_of(
        &self,
        totals: SeriesWindow,
        thresholds: Vec<ThresholdOutcome>,
    ) -> Option<Box<ScriptResult>> {
        let script = self.script.as_ref()?;
        Some(Box::new(ScriptResult {
            thresholds,
            layout: script.run.layout.clone(),
            totals,
            setup_data: (self.shared.get(SETUP_DATA))
                .map(|json| String::from_utf8_lossy(json).into_owned()),
            strict: script.run.strict,
            failure: script.failure,
            marked_failed: script.marked_failed.clone(),
        }))
    }
}
