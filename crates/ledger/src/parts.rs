//! Blobs on the wire: cut into parts, and put together again.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use ledger_state::BlobRef;
use tokio::time::timeout;
use tonic::{Status, Streaming};

use crate::blobs::{BlobError, BlobReader};
use crate::wire::proto::BlobPart;
use crate::wire::{Header, Refusal};

const BLOB_PART: usize = 256 << 10;

/// The next part of a stream. A sender that falls silent is not waited for.
pub(crate) async fn next<T>(
    parts: &mut Streaming<T>,
    silence: Duration,
) -> Result<Option<T>, Status> {
    timeout(silence, parts.message())
        .await
        .map_err(|_| Status::deadline_exceeded(format!("nothing came for {silence:?}")))?
}

pub(crate) fn blob_ref(hash: &[u8], bytes: u64) -> Result<BlobRef, Refusal> {
    let hash = hash
        .try_into()
        .map_err(|_| Refusal::Malformed(format!("a hash of {} bytes", hash.len())))?;
    Ok(BlobRef { hash, bytes })
}

pub(crate) fn not_stored(error: &BlobError) -> Status {
    match error {
        BlobError::TooLarge { .. } | BlobError::Mismatch { .. } => {
            Refusal::Malformed(error.to_string()).into()
        }
        BlobError::Full { .. } => Status::resource_exhausted(error.to_string()),
        BlobError::Missing(_) | BlobError::Damaged { .. } | BlobError::Io { .. } => {
            Status::internal(error.to_string())
        }
    }
}

/// A blob from its parts. Its hash is checked when it is stored.
pub(crate) async fn collect(
    parts: &mut Streaming<BlobPart>,
    first: BlobPart,
    limit: usize,
    silence: Duration,
) -> Result<Result<(BlobRef, Vec<u8>), Refusal>, Status> {
    let blob = match blob_ref(&first.hash, first.size) {
        Ok(blob) => blob,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if blob.bytes > limit as u64 {
        return Ok(Err(Refusal::TooLarge { bytes: blob.bytes as usize, limit }));
    }
    let mut bytes = Vec::with_capacity(blob.bytes as usize);
    bytes.extend_from_slice(&first.bytes);
    while bytes.len() as u64 <= blob.bytes
        && let Some(part) = next(parts, silence).await?
    {
        bytes.extend_from_slice(&part.bytes);
    }
    if bytes.len() as u64 != blob.bytes {
        let what = format!("a blob of {} bytes, announced were {}", bytes.len(), blob.bytes);
        return Ok(Err(Refusal::Malformed(what)));
    }
    Ok(Ok((blob, bytes)))
}

/// Cuts a blob into messages.
pub(crate) fn blob_parts(
    header: Option<Header>,
    blob: &BlobRef,
    mut bytes: Bytes,
) -> impl Iterator<Item = BlobPart> + use<> {
    let first = bytes.split_to(bytes.len().min(BLOB_PART));
    let mut head = Some(BlobPart {
        header: header.map(Header::to_wire),
        hash: Bytes::copy_from_slice(&blob.hash),
        size: blob.bytes,
        bytes: first,
    });
    std::iter::from_fn(move || {
        if let Some(head) = head.take() {
            return Some(head);
        }
        if bytes.is_empty() {
            return None;
        }
        let bytes = bytes.split_to(bytes.len().min(BLOB_PART));
        Some(BlobPart { header: None, hash: Bytes::new(), size: 0, bytes })
    })
}

/// The same from a file. Ends with an error if the file is not what it should be.
pub(crate) fn parts_of_file(
    header: Option<Header>,
    reader: BlobReader,
) -> impl Stream<Item = Result<BlobPart, BlobError>> + Send + 'static {
    let head = Some((header, reader.blob()));
    stream::unfold(Some((reader, head)), |state| async move {
        let (mut reader, head) = state?;
        let bytes = match reader.next(BLOB_PART).await {
            Ok(Some(bytes)) => bytes,
            // An empty blob has one part, too.
            Ok(None) if head.is_some() => Bytes::new(),
            Ok(None) => return None,
            Err(error) => return Some((Err(error), None)),
        };
        let part = match head {
            Some((header, blob)) => BlobPart {
                header: header.map(Header::to_wire),
                hash: Bytes::copy_from_slice(&blob.hash),
                size: blob.bytes,
                bytes,
            },
            None => BlobPart { header: None, hash: Bytes::new(), size: 0, bytes },
        };
        Some((Ok(part), Some((reader, None))))
    })
}
