//! Frames of one job's streams on their way to its owner: one message at a time, about ten a
//! second.
//!
//! The owner is whoever asked last. If it does not answer, or says that it is another, the next one
//! is tried. Streams are opened anew with every other receiver than before, and go on where it
//! says: a new owner has what the old one made durable, which may be less than it was sent.
//! Meanwhile counts go on in the senders, where frames that nobody has seen are joined: nothing is
//! lost, whoever is away for however long (R17).

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use control::message::{FrameBatch, FrameBatchAck};
use fence::{BootId, NodeId};
use stats::wire::StreamKey;
use tokio::time::{Instant, sleep_until};

use super::actor::now;
use super::job::{Job, lock};
use super::managers::Managers;

const EVERY: Duration = Duration::from_millis(100);
/// Between two messages that say nothing new: what is durable is asked for, and refused streams
/// once more.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// The longest wait after nobody has answered.
const REST_MAX: Duration = Duration::from_secs(2);
/// Of one message.
const FRAMES_MAX: usize = 1024;
const BYTES_MAX: usize = 8 << 20;

pub(super) struct FrameSender {
    pub job: Weak<Job>,
    pub node: NodeId,
    pub boot: BootId,
    pub managers: Arc<Managers>,
}

/// What became of one message.
enum Outcome {
    Quiet,
    Taken,
    /// It said who the owner is.
    Redirected,
    Failed,
}

impl FrameSender {
    /// Until the job is gone.
    pub async fn run(self) {
        let Some(nudge) = self.job.upgrade().map(|job| Arc::clone(&job.nudge)) else { return };
        let (mut failures, mut asked) = (0u32, Instant::now());
        let mut refused = BTreeSet::new();
        let mut attached = None;
        let mut next = Instant::now() + EVERY;
        loop {
            tokio::select! {
                biased;
                () = sleep_until(next) => {}
                // After a failure the pause is kept: there is nobody to hurry for.
                () = nudge.notified(), if failures == 0 => {}
            }
            let Some(job) = self.job.upgrade() else { return };
            let must = asked.elapsed() >= ASK_EVERY;
            let receiver = self.receiver(&job, failures);
            if receiver != attached {
                detach(&job);
                attached = receiver;
            }
            match self.post(&job, receiver, &mut refused, must).await {
                Outcome::Quiet => {}
                Outcome::Taken => (failures, asked) = (0, Instant::now()),
                Outcome::Redirected => failures = 0,
                Outcome::Failed => failures = failures.saturating_add(1),
            }
            let rest = (EVERY * (1 << failures.min(6))).min(REST_MAX);
            next = Instant::now() + if failures == 0 { EVERY } else { rest };
        }
    }

    async fn post(
        &self,
        job: &Job,
        to: Option<NodeId>,
        not_taken: &mut BTreeSet<StreamKey>,
        must: bool,
    ) -> Outcome {
        let Some(frames) = self.collect(job, not_taken, must) else { return Outcome::Quiet };
        let Some(to) = to else { return Outcome::Failed };
        match self.managers.frames(to, &frames).await {
            Ok(FrameBatchAck::Taken { resume, acks, refused }) => {
                *lock(&job.owner) = Some(to);
                for (key, from) in resume {
                    match from {
                        Ok(from) => {
                            not_taken.remove(&key);
                            resume_at(job, key, from);
                        }
                        Err(why) => {
                            tracing::debug!(job = %job.id, ?key, why, "a stream is not taken");
                            not_taken.insert(key);
                        }
                    }
                }
                for (key, applied, durable) in acks {
                    job.stream(key, |sender| sender.acknowledge(applied, durable));
                }
                for (key, why) in refused {
                    tracing::warn!(job = %job.id, ?key, why, "statistics were refused");
                    job.stream(key, stats::stream::Sender::detach);
                }
                Outcome::Taken
            }
            Ok(FrameBatchAck::NotOwner { owner }) => {
                detach(job);
                let owner = owner.filter(|owner| *owner != to);
                *lock(&job.owner) = owner;
                if owner.is_some() { Outcome::Redirected } else { Outcome::Failed }
            }
            Ok(FrameBatchAck::UnknownJob) => {
                detach(job);
                Outcome::Failed
            }
            Err(status) => {
                tracing::debug!(job = %job.id, %to, %status, "statistics were not taken");
                detach(job);
                Outcome::Failed
            }
        }
    }

    /// What there is to send. `None`: nothing.
    fn collect(
        &self,
        job: &Job,
        not_taken: &mut BTreeSet<StreamKey>,
        must: bool,
    ) -> Option<FrameBatch> {
        let mut streams = lock(&job.streams);
        if streams.is_empty() {
            return None;
        }
        not_taken.retain(|key| streams.contains_key(key));
        let (mut open, mut frames, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut waiting = false;
        for (key, sender) in streams.iter_mut() {
            if !sender.is_attached() {
                if must || !not_taken.contains(key) {
                    open.push(*key);
                }
                continue;
            }
            while bytes < BYTES_MAX && frames.len() < FRAMES_MAX {
                let Some(frame) = sender.next_frame() else { break };
                bytes += frame.bytes.len();
                frames.push(frame.bytes.to_vec());
            }
            waiting |= sender.kept_frames() > 0;
        }
        let idle = open.is_empty() && frames.is_empty();
        // Even without news: what is kept may have become durable.
        if idle && !(must && waiting) {
            return None;
        }
        Some(FrameBatch { job: job.id, worker: self.node, boot: self.boot, open, frames })
    }

    /// The owner; after failures everybody in turn, the owner among them.
    fn receiver(&self, job: &Job, failures: u32) -> Option<NodeId> {
        let owner = *lock(&job.owner);
        let mut others = self.managers.order();
        // An owner that does not answer waits for its turn among the others, who may know a new
        // one.
        if let Some(owner) = owner.filter(|owner| !self.managers.is_avoided(*owner, now())) {
            others.retain(|other| *other != owner);
            others.insert(0, owner);
        }
        // A word on who the owner is begins a new round.
        let at = (failures as usize).checked_rem(others.len())?;
        others.get(at).copied()
    }
}

fn resume_at(job: &Job, key: StreamKey, from: u64) {
    if let Some(Err(error)) = job.stream(key, |sender| sender.resume(from)) {
        tracing::error!(job = %job.id, ?key, %error, "the owner and this worker disagree on a stream");
    }
}

fn detach(job: &Job) {
    for sender in lock(&job.streams).values_mut() {
        sender.detach();
    }
}
