//! One job on its owner: what starts when, what is skipped, and how it all came out.
//!
//! `step(event, now)` is the whole interface (R8). The owner feeds in what happened and carries out
//! the effects in order; nothing here waits, sends or measures.
//!
//! ```text
//!          Started        SetupEnded(Ok)             the last one ended       TeardownEnded
//!   New ──────────▶ Setup ──────────────▶ Running ───────────────────▶ Teardown ──────────▶ Done
//!    │                │ Err, or stopped     │ StopRequested, DeadlineReached ▲
//!    │ stopped        ╰─────────────────────┼────────────────────────────────┤ all that ran ended
//!    ╰──────────▶ Done                      ╰──────────▶ Stopping ───────────╯
//! ```
//!
//! - **Layers** are barriers (EXEC-81): nothing of a layer starts before everything of the layer
//!   above has ended, so context is complete at each border. **Waves** divide a layer where
//!   something must run alone (see [`crate::allocation`]).
//! - **An error is final** (R5): what depends on a failed workflow, however far away, is skipped
//!   with its name as the reason; everything else goes on.
//! - **The first reason to stop wins**, but for a cancel: until the job is done it makes the
//!   outcome CANCELLED, also after another stop and while teardown runs (R5). Otherwise the outcome
//!   is computed once, when the load is over. A threshold that stops the run is the plan's own word
//!   on when to end: the workflows that it cut short do not count against the outcome.
//! - **Teardown runs once** if the job was begun, whatever came of it.
//!
//! Not here: retries of lost shards, leases and epochs. They concern shards; this is about
//! workflows.

use std::time::Duration;

use stats::{Outcome, StopReason, WorkflowStatus};

mod message;
mod shape;
mod view;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod scenarios;

pub use message::{Effect, Event, IllegalMove, WorkflowEnd};
pub use shape::{BadShape, Shape};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    Setup,
    /// The wave that runs.
    Running {
        layer: usize,
        wave: usize,
    },
    /// Nothing new starts; waits for what runs.
    Stopping,
    Teardown,
    Done,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Progress {
    Waiting,
    /// Told to start, not ready yet.
    Starting {
        since: Duration,
    },
    Running {
        since: Duration,
    },
    Ended {
        status: WorkflowStatus,
        started: Duration,
        ended: Duration,
    },
}

#[derive(Debug, Clone)]
pub struct Job {
    shape: Shape,
    phase: Phase,
    progress: Vec<Progress>,
    /// The first reason to stop early.
    stop: Option<StopReason>,
    setup_error: Option<String>,
    teardown_error: Option<String>,
    outcome: Option<Outcome>,
}

impl Job {
    pub fn new(shape: Shape) -> Result<Job, BadShape> {
        shape.check()?;
        let progress = vec![Progress::Waiting; shape.names.len()];
        Ok(Job {
            shape,
            phase: Phase::New,
            progress,
            stop: None,
            setup_error: None,
            teardown_error: None,
            outcome: None,
        })
    }

    /// Every legal move is a line of this table.
    pub fn step(&mut self, event: Event, now: Duration) -> Result<Vec<Effect>, IllegalMove> {
        use Event::*;
        let mut effects = Vec::new();
        match (self.phase, event) {
            (Phase::New, Started) => self.begin(now, &mut effects),
            (Phase::New, StopRequested { reason }) => self.never_begin(reason, &mut effects),
            (Phase::New, DeadlineReached) => {
                self.never_begin(StopReason::Timeout, &mut effects);
            }

            (Phase::Setup, SetupEnded(result)) => self.setup_ended(result, now, &mut effects),
            (Phase::Running { .. } | Phase::Stopping, WorkflowReady { workflow })
                if self.is_starting(workflow) =>
            {
                self.ready(workflow);
            }
            (Phase::Running { .. } | Phase::Stopping, WorkflowEnded { workflow, result })
                if self.is_active(workflow) =>
            {
                self.ended(workflow, result, now, &mut effects);
            }
            (Phase::Teardown, TeardownEnded(result)) => {
                self.teardown_error = result.err();
                self.finish(&mut effects);
            }

            (Phase::Setup | Phase::Running { .. }, StopRequested { reason }) => {
                self.stop_early(reason, &mut effects);
            }
            (
                Phase::Stopping | Phase::Teardown,
                StopRequested { reason: StopReason::Cancelled },
            ) => self.cancel(),
            (Phase::Setup | Phase::Running { .. }, DeadlineReached) => {
                self.stop_early(StopReason::Timeout, &mut effects);
            }
            // Too late to change anything, and no fault of the sender's.
            (
                Phase::Stopping | Phase::Teardown | Phase::Done,
                StopRequested { .. } | DeadlineReached,
            ) => {}

            (_, event) => {
                return Err(IllegalMove { from: self.phase_name(), event });
            }
        }
        Ok(effects)
    }

    fn begin(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        if self.shape.setup {
            self.phase = Phase::Setup;
            effects.push(Effect::RunSetup);
        } else {
            self.start_from(0, 0, now, effects);
        }
    }

    /// Stopped before anything was done: there is nothing to tear down.
    fn never_begin(&mut self, reason: StopReason, effects: &mut Vec<Effect>) {
        self.stop = Some(reason);
        self.end_waiting(&WorkflowStatus::Stopped);
        self.outcome = Some(self.judge());
        self.finish(effects);
    }

    fn setup_ended(
        &mut self,
        result: Result<(), String>,
        now: Duration,
        effects: &mut Vec<Effect>,
    ) {
        // A setup that was told to stop has not failed.
        if self.stop.is_some() {
            return self.wind_down(effects);
        }
        match result {
            Ok(()) => self.start_from(0, 0, now, effects),
            Err(error) => {
                self.setup_error = Some(error);
                let skipped = WorkflowStatus::Skipped { because_of: "setup".to_string() };
                self.end_waiting(&skipped);
                self.wind_down(effects);
            }
        }
    }

    /// Whoever cancels is promised CANCELLED, whatever had ended the job by then.
    fn cancel(&mut self) {
        self.stop = Some(StopReason::Cancelled);
        self.outcome = self.outcome.map(|_| Outcome::Cancelled);
    }

    fn stop_early(&mut self, reason: StopReason, effects: &mut Vec<Effect>) {
        if self.stop.is_some() {
            if reason == StopReason::Cancelled {
                self.cancel();
            }
            return;
        }
        self.stop = Some(reason);
        effects.push(Effect::StopAll);
        // A setup reports its own end; a running wave always has somebody to wait for.
        if self.phase != Phase::Setup {
            self.phase = Phase::Stopping;
        }
    }

    fn ready(&mut self, workflow: usize) {
        if let Progress::Starting { since } = self.progress[workflow] {
            self.progress[workflow] = Progress::Running { since };
        }
    }

    fn ended(
        &mut self,
        workflow: usize,
        result: WorkflowEnd,
        now: Duration,
        effects: &mut Vec<Effect>,
    ) {
        let (started, _) = self.span(workflow, now);
        let status = match result {
            WorkflowEnd::Ok => WorkflowStatus::Completed,
            WorkflowEnd::Error(error) => WorkflowStatus::Failed { error },
            WorkflowEnd::Stopped => WorkflowStatus::Stopped,
        };
        // Only what completed satisfies a dependency: a stopped workflow has handed over nothing.
        let satisfied = status == WorkflowStatus::Completed;
        self.progress[workflow] = Progress::Ended { status, started, ended: now };
        if let (false, None) = (satisfied, &self.stop) {
            self.skip_dependents(workflow, effects);
        }
        if (0..self.progress.len()).any(|other| self.is_active(other)) {
            return;
        }
        match self.phase {
            Phase::Running { layer, wave } => self.start_from(layer, wave + 1, now, effects),
            _ => self.wind_down(effects),
        }
    }

    /// Marks everything that depends on `failed`, directly or through others. Layers make one pass
    /// enough.
    fn skip_dependents(&mut self, failed: usize, effects: &mut Vec<Effect>) {
        let mut barred = vec![false; self.progress.len()];
        barred[failed] = true;
        for workflow in self.shape.in_order() {
            let depends = self.shape.depends_on[workflow].iter().any(|&other| barred[other]);
            if !depends {
                continue;
            }
            barred[workflow] = true;
            if self.progress[workflow] == Progress::Waiting {
                let because_of = self.shape.names[failed].clone();
                let status = WorkflowStatus::Skipped { because_of: because_of.clone() };
                self.end(workflow, status);
                effects.push(Effect::SkipWorkflow { workflow, because_of });
            }
        }
    }

    /// Starts the first wave from here on that has anything left to run, or winds the job down.
    fn start_from(
        &mut self,
        mut layer: usize,
        mut wave: usize,
        now: Duration,
        effects: &mut Vec<Effect>,
    ) {
        while layer < self.shape.layers.len() {
            let Some(members) = self.shape.layers[layer].get(wave) else {
                (layer, wave) = (layer + 1, 0);
                continue;
            };
            let mut started = false;
            for (workflow, cores) in members {
                if self.progress[*workflow] == Progress::Waiting {
                    started = true;
                    self.progress[*workflow] = Progress::Starting { since: now };
                    let (workflow, cores) = (*workflow, cores.clone());
                    effects.push(Effect::StartWorkflow { workflow, cores });
                }
            }
            if started {
                self.phase = Phase::Running { layer, wave };
                return;
            }
            wave += 1;
        }
        self.wind_down(effects);
    }

    /// The load is over: the outcome stands, and what was set up is taken down.
    fn wind_down(&mut self, effects: &mut Vec<Effect>) {
        self.end_waiting(&WorkflowStatus::Stopped);
        self.outcome = Some(self.judge());
        if self.shape.teardown {
            self.phase = Phase::Teardown;
            effects.push(Effect::RunTeardown);
        } else {
            self.finish(effects);
        }
    }

    fn finish(&mut self, effects: &mut Vec<Effect>) {
        self.phase = Phase::Done;
        let outcome = self.outcome.expect("decided when the load was over");
        effects.push(Effect::Finish { outcome });
    }

    fn judge(&self) -> Outcome {
        assert!(self.outcome.is_none(), "an outcome is decided once");
        match self.stop {
            Some(StopReason::Timeout) => return Outcome::Timeout,
            Some(StopReason::Interrupted | StopReason::Cancelled) => return Outcome::Cancelled,
            _ if self.setup_error.is_some() => return Outcome::Failed,
            _ => {}
        }
        let by_plan = matches!(self.stop, Some(StopReason::Threshold(_)));
        let as_planned = |workflow: &usize| match self.status(*workflow) {
            Some(WorkflowStatus::Completed) => true,
            Some(WorkflowStatus::Stopped) => by_plan,
            _ => false,
        };
        let good = (0..self.progress.len()).filter(as_planned).count();
        match good {
            all if all == self.progress.len() => Outcome::Completed,
            0 => Outcome::Failed,
            _ => Outcome::Partial,
        }
    }

    fn end_waiting(&mut self, status: &WorkflowStatus) {
        for workflow in 0..self.progress.len() {
            if self.progress[workflow] == Progress::Waiting {
                self.end(workflow, status.clone());
            }
        }
    }

    /// Ends a workflow that never began.
    fn end(&mut self, workflow: usize, status: WorkflowStatus) {
        let (started, ended) = (Duration::ZERO, Duration::ZERO);
        self.progress[workflow] = Progress::Ended { status, started, ended };
    }

    fn is_starting(&self, workflow: usize) -> bool {
        matches!(self.progress.get(workflow), Some(Progress::Starting { .. }))
    }

    fn is_active(&self, workflow: usize) -> bool {
        let progress = self.progress.get(workflow);
        matches!(progress, Some(Progress::Starting { .. } | Progress::Running { .. }))
    }

    fn phase_name(&self) -> &'static str {
        match self.phase {
            Phase::New => "new",
            Phase::Setup => "in setup",
            Phase::Running { .. } => "running",
            Phase::Stopping => "stopping",
            Phase::Teardown => "in teardown",
            Phase::Done => "done",
        }
    }
}
