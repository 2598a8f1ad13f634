//! Large things beside the log.

use std::path::Path;
use std::time::Duration;

use ledger::CopyError;

use crate::group::harness::*;

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// R17a: a blob is acknowledged when a majority has it on disk, and not before.
#[tokio::test(flavor = "multi_thread")]
async fn a_blob_lies_on_a_majority_or_is_refused() {
    let mut group = Group::start(3).await;
    let leader = group.leader().await;
    let others: Vec<usize> = (0..3).filter(|index| *index != leader).collect();
    let bytes: Vec<u8> = (0..700_000u32).map(|n| n as u8).collect();
    group.kill(others[1]);
    let blob = group.node(leader).put_blob(bytes.clone(), LONG).await.unwrap();
    for index in [leader, others[0]] {
        assert_eq!(files(&group.folder(index).join("blobs")).len(), 1, "on node {index}");
    }
    // One that was away fetches it.
    group.up(others[1]).await;
    group.node(others[1]).wait_for_leader(LONG).await;
    until("membership", async || !group.node(others[1]).status().voters.is_empty()).await;
    assert_eq!(group.node(others[1]).get_blob(&blob, LONG).await.unwrap(), bytes);
    assert_eq!(group.node(others[1]).metrics().blobs_fetched.get(), 1);

    group.kill(others[0]);
    group.kill(others[1]);
    let alone = group.node(leader).put_blob(b"alone".to_vec(), Duration::from_millis(700)).await;
    assert!(matches!(alone, Err(CopyError::NoMajority { copies: 1, voters: 3 })), "{alone:?}");
}

/// A member whose disk takes nothing stores with the others, and reads from them. Only alone it
/// cannot.
#[tokio::test(flavor = "multi_thread")]
async fn a_blob_needs_a_majority_and_not_this_disk() {
    let mut group = Group::start(3).await;
    let leader = group.leader().await;
    let folder = group.folder(leader).join("blobs");
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::write(&folder, "in the way").unwrap();
    let blob = group.node(leader).put_blob(b"result".to_vec(), LONG).await.unwrap();
    assert_eq!(group.node(leader).get_blob(&blob, LONG).await.unwrap(), b"result");
    let others: Vec<usize> = (0..3).filter(|index| *index != leader).collect();
    for index in &others {
        assert_eq!(files(&group.folder(*index).join("blobs")).len(), 1, "on node {index}");
    }
    group.kill(others[0]);
    let short = Duration::from_millis(700);
    let alone = group.node(leader).put_blob(b"another".to_vec(), short).await;
    assert!(matches!(alone, Err(CopyError::Here(_))), "{alone:?}");
}

/// A damaged copy is never returned; an undamaged one takes its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_blob_is_fetched_again() {
    let group = Group::start(3).await;
    let leader = group.leader().await;
    let bytes = vec![7u8; 100_000];
    let blob = group.node(leader).put_blob(bytes.clone(), LONG).await.unwrap();
    let file = files(&group.folder(leader).join("blobs")).pop().unwrap();
    let mut content = std::fs::read(&file).unwrap();
    content[50_000] ^= 1;
    std::fs::write(&file, content).unwrap();
    assert_eq!(group.node(leader).get_blob(&blob, LONG).await.unwrap(), bytes);
    assert_eq!(group.node(leader).metrics().blobs_fetched.get(), 1);
    assert_eq!(group.node(leader).get_blob(&blob, LONG).await.unwrap(), bytes);
    assert_eq!(group.node(leader).metrics().blobs_fetched.get(), 1, "it is whole again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_that_nobody_has_or_that_is_too_large_is_an_error() {
    let group = Group::start_with(1, |config| config.limits.blob_bytes = 1_000).await;
    let nowhere = ledger::blobs::reference(b"nowhere");
    let missing = group.node(0).get_blob(&nowhere, LONG).await;
    assert!(matches!(missing, Err(CopyError::NotFound)), "{missing:?}");
    let large = group.node(0).put_blob(vec![0; 1_001], LONG).await;
    assert!(matches!(large, Err(CopyError::TooLarge { bytes: 1_001, limit: 1_000 })), "{large:?}");
}
