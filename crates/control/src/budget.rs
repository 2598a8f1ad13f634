//! How far an attempt that counts iterations may go (R5a, R28).
//!
//! An iteration must not be begun twice, and nobody can ask a machine that is gone how far it had
//! come. So an attempt goes only as far as the ledger says: the owner grants it a stretch ahead,
//! each grant is an entry before the worker hears of it, and whoever takes over reads the end of
//! the last one. What a lost attempt may have begun lies below that end, and is never begun again.
//!
//! ```text
//!      begun            taken          end of the grant
//! ───────┤████████████████┤╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┤
//!                         ├─ 3/4 L at least ─┤   refilled up to 5/4 L at the present pace
//! ```
//!
//! **Why three quarters of a lease.** Load has to go on while a job changes hands, and a handover
//! takes less than that. Where nobody can renew leases either, load stops after one lease anyway. A
//! longer reach would only make more of what is lost with a worker.
//!
//! The first stretch is short, because nothing is known of the pace, and a worker that comes to its
//! end says so at once.
//!
//! **The pace is measured by the attempt's own time.** After a takeover or a cut, seconds of frames
//! arrive within milliseconds, and by the time of their arrival an attempt would look a hundred
//! times as fast as it is. Whatever it is granted by mistake is lost with its worker.

use std::collections::VecDeque;
use std::time::Duration;

use fence::Moment;

/// Iterations that each user may begin before anything is known of the attempt.
const FIRST_PER_USER: u64 = 4;
const FIRST_MIN: u64 = 16;
/// The pace is measured over this time.
const PACE_OVER: Duration = Duration::from_millis(1_500);
/// Readings are at least so far apart.
const READINGS_APART: Duration = Duration::from_millis(20);
/// Over less than this, the pace is noise: users that started together come to their ends together.
const PACE_OVER_MIN: Duration = Duration::from_millis(100);
/// An attempt that used up a stretch before its pace was known gets one that is so many times as
/// long.
const GROWTH: u64 = 4;
/// With each reading the highest pace so far counts a little less.
const FADE_PERCENT: u64 = 97;

/// The end of the first stretch of an attempt that has so many users, behind what was begun before
/// it.
#[must_use]
pub fn first(before: u64, users: u64) -> u64 {
    before.saturating_add(users.saturating_mul(FIRST_PER_USER).max(FIRST_MIN))
}

/// The owner's side: what one attempt was granted, and when it needs more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    lease: Duration,
    users: u64,
    /// Units that there are.
    whole: u64,
    /// In the ledger.
    end: u64,
    /// Proposed to it.
    asked: Option<u64>,
    taken: u64,
    readings: VecDeque<Reading>,
    /// Units in a thousand seconds.
    pace: u64,
    /// How many units the last stretch had, and when it was granted by this owner.
    stretch: u64,
    granted_at: Option<Moment>,
}

/// How far an attempt had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    arrived: Moment,
    /// The schedule time up to which the attempt had told what it took.
    told: Duration,
    taken: u64,
}

impl Reading {
    /// What arrives late tells of more time than passes between two arrivals, and what comes within
    /// one window of the statistics of less.
    fn since(&self, earlier: &Reading) -> Duration {
        let arrived = self.arrived.since(earlier.arrived);
        arrived.max(self.told.saturating_sub(earlier.told))
    }
}

impl Budget {
    /// `whole`: all units of the shard. `taken`: as far as is known. `end`: as the ledger has it.
    #[must_use]
    pub fn new(lease: Duration, users: u64, whole: u64, taken: u64, end: u64) -> Self {
        Self {
            lease,
            users: users.max(1),
            whole,
            end,
            asked: None,
            taken,
            readings: VecDeque::new(),
            pace: 0,
            stretch: end.saturating_sub(taken),
            granted_at: None,
        }
    }

    /// Units below it may have been begun.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The attempt has taken so many units, those of attempts before it included. `told`: the
    /// schedule time up to which it has told.
    pub fn heard(&mut self, taken: u64, told: Duration, now: Moment) {
        self.taken = self.taken.max(taken);
        let last = self.readings.back();
        if last.is_some_and(|last| now.since(last.arrived) < READINGS_APART && told <= last.told) {
            return;
        }
        let reading = Reading { arrived: now, told, taken: self.taken };
        self.readings.push_back(reading);
        while self.readings.len() > 2
            && self.readings.get(1).is_some_and(|second| reading.since(second) >= PACE_OVER)
        {
            self.readings.pop_front();
        }
        let Some(first) = self.readings.front() else { return };
        let time = reading.since(first);
        if time < PACE_OVER_MIN {
            return;
        }
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        let measured = (self.taken - first.taken).saturating_mul(1_000_000) / millis;
        self.pace = measured.max(self.pace.saturating_mul(FADE_PERCENT) / 100);
    }

    /// The end of the next grant, if it is time for one. It is said once, until
    /// [`granted`](Self::granted).
    pub fn due(&mut self, now: Moment) -> Option<u64> {
        if self.asked.is_some() {
            return None;
        }
        let left = self.end.saturating_sub(self.taken);
        let enough = self.lasting(self.lease * 3 / 4).saturating_add(self.users);
        if left >= enough {
            return None;
        }
        let mut stretch = self.lasting(self.lease * 5 / 4).saturating_add(self.users);
        if left == 0 && self.was_used_up_early(now) {
            stretch = stretch.max(self.stretch.saturating_mul(GROWTH));
        }
        let end = self.taken.saturating_add(stretch).min(self.whole);
        if end <= self.end {
            return None;
        }
        self.stretch = stretch;
        self.asked = Some(end);
        self.asked
    }

    /// The pace is higher than what was measured. Not so where nobody granted anything for longer
    /// than a stretch is meant to last.
    fn was_used_up_early(&self, now: Moment) -> bool {
        match self.granted_at {
            Some(at) => now.since(at) < self.lease * 3 / 4,
            None => self.pace == 0,
        }
    }

    /// The grant is in the ledger. True: the attempt has not heard of it before.
    pub fn granted(&mut self, end: u64, now: Moment) -> bool {
        self.asked = None;
        let more = end > self.end;
        if more {
            self.granted_at = Some(now);
        }
        self.end = self.end.max(end);
        more
    }

    /// It was not written; the next look asks again.
    pub fn refused(&mut self) {
        self.asked = None;
    }

    fn lasting(&self, time: Duration) -> u64 {
        let millis = u128::from(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        u64::try_from(u128::from(self.pace) * millis / 1_000_000).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const L: Duration = Duration::from_secs(6);

    fn at(ms: u64) -> Moment {
        Moment::since_boot(millis(ms))
    }

    fn millis(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Ten readings a second at a steady pace, every grant written at once.
    fn run(budget: &mut Budget, from_ms: u64, to_ms: u64, per_second: u64) -> Vec<u64> {
        let mut ends = Vec::new();
        let mut taken = budget.taken;
        for ms in (from_ms..to_ms).step_by(100) {
            taken = (taken + per_second / 10).min(budget.end());
            budget.heard(taken, millis(ms), at(ms));
            if let Some(end) = budget.due(at(ms)) {
                budget.granted(end, at(ms));
                ends.push(end);
            }
        }
        ends
    }

    #[test]
    fn the_first_stretch_is_short_and_grows_with_the_users() {
        assert_eq!(first(0, 1), 16);
        assert_eq!(first(100, 50), 300);
    }

    #[test]
    fn a_steady_attempt_always_has_three_quarters_of_a_lease_ahead() {
        let mut budget = Budget::new(L, 6, u64::MAX, 0, first(0, 6));
        run(&mut budget, 0, 3_000, 60);
        for second in 3..20 {
            run(&mut budget, second * 1_000, (second + 1) * 1_000, 60);
            let ahead = budget.end() - budget.taken;
            assert!((60 * 9 / 2..=60 * 15 / 2 + 12).contains(&ahead), "{ahead} at {second} s");
        }
    }

    #[test]
    fn grants_are_few() {
        let mut budget = Budget::new(L, 6, u64::MAX, 0, first(0, 6));
        run(&mut budget, 0, 3_000, 60);
        let ends = run(&mut budget, 3_000, 33_000, 60);
        assert!(ends.len() <= 12, "{} in 30 s", ends.len());
    }

    #[test]
    fn a_fast_attempt_is_not_held_up_for_long() {
        let mut budget = Budget::new(L, 50, u64::MAX, 0, first(0, 50));
        let mut rounds = 0;
        while budget.end() < 1_000_000 {
            rounds += 1;
            // It comes to the end of each stretch, and says so 20 ms later.
            let ms = rounds * 20;
            budget.heard(budget.end(), millis(ms / 100 * 100), at(ms));
            let end = budget.due(at(ms)).expect("it waits");
            budget.granted(end, at(ms));
        }
        assert!(rounds <= 6, "{rounds} round trips");
    }

    #[test]
    fn a_stall_does_not_make_the_next_grant_a_trickle() {
        let mut budget = Budget::new(L, 2, u64::MAX, 0, first(0, 2));
        run(&mut budget, 0, 5_000, 100);
        let end = budget.end();
        // No owner for ten seconds; then the first word says that everything granted was taken.
        budget.heard(end, millis(15_000), at(15_000));
        let next = budget.due(at(15_000)).expect("it waits");
        assert!((450..900).contains(&(next - end)), "{}", next - end);
    }

    /// Ten seconds of frames that nobody took, 100 ms each, arrive 2 ms apart after a takeover.
    #[test]
    fn a_backlog_does_not_look_like_a_high_pace() {
        let mut budget = Budget::new(L, 6, u64::MAX, 100, 400);
        for frame in 0..100u64 {
            let (ms, told) = (20_000 + frame * 2, millis(10_000 + frame * 100));
            budget.heard(100 + (frame + 1) * 3, told, at(ms));
            if let Some(end) = budget.due(at(ms)) {
                budget.granted(end, at(ms));
            }
        }
        let ahead = budget.end() - budget.taken;
        assert!((135..=30 * 15 / 2 + 12).contains(&ahead), "{ahead} ahead at 30 a second");
    }

    #[test]
    fn users_that_end_together_do_not_look_like_a_high_pace() {
        let mut budget = Budget::new(L, 6, u64::MAX, 0, first(0, 6));
        budget.heard(6, millis(100), at(110));
        budget.heard(12, millis(100), at(135));
        assert_eq!(budget.due(at(135)), None);
        budget.heard(12, millis(200), at(210));
        let end = budget.due(at(210)).unwrap();
        assert!(end < 700, "{end}");
    }

    #[test]
    fn nobody_is_granted_more_than_there_is() {
        let mut budget = Budget::new(L, 10, 50, 0, 40);
        budget.heard(40, millis(0), at(0));
        assert_eq!(budget.due(at(0)), Some(50));
        budget.granted(50, at(0));
        budget.heard(50, millis(100), at(100));
        assert_eq!(budget.due(at(100)), None);
    }

    #[test]
    fn one_grant_is_under_way_at_a_time() {
        let mut budget = Budget::new(L, 2, u64::MAX, 0, 10);
        budget.heard(10, millis(0), at(0));
        let end = budget.due(at(0)).unwrap();
        assert_eq!(budget.due(at(0)), None);
        assert!(budget.granted(end, at(0)));
        assert!(!budget.granted(end, at(0)), "once");
        budget.heard(end, millis(100), at(100));
        assert!(budget.due(at(100)).is_some());
        budget.refused();
        assert!(budget.due(at(100)).is_some(), "again");
    }

    proptest! {
        /// Whatever is heard, in whatever order: an end never goes back, and an attempt that waits
        /// is given more.
        #[test]
        fn ends_only_rise_and_nobody_waits_for_ever(
            users in 1u64..1_000,
            steps in prop::collection::vec((0u64..2_000, 0u64..10_000), 1..100),
        ) {
            let mut budget = Budget::new(L, users, u64::MAX, 0, first(0, users));
            let mut ms = 0;
            for (wait, take) in steps {
                ms += wait;
                let before = budget.end();
                let taken = budget.taken.saturating_add(take).min(before);
                budget.heard(taken, millis(ms / 3), at(ms));
                if let Some(end) = budget.due(at(ms)) {
                    prop_assert!(end > before);
                    budget.granted(end, at(ms));
                }
                prop_assert!(budget.end() >= before);
                prop_assert!(budget.end() > taken, "it waits at {taken}");
            }
        }
    }
}
