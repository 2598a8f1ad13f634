//! The messages between a worker and the owner of its job that go through this manager, because
//! they do not reach each other (R26). Which way they take is decided in `control::relay`.
//!
//! A manager vouches for the worker that spoke to it, whose certificate it has seen.

use std::sync::Arc;
use std::time::Duration;

use control::message::{RenewRequest, Renewal, WorkerRequest, WorkerResponse};
use control::relay::{by_job, notices};
use fence::canary::{self, Canary};
use fence::{Attempt, NodeId, ShardKey};
use ledger::ReadLevel;
use ledger_state::State;
use tokio::time::timeout;

use super::{Parts, Shared, effects, lock};
use crate::wire::proto::manager_peers_client::ManagerPeersClient;
use crate::wire::proto::{Envelope, RelayRequest, relay_request::Kind};
use crate::wire::{MESSAGE_BYTES_MAX, seal, unseal};

/// For the owner's answer. A worker waits for two seconds in all.
const OWNER_WITHIN: Duration = Duration::from_millis(1_200);
/// For a worker's answer through another manager.
const ASK_WITHIN: Duration = Duration::from_secs(3);
/// A notice that comes later is worth nothing.
const NOTICE_WITHIN: Duration = Duration::from_secs(1);

/// Says a worker's words to the owner. None: it is not reached.
pub async fn to_owner(
    parts: &Parts,
    owner: NodeId,
    worker: NodeId,
    kind: Kind,
    sealed: Envelope,
) -> Option<Envelope> {
    if canary::active(Canary::NoRelay) {
        return None;
    }
    let channel = effects::channel(parts, owner)?;
    let mut job_task = ManagerPeersClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let request = RelayRequest {
        kind: kind.into(),
        worker: ledger::wire::node_bytes(worker),
        sealed: Some(sealed),
    };
    let answer = timeout(OWNER_WITHIN, job_task.relay(request)).await.ok()?;
    answer.ok().map(tonic::Response::into_inner)
}

/// Asks a worker through the manager that has renewed its leases last. None: there is none, or no
/// answer.
pub async fn call_worker(
    shared: &Shared,
    parts: &Parts,
    worker: NodeId,
    request: &WorkerRequest,
) -> Option<WorkerResponse> {
    let through = renewer(shared, parts, worker)?;
    call_worker_through(parts, through, worker, request).await
}

/// The manager that has renewed a worker's leases last, if it is another one.
pub fn renewer(shared: &Shared, parts: &Parts, worker: NodeId) -> Option<NodeId> {
    lock(&shared.renewers).through(worker, parts.ledger.id())
}

/// Asks a worker through another manager, once. None: no answer.
pub async fn call_worker_through(
    parts: &Parts,
    through: NodeId,
    worker: NodeId,
    request: &WorkerRequest,
) -> Option<WorkerResponse> {
    let channel = effects::channel(parts, through)?;
    let mut job_task = ManagerPeersClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let request = RelayRequest {
        kind: Kind::WorkerRequest.into(),
        worker: ledger::wire::node_bytes(worker),
        sealed: Some(seal(request).ok()?),
    };
    let answer = timeout(ASK_WITHIN, job_task.relay(request)).await.ok()?.ok()?;
    unseal(answer.get_ref()).ok()
}

/// Tells the owners of these attempts' jobs that their leases were renewed here.
pub fn notice(
    shared: &Arc<Shared>,
    parts: &Arc<Parts>,
    renew: &RenewRequest,
    answers: &[(ShardKey, Attempt, Renewal)],
) {
    if !answers.iter().any(|(_, _, renewal)| matches!(renewal, Renewal::Granted { .. })) {
        return;
    }
    let (shared, parts) = (Arc::clone(shared), Arc::clone(parts));
    let (worker, boot, answers) = (renew.worker, renew.boot, answers.to_vec());
    tokio::spawn(async move {
        let to_tell = |state: &State| notices(state, &answers);
        let read = parts.ledger.read(ReadLevel::Eventual, NOTICE_WITHIN, to_tell).await;
        for (owner, attempts) in read.map(|read| read.value).unwrap_or_default() {
            let renewed = RenewRequest { worker, boot, attempts, steered: Vec::new() };
            if owner != parts.ledger.id() && canary::active(Canary::NoRelay) {
                continue;
            }
            if owner == parts.ledger.id() {
                lock(&shared.renewers).note(worker, owner);
                tell_job_tasks(&shared, &renewed);
                continue;
            }
            let (Some(channel), Ok(sealed)) = (effects::channel(&parts, owner), seal(&renewed))
            else {
                continue;
            };
            // The next renewal says the same.
            let _ = timeout(NOTICE_WITHIN, ManagerPeersClient::new(channel).renewed(sealed)).await;
        }
    });
}

/// Hands a notice to the job tasks that lead the jobs.
pub fn tell_job_tasks(shared: &Shared, renewed: &RenewRequest) {
    for (job, attempts) in by_job(&renewed.attempts) {
        let Some(job_task) = shared.job_task(job) else { continue };
        let (worker, boot) = (renewed.worker, renewed.boot);
        let event = control::owner::Event::Renewed { worker, boot, attempts };
        job_task.send(super::job_task::Input::Event(event));
    }
}
