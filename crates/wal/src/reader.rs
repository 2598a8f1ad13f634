//! Reading a log: by range, or following its end. Readers have file handles of their own and never
//! disturb the writer.
//!
//! A record is shown only after its checksum, its place and its number were checked; the first that
//! does not verify ends the reading with an error, once. A reader holds one chunk (64 KiB, or one
//! record if that is larger) and reads on only when asked, so a slow consumer costs nothing.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::disk::Disk;
use crate::error::{OpenError, ReadError};
use crate::frame::{self, Flaw, HEAD_BYTES, Head, HeadFlaw, Place};
use crate::options::{LogIdentity, Lsn, Options, Record, Recovery};
use crate::recover::{self, read_head, segment_ids, segment_path};
use crate::scan::{Scanner, Step};

/// A place to begin is kept for every so many bytes that were read.
const INDEX_STEP: u64 = 256 << 10;
const INDEX_ENTRIES: usize = 16_384;
/// A reader that follows lets others run after so many records.
const RECORDS_PER_TURN: u32 = 100;

/// Where records begin: a cache in memory, filled while reading and never trusted beyond a place to
/// start looking.
#[derive(Debug, Default)]
struct Index(BTreeMap<Lsn, (u64, u64)>);

/// Opens ranges of one log for reading.
#[derive(Clone)]
pub struct Reader {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    identity: LogIdentity,
    index: Arc<Mutex<Index>>,
}

/// Reads the whole log as opening it would, and says what would be found and cut. Changes nothing.
pub fn verify(disk: &dyn Disk, folder: &Path) -> Result<Recovery, OpenError> {
    let identity = identity_of(disk, folder).map_err(|error| match error {
        ReadError::Io { path, doing, error } => OpenError::Io { path, doing, error },
        other => OpenError::Foreign { path: folder.to_path_buf(), why: other.to_string() },
    })?;
    Ok(recover::survey(disk, folder, identity, &Options::default())?.recovery)
}

/// Whose log lies in a folder, by its first readable segment.
pub fn identity_of(disk: &dyn Disk, folder: &Path) -> Result<LogIdentity, ReadError> {
    let io =
        |path: &Path, error| ReadError::Io { path: path.to_path_buf(), doing: "reading", error };
    let mut why = "there is no segment".to_owned();
    for id in segment_ids(disk, folder).map_err(|error| io(folder, error))? {
        let path = segment_path(folder, id);
        let head = disk.open(&path).and_then(|file| read_head(&*file));
        match head.map_err(|error| io(&path, error))? {
            Ok(head) => return Ok(LogIdentity { node: head.node, log: head.log }),
            Err(flaw) => why = describe(&flaw),
        }
    }
    Err(ReadError::Foreign { path: folder.to_path_buf(), why })
}

fn describe(flaw: &HeadFlaw) -> String {
    match flaw {
        HeadFlaw::Foreign(why) | HeadFlaw::Unfinished(why) => why.clone(),
        HeadFlaw::Version(version) => format!("it has format {version}"),
    }
}

impl Reader {
    /// A reader of the log in `folder`, whosever it is.
    pub fn open(disk: Arc<dyn Disk>, folder: impl Into<PathBuf>) -> Result<Self, ReadError> {
        let folder = folder.into();
        let identity = identity_of(&*disk, &folder)?;
        Ok(Self::new(disk, folder, identity))
    }

    pub(crate) fn new(disk: Arc<dyn Disk>, folder: PathBuf, identity: LogIdentity) -> Self {
        Self { disk, folder, identity, index: Arc::default() }
    }

    #[must_use]
    pub fn identity(&self) -> LogIdentity {
        self.identity
    }

    /// Records with `range.start <= LSN < range.end`, as far as the log goes. On a log that is
    /// being written, keep the end at or below the durable LSN + 1, or use `follow`.
    #[must_use]
    pub fn read(&self, range: Range<Lsn>) -> Records {
        Records {
            reader: self.clone(),
            next: range.start.max(1),
            end: range.end,
            durable: 0,
            open: None,
            indexed: 0,
            finished: false,
            records_read: 0,
            bytes_read: 0,
        }
    }

    /// Records from `from` on, each as soon as it is durable and never before. Ends when the log
    /// has ended. The disk is read by whoever polls, a chunk at a time: give it a task where that
    /// does no harm.
    #[must_use]
    pub fn follow(&self, from: Lsn, durable: watch::Receiver<Lsn>) -> Follow {
        Follow { records: self.read(from..from), durable, turn: 0 }
    }

    /// The segment that holds an LSN, and a place in it at or before its record.
    fn locate(&self, lsn: Lsn) -> Result<Option<Open>, ReadError> {
        let io = |path: &Path, error| ReadError::Io {
            path: path.to_path_buf(),
            doing: "reading",
            error,
        };
        let ids = segment_ids(&*self.disk, &self.folder).map_err(|e| io(&self.folder, e))?;
        let hint = {
            let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
            index.0.range(..=lsn).next_back().map(|(at, place)| (*at, *place))
        };
        let mut first = None;
        for id in ids.iter().rev() {
            let path = segment_path(&self.folder, *id);
            let file = match self.disk.open(&path) {
                Ok(file) => file,
                // Removed by a truncation since it was listed; so is everything before it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(io(&path, error)),
            };
            let head = match read_head(&*file).map_err(|error| io(&path, error))? {
                Ok(head) => head,
                // Being made at this moment, or left so by a crash: holds nothing yet.
                Err(HeadFlaw::Unfinished(_)) if Some(id) == ids.last() => continue,
                Err(flaw) => return Err(ReadError::Foreign { path, why: describe(&flaw) }),
            };
            let ours = LogIdentity { node: head.node, log: head.log } == self.identity;
            if !ours || head.segment != *id {
                return Err(ReadError::Foreign { path, why: "it belongs to another log".into() });
            }
            first = Some(head.first_lsn);
            if head.first_lsn > lsn {
                continue;
            }
            let (expected, offset) = match hint {
                Some((at, (segment, offset))) if segment == *id => (at, offset),
                _ => (head.first_lsn, HEAD_BYTES as u64),
            };
            let place = Place { log: head.log, segment: *id, offset };
            let scanner = Scanner::new(file, place, head.limit).map_err(|e| io(&path, e))?;
            return Ok(Some(Open { head, path, scanner, expected }));
        }
        match first {
            Some(first) => Err(ReadError::Truncated { wanted: lsn, first }),
            None => Ok(None),
        }
    }
}

struct Open {
    head: Head,
    path: PathBuf,
    scanner: Scanner,
    expected: Lsn,
}

/// A range of records, in order. Ends for good after the last one or the first error.
pub struct Records {
    reader: Reader,
    next: Lsn,
    end: Lsn,
    /// Records up to here must be there: finding nothing is an error.
    durable: Lsn,
    open: Option<Open>,
    indexed: u64,
    finished: bool,
    records_read: u64,
    bytes_read: u64,
}

impl Records {
    /// Records shown so far.
    #[must_use]
    pub fn records_read(&self) -> u64 {
        self.records_read
    }

    /// Bytes read from the disk so far.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read + self.open.as_ref().map_or(0, |open| open.scanner.bytes_read)
    }

    fn advance(&mut self) -> Result<Option<Record>, ReadError> {
        let mut refreshed = false;
        while self.next < self.end {
            let Some(open) = &mut self.open else {
                self.open = self.reader.locate(self.next)?;
                self.indexed = self.open.as_ref().map_or(0, |open| open.scanner.offset);
                if self.open.is_none() {
                    return self.ended(0, 0);
                }
                continue;
            };
            let path = open.path.clone();
            let io = |error| ReadError::Io { path, doing: "reading", error };
            let offset = open.scanner.offset;
            let flaw = match open.scanner.step().map_err(io)? {
                Step::Record { at, frame } => {
                    if frame.lsn != open.expected {
                        return Err(ReadError::SequenceGap {
                            segment: open.head.segment,
                            offset: at,
                            expected: open.expected,
                            found: frame.lsn,
                        });
                    }
                    open.expected += 1;
                    let record = (frame.lsn >= self.next).then(|| Record {
                        lsn: frame.lsn,
                        hlc: frame::stamp(&frame, open.head.node),
                        kind: frame.kind,
                        payload: open.scanner.payload().to_vec(),
                    });
                    self.note(frame.lsn, at);
                    if let Some(record) = record {
                        self.next += 1;
                        self.records_read += 1;
                        return Ok(Some(record));
                    }
                    continue;
                }
                Step::End => None,
                Step::Bad(flaw) => Some(flaw),
            };
            // What was read ahead of a live writer may be older than what is there by now.
            if !std::mem::replace(&mut refreshed, true) {
                let path = open.path.clone();
                let io = |error| ReadError::Io { path, doing: "reading", error };
                open.scanner.refresh().map_err(io)?;
                continue;
            }
            let (segment, expected) = (open.head.segment, open.expected);
            if let Some(flaw) = flaw {
                let why = flaw.to_string();
                return Err(ReadError::Corruption { segment, offset, lsn: expected, why });
            }
            // The segment has ended. The next one begins with the next number, or there is none.
            self.bytes_read += open.scanner.bytes_read;
            self.open = None;
            match self.reader.locate(expected)? {
                Some(later) if later.head.segment != segment => {
                    self.indexed = later.scanner.offset;
                    self.open = Some(later);
                    refreshed = false;
                }
                _ => return self.ended(segment, offset),
            }
        }
        Ok(None)
    }

    /// Nothing more is there.
    fn ended(&mut self, segment: u64, offset: u64) -> Result<Option<Record>, ReadError> {
        if self.next > self.durable {
            return Ok(None);
        }
        let why = Flaw::Missing.to_string();
        Err(ReadError::Corruption { segment, offset, lsn: self.next, why })
    }

    fn note(&mut self, lsn: Lsn, at: u64) {
        let Some(open) = &self.open else { return };
        if at < self.indexed + INDEX_STEP {
            return;
        }
        self.indexed = at;
        let mut index = self.reader.index.lock().unwrap_or_else(PoisonError::into_inner);
        if index.0.len() < INDEX_ENTRIES {
            index.0.insert(lsn, (open.head.segment, at));
        }
    }

    pub(crate) fn demand(mut self, durable: Lsn) -> Self {
        self.durable = durable;
        self
    }
}

impl Iterator for Records {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let result = self.advance();
        self.finished = !matches!(result, Ok(Some(_)));
        result.transpose()
    }
}

/// Records as they become durable.
pub struct Follow {
    records: Records,
    durable: watch::Receiver<Lsn>,
    turn: u32,
}

impl Follow {
    /// The next record; waits until it is durable. `None` when the log was closed and all was
    /// shown. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<Record, ReadError>> {
        loop {
            if self.records.finished {
                return None;
            }
            let durable = *self.durable.borrow_and_update();
            if self.records.next <= durable {
                self.turn += 1;
                if self.turn >= RECORDS_PER_TURN {
                    self.turn = 0;
                    tokio::task::yield_now().await;
                }
                self.records.end = durable + 1;
                self.records.durable = durable;
                return self.records.next();
            }
            if self.durable.changed().await.is_err() {
                // The sender is gone; what it said last was looked at above, unless it came in
                // between.
                if self.records.next > *self.durable.borrow() {
                    return None;
                }
            }
        }
    }

    /// The LSN of the record that comes next.
    #[must_use]
    pub fn position(&self) -> Lsn {
        self.records.next
    }
}
