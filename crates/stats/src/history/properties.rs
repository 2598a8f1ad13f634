//! What must hold for every history, however a run was divided.

use proptest::prelude::*;

use super::*;
use crate::delta::Delta;
use crate::fixture::{Happening, layout, made_up};
use crate::totals;

const SECOND: u64 = 1_000_000_000;

fn facts(tick: usize) -> TickFacts {
    TickFacts { at_ns: (tick as u64 + 1) * SECOND, over_ns: SECOND, vus: 3, ..TickFacts::default() }
}

fn rows_of(history: &History) -> Row {
    let mut sum = Row::default();
    for slot in history.slots() {
        sum.merge(&slot.sum(|row| history.is_step(row)));
    }
    sum
}

/// Ticks, in each the windows of several cores, in each what happened.
fn runs() -> impl Strategy<Value = Vec<Vec<Vec<Happening>>>> {
    let core = prop::collection::vec(any::<Happening>(), 0..5);
    prop::collection::vec(prop::collection::vec(core, 1..3), 1..1100)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// Whoever counted what, and however often the run was handed over.
    #[test]
    fn any_division_of_a_run_gives_the_same_history(run in runs(), handover in any::<u16>()) {
        let layout = layout();
        let mut whole = History::new(&layout, None);
        let mut parts = History::new(&layout, None);
        let mut all = Window::new(&layout);
        for (tick, cores) in run.iter().enumerate() {
            let at_once: Vec<Happening> = cores.concat();
            let window = made_up(&layout, &at_once);
            all.merge(&window);
            whole.close_tick(&layout, &window, None, facts(tick));
            let mut merged = Window::new(&layout);
            for core in cores.iter().rev() {
                merged.merge(&made_up(&layout, core));
            }
            parts.close_tick(&layout, &merged, None, facts(tick));
            if tick == usize::from(handover) % run.len() {
                let bytes = postcard::to_stdvec(&parts).unwrap();
                parts = postcard::from_bytes(&bytes).unwrap();
                prop_assert!(parts.is_sound(&layout));
            }
        }
        // Tag values get their rows in the order in which they come.
        for (slot, other) in whole.slots().iter().zip(parts.slots()) {
            prop_assert_eq!(slot.sum(|row| whole.is_step(row)), other.sum(|row| parts.is_step(row)));
        }
        prop_assert_eq!(whole.slots().len(), parts.slots().len());
        let sum = rows_of(&whole);
        let total = totals::grand_total(&all, &layout);
        prop_assert_eq!((sum.requests, sum.failed), (total.requests, total.failed));
        prop_assert_eq!(sum.latency.count(), total.latency.count());
        for percent in [50.0, 95.0, 99.0] {
            let (near, exact) = (sum.latency.percentile_ms(percent), total.latency.percentile_ms(percent));
            // Times of a few microseconds are counted by the microsecond.
            let error = (near - exact).abs() / exact.max(0.05);
            prop_assert!(error <= RELATIVE_ERROR + 0.01, "p{} {} for {}", percent, near, exact);
        }
        let ticks: u64 = whole.slots().iter().map(|slot| slot.over_ns / SECOND).sum();
        prop_assert_eq!(ticks as usize, run.len());
        let widths: Vec<u64> = whole.slots().iter().map(|slot| slot.over_ns / SECOND).collect();
        let (last, others) = widths.split_last().unwrap();
        prop_assert!(others.iter().all(|width| *width == u64::from(whole.ticks_per_slot())));
        prop_assert!(*last <= u64::from(whole.ticks_per_slot()));
        prop_assert!(Delta::of(&all).requests().0 == sum.requests);
    }
}

/// A plan of so many steps, each with a spread of latencies in every tick.
fn wide(steps: usize) -> (Layout, Window) {
    let base = (*layout()).clone();
    let mut layout = Layout { steps: Vec::new(), checks: Vec::new(), ..base };
    layout.workflows.truncate(1);
    layout.stages.truncate(1);
    layout.workflows[0].steps = 0..steps;
    layout.workflows[0].checks = 0..0;
    layout.workflows[0].stages = 0..1;
    let step = crate::fixture::layout().steps[0].clone();
    layout.steps =
        (0..steps).map(|n| crate::StepLayout { name: format!("s{n}"), ..step.clone() }).collect();
    let mut window = Window::new(&layout);
    let block = window.block(&layout, 0);
    for (number, step) in block.steps.iter_mut().enumerate() {
        for n in 0..200u64 {
            let us = 900 + (n * n * 37 + number as u64 * 101) % 40_000;
            step.latency.record_ns(us * 1000);
        }
        step.requests = 200;
        step.bytes_received = 20_000;
        step.status.add(200, 200);
    }
    (layout, window)
}

#[test]
fn a_day_of_fifty_steps_stays_within_its_bytes_and_says_what_it_cost() {
    let (layout, window) = wide(50);
    let mut history = History::new(&layout, None);
    history.close_tick(&layout, &window, None, facts(0));
    let tick = history.slots()[0].clone();
    // Of ten seconds each, so that it does not take a day.
    for _ in 1..8_640 {
        history.push(tick.clone());
        assert!(history.bytes() <= BYTES_MAX);
    }
    let written = postcard::to_stdvec(&history).unwrap().len();
    assert!(written <= BYTES_MAX + 16 * 1024, "{written} bytes");
    assert!(history.slots().len() > 60, "{} slots are left", history.slots().len());
    assert!(history.ticks_per_slot() >= 64);
    assert_eq!(rows_of(&history).requests, 8_640 * 50 * 200);
}

#[test]
fn tag_values_beyond_the_limit_are_counted_as_other() {
    let layout = layout();
    let mut history = History::new(&layout, None);
    for tick in 0..20 {
        let mut window = Window::new(&layout);
        let step = &mut window.block(&layout, 0).steps[0];
        step.requests = 30;
        for n in 0..30 {
            step.tag_stats(&format!("name=page {}", tick * 30 + n)).requests = 1;
        }
        history.close_tick(&layout, &window, None, facts(tick));
    }
    assert_eq!(history.rows().len(), ROWS_MAX + 1);
    assert_eq!(history.rows()[ROWS_MAX].tags.as_deref(), Some(OTHER));
    let tagged: u64 =
        history.slots().iter().map(|slot| slot.sum(|row| !history.is_step(row)).requests).sum();
    assert_eq!(tagged, 600);
    assert_eq!(rows_of(&history).requests, 600);
}

#[test]
fn a_history_of_another_layout_is_refused() {
    let (layout, window) = wide(6);
    let mut history = History::new(&layout, None);
    history.close_tick(&layout, &window, None, facts(0));
    assert!(history.is_sound(&layout));
    assert!(!history.is_sound(&wide(2).0));
}
