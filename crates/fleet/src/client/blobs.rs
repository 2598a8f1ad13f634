//! Large things: a bundle on its way to the managers, a result on its way back.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use fence::JobId;
use futures_util::stream;
use ledger_state::BlobRef;
use sha2::{Digest, Sha256};
use stats::RunResult;
use stats::wire::{RESULT_BYTES_MAX, decode_result};
use tonic::{Response, Status, Streaming};

use super::{FleetClient, FleetError, Jobs};
use crate::wire::{self, CHUNK_BYTES, proto};

/// No network that carries load is slower.
const BYTES_PER_SECOND_MIN: u64 = 128 << 10;

/// Less is no time for an answer.
const PATIENCE_MIN: Duration = Duration::from_secs(1);

/// Is told how much of how much was sent.
pub type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// The name of some bytes.
#[must_use]
pub fn blob_of(bytes: &[u8]) -> BlobRef {
    BlobRef { hash: Sha256::digest(bytes).into(), bytes: bytes.len() as u64 }
}

impl FleetClient {
    /// Those of `blobs` that the managers do not have.
    ///
    /// # Errors
    /// If nobody can say in time.
    pub async fn missing(&self, blobs: &[BlobRef]) -> Result<Vec<BlobRef>, FleetError> {
        let blobs: Vec<_> = blobs.iter().map(wire::blob_out).collect();
        let ask = |mut jobs: Jobs| {
            let blobs = blobs.clone();
            async move { jobs.missing(proto::MissingRequest { blobs }).await }
        };
        let (address, reply) = self.ask(self.patience, ask).await?;
        let missing = reply.missing.iter().map(wire::blob_in).collect::<Result<_, _>>();
        missing.map_err(|bad| malformed(&address, bad.message()))
    }

    /// Stores bytes on a majority of the managers, unless they are there.
    ///
    /// # Errors
    /// If nobody can take them in time.
    pub async fn put(&self, bytes: Bytes, progress: Progress) -> Result<BlobRef, FleetError> {
        let blob = blob_of(&bytes);
        if self.missing(&[blob]).await?.is_empty() {
            return Ok(blob);
        }
        let all = bytes.len() as u64;
        let deadline = (self.deadline * 2).min(self.patience.max(PATIENCE_MIN))
            + Duration::from_secs(all / BYTES_PER_SECOND_MIN);
        let ask = |mut jobs: Jobs| {
            let chunks = chunks(blob, bytes.clone(), progress.clone());
            async move { jobs.put(chunks).await }
        };
        let (address, stored) = self.ask_within(self.patience, deadline, ask).await?;
        match wire::blob_in(&stored) {
            Ok(stored) if stored == blob => Ok(blob),
            Ok(_) => Err(malformed(&address, "it has stored something else")),
            Err(bad) => Err(malformed(&address, bad.message())),
        }
    }

    /// The final result of a job that has ended.
    ///
    /// # Errors
    /// If the job is unknown or has not ended, or nobody answers.
    pub async fn result(&self, job: JobId) -> Result<RunResult, FleetError> {
        // The whole stream is the answer: a connection that breaks in it is a question to put
        // again.
        let ask = move |mut jobs: Jobs| async move {
            let asked = jobs.result(proto::JobRequest { job: wire::job_bytes(job) }).await?;
            Ok(Response::new(collect(asked.into_inner()).await?))
        };
        let (address, bytes) = self.ask_within(Duration::ZERO, self.deadline * 4, ask).await?;
        decode_result(&bytes).map_err(|bad| malformed(&address, &bad.to_string()))
    }
}

fn malformed(address: &str, what: &str) -> FleetError {
    FleetError::Malformed { address: address.to_owned(), what: what.to_owned() }
}

/// The first names the blob. An empty blob has one, too.
fn chunks(
    blob: BlobRef,
    bytes: Bytes,
    progress: Progress,
) -> impl futures_util::Stream<Item = proto::Chunk> + Send + 'static {
    let all = bytes.len();
    stream::unfold((0, true), move |(from, is_first)| {
        let more = is_first || from < all;
        let chunk = more.then(|| {
            let until = (from + CHUNK_BYTES).min(all);
            progress(until as u64, all as u64);
            let blob = is_first.then(|| wire::blob_out(&blob));
            (proto::Chunk { blob, content: bytes.slice(from..until) }, (until, false))
        });
        async move { chunk }
    })
}

async fn collect(mut parts: Streaming<proto::Chunk>) -> Result<BytesMut, Status> {
    let mut named: Option<BlobRef> = None;
    let mut bytes = BytesMut::new();
    while let Some(chunk) = parts.message().await? {
        if let Some(blob) = &chunk.blob {
            named = Some(wire::blob_in(blob)?);
        }
        if bytes.len() + chunk.content.len() > RESULT_BYTES_MAX {
            return Err(Status::out_of_range(format!(
                "the result has more than {RESULT_BYTES_MAX} bytes"
            )));
        }
        bytes.extend_from_slice(&chunk.content);
    }
    match named {
        Some(named) if named != blob_of(&bytes) => {
            Err(Status::unavailable("the result was damaged or cut off on its way"))
        }
        _ => Ok(bytes),
    }
}
