//! What workers say to a manager: any of them, about jobs that it owns or not.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use control::fleet::message::{Ask, EndReport, Frames, FramesAnswer, Renew, Tell, Told};
use control::ledger::{Command, State};
use fence::{JobId, NodeId};
use futures_util::{Stream, stream};
use ledger::ReadLevel;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tonic::{Request, Response, Status};
use trust::Role;

use super::desk::{DeskHandle, Input};
use super::{Shared, breakers, relay};
use crate::wire::proto::office_server::Office;
use crate::wire::proto::relay_request::Kind;
use crate::wire::proto::{BlobRef, Chunk, Sealed};
use crate::wire::{CHUNK_BYTES, blob_in, blob_out, caller, seal, unseal};

/// For a read that a majority has to confirm.
const READ_WITHIN: Duration = Duration::from_millis(1_500);
/// For a desk to answer; a worker tries again.
const DESK_WITHIN: Duration = Duration::from_millis(1_500);
const BLOB_WITHIN: Duration = Duration::from_secs(20);

pub struct Service(pub Arc<Shared>);

pub type Chunks = Pin<Box<dyn Stream<Item = Result<Chunk, Status>> + Send>>;

/// A blob as a stream; the first chunk names it.
pub fn chunks(blob: &control::ledger::BlobRef, content: Vec<u8>) -> Chunks {
    let content = Bytes::from(content);
    let count = content.len().div_ceil(CHUNK_BYTES).max(1);
    let blob = blob_out(blob);
    let parts = (0..count).map(move |number| {
        let first = number * CHUNK_BYTES;
        let last = content.len().min(first + CHUNK_BYTES);
        let blob = (number == 0).then(|| blob.clone());
        Ok(Chunk { blob, content: content.slice(first..last) })
    });
    Box::pin(stream::iter(parts))
}

/// Where a job is, for somebody who has come to the wrong place.
enum Where {
    Here,
    Elsewhere(Option<NodeId>),
    Ended,
    Nowhere,
}

impl Service {
    fn worker<T>(&self, request: &Request<T>) -> Result<Option<NodeId>, Status> {
        Ok(caller(request, &[Role::Worker])?.map(|identity| identity.node))
    }

    async fn find(&self, job: JobId) -> Result<Where, Status> {
        if self.0.desk(job).is_some() {
            return Ok(Where::Here);
        }
        let parts = self.0.serving()?;
        let me = parts.ledger.id();
        let find = |state: &State| {
            state.job(job).map(|job| (job.end.is_some(), job.owner.map(|owner| owner.node)))
        };
        let known = parts.ledger.read(ReadLevel::Eventual, READ_WITHIN, find).await;
        let known = known.map_err(|error| Status::unavailable(error.to_string()))?.value;
        let known = match known {
            Some(known) => Some(known),
            // Perhaps it has not arrived here yet.
            None => {
                let read = parts.ledger.read(ReadLevel::Strong, READ_WITHIN, find).await;
                read.map_err(|error| Status::unavailable(error.to_string()))?.value
            }
        };
        Ok(match known {
            None => Where::Nowhere,
            Some((true, _)) => Where::Ended,
            // It will be taken up here in a moment.
            Some((false, Some(owner))) if owner == me => Where::Elsewhere(None),
            Some((false, owner)) => Where::Elsewhere(owner),
        })
    }

    /// Passes a worker's words on to the owner of its job.
    async fn relay(
        &self,
        owner: Option<NodeId>,
        worker: Option<NodeId>,
        kind: Kind,
        sealed: Sealed,
    ) -> Option<Sealed> {
        let parts = self.0.parts()?;
        relay::to_owner(&parts, owner?, worker?, kind, sealed).await
    }

    /// A worker's last word on an attempt of a job that has no owner any more: it is written, and let go.
    fn late(&self, report: &EndReport) {
        let shared = Arc::clone(&self.0);
        let EndReport { shard, attempt, status, counters, worker, certain, .. } = *report;
        tokio::spawn(async move {
            let Some(parts) = shared.parts() else { return };
            let (under, result, sent_until_ms) = (None, None, None);
            let command = Command::EndAttempt {
                shard,
                under,
                attempt,
                status,
                counters,
                result,
                sent_until_ms,
                certain,
            };
            if let ledger::Written::Committed { .. } =
                parts.ledger.propose(command, Duration::from_secs(5)).await
            {
                let forget = Ask::Forget { shard, attempt };
                let _ = breakers::ask(&shared, &parts, worker, &forget).await;
            }
        });
    }
}

/// What a worker tells the owner of its job, which is led here.
pub fn tell_desk(desk: &DeskHandle, tell: Tell) -> Result<Told, Status> {
    if !desk.send(Input::Tell(Box::new(tell))) {
        return Err(Status::resource_exhausted("the job's owner is busy; try again"));
    }
    Ok(Told::Taken)
}

/// Frames for the owner of their job, which is led here.
pub async fn frames_to_desk(desk: &DeskHandle, frames: Frames) -> Result<FramesAnswer, Status> {
    let (answer, answered) = oneshot::channel();
    if desk.send(Input::Frames(Box::new(frames), answer))
        && let Ok(Ok(answer)) = timeout(DESK_WITHIN, answered).await
    {
        return Ok(answer);
    }
    Err(Status::unavailable("the job's owner is busy or has just gone; try again"))
}

/// Whether a worker speaks of itself.
pub fn is_own(tell: &Tell, node: NodeId) -> bool {
    match tell {
        Tell::Ended(report) => report.worker == node,
        Tell::MoreTime { worker, .. } | Tell::Draining { worker, .. } => *worker == node,
        Tell::Ready { .. } | Tell::RowsWanted { .. } | Tell::Abort { .. } => true,
    }
}

fn foreign() -> Status {
    Status::permission_denied("a worker speaks for itself only: the certificate says somebody else")
}

#[tonic::async_trait]
impl Office for Service {
    async fn tell(&self, request: Request<Sealed>) -> Result<Response<Sealed>, Status> {
        let node = self.worker(&request)?;
        let tell: Tell = unseal(request.get_ref())?;
        if node.is_some_and(|node| !is_own(&tell, node)) {
            return Err(foreign());
        }
        let Some(job) = tell.job() else {
            // It drains: everybody here who might want it hears of it.
            for (_, desk) in self.0.desks() {
                desk.send(Input::Tell(Box::new(tell.clone())));
            }
            return Ok(Response::new(seal(&Told::Taken)?));
        };
        let told = match self.0.desk(job) {
            Some(desk) => tell_desk(&desk, tell)?,
            None => match self.find(job).await? {
                Where::Here => Told::NotOwner { owner: None },
                Where::Elsewhere(owner) => {
                    let sealed = request.into_inner();
                    if let Some(answer) = self.relay(owner, node, Kind::Tell, sealed).await {
                        return Ok(Response::new(answer));
                    }
                    Told::NotOwner { owner }
                }
                Where::Ended => {
                    if let Tell::Ended(report) = tell {
                        self.late(&report);
                    }
                    Told::Taken
                }
                Where::Nowhere => Told::UnknownJob,
            },
        };
        Ok(Response::new(seal(&told)?))
    }

    async fn frames(&self, request: Request<Sealed>) -> Result<Response<Sealed>, Status> {
        let node = self.worker(&request)?;
        let frames: Frames = unseal(request.get_ref())?;
        if node.is_some_and(|node| node != frames.worker) {
            return Err(foreign());
        }
        let job = frames.job;
        if let Some(desk) = self.0.desk(job) {
            return Ok(Response::new(seal(&frames_to_desk(&desk, frames).await?)?));
        }
        let answer = match self.find(job).await? {
            Where::Here => FramesAnswer::NotOwner { owner: None },
            Where::Elsewhere(owner) => {
                let sealed = request.into_inner();
                if let Some(answer) = self.relay(owner, node, Kind::Frames, sealed).await {
                    return Ok(Response::new(answer));
                }
                FramesAnswer::NotOwner { owner }
            }
            Where::Ended | Where::Nowhere => FramesAnswer::UnknownJob,
        };
        Ok(Response::new(seal(&answer)?))
    }

    async fn renew(&self, request: Request<Sealed>) -> Result<Response<Sealed>, Status> {
        let node = self.worker(&request)?;
        let renew: Renew = unseal(request.get_ref())?;
        if node.is_some_and(|node| node != renew.worker) {
            return Err(foreign());
        }
        let parts = self.0.serving()?;
        let decide = |state: &State| renew.decide(state);
        let read = parts.ledger.read(ReadLevel::Strong, READ_WITHIN, decide).await;
        // Without a majority nothing is decided, least of all a refusal.
        let read = read.map_err(|error| Status::unavailable(error.to_string()))?;
        relay::notice(&self.0, &parts, &renew, &read.value);
        Ok(Response::new(seal(&read.value)?))
    }

    type GetStream = Chunks;

    async fn get(&self, request: Request<BlobRef>) -> Result<Response<Chunks>, Status> {
        self.worker(&request)?;
        let blob = blob_in(request.get_ref())?;
        let parts = self.0.serving()?;
        let content = parts.ledger.get_blob(&blob, BLOB_WITHIN).await;
        let content = content.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(Response::new(chunks(&blob, content)))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use sha2::{Digest, Sha256};

    use super::*;

    /// A blob is the same on both ends, the first chunk names it, and none is larger than it may be.
    #[tokio::test]
    async fn a_blob_survives_being_cut_into_chunks() {
        for bytes in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES + 5] {
            let content: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
            let hash = Sha256::digest(&content).into();
            let blob = control::ledger::BlobRef { hash, bytes: bytes as u64 };
            let parts: Vec<Chunk> =
                chunks(&blob, content.clone()).map(Result::unwrap).collect().await;
            let named: Vec<_> = parts.iter().filter_map(|part| part.blob.as_ref()).collect();
            assert_eq!(named, [&blob_out(&blob)], "{bytes}");
            assert!(parts[0].blob.is_some());
            assert!(parts.iter().all(|part| part.content.len() <= CHUNK_BYTES));
            let joined: Vec<u8> = parts.iter().flat_map(|part| part.content.to_vec()).collect();
            assert_eq!(joined, content);
        }
    }
}
