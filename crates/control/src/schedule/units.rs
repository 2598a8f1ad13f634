//! How much a load is, where the plan says so: for those who have to know what nobody has run.

use std::time::Duration;

use plan::{Executor, Rate};
use serde::{Deserialize, Serialize};

use super::{Arrivals, share};

/// What a workflow's load is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Units {
    /// As many iterations as there is time for.
    #[default]
    Endless,
    /// So many iterations, shared by all users.
    Shared { vus: u32, iterations: u64 },
    /// So many iterations of each user.
    PerVu { vus: u32, iterations: u64 },
    /// Arrivals: events and the time that they are per, then stages of (events, per, over).
    Arrivals { start: (u64, Duration), stages: Vec<(u64, Duration, Duration)> },
}

impl Units {
    #[must_use]
    pub fn of(executor: &Executor) -> Self {
        match executor {
            Executor::ConstantVus { .. } | Executor::RampingVus { .. } => Self::Endless,
            Executor::SharedIterations { vus, iterations, .. } => {
                Self::Shared { vus: *vus, iterations: *iterations }
            }
            Executor::PerVuIterations { vus, iterations, .. } => {
                Self::PerVu { vus: *vus, iterations: *iterations }
            }
            Executor::ConstantArrivalRate { rate, duration, .. } => Self::Arrivals {
                start: (rate.events, rate.per),
                stages: vec![(rate.events, rate.per, *duration)],
            },
            Executor::RampingArrivalRate { start, stages, .. } => Self::Arrivals {
                start: (start.events, start.per),
                stages: stages.iter().map(|one| (one.to.events, one.to.per, one.over)).collect(),
            },
        }
    }

    /// The load ends with its last iteration.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        matches!(self, Self::Shared { .. } | Self::PerVu { .. })
    }

    /// Arrivals at a rate, rather than users that do the same over and over.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Arrivals { .. })
    }

    /// The users and the iterations of a shard, where these are counted. One without a user could not do any.
    #[must_use]
    pub fn counted(&self, shard: usize, shards: usize) -> Option<(u64, u64)> {
        match self {
            Self::Shared { vus, iterations } => {
                let with_users = shards.min(*vus as usize).max(1);
                let own = (shard < with_users).then(|| share(*iterations, shard, with_users));
                Some((share(u64::from(*vus), shard, shards), own.unwrap_or(0)))
            }
            Self::PerVu { vus, iterations } => {
                let users = share(u64::from(*vus), shard, shards);
                Some((users, users.saturating_mul(*iterations)))
            }
            Self::Endless | Self::Arrivals { .. } => None,
        }
    }

    /// What one of so many shards has to run, up to this time of the schedule. Counted iterations have no time: all of
    /// them are meant to run. `None`: the plan does not say.
    #[must_use]
    pub fn of_shard(&self, shard: u32, shards: u32, until: Duration) -> Option<u64> {
        let (shard, shards) = (shard as usize, shards as usize);
        if shard >= shards {
            return None;
        }
        match self {
            Self::Endless => None,
            Self::Shared { .. } | Self::PerVu { .. } => {
                self.counted(shard, shards).map(|(_, iterations)| iterations)
            }
            Self::Arrivals { start, stages } => {
                // A rate of nothing per no time says nothing.
                let rate = |(events, per): (u64, Duration)| Rate { events, per };
                if start.1.is_zero() || stages.iter().any(|(_, per, _)| per.is_zero()) {
                    return None;
                }
                let stages: Vec<_> = stages
                    .iter()
                    .map(|(events, per, over)| (rate((*events, *per)), *over))
                    .collect();
                let due = Arrivals::from_stages(rate(*start), &stages).count_before(until);
                Some(share(due, shard, shards))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_shards_of_a_load_add_up_to_all_of_it() {
        let arrivals =
            Units::Arrivals { start: (70, SECOND), stages: vec![(70, SECOND, 10 * SECOND)] };
        let loads = [
            (Units::Shared { vus: 5, iterations: 1_003 }, 1_003),
            (Units::Shared { vus: 2, iterations: 1_003 }, 1_003),
            (Units::PerVu { vus: 5, iterations: 7 }, 35),
            (arrivals.clone(), 700),
        ];
        for (units, whole) in loads {
            for shards in 1..7 {
                let parts = (0..shards).map(|shard| units.of_shard(shard, shards, 60 * SECOND));
                assert_eq!(parts.map(Option::unwrap).sum::<u64>(), whole, "{units:?} in {shards}");
            }
        }
        assert_eq!(arrivals.of_shard(0, 1, 3 * SECOND), Some(210), "those that were due by then");
        assert_eq!(Units::Endless.of_shard(0, 1, SECOND), None);
        assert_eq!(Units::PerVu { vus: 1, iterations: 1 }.of_shard(3, 2, SECOND), None);
    }
}
