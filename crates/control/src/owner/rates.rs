//! Changes of rates as the owner needs them: from when they hold, and what a lost attempt may have
//! begun under which.
//!
//! The rule is in [`schedule`] (rates). The owner's part: it decides the moment when it
//! proposes the change, keeps for each what is known of who has heard it, and lets the next attempt
//! at a shard begin behind all that the one before may have issued.

use std::time::Duration;

use fence::{BootId, NodeId};

use super::attempt::AttemptState;
use super::{Owner, Sid};
use crate::message::Steer;
use schedule::{self, RateChange};

/// What a workflow that runs is asked for at a moment, by its plan and by people.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadNow {
    Vus(u32),
    PerSecond(f64),
}

impl Owner {
    /// `None`: its load does not run.
    #[must_use]
    pub fn load_now(&self, number: usize) -> Option<LoadNow> {
        let part = self.spec.part(number)?;
        let wave = self.stages.load()?;
        wave.members.iter().find(|sid| sid.0 as usize == number)?;
        // The last wish of people, also if it does not hold for another moment yet.
        let set = self.control.in_force().iter().rev().find_map(|one| match one.steer {
            Steer::Vus { workflow, vus } if workflow.0 as usize == number => {
                Some(LoadNow::Vus(vus))
            }
            Steer::Rate { workflow, per_second, .. } if workflow.0 as usize == number => {
                Some(LoadNow::PerSecond(per_second))
            }
            _ => None,
        });
        let begins = part.units.lasts().map_or(Duration::ZERO, |it| part.length.saturating_sub(it));
        let t = self.schedule_time().saturating_sub(begins);
        let users = || part.units.users_at(t).map(LoadNow::Vus);
        let rate = || part.units.arrivals().map(|it| LoadNow::PerSecond(it.rate_at(t)));
        set.or_else(users).or_else(rate)
    }

    /// From when on a rate that is set now holds.
    ///
    /// # Errors
    /// If the workflow's load is over.
    pub(super) fn rate_from(&self, workflow: u32) -> Result<Duration, String> {
        let number = workflow as usize;
        let Some(part) = self.spec.part(number) else {
            return Err(format!("there is no workflow {workflow}"));
        };
        let over = || Err(format!("the load of {} is over", part.name));
        let load = self.stages.load();
        let runs = load.is_some_and(|wave| wave.members.iter().any(|sid| sid.0 == workflow));
        if !runs {
            // One that has not begun will run by it from its beginning.
            return if self.workflows.has_begun(number) { over() } else { Ok(Duration::ZERO) };
        }
        if load.is_none_or(|wave| wave.clock.is_none()) {
            return Ok(Duration::ZERO);
        }
        let now = self.schedule_time();
        if now >= part.length {
            return over();
        }
        Ok(now.saturating_add(self.spec.settings().rate_ahead))
    }

    /// The changes of a workflow's rate and their numbers, by the time of its load: without
    /// `start_after`. Whoever has not heard of one sends for no longer than `lease` after it was
    /// committed.
    fn rate_changes(&self, workflow: u32, lease: Duration) -> Vec<(u64, RateChange)> {
        let begins = self.load_begins(workflow as usize);
        let changes = self.control.in_force().iter().filter_map(|one| match one.steer {
            Steer::Rate { workflow: its, per_second, from } if its.0 == workflow => {
                let unheard_until = one.committed.saturating_add(lease).saturating_sub(begins);
                let rate = schedule::rate_per_second(per_second);
                let from = from.saturating_sub(begins);
                Some((one.number, RateChange { rate, from, unheard_until }))
            }
            _ => None,
        });
        changes.collect()
    }

    /// Rates that were set for a workflow, and since when in its load's time each holds.
    pub(super) fn rates(&self, workflow: u32) -> Vec<(plan::Rate, Duration)> {
        let changes = self.rate_changes(workflow, Duration::ZERO);
        changes.into_iter().map(|(_, change)| (change.rate, change.from)).collect()
    }

    /// Where in its schedule the load of a workflow begins.
    pub(super) fn load_begins(&self, workflow: usize) -> Duration {
        let part = self.spec.part(workflow);
        let length = part.map(|part| part.units.arrivals_for().unwrap_or(part.length));
        part.zip(length).map_or(Duration::ZERO, |(part, load)| part.length.saturating_sub(load))
    }

    /// Arrivals of a shard that an attempt which is gone may have begun by a schedule that is no
    /// longer in force: it had not said yet that it knew the changes, of a rate or a pause. What
    /// the present schedule has had so far is spent in any case, and is not looked at here if there
    /// is nothing else.
    pub(super) fn begun_by_old_rates(&self, sid: Sid, one: &AttemptState) -> u64 {
        match one.may_run && !one.known {
            true => one.units.before_rates.max(self.unheard_rates(sid, one)),
            false => 0,
        }
    }

    /// A worker is about to be known to follow the present rates. What its attempts may have begun
    /// before stays begun.
    pub(super) fn note_old_rates(&mut self, worker: NodeId, boot: BootId) {
        let sids = self.shards.sids();
        for sid in sids {
            let one = self.shards.current(&sid);
            let here = one.filter(|one| one.life() == (worker, boot) && one.may_run);
            let Some(begun) = here.map(|one| self.unheard_rates(sid, one)) else { continue };
            if let Some(one) = self.shards.get_mut(&sid).and_then(|shard| shard.attempts.last_mut())
            {
                one.units.before_rates = one.units.before_rates.max(begun);
            }
        }
    }

    fn unheard_rates(&self, sid: Sid, one: &AttemptState) -> u64 {
        if self.control.number() == 0 {
            return 0;
        }
        let Some(part) = self.spec.part(sid.0 as usize) else { return 0 };
        let Some(planned) = part.units.arrivals() else { return 0 };
        let shards = self.workflows.shards(sid.0 as usize);
        let Some(shards) = shards.filter(|count| *count > sid.1) else {
            return 0;
        };
        let heard = self.control.heard_by(one.life());
        let lease = one.lease.length().saturating_add(self.spec.settings().clocks_differ);
        let changes = self.rate_changes(sid.0, lease);
        let known = changes.iter().filter(|(number, _)| *number <= heard).count();
        // In a pause that it has not heard of, its clock has gone on.
        let ahead = match self.control.may_miss_a_pause(one.life()) {
            true => self.paused_in_all().min(lease),
            false => Duration::ZERO,
        };
        if known == changes.len() && ahead.is_zero() {
            return 0;
        }
        let changes: Vec<RateChange> = changes.into_iter().map(|(_, change)| change).collect();
        let elapsed = self.schedule_time().saturating_sub(self.load_begins(sid.0 as usize));
        let t = elapsed.saturating_add(ahead);
        let begun = schedule::begun_at_most(&planned, &changes, known, t);
        schedule::share(begun, sid.1 as usize, shards as usize)
    }

    /// For how long a shard that was started again sends nothing yet, because its schedule has to
    /// come up to what the attempt before may have issued at a higher rate.
    pub(super) fn waits_for_rate(&self, sid: Sid) -> Duration {
        let workflow = sid.0 as usize;
        let part = self.spec.part(workflow);
        let Some(planned) = part.and_then(|part| part.units.arrivals()) else {
            return Duration::ZERO;
        };
        let one = self.shards.current(&sid);
        let (Some(one), Some(shards)) = (one, self.workflows.shards(workflow)) else {
            return Duration::ZERO;
        };
        let arrivals = planned.with_rates(self.rates(sid.0));
        let elapsed = self.schedule_time().saturating_sub(self.load_begins(workflow));
        let of_shard = |unit: u64| unit.saturating_mul(u64::from(shards)) + u64::from(sid.1);
        let due = arrivals.count_before(elapsed);
        let due = schedule::share(due, sid.1 as usize, shards as usize);
        let time = |unit: u64| arrivals.time_of(of_shard(unit));
        match (time(due), time(one.units.before)) {
            (Some(planned), Some(first)) => first.saturating_sub(planned),
            _ => Duration::ZERO,
        }
    }

    /// For how long this wave's schedule has stood still, as far as is known.
    fn paused_in_all(&self) -> Duration {
        let clock = self.stages.clock();
        let standing = self.control.standing(self.time.now());
        let before = self.recovery.paused_most();
        clock.map_or(Duration::ZERO, |clock| clock.paused) + standing + before
    }
}
