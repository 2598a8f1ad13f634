//! The end of a wave, a batch, a layer; and what a layer leaves to the next, which is committed
//! before that begins (EXEC-175, EXEC-182).

use super::blobs::Store;
use super::commits::Purpose;
use super::context::{self, Values};
use super::shard::State;
use super::spec::hook_workflow;
use super::stages::{Kind, Stage};
use super::{Owner, Sid};
use ledger_state::{Command, Payload, Reply};
use schedule::job::{self, WorkflowEnd};

impl Owner {
    pub(super) fn wave_over(&mut self) {
        let Some(wave) = self.stages.take_wave() else { return };
        self.outgoing.changed();
        let states = |sid: &Sid| self.shards.get(sid).map(|s| (s.state(), s.error.clone()));
        match wave.kind {
            Kind::Setup => {
                let result = wave.members.first().and_then(states).map_or(Ok(()), hook_result);
                self.step_workflows(job::Event::SetupEnded(result));
            }
            Kind::Teardown => {
                let result = wave.members.first().and_then(states).map_or(Ok(()), hook_result);
                self.step_workflows(job::Event::TeardownEnded(result));
            }
            Kind::Setups => {
                for sid in wave.members {
                    let workflow = hook_workflow(sid.1).unwrap_or_default();
                    let state = self.shards.get(&sid).map(|s| (s.state(), s.error.clone()));
                    self.stages.has_set_up(workflow);
                    if let Some(Err(error)) = state.map(hook_result)
                        && !self.is_stopping()
                    {
                        self.stages.leave_batch(workflow);
                        let result = WorkflowEnd::Error(format!("setup failed: {error}"));
                        self.step_workflows(job::Event::WorkflowEnded { workflow, result });
                    }
                }
                if self.is_stopping() {
                    let batch = self.stages.take_batch();
                    for workflow in batch.into_iter().flat_map(|batch| batch.workflows) {
                        let result = WorkflowEnd::Stopped;
                        self.step_workflows(job::Event::WorkflowEnded { workflow, result });
                    }
                } else if self.stages.batch().is_some_and(|batch| batch.workflows.is_empty()) {
                    self.stages.take_batch();
                } else {
                    self.set_stage(Stage::Load);
                }
            }
            Kind::Load => self.set_stage(Stage::Teardowns),
            Kind::Teardowns => {
                for sid in wave.members {
                    let state = self.shards.get(&sid).map(|s| (s.state(), s.error.clone()));
                    if let Some(Err(error)) = state.map(hook_result) {
                        let name = self
                            .workflows
                            .name(hook_workflow(sid.1).unwrap_or_default())
                            .to_owned();
                        self.note(format!("teardown of {name}: {error}"), None);
                    }
                }
                self.end_batch();
            }
        }
    }

    /// All of a batch is over: its workflows have ended, and what completed hands on what it
    /// provides.
    pub(super) fn end_batch(&mut self) {
        let Some(batch) = self.stages.take_batch() else { return };
        // Values first: the end of the last workflow may start the next layer in the same step.
        let ends: Vec<(usize, WorkflowEnd)> =
            batch.workflows.iter().map(|w| (*w, self.workflow_end(*w))).collect();
        for (workflow, end) in &ends {
            let part = &self.spec.manifest().workflows[*workflow];
            let (stage, completed) = (self.spec.stage_of(part.layer), *end == WorkflowEnd::Ok);
            self.context.end(*workflow, part, stage, completed);
            let name = self.workflows.name(*workflow).to_owned();
            match end {
                WorkflowEnd::Ok => self.note(format!("{name} completed"), None),
                WorkflowEnd::Error(error) => self.note(format!("{name} failed: {error}"), None),
                WorkflowEnd::Stopped => self.note(format!("{name} stopped"), None),
            }
        }
        for (workflow, result) in ends {
            self.step_workflows(job::Event::WorkflowEnded { workflow, result });
        }
        self.outgoing.changed();
    }

    /// A workflow's end, from those of its shards. If some have failed, the lowest one gives the
    /// reason.
    pub(super) fn workflow_end(&self, workflow: usize) -> WorkflowEnd {
        let mut completed = 0;
        let mut stopped = false;
        for shard in self.shards.of(workflow) {
            match shard.state() {
                State::FailedTerminal if !shard.abandoned => {
                    let error = shard.error.clone();
                    return WorkflowEnd::Error(error.unwrap_or_else(|| "failed".to_owned()));
                }
                State::Completed => completed += 1,
                State::Cancelled => stopped = true,
                _ => {}
            }
        }
        match (stopped, completed) {
            (true, _) => WorkflowEnd::Stopped,
            (false, 0) => WorkflowEnd::Error("all its shards were lost".to_owned()),
            (false, _) => WorkflowEnd::Ok,
        }
    }

    // ── context: committed before the next layer (EXEC-175, EXEC-182) ──────────────────────────

    /// Whether everything before what waits is committed; commits the next stage if not.
    pub(super) fn contexts_are_committed(&mut self) -> bool {
        let layers = self.stages.waiting().iter().map(|w| self.spec.manifest().workflows[*w].layer);
        let needed = layers.min().map_or(0, |layer| self.spec.stage_of(layer));
        if self.context.committed() >= needed {
            return true;
        }
        if !self.lifecycle.is_stop_proposed()
            && let Some(values) = self.context.begin_commit()
        {
            let content = context::encode_values(&values);
            if content.len() > self.spec.settings().inline_bytes {
                self.outgoing.store(Store::Context(values), content);
            } else {
                self.commit_context(values, Payload::Inline(content));
            }
        }
        false
    }

    pub(super) fn commit_context(&mut self, values: Values, context: Payload) {
        let (job, epoch, layer) = (self.spec.id(), self.spec.epoch(), self.context.committed());
        self.outgoing.commit(
            Purpose::Context(values),
            Command::CommitContext { job, epoch, layer, context },
        );
    }

    pub(super) fn context_committed(&mut self, values: Values, reply: &Reply) {
        if let Reply::Refused(refusal) = reply {
            self.context.end_commit(None);
            return self.fail(format!("what a layer leaves could not be committed: {refusal}"));
        }
        self.context.end_commit(Some(values));
    }
}

fn hook_result((state, error): (State, Option<String>)) -> Result<(), String> {
    match state {
        State::FailedTerminal => Err(error.unwrap_or_else(|| "it failed".to_owned())),
        _ => Ok(()),
    }
}
