//! What one core counted between two swaps, and the sum of such windows.
//!
//! A window is a table: one [`Block`] per stage (a stage belongs to one workflow), and in it one
//! [`StepStats`] per step of that workflow. Blocks are made when first touched, so a plan with many
//! stages costs nothing for those that have not begun.

use plan::MetricKind;

use crate::error_kind::ErrorKind;
use crate::layout::Layout;
use crate::trend::Trend;

/// Distinct values of a step's tags beyond this are counted under `other`.
pub const TAG_SETS_MAX: usize = 64;

#[derive(Debug, Clone, Default)]
pub struct Window {
    /// Indexed by stage number of the [`Layout`].
    pub blocks: Vec<Option<Box<Block>>>,
}

#[derive(Debug, Clone, Default)]
pub struct Block {
    /// Indexed by step number, counted from the workflow's first step.
    pub steps: Vec<StepStats>,
    /// Indexed by check number, counted from the workflow's first check.
    pub checks: Vec<CheckCount>,
    /// Indexed by the number of the custom metric.
    pub metrics: Vec<CustomValue>,
    pub iterations: u64,
    /// Cut off by the end of the run; not in `iterations`.
    pub iterations_interrupted: u64,
    pub iteration_duration: Trend,
    /// Indexed by [`DropCause`].
    pub dropped: [u64; DropCause::ALL.len()],
    /// Open models: how late iterations started, measured against the schedule.
    pub start_lag: Trend,
    /// Starts later than the generator may be.
    pub late_starts: u64,
}

/// Why an iteration of the schedule was never started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropCause {
    /// All virtual users were busy and no more are allowed (`max_vus`).
    NoFreeVu,
    /// The iterations that were left when the time was over.
    TimeOver,
    /// The data set had no row left.
    DataExhausted,
    /// Its worker was lost, and the next attempt does not make up for it (R5a).
    WorkerLost,
    /// A row of a set that must not repeat was not handed out in time.
    RowsLate,
    /// The iterations that were left when the load was stopped before its time: by people, by a
    /// threshold, or because another part of its workflow had failed.
    Stopped,
}

impl DropCause {
    pub const ALL: [DropCause; 6] = [
        DropCause::NoFreeVu,
        DropCause::TimeOver,
        DropCause::DataExhausted,
        DropCause::WorkerLost,
        DropCause::RowsLate,
        DropCause::Stopped,
    ];

    pub fn name(self) -> &'static str {
        match self {
            DropCause::NoFreeVu => "no_free_vu",
            DropCause::TimeOver => "time_over",
            DropCause::DataExhausted => "data_exhausted",
            DropCause::WorkerLost => "worker_lost",
            DropCause::RowsLate => "rows_late",
            DropCause::Stopped => "stopped",
        }
    }
}

/// Everything about the requests of one step in one stage.
///
/// `requests = completed + broken + interrupted + retried`: each request counts once, whatever
/// became of it.
#[derive(Debug, Clone, Default)]
pub struct StepStats {
    /// All requests that were begun.
    pub requests: u64,
    /// Of these, written to a connection: what a target may have seen.
    pub sent: u64,
    /// A complete answer came.
    pub completed: u64,
    /// Failures as the user counts them: broken exchanges and unexpected statuses.
    pub failed: u64,
    /// Cut off by the end of the run; neither completed nor failed.
    pub interrupted: u64,
    /// Written to a kept-alive connection that the server had just closed, and sent again.
    pub retried: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub status: StatusCounts,
    /// Indexed by [`ErrorKind`].
    pub errors: [u64; ErrorKind::ALL.len()],
    /// From the intended start of the request to the last byte of the answer.
    pub latency: Trend,
    /// k6's `http_req_duration`: sending + waiting + receiving.
    pub duration: Trend,
    pub blocked: Trend,
    pub connecting: Trend,
    pub tls_handshaking: Trend,
    pub sending: Trend,
    pub waiting: Trend,
    pub receiving: Trend,
    /// By the values of tags that are not fixed by the plan: `region=eu,tier=gold`.
    pub tagged: Vec<(Box<str>, TagStats)>,
    /// Requests counted under `other` because the step had [`TAG_SETS_MAX`] tag values already.
    pub tags_folded: u64,
}

#[derive(Debug, Clone, Default)]
pub struct TagStats {
    pub requests: u64,
    pub failed: u64,
    pub latency: Trend,
    pub duration: Trend,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckCount {
    pub passes: u64,
    pub fails: u64,
}

#[derive(Debug, Clone)]
pub enum CustomValue {
    Counter {
        sum: f64,
        count: u64,
    },
    /// The last value by time of recording, and the extremes.
    Gauge {
        value: f64,
        at_ns: u64,
        min: f64,
        max: f64,
    },
    Rate {
        trues: u64,
        total: u64,
    },
    Trend(Box<Trend>),
}

/// A handful of statuses occur in a run, so a short list beats a map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusCounts(Vec<(u16, u64)>);

impl StatusCounts {
    #[inline]
    pub fn add(&mut self, status: u16, count: u64) {
        for entry in &mut self.0 {
            if entry.0 == status {
                entry.1 += count;
                return;
            }
        }
        self.0.push((status, count));
    }

    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.0.iter().copied()
    }

    pub fn merge(&mut self, other: &StatusCounts) {
        for (status, count) in other.iter() {
            self.add(status, count);
        }
    }
}

impl Window {
    /// Requests that were written to a connection.
    pub fn sent(&self) -> u64 {
        let steps = self.blocks.iter().flatten().flat_map(|block| &block.steps);
        steps.map(|step| step.sent).sum()
    }

    pub fn new(layout: &Layout) -> Window {
        Window { blocks: (0..layout.stages.len()).map(|_| None).collect() }
    }

    #[inline]
    pub fn block(&mut self, layout: &Layout, stage: usize) -> &mut Block {
        self.blocks[stage].get_or_insert_with(|| Box::new(Block::new(layout, stage)))
    }

    pub fn merge(&mut self, other: &Window) {
        if self.blocks.len() < other.blocks.len() {
            self.blocks.resize_with(other.blocks.len(), || None);
        }
        for (mine, theirs) in self.blocks.iter_mut().zip(&other.blocks) {
            match (mine, theirs) {
                (_, None) => {}
                (Some(mine), Some(theirs)) => mine.merge(theirs),
                (mine @ None, Some(theirs)) => *mine = Some(theirs.clone()),
            }
        }
    }

    /// Back to zero, memory kept, so that a recorder can use it again.
    pub fn clear(&mut self) {
        for block in self.blocks.iter_mut().flatten() {
            block.clear();
        }
    }
}

impl CustomValue {
    pub fn new(kind: MetricKind) -> CustomValue {
        match kind {
            MetricKind::Counter => CustomValue::Counter { sum: 0.0, count: 0 },
            MetricKind::Gauge => CustomValue::Gauge {
                value: 0.0,
                at_ns: 0,
                min: f64::INFINITY,
                max: f64::NEG_INFINITY,
            },
            MetricKind::Rate => CustomValue::Rate { trues: 0, total: 0 },
            MetricKind::Trend => CustomValue::Trend(Box::default()),
        }
    }

    /// `at_ns`: time of recording since the run began; it decides which gauge value is the last.
    pub fn record(&mut self, sample: f64, at_ns: u64) {
        match self {
            CustomValue::Counter { sum, count } => {
                *sum += sample;
                *count += 1;
            }
            CustomValue::Gauge { value, at_ns: last, min, max } => {
                (*value, *last) = (sample, at_ns);
                *min = min.min(sample);
                *max = max.max(sample);
            }
            CustomValue::Rate { trues, total } => {
                *trues += u64::from(sample != 0.0);
                *total += 1;
            }
            CustomValue::Trend(trend) => trend.record_ns((sample.max(0.0) * 1e6) as u64),
        }
    }

    pub(crate) fn merge(&mut self, other: &CustomValue) {
        match (self, other) {
            (CustomValue::Counter { sum, count }, CustomValue::Counter { sum: s, count: c }) => {
                *sum += s;
                *count += c;
            }
            (
                CustomValue::Gauge { value, at_ns, min, max },
                CustomValue::Gauge { value: v, at_ns: a, min: lo, max: hi },
            ) => {
                if a >= at_ns && lo <= hi {
                    (*value, *at_ns) = (*v, *a);
                }
                *min = min.min(*lo);
                *max = max.max(*hi);
            }
            (CustomValue::Rate { trues, total }, CustomValue::Rate { trues: t, total: n }) => {
                *trues += t;
                *total += n;
            }
            (CustomValue::Trend(mine), CustomValue::Trend(theirs)) => mine.merge(theirs),
            _ => unreachable!("both windows were made from one layout"),
        }
    }

    fn clear(&mut self) {
        match self {
            CustomValue::Trend(trend) => trend.clear(),
            CustomValue::Counter { .. } => *self = CustomValue::new(MetricKind::Counter),
            CustomValue::Gauge { .. } => *self = CustomValue::new(MetricKind::Gauge),
            CustomValue::Rate { .. } => *self = CustomValue::new(MetricKind::Rate),
        }
    }
}

impl Block {
    pub fn new(layout: &Layout, stage: usize) -> Block {
        let workflow = layout.workflow_of_stage(stage);
        Block {
            steps: workflow.steps.clone().map(|_| StepStats::default()).collect(),
            checks: vec![CheckCount::default(); workflow.checks.len()],
            metrics: layout.metrics.iter().map(|metric| CustomValue::new(metric.kind)).collect(),
            ..Block::default()
        }
    }

    pub fn merge(&mut self, other: &Block) {
        for (mine, theirs) in self.steps.iter_mut().zip(&other.steps) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.checks.iter_mut().zip(&other.checks) {
            mine.passes += theirs.passes;
            mine.fails += theirs.fails;
        }
        for (mine, theirs) in self.metrics.iter_mut().zip(&other.metrics) {
            mine.merge(theirs);
        }
        self.iterations += other.iterations;
        self.iterations_interrupted += other.iterations_interrupted;
        self.iteration_duration.merge(&other.iteration_duration);
        for (mine, theirs) in self.dropped.iter_mut().zip(&other.dropped) {
            *mine += theirs;
        }
        self.start_lag.merge(&other.start_lag);
        self.late_starts += other.late_starts;
    }

    fn clear(&mut self) {
        self.steps.iter_mut().for_each(StepStats::clear);
        self.checks.fill(CheckCount::default());
        self.metrics.iter_mut().for_each(CustomValue::clear);
        self.iterations = 0;
        self.iterations_interrupted = 0;
        self.iteration_duration.clear();
        self.dropped = [0; DropCause::ALL.len()];
        self.start_lag.clear();
        self.late_starts = 0;
    }
}

impl StepStats {
    pub(crate) fn trends_mut(&mut self) -> [&mut Trend; 8] {
        [
            &mut self.latency,
            &mut self.duration,
            &mut self.blocked,
            &mut self.connecting,
            &mut self.tls_handshaking,
            &mut self.sending,
            &mut self.waiting,
            &mut self.receiving,
        ]
    }

    pub(crate) fn trends(&self) -> [&Trend; 8] {
        [
            &self.latency,
            &self.duration,
            &self.blocked,
            &self.connecting,
            &self.tls_handshaking,
            &self.sending,
            &self.waiting,
            &self.receiving,
        ]
    }

    pub fn merge(&mut self, other: &StepStats) {
        if other.requests == 0 {
            return;
        }
        self.requests += other.requests;
        self.sent += other.sent;
        self.completed += other.completed;
        self.failed += other.failed;
        self.interrupted += other.interrupted;
        self.retried += other.retried;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.status.merge(&other.status);
        for (mine, theirs) in self.errors.iter_mut().zip(&other.errors) {
            *mine += theirs;
        }
        for (mine, theirs) in self.trends_mut().into_iter().zip(other.trends()) {
            mine.merge(theirs);
        }
        for (tags, theirs) in &other.tagged {
            let mine = self.tag_stats(tags);
            mine.requests += theirs.requests;
            mine.failed += theirs.failed;
            mine.latency.merge(&theirs.latency);
            mine.duration.merge(&theirs.duration);
        }
        self.tags_folded += other.tags_folded;
    }

    /// The counts for these tag values, or `other` once there are [`TAG_SETS_MAX`] of them.
    pub fn tag_stats(&mut self, tags: &str) -> &mut TagStats {
        let index = match self.tagged.iter().position(|(known, _)| &**known == tags) {
            Some(index) => index,
            None if self.tagged.len() < TAG_SETS_MAX => {
                self.tagged.push((tags.into(), TagStats::default()));
                self.tagged.len() - 1
            }
            None => {
                self.tags_folded += 1;
                match self.tagged.iter().position(|(known, _)| &**known == "other") {
                    Some(index) => index,
                    None => {
                        self.tagged.push(("other".into(), TagStats::default()));
                        self.tagged.len() - 1
                    }
                }
            }
        };
        &mut self.tagged[index].1
    }

    fn clear(&mut self) {
        if self.requests == 0 {
            return;
        }
        self.trends_mut().into_iter().for_each(Trend::clear);
        self.requests = 0;
        self.sent = 0;
        self.completed = 0;
        self.failed = 0;
        self.interrupted = 0;
        self.retried = 0;
        self.bytes_sent = 0;
        self.bytes_received = 0;
        self.status.0.clear();
        self.errors = [0; ErrorKind::ALL.len()];
        self.tagged.clear();
        self.tags_folded = 0;
    }
}
