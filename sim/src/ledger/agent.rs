//! The user of a node: takes errands from clients, runs them on the node, and brings the answers
//! back.
//!
//! It lives on the node's host and dies with it; a client whose errand dies with the host learns
//! nothing, as a caller whose connection breaks.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use fence::{GroupId, JobId, ShardKey};
use ledger::{Change, Changed, Node, Read, ReadError, ReadLevel, Written};
use ledger_state::{BlobRef, Command, Counters, Job, RequestId, State};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::model::{Seen, SeenCourse, SeenTry};

/// What a client wants.
#[derive(Clone, Debug)]
pub enum Ask {
    Propose(Command),
    Retry(RequestId),
    Read {
        level: ReadLevel,
        job: JobId,
    },
    PutBlob(Vec<u8>),
    /// An operator admits a node (again), with the disk that it has now.
    Admit {
        address: String,
    },
    /// An operator takes a member out, and later admits it.
    Remove {
        node: fence::NodeId,
    },
}

pub struct Errand {
    pub ask: Ask,
    pub deadline: Duration,
    pub answer: oneshot::Sender<Told>,
}

/// What came of it.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one at a time")]
pub enum Told {
    Written(Written),
    Read(Result<Read<Option<JobView>>, ReadError>),
    Blob(Result<BlobRef, String>),
    Changed(Result<(), String>),
}

/// A job as a read has shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    pub seen: Seen,
    pub group: GroupId,
    pub totals: Counters,
}

/// What a client may see of a job.
#[must_use]
pub fn view(state: &State, id: JobId) -> Option<JobView> {
    let job = state.job(id)?;
    Some(JobView { seen: see(id, job), group: state.group(), totals: job.totals })
}

fn see(id: JobId, job: &Job) -> Seen {
    let mut shards = BTreeMap::new();
    for ((workflow, shard), record) in &job.shards {
        let tries = record.attempts.iter().map(|attempt| SeenTry {
            started: attempt.started.number,
            revoked: attempt.revoked.is_some(),
            ended: attempt.end.as_ref().map(|end| end.status),
        });
        let key = ShardKey { job: id, workflow: *workflow, shard: *shard };
        shards.insert(key, tries.collect());
    }
    Seen {
        created: job.created.number,
        granted: job.epoch.map(|epoch| epoch.number),
        released: job.epoch.is_some() && job.owner.is_none(),
        cancelled: job.cancel.as_ref().map(|cancel| cancel.epoch.number),
        ended: job.end.as_ref().map(|end| (end.outcome, end.epoch.number)),
        layers: job.contexts.len() as u32,
        shards,
        course: SeenCourse {
            divisions: job
                .provisioned
                .iter()
                .map(|(workflow, it)| (*workflow, (it.shards, it.begun_ms.is_some())))
                .collect(),
            rows: job.rows.iter().map(|(set, next)| (*set, *next)).collect(),
            stopped: job.stop.is_some(),
            extended_ms: job.extended_ms,
            result: job.result,
        },
    }
}

/// Takes errands until nobody can bring any more.
pub async fn serve(node: Rc<Node>, mut inbox: UnboundedReceiver<Errand>) {
    while let Some(Errand { ask, deadline, answer }) = inbox.recv().await {
        let node = Rc::clone(&node);
        tokio::task::spawn_local(async move {
            let told = run(&node, ask, deadline).await;
            // The client may have given up; then nobody wants to know.
            let _ = answer.send(told);
        });
    }
}

async fn run(node: &Node, ask: Ask, deadline: Duration) -> Told {
    match ask {
        Ask::Propose(command) => Told::Written(node.propose(command, deadline).await),
        Ask::Retry(request) => Told::Written(node.retry(request, deadline).await),
        Ask::Read { level, job } => {
            Told::Read(node.read(level, deadline, move |state| view(state, job)).await)
        }
        Ask::PutBlob(bytes) => {
            let put = node.put_blob(bytes, deadline).await;
            Told::Blob(put.map_err(|error| error.to_string()))
        }
        Ask::Admit { address } => Told::Changed(admit(node, address, deadline).await),
        Ask::Remove { node: member } => {
            let done = node.change_members(Change::Remove { node: member }, deadline).await;
            Told::Changed(changed(done).map(drop))
        }
    }
}

/// As an operator does it: in as a learner, and a voter when it has caught up.
async fn admit(node: &Node, address: String, deadline: Duration) -> Result<(), String> {
    let until = Instant::now() + deadline;
    let admitted = node.change_members(Change::Admit { address }, deadline).await;
    let member = changed(admitted)?;
    let left = until.saturating_duration_since(Instant::now());
    changed(node.change_members(Change::Promote { node: member }, left).await).map(drop)
}

fn changed(result: Changed) -> Result<fence::NodeId, String> {
    match result {
        Changed::Done { node } => Ok(node),
        Changed::Not(why) => Err(why.to_string()),
        Changed::Unknown => Err("unknown".to_owned()),
    }
}
