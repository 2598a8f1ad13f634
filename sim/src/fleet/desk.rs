//! One job at its owner: the product's pure owner, and its real statistics, with checkpoints on a majority of disks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use control::fleet::message::{EndReport, Frames, FramesAnswer};
use control::fleet::owner::Owner;
use control::ledger::Counters;
use fence::{Attempt, Epoch, JobId, ShardKey, WorkflowNo};
use stats::merge::{Checkpoint, Merge, ReceiveError, Settings};
use stats::wire::{Schema, StreamKey};

const WINDOW: Duration = Duration::from_millis(100);
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);

pub struct Desk {
    pub owner: Owner,
    pub epoch: Epoch,
    pub merge: Option<Merge>,
    shift: Duration,
    dirty: bool,
    pub under_way: Option<u64>,
    last: Duration,
    sealing: Vec<(ShardKey, Attempt, u64)>,
    /// What a broken merge has counted more than once.
    pub extra: u64,
    /// Frames that came again.
    pub repeats: u64,
    pub turn: bool,
    pub cancel_told: bool,
}

impl Desk {
    pub fn new(
        owner: Owner,
        epoch: Epoch,
        schema: Schema,
        checkpoint: Option<&[u8]>,
        clock: Duration,
    ) -> Result<Self, String> {
        let settings = Settings { window: WINDOW, ..Settings::default() };
        let merge = match checkpoint {
            None => Merge::new(schema, &[], settings),
            Some(_) => Merge::restore(schema, &[], settings, checkpoint, clock)
                .map_err(|error| error.to_string())?,
        };
        let shown = WINDOW * u32::try_from(merge.next_window()).unwrap_or(u32::MAX);
        Ok(Self {
            owner,
            epoch,
            merge: Some(merge),
            shift: shown.saturating_sub(clock),
            dirty: false,
            under_way: None,
            last: clock,
            sealing: Vec::new(),
            extra: 0,
            repeats: 0,
            turn: false,
            cancel_told: false,
        })
    }

    /// Frames of one worker; and what the owner is to hear of them.
    pub fn frames(
        &mut self,
        job: JobId,
        post: &Frames,
        clock: Duration,
        twice: bool,
    ) -> (FramesAnswer, Vec<(ShardKey, Attempt, Counters)>) {
        let now = clock + self.shift;
        let Some(merge) = &mut self.merge else { return (FramesAnswer::UnknownJob, Vec::new()) };
        let mut resume = Vec::new();
        for key in &post.open {
            let shard = ShardKey { job, workflow: WorkflowNo(key.workflow), shard: key.shard };
            let known = self.owner.shard(&shard).is_some_and(|(_, last)| key.attempt <= last.0);
            let opened = if known {
                merge.open(*key, now).map_err(|error| error.to_string())
            } else {
                Err("there is no such attempt".to_owned())
            };
            resume.push((*key, opened));
        }
        let mut acked: BTreeSet<StreamKey> = post.open.iter().copied().collect();
        let mut touched = BTreeSet::new();
        let mut refused = Vec::new();
        let applied: BTreeMap<StreamKey, u64> = merge.resume_points().collect();
        for bytes in &post.frames {
            match merge.receive(bytes, now) {
                Ok(ack) => {
                    let again =
                        applied.get(&ack.key).is_some_and(|next| ack.applied_through < *next);
                    self.repeats += u64::from(again);
                    self.extra += u64::from(again && twice);
                    acked.insert(ack.key);
                    touched.insert((ack.key.workflow, ack.key.shard, ack.key.attempt));
                }
                Err(ReceiveError::Wire(_)) => {}
                Err(ReceiveError::UnknownStream(key) | ReceiveError::Stream(key, _)) => {
                    refused.push((key, String::new()));
                }
            }
        }
        self.dirty |= !touched.is_empty();
        let acks = acked.iter().map(|key| merge.ack(*key));
        let acks = acks.map(|ack| (ack.key, ack.applied_through, ack.durable_through)).collect();
        let told = touched.into_iter().filter_map(|(workflow, shard, attempt)| {
            let (counters, _) = self.counters(workflow, shard, attempt)?;
            let key = ShardKey { job, workflow: WorkflowNo(workflow), shard };
            Some((key, Attempt(attempt), counters))
        });
        let told = told.collect();
        (FramesAnswer::Taken { resume, acks, refused }, told)
    }

    fn counters(&self, workflow: u32, shard: u32, attempt: u32) -> Option<(Counters, u64)> {
        let (tally, issued, frames) =
            self.merge.as_ref()?.of_one_attempt(workflow, shard, attempt)?;
        let counters = Counters {
            issued: issued.max(tally.requests),
            completed: tally.requests,
            iterations: tally.iterations,
            ..Counters::default()
        };
        Some((counters, frames))
    }

    /// A worker's last word on an attempt: the rest of its frames.
    pub fn ended(&mut self, report: &EndReport, clock: Duration) {
        let now = clock + self.shift;
        let Some(merge) = &mut self.merge else { return };
        let frames: Vec<Vec<u8>> = postcard::from_bytes(&report.totals).unwrap_or_default();
        for bytes in &frames {
            let taken = merge.receive(bytes, now);
            if let Err(ReceiveError::UnknownStream(key)) = taken
                && merge.open(key, now).is_ok()
            {
                let _ = merge.receive(bytes, now);
            }
        }
        self.dirty |= !frames.is_empty();
        let (workflow, shard) = (report.shard.workflow.0, report.shard.shard);
        for key in merge.streams_of(workflow, shard, report.attempt.0) {
            merge.give_up(key, "its worker has no more of it");
        }
    }

    pub fn seal(&mut self, shard: ShardKey, attempt: Attempt) {
        let Some(merge) = &mut self.merge else { return };
        for key in merge.streams_of(shard.workflow.0, shard.shard, attempt.0) {
            merge.give_up(key, "its worker was lost");
            let through = merge.ack(key).applied_through;
            merge.seal(key, through);
        }
        self.sealing.push((shard, attempt, 0));
        self.dirty = true;
    }

    /// Windows, and a checkpoint if one is due.
    pub fn step(&mut self, clock: Duration) -> Option<Checkpoint> {
        let now = clock + self.shift;
        let merge = self.merge.as_mut()?;
        merge.step(now);
        let waited = clock.saturating_sub(self.last) >= CHECKPOINT_EVERY || clock < self.last;
        let wanted = self.dirty && (waited || !self.sealing.is_empty());
        if self.under_way.is_some() || !wanted {
            return None;
        }
        let checkpoint = merge.checkpoint();
        for one in self.sealing.iter_mut().filter(|one| one.2 == 0) {
            one.2 = checkpoint.number;
        }
        (self.dirty, self.last, self.under_way) = (false, clock, Some(checkpoint.number));
        Some(checkpoint)
    }

    /// A checkpoint is on a majority of disks: what was closed before it can be said now.
    pub fn stored(&mut self, number: u64) -> Vec<(ShardKey, Attempt, Counters, u64)> {
        if self.under_way == Some(number) {
            self.under_way = None;
        }
        if let Some(merge) = &mut self.merge {
            merge.stored(number);
        }
        let all = std::mem::take(&mut self.sealing);
        let (done, waiting): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, _, by)| *by != 0 && *by <= number);
        self.sealing = waiting;
        let known = |(shard, attempt, _): (ShardKey, Attempt, u64)| {
            let known = self.counters(shard.workflow.0, shard.shard, attempt.0);
            let (counters, frames) = known.unwrap_or_default();
            (shard, attempt, counters, frames)
        };
        done.into_iter().map(known).collect()
    }
}
