//! By which voters a checkpoint was counted, and when they may change again.
//!
//! A checkpoint is on a majority of the voters of its moment. That shares a member with every
//! majority one change away, and need not share one with a majority two changes away. So each
//! checkpoint, and each question for the newest, names the ledger's entry that made its voters;
//! whoever knows a later entry refuses it. And those who vote change only when every running job
//! has written a checkpoint with the present ones.

use std::collections::BTreeSet;
use std::time::Duration;

use fence::canary::{self, Canary};
use fence::{JobId, NodeId};
use ledger::ReadLevel;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tonic::Status;

use super::{Parts, effects, roster};
use crate::wire::job_from;
use crate::wire::proto::manager_peers_client::ManagerPeersClient;
use crate::wire::proto::{SettledRequest, Voters};

/// Term and index of an entry that changed the members; a later one is greater.
pub type Membership = (u64, u64);

/// How long running jobs have for it. Owners write within two seconds; a job whose owner has died
/// is taken up first.
const SETTLED_WITHIN: Duration = Duration::from_secs(30);
const ASK_WITHIN: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(200);

pub fn voters_out((term, index): Membership) -> Voters {
    Voters { term, index }
}

/// Nobody's voters are older than all others.
pub fn voters_in(voters: Option<Voters>) -> Membership {
    voters.map(|voters| (voters.term, voters.index)).unwrap_or_default()
}

/// Returns when every running job has a checkpoint with the present voters.
///
/// # Errors
/// If that does not come about in time, with how many have not.
pub async fn settled(parts: &Parts) -> Result<(), Status> {
    let until = Instant::now() + SETTLED_WITHIN;
    loop {
        let voters = parts.ledger.status().membership;
        let running = parts.ledger.read(ReadLevel::Strong, ASK_WITHIN, |state| {
            let begun = state.jobs().filter(|(_, job)| job.end.is_none() && !job.shards.is_empty());
            begun.map(|(id, _)| id).collect::<BTreeSet<JobId>>()
        });
        let left = match running.await {
            Ok(running) => {
                let settled = ask(parts, voters).await;
                running.value.difference(&settled).count()
            }
            Err(error) => return Err(Status::unavailable(error.to_string())),
        };
        if left == 0 || canary::active(Canary::VotersUnsettled) {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(Status::unavailable(format!(
                "{left} running jobs have not yet written their counts with the managers that vote now; try again"
            )));
        }
        sleep(AGAIN).await;
    }
}

/// The jobs that are settled, as those say who lead them.
async fn ask(parts: &Parts, voters: Membership) -> BTreeSet<JobId> {
    let mut asked = JoinSet::new();
    let managers: BTreeSet<NodeId> = roster::managers(&parts.member.view());
    for node in managers {
        let Some(channel) = effects::channel(parts, node) else { continue };
        let request = SettledRequest { voters: Some(voters_out(voters)) };
        asked.spawn(async move {
            let mut job_task = ManagerPeersClient::new(channel);
            timeout(ASK_WITHIN, job_task.settled(request))
                .await
                .ok()?
                .ok()
                .map(tonic::Response::into_inner)
        });
    }
    let mut settled = BTreeSet::new();
    while let Some(answer) = asked.join_next().await {
        let jobs = answer.ok().flatten().map(|reply| reply.jobs).unwrap_or_default();
        settled.extend(jobs.iter().filter_map(|job| job_from(job).ok()));
    }
    settled
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why one change needs no checkpoint in between and two do: the sizes of majorities.
    #[test]
    fn majorities_one_change_apart_share_a_member() {
        let majority = |voters: usize| voters / 2 + 1;
        for voters in 1..50 {
            assert!(majority(voters) + majority(voters + 1) > voters + 1, "{voters}");
        }
        // One out and one in: two of the old three and two of the new three.
        assert!(majority(3) + majority(3) <= 4);
    }

    #[test]
    fn a_later_entry_is_greater_whatever_its_place() {
        assert!(voters_in(None) < voters_in(Some(voters_out((1, 1)))));
        assert!(voters_in(Some(voters_out((1, 9)))) < voters_in(Some(voters_out((2, 3)))));
    }
}
