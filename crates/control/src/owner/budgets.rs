//! Units of a schedule: how far attempts may go, what each has begun, and what was lost between
//! them (R5a, R27).
//!
//! ```text
//! frames ──▶ Budget ──due──▶ GrantUnits ──committed──▶ Units to the worker, with renewals too
//!
//!   attempt 1        attempt 2
//! ├ before ─ begun ─┤ before ─────── begun ─┤
//!   counted  lost     counted     lost        lost = begun - counted, when its end is known
//! ```
//!
//! Every unit that was begun is counted by the attempt that began it: done, cut off, or dropped.
//! What an attempt has begun, or may have, and nobody has counted, was lost with its worker. That
//! is known when its end is; a tail that comes late is in its counts by then, so nothing is counted
//! twice.

use std::time::Duration;

use fence::canary::{self, Canary};
use fence::{Attempt, WorkflowNo};
use stats::{AttemptKey, LastWords, Unheard};

use super::attempt::{AttemptState, Revoked, Units};
use super::calls::Call;
use super::commits::Purpose;
use super::shard::Shard;
use super::{Effect, Owner, Sid};
use crate::budget::{self, Budget};
use ledger_state::{AttemptRecord, AttemptTerms, Command, Reply, UnitGrant};

impl Owner {
    /// The users and the iterations of a shard, if its load is a number of iterations: then another
    /// attempt must not begin what this one may have begun (R5a).
    fn counted(&self, sid: Sid) -> Option<(u64, u64)> {
        let units = &self.spec.part(sid.0 as usize)?.units;
        let shards = self.workflows.shards(sid.0 as usize).unwrap_or(1).max(1) as usize;
        units.counted(sid.1 as usize, shards)
    }

    /// What the next attempt at a shard starts with.
    pub(super) fn next_terms(&self, sid: Sid) -> AttemptTerms {
        let last =
            self.shards.get(&sid).and_then(|shard| Some((shard.current()?, shard.attempt())));
        let units_before = last.map_or(0, |(one, attempt)| {
            one.units.before.saturating_add(self.may_have_begun(sid, attempt))
        });
        let first = |(users, whole): (u64, u64)| budget::first(units_before, users).min(whole);
        AttemptTerms {
            lease_ms: u64::try_from(self.spec.settings().lease.length().as_millis())
                .unwrap_or(u64::MAX),
            units_before,
            units_end: self.counted(sid).map(first),
        }
    }

    /// Units that an attempt has begun, or may have: of those that are counted all that it was
    /// granted, of arrivals also those of a schedule that was in force before.
    pub(super) fn may_have_begun(&self, sid: Sid, attempt: Attempt) -> u64 {
        let one = self.shards.attempt(&sid, attempt);
        one.map_or(0, |one| {
            let old_rates = self.begun_by_old_rates(sid, one).saturating_sub(one.units.before);
            one.may_have_begun().max(old_rates)
        })
    }

    /// The budget of an attempt with these terms, as far as it is known to have come.
    pub(super) fn budget(&self, sid: Sid, terms: &AttemptTerms, begun: u64) -> Option<Budget> {
        let lease = Duration::from_millis(terms.lease_ms);
        let taken = terms.units_before.saturating_add(begun);
        let (users, whole) = self.counted(sid)?;
        terms.units_end.map(|end| Budget::new(lease, users, whole, taken, end))
    }

    /// An attempt as the ledger has it. `may_run`: it may have been told to start.
    pub(super) fn as_recorded(
        &self,
        sid: Sid,
        record: &AttemptRecord,
        may_run: bool,
    ) -> AttemptState {
        let counters = record.end.as_ref().map(|end| end.counters).unwrap_or_default();
        let mut lease = fence::LeaseTerms::new(Duration::from_millis(record.terms.lease_ms));
        if canary::active(Canary::OtherLease) {
            lease = self.spec.settings().lease;
        }
        let (life, since) = ((record.worker, record.boot), self.spec.age_at(record.started_ms));
        AttemptState {
            units: Units {
                before: record.terms.units_before,
                before_rates: 0,
                budget: self.budget(sid, &record.terms, counters.begun),
                counters,
            },
            may_run,
            known: record.end.is_some(),
            by_owner: record.is_unheard(),
            issued_late: record.added().map_or(0, |added| added.issued),
            end: record.end.as_ref().map(|end| end.status),
            revoked: match record.revoked.as_ref().map(|revoked| revoked.suspected) {
                None => Revoked::No,
                Some(false) => Revoked::Known,
                Some(true) => Revoked::Suspected,
            },
            ..AttemptState::new(life, lease, since, self.time.now())
        }
    }

    /// A frame says how far an attempt has come. True: something is to be written.
    pub(super) fn heard_units(&mut self, sid: Sid, attempt: Attempt, told: Duration) -> bool {
        let now = self.time.now();
        let Some(shard) = self.shards.get_mut(&sid) else { return false };
        let current = shard.attempt() == attempt && shard.is_out() && shard.stop.is_none();
        let Some(one) = shard.attempt_mut(attempt) else { return false };
        let taken = one.units.before.saturating_add(one.units.counters.begun);
        let Some(budget) = &mut one.units.budget else { return false };
        budget.heard(taken, told, now);
        current && self.grant_units()
    }

    /// Grants what is due to whom it is due, in one entry; and one entry at a time.
    pub(super) fn grant_units(&mut self) -> bool {
        if self.grants.is_granting() || self.is_stopping() {
            return false;
        }
        let (now, mut due) = (self.time.now(), Vec::new());
        for (sid, shard) in self.shards.iter_mut() {
            let attempt = shard.attempt();
            if !shard.is_out() || shard.stop.is_some() {
                continue;
            }
            let budget = shard.attempts.last_mut().and_then(|one| one.units.budget.as_mut());
            if let Some(end) = budget.and_then(|budget| budget.due(now)) {
                due.push((*sid, attempt, end));
            }
        }
        if due.is_empty() {
            return false;
        }
        let grant = |&((workflow, shard), attempt, end): &(Sid, Attempt, u64)| UnitGrant {
            workflow: WorkflowNo(workflow),
            shard,
            attempt,
            end,
        };
        let grants = due.iter().map(grant).collect();
        let (job, epoch) = (self.spec.id(), self.spec.epoch());
        self.grants.set_granting(true);
        self.outgoing.commit(Purpose::Units(due), Command::GrantUnits { job, epoch, grants });
        true
    }

    pub(super) fn units_committed(&mut self, due: &[(Sid, Attempt, u64)], reply: &Reply) {
        self.grants.set_granting(false);
        let now = self.time.now();
        let refused = matches!(reply, Reply::Refused(_));
        for (sid, attempt, end) in due {
            let Some(shard) = self.shards.get_mut(sid) else { continue };
            let budget = shard.attempt_mut(*attempt).and_then(|one| one.units.budget.as_mut());
            let Some(budget) = budget else { continue };
            if refused {
                budget.refused();
            } else if budget.granted(*end, now) {
                self.send(Call::Units(*sid, *attempt));
            }
        }
        if !refused {
            self.grant_units();
        }
    }

    /// How many requests were begun. An attempt without a final report may have begun more than it
    /// told of: at most all of what was lost with it.
    pub(super) fn last_words(&self) -> LastWords {
        let tries = self.shards.values().flat_map(|shard| &shard.attempts);
        let issued = tries.map(|one| one.units.counters.issued.saturating_add(one.issued_late));
        let told = issued.fold(0, u64::saturating_add);
        let unheard = self.reports.unheard().into_iter().map(|(key, attempt)| Unheard {
            of: AttemptKey { workflow: key.workflow.0, shard: key.shard, attempt: attempt.0 },
            more_at_most: self.more_at_most((key.workflow.0, key.shard), attempt),
        });
        LastWords { told, unheard: unheard.collect(), addenda: Vec::new() }
    }

    /// What an attempt that was not heard again can have begun beyond what it told of.
    fn more_at_most(&self, sid: Sid, attempt: Attempt) -> Option<u64> {
        let part = self.spec.part(sid.0 as usize)?;
        // What an attempt has issued at a rate is bounded by where a later one began.
        let followed = self.shards.get(&sid).is_some_and(|shard| is_followed(shard, attempt));
        let bounded = part.units.is_counted() || part.units.is_open() && followed;
        let each = part.requests_max.filter(|_| bounded)?;
        // Arrivals that were due before the next one joined are counted as lost with that one.
        let lost = self.grants.lost_since(sid, attempt);
        Some(lost.saturating_mul(each))
    }

    /// What was lost with an attempt whose end is known, and with those before it.
    pub(super) fn count_lost(&mut self, sid: Sid) {
        let Some(part) = self.spec.part(sid.0 as usize) else { return };
        let Some(shards) = self.workflows.shards(sid.0 as usize) else { return };
        let rates = self.rates(sid.0);
        let Some(whole) = part.units.of_shard(sid.1, shards, Duration::MAX, &rates) else {
            return;
        };
        let Some(shard) = self.shards.get(&sid) else { return };
        let lost = match part.units.is_open() {
            true => lost_arrivals(shard, whole),
            false => lost_iterations(shard, whole),
        };
        let key = shard.key;
        for (attempt, count) in lost.into_iter().filter(|(_, count)| *count > 0) {
            self.grants.lose(sid, attempt, count);
            self.outgoing.push(Effect::Lost { shard: key, attempt, count });
        }
    }
}

/// A later attempt has joined the schedule, and passed over all that was due before. One that could
/// not be prepared, or was lost before it started, has not.
fn is_followed(shard: &Shard, attempt: Attempt) -> bool {
    shard.attempts.iter().skip(attempt.0 as usize).any(|later| later.units.counters.begun > 0)
}

/// Each attempt has a stretch of its own, which ends where the next one begins: its end alone says
/// what was lost.
fn lost_iterations(shard: &Shard, whole: u64) -> Vec<(Attempt, u64)> {
    let starts = shard.attempts.iter().skip(1).map(|one| one.units.before);
    let starts = starts.map(Some).chain([shard.proposed.map(|terms| terms.units_before)]);
    let mut lost = Vec::new();
    for (number, (one, next)) in (1..).zip(shard.attempts.iter().zip(starts)) {
        if one.end.is_none() {
            continue;
        }
        let begun =
            next.map_or(one.units.counters.begun, |next| next.saturating_sub(one.units.before));
        let begun = begun.min(whole.saturating_sub(one.units.before));
        lost.push((Attempt(number), begun.saturating_sub(one.units.counters.counted())));
    }
    lost
}

/// An attempt that joins the schedule passes over everything that was due before, also what the one
/// before it has run and not yet told. So what was lost is known when all attempts up to it have
/// ended.
fn lost_arrivals(shard: &Shard, whole: u64) -> Vec<(Attempt, u64)> {
    let (mut accounted, mut lost) = (0u64, Vec::new());
    for (number, one) in (1..).zip(&shard.attempts).take_while(|(_, one)| one.end.is_some()) {
        accounted = accounted.saturating_add(one.units.counters.counted());
        let passed = one.units.before.saturating_add(one.units.counters.begun).min(whole);
        let count = passed.saturating_sub(accounted);
        accounted = accounted.saturating_add(count);
        lost.push((Attempt(number), count));
    }
    lost
}

#[cfg(test)]
mod tests {
    use fence::{BootId, JobId, LeaseTerms, Moment, NodeId, ShardKey};

    use super::*;
    use crate::message::Task;
    use ledger_state::{AttemptStatus, Counters};

    /// Attempts by where they began, what they have begun and done, and whether they have ended.
    fn shard(attempts: &[(u64, u64, u64, bool)]) -> Shard {
        let key = ShardKey { job: JobId(1), workflow: WorkflowNo(0), shard: 0 };
        let mut shard = Shard::new(key, Task::Load);
        for (before, begun, done, ended) in attempts.iter().copied() {
            let lease = LeaseTerms::new(Duration::from_secs(12));
            let life = (NodeId(1), BootId(1));
            let mut one = AttemptState::new(life, lease, Duration::ZERO, Moment::default());
            one.units.before = before;
            one.units.counters = Counters { begun, iterations: done, ..Counters::default() };
            one.end = ended.then_some(AttemptStatus::Interrupted);
            shard.attempts.push(one);
        }
        shard
    }

    #[test]
    fn of_iterations_an_attempt_has_lost_what_lies_before_the_next_one_and_nobody_counted() {
        // The first was granted 30 and has counted 8 of 10; the second began behind the grant.
        let both = shard(&[(0, 10, 8, true), (30, 5, 5, true)]);
        assert_eq!(lost_iterations(&both, 100), [(Attempt(1), 22), (Attempt(2), 0)]);
        let running = shard(&[(0, 10, 8, false), (30, 5, 5, true)]);
        assert_eq!(lost_iterations(&running, 100), [(Attempt(2), 0)], "its end is not known");
        assert_eq!(lost_iterations(&both, 20)[0], (Attempt(1), 12), "no more than there are");
    }

    /// R27: where no later attempt has begun, nothing bounds what one that is not heard has issued.
    #[test]
    fn an_attempt_is_followed_by_one_that_has_begun_and_not_by_one_that_never_ran() {
        let never_ran = shard(&[(0, 10, 8, true), (10, 0, 0, true)]);
        assert!(!is_followed(&never_ran, Attempt(1)));
        let joined = shard(&[(0, 10, 8, true), (10, 0, 0, true), (10, 5, 5, true)]);
        assert!(is_followed(&joined, Attempt(1)) && is_followed(&joined, Attempt(2)));
        assert!(!is_followed(&joined, Attempt(3)));
    }

    #[test]
    fn of_arrivals_what_was_lost_is_known_when_all_attempts_up_to_it_have_ended() {
        // The second joined when 15 were due, of which the first has counted 8.
        let both = shard(&[(0, 10, 8, true), (15, 5, 5, true)]);
        assert_eq!(lost_arrivals(&both, 100), [(Attempt(1), 2), (Attempt(2), 5)]);
        let running = shard(&[(0, 10, 8, false), (15, 5, 5, true)]);
        assert!(lost_arrivals(&running, 100).is_empty());
    }
}
