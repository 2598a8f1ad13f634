//! Checkpoints of owners' statistics: one file per job on each manager, the newest by (epoch, number).
//!
//! A checkpoint counts as stored when a majority of the ledger's voters has it on disk. A new owner asks a majority for
//! the newest, and each that answers promises to take none of a lower epoch any more. So the new owner has found every
//! checkpoint that was ever acknowledged to a worker, and a replaced owner that does not know it yet cannot have
//! another one acknowledged, after which a worker would let go of what the new owner has not seen.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fence::JobId;

use super::lock;

/// Epoch, then number; (0, 0): there is none yet.
pub type Place = (u64, u64);

#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// The lowest epoch whose checkpoints are taken.
    pub promise: u64,
    pub place: Place,
    pub content: Vec<u8>,
}

/// What a new owner is told.
#[derive(Clone, Debug)]
pub enum Promised {
    /// The newest that is here; nothing older than its epoch comes after it.
    Newest(Kept),
    /// A newer owner was promised.
    Refused { promise: u64 },
}

/// The files of one manager.
#[derive(Clone)]
pub struct Keeper {
    folder: Arc<PathBuf>,
    /// The promise and the place of each file, so that it is not read each time. Who writes a file holds the lock.
    known: Arc<Mutex<BTreeMap<JobId, (u64, Place)>>>,
}

impl Keeper {
    /// # Errors
    /// If the folder cannot be made.
    pub fn open(folder: PathBuf) -> io::Result<Self> {
        crate::private_folder(&folder)?;
        Ok(Self { folder: Arc::new(folder), known: Arc::default() })
    }

    fn path(&self, job: JobId) -> PathBuf {
        self.folder.join(format!("{job}.checkpoint"))
    }

    /// Puts it on the disk, unless a newer one is there or was promised. Blocks.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&self, job: JobId, place: Place, content: &[u8]) -> io::Result<bool> {
        let mut known = lock(&self.known);
        let (promise, there) = match known.get(&job) {
            Some(known) => *known,
            None => {
                let kept = self.read(job)?;
                (kept.promise, kept.place)
            }
        };
        if place.0 < promise || place <= there {
            // The same one again is there; a lower one is refused.
            return Ok(place.0 >= promise && there == place);
        }
        let promise = promise.max(place.0);
        write(&self.path(job), promise, place, content)?;
        known.insert(job, (promise, place));
        Ok(true)
    }

    /// Takes no checkpoint of a lower epoch from now on, and gives the one that is here. Blocks.
    ///
    /// # Errors
    /// If it cannot be read, or the promise cannot be written.
    pub fn promise(&self, job: JobId, epoch: u64) -> io::Result<Promised> {
        let mut known = lock(&self.known);
        let mut kept = self.read(job)?;
        if kept.promise > epoch {
            return Ok(Promised::Refused { promise: kept.promise });
        }
        if kept.promise < epoch {
            kept.promise = epoch;
            write(&self.path(job), kept.promise, kept.place, &kept.content)?;
        }
        known.insert(job, (kept.promise, kept.place));
        Ok(Promised::Newest(kept))
    }

    /// What is on this disk. A damaged file is as good as none.
    fn read(&self, job: JobId) -> io::Result<Kept> {
        let bytes = match std::fs::read(self.path(job)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kept::default()),
            Err(error) => return Err(error),
        };
        Ok(decode(&bytes).unwrap_or_else(|| {
            tracing::warn!(%job, "a checkpoint of statistics is damaged and is not used");
            Kept::default()
        }))
    }

    /// The jobs that there are files of.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn jobs(&self) -> io::Result<Vec<JobId>> {
        let mut jobs = Vec::new();
        for entry in std::fs::read_dir(&*self.folder)? {
            let name = entry?.file_name().into_string().unwrap_or_default();
            let id: Option<JobId> =
                name.strip_suffix(".checkpoint").and_then(|name| name.parse().ok());
            jobs.extend(id);
        }
        Ok(jobs)
    }

    pub fn remove(&self, job: JobId) {
        lock(&self.known).remove(&job);
        if let Err(error) = std::fs::remove_file(self.path(job))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%job, %error, "a checkpoint of an ended job was not removed");
        }
    }
}

/// Promise, epoch, number, checksum of these and of the content, content.
const HEAD: usize = 24;

fn head(promise: u64, place: Place) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    for (part, number) in head.chunks_exact_mut(8).zip([promise, place.0, place.1]) {
        part.copy_from_slice(&number.to_le_bytes());
    }
    head
}

fn decode(bytes: &[u8]) -> Option<Kept> {
    let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
    let (sum, content) = rest.split_first_chunk::<4>()?;
    let right = crc32c::crc32c_append(crc32c::crc32c(head), content) == u32::from_le_bytes(*sum);
    let number = |at: usize| head[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    right.then_some(())?;
    Some(Kept { promise: number(0)?, place: (number(8)?, number(16)?), content: content.to_vec() })
}

fn write(path: &Path, promise: u64, place: Place, content: &[u8]) -> io::Result<()> {
    let part = path.with_extension("part");
    let head = head(promise, place);
    let sum = crc32c::crc32c_append(crc32c::crc32c(&head), content);
    let mut file = crate::private_file(&part)?;
    file.write_all(&head)?;
    file.write_all(&sum.to_le_bytes())?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&part, path)?;
    // The name has to last, too.
    path.parent().map_or(Ok(()), |folder| std::fs::File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobId = JobId(7);

    fn newest(keeper: &Keeper, epoch: u64) -> (Place, Vec<u8>) {
        match keeper.promise(JOB, epoch).unwrap() {
            Promised::Newest(kept) => (kept.place, kept.content),
            Promised::Refused { promise } => panic!("{promise} was promised"),
        }
    }

    #[test]
    fn the_newest_is_kept_and_a_lower_epoch_refused() {
        let folder = tempfile::tempdir().unwrap();
        let keeper = Keeper::open(folder.path().to_path_buf()).unwrap();
        assert!(keeper.keep(JOB, (5, 1), b"one").unwrap());
        assert!(keeper.keep(JOB, (5, 2), b"two").unwrap());
        assert!(keeper.keep(JOB, (5, 2), b"two").unwrap(), "again");
        assert!(!keeper.keep(JOB, (5, 1), b"late").unwrap());
        assert!(!keeper.keep(JOB, (4, 9), b"replaced").unwrap(), "a lower epoch");
        assert!(keeper.keep(JOB, (6, 1), b"new owner").unwrap());
        // After a restart the files say the same.
        let again = Keeper::open(folder.path().to_path_buf()).unwrap();
        assert!(!again.keep(JOB, (5, 9), b"late").unwrap());
        assert_eq!(newest(&again, 6), ((6, 1), b"new owner".to_vec()));
        assert_eq!(again.jobs().unwrap(), [JOB]);
        again.remove(JOB);
        assert_eq!(newest(&again, 7), ((0, 0), Vec::new()));
    }

    /// The last owner is paused, another reads what it has stored, and then the last one goes on.
    #[test]
    fn who_was_read_by_a_new_owner_takes_nothing_of_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let keeper = Keeper::open(folder.path().to_path_buf()).unwrap();
        assert!(keeper.keep(JOB, (5, 1), b"one").unwrap());
        assert_eq!(newest(&keeper, 87), ((5, 1), b"one".to_vec()));
        assert!(!keeper.keep(JOB, (5, 2), b"two").unwrap());
        assert!(!keeper.keep(JOB, (5, 1), b"one").unwrap(), "not even one that is there");
        // The promise lasts, and holds for those who read as well.
        let again = Keeper::open(folder.path().to_path_buf()).unwrap();
        assert!(!again.keep(JOB, (5, 2), b"two").unwrap());
        assert!(matches!(again.promise(JOB, 80).unwrap(), Promised::Refused { promise: 87 }));
        assert!(again.keep(JOB, (87, 1), b"three").unwrap());
        assert_eq!(newest(&again, 87), ((87, 1), b"three".to_vec()));
    }

    #[test]
    fn a_damaged_file_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let keeper = Keeper::open(folder.path().to_path_buf()).unwrap();
        keeper.keep(JOB, (1, 1), b"content").unwrap();
        let path = keeper.path(JOB);
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            assert!(decode(&bytes).is_none(), "byte {at}");
            assert!(decode(&whole[..at]).is_none(), "cut at {at}");
        }
        std::fs::write(&path, &whole[1..]).unwrap();
        assert_eq!(newest(&keeper, 2), ((0, 0), Vec::new()));
    }
}
