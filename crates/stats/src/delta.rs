//! A window in the form in which it is kept and sent: only what was counted, histograms as the
//! buckets in use.
//!
//! A [`Window`] has room for everything a plan can count, some hundred kilobytes for a few steps. A
//! delta of a tenth of a second takes one or two. Adding it to a window is the same as merging the
//! window that it was made from.
//!
//! Counters stand apart from distributions, because a stream sends the former as sums since its
//! start ([`Counters`]): a frame that follows a gap then still says how many there were.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error_kind::ErrorKind;
use crate::layout::Layout;
use crate::trend::SparseTrend;
use crate::window::{Block, CustomValue, DropCause, StepStats, TAG_SETS_MAX, Window};

const ERRORS: usize = ErrorKind::ALL.len();
const CAUSES: usize = DropCause::ALL.len();
/// Iterations done, interrupted, started late, and dropped by cause.
pub(crate) const BLOCK_COUNTERS: usize = 3 + CAUSES;
/// Eight kinds of requests and bytes, folded tags, and errors by kind.
pub(crate) const STEP_COUNTERS: usize = 9 + ERRORS;
pub(crate) const STEP_TRENDS: usize = 8;
/// Longer tag values count under `other`.
pub(crate) const TAGS_BYTES_MAX: usize = 4 << 10;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Delta {
    /// By number of the stage.
    pub(crate) blocks: BTreeMap<u32, BlockDelta>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct BlockDelta {
    pub counters: BlockCounters,
    pub iteration_duration: SparseTrend,
    pub start_lag: SparseTrend,
    /// By number of the step within its workflow.
    pub steps: BTreeMap<u32, StepDelta>,
    /// By number of the custom metric.
    pub metrics: BTreeMap<u32, MetricDelta>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StepDelta {
    pub counters: StepCounters,
    /// In the order of [`StepStats::trends`].
    pub trends: [SparseTrend; STEP_TRENDS],
    pub tagged: BTreeMap<Box<str>, TagDelta>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TagDelta {
    pub requests: u64,
    pub failed: u64,
    pub latency: SparseTrend,
    pub duration: SparseTrend,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum MetricDelta {
    Counter { sum: f64, count: u64 },
    Gauge { value: f64, at_ns: u64, min: f64, max: f64 },
    Rate { trues: u64, total: u64 },
    Trend(SparseTrend),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BlockCounters {
    pub own: [u64; BLOCK_COUNTERS],
    /// Passes and fails, by number of the check within its workflow.
    pub checks: BTreeMap<u32, [u64; 2]>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StepCounters {
    pub own: [u64; STEP_COUNTERS],
    pub status: BTreeMap<u16, u64>,
}

/// The counters of a stream since its start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    pub(crate) blocks: BTreeMap<u32, BlockCounters>,
    pub(crate) steps: BTreeMap<(u32, u32), StepCounters>,
}

impl Delta {
    pub fn of(window: &Window) -> Delta {
        let mut delta = Delta::default();
        for (stage, block) in window.blocks.iter().enumerate() {
            let Some(block) = block else { continue };
            let block = BlockDelta::of(block);
            if block != BlockDelta::default() {
                delta.blocks.insert(stage as u32, block);
            }
        }
        delta
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub fn merge(&mut self, other: &Delta) {
        for (stage, theirs) in &other.blocks {
            match self.blocks.get_mut(stage) {
                Some(mine) => mine.merge(theirs),
                None => drop(self.blocks.insert(*stage, theirs.clone())),
            }
        }
    }

    pub fn add_to(&self, window: &mut Window, layout: &Layout) {
        for (stage, block) in &self.blocks {
            block.add_to(window.block(layout, *stage as usize));
        }
    }

    /// Requests begun and failed, for tests of life and points of a curve.
    pub fn requests(&self) -> (u64, u64) {
        let steps = self.blocks.values().flat_map(|block| block.steps.values());
        steps.fold((0, 0), |(all, failed), step| {
            (all + step.counters.own[0], failed + step.counters.own[3])
        })
    }

    /// Latencies of all steps together.
    pub fn latency(&self) -> SparseTrend {
        let mut sum = SparseTrend::default();
        for step in self.blocks.values().flat_map(|block| block.steps.values()) {
            sum.merge(&step.trends[0]);
        }
        sum
    }

    /// From what was counted to what the stream has counted so far, where this delta speaks of it.
    pub(crate) fn accumulate(&mut self, counters: &mut Counters) {
        for (stage, block) in &mut self.blocks {
            let sum = counters.blocks.entry(*stage).or_default();
            sum.add(&block.counters);
            block.counters.clone_from(sum);
            for (step, delta) in &mut block.steps {
                let sum = counters.steps.entry((*stage, *step)).or_default();
                sum.add(&delta.counters);
                delta.counters.clone_from(sum);
            }
        }
    }

    /// Speaks of everything that the stream has ever counted.
    pub(crate) fn complete(&mut self, counters: &Counters) {
        for (stage, known) in &counters.blocks {
            let block = self.blocks.entry(*stage).or_default();
            block.counters.clone_from(known);
        }
        for ((stage, step), known) in &counters.steps {
            let block = self.blocks.entry(*stage).or_default();
            block.steps.entry(*step).or_default().counters.clone_from(known);
        }
    }

    /// Back from sums to what was counted since `before`; `None` if a counter went back.
    pub(crate) fn since(&mut self, before: &Counters) -> Option<()> {
        for (stage, block) in &mut self.blocks {
            if let Some(known) = before.blocks.get(stage) {
                block.counters.subtract(known)?;
            }
            for (step, delta) in &mut block.steps {
                if let Some(known) = before.steps.get(&(*stage, *step)) {
                    delta.counters.subtract(known)?;
                }
            }
        }
        Some(())
    }

    /// Joins a later frame of the same stream: its sums replace these, its distributions add.
    pub(crate) fn join(&mut self, later: Delta) {
        for (stage, mut theirs) in later.blocks {
            let Some(mine) = self.blocks.get_mut(&stage) else {
                self.blocks.insert(stage, theirs);
                continue;
            };
            mine.counters = std::mem::take(&mut theirs.counters);
            for (step, mut later) in std::mem::take(&mut theirs.steps) {
                match mine.steps.get_mut(&step) {
                    Some(step) => {
                        step.counters = std::mem::take(&mut later.counters);
                        step.merge(&later);
                    }
                    None => drop(mine.steps.insert(step, later)),
                }
            }
            // Counters and steps of `theirs` are empty by now.
            mine.merge(&theirs);
        }
    }

    /// Tag values beyond the limit of the whole stream are counted under `other`, as a recorder
    /// does within one window.
    pub(crate) fn fold_tags(&mut self, known: &mut BTreeMap<(u32, u32), Vec<Box<str>>>) {
        for (stage, block) in &mut self.blocks {
            for (number, step) in &mut block.steps {
                if step.tagged.is_empty() {
                    continue;
                }
                let known = known.entry((*stage, *number)).or_default();
                for (tags, delta) in std::mem::take(&mut step.tagged) {
                    let is_known = known.contains(&tags);
                    let room = known.len() < TAG_SETS_MAX && tags.len() <= TAGS_BYTES_MAX;
                    let fits = is_known || room;
                    if fits && !is_known {
                        known.push(tags.clone());
                    }
                    if !fits && &*tags != "other" {
                        step.counters.own[8] += delta.requests;
                    }
                    let tags = if fits { tags } else { "other".into() };
                    step.tagged.entry(tags).or_default().merge(&delta);
                }
            }
        }
    }
}

impl Counters {
    /// Requests that were written to a connection, and those that were answered.
    pub(crate) fn sent_and_completed(&self) -> (u64, u64) {
        let steps = self.steps.values().map(|step| (step.own[1], step.own[2]));
        steps.fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1))
    }

    /// The counters that a delta speaks of.
    pub(crate) fn of(delta: &Delta) -> Counters {
        let mut counters = Counters::default();
        for (stage, block) in &delta.blocks {
            counters.blocks.insert(*stage, block.counters.clone());
            for (step, delta) in &block.steps {
                counters.steps.insert((*stage, *step), delta.counters.clone());
            }
        }
        counters
    }

    /// Takes over later sums.
    pub(crate) fn replace(&mut self, later: Counters) {
        self.blocks.extend(later.blocks);
        self.steps.extend(later.steps);
    }
}

impl BlockDelta {
    fn of(block: &Block) -> BlockDelta {
        let mut own = [0; BLOCK_COUNTERS];
        (own[0], own[1], own[2]) =
            (block.iterations, block.iterations_interrupted, block.late_starts);
        own[3..].copy_from_slice(&block.dropped);
        let checks = block.checks.iter().enumerate();
        let checks = checks.filter(|(_, check)| check.passes + check.fails > 0);
        let steps = block.steps.iter().enumerate().filter(|(_, step)| step.requests > 0);
        let metrics = block.metrics.iter().enumerate();
        BlockDelta {
            counters: BlockCounters {
                own,
                checks: checks.map(|(at, c)| (at as u32, [c.passes, c.fails])).collect(),
            },
            iteration_duration: block.iteration_duration.to_sparse(),
            start_lag: block.start_lag.to_sparse(),
            steps: steps.map(|(at, step)| (at as u32, StepDelta::of(step))).collect(),
            metrics: metrics
                .filter_map(|(at, metric)| Some((at as u32, MetricDelta::of(metric)?)))
                .collect(),
        }
    }

    fn merge(&mut self, other: &BlockDelta) {
        self.counters.add(&other.counters);
        self.iteration_duration.merge(&other.iteration_duration);
        self.start_lag.merge(&other.start_lag);
        for (step, theirs) in &other.steps {
            let mine = self.steps.entry(*step).or_default();
            mine.counters.add(&theirs.counters);
            mine.merge(theirs);
        }
        for (metric, theirs) in &other.metrics {
            match self.metrics.get_mut(metric) {
                Some(mine) => mine.merge(theirs),
                None => drop(self.metrics.insert(*metric, theirs.clone())),
            }
        }
    }

    fn add_to(&self, block: &mut Block) {
        let own = &self.counters.own;
        block.iterations += own[0];
        block.iterations_interrupted += own[1];
        block.late_starts += own[2];
        block.dropped.iter_mut().zip(&own[3..]).for_each(|(sum, count)| *sum += count);
        for (check, [passes, fails]) in &self.counters.checks {
            let check = &mut block.checks[*check as usize];
            check.passes += passes;
            check.fails += fails;
        }
        block.iteration_duration.merge_sparse(&self.iteration_duration);
        block.start_lag.merge_sparse(&self.start_lag);
        for (step, delta) in &self.steps {
            delta.add_to(&mut block.steps[*step as usize]);
        }
        for (metric, delta) in &self.metrics {
            delta.add_to(&mut block.metrics[*metric as usize]);
        }
    }
}

impl BlockCounters {
    fn add(&mut self, other: &BlockCounters) {
        self.own.iter_mut().zip(&other.own).for_each(|(sum, count)| *sum += count);
        for (check, [passes, fails]) in &other.checks {
            let mine = self.checks.entry(*check).or_default();
            mine[0] += passes;
            mine[1] += fails;
        }
    }

    fn subtract(&mut self, before: &BlockCounters) -> Option<()> {
        subtract(&mut self.own, &before.own)?;
        for (check, known) in &before.checks {
            subtract(self.checks.get_mut(check)?, known)?;
        }
        Some(())
    }
}

impl StepCounters {
    fn add(&mut self, other: &StepCounters) {
        self.own.iter_mut().zip(&other.own).for_each(|(sum, count)| *sum += count);
        for (status, count) in &other.status {
            *self.status.entry(*status).or_default() += count;
        }
    }

    fn subtract(&mut self, before: &StepCounters) -> Option<()> {
        subtract(&mut self.own, &before.own)?;
        for (status, known) in &before.status {
            let sum = self.status.get_mut(status)?;
            *sum = sum.checked_sub(*known)?;
        }
        self.status.retain(|_, count| *count > 0);
        Some(())
    }
}

fn subtract(from: &mut [u64], what: &[u64]) -> Option<()> {
    for (sum, known) in from.iter_mut().zip(what) {
        *sum = sum.checked_sub(*known)?;
    }
    Some(())
}

impl StepDelta {
    fn of(step: &StepStats) -> StepDelta {
        let mut own = [0; STEP_COUNTERS];
        let fixed = [
            step.requests,
            step.sent,
            step.completed,
            step.failed,
            step.interrupted,
            step.retried,
            step.bytes_sent,
            step.bytes_received,
            step.tags_folded,
        ];
        own[..fixed.len()].copy_from_slice(&fixed);
        own[fixed.len()..].copy_from_slice(&step.errors);
        let tag = |stats: &crate::window::TagStats| TagDelta {
            requests: stats.requests,
            failed: stats.failed,
            latency: stats.latency.to_sparse(),
            duration: stats.duration.to_sparse(),
        };
        StepDelta {
            counters: StepCounters { own, status: step.status.iter().collect() },
            trends: step.trends().map(crate::trend::Trend::to_sparse),
            tagged: step.tagged.iter().map(|(tags, stats)| (tags.clone(), tag(stats))).collect(),
        }
    }

    /// All but the counters, which mean different things in different places.
    fn merge(&mut self, other: &StepDelta) {
        for (mine, theirs) in self.trends.iter_mut().zip(&other.trends) {
            mine.merge(theirs);
        }
        for (tags, theirs) in &other.tagged {
            self.tagged.entry(tags.clone()).or_default().merge(theirs);
        }
    }

    fn add_to(&self, step: &mut StepStats) {
        let own = &self.counters.own;
        let fixed = [
            &mut step.requests,
            &mut step.sent,
            &mut step.completed,
            &mut step.failed,
            &mut step.interrupted,
            &mut step.retried,
            &mut step.bytes_sent,
            &mut step.bytes_received,
            &mut step.tags_folded,
        ];
        fixed.into_iter().zip(own).for_each(|(sum, count)| *sum += count);
        step.errors.iter_mut().zip(&own[9..]).for_each(|(sum, count)| *sum += count);
        for (status, count) in &self.counters.status {
            step.status.add(*status, *count);
        }
        for (trend, sparse) in step.trends_mut().into_iter().zip(&self.trends) {
            trend.merge_sparse(sparse);
        }
        for (tags, delta) in &self.tagged {
            let tagged = step.tag_stats(tags);
            tagged.requests += delta.requests;
            tagged.failed += delta.failed;
            tagged.latency.merge_sparse(&delta.latency);
            tagged.duration.merge_sparse(&delta.duration);
        }
    }
}

impl TagDelta {
    fn merge(&mut self, other: &TagDelta) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.latency.merge(&other.latency);
        self.duration.merge(&other.duration);
    }
}

impl MetricDelta {
    /// `None`: nothing was recorded.
    fn of(value: &CustomValue) -> Option<MetricDelta> {
        match *value {
            CustomValue::Counter { sum, count } if count > 0 => {
                Some(MetricDelta::Counter { sum, count })
            }
            CustomValue::Gauge { value, at_ns, min, max } if min <= max => {
                Some(MetricDelta::Gauge { value, at_ns, min, max })
            }
            CustomValue::Rate { trues, total } if total > 0 => {
                Some(MetricDelta::Rate { trues, total })
            }
            CustomValue::Trend(ref trend) if !trend.is_empty() => {
                Some(MetricDelta::Trend(trend.to_sparse()))
            }
            _ => None,
        }
    }

    fn merge(&mut self, other: &MetricDelta) {
        match (self, other) {
            (MetricDelta::Counter { sum, count }, MetricDelta::Counter { sum: s, count: c }) => {
                *sum += s;
                *count += c;
            }
            (
                MetricDelta::Gauge { value, at_ns, min, max },
                MetricDelta::Gauge { value: v, at_ns: a, min: lo, max: hi },
            ) => {
                if a >= at_ns {
                    (*value, *at_ns) = (*v, *a);
                }
                *min = min.min(*lo);
                *max = max.max(*hi);
            }
            (MetricDelta::Rate { trues, total }, MetricDelta::Rate { trues: t, total: n }) => {
                *trues += t;
                *total += n;
            }
            (MetricDelta::Trend(mine), MetricDelta::Trend(theirs)) => mine.merge(theirs),
            // The decoder has compared each with the layout.
            _ => debug_assert!(false, "two kinds of one metric"),
        }
    }

    fn add_to(&self, sum: &mut CustomValue) {
        match (self, sum) {
            (MetricDelta::Trend(sparse), CustomValue::Trend(trend)) => trend.merge_sparse(sparse),
            (MetricDelta::Counter { sum, count }, value) => {
                value.merge(&CustomValue::Counter { sum: *sum, count: *count });
            }
            (MetricDelta::Gauge { value: v, at_ns, min, max }, value) => {
                let gauge = CustomValue::Gauge { value: *v, at_ns: *at_ns, min: *min, max: *max };
                value.merge(&gauge);
            }
            (MetricDelta::Rate { trues, total }, value) => {
                value.merge(&CustomValue::Rate { trues: *trues, total: *total });
            }
            (MetricDelta::Trend(_), _) => debug_assert!(false, "two kinds of one metric"),
        }
    }
}
