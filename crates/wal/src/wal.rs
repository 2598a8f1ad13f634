//! The handle of a running log, shared by all who append.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{SemaphorePermit, oneshot, watch};

use crate::disk::Disk;
use crate::error::AppendError;
use crate::frame::FRAME_BYTES;
use crate::intake::{Item, Phase, Shared};
use crate::log::Log;
use crate::metrics::Metrics;
use crate::options::{Durability, LogIdentity, Lsn};
use crate::owner::{Clock, Owner};
use crate::reader::Reader;

/// How an append differs from what is usual for its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppendOptions {
    /// Another durability than the log's.
    pub durability: Option<Durability>,
    /// May use the last of the disk: for records that end work rather than begin it.
    pub essential: bool,
    /// How long to wait for room in the queue; `None` without limit, zero not at all.
    pub wait: Option<Duration>,
}

impl AppendOptions {
    /// For records that must be taken while space is low.
    #[must_use]
    pub fn essential() -> Self {
        Self { essential: true, ..Self::default() }
    }
}

/// A running log. Clones are the same log; when the last one goes, what was accepted is still
/// written and flushed.
#[derive(Clone)]
pub struct Wal {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    identity: LogIdentity,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.begin_close();
    }
}

/// An append that was accepted: resolves when its flush has succeeded or failed. May be dropped;
/// the record stays.
pub struct Pending(oneshot::Receiver<Result<Lsn, AppendError>>);

impl Future for Pending {
    type Output = Result<Lsn, AppendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|answer| {
            answer.unwrap_or_else(|_| {
                Err(AppendError::Indeterminate("the owner of the log was stopped".into()))
            })
        })
    }
}

impl Wal {
    /// Runs the log on a thread of its own.
    #[must_use]
    pub fn start_thread(log: Log, clock: Clock) -> Self {
        let (wal, owner) = Self::assemble(log, clock);
        let shared = Arc::clone(&wal.handle.shared);
        let spawned = tokio::runtime::Builder::new_current_thread().enable_time().build().and_then(
            |runtime| {
                let run = move || runtime.block_on(owner.run());
                std::thread::Builder::new().name("wal".into()).spawn(run)
            },
        );
        if let Err(error) = spawned {
            shared.end(Phase::Poisoned(format!("the log's thread was not started: {error}")));
        }
        wal
    }

    /// Runs the log as a task of the present runtime, which then does the disk's work too. For
    /// simulations.
    #[must_use]
    pub fn start_task(log: Log, clock: Clock) -> Self {
        let (wal, owner) = Self::assemble(log, clock);
        tokio::spawn(owner.run());
        wal
    }

    fn assemble(log: Log, clock: Clock) -> (Self, Owner) {
        let (sender, durable) = watch::channel(log.durable_lsn());
        let shared = Shared::new(log.options.clone(), log.last_lsn(), durable);
        shared.meters.torn_cuts.store(u64::from(log.was_torn()), Relaxed);
        let shared = Arc::new(shared);
        let handle = Handle {
            shared: Arc::clone(&shared),
            disk: Arc::clone(&log.disk),
            folder: log.folder.clone(),
            identity: log.identity,
        };
        (Self { handle: Arc::new(handle) }, Owner::new(log, clock, shared, sender))
    }

    /// Appends a record; waits for room in the queue. Accepted is not durable: that follows by the
    /// log's mode.
    pub async fn append(&self, kind: u8, payload: Vec<u8>) -> Result<Lsn, AppendError> {
        self.accept(vec![(kind, payload)], AppendOptions::default()).await
    }

    /// Appends a record if there is room at this moment.
    pub fn try_append(&self, kind: u8, payload: Vec<u8>) -> Result<Lsn, AppendError> {
        self.try_append_with(kind, payload, AppendOptions::default())
    }

    /// As `try_append`, with options; it never waits.
    pub fn try_append_with(
        &self,
        kind: u8,
        payload: Vec<u8>,
        options: AppendOptions,
    ) -> Result<Lsn, AppendError> {
        let records = vec![(kind, payload)];
        let (count, bytes) = self.measure(&records)?;
        let permits = self.permits_now(count, bytes)?;
        self.put(records, bytes, permits, options, false).map(|(lsn, _)| lsn)
    }

    /// Appends a record; waits for room in the queue for this long at most.
    pub async fn append_timeout(
        &self,
        kind: u8,
        payload: Vec<u8>,
        wait: Duration,
    ) -> Result<Lsn, AppendError> {
        let options = AppendOptions { wait: Some(wait), ..AppendOptions::default() };
        self.accept(vec![(kind, payload)], options).await
    }

    /// Appends records that follow each other and waits for the flush that covers them. Returns the
    /// LSN of the last; with no records, it waits for what was accepted before.
    ///
    /// The records are not atomic: after a crash before the answer a part of them, from the first
    /// on, may be there.
    pub async fn append_durable(&self, records: Vec<(u8, Vec<u8>)>) -> Result<Lsn, AppendError> {
        self.enqueue_durable(records).await?.await
    }

    /// Puts records into the queue (waiting for room only) and returns what waits for their flush.
    /// The order of calls is the order in the log.
    pub async fn enqueue_durable(
        &self,
        records: Vec<(u8, Vec<u8>)>,
    ) -> Result<Pending, AppendError> {
        self.enqueue_with(records, AppendOptions::default()).await
    }

    /// As `enqueue_durable`, if there is room at this moment.
    pub fn try_enqueue_durable(&self, records: Vec<(u8, Vec<u8>)>) -> Result<Pending, AppendError> {
        if records.is_empty() {
            return self.put_control(self.permits_now(1, 0)?, Item::Flush);
        }
        let (count, bytes) = self.measure(&records)?;
        let permits = self.permits_now(count, bytes)?;
        let options = AppendOptions { durability: Some(self.durable_mode()), ..Default::default() };
        self.put(records, bytes, permits, options, true).map(|(_, pending)| pending)
    }

    /// As `enqueue_durable`, with options. The answer comes when the asked durability is reached.
    pub async fn enqueue_with(
        &self,
        records: Vec<(u8, Vec<u8>)>,
        options: AppendOptions,
    ) -> Result<Pending, AppendError> {
        if records.is_empty() {
            let permits = self.permits(1, 0, options.wait).await?;
            return self.put_control(permits, Item::Flush);
        }
        let durability = options.durability.unwrap_or_else(|| self.durable_mode());
        let options = AppendOptions { durability: Some(durability), ..options };
        let (count, bytes) = self.measure(&records)?;
        let permits = self.permits(count, bytes, options.wait).await?;
        self.put(records, bytes, permits, options, true).map(|(_, pending)| pending)
    }

    /// Waits until everything accepted before this call is durable. Returns the durable LSN.
    pub async fn flush(&self) -> Result<Lsn, AppendError> {
        let permits = self.permits(1, 0, None).await?;
        self.put_control(permits, Item::Flush)?.await
    }

    /// Removes whole segments all of whose records are below `lsn`. Returns how many.
    pub async fn truncate_before(&self, lsn: Lsn) -> Result<u64, AppendError> {
        let permits = self.permits(1, 0, None).await?;
        self.put_control(permits, |reply| Item::Truncate { before: lsn, reply })?.await
    }

    /// Takes nothing more, writes and flushes what was accepted, closes the files. May be called
    /// again.
    pub async fn close(&self) -> Result<(), AppendError> {
        self.handle.shared.begin_close();
        let mut ended = self.handle.shared.ended.subscribe();
        // The sender lives in `shared`, which this handle holds, so this cannot fail.
        let _ = ended.wait_for(|ended| *ended).await;
        match self.poisoned() {
            Some(why) => Err(AppendError::Poisoned(why)),
            None => Ok(()),
        }
    }

    /// The last record that is certainly on the disk, as it rises. Its sender is gone when the log
    /// has ended.
    #[must_use]
    pub fn durable_lsn(&self) -> watch::Receiver<Lsn> {
        self.handle.shared.durable.clone()
    }

    /// Reads this log while it runs. See `Reader::follow`, or keep to `durable_lsn`.
    #[must_use]
    pub fn reader(&self) -> Reader {
        let Handle { disk, folder, identity, .. } = &*self.handle;
        Reader::new(Arc::clone(disk), folder.clone(), *identity)
    }

    /// Why the log takes nothing more, if it has failed.
    #[must_use]
    pub fn poisoned(&self) -> Option<String> {
        match &self.handle.shared.intake().phase {
            Phase::Poisoned(why) => Some(why.clone()),
            _ => None,
        }
    }

    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let shared = &self.handle.shared;
        let mut metrics = shared.meters.read();
        metrics.durable_lsn = *shared.durable.borrow();
        let intake = shared.intake();
        metrics.queue_records = intake.records;
        metrics.queue_bytes = intake.bytes;
        metrics.poisoned = matches!(intake.phase, Phase::Poisoned(_));
        metrics
    }

    /// What "durable" means in this log: its own mode if that flushes, else a shared flush.
    fn durable_mode(&self) -> Durability {
        match self.handle.shared.options.durability {
            Durability::Fsync => Durability::Fsync,
            _ => Durability::FsyncBatch,
        }
    }

    async fn accept(
        &self,
        records: Vec<(u8, Vec<u8>)>,
        options: AppendOptions,
    ) -> Result<Lsn, AppendError> {
        let (count, bytes) = self.measure(&records)?;
        let permits = self.permits(count, bytes, options.wait).await?;
        self.put(records, bytes, permits, options, false).map(|(lsn, _)| lsn)
    }

    /// The room that records need, or why they can never have it.
    fn measure(&self, records: &[(u8, Vec<u8>)]) -> Result<(usize, usize), AppendError> {
        let options = &self.handle.shared.options;
        let limit = options.max_record_bytes as usize;
        if let Some((_, payload)) = records.iter().find(|(_, payload)| payload.len() > limit) {
            return Err(AppendError::TooLarge { bytes: payload.len(), limit });
        }
        let bytes = records.iter().map(|(_, payload)| FRAME_BYTES + payload.len()).sum();
        if bytes > options.queue_bytes {
            return Err(AppendError::TooLarge { bytes, limit: options.queue_bytes });
        }
        if records.len() > options.queue_records {
            return Err(AppendError::TooLarge {
                bytes: records.len(),
                limit: options.queue_records,
            });
        }
        Ok((records.len(), bytes))
    }

    fn permits_now(&self, count: usize, bytes: usize) -> Result<Permits<'_>, AppendError> {
        let shared = &self.handle.shared;
        let records = shared.records.try_acquire_many(count as u32);
        let bytes = shared.bytes.try_acquire_many(bytes as u32);
        match (records, bytes) {
            (Ok(records), Ok(bytes)) => Ok(Permits { records, bytes }),
            (Err(tokio::sync::TryAcquireError::Closed), _)
            | (_, Err(tokio::sync::TryAcquireError::Closed)) => Err(shared.refusal()),
            _ => {
                shared.meters.queue_full.fetch_add(1, Relaxed);
                Err(AppendError::QueueFull)
            }
        }
    }

    async fn permits(
        &self,
        count: usize,
        bytes: usize,
        wait: Option<Duration>,
    ) -> Result<Permits<'_>, AppendError> {
        if wait == Some(Duration::ZERO) {
            return self.permits_now(count, bytes);
        }
        let shared = &self.handle.shared;
        let both = async {
            let records = shared.records.acquire_many(count as u32).await?;
            let bytes = shared.bytes.acquire_many(bytes as u32).await?;
            Ok::<_, tokio::sync::AcquireError>(Permits { records, bytes })
        };
        let permits = match wait {
            None => both.await,
            Some(wait) => match tokio::time::timeout(wait, both).await {
                Ok(permits) => permits,
                Err(_) => {
                    shared.meters.queue_full.fetch_add(1, Relaxed);
                    return Err(AppendError::QueueFull);
                }
            },
        };
        permits.map_err(|_| shared.refusal())
    }

    /// Puts records into the queue. The room is there, so this does not wait; it refuses only
    /// before anything happened.
    fn put(
        &self,
        records: Vec<(u8, Vec<u8>)>,
        bytes: usize,
        permits: Permits<'_>,
        options: AppendOptions,
        waits: bool,
    ) -> Result<(Lsn, Pending), AppendError> {
        let shared = &self.handle.shared;
        let mode = options.durability.unwrap_or(shared.options.durability);
        let (sender, receiver) = oneshot::channel();
        let mut intake = shared.intake();
        match &intake.phase {
            Phase::Open => {}
            Phase::Poisoned(why) => return Err(AppendError::Poisoned(why.clone())),
            Phase::Closing | Phase::Closed => return Err(AppendError::Shutdown),
        }
        if let Some(room) = &mut intake.room {
            let why = match options.essential {
                false => Some("disk space is low; free some, it goes on by itself"),
                true if *room < bytes as u64 => Some("the disk is full and the reserve is used up"),
                true => None,
            };
            if let Some(why) = why {
                shared.meters.no_space.fetch_add(1, Relaxed);
                return Err(AppendError::NotWritten(why.into()));
            }
            *room -= bytes as u64;
        }
        intake.next_lsn += records.len() as u64;
        let last = intake.next_lsn - 1;
        intake.records += records.len() as u64;
        intake.bytes += bytes as u64;
        let reply = waits.then_some(sender);
        intake.queue.push(Item::Records { records, last, mode, reply });
        permits.spend();
        drop(intake);
        shared.wake.notify_one();
        Ok((last, Pending(receiver)))
    }

    fn put_control(
        &self,
        permits: Permits<'_>,
        item: impl FnOnce(oneshot::Sender<Result<Lsn, AppendError>>) -> Item,
    ) -> Result<Pending, AppendError> {
        let shared = &self.handle.shared;
        let (sender, receiver) = oneshot::channel();
        let mut intake = shared.intake();
        match &intake.phase {
            Phase::Open => {}
            Phase::Poisoned(why) => return Err(AppendError::Poisoned(why.clone())),
            Phase::Closing | Phase::Closed => return Err(AppendError::Shutdown),
        }
        intake.records += 1;
        intake.queue.push(item(sender));
        permits.spend();
        drop(intake);
        shared.wake.notify_one();
        Ok(Pending(receiver))
    }
}

/// Room in the queue. Given back if the append is abandoned before it is put in.
struct Permits<'a> {
    records: SemaphorePermit<'a>,
    bytes: SemaphorePermit<'a>,
}

impl Permits<'_> {
    /// The room is in use now; the owner gives it back.
    fn spend(self) {
        self.records.forget();
        self.bytes.forget();
    }
}
