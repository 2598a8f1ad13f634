//! Plans on their way to a manager: through files, bounded by client, and gone if they never
//! arrive.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use fleet::client::blob_of;
use fleet::wire::proto::{Chunk, MissingRequest};
use fleet::wire::{CHUNK_BYTES, blob_out};
use ledger_state::BlobRef;
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;
use tonic::Code;
use trust::Role;

use crate::manager::harness::{Datacenter, until};

/// Files in a folder and below, with their sizes.
fn files(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return found };
    for entry in entries.map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else if let Ok(metadata) = entry.metadata() {
            found.push((entry.path(), metadata.len()));
        }
    }
    found
}

fn blobs_of(center: &Datacenter) -> PathBuf {
    let config = center.local.manager_config(&center.local.managers[0]).unwrap();
    config.member.data.join("ledger").join("blobs")
}

/// A blob that is nowhere in memory as a whole: so many times the same chunk.
fn large(seed: u8, chunks: usize) -> (BlobRef, Bytes) {
    let chunk = Bytes::from(vec![seed; CHUNK_BYTES]);
    let mut hash = Sha256::new();
    (0..chunks).for_each(|_| hash.update(&chunk));
    (BlobRef { hash: hash.finalize().into(), bytes: (chunks * CHUNK_BYTES) as u64 }, chunk)
}

fn chunks(blob: &BlobRef, chunk: &Bytes, count: usize) -> impl Iterator<Item = Chunk> + use<> {
    let (blob, content) = (blob_out(blob), chunk.clone());
    (0..count).map(move |number| Chunk {
        blob: (number == 0).then(|| blob.clone()),
        content: content.clone(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_cut_off_leaves_nothing_behind() {
    let center = Datacenter::alone().await;
    let mut jobs = center.jobs(Role::Client, 1, 0);
    let (blob, chunk) = large(1, 8);
    let half: Vec<Chunk> = chunks(&blob, &chunk, 4).collect();
    let (send, receive) = tokio::sync::mpsc::channel(1);
    let upload = tokio::spawn({
        let mut jobs = jobs.clone();
        let stream = tokio_stream::wrappers::ReceiverStream::new(receive);
        async move { jobs.put(stream).await }
    });
    for chunk in half.clone() {
        send.send(chunk).await.unwrap();
    }
    let folder = blobs_of(&center);
    until("half of it is on the disk", || !files(&folder).is_empty()).await;
    upload.abort();
    until("it is gone", || files(&folder).is_empty()).await;

    // One that ends too early, and one that is something else.
    let status = jobs.put(tokio_stream::iter(half)).await.unwrap_err();
    assert_eq!(status.code(), Code::DataLoss, "{status:?}");
    let (other, _) = large(2, 8);
    let all: Vec<Chunk> = chunks(&other, &chunk, 8).collect();
    let status = jobs.put(tokio_stream::iter(all)).await.unwrap_err();
    assert_eq!(status.code(), Code::DataLoss, "{status:?}");
    until("nothing is left", || files(&folder).is_empty()).await;
    let asked = MissingRequest { blobs: vec![blob_out(&blob)] };
    assert_eq!(jobs.missing(asked).await.unwrap().get_ref().missing.len(), 1);
}

/// Whether something is there is looked up: a thousand references to a large blob cost no reading
/// of it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_found_by_look_up() {
    let center = Datacenter::alone().await;
    let mut jobs = center.jobs(Role::Client, 1, 0);
    let (blob, chunk) = large(3, 64);
    jobs.put(tokio_stream::iter(chunks(&blob, &chunk, 64))).await.unwrap();
    let none = blob_out(&blob_of(b"never sent"));
    let mut blobs = vec![blob_out(&blob); 999];
    blobs.push(none.clone());
    let begun = std::time::Instant::now();
    let reply = jobs.missing(MissingRequest { blobs }).await.unwrap().into_inner();
    assert_eq!(reply.missing, [none]);
    // Sixteen gigabytes would have been read.
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

/// The most that this process has had in memory so far, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() << 10
}

/// Twelve uploads at once, of three clients: the manager's memory does not grow with what is sent.
/// The peak is that of the whole process, so this holds where each test has a process of its own.
#[tokio::test(flavor = "multi_thread")]
async fn memory_does_not_grow_with_what_is_uploaded() {
    const CHUNKS: usize = 160;
    let center = Datacenter::alone().await;
    let before = peak();
    let mut uploads = JoinSet::new();
    for number in 0..12_u8 {
        let mut jobs = center.jobs(Role::Client, u128::from(number % 3) + 1, 0);
        let (blob, chunk) = large(number, CHUNKS);
        uploads.spawn(async move {
            loop {
                let sent = jobs.put(tokio_stream::iter(chunks(&blob, &chunk, CHUNKS))).await;
                match sent {
                    Ok(stored) => return assert_eq!(*stored.get_ref(), blob_out(&blob)),
                    // All places are taken: a client comes again.
                    Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status:?}"),
                }
            }
        });
    }
    while let Some(upload) = uploads.join_next().await {
        upload.unwrap();
    }
    let sent = 12 * (CHUNKS * CHUNK_BYTES) as u64;
    let grown = peak() - before;
    println!("{} MiB were sent, and memory grew by {} MiB", sent >> 20, grown >> 20);
    let single = std::env::var_os("NEXTEST").is_some();
    assert!(!single || grown < sent / 4, "{} of {} MiB", grown >> 20, sent >> 20);
}
