//! Where producers and the owner meet: a queue bounded in records and bytes, and the state of the
//! log.
//!
//! A producer first gets its room (waiting, up to a deadline, or not at all) and then puts its
//! records in, which cannot fail or block. So a refusal always means "not written", and nothing is
//! accepted that is not answered. LSNs are given under the same short lock that fixes the order in
//! the queue; the queue's order is the order in the file.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore, oneshot, watch};

use crate::error::AppendError;
use crate::metrics::Meters;
use crate::options::{Durability, Lsn, Options};

pub(crate) type Reply = oneshot::Sender<Result<Lsn, AppendError>>;

pub(crate) enum Item {
    Records { records: Vec<(u8, Vec<u8>)>, last: Lsn, mode: Durability, reply: Option<Reply> },
    Flush(Reply),
    Truncate { before: Lsn, reply: Reply },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// Nothing more is taken; what is there is being written.
    Closing,
    Closed,
    Poisoned(String),
}

pub(crate) struct Intake {
    pub next_lsn: Lsn,
    pub queue: Vec<Item>,
    /// Accepted and not yet done with: queued, or in the owner's hands.
    pub records: u64,
    pub bytes: u64,
    pub phase: Phase,
    /// With space low: how many more bytes of essential records are certain to fit.
    pub room: Option<u64>,
}

pub(crate) struct Shared {
    intake: Mutex<Intake>,
    pub wake: Notify,
    pub records: Semaphore,
    pub bytes: Semaphore,
    pub options: Options,
    /// The owner holds the sender, so that who follows sees the end when the owner ends.
    pub durable: watch::Receiver<Lsn>,
    /// Turns true when the owner has ended.
    pub ended: watch::Sender<bool>,
    pub meters: Meters,
}

impl Shared {
    pub fn new(options: Options, last: Lsn, durable: watch::Receiver<Lsn>) -> Self {
        Self {
            intake: Mutex::new(Intake {
                next_lsn: last + 1,
                queue: Vec::new(),
                records: 0,
                bytes: 0,
                phase: Phase::Open,
                room: None,
            }),
            wake: Notify::new(),
            records: Semaphore::new(options.queue_records),
            bytes: Semaphore::new(options.queue_bytes),
            durable,
            ended: watch::channel(false).0,
            meters: Meters::default(),
            options,
        }
    }

    pub fn intake(&self) -> MutexGuard<'_, Intake> {
        // Nothing can panic while it is held; if it did, the data would still be whole.
        self.intake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why nothing is taken any more.
    pub fn refusal(&self) -> AppendError {
        match &self.intake().phase {
            Phase::Poisoned(why) => AppendError::Poisoned(why.clone()),
            _ => AppendError::Shutdown,
        }
    }

    /// Stops the intake; the owner writes what is there and ends.
    pub fn begin_close(&self) {
        let mut intake = self.intake();
        if intake.phase == Phase::Open {
            intake.phase = Phase::Closing;
        }
        drop(intake);
        self.records.close();
        self.bytes.close();
        self.wake.notify_one();
    }

    /// The end of the log's use. What is still queued was never written.
    pub fn end(&self, phase: Phase) {
        let left = {
            let mut intake = self.intake();
            if !matches!(intake.phase, Phase::Poisoned(_) | Phase::Closed) {
                intake.phase = phase;
            }
            std::mem::take(&mut intake.queue)
        };
        let why = self.refusal();
        for item in left {
            let reply = match item {
                Item::Records { reply, .. } => reply,
                Item::Flush(reply) | Item::Truncate { reply, .. } => Some(reply),
            };
            // Nobody waiting any more is no error.
            let _ = reply.map(|reply| reply.send(Err(why.clone())));
        }
        self.records.close();
        self.bytes.close();
        self.ended.send_replace(true);
    }

    /// A batch is done with: its room is free again.
    pub fn release(&self, records: u64, bytes: u64) {
        let mut intake = self.intake();
        intake.records -= records;
        intake.bytes -= bytes;
        drop(intake);
        self.records.add_permits(records as usize);
        self.bytes.add_permits(bytes as usize);
    }
}
