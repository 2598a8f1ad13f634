//! Properties that must hold for any values: merging in any order, percentiles within their error.

use std::time::Duration;

use plan::{Aggregation, MetricKind};
use proptest::prelude::*;

use super::*;

/// Bucket width and the interpolation between two buckets.
const RELATIVE_ERROR: f64 = 0.001;

/// Any number at all, with those that hurt more often than chance would have them.
fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => any::<f64>(),
        4 => 0.001..5000.0f64,
        2 => -50.0..50.0f64,
        1 => Just(0.0),
        1 => prop::sample::select(vec![
            f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MAX, f64::MIN, 5e-324,
        ]),
    ]
}

/// Numbers that people measure.
fn usual_number() -> impl Strategy<Value = f64> {
    prop_oneof![1 => Just(0.0), 6 => 0.001..90_000.0f64, 1 => -90.0..0.0f64, 1 => 1e-9..1e9f64]
}

fn distribution(values: &[f64]) -> Distribution {
    let mut distribution = Distribution::default();
    values.iter().for_each(|value| distribution.record(*value));
    distribution
}

/// Interpolated between ranks, over all values.
fn exact_percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = percent / 100.0 * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
    low + (high - low) * rank.fract()
}

const PERCENTS: [f64; 7] = [0.0, 1.0, 50.0, 90.0, 95.0, 99.9, 100.0];

fn bits(distribution: &Distribution) -> Vec<u64> {
    let numbers = PERCENTS.iter().map(|percent| distribution.percentile(*percent));
    numbers
        .chain([distribution.min(), distribution.max(), distribution.count() as f64])
        .map(f64::to_bits)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn percentiles_are_as_exact_as_promised(
        values in prop::collection::vec(usual_number(), 1..3000),
        percent in 0.0..=100.0f64,
    ) {
        let trend = distribution(&values);
        let (got, exact) = (trend.percentile(percent), exact_percentile(&values, percent));
        // Between a negative and a positive value the error is that of the larger of the two.
        let nearby = exact_percentile(&values, (percent - 0.2).max(0.0)).abs()
            .max(exact_percentile(&values, (percent + 0.2).min(100.0)).abs())
            .max(exact.abs());
        let allowed = if values.len() <= EXACT_VALUES_MAX { 1e-9 } else { RELATIVE_ERROR };
        prop_assert!((got - exact).abs() <= nearby * allowed + 1e-12, "{got} instead of {exact}");
    }

    #[test]
    fn percentiles_rise_with_the_percentage_and_stay_between_the_extremes(
        values in prop::collection::vec(usual_number(), 1..1500),
    ) {
        let trend = distribution(&values);
        let all: Vec<f64> = (0..=200).map(|half| trend.percentile(f64::from(half) / 2.0)).collect();
        prop_assert!(all.is_sorted(), "{all:?}");
        prop_assert_eq!((all[0], all[200]), (trend.min(), trend.max()));
    }

    #[test]
    fn no_number_makes_a_trend_panic_and_merging_is_in_any_order(
        parts in prop::collection::vec(prop::collection::vec(any_number(), 0..400), 3),
    ) {
        let [a, b, c] = [0, 1, 2].map(|part: usize| distribution(&parts[part]));
        let sum = |first: &Distribution, second: &Distribution| {
            let mut sum = first.clone();
            sum.merge(second);
            sum
        };
        let whole = distribution(&parts.concat());
        let expected = bits(&whole);
        prop_assert_eq!(&bits(&sum(&sum(&a, &b), &c)), &expected);
        prop_assert_eq!(&bits(&sum(&a, &sum(&b, &c))), &expected);
        prop_assert_eq!(&bits(&sum(&sum(&c, &a), &b)), &expected);
        let finite: Vec<f64> = parts.concat().into_iter().filter(|v| v.abs() < 1e200).collect();
        let size: f64 = finite.iter().map(|value| value.abs()).sum();
        let (one, two) = (distribution(&finite), sum(&distribution(&[]), &distribution(&finite)));
        prop_assert!((one.sum() - two.sum()).abs() <= size * 1e-12);
        let mut used = sum(&a, &b);
        used.clear();
        used.merge(&whole);
        prop_assert_eq!(&bits(&used), &expected);
    }

    #[test]
    fn windows_merge_in_any_order(
        events in prop::collection::vec((0..6usize, -4..9i8, 0..40u64, 0..3usize), 0..300),
    ) {
        let mut layout = SeriesLayout::new();
        layout.set_sections(true);
        let kinds =
            [MetricKind::Counter, MetricKind::Gauge, MetricKind::Rate, MetricKind::Trend];
        let ids = kinds.map(|kind| {
            layout.metric(&format!("m_{kind:?}"), kind, Contains::Default).unwrap()
        });
        layout.threshold("m_Trend{scenario:s1}", &[]).unwrap();
        let mut windows = [0; 3].map(|_| SeriesWindow::new(&layout));
        for (what, value, at_ns, core) in events {
            // No two events of a gauge at one instant: which is the last would be a matter of luck.
            let (at_ns, window) = (at_ns * 3 + core as u64, &mut windows[core]);
            let scenario = format!("s{}", value.rem_euclid(2));
            let group = if value > 2 { "::g" } else { "" };
            let tags = [("scenario", &*scenario), ("group", group)];
            match ids.get(what) {
                Some(id) => window.record(&layout, *id, f64::from(value), at_ns, &tags),
                None if what == 4 => {
                    window.check(&layout, group, &format!("c{value}"), value > 0, at_ns, &tags);
                }
                None => window.group(&layout, group, at_ns, &tags),
            }
        }
        let merged = |order: [usize; 3]| {
            let mut sum = SeriesWindow::new(&layout);
            order.iter().for_each(|core| sum.merge(&windows[*core]));
            shape(&layout, &sum)
        };
        let expected = merged([0, 1, 2]);
        prop_assert_eq!(merged([2, 0, 1]), expected.clone());
        let mut right = windows[1].clone();
        right.merge(&windows[2]);
        let mut left = windows[0].clone();
        left.merge(&right);
        prop_assert_eq!(shape(&layout, &left), expected);
    }
}

/// All that a reader can see.
fn shape(layout: &SeriesLayout, window: &SeriesWindow) -> Vec<String> {
    let sink = |sink: &Sink| {
        let value = |aggregation| sink.value(aggregation, Duration::from_secs(3));
        let all = [
            Aggregation::Count,
            Aggregation::Rate,
            Aggregation::Value,
            Aggregation::Min,
            Aggregation::Max,
            Aggregation::Avg,
            Aggregation::Percentile(90.0),
        ];
        format!("{:?} {:?}", sink.samples(), all.map(value))
    };
    let mut lines: Vec<String> = layout
        .targets()
        .map(|target| {
            format!("{} {}", layout.key(target), sink(window.target_sink(target).unwrap()))
        })
        .collect();
    for place in window.places() {
        lines.push(format!("{} {} {:?}", place.scenario, place.group, place.checks()));
        let sinks = layout.metrics().filter_map(|(id, _)| place.sink(id));
        lines.extend(sinks.map(sink));
    }
    lines
}
