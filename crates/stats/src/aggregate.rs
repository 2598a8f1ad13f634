//! The sum of what all cores or shards have counted, and the views of it: history, live snapshots,
//! samples of errors. A local run feeds it from its cores, the owner of a distributed job from the
//! streams of its shards, so that both show and report the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::delta::Delta;
use crate::error_kind::ErrorKind;
use crate::history::{History, TickFacts};
use crate::layout::Layout;
use crate::result::{ErrorSample, FailureSample, HistoryPoint, UNRECORDED};
use crate::samples::FailureSamples;
use crate::series::{SeriesLayout, SeriesWindow, Sink, builtin};
use crate::snapshot::{Snapshot, StepSnapshot, TotalSnapshot};
use crate::totals;
use crate::trend::{SparseTrend, Trend};
use crate::window::{DropCause, TAG_SETS_MAX, Window};

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
    pub history: History,
    /// Ticks that were closed.
    pub ticks: u64,
    recent: Vec<HistoryPoint>,
    samples: FailureSamples,
    /// End of the last closed tick.
    elapsed: Duration,
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
    /// The same since the last tick was closed.
    series_delta: Option<Box<SeriesWindow>>,
    /// How late an event loop woke up since then, at worst.
    lag_max_ns: u64,
}

/// What of it a new owner of a job takes up, beside the tables.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedAggregate {
    history: History,
    samples: FailureSamples,
    busiest_core: f64,
}

impl SavedAggregate {
    pub fn is_sound(&self, layout: &Layout) -> bool {
        self.history.is_sound(layout) && self.samples.is_sound(layout)
    }
}

impl Aggregate {
    pub fn new(layout: Arc<Layout>, series: Option<&SeriesLayout>) -> Aggregate {
        Aggregate {
            totals: Window::new(&layout),
            delta: Window::new(&layout),
            last: Window::new(&layout),
            history: History::new(&layout, series),
            ticks: 0,
            layout,
            recent: Vec::new(),
            samples: FailureSamples::default(),
            elapsed: Duration::ZERO,
            loop_lag: Trend::new(),
            samples_dropped: 0,
            vus: BTreeMap::new(),
            under_way: BTreeMap::new(),
            cpu: BTreeMap::new(),
            cpu_total: BTreeMap::new(),
            busiest_core: 0.0,
            series: series.map(|layout| Box::new(SeriesWindow::new(layout))),
            series_delta: series.map(|layout| Box::new(SeriesWindow::new(layout))),
            lag_max_ns: 0,
        }
    }

    /// Counts of the tick that is open.
    pub fn add(&mut self, window: &Window, series: Option<&SeriesWindow>) {
        self.delta.merge(window);
        if let Some(series) = series {
            self.add_series(series);
        }
    }

    /// The same of what a script counts.
    pub fn add_series(&mut self, series: &SeriesWindow) {
        for sum in [&mut self.series, &mut self.series_delta].into_iter().flatten() {
            sum.merge(series);
        }
    }

    /// How late a core's event loop woke up.
    pub fn add_loop_lag(&mut self, lag: &SparseTrend) {
        self.loop_lag.merge_sparse(lag);
        self.lag_max_ns = self.lag_max_ns.max(lag.max_ns);
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

    /// The first message of each kind and step is kept, unless a later one shows the exchange; then
    /// a few more, some time apart, as long as they are small together.
    pub fn note(&mut self, step: usize, kind: ErrorKind, text: String, exchange: Option<String>) {
        let sample = FailureSample { at: self.elapsed, message: text, exchange };
        self.samples.note(step, kind, sample);
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
                "{}: {folded} requests had tag values beyond the limit of {TAG_SETS_MAX} per step and are \
                 counted under `other`; give the tag few values, or leave it out",
                self.folded_tags()
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
                "{unrecordable} values for custom metrics were no numbers and were left out{}; record a number, \
                 for a rate 1 or 0",
                self.first_unrecorded()
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

    fn first_unrecorded(&self) -> String {
        let mut messages = self.samples.messages();
        let found =
            messages.find_map(|(step, message)| Some((step, message.strip_prefix(UNRECORDED)?)));
        found.map_or_else(String::new, |(step, what)| {
            format!(", the first {what} in step `{}`", self.layout.steps[step].name)
        })
    }

    /// The steps whose tags have too many values, each with the tags themselves.
    fn folded_tags(&self) -> String {
        let mut words = Vec::new();
        for number in 0..self.layout.steps.len() {
            let step = totals::step_total(&self.totals, &self.layout, number);
            if step.tags_folded == 0 {
                continue;
            }
            // `id=018d,kind=a`: of each set, the name that has the most values.
            let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            for (set, _) in &step.tagged {
                for (name, value) in set.split(',').filter_map(|part| part.split_once('=')) {
                    values.entry(name.trim()).or_default().insert(value);
                }
            }
            let worst = values.into_iter().max_by_key(|(_, values)| values.len());
            let name = &self.layout.steps[number].name;
            words.push(match worst {
                Some((tag, _)) => format!("tag `{tag}` of step `{name}`"),
                None => format!("step `{name}`"),
            });
        }
        words.truncate(3);
        words.join(", ")
    }

    /// Counts that no tick has closed over yet.
    pub(crate) fn open_tick(&self) -> Delta {
        Delta::of(&self.delta)
    }

    /// What a script has counted: since the start, and since the last tick was closed.
    pub(crate) fn all_series(&self) -> impl Iterator<Item = &SeriesWindow> {
        [&self.series, &self.series_delta].into_iter().flatten().map(|series| &**series)
    }

    pub(crate) fn save(&self) -> SavedAggregate {
        SavedAggregate {
            history: self.history.clone(),
            samples: self.samples.clone(),
            busiest_core: self.busiest_core,
        }
    }

    pub(crate) fn restore(
        &mut self,
        saved: SavedAggregate,
        totals: &Delta,
        loop_lag: &SparseTrend,
        series: [Option<Box<SeriesWindow>>; 2],
    ) {
        totals.add_to(&mut self.totals, &self.layout);
        self.loop_lag.merge_sparse(loop_lag);
        [self.series, self.series_delta] = series;
        self.history = saved.history;
        let points = self.history.points();
        self.recent = points[points.len().saturating_sub(RECENT_MAX)..].to_vec();
        self.busiest_core = saved.busiest_core;
        self.samples = saved.samples;
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
        let mut busy = Duration::ZERO;
        for (&core, &(user, system)) in &self.cpu_total {
            let before = self.cpu.insert(core, user + system).unwrap_or_default();
            let used = (user + system).saturating_sub(before);
            busy += used;
            // A short last interval says little about a whole second.
            if over >= Duration::from_millis(500) {
                let share = (used.as_secs_f64() / over_s).min(1.0);
                self.busiest_core = self.busiest_core.max(share);
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
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let facts = TickFacts {
            at_ns: nanos(elapsed),
            over_ns: nanos(over),
            vus: point.vus,
            busy_ns: nanos(busy),
            lag_max_ns: std::mem::take(&mut self.lag_max_ns),
        };
        self.history.close_tick(&self.layout, &self.last, self.series_delta.as_deref(), facts);
        if let Some(series) = &mut self.series_delta {
            series.clear();
        }
        self.ticks += 1;
        self.elapsed = elapsed;
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
        self.samples.results(|step, kind| {
            totals::step_total(&self.totals, &self.layout, step).errors[kind as usize]
        })
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
