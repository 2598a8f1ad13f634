//! The owner of a log: the one place that writes it. Runs on a thread of its own or, in a
//! simulation, as a task.
//!
//! ```text
//! take all that is queued ─▶ encode ─▶ one write per segment ─▶ one flush ─▶ witness ─▶ answer all
//!        ▲                                                                                  │
//!        └──────── what arrived in the meantime is the next batch ◀─────────────────────────┘
//! ```
//!
//! A flush begins at once when somebody waits for it and none is running, so the running flush is
//! the window in which the next batch gathers. Records that nobody waits for are flushed at the
//! latest `flush_interval` after the first of them.
//!
//! The first failed write or flush ends the log: a flush is never tried again, because after a
//! failed one the system may hold lost pages for clean. Everybody who waits is told that the
//! outcome is not known.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use fence::Hlc;
use fence::canary::{self, Canary};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::error::AppendError;
use crate::frame::{FRAME_BYTES, HEAD_BYTES};
use crate::intake::{Item, Phase, Reply, Shared};
use crate::log::{Failure, Log};
use crate::options::{Durability, Lsn};

/// Where the stamps of records come from.
pub type Clock = Box<dyn FnMut() -> Hlc + Send>;

pub(crate) struct Owner {
    log: Log,
    clock: Clock,
    shared: Arc<Shared>,
    durable: watch::Sender<Lsn>,
    /// Waiting for a flush.
    waiting: Vec<(Lsn, Reply)>,
    /// Waiting for a write.
    handed: Vec<(Lsn, Reply)>,
    /// When the first record that nobody waits for has to be written or flushed.
    deadline: Option<Instant>,
    /// Whether the deadline is for a flush or only for a write.
    flush_due: bool,
    unflushed: usize,
    witness_flushed: Instant,
    space_due: Option<Instant>,
    finished: bool,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Dropped in the middle: the runtime is gone or something panicked. Nothing is written
        // here, on purpose: a crash in a simulation is a drop. Those who wait find their answer's
        // sender gone.
        if !self.finished {
            self.shared.end(Phase::Poisoned("the owner of the log was stopped".into()));
        }
    }
}

impl Owner {
    pub fn new(log: Log, clock: Clock, shared: Arc<Shared>, durable: watch::Sender<Lsn>) -> Self {
        Self {
            log,
            clock,
            shared,
            durable,
            waiting: Vec::new(),
            handed: Vec::new(),
            deadline: None,
            flush_due: false,
            unflushed: 0,
            witness_flushed: Instant::now(),
            space_due: None,
            finished: false,
        }
    }

    pub async fn run(mut self) {
        let phase = match self.work().await {
            Ok(()) => Phase::Closed,
            Err(failure) => {
                let why = failure.to_string();
                for (_, reply) in self.waiting.drain(..).chain(self.handed.drain(..)) {
                    let _ = reply.send(Err(AppendError::Indeterminate(why.clone())));
                }
                Phase::Poisoned(why)
            }
        };
        self.finished = true;
        let shared = Arc::clone(&self.shared);
        // The files and the lock go first: who sees the end may open the log again at once.
        drop(self);
        shared.end(phase);
    }

    async fn work(&mut self) -> Result<(), Failure> {
        self.report_space();
        loop {
            let (items, records, bytes, closing) = {
                let mut intake = self.shared.intake();
                let items = std::mem::take(&mut intake.queue);
                (items, intake.records, intake.bytes, intake.phase != Phase::Open)
            };
            if items.is_empty() {
                if closing {
                    self.flush().await?;
                    return self.log.flush_witness();
                }
                self.wait().await;
                self.timers().await?;
                continue;
            }
            let begun = self.batch(items).await;
            self.shared.release(records, bytes);
            begun?;
            self.look_at_space()?;
            self.report_space();
        }
    }

    /// Waits for work or for the next thing that is due.
    async fn wait(&mut self) {
        let witness = self
            .log
            .witness_dirty()
            .then(|| self.witness_flushed + self.shared.options.witness_interval);
        let due = [self.deadline, witness, self.space_due].into_iter().flatten().min();
        tokio::select! {
            biased;
            () = self.shared.wake.notified() => {}
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
    }

    async fn timers(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        if self.deadline.is_some_and(|due| due <= now) {
            self.settle().await?;
        }
        if self.log.witness_dirty()
            && self.witness_flushed + self.shared.options.witness_interval <= now
        {
            self.flush_witness()?;
        }
        self.look_at_space()?;
        self.report_space();
        Ok(())
    }

    fn look_at_space(&mut self) -> Result<(), Failure> {
        if self.space_due.is_some_and(|due| due <= Instant::now()) {
            self.space_due = None;
            self.log.look_at_space()?;
        }
        Ok(())
    }

    async fn batch(&mut self, items: Vec<Item>) -> Result<(), Failure> {
        let shared = Arc::clone(&self.shared);
        let mut items = items.into_iter();
        let result = self.take_in(&shared, &mut items).await;
        if let Err(failure) = &result {
            // What is left of the batch did not get as far as the disk.
            let why = failure.to_string();
            for item in items {
                let reply = match item {
                    Item::Records { reply, .. } => reply,
                    Item::Flush(reply) | Item::Truncate { reply, .. } => Some(reply),
                };
                let _ = reply.map(|reply| reply.send(Err(AppendError::Poisoned(why.clone()))));
            }
        }
        result
    }

    async fn take_in(
        &mut self,
        shared: &Shared,
        items: &mut std::vec::IntoIter<Item>,
    ) -> Result<(), Failure> {
        let mut flush = false;
        let mut write = false;
        shared.meters.batches.fetch_add(1, Relaxed);
        for item in items {
            match item {
                Item::Records { records, last, mode, reply } => {
                    // Registered first, so that a failure below finds whoever waits.
                    let waits = reply.is_some();
                    match reply {
                        Some(reply) if mode >= Durability::Fsync => {
                            self.waiting.push((last, reply));
                        }
                        Some(reply) => self.handed.push((last, reply)),
                        None => {}
                    }
                    for (kind, payload) in records {
                        let hlc = (self.clock)();
                        self.log.stage(kind, &payload, hlc)?;
                        let size = FRAME_BYTES + payload.len();
                        self.unflushed += size;
                        shared.meters.writes.fetch_add(1, Relaxed);
                        shared.meters.bytes.fetch_add(size as u64, Relaxed);
                        if mode == Durability::Fsync {
                            self.flush().await?;
                        }
                    }
                    debug_assert_eq!(
                        self.log.last_lsn(),
                        last,
                        "the intake and the log count alike"
                    );
                    match mode {
                        Durability::None => write |= waits,
                        Durability::Flush => write = true,
                        Durability::Fsync => {}
                        Durability::FsyncBatch => {
                            flush |= waits;
                            self.flush_due = true;
                            write = true;
                        }
                    }
                    if self.deadline.is_none() && !self.log.is_durable() {
                        self.deadline = Some(Instant::now() + shared.options.flush_interval);
                    }
                }
                Item::Flush(reply) => {
                    self.waiting.push((self.log.last_lsn(), reply));
                    flush = true;
                }
                Item::Truncate { before, reply } => {
                    let gone = match self.log.truncate_before(before) {
                        Ok(gone) => gone as u64,
                        Err(failure) => {
                            let why = failure.to_string();
                            let _ = reply.send(Err(AppendError::Indeterminate(why)));
                            return Err(failure);
                        }
                    };
                    shared.meters.truncated_segments.fetch_add(gone, Relaxed);
                    let _ = reply.send(Ok(gone));
                    self.log.look_at_space()?;
                }
            }
        }
        let full = self.unflushed >= shared.options.flush_bytes;
        let late = self.deadline.is_some_and(|due| due <= Instant::now());
        if flush {
            self.flush().await
        } else if full || late {
            self.settle().await
        } else if write {
            self.write()
        } else {
            Ok(())
        }
    }

    fn write(&mut self) -> Result<(), Failure> {
        self.log.write()?;
        for (lsn, reply) in self.handed.drain(..) {
            let _ = reply.send(Ok(lsn));
        }
        Ok(())
    }

    /// What the deadline asks for: a flush if the mode promises one, else a write.
    async fn settle(&mut self) -> Result<(), Failure> {
        if self.flush_due {
            return self.flush().await;
        }
        self.deadline = None;
        self.unflushed = 0;
        self.write()
    }

    /// Makes everything that is staged durable, and answers.
    async fn flush(&mut self) -> Result<(), Failure> {
        self.write()?;
        if canary::active(Canary::AckBeforeFsync) {
            // The known bug: answered now, flushed when the deadline comes.
            let bold = std::mem::take(&mut self.waiting);
            if !bold.is_empty() {
                for (lsn, reply) in bold {
                    let _ = reply.send(Ok(lsn));
                }
                return Ok(());
            }
        }
        if !self.log.is_durable() {
            let begun = Instant::now();
            let delay = self.log.disk.pending_delay();
            if !delay.is_zero() {
                sleep(delay).await;
            }
            let durable = self.log.sync()?;
            self.shared.meters.flushed(begun.elapsed());
            let noted = self.log.witness();
            self.answer(durable);
            noted?;
            if self.witness_flushed.elapsed() >= self.shared.options.witness_interval {
                self.flush_witness()?;
            }
        }
        self.answer(self.log.durable_lsn());
        self.deadline = None;
        self.flush_due = false;
        self.unflushed = 0;
        Ok(())
    }

    fn answer(&mut self, durable: Lsn) {
        self.durable.send_if_modified(|known| {
            let risen = *known < durable;
            *known = durable.max(*known);
            risen
        });
        for (lsn, reply) in self.waiting.extract_if(.., |(lsn, _)| *lsn <= durable) {
            let _ = reply.send(Ok(lsn));
        }
    }

    fn flush_witness(&mut self) -> Result<(), Failure> {
        self.log.flush_witness()?;
        self.witness_flushed = Instant::now();
        Ok(())
    }

    /// Tells the intake how much may still be taken.
    fn report_space(&mut self) {
        let options = &self.shared.options;
        let low = self.log.space.low;
        self.shared.meters.low_space.store(low, Relaxed);
        self.shared.meters.segments.store(self.log.segments() as u64, Relaxed);
        let mut intake = self.shared.intake();
        if low {
            let largest = FRAME_BYTES as u64 + u64::from(options.max_record_bytes);
            let here = self.log.room();
            let each = options.segment_bytes.saturating_sub(HEAD_BYTES as u64 + largest);
            let later = self.log.space.segments_left(options) * each;
            let certain = here.max(here.saturating_sub(largest) + later);
            intake.room = Some(certain.saturating_sub(intake.bytes));
        } else {
            intake.room = None;
        }
        // Others write to this disk too, so it is looked at regularly, low or not.
        self.space_due.get_or_insert(Instant::now() + options.space_check);
    }
}
