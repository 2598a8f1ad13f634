//! What a manager does for a worker and the owner of its job when they do not reach each other and
//! both reach it (R26).
//!
//! ```text
//! worker ──RenewRequest──▶ this manager ──notice──▶ owner          who renews anywhere is not lost
//! worker ──WorkerReport, FrameBatch──▶ this manager ──▶ owner           and can say what it has to say
//! owner ──▶ this manager ──WorkerRequest──▶ worker                    through the manager that renewed it last
//! ```
//!
//! A relay is one step: whoever is not the owner says so, and passes nothing on again.

use std::collections::BTreeMap;

use fence::{Attempt, JobId, NodeId, ShardKey};

use super::message::Renewal;
use ledger_state::State;

/// Workers whose last renewal is remembered.
const RENEWERS_MAX: usize = 100_000;

/// Where a worker's word on a job goes from a manager that does not lead it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It is passed on to the owner, and the owner's answer back. If there is none, the worker
    /// hears who the owner is.
    Owner(NodeId),
    /// Nobody leads the job, or this manager will in a moment: the worker tries again.
    Nobody,
    /// The job has ended.
    Ended,
    /// There is no such job, as far as this manager has read. Only a majority can say that there is
    /// none.
    Unknown,
}

impl Way {
    #[must_use]
    pub fn of(state: &State, job: JobId, me: NodeId) -> Self {
        let Some(job) = state.job(job) else { return Self::Unknown };
        match job.owner.map(|owner| owner.node) {
            _ if job.end.is_some() => Self::Ended,
            Some(owner) if owner != me => Self::Owner(owner),
            _ => Self::Nobody,
        }
    }
}

/// By owner: the leases of its jobs that were renewed just now. It does not see the renewals that
/// others grant.
#[must_use]
pub fn notices(
    state: &State,
    answers: &[(ShardKey, Attempt, Renewal)],
) -> BTreeMap<NodeId, Vec<(ShardKey, Attempt)>> {
    let mut notices: BTreeMap<NodeId, Vec<(ShardKey, Attempt)>> = BTreeMap::new();
    for (shard, attempt, renewal) in answers {
        let owner = state.job(shard.job).and_then(|job| job.owner);
        if let (Renewal::Granted { .. }, Some(owner)) = (renewal, owner) {
            notices.entry(owner.node).or_default().push((*shard, *attempt));
        }
    }
    notices
}

/// Attempts by job, for those who lead them.
#[must_use]
pub fn by_job(attempts: &[(ShardKey, Attempt)]) -> BTreeMap<JobId, Vec<(ShardKey, Attempt)>> {
    let mut jobs: BTreeMap<JobId, Vec<(ShardKey, Attempt)>> = BTreeMap::new();
    for (shard, attempt) in attempts {
        jobs.entry(shard.job).or_default().push((*shard, *attempt));
    }
    jobs
}

/// Which manager has renewed the leases of a worker last: through it the worker can be asked.
#[derive(Clone, Debug, Default)]
pub struct Renewers(BTreeMap<NodeId, NodeId>);

impl Renewers {
    pub fn note(&mut self, worker: NodeId, manager: NodeId) {
        if self.0.len() < RENEWERS_MAX || self.0.contains_key(&worker) {
            self.0.insert(worker, manager);
        }
    }

    /// Through whom `me` asks a worker that does not answer it. None: it has renewed nowhere, or
    /// here.
    #[must_use]
    pub fn through(&self, worker: NodeId, me: NodeId) -> Option<NodeId> {
        self.0.get(&worker).copied().filter(|manager| *manager != me)
    }
}

#[cfg(test)]
mod tests {
    use fence::{BootId, GroupId, Hlc, WorkflowNo};

    use super::*;
    use ledger_state::{
        BlobRef, Command, CreateJob, IdempotencyKey, Limits, Proposal, Reply, RequestId, SessionId,
        Submission,
    };

    const ME: NodeId = NodeId(1);
    const OTHER: NodeId = NodeId(2);
    const WORKER: NodeId = NodeId(100);

    struct Ledger {
        state: State,
        index: u64,
    }

    impl Ledger {
        fn new() -> Self {
            let group = GroupId { cluster: 1, generation: 1 };
            let mut ledger = Self { state: State::new(group, Limits::default()), index: 0 };
            for node in [ME, OTHER] {
                ledger.write(node, Command::OpenSession);
            }
            ledger
        }

        fn write(&mut self, node: NodeId, command: Command) -> Reply {
            self.index += 1;
            let session = SessionId { node, boot: BootId(1) };
            let request = RequestId { session, seq: self.index };
            let at = Hlc { wall_ms: 1, logical: 0, node };
            let proposal = Proposal { request, settled: 0, at, command };
            self.state.apply(self.index, std::slice::from_ref(&proposal)).remove(0)
        }

        fn job(&mut self, sequence: u64) -> JobId {
            let key = IdempotencyKey { client: "client".to_owned(), sequence, nonce: [1; 16] };
            let create = CreateJob {
                tenant: "tenant".to_owned(),
                key,
                fingerprint: [1; 32],
                name: "job".to_owned(),
                plan: BlobRef { hash: [1; 32], bytes: 1 },
                age_ms: 0,
                rehearsal: false,
            };
            match self.write(ME, Command::CreateJob(Box::new(create))) {
                Reply::Submitted(Submission::Accepted { job, .. }) => job,
                other => panic!("{other:?}"),
            }
        }

        fn claim(&mut self, job: JobId, node: NodeId) {
            let claimant = SessionId { node, boot: BootId(1) };
            let reply = self.write(node, Command::ClaimJob { job, claimant, seen: None });
            assert!(matches!(reply, Reply::Claimed { .. }), "{reply:?}");
        }
    }

    /// R26: a word goes to the owner in one step, and nowhere if this manager is about to lead the
    /// job itself.
    #[test]
    fn a_word_goes_to_the_owner_and_never_back_to_this_manager() {
        let mut ledger = Ledger::new();
        let [nobodys, mine, theirs] = [1, 2, 3].map(|sequence| ledger.job(sequence));
        ledger.claim(mine, ME);
        ledger.claim(theirs, OTHER);
        let way = |job| Way::of(&ledger.state, job, ME);
        assert_eq!(way(nobodys), Way::Nobody);
        assert_eq!(way(mine), Way::Nobody);
        assert_eq!(way(theirs), Way::Owner(OTHER));
        assert_eq!(way(JobId(77)), Way::Unknown);
    }

    /// R26: owners hear of the renewals of their own jobs, and of nothing that was refused.
    #[test]
    fn each_owner_hears_of_the_renewals_of_its_jobs() {
        let mut ledger = Ledger::new();
        let [nobodys, mine, theirs] = [1, 2, 3].map(|sequence| ledger.job(sequence));
        ledger.claim(mine, ME);
        ledger.claim(theirs, OTHER);
        let shard = |job, shard| ShardKey { job, workflow: WorkflowNo(0), shard };
        let granted = || Renewal::Granted { units_end: None, steering: None };
        let answers = [
            (shard(nobodys, 0), Attempt(1), granted()),
            (shard(mine, 0), Attempt(1), granted()),
            (shard(theirs, 0), Attempt(2), granted()),
            (shard(theirs, 1), Attempt(1), Renewal::Refused { why: "revoked".to_owned() }),
        ];
        let notices = notices(&ledger.state, &answers);
        assert_eq!(notices[&ME], [(shard(mine, 0), Attempt(1))]);
        assert_eq!(notices[&OTHER], [(shard(theirs, 0), Attempt(2))]);
        assert_eq!(notices.len(), 2);
        assert_eq!(by_job(&notices[&OTHER])[&theirs], notices[&OTHER]);
    }

    #[test]
    fn a_worker_is_asked_through_whoever_renewed_it_last() {
        let mut renewers = Renewers::default();
        assert_eq!(renewers.through(WORKER, ME), None);
        renewers.note(WORKER, OTHER);
        assert_eq!(renewers.through(WORKER, ME), Some(OTHER));
        renewers.note(WORKER, ME);
        assert_eq!(renewers.through(WORKER, ME), None, "it has just failed to answer here");
    }
}
