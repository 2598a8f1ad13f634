//! Cores: held for a job, taken by attempts, free.
//!
//! A core is taken exactly as long as a [`CoreLease`] for it exists. There is no count of free
//! cores that could be forgotten to be raised: `free = total - held - taken` is worked out from the
//! holds and leases there are, each time. A lease belongs to its attempt and goes with it, on
//! whichever of its ways the attempt ends (EXEC-133).

use std::collections::{BTreeMap, BTreeSet};

use fence::{JobId, Moment};

use crate::message::ReservationId;

/// The right to one core, or to a share of one. It cannot be copied, and it ends by being dropped.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CoreLease {
    core: u32,
}

impl CoreLease {
    pub fn core(&self) -> u32 {
        self.core
    }
}

/// A hold's name in order. The cluster was checked at the fence, so generation and number tell
/// epochs apart.
type Name = (JobId, u32, u64, u32);

fn name(hold: &ReservationId) -> Name {
    (hold.job, hold.epoch.group.generation, hold.epoch.number, hold.number)
}

#[derive(Clone, Debug)]
struct Reservation {
    hold: ReservationId,
    /// As asked for; repeats must say the same.
    asked: u32,
    /// Not yet dispatched to. Never zero: a hold without cores is over.
    left: u32,
    until: Moment,
}

/// What was held until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reserve {
    HeldAttempt,
    /// The same hold, in the same words: it lasts longer.
    Repeat,
    /// The same hold, in other words.
    Differs,
    NoCores {
        free: u32,
    },
}

/// All holds of a worker. At most one per core, since none is empty.
#[derive(Clone, Debug)]
pub(super) struct Cores {
    total: u32,
    holds: BTreeMap<Name, Reservation>,
}

impl Cores {
    pub fn new(total: u32) -> Self {
        Self { total, holds: BTreeMap::new() }
    }

    pub fn total(&self) -> u32 {
        self.total
    }

    pub fn held(&self) -> u32 {
        self.holds.values().map(|hold| hold.left).sum()
    }

    /// What nobody holds and nobody has taken.
    pub fn free(&self, taken: &BTreeSet<u32>) -> u32 {
        let taken = u32::try_from(taken.len()).unwrap_or(u32::MAX);
        self.total.saturating_sub(self.held()).saturating_sub(taken)
    }

    /// All or nothing, in one step.
    pub fn reserve(
        &mut self,
        hold: ReservationId,
        cores: u32,
        until: Moment,
        taken: &BTreeSet<u32>,
    ) -> Reserve {
        if let Some(held) = self.holds.get_mut(&name(&hold)) {
            if held.asked != cores {
                return Reserve::Differs;
            }
            held.until = held.until.max(until);
            return Reserve::Repeat;
        }
        let free = self.free(taken);
        if cores == 0 || cores > free {
            return Reserve::NoCores { free };
        }
        self.holds.insert(name(&hold), Reservation { hold, asked: cores, left: cores, until });
        Reserve::HeldAttempt
    }

    pub fn has(&self, hold: &ReservationId) -> bool {
        self.holds.contains_key(&name(hold))
    }

    /// One core of a hold becomes an attempt's: the lowest that is free (ARCH-84).
    pub fn take(&mut self, hold: &ReservationId, taken: &BTreeSet<u32>) -> Option<CoreLease> {
        let core = (0..self.total).find(|core| !taken.contains(core))?;
        let held = self.holds.get_mut(&name(hold))?;
        held.left -= 1;
        if held.left == 0 {
            self.holds.remove(&name(hold));
        }
        Some(CoreLease { core })
    }

    /// A share of the least shared of these cores, or none if all are full. They belong to the same
    /// workflow.
    pub fn share(occupants: &BTreeMap<u32, u32>, most: u32) -> Option<CoreLease> {
        let open = occupants.iter().filter(|(_, count)| **count < most);
        open.min_by_key(|(core, count)| (**count, **core))
            .map(|(core, _)| CoreLease { core: *core })
    }

    /// False if there was no such hold.
    pub fn release(&mut self, hold: &ReservationId) -> bool {
        self.holds.remove(&name(hold)).is_some()
    }

    /// Takes out every hold that answers to this, and says which.
    pub fn release_where(
        &mut self,
        over: impl Fn(&ReservationId, Moment) -> bool,
    ) -> Vec<ReservationId> {
        let gone: Vec<ReservationId> = self
            .holds
            .values()
            .filter(|held| over(&held.hold, held.until))
            .map(|held| held.hold)
            .collect();
        for hold in &gone {
            self.holds.remove(&name(hold));
        }
        gone
    }

    pub fn of_job(&self, job: JobId) -> bool {
        self.holds.range((job, 0, 0, 0)..=(job, u32::MAX, u64::MAX, u32::MAX)).next().is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    pub fn next_due(&self) -> Option<Moment> {
        self.holds.values().map(|held| held.until).min()
    }
}
