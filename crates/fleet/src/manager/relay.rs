//! Between a worker and the owner of its job when they do not reach each other, and both reach this manager (R26).
//!
//! ```text
//! worker ──Renew──▶ this manager ──Renewed──▶ owner          who renews anywhere is not lost
//! worker ──Tell, Frames──▶ this manager ──Relay──▶ owner     and can say what it has to say
//! owner ──Relay──▶ this manager ──Ask──▶ worker              through the manager that renewed it last
//! ```
//!
//! A relay is one step: whoever is not the owner says so, and passes nothing on again. A manager vouches for the worker
//! that spoke to it, whose certificate it has seen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use control::fleet::message::{Answer, Ask, Renew, Renewal};
use control::ledger::State;
use fence::{Attempt, JobId, NodeId, ShardKey};
use ledger::ReadLevel;
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
/// Whose leases were renewed where, for owners that do not reach a worker.
const RENEWERS_MAX: usize = 100_000;

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
    let through = renewer(shared, worker)?;
    ask_through(parts, through, worker, ask).await
}

/// The manager that has renewed a worker's leases last.
pub fn renewer(shared: &Shared, worker: NodeId) -> Option<NodeId> {
    lock(&shared.renewers).get(&worker).copied()
}

/// Asks a worker through this manager, once. None: no answer, or it is this one.
pub async fn ask_through(
    parts: &Parts,
    through: NodeId,
    worker: NodeId,
    ask: &Ask,
) -> Option<Answer> {
    let channel = errands::channel(parts, through).filter(|_| through != parts.ledger.id())?;
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

/// Remembers through whom a worker can be asked.
pub fn renewed_by(shared: &Shared, worker: NodeId, manager: NodeId) {
    let mut renewers = lock(&shared.renewers);
    if renewers.len() < RENEWERS_MAX || renewers.contains_key(&worker) {
        renewers.insert(worker, manager);
    }
}

/// Tells the owners of these attempts' jobs that their leases were renewed here.
pub fn notice(
    shared: &Arc<Shared>,
    parts: &Arc<Parts>,
    renew: &Renew,
    answers: &[(ShardKey, Attempt, Renewal)],
) {
    let mut granted: BTreeMap<JobId, Vec<(ShardKey, Attempt)>> = BTreeMap::new();
    for (shard, attempt, renewal) in answers {
        if matches!(renewal, Renewal::Granted { .. }) {
            granted.entry(shard.job).or_default().push((*shard, *attempt));
        }
    }
    if granted.is_empty() {
        return;
    }
    let (shared, parts) = (Arc::clone(shared), Arc::clone(parts));
    let (worker, boot) = (renew.worker, renew.boot);
    tokio::spawn(async move {
        let jobs: Vec<JobId> = granted.keys().copied().collect();
        let owners = |state: &State| -> Vec<(JobId, Option<NodeId>)> {
            let owner = |job: &JobId| state.job(*job).and_then(|job| job.owner).map(|o| o.node);
            jobs.iter().map(|job| (*job, owner(job))).collect()
        };
        let read = parts.ledger.read(ReadLevel::Eventual, NOTICE_WITHIN, owners).await;
        let mut by_owner: BTreeMap<NodeId, Vec<(ShardKey, Attempt)>> = BTreeMap::new();
        for (job, owner) in read.map(|read| read.value).unwrap_or_default() {
            if let Some(owner) = owner {
                by_owner.entry(owner).or_default().extend(granted.remove(&job).unwrap_or_default());
            }
        }
        for (owner, attempts) in by_owner {
            let renewed = Renew { worker, boot, attempts, steered: Vec::new() };
            if owner == parts.ledger.id() {
                renewed_by(&shared, worker, owner);
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
    let jobs: std::collections::BTreeSet<JobId> =
        renewed.attempts.iter().map(|(shard, _)| shard.job).collect();
    for job in jobs {
        let Some(desk) = shared.desk(job) else { continue };
        let of_job = |(shard, _): &&(ShardKey, Attempt)| shard.job == job;
        let attempts = renewed.attempts.iter().filter(of_job).copied().collect();
        let (worker, boot) = (renewed.worker, renewed.boot);
        let event = control::fleet::owner::Event::Renewed { worker, boot, attempts };
        desk.send(super::desk::Input::Event(event));
    }
}
