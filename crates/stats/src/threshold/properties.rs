//! Sliding windows against brute force, and merging in any order.

use plan::{Comparison, Threshold};
use proptest::prelude::*;

use super::*;
use crate::Trend;
use crate::fixture::{TICK, layout, requests, s, threshold};

/// Per tick: request times in milliseconds, and whether each failed.
fn any_series() -> impl Strategy<Value = Vec<Vec<(u64, bool)>>> {
    let request = (1..3000u64, any::<bool>());
    prop::collection::vec(prop::collection::vec(request, 0..6), 1..25)
}

proptest! {
    // A case makes some hundred windows of histograms.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn sliding_windows_are_what_brute_force_says(series in any_series(), over in 1..9usize) {
        let layout = layout();
        let specs = [
            ("http_req_duration", "p(90) < 1500"),
            ("http_req_duration", "min > 3"),
            ("http_req_failed", "rate < 0.6"),
            ("http_reqs", "rate > 2"),
            ("http_reqs", "count < 25"),
        ];
        let sliding = |(metric, hold): &(&str, &str)| {
            Threshold { over: Some(s(over as u64)), ..threshold(metric, hold) }
        };
        let thresholds: Vec<_> = specs.iter().map(sliding).collect();
        let ticks: Vec<Window> = series.iter().map(|all| {
            let mut window = Window::new(&layout);
            requests(&mut window, &layout, 1, 0, all);
            window
        }).collect();
        let mut evaluator = Evaluator::new(&thresholds, layout.clone());
        for (second, tick) in ticks.iter().enumerate() {
            evaluator.observe(tick, 1, s(second as u64 + 1), TICK);
        }
        let got = evaluator.finish(s(ticks.len() as u64));

        // Each stretch on its own, as a run of that length without a window.
        for (index, (metric, hold)) in specs.iter().enumerate() {
            let mut values = Vec::new();
            let length = over.min(ticks.len());
            for stretch in ticks.windows(length) {
                let mut whole = Evaluator::new(&[threshold(metric, hold)], layout.clone());
                for (second, tick) in stretch.iter().enumerate() {
                    whole.observe(tick, 1, s(second as u64 + 1), TICK);
                }
                values.extend(whole.evaluate(s(length as u64))[0].value);
            }
            let limit = thresholds[index].hold;
            let broken = values.iter().any(|value| !limit.op.holds(*value, limit.value));
            let upwards = matches!(limit.op, Comparison::Less);
            let worst = values.iter().copied().reduce(if upwards { f64::max } else { f64::min });
            prop_assert_eq!(got[index].value, worst, "{} {}", metric, hold);
            let ok = worst.is_some() && !broken;
            prop_assert_eq!(got[index].ok, ok, "{} {}", metric, hold);
        }
    }

    #[test]
    fn the_order_in_which_cores_are_merged_does_not_matter(
        cores in prop::collection::vec(any_series(), 2..5), turn in 0..5usize,
    ) {
        let layout = layout();
        let specs = ["p(50) < 1", "p(99) < 1", "avg < 1", "min < 1", "max < 1"];
        let thresholds: Vec<_> =
            specs.iter().map(|hold| threshold("http_req_duration", hold)).collect();
        let values = |cores: &[Vec<Vec<(u64, bool)>>]| {
            let mut evaluator = Evaluator::new(&thresholds, layout.clone());
            let mut merged = Window::new(&layout);
            for core in cores {
                let mut window = Window::new(&layout);
                core.iter().for_each(|all| requests(&mut window, &layout, 1, 0, all));
                merged.merge(&window);
            }
            evaluator.observe(&merged, 1, s(1), TICK);
            evaluator.finish(s(1))
        };
        let mut turned = cores.clone();
        turned.rotate_left(turn % cores.len());
        prop_assert_eq!(values(&cores), values(&turned));
    }

    #[test]
    fn a_sparse_trend_is_the_trend(times in prop::collection::vec(0..u64::from(u32::MAX), 0..50)) {
        let mut trend = Trend::new();
        for (index, ns) in times.iter().enumerate() {
            if index % 7 == 0 { trend.record_zero() } else { trend.record_ns(ns * 37) }
        }
        let mut back = Trend::new();
        back.merge_sparse(&trend.to_sparse());
        prop_assert_eq!(back.buckets(), trend.buckets());
        prop_assert_eq!(back.count(), trend.count());
        prop_assert_eq!((back.min_ms(), back.max_ms()), (trend.min_ms(), trend.max_ms()));
        prop_assert_eq!(back.percentile_ms(95.0), trend.percentile_ms(95.0));
    }
}
