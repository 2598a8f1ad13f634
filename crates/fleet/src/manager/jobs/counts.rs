//! What running jobs have counted: their owners know, and each owner is asked once for all of its
//! jobs.
//!
//! The ledger knows of ended attempts only. An owner that does not answer at once costs nobody more
//! than [`COUNTS_WITHIN`]; its jobs are then shown as the ledger has them, and said to be so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fence::{JobId, NodeId};
use ledger_state::Counters;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::manager::job_task::JobSummary;
use crate::manager::{Parts, Shared, effects};
use crate::wire::proto::manager_peers_client::ManagerPeersClient;
use crate::wire::proto::{self, CountsRequest};
use crate::wire::{job_bytes, job_from};

/// Somebody looks at a list and waits.
const COUNTS_WITHIN: Duration = Duration::from_millis(400);

/// Jobs by owner: one question for each.
fn by_owner(jobs: &[(JobId, NodeId)]) -> BTreeMap<NodeId, Vec<JobId>> {
    let mut owners: BTreeMap<NodeId, Vec<JobId>> = BTreeMap::new();
    for (job, owner) in jobs {
        owners.entry(*owner).or_default().push(*job);
    }
    owners
}

/// What the owners of these jobs say. A job that is not in the answer has none that could be asked.
pub(super) async fn gather(
    shared: &Shared,
    parts: &Arc<Parts>,
    jobs: &[(JobId, NodeId)],
) -> BTreeMap<JobId, JobSummary> {
    let mut counted = BTreeMap::new();
    let mut asked = JoinSet::new();
    for (owner, jobs) in by_owner(jobs) {
        if owner == parts.ledger.id() {
            let job_tasks = jobs.into_iter().filter_map(|job| Some((job, shared.job_task(job)?)));
            counted
                .extend(job_tasks.map(|(job, job_task)| (job, job_task.summary.borrow().clone())));
        } else if let Some(channel) = effects::channel(parts, owner) {
            asked.spawn(timeout(COUNTS_WITHIN, ask(channel, jobs)));
        }
    }
    while let Some(answer) = asked.join_next().await {
        if let Ok(Ok(Some(answer))) = answer {
            counted.extend(answer);
        }
    }
    counted
}

async fn ask(
    channel: tonic::transport::Channel,
    jobs: Vec<JobId>,
) -> Option<Vec<(JobId, JobSummary)>> {
    let jobs = jobs.into_iter().map(job_bytes).collect();
    let answer = ManagerPeersClient::new(channel).counts(CountsRequest { jobs }).await.ok()?;
    let one = |counts: proto::JobCounts| Some((job_from(&counts.job).ok()?, read(counts)));
    Some(answer.into_inner().counts.into_iter().filter_map(one).collect())
}

fn read(counts: proto::JobCounts) -> JobSummary {
    let counted = counts.counters.map(|counters| {
        let proto::Counters { issued, completed, failed, iterations, dropped } = counters;
        Counters { issued, completed, failed, iterations, dropped, ..Counters::default() }
    });
    JobSummary { counted, waits_for: Some(counts.waits_for).filter(|text| !text.is_empty()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand jobs of three managers are three questions.
    #[test]
    fn each_owner_is_asked_once_for_all_its_jobs() {
        let jobs: Vec<(JobId, NodeId)> = (0..1_000).map(|n| (JobId(n), NodeId(n % 3))).collect();
        let owners = by_owner(&jobs);
        assert_eq!(owners.len(), 3);
        assert_eq!(owners.values().map(Vec::len).sum::<usize>(), 1_000);
        assert!(owners[&NodeId(1)].iter().all(|job| job.0 % 3 == 1));
    }
}
