//! The owner of one job: everything that is decided about it is decided here, in one place, one
//! event at a time (R8).
//!
//! ```text
//!  adopt ─▶ Recovering ─all known─▶ Active ─workflows are over─▶ Closing ─all reports in─╮
//!                │                    │      Finished ◀─ Finishing ◀─ Recording ◀─ Concluding
//!                ╰────────────────────┴──── any refusal for the epoch ────▶ Deposed
//!
//!  a wave:  Reserving ─all granted─▶ Provisioning ─▶ Dispatching ─all ready─▶ Beginning ─▶ Running
//!               ▲ one refusal: all are released, and asked for again later
//! ```
//!
//! - [`schedule::job::Job`] says what comes when on the level of workflows: layers, skips, the
//!   outcome. Below it, here, are **batches** (those workflows of a layer that fit the fleet
//!   together), and **waves**: the shards that are prepared and started together. Setups and
//!   teardowns are waves of one shard each.
//! - Rights come from the ledger. `StartAttempt` is committed before a dispatch, `BeginLoad` before
//!   a start, and a layer's context before anything of the next one (EXEC-182).
//! - There is one way in: [`Owner::adopt`] builds the owner from what the ledger holds, which is
//!   nothing for a new job.
//!
//! An owner is made of parts. A part owns its fields and the rules about them; it knows no other
//! part. What needs several of them is a method of [`Owner`], in a file named for what it decides.
//! This file drives it all.
//!
//! | Part | What it owns |
//! |---|---|
//! | `spec` | what is fixed: names, plan, settings |
//! | `time` | the job's age, its own clock, how long it may take |
//! | `lifecycle` | phases, stops, cancels, the outcome |
//! | `workflows` | what is known of each workflow |
//! | `stages` | what is due; the batch and the wave under way |
//! | `shards` | all shards (`shard` has the table of transitions) and their attempts (`attempt`) |
//! | `capacity` | cores of the fleet, the queue, and `reservations` |
//! | `liveness` | who is silent, asked back, lost; which attempts are orphans |
//! | `context` | values that workflows leave to later ones |
//! | `live_control` | what people have changed, and who has heard of it |
//! | `grants` | rows and units that attempts are given, and units that were lost |
//! | `reports` | final reports on their way into the ledger |
//! | `recovery` | what a new owner waits for, and knows of the time before |
//! | `journal` | transitions, the timeline, counts |
//! | `outgoing` | effects, `commits`, `calls` to workers, transfers of `blobs` |
//!
//! **Invariant:** what arrives late, twice or for something that is over changes nothing but a
//! counter.

use fence::Moment;

mod addendum;
mod adopt;
mod answers;
mod ask_capacity;
mod attempt;
mod begin;
mod blobs;
mod budgets;
mod call_answers;
mod calls;
mod cancel;
mod capacity;
pub mod check;
mod close;
mod commits;
pub mod context;
mod event;
mod final_report;
mod gaps;
mod grants;
mod holdings;
mod journal;
mod layer;
mod lifecycle;
mod live_control;
mod liveness;
mod loss;
mod machine;
mod manifest;
mod outgoing;
mod placement;
mod probes;
mod progress;
mod queue;
mod rates;
mod recover;
mod recovery;
mod repeats;
mod reports;
mod reservations;
mod retry;
mod rows;
mod settings;
mod settle;
mod shard;
mod shards;
mod silence;
mod spec;
mod stages;
mod steer;
mod stop;
mod stragglers;
mod time;
mod transitions;
mod unrun;
mod view;
mod waves;
mod worker_requests;
mod workflows;

pub use adopt::Adoption;
pub use blobs::blob_of;
pub use event::{
    Conclusion, Conclusive, Effect, Event, Gap, Mended, NoAnswer, Note, Numbers, Queued, Unrun,
};
pub use final_report::{decode_report, encode_report};
pub use journal::Counts;
pub use manifest::{
    DataPart, Manifest, OnWorkerLoss, Part, Policy, Provided, WhenFull, WhenNoneLeft,
};
pub use rates::LoadNow;
pub use settings::Settings;
pub use shard::{State as ShardState, Transition};

use capacity::Capacity;
use context::Context;
use grants::Grants;
use journal::Journal;
use lifecycle::{Lifecycle, Phase};
use live_control::LiveControl;
use liveness::Liveness;
use outgoing::Outgoing;
use recovery::Recovery;
use reports::Reports;
use shard::{Shard, State, Step};
use shards::{Shards, Sid};
use spec::Spec;
use stages::Stages;
use time::JobTime;
use workflows::Workflows;

/// The owner of one job. See the module's header.
#[derive(Clone, Debug)]
pub struct Owner {
    spec: Spec,
    time: JobTime,
    lifecycle: Lifecycle,
    workflows: Workflows,
    stages: Stages,
    shards: Shards,
    capacity: Capacity,
    liveness: Liveness,
    context: Context,
    control: LiveControl,
    grants: Grants,
    reports: Reports,
    recovery: Recovery,
    journal: Journal,
    outgoing: Outgoing,
}

impl Owner {
    /// One event, and what is to be done about it. `now` is CLOCK_BOOTTIME of this host (R4) and
    /// never goes back.
    pub fn step(&mut self, event: Event, now: Moment) -> Vec<Effect> {
        let stood = self.time.advance(now);
        self.stood_still(stood);
        if self.lifecycle.phase() == Phase::Deposed {
            self.journal.count_late();
            return Vec::new();
        }
        // The most frequent one by far, and it moves nothing but numbers.
        if let Event::Progress { shard, attempt, counters, told } = event {
            if self.progress(shard, attempt, counters, told) {
                self.send_commits();
            }
            return self.outgoing.take();
        }
        match event {
            Event::Committed { tag, reply } => self.committed(tag, reply),
            Event::Unknown { tag } => self.unknown(tag),
            Event::Answered { tag, answer, took } => self.answered(tag, answer, took),
            Event::Unanswered { tag, why } => self.unanswered(tag, why),
            Event::Reported(report) => self.take_report(report),
            Event::Stored { tag } => self.stored(tag),
            Event::Fetched { tag, content } => self.fetched(tag, &content),
            Event::Sealed { shard, attempt, counters, frames, totals } => {
                self.sealed(shard, attempt, counters, frames, totals);
            }
            Event::Workers(workers) => {
                self.capacity.see(workers, self.time.now());
                self.look_at_workers();
            }
            Event::Renewed { worker, boot, attempts } => self.renewed(worker, boot, &attempts),
            Event::LedgerTime { now_ms } => self.ledger_time(now_ms),
            Event::Turn(turn) => self.capacity.set_turn(turn),
            Event::Threshold { number, reason } => self.threshold(number, reason),
            Event::CancelSeen { reason, hard, within } => self.cancel_seen(&reason, hard, within),
            Event::Steer { asked, steer } => self.steer(asked, steer),
            Event::Concluded { result } => self.concluded(result),
            Event::Progress { .. } | Event::Tick => {}
        }
        self.drive();
        self.outgoing.take()
    }

    /// Does what is due, until nothing is.
    fn drive(&mut self) {
        loop {
            let before = self.outgoing.changes();
            match self.lifecycle.phase() {
                Phase::Deposed => return,
                Phase::Recovering { until } => self.recover(until),
                Phase::Active => {
                    self.look_at_the_clock();
                    self.look_at_silence();
                    self.ask_back();
                    self.look_at_shards();
                    self.renew_reservations();
                    self.drive_wave();
                }
                Phase::Closing => {
                    self.look_at_shards();
                    self.close();
                }
                Phase::Concluding | Phase::Recording | Phase::Finishing | Phase::Finished => {}
            }
            if before == self.outgoing.changes() {
                break;
            }
        }
        self.resend();
        self.scan();
        self.answer_steers();
        let moving = !self.control.is_paused()
            && self
                .shards
                .values()
                .any(|shard| shard.is_out() || shard.state() == State::Cancelling);
        self.time.set_running(moving);
        self.send_commits();
    }

    fn send_commits(&mut self) {
        self.outgoing.propose(self.spec.settings().commits_at_once);
    }

    /// Says something in the timeline.
    pub(super) fn note(&mut self, text: impl Into<String>, gap: Option<Gap>) {
        let note = Note { at: self.time.age(), text: text.into(), gap };
        if self.journal.note(&note) {
            self.outgoing.push(Effect::Noted(note));
        }
    }

    /// When to come with [`Event::Tick`] if nothing else happens. `None`: nothing is waited for
    /// here.
    #[must_use]
    pub fn wake(&self) -> Option<Moment> {
        let mut due: Vec<Moment> = self.outgoing.calls().due_times().collect();
        due.extend(self.control.asked_until());
        match self.lifecycle.phase() {
            Phase::Finished | Phase::Deposed => return None,
            Phase::Recovering { until } => {
                due.push(until);
                return due.into_iter().filter(|at| *at > self.time.now()).min();
            }
            Phase::Active => {
                due.extend(self.time.due());
                due.extend(self.silence_due());
                due.extend(self.ask_back_due());
                due.extend(self.queue_due());
                due.extend(self.split_due());
                due.extend(self.lifecycle.cancel_due());
                due.extend(self.stages.wave().and_then(|wave| wave.retry_at));
                due.extend(self.capacity.reservations().renewals());
                if self.shards.values().any(Shard::is_out) {
                    due.push(self.liveness.scan_at());
                }
            }
            Phase::Closing | Phase::Concluding | Phase::Recording | Phase::Finishing => {}
        }
        for shard in self.shards.values() {
            match &shard.step {
                Step::Lapsing(handover) => due.push(handover.next_at()),
                Step::Idle | Step::Unsent => due.extend(shard.placing.retry_at),
                Step::Over => continue,
                _ => {}
            }
            due.extend(shard.stop.as_ref().filter(|_| shard.is_out()).map(|stop| stop.until));
            let standing = self.control.is_paused() && shard.step == Step::Running;
            due.extend(shard.due.filter(|_| !standing));
        }
        // What was due by now was looked at in the last step; if it still stands, it waits for
        // something else.
        due.into_iter().filter(|at| *at > self.time.now()).min()
    }
}
