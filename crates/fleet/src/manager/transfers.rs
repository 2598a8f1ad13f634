//! Large things on their way to and from this manager: one budget of memory for both directions,
//! shared by client, and a bound on what a client may leave here that no job has.
//!
//! ```text
//! client ── chunk by chunk ──▶ file here ── part by part ──▶ the other managers          (Put)
//! file here ── chunk by chunk ──▶ worker, client                                         (Get, Result)
//! ```
//!
//! A transfer is charged what it holds in memory, never its size: content goes to and from files.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use fence::NodeId;
use futures_util::{Stream, stream};
use ledger::blobs::BlobReader;
use ledger_state::BlobRef;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tonic::Status;

use super::{Parts, Shared, lock};
use crate::wire::proto::Chunk;
use crate::wire::{CHUNK_BYTES, blob_out};

/// What all transfers together hold in memory at this manager.
pub const TRANSFER_BYTES_MAX: u64 = 256 << 20;
/// And those of one client or worker.
pub const TRANSFER_BYTES_PER_PEER: u64 = 48 << 20;
/// An upload: a message of it, and the windows of the streams on which it is copied to two other
/// managers.
pub const UPLOAD_HOLDS: u64 = 12 << 20;
/// A download: a chunk that is read and one that is sent.
pub const DOWNLOAD_HOLDS: u64 = 1 << 20;
/// What one client may have uploaded here that is part of no job. It is forgotten when the ledger
/// collects it.
pub const UNUSED_BYTES_PER_CLIENT: u64 = 1 << 30;
/// As long as the ledger keeps a blob that nothing refers to.
const UNUSED_FOR: Duration = Duration::from_secs(900);
/// How long a transfer waits for others to end.
const ROOM_WITHIN: Duration = Duration::from_secs(4);
/// For a blob that has to be fetched from another manager first.
const BLOB_WITHIN: Duration = Duration::from_secs(20);

pub type Chunks = Pin<Box<dyn Stream<Item = Result<Chunk, Status>> + Send>>;

fn kibibytes(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX)
}

/// The budget of one manager.
pub struct Transfers {
    all: Arc<Semaphore>,
    peers: Mutex<BTreeMap<NodeId, Weak<Semaphore>>>,
    /// By client: what it has uploaded, and when.
    unused: Mutex<BTreeMap<NodeId, Vec<(BlobRef, Instant)>>>,
}

/// A transfer's place in the budget. Dropping it gives the place back.
pub struct Room {
    _own: Option<OwnedSemaphorePermit>,
    _all: OwnedSemaphorePermit,
}

impl Default for Transfers {
    fn default() -> Self {
        let all = Arc::new(Semaphore::new(kibibytes(TRANSFER_BYTES_MAX) as usize));
        Self { all, peers: Mutex::default(), unused: Mutex::default() }
    }
}

impl Transfers {
    /// Room for something that holds so many bytes in memory. Waits a while; then whoever asks has
    /// to come again.
    pub async fn room(
        &self,
        parts: &Parts,
        peer: Option<NodeId>,
        bytes: u64,
    ) -> Result<Room, Status> {
        match timeout(ROOM_WITHIN, self.take(peer, bytes)).await {
            Ok(Some(room)) => Ok(room),
            Ok(None) | Err(_) => {
                parts.member.count_refused("transfers_full");
                Err(Status::unavailable(
                    "as much is being transferred here as this manager has memory for; try again, or another manager",
                ))
            }
        }
    }

    async fn take(&self, peer: Option<NodeId>, bytes: u64) -> Option<Room> {
        let own = match peer {
            Some(peer) => {
                let wanted = kibibytes(bytes.min(TRANSFER_BYTES_PER_PEER));
                Some(self.share_of(peer).acquire_many_owned(wanted).await.ok()?)
            }
            None => None,
        };
        let wanted = kibibytes(bytes.min(TRANSFER_BYTES_MAX));
        let all = Arc::clone(&self.all).acquire_many_owned(wanted).await.ok()?;
        Some(Room { _own: own, _all: all })
    }

    fn share_of(&self, peer: NodeId) -> Arc<Semaphore> {
        let mut peers = lock(&self.peers);
        peers.retain(|_, share| share.strong_count() > 0);
        if let Some(share) = peers.get(&peer).and_then(Weak::upgrade) {
            return share;
        }
        let share = Arc::new(Semaphore::new(kibibytes(TRANSFER_BYTES_PER_PEER) as usize));
        peers.insert(peer, Arc::downgrade(&share));
        share
    }

    /// Takes note of an upload that begins, unless its client has too much here that is part of no
    /// job.
    pub fn begin_upload(
        &self,
        client: NodeId,
        blob: BlobRef,
        now: Instant,
        in_use: impl Fn(&BlobRef) -> bool,
    ) -> Result<(), Status> {
        let mut unused = lock(&self.unused);
        for uploads in unused.values_mut() {
            uploads.retain(|(_, at)| now.duration_since(*at) < UNUSED_FOR);
        }
        unused.retain(|_, uploads| !uploads.is_empty());
        let uploads = unused.entry(client).or_default();
        uploads.retain(|(one, _)| *one != blob && !in_use(one));
        let there: u64 = uploads.iter().map(|(one, _)| one.bytes).sum();
        if there.saturating_add(blob.bytes) > UNUSED_BYTES_PER_CLIENT {
            // For now: those that are on their way become jobs, or are forgotten.
            return Err(Status::unavailable(format!(
                "this client has uploaded {there} bytes that are part of no job, and {} more would be above {}; submit \
                 them, or try again in 15 minutes, when they are forgotten",
                blob.bytes, UNUSED_BYTES_PER_CLIENT
            )));
        }
        uploads.push((blob, now));
        Ok(())
    }

    /// It has left nothing here.
    pub fn upload_failed(&self, client: NodeId, blob: &BlobRef) {
        let mut unused = lock(&self.unused);
        if let Some(uploads) = unused.get_mut(&client) {
            uploads.retain(|(one, _)| one != blob);
        }
    }
}

/// A blob as a stream from this manager's file; the first chunk names it.
pub async fn download(
    shared: &Shared,
    peer: Option<NodeId>,
    blob: &BlobRef,
) -> Result<Chunks, Status> {
    let parts = shared.serving()?;
    let room = shared.transfers.room(&parts, peer, DOWNLOAD_HOLDS).await?;
    let reader = parts.ledger.blob_reader(blob, BLOB_WITHIN).await;
    let reader = reader.map_err(|error| Status::unavailable(error.to_string()))?;
    Ok(chunks(reader, room))
}

/// Something small that is in memory anyway, as a stream; the first chunk names it.
pub fn small(blob: &BlobRef, content: Vec<u8>) -> Chunks {
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

fn chunks(reader: BlobReader, room: Room) -> Chunks {
    let name = Some(blob_out(&reader.blob()));
    let parts = stream::unfold(Some((reader, name, room)), |state| async move {
        let (mut reader, name, room) = state?;
        match reader.next(CHUNK_BYTES).await {
            Ok(Some(content)) => {
                Some((Ok(Chunk { blob: name, content }), Some((reader, None, room))))
            }
            Ok(None) => None,
            Err(error) => Some((Err(Status::data_loss(error.to_string())), None)),
        }
    });
    Box::pin(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(number: u8, mebibytes: u64) -> BlobRef {
        BlobRef { hash: [number; 32], bytes: mebibytes << 20 }
    }

    /// One that takes all of its own share leaves room for the others.
    #[tokio::test(start_paused = true)]
    async fn one_client_cannot_take_the_whole_budget() {
        let transfers = Transfers::default();
        let greedy = Some(NodeId(1));
        let mut held = Vec::new();
        for _ in 0..TRANSFER_BYTES_PER_PEER / UPLOAD_HOLDS {
            held.push(transfers.take(greedy, UPLOAD_HOLDS).await.unwrap());
        }
        let one_more = timeout(ROOM_WITHIN, transfers.take(greedy, UPLOAD_HOLDS)).await;
        assert!(one_more.is_err(), "its share is used up");
        let another = timeout(ROOM_WITHIN, transfers.take(Some(NodeId(2)), UPLOAD_HOLDS)).await;
        assert!(another.is_ok());
        drop(held.pop());
        assert!(transfers.take(greedy, UPLOAD_HOLDS).await.is_some());
        assert!(lock(&transfers.peers).len() <= 2, "who is gone is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn all_clients_together_stay_within_the_budget() {
        let transfers = Transfers::default();
        let mut held = Vec::new();
        for client in 0..1_000 {
            let taken = transfers.take(Some(NodeId(client)), UPLOAD_HOLDS);
            match timeout(Duration::from_millis(1), taken).await {
                Ok(room) => held.push(room),
                Err(_) => break,
            }
        }
        assert_eq!(held.len() as u64, TRANSFER_BYTES_MAX / UPLOAD_HOLDS);
    }

    /// Uploads that never become a job are bounded by client, and counted no more once they are a
    /// job's or collected.
    #[tokio::test(start_paused = true)]
    async fn what_is_part_of_no_job_is_bounded_by_client() {
        let transfers = Transfers::default();
        let (eve, ada) = (NodeId(1), NodeId(2));
        let none = |_: &BlobRef| false;
        let start = Instant::now();
        for number in 0..4 {
            transfers.begin_upload(eve, blob(number, 250), start, none).unwrap();
        }
        let status = transfers.begin_upload(eve, blob(9, 250), start, none).unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unavailable, "a client comes again: {status:?}");
        transfers.begin_upload(eve, blob(3, 250), start, none).expect("the same one again");
        transfers.begin_upload(ada, blob(9, 250), start, none).expect("another client");
        transfers.upload_failed(eve, &blob(0, 250));
        transfers.begin_upload(eve, blob(9, 250), start, none).expect("one was cut off");
        let submitted = |one: &BlobRef| one.hash[0] == 1;
        transfers.begin_upload(eve, blob(10, 250), start, submitted).expect("one is a job's");
        transfers.begin_upload(eve, blob(11, 250), start + UNUSED_FOR, none).expect("collected");
        assert!(!lock(&transfers.unused).contains_key(&ada), "nothing is kept for ever");
    }
}
