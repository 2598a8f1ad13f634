//! Which counts of a window concern a threshold: names are resolved once, before the run.

use plan::{MetricKind, Selector, Threshold};

use super::sample::{Reading, Sample};
use crate::layout::{Layout, StepLayout};
use crate::trend::Trend;
use crate::window::{Block, CustomValue, StepStats, TagStats, Window};

#[derive(Debug)]
pub(super) struct Selection {
    source: Source,
    kind: MetricKind,
    time: bool,
    picks: Vec<Pick>,
    partial: bool,
}

/// Where a metric is counted.
#[derive(Debug, Clone, Copy)]
enum Source {
    Requests,
    Failed,
    StepTrend(StepTrend),
    BytesSent,
    BytesReceived,
    Checks,
    Iterations,
    IterationDuration,
    Dropped,
    Vus,
    VusMax,
    Custom(usize),
    /// Not a metric of this run; a checked plan has none.
    Nothing,
}

#[derive(Debug, Clone, Copy)]
enum StepTrend {
    Duration,
    Blocked,
    Connecting,
    TlsHandshaking,
    Sending,
    Waiting,
    Receiving,
    Latency,
}

/// What counts of one stage.
#[derive(Debug)]
struct Pick {
    stage: usize,
    /// By their numbers within the stage's workflow.
    steps: Vec<StepPick>,
    checks: Vec<usize>,
}

#[derive(Debug)]
struct StepPick {
    step: usize,
    /// `region=eu`: tags that vary by request and must have these values; empty: the whole step.
    varying: Vec<String>,
}

/// What is known of a tick beside the counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gauges {
    pub vus: u64,
    pub vus_max: u64,
    pub at_ns: u64,
}

impl Selection {
    pub fn new(threshold: &Threshold, layout: &Layout) -> Selection {
        let (source, kind, time) = source(&threshold.metric, layout);
        let picks: Vec<Pick> = (0..layout.stages.len())
            .filter(|stage| stage_counts(*stage, threshold, layout))
            .filter_map(|stage| pick(stage, &threshold.select, layout))
            .collect();
        let picked = |stage: &usize| picks.iter().any(|pick| pick.stage == *stage);
        let own = |stage: &usize| !layout.workflow_of_stage(*stage).synthetic;
        let partial = !matches!(source, Source::Vus | Source::VusMax)
            && (0..layout.stages.len()).filter(own).any(|stage| !picked(&stage));
        Selection { source, kind, time, picks, partial }
    }

    pub fn kind(&self) -> MetricKind {
        self.kind
    }

    /// A trend of times.
    pub fn is_time(&self) -> bool {
        self.time
    }

    /// Leaves out stages that a user wrote, so that it need not be alive while the run is.
    pub fn is_partial(&self) -> bool {
        self.partial
    }

    pub fn empty(&self) -> Sample {
        Sample::new(self.kind)
    }

    /// Whether anything at all happened in the selected stages.
    pub fn shows_life(&self, window: &Window) -> bool {
        self.blocks(window).any(|(_, block)| {
            block.iterations + block.iterations_interrupted + block.dropped.iter().sum::<u64>() > 0
                || block.steps.iter().any(|step| step.requests > 0)
        })
    }

    /// Adds what the window holds of this selection.
    pub fn gather(&self, window: &Window, gauges: Gauges, into: &mut Sample) {
        match (self.source, &mut *into) {
            (Source::Vus, Sample::Gauge(reading)) => {
                *reading = Some(Reading::of(gauges.vus as f64, gauges.at_ns));
            }
            (Source::VusMax, Sample::Gauge(reading)) => {
                *reading = Some(Reading::of(gauges.vus_max as f64, gauges.at_ns));
            }
            _ => {}
        }
        for (pick, block) in self.blocks(window) {
            self.gather_block(pick, block, into);
            for step in &pick.steps {
                let stats = &block.steps[step.step];
                if step.varying.is_empty() {
                    self.gather_step(stats, into);
                } else {
                    let matching = stats.tagged.iter().filter(|(tags, _)| step.matches(tags));
                    matching.for_each(|(_, tagged)| self.gather_tagged(tagged, into));
                }
            }
        }
    }

    fn blocks<'a>(&'a self, window: &'a Window) -> impl Iterator<Item = (&'a Pick, &'a Block)> {
        let block = |pick: &'a Pick| Some((pick, window.blocks.get(pick.stage)?.as_deref()?));
        self.picks.iter().filter_map(block)
    }

    /// Metrics that are not counted by request.
    fn gather_block(&self, pick: &Pick, block: &Block, into: &mut Sample) {
        match (self.source, into) {
            (Source::Iterations, Sample::Counter(sum)) => *sum += block.iterations as f64,
            (Source::Dropped, Sample::Counter(sum)) => {
                *sum += block.dropped.iter().sum::<u64>() as f64;
            }
            (Source::IterationDuration, Sample::Trend(trend)) => {
                trend.merge(&block.iteration_duration);
            }
            (Source::Checks, Sample::Rate { hits, total }) => {
                for count in pick.checks.iter().map(|check| block.checks[*check]) {
                    *hits += count.passes;
                    *total += count.passes + count.fails;
                }
            }
            (Source::Custom(metric), into) => {
                if let Some(sample) = custom(&block.metrics[metric]) {
                    into.merge(&sample);
                }
            }
            _ => {}
        }
    }

    fn gather_step(&self, step: &StepStats, into: &mut Sample) {
        match (self.source, into) {
            (Source::Requests, Sample::Counter(sum)) => *sum += step.requests as f64,
            (Source::BytesSent, Sample::Counter(sum)) => *sum += step.bytes_sent as f64,
            (Source::BytesReceived, Sample::Counter(sum)) => *sum += step.bytes_received as f64,
            (Source::Failed, Sample::Rate { hits, total }) => {
                *hits += step.failed;
                // Neither a success nor a failure: cut off by us, or sent again.
                *total += step.requests.saturating_sub(step.interrupted + step.retried);
            }
            (Source::StepTrend(which), Sample::Trend(trend)) => trend.merge(which.of(step)),
            _ => {}
        }
    }

    fn gather_tagged(&self, tagged: &TagStats, into: &mut Sample) {
        match (self.source, into) {
            (Source::Requests, Sample::Counter(sum)) => *sum += tagged.requests as f64,
            (Source::Failed, Sample::Rate { hits, total }) => {
                *hits += tagged.failed;
                *total += tagged.requests;
            }
            (Source::StepTrend(StepTrend::Duration), Sample::Trend(trend)) => {
                trend.merge(&tagged.duration);
            }
            (Source::StepTrend(StepTrend::Latency), Sample::Trend(trend)) => {
                trend.merge(&tagged.latency);
            }
            _ => {}
        }
    }
}

impl StepTrend {
    fn of(self, step: &StepStats) -> &Trend {
        match self {
            StepTrend::Duration => &step.duration,
            StepTrend::Blocked => &step.blocked,
            StepTrend::Connecting => &step.connecting,
            StepTrend::TlsHandshaking => &step.tls_handshaking,
            StepTrend::Sending => &step.sending,
            StepTrend::Waiting => &step.waiting,
            StepTrend::Receiving => &step.receiving,
            StepTrend::Latency => &step.latency,
        }
    }
}

impl StepPick {
    /// `None`: the step is of another name, or has other tags.
    fn new(step: usize, layout: &StepLayout, select: &Selector) -> Option<StepPick> {
        if select.step.as_ref().is_some_and(|name| *name != layout.name) {
            return None;
        }
        let mut varying = Vec::new();
        for (key, value) in &select.tags {
            match layout.tags.iter().find(|(known, _)| known == key) {
                Some((_, fixed)) if fixed == value => {}
                Some(_) => return None,
                None => varying.push(format!("{key}={value}")),
            }
        }
        Some(StepPick { step, varying })
    }

    fn matches(&self, tags: &str) -> bool {
        self.varying.iter().all(|wanted| tags.split(',').any(|tag| tag == wanted))
    }
}

fn stage_counts(stage: usize, threshold: &Threshold, layout: &Layout) -> bool {
    let name = &layout.stages[stage].name;
    let workflow = &layout.workflow_of_stage(stage).name;
    threshold.select.stage.as_ref().is_none_or(|wanted| wanted == name)
        && threshold.select.workflow.as_ref().is_none_or(|wanted| wanted == workflow)
        && !threshold.exclude.contains(name)
}

/// `None`: nothing of this stage's workflow is selected. What is counted by iteration belongs to a
/// selection if any step of the workflow does.
fn pick(stage: usize, select: &Selector, layout: &Layout) -> Option<Pick> {
    let workflow = layout.workflow_of_stage(stage);
    let first = workflow.steps.start;
    let steps: Vec<StepPick> = workflow
        .steps
        .clone()
        .filter_map(|step| StepPick::new(step - first, &layout.steps[step], select))
        .collect();
    if steps.is_empty() && (select.step.is_some() || !select.tags.is_empty()) {
        return None;
    }
    // Checks are not counted by varying tags.
    let whole =
        |step: usize| steps.iter().any(|pick| pick.step + first == step && pick.varying.is_empty());
    let checks = workflow.checks.clone().filter(|check| whole(layout.checks[*check].step));
    let checks = checks.map(|check| check - workflow.checks.start).collect();
    Some(Pick { stage, steps, checks })
}

fn source(metric: &str, layout: &Layout) -> (Source, MetricKind, bool) {
    use MetricKind::{Counter, Gauge, Rate, Trend};
    let times = |which| (Source::StepTrend(which), Trend, true);
    match metric {
        "http_reqs" => (Source::Requests, Counter, false),
        "http_req_failed" => (Source::Failed, Rate, false),
        "http_req_duration" => times(StepTrend::Duration),
        "http_req_blocked" => times(StepTrend::Blocked),
        "http_req_connecting" => times(StepTrend::Connecting),
        "http_req_tls_handshaking" => times(StepTrend::TlsHandshaking),
        "http_req_sending" => times(StepTrend::Sending),
        "http_req_waiting" => times(StepTrend::Waiting),
        "http_req_receiving" => times(StepTrend::Receiving),
        "latency" => times(StepTrend::Latency),
        "iteration_duration" => (Source::IterationDuration, Trend, true),
        "iterations" => (Source::Iterations, Counter, false),
        "dropped_iterations" => (Source::Dropped, Counter, false),
        "checks" => (Source::Checks, Rate, false),
        "data_sent" => (Source::BytesSent, Counter, false),
        "data_received" => (Source::BytesReceived, Counter, false),
        "vus" => (Source::Vus, Gauge, false),
        "vus_max" => (Source::VusMax, Gauge, false),
        custom => match layout.metrics.iter().position(|known| known.name == custom) {
            Some(index) => {
                let known = &layout.metrics[index];
                (Source::Custom(index), known.kind, known.time)
            }
            None => (Source::Nothing, Gauge, false),
        },
    }
}

/// `None`: a gauge that was never set.
fn custom(value: &CustomValue) -> Option<Sample> {
    Some(match value {
        CustomValue::Counter { sum, .. } => Sample::Counter(*sum),
        CustomValue::Rate { trues, total } => Sample::Rate { hits: *trues, total: *total },
        CustomValue::Gauge { min, max, .. } if min > max => return None,
        CustomValue::Gauge { value, at_ns, min, max } => {
            Sample::Gauge(Some(Reading { value: *value, at_ns: *at_ns, min: *min, max: *max }))
        }
        CustomValue::Trend(trend) => Sample::Trend((**trend).clone()),
    })
}
