//! One attempt at a shard, as the ledger has it and as its worker tells.

use std::time::Duration;

use fence::{BootId, LeaseTerms, Moment, NodeId};

use crate::budget::Budget;
use ledger_state::{AttemptStatus, Counters};

/// A worker in one of its lives.
pub(super) type Life = (NodeId, BootId);

/// One attempt, as the ledger has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AttemptState {
    pub worker: NodeId,
    pub boot: BootId,
    /// It has no core of its own.
    pub shared: bool,
    /// As it was started with, whoever owned the job then (R25).
    pub lease: LeaseTerms,
    pub units: Units,
    /// It may have been told to start.
    pub may_run: bool,
    /// Its own final report is here, or it is certain that it never ran: its counts are all there
    /// is.
    pub known: bool,
    /// When the ledger took it, since the job was created.
    pub since: Duration,
    /// When anything was last heard of it: a renewal, a frame, an answer of its worker.
    pub alive: Moment,
    /// When a count of it last moved, since the job was created.
    pub heard: Option<Duration>,
    /// A report of it is on its way into the ledger.
    pub reporting: bool,
    pub end: Option<AttemptStatus>,
    /// That end was written by the owner; its worker's own report may still come.
    pub by_owner: bool,
    /// Requests that its worker has told of since, beyond its counters.
    pub issued_late: u64,
    pub revoked: Revoked,
}

/// How far an attempt is in its schedule, and how far it may go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Units {
    /// Units of its schedule that attempts before it have begun, or may have.
    pub before: u64,
    /// Of arrivals: units that it may have begun before it knew the present rates, those before it
    /// included.
    pub before_rates: u64,
    /// How far it may go, if its load is a number of iterations.
    pub budget: Option<Budget>,
    /// What it has told so far.
    pub counters: Counters,
}

/// Whether the right to run was taken from an attempt, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Revoked {
    #[default]
    No,
    /// For something that it did or did not do.
    Known,
    /// Its worker was taken for gone, by hints.
    Suspected,
}

impl AttemptState {
    /// One that starts now, of which nothing is known yet.
    pub fn new((worker, boot): Life, lease: LeaseTerms, since: Duration, alive: Moment) -> Self {
        Self {
            worker,
            boot,
            shared: false,
            lease,
            units: Units::default(),
            may_run: false,
            known: false,
            since,
            alive,
            heard: None,
            reporting: false,
            end: None,
            by_owner: false,
            issued_late: 0,
            revoked: Revoked::No,
        }
    }

    pub fn life(&self) -> Life {
        (self.worker, self.boot)
    }

    pub fn is_revoked(&self) -> bool {
        self.revoked != Revoked::No
    }

    pub fn is_suspected(&self) -> bool {
        self.revoked == Revoked::Suspected
    }

    /// Something was heard of it.
    pub fn is_alive(&mut self, now: Moment) {
        self.alive = self.alive.max(now);
    }

    /// Three renewals are missed by then, and the lease has a quarter of its time left.
    pub fn silent_at(&self) -> Moment {
        self.alive.after(self.lease.length() * 3 / 4)
    }

    /// Its worker was taken for gone, and lived: no retry is used. The ledger counts the same
    /// ([`ledger_state::AttemptRecord::was_lost_falsely`]).
    pub fn was_lost_falsely(&self) -> bool {
        self.is_suspected() && self.end == Some(AttemptStatus::Stopped)
    }

    /// Units of its schedule. Of one that counts iterations and has not given its final report
    /// nothing is known but how far it may go; what arrivals another has begun follows from the
    /// schedule.
    pub fn may_have_begun(&self) -> u64 {
        let begun = self.units.counters.begun;
        match &self.units.budget {
            Some(budget) if self.may_run && !self.known => {
                budget.end().saturating_sub(self.units.before).max(begun)
            }
            _ => begun,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt() -> AttemptState {
        let lease = LeaseTerms::new(Duration::from_secs(12));
        AttemptState::new((NodeId(1), BootId(1)), lease, Duration::ZERO, Moment::default())
    }

    #[test]
    fn only_a_suspicion_that_the_worker_itself_disproved_was_false() {
        let (stopped, interrupted) = (AttemptStatus::Stopped, AttemptStatus::Interrupted);
        let rows = [
            (Revoked::Suspected, Some(stopped), true),
            (Revoked::Suspected, Some(interrupted), false),
            (Revoked::Suspected, None, false),
            (Revoked::Known, Some(stopped), false),
            (Revoked::No, Some(stopped), false),
        ];
        for (revoked, end, expected) in rows {
            let one = AttemptState { revoked, end, ..attempt() };
            assert_eq!(one.was_lost_falsely(), expected, "{revoked:?} {end:?}");
        }
    }

    #[test]
    fn an_attempt_that_may_run_and_has_not_reported_may_have_begun_all_that_it_was_granted() {
        // It may run, its report is here, and what it may have begun: granted are 10 to 40.
        for (may_run, known, expected) in
            [(true, false, 30), (false, false, 7), (true, true, 7), (false, true, 7)]
        {
            let mut one = AttemptState { may_run, known, ..attempt() };
            one.units.before = 10;
            one.units.counters.begun = 7;
            one.units.budget = Some(Budget::new(Duration::from_secs(12), 1, 100, 10, 40));
            assert_eq!(one.may_have_begun(), expected, "{may_run} {known}");
        }
    }

    #[test]
    fn an_attempt_is_silent_after_three_quarters_of_its_lease_without_a_sign() {
        let at = |seconds| Moment::default().after(Duration::from_secs(seconds));
        let mut one = attempt();
        assert_eq!(one.silent_at(), at(9));
        one.is_alive(at(5));
        one.is_alive(at(3));
        assert_eq!(one.silent_at(), at(14), "what was heard before changes nothing");
    }
}
