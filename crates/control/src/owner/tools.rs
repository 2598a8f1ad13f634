//! What all parts of the owner use: numbers and names, moving a shard, notes, the machine of workflows.

use std::time::Duration;

use fence::{Attempt, ShardKey, WorkflowNo};
use sha2::{Digest, Sha256};

use super::shard::{Shard, State, Step, Transition};
use super::{Effect, Gap, Note, Owner, Parcel, Phase, Purpose, Sid};
use crate::message::Task;
use ledger_state::{self, BlobRef, Command};
use schedule::job;

/// Lines of history and of the timeline kept for one job.
const HISTORY_MAX: usize = 200_000;
const TIMELINE_MAX: usize = 20_000;

impl Owner {
    pub(super) fn asides(&self) -> u32 {
        u32::try_from(self.manifest.workflows.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn key(&self, sid: Sid) -> ShardKey {
        ShardKey { job: self.id, workflow: WorkflowNo(sid.0), shard: sid.1 }
    }

    pub(super) fn shards_of(&self, workflow: usize) -> impl Iterator<Item = &Shard> + Clone {
        let number = u32::try_from(workflow).unwrap_or(u32::MAX);
        self.shards.range((number, 0)..=(number, u32::MAX)).map(|(_, shard)| shard)
    }

    /// Time since the job was created.
    pub(super) fn age(&self) -> Duration {
        self.timeouts.age(self.now)
    }

    pub(super) fn changed(&mut self) {
        self.changes += 1;
    }

    pub(super) fn tag(&mut self) -> u64 {
        self.tags += 1;
        self.tags
    }

    pub(super) fn commit(&mut self, purpose: Purpose, command: Command) {
        let tag = self.tag();
        self.commits.insert(tag, purpose);
        self.backlog.push_back((tag, command));
        self.changed();
    }

    pub(super) fn store(&mut self, parcel: Parcel, content: Vec<u8>) {
        let tag = self.tag();
        self.parcels.insert(tag, parcel);
        self.out.push(Effect::Store { tag, blob: blob_of(&content), content });
        self.changed();
    }

    pub(super) fn fetch(&mut self, parcel: Parcel, blob: BlobRef) {
        let tag = self.tag();
        self.parcels.insert(tag, parcel);
        self.out.push(Effect::Fetch { tag, blob });
    }

    /// LIFE-2: validated against the table; what the table does not have changes nothing, and is counted.
    pub(super) fn go(&mut self, sid: Sid, to: State, reason: impl Into<String>) -> bool {
        let at = self.age();
        let Some(shard) = self.shards.get_mut(&sid) else { return false };
        let from = shard.state;
        if !from.may_become(to) {
            self.counts.illegal += 1;
            return false;
        }
        shard.state = to;
        let attempt = match to {
            State::Pending => shard.attempt().next(),
            _ => shard.attempt(),
        };
        if to.is_terminal() {
            shard.step = Step::Over;
            shard.due = None;
            shard.stop = None;
        }
        let ends_load = to.is_terminal() && shard.task == Task::Load;
        let reason = reason.into();
        let moved = Transition { shard: shard.key, attempt, from, to, at, reason };
        if to.is_forward() {
            self.timeouts.progressed(self.now);
        }
        if ends_load && self.wave.as_ref().is_some_and(|wave| wave.clock.is_some()) {
            let time = self.schedule_time();
            let reached = self.reached.entry(sid.0 as usize).or_default();
            *reached = time.max(*reached);
        }
        self.out.push(Effect::Moved(moved.clone()));
        if self.history.len() < HISTORY_MAX {
            self.history.push(moved);
        } else {
            self.counts.dropped += 1;
        }
        self.changed();
        // Its load was missing when it was stopped, and nobody makes up for it.
        if to == State::Cancelled {
            self.never_mended(sid);
        }
        true
    }

    pub(super) fn set(&mut self, sid: Sid, step: Step) {
        if let Some(shard) = self.shards.get_mut(&sid) {
            shard.step = step;
            self.changed();
        }
    }

    pub(super) fn note(&mut self, text: impl Into<String>, gap: Option<Gap>) {
        if self.recovery.replaying {
            // It happened under an owner before; the ledger's history says when.
            return;
        }
        let note = Note { at: self.age(), text: text.into(), gap };
        if self.timeline.len() < TIMELINE_MAX {
            self.timeline.push(note.clone());
        } else {
            self.counts.dropped += 1;
        }
        self.out.push(Effect::Noted(note));
    }

    /// A text that the ledger takes.
    pub(super) fn short(&self, text: &str) -> String {
        let mut end = text.len().min(self.settings.text_bytes);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text[..end].to_owned()
    }

    /// Tells the machine, and does what it says.
    pub(super) fn tell(&mut self, event: job::Event) {
        let age = self.age();
        match self.machine.step(event, age) {
            Ok(effects) => effects.into_iter().for_each(|effect| self.obey(effect)),
            Err(_) => self.counts.illegal += 1,
        }
        self.changed();
    }

    pub(super) fn obey(&mut self, effect: job::Effect) {
        match effect {
            job::Effect::RunSetup => self.setup_due = true,
            job::Effect::StartWorkflow { workflow, .. } => self.waiting.push(workflow),
            job::Effect::SkipWorkflow { workflow, because_of } => self.skip(workflow, &because_of),
            job::Effect::StopAll => self.stop_all(),
            job::Effect::RunTeardown => self.teardown_due = true,
            job::Effect::Finish { outcome } => {
                self.outcome = Some(outcome);
                if self.phase == Phase::Active {
                    self.phase = Phase::Closing;
                }
            }
        }
    }

    /// Never dispatched, and why (R5).
    pub(super) fn skip(&mut self, workflow: usize, because_of: &str) {
        let sid = (u32::try_from(workflow).unwrap_or(u32::MAX), 0);
        let key = self.key(sid);
        self.shards.entry(sid).or_insert_with(|| Shard::new(key, Task::Load));
        self.go(sid, State::Skipped, format!("dependency_failed: {because_of}"));
        let name = self.machine.name(workflow).to_owned();
        self.note(format!("{name} skipped: {because_of} did not complete"), None);
    }

    /// Another owner has the job. What happens to it is no longer this one's business.
    pub(super) fn depose(&mut self, why: impl Into<String>) {
        self.phase = Phase::Deposed;
        self.backlog.clear();
        self.later.clear();
        self.out.push(Effect::Deposed { why: why.into() });
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
        let age = self.age();
        let heard = self.began.unwrap_or_default().saturating_add(told).min(age);
        let current = self.shards.get(&sid).is_some_and(|shard| shard.attempt() == attempt);
        let Some(one) = self.shards.get_mut(&sid).and_then(|shard| shard.attempt_mut(attempt))
        else {
            self.counts.late += 1;
            return false;
        };
        // Cumulative: an older frame that comes late has lower numbers, and says nothing new (R17).
        one.alive = one.alive.max(self.now);
        self.doubts.end(one.worker, self.now);
        let (old, new) = (one.counters.fields(), counters.fields());
        if one.known || old.iter().zip(&new).any(|(old, new)| new < old) {
            return false;
        }
        one.counters = counters;
        if old != new {
            one.heard = Some(heard);
            if current {
                self.timeouts.progressed(self.now);
            }
        }
        self.heard_units(sid, attempt, told)
    }
}

/// A time as the ledger keeps it.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The name of a content: its hash and its length.
#[must_use]
pub fn blob_of(content: &[u8]) -> BlobRef {
    BlobRef { hash: Sha256::digest(content).into(), bytes: content.len() as u64 }
}
