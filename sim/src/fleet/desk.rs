//! One job at its owner: the product's pure owner and its statistics, with checkpoints on a
//! majority of disks.

use std::collections::BTreeMap;
use std::time::Duration;

use control::message::{EndReport, FrameBatch, FrameBatchAck};
use control::owner::{Event, Owner};
use control::statistics::Statistics;
use fence::{Attempt, Epoch, JobId, ShardKey, WorkflowNo};
use ledger_state::{Counters, Job};
use stats::merge::Checkpoint;
use stats::wire::{Frame, Schema, StreamKey};

pub struct Desk {
    pub owner: Owner,
    pub epoch: Epoch,
    /// Until the result is made.
    pub statistics: Option<Statistics>,
    schema: Schema,
    /// What a broken merge has counted more than once.
    pub extra: u64,
    /// FrameBatch that came again.
    pub repeats: u64,
    pub turn: bool,
    /// Whether it knows of a cancel, and whether that is a hard one.
    pub cancel_told: Option<bool>,
    /// The ledger's time, as it last heard it.
    pub time_told: u64,
}

impl Desk {
    pub fn new(
        owner: Owner,
        epoch: Epoch,
        schema: Schema,
        checkpoint: Option<&[u8]>,
        clock: Duration,
    ) -> Result<Self, String> {
        let statistics = Statistics::new(schema.clone(), &[], checkpoint, clock);
        Ok(Self {
            owner,
            epoch,
            statistics: Some(statistics.map_err(|error| error.to_string())?),
            schema,
            extra: 0,
            repeats: 0,
            turn: false,
            cancel_told: None,
            time_told: 0,
        })
    }

    pub fn learn(&mut self, job: &Job, reports: &[EndReport], clock: Duration) {
        if let Some(statistics) = &mut self.statistics {
            statistics.learn(job, reports, clock);
        }
    }

    /// Frames of one worker; and what the owner is to hear of them.
    pub fn frames(
        &mut self,
        job: JobId,
        post: &FrameBatch,
        clock: Duration,
        twice: bool,
    ) -> (FrameBatchAck, Vec<Event>) {
        let Some(statistics) = &mut self.statistics else {
            return (FrameBatchAck::UnknownJob, Vec::new());
        };
        let next: BTreeMap<StreamKey, u64> = statistics.merge().resume_points().collect();
        let came_again = |bytes: &&Vec<u8>| {
            let frame = Frame::decode(bytes, &self.schema).ok();
            frame.is_some_and(|frame| next.get(&frame.key).is_some_and(|next| frame.last < *next))
        };
        let again = post.frames.iter().filter(came_again).count() as u64;
        self.repeats += again;
        self.extra += if twice { again } else { 0 };
        let shard = |workflow, shard| ShardKey { job, workflow: WorkflowNo(workflow), shard };
        let owner = &self.owner;
        let is_known = |workflow: u32, number: u32, attempt: u32| {
            let known = owner.shard(&shard(workflow, number));
            known.is_some_and(|(_, last)| attempt <= last.0)
        };
        let (answer, touched) = statistics.frames(post, clock, is_known);
        let told = touched.into_iter().filter_map(|attempt| statistics.progress(job, attempt));
        (answer, told.collect())
    }

    /// A worker's last word on an attempt.
    pub fn ended(&mut self, report: &EndReport, clock: Duration) {
        if self.owner.expects_last_word(report)
            && let Some(statistics) = &mut self.statistics
        {
            statistics.ended(report, clock);
        }
    }

    /// A new owner takes up what the one before has left.
    pub fn recall(&mut self) {
        if let Some(statistics) = &self.statistics {
            self.owner.recall(statistics.memory());
        }
    }

    /// Windows, and a checkpoint if one is due.
    pub fn step(&mut self, clock: Duration) -> Option<Checkpoint> {
        let statistics = self.statistics.as_mut()?;
        statistics.step(clock);
        statistics.checkpoint(clock, &self.owner)
    }

    /// A checkpoint is on a majority of disks: what was closed before it can be said now.
    pub fn stored(&mut self, number: u64) -> Vec<(ShardKey, Attempt, Counters, u64)> {
        let Some(statistics) = &mut self.statistics else { return Vec::new() };
        let sealed = statistics.stored(number);
        let known = |(shard, attempt): (ShardKey, Attempt)| {
            let known = statistics.counters(shard.workflow.0, shard.shard, attempt.0);
            let (counters, frames) = known.unwrap_or_default();
            (shard, attempt, counters, frames)
        };
        sealed.into_iter().map(known).collect()
    }
}
