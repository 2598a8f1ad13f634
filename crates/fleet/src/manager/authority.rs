//! Whose word counts: a worker's about its own attempts (R26), a manager's if it is a member of the
//! ledger's group.
//!
//! A certificate proves who calls. What the caller may say is decided by the ledger: it has the
//! worker of every attempt and the members of the group. On a simulated network nobody has a
//! certificate, and nothing is compared.

use std::sync::Arc;
use std::time::Duration;

use control::message::WorkerReport;
use fence::{Attempt, JobId, NodeId, ShardKey};
use ledger::ReadLevel;
use ledger_state::{BlobRef, State};
use tonic::{Request, Status};
use trust::{Identity, Role};

use super::{Parts, Shared};
use crate::wire::caller;

/// For a read that a majority has to confirm.
const READ_WITHIN: Duration = Duration::from_millis(1_500);

/// Counts a refusal by its name.
pub fn refused(shared: &Shared, kind: &'static str) {
    if let Some(parts) = shared.parts() {
        parts.member.count_refused(kind);
    }
}

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Attempt(ShardKey, Attempt),
    /// Any attempt of the job.
    Job(JobId),
    /// The worker itself.
    Worker(NodeId),
}

fn about(tell: &WorkerReport) -> About {
    match tell {
        WorkerReport::Ready { shard, attempt }
        | WorkerReport::RowsWanted { shard, attempt, .. }
        | WorkerReport::Abort { shard, attempt, .. } => About::Attempt(*shard, *attempt),
        WorkerReport::Ended(report) => About::Attempt(report.shard, report.attempt),
        WorkerReport::MoreTime { job, .. } => About::Job(*job),
        WorkerReport::Draining { worker, .. } => About::Worker(*worker),
    }
}

/// Whose name the message has in it, if any.
fn claimed(tell: &WorkerReport) -> Option<NodeId> {
    match tell {
        WorkerReport::Ended(report) => Some(report.worker),
        WorkerReport::MoreTime { worker, .. } | WorkerReport::Draining { worker, .. } => {
            Some(*worker)
        }
        WorkerReport::Ready { .. }
        | WorkerReport::RowsWanted { .. }
        | WorkerReport::Abort { .. } => None,
    }
}

/// What one look at the ledger says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Own,
    Foreign,
    /// The job is not known: whoever asks is told so, and nothing comes of it.
    NoJob,
}

fn judge(state: &State, node: NodeId, about: About) -> Verdict {
    let own = |is_own: bool| if is_own { Verdict::Own } else { Verdict::Foreign };
    match about {
        About::Worker(worker) => own(worker == node),
        About::Job(job) => match state.job(job) {
            None => Verdict::NoJob,
            Some(job) => own(job.attempts().any(|record| record.worker == node)),
        },
        About::Attempt(shard, attempt) => match state.job(shard.job) {
            None => Verdict::NoJob,
            Some(job) => {
                let record = job.shard(&shard).and_then(|shard| shard.attempt(attempt));
                own(record.is_some_and(|record| record.worker == node))
            }
        },
    }
}

/// Looks here first. What is not found here may not have arrived yet, so only a majority's state
/// refuses.
async fn look<T: PartialEq>(
    parts: &Parts,
    good: T,
    decide: impl Fn(&State) -> T,
) -> Result<T, Status> {
    let unavailable = |error: ledger::ReadError| Status::unavailable(error.to_string());
    let here = parts.ledger.read(ReadLevel::Eventual, READ_WITHIN, &decide).await;
    let here = here.map_err(unavailable)?.value;
    if here == good {
        return Ok(here);
    }
    let read = parts.ledger.read(ReadLevel::Strong, READ_WITHIN, &decide).await;
    Ok(read.map_err(unavailable)?.value)
}

fn foreign(parts: &Parts, node: NodeId, what: &str) -> Status {
    parts.member.count_refused("foreign_attempt");
    tracing::debug!(worker = %node, "refused: it is not the worker of {what}");
    Status::permission_denied(format!(
        "a worker speaks for its own attempts only, and worker {node} is not the one of {what}"
    ))
}

/// Refuses what a worker says about an attempt that is not its own.
pub async fn may_tell(parts: &Parts, node: NodeId, tell: &WorkerReport) -> Result<(), Status> {
    let subject = about(tell);
    let what = match subject {
        About::Attempt(shard, attempt) => format!("attempt {attempt} of {shard}"),
        About::Job(job) => format!("an attempt of job {job}"),
        About::Worker(worker) => format!("worker {worker}"),
    };
    if claimed(tell).is_some_and(|claimed| claimed != node) {
        return Err(foreign(parts, node, &what));
    }
    match look(parts, Verdict::Own, |state| judge(state, node, subject)).await? {
        Verdict::Own | Verdict::NoJob => Ok(()),
        Verdict::Foreign => Err(foreign(parts, node, &what)),
    }
}

fn has_job_with(state: &State, node: NodeId, blob: &BlobRef) -> bool {
    let mut jobs = state.active_jobs().filter(|(_, job)| job.blobs().any(|used| used == *blob));
    jobs.any(|(_, job)| job.attempts().any(|record| record.worker == node))
}

/// Refuses a blob to a worker that has no attempt of a job with it: bundles hold what their clients
/// put into them.
pub async fn may_fetch(parts: &Parts, node: NodeId, blob: &BlobRef) -> Result<(), Status> {
    if look(parts, true, |state| has_job_with(state, node, blob)).await? {
        return Ok(());
    }
    parts.member.count_refused("foreign_blob");
    tracing::debug!(worker = %node, "refused: a blob of a job that it has no attempt of");
    Err(Status::permission_denied(format!(
        "worker {node} has no attempt of a job with this content"
    )))
}

/// Refuses a manager that is no member of the ledger's group: a certificate alone makes nobody a
/// colleague.
pub fn must_be_member(parts: &Parts, who: &Identity) -> Result<(), Status> {
    if who.role != Role::Manager {
        return Ok(());
    }
    let status = parts.ledger.status();
    let mut members = status.voters.iter().chain(&status.learners).peekable();
    if members.peek().is_none() {
        return Err(Status::unavailable("this manager does not know its group yet; try again"));
    }
    if members.any(|(member, _)| *member == who.node) {
        return Ok(());
    }
    parts.member.count_refused("not_a_member");
    tracing::debug!(manager = %who.node, "refused: it is not a member of the group");
    Err(Status::permission_denied(format!(
        "manager {} is not a member of the ledger's group; `volley managers add` admits it",
        who.node
    )))
}

/// Who calls, if it is a manager of the group.
pub fn manager<T>(shared: &Shared, request: &Request<T>) -> Result<Option<NodeId>, Status> {
    let Some(who) = caller(request, &[Role::Manager])? else { return Ok(None) };
    let parts: Arc<Parts> = shared.serving()?;
    must_be_member(&parts, &who)?;
    Ok(Some(who.node))
}

#[cfg(test)]
mod tests {
    use fence::{BootId, GroupId, Hlc, WorkflowNo};
    use ledger_state::{
        Command, CreateJob, IdempotencyKey, LapseProof, Limits, Proposal, Reply, RequestId,
        SessionId, Submission,
    };

    use super::*;

    const PLAN: BlobRef = BlobRef { hash: [1; 32], bytes: 1 };

    fn state() -> (State, ShardKey) {
        let session = SessionId { node: NodeId(1), boot: BootId(1) };
        let group = GroupId { cluster: 1, generation: 1 };
        let mut state = State::new(group, Limits::default());
        let mut seq = 0;
        let mut run = |command: Command| {
            seq += 1;
            let at = Hlc { wall_ms: seq, logical: 0, node: session.node };
            let request = RequestId { session, seq };
            state.apply(seq, &[Proposal { request, settled: 0, at, command }]).remove(0)
        };
        run(Command::OpenSession);
        let create = CreateJob {
            tenant: "a".to_owned(),
            key: IdempotencyKey { client: "host".to_owned(), sequence: 1, nonce: [1; 16] },
            fingerprint: [1; 32],
            name: "job".to_owned(),
            plan: PLAN,
            age_ms: 0,
            rehearsal: false,
        };
        let created = run(Command::CreateJob(Box::new(create)));
        let Reply::Submitted(Submission::Accepted { job, .. }) = created else { panic!() };
        let claim = Command::ClaimJob { job, claimant: session, seen: None };
        let Reply::Claimed { epoch } = run(claim) else { panic!() };
        let shard = ShardKey { job, workflow: WorkflowNo(0), shard: 0 };
        let (attempt, worker, boot, after) = (Attempt(1), NodeId(9), BootId(1), LapseProof::First);
        let terms = ledger_state::AttemptTerms::default();
        let start = Command::StartAttempt { shard, epoch, attempt, worker, boot, after, terms };
        assert!(matches!(run(start), Reply::Done { .. }));
        (state, shard)
    }

    #[test]
    fn only_the_worker_of_an_attempt_speaks_for_it() {
        let (state, shard) = state();
        let (own, other) = (NodeId(9), NodeId(8));
        let reason = "because".to_owned();
        let abort = WorkerReport::Abort { shard, attempt: Attempt(1), reason };
        let more = |worker| WorkerReport::MoreTime {
            job: shard.job,
            worker,
            boot: BootId(1),
            progress: 1,
        };
        let rows = WorkerReport::RowsWanted { shard, attempt: Attempt(2), set: 0, at_least: 1 };
        assert_eq!(judge(&state, own, about(&abort)), Verdict::Own);
        assert_eq!(judge(&state, other, about(&abort)), Verdict::Foreign);
        assert_eq!(judge(&state, own, about(&more(own))), Verdict::Own);
        assert_eq!(judge(&state, other, about(&more(other))), Verdict::Foreign);
        assert_eq!(judge(&state, own, about(&rows)), Verdict::Foreign, "there is no attempt 2");
        let elsewhere = ShardKey { job: JobId(77), ..shard };
        let unknown = WorkerReport::Ready { shard: elsewhere, attempt: Attempt(1) };
        assert_eq!(judge(&state, own, about(&unknown)), Verdict::NoJob);
    }

    #[test]
    fn a_bundle_is_for_workers_with_an_attempt_of_its_job() {
        let (state, _) = state();
        assert!(has_job_with(&state, NodeId(9), &PLAN));
        assert!(!has_job_with(&state, NodeId(8), &PLAN));
        assert!(!has_job_with(&state, NodeId(9), &BlobRef { hash: [2; 32], bytes: 1 }));
    }
}
