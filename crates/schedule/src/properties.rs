//! The property that matters most: the shards together do what one would do alone.

use std::time::Duration;

use plan::Rate;
use proptest::prelude::*;

use super::tables::{arrivals, constant_rate, ms, ramping_rate, ramping_vus, rate, s};
use super::*;

/// Rates in several units, zero among them; up to a million per second.
fn any_rate() -> impl Strategy<Value = Rate> {
    let per = prop_oneof![Just(ms(1)), Just(s(1)), Just(s(7)), Just(s(60)), Just(s(3600))];
    (prop_oneof![Just(0), 1..50u64, 1..1000u64], per).prop_map(|(events, per)| rate(events, per))
}

/// Lengths from nothing to a few seconds, odd nanoseconds among them.
fn any_length() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(0), Just(1_000_000_000), 1..2_000_000_000u64].prop_map(Duration::from_nanos)
}

fn any_ramp() -> impl Strategy<Value = Arrivals> {
    let stages = prop::collection::vec((any_rate(), any_length()), 1..6);
    (any_rate(), stages).prop_map(|(start, stages)| arrivals(&ramping_rate(start, &stages)))
}

proptest! {
    #[test]
    fn parts_differ_by_at_most_one_and_add_up(total in 0..u64::MAX, parts in 1..2000usize) {
        let spread = spread(total, parts);
        let sum: u128 = spread.iter().map(|part| u128::from(*part)).sum();
        prop_assert_eq!(sum, u128::from(total));
        prop_assert!(spread.first().unwrap() - spread.last().unwrap() <= 1);
        prop_assert!(spread.is_sorted_by(|a, b| a >= b));
    }

    #[test]
    fn a_share_is_the_count_of_the_numbers_that_belong_to_the_shard(
        total in 0..500u64, shards in 1..20usize,
    ) {
        for shard in 0..shards {
            let mine = (0..total).filter(|i| i % shards as u64 == shard as u64).count() as u64;
            prop_assert_eq!(share(total, shard, shards), mine);
        }
    }

    #[test]
    fn shards_together_do_exactly_what_one_would_do_alone(ramp in any_ramp(), shards in 1..9usize) {
        const SEEN_MAX: usize = 3000;
        let alone: Vec<_> = ramp.shard(0, 1).take(SEEN_MAX).collect();
        let mut merged: Vec<_> =
            (0..shards).flat_map(|shard| ramp.shard(shard, shards).take(SEEN_MAX)).collect();
        merged.sort_unstable();
        merged.truncate(alone.len());
        prop_assert_eq!(&merged, &alone);
        for (i, time) in alone {
            prop_assert_eq!(ramp.time_of(i), Some(time));
        }
        let left: u64 = (0..shards).map(|shard| ramp.shard(shard, shards).left()).sum();
        prop_assert_eq!(left, ramp.total());
    }

    #[test]
    fn arrivals_never_go_back_and_stay_within_the_load(
        ramp in any_ramp(), skip in 0.0..1.0f64,
    ) {
        let total = ramp.total();
        let end = Duration::from_nanos(ramp.segments_end());
        let first = (total as f64 * skip) as u64;
        let mut last = Duration::ZERO;
        for i in first..total.min(first + 2000) {
            let time = ramp.time_of(i).expect("within the total");
            prop_assert!(time >= last && time < end, "{} at {:?} after {:?}", i, time, last);
            last = time;
        }
        prop_assert_eq!(ramp.time_of(total), None);
    }

    #[test]
    fn the_schedule_inverts_its_own_count(ramp in any_ramp(), at in 0.0..1.1f64) {
        let t = Duration::from_nanos((ramp.segments_end() as f64 * at) as u64);
        let count = ramp.count_before(t);
        prop_assert!(count == 0 || ramp.time_of(count - 1).unwrap() < t);
        prop_assert!(ramp.time_of(count).is_none_or(|time| time >= t));
    }

    #[test]
    fn a_steady_ramp_is_a_constant_rate(
        rate in any_rate(), lengths in prop::collection::vec(any_length(), 1..5),
    ) {
        let stages: Vec<_> = lengths.iter().map(|length| (rate, *length)).collect();
        let ramp = arrivals(&ramping_rate(rate, &stages));
        let constant = arrivals(&constant_rate(rate, lengths.iter().sum()));
        prop_assert_eq!(ramp.total(), constant.total());
        for (got, want) in ramp.shard(0, 1).zip(constant.shard(0, 1)).take(2000) {
            // Each time is rounded down to the nanosecond within its own stage.
            prop_assert!(got.0 == want.0 && want.1.abs_diff(got.1) <= Duration::from_nanos(1));
        }
    }

    #[test]
    fn a_changed_rate_changes_nothing_before_and_is_exact_after(
        ramp in any_ramp(), new in any_rate(), at in 0.0..1.0f64, shards in 1..5usize,
    ) {
        let end = ramp.segments_end();
        let at = Duration::from_nanos((end as f64 * at) as u64);
        let changed = ramp.with_rate(new, at);
        prop_assert_eq!(changed.segments_end(), end);
        let before = ramp.count_before(at);
        // An arrival within a nanosecond of the change may fall on either side of it.
        prop_assert!(changed.count_before(at).abs_diff(before) <= 1);
        for i in (0..before.saturating_sub(1)).rev().take(500) {
            // The new rate may need a finer scale, in which the last nanosecond is rounded
            // otherwise.
            let (was, is) = (ramp.time_of(i).unwrap(), changed.time_of(i).unwrap());
            prop_assert!(is.abs_diff(was) <= Duration::from_nanos(1), "{:?} for {:?}", is, was);
        }
        let first = changed.count_before(at);
        let alone = (first..).map_while(|i| Some((i, changed.time_of(i)?)));
        let alone: Vec<_> = alone.take(500).collect();
        for pair in alone.windows(2) {
            let wait = (pair[1].1 - pair[0].1).as_nanos() as f64;
            let wanted = new.per.as_nanos() as f64 / new.events as f64;
            prop_assert!((wait - wanted).abs() <= 1.0, "{} for {}", wait, wanted);
        }
        let mut merged: Vec<_> = (0..shards).flat_map(|shard| {
            let mut mine = ramp.shard(shard, shards);
            mine.skip_before(at);
            mine.change(changed.clone());
            mine.take(500)
        }).filter(|(i, _)| *i >= first).collect();
        merged.sort_unstable();
        let compared = merged.len().min(alone.len());
        if before == first {
            prop_assert_eq!(&merged[..compared], &alone[..compared]);
        }
    }

    #[test]
    fn the_next_change_of_users_is_the_first_one(
        start in 0..20u32,
        stages in prop::collection::vec((0..20u32, prop_oneof![Just(0u64), 1..40u64]), 1..6),
    ) {
        // Nanosecond-long stages, so that every moment can be tried.
        let stages: Vec<_> =
            stages.into_iter().map(|(to, over)| (to, Duration::from_nanos(over))).collect();
        let load = ramping_vus(start, &stages);
        let end = latest_end(&load).as_nanos() as u64;
        let at = |t: u64| vus_at(&load, Duration::from_nanos(t));
        for t in 0..=end {
            let first = (t + 1..=end).find(|later| at(*later) != at(t)).map(Duration::from_nanos);
            prop_assert_eq!(next_change(&load, Duration::from_nanos(t)), first, "at {}", t);
            prop_assert!(at(t) <= vus_max(&load));
        }
        prop_assert_eq!(at(end), 0);
    }

    #[test]
    fn the_next_change_of_stage_is_the_first_one(
        lengths in prop::collection::vec(prop_oneof![Just(0u64), 1..20u64], 1..6),
        warmup in prop::option::of(0..30u64),
    ) {
        let stages: Vec<_> = lengths.iter().map(|over| (1, Duration::from_nanos(*over))).collect();
        let mut load = ramping_vus(0, &stages);
        load.warmup = warmup.map(Duration::from_nanos);
        let at = |t: u64| stage_at(&load, Duration::from_nanos(t));
        for t in 0..120 {
            let first = (t + 1..150).find(|later| at(*later) != at(t)).map(Duration::from_nanos);
            prop_assert_eq!(next_stage_change(&load, Duration::from_nanos(t)), first, "at {}", t);
            prop_assert!(at(t) < stage_names(&load).len());
        }
    }
}
