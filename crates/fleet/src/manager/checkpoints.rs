//! Checkpoints of owners' statistics: one file per job on each manager, the newest by (epoch,
//! number), and beside it the promise to a new owner.
//!
//! A checkpoint counts as stored when a majority of the ledger's voters has it on disk. A new owner
//! asks a majority for the newest, and each that answers promises to take none of a lower epoch any
//! more. So the new owner has found every checkpoint that was ever acknowledged to a worker, and a
//! replaced owner that does not know it yet cannot have another one acknowledged, after which a
//! worker would let go of what the new owner has not seen.
//!
//! A file that is damaged is not the same as none: there was a checkpoint, and perhaps the newest.
//! Whoever has such a file cannot say what is stored, and its answer does not count towards a
//! majority. The promise is a file of its own, so that damage to the content does not lose it, nor
//! the other way round.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fence::JobId;
use fence::canary::{self, Canary};
use stats::merge::CHECKPOINT_BYTES_MAX;
use tokio::sync::{Semaphore, SemaphorePermit};
use tonic::Status;

use super::lock;

/// Epoch, then number; (0, 0): there is none yet.
pub type Place = (u64, u64);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub place: Place,
    pub content: Vec<u8>,
}

/// What a new owner is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromiseAnswer {
    /// The newest that is here; nothing older than its epoch comes after it.
    Newest(Kept),
    /// Promised all the same, and what was here cannot be read any more.
    Damaged,
    /// A newer owner was promised.
    Refused { promise: u64 },
}

/// Why nothing was kept or promised.
#[derive(Debug)]
pub enum CheckpointError {
    /// What was promised is not known any more. The ledger knows who may still come: see
    /// [`CheckpointStore::restore`].
    PromiseLost,
    Io(io::Error),
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PromiseLost => f.write_str("the file of a promise to a new owner is damaged"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CheckpointError {}

impl From<io::Error> for CheckpointError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What is known of a job's files without reading them again.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The lowest epoch whose checkpoints are taken.
    promise: u64,
    /// `None`: there is one, and it is damaged.
    place: Option<Place>,
}

/// Who reads or writes the files of a job holds its lock. Jobs do not wait for each other's disk
/// writes.
type Slot = Arc<Mutex<Option<Known>>>;

/// The files of one manager.
#[derive(Clone)]
pub struct CheckpointStore {
    folder: Arc<PathBuf>,
    jobs: Arc<Mutex<BTreeMap<JobId, Slot>>>,
    /// What may be on its way here at once, in KiB.
    incoming: Arc<Semaphore>,
}

/// Two of the largest.
const INCOMING_BYTES_MAX: usize = 2 * CHECKPOINT_BYTES_MAX;

impl CheckpointStore {
    /// # Errors
    /// If the folder cannot be made.
    pub fn open(folder: PathBuf) -> io::Result<Self> {
        crate::private_folder(&folder)?;
        let incoming = Arc::new(Semaphore::new(INCOMING_BYTES_MAX >> 10));
        Ok(Self { folder: Arc::new(folder), jobs: Arc::default(), incoming })
    }

    /// Room to receive a checkpoint of so many bytes; waits for it.
    ///
    /// # Errors
    /// If it is larger than any.
    pub async fn room(&self, bytes: u64) -> Result<SemaphorePermit<'_>, Status> {
        let kibibytes = u32::try_from(bytes.min(CHECKPOINT_BYTES_MAX as u64) >> 10).unwrap_or(0);
        let room = self.incoming.acquire_many(kibibytes.max(1)).await;
        room.map_err(|_| Status::unavailable("this manager ends"))
    }

    fn path(&self, job: JobId) -> PathBuf {
        self.folder.join(format!("{job}.checkpoint"))
    }

    fn promise_path(&self, job: JobId) -> PathBuf {
        self.folder.join(format!("{job}.promise"))
    }

    fn slot(&self, job: JobId) -> Slot {
        Arc::clone(lock(&self.jobs).entry(job).or_default())
    }

    /// Puts it on the disk, unless a newer one is there or was promised. Blocks.
    ///
    /// # Errors
    /// If it cannot be written, or nobody knows what was promised.
    pub fn keep(&self, job: JobId, place: Place, content: &[u8]) -> Result<bool, CheckpointError> {
        let slot = self.slot(job);
        let mut known = lock(&slot);
        let Known { promise, place: there } = match *known {
            Some(known) => known,
            None => self.look(job)?,
        };
        // What was damaged is replaced by whatever an owner has that may write: it has read all
        // that was acknowledged.
        let newest = there.unwrap_or_default();
        if place.0 < promise || place <= newest {
            // The same one again is there; a lower one is refused.
            return Ok(place.0 >= promise && newest == place);
        }
        if promise < place.0 {
            // Before the content, which would lose it if it were damaged.
            write(&self.promise_path(job), &head(place.0, (0, 0)), &[])?;
            *known = Some(Known { promise: place.0, place: there });
        }
        write(&self.path(job), &head(0, place), content)?;
        *known = Some(Known { promise: place.0, place: Some(place) });
        Ok(true)
    }

    /// Takes no checkpoint of a lower epoch from now on, and gives the one that is here. Blocks.
    ///
    /// # Errors
    /// If the promise cannot be read or written.
    pub fn promise(&self, job: JobId, epoch: u64) -> Result<PromiseAnswer, CheckpointError> {
        let slot = self.slot(job);
        let mut known = lock(&slot);
        let promise = self.read_promise(job)?;
        if promise > epoch {
            return Ok(PromiseAnswer::Refused { promise });
        }
        if canary::active(Canary::NoPromise) {
            return Ok(self.read(job, true).map_or(PromiseAnswer::Damaged, PromiseAnswer::Newest));
        }
        if promise < epoch {
            write(&self.promise_path(job), &head(epoch, (0, 0)), &[])?;
        }
        let said = matches!(*known, Some(Known { place: None, .. }));
        let mut found = self.read(job, said);
        if canary::active(Canary::DamageIsNothing) {
            found.get_or_insert_default();
        }
        let place = found.as_ref().map(|kept| kept.place);
        *known = Some(Known { promise: epoch, place });
        Ok(found.map_or(PromiseAnswer::Damaged, PromiseAnswer::Newest))
    }

    /// Makes the promise anew after its file was damaged. `epoch` is the job's in the ledger, read
    /// after the damage was found: whoever was promised anything had an epoch in the ledger, so
    /// none of them has a higher one. Blocks.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn restore(&self, job: JobId, epoch: u64) -> Result<(), CheckpointError> {
        let slot = self.slot(job);
        let mut known = lock(&slot);
        match self.read_promise(job) {
            // Somebody else has done it.
            Ok(_) => return Ok(()),
            Err(CheckpointError::PromiseLost) => {}
            Err(error) => return Err(error),
        }
        write(&self.promise_path(job), &head(epoch, (0, 0)), &[])?;
        *known = None;
        Ok(())
    }

    fn look(&self, job: JobId) -> Result<Known, CheckpointError> {
        let promise = self.read_promise(job)?;
        let place = self.read(job, false).map(|kept| kept.place);
        Ok(Known { promise, place })
    }

    fn read_promise(&self, job: JobId) -> Result<u64, CheckpointError> {
        match std::fs::read(self.promise_path(job)) {
            Ok(bytes) => match decode(&bytes) {
                Some((promise, ..)) => Ok(promise),
                None => Err(CheckpointError::PromiseLost),
            },
            // The promise is written before the first checkpoint: where there is one without it, it
            // was lost.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let alone = self.path(job).try_exists()?;
                if alone { Err(CheckpointError::PromiseLost) } else { Ok(0) }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What is on this disk. `None`: there was something, and it cannot be read; that is logged
    /// once.
    fn read(&self, job: JobId, said: bool) -> Option<Kept> {
        let damaged = |why: &dyn fmt::Display| {
            if said {
                return;
            }
            tracing::warn!(%job, %why, "a checkpoint of statistics cannot be read; the other managers' count");
        };
        match std::fs::read(self.path(job)) {
            Ok(bytes) => {
                let found = decode(&bytes);
                if found.is_none() {
                    damaged(&"its checksum does not fit");
                }
                found.map(|(_, place, content)| Kept { place, content: content.to_vec() })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Kept::default()),
            Err(error) => {
                damaged(&error);
                None
            }
        }
    }

    /// The jobs that there are files of.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn jobs(&self) -> io::Result<Vec<JobId>> {
        let mut jobs = std::collections::BTreeSet::new();
        for entry in std::fs::read_dir(&*self.folder)? {
            let name = entry?.file_name().into_string().unwrap_or_default();
            let stem = name.strip_suffix(".checkpoint").or_else(|| name.strip_suffix(".promise"));
            let id: Option<JobId> = stem.and_then(|name| name.parse().ok());
            jobs.extend(id);
        }
        Ok(jobs.into_iter().collect())
    }

    /// Forgets an ended job. The content goes first: a promise without it is only an empty file.
    pub fn remove(&self, job: JobId) {
        let slot = self.slot(job);
        let mut known = lock(&slot);
        for path in [self.path(job), self.promise_path(job)] {
            if let Err(error) = std::fs::remove_file(path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(%job, %error, "a checkpoint of an ended job was not removed");
            }
        }
        *known = None;
        lock(&self.jobs).remove(&job);
    }
}

/// Promise, epoch, number, checksum of these and of the content, content. A file of a promise has
/// the first, one of a checkpoint the others.
const HEAD: usize = 24;

fn head(promise: u64, place: Place) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    for (part, number) in head.chunks_exact_mut(8).zip([promise, place.0, place.1]) {
        part.copy_from_slice(&number.to_le_bytes());
    }
    head
}

fn decode(bytes: &[u8]) -> Option<(u64, Place, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
    let (sum, content) = rest.split_first_chunk::<4>()?;
    let right = crc32c::crc32c_append(crc32c::crc32c(head), content) == u32::from_le_bytes(*sum);
    let number = |at: usize| head[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    right.then_some(())?;
    Some((number(0)?, (number(8)?, number(16)?), content))
}

fn write(path: &Path, head: &[u8; HEAD], content: &[u8]) -> io::Result<()> {
    // Two files of one job never share an unfinished one.
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let sum = crc32c::crc32c_append(crc32c::crc32c(head), content);
    let mut file = crate::private_file(&part)?;
    file.write_all(head)?;
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

    fn newest(checkpoints: &CheckpointStore, epoch: u64) -> (Place, Vec<u8>) {
        match checkpoints.promise(JOB, epoch).unwrap() {
            PromiseAnswer::Newest(kept) => (kept.place, kept.content),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_newest_is_kept_and_a_lower_epoch_refused() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = CheckpointStore::open(folder.path().to_path_buf()).unwrap();
        assert!(checkpoints.keep(JOB, (5, 1), b"one").unwrap());
        assert!(checkpoints.keep(JOB, (5, 2), b"two").unwrap());
        assert!(checkpoints.keep(JOB, (5, 2), b"two").unwrap(), "again");
        assert!(!checkpoints.keep(JOB, (5, 1), b"late").unwrap());
        assert!(!checkpoints.keep(JOB, (4, 9), b"replaced").unwrap(), "a lower epoch");
        assert!(checkpoints.keep(JOB, (6, 1), b"new owner").unwrap());
        // After a restart the files say the same.
        let again = CheckpointStore::open(folder.path().to_path_buf()).unwrap();
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
        let checkpoints = CheckpointStore::open(folder.path().to_path_buf()).unwrap();
        assert!(checkpoints.keep(JOB, (5, 1), b"one").unwrap());
        assert_eq!(newest(&checkpoints, 87), ((5, 1), b"one".to_vec()));
        assert!(!checkpoints.keep(JOB, (5, 2), b"two").unwrap());
        assert!(!checkpoints.keep(JOB, (5, 1), b"one").unwrap(), "not even one that is there");
        // The promise lasts, and holds for those who read as well.
        let again = CheckpointStore::open(folder.path().to_path_buf()).unwrap();
        assert!(!again.keep(JOB, (5, 2), b"two").unwrap());
        assert!(matches!(again.promise(JOB, 80).unwrap(), PromiseAnswer::Refused { promise: 87 }));
        assert!(again.keep(JOB, (87, 1), b"three").unwrap());
        assert_eq!(newest(&again, 87), ((87, 1), b"three".to_vec()));
    }

    /// One file damaged, cut or unreadable is neither the checkpoint nor "there is none", and the
    /// promise outlives it.
    #[test]
    fn a_damaged_checkpoint_is_no_answer_and_keeps_its_promise() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = CheckpointStore::open(folder.path().to_path_buf()).unwrap();
        checkpoints.keep(JOB, (3, 1), b"content").unwrap();
        let path = checkpoints.path(JOB);
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            assert!(decode(&bytes).is_none(), "byte {at}");
            assert!(decode(&whole[..at]).is_none(), "cut at {at}");
        }
        std::fs::write(&path, &whole[1..]).unwrap();
        let again = CheckpointStore::open(folder.path().to_path_buf()).unwrap();
        assert_eq!(again.promise(JOB, 5).unwrap(), PromiseAnswer::Damaged);
        assert_eq!(again.promise(JOB, 4).unwrap(), PromiseAnswer::Refused { promise: 5 });
        assert!(!again.keep(JOB, (3, 9), b"of the last owner").unwrap());
        // The new owner's next one mends it.
        assert!(again.keep(JOB, (5, 1), b"whole again").unwrap());
        assert_eq!(newest(&again, 5), ((5, 1), b"whole again".to_vec()));
    }

    /// Without its promise a manager neither keeps nor promises, until the ledger has said who owns
    /// the job now.
    #[test]
    fn a_lost_promise_stops_everything_until_the_ledger_was_asked() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = CheckpointStore::open(folder.path().to_path_buf()).unwrap();
        checkpoints.keep(JOB, (3, 1), b"content").unwrap();
        checkpoints.promise(JOB, 8).unwrap();
        let damages: [&dyn Fn(PathBuf); 2] =
            [&|path| std::fs::write(path, b"rot").unwrap(), &|path| {
                std::fs::remove_file(path).unwrap();
            }];
        for damage in damages {
            damage(checkpoints.promise_path(JOB));
            let again = CheckpointStore::open(folder.path().to_path_buf()).unwrap();
            assert!(matches!(again.keep(JOB, (3, 2), b"late"), Err(CheckpointError::PromiseLost)));
            assert!(matches!(again.promise(JOB, 9), Err(CheckpointError::PromiseLost)));
            again.restore(JOB, 8).unwrap();
            assert!(!again.keep(JOB, (3, 2), b"late").unwrap());
            assert_eq!(newest(&again, 8), ((3, 1), b"content".to_vec()));
        }
    }

    /// Each job writes and flushes for itself: one whose disk write hangs holds up nobody else.
    #[test]
    fn a_job_whose_write_takes_long_holds_up_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = CheckpointStore::open(folder.path().to_path_buf()).unwrap();
        let slot = checkpoints.slot(JOB);
        let hanging = lock(&slot);
        let (done, finished) = std::sync::mpsc::channel();
        let other = checkpoints.clone();
        std::thread::spawn(move || done.send(other.keep(JobId(8), (1, 1), b"other").unwrap()));
        assert!(finished.recv_timeout(std::time::Duration::from_secs(20)).unwrap());
        drop(hanging);
        assert!(checkpoints.keep(JOB, (1, 1), b"one").unwrap());
    }
}
