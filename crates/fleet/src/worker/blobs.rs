//! Content by its hash: fetched from any manager, kept for the next job that needs it.
//!
//! ```text
//! DATA/blobs/HASH        whole, verified before it got its name; touched when it is used
//! DATA/blobs/HASH.N.tmp  on its way
//! ```
//!
//! When there is too much, what was not used for longest goes. A blob that is gone is fetched
//! again: nobody holds it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use ledger_state::BlobRef;
use node::Host;
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use super::managers::Managers;
use crate::bundle::BUNDLE_BYTES_MAX;
use crate::wire::blob_out;

/// For the first chunk, and from one chunk to the next.
const CHUNK_WITHIN: Duration = Duration::from_secs(5);
const UNFINISHED: &str = ".tmp";

pub(super) struct Blobs {
    host: Host,
    folder: PathBuf,
    bytes_max: u64,
    managers: Arc<Managers>,
    /// One fetch per blob at a time; the others wait and find it there.
    turns: Mutex<BTreeMap<[u8; 32], Arc<tokio::sync::Mutex<()>>>>,
    temporary: AtomicU64,
}

/// Why a blob is not here.
#[derive(Clone, Debug)]
pub(super) enum NotHere {
    /// Nobody could be asked, or nobody had it: a later try may bring it.
    NotNow(String),
    /// This machine's disk does not take it.
    Disk(String),
}

impl NotHere {
    pub fn text(self) -> String {
        match self {
            Self::NotNow(text) | Self::Disk(text) => text,
        }
    }

    fn disk(error: impl std::fmt::Display) -> Self {
        Self::Disk(format!("cannot write the job down: {error}"))
    }
}

impl From<String> for NotHere {
    fn from(text: String) -> Self {
        Self::NotNow(text)
    }
}

impl Blobs {
    pub fn new(host: Host, folder: PathBuf, bytes_max: u64, managers: Arc<Managers>) -> Self {
        let (turns, temporary) = (Mutex::default(), AtomicU64::new(0));
        Self { host, folder, bytes_max, managers, turns, temporary }
    }

    /// Where the blob lies; it is fetched if it is not here.
    pub async fn get(&self, blob: BlobRef) -> Result<PathBuf, NotHere> {
        if blob.bytes > BUNDLE_BYTES_MAX as u64 {
            let why = format!("{} bytes are more than a job may have", blob.bytes);
            return Err(NotHere::NotNow(why));
        }
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(blob.hash).or_default())
        };
        let _mine = turn.lock().await;
        let path = self.folder.join(hex(&blob.hash));
        if self.is_here(&path, blob.bytes).await {
            return Ok(path);
        }
        let managers = self.managers.order();
        if managers.is_empty() {
            return Err("no manager is known to fetch the job from".to_owned().into());
        }
        let mut why = String::new();
        for manager in managers {
            match self.fetch(manager, blob, &path).await {
                Ok(()) => {
                    self.sweep(&path).await;
                    return Ok(path);
                }
                // The next manager has the same bytes, and this disk is as full as before.
                Err(NotHere::Disk(why)) => return Err(NotHere::Disk(why)),
                Err(NotHere::NotNow(error)) => why = format!("manager {manager}: {error}"),
            }
        }
        Err(why.into())
    }

    async fn is_here(&self, path: &Path, bytes: u64) -> bool {
        let path = path.to_path_buf();
        let looked = self.host.blocking(move || {
            let here = fs::metadata(&path).is_ok_and(|found| found.len() == bytes);
            if here && let Ok(file) = File::open(&path) {
                // Only for the order in which blobs go.
                let _ = file.set_modified(SystemTime::now());
            }
            here
        });
        looked.await.unwrap_or(false)
    }

    async fn fetch(&self, from: fence::NodeId, blob: BlobRef, path: &Path) -> Result<(), NotHere> {
        let unknown = || "not known to membership".to_owned();
        let mut reports = self.managers.reports(from).ok_or_else(unknown)?;
        let late = |_| format!("nothing came for {CHUNK_WITHIN:?}");
        let stream =
            timeout(CHUNK_WITHIN, reports.get_blob(blob_out(&blob))).await.map_err(late)?;
        let mut stream = stream.map_err(|status| status.message().to_owned())?.into_inner();
        let number = self.temporary.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_extension(format!("{number}{UNFINISHED}"));
        let made = temporary.clone();
        let file = self.host.blocking(move || crate::private_file(&made)).await;
        let mut writing = Writing {
            file: file.map_err(NotHere::disk)?.map_err(NotHere::disk)?,
            hash: Sha256::new(),
            bytes: 0,
        };
        let fetched = async {
            loop {
                let chunk = timeout(CHUNK_WITHIN, stream.message()).await.map_err(late)?;
                let Some(chunk) = chunk.map_err(|status| status.message().to_owned())? else {
                    break;
                };
                if writing.bytes + chunk.content.len() as u64 > blob.bytes {
                    let why = format!("it sends more than the {} bytes asked for", blob.bytes);
                    return Err(NotHere::NotNow(why));
                }
                let written = self.host.blocking(move || writing.take(&chunk.content)).await;
                writing = written.map_err(NotHere::disk)?.map_err(NotHere::disk)?;
            }
            let (temporary, path) = (temporary.clone(), path.to_path_buf());
            let finished =
                self.host.blocking(move || writing.finish(blob, &temporary, &path)).await;
            finished.map_err(NotHere::disk)?
        };
        let fetched: Result<(), NotHere> = fetched.await;
        if fetched.is_err() {
            let _ = self.host.blocking(move || fs::remove_file(temporary)).await;
        }
        fetched
    }

    /// Makes room; the one just fetched stays.
    async fn sweep(&self, keep: &Path) {
        let (folder, most, keep) = (self.folder.clone(), self.bytes_max, keep.to_path_buf());
        let swept = self.host.blocking(move || make_room(&folder, most, &keep)).await;
        if let Ok(Err(error)) = swept {
            tracing::warn!(%error, "old jobs cannot be removed from the cache");
        }
    }
}

struct Writing {
    file: File,
    hash: Sha256,
    bytes: u64,
}

impl Writing {
    fn take(mut self, content: &[u8]) -> io::Result<Self> {
        self.hash.update(content);
        self.file.write_all(content)?;
        self.bytes += content.len() as u64;
        Ok(self)
    }

    fn finish(self, blob: BlobRef, temporary: &Path, path: &Path) -> Result<(), NotHere> {
        if self.bytes != blob.bytes {
            return Err(format!("it sent {} of {} bytes", self.bytes, blob.bytes).into());
        }
        if self.hash.finalize()[..] != blob.hash {
            return Err("what it sent has another hash".to_owned().into());
        }
        // Not synced: what a power failure damages has the wrong length, or is read as damaged and
        // fetched anew.
        drop(self.file);
        fs::rename(temporary, path).map_err(NotHere::disk)
    }
}

/// A file of the cache that does not hold what its name says: the next fetch brings it again.
pub(super) fn discard(path: &Path) {
    let _ = fs::remove_file(path);
}

fn make_room(folder: &Path, most: u64, keep: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Another task may have removed it meanwhile.
        if let Ok(found) = entry.metadata() {
            files.push((
                found.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                found.len(),
                entry.path(),
            ));
        }
    }
    files.sort();
    let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, bytes, path) in files {
        if total <= most {
            break;
        }
        let on_its_way = path.to_string_lossy().ends_with(UNFINISHED);
        if path != keep && !on_its_way {
            fs::remove_file(&path)?;
            total -= bytes;
        }
    }
    Ok(())
}

fn hex(hash: &[u8; 32]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was not used for longest goes first; what was just fetched stays, however large.
    #[test]
    fn the_cache_keeps_what_was_used_last() {
        let temp = tempfile::TempDir::new().unwrap();
        let path = |name: &str| temp.path().join(name);
        for (age, name) in [(30, "old"), (20, "older-than-new"), (10, "new"), (0, "on.0.tmp")] {
            fs::write(path(name), vec![0; 100]).unwrap();
            let then = SystemTime::now() - Duration::from_secs(age);
            File::options().write(true).open(path(name)).unwrap().set_modified(then).unwrap();
        }
        make_room(temp.path(), 250, &path("old")).unwrap();
        assert!(path("old").exists(), "just fetched");
        assert!(!path("older-than-new").exists());
        assert!(!path("new").exists(), "300 bytes are still more than 250");
        assert!(path("on.0.tmp").exists(), "somebody writes it");
    }
}
