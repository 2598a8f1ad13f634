//! Rates that people set while a load runs: one schedule in pieces, the same for everybody who
//! computes it.
//!
//! ```text
//! rate   60/s ──────────┬─ 120/s ─────────────────       changes: (120/s, from 4 s), in the order they were made
//! t      0              4 s                    22 s
//! number 0 1 2 …     239│240 241 …            2,399      arrivals of before keep their numbers
//! ```
//!
//! **The moment is decided once.** A change holds from a time of its workflow's schedule on, in
//! which pauses do not count. Whoever leads the load chooses it when the change is made, a little
//! ahead of where the schedule stands, and it rises from change to change. All changes are kept, in
//! their order. Each reader (a shard, one that joins, the owner who counts what nobody has run)
//! puts all of them on top of the plan's schedule, so an arrival's number and time follow from the
//! plan and the changes alone. A rate that was set holds to the planned end, over the stages of a
//! ramp too.
//!
//! **Who hears late** has gone on at the old rate beyond the moment. What it has issued is spent.
//! It goes on with its next number at the time which the new schedule has for that: at once if that
//! is past, as after any stall, with the delay charged to the latency; or later, when the schedule
//! has come up to it. The numbers of a shard only rise, and arrival `i` is shard `i mod n`'s under
//! every rate, so no number is issued twice, and in the end all have issued the same ones.
//!
//! **Who joins** issues nothing that the whole schedule has before the moment of joining, whenever
//! it hears of a change, nor what an attempt before it may have issued by an older schedule
//! ([`begun_at_most`]). That is bounded, because every renewal of a lease brings the changes:
//! whoever has not heard of one sends for no longer than a lease.

use std::time::Duration;

use plan::Rate;

use super::Arrivals;

/// Changes of one workflow's rate that are kept; a further one is refused.
pub const RATE_CHANGES_MAX: usize = 256;
/// Between two changes of a rate there is this much time of the schedule, at least.
pub const RATE_CHANGES_APART: Duration = Duration::from_millis(1);

/// A rate that somebody has set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateChange {
    pub rate: Rate,
    /// From this time of the schedule on.
    pub from: Duration,
    /// Whoever has not heard of it by then sends nothing any more.
    pub unheard_until: Duration,
}

/// A rate as people say it, in thousandths of an event: the same for all who compute with it.
#[must_use]
pub fn rate_per_second(per_second: f64) -> Rate {
    let events = (per_second * 1000.0).round().max(1.0) as u64;
    Rate { events, per: Duration::from_secs(1000) }
}

impl Arrivals {
    /// This schedule under changes of its rate, which are given in order.
    #[must_use]
    pub fn with_rates(&self, changes: impl IntoIterator<Item = (Rate, Duration)>) -> Arrivals {
        changes.into_iter().fold(self.clone(), |known, (rate, from)| known.with_rate(rate, from))
    }
}

/// Arrivals with lower numbers may have been issued by time `t`, by attempts that have heard of the
/// first `heard` changes for certain and perhaps of more.
#[must_use]
pub fn begun_at_most(planned: &Arrivals, changes: &[RateChange], heard: usize, t: Duration) -> u64 {
    let heard = heard.min(changes.len());
    let mut known = planned.with_rates(changes[..heard].iter().map(|one| (one.rate, one.from)));
    let mut most = 0;
    for change in &changes[heard..] {
        most = most.max(known.count_before(t.min(change.unheard_until)));
        known = known.with_rate(change.rate, change.from);
    }
    most.max(known.count_before(t))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::tables::{arrivals, constant_rate, ms, per_second, ramping_rate, s};
    use crate::{Shard, share};

    const LENGTH: Duration = Duration::from_secs(20);

    fn change(events: u64, from: Duration, unheard_until: Duration) -> RateChange {
        RateChange { rate: per_second(events), from, unheard_until }
    }

    #[test]
    fn arrivals_before_a_change_keep_their_numbers_and_the_total_is_the_integral() {
        let planned = arrivals(&constant_rate(per_second(60), s(22)));
        let scaled = planned.with_rates([(per_second(120), s(4)), (per_second(30), s(10))]);
        for (t, due) in [(1, 60), (4, 240), (5, 360), (10, 960), (11, 990), (22, 1_320)] {
            assert_eq!(scaled.count_before(s(t)), due, "before {t} s");
        }
        assert_eq!(scaled.total(), 1_320);
        // A rate that is set holds over the stages of a ramp, to the planned end.
        let ramp = arrivals(&ramping_rate(per_second(0), &[(per_second(100), s(10))]));
        let scaled = ramp.with_rates([(per_second(10), s(5))]);
        assert_eq!((scaled.count_before(s(5)), scaled.total()), (125, 125 + 50));
    }

    #[test]
    fn who_hears_late_goes_on_with_its_next_number_when_the_schedule_has_come_to_it() {
        let planned = arrivals(&constant_rate(per_second(10), s(10)));
        let issue = |shard: &mut Shard, t: Duration| {
            while shard.peek().is_some_and(|(_, at)| at < t) {
                shard.next();
            }
        };
        let mut slow = planned.shard(0, 1);
        issue(&mut slow, s(4));
        assert_eq!(slow.follow(&[(per_second(5), s(2))]), 0, "nothing is taken back");
        assert_eq!(slow.peek(), Some((40, s(6))), "20 by the old rate, 20 more by the new one");
        let mut fast = planned.shard(0, 1);
        issue(&mut fast, s(4));
        fast.follow(&[(per_second(20), s(2))]);
        assert_eq!(fast.peek(), Some((40, s(3))), "it is late, and goes on at once");
    }

    #[test]
    fn who_joins_issues_nothing_of_before_whenever_it_hears_of_a_change() {
        let planned = arrivals(&constant_rate(per_second(10), s(10)));
        let changes = [(per_second(20), s(2))];
        let mut early = planned.shard(0, 1);
        assert_eq!(early.follow(&changes) + early.join(s(4), 0), 60);
        let mut late = planned.shard(0, 1);
        assert_eq!(late.join(s(4), 0), 40);
        assert_eq!(late.follow(&changes), 20, "those of the new rate were due before, too");
        assert_eq!(early.peek(), late.peek());
    }

    #[test]
    fn what_an_attempt_may_have_begun_is_bounded_by_what_it_has_heard() {
        let planned = arrivals(&constant_rate(per_second(100), s(100)));
        let changes = [change(10, s(10), s(17)), change(20, s(30), s(37))];
        // It knew everything; it may not have heard of the last; of neither.
        for (heard, t, begun) in [
            (2, 12, 1_020),
            (1, 40, 1_200 + 200),
            (0, 12, 1_200),
            (0, 17, 1_700),
            (0, 40, 1_700),
            (0, 100, 1_200 + 1_400),
        ] {
            assert_eq!(begun_at_most(&planned, &changes, heard, s(t)), begun, "{heard} at {t} s");
        }
    }

    /// Changes in order, each after the one before.
    fn any_changes() -> impl Strategy<Value = Vec<(Rate, Duration)>> {
        let one = (0..200u64, 0..20_000u64);
        prop::collection::vec(one, 0..5).prop_map(|mut changes| {
            changes.sort_by_key(|(_, from)| *from);
            changes.dedup_by_key(|(_, from)| *from);
            changes.into_iter().map(|(events, from)| (per_second(events), ms(from))).collect()
        })
    }

    /// One attempt: until when it sends, and how late it hears of each change.
    type Attempt = (u64, Vec<u64>);

    fn any_attempts() -> impl Strategy<Value = Vec<Attempt>> {
        prop::collection::vec((0..20_000u64, prop::collection::vec(0..4_000u64, 5)), 0..3)
    }

    /// Goes on to `t`, hearing of each change when it does.
    fn issue(
        shard: &mut Shard,
        changes: &[(Rate, Duration)],
        late: &[u64],
        t: Duration,
    ) -> Vec<u64> {
        let mut issued = Vec::new();
        let heard_at = |place: usize| changes[place].1 + ms(late[place]);
        let mut heard = 0;
        loop {
            // A later change brings those before it.
            let next = (heard..changes.len()).map(|place| (heard_at(place), place)).min();
            let until = next.map_or(t, |(at, _)| at.min(t));
            while let Some((number, at)) = shard.peek().filter(|(_, at)| *at < until) {
                assert_eq!(shard.next(), Some((number, at)));
                issued.push(number);
            }
            match next {
                Some((at, place)) if at < t => heard = place + 1,
                _ => return issued,
            }
            shard.follow(&changes[..heard]);
        }
    }

    proptest! {
        #[test]
        fn no_number_is_issued_twice_over_shards_and_attempts(
            changes in any_changes(), lives in prop::collection::vec(any_attempts(), 1..4),
        ) {
            let planned = arrivals(&constant_rate(per_second(50), LENGTH));
            let bounds: Vec<RateChange> = changes
                .iter()
                .map(|&(rate, from)| RateChange { rate, from, unheard_until: from + s(4) })
                .collect();
            let shards = lives.len();
            let mut seen = BTreeSet::new();
            for (number, mut attempts) in lives.into_iter().enumerate() {
                attempts.sort();
                let mut last = 0;
                // The last attempt of all hears in time and runs to the end.
                attempts.push((40_000, vec![0; 5]));
                let mut joined = Duration::ZERO;
                for (place, (until, late)) in attempts.iter().enumerate() {
                    let mut shard = planned.shard(number, shards);
                    // By then the one before is gone; nobody knows what it had heard.
                    let spent = match place {
                        0 => 0,
                        _ => share(begun_at_most(&planned, &bounds, 0, joined), number, shards),
                    };
                    let known: Vec<_> =
                        changes.iter().copied().filter(|(_, from)| *from < joined).collect();
                    let skipped = shard.follow(&known) + shard.join(joined, spent);
                    let first = skipped * shards as u64 + number as u64;
                    prop_assert!(first >= last, "{first} follows {last}");
                    let end = ms(*until).max(joined);
                    let issued = if place == 0 {
                        issue(&mut shard, &changes, late, end)
                    } else {
                        // A start brings all that was changed before.
                        let late: Vec<u64> = (0..5).map(|at| if at < known.len() { 0 } else { late[at] }).collect();
                        issue(&mut shard, &changes, &late, end)
                    };
                    for i in issued {
                        prop_assert_eq!(i % shards as u64, number as u64);
                        prop_assert!(seen.insert(i), "{i} was issued twice");
                        last = i + 1;
                    }
                    joined = end;
                }
            }
        }

        #[test]
        fn shards_that_hear_late_issue_what_one_would_that_heard_in_time(
            changes in any_changes(), shards in 1..4usize, late in prop::collection::vec(0..4_000u64, 5),
        ) {
            let planned = arrivals(&constant_rate(per_second(50), LENGTH));
            let whole = planned.with_rates(changes.iter().copied());
            let most = (0..=changes.len())
                .map(|heard| planned.with_rates(changes[..heard].iter().copied()).total());
            let most = most.max().unwrap_or(0);
            let mut all: Vec<u64> = (0..shards)
                .flat_map(|number| issue(&mut planned.shard(number, shards), &changes, &late, 4 * LENGTH))
                .collect();
            all.sort_unstable();
            let wanted: Vec<u64> = (0..all.len() as u64).collect();
            prop_assert_eq!(&all, &wanted, "each number once");
            // Who hears of a slower rate when little time is left may have issued more than that
            // has in all.
            prop_assert!((whole.total()..=most).contains(&(all.len() as u64)));
        }

        #[test]
        fn joining_at_any_time_yields_a_suffix_of_the_same_numbering(
            changes in any_changes(), at in 0..25_000u64, shards in 1..4usize, number in 0..4usize,
        ) {
            let number = number % shards;
            let planned = arrivals(&constant_rate(per_second(50), LENGTH));
            let mut first = planned.shard(number, shards);
            first.follow(&changes);
            let all: Vec<_> = first.collect();
            let mut joined = planned.shard(number, shards);
            joined.follow(&changes);
            let skipped = joined.join(ms(at), 0) as usize;
            prop_assert_eq!(&joined.collect::<Vec<_>>()[..], &all[skipped..]);
            prop_assert!(all[..skipped].iter().all(|(_, time)| *time < ms(at)));
            prop_assert!(all[skipped..].iter().all(|(_, time)| *time >= ms(at)));
        }

        #[test]
        fn a_schedule_in_pieces_is_the_sum_of_its_pieces(changes in any_changes()) {
            let planned = arrivals(&constant_rate(per_second(50), LENGTH));
            let whole = planned.with_rates(changes.iter().copied());
            let mut pieces = vec![(per_second(50), Duration::ZERO)];
            pieces.extend(changes);
            let ends = pieces.iter().skip(1).map(|(_, from)| *from).chain([LENGTH]);
            let sum: f64 = pieces
                .iter()
                .zip(ends)
                .map(|((rate, from), to)| rate.events as f64 * (to - *from).as_secs_f64())
                .sum();
            prop_assert!((whole.total() as f64 - sum).abs() <= 1.0, "{} of {sum}", whole.total());
        }
    }
}
