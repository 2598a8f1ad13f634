//! A small plan's layout and counts, for the tests of this crate.

use std::sync::Arc;
use std::time::Duration;

use plan::{Aggregation, Comparison, Hold, MetricKind, Selector, Threshold};

use crate::error_kind::ErrorKind;
use crate::layout::{CheckLayout, Layout, MetricLayout, StageLayout, StepLayout, WorkflowLayout};
use crate::window::{StepStats, Window};

pub(crate) const TICK: Duration = Duration::from_secs(1);

pub(crate) fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// shop: stages warmup, main; steps login, cart (tag tier=gold), one check each. search: stage
/// main, one step.
pub(crate) fn layout() -> Arc<Layout> {
    let workflow = |name: &str, steps, checks, stages| WorkflowLayout {
        name: name.into(),
        steps,
        checks,
        stages,
        synthetic: name == "setup",
        about: crate::layout::WorkflowFacts::default(),
    };
    let step = |name: &str, workflow, tags: &[(&str, &str)]| StepLayout {
        name: name.into(),
        workflow,
        method: "GET".into(),
        route: "/".into(),
        tags: tags.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        when: Vec::new(),
    };
    let stage = |name: &str, workflow| StageLayout { name: name.into(), workflow };
    let check = |name: &str, step| CheckLayout { name: name.into(), step };
    let metric = |name: &str, kind, time| MetricLayout { name: name.into(), kind, time };
    Arc::new(Layout {
        workflows: vec![
            workflow("shop", 0..2, 0..2, 0..2),
            workflow("search", 2..3, 2..2, 2..3),
            workflow("setup", 3..4, 2..2, 3..4),
        ],
        steps: vec![
            step("login", 0, &[]),
            step("cart", 0, &[("tier", "gold")]),
            step("search", 1, &[("tier", "free")]),
            step("seed", 2, &[]),
        ],
        checks: vec![check("status is 200", 0), check("has items", 1)],
        stages: vec![stage("warmup", 0), stage("main", 0), stage("main", 1), stage("setup", 2)],
        metrics: vec![
            metric("orders", MetricKind::Counter, false),
            metric("depth", MetricKind::Gauge, false),
            metric("cached", MetricKind::Rate, false),
            metric("size", MetricKind::Trend, false),
        ],
    })
}

/// `metric{step=cart,stage=main,region=eu}`, `p(95) < 200`.
pub(crate) fn threshold(metric: &str, hold: &str) -> Threshold {
    let (metric, selectors) = metric.split_once('{').unwrap_or((metric, ""));
    let mut select = Selector::default();
    for pair in selectors.trim_end_matches('}').split(',').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').expect("key=value");
        match key {
            "step" => select.step = Some(value.into()),
            "workflow" => select.workflow = Some(value.into()),
            "stage" => select.stage = Some(value.into()),
            _ => select.tags.push((key.into(), value.into())),
        }
    }
    let words: Vec<&str> = hold.split_whitespace().collect();
    let aggregation = match words[0] {
        "avg" => Aggregation::Avg,
        "min" => Aggregation::Min,
        "med" => Aggregation::Med,
        "max" => Aggregation::Max,
        "rate" => Aggregation::Rate,
        "count" => Aggregation::Count,
        "value" => Aggregation::Value,
        other => Aggregation::Percentile(other[2..other.len() - 1].parse().expect("p(N)")),
    };
    let op = match words[1] {
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        other => panic!("unknown comparison {other}"),
    };
    Threshold {
        metric: metric.into(),
        select,
        hold: Hold { aggregation, op, value: words[2].parse().expect("a number") },
        text: hold.into(),
        abort: false,
        after: Duration::ZERO,
        over: None,
        exclude: vec![],
    }
}

/// Requests of one step in one stage: (milliseconds, failed).
pub(crate) fn requests(
    window: &mut Window,
    layout: &Layout,
    stage: usize,
    step: usize,
    all: &[(u64, bool)],
) {
    let block = window.block(layout, stage);
    let stats = &mut block.steps[step];
    for (ms, failed) in all {
        record(stats, *ms, *failed);
    }
    block.iterations += all.len() as u64;
    for (ms, _) in all {
        block.iteration_duration.record_ns(ms * 2_000_000);
    }
}

pub(crate) fn record(stats: &mut StepStats, ms: u64, failed: bool) {
    stats.requests += 1;
    stats.completed += 1;
    stats.failed += u64::from(failed);
    stats.bytes_sent += 100;
    stats.bytes_received += 1000;
    stats.duration.record_ns(ms * 1_000_000);
    stats.waiting.record_ns(ms * 500_000);
    stats.latency.record_ns(ms * 3_000_000);
    stats.connecting.record_zero();
}

/// 4 logins in the warm-up at 1000 ms, 10 logins and 10 carts in `main`, 5 searches.
pub(crate) fn one_tick(layout: &Layout) -> Window {
    let mut window = Window::new(layout);
    requests(&mut window, layout, 0, 0, &[(1000, false); 4]);
    requests(&mut window, layout, 1, 0, &[(10, false); 10]);
    let carts: Vec<_> = (1..=10).map(|i| (i * 10, i == 1)).collect();
    requests(&mut window, layout, 1, 1, &carts);
    requests(
        &mut window,
        layout,
        2,
        0,
        &[(5, true), (5, false), (5, false), (5, false), (5, false)],
    );
    let main = window.block(layout, 1);
    main.dropped = [2, 1, 0, 0, 0, 0];
    (main.checks[0].passes, main.checks[0].fails) = (9, 1);
    main.checks[1].passes = 10;
    // Cut off and resent requests are neither successes nor failures.
    main.steps[0].requests += 3;
    main.steps[0].interrupted = 2;
    main.steps[0].retried = 1;
    for (region, ms) in [("region=eu,tier=gold", 7), ("region=us,tier=gold", 70)] {
        let tagged = main.steps[0].tag_stats(region);
        tagged.requests = 5;
        tagged.failed = u64::from(ms == 70);
        tagged.duration.record_ns(ms * 1_000_000);
    }
    for (metric, values) in
        [(0, vec![2.5, 3.0]), (1, vec![8.0, 4.0]), (2, vec![1.0, 0.0]), (3, vec![9.0])]
    {
        for (at, value) in values.into_iter().enumerate() {
            main.metrics[metric].record(value, at as u64 + 1);
        }
    }
    window
}

/// What one event of a made-up run is: of which stage and step, how long, and with what status.
pub(crate) type Happening = (u8, u8, u16, u8);

/// A window with something of everything, from any numbers.
pub(crate) fn made_up(layout: &Layout, happenings: &[Happening]) -> Window {
    let mut window = Window::new(layout);
    for (at, &(stage, step, time, kind)) in happenings.iter().enumerate() {
        let stage = usize::from(stage) % layout.stages.len();
        let workflow = layout.workflow_of_stage(stage);
        let step = usize::from(step) % workflow.steps.len();
        let checks = workflow.checks.len();
        let block = window.block(layout, stage);
        let failed = kind % 5 == 0;
        record(&mut block.steps[step], u64::from(time) * 7 % 60_000, failed);
        let stats = &mut block.steps[step];
        stats.status.add(if failed { 503 } else { 200 + u16::from(kind % 3) }, 1);
        stats.errors[usize::from(kind) % ErrorKind::ALL.len()] += u64::from(failed);
        stats.receiving.record_ns(u64::from(time) * u64::from(kind));
        if kind % 4 == 1 {
            let tagged = stats.tag_stats(&format!("region=r{}", time % 100));
            tagged.requests += 1;
            tagged.latency.record_ns(u64::from(time) * 1000);
        }
        if checks > 0 {
            let check = &mut block.checks[usize::from(time) % checks];
            check.passes += u64::from(!failed);
            check.fails += u64::from(failed);
        }
        block.iterations += 1;
        block.iteration_duration.record_ns(u64::from(time) << (kind % 30));
        block.start_lag.record_ns(u64::from(kind) * 100_000);
        block.late_starts += u64::from(kind > 100);
        block.dropped[usize::from(kind) % 4] += u64::from(time % 3 == 0);
        let metric = usize::from(time) % layout.metrics.len();
        block.metrics[metric].record(f64::from(kind), (at as u64 + 1) * 1000 + u64::from(time));
    }
    window
}
