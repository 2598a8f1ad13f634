//! What an owner wants done elsewhere: written, asked, stored, fetched. Each is a task that brings
//! its answer back.
//!
//! Writes, stores and fetches go on until they are done or the job task is gone: an owner counts on
//! it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use control::message::{WorkerRequest, WorkerResponse};
use control::owner::{Event, NoAnswer, blob_of};
use fence::{JobId, NodeId};
use futures_util::StreamExt;
use ledger::{NotCommitted, ReadLevel, Written};
use ledger_state::{BlobRef, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tonic::Streaming;

use super::checkpoints::{CheckpointError, PromiseAnswer};
use super::job_task::Input;
use super::voters::{Membership, voters_out};
use super::{Parts, Shared, authority, breakers, checkpoint_parts, relay, roster};
use crate::bundle::HEAD_BYTES_MAX;
use crate::wire::job_bytes;
use crate::wire::proto::manager_peers_client::ManagerPeersClient;
use crate::wire::proto::{Checkpoint, PromiseReply, PromiseRequest};

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
            // It was forgotten, because too many were unknown. An owner's commands can be said
            // again.
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

pub async fn call_worker(
    shared: Arc<Shared>,
    inbox: Inbox,
    tag: u64,
    worker: NodeId,
    request: WorkerRequest,
) {
    let began = Instant::now();
    let answer = match shared.parts() {
        Some(parts) => match breakers::ask(&shared, &parts, worker, &request).await {
            Some(answer) => Some(answer),
            None => relay::call_worker(&shared, &parts, worker, &request).await,
        },
        None => None,
    };
    let event = match answer {
        // A last word in another worker's name is as good as no answer.
        Some(WorkerResponse::Stopped { report: Some(report) }) if report.worker != worker => {
            authority::refused(&shared, "foreign_attempt");
            Event::Unanswered { tag, why: NoAnswer::Silent }
        }
        Some(answer) => Event::Answered { tag, answer, took: began.elapsed() },
        None => Event::Unanswered { tag, why: NoAnswer::Silent },
    };
    let _ = inbox.send(Input::Event(event)).await;
}

/// Puts bytes on a majority of the managers' disks, for as long as it takes. Whoever waits for the
/// job hears why.
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

/// Gets bytes from whichever manager has them, for so long. `Some(None)`: nobody who was reached
/// has them; `None`: the node has ended.
pub async fn get_within(
    shared: &Shared,
    blob: &BlobRef,
    patience: Duration,
) -> Option<Option<Vec<u8>>> {
    let until = Instant::now() + patience;
    loop {
        let parts = shared.parts()?;
        let within = STORE_WITHIN.min(until.saturating_duration_since(Instant::now()).max(AGAIN));
        match parts.ledger.get_blob(blob, within).await {
            Ok(content) => return Some(Some(content)),
            Err(error) => tracing::debug!(%error, "a blob is waited for"),
        }
        if !again(shared).await {
            return None;
        }
        if Instant::now() >= until {
            return Some(None);
        }
    }
}

/// Gets bytes from whichever manager has them, for as long as it takes. Only for whoever can be
/// told to stop meanwhile.
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

/// The beginning of a bundle, as [`get_within`] gets all of a blob: what managers have to know of a
/// job.
pub async fn head_within(
    shared: &Shared,
    bundle: &BlobRef,
    patience: Duration,
) -> Option<Option<Vec<u8>>> {
    let until = Instant::now() + patience;
    loop {
        let parts = shared.parts()?;
        let within = STORE_WITHIN.min(until.saturating_duration_since(Instant::now()).max(AGAIN));
        match parts.ledger.blob_head(bundle, HEAD_BYTES_MAX, within).await {
            Ok(first) => return Some(Some(first)),
            Err(error) => tracing::debug!(%error, "a bundle is waited for"),
        }
        if !again(shared).await {
            return None;
        }
        if Instant::now() >= until {
            return Some(None);
        }
    }
}

pub async fn fetch(shared: Arc<Shared>, inbox: Inbox, tag: u64, blob: BlobRef) {
    if let Some(content) = get(&shared, &blob).await {
        let _ = inbox.send(Input::Event(Event::Fetched { tag, content })).await;
    }
}

/// How long a checkpoint of so many bytes may take to another manager and onto its disk.
fn answer_within(bytes: usize) -> Duration {
    // 8 MiB a second at least.
    ASK_WITHIN + Duration::from_secs((bytes >> 23) as u64)
}

/// An answer to a new owner, put together.
async fn promised(mut answer: Streaming<PromiseReply>) -> Option<PromiseReply> {
    let mut reply = timeout(ASK_WITHIN, answer.message()).await.ok()?.ok()??;
    if let Some(newest) = &mut reply.newest {
        let within = answer_within(usize::try_from(newest.bytes).unwrap_or_default());
        let rest = answer.map(|part| part.map(|part| part.newest.unwrap_or_default()));
        let content = timeout(within, checkpoint_parts::gather(newest, rest)).await.ok()?.ok()?;
        newest.content = content.into();
    }
    Some(reply)
}

/// The ledger's voters, of whom a checkpoint has to be on most, and the entry that made them
/// voters.
pub fn voters(parts: &Parts) -> (Vec<NodeId>, Membership) {
    let status = parts.ledger.status();
    (status.voters.into_iter().map(|(node, _)| node).collect(), status.membership)
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
        let (voters, membership) = voters(&parts);
        let (checkpoints, bytes) = (shared.checkpoints.clone(), content.clone());
        let own = shared.host.blocking(move || checkpoints.keep(job, (epoch, number), &bytes));
        let mut others = tokio::task::JoinSet::new();
        for node in voters.iter().copied().filter(|node| *node != me) {
            let Some(channel) = channel(&parts, node) else { continue };
            let first = Checkpoint {
                job: job_bytes(job),
                epoch,
                number,
                voters: Some(voters_out(membership)),
                ..Checkpoint::default()
            };
            let content = content.clone();
            let within = answer_within(content.len());
            others.spawn(async move {
                let mut peer = ManagerPeersClient::new(channel);
                let parts = futures_util::stream::iter(checkpoint_parts::split(first, content));
                timeout(within, peer.store_checkpoint(parts))
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
            Ok(Err(CheckpointError::PromiseLost)) => restore(&shared, &parts, job).await,
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
        // This manager is one of those who answer, too.
        let current = parts.ledger.status().membership <= membership;
        if copies >= majority && current {
            // Those that are still on their way may arrive.
            others.detach_all();
            let _ = inbox.send(Input::Kept(number, membership)).await;
            return;
        }
        if !again(&shared).await {
            return;
        }
    }
}

/// Makes a promise anew whose file was damaged, by what the ledger says of the job now.
pub async fn restore(shared: &Shared, parts: &Parts, job: JobId) {
    let read = parts.ledger.read(ReadLevel::Strong, ASK_WITHIN, |state| {
        state.job(job).and_then(|job| job.epoch).map(|epoch| epoch.number)
    });
    let Ok(read) = read.await else { return };
    let Some(epoch) = read.value else { return };
    let checkpoints = shared.checkpoints.clone();
    let restored = shared.host.blocking(move || checkpoints.restore(job, epoch)).await;
    match restored {
        Ok(Ok(())) => tracing::warn!(%job, epoch, "a damaged promise to owners was made anew"),
        Ok(Err(error)) => tracing::warn!(%job, %error, "a damaged promise stays as it is"),
        Err(error) => tracing::warn!(%job, %error, "a damaged promise stays as it is"),
    }
}

/// What a new owner has found.
#[derive(Debug, Default)]
pub struct Found {
    pub checkpoint: Option<Vec<u8>>,
    /// Copies were damaged, and those that are sound are too few to be sure that this is the
    /// newest.
    pub unsure: bool,
}

/// How long a majority of sound copies is waited for, once a majority has promised.
const SOUND_WITHIN: Duration = Duration::from_secs(15);

/// The newest checkpoint that a majority knows of, and their promise to take none of an earlier
/// owner any more. None: there is a newer owner.
///
/// Whoever has a damaged copy promises too, and cannot say what is stored. If there is no majority
/// without them in time, the job goes on with the newest that was found, and its result says that
/// counts may be missing.
pub async fn find(shared: &Shared, job: JobId, epoch: u64) -> Option<Found> {
    let mut damaged_since: Option<Instant> = None;
    loop {
        let parts = shared.parts()?;
        let me = parts.ledger.id();
        let (voters, membership) = voters(&parts);
        let majority = voters.len() / 2 + 1;
        let mut newest = ((0, 0), Vec::new());
        let (mut answers, mut damaged) = (0, 0);
        let checkpoints = shared.checkpoints.clone();
        let own = shared.host.blocking(move || checkpoints.promise(job, epoch)).await;
        match own.unwrap_or_else(|error| Err(io::Error::other(error).into())) {
            Ok(PromiseAnswer::Newest(kept)) => {
                answers += 1;
                newest = (kept.place, kept.content);
            }
            Ok(PromiseAnswer::Damaged) => damaged += 1,
            Ok(PromiseAnswer::Refused { .. }) => return None,
            Err(CheckpointError::PromiseLost) => restore(shared, &parts, job).await,
            Err(error) => tracing::warn!(%job, %error, "the checkpoint here cannot be used"),
        }
        let mut others = tokio::task::JoinSet::new();
        for node in voters.iter().copied().filter(|node| *node != me) {
            let Some(channel) = channel(&parts, node) else { continue };
            let voters = Some(voters_out(membership));
            let request = PromiseRequest { job: job_bytes(job), epoch, voters };
            others.spawn(async move {
                let mut peer = ManagerPeersClient::new(channel);
                let asked =
                    timeout(ASK_WITHIN, peer.promise_checkpoint(request)).await.ok()?.ok()?;
                promised(asked.into_inner()).await
            });
        }
        while answers < majority {
            match others.join_next().await {
                Some(Ok(Some(PromiseReply { damaged: true, .. }))) => damaged += 1,
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
        let (place, content) = newest;
        let checkpoint = (place.1 > 0).then_some(content);
        if parts.ledger.status().membership > membership {
            // Those who were asked are not those who vote any more.
            if !again(shared).await {
                return None;
            }
            continue;
        }
        if answers >= majority {
            return Some(Found { checkpoint, unsure: false });
        }
        if answers + damaged >= majority {
            let since = *damaged_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= SOUND_WITHIN {
                tracing::warn!(%job, answers, damaged, "too few sound checkpoints; the job goes on, downgraded");
                return Some(Found { checkpoint, unsure: true });
            }
        }
        if !again(shared).await {
            return None;
        }
    }
}
