//! How much a load is, where the plan says so: for those who have to know what nobody has run.

use std::time::Duration;

use plan::{Executor, Rate};
use serde::{Deserialize, Serialize};

use super::{Arrivals, share, vus};

/// What a workflow's load is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Units {
    /// As many iterations as so many users have time for: their number at first, then stages of
    /// (to, over).
    Users { start: u32, stages: Vec<(u32, Duration)> },
    /// So many iterations, shared by all users.
    Shared { vus: u32, iterations: u64 },
    /// So many iterations of each user.
    PerVu { vus: u32, iterations: u64 },
    /// Arrivals: events and the time that they are per, then stages of (events, per, over).
    Arrivals { start: (u64, Duration), stages: Vec<(u64, Duration, Duration)> },
}

impl Default for Units {
    /// Nothing is known of it.
    fn default() -> Self {
        Self::Users { start: 0, stages: Vec::new() }
    }
}

impl Units {
    #[must_use]
    pub fn of(executor: &Executor) -> Self {
        match executor {
            Executor::ConstantVus { vus, duration } => {
                Self::Users { start: *vus, stages: vec![(*vus, *duration)] }
            }
            Executor::RampingVus { start, stages, .. } => Self::Users {
                start: *start,
                stages: stages.iter().map(|one| (one.to, one.over)).collect(),
            },
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

    /// The users and the iterations of a shard, where these are counted. One without a user could
    /// not do any.
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
            Self::Users { .. } | Self::Arrivals { .. } => None,
        }
    }

    /// The arrivals of an open model, as planned.
    #[must_use]
    pub fn arrivals(&self) -> Option<Arrivals> {
        let Self::Arrivals { start, stages } = self else { return None };
        // A rate of nothing per no time says nothing.
        if start.1.is_zero() || stages.iter().any(|(_, per, _)| per.is_zero()) {
            return None;
        }
        let rate = |(events, per): (u64, Duration)| Rate { events, per };
        let stages: Vec<_> =
            stages.iter().map(|(events, per, over)| (rate((*events, *per)), *over)).collect();
        Some(Arrivals::from_stages(rate(*start), &stages))
    }

    /// The length of an open model's load.
    #[must_use]
    pub fn arrivals_for(&self) -> Option<Duration> {
        match self {
            Self::Arrivals { stages, .. } => Some(stages.iter().map(|(.., over)| *over).sum()),
            Self::Users { .. } | Self::Shared { .. } | Self::PerVu { .. } => None,
        }
    }

    /// The users of a closed model at a moment of its load; `None` for arrivals.
    #[must_use]
    pub fn users_at(&self, t: Duration) -> Option<u32> {
        match self {
            Self::Users { start, stages } => Some(vus::users_at(*start, stages.iter().copied(), t)),
            Self::Shared { vus, .. } | Self::PerVu { vus, .. } => Some(*vus),
            Self::Arrivals { .. } => None,
        }
    }

    /// How long the load lasts, where its stages say so.
    #[must_use]
    pub fn lasts(&self) -> Option<Duration> {
        match self {
            Self::Users { stages, .. } => Some(stages.iter().map(|(_, over)| *over).sum()),
            Self::Arrivals { .. } => self.arrivals_for(),
            Self::Shared { .. } | Self::PerVu { .. } => None,
        }
    }

    /// What one of so many shards has to run, up to this time of the schedule and under these
    /// changes of its rate. Counted iterations have no time: all of them are meant to run. `None`:
    /// the plan does not say.
    #[must_use]
    pub fn of_shard(
        &self,
        shard: u32,
        shards: u32,
        until: Duration,
        rates: &[(Rate, Duration)],
    ) -> Option<u64> {
        let (shard, shards) = (shard as usize, shards as usize);
        if shard >= shards {
            return None;
        }
        match self {
            Self::Users { .. } => None,
            Self::Shared { .. } | Self::PerVu { .. } => {
                self.counted(shard, shards).map(|(_, iterations)| iterations)
            }
            Self::Arrivals { .. } => {
                let arrivals = self.arrivals()?.with_rates(rates.iter().copied());
                Some(share(arrivals.count_before(until), shard, shards))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn users_follow_their_stages_and_arrivals_have_none() {
        let ramp = Units::Users { start: 0, stages: vec![(10, 10 * SECOND), (2, 4 * SECOND)] };
        let at = |seconds: u32| ramp.users_at(seconds * SECOND);
        assert_eq!([at(0), at(5), at(10), at(12)].map(Option::unwrap), [0, 5, 10, 6]);
        assert_eq!((at(14), ramp.lasts()), (Some(0), Some(14 * SECOND)), "it is over");
        assert_eq!(Units::PerVu { vus: 5, iterations: 7 }.users_at(SECOND), Some(5));
        let arrivals = Units::Arrivals { start: (70, SECOND), stages: vec![(70, SECOND, SECOND)] };
        assert_eq!((arrivals.users_at(SECOND), arrivals.lasts()), (None, Some(SECOND)));
    }

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
                let parts =
                    (0..shards).map(|shard| units.of_shard(shard, shards, 60 * SECOND, &[]));
                assert_eq!(parts.map(Option::unwrap).sum::<u64>(), whole, "{units:?} in {shards}");
            }
        }
        let due = |rates: &[(Rate, Duration)]| arrivals.of_shard(0, 1, 3 * SECOND, rates);
        assert_eq!(due(&[]), Some(210), "those that were due by then");
        let rate = |events| Rate { events, per: SECOND };
        assert_eq!(due(&[(rate(10), SECOND), (rate(40), 2 * SECOND)]), Some(70 + 10 + 40));
        assert_eq!(Units::default().of_shard(0, 1, SECOND, &[]), None);
        assert_eq!(Units::PerVu { vus: 1, iterations: 1 }.of_shard(3, 2, SECOND, &[]), None);
    }
}
