//! What clients are told of a job, and what its final result is made of.

use base::clock;
use std::time::Duration;

use control::owner::{Conclusion, LoadNow, Numbers, Owner, Queued, context};
use control::statistics::Statistics;
use engine::secrets::mask_credentials;
use fence::JobId;
use ledger_state::{self, Counters, Job, Phase};
use stats::merge::{Head, ScriptHead};
use stats::{AttemptKey, RunResult, ScriptFailure, StopReason, TimelineEntry, WorkflowResult};

use super::addenda;
use super::job_task::JobSummary;
use crate::bundle::BundleHead;
use crate::wire::job_bytes;
use crate::wire::proto::{self, JobState, JobStatus, Note, ShardStatus, WorkflowStatus};

/// Entries of a timeline in one status; the newest are the ones that matter.
const NOTES_MAX: usize = 200;

/// Addenda in one status; a result has all of them.
const ADDENDA_MAX: usize = 50;

/// Why a job waits, with the numbers.
pub fn queued(queued: &Queued) -> String {
    let Queued { needs, free, total, why, numbers } = queued;
    match numbers {
        Numbers::InReason => why.clone(),
        Numbers::Apart => format!("{why} (needs {needs}; {free} of {total} are free)"),
    }
}

pub fn counters(counters: &Counters) -> proto::Counters {
    let Counters { issued, completed, failed, iterations, dropped, .. } = *counters;
    proto::Counters { issued, completed, failed, iterations, dropped }
}

fn addendum(addendum: &stats::Addendum) -> proto::Addendum {
    let stats::Added { issued, sent, completed, failed, iterations } = addendum.added;
    let stats::AttemptKey { workflow, shard, attempt } = addendum.of;
    proto::Addendum {
        at_unix_ms: addendum.at_unix_ms,
        worker: addendum.worker.clone(),
        workflow,
        shard,
        attempt,
        added: Some(proto::Counters { issued, completed, failed, iterations, dropped: 0 }),
        sent,
        certain: addendum.certain,
    }
}

/// What the ledger says of a job.
pub fn of_ledger(id: JobId, job: &Job, now_ms: u64) -> JobStatus {
    let not_yet = proto::Outcome::Unspecified;
    let (state, outcome) = match job.phase() {
        Phase::Created => (JobState::Created, not_yet),
        Phase::Running if job.shards.is_empty() => (JobState::Queued, not_yet),
        Phase::Running => (JobState::Running, not_yet),
        Phase::Cancelling => (JobState::Cancelling, not_yet),
        Phase::Ended(outcome) => (JobState::Ended, outcome.into()),
    };
    let detail = match (&job.end, &job.cancel) {
        (Some(end), _) => end.detail.clone(),
        (None, Some(cancel)) => cancel.reason.clone(),
        (None, None) => String::new(),
    };
    let ran_ms = job.end.as_ref().map_or(0, |end| end.ended_ms.saturating_sub(job.created_ms));
    JobStatus {
        job: job_bytes(id),
        name: job.name.clone(),
        state: state.into(),
        outcome: outcome.into(),
        detail: mask_credentials(detail),
        owner: job.owner.map(|owner| owner.node.to_string()).unwrap_or_default(),
        age_ms: now_ms.saturating_sub(job.created_ms),
        workflows: Vec::new(),
        timeline: Vec::new(),
        counters: Some(counters(&job.totals)),
        has_result: job.result.is_some(),
        ran_ms,
        live: false,
        submitted_by: job.tenant.clone(),
        cancelled_by: job.cancel.as_ref().map(|it| it.requestor.clone()).unwrap_or_default(),
        ..JobStatus::default()
    }
}

/// The same, with what workers have said late or not at all: it is looked for in every attempt.
pub fn whole_of_ledger(id: JobId, job: &Job, now_ms: u64) -> JobStatus {
    let addenda = addenda::of_job(job);
    let addenda_more = addenda.len().saturating_sub(ADDENDA_MAX);
    let unheard = job.attempts().filter(|record| record.is_unheard()).count();
    JobStatus {
        addenda: addenda[addenda_more..].iter().map(addendum).collect(),
        addenda_more: u32::try_from(addenda_more).unwrap_or(u32::MAX),
        unheard: u32::try_from(unheard).unwrap_or(u32::MAX),
        ..of_ledger(id, job, now_ms)
    }
}

/// What the owner has counted, where the ledger knows only of attempts that have ended.
pub fn count(status: &mut JobStatus, ended: &Counters, summary: &JobSummary) {
    if status.state() == JobState::Ended {
        return;
    }
    if let Some(why) = summary.waits_for.as_ref().filter(|_| status.detail.is_empty()) {
        status.detail = mask_credentials(why.clone());
    }
    if let Some(counted) = summary.counted {
        // A new owner may know less than the ledger, until running workers have said the rest
        // again.
        status.counters = Some(counters(&counted.at_least(ended)));
        status.live = true;
    }
}

/// What only the owner knows; the rest is empty.
pub fn of_owner(owner: &Owner, bundle: &BundleHead) -> JobStatus {
    let parts = bundle.manifest.workflows.iter().enumerate();
    let workflows = parts.map(|(number, part)| WorkflowStatus {
        name: part.name.clone(),
        need: part.need.to_string(),
        vus_now: match owner.load_now(number) {
            Some(LoadNow::Vus(vus)) => Some(vus),
            _ => None,
        },
        per_second_now: match owner.load_now(number) {
            Some(LoadNow::PerSecond(rate)) => Some(rate),
            _ => None,
        },
        state: proto::WorkflowState::from(owner.workflow(number)).into(),
        shards: owner
            .shards()
            .filter(|(key, ..)| key.workflow.0 as usize == number)
            .map(|(key, state, attempt)| ShardStatus {
                shard: key.shard,
                attempt: attempt.0,
                state: proto::ShardState::from(state).into(),
                worker: owner.worker_of(&key).map(|node| node.to_string()).unwrap_or_default(),
            })
            .collect(),
    });
    let timeline = owner.timeline();
    let recent = &timeline[timeline.len().saturating_sub(NOTES_MAX)..];
    let note = |note: &control::owner::Note| Note {
        at_ms: super::millis(note.at),
        text: mask_credentials(note.text.clone()),
    };
    JobStatus {
        detail: owner.queued().map(queued).unwrap_or_default(),
        workflows: workflows.collect(),
        timeline: recent.iter().map(note).collect(),
        ..JobStatus::default()
    }
}

/// Puts the owner's words over the ledger's.
pub fn join(mut status: JobStatus, details: JobStatus) -> JobStatus {
    if !details.detail.is_empty() && status.state() != JobState::Ended {
        status.detail = details.detail;
    }
    (status.workflows, status.timeline) = (details.workflows, details.timeline);
    status
}

/// A result as the ledger decided it. A cancel may have come when the result was made and the
/// outcome not yet written: then whoever cancelled is told so (R5), whatever the result says.
pub fn as_decided(content: Vec<u8>, outcome: ledger_state::Outcome) -> Vec<u8> {
    if outcome != ledger_state::Outcome::Cancelled {
        return content;
    }
    let Ok(mut result) = stats::wire::decode_result(&content) else { return content };
    if (result.outcome, &result.stop) == (stats::Outcome::Cancelled, &StopReason::Cancelled) {
        return content;
    }
    (result.outcome, result.stop) = (stats::Outcome::Cancelled, StopReason::Cancelled);
    stats::wire::encode_result(&result).unwrap_or(content)
}

/// The final result: what was counted, and what the owner knows of how it went.
pub fn result(
    conclusion: &Conclusion,
    statistics: Statistics,
    bundle: &BundleHead,
    owner: &Owner,
    clock: Duration,
) -> RunResult {
    let head = head(conclusion, bundle, owner);
    let policy = bundle.manifest.policy.on_worker_loss;
    statistics.finish(conclusion, policy, clock).into_result(head)
}

/// What it would be if the job ended now.
pub fn so_far(statistics: &mut Statistics, bundle: &BundleHead, owner: &Owner) -> RunResult {
    let conclusion = owner.conclusion();
    let head = head(&conclusion, bundle, owner);
    let policy = bundle.manifest.policy.on_worker_loss;
    statistics.so_far(&conclusion, policy).into_result(head)
}

/// What the owner knows of how it went.
fn head(conclusion: &Conclusion, bundle: &BundleHead, owner: &Owner) -> Head {
    let began = conclusion.began.unwrap_or(conclusion.ended);
    let since = |at: Duration| at.saturating_sub(began);
    let wall = clock::unix_now();
    let elapsed = since(conclusion.ended);
    let manifest = &bundle.manifest;
    let workflows = conclusion.workflows.iter().zip(&manifest.workflows);
    let workflows = workflows.map(|(one, part)| WorkflowResult {
        name: one.name.clone(),
        status: one.status.clone(),
        started: since(one.started),
        ended: since(one.ended),
        cores: one.shards as usize,
        vus_max: u64::from(part.vus_max),
    });
    let timeline = conclusion.timeline.iter();
    let timeline = timeline.map(|note| TimelineEntry {
        at: since(note.at),
        event: mask_credentials(note.text.clone()),
    });
    let script = bundle.is_script().then(|| {
        let setup = owner.values().get(context::SETUP);
        let setup_data = setup.and_then(|values| values.get(engine::script::SETUP_DATA));
        let setup_data = setup_data.map(|data| String::from_utf8_lossy(data).into_owned());
        let failed_to_begin = conclusion.workflows.iter().any(|one| match &one.status {
            stats::WorkflowStatus::Failed { error } => {
                error.starts_with(engine::script::INIT_FAILED)
            }
            _ => false,
        });
        let threw = conclusion.setup_error.is_some()
            || conclusion.teardown_error.is_some()
            || failed_to_begin;
        let failure = match &conclusion.stop {
            StopReason::Aborted(reason) => Some(engine::script::abort_failure(reason)),
            _ if threw => Some(ScriptFailure::Exception),
            _ => None,
        };
        ScriptHead { strict: bundle.strict, setup_data, failure, marked_failed: None }
    });
    let mut notes = Vec::new();
    let errors = [("setup", &conclusion.setup_error), ("teardown", &conclusion.teardown_error)];
    for (what, error) in errors {
        notes.extend(
            error.as_ref().map(|error| mask_credentials(format!("{what} failed: {error}"))),
        );
    }
    for unheard in &conclusion.last_words.unheard {
        let AttemptKey { workflow, shard, attempt } = unheard.of;
        let name = manifest.workflows.get(workflow as usize).map(|part| &*part.name);
        let name = name.unwrap_or("setup and teardown");
        notes.push(format!(
            "attempt {attempt} of {name}, shard {shard}, had no last word: it may have issued more than was counted"
        ));
    }
    for (shard, attempt) in &conclusion.cut {
        notes
            .push(format!("the statistics of attempt {attempt} of {shard} were too large to keep"));
    }
    Head {
        plan: bundle.name.clone(),
        started_unix_ms: super::millis(wall.saturating_sub(elapsed)),
        elapsed,
        outcome: conclusion.outcome,
        last_words: conclusion.last_words.clone(),
        stop: conclusion.stop.clone(),
        workflows: workflows.collect(),
        timeline: timeline.collect(),
        notes,
        script,
    }
}
