//! Thresholds: what must hold over a run, or over every sliding window of it.
//!
//! Once per tick the owner hands in what all cores counted since the tick before
//! ([`Evaluator::observe`]); each threshold takes its own small part of it, the *selection*, and
//! keeps that:
//!
//! ```text
//! Window of one tick ──select──▶ Sample ──┬─▶ cumulative sum                    no `over`
//!                                         └─▶ ring of slots ──sum──▶ worst      `over: 30s`
//! ```
//!
//! - **Values** come from merged counts and histograms, never from averaged values. Times are
//!   milliseconds, shares 0..=1. The `rate` of a counter is per second of the run. Where a selector
//!   leaves out whole stages or workflows, it is per second from the selection's first sign of life
//!   to its last: `stage: peak` is not diluted by the ramps around it, and a stall in the middle
//!   counts.
//! - **Sliding windows** move tick by tick. A window counts once it is full; a threshold has failed
//!   if any full window broke it, and the value shown is that of the worst. A run shorter than the
//!   window is judged as one window.
//! - **No data**: during the run, nothing is evaluated and nothing aborts. At the end a trend, rate
//!   or gauge without a single value has not held: nobody knows whether it would have, and silence
//!   is not success (R20). [`ThresholdResult::value`] is `None` then. Counters are never without
//!   data: nothing counted is zero. (Thresholds of k6 scripts are judged elsewhere, as k6 does.)
//! - **Limits**: a ring has at most [`SLOTS_MAX`] slots of the buckets in use; over more than that
//!   many ticks, neighbouring ticks share a slot and the window moves in those steps.
//!
//! Tags are selected by their fixed values, or by values that vary from request to request; the
//! latter are counted for `http_reqs`, `http_req_failed`, `http_req_duration` and `latency` only.

mod sample;
mod save;
mod select;
mod sliding;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tables;

use std::sync::Arc;
use std::time::Duration;

use plan::{Aggregation, Comparison, Threshold};

use crate::layout::Layout;
use crate::result::{ThresholdResult, Unit};
use crate::window::Window;
use sample::Sample;
pub(crate) use save::SavedEvaluator;
use select::Selection;
pub use sliding::SLOTS_MAX;
use sliding::Sliding;

/// All thresholds of a run, fed once per tick.
#[derive(Debug)]
pub struct Evaluator {
    watches: Vec<Watch>,
    vus_max: u64,
}

/// One threshold and what it has seen.
#[derive(Debug)]
struct Watch {
    threshold: Threshold,
    selection: Selection,
    label: String,
    /// What one tick brings, kept to reuse its memory.
    tick: Sample,
    kept: Kept,
    active: ActiveTime,
}

#[derive(Debug)]
enum Kept {
    Cumulative(Sample),
    Sliding(Sliding),
}

/// How long a selection has been alive: idle ticks count only once it shows life again, because
/// until then nobody knows whether it stalls or its stage is over.
#[derive(Debug, Default)]
struct ActiveTime {
    counted: Duration,
    idle: Duration,
}

impl Evaluator {
    #[expect(clippy::needless_pass_by_value, reason = "callers share the layout as an Arc")]
    pub fn new(thresholds: &[Threshold], layout: Arc<Layout>) -> Evaluator {
        let watch = |threshold: &Threshold| Watch::new(threshold.clone(), &layout);
        Evaluator { watches: thresholds.iter().map(watch).collect(), vus_max: 0 }
    }

    /// Takes in one tick: the merge of what all cores counted in the `window` that ended at
    /// `elapsed`.
    pub fn observe(&mut self, delta: &Window, vus: u64, elapsed: Duration, window: Duration) {
        self.vus_max = self.vus_max.max(vus);
        let at_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        for watch in &mut self.watches {
            let gauges = select::Gauges { vus, vus_max: self.vus_max, at_ns };
            watch.observe(delta, gauges, window);
        }
    }

    /// How the thresholds stand, in the order of the plan. Sliding ones show their latest window,
    /// and are not ok once a full window broke them.
    pub fn evaluate(&mut self, elapsed: Duration) -> Vec<ThresholdResult> {
        let result = |watch: &Watch| {
            let (value, ok) = match &watch.kept {
                Kept::Cumulative(_) => {
                    let value = watch.value(elapsed);
                    (value, value.is_none_or(|value| watch.holds(value)))
                }
                Kept::Sliding(sliding) => (sliding.latest(), !sliding.has_broken()),
            };
            watch.result(value, ok)
        };
        self.watches.iter().map(result).collect()
    }

    /// The first threshold with `abort` that is broken now, its `after` over and its window full.
    pub fn broken_abort(&self, elapsed: Duration) -> Option<usize> {
        let is_broken = |watch: &Watch| match &watch.kept {
            Kept::Cumulative(_) => watch.value(elapsed).is_some_and(|value| !watch.holds(value)),
            Kept::Sliding(sliding) => sliding.is_broken_now(),
        };
        self.watches.iter().position(|watch| {
            watch.threshold.abort && elapsed >= watch.threshold.after && is_broken(watch)
        })
    }

    /// The final word, in the order of the plan.
    pub fn finish(&mut self, elapsed: Duration) -> Vec<ThresholdResult> {
        let result = |watch: &Watch| {
            let (value, ok) = match &watch.kept {
                Kept::Sliding(sliding) if sliding.has_been_full() => {
                    (sliding.worst(), !sliding.has_broken())
                }
                _ => {
                    let value = watch.value(elapsed);
                    (value, value.is_none_or(|value| watch.holds(value)))
                }
            };
            watch.result(value, ok && value.is_some())
        };
        self.watches.iter().map(result).collect()
    }
}

impl Watch {
    fn new(threshold: Threshold, layout: &Layout) -> Watch {
        let selection = Selection::new(&threshold, layout);
        let empty = selection.empty();
        let kept = match threshold.over {
            None => Kept::Cumulative(empty.clone()),
            Some(over) => Kept::Sliding(Sliding::new(over, threshold.hold, empty.clone())),
        };
        let label = label(&threshold);
        Watch { threshold, selection, label, tick: empty, kept, active: ActiveTime::default() }
    }

    fn observe(&mut self, delta: &Window, gauges: select::Gauges, window: Duration) {
        self.tick.clear();
        self.selection.gather(delta, gauges, &mut self.tick);
        let alive = !self.selection.is_partial() || self.selection.shows_life(delta);
        let idle = self.active.observe(alive, window);
        match &mut self.kept {
            Kept::Cumulative(sum) => sum.merge(&self.tick),
            Kept::Sliding(sliding) if alive => {
                if !idle.is_zero() {
                    sliding.idle(idle, window);
                }
                sliding.push(&self.tick, window);
            }
            Kept::Sliding(_) => {}
        }
    }

    /// Over everything that was kept; for a sliding threshold, the window.
    fn value(&self, elapsed: Duration) -> Option<f64> {
        let aggregation = self.threshold.hold.aggregation;
        match &self.kept {
            Kept::Cumulative(sum) => {
                let partial = self.selection.is_partial();
                let time = if partial { self.active.counted } else { elapsed };
                sum.value(aggregation, time)
            }
            Kept::Sliding(sliding) => sliding.latest(),
        }
    }

    fn holds(&self, value: f64) -> bool {
        self.threshold.hold.op.holds(value, self.threshold.hold.value)
    }

    fn result(&self, value: Option<f64>, ok: bool) -> ThresholdResult {
        ThresholdResult {
            metric: self.threshold.metric.clone(),
            label: self.label.clone(),
            hold: self.threshold.text.clone(),
            value,
            ok,
            unit: self.unit(),
            abort: self.threshold.abort,
        }
    }

    fn unit(&self) -> Unit {
        use plan::MetricKind;
        match (self.selection.kind(), self.threshold.hold.aggregation) {
            (MetricKind::Counter, Aggregation::Rate) => Unit::PerSecond,
            (MetricKind::Rate, Aggregation::Rate) => Unit::Fraction,
            (_, Aggregation::Count) => Unit::Count,
            (MetricKind::Trend, _) if self.selection.is_time() => Unit::Milliseconds,
            _ => Unit::Plain,
        }
    }
}

impl ActiveTime {
    /// Counts a tick; gives back the idle time before it that now counts too.
    fn observe(&mut self, alive: bool, window: Duration) -> Duration {
        if alive {
            let idle = std::mem::take(&mut self.idle);
            self.counted += idle + window;
            idle
        } else {
            // Before the first sign of life nothing has begun.
            if !self.counted.is_zero() {
                self.idle += window;
            }
            Duration::ZERO
        }
    }
}

/// Whether `new` is further from holding than `old`.
fn is_worse(op: Comparison, limit: f64, new: f64, old: f64) -> bool {
    match op {
        Comparison::Less | Comparison::LessOrEqual => new > old,
        Comparison::Greater | Comparison::GreaterOrEqual => new < old,
        Comparison::Equal => (new - limit).abs() > (old - limit).abs(),
        Comparison::NotEqual => (new - limit).abs() < (old - limit).abs(),
    }
}

/// `http_req_duration{step:cart}`, with the window and what is left out behind it.
fn label(threshold: &Threshold) -> String {
    let select = &threshold.select;
    let named = [("step", &select.step), ("workflow", &select.workflow), ("stage", &select.stage)];
    let named = named.iter().filter_map(|(key, value)| Some((*key, value.as_deref()?)));
    let tags = select.tags.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let pairs: Vec<String> = named.chain(tags).map(|(k, v)| format!("{k}:{v}")).collect();

    let mut label = threshold.metric.clone();
    if !pairs.is_empty() {
        label.push_str(&format!("{{{}}}", pairs.join(",")));
    }
    if let Some(over) = threshold.over {
        label.push_str(&format!(" over {over:?}"));
    }
    if !threshold.exclude.is_empty() {
        label.push_str(&format!(" without {}", threshold.exclude.join(", ")));
    }
    label
}
