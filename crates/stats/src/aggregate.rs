//! The sum of what all cores or shards have counted, and the views of it: history, live snapshots,
//! samples of errors. A local run feeds it from its cores, the owner of a distributed job from the
//! streams of its shards, so that both show and report the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::delta::Delta;
use crate::error_kind::ErrorKind;
use crate::layout::Layout;
use crate::result::{ErrorSample, HistoryPoint, LANDED};
use crate::series::{SeriesLayout, SeriesWindow, Sink, builtin};
use crate::snapshot::{Snapshot, StepSnapshot, TotalSnapshot};
use crate::totals;
use crate::trend::{SparseTrend, Trend};
use crate::window::{DropCause, TAG_SETS_MAX, Window};

/// Points of history that are kept; beyond it neighbours are joined, so that a run of any length
/// fits.
const HISTORY_MAX: usize = 3600;
/// Points that the live view gets.
const RECENT_MAX: usize = 120;

#[derive(Debug)]
pub struct Aggregate {
    layout: Arc<Layout>,
    pub totals: Window,
    /// What has come in since the last tick was closed.
    delta: Window,
    /// The last closed tick's share of the totals.
    pub last: Window,
    pub history: Vec<HistoryPoint>,
    recent: Vec<HistoryPoint>,
    samples: BTreeMap<(usize, ErrorKind), (String, Option<String>)>,
    pub loop_lag: Trend,
    pub samples_dropped: u64,
    /// Virtual users by (core, workflow), as last heard.
    vus: BTreeMap<(usize, usize), u64>,
    under_way: BTreeMap<usize, u64>,
    cpu: BTreeMap<usize, Duration>,
    pub cpu_total: BTreeMap<usize, (Duration, Duration)>,
    pub busiest_core: f64,
    /// Of a script's run.
    pub series: Option<Box<SeriesWindow>>,
}

/// What of it a new owner of a job takes up, beside the tables.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedAggregate {
    history: Vec<HistoryPoint>,
    samples: Vec<(usize, ErrorKind, String, Option<String>)>,
    busiest_core: f64,
}

impl Aggregate {
    pub fn new(layout: Arc<Layout>, series: Option<&SeriesLayout>) -> Aggregate {
        Aggregate {
            totals: Window::new(&layout),
            delta: Window::new(&layout),
            last: Window::new(&layout),
            layout,
            history: Vec::new(),
            recent: Vec::new(),
            samples: BTreeMap::new(),
            loop_lag: Trend::new(),
            samples_dropped: 0,
            vus: BTreeMap::new(),
            under_way: BTreeMap::new(),
            cpu: BTreeMap::new(),
            cpu_total: BTreeMap::new(),
            busiest_core: 0.0,
            series: series.map(|layout| Box::new(SeriesWindow::new(layout))),
        }
    }

    /// Counts of the tick that is open.
    pub fn add(&mut self, window: &Window, series: Option<&SeriesWindow>) {
        self.delta.merge(window);
        if let (Some(sum), Some(one)) = (&mut self.series, series) {
            sum.merge(one);
        }
    }

    /// The same, of counts that came in their sparse form.
    pub fn add_delta(&mut self, delta: &Delta) {
        delta.add_to(&mut self.delta, &self.layout);
    }

    /// Virtual users alive on this core, by workflow: in place of what it said before.
    pub fn set_vus(&mut self, core: usize, vus: impl IntoIterator<Item = (usize, u64)>) {
        self.vus.retain(|(known, _), _| *known != core);
        self.vus.extend(vus.into_iter().map(|(workflow, count)| ((core, workflow), count)));
    }

    /// Requests that have begun on this core and not ended: in place of what it said before.
    pub fn set_under_way(&mut self, core: usize, requests: u64) {
        self.under_way.insert(core, requests);
    }

    /// The first message of each kind and step is kept, unless a later one shows the exchange.
    pub fn note(&mut self, step: usize, kind: ErrorKind, text: String, exchange: Option<String>) {
        let known = self.samples.get(&(step, kind));
        // Where a redirect led is told only as long as nothing is wrong with it.
        if text.starts_with(LANDED) && known.is_some() {
            return;
        }
        if known.is_none_or(|(_, shown)| shown.is_none()) {
            self.samples.insert((step, kind), (text, exchange));
        }
    }

    /// CPU time of this core's thread so far, user and system.
    pub fn set_cpu(&mut self, core: usize, cpu: (Duration, Duration)) {
        self.cpu_total.insert(core, cpu);
    }

    pub fn cpu_sum(&self) -> (Duration, Duration) {
        let none = (Duration::ZERO, Duration::ZERO);
        self.cpu_total.values().fold(none, |(user, system), core| (user + core.0, system + core.1))
    }

    /// Remarks that the counts call for, at the end.
    pub fn notes(&self, samples_dropped: u64, unrecordable: u64) -> Vec<String> {
        let steps = || self.totals.blocks.iter().flatten().flat_map(|block| &block.steps);
        let mut notes = Vec::new();
        let folded: u64 = steps().map(|step| step.tags_folded).sum();
        if folded > 0 {
            notes.push(format!(
                "{folded} requests had tag values beyond the limit of {TAG_SETS_MAX} per step; they \
                 are counted under `other`"
            ));
        }
        if samples_dropped > 0 {
            notes.push(format!(
                "{samples_dropped} samples did not reach the output files: writing was slower than \
                 the load"
            ));
        }
        if unrecordable > 0 {
            notes.push(format!(
                "{unrecordable} values for custom metrics were no numbers and were left out"
            ));
        }
        let requests: u64 = steps().map(|step| step.requests).sum();
        let failed: u64 = steps().map(|step| step.failed).sum();
        if self.busiest_core > 0.95 && failed * 2 < requests {
            notes.push(
                "a generator core was fully used: the target may be able to do more; give `--cores` or \
                 more machines to find out"
                    .to_owned(),
            );
        }
        notes
    }

    /// Counts that no tick has closed over yet.
    pub(crate) fn open_tick(&self) -> Delta {
        Delta::of(&self.delta)
    }

    pub(crate) fn save(&self) -> SavedAggregate {
        let samples = self
            .samples
            .iter()
            .map(|(&(step, kind), (text, exchange))| (step, kind, text.clone(), exchange.clone()));
        SavedAggregate {
            history: self.history.clone(),
            samples: samples.collect(),
            busiest_core: self.busiest_core,
        }
    }

    pub(crate) fn restore(
        &mut self,
        saved: SavedAggregate,
        totals: &Delta,
        loop_lag: &SparseTrend,
        series: Option<Box<SeriesWindow>>,
    ) {
        totals.add_to(&mut self.totals, &self.layout);
        self.loop_lag.merge_sparse(loop_lag);
        self.series = series;
        self.history = saved.history;
        let recent = self.history.len().saturating_sub(RECENT_MAX);
        self.recent = self.history[recent..].to_vec();
        self.busiest_core = saved.busiest_core;
        let steps = self.layout.steps.len();
        for (step, kind, text, exchange) in saved.samples {
            if step < steps {
                self.samples.insert((step, kind), (text, exchange));
            }
        }
    }

    /// CPU time that was used before, and belongs to no tick to come.
    pub(crate) fn restore_cpu(&mut self, core: usize, cpu: (Duration, Duration)) {
        self.cpu_total.insert(core, cpu);
        self.cpu.insert(core, cpu.0 + cpu.1);
    }

    /// All cores have reported for an interval that ended at `elapsed`.
    pub fn close_tick(&mut self, elapsed: Duration, over: Duration) {
        // A core that answers late adds to the next tick: nothing is lost, only shown later.
        std::mem::swap(&mut self.last, &mut self.delta);
        self.delta.clear();
        self.totals.merge(&self.last);
        let over_s = over.as_secs_f64().max(1e-9);
        for (&core, &(user, system)) in &self.cpu_total {
            let before = self.cpu.insert(core, user + system).unwrap_or_default();
            let used = (user + system).saturating_sub(before).as_secs_f64() / over_s;
            // A short last interval says little about a whole second.
            if over >= Duration::from_millis(500) {
                self.busiest_core = self.busiest_core.max(used.min(1.0));
            }
        }
        let steps = || self.last.blocks.iter().flatten().flat_map(|block| &block.steps);
        let mut latency = Trend::new();
        steps().for_each(|step| latency.merge(&step.latency));
        let point = HistoryPoint {
            at_s: elapsed.as_secs_f64(),
            over_s,
            requests: steps().map(|step| step.requests).sum(),
            failed: steps().map(|step| step.failed).sum(),
            vus: self.vus_total(),
            p50_ms: latency.percentile_ms(50.0),
            p95_ms: latency.percentile_ms(95.0),
            p99_ms: latency.percentile_ms(99.0),
        };
        self.history.push(point);
        if self.history.len() > HISTORY_MAX {
            self.history = self.history.chunks(2).map(join).collect();
        }
        self.recent.push(point);
        if self.recent.len() > RECENT_MAX {
            self.recent.remove(0);
        }
    }

    pub fn vus_total(&self) -> u64 {
        self.vus.values().sum()
    }

    pub fn vus_of(&self, workflow: usize) -> u64 {
        self.vus.iter().filter(|((_, known), _)| *known == workflow).map(|(_, count)| count).sum()
    }

    pub fn iterations_of(&self, workflow: usize) -> (u64, u64) {
        let stages = self.layout.workflows[workflow].stages.clone();
        let blocks = self.totals.blocks[stages].iter().flatten();
        blocks.fold((0, 0), |(done, dropped), block| {
            (done + block.iterations, dropped + block.dropped.iter().sum::<u64>())
        })
    }

    pub fn error_samples(&self) -> Vec<ErrorSample> {
        let mut samples: Vec<ErrorSample> = self
            .samples
            .iter()
            .map(|(&(step, kind), (message, exchange))| ErrorSample {
                kind,
                step,
                count: totals::step_total(&self.totals, &self.layout, step).errors[kind as usize],
                message: message.clone(),
                exchange: exchange.clone(),
            })
            .collect();
        samples.sort_by_key(|sample| std::cmp::Reverse(sample.count));
        samples
    }

    /// Fills in what the counts say; workflows, state and verdict are the conductor's.
    pub fn fill(&self, snapshot: &mut Snapshot) {
        let last = self.recent.last().copied().unwrap_or_default();
        let elapsed_s = snapshot.elapsed.as_secs_f64().max(1e-9);
        let under_way = self.under_way.values().sum();
        let mut total =
            TotalSnapshot { vus: self.vus_total(), under_way, ..TotalSnapshot::default() };
        let mut errors = [0u64; ErrorKind::ALL.len()];
        for block in self.totals.blocks.iter().flatten() {
            total.iterations += block.iterations;
            total.dropped +=
                DropCause::ALL.iter().map(|&cause| block.dropped[cause as usize]).sum::<u64>();
            total.checks_passed += block.checks.iter().map(|check| check.passes).sum::<u64>();
            total.checks_failed += block.checks.iter().map(|check| check.fails).sum::<u64>();
            for step in &block.steps {
                total.requests += step.requests;
                total.failed += step.failed;
                total.bytes_sent += step.bytes_sent;
                total.bytes_received += step.bytes_received;
                errors.iter_mut().zip(&step.errors).for_each(|(sum, count)| *sum += count);
            }
        }
        if let Some(series) = &self.series
            && let Some(Sink::Rate { trues, total: all, .. }) = series.sink(builtin::CHECKS)
        {
            total.checks_passed += trues;
            total.checks_failed += all - trues;
        }
        total.rate = last.requests as f64 / last.over_s.max(1e-9);
        total.rate_mean = total.requests as f64 / elapsed_s;
        let mut latency = Trend::new();
        for step in 0..self.layout.steps.len() {
            let shown = self.step_snapshot(step, last.over_s, &mut latency);
            if shown.requests > 0 {
                snapshot.steps.push(shown);
            }
        }
        total.p50_ms = latency.percentile_ms(50.0);
        total.p95_ms = latency.percentile_ms(95.0);
        total.p99_ms = latency.percentile_ms(99.0);
        snapshot.total = total;
        snapshot.history = self.recent.clone();
        let named = ErrorKind::ALL.iter().zip(errors).filter(|(_, count)| *count > 0);
        snapshot.errors = named.map(|(kind, count)| (kind.name().to_owned(), count)).collect();
        snapshot.errors.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    }

    fn step_snapshot(&self, step: usize, over_s: f64, all: &mut Trend) -> StepSnapshot {
        let layout = &self.layout.steps[step];
        let workflow = &self.layout.workflows[layout.workflow];
        let local = step - workflow.steps.start;
        let mut shown = StepSnapshot {
            workflow: workflow.name.clone(),
            name: layout.name.clone(),
            requests: 0,
            failed: 0,
            rate: 0.0,
            p50_ms: 0.0,
            p95_ms: 0.0,
            p99_ms: 0.0,
        };
        let mut latency = Trend::new();
        for block in self.totals.blocks[workflow.stages.clone()].iter().flatten() {
            let stats = &block.steps[local];
            shown.requests += stats.requests;
            shown.failed += stats.failed;
            latency.merge(&stats.latency);
        }
        for block in self.last.blocks[workflow.stages.clone()].iter().flatten() {
            shown.rate += block.steps[local].requests as f64 / over_s.max(1e-9);
        }
        all.merge(&latency);
        shown.p50_ms = latency.percentile_ms(50.0);
        shown.p95_ms = latency.percentile_ms(95.0);
        shown.p99_ms = latency.percentile_ms(99.0);
        shown
    }
}

/// Two neighbours as one. Percentiles cannot be averaged: the worse one stands for both.
pub(crate) fn join(pair: &[HistoryPoint]) -> HistoryPoint {
    let last = pair[pair.len() - 1];
    pair[..pair.len() - 1].iter().fold(last, |sum, point| HistoryPoint {
        at_s: sum.at_s,
        over_s: sum.over_s + point.over_s,
        requests: sum.requests + point.requests,
        failed: sum.failed + point.failed,
        vus: sum.vus.max(point.vus),
        p50_ms: sum.p50_ms.max(point.p50_ms),
        p95_ms: sum.p95_ms.max(point.p95_ms),
        p99_ms: sum.p99_ms.max(point.p99_ms),
    })
}
