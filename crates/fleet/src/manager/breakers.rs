//! One circuit breaker per worker: what this manager's own talk with it shows.
//!
//! A worker whose breaker is not closed gets no new work from any job that is led here. Stops and
//! whatever else concerns what it runs are tried all the same. After the cool-down, or when it says
//! something itself, it is asked what it holds, which costs no job anything; an answer brings it
//! back. A new life of a worker is another one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use control::breaker::{self, Change, Failure, Outcome, Permit, State, Tripped};
use control::message::{WorkerRefusal, WorkerRequest, WorkerResponse};
use fence::{BootId, JobId, NodeId};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{Parts, Shared, lock, now, roster};
use crate::verdict;
use crate::wire::proto::worker_control_client::WorkerControlClient;
use crate::wire::{FOR_OWNER, MESSAGE_BYTES_MAX, is_too_new, seal, unseal};

/// A worker that has not answered by then may have done it or not.
const ASK_WITHIN: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A worker, in one life.
type Target = (NodeId, BootId);

pub struct Breakers(Mutex<breaker::Breakers<Target>>);

impl Breakers {
    pub fn new(settings: breaker::Settings) -> Self {
        Self(Mutex::new(breaker::Breakers::new(settings)))
    }

    /// None: it is closed.
    pub fn of(&self, node: NodeId, boot: BootId) -> Option<(State, Tripped)> {
        let breakers = lock(&self.0);
        let tripped = breakers.tripped((node, boot))?;
        Some((breakers.state((node, boot), now()), tripped))
    }

    /// A worker has called this manager.
    pub fn heard(&self, node: NodeId) {
        lock(&self.0).heard(|(worker, _)| worker == node);
    }

    fn permit(&self, target: Target, ask: &WorkerRequest) -> Option<Permit> {
        let mut breakers = lock(&self.0);
        match breakers.ask(target, now()) {
            None if !ask.can_wait() => Some(breakers.insist(target, now())),
            permit => permit,
        }
    }

    fn note(&self, target: Target, permit: Permit, outcome: Outcome) {
        let mut breakers = lock(&self.0);
        let change = breakers.note(target, permit, outcome, now());
        let (worker, why) = (target.0, breakers.tripped(target));
        drop(breakers);
        match (change, why) {
            (Some(Change::Opened), Some(why)) => {
                tracing::warn!(%worker, "gets nothing new for now: {why}");
            }
            (Some(Change::Closed), _) => tracing::info!(%worker, "answers again"),
            _ => {}
        }
    }
}

/// Asks a worker once, if its breaker lets it.
pub async fn ask(
    shared: &Shared,
    parts: &Parts,
    worker: NodeId,
    ask: &WorkerRequest,
) -> Option<WorkerResponse> {
    ask_for(shared, parts, worker, ask, None).await
}

/// The same, for an owner that does not reach the worker.
pub async fn ask_for(
    shared: &Shared,
    parts: &Parts,
    worker: NodeId,
    ask: &WorkerRequest,
    owner: Option<NodeId>,
) -> Option<WorkerResponse> {
    let view = parts.member.view();
    let peer = roster::peer(&view, worker)?;
    let target = (worker, peer.boot);
    let sealed = seal(ask).ok()?;
    let permit = shared.breakers.permit(target, ask)?;
    let mut worker_control =
        WorkerControlClient::new(parts.member.channel(peer.address, peer.role, worker))
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let mut request = tonic::Request::new(sealed);
    if let Some(owner) = owner.and_then(|owner| owner.to_string().parse().ok()) {
        request.metadata_mut().insert(FOR_OWNER, owner);
    }
    let (answer, outcome) = match timeout(ASK_WITHIN, worker_control.call(request)).await {
        Ok(Ok(answer)) => (unseal(answer.get_ref()).ok(), Some(Outcome::Answered)),
        Ok(Err(status)) => {
            tracing::debug!(%worker, "a worker did not answer: {}", status.message());
            (too_new(ask, &status), verdict::of_status(&status))
        }
        Err(_) => (None, Some(Outcome::Failed(Failure::NoAnswer))),
    };
    if let Some(outcome) = outcome {
        shared.breakers.note(target, permit, outcome);
    }
    answer
}

/// A worker of an earlier version cannot read what is asked, so it has done nothing. Where that
/// leads on, to another worker, it is an answer like any other; a stop, though, is proved by the
/// lease alone.
fn too_new(ask: &WorkerRequest, status: &tonic::Status) -> Option<WorkerResponse> {
    let leads_on = matches!(ask, WorkerRequest::Reserve { .. } | WorkerRequest::Dispatch(_));
    let why = || format!("it is of an earlier version: {}", status.message());
    (leads_on && is_too_new(status))
        .then(|| WorkerResponse::Refused(WorkerRefusal::CannotRun { why: why() }))
}

/// Tries those whose cool-down is over, and forgets those who are gone.
pub async fn run(shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let mut trials: JoinSet<()> = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            Some(_) = trials.join_next() => continue,
            () = sleep(LOOK_EVERY) => {}
        }
        let Some(parts) = shared.parts() else { return };
        let there: BTreeSet<Target> = roster::lives(&parts.member.view()).collect();
        let (due, opened, open) = {
            let mut breakers = lock(&shared.breakers.0);
            breakers.retain(|target| there.contains(&target));
            let due: Vec<Target> = breakers.due(now()).collect();
            (due, breakers.opened(), breakers.not_closed())
        };
        parts.member.set_breakers("worker", opened, open as u64);
        for (worker, _) in due {
            let (shared, parts) = (Arc::clone(&shared), Arc::clone(&parts));
            trials.spawn(async move {
                // Nobody's job: all that matters is whether there is an answer.
                let nothing = WorkerRequest::Inspect { job: Some(JobId::default()) };
                let _ = ask(&shared, &parts, worker, &nothing).await;
            });
        }
    }
}
