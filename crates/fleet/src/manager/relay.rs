//! The messages between a worker and the owner of its job that go through this manager, because they do not reach each
//! other (R26). Which way they take is decided in `control::relay`.
//!
//! A manager vouches for the worker that spoke to it, whose certificate it has seen.

use std::sync::Arc;
use std::time::Duration;

use control::message::{Answer, Ask, Renew, Renewal};
use control::relay::{by_job, notices};
use fence::{Attempt, NodeId, ShardKey};
use ledger::ReadLevel;
use ledger_state::State;
use tokio::time::timeout;

use super::{Parts, Shared, errands, lock};
use crate::wire::proto::desk_client::DeskClient;
use crate::wire::proto::{RelayRequest, Sealed, relay_request::Kind};
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
    sealed: Sealed,
) -> Option<Sealed> {
    let channel = errands::channel(parts, owner)?;
    let mut desk = DeskClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let request = RelayRequest {
        kind: kind.into(),
        worker: ledger::wire::node_bytes(worker),
        sealed: Some(sealed),
    };
    let answer = timeout(OWNER_WITHIN, desk.relay(request)).await.ok()?;
    answer.ok().map(tonic::Response::into_inner)
}

/// Asks a worker through the manager that has renewed its leases last. None: there is none, or no answer.
pub async fn ask(shared: &Shared, parts: &Parts, worker: NodeId, ask: &Ask) -> Option<Answer> {
    let through = renewer(shared, parts, worker)?;
    ask_through(parts, through, worker, ask).await
}

/// The manager that has renewed a worker's leases last, if it is another one.
pub fn renewer(shared: &Shared, parts: &Parts, worker: NodeId) -> Option<NodeId> {
    lock(&shared.renewers).through(worker, parts.ledger.id())
}

/// Asks a worker through another manager, once. None: no answer.
pub async fn ask_through(
    parts: &Parts,
    through: NodeId,
    worker: NodeId,
    ask: &Ask,
) -> Option<Answer> {
    let channel = errands::channel(parts, through)?;
    let mut desk = DeskClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let request = RelayRequest {
        kind: Kind::Ask.into(),
        worker: ledger::wire::node_bytes(worker),
        sealed: Some(seal(ask).ok()?),
    };
    let answer = timeout(ASK_WITHIN, desk.relay(request)).await.ok()?.ok()?;
    unseal(answer.get_ref()).ok()
}

/// Tells the owners of these attempts' jobs that their leases were renewed here.
pub fn notice(
    shared: &Arc<Shared>,
    parts: &Arc<Parts>,
    renew: &Renew,
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
            let renewed = Renew { worker, boot, attempts, steered: Vec::new() };
            if owner == parts.ledger.id() {
                lock(&shared.renewers).note(worker, owner);
                tell_desks(&shared, &renewed);
                continue;
            }
            let (Some(channel), Ok(sealed)) = (errands::channel(&parts, owner), seal(&renewed))
            else {
                continue;
            };
            // The next renewal says the same.
            let _ = timeout(NOTICE_WITHIN, DeskClient::new(channel).renewed(sealed)).await;
        }
    });
}

/// Hands a notice to the desks that lead the jobs.
pub fn tell_desks(shared: &Shared, renewed: &Renew) {
    for (job, attempts) in by_job(&renewed.attempts) {
        let Some(desk) = shared.desk(job) else { continue };
        let (worker, boot) = (renewed.worker, renewed.boot);
        let event = control::owner::Event::Renewed { worker, boot, attempts };
        desk.send(super::desk::Input::Event(event));
    }
}
