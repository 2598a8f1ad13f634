//! One workflow after another: its setup, its load on all its cores, its teardown, what it hands
//! on.

use base::clock;
use schedule::job::{Event, WorkflowEnd};
use stats::RunState;

use super::{Conductor, START_AHEAD};
use crate::attempt;
use crate::core::{Command, Hook};
use crate::script::HookError;
use crate::shard::ShardEnd;
use crate::vars::Base;

impl Conductor {
    pub(super) fn run_frame(&mut self, what: Hook) {
        let workflow = self.program.workflows.len();
        if let Some(error) = &self.prepared.workflows[workflow].error {
            let error = error.clone();
            self.aside_ended(workflow, what, Err(HookError::steps(error)));
            return;
        }
        if what == Hook::Teardown && self.script_setup_failed() {
            // As in k6: what was not set up is not torn down.
            self.step(Event::TeardownEnded(Ok(())));
            return;
        }
        let base = self.base(workflow);
        self.cores[0].send(Command::RunAside { workflow, what, base, entry: Box::default() });
    }

    pub(super) fn start_workflow(&mut self, workflow: usize, cores: Vec<usize>) {
        if let Some(error) = self.prepared.workflows[workflow].error.clone() {
            self.end_workflow(workflow, WorkflowEnd::Error(error));
            return;
        }
        let base = self.base(workflow);
        let first = cores[0];
        self.workflows[workflow].cores = cores;
        if self.program.workflow(workflow).setup.is_empty() {
            self.start_load(workflow, &base);
        } else {
            let (what, entry) = (Hook::Setup, Box::default());
            self.cores[first].send(Command::RunAside { workflow, what, base, entry });
        }
    }

    pub(super) fn start_load(&mut self, workflow: usize, base: &Base) {
        let name = self.job.name(workflow).to_owned();
        let load = &self.plan.workflows[workflow].load;
        let start = clock::now().after(START_AHEAD).after(load.start_after);
        let text = format!("{name} started: {}", schedule::describe(load));
        let paused_ns = self.paused_ns;
        let running = &mut self.workflows[workflow];
        running.base = Some(base.clone());
        running.start = Some(start);
        running.paused_before = paused_ns;
        running.shards_left = running.cores.len();
        let shards = running.cores.len();
        for (shard, &core) in running.cores.iter().enumerate() {
            let (base, elapsed) = (base.clone(), None);
            let command = Command::StartShard { workflow, shard, shards, start, base, elapsed };
            self.cores[core].send(command);
        }
        self.note_event(text);
        self.step(Event::WorkflowReady { workflow });
    }

    /// Values under a workflow's variables: from the plan's setup, and handed over by earlier
    /// workflows.
    pub(super) fn base(&self, workflow: usize) -> Base {
        attempt::base(&self.plan, &self.program, workflow, &self.shared, &self.provided)
    }

    pub(super) fn aside_ended(
        &mut self,
        workflow: usize,
        what: Hook,
        result: Result<Base, HookError>,
    ) {
        self.note_script_failure(what, &result);
        let result = result.map_err(|error| error.message);
        let is_frame = workflow == self.program.workflows.len();
        match (is_frame, what, result) {
            (true, Hook::Setup, result) => {
                if let Ok(base) = &result {
                    self.shared.extend(attempt::by_name(&self.program.frame.slots, base));
                }
                self.step(Event::SetupEnded(result.map(drop)));
            }
            (true, Hook::Teardown, result) => self.step(Event::TeardownEnded(result.map(drop))),
            (false, Hook::Setup, _) if self.state == RunState::Stopping => {
                self.end_workflow(workflow, WorkflowEnd::Stopped);
            }
            (false, Hook::Setup, Ok(base)) => self.start_load(workflow, &base),
            (false, Hook::Setup, Err(error)) => {
                self.end_workflow(workflow, WorkflowEnd::Error(format!("setup failed: {error}")));
            }
            (false, Hook::Teardown, result) => {
                if let Err(error) = result {
                    let name = self.job.name(workflow).to_owned();
                    self.notes.push(format!("teardown of {name}: {error}"));
                }
                let end = self.load_end(workflow);
                self.end_workflow(workflow, end);
            }
        }
    }

    pub(super) fn shard_ended(&mut self, workflow: usize, shard: usize, end: ShardEnd) {
        self.unrecordable += end.unrecordable;
        self.cookies_lost += end.cookies_lost;
        let running = &mut self.workflows[workflow];
        running.vus_max += end.vus_max;
        running.ends.push((shard, end));
        running.shards_left = running.shards_left.saturating_sub(1);
        if running.shards_left > 0 {
            return;
        }
        running.ends.sort_by_key(|(shard, _)| *shard);
        self.collect_provided(workflow);
        let program = self.program.workflow(workflow);
        if program.teardown.is_empty() {
            let end = self.load_end(workflow);
            self.end_workflow(workflow, end);
        } else {
            let running = &self.workflows[workflow];
            let base = running.base.clone().unwrap_or_else(|| self.base(workflow));
            let (what, entry) = (Hook::Teardown, Box::default());
            self.cores[running.cores[0]].send(Command::RunAside { workflow, what, base, entry });
        }
    }

    pub(super) fn load_end(&self, workflow: usize) -> WorkflowEnd {
        attempt::load_end(self.workflows[workflow].ends.iter().map(|(_, end)| end))
    }

    pub(super) fn collect_provided(&mut self, workflow: usize) {
        let workflow_plan = &self.plan.workflows[workflow];
        let ends = self.workflows[workflow].ends.iter().map(|(_, end)| end);
        for (key, value) in attempt::collect_provided(&workflow_plan.provide, ends) {
            self.provided.insert((workflow_plan.name.clone(), key), value);
        }
    }

    pub(super) fn end_workflow(&mut self, workflow: usize, result: WorkflowEnd) {
        let name = self.job.name(workflow).to_owned();
        self.note_event(match &result {
            WorkflowEnd::Ok => format!("{name} completed"),
            WorkflowEnd::Error(error) => format!("{name} failed: {error}"),
            WorkflowEnd::Stopped => format!("{name} stopped"),
        });
        self.step(Event::WorkflowEnded { workflow, result });
    }
}
