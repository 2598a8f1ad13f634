//! The result's word on itself (R19): could this generator do what the plan asked, and is the
//! answer to be trusted?

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error_kind::ErrorKind;
use crate::layout::{Layout, WorkflowLayout};
use crate::result::{Verdict, VerdictState};
use crate::trend::Trend;
use crate::window::{Block, DropCause, Window};

/// More than this share of late starts is more than bad luck.
const LATE_SHARE_MAX: f64 = 0.01;
/// An event loop that is this late at its 99th percentile adds visibly to every latency.
const LOOP_LAG_P99_MS_MAX: f64 = 20.0;
/// From this share on, failures of our own make the result worthless.
const LOCAL_SHARE_MAX: f64 = 0.01;

/// From this share of missing load on, the result speaks of another test than the planned one.
const MISSING_SHARE_MAX: f64 = 0.5;
/// So many iterations may be left over when the time is over: the last ones are always cut off.
const LEFT_SHARE_MAX: f64 = 0.05;

/// What the verdict is made from, besides the counts.
pub struct Evidence<'a> {
    pub totals: &'a Window,
    pub loop_lag: &'a Trend,
    pub panicked_cores: &'a [usize],
    /// The plan has requests, and load was asked for.
    pub expects_requests: bool,
    pub lost: &'a [LostWorker],
    pub stalls: &'a [Stall],
    /// What keeps the counts from being everything.
    pub incomplete: &'a [String],
    /// Loads that ended before their time, because no data row was left.
    pub cut_short: &'a [CutShort],
    pub layout: &'a Layout,
}

/// A load that ended before its time, because no data row was left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutShort {
    pub workflow: String,
    pub after: Duration,
    /// How long it was to last.
    pub of: Duration,
    pub set: String,
    pub rows: u64,
}

impl CutShort {
    fn reason(&self) -> String {
        let CutShort { workflow, set, rows, .. } = self;
        let (after, of) = (self.after.as_secs_f64(), self.of.as_secs_f64());
        format!(
            "{workflow} ended after {after:.3} s of {of} s: the data set `{set}` had no row left ({rows} rows); \
             more rows, or rows that may repeat (`order: sequential`), would do"
        )
    }
}

/// A worker that was lost during the run, and what that meant (R19).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LostWorker {
    pub name: String,
    /// Schedule time at which it was last known to run.
    pub from: Duration,
    /// When others had taken over; `None`: nobody did.
    pub until: Option<Duration>,
    /// Of the planned load, 0..=1.
    pub share: f64,
    /// `on_worker_loss`, as it was carried out.
    pub policy: String,
}

/// Load that stood still although its workers lived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    pub workflow: u32,
    pub shard: u32,
    /// Schedule time.
    pub from: Duration,
    pub until: Duration,
    pub why: StallCause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StallCause {
    /// Nobody granted it more iterations, or data rows, in time.
    NotGranted,
    /// The generator's process, or its machine, did not run.
    Stopped,
}

impl Stall {
    /// Shorter ones are within what a plan can ask for: it is a second in which load must not be
    /// missing (R27).
    const TOLD_FROM: Duration = Duration::from_secs(1);

    /// Whether the result has to speak of it.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.until.saturating_sub(self.from) >= Self::TOLD_FROM
    }
}

pub fn judge(evidence: &Evidence<'_>) -> Verdict {
    let mut reasons: BTreeMap<VerdictState, Vec<String>> = BTreeMap::new();
    let mut add = |state, reason: String| reasons.entry(state).or_default().push(reason);
    let blocks = || evidence.totals.blocks.iter().flatten();

    let started: u64 = blocks().map(|block| block.start_lag.count()).sum();
    let late: u64 = blocks().map(|block| block.late_starts).sum();
    if late as f64 > LATE_SHARE_MAX * started as f64 {
        let worst = blocks().map(|block| block.start_lag.max_ms()).fold(0.0, f64::max);
        add(
            VerdictState::Degraded,
            format!(
                "generator saturated: {} of iterations started more than 10 ms late (worst {worst:.0} ms)",
                share(late, started)
            ),
        );
    }
    let lag = evidence.loop_lag.percentile_ms(99.0);
    if lag > LOOP_LAG_P99_MS_MAX {
        add(
            VerdictState::Degraded,
            format!(
                "generator saturated: its event loop was {lag:.0} ms late at the 99th percentile"
            ),
        );
    }
    let dropped: u64 = blocks().map(|block| block.dropped[DropCause::NoFreeVu as usize]).sum();
    if dropped > 0 {
        add(
            missing(dropped, started + dropped),
            format!(
                "planned load not generated: {dropped} iterations ({}) were dropped because all \
                 virtual users were busy",
                share(dropped, started + dropped)
            ),
        );
    }
    let steps = || blocks().flat_map(|block| &block.steps);
    let requests: u64 = steps().map(|step| step.requests).sum();
    let local: u64 = steps().map(|step| step.errors[ErrorKind::Local as usize]).sum();
    if local > 0 {
        let state = if local as f64 > LOCAL_SHARE_MAX * requests as f64 {
            VerdictState::Invalid
        } else {
            VerdictState::Degraded
        };
        let share = share(local, requests);
        add(state, format!("generator ran out of ports or descriptors for {share} of requests"));
    }
    for lost in evidence.lost {
        let until = match lost.until {
            Some(until) => format!("until {:.1} s", until.as_secs_f64()),
            None => "until the end".to_owned(),
        };
        add(
            VerdictState::Degraded,
            format!(
                "worker {} was lost: {:.1}% of the load was missing from {:.1} s {until} ({})",
                lost.name,
                100.0 * lost.share,
                lost.from.as_secs_f64(),
                lost.policy
            ),
        );
    }
    let unrun: u64 = blocks().map(|block| block.dropped[DropCause::WorkerLost as usize]).sum();
    if unrun > 0 {
        add(
            VerdictState::Degraded,
            format!(
                "planned load not generated: {unrun} iterations ({}) were due while their worker was \
                 lost",
                share(unrun, started + unrun)
            ),
        );
    }
    for stall in evidence.stalls.iter().filter(|stall| stall.is_told()) {
        let why = match stall.why {
            StallCause::NotGranted => "no owner granted it more iterations or data rows",
            StallCause::Stopped => "its worker's process did not run",
        };
        let (from, until) = (stall.from.as_secs_f64(), stall.until.as_secs_f64());
        let workflow = evidence.layout.workflows.get(stall.workflow as usize);
        let workflow = workflow.map_or("a workflow", |workflow| &*workflow.name);
        let shard = stall.shard;
        add(
            VerdictState::Degraded,
            format!(
                "load of {workflow}, shard {shard} stood still from {from:.1} s until {until:.1} s: {why}"
            ),
        );
    }
    let late: u64 = blocks().map(|block| block.dropped[DropCause::RowsLate as usize]).sum();
    if late > 0 {
        add(
            VerdictState::Degraded,
            format!(
                "planned load not generated: {late} iterations ({}) waited too long for their data rows",
                share(late, started + late)
            ),
        );
    }
    // Of a closed model nobody counts the starts.
    let done: u64 = blocks().map(|block| block.iterations + block.iterations_interrupted).sum();
    let rowless: u64 = blocks().map(|block| block.dropped[DropCause::DataExhausted as usize]).sum();
    for short in evidence.cut_short {
        let state = match short.after.as_secs_f64() < MISSING_SHARE_MAX * short.of.as_secs_f64() {
            true => VerdictState::Invalid,
            false => VerdictState::Degraded,
        };
        add(state, short.reason());
    }
    if rowless > 0 && evidence.cut_short.is_empty() {
        add(
            missing(rowless, done + rowless),
            format!(
                "planned load not generated: {rowless} iterations ({}) found no data row left; more rows, \
                 or rows that may repeat (`order: sequential`), would do",
                share(rowless, done + rowless)
            ),
        );
    }
    let left: u64 = blocks().map(|block| block.dropped[DropCause::TimeOver as usize]).sum();
    if left as f64 > LEFT_SHARE_MAX * (done + left) as f64 {
        add(
            VerdictState::Degraded,
            format!(
                "planned load not generated: {left} iterations ({}) were not started before \
                 `max_duration` was over",
                share(left, done + left)
            ),
        );
    }
    let answered = steps().any(|step| step.completed > 0);
    for reason in unfinished(evidence) {
        // Whoever heard no answer at all has tested nothing.
        add(if answered { VerdictState::Degraded } else { VerdictState::Invalid }, reason);
    }
    for what in evidence.incomplete {
        add(VerdictState::Degraded, format!("statistics are incomplete: {what}"));
    }
    for core in evidence.panicked_cores {
        add(VerdictState::Invalid, format!("core {core} of the generator crashed"));
    }
    if evidence.expects_requests && requests == 0 {
        add(VerdictState::Invalid, "no request was made".to_owned());
    } else if let Some(reason) = unanswered(evidence, requests) {
        add(VerdictState::Invalid, reason);
    }
    let state = reasons.keys().next_back().copied().unwrap_or(VerdictState::Valid);
    Verdict { state, reasons: reasons.into_values().rev().flatten().collect() }
}

/// Whether so much of the load is missing that the rest says nothing.
fn missing(part: u64, whole: u64) -> VerdictState {
    match part as f64 > MISSING_SHARE_MAX * whole as f64 {
        true => VerdictState::Invalid,
        false => VerdictState::Degraded,
    }
}

/// Workflows that began iterations and completed none.
fn unfinished(evidence: &Evidence<'_>) -> Vec<String> {
    let real = evidence.layout.workflows.iter().filter(|workflow| !workflow.synthetic);
    let several = real.clone().count() > 1;
    let reason = |workflow: &WorkflowLayout| {
        let stages = workflow.stages.clone();
        let sum = |of: fn(&Block) -> u64| {
            let blocks = evidence.totals.blocks.iter().skip(stages.start).take(stages.len());
            blocks.flatten().map(|block| of(block)).sum::<u64>()
        };
        let cut_off = sum(|block| block.iterations_interrupted);
        if !evidence.expects_requests || cut_off == 0 || sum(|block| block.iterations) > 0 {
            return None;
        }
        let whose = if several { format!(" of {}", workflow.name) } else { String::new() };
        let facts = &workflow.about;
        let why = match facts.lasts.filter(|lasts| facts.pauses >= *lasts) {
            Some(lasts) => format!(
                ": one takes at least {:?} by its pauses, and the load lasts {lasts:?}",
                facts.pauses
            ),
            None => format!(
                ": all {cut_off} that began were cut off by the end; make `duration` or `graceful_stop` longer"
            ),
        };
        Some(format!("no iteration{whose} was completed{why}"))
    };
    real.filter_map(reason).collect()
}

/// A target that never answered was not tested.
fn unanswered(evidence: &Evidence<'_>, requests: u64) -> Option<String> {
    let steps = || evidence.totals.blocks.iter().flatten().flat_map(|block| &block.steps);
    let count = |kind: ErrorKind| steps().map(|step| step.errors[kind as usize]).sum::<u64>();
    let failed: Vec<(ErrorKind, u64)> =
        UNANSWERED.into_iter().map(|kind| (kind, count(kind))).filter(|(_, n)| *n > 0).collect();
    let lost: u64 = failed.iter().map(|(_, n)| n).sum();
    if requests == 0 || lost < requests || !evidence.expects_requests {
        return None;
    }
    let how: Vec<String> = match &failed[..] {
        [(kind, _)] => vec![format!("all {}", went(*kind))],
        several => several.iter().map(|(kind, n)| format!("{n} {}", went(*kind))).collect(),
    };
    let attempts = if requests == 1 { "attempt" } else { "attempts" };
    Some(format!("nothing was answered: {requests} {attempts}, {}", how.join(", ")))
}

/// Kinds of failure without an answer.
const UNANSWERED: [ErrorKind; 7] = [
    ErrorKind::Dns,
    ErrorKind::Refused,
    ErrorKind::Connect,
    ErrorKind::Tls,
    ErrorKind::Timeout,
    ErrorKind::Reset,
    ErrorKind::Protocol,
];

fn went(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Dns => "to a host name that is not known",
        ErrorKind::Refused => "refused",
        ErrorKind::Connect => "without a connection",
        ErrorKind::Tls => "without a TLS connection",
        ErrorKind::Timeout => "timed out",
        ErrorKind::Protocol => "without an answer in the HTTP that was asked for",
        _ => "cut off",
    }
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.1}%", 100.0 * part as f64 / whole.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use crate::window::StepStats;

    use super::*;

    fn with(block: Block) -> Window {
        Window { blocks: vec![Some(Box::new(block))] }
    }

    fn verdict(block: Block) -> Verdict {
        judge(&Evidence {
            totals: &with(block),
            loop_lag: &Trend::new(),
            panicked_cores: &[],
            expects_requests: true,
            lost: &[],
            stalls: &[],
            incomplete: &[],
            cut_short: &[],
            layout: &crate::fixture::layout(),
        })
    }

    fn healthy() -> Block {
        let step = StepStats { requests: 1000, ..StepStats::default() };
        Block { steps: vec![step], ..Block::default() }
    }

    #[test]
    fn a_run_without_trouble_is_valid() {
        assert_eq!(verdict(healthy()).state, VerdictState::Valid);
    }

    #[test]
    fn late_starts_degrade_it_with_their_share() {
        let mut block = healthy();
        for _ in 0..100 {
            block.start_lag.record_ns(30_000_000);
        }
        block.late_starts = 5;
        let verdict = verdict(block);
        assert_eq!(verdict.state, VerdictState::Degraded);
        assert!(verdict.reasons[0].contains("5.0%"), "{:?}", verdict.reasons);
    }

    #[test]
    fn many_failures_of_our_own_make_it_invalid_and_few_degrade_it() {
        for (count, state) in [(5, VerdictState::Degraded), (50, VerdictState::Invalid)] {
            let mut block = healthy();
            block.steps[0].errors[ErrorKind::Local as usize] = count;
            assert_eq!(verdict(block).state, state);
        }
    }

    #[test]
    fn rows_that_ran_out_degrade_it_with_the_reason() {
        let mut block = Block { iterations: 60, ..healthy() };
        block.dropped[DropCause::DataExhausted as usize] = 40;
        let verdict = verdict(block);
        assert_eq!(verdict.state, VerdictState::Degraded);
        let reason = &verdict.reasons[0];
        assert!(reason.contains("40 iterations (40.0%) found no data row left"), "{reason}");
    }

    #[test]
    fn a_result_without_most_of_its_load_is_invalid() {
        for (cause, words) in [
            (DropCause::DataExhausted, "80 iterations (80.0%) found no data row left"),
            (DropCause::NoFreeVu, "80 iterations (80.0%) were dropped because all"),
        ] {
            let mut block = Block { iterations: 20, ..healthy() };
            (0..20).for_each(|_| block.start_lag.record_ns(1));
            block.dropped[cause as usize] = 80;
            let verdict = verdict(block);
            assert_eq!(verdict.state, VerdictState::Invalid, "{words}");
            assert!(verdict.reasons[0].contains(words), "{:?}", verdict.reasons);
        }
    }

    #[test]
    fn iterations_that_the_end_cut_away_degrade_it_unless_they_are_few() {
        for (left, state) in [(777, VerdictState::Degraded), (5, VerdictState::Valid)] {
            let mut block = Block { iterations: 223, ..healthy() };
            block.dropped[DropCause::TimeOver as usize] = left;
            assert_eq!(verdict(block).state, state);
        }
    }

    #[test]
    fn no_completed_iteration_degrades_it_with_the_reason() {
        let mut block = Block { iterations_interrupted: 2, ..healthy() };
        block.steps[0].completed = 1;
        let some = verdict(block.clone());
        assert_eq!(some.state, VerdictState::Degraded);
        let expect = "no iteration of shop was completed: all 2 that began were cut off by the end; \
                      make `duration` or `graceful_stop` longer";
        assert_eq!(some.reasons, [expect]);
        block.steps[0].completed = 0;
        assert_eq!(verdict(block).state, VerdictState::Invalid, "no answer came at all");
    }

    #[test]
    fn a_target_that_answers_nothing_makes_it_invalid() {
        let mut block = healthy();
        block.steps[0].errors[ErrorKind::Refused as usize] = 1000;
        let all = verdict(block.clone());
        assert_eq!(all.state, VerdictState::Invalid);
        assert_eq!(all.reasons, ["nothing was answered: 1000 attempts, all refused"]);
        block.steps[0].errors[ErrorKind::Refused as usize] = 600;
        block.steps[0].errors[ErrorKind::Timeout as usize] = 400;
        let both = verdict(block.clone()).reasons;
        assert_eq!(both, ["nothing was answered: 1000 attempts, 600 refused, 400 timed out"]);
        block.steps[0].errors[ErrorKind::Timeout as usize] = 399;
        assert_eq!(verdict(block).state, VerdictState::Valid, "one was answered");
    }

    #[test]
    fn silence_is_not_success() {
        assert_eq!(verdict(Block::default()).state, VerdictState::Invalid);
    }
}
