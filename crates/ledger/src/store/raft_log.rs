//! The Raft log on the write-ahead log.
//!
//! ```text
//! append, vote, truncate, purge ──one at a time──▶ write-ahead log ──fsync──▶ answer
//!                                      └──▶ LiveLog in memory: what is read
//! ```
//!
//! Nothing of the consensus library is in here; `log_store` is the adapter.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use wal::{AppendError, AppendOptions, Durability, Pending, Wal};

use super::lane::lock;
use super::live_log::{Hole, LiveLog};
use super::record::{Ballot, Position, Record, RecordError, Stored};

/// Why something was not written to the log.
#[derive(Debug)]
pub enum LogError {
    /// Entries would not follow on each other. Nothing was written.
    Hole(Hole),
    Record(RecordError),
    Wal(AppendError),
    /// The snapshot that has to come before this was not written in time.
    NoSnapshot {
        purged: Position,
    },
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hole(hole) => hole.fmt(f),
            Self::Record(error) => error.fmt(f),
            Self::Wal(error) => error.fmt(f),
            Self::NoSnapshot { purged } => write!(
                f,
                "the log was given up to entry {purged} for a snapshot that was not written: look for disk errors"
            ),
        }
    }
}

impl std::error::Error for LogError {}

impl From<RecordError> for LogError {
    fn from(error: RecordError) -> Self {
        Self::Record(error)
    }
}

impl From<AppendError> for LogError {
    fn from(error: AppendError) -> Self {
        Self::Wal(error)
    }
}

/// Where entries begin in the write-ahead log: the entry at `index` and those after it stand at
/// `lsn` or later.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub index: u64,
    pub lsn: u64,
}

/// Marks in the order of the log.
#[derive(Clone, Debug, Default)]
pub struct Marks(VecDeque<Mark>);

impl Marks {
    pub fn push(&mut self, mark: Mark) {
        while self.0.back().is_some_and(|last| last.index >= mark.index) {
            self.0.pop_back();
        }
        self.0.push_back(mark);
    }

    /// As `push`, but only one in `every`: for a replay, which sees each entry by itself.
    pub fn note(&mut self, mark: Mark, every: u64) {
        let near = |last: &Mark| (last.index + 1..last.index + every).contains(&mark.index);
        if !self.0.back().is_some_and(near) {
            self.push(mark);
        }
    }

    /// The first LSN that the entries from `index` on need; marks that only earlier entries needed
    /// are dropped.
    pub fn keep_from(&mut self, index: u64) -> Option<u64> {
        while self.0.get(1).is_some_and(|second| second.index <= index) {
            self.0.pop_front();
        }
        self.0.front().map(|mark| mark.lsn)
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

pub struct RaftLog {
    wal: Wal,
    live: Mutex<LiveLog>,
    marks: Mutex<Marks>,
    /// The highest LSN that was handed back; everything enqueued later stands behind it.
    known_lsn: AtomicU64,
    /// A purge over entries that are not in the log, whose snapshot is still being written.
    deferred: Mutex<Option<Position>>,
    /// Writers take their turn here, so that the order of the calls is the order in the log.
    turn: tokio::sync::Mutex<()>,
    chunk: Chunk,
}

/// What the write-ahead log takes in one call.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    pub bytes: usize,
    pub records: usize,
}

/// More than the write-ahead log adds to a record.
const FRAME: usize = 128;

impl RaftLog {
    pub fn new(wal: Wal, live: LiveLog, marks: Marks, last_lsn: u64, chunk: Chunk) -> Self {
        Self {
            wal,
            live: Mutex::new(live),
            marks: Mutex::new(marks),
            known_lsn: AtomicU64::new(last_lsn),
            deferred: Mutex::new(None),
            turn: tokio::sync::Mutex::new(()),
            chunk,
        }
    }

    /// Looks at the log in memory.
    pub fn look<T>(&self, see: impl FnOnce(&LiveLog) -> T) -> T {
        see(&lock(&self.live))
    }

    pub fn read(&self, range: Range<u64>, bytes: u64) -> Vec<Stored> {
        lock(&self.live).read(range, bytes)
    }

    pub fn wal(&self) -> &Wal {
        &self.wal
    }

    /// Hands entries to the disk. They can be read when this returns; they are durable when
    /// `flushed` has ended well. Entries that a snapshot covers already are passed over. `None`:
    /// there was nothing to write.
    pub async fn append(&self, mut entries: Vec<Stored>) -> Result<Option<Pending>, LogError> {
        let _turn = self.turn.lock().await;
        let mut records = Vec::with_capacity(entries.len() + 1);
        {
            let live = lock(&self.live);
            let purged = live.purged();
            entries.retain(|entry| purged.is_none_or(|at| entry.position.index > at.index));
            let Some(first) = entries.first().map(|entry| entry.position.index) else {
                return Ok(None);
            };
            for (offset, entry) in entries.iter().enumerate() {
                let expected = first + offset as u64;
                if entry.position.index != expected {
                    let found = entry.position.index;
                    return Err(LogError::Hole(Hole { expected, found }));
                }
            }
            if let Some(from) = live.check_append(first).map_err(LogError::Hole)? {
                records.push(Record::Truncate { from }.to_wal()?);
            }
        }
        for entry in &entries {
            records.push(Record::Entry(entry.clone()).to_wal()?);
        }
        let lsn = self.known_lsn.load(Ordering::Acquire) + 1;
        let pending = self.enqueue(records).await?;
        let index = entries[0].position.index;
        lock(&self.marks).push(Mark { index, lsn });
        let mut live = lock(&self.live);
        for entry in entries {
            live.append(entry);
        }
        Ok(Some(pending))
    }

    /// Brings records to the write-ahead log in pieces that it takes. The last piece is flushed
    /// after all others.
    ///
    /// All of the Raft log is essential: a member that could not write down what the group decides,
    /// or a purge that frees space, would have to stop. New work is refused earlier, by
    /// `Storage::space_is_low`.
    async fn enqueue(&self, records: Vec<(u8, Vec<u8>)>) -> Result<Pending, AppendError> {
        let mut piece: Vec<(u8, Vec<u8>)> = Vec::new();
        let mut bytes = 0;
        for record in records {
            let size = record.1.len() + FRAME;
            let full = bytes + size > self.chunk.bytes || piece.len() >= self.chunk.records;
            if full && !piece.is_empty() {
                let piece = std::mem::take(&mut piece);
                // Whatever becomes of this piece, the last one cannot end better: the log fails as
                // a whole.
                drop(self.wal.enqueue_with(piece, AppendOptions::essential()).await?);
                bytes = 0;
            }
            bytes += size;
            piece.push(record);
        }
        self.wal.enqueue_with(piece, AppendOptions::essential()).await
    }

    /// Waits until what `append` has handed over is durable.
    pub async fn flushed(&self, pending: Pending) -> Result<(), LogError> {
        let lsn = pending.await?;
        self.known_lsn.fetch_max(lsn, Ordering::AcqRel);
        Ok(())
    }

    async fn durable(&self, record: &Record) -> Result<u64, LogError> {
        let lsn = self.enqueue(vec![record.to_wal()?]).await?.await?;
        self.known_lsn.fetch_max(lsn, Ordering::AcqRel);
        Ok(lsn)
    }

    /// Keeps a vote. It is durable when this returns.
    pub async fn save_vote(&self, ballot: Ballot) -> Result<(), LogError> {
        let _turn = self.turn.lock().await;
        self.durable(&Record::Vote(ballot)).await?;
        lock(&self.live).set_vote(ballot);
        Ok(())
    }

    /// Notes how far the log is committed. It need not be durable: it is found again from the
    /// leader, and only saves time. So it goes to the disk with the next entry, and costs no flush
    /// of its own: on a slow disk the next entry would have to wait for that one.
    pub fn save_committed(&self, committed: Option<Position>) -> Result<(), LogError> {
        lock(&self.live).set_committed(committed);
        let Some(position) = committed else { return Ok(()) };
        let (kind, payload) = Record::Committed(position).to_wal()?;
        let options = AppendOptions { durability: Some(Durability::None), ..Default::default() };
        match self.wal.try_append_with(kind, payload, options) {
            // A full queue or a full disk costs nothing but a longer replay.
            Ok(_) | Err(AppendError::QueueFull | AppendError::NotWritten(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Drops the entries from `from` on, durably.
    pub async fn truncate(&self, from: u64) -> Result<(), LogError> {
        let _turn = self.turn.lock().await;
        let nothing = |live: &LiveLog| {
            live.last().is_none_or(|last| last.index < from)
                || live.purged().is_some_and(|purged| from <= purged.index)
        };
        if self.look(nothing) {
            return Ok(());
        }
        self.durable(&Record::Truncate { from }).await?;
        lock(&self.live).cut(from);
        Ok(())
    }

    /// Gives up the entries up to `purged`, which a snapshot covers. On disk they are kept back to
    /// `floor`, the place of the oldest snapshot that is kept.
    pub async fn purge(&self, purged: Position, floor: Option<Position>) -> Result<(), LogError> {
        let _turn = self.turn.lock().await;
        let known = self.look(LiveLog::purged).is_some_and(|known| known.index >= purged.index);
        if known && self.deferred().is_none() {
            return Ok(());
        }
        let base = self.look(|live| live.base(purged));
        let base_lsn = self.durable(&Record::Base(base)).await?;
        *lock(&self.deferred) = None;
        let needed = {
            let mut live = lock(&self.live);
            let mut marks = lock(&self.marks);
            if !live.set_purged(purged) {
                marks.clear();
            }
            live.forget_through(purged.index);
            let keep = floor.map_or(0, |floor| floor.index + 1).min(purged.index + 1);
            marks.keep_from(keep)
        };
        let before = needed.map_or(base_lsn, |lsn| lsn.min(base_lsn));
        if let Err(error) = self.wal.truncate_before(before).await {
            tracing::warn!(%error, "the beginning of the log could not be removed; the next purge tries again");
        }
        Ok(())
    }

    /// Gives up entries in memory alone: the snapshot that covers them is not on the disk yet, so a
    /// crash must still find the log as it was. If the purge leads over entries that the log never
    /// had, nothing may be appended behind it before `purge` has been called: see `deferred`.
    pub async fn purge_in_memory(&self, purged: Position) {
        let _turn = self.turn.lock().await;
        let mut live = lock(&self.live);
        let leads = live.last().is_some_and(|last| last.index >= purged.index);
        if !live.set_purged(purged) || !leads {
            *lock(&self.deferred) = Some(purged);
        }
        live.forget_through(purged.index);
    }

    /// A purge that has to be made durable before the next append.
    pub fn deferred(&self) -> Option<Position> {
        *lock(&self.deferred)
    }
}
