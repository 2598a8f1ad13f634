//! What owners and workers say to each other, as plain data. The wire (`proto/`) carries the same
//! in its own encoding.
//!
//! Times are durations, never readings of a clock: those of one machine mean nothing on another
//! (R9).

use std::collections::BTreeMap;
use std::time::Duration;

use fence::{Attempt, BootId, Epoch, FencedCommand, JobId, NodeId, ShardKey, WorkflowNo};
use serde::{Deserialize, Serialize};
use stats::wire::StreamKey;

use ledger_state::{AttemptStatus, BlobRef, Counters, Job, LapseProof, Payload, State};
pub use ledger_state::{Steer, Steering};

/// Cores held for a job on one worker until they are dispatched to, or the hold runs out. The
/// number is the owner's own; (job, epoch, number) names one hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReservationId {
    pub job: JobId,
    pub epoch: Epoch,
    pub number: u32,
}

/// What an owner asks of a worker. Everything but [`WorkerRequest::Inspect`] names the life of the
/// worker that it is meant for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerRequest {
    /// First phase: all cores or none, for a time.
    Reserve {
        hold: ReservationId,
        receiver: BootId,
        cores: u32,
        within: Duration,
    },
    /// Gives up what is left of a hold. Cores that were dispatched to are no longer part of it.
    Release {
        hold: ReservationId,
        receiver: BootId,
    },
    /// Second phase: this attempt, on one core of the hold. The worker prepares and says
    /// [`WorkerReport::Ready`].
    Dispatch(Box<Dispatch>),
    /// Begin, this long after the message was received. The owner has taken half the round trip
    /// off.
    ///
    /// `elapsed` is the time in the schedule at that instant. It stands in for the one of the
    /// dispatch: preparing takes its time, and a start may have to be said again.
    Start {
        job: JobId,
        epoch: Epoch,
        receiver: BootId,
        attempts: Vec<(ShardKey, Attempt)>,
        after: Duration,
        elapsed: Duration,
        /// The time of the job itself at that instant, since anything of it first began. Windows of
        /// statistics are numbered by it: a workflow of a later layer begins its schedule at zero,
        /// and its windows do not.
        clock: Duration,
        /// What the attempts begin with: an arrival's number depends on every change of its rate.
        steering: Steering,
    },
    Stop {
        order: FencedCommand,
        how: StopMode,
        reason: String,
    },
    /// All that is in force, not what has changed: one message that arrives makes up for those that
    /// did not. Attempts that are dispatched to this worker afterwards follow it too.
    Steer {
        job: JobId,
        epoch: Epoch,
        receiver: BootId,
        steering: Steering,
    },
    /// The answer to [`WorkerReport::RowsWanted`], committed before it was sent. An empty block:
    /// there are none left.
    Rows {
        shard: ShardKey,
        attempt: Attempt,
        epoch: Epoch,
        receiver: BootId,
        rows: RowBlock,
    },
    /// The attempt may begin iterations below `end`, which is in the ledger. Ends only rise.
    Units {
        shard: ShardKey,
        attempt: Attempt,
        epoch: Epoch,
        receiver: BootId,
        end: u64,
    },
    /// The end report is durable: the outbox may let it go.
    Forget {
        shard: ShardKey,
        attempt: Attempt,
    },
    /// A new owner says its epoch before it acts (R3), and is told what is there, as by
    /// [`WorkerRequest::Inspect`].
    Install {
        job: JobId,
        epoch: Epoch,
        receiver: BootId,
    },
    /// What do you hold? For those who look for orphans.
    Inspect {
        job: Option<JobId>,
    },
}

/// What a worker's present start, in its own words over mutual TLS, proves about one of its earlier
/// lives. Gossip tells of higher boots as well, and proves nothing (R26).
#[must_use]
pub fn lapse_of(life: BootId, own: BootId, since: BootId) -> Option<LapseProof> {
    (since <= life && life < own).then_some(LapseProof::HigherBoot(own))
}

impl WorkerRequest {
    /// Whether a worker can do without it for a while: new work, and who only looks. A worker whose
    /// breaker is open gets none of it. The rest concerns what is there already, and is tried in
    /// any case: stops above all.
    #[must_use]
    pub fn can_wait(&self) -> bool {
        match self {
            Self::Reserve { .. } | Self::Dispatch(_) | Self::Inspect { .. } => true,
            Self::Release { .. }
            | Self::Start { .. }
            | Self::Stop { .. }
            | Self::Steer { .. }
            | Self::Rows { .. }
            | Self::Units { .. }
            | Self::Forget { .. }
            | Self::Install { .. } => false,
        }
    }
}

/// How an attempt is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StopMode {
    /// No new iterations; running ones have the plan's graceful stop.
    Graceful,
    /// Nothing more is sent from now on.
    Now,
}

/// What a shard's attempt does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Task {
    /// A share of a workflow's load.
    Load,
    /// The setup or teardown of the plan itself, or of one of its workflows: at least once per job,
    /// on one core. Its `workflow` is one past the last; what a setup leaves is in its report's
    /// `provided`, by the name of the variable.
    Setup {
        of: Option<WorkflowNo>,
    },
    Teardown {
        of: Option<WorkflowNo>,
    },
}

/// Which core an attempt runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placement {
    /// A core of this hold, its own until it ends.
    Own(ReservationId),
    /// Beside an attempt of the same workflow that runs on this worker, because no other core is
    /// free (R14).
    Shared,
}

/// An attempt, with everything that a worker needs to run it: nothing is fetched but blobs, by
/// hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    pub order: FencedCommand,
    pub placement: Placement,
    pub task: Task,
    /// This is shard `order.shard` of so many of its workflow.
    pub shards: u32,
    /// The bundle: plan, scripts, data files, by content.
    pub bundle: BlobRef,
    /// Values of earlier workflows and of the setup that this one may see, as they were committed.
    pub context: Payload,
    /// How many layers' contexts are committed; a worker refuses a lower one than it has seen of
    /// the job.
    pub context_version: u32,
    /// Where in its schedule the attempt begins: zero, or the job's elapsed time (R5a).
    pub elapsed: Duration,
    /// Units of its schedule (arrivals, or iterations where those are counted) that attempts before
    /// have begun, or may have: they are not begun again.
    pub units_before: u64,
    /// It may begin units below this, until more are granted; `None`: its load is not a number of
    /// iterations.
    pub units_end: Option<u64>,
    pub rows: Vec<RowBlock>,
    /// The attempt is stopped by force if it has not ended by itself this long after its start.
    pub run_at_most: Duration,
    /// Until the job's time is over, if it has a limit.
    pub time_left: Option<Duration>,
    /// L of its execution lease (R4).
    pub lease: Duration,
}

/// Rows `first..end` of a data set that may be issued by one attempt and nobody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RowBlock {
    pub set: u32,
    pub first: u64,
    pub end: u64,
}

/// A worker's answer to an [`WorkerRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerResponse {
    Done,
    /// Stopped: not one request more will be sent for this attempt.
    Stopped {
        report: Option<Box<EndReport>>,
    },
    Holding(Box<WorkerInventory>),
    Refused(WorkerRefusal),
}

/// Why a worker did not do it. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerRefusal {
    /// The fence: another life, another cluster, a lower epoch, an old attempt.
    Fence(fence::FenceRefusal),
    NoCores {
        asked: u32,
        free: u32,
        total: u32,
    },
    UnknownReservation,
    UnknownAttempt,
    /// A context older than one that this worker has seen of the job.
    OldContext {
        seen: u32,
    },
    Draining,
    /// Its disk has no room for what an attempt leaves there.
    DiskFull,
    TooMany {
        what: String,
        limit: u64,
    },
    /// The bundle cannot be had, or cannot be run here (a secret is missing, a version is too new).
    CannotRun {
        why: String,
    },
}

/// What a worker holds, for an owner that has to find out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerInventory {
    pub boot: BootId,
    /// The processes of the lives from this one to before `boot` are certainly gone.
    pub since: BootId,
    pub cores: u32,
    pub cores_free: u32,
    pub draining: bool,
    pub attempts: Vec<HeldAttempt>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldAttempt {
    pub shard: ShardKey,
    pub attempt: Attempt,
    pub epoch: Epoch,
    pub phase: AttemptPhase,
    /// Time in its schedule.
    pub elapsed: Duration,
    /// For how long it has run, pauses included; none if it has not begun, or has ended.
    pub ran: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AttemptPhase {
    Preparing,
    Ready,
    Running,
    Stopping,
    /// Its report is in the outbox and not yet acknowledged.
    Ended,
}

/// What a worker tells the owner of a job, sent until it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerReport {
    /// Prepared: it waits for the common start. What cannot be prepared has ended, with its error.
    Ready {
        shard: ShardKey,
        attempt: Attempt,
    },
    RowsWanted {
        shard: ShardKey,
        attempt: Attempt,
        set: u32,
        at_least: u64,
    },
    /// A threshold or a script asks to end the whole job.
    Abort {
        shard: ShardKey,
        attempt: Attempt,
        reason: String,
    },
    Ended(Box<EndReport>),
    /// The job's time may run out, and there is still progress: a number that only rises. Each
    /// grant is smaller than the one before, and none is made without progress since.
    MoreTime {
        job: JobId,
        worker: NodeId,
        boot: BootId,
        progress: u64,
    },
    /// It drains: what runs ends, nothing new is wanted.
    Draining {
        worker: NodeId,
        boot: BootId,
    },
}

impl WorkerReport {
    /// The job that it is about; a worker that drains tells it of all.
    #[must_use]
    pub fn job(&self) -> Option<JobId> {
        match self {
            Self::Ready { shard, .. }
            | Self::RowsWanted { shard, .. }
            | Self::Abort { shard, .. } => Some(shard.job),
            Self::Ended(report) => Some(report.shard.job),
            Self::MoreTime { job, .. } => Some(*job),
            Self::Draining { .. } => None,
        }
    }
}

/// A manager's acknowledgement of a [`WorkerReport`]. What settles a report comes from the owner:
/// `Start` settles `Ready`, `Rows` settles `RowsWanted`, `Forget` settles `Ended`. Until then it is
/// told again, more slowly once it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReportAck {
    /// The owner has it.
    Taken,
    /// Not mine; ask this one.
    NotOwner { owner: Option<NodeId> },
    /// A linearizable read knows of no such job.
    UnknownJob,
    /// The job has ended, and the ledger has this already: it need not be told again.
    Settled,
}

/// A worker's last word on an attempt; it lies in its outbox until it is durable on the managers'
/// side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndReport {
    pub shard: ShardKey,
    pub attempt: Attempt,
    pub worker: NodeId,
    pub boot: BootId,
    pub status: AttemptStatus,
    /// Without a traceback.
    pub error: Option<String>,
    pub counters: Counters,
    /// Values that the workflow provides to later ones; ignored unless it completed.
    pub provided: BTreeMap<String, Vec<u8>>,
    /// The last frame of its statistics stream: the report is complete when the owner has applied
    /// it.
    pub frames: u64,
    /// The frames of its statistics that were not durable when it ended (`stats::stream::Tail`), to
    /// be stored beside the ledger: whoever has the job's last checkpoint and this has all of it.
    pub totals: Vec<u8>,
    /// The last lines that it wrote, for people.
    pub log: String,
    /// Its counts are all that it did. Not so if its machine was restarted under it: then what its
    /// files say may be older than its death.
    pub certain: bool,
    /// The job's clock (see [`WorkerRequest::Start`]) when the attempt could last send; none if it
    /// never started.
    pub sent_until: Option<Duration>,
}

/// Frames of statistics from one worker, of all its attempts of one job; about ten times a second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameBatch {
    pub job: JobId,
    pub worker: NodeId,
    pub boot: BootId,
    /// Streams that have no receiver yet, or another one than before: where shall they go on?
    pub open: Vec<StreamKey>,
    pub frames: Vec<Vec<u8>>,
}

/// A manager's answer to [`FrameBatch`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FrameBatchAck {
    Taken {
        /// For each that was to be opened: its next frame, or why it is not counted.
        resume: Vec<(StreamKey, Result<u64, String>)>,
        /// By stream: what is applied, and what is durable.
        acks: Vec<(StreamKey, u64, u64)>,
        /// A frame of these was not counted: open them again.
        refused: Vec<(StreamKey, String)>,
    },
    NotOwner {
        owner: Option<NodeId>,
    },
    UnknownJob,
}

/// One message per worker for all its attempts, to any manager, every L/4.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewRequest {
    pub worker: NodeId,
    pub boot: BootId,
    pub attempts: Vec<(ShardKey, Attempt)>,
    /// What the worker has heard of steering: the number of the last change, by job.
    pub steered: Vec<(JobId, u64)>,
}

impl RenewRequest {
    /// R4: what a manager that has just read the ledger, by a majority, answers to each.
    #[must_use]
    pub fn decide(&self, state: &State) -> Vec<(ShardKey, Attempt, Renewal)> {
        let decide = |(shard, attempt): &(ShardKey, Attempt)| {
            let job = state.job(shard.job);
            (*shard, *attempt, self.decide_one(job, state.now_ms(), shard, *attempt))
        };
        self.attempts.iter().map(decide).collect()
    }

    fn decide_one(
        &self,
        job: Option<&Job>,
        now_ms: u64,
        shard: &ShardKey,
        attempt: Attempt,
    ) -> Renewal {
        let refused = |why: &str| Renewal::Refused { why: why.to_owned() };
        let Some(job) = job else { return refused("the job is not known") };
        if job.end.is_some() {
            return refused("the job has ended");
        }
        // R28: the owner stops it as the plan says, and that takes time. The deadline holds whether
        // there is an owner or not.
        if job.cancel.as_ref().is_some_and(|cancel| now_ms >= cancel.lease_until_ms(shard)) {
            return refused("the job is cancelled, and its time to end is over");
        }
        let last = job.shard(shard).and_then(|known| known.last());
        let Some((number, record)) = last else {
            return refused("the ledger knows no such attempt");
        };
        if number != attempt {
            return refused("another attempt has taken its place");
        }
        if (record.worker, record.boot) != (self.worker, self.boot) {
            return refused("it was given to another worker, or to another life of this one");
        }
        if !record.is_live() {
            return refused("it was revoked, or has ended");
        }
        let heard = self.steered.iter().find(|(id, _)| *id == shard.job).map_or(0, |heard| heard.1);
        let steering = (job.steers > heard).then(|| Box::new(job.steering()));
        Renewal::Granted { units_end: record.terms.units_end, steering }
    }
}

/// What a manager's linearizable read said of each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Renewal {
    /// With what the ledger allows it by now: so load goes on while nobody owns the job (R28). And
    /// with what the job is steered to, if that is news: so whoever has not heard of a change sends
    /// for a lease at the longest.
    Granted { units_end: Option<u64>, steering: Option<Box<Steering>> },
    /// Not the current attempt, revoked, or its job has ended: stop.
    Refused { why: String },
}
