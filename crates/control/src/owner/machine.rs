//! The machine of workflows: what it is told, and what it wants done.

use super::Owner;
use super::shard::State;
use crate::message::Task;
use schedule::job;

impl Owner {
    /// Tells the machine, and does what it says.
    pub(super) fn step_workflows(&mut self, event: job::Event) {
        let age = self.time.age();
        match self.workflows.step(event, age) {
            Ok(effects) => effects.into_iter().for_each(|effect| self.obey(effect)),
            Err(_) => self.journal.count_illegal(),
        }
        self.outgoing.changed();
    }

    pub(super) fn obey(&mut self, effect: job::Effect) {
        match effect {
            job::Effect::RunSetup => self.stages.want_setup(),
            job::Effect::StartWorkflow { workflow, .. } => self.stages.want(workflow),
            job::Effect::SkipWorkflow { workflow, because_of } => self.skip(workflow, &because_of),
            job::Effect::StopAll => self.stop_all(),
            job::Effect::RunTeardown => self.stages.want_teardown(),
            job::Effect::Finish { outcome } => {
                self.lifecycle.finish(outcome);
            }
        }
    }

    /// Never dispatched, and why (R5).
    pub(super) fn skip(&mut self, workflow: usize, because_of: &str) {
        let sid = (u32::try_from(workflow).unwrap_or(u32::MAX), 0);
        self.shards.add(self.spec.key(sid), Task::Load);
        self.go(sid, State::Skipped, format!("dependency_failed: {because_of}"));
        let name = self.workflows.name(workflow).to_owned();
        self.note(format!("{name} skipped: {because_of} did not complete"), None);
    }
}
