//! The course of a job under its owner: how its work is divided, when load begins, who may use
//! which rows, what it was steered to, why it stops early, where its result lies.
//!
//! All of it is here so that a successor can go on where the owner was: nothing of it can be asked
//! of the workers.

use std::sync::Arc;

use fence::{Epoch, JobId, WorkflowNo};

use super::State;
use super::apply::Here;
use super::command::{BlobRef, Command, StopCause};
use super::history::EventKind;
use super::job::{Job, Provisioned, Steered, Stopping};
use super::limits::Resource;
use super::reply::{Refusal, Reply};
use crate::Steer;
use schedule::RATE_CHANGES_MAX;

/// Data sets of one job, and changes by people, that the ledger remembers.
const SETS_MAX: u32 = 1_024;
/// Changes of rates are all kept and have a bound of their own, so that a pause is always taken.
/// Together no more than a worker keeps (`fleet::worker`), or it would refuse what the ledger has
/// taken.
const STEERS_MAX: u32 = 256;
const RATES_MAX: u32 = RATE_CHANGES_MAX as u32;

impl State {
    /// The job, if this is its owner's epoch and it has not ended.
    fn owned(&mut self, id: JobId, epoch: Epoch) -> Result<&mut Job, Refusal> {
        let job = self.jobs.get_mut(&id).map(Arc::make_mut).ok_or(Refusal::UnknownJob)?;
        job.refuse_stale(epoch)?;
        job.refuse_ended()?;
        job.require_held(epoch)?;
        Ok(job)
    }

    pub(super) fn provision(
        &mut self,
        here: Here,
        id: JobId,
        epoch: Epoch,
        shards: &[(WorkflowNo, u32)],
    ) -> Result<Reply, Refusal> {
        let most = self.limits.shards_per_job;
        let job = self.owned(id, epoch)?;
        let known = |workflow: &WorkflowNo| job.provisioned.get(workflow);
        for &(workflow, count) in shards {
            if let Some(known) = known(&workflow)
                && known.shards != count
            {
                return Err(Refusal::OtherDivision { workflow, shards: known.shards });
            }
        }
        if shards.iter().all(|(workflow, _)| known(workflow).is_some()) {
            let first = shards.first().and_then(|(workflow, _)| known(workflow));
            return Ok(Reply::Already { epoch: first.map_or(here.epoch, |known| known.epoch) });
        }
        job.refuse_cancelled()?;
        let more: u32 = shards.iter().map(|(_, count)| *count).sum();
        let there: u32 = job.provisioned.values().map(|one| one.shards).sum();
        if there.saturating_add(more) > most {
            return Err(Refusal::Full(Resource::Shards { limit: most }));
        }
        for &(workflow, shards) in shards {
            let division = Provisioned { epoch: here.epoch, shards, begun_ms: None, paused_ms: 0 };
            job.provisioned.entry(workflow).or_insert(division);
        }
        let workflows = u32::try_from(shards.len()).unwrap_or(u32::MAX);
        self.record(id, here.event(EventKind::Provisioned { workflows, shards: more }));
        Ok(here.done())
    }

    pub(super) fn begin_load(
        &mut self,
        here: Here,
        id: JobId,
        epoch: Epoch,
        workflows: &[WorkflowNo],
    ) -> Result<Reply, Refusal> {
        let now_ms = self.now_ms;
        let job = self.owned(id, epoch)?;
        let known = |workflow: &WorkflowNo| job.provisioned.get(workflow);
        if let Some(&workflow) = workflows.iter().find(|workflow| known(workflow).is_none()) {
            return Err(Refusal::NotProvisioned { workflow });
        }
        if workflows.iter().all(|workflow| known(workflow).is_some_and(|w| w.begun_ms.is_some())) {
            return Ok(Reply::Already { epoch: here.epoch });
        }
        job.refuse_cancelled()?;
        let paused_ms = job.paused_by_ms(now_ms);
        for workflow in workflows {
            if let Some(division) = job.provisioned.get_mut(workflow)
                && division.begun_ms.is_none()
            {
                (division.begun_ms, division.paused_ms) = (Some(now_ms), paused_ms);
            }
        }
        let workflows = u32::try_from(workflows.len()).unwrap_or(u32::MAX);
        self.record(id, here.event(EventKind::LoadBegun { workflows }));
        Ok(here.done())
    }

    /// Not in the history: it is data, and there is much of it.
    pub(super) fn grant_rows(&mut self, here: Here, command: &Command) -> Result<Reply, Refusal> {
        let Command::GrantRows { shard, epoch, attempt, set, count, of } = command else {
            return Ok(here.done());
        };
        let job = self.owned(shard.job, *epoch)?;
        job.refuse_cancelled()?;
        let live = job.shard(shard).and_then(|shard| shard.last());
        if !live.is_some_and(|(last, record)| last == *attempt && record.is_live()) {
            return Err(Refusal::NotLive { attempt: *attempt });
        }
        if !job.rows.contains_key(set) && job.rows.len() >= SETS_MAX as usize {
            return Err(Refusal::Full(Resource::Sets { limit: SETS_MAX }));
        }
        let next = job.rows.entry(*set).or_default();
        let first = (*next).min(*of);
        let end = first.saturating_add(*count).min(*of);
        *next = (*next).max(end);
        Ok(Reply::Rows { epoch: here.epoch, first, end })
    }

    pub(super) fn stop(
        &mut self,
        here: Here,
        id: JobId,
        epoch: Epoch,
        cause: StopCause,
        reason: &str,
    ) -> Result<Reply, Refusal> {
        let job = self.owned(id, epoch)?;
        if let Some(stop) = &job.stop {
            return Ok(Reply::Already { epoch: stop.epoch });
        }
        job.stop = Some(Stopping { epoch: here.epoch, cause, reason: reason.to_owned() });
        self.derived.bytes += reason.len() as u64;
        self.record(id, here.event(EventKind::StopRequested { cause }));
        Ok(here.done())
    }

    pub(super) fn steer(
        &mut self,
        here: Here,
        id: JobId,
        epoch: Epoch,
        steer: &Steer,
    ) -> Result<Reply, Refusal> {
        let now_ms = self.now_ms;
        let job = self.owned(id, epoch)?;
        job.refuse_cancelled()?;
        let is_rate = |steer: &Steer| matches!(steer, Steer::Rate { .. });
        let stays = |other: &Steered| !steer.replaces(&other.steer);
        let alike = |other: &&Steered| stays(other) && is_rate(&other.steer) == is_rate(steer);
        let (most, full) = match is_rate(steer) {
            true => (RATES_MAX, Resource::Rates { limit: RATES_MAX }),
            false => (STEERS_MAX, Resource::Steers { limit: STEERS_MAX }),
        };
        if job.steered.iter().filter(alike).count() >= most as usize {
            return Err(Refusal::Full(full));
        }
        job.steered.retain(stays);
        let schedule_ms = match steer {
            Steer::Vus { workflow, .. } | Steer::Rate { workflow, .. } => {
                job.schedule_ms(*workflow, now_ms)
            }
            Steer::Pause | Steer::Resume => 0,
        };
        let after = steer.clone().following(job.steered.iter().map(|one| &one.steer));
        job.steered.push(Steered { steer: after, schedule_ms });
        job.steers += 1;
        let kind = match steer {
            Steer::Pause => {
                job.paused_since_ms.get_or_insert(now_ms);
                EventKind::Paused
            }
            Steer::Resume => {
                job.paused_ms = job.paused_by_ms(now_ms);
                job.paused_since_ms = None;
                EventKind::Resumed
            }
            Steer::Vus { .. } | Steer::Rate { .. } => EventKind::Steered,
        };
        self.record(id, here.event(kind));
        Ok(here.done())
    }

    pub(super) fn extend(
        &mut self,
        here: Here,
        id: JobId,
        epoch: Epoch,
        total_ms: u64,
    ) -> Result<Reply, Refusal> {
        let job = self.owned(id, epoch)?;
        if total_ms <= job.extended_ms {
            return Ok(Reply::Already { epoch: here.epoch });
        }
        job.extended_ms = total_ms;
        self.record(id, here.event(EventKind::Extended { total_ms }));
        Ok(here.done())
    }

    pub(super) fn record_result(
        &mut self,
        here: Here,
        id: JobId,
        epoch: Epoch,
        result: BlobRef,
    ) -> Result<Reply, Refusal> {
        let job = self.owned(id, epoch)?;
        if job.result.is_some() {
            return Ok(Reply::Already { epoch: here.epoch });
        }
        job.result = Some(result);
        self.record(id, here.event(EventKind::ResultRecorded));
        Ok(here.done())
    }
}
