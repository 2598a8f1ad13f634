//! The owner of one job: everything that is decided about it is decided here, in one place, one event at a time (R8).
//!
//! ```text
//!  adopt ─▶ Recovering ─all known─▶ Active ─machine says Finish─▶ Concluding ─▶ Recording ─▶ Finishing ─▶ Finished
//!               │                     │                                         (any refusal for the epoch)
//!               └─────────────────────┴────────────────────────────────────────────────────────────────▶ Deposed
//!
//!  a wave:  Seating ─all holds─▶ Provisioning ─▶ Dispatching ─all ready─▶ Beginning ─▶ Running ─▶ over
//!              ▲ one refusal: all released, later again                                   │ lost? seated anew
//! ```
//!
//! - [`schedule::job::Job`] says what comes when on the level of workflows: layers, skips, the outcome. Below it, here,
//!   are **batches** (those workflows of a layer that the pool can run together, X9), and **waves**: the shards that
//!   are prepared and started together. Setups and teardowns are waves of one shard each.
//! - Rights come from the ledger. `StartAttempt` is committed before a dispatch, `BeginLoad` before a start, and a
//!   layer's context before anything of the next one (EXEC-182).
//! - There is one way in: [`Owner::adopt`] builds the owner from what the ledger holds, which is nothing for a new job.
//!
//! **Invariant:** what arrives late, twice or for something that is over changes nothing but a counter.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use fence::{Attempt, BootId, Epoch, JobId, Moment, NodeId, ShardKey};
use stats::Outcome;

use crate::message::{EndReport, Halt, Hold, RowBlock, Steer};
use crate::pool::Pool;
use crate::timeouts::Timeouts;
use base::random::SplitMix64;
use ledger_state::{BlobRef, Command, StopCause};
use schedule::job;

mod adopt;
mod again;
mod amend;
mod answers;
mod begin;
mod cancel;
pub mod check;
mod close;
pub mod context;
mod event;
mod gaps;
mod halt;
mod holdings;
mod layer;
mod loss;
mod manifest;
mod probe;
mod rates;
mod recover;
mod repeats;
mod report;
mod room;
mod rows;
mod seat;
mod settings;
mod shard;
mod silence;
mod steer;
mod straggle;
mod talk;
mod tools;
mod units;
mod unrun;
mod view;
mod wave;

pub use adopt::Adoption;
pub use event::{
    Conclusion, Conclusive, Effect, Event, Gap, Mended, NoAnswer, Note, Queued, Unrun,
};
pub use manifest::{
    DataPart, Manifest, OnWorkerLoss, Part, Policy, Provided, WhenFull, WhenNoneLeft,
};
pub use rates::LoadNow;
pub use report::{decode_report, encode_report};
pub use settings::Settings;
pub use shard::{State as ShardState, Transition};
pub use tools::blob_of;

use context::Values;
use shard::{Shard, State, Step};
use wave::{Batch, Wave};

/// Workflow and shard by number. Setups and teardowns have the number after the last workflow.
type Sid = (u32, u32);

/// How often something happened that should not, or that did nothing (LIFE-2, R10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transitions that the table does not have.
    pub illegal: u64,
    /// Events for what is over, or unknown.
    pub late: u64,
    pub repeats: u64,
    pub retries: u64,
    pub lost_workers: u64,
    /// Reports and answers that do not fit what was asked of that worker.
    pub lies: u64,
    /// Lines of the history and of the timeline that there was no room for.
    pub dropped: u64,
    pub unknown_commits: u64,
}

/// In the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Recovering {
        until: Moment,
    },
    Active,
    /// Waits for the last words of lost attempts, then for the result.
    Closing,
    Concluding,
    Recording,
    Finishing,
    Finished,
    Deposed,
}

/// What a commit is for.
#[derive(Clone, Debug, PartialEq)]
enum Purpose {
    Provision,
    Start(Sid),
    Begin,
    Revoke(Sid, Attempt),
    End(Sid, Attempt),
    Context(Values),
    Stop,
    Steer { asked: u64, steer: Steer },
    Rows { sid: Sid, attempt: Attempt, set: u32 },
    Units(Vec<(Sid, Attempt, u64)>),
    Extend,
    Result,
    Finish,
}

/// What a worker is asked for.
#[derive(Clone, Debug, PartialEq)]
enum Errand {
    Reserve(u32),
    Release(Hold, NodeId, BootId),
    Dispatch(Sid, Attempt),
    Start {
        worker: NodeId,
        boot: BootId,
        attempts: Vec<(Sid, Attempt)>,
    },
    Stop(Sid, Attempt),
    /// All that is in force, under this number.
    Steer {
        worker: NodeId,
        boot: BootId,
        number: u64,
    },
    Rows {
        sid: Sid,
        attempt: Attempt,
        rows: RowBlock,
    },
    /// How far an attempt may go by now.
    Units(Sid, Attempt),
    Forget(ShardKey, Attempt, NodeId),
    Install(NodeId, BootId),
    Scan(NodeId, BootId),
    /// How many cores are free there.
    Room(NodeId),
    /// Whether it is there at all.
    Probe(NodeId, BootId),
}

/// What is stored or fetched.
#[derive(Clone, Debug, PartialEq)]
enum Parcel {
    /// A report on its way to the ledger.
    Report(Sid, Attempt),
    /// A stage's values.
    Context(Values),
    /// A committed stage's values, for a new owner.
    Committed,
    /// A shard's report, for a new owner.
    Known(Sid),
}

/// Cores that were asked of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    worker: NodeId,
    boot: BootId,
    cores: u32,
    /// Those that it is for. Empty while a whole wave is being seated.
    shards: Vec<Sid>,
    granted: bool,
    /// Somebody it was for does not need it any more.
    surplus: bool,
    /// When it should be renewed.
    renew: Moment,
}

/// The owner of one job. See the module's header.
#[derive(Clone, Debug)]
pub struct Owner {
    id: JobId,
    /// By the ledger's time.
    created_ms: u64,
    epoch: Epoch,
    bundle: BlobRef,
    manifest: Manifest,
    settings: Settings,
    dice: SplitMix64,
    machine: job::Job,
    phase: Phase,
    now: Moment,
    pool: Pool,
    /// When the pool was last what the workers' heartbeats say.
    hinted: Moment,
    /// How many cores the fleet has, and since when it has that many.
    cores: (u32, Moment),
    /// Whether it is this job's turn to take cores; `None` until that is known.
    turn: Option<bool>,
    /// The machine was told to start: there was room for the first time.
    started: bool,
    cancelling: Option<cancel::Cancelling>,

    shards: BTreeMap<Sid, Shard>,
    /// How many shards a workflow was divided into.
    divided: BTreeMap<usize, u32>,
    setup_due: bool,
    teardown_due: bool,
    /// Workflows of the present layer that have no batch yet.
    waiting: Vec<usize>,
    /// Those of them whose own setup has run.
    set_up: BTreeSet<usize>,
    batch: Option<Batch>,
    wave: Option<Wave>,
    /// Why nothing runs, as it was last said.
    queued: Option<Queued>,
    began: Option<Duration>,
    /// How far the schedule of a workflow was when the last of its shards was over.
    reached: BTreeMap<usize, Duration>,
    spans: BTreeMap<usize, (Duration, Duration)>,

    /// How many stages are committed; what they hold; and what the present ones have provided.
    committed: u32,
    committing: bool,
    values: Values,
    fresh: BTreeMap<u32, Values>,
    provided: BTreeMap<usize, BTreeMap<u32, BTreeMap<String, Vec<u8>>>>,
    /// What workflows' own setups have left to their shards.
    own_setups: BTreeMap<usize, BTreeMap<String, Vec<u8>>>,
    /// Attempts whose statistics are being closed.
    sealing: BTreeSet<(Sid, Attempt)>,

    /// What is in force, the number of its last change, and which number each worker has acknowledged.
    steered: Vec<rates::InForce>,
    /// The number of changes so far, as the ledger counts them; and which of them is the last pause.
    steers: u64,
    pause_number: u64,
    steer_heard: BTreeMap<(NodeId, BootId), u64>,
    /// Changes that wait to be written, and clients that wait until everybody has heard.
    steer_queue: VecDeque<(u64, Steer)>,
    steer_asked: Vec<steer::Asked>,
    paused: Option<Moment>,
    /// Rows that are on their way, and how many were wanted again meanwhile.
    rows: BTreeMap<(Sid, u32), Option<u64>>,
    /// Grants of units are on their way into the ledger.
    granting: bool,
    /// Units that were begun, or may have been, and that nobody has counted.
    lost_units: BTreeMap<(Sid, Attempt), u64>,
    rtts: BTreeMap<NodeId, Duration>,
    scan_at: Moment,
    absent: BTreeSet<(Sid, Attempt)>,
    doubts: probe::Doubts,

    timeouts: Timeouts,
    outcome: Option<Outcome>,
    detail: String,
    result: Option<BlobRef>,
    stop_proposed: bool,
    stop_cause: Option<(StopCause, String)>,
    /// How what runs is ended, once it is.
    halting: Halt,

    tags: u64,
    commits: BTreeMap<u64, Purpose>,
    backlog: VecDeque<(u64, Command)>,
    in_flight: usize,
    errands: BTreeMap<u64, (Errand, u32, NodeId)>,
    later: BTreeMap<(Moment, u64), (Errand, u32)>,
    parcels: BTreeMap<u64, Parcel>,
    reports: BTreeMap<(Sid, Attempt), EndReport>,
    holds: BTreeMap<u32, Held>,
    hold_numbers: u32,
    recovery: recover::Recovery,

    history: Vec<Transition>,
    timeline: Vec<Note>,
    /// The highest place in the log at which something of this job is known to be.
    seen: Option<Epoch>,
    cut: Vec<(ShardKey, Attempt)>,
    unheard: Vec<(ShardKey, Attempt)>,
    counts: Counts,
    /// Rises with every change, so that driving stops when nothing changes any more.
    changes: u64,
    out: Vec<Effect>,
}

impl Owner {
    /// One event, and what is to be done about it. `now` is CLOCK_BOOTTIME of this host (R4) and never goes back.
    pub fn step(&mut self, event: Event, now: Moment) -> Vec<Effect> {
        let before = self.now;
        self.now = before.max(now);
        self.stood_still(before);
        if self.phase == Phase::Deposed {
            self.counts.late += 1;
            return Vec::new();
        }
        // The most frequent one by far, and it moves nothing but numbers.
        if let Event::Progress { shard, attempt, counters, told } = event {
            if self.progress(shard, attempt, counters, told) {
                self.send_commits();
            }
            return std::mem::take(&mut self.out);
        }
        match event {
            Event::Committed { tag, reply } => self.committed(tag, reply),
            Event::Unknown { tag } => self.unknown(tag),
            Event::Answered { tag, answer, took } => self.answered(tag, answer, took),
            Event::Unanswered { tag, why } => self.unanswered(tag, why),
            Event::Told(tell) => self.told(tell),
            Event::Stored { tag } => self.stored(tag),
            Event::Fetched { tag, content } => self.fetched(tag, &content),
            Event::Sealed { shard, attempt, counters, frames, totals } => {
                self.sealed(shard, attempt, counters, frames, totals);
            }
            Event::Workers(workers) => {
                self.pool.see(workers);
                self.hinted = self.now;
                if self.cores.0 != self.pool.total() {
                    self.cores = (self.pool.total(), self.now);
                }
                self.look_at_workers();
            }
            Event::Renewed { worker, boot, attempts } => self.renewed(worker, boot, &attempts),
            Event::LedgerTime { now_ms } => self.ledger_time(now_ms),
            Event::Turn(turn) => self.turn = Some(turn),
            Event::Threshold { number, reason } => self.threshold(number, reason),
            Event::CancelSeen { reason, hard, within } => self.cancel_seen(&reason, hard, within),
            Event::Steer { asked, steer } => self.steer(asked, steer),
            Event::Concluded { result } => self.concluded(result),
            Event::Progress { .. } | Event::Tick => {}
        }
        self.drive();
        std::mem::take(&mut self.out)
    }

    /// Does what is due, until nothing is.
    fn drive(&mut self) {
        loop {
            let before = self.changes;
            match self.phase {
                Phase::Deposed => return,
                Phase::Recovering { until } => self.recover(until),
                Phase::Active => {
                    self.look_at_the_clock();
                    self.look_at_silence();
                    self.ask_back();
                    self.look_at_shards();
                    self.look_at_holds();
                    self.drive_wave();
                }
                Phase::Closing => {
                    self.look_at_shards();
                    self.close();
                }
                Phase::Concluding | Phase::Recording | Phase::Finishing | Phase::Finished => {}
            }
            if before == self.changes {
                break;
            }
        }
        self.resend();
        self.scan();
        self.answer_steers();
        let moving = self.paused.is_none()
            && self.shards.values().any(|shard| shard.is_out() || shard.state == State::Cancelling);
        self.timeouts.set_running(moving, self.now);
        self.send_commits();
    }

    fn send_commits(&mut self) {
        while self.in_flight < self.settings.commits_at_once {
            let Some((tag, command)) = self.backlog.pop_front() else { break };
            self.in_flight += 1;
            self.out.push(Effect::Commit { tag, command });
        }
    }

    /// When to come with [`Event::Tick`] if nothing else happens. `None`: nothing is waited for here.
    #[must_use]
    pub fn wake(&self) -> Option<Moment> {
        let mut due: Vec<Moment> = self.later.keys().map(|(at, _)| *at).collect();
        due.extend(self.steer_asked.iter().map(|one| one.until));
        match self.phase {
            Phase::Finished | Phase::Deposed => return None,
            Phase::Recovering { until } => {
                due.push(until);
                return due.into_iter().filter(|at| *at > self.now).min();
            }
            Phase::Active => {
                due.extend(self.timeouts.due());
                due.extend(self.silence_due());
                due.extend(self.ask_back_due());
                due.extend(self.queue_due());
                due.extend(self.split_due());
                due.extend(self.cancel_due());
                due.extend(self.wave.as_ref().and_then(|wave| wave.again));
                due.extend(self.holds.values().filter(|hold| hold.granted).map(|hold| hold.renew));
                if self.shards.values().any(Shard::is_out) {
                    due.push(self.scan_at);
                }
            }
            Phase::Closing | Phase::Concluding | Phase::Recording | Phase::Finishing => {}
        }
        for shard in self.shards.values() {
            match &shard.step {
                Step::Lapsing(handover) => due.push(handover.next_at()),
                Step::Idle | Step::Unsent => due.extend(shard.again),
                Step::Over => continue,
                _ => {}
            }
            due.extend(shard.stop.as_ref().filter(|_| shard.is_out()).map(|stop| stop.until));
            let standing = self.paused.is_some() && shard.step == Step::Running;
            due.extend(shard.due.filter(|_| !standing));
        }
        // What was due by now was looked at in the last step; if it still stands, it waits for something else.
        due.into_iter().filter(|at| *at > self.now).min()
    }
}
