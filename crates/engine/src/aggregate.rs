//! The sum of what all cores have counted, and the views of it: history, live snapshots, samples of
//! errors.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use stats::series::{SeriesLayout, SeriesWindow, Sink, builtin};
use stats::{
    DropCause, ErrorKind, ErrorSample, HistoryPoint, Layout, Snapshot, StepSnapshot, TotalSnapshot,
    Trend, Window, totals,
};

use crate::core::Swapped;

/// Points of history that are kept; beyond it neighbours are joined, so that a run of any length
/// fits.
const HISTORY_MAX: usize = 3600;
/// Points that the live view gets.
const RECENT_MAX: usize = 120;

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
    cpu: BTreeMap<usize, Duration>,
    pub cpu_total: BTreeMap<usize, (Duration, Duration)>,
    pub busiest_core: f64,
    /// Of a script's run.
    pub series: Option<Box<SeriesWindow>>,
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
            cpu: BTreeMap::new(),
            cpu_total: BTreeMap::new(),
            busiest_core: 0.0,
            series: series.map(|layout| Box::new(SeriesWindow::new(layout))),
        }
    }

    /// Takes one core's window; what is left of it, cleared, can be used again.
    pub fn take(&mut self, swapped: Swapped) -> (Window, Option<Box<SeriesWindow>>) {
        let Swapped { core, mut window, mut series, vus, messages, samples_dropped, .. } = swapped;
        let (cpu, loop_lag) = (swapped.cpu, swapped.loop_lag);
        if let (Some(sum), Some(one)) = (&mut self.series, &mut series) {
            sum.merge(one);
            one.clear();
        }
        self.delta.merge(&window);
        window.clear();
        self.vus.retain(|(known, _), _| *known != core);
        self.vus.extend(vus.into_iter().map(|(workflow, count)| ((core, workflow), count)));
        for (step, kind, message) in messages {
            let known = self.samples.get(&(step, kind));
            if known.is_none_or(|(_, exchange)| exchange.is_none()) {
                self.samples.insert((step, kind), (message.text, message.exchange));
            }
        }
        self.samples_dropped += samples_dropped;
        self.loop_lag.merge(&loop_lag);
        self.cpu_total.insert(core, cpu);
        (window, series)
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
        let mut total = TotalSnapshot { vus: self.vus_total(), ..TotalSnapshot::default() };
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
fn join(pair: &[HistoryPoint]) -> HistoryPoint {
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
