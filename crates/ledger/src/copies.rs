//! Large things beside the log: a blob is acknowledged when it is fsynced on a majority of the voters (R17a), so that
//! whoever is elected later can find it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use control::ledger::BlobRef;
use fence::NodeId;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Duration, Instant, timeout_at};
use tonic::Status;

use crate::blobs::{self, BlobError};
use crate::core::Core;
use crate::peers::{Client, Lane};
use crate::quorum;
use crate::service::{blob_parts, collect};
use crate::types::Member;
use crate::wire::proto::GetBlobRequest;

/// Why a blob was not stored or not found.
#[derive(Debug)]
pub enum CopyError {
    TooLarge {
        bytes: u64,
        limit: u64,
    },
    /// This node could not store it.
    Here(BlobError),
    /// Too few members have it; those that have it keep it for a while, so a retry costs little.
    NoMajority {
        copies: usize,
        voters: usize,
    },
    /// No member that answered has it undamaged.
    NotFound,
    Stopped(String),
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { bytes, limit } => {
                write!(f, "the blob has {bytes} bytes; at most {limit} are taken")
            }
            Self::Here(error) => write!(f, "{error}"),
            Self::NoMajority { copies, voters } => {
                write!(
                    f,
                    "{copies} of {voters} voters have stored it, which is no majority; try again"
                )
            }
            Self::NotFound => f.write_str("no member that answers has the blob"),
            Self::Stopped(why) => write!(f, "the node has stopped: {why}"),
        }
    }
}

impl std::error::Error for CopyError {}

/// Stores bytes on a majority of the voters.
pub(crate) async fn put(
    core: &Arc<Core>,
    bytes: Vec<u8>,
    within: Duration,
) -> Result<BlobRef, CopyError> {
    if let Err(refusal) = core.serving() {
        return Err(CopyError::Stopped(refusal.to_string()));
    }
    let deadline = Instant::now() + within;
    let limit = core.config.limits.blob_bytes as u64;
    if bytes.len() as u64 > limit {
        return Err(CopyError::TooLarge { bytes: bytes.len() as u64, limit });
    }
    let bytes = Bytes::from(bytes);
    let blob = blobs::reference(&bytes);
    let mut copies = BTreeSet::new();
    // This disk is one of several: what it does not take the others may, as long as they are a majority.
    let mut trouble = None;
    match timeout_at(deadline, core.blobs.put_as(&blob, bytes.to_vec())).await {
        Ok(Ok(())) => drop(copies.insert(core.me.node)),
        Ok(Err(error)) => {
            tracing::warn!(%error, "a blob is not stored here");
            trouble = Some(error);
        }
        Err(_) => return Err(CopyError::NoMajority { copies: 0, voters: 0 }),
    }
    let configs = core.standing.borrow().configs();
    let voters: BTreeSet<NodeId> = configs.iter().flatten().copied().collect();
    let mut sends: FuturesUnordered<_> = core
        .others()
        .into_iter()
        .filter(|(node, _)| voters.contains(node))
        .map(|(node, member)| send(core, node, member, &blob, &bytes, deadline))
        .collect();
    while !quorum::reached_by(&configs, &copies) {
        match timeout_at(deadline, sends.next()).await {
            Ok(Some((node, Ok(())))) => {
                copies.insert(node);
            }
            Ok(Some((node, Err(status)))) => {
                tracing::debug!(%node, %status, "a member has not stored a blob");
            }
            Ok(None) | Err(_) => {
                let copies = copies.intersection(&voters).count();
                return Err(match trouble {
                    Some(error) => CopyError::Here(error),
                    None => CopyError::NoMajority { copies, voters: voters.len() },
                });
            }
        }
    }
    core.metrics.blobs_put.add(1);
    core.observer.blob_acknowledged(core.me.node, &blob);
    Ok(blob)
}

/// To one member, again and again until the deadline: the first try may meet a connection that has died.
async fn send(
    core: &Core,
    node: NodeId,
    member: Member,
    blob: &BlobRef,
    bytes: &Bytes,
    deadline: Instant,
) -> (NodeId, Result<(), Status>) {
    // A try is given up before the deadline: the connection may have died under it. A mebibyte a second is slow enough.
    let per_try = core.timing.request + Duration::from_millis(bytes.len() as u64 >> 10);
    loop {
        let sent = async {
            let header = core.links.header(node, &member)?;
            let parts = blob_parts(Some(header), blob, bytes.clone());
            let call = |mut client: Client| async move {
                client.put_blob(tokio_stream::iter(parts)).await
            };
            core.links.peers.call(Lane::Bulk, &member.address, per_try, call).await.map(|_| ())
        };
        match sent.await {
            Ok(()) => return (node, Ok(())),
            Err(status) if Instant::now() + core.timing.heartbeat >= deadline => {
                return (node, Err(status));
            }
            Err(_) => tokio::time::sleep(core.timing.heartbeat).await,
        }
    }
}

/// From here, or else from whoever has it undamaged; then it is stored here too.
pub(crate) async fn get(
    core: &Core,
    blob: &BlobRef,
    within: Duration,
) -> Result<Vec<u8>, CopyError> {
    match core.blobs.get(blob).await {
        Ok(bytes) => return Ok(bytes),
        Err(error) => tracing::info!(%error, "a blob is fetched from another member"),
    }
    let deadline = Instant::now() + within;
    for (node, member) in core.others() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let per_try = core.timing.request + Duration::from_millis(blob.bytes >> 10);
        match fetch(core, node, &member, blob, left.min(per_try)).await {
            Ok(bytes) => {
                // A disk that is full does not keep anybody from reading.
                if let Err(error) = core.blobs.put_as(blob, bytes.clone()).await {
                    tracing::warn!(%error, "a blob is not stored here");
                }
                core.metrics.blobs_fetched.add(1);
                return Ok(bytes);
            }
            Err(status) => tracing::debug!(%node, %status, "a member does not have a blob"),
        }
    }
    Err(CopyError::NotFound)
}

async fn fetch(
    core: &Core,
    node: NodeId,
    member: &Member,
    blob: &BlobRef,
    within: Duration,
) -> Result<Vec<u8>, Status> {
    let header = core.links.header(node, member)?;
    let request = GetBlobRequest {
        header: Some(header.to_wire()),
        hash: Bytes::copy_from_slice(&blob.hash),
        size: blob.bytes,
    };
    let limit = core.config.limits.blob_bytes;
    let call = |mut client: Client| async move {
        let mut parts = client.get_blob(request).await?.into_inner();
        let first = parts.message().await?.ok_or_else(|| Status::data_loss("no parts"))?;
        let (_, bytes) = collect(&mut parts, first, limit, within).await??;
        Ok(tonic::Response::new(bytes))
    };
    let bytes = core.links.peers.call(Lane::Bulk, &member.address, within, call).await?;
    if blobs::reference(&bytes) != *blob {
        return Err(Status::data_loss("the member sent other bytes"));
    }
    Ok(bytes)
}
