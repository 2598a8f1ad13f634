//! Whether a worker is there: asked directly and through another manager, both at once.
//!
//! An answer on either way shows that it is. Otherwise the direct way says why not: its machine
//! refuses connections, which is evidence that its process has ended, or nothing comes (R26).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use control::message::{WorkerRequest, WorkerResponse};
use control::owner::{Event, NoAnswer};
use fence::NodeId;
use futures_util::future::{Either, select};
use tokio::time::{Instant, timeout};

use super::effects::{Inbox, voters};
use super::job_task::Input;
use super::{Parts, Shared, relay, roster};
use crate::verdict;
use crate::wire::proto::worker_control_client::WorkerControlClient;
use crate::wire::{MESSAGE_BYTES_MAX, seal, unseal};

/// Longer than a pause of which nobody should make much, together with the moment before the
/// question.
const WITHIN: Duration = Duration::from_secs(1);
const CONNECT_WITHIN: Duration = Duration::from_millis(300);

/// Asks, and brings the answer back.
pub async fn run(shared: Arc<Shared>, inbox: Inbox, tag: u64, worker: NodeId, ask: WorkerRequest) {
    let began = Instant::now();
    let answer = match shared.parts() {
        Some(parts) => probe(&shared, &parts, worker, &ask).await,
        None => Err(NoAnswer::NotAsked),
    };
    let event = match answer {
        Ok(answer) => Event::Answered { tag, answer, took: began.elapsed() },
        Err(why) => Event::Unanswered { tag, why },
    };
    let _ = inbox.send(Input::Event(event)).await;
}

async fn probe(
    shared: &Shared,
    parts: &Parts,
    worker: NodeId,
    ask: &WorkerRequest,
) -> Result<WorkerResponse, NoAnswer> {
    let direct = Box::pin(directly(parts, worker, ask));
    let relayed = Box::pin(async {
        let through = other_manager(shared, parts, worker)?;
        timeout(WITHIN, relay::call_worker_through(parts, through, worker, ask)).await.ok()?
    });
    match select(direct, relayed).await {
        Either::Left((Ok(answer), _)) => Ok(answer),
        Either::Left((Err(why), relayed)) => relayed.await.ok_or(why),
        Either::Right((Some(answer), _)) => Ok(answer),
        Either::Right((None, direct)) => direct.await,
    }
}

/// The one that renewed its leases last, or any that the leader hears.
fn other_manager(shared: &Shared, parts: &Parts, worker: NodeId) -> Option<NodeId> {
    let me = parts.ledger.id();
    if let Some(through) = relay::renewer(shared, parts, worker) {
        return Some(through);
    }
    let silent = parts.ledger.silent().borrow().clone();
    voters(parts).0.into_iter().find(|node| *node != me && !silent.contains(node))
}

async fn directly(
    parts: &Parts,
    worker: NodeId,
    ask: &WorkerRequest,
) -> Result<WorkerResponse, NoAnswer> {
    let peer = roster::peer(&parts.member.view(), worker).ok_or(NoAnswer::NotAsked)?;
    let sealed = seal(ask).map_err(|_| NoAnswer::NotAsked)?;
    let mut worker_control =
        WorkerControlClient::new(parts.member.channel(peer.address, peer.role, worker))
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let status = match timeout(WITHIN, worker_control.call(sealed)).await {
        Ok(Ok(answer)) => return unseal(answer.get_ref()).map_err(|_| NoAnswer::NotAsked),
        Ok(Err(status)) => status,
        Err(_) => return Err(NoAnswer::Silent),
    };
    if verdict::of_status(&status) == Some(control::breaker::Outcome::Answered) {
        // It is there, and has nothing to say to this.
        return Err(NoAnswer::NotAsked);
    }
    // The channel may rest after a failure; what its machine says now is what counts.
    match timeout(CONNECT_WITHIN, parts.member.network().knock(peer.address)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Err(NoAnswer::Refused)
        }
        _ => Err(NoAnswer::Silent),
    }
}
