//! Checkpoints on their way between managers, in parts: they may be larger than a message.

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use stats::merge::CHECKPOINT_BYTES_MAX;
use tonic::Status;

use crate::wire::proto::Checkpoint;

/// Content of one part.
const PART_BYTES: usize = 1 << 20;

/// A checkpoint as parts; `first` says what it is, and has no content. There is always at least
/// one.
pub fn split(first: Checkpoint, content: Vec<u8>) -> impl Iterator<Item = Checkpoint> + Send {
    let content = Bytes::from(content);
    let bytes = content.len() as u64;
    let count = content.len().div_ceil(PART_BYTES).max(1);
    let mut first = Some(Checkpoint { bytes, ..first });
    (0..count).map(move |at| {
        let from = at * PART_BYTES;
        let part = content.slice(from..content.len().min(from + PART_BYTES));
        Checkpoint { content: part, ..first.take().unwrap_or_default() }
    })
}

/// The content of a checkpoint whose first part is here.
///
/// # Errors
/// If the parts are not what was announced.
pub async fn gather(
    first: &Checkpoint,
    mut rest: impl Stream<Item = Result<Checkpoint, Status>> + Unpin,
) -> Result<Vec<u8>, Status> {
    let announced = usize::try_from(first.bytes).unwrap_or(usize::MAX);
    if announced > CHECKPOINT_BYTES_MAX {
        let why =
            format!("a checkpoint of {announced} bytes; at most {CHECKPOINT_BYTES_MAX} are kept");
        return Err(Status::resource_exhausted(why));
    }
    let mut content = first.content.to_vec();
    while content.len() < announced {
        let Some(part) = rest.next().await else { break };
        let part = part?.content;
        if part.is_empty() {
            break;
        }
        content.extend_from_slice(&part);
    }
    if content.len() == announced {
        Ok(content)
    } else {
        Err(Status::data_loss("the parts of a checkpoint are not what was announced"))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    async fn over_the_wire(parts: Vec<Checkpoint>) -> Result<Vec<u8>, Status> {
        let mut parts = parts.into_iter();
        let first = parts.next().expect("there is always one");
        gather(&first, stream::iter(parts.map(Ok))).await
    }

    #[tokio::test]
    async fn a_checkpoint_of_any_size_arrives_whole() {
        for size in [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 21 << 20] {
            let content: Vec<u8> = (0..size).map(|at| at as u8).collect();
            let first = Checkpoint { epoch: 3, number: 4, ..Checkpoint::default() };
            let parts: Vec<_> = split(first, content.clone()).collect();
            assert_eq!((parts[0].epoch, parts[0].number), (3, 4));
            assert!(parts.iter().all(|part| part.content.len() <= PART_BYTES));
            assert!(over_the_wire(parts).await.unwrap() == content, "{size}");
        }
    }

    #[tokio::test]
    async fn parts_that_are_missing_or_too_many_are_refused() {
        let parts: Vec<_> = split(Checkpoint::default(), vec![7; 3 * PART_BYTES]).collect();
        assert!(over_the_wire(parts[..2].to_vec()).await.is_err());
        let mut fewer = parts.clone();
        fewer[0].bytes -= 1;
        assert!(over_the_wire(fewer).await.is_err());
        let mut huge = parts;
        huge[0].bytes = u64::MAX;
        assert!(over_the_wire(huge).await.is_err());
    }
}
