//! What is fixed about a job while this owner has it: its names, its plan, and the settings.

use std::time::Duration;

use fence::{Epoch, JobId, ShardKey, WorkflowNo};

use super::manifest::Part;
use super::{Manifest, Settings, Sid};
use crate::message::{ReservationId, Task};
use ledger_state::{self, BlobRef};

#[derive(Clone, Debug)]
pub(super) struct Spec {
    id: JobId,
    /// By the ledger's time.
    created_ms: u64,
    epoch: Epoch,
    bundle: BlobRef,
    manifest: Manifest,
    settings: Settings,
}

impl Spec {
    pub fn new(
        job: &ledger_state::Job,
        epoch: Epoch,
        manifest: Manifest,
        settings: Settings,
    ) -> Self {
        let (id, created_ms, bundle) = (job.id(), job.created_ms, job.plan);
        Self { id, created_ms, epoch, bundle, manifest, settings }
    }

    pub fn id(&self) -> JobId {
        self.id
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub fn bundle(&self) -> BlobRef {
        self.bundle
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A workflow of the plan; `None` for the number of setups and teardowns.
    pub fn part(&self, workflow: usize) -> Option<&Part> {
        self.manifest.workflows.get(workflow)
    }

    /// A moment of the ledger's time, as the age that the job had then.
    pub fn age_at(&self, at_ms: u64) -> Duration {
        Duration::from_millis(at_ms.saturating_sub(self.created_ms))
    }

    pub fn key(&self, sid: Sid) -> ShardKey {
        ShardKey { job: self.id, workflow: WorkflowNo(sid.0), shard: sid.1 }
    }

    /// The number under which setups and teardowns are kept: the one after the last workflow.
    pub fn hook_number(&self) -> u32 {
        u32::try_from(self.manifest.workflows.len()).unwrap_or(u32::MAX)
    }

    pub fn is_hook(&self, sid: Sid) -> bool {
        sid.0 == self.hook_number()
    }

    pub fn plan_setup(&self) -> Sid {
        (self.hook_number(), 0)
    }

    pub fn plan_teardown(&self) -> Sid {
        (self.hook_number(), 1)
    }

    pub fn setup_of(&self, workflow: usize) -> Sid {
        (self.hook_number(), 2 + 2 * u32::try_from(workflow).unwrap_or(0))
    }

    pub fn teardown_of(&self, workflow: usize) -> Sid {
        (self.hook_number(), 3 + 2 * u32::try_from(workflow).unwrap_or(0))
    }

    pub fn task(&self, sid: Sid) -> Task {
        if self.is_hook(sid) { hook_task(sid.1) } else { Task::Load }
    }

    /// The plan's setup is a stage of its own, then comes one for each layer.
    pub fn stage_of(&self, layer: usize) -> u32 {
        u32::try_from(layer).unwrap_or(u32::MAX) + u32::from(self.manifest.setup)
    }

    /// A reservation's name for workers: numbers of different owners do not meet.
    pub fn reservation_id(&self, number: u32) -> ReservationId {
        ReservationId { job: self.id, epoch: self.epoch, number }
    }

    /// As much of a text as the ledger takes.
    pub fn short(&self, text: &str) -> String {
        let mut end = text.len().min(self.settings.text_bytes);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text[..end].to_owned()
    }
}

/// 0 and 1 are the plan's own setup and teardown; then come two for each workflow.
pub(super) fn hook_task(shard: u32) -> Task {
    let of = hook_workflow(shard).and_then(|number| u32::try_from(number).ok()).map(WorkflowNo);
    if shard.is_multiple_of(2) { Task::Setup { of } } else { Task::Teardown { of } }
}

/// The workflow that a setup or teardown belongs to; `None`: to the plan.
pub(super) fn hook_workflow(shard: u32) -> Option<usize> {
    shard.checked_sub(2).map(|place| place as usize / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plans_hooks_come_first_and_then_those_of_each_workflow() {
        let of = |number| Some(WorkflowNo(number));
        let rows = [
            (0, Task::Setup { of: None }),
            (1, Task::Teardown { of: None }),
            (2, Task::Setup { of: of(0) }),
            (3, Task::Teardown { of: of(0) }),
            (8, Task::Setup { of: of(3) }),
            (9, Task::Teardown { of: of(3) }),
        ];
        for (shard, task) in rows {
            assert_eq!(hook_task(shard), task, "{shard}");
        }
    }
}
