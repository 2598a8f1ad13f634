//! A job's statistics at its owner: frames in, windows out, and checkpoints that make them durable.
//!
//! An attempt's counts reach the owner as frames while it runs, and once more as the tail of its
//! end report: whatever was not durable when it ended. So the owner has everything as soon as it
//! has the report, and a new owner has everything from the last checkpoint, the reports in the
//! ledger, and what running workers send again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fence::canary::{self, Canary};
use fence::{Attempt, JobId, NodeId, ShardKey, WorkflowNo};
use plan::Threshold;
use stats::DropCause;
use stats::merge::{Checkpoint, Finished, Merge, OfAttempt, ReceiveError, Settings, Step, Unrun};
use stats::verdict::LostWorker;
use stats::wire::{Frame, Schema, StreamKey, WireError};

use super::message::{EndReport, FrameBatch, FrameBatchAck};
use super::owner::{Conclusion, Event, Mended, OnWorkerLoss, Owner};
use ledger_state::{AttemptEnd, Counters, Job, ReportedBy};

/// How often a checkpoint is made while there is something new.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_millis(100);
const NO_SUCH_ATTEMPT: &str = "there is no such attempt of this worker";

pub struct Statistics {
    merge: Merge,
    /// Added to the owner's clock: a new owner must not go back behind windows that were shown.
    shift: Duration,
    /// Something was applied since the last checkpoint.
    dirty: bool,
    under_way: Option<u64>,
    /// When the last checkpoint was begun.
    last: Option<Duration>,
    /// How many were made since an attempt was first heard of. It may wait for the first ones
    /// (R5a), so they come quickly.
    since_opened: u32,
    /// Who sends which stream.
    senders: BTreeMap<StreamKey, NodeId>,
    /// Attempts that were closed, and the checkpoint that has to be stored before it is said.
    sealing: Vec<(ShardKey, Attempt, u64)>,
    /// Attempts that never ran: nothing is waited for or missing of them.
    unran: BTreeSet<(u32, u32, u32)>,
    /// Attempts that have an end, or are being sealed: no stream of them is opened any more.
    closed: BTreeSet<(u32, u32, u32)>,
}

/// An attempt as the streams number it.
fn numbers(shard: &ShardKey, attempt: Attempt) -> (u32, u32, u32) {
    (shard.workflow.0, shard.shard, attempt.0)
}

impl Statistics {
    /// `checkpoint`: of the owner before. `clock`: the job's time.
    ///
    /// # Errors
    /// If the checkpoint is not one of this job.
    pub fn new(
        schema: Schema,
        thresholds: &[Threshold],
        checkpoint: Option<&[u8]>,
        clock: Duration,
    ) -> Result<Self, WireError> {
        let settings = Settings { window: WINDOW, ..Settings::default() };
        let merge = match checkpoint {
            None => Merge::new(schema, thresholds, settings),
            Some(_) => Merge::restore(schema, thresholds, settings, checkpoint, clock)?,
        };
        let shown = WINDOW * u32::try_from(merge.next_window()).unwrap_or(u32::MAX);
        let shift = shown.saturating_sub(clock);
        Ok(Self {
            merge,
            shift,
            dirty: false,
            under_way: None,
            last: None,
            since_opened: 0,
            senders: BTreeMap::new(),
            sealing: Vec::new(),
            unran: BTreeSet::new(),
            closed: BTreeSet::new(),
        })
    }

    /// Something is missing from the counts, and the result has to say so.
    pub fn note_incomplete(&mut self, what: String) {
        self.merge.note_incomplete(what);
    }

    /// A new owner learns how attempts ended: their reports, and those that ended without one
    /// because they never ran.
    pub fn learn(&mut self, job: &Job, reports: &[EndReport], clock: Duration) {
        reports.iter().for_each(|report| self.ended(report, clock));
        for ((workflow, number), shard) in &job.shards {
            let key = ShardKey { job: job.id(), workflow: *workflow, shard: *number };
            for (attempt, record) in (1..).map(Attempt).zip(&shard.attempts) {
                let end = record.end.as_ref();
                if end.is_some() {
                    self.closed.insert(numbers(&key, attempt));
                }
                // What its owner has written of an attempt that nobody heard of proves nothing.
                let whole = |end: &&AttemptEnd| end.word != ReportedBy::Owner;
                let is_empty = |end: &AttemptEnd| end.result.is_none() && end.counters.issued == 0;
                if end.filter(whole).is_some_and(is_empty) {
                    self.never_ran(key, attempt);
                }
            }
        }
    }

    /// What the owner is to hear of attempts that were taken up: their workers may be gone, and
    /// never say it again.
    pub fn told(&self, job: JobId) -> Vec<Event> {
        let streams = self.merge.resume_points();
        let attempts: BTreeSet<(u32, u32, u32)> =
            streams.map(|(key, _)| (key.workflow, key.shard, key.attempt)).collect();
        attempts.into_iter().filter_map(|attempt| self.progress(job, attempt)).collect()
    }

    /// How far an attempt has come, by the frames that were applied; none, if it has told nothing.
    pub fn progress(&self, job: JobId, (workflow, number, n): (u32, u32, u32)) -> Option<Event> {
        let (counters, frames) = self.counters(workflow, number, n)?;
        let shard = ShardKey { job, workflow: WorkflowNo(workflow), shard: number };
        let told = self.merge.told_through(workflow, number, n).unwrap_or_default();
        let attempt = Attempt(n);
        (frames > 0).then_some(Event::Progress { shard, attempt, counters, told })
    }

    fn at(&self, clock: Duration) -> Duration {
        clock + self.shift
    }

    /// What a worker has sent, and the attempts that it was about. `is_known` says which attempts
    /// of this worker there are.
    pub fn frames(
        &mut self,
        post: &FrameBatch,
        clock: Duration,
        is_known: impl Fn(u32, u32, u32) -> bool,
    ) -> (FrameBatchAck, BTreeSet<(u32, u32, u32)>) {
        let now = self.at(clock);
        let (mut resume, mut refused, mut touched) = (Vec::new(), Vec::new(), BTreeSet::new());
        for key in &post.open {
            let attempt = (key.workflow, key.shard, key.attempt);
            let opened = if self.unran.contains(&attempt) {
                Err("the attempt was ended before it ran".to_owned())
            } else if self.closed.contains(&attempt) && !self.merge.has_stream(*key) {
                // What it would tell is not in what counts as its end.
                Err("the attempt has ended".to_owned())
            } else if is_known(key.workflow, key.shard, key.attempt) {
                self.merge.open(*key, now).map_err(|error| error.to_string())
            } else {
                Err(NO_SUCH_ATTEMPT.to_owned())
            };
            if opened.is_ok() && self.senders.insert(*key, post.worker).is_none() {
                self.since_opened = 0;
            }
            resume.push((*key, opened));
        }
        let mut any = false;
        for bytes in &post.frames {
            // A stream that this worker may not open it may not feed either.
            let foreign = Frame::key_of(bytes)
                .ok()
                .filter(|key| !is_known(key.workflow, key.shard, key.attempt));
            if let Some(key) = foreign {
                refused.push((key, NO_SUCH_ATTEMPT.to_owned()));
                continue;
            }
            match self.merge.receive(bytes, now) {
                Ok(ack) => {
                    any = true;
                    touched.insert((ack.key.workflow, ack.key.shard, ack.key.attempt));
                }
                Err(error) => refused.extend(key_of(&error).map(|key| (key, error.to_string()))),
            }
        }
        self.dirty |= any;
        // All streams of this worker: one that sends nothing, because too much of it is not
        // durable, waits for this.
        let own = self.senders.iter().filter(|(_, worker)| **worker == post.worker);
        let acks = own.map(|(key, _)| self.merge.ack(*key));
        let acks = acks.map(|ack| (ack.key, ack.applied_through, ack.durable_through)).collect();
        (FrameBatchAck::Taken { resume, acks, refused }, touched)
    }

    /// The end of an attempt, in its worker's words: the rest of its frames. Said twice, it counts
    /// once.
    ///
    /// Only for the word that counts as the end of the attempt ([`Owner::expects_last_word`], or
    /// the ledger). It may come while the attempt is being sealed, or after an owner before has
    /// done that for nothing: what the owner goes by must be in the sums, so the seal is broken.
    /// The end that a seal has made has no frames.
    pub fn ended(&mut self, report: &EndReport, clock: Duration) {
        let now = self.at(clock);
        let (workflow, shard, attempt) = numbers(&report.shard, report.attempt);
        if !report.totals.is_empty() {
            let is_it =
                |shard: ShardKey, attempt| (shard, attempt) == (report.shard, report.attempt);
            self.sealing.retain(|(shard, attempt, _)| !is_it(*shard, *attempt));
            self.merge.withdraw_note(&all_missing(report.shard, report.attempt));
            for key in self.merge.streams_of(workflow, shard, attempt) {
                self.merge.unseal(key);
            }
        }
        let frames: Vec<Vec<u8>> = postcard::from_bytes(&report.totals).unwrap_or_default();
        let mut opened: Option<StreamKey> = None;
        let own = numbers(&report.shard, report.attempt);
        for bytes in &frames {
            // A report speaks for its own attempt; frames of another one in it are nobody's.
            let key = Frame::key_of(bytes).ok();
            if key.is_some_and(|key| (key.workflow, key.shard, key.attempt) != own) {
                continue;
            }
            let mut taken = self.merge.receive(bytes, now);
            if let Err(ReceiveError::UnknownStream(key)) = taken {
                // Nothing of it had come before.
                if self.merge.open(key, now).is_ok() {
                    taken = self.merge.receive(bytes, now);
                }
            }
            // One that does not count is among those that the result says were refused.
            opened = taken.ok().map(|ack| ack.key).or(opened);
        }
        self.dirty |= opened.is_some();
        self.closed.insert((workflow, shard, attempt));
        self.senders
            .retain(|key, _| (key.workflow, key.shard, key.attempt) != (workflow, shard, attempt));
        let streams = self.merge.streams_of(workflow, shard, attempt);
        if streams.is_empty() && report.counters.issued > 0 {
            self.miss_all(report.shard, report.attempt);
        }
        for key in streams {
            // Without its last frame its tail is lost: the process died under it.
            let why = report.error.as_deref().unwrap_or("its worker has no more of it");
            self.merge.give_up(key, why);
            // A frame that is still on its way would be in the sums, and not in what the owner has
            // counted.
            let through = self.merge.ack(key).applied_through;
            self.merge.seal(key, through);
        }
    }

    /// An attempt has sent, its report has no frames any more, and none of them had come before:
    /// they were too large to keep, or their process died. Whoever reads the report again finds the
    /// same.
    fn miss_all(&mut self, shard: ShardKey, attempt: Attempt) {
        let what = all_missing(shard, attempt);
        if !self.merge.incomplete().contains(&what) {
            self.merge.note_incomplete(what);
            self.dirty = true;
        }
    }

    /// What was applied of an attempt.
    pub fn counters(&self, workflow: u32, shard: u32, attempt: u32) -> Option<(Counters, u64)> {
        let OfAttempt { tally, sent, completed, issued, begun, frames } =
            self.merge.of_one_attempt(workflow, shard, attempt)?;
        let counters = Counters {
            issued: issued.max(tally.requests),
            completed,
            failed: tally.failed,
            iterations: tally.iterations,
            interrupted: tally.interrupted,
            dropped: tally.dropped,
            checks_passed: tally.checks_passed,
            checks_failed: tally.checks_failed,
            bytes_sent: tally.bytes_sent,
            bytes_received: tally.bytes_received,
            begun,
            sent,
        };
        Some((counters, frames))
    }

    /// What was applied of the whole job, replaced attempts included (R17).
    pub fn totals(&self) -> Counters {
        let attempts = self.merge.resume_points();
        let attempts = attempts.map(|(key, _)| (key.workflow, key.shard, key.attempt));
        let attempts: BTreeSet<(u32, u32, u32)> = attempts.collect();
        let mut sum = Counters::default();
        for (workflow, shard, attempt) in attempts {
            let counted = self.counters(workflow, shard, attempt);
            sum.add(&counted.map(|(counters, _)| counters).unwrap_or_default());
        }
        sum.dropped = sum.dropped.saturating_add(self.merge.lost_units());
        sum
    }

    /// Nothing more counts of this attempt: its worker is gone, and another takes over. If it may
    /// have run and nothing was heard of it, all that it did is missing.
    pub fn seal(&mut self, shard: ShardKey, attempt: Attempt, may_have_run: bool) {
        let (workflow, number, n) = numbers(&shard, attempt);
        let streams = self.merge.streams_of(workflow, number, n);
        if streams.is_empty() && may_have_run && !self.unran.contains(&(workflow, number, n)) {
            self.miss_all(shard, attempt);
        }
        for key in streams {
            self.merge.give_up(key, "its worker was lost");
            let through = self.merge.ack(key).applied_through;
            self.merge.seal(key, through);
        }
        self.closed.insert((workflow, number, n));
        // It is said when what was applied cannot be lost any more.
        self.sealing.push((shard, attempt, 0));
        self.dirty = true;
    }

    /// It is certain that this attempt never ran and never will.
    pub fn never_ran(&mut self, shard: ShardKey, attempt: Attempt) {
        let (workflow, number, n) = numbers(&shard, attempt);
        self.unran.insert((workflow, number, n));
        for key in self.merge.streams_of(workflow, number, n) {
            self.merge.supersede(key);
        }
    }

    /// Units of a schedule that were lost with this attempt's worker: dropped, as nobody else
    /// counts them (R27).
    pub fn lost(&mut self, shard: ShardKey, attempt: Attempt, count: u64, clock: Duration) {
        if canary::active(Canary::DropsSilently) {
            return;
        }
        let (now, workflow) = (self.at(clock), shard.workflow.0);
        if let Some(stage) = self.merge.first_stage(workflow) {
            let (shard, attempt, cause) = (shard.shard, attempt.0, DropCause::WorkerLost as u32);
            let unrun = Unrun { workflow, shard, attempt, stage, cause, count };
            self.merge.count_unrun(unrun, now);
            self.dirty = true;
        }
    }

    /// Windows that are complete, thresholds that broke.
    pub fn step(&mut self, clock: Duration) -> Step {
        let now = self.at(clock);
        self.merge.step(now)
    }

    /// A checkpoint, if one is due and none is under way. `owner`: what a successor of the owner
    /// has to know.
    pub fn checkpoint(&mut self, clock: Duration, owner: &Owner) -> Option<Checkpoint> {
        self.checkpoint_with(clock, || owner.memory())
    }

    fn checkpoint_with(
        &mut self,
        clock: Duration,
        memory: impl FnOnce() -> Vec<u8>,
    ) -> Option<Checkpoint> {
        // At once, then after one window, two, four, eight; then as usual.
        let quickly = (WINDOW / 2) * (1 << self.since_opened.min(5));
        let wait = if self.since_opened == 0 { WINDOW } else { quickly.min(CHECKPOINT_EVERY) };
        let waited =
            self.last.is_none_or(|last| clock.saturating_sub(last) >= wait || clock < last);
        let wanted = self.dirty && (waited || !self.sealing.is_empty());
        if self.under_way.is_some() || !wanted {
            return None;
        }
        let checkpoint = self.merge.checkpoint(&memory());
        self.sealing
            .iter_mut()
            .filter(|(_, _, by)| *by == 0)
            .for_each(|one| one.2 = checkpoint.number);
        (self.dirty, self.last, self.under_way) = (false, Some(clock), Some(checkpoint.number));
        self.since_opened = self.since_opened.saturating_add(1);
        Some(checkpoint)
    }

    /// What the owner before had to say to its successor.
    pub fn memory(&self) -> &[u8] {
        self.merge.of_last_owner()
    }

    /// A checkpoint is due although nothing was counted: those that have the last one are no
    /// majority any more, or the owner has something to say to its successor.
    pub fn keep_anew(&mut self) {
        self.dirty = true;
    }

    /// A checkpoint is on a majority. Those that were closed before it can be said now.
    pub fn stored(&mut self, number: u64) -> Vec<(ShardKey, Attempt)> {
        if self.under_way == Some(number) {
            self.under_way = None;
        }
        // Workers hear what is durable with the answer to their next frames.
        let _acks = self.merge.stored(number);
        let (done, waiting): (Vec<_>, Vec<_>) =
            self.sealing.drain(..).partition(|(_, _, by)| *by != 0 && *by <= number);
        self.sealing = waiting;
        done.into_iter().map(|(shard, attempt, _)| (shard, attempt)).collect()
    }

    pub fn merge(&mut self) -> &mut Merge {
        &mut self.merge
    }

    /// What the result would be if the job ended now.
    pub fn so_far(&mut self, conclusion: &Conclusion, policy: OnWorkerLoss) -> Finished {
        self.merge.so_far(&lost_workers(conclusion, policy))
    }

    /// The end of the job: everything that was counted, with what the owner knows of gaps.
    pub fn finish(
        mut self,
        conclusion: &Conclusion,
        policy: OnWorkerLoss,
        clock: Duration,
    ) -> Finished {
        for lost in lost_workers(conclusion, policy) {
            self.merge.lose(lost);
        }
        let elapsed = self.at(clock);
        for one in &conclusion.unrun {
            let (workflow, shard) = (one.shard.workflow.0, one.shard.shard);
            self.merge.count_never_run(workflow, shard, one.count, one.cause, elapsed);
        }
        self.merge.finish(elapsed)
    }
}

/// What the owner knows of gaps, as the verdict wants it.
fn lost_workers(conclusion: &Conclusion, policy: OnWorkerLoss) -> Vec<LostWorker> {
    let began = conclusion.began.unwrap_or_default();
    let gaps = conclusion.timeline.iter().filter_map(|note| note.gap.as_ref());
    let lost = gaps.map(|gap| LostWorker {
        name: gap.worker.to_string(),
        from: gap.from.saturating_sub(began),
        until: (gap.mended != Mended::Never).then(|| gap.to.saturating_sub(began)),
        share: f64::from(gap.shards) / f64::from(gap.of.max(1)),
        policy: policy_name(policy, gap.mended).to_owned(),
    });
    lost.collect()
}

fn all_missing(shard: ShardKey, attempt: Attempt) -> String {
    format!("all counts of attempt {attempt} of shard {shard} are missing")
}

fn policy_name(policy: OnWorkerLoss, mended: Mended) -> &'static str {
    match (policy, mended) {
        (OnWorkerLoss::Rebalance, Mended::Elsewhere) => "rebalance: on other cores",
        (OnWorkerLoss::Rebalance, Mended::Shared) => "rebalance: on cores that were in use",
        (OnWorkerLoss::Rebalance, Mended::Never) => "rebalance: there was no core left",
        (OnWorkerLoss::Continue, _) => "continue",
        (OnWorkerLoss::Fail, _) => "fail",
    }
}

fn key_of(error: &ReceiveError) -> Option<StreamKey> {
    match error {
        ReceiveError::Wire(_) => None,
        ReceiveError::UnknownStream(key) | ReceiveError::Stream(key, _) => Some(*key),
    }
}

#[cfg(test)]
mod tests;
