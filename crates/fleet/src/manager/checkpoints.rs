//! Checkpoints of owners' statistics: one file per job on each manager, the newest by (epoch, number).
//!
//! A checkpoint counts as stored when a majority of the ledger's voters has it on disk. A new owner asks a majority for
//! the newest, so it finds every one that was ever acknowledged to a worker. A replaced owner's late one has a lower
//! epoch and is refused.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fence::JobId;

use super::lock;

/// Epoch, then number.
pub type Place = (u64, u64);

#[derive(Clone, Debug)]
pub struct Kept {
    pub place: Place,
    pub content: Vec<u8>,
}

/// The files of one manager.
#[derive(Clone)]
pub struct Keeper {
    folder: Arc<PathBuf>,
    /// What each file holds; written before the file is replaced, so that two writers of one job take turns.
    places: Arc<Mutex<BTreeMap<JobId, Place>>>,
}

impl Keeper {
    /// # Errors
    /// If the folder cannot be made.
    pub fn open(folder: PathBuf) -> io::Result<Self> {
        std::fs::create_dir_all(&folder)?;
        Ok(Self { folder: Arc::new(folder), places: Arc::default() })
    }

    fn path(&self, job: JobId) -> PathBuf {
        self.folder.join(format!("{job}.checkpoint"))
    }

    /// Puts it on the disk, unless a newer one is there. Blocks.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&self, job: JobId, place: Place, content: &[u8]) -> io::Result<bool> {
        let mut places = lock(&self.places);
        let there = match places.get(&job) {
            Some(place) => Some(*place),
            None => self.read(job)?.map(|kept| kept.place),
        };
        if there.is_some_and(|there| there >= place) {
            // The same one again is there; a lower one is refused.
            return Ok(there == Some(place));
        }
        write(&self.path(job), place, content)?;
        places.insert(job, place);
        Ok(true)
    }

    /// The one on this disk. Blocks. A damaged one is none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(&self, job: JobId) -> io::Result<Option<Kept>> {
        let bytes = match std::fs::read(self.path(job)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let kept = decode(&bytes);
        if kept.is_none() {
            tracing::warn!(%job, "a checkpoint of statistics is damaged and is not used");
        }
        Ok(kept)
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
        lock(&self.places).remove(&job);
        if let Err(error) = std::fs::remove_file(self.path(job))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%job, %error, "a checkpoint of an ended job was not removed");
        }
    }
}

fn decode(bytes: &[u8]) -> Option<Kept> {
    let (head, content) = bytes.split_at_checked(20)?;
    let number = |at: usize| head[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    let sum = head[16..].try_into().map(u32::from_le_bytes).ok()?;
    (crc32c::crc32c(content) == sum).then_some(())?;
    Some(Kept { place: (number(0)?, number(8)?), content: content.to_vec() })
}

fn write(path: &Path, place: Place, content: &[u8]) -> io::Result<()> {
    let part = path.with_extension("part");
    let mut file = std::fs::File::create(&part)?;
    file.write_all(&place.0.to_le_bytes())?;
    file.write_all(&place.1.to_le_bytes())?;
    file.write_all(&crc32c::crc32c(content).to_le_bytes())?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&part, path)?;
    // The name has to last, too.
    path.parent().map_or(Ok(()), |folder| std::fs::File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_kept_and_a_lower_epoch_refused() {
        let folder = tempfile::tempdir().unwrap();
        let job = JobId(7);
        let keeper = Keeper::open(folder.path().to_path_buf()).unwrap();
        assert!(keeper.read(job).unwrap().is_none());
        assert!(keeper.keep(job, (5, 1), b"one").unwrap());
        assert!(keeper.keep(job, (5, 2), b"two").unwrap());
        assert!(keeper.keep(job, (5, 2), b"two").unwrap(), "again");
        assert!(!keeper.keep(job, (5, 1), b"late").unwrap());
        assert!(!keeper.keep(job, (4, 9), b"replaced").unwrap(), "a lower epoch");
        assert!(keeper.keep(job, (6, 1), b"new owner").unwrap());
        // After a restart the files say the same.
        let again = Keeper::open(folder.path().to_path_buf()).unwrap();
        assert!(!again.keep(job, (5, 9), b"late").unwrap());
        let kept = again.read(job).unwrap().unwrap();
        assert_eq!((kept.place, &kept.content[..]), ((6, 1), &b"new owner"[..]));
        assert_eq!(again.jobs().unwrap(), [job]);
        again.remove(job);
        assert!(again.read(job).unwrap().is_none());
    }

    #[test]
    fn a_damaged_file_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let keeper = Keeper::open(folder.path().to_path_buf()).unwrap();
        keeper.keep(JobId(1), (1, 1), b"content").unwrap();
        let path = keeper.path(JobId(1));
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(keeper.read(JobId(1)).unwrap().is_none());
    }
}
