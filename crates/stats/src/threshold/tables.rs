//! What each metric and selector means, and how thresholds behave as a run goes on.

use crate::fixture::{TICK, layout, one_tick, requests, s, threshold};

use super::*;

fn value_of(threshold: Threshold) -> ThresholdResult {
    let layout = layout();
    let mut evaluator = Evaluator::new(&[threshold], layout.clone());
    evaluator.observe(&one_tick(&layout), 7, s(1), TICK);
    evaluator.observe(&Window::new(&layout), 3, s(2), TICK);
    evaluator.finish(s(2)).remove(0)
}

#[test]
fn every_metric_and_selector_means_what_it_says() {
    use Unit::{Count, Fraction, Milliseconds, PerSecond, Plain};
    for (metric, hold, value, unit) in [
        ("http_reqs", "count > 0", 32.0, Count),
        ("http_reqs", "rate > 0", 16.0, PerSecond),
        ("http_reqs{step=cart}", "count > 0", 10.0, Count),
        ("http_reqs{workflow=search}", "count > 0", 5.0, Count),
        // Searches lived one of the two seconds.
        ("http_reqs{workflow=search}", "rate > 0", 5.0, PerSecond),
        ("http_reqs{stage=warmup}", "count > 0", 4.0, Count),
        ("http_reqs{tier=gold}", "count > 0", 20.0, Count),
        ("http_reqs{region=eu}", "count > 0", 5.0, Count),
        ("http_reqs{region=us,tier=gold}", "count > 0", 5.0, Count),
        ("http_reqs{tier=none}", "count < 1", 0.0, Count),
        ("http_req_duration", "max < 1", 1000.0, Milliseconds),
        ("http_req_duration{step=cart}", "p(90) < 1", 90.0, Milliseconds),
        ("http_req_duration{step=cart}", "med < 1", 50.0, Milliseconds),
        ("http_req_duration{step=cart}", "avg < 1", 55.0, Milliseconds),
        ("http_req_duration{step=cart}", "min < 1", 10.0, Milliseconds),
        ("http_req_duration{region=us}", "max < 1", 70.0, Milliseconds),
        ("http_req_waiting{step=cart}", "max < 1", 50.0, Milliseconds),
        ("http_req_connecting", "max < 1", 0.0, Milliseconds),
        ("latency{step=cart}", "max < 1", 300.0, Milliseconds),
        ("iteration_duration{workflow=search}", "max < 1", 10.0, Milliseconds),
        ("http_req_failed", "rate < 1", 2.0 / 29.0, Fraction),
        ("http_req_failed{step=login}", "rate < 1", 0.0, Fraction),
        ("http_req_failed{region=us}", "rate < 1", 0.2, Fraction),
        ("checks", "rate > 0", 0.95, Fraction),
        ("checks{step=login}", "rate > 0", 0.9, Fraction),
        ("iterations", "count > 0", 29.0, Count),
        ("dropped_iterations", "count > 0", 3.0, Count),
        ("data_sent{step=cart}", "count > 0", 1000.0, Count),
        ("data_received", "rate > 0", 14_500.0, PerSecond),
        ("vus", "value > 0", 3.0, Plain),
        ("vus_max", "value > 0", 7.0, Plain),
        ("orders", "count > 0", 5.5, Count),
        ("depth", "value > 0", 4.0, Plain),
        ("cached", "rate > 0", 0.5, Fraction),
        ("size", "max > 0", 9.0, Plain),
    ] {
        let got = value_of(threshold(metric, hold));
        let measured = got.value.unwrap_or_else(|| panic!("{metric} {hold} has no value"));
        // Percentiles are those of the histogram, which is right to a thousandth.
        assert!(
            (measured - value).abs() <= value * 0.001,
            "{metric} {hold}: {measured} not {value}"
        );
        assert_eq!(got.unit, unit, "{metric} {hold}");
    }
}

#[test]
fn excluded_stages_do_not_count() {
    let mut main_only = threshold("http_req_duration", "max < 200");
    main_only.exclude = vec!["warmup".into()];
    let got = value_of(main_only);
    assert_eq!((got.value, got.ok), (Some(100.0), true));
    assert_eq!(got.label, "http_req_duration without warmup");
}

#[test]
fn labels_name_the_metric_with_its_selector() {
    for (metric, over, label) in [
        ("http_req_duration{step=cart}", None, "http_req_duration{step:cart}"),
        ("latency{region=eu,workflow=shop}", None, "latency{workflow:shop,region:eu}"),
        ("http_req_failed", Some(s(30)), "http_req_failed over 30s"),
    ] {
        let threshold = Threshold { over, ..threshold(metric, "avg < 1") };
        assert_eq!(super::label(&threshold), label);
    }
}

#[test]
fn no_data_is_ignored_during_the_run_and_has_not_held_at_the_end() {
    for (metric, hold) in [
        ("http_req_duration", "p(95) < 200"),
        ("checks", "rate > 0.99"),
        ("http_req_failed", "rate < 0.01"),
        ("http_req_failed{step=unknown}", "rate < 0.01"),
        ("depth", "value > 1"),
    ] {
        for over in [None, Some(s(2)), Some(s(10))] {
            let one = Threshold { abort: true, over, ..threshold(metric, hold) };
            let layout = layout();
            let mut evaluator = Evaluator::new(&[one], layout.clone());
            for second in 1..=4 {
                evaluator.observe(&Window::new(&layout), 1, s(second), TICK);
                assert!(evaluator.evaluate(s(second))[0].ok, "{metric} during the run");
                assert_eq!(evaluator.broken_abort(s(second)), None);
            }
            let last = evaluator.finish(s(4)).remove(0);
            assert_eq!((last.value, last.ok), (None, false), "{metric} {hold} over {over:?}");
        }
    }
    // Nothing counted is a count.
    let none = value_of(threshold("http_reqs{step=seed}", "count > 10"));
    assert_eq!((none.value, none.ok), (Some(0.0), false));
}

#[test]
fn an_abort_waits_for_its_time_and_for_a_full_window() {
    let layout = layout();
    let slow = {
        let mut window = Window::new(&layout);
        requests(&mut window, &layout, 1, 0, &[(500, false)]);
        window
    };
    for (after, over, first) in [(0, None, 1), (3, None, 3), (0, Some(4), 4), (6, Some(4), 6)] {
        let fine = Threshold { abort: true, ..threshold("http_req_failed", "rate < 0.5") };
        let unarmed = threshold("http_req_duration", "max < 100");
        let armed = Threshold {
            abort: true,
            after: s(after),
            over: over.map(s),
            ..threshold("http_req_duration", "max < 100")
        };
        let mut evaluator = Evaluator::new(&[fine, unarmed, armed], layout.clone());
        let aborts = (1..=8).find(|second| {
            evaluator.observe(&slow, 1, s(*second), TICK);
            evaluator.broken_abort(s(*second)) == Some(2)
        });
        assert_eq!(aborts, Some(first), "after {after}, over {over:?}");
    }
}

#[test]
fn a_sliding_threshold_fails_by_its_worst_window_and_recovers_for_the_abort() {
    let layout = layout();
    let one =
        Threshold { abort: true, over: Some(s(3)), ..threshold("http_req_failed", "rate < 0.5") };
    let mut evaluator = Evaluator::new(&[one], layout.clone());
    let mut aborts = Vec::new();
    for (second, failed) in [false, false, true, true, false, false, false].into_iter().enumerate()
    {
        let mut window = Window::new(&layout);
        requests(&mut window, &layout, 1, 0, &[(5, failed)]);
        let elapsed = s(second as u64 + 1);
        evaluator.observe(&window, 1, elapsed, TICK);
        aborts.push(evaluator.broken_abort(elapsed).is_some());
    }
    assert_eq!(aborts, [false, false, false, true, true, false, false]);
    let now = evaluator.evaluate(s(7)).remove(0);
    assert_eq!((now.value, now.ok), (Some(0.0), false));
    let last = evaluator.finish(s(7)).remove(0);
    assert_eq!((last.value, last.ok), (Some(2.0 / 3.0), false));
}

#[test]
fn a_run_shorter_than_the_window_is_one_window() {
    let mut short = threshold("http_req_duration{step=cart}", "max < 50");
    short.over = Some(s(30));
    let got = value_of(short);
    assert_eq!((got.value, got.ok), (Some(100.0), false));
}

#[test]
fn a_selection_that_is_over_is_not_taken_for_a_stall_but_a_pause_in_it_is() {
    let layout = layout();
    let one =
        || Threshold { over: Some(s(2)), ..threshold("http_reqs{workflow=search}", "rate > 0.9") };
    // Searches per second; shop goes on throughout.
    for (searches, worst) in [
        (vec![0, 0, 0, 2, 2, 2, 0, 0, 0], 2.0),
        (vec![0, 2, 2, 0, 0, 0, 2, 2], 0.0),
        (vec![2, 2, 0, 2, 2, 0], 1.0),
    ] {
        let mut evaluator = Evaluator::new(&[one()], layout.clone());
        let seconds = searches.len() as u64;
        for (second, count) in searches.iter().enumerate() {
            let mut window = Window::new(&layout);
            requests(&mut window, &layout, 1, 0, &[(5, false)]);
            requests(&mut window, &layout, 2, 0, &vec![(5, false); *count]);
            evaluator.observe(&window, 1, s(second as u64 + 1), TICK);
        }
        let got = evaluator.finish(s(seconds)).remove(0);
        assert_eq!((got.value, got.ok), (Some(worst), worst > 0.9), "{searches:?}");
    }
}

#[test]
fn a_long_window_keeps_a_bounded_number_of_slots() {
    let layout = layout();
    let day = Threshold { over: Some(s(86_400)), ..threshold("http_req_duration", "p(95) < 100") };
    let mut evaluator = Evaluator::new(&[day], layout.clone());
    let mut window = Window::new(&layout);
    requests(&mut window, &layout, 1, 0, &[(5, false)]);
    for minute in 1..=4000u64 {
        evaluator.observe(&window, 1, s(minute * 60), s(60));
    }
    let Kept::Sliding(sliding) = &evaluator.watches[0].kept else { panic!("not sliding") };
    assert!(sliding.slots() <= SLOTS_MAX + 1, "{} slots", sliding.slots());
    assert!(sliding.has_been_full());
    // A day of minutes, to within one slot of three minutes.
    let Sample::Trend(trend) = sliding.sum() else { panic!("not a trend") };
    assert!(trend.count().abs_diff(1440) <= 3, "{} minutes", trend.count());
}
