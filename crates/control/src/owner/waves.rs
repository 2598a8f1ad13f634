//! What runs next: setups, batches of a layer, teardowns.

use std::collections::BTreeSet;

use fence::Moment;

use super::spec::hook_task;
use super::stages::{Kind, Stage, Wave, WaveStep};
use super::{Numbers, Owner, Sid};
use schedule::allocation;
use schedule::job;

/// As many cores as no fleet has.
const POOL_LARGE: usize = 1 << 20;

impl Owner {
    pub(super) fn drive_wave(&mut self) {
        if !self.stages.have_started() {
            return self.try_to_begin();
        }
        let Some(wave) = self.stages.wave() else { return self.next_wave() };
        let over = |sid: &Sid| self.shards.get(sid).is_none_or(|shard| shard.state().is_terminal());
        if !wave.members.is_empty() && wave.members.iter().all(over) {
            return self.wave_over();
        }
        match &wave.step {
            WaveStep::Reserving(None) => self.reserve_wave(),
            WaveStep::Reserving(Some(_)) | WaveStep::Provisioning(_) => {}
            WaveStep::Dispatching | WaveStep::Beginning | WaveStep::Running => {
                self.place_stragglers();
                self.propose_placed();
                self.start_ready();
            }
        }
    }

    /// A job that has had no cores yet. What becomes of it if the fleet is too small is a matter of
    /// policy.
    fn try_to_begin(&mut self) {
        if self.fits() && self.has_turn(1) {
            self.stages.start();
            self.step_workflows(job::Event::Started);
        }
    }

    fn next_wave(&mut self) {
        if self.stages.take_setup() {
            return self.open(Kind::Setup, vec![self.spec.plan_setup()]);
        }
        if let Some(batch) = self.stages.batch() {
            let (workflows, stage) = (batch.workflows.clone(), batch.stage);
            return self.next_of_batch(&workflows, stage);
        }
        if !self.stages.waiting().is_empty() {
            if self.contexts_are_committed() && self.fits() {
                self.form_batch();
            }
            return;
        }
        if self.stages.take_teardown() {
            if !self.wants_teardown() {
                return self.step_workflows(job::Event::TeardownEnded(Ok(())));
            }
            self.open(Kind::Teardown, vec![self.spec.plan_teardown()]);
        }
    }

    /// The first batch of what waits: those workflows that fit the fleet together as it is now.
    fn form_batch(&mut self) {
        let candidates: Vec<_> =
            self.stages.waiting().iter().map(|w| self.spec.manifest().candidate(*w)).collect();
        let total = self.capacity.pool().total();
        let batches = allocation::partition(&candidates, total as usize);
        let lacks_cores = batches.len() > allocation::partition(&candidates, POOL_LARGE).len();
        if lacks_cores && self.time.now() < self.splits_at() {
            // One after the other is another load than side by side. Workers of a young fleet are
            // still being found.
            let needs = u32::try_from(candidates.len()).unwrap_or(u32::MAX);
            let why = format!("its workflows do not fit {total} cores side by side");
            return self.say_queued(needs, Numbers::Apart, why);
        }
        let first = batches.into_iter().next().unwrap_or_default();
        let names: BTreeSet<String> = first.into_iter().map(|grant| grant.name).collect();
        if lacks_cores {
            let later =
                candidates.iter().map(|one| &one.name).filter(|name| !names.contains(*name));
            let later: Vec<&str> = later.map(String::as_str).collect();
            let later = later.join(", ");
            self.note(format!("the fleet has {total} cores: {later} will run afterwards"), None);
        }
        let manifest = self.spec.manifest();
        let fits = |workflow: usize| names.contains(&manifest.workflows[workflow].name);
        self.stages.form_batch(fits, Stage::Setups);
        self.outgoing.changed();
    }

    fn splits_at(&self) -> Moment {
        self.capacity.steady_since().after(self.spec.settings().split_after)
    }

    /// When a layer that does not fit is divided, if no cores are added.
    pub(super) fn split_due(&self) -> Option<Moment> {
        let splits_at = Some(self.splits_at()).filter(|at| *at > self.time.now());
        splits_at.filter(|_| self.stages.wait_for_a_batch())
    }

    fn next_of_batch(&mut self, workflows: &[usize], stage: Stage) {
        let part = |w: usize| &self.spec.manifest().workflows[w];
        let each = workflows.iter().copied();
        let members: Vec<Sid> = match stage {
            Stage::Setups => {
                let due = each.filter(|w| part(*w).setup && !self.stages.is_set_up(*w));
                due.map(|w| self.spec.setup_of(w)).collect()
            }
            Stage::Load => {
                self.stages.open(Wave::new(Kind::Load, Vec::new(), WaveStep::Reserving(None)));
                return self.outgoing.changed();
            }
            Stage::Teardowns if !self.lifecycle.may_tear_down(self.time.now()) => Vec::new(),
            Stage::Teardowns => {
                let due = each.filter(|w| part(*w).teardown);
                due.map(|w| self.spec.teardown_of(w)).collect()
            }
        };
        match (stage, members.is_empty()) {
            (Stage::Setups, false) => self.open(Kind::Setups, members),
            (Stage::Teardowns, false) => self.open(Kind::Teardowns, members),
            (Stage::Teardowns, true) => self.end_batch(),
            _ => self.set_stage(Stage::Load),
        }
    }

    pub(super) fn set_stage(&mut self, stage: Stage) {
        if self.stages.set_stage(stage) {
            self.outgoing.changed();
        }
    }

    /// A wave of setups or teardowns, one core each.
    pub(super) fn open(&mut self, kind: Kind, members: Vec<Sid>) {
        for sid in &members {
            self.shards.add(self.spec.key(*sid), hook_task(sid.1));
        }
        self.stages.open(Wave::new(kind, members, WaveStep::Dispatching));
        self.outgoing.changed();
    }
}
