//! How many requests were issued, in a file that outlives the process (R17).
//!
//! A process that is killed takes its counters along. These lie in a page that belongs to the
//! kernel's cache as much as to us: what was stored there is in the file, whoever dies. It says
//! nothing about a machine that loses power; then nobody can say how much was issued.
//!
//! `issued` is raised before a request is written, `sent` when its end is counted in a window. So
//! after a kill: reported <= seen by the target <= issued, and `issued - sent` is at most what was
//! under way.
//!
//! One thread writes, with plain relaxed stores; anybody may read.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: u64 = u64::from_le_bytes(*b"volyiss1");
/// One page, allocated before it is mapped: on a full disk the store would be a fatal signal.
const FILE_BYTES: usize = 4096;
/// Magic, checksum, length of the identity.
const HEAD_BYTES: usize = 24;
/// The counters have a cache line of their own.
const COUNTS_AT: usize = 64;
const IDENTITY_AT: usize = 128;
/// Longest identity.
pub const IDENTITY_BYTES_MAX: usize = 1024;

/// What was counted, over the whole life of an attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IssuedCounts {
    /// Requests that were about to be written.
    pub issued: u64,
    /// Of these, written as far as is known, and counted in a window.
    pub sent: u64,
    /// Units of the schedule (arrivals, or iterations) that were taken.
    pub taken: u64,
}

/// The counters of one attempt.
#[derive(Debug)]
pub struct IssuedFile {
    page: NonNull<u8>,
}

// SAFETY: the page is shared memory that is only touched through atomics.
unsafe impl Send for IssuedFile {}
// SAFETY: as above.
unsafe impl Sync for IssuedFile {}

impl IssuedFile {
    /// Makes the file, with all counters at zero; an older one of the same name is replaced.
    ///
    /// `identity` is whatever the caller wants to find again: job, workflow, shard, attempt, boot.
    pub fn create(path: &Path, identity: &[u8]) -> io::Result<IssuedFile> {
        if identity.len() > IDENTITY_BYTES_MAX {
            let message = format!("an identity has at most {IDENTITY_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut bytes = vec![0u8; FILE_BYTES];
        bytes[16..24].copy_from_slice(&(identity.len() as u64).to_le_bytes());
        bytes[IDENTITY_AT..IDENTITY_AT + identity.len()].copy_from_slice(identity);
        bytes[8..16].copy_from_slice(&checksum(identity).to_le_bytes());
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        // A new file, so that whoever still has the old one mapped writes to that.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(&bytes)?;
        // The blocks must be there before anything is stored through the map.
        file.sync_all()?;
        // SAFETY: a fresh mapping of a whole page of a file of that length; the result is checked.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                FILE_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let page =
            NonNull::new(page.cast()).ok_or_else(|| io::Error::other("mapped to nowhere"))?;
        Ok(IssuedFile { page })
    }

    /// What an attempt has left behind, alive or dead: its identity and its counts.
    pub fn read(path: &Path) -> io::Result<(Vec<u8>, IssuedCounts)> {
        let bytes = std::fs::read(path)?;
        let bad = |what: &str| {
            let message = format!("{}: {what}; no attempt counts in it", path.display());
            io::Error::new(io::ErrorKind::InvalidData, message)
        };
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        if bytes.len() < FILE_BYTES || bytes.len() < HEAD_BYTES || word(0) != MAGIC {
            return Err(bad("not a file of issued counts, or not complete"));
        }
        let length = word(16) as usize;
        if length > IDENTITY_BYTES_MAX {
            return Err(bad("damaged: its identity has no end"));
        }
        let identity = bytes[IDENTITY_AT..IDENTITY_AT + length].to_vec();
        if checksum(&identity) != word(8) {
            return Err(bad("damaged: its identity is not what was written"));
        }
        let [issued, sent, taken] = [0, 8, 16].map(|offset| word(COUNTS_AT + offset));
        Ok((identity, IssuedCounts { issued, sent, taken }))
    }

    pub fn counts(&self) -> IssuedCounts {
        let [issued, sent, taken] = [0, 1, 2].map(|n| self.counter(n).load(Ordering::Relaxed));
        IssuedCounts { issued, sent, taken }
    }

    #[inline]
    pub fn add_issued(&self) {
        self.add(0, 1);
    }

    #[inline]
    pub fn add_sent(&self, count: u64) {
        self.add(1, count);
    }

    #[inline]
    pub fn set_taken(&self, count: u64) {
        self.counter(2).store(count, Ordering::Relaxed);
    }

    #[inline]
    fn counter(&self, number: usize) -> &AtomicU64 {
        // SAFETY: within the page, aligned to eight bytes, mapped for as long as `self` lives.
        // Nobody refers to these bytes but through atomics.
        unsafe { &*self.page.as_ptr().add(COUNTS_AT + number * 8).cast::<AtomicU64>() }
    }

    // Only the attempt's own thread writes, so a load and a store are enough.
    #[inline]
    fn add(&self, number: usize, count: u64) {
        let counter = self.counter(number);
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }
}

impl Drop for IssuedFile {
    fn drop(&mut self) {
        // SAFETY: mapped by `create` with this length, and nobody has it any more.
        unsafe { libc::munmap(self.page.as_ptr().cast(), FILE_BYTES) };
    }
}

/// FNV-1a: against a file of something else or half a file, not against malice.
fn checksum(identity: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ identity.len() as u64;
    identity.iter().fold(start, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> std::path::PathBuf {
        let folder =
            std::env::temp_dir().join(format!("volley-issued-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn another_reader_sees_what_was_counted() {
        let folder = folder("reader");
        let path = folder.join("counts");
        let file = IssuedFile::create(&path, b"job 7, shard 1, attempt 2").unwrap();
        (0..5).for_each(|_| file.add_issued());
        file.add_sent(3);
        file.set_taken(9);
        let (identity, counts) = IssuedFile::read(&path).unwrap();
        assert_eq!(identity, b"job 7, shard 1, attempt 2");
        assert_eq!(counts, IssuedCounts { issued: 5, sent: 3, taken: 9 });
        assert_eq!(counts, file.counts());
        drop(file);
        assert_eq!(IssuedFile::read(&path).unwrap().1.issued, 5, "it outlives its writer");
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn a_new_attempt_begins_at_zero_and_the_old_one_does_not_reach_it() {
        let folder = folder("again");
        let path = folder.join("counts");
        let old = IssuedFile::create(&path, b"one").unwrap();
        old.add_issued();
        let new = IssuedFile::create(&path, b"two").unwrap();
        old.add_issued();
        assert_eq!(new.counts(), IssuedCounts::default());
        assert_eq!(IssuedFile::read(&path).unwrap(), (b"two".to_vec(), IssuedCounts::default()));
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        let folder = folder("refused");
        let path = folder.join("counts");
        assert!(IssuedFile::read(&path).is_err());
        for bytes in [vec![], vec![1; 100], vec![0; FILE_BYTES], vec![255; FILE_BYTES]] {
            std::fs::write(&path, bytes).unwrap();
            assert!(IssuedFile::read(&path).is_err());
        }
        drop(IssuedFile::create(&path, b"whole").unwrap());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[IDENTITY_AT] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert!(IssuedFile::read(&path).unwrap_err().to_string().contains("identity"));
        assert!(IssuedFile::create(&path, &[0; IDENTITY_BYTES_MAX + 1]).is_err());
        let _ = std::fs::remove_dir_all(folder);
    }
}
