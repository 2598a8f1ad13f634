//! Live control on a worker: what is in force for a job, and what its attempts are told of it.

use std::collections::BTreeMap;
use std::time::Duration;

use fence::{Epoch, JobId, Moment, WorkflowNo};

use super::live::Phase;
use super::{Effect, Job, Run, Worker};
use crate::fleet::message::{Answer, Refused, Steer};

/// What is in force.
#[derive(Clone, Debug, Default)]
pub(super) struct Steered {
    last: Option<(Epoch, u64)>,
    pub paused_at: Option<Moment>,
    vus: BTreeMap<WorkflowNo, u32>,
    rates: BTreeMap<WorkflowNo, (f64, Duration)>,
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
        for steer in steers {
            let is_new = match *steer {
                Steer::Pause | Steer::Resume => false,
                Steer::Vus { workflow, vus } => self.vus.insert(workflow, vus) != Some(vus),
                Steer::Rate { workflow, per_second, from } => {
                    self.rates.insert(workflow, (per_second, from)) != Some((per_second, from))
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
    pub(super) fn steer(
        &mut self,
        job: JobId,
        place: (Epoch, u64),
        steers: &[Steer],
        out: &mut Vec<Effect>,
    ) -> Result<Answer, Refused> {
        let (now, limit) = (self.now, self.settings.limits.steered);
        if steers.len() > limit {
            let what = "things that a job is steered to".to_owned();
            return Err(Refused::TooMany { what, limit: limit as u64 });
        }
        let steered = &mut self.job(job).steered;
        // Epochs of one cluster have an order, and the door lets in no lower one.
        if steered.last.is_some_and(|last| place <= last) {
            self.counts.steers_repeated += 1;
            return Ok(Answer::Done);
        }
        steered.last = Some(place);
        let since = steered.paused_at;
        let changes = steered.take(steers, now);
        let paused_for = since.filter(|_| steered.paused_at.is_none());
        for live in self.live.values_mut().filter(|live| live.run.shard.job == job) {
            let own = live.run.shard.workflow;
            let its = |steer: &&Steer| match steer {
                Steer::Pause | Steer::Resume => true,
                Steer::Vus { workflow, .. } | Steer::Rate { workflow, .. } => *workflow == own,
            };
            if live.phase.is_begun() {
                let run = live.run;
                let told = changes.iter().filter(its).cloned();
                out.extend(told.map(|steer| Effect::Steer { run, steer }));
            }
            // A pause is no part of the time that an attempt may run, nor of its schedule.
            if let (Some(since), Phase::Running { until }) = (paused_for, &mut live.phase) {
                let since = live.start.map_or(since, |start| since.max(start));
                *until = until.after(now.since(since));
                if let Some(progress) = &mut live.progress {
                    progress.elapsed += since.since(live.progress_at);
                    live.progress_at = now;
                }
            }
        }
        Ok(Answer::Done)
    }

    /// What an attempt that begins has to be told.
    pub(super) fn steers_of(&self, run: Run) -> Vec<Steer> {
        let Some(Job { steered, .. }) = self.jobs.get(&run.shard.job) else { return Vec::new() };
        let workflow = run.shard.workflow;
        let vus = steered.vus.get(&workflow).map(|vus| Steer::Vus { workflow, vus: *vus });
        let rate = steered.rates.get(&workflow).map(|(per_second, from)| Steer::Rate {
            workflow,
            per_second: *per_second,
            from: *from,
        });
        let pause = steered.paused_at.map(|_| Steer::Pause);
        [vus, rate, pause].into_iter().flatten().collect()
    }
}
