//! Reports of workers that come back when their job has ended (`control::late`): kept by any
//! manager, then let go of by the worker; and what they change in a result that is shown.
//!
//! The worker is answered at once and told to forget its report when it is durable. If that word is
//! lost, it says its report again, and is answered that the ledger has it.

use std::sync::Arc;
use std::time::Duration;

use control::late::{self, Late};
use control::message::{EndReport, ReportAck, WorkerRequest};
use fence::{Attempt, NodeId};
use ledger::{ReadLevel, Written};
use ledger_state::{Addendum, AttemptRecord, Counters, Job, Reply, ReportedBy, State};
use stats::{Added, AttemptKey};
use tonic::Status;

use super::{Parts, Shared, breakers};

const READ_WITHIN: Duration = Duration::from_millis(1_500);
const STORE_WITHIN: Duration = Duration::from_secs(20);
const WRITE_WITHIN: Duration = Duration::from_secs(5);

/// Takes a worker's word on an attempt of a job that has ended. Its certificate was compared
/// before.
pub async fn take(
    shared: &Arc<Shared>,
    from: Option<NodeId>,
    report: EndReport,
) -> Result<ReportAck, Status> {
    let parts = shared.serving()?;
    let look = |state: &State| {
        let judged = state.job(report.shard.job).map(|job| late::judge(job, &report));
        (judged, state.limits().result_bytes)
    };
    let read = parts.ledger.read(ReadLevel::Eventual, READ_WITHIN, look).await;
    let read = read.map_err(|error| Status::unavailable(error.to_string()))?;
    let bytes_max = match read.value {
        // It was forgotten a moment ago; the next answer says so.
        (None, _) => return Ok(ReportAck::Taken),
        (Some(Late::Wanted), bytes_max) => bytes_max,
        (Some(Late::Known | Late::Nobodys), _) => return Ok(ReportAck::Settled),
    };
    let content = late::content(&report, bytes_max);
    let room = shared.transfers.room(&parts, from, content.len() as u64).await?;
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        keep(&shared, &parts, &report, content).await;
        drop(room);
    });
    Ok(ReportAck::Taken)
}

/// First on a majority of disks, then in the ledger. What fails here is told again by the worker.
async fn keep(shared: &Shared, parts: &Parts, report: &EndReport, content: Vec<u8>) {
    let EndReport { shard, attempt, worker, .. } = *report;
    let stored = match parts.ledger.put_blob(content, STORE_WITHIN).await {
        Ok(blob) => blob,
        Err(error) => {
            tracing::debug!(%shard, %attempt, %error, "a late report waits");
            return;
        }
    };
    let command = late::command(report, stored);
    let written = parts.ledger.propose(command, WRITE_WITHIN).await;
    let Written::Committed { reply, .. } = written else { return };
    match reply {
        Reply::Refused(refusal) => {
            // It will be no better later.
            parts.member.count_refused("addendum");
            tracing::warn!(%shard, %attempt, %worker, %refusal, "a late report is not kept");
        }
        _ => tracing::info!(%shard, %attempt, %worker, "a worker is back; its report is kept"),
    }
    let _ = breakers::ask(shared, parts, worker, &WorkerRequest::Forget { shard, attempt }).await;
}

/// What workers of a job have said after their attempts were ended for them, in the order in which
/// it was taken.
pub fn of_job(job: &Job) -> Vec<stats::Addendum> {
    let mut addenda = Vec::new();
    for ((workflow, shard), known) in &job.shards {
        for (Attempt(attempt), record) in (1..).map(Attempt).zip(&known.attempts) {
            let of = AttemptKey { workflow: workflow.0, shard: *shard, attempt };
            let told = record.addendum.as_ref().zip(record.added());
            addenda.extend(told.map(|(told, added)| (told.epoch, one(of, record, told, &added))));
        }
    }
    addenda.sort_by_key(|(epoch, _)| epoch.number);
    addenda.into_iter().map(|(_, addendum)| addendum).collect()
}

fn one(
    of: AttemptKey,
    record: &AttemptRecord,
    told: &Addendum,
    added: &Counters,
) -> stats::Addendum {
    let Counters { issued, sent, completed, failed, iterations, .. } = *added;
    stats::Addendum {
        of,
        at_unix_ms: told.at.wall_ms,
        worker: record.worker.to_string(),
        added: Added { issued, sent, completed, failed, iterations },
        certain: told.word == ReportedBy::Whole,
    }
}

/// A stored result with what was said since. What it counts itself stays as it is.
pub fn amended(content: Vec<u8>, addenda: Vec<stats::Addendum>) -> Vec<u8> {
    if addenda.is_empty() {
        return content;
    }
    let Ok(mut result) = stats::wire::decode_result(&content) else { return content };
    result.last_words.addenda = addenda;
    stats::wire::encode_result(&result).unwrap_or(content)
}
