//! The end of a wave, a batch, a layer; and what a layer leaves to the next, which is committed before that begins
//! (EXEC-175, EXEC-182).

use super::context::{self, Values};
use super::shard::State;
use super::wave::{Kind, Stage};
use super::{Owner, Parcel, Purpose, Sid};
use ledger_state::{Command, Payload, Reply};
use schedule::job::{self, WorkflowEnd};

impl Owner {
    pub(super) fn wave_over(&mut self) {
        let Some(wave) = self.wave.take() else { return };
        self.changed();
        let states = |sid: &Sid| self.shards.get(sid).map(|s| (s.state, s.error.clone()));
        match wave.kind {
            Kind::Setup => {
                let result = wave.members.first().and_then(states).map_or(Ok(()), aside_result);
                self.tell(job::Event::SetupEnded(result));
            }
            Kind::Teardown => {
                let result = wave.members.first().and_then(states).map_or(Ok(()), aside_result);
                self.tell(job::Event::TeardownEnded(result));
            }
            Kind::Setups => {
                for sid in wave.members {
                    let workflow = (sid.1 as usize - 2) / 2;
                    let state = self.shards.get(&sid).map(|s| (s.state, s.error.clone()));
                    self.set_up.insert(workflow);
                    if let Some(Err(error)) = state.map(aside_result)
                        && !self.is_stopping()
                    {
                        self.leave_batch(workflow);
                        let result = WorkflowEnd::Error(format!("setup failed: {error}"));
                        self.tell(job::Event::WorkflowEnded { workflow, result });
                    }
                }
                if self.is_stopping() {
                    let batch = self.batch.take();
                    for workflow in batch.into_iter().flat_map(|batch| batch.workflows) {
                        let result = WorkflowEnd::Stopped;
                        self.tell(job::Event::WorkflowEnded { workflow, result });
                    }
                } else if self.batch.as_ref().is_some_and(|batch| batch.workflows.is_empty()) {
                    self.batch = None;
                } else {
                    self.set_stage(Stage::Load);
                }
            }
            Kind::Load => self.set_stage(Stage::Teardowns),
            Kind::Teardowns => {
                for sid in wave.members {
                    let state = self.shards.get(&sid).map(|s| (s.state, s.error.clone()));
                    if let Some(Err(error)) = state.map(aside_result) {
                        let name = self.machine.name((sid.1 as usize - 2) / 2).to_owned();
                        self.note(format!("teardown of {name}: {error}"), None);
                    }
                }
                self.end_batch();
            }
        }
    }

    fn leave_batch(&mut self, workflow: usize) {
        if let Some(batch) = &mut self.batch {
            batch.workflows.retain(|other| *other != workflow);
        }
    }

    /// All of a batch is over: its workflows have ended, and what completed hands on what it provides.
    pub(super) fn end_batch(&mut self) {
        let Some(batch) = self.batch.take() else { return };
        // Values first: the end of the last workflow may start the next layer in the same step.
        let ends: Vec<(usize, WorkflowEnd)> =
            batch.workflows.iter().map(|w| (*w, self.workflow_end(*w))).collect();
        for (workflow, end) in &ends {
            if *end == WorkflowEnd::Ok {
                self.take_provided(*workflow);
            }
            self.provided.remove(workflow);
            let name = self.machine.name(*workflow).to_owned();
            match end {
                WorkflowEnd::Ok => self.note(format!("{name} completed"), None),
                WorkflowEnd::Error(error) => self.note(format!("{name} failed: {error}"), None),
                WorkflowEnd::Stopped => self.note(format!("{name} stopped"), None),
            }
        }
        for (workflow, result) in ends {
            self.tell(job::Event::WorkflowEnded { workflow, result });
        }
        self.changed();
    }

    pub(super) fn take_provided(&mut self, workflow: usize) {
        let part = &self.manifest.workflows[workflow];
        let shards = self.provided.get(&workflow).cloned().unwrap_or_default();
        let merged = context::merge(&part.provide, &shards);
        let (stage, name) = (self.stage_of(part.layer), part.name.clone());
        if !merged.is_empty() && stage >= self.committed {
            self.fresh.entry(stage).or_default().insert(name, merged);
        }
    }

    /// a workflow's end, from those of its shards. The lowest failed shard speaks for it.
    pub(super) fn workflow_end(&self, workflow: usize) -> WorkflowEnd {
        let mut completed = 0;
        let mut stopped = false;
        for shard in self.shards_of(workflow) {
            match shard.state {
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

    /// The plan's setup is a stage of its own, then comes one for each layer.
    pub(super) fn stage_of(&self, layer: usize) -> u32 {
        u32::try_from(layer).unwrap_or(u32::MAX) + u32::from(self.manifest.setup)
    }

    /// Whether everything before what waits is committed; commits the next stage if not.
    pub(super) fn contexts_are_committed(&mut self) -> bool {
        let layers = self.waiting.iter().map(|w| self.manifest.workflows[*w].layer);
        let needed = layers.min().map_or(0, |layer| self.stage_of(layer));
        if self.committed >= needed {
            return true;
        }
        if !self.committing && !self.stop_proposed {
            self.committing = true;
            let values = self.fresh.remove(&self.committed).unwrap_or_default();
            let content = context::encode_values(&values);
            if content.len() > self.settings.inline_bytes {
                self.store(Parcel::Context(values), content);
            } else {
                self.commit_context(values, Payload::Inline(content));
            }
        }
        false
    }

    pub(super) fn commit_context(&mut self, values: Values, context: Payload) {
        let (job, epoch, layer) = (self.id, self.epoch, self.committed);
        self.commit(
            Purpose::Context(values),
            Command::CommitContext { job, epoch, layer, context },
        );
    }

    pub(super) fn context_committed(&mut self, values: Values, reply: &Reply) {
        self.committing = false;
        if let Reply::Refused(refusal) = reply {
            return self.fail(format!("what a layer leaves could not be committed: {refusal}"));
        }
        self.committed += 1;
        self.values.extend(values);
    }
}

fn aside_result((state, error): (State, Option<String>)) -> Result<(), String> {
    match state {
        State::FailedTerminal => Err(error.unwrap_or_else(|| "it failed".to_owned())),
        _ => Ok(()),
    }
}
