//! What all parts of the owner use: numbers and names, moving a shard, notes, the machine of workflows.

use std::time::Duration;

use fence::{Attempt, ShardKey};

use super::shard::{State, Step, Transition};
use super::{Effect, Gap, Note, Owner, Phase, Sid};
use crate::message::Task;
use ledger_state::{self};
use schedule::job;

impl Owner {
    /// LIFE-2: validated against the table; what the table does not have changes nothing, and is counted.
    pub(super) fn go(&mut self, sid: Sid, to: State, reason: impl Into<String>) -> bool {
        let at = self.time.age();
        let Some(shard) = self.shards.get_mut(&sid) else { return false };
        let Some(from) = shard.go(to) else {
            self.journal.count_illegal();
            return false;
        };
        let attempt = match to {
            State::Pending => shard.attempt().next(),
            _ => shard.attempt(),
        };
        let ends_load = to.is_terminal() && shard.task == Task::Load;
        let reason = reason.into();
        let moved = Transition { shard: shard.key, attempt, from, to, at, reason };
        if to.is_forward() {
            self.time.progressed();
        }
        if ends_load && self.stages.clock().is_some() {
            let time = self.schedule_time();
            self.workflows.reach(sid.0 as usize, time);
        }
        self.outgoing.push(Effect::Moved(moved.clone()));
        self.journal.moved(moved);
        self.outgoing.changed();
        // Its load was missing when it was stopped, and nobody makes up for it.
        if to == State::Cancelled {
            self.never_mended(sid);
        }
        true
    }

    pub(super) fn set(&mut self, sid: Sid, step: Step) {
        if let Some(shard) = self.shards.get_mut(&sid) {
            shard.step = step;
            self.outgoing.changed();
        }
    }

    pub(super) fn note(&mut self, text: impl Into<String>, gap: Option<Gap>) {
        let note = Note { at: self.time.age(), text: text.into(), gap };
        if self.journal.note(&note) {
            self.outgoing.push(Effect::Noted(note));
        }
    }

    /// Tells the machine, and does what it says.
    pub(super) fn tell(&mut self, event: job::Event) {
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

    /// Another owner has the job. What happens to it is no longer this one's business.
    pub(super) fn depose(&mut self, why: impl Into<String>) {
        self.lifecycle.enter(Phase::Deposed);
        self.outgoing.drop_waiting();
        self.outgoing.push(Effect::Deposed { why: why.into() });
    }

    /// True: something is to be written.
    pub(super) fn progress(
        &mut self,
        key: ShardKey,
        attempt: Attempt,
        counters: ledger_state::Counters,
        told: Duration,
    ) -> bool {
        let sid = (key.workflow.0, key.shard);
        let age = self.time.age();
        let heard = self.time.age_of(told).min(age);
        let current = self.shards.get(&sid).is_some_and(|shard| shard.attempt() == attempt);
        let Some(one) = self.shards.get_mut(&sid).and_then(|shard| shard.attempt_mut(attempt))
        else {
            self.journal.count_late();
            return false;
        };
        // Cumulative: an older frame that comes late has lower numbers, and says nothing new (R17).
        one.alive = one.alive.max(self.time.now());
        self.liveness.heard(one.worker, self.time.now());
        let (old, new) = (one.units.counters.fields(), counters.fields());
        if one.known || old.iter().zip(&new).any(|(old, new)| new < old) {
            return false;
        }
        one.units.counters = counters;
        if old != new {
            one.heard = Some(heard);
            if current {
                self.time.progressed();
            }
        }
        self.heard_units(sid, attempt, told)
    }
}

/// A time as the ledger keeps it.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
