//! Tables of what each executor promises, and of k6's conventions.

use std::time::Duration;

use plan::{Executor, Load, Rate, Stage};

use super::*;

pub(super) fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub(super) fn rate(events: u64, per: Duration) -> Rate {
    Rate { events, per }
}

pub(super) fn stage<T>(to: T, over: Duration) -> Stage<T> {
    Stage { name: None, to, over }
}

pub(super) fn load(executor: Executor) -> Load {
    Load { executor, start_after: Duration::ZERO, graceful_stop: s(30), warmup: None, pacing: None }
}

pub(super) fn ramping_vus(start: u32, stages: &[(u32, Duration)]) -> Load {
    let stages = stages.iter().map(|(to, over)| stage(*to, *over)).collect();
    load(Executor::RampingVus { start, stages, graceful_ramp_down: s(30) })
}

pub(super) fn constant_rate(rate: Rate, duration: Duration) -> Load {
    load(Executor::ConstantArrivalRate { rate, duration, vus: None, max_vus: None })
}

pub(super) fn ramping_rate(start: Rate, stages: &[(Rate, Duration)]) -> Load {
    let stages = stages.iter().map(|(to, over)| stage(*to, *over)).collect();
    load(Executor::RampingArrivalRate { start, stages, vus: None, max_vus: None })
}

pub(super) fn per_second(events: u64) -> Rate {
    rate(events, s(1))
}

pub(super) fn arrivals(load: &Load) -> Arrivals {
    Arrivals::new(&load.executor).expect("an arrival rate")
}

pub(super) fn times(arrivals: &Arrivals) -> Vec<Duration> {
    arrivals.shard(0, 1).map(|(_, time)| time).collect()
}

#[test]
fn a_total_is_spread_with_the_remainder_on_the_first_parts() {
    for (total, parts, expected) in [
        (2000, 6, vec![334, 334, 333, 333, 333, 333]),
        (333, 2, vec![167, 166]),
        (1999, 1000, [vec![2; 999], vec![1]].concat()),
        (3, 5, vec![1, 1, 1, 0, 0]),
        (7, 1, vec![7]),
        (0, 3, vec![0, 0, 0]),
    ] {
        assert_eq!(spread(total, parts), expected, "{total} in {parts}");
    }
    assert_eq!(spread(50_000, 6).iter().sum::<u64>(), 50_000);
}

#[test]
fn virtual_users_follow_the_stages_in_whole_steps() {
    let shop = ramping_vus(0, &[(50, s(5)), (50, s(20)), (0, s(5))]);
    for (t, expected) in [
        (ms(0), 0),
        (ms(99), 0),
        (ms(100), 1),
        (ms(2500), 25),
        (ms(4999), 49),
        (ms(5000), 50),
        (ms(25_000), 50),
        (ms(25_099), 50),
        (ms(25_100), 49),
        (ms(29_999), 1),
        (ms(30_000), 0),
        (ms(31_000), 0),
    ] {
        assert_eq!(vus_at(&shop, t), expected, "at {t:?}");
    }
    assert_eq!(next_change(&shop, ms(0)), Some(ms(100)));
    assert_eq!(next_change(&shop, ms(100)), Some(ms(200)));
    assert_eq!(next_change(&shop, ms(5000)), Some(ms(25_100)));
    assert_eq!(next_change(&shop, ms(29_950)), Some(ms(30_000)));
    assert_eq!(next_change(&shop, ms(30_000)), None);
    assert_eq!(vus_max(&shop), 50);
    assert_eq!(duration(&shop), Some(s(30)));
}

#[test]
fn a_stage_over_no_time_is_a_jump() {
    let jump =
        ramping_vus(2, &[(10, s(0)), (10, s(1)), (0, s(0)), (0, s(1)), (4, s(0)), (5, s(1))]);
    for (t, expected) in [(0, 10), (999, 10), (1000, 0), (1999, 0), (2000, 4), (2999, 4), (3000, 0)]
    {
        assert_eq!(vus_at(&jump, ms(t)), expected, "at {t} ms");
    }
    assert_eq!(next_change(&jump, ms(0)), Some(s(1)));
    assert_eq!(next_change(&jump, s(1)), Some(s(2)));
    assert_eq!(next_change(&jump, s(2)), Some(s(3)));
    // The step at 1s and the jump back fall together: nobody ever sees the user.
    let undone = ramping_vus(0, &[(1, s(1)), (0, s(0)), (0, s(1)), (1, s(0)), (1, s(1))]);
    assert_eq!(next_change(&undone, ms(0)), Some(s(2)));
}

#[test]
fn fixed_users_stay_until_the_end() {
    let constant = load(Executor::ConstantVus { vus: 7, duration: s(10) });
    let each = load(Executor::PerVuIterations { vus: 7, iterations: 5, max_duration: s(10) });
    let shared = load(Executor::SharedIterations { vus: 7, iterations: 5, max_duration: s(10) });
    for load in [constant, each, shared] {
        assert_eq!([vus_at(&load, s(0)), vus_at(&load, ms(9999)), vus_at(&load, s(10))], [7, 7, 0]);
        assert_eq!(next_change(&load, s(3)), Some(s(10)));
        assert_eq!(next_change(&load, s(10)), None);
        assert_eq!(latest_end(&load), s(10));
    }
}

#[test]
fn a_constant_rate_starts_at_once_and_ends_before_the_end() {
    for (rate, length, total) in [
        (per_second(200), s(10), 2000),
        (per_second(3), ms(500), 2),
        (per_second(3), s(1), 3),
        (rate(90, s(60)), s(60), 90),
        (rate(1, s(60)), s(1), 1),
        (rate(7, s(3)), s(10), 24),
        (per_second(0), s(10), 0),
        (per_second(5), s(0), 0),
    ] {
        let arrivals = arrivals(&constant_rate(rate, length));
        let times = times(&arrivals);
        assert_eq!(arrivals.total(), total, "{rate:?} for {length:?}");
        assert_eq!(times.len() as u64, total);
        assert_eq!(arrivals.time_of(total), None);
        if total > 0 {
            assert_eq!(times[0], Duration::ZERO);
            assert!(times[times.len() - 1] < length);
        }
    }
}

#[test]
fn a_constant_rate_never_drifts() {
    let month = arrivals(&constant_rate(per_second(300), s(30 * 86_400)));
    assert_eq!(month.time_of(300 * 86_400 * 29), Some(s(86_400 * 29)));
    assert_eq!(
        month.time_of(300 * 86_400 * 29 + 1),
        Some(s(86_400 * 29) + Duration::from_nanos(3_333_333))
    );
    assert_eq!(month.total(), 300 * 86_400 * 30);
}

#[test]
fn ramps_and_pauses_give_smooth_exact_counts() {
    // A ramp from 0 to 100/s over 3s is 150 iterations, not 149 or 151, up and down alike.
    let up = arrivals(&ramping_rate(per_second(0), &[(per_second(100), s(3))]));
    assert_eq!(up.total(), 150);
    assert_eq!(up.time_of(0), Some(s(0)));
    // due(t) = 100/3 * t^2 / 2, so that 6 are due after 600 ms, and 54 after 1.8 s.
    assert_eq!(up.time_of(6), Some(ms(600)));
    assert_eq!(up.time_of(54), Some(ms(1800)));
    let down = arrivals(&ramping_rate(per_second(100), &[(per_second(0), s(3))]));
    assert_eq!(down.total(), 150);
    assert_eq!(down.time_of(150 - 6), Some(ms(2400)));
    assert_eq!(down.time_of(150 - 54), Some(ms(1200)));

    let pause = arrivals(&ramping_rate(
        per_second(0),
        &[
            (per_second(0), s(1)),
            (per_second(2), s(0)),
            (per_second(2), s(1)),
            (per_second(0), s(0)),
            (per_second(0), s(5)),
            (per_second(4), s(0)),
            (per_second(4), s(1)),
        ],
    ));
    let expected = [1000, 1500, 7000, 7250, 7500, 7750].map(ms);
    assert_eq!(times(&pause), expected);
    assert_eq!(pause.rate_at(ms(1500)), 2.0);
    assert_eq!(pause.rate_at(ms(3000)), 0.0);
    assert_eq!(pause.rate_max(), 4.0);
}

#[test]
fn a_changed_rate_keeps_the_numbers_and_the_part_already_waited() {
    let slow = arrivals(&constant_rate(per_second(10), s(10)));
    let fast = slow.with_rate(per_second(1000), ms(1050));
    // Ten are before 1s, one at 1s; half of the next one's wait is over when the rate changes.
    assert_eq!(fast.time_of(10), Some(s(1)));
    assert_eq!(fast.time_of(11), Some(ms(1050) + Duration::from_micros(500)));
    assert_eq!(fast.total(), 11 + 8950);
    assert_eq!(fast.count_before(ms(1050)), 11);

    let stopped = fast.with_rate(per_second(0), s(2));
    assert_eq!(stopped.total(), fast.count_before(s(2)));
    assert_eq!(stopped.with_rate(per_second(1), s(12)), stopped.with_rate(per_second(1), s(10)));

    let mut shard = slow.shard(1, 3);
    assert_eq!([shard.next(), shard.next()], [Some((1, ms(100))), Some((4, ms(400)))]);
    shard.change(slow.with_rate(per_second(20), ms(500)));
    assert_eq!(shard.next(), Some((7, ms(600))));
    assert_eq!(shard.skip_before(s(1)), 2);
    assert_eq!(shard.peek(), Some((16, ms(1050))));
}

#[test]
fn stages_have_names_and_moments() {
    let mut shop = ramping_vus(0, &[(50, s(5)), (9, s(0)), (50, s(20)), (0, s(5))]);
    if let Executor::RampingVus { stages, .. } = &mut shop.executor {
        stages[2].name = Some("peak".into());
    }
    assert_eq!(stage_names(&shop), ["stage-1", "stage-2", "peak", "stage-4"]);
    for (t, expected) in [(0, 0), (4999, 0), (5000, 2), (24_999, 2), (25_000, 3), (99_000, 3)] {
        assert_eq!(stage_at(&shop, ms(t)), expected, "at {t} ms");
    }
    assert_eq!(next_stage_change(&shop, s(0)), Some(s(5)));
    assert_eq!(next_stage_change(&shop, s(5)), Some(s(25)));
    assert_eq!(next_stage_change(&shop, s(25)), None);

    shop.warmup = Some(s(7));
    assert_eq!(stage_names(&shop)[0], "warmup");
    for (t, expected) in [(0, 0), (5000, 0), (6999, 0), (7000, 3), (25_000, 4), (99_000, 4)] {
        assert_eq!(stage_at(&shop, ms(t)), expected, "with warm-up at {t} ms");
    }
    assert_eq!(next_stage_change(&shop, s(0)), Some(s(7)));

    let plain = constant_rate(per_second(1), s(10));
    assert_eq!((stage_names(&plain), stage_at(&plain, s(20))), (vec!["main".to_string()], 0));
    assert_eq!(next_stage_change(&plain, s(0)), None);
}

#[test]
fn loads_describe_and_count_themselves() {
    let per_minute = rate(90, s(60));
    for (load, text, iterations) in [
        (
            ramping_vus(0, &[(50, s(5)), (50, s(20)), (0, s(5))]),
            "ramping-vus, up to 50 VUs over 30s",
            None,
        ),
        (
            load(Executor::ConstantVus { vus: 1, duration: s(90) }),
            "constant-vus, 1 VU for 1m30s",
            None,
        ),
        (
            load(Executor::PerVuIterations { vus: 10, iterations: 5, max_duration: s(600) }),
            "per-vu-iterations, 10 VUs x 5",
            Some(50),
        ),
        (
            load(Executor::SharedIterations { vus: 10, iterations: 500, max_duration: s(600) }),
            "shared-iterations, 500 shared by 10 VUs",
            Some(500),
        ),
        (constant_rate(per_second(200), s(10)), "constant-arrival-rate, 200/s for 10s", Some(2000)),
        (
            constant_rate(rate(3, s(10)), ms(1500)),
            "constant-arrival-rate, 3/10s for 1s500ms",
            Some(1),
        ),
        (
            ramping_rate(per_second(1), &[(per_minute, s(60)), (per_second(0), s(60))]),
            "ramping-arrival-rate, up to 90/m over 2m",
            Some(75 + 45),
        ),
    ] {
        assert_eq!(describe(&load), text);
        assert_eq!(expected_iterations(&load), iterations, "{text}");
    }
}
