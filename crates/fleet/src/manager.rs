//! A manager: a member of the ledger's group, and the owner of some of the datacenter's jobs.
//!
//! ```text
//! services: jobs (clients), worker_reports (workers), manager_peers (managers), enrolment
//!        │                    │
//!        ▼                    ▼
//! claims ── one job task per job: the pure owner, its statistics, its feed ── effects ──▶ ledger, workers, blobs
//!    ▲                                    └── checkpoints, on a majority of the managers
//!    └── the ledger's state and the membership, watched
//! ```
//!
//! A manager holds nothing that cannot be lost: jobs are in the ledger, running load is on the
//! workers, statistics are in checkpoints and in the workers' senders. Another manager takes a job
//! up from these.

mod addenda;
mod authority;
mod breakers;
mod checkpoint_parts;
mod checkpoints;
mod claims;
mod config;
mod effects;
mod enrolment;
mod fleet_view;
mod job_task;
mod jobs;
mod manager_peers;
mod probe;
mod relay;
mod roster;
mod start;
mod status;
mod time;
mod transfers;
mod voters;
mod worker_reports;

use base::clock::now;
use base::{lock, millis};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use control::pool::Worker;
use control::routing::{self, Routing, Why};
use fence::{JobId, NodeId};
use membership::Entry;
use node::{Host, Member};
use tokio::sync::watch;
use tonic::Status;

pub use config::{AskedLimits, KEEP_JOBS, KEEP_JOBS_MIN, ManagerConfig, keeping};
pub use start::{Ended, Manager, StartError};

use breakers::Breakers;
use checkpoints::CheckpointStore;
use job_task::JobTaskHandle;
use voters::Membership;

/// What the tasks and services of one manager share.
pub(crate) struct Shared {
    host: Host,
    /// None until both have started, and after the end: a call is then told to come back.
    parts: Mutex<Option<Arc<Parts>>>,
    settings: control::owner::Settings,
    turns: control::queue::Turns,
    /// An owner that has said nothing for this long, and is dead by membership, is gone.
    silent: Duration,
    job_tasks: Mutex<BTreeMap<JobId, JobTaskHandle>>,
    breakers: Breakers,
    /// Which manager has renewed the leases of a worker last.
    renewers: Mutex<control::relay::Renewers>,
    /// Who may change the jobs of others, and drain nodes. Nobody: all clients may.
    operators: BTreeSet<NodeId>,
    /// By which voters the last checkpoint of each job that is led here was counted.
    kept_by: Mutex<BTreeMap<JobId, Membership>>,
    /// Since when no lease could be renewed here, because no majority could be asked.
    undecided: Mutex<Option<tokio::time::Instant>>,
    checkpoints: CheckpointStore,
    transfers: transfers::Transfers,
    /// Takes nothing more, gives up what it has.
    leaving: watch::Sender<bool>,
    /// Asked to leave by somebody else.
    told_to_leave: watch::Sender<bool>,
}

struct Parts {
    ledger: ledger::Node,
    member: Arc<Member>,
}

impl Shared {
    fn parts(&self) -> Option<Arc<Parts>> {
        lock(&self.parts).clone()
    }

    fn serving(&self) -> Result<Arc<Parts>, Status> {
        self.parts().ok_or_else(|| Status::unavailable("this manager is starting or ending"))
    }

    /// The workers, with what may be placed on each.
    fn workers(&self, parts: &Parts) -> Vec<Worker> {
        let judge = |entry: &Entry| self.judge(parts, entry).0;
        roster::workers(&parts.member.view(), judge)
    }

    /// What may be placed on a worker, and why not more.
    fn judge(&self, parts: &Parts, entry: &Entry) -> (Routing, Option<Why>) {
        let health = parts.member.health(entry.peer.node);
        let breaker = self.breakers.of(entry.peer.node, entry.peer.boot);
        routing::route(&roster::signs(entry, health, breaker))
    }

    fn job_task(&self, job: JobId) -> Option<JobTaskHandle> {
        lock(&self.job_tasks).get(&job).cloned()
    }

    fn job_tasks(&self) -> Vec<(JobId, JobTaskHandle)> {
        lock(&self.job_tasks).iter().map(|(job, job_task)| (*job, job_task.clone())).collect()
    }
}
