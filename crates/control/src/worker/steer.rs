//! LocalAttempt control on a worker: what is in force for a job, and what its attempts are told of
//! it.
//!
//! It comes from the owner, by itself and with every start, and with renewals from any manager, who
//! has read it in the ledger. All of them say the whole of it under the ledger's number of changes;
//! the highest number counts.

use std::collections::BTreeMap;
use std::time::Duration;

use fence::canary::{self, Canary};
use fence::{JobId, Moment, WorkflowNo};

use super::local_attempt::Phase;
use super::{Effect, Job, Run, Worker};
use crate::message::{Steer, Steering, WorkerRefusal, WorkerResponse};

/// What is in force.
#[derive(Clone, Debug, Default)]
pub(super) struct Steered {
    /// The number of the last change.
    last: u64,
    pub paused_at: Option<Moment>,
    vus: BTreeMap<WorkflowNo, u32>,
    /// All changes of a rate, in their order.
    rates: BTreeMap<WorkflowNo, Vec<(f64, Duration)>>,
}

impl Steered {
    /// Takes over what is in force now, and says what has changed.
    fn take(&mut self, steers: &[Steer], now: Moment) -> Vec<Steer> {
        let mut changes = Vec::new();
        let paused = steers.contains(&Steer::Pause);
        match (paused, self.paused_at) {
            (true, None) => {
                self.paused_at = Some(now);
                changes.push(Steer::Pause);
            }
            (false, Some(_)) => {
                self.paused_at = None;
                changes.push(Steer::Resume);
            }
            (true, Some(_)) | (false, None) => {}
        }
        // Changes of a rate are only ever added to.
        let mut rates: BTreeMap<WorkflowNo, usize> = BTreeMap::new();
        for steer in steers {
            let is_new = match *steer {
                Steer::Pause | Steer::Resume => false,
                Steer::Vus { workflow, vus } => self.vus.insert(workflow, vus) != Some(vus),
                Steer::Rate { workflow, per_second, from } => {
                    let (known, place) = (
                        self.rates.entry(workflow).or_default(),
                        rates.entry(workflow).or_default(),
                    );
                    *place += 1;
                    let is_new = *place > known.len();
                    if is_new {
                        known.push((per_second, from));
                    }
                    is_new
                }
            };
            if is_new {
                changes.push(steer.clone());
            }
        }
        changes
    }
}

impl Worker {
    /// The number of the last change that was heard; 0 if there was none.
    pub(super) fn steers_heard(&self, job: JobId) -> u64 {
        self.jobs.get(&job).map_or(0, |job| job.steered.last)
    }

    pub(super) fn steer(
        &mut self,
        job: JobId,
        steering: &Steering,
        out: &mut Vec<Effect>,
    ) -> Result<WorkerResponse, WorkerRefusal> {
        let limit = self.settings.limits.steered;
        if steering.steers.len() > limit {
            let what = "things that a job is steered to".to_owned();
            return Err(WorkerRefusal::TooMany { what, limit: limit as u64 });
        }
        self.follow(job, steering, out);
        Ok(WorkerResponse::Done)
    }

    /// Takes up what is in force, if it is news.
    pub(super) fn follow(&mut self, job: JobId, steering: &Steering, out: &mut Vec<Effect>) {
        let now = self.now;
        let steered = &mut self.job(job).steered;
        if steering.number <= steered.last {
            self.counts.steers_repeated += u64::from(steering.number > 0);
            return;
        }
        steered.last = steering.number;
        let since = steered.paused_at;
        let changes = steered.take(&steering.steers, now);
        let paused_for = since.filter(|_| steered.paused_at.is_none());
        for local_attempt in
            self.attempts.values_mut().filter(|local_attempt| local_attempt.run.shard.job == job)
        {
            let own = local_attempt.run.shard.workflow;
            let its = |steer: &&Steer| match steer {
                Steer::Pause if canary::active(Canary::PauseLost) => false,
                Steer::Pause | Steer::Resume => true,
                Steer::Vus { workflow, .. } | Steer::Rate { workflow, .. } => *workflow == own,
            };
            if local_attempt.phase.is_begun() {
                let run = local_attempt.run;
                let ack = changes.iter().filter(its).cloned();
                out.extend(ack.map(|steer| Effect::Steer { run, steer }));
            }
            // A pause is no part of the time that an attempt may run, nor of its schedule.
            if let (Some(since), Phase::Running { until }) = (paused_for, &mut local_attempt.phase)
            {
                let since = local_attempt.start.map_or(since, |start| since.max(start));
                *until = until.after(now.since(since));
                if let Some(progress) = &mut local_attempt.progress {
                    progress.elapsed += since.since(local_attempt.progress_at);
                    local_attempt.progress_at = now;
                }
            }
        }
    }

    /// What an attempt that begins has to be told.
    pub(super) fn steers_of(&self, run: Run) -> Vec<Steer> {
        let Some(Job { steered, .. }) = self.jobs.get(&run.shard.job) else { return Vec::new() };
        let workflow = run.shard.workflow;
        let vus = steered.vus.get(&workflow).map(|vus| Steer::Vus { workflow, vus: *vus });
        let rates = steered.rates.get(&workflow).into_iter().flatten();
        let rates = rates.map(|&(per_second, from)| Steer::Rate { workflow, per_second, from });
        let pause = steered.paused_at.map(|_| Steer::Pause);
        vus.into_iter().chain(rates).chain(pause).collect()
    }
}
