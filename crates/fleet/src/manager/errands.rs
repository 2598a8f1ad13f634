//! What an owner wants done elsewhere: written, asked, stored, fetched. Each is a task that brings its answer back.
//!
//! Writes, stores and fetches go on until they are done or the desk is gone: an owner counts on it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use control::fleet::message::{Answer, Ask};
use control::fleet::owner::{Event, blob_of};
use control::ledger::{BlobRef, Command};
use fence::{JobId, NodeId};
use ledger::{NotCommitted, Written};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::checkpoints::Promised;
use super::desk::Input;
use super::{Parts, Shared, authority, breakers, relay, roster};
use crate::bundle::HEAD_BYTES_MAX;
use crate::wire::proto::desk_client::DeskClient;
use crate::wire::proto::{Checkpoint, PromiseReply, PromiseRequest};
use crate::wire::{MESSAGE_BYTES_MAX, job_bytes};

const WRITE_WITHIN: Duration = Duration::from_secs(5);
const STORE_WITHIN: Duration = Duration::from_secs(20);
/// For another manager's answer.
const ASK_WITHIN: Duration = Duration::from_secs(3);
const AGAIN: Duration = Duration::from_millis(200);

/// Where an owner's answers go.
pub type Inbox = mpsc::Sender<Input>;

/// Waits; false: the node has ended, and with it everything here.
async fn again(shared: &Shared) -> bool {
    sleep(AGAIN).await;
    shared.parts().is_some()
}

/// Writes until there is an answer.
pub async fn commit(shared: Arc<Shared>, inbox: Inbox, tag: u64, command: Command) {
    let mut told = false;
    loop {
        let Some(parts) = shared.parts() else { return };
        let mut written = parts.ledger.propose(command.clone(), WRITE_WITHIN).await;
        while let Written::Unknown(request) = written {
            if !told {
                told = true;
                let _ = inbox.send(Input::Event(Event::Unknown { tag })).await;
            }
            if !again(&shared).await {
                return;
            }
            let before = Instant::now();
            written = parts.ledger.retry(request, WRITE_WITHIN).await;
            // It was forgotten, because too many were unknown. An owner's commands can be said again.
            if matches!(written, Written::Unknown(_)) && before.elapsed() < Duration::from_millis(1)
            {
                break;
            }
        }
        match written {
            Written::Committed { reply, .. } => {
                let _ = inbox.send(Input::Event(Event::Committed { tag, reply })).await;
                return;
            }
            Written::NotCommitted(NotCommitted::SessionClosed) => {
                let why = "the ledger has closed this manager's session";
                let _ = inbox.send(Input::Depose(why)).await;
                return;
            }
            Written::NotCommitted(why) => tracing::debug!(%why, "an owner's write waits"),
            Written::Unknown(_) => {}
        }
        if !again(&shared).await {
            return;
        }
    }
}

/// A channel to a node of this membership.
pub fn channel(parts: &Parts, node: NodeId) -> Option<tonic::transport::Channel> {
    let peer = roster::peer(&parts.member.view(), node)?;
    Some(parts.member.channel(peer.address, peer.role, node))
}

pub async fn ask(shared: Arc<Shared>, inbox: Inbox, tag: u64, worker: NodeId, ask: Ask) {
    let began = Instant::now();
    let answer = match shared.parts() {
        Some(parts) => match breakers::ask(&shared, &parts, worker, &ask).await {
            Some(answer) => Some(answer),
            None => relay::ask(&shared, &parts, worker, &ask).await,
        },
        None => None,
    };
    let event = match answer {
        // A last word in another worker's name is as good as no answer.
        Some(Answer::Stopped { report: Some(report) }) if report.worker != worker => {
            authority::refused(&shared, "foreign_attempt");
            Event::Unanswered { tag }
        }
        Some(answer) => Event::Answered { tag, answer, took: began.elapsed() },
        None => Event::Unanswered { tag },
    };
    let _ = inbox.send(Input::Event(event)).await;
}

/// Puts bytes on a majority of the managers' disks, for as long as it takes. Whoever waits for the job hears why.
pub async fn put(shared: &Shared, inbox: &Inbox, content: Vec<u8>) -> Option<BlobRef> {
    let mut said = false;
    loop {
        let parts = shared.parts()?;
        match parts.ledger.put_blob(content.clone(), STORE_WITHIN).await {
            Ok(blob) => {
                if said {
                    let _ = inbox.send(Input::StoreWaits(None)).await;
                }
                return Some(blob);
            }
            Err(error) => {
                tracing::debug!(%error, "a blob waits to be stored");
                said = true;
                let why = format!("a result cannot be stored: {error}; it is tried again");
                let _ = inbox.send(Input::StoreWaits(Some(why))).await;
            }
        }
        if !again(shared).await {
            return None;
        }
    }
}

pub async fn store(shared: Arc<Shared>, inbox: Inbox, tag: u64, blob: BlobRef, content: Vec<u8>) {
    debug_assert_eq!(blob, blob_of(&content), "an owner names what it stores");
    if put(&shared, &inbox, content).await.is_some() {
        let _ = inbox.send(Input::Event(Event::Stored { tag })).await;
    }
}

/// Gets bytes from whichever manager has them, for as long as it takes.
pub async fn get(shared: &Shared, blob: &BlobRef) -> Option<Vec<u8>> {
    loop {
        let parts = shared.parts()?;
        match parts.ledger.get_blob(blob, STORE_WITHIN).await {
            Ok(content) => return Some(content),
            Err(error) => tracing::debug!(%error, "a blob is waited for"),
        }
        if !again(shared).await {
            return None;
        }
    }
}

/// The beginning of a bundle, as [`get`] gets all of a blob: what managers have to know of a job.
pub async fn head(shared: &Shared, bundle: &BlobRef) -> Option<Vec<u8>> {
    loop {
        let parts = shared.parts()?;
        match parts.ledger.blob_head(bundle, HEAD_BYTES_MAX, STORE_WITHIN).await {
            Ok(first) => return Some(first),
            Err(error) => tracing::debug!(%error, "a bundle is waited for"),
        }
        if !again(shared).await {
            return None;
        }
    }
}

pub async fn fetch(shared: Arc<Shared>, inbox: Inbox, tag: u64, blob: BlobRef) {
    if let Some(content) = get(&shared, &blob).await {
        let _ = inbox.send(Input::Event(Event::Fetched { tag, content })).await;
    }
}

/// The ledger's voters; a checkpoint has to be on most of them.
pub fn voters(parts: &Parts) -> Vec<NodeId> {
    parts.ledger.status().voters.into_iter().map(|(node, _)| node).collect()
}

/// Puts a checkpoint on a majority, then says so. Gives up when a newer owner's is there.
pub async fn keep(
    shared: Arc<Shared>,
    inbox: Inbox,
    job: JobId,
    epoch: u64,
    number: u64,
    content: Vec<u8>,
) {
    loop {
        let Some(parts) = shared.parts() else { return };
        let me = parts.ledger.id();
        let voters = voters(&parts);
        let (keeper, bytes) = (shared.keeper.clone(), content.clone());
        let own = tokio::task::spawn_blocking(move || keeper.keep(job, (epoch, number), &bytes));
        let mut others = tokio::task::JoinSet::new();
        for node in voters.iter().copied().filter(|node| *node != me) {
            let Some(channel) = channel(&parts, node) else { continue };
            let content = content.clone().into();
            let checkpoint = Checkpoint { job: job_bytes(job), epoch, number, content };
            others.spawn(async move {
                let mut desk =
                    DeskClient::new(channel).max_encoding_message_size(MESSAGE_BYTES_MAX);
                timeout(ASK_WITHIN, desk.keep(checkpoint))
                    .await
                    .ok()?
                    .ok()
                    .map(|kept| kept.get_ref().kept)
            });
        }
        let mut copies = 0;
        match own.await {
            Ok(Ok(true)) => copies += 1,
            Ok(Ok(false)) => {
                let _ = inbox.send(Input::Depose("a newer owner has stored statistics")).await;
                return;
            }
            Ok(Err(error)) => tracing::warn!(%error, "a checkpoint was not written here"),
            Err(error) => tracing::warn!(%error, "a checkpoint was not written here"),
        }
        let majority = voters.len() / 2 + 1;
        while copies < majority {
            match others.join_next().await {
                Some(Ok(Some(true))) => copies += 1,
                Some(_) => {}
                None => break,
            }
        }
        if copies >= majority {
            // Those that are still on their way may arrive.
            others.detach_all();
            let _ = inbox.send(Input::Kept(number)).await;
            return;
        }
        if !again(&shared).await {
            return;
        }
    }
}

/// The newest checkpoint that a majority knows of, and their promise to take none of an earlier owner any more. None:
/// there is a newer owner.
pub async fn find(shared: &Shared, job: JobId, epoch: u64) -> Option<Option<Vec<u8>>> {
    loop {
        let parts = shared.parts()?;
        let me = parts.ledger.id();
        let voters = voters(&parts);
        let majority = voters.len() / 2 + 1;
        let mut newest = ((0, 0), Vec::new());
        let mut answers = 0;
        let keeper = shared.keeper.clone();
        let own = tokio::task::spawn_blocking(move || keeper.promise(job, epoch)).await;
        match own.map_err(io::Error::other).flatten() {
            Ok(Promised::Newest(kept)) => {
                answers += 1;
                newest = (kept.place, kept.content);
            }
            Ok(Promised::Refused { .. }) => return None,
            Err(error) => tracing::warn!(%job, %error, "the checkpoint here cannot be used"),
        }
        let mut others = tokio::task::JoinSet::new();
        for node in voters.iter().copied().filter(|node| *node != me) {
            let Some(channel) = channel(&parts, node) else { continue };
            let request = PromiseRequest { job: job_bytes(job), epoch };
            others.spawn(async move {
                let mut desk =
                    DeskClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
                timeout(ASK_WITHIN, desk.promise(request))
                    .await
                    .ok()?
                    .ok()
                    .map(tonic::Response::into_inner)
            });
        }
        while answers < majority {
            match others.join_next().await {
                Some(Ok(Some(PromiseReply { newest: Some(found), .. }))) => {
                    answers += 1;
                    let place = (found.epoch, found.number);
                    if newest.0 < place {
                        newest = (place, found.content.to_vec());
                    }
                }
                Some(Ok(Some(PromiseReply { newest: None, .. }))) => return None,
                Some(_) => {}
                None => break,
            }
        }
        if answers >= majority {
            let (place, content) = newest;
            return Some((place.1 > 0).then_some(content));
        }
        if !again(shared).await {
            return None;
        }
    }
}
