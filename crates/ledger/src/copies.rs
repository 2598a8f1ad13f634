//! Large things beside the log: a blob is acknowledged when it is fsynced on a majority of the
//! voters (R17a), so that whoever is elected later can find it.

use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use fence::NodeId;
use fence::canary::{self, Canary};
use futures_util::stream::{BoxStream, FuturesUnordered};
use futures_util::{Stream, StreamExt};
use ledger_state::BlobRef;
use tokio::time::{Duration, Instant, timeout_at};
use tonic::Status;

use crate::blobs::{self, BlobError, BlobWriter};
use crate::core::Core;
use crate::parts::{blob_parts, collect, next, parts_of_file};
use crate::peers::{Client, Lane};
use crate::quorum;
use crate::types::Member;
use crate::wire::proto::{BlobPart, GetBlobRequest};

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

/// Where the bytes of a blob are, on their way to the others.
#[derive(Clone)]
enum Source {
    Memory(Bytes),
    /// In this node's own file: read part by part, for each member anew.
    File,
}

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
    // This disk is one of several: what it does not take the others may, as long as they are a
    // majority.
    let mut trouble = None;
    match timeout_at(deadline, core.blobs.put_as(&blob, bytes.to_vec())).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(%error, "a blob is not stored here");
            trouble = Some(error);
        }
        Err(_) => return Err(CopyError::NoMajority { copies: 0, voters: 0 }),
    }
    spread(core, &blob, &Source::Memory(bytes), trouble, deadline).await?;
    Ok(blob)
}

/// Stores what was written to this disk part by part on a majority of the voters.
pub(crate) async fn put_written(
    core: &Arc<Core>,
    writer: BlobWriter,
    within: Duration,
) -> Result<BlobRef, CopyError> {
    if let Err(refusal) = core.serving() {
        return Err(CopyError::Stopped(refusal.to_string()));
    }
    let deadline = Instant::now() + within;
    let blob = writer.blob();
    writer.finish().await.map_err(CopyError::Here)?;
    spread(core, &blob, &Source::File, None, deadline).await?;
    Ok(blob)
}

/// Sends a blob to the other voters until a majority has it. `trouble`: why it is not here.
async fn spread(
    core: &Arc<Core>,
    blob: &BlobRef,
    source: &Source,
    trouble: Option<BlobError>,
    deadline: Instant,
) -> Result<(), CopyError> {
    let mut copies = BTreeSet::new();
    if trouble.is_none() {
        copies.insert(core.me.node);
    }
    let configs = core.standing.borrow().configs();
    let voters: BTreeSet<NodeId> = configs.iter().flatten().copied().collect();
    let mut sends: FuturesUnordered<_> = core
        .others()
        .into_iter()
        .filter(|(node, _)| voters.contains(node))
        .map(|(node, member)| send(core, node, member, blob, source, deadline))
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
    core.observer.blob_acknowledged(core.me.node, blob);
    Ok(())
}

/// To one member, again and again until the deadline: the first try may meet a connection that has
/// died.
async fn send(
    core: &Core,
    node: NodeId,
    member: Member,
    blob: &BlobRef,
    source: &Source,
    deadline: Instant,
) -> (NodeId, Result<(), Status>) {
    // A try is given up before the deadline: the connection may have died under it. A mebibyte a
    // second is slow enough.
    let per_try = core.timing.request + Duration::from_millis(blob.bytes >> 10);
    loop {
        let sent = async {
            let header = core.links.header(node, &member)?;
            let parts: BoxStream<'static, BlobPart> = match source {
                Source::Memory(bytes) => {
                    Box::pin(tokio_stream::iter(blob_parts(Some(header), blob, bytes.clone())))
                }
                Source::File => {
                    let reader = core.blobs.reader(blob).await;
                    let reader = reader.map_err(|error| Status::internal(error.to_string()))?;
                    until_error(parts_of_file(Some(header), reader))
                }
            };
            let parts = Outgoing(parts);
            let call = |mut client: Client| async move { client.put_blob(parts).await };
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

/// The parts of a blob on their way, under a name: the compiler loses track of a nameless stream in
/// a call.
struct Outgoing(BoxStream<'static, BlobPart>);

impl Stream for Outgoing {
    type Item = BlobPart;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<BlobPart>> {
        self.0.as_mut().poll_next(cx)
    }
}

/// A file that cannot be read to its end is a blob that is too short for whoever gets it.
fn until_error(
    parts: impl Stream<Item = Result<BlobPart, BlobError>> + Send + 'static,
) -> BoxStream<'static, BlobPart> {
    Box::pin(parts.scan((), |(), part| std::future::ready(part.ok())))
}

/// Whom to ask for a blob that is not here.
fn those_who_may_have_it(core: &Core) -> Vec<(NodeId, Member)> {
    if canary::active(Canary::BlobNotSought) { Vec::new() } else { core.others() }
}

/// From here, or else from whoever has it undamaged; then it is stored here too. Only for what is
/// small.
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
    for (node, member) in those_who_may_have_it(core) {
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

/// Has a blob in this node's own file; it is fetched part by part if it is not there.
pub(crate) async fn bring(core: &Core, blob: &BlobRef, within: Duration) -> Result<(), CopyError> {
    if core.blobs.reader(blob).await.is_ok() {
        return Ok(());
    }
    let deadline = Instant::now() + within;
    let mut trouble = None;
    for (node, member) in those_who_may_have_it(core) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let per_try = core.timing.request + Duration::from_millis(blob.bytes >> 10);
        match fetch_to_file(core, node, &member, blob, left.min(per_try)).await {
            Ok(Ok(())) => {
                core.metrics.blobs_fetched.add(1);
                return Ok(());
            }
            Ok(Err(error)) => trouble = Some(error),
            Err(status) => tracing::debug!(%node, %status, "a member does not have a blob"),
        }
    }
    Err(trouble.map_or(CopyError::NotFound, CopyError::Here))
}

fn question(
    core: &Core,
    node: NodeId,
    member: &Member,
    blob: &BlobRef,
) -> Result<GetBlobRequest, Status> {
    let header = core.links.header(node, member)?;
    Ok(GetBlobRequest {
        header: Some(header.to_wire()),
        hash: Bytes::copy_from_slice(&blob.hash),
        size: blob.bytes,
    })
}

/// The inner error is this node's own disk's.
async fn fetch_to_file(
    core: &Core,
    node: NodeId,
    member: &Member,
    blob: &BlobRef,
    within: Duration,
) -> Result<Result<(), BlobError>, Status> {
    let request = question(core, node, member, blob)?;
    let silence = core.timing.request;
    let call = |mut client: Client| async move {
        let mut parts = client.get_blob(request).await?.into_inner();
        let mut writer = match core.blobs.begin(*blob).await {
            Ok(writer) => writer,
            Err(error) => return Ok(tonic::Response::new(Err(error))),
        };
        while let Some(part) = next(&mut parts, silence).await? {
            match writer.write(part.bytes).await {
                Ok(()) => {}
                Err(BlobError::TooLarge { .. }) => {
                    return Err(Status::data_loss("the member sent more than was asked for"));
                }
                Err(error) => return Ok(tonic::Response::new(Err(error))),
            }
        }
        match writer.finish().await {
            Err(BlobError::Mismatch { .. }) => {
                Err(Status::data_loss("the member sent other bytes"))
            }
            finished => Ok(tonic::Response::new(finished)),
        }
    };
    core.links.peers.call(Lane::Bulk, &member.address, within, call).await
}

/// The first bytes of a blob, from here, or else from whoever has it. Where this disk has no room
/// for it, it is held in memory for that moment.
pub(crate) async fn head(
    core: &Core,
    blob: &BlobRef,
    most: usize,
    within: Duration,
) -> Result<Vec<u8>, CopyError> {
    match bring(core, blob, within).await {
        Ok(()) => core.blobs.head(blob, most).await.map_err(CopyError::Here),
        Err(CopyError::Here(error)) => {
            tracing::warn!(%error, "a blob is not stored here");
            let mut bytes = get(core, blob, within).await?;
            bytes.truncate(most);
            Ok(bytes)
        }
        Err(error) => Err(error),
    }
}

async fn fetch(
    core: &Core,
    node: NodeId,
    member: &Member,
    blob: &BlobRef,
    within: Duration,
) -> Result<Vec<u8>, Status> {
    let request = question(core, node, member, blob)?;
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
