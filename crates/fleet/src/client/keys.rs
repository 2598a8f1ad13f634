//! The idempotency key of a submission, on disk from before it is sent until there is an answer.
//!
//! ```text
//! $XDG_STATE_HOME/volley/submissions/<hash of cluster, bundle and name>[.n]
//! ```
//!
//! A submission that was cut off leaves its file behind, and the same submission finds it: whatever
//! became of the first try, there will be one job. A file that another process holds is of a
//! submission under way; a second one beside it is a job of its own.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ledger_state::{BlobRef, IdempotencyKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Whoever types the same a day later wants it run again.
const KEPT_FOR: Duration = Duration::from_secs(24 * 3600);
/// The same thing, submitted so many times at once.
const SLOTS_MAX: usize = 256;
const FILE_BYTES_MAX: u64 = 4096;

/// A key that is on disk, and held by this process.
pub struct Kept {
    pub key: String,
    /// Since the first try.
    pub age: Duration,
    /// An earlier try left it.
    pub is_found: bool,
    path: PathBuf,
    _lock: File,
}

impl Kept {
    /// There is an answer: the next submission is another one.
    pub fn forget(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What makes two submissions the same.
#[must_use]
pub fn hash(cluster: &str, bundle: &BlobRef, name: &str) -> String {
    let mut hash = Sha256::new();
    for part in [cluster.as_bytes(), &bundle.hash, name.as_bytes()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Why a submission has no key that would survive it.
#[derive(Debug)]
pub enum KeyError {
    /// The key cannot be written down.
    Io { path: PathBuf, error: std::io::Error },
    /// The same is being submitted too often at once.
    Busy,
    /// The operating system has no random numbers.
    Random(getrandom::Error),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Io { path, error } => {
                write!(f, "cannot keep the submission's key in {}: {error}", path.display())
            }
            KeyError::Busy => {
                write!(f, "this is being submitted {SLOTS_MAX} times at once already")
            }
            KeyError::Random(error) => write!(f, "no random numbers: {error}"),
        }
    }
}

impl std::error::Error for KeyError {}

/// Finds the key of a submission that was cut off, or makes one.
///
/// # Errors
/// If the key cannot be written down, because a key that nobody remembers protects from nothing.
pub fn keep(folder: &Path, hash: &str) -> Result<Kept, KeyError> {
    let fail = |path: &Path, error| KeyError::Io { path: path.to_owned(), error };
    std::fs::create_dir_all(folder).map_err(|error| fail(folder, error))?;
    for slot in 0..SLOTS_MAX {
        let name = if slot == 0 { hash.to_owned() } else { format!("{hash}.{slot}") };
        let path = folder.join(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(|error| fail(&path, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(error)) => return Err(fail(&path, error)),
        }
        // Its owner may have had its answer between our look and our lock.
        let same = std::fs::metadata(&path).is_ok_and(|there| {
            file.metadata().is_ok_and(|ours| (ours.dev(), ours.ino()) == (there.dev(), there.ino()))
        });
        if !same {
            continue;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if let Some((key, begun)) = read(&mut file)
            && let age = now.saturating_sub(begun)
            && age < KEPT_FOR
        {
            return Ok(Kept { key, age, is_found: true, path, _lock: file });
        }
        let key = draw()?;
        let text = json!({ "key": key, "begun_unix_ms": now.as_millis() as u64 });
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{text}"))
            .and_then(|()| file.sync_all());
        written.map_err(|error| fail(&path, error))?;
        return Ok(Kept { key, age: Duration::ZERO, is_found: false, path, _lock: file });
    }
    Err(KeyError::Busy)
}

/// A key that nobody else has.
///
/// # Errors
/// If the operating system has no random numbers.
pub fn draw() -> Result<String, KeyError> {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).map_err(KeyError::Random)?;
    let sequence = u64::from(std::process::id());
    Ok(IdempotencyKey { client: "volley-submit".to_owned(), sequence, nonce }.to_string())
}

fn read(file: &mut File) -> Option<(String, Duration)> {
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    let key = value["key"].as_str()?.to_owned();
    key.parse::<IdempotencyKey>().ok()?;
    Some((key, Duration::from_millis(value["begun_unix_ms"].as_u64()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOB: BlobRef = BlobRef { hash: [7; 32], bytes: 3 };

    #[test]
    fn a_submission_that_was_cut_off_keeps_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let name = hash("c", &BLOB, "plan");
        let first = keep(folder.path(), &name).unwrap();
        assert!(!first.is_found);
        let key = first.key.clone();
        drop(first);
        let again = keep(folder.path(), &name).unwrap();
        assert!(again.is_found && again.key == key);
        again.forget();
        let another = keep(folder.path(), &name).unwrap();
        assert!(!another.is_found && another.key != key);
    }

    #[test]
    fn two_at_once_are_two_jobs() {
        let folder = tempfile::tempdir().unwrap();
        let name = hash("c", &BLOB, "plan");
        let first = keep(folder.path(), &name).unwrap();
        let second = keep(folder.path(), &name).unwrap();
        assert_ne!(first.key, second.key);
        second.forget();
        let key = first.key.clone();
        drop(first);
        assert_eq!(keep(folder.path(), &name).unwrap().key, key);
    }

    #[test]
    fn other_clusters_bundles_and_names_have_other_keys() {
        let other = BlobRef { hash: [8; 32], bytes: 3 };
        let all = [
            hash("c", &BLOB, "a"),
            hash("d", &BLOB, "a"),
            hash("c", &other, "a"),
            hash("c", &BLOB, "b"),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn an_old_or_damaged_key_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let long_ago = json!({ "key": draw().unwrap(), "begun_unix_ms": 1 }).to_string();
        for text in ["", "{", &long_ago, r#"{"key": "a", "begun_unix_ms": 99999999999999}"#] {
            std::fs::write(&path, text).unwrap();
            let kept = keep(folder.path(), "x").unwrap();
            assert!(!kept.is_found, "{text}");
            kept.forget();
        }
    }
}
