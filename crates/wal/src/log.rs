//! The log itself, without tasks and queues: open, write, flush, roll, remove, read.
//!
//! One owner holds it and calls it from one place (`owner.rs`); before the owner starts, whoever
//! opened it may read. Any failed write or flush leaves the log in an unknown state on the disk, so
//! the owner stops using it then.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fence::Hlc;

use crate::active::Active;
use crate::disk::Disk;
use crate::error::OpenError;
use crate::frame::{self, FRAME_BYTES, Frame, HEAD_BYTES, Head, Place};
use crate::mark::{Mark, Witness};
use crate::options::{LogIdentity, Lsn, Options, Recovery};
use crate::reader::{Reader, Records};
use crate::recover::{self, Segment, segment_path};
use crate::space::Space;

const LOCK_FILE: &str = "wal.lock";

/// An I/O error with what was being done.
#[derive(Debug)]
pub(crate) struct Failure {
    pub path: PathBuf,
    pub doing: &'static str,
    pub error: io::Error,
}

impl Failure {
    pub fn at(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |error| Self { path, doing, error }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} failed: {}", self.doing, self.path.display(), self.error)
    }
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> Self {
        Self::Io { path: failure.path, doing: failure.doing, error: failure.error }
    }
}

/// An open log.
pub struct Log {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) folder: PathBuf,
    pub(crate) identity: LogIdentity,
    pub(crate) options: Options,
    active: Active,
    segments: BTreeMap<u64, Segment>,
    next_id: u64,
    witness: Witness,
    pub(crate) space: Space,
    /// Encoded, not yet written.
    buffer: Vec<u8>,
    staged: Tip,
    written: Tip,
    durable: Lsn,
    torn: bool,
    _lock: Box<dyn Send + Sync>,
}

/// The last record of some stretch.
#[derive(Clone, Copy, Debug, Default)]
struct Tip {
    lsn: Lsn,
    checksum: u32,
}

impl Log {
    /// Opens the log in `folder`, or makes one. All of it is read and verified before this returns.
    pub fn open(
        disk: Arc<dyn Disk>,
        folder: impl Into<PathBuf>,
        identity: LogIdentity,
        options: Options,
    ) -> Result<(Self, Recovery), OpenError> {
        options.check()?;
        let folder = folder.into();
        disk.create_folder(&folder).map_err(Failure::at(&folder, "making"))?;
        let lock_path = folder.join(LOCK_FILE);
        let lock = disk.lock(&lock_path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => OpenError::Locked { path: lock_path.clone() },
            _ => OpenError::io(&lock_path, "locking", error),
        })?;
        let survey = recover::survey(&*disk, &folder, identity, &options)?;
        // From here on the disk is changed.
        let mut recovery = survey.recovery;
        let mut witness = Witness::open(&*disk, &folder, identity, &survey.found)?;
        let incarnation = witness.mark.incarnation.saturating_add(1);
        let tip = Tip { lsn: recovery.last_lsn, checksum: survey.last_checksum };
        let mut next_id = survey.highest_id + 1;
        if let Some(id) = survey.unfinished {
            let path = segment_path(&folder, id);
            disk.remove(&path).map_err(Failure::at(&path, "removing"))?;
            disk.sync_folder(&folder).map_err(Failure::at(&folder, "flushing"))?;
        }
        let mut segments: BTreeMap<u64, Segment> = survey.segments.into_iter().collect();
        let floor = recovery.first_lsn;
        let mut mark = Mark { lsn: witness.mark.lsn, floor, incarnation, ..witness.mark };
        let mut space = Space::default();
        let active = match segments.last_key_value() {
            Some((id, segment)) => {
                if survey.end == HEAD_BYTES as u64 {
                    Active::make_again(&*disk, &folder, *id)?;
                }
                let mut active = Active::reopen(&*disk, &folder, *id, *segment, survey.end)?;
                let torn = recovery.torn.is_some();
                active.settle(&*disk, identity.log, survey.uncertain_from, torn)?;
                // The same for names: the last life may have ended between making a file and
                // flushing its name.
                disk.sync_folder(&folder).map_err(Failure::at(&folder, "flushing"))?;
                active
            }
            None => {
                // The witness is there before the first segment is.
                witness
                    .write(mark)
                    .and_then(|()| witness.flush())
                    .map_err(Failure::at(&witness.path, "writing"))?;
                let head = Head {
                    node: identity.node,
                    log: identity.log,
                    incarnation,
                    segment: next_id,
                    first_lsn: recovery.last_lsn + 1,
                    limit: options.max_record_bytes,
                };
                next_id += 1;
                let active = Active::create(&*disk, &folder, &head, options.segment_bytes)?;
                segments
                    .insert(head.segment, Segment { first_lsn: head.first_lsn, limit: head.limit });
                active
            }
        };
        mark = Mark {
            lsn: tip.lsn,
            checksum: tip.checksum,
            segment: active.id,
            end: active.end,
            ..mark
        };
        witness
            .write(mark)
            .and_then(|()| witness.flush())
            .map_err(Failure::at(&witness.path, "writing"))?;
        recovery.incarnation = incarnation;
        recovery.segments = segments.len() as u64;
        space.open(&*disk, &folder, &options)?;
        let mut log = Self {
            disk,
            folder,
            identity,
            options,
            active,
            segments,
            next_id,
            witness,
            space,
            buffer: Vec::new(),
            staged: tip,
            written: tip,
            durable: tip.lsn,
            torn: recovery.torn.is_some(),
            _lock: lock,
        };
        log.prepare()?;
        Ok((log, recovery))
    }

    /// Makes the last segment fit for writing: its space is taken again, or a new one is begun if
    /// it is nearly full or was made for smaller records.
    fn prepare(&mut self) -> Result<(), OpenError> {
        let active = &mut self.active;
        let full = active.end + self.options.segment_bytes / 10 > self.options.segment_bytes;
        let room = self.space.reserved || self.space.free >= self.options.segment_bytes;
        if active.limit < self.options.max_record_bytes || (full && room) {
            self.roll()?;
        } else if active.len < self.options.segment_bytes {
            match active.file.allocate(self.options.segment_bytes) {
                Ok(()) => active.len = self.options.segment_bytes,
                // It can still be read, and written as far as it reaches.
                Err(error) if error.kind() == io::ErrorKind::StorageFull => self.space.low = true,
                Err(error) => return Err(OpenError::io(&active.path, "allocating", error)),
            }
        }
        Ok(())
    }

    /// Reads records of a half-open range of LSNs, each verified. For replay before the owner
    /// starts.
    #[must_use]
    pub fn read(&self, range: Range<Lsn>) -> Records {
        let end = range.end.min(self.durable + 1);
        Reader::new(Arc::clone(&self.disk), self.folder.clone(), self.identity)
            .read(range.start..end)
            .demand(self.durable)
    }

    /// The last record that is certainly on the disk.
    #[must_use]
    pub fn durable_lsn(&self) -> Lsn {
        self.durable
    }

    /// The last record that has a number.
    #[must_use]
    pub fn last_lsn(&self) -> Lsn {
        self.staged.lsn
    }

    /// The first record that is still there; one above the last if there is none.
    #[must_use]
    pub fn first_lsn(&self) -> Lsn {
        self.segments.first_key_value().map_or(1, |(_, segment)| segment.first_lsn)
    }

    /// Number of segment files.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Room in the active segment behind what is staged.
    pub(crate) fn room(&self) -> u64 {
        self.active.len.saturating_sub(self.active.end + self.buffer.len() as u64)
    }

    pub(crate) fn was_torn(&self) -> bool {
        self.torn
    }

    pub(crate) fn look_at_space(&mut self) -> Result<(), Failure> {
        self.space.look(&*self.disk, &self.folder, &self.options)
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.durable == self.staged.lsn
    }

    /// Encodes the next record. Rolls to a new segment if it does not fit, which writes and flushes
    /// the old one.
    pub(crate) fn stage(&mut self, kind: u8, payload: &[u8], hlc: Hlc) -> Result<Lsn, Failure> {
        let size = (FRAME_BYTES + payload.len()) as u64;
        if self.active.end + self.buffer.len() as u64 + size > self.options.segment_bytes {
            self.roll()?;
        }
        let lsn = self.staged.lsn + 1;
        let place = Place {
            log: self.identity.log,
            segment: self.active.id,
            offset: self.active.end + self.buffer.len() as u64,
        };
        let frame = Frame {
            checksum: 0,
            kind,
            length: payload.len() as u32,
            lsn,
            wall_ms: hlc.wall_ms,
            logical: hlc.logical,
            durable: self.durable,
        };
        let checksum = frame::encode(&mut self.buffer, place, &frame, payload);
        self.staged = Tip { lsn, checksum };
        Ok(lsn)
    }

    /// Gives what is staged to the operating system, in one call.
    pub(crate) fn write(&mut self) -> Result<(), Failure> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let active = &mut self.active;
        active.dirty = true;
        active
            .file
            .write_all_at(&self.buffer, active.end)
            .map_err(Failure::at(&active.path, "writing"))?;
        active.end += self.buffer.len() as u64;
        active.len = active.len.max(active.end);
        self.written = self.staged;
        self.buffer.clear();
        if self.buffer.capacity() > 4 << 20 {
            // One large batch must not be kept for ever.
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// Writes what is staged and makes all that was written durable. Earlier segments are durable
    /// since they were sealed.
    pub(crate) fn sync(&mut self) -> Result<Lsn, Failure> {
        self.write()?;
        if self.active.dirty {
            self.active.file.sync_data().map_err(Failure::at(&self.active.path, "flushing"))?;
            self.active.dirty = false;
        }
        self.durable = self.written.lsn;
        Ok(self.durable)
    }

    /// Notes the durable end in the witness.
    pub(crate) fn witness(&mut self) -> Result<(), Failure> {
        let mark = Mark {
            lsn: self.durable,
            checksum: self.written.checksum,
            segment: self.active.id,
            end: self.active.end,
            ..self.witness.mark
        };
        self.witness.write(mark).map_err(Failure::at(&self.witness.path, "writing"))
    }

    pub(crate) fn witness_dirty(&self) -> bool {
        self.witness.dirty
    }

    pub(crate) fn flush_witness(&mut self) -> Result<(), Failure> {
        self.witness.flush().map_err(Failure::at(&self.witness.path, "flushing"))
    }

    /// Seals the active segment and begins a new one. The old one is durable before the new one
    /// exists, and the new one's head and name are durable before a record goes into it.
    fn roll(&mut self) -> Result<(), Failure> {
        self.write()?;
        let old = &mut self.active;
        if old.len > old.end {
            // What was not used goes back, and "ends with its last record" holds for every sealed
            // segment.
            old.file.set_len(old.end).map_err(Failure::at(&old.path, "cutting"))?;
            old.len = old.end;
            old.dirty = true;
        }
        self.sync()?;
        self.witness()?;
        self.flush_witness()?;
        let head = Head {
            node: self.identity.node,
            log: self.identity.log,
            incarnation: self.witness.mark.incarnation,
            segment: self.next_id,
            first_lsn: self.written.lsn + 1,
            limit: self.options.max_record_bytes,
        };
        // Ids are never used twice, also not when making this one fails.
        self.next_id += 1;
        self.space.before_roll(&*self.disk, &self.folder, &self.options)?;
        self.active = Active::create(&*self.disk, &self.folder, &head, self.options.segment_bytes)?;
        self.space.after_roll(&*self.disk, &self.folder)?;
        self.segments
            .insert(head.segment, Segment { first_lsn: head.first_lsn, limit: head.limit });
        Ok(())
    }

    /// Removes whole segments all of whose records are below `lsn`; the active one stays. Returns
    /// how many went.
    pub(crate) fn truncate_before(&mut self, lsn: Lsn) -> Result<usize, Failure> {
        let starts: Vec<(u64, u64)> =
            self.segments.iter().map(|(id, segment)| (*id, segment.first_lsn)).collect();
        let keep = starts.windows(2).take_while(|pair| pair[1].1 <= lsn).count();
        if keep == 0 {
            return Ok(0);
        }
        // The witness says first that the older ones may be missing.
        let mark = Mark { floor: starts[keep].1, ..self.witness.mark };
        self.witness.write(mark).map_err(Failure::at(&self.witness.path, "writing"))?;
        self.flush_witness()?;
        for (id, _) in &starts[..keep] {
            let path = segment_path(&self.folder, *id);
            self.disk.remove(&path).map_err(Failure::at(&path, "removing"))?;
            // One by one and oldest first: a crash must not leave a gap between those that remain.
            self.disk.sync_folder(&self.folder).map_err(Failure::at(&self.folder, "flushing"))?;
            self.segments.remove(id);
        }
        Ok(keep)
    }
}
