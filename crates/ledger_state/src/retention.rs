//! Time, and what leaves with it.
//!
//! A key is kept while its job is active and `committed_ttl_ms` after its end, by the ledger's own
//! time. That time moves by log entries alone, so every member forgets a key at the same place in
//! the log, and no wall clock has a say. A submission that says it was first tried longer ago than
//! keys are kept is not run.
//!
//! The job itself is known for `kept_ms`, which may be much longer, so that people find its result.
//! What is new comes first: where there is no room for it, the jobs that ended first are forgotten
//! as soon as their keys may be.

use fence::{Epoch, Hlc, JobId};

use super::apply::Here;
use super::command::Command;
use super::history::{Event, EventKind};
use super::reply::Reply;
use super::{Derived, Limits, State};

/// How many jobs any other command retires on the way, so that a burst of ended jobs leaves even if
/// time stands still.
const RETIRE_IN_PASSING: u32 = 4;

/// The shortest and the longest wait that a full ledger asks for.
const RETRY_MS: std::ops::RangeInclusive<u64> = 1_000..=60_000;

impl State {
    /// The entry at `index`, which is applied next, was made at this time of the ledger, by its
    /// leader's clock. Time never goes back, and never by more at once than the limits allow.
    pub fn pass(&mut self, index: u64, time_ms: u64) {
        if index > self.applied {
            let most = self.now_ms.saturating_add(self.limits.advance_ms);
            self.now_ms = time_ms.clamp(self.now_ms, most);
        }
    }

    pub(super) fn advance(&mut self, here: Here, seen_ms: u64, elapsed_ms: u64) -> Reply {
        let target = seen_ms.saturating_add(elapsed_ms);
        let most = self.now_ms.saturating_add(self.limits.advance_ms);
        self.now_ms = target.clamp(self.now_ms, most);
        let retired = self.retire(here.epoch, here.at, self.limits.retire_per_advance);
        Reply::Advanced { now_ms: self.now_ms, retired }
    }

    pub(super) fn retire_some(&mut self, epoch: Epoch, at: Hlc) {
        self.retire(epoch, at, RETIRE_IN_PASSING);
    }

    /// What people may set while the group runs. Validated before it comes here.
    pub(super) fn set_limits(&mut self, here: Here, command: &Command) -> Reply {
        if let Command::SetLimits { lease_ms, kept_ms, retries } = *command {
            let Limits { lease_ms: lease, kept_ms: kept, retries: tries, .. } = &mut self.limits;
            *lease = lease_ms.unwrap_or(*lease);
            *kept = kept_ms.unwrap_or(*kept);
            *tries = retries.unwrap_or(*tries);
        }
        here.done()
    }

    /// Notes when an ended job may go.
    pub(super) fn expire_later(&mut self, id: JobId) {
        if let Some(deadline) = self.key_needed_until_ms(id) {
            self.derived.active.remove(&id);
            self.derived.expiry.insert((deadline, id));
        }
    }

    /// The ledger's time up to which the job's key is kept in any case, if it has ended.
    pub(super) fn key_needed_until_ms(&self, id: JobId) -> Option<u64> {
        let end = self.jobs.get(&id)?.end.as_ref()?;
        Some(end.ended_ms.saturating_add(self.limits.committed_ttl_ms))
    }

    /// How much longer a job is known than its key is needed.
    fn known_longer_ms(&self) -> u64 {
        self.limits.kept_ms.saturating_sub(self.limits.committed_ttl_ms)
    }

    /// How long a client should wait for room.
    pub(super) fn next_retirement_in(&self) -> u64 {
        let next = self.derived.expiry.first();
        let wait = next.map_or(*RETRY_MS.end(), |(at, _)| at.saturating_sub(self.now_ms));
        wait.clamp(*RETRY_MS.start(), *RETRY_MS.end())
    }

    fn retire(&mut self, epoch: Epoch, at: Hlc, most: u32) -> u32 {
        let mut retired = 0;
        while retired < most && self.forget_oldest(epoch, at, self.known_longer_ms()) {
            retired += 1;
        }
        retired
    }

    /// Whether `MakeRoom` would forget anything.
    #[must_use]
    pub fn can_make_room(&self) -> bool {
        let oldest = self.derived.expiry.first();
        self.known_longer_ms() > 0 && oldest.is_some_and(|(deadline, _)| *deadline < self.now_ms)
    }

    /// Forgets jobs that ended first, while more room is needed. Those whose keys are needed stay.
    pub(super) fn make_room(&mut self, here: Here, mut needed: impl FnMut(&Self) -> bool) -> u32 {
        let mut retired = 0;
        // Where jobs are not kept longer than their keys, they leave by time alone.
        while self.known_longer_ms() > 0
            && needed(self)
            && self.forget_oldest(here.epoch, here.at, 0)
        {
            retired += 1;
        }
        retired
    }

    /// The job that ended first, if its key is not needed any more, and has not been for
    /// `longer_ms`.
    fn forget_oldest(&mut self, epoch: Epoch, at: Hlc, longer_ms: u64) -> bool {
        let Some(&(deadline, id)) = self.derived.expiry.first() else { return false };
        if deadline.saturating_add(longer_ms) >= self.now_ms {
            return false;
        }
        self.derived.expiry.pop_first();
        if let Some(job) = self.jobs.remove(&id) {
            let attempts = job.attempts().count() as u64;
            self.derived.attempts = self.derived.attempts.saturating_sub(attempts);
            self.derived.bytes = self.derived.bytes.saturating_sub(job.text_bytes());
            let (_, late) = job.addenda();
            self.derived.addenda_bytes = self.derived.addenda_bytes.saturating_sub(late);
        }
        self.record(id, Event { epoch, at, kind: EventKind::Retired });
        true
    }

    /// Everything that follows from the jobs.
    pub(super) fn derive(&self) -> Derived {
        let mut derived = Derived { volatile: self.derived.volatile, ..Derived::default() };
        for (id, job) in &self.jobs {
            derived.attempts += job.attempts().count() as u64;
            derived.bytes = derived.bytes.saturating_add(job.text_bytes());
            derived.addenda_bytes = derived.addenda_bytes.saturating_add(job.addenda().1);
            match self.key_needed_until_ms(*id) {
                Some(deadline) => derived.expiry.insert((deadline, *id)),
                None => derived.active.insert(*id),
            };
        }
        derived
    }
}
