//! Attempts: one after the other, each only when the one before has provably stopped (R4), each
//! counted once (R17).

use std::sync::Arc;

use fence::canary::{self, Canary};
use fence::{Attempt, Epoch, JobId, ShardKey};

use super::State;
use super::apply::Here;
use super::command::{AttemptTerms, Command, LapseProof, ReportedBy, UnitGrant};
use super::history::EventKind;
use super::job::{Addendum, AttemptEnd, AttemptRecord, Job, Revoked, Shard};
use super::limits::{Limits, Resource};
use super::reply::{Refusal, Reply};

impl State {
    pub(super) fn start_attempt(
        &mut self,
        here: Here,
        command: &Command,
    ) -> Result<Reply, Refusal> {
        let Command::StartAttempt { shard: key, epoch, attempt, worker, boot, after, terms } =
            command
        else {
            return Ok(here.done());
        };
        let (worker, boot, after, terms) = (*worker, *boot, *after, *terms);
        let Limits { attempts, shards_per_job, retries, .. } = self.limits;
        let now_ms = self.now_ms;
        self.make_room(here, |state| state.derived.attempts >= u64::from(attempts));
        let attempts_full = self.derived.attempts >= u64::from(attempts);
        let job = self.jobs.get_mut(&key.job).map(Arc::make_mut).ok_or(Refusal::UnknownJob)?;
        job.refuse_stale(*epoch)?;
        job.refuse_ended()?;
        job.require_held(*epoch)?;

        let started = job.shard(key).and_then(|shard| shard.attempt(*attempt));
        if let Some(record) = started
            && (record.worker, record.boot, record.under) == (worker, boot, *epoch)
        {
            return Ok(Reply::Already { epoch: record.started });
        }
        job.refuse_after_cancel(key, now_ms)?;
        match job.shard(key) {
            Some(shard) => may_follow(shard, *attempt, after, retries)?,
            None => may_follow(&Shard::default(), *attempt, after, retries)?,
        }
        if attempts_full {
            return Err(Refusal::Full(Resource::Attempts { limit: attempts }));
        }
        if job.shard(key).is_none() && job.shards.len() >= shards_per_job as usize {
            return Err(Refusal::Full(Resource::Shards { limit: shards_per_job }));
        }

        let shard = job.shards.entry((key.workflow, key.shard)).or_default();
        if let Some(previous) = shard.attempts.last_mut() {
            previous.sealed = Some(here.epoch);
        }
        shard.attempts.push(AttemptRecord {
            worker,
            boot,
            under: *epoch,
            started: here.epoch,
            started_ms: now_ms,
            after,
            terms,
            revoked: None,
            end: None,
            sealed: None,
            addendum: None,
        });
        self.derived.attempts += 1;
        let ShardKey { job, workflow, shard } = *key;
        let kind = EventKind::AttemptStarted { workflow, shard, attempt: *attempt, worker };
        self.record(job, here.event(kind));
        Ok(here.done())
    }

    pub(super) fn revoke_attempt(
        &mut self,
        here: Here,
        key: &ShardKey,
        epoch: Epoch,
        attempt: Attempt,
        reason: &str,
        (heard_ms, suspected): (Option<u64>, bool),
    ) -> Result<Reply, Refusal> {
        let job = self.jobs.get_mut(&key.job).map(Arc::make_mut).ok_or(Refusal::UnknownJob)?;
        job.require_held(epoch)?;
        let record = attempt_mut(job, key, attempt)?;
        // A repeated revoke, or one that came too late: there is nothing left to take away.
        let before = record.revoked.as_ref().map(|revoked| revoked.epoch);
        if let Some(epoch) = before.or(record.end.as_ref().map(|end| end.epoch)) {
            return Ok(Reply::Already { epoch });
        }
        let (epoch, reason_kept) = (here.epoch, reason.to_owned());
        record.revoked = Some(Revoked { epoch, reason: reason_kept, heard_ms, suspected });
        self.derived.bytes += reason.len() as u64;
        let ShardKey { job, workflow, shard } = *key;
        self.record(job, here.event(EventKind::AttemptRevoked { workflow, shard, attempt }));
        Ok(here.done())
    }

    pub(super) fn end_attempt(&mut self, here: Here, command: &Command) -> Result<Reply, Refusal> {
        let Command::EndAttempt {
            shard: key,
            under,
            attempt,
            status,
            counters,
            result,
            sent_until_ms,
            word,
        } = command
        else {
            return Ok(here.done());
        };
        let (attempt, status) = (*attempt, *status);
        let job = self.jobs.get_mut(&key.job).map(Arc::make_mut).ok_or(Refusal::UnknownJob)?;
        let held = under.map_or(Ok(()), |under| job.require_held(under));
        let record = attempt_mut(job, key, attempt)?;
        if record.is_unheard() && *word != ReportedBy::Owner {
            return self.amend_attempt(here, command);
        }
        if let Some(end) = &record.end {
            let reply = Reply::Already { epoch: end.epoch };
            if canary::active(Canary::ApplyResultTwice) {
                job.totals.add(counters);
            }
            return Ok(reply);
        }
        held?;
        let (epoch, counters) = (here.epoch, *counters);
        let (result, sent_until_ms, word) = (*result, *sent_until_ms, *word);
        record.end = Some(AttemptEnd { epoch, status, counters, result, sent_until_ms, word });
        let superseded = record.sealed.is_some();
        job.totals.add(&counters);
        let ShardKey { job, workflow, shard } = *key;
        let kind = EventKind::AttemptEnded { workflow, shard, attempt, status, superseded };
        self.record(job, here.event(kind));
        if superseded {
            return Ok(Reply::Superseded { epoch, by: attempt.next() });
        }
        Ok(here.done())
    }

    /// The worker of an attempt that its owner has ended is back: its word is kept beside the end,
    /// which stays (R5).
    fn amend_attempt(&mut self, here: Here, command: &Command) -> Result<Reply, Refusal> {
        let Command::EndAttempt { shard: key, attempt, status, counters, result, word, .. } =
            *command
        else {
            return Ok(here.done());
        };
        let Limits { addenda_per_job, addenda_bytes, .. } = self.limits;
        let bytes = result.map_or(0, |blob| blob.bytes);
        let fits = self.derived.addenda_bytes.saturating_add(bytes) <= addenda_bytes;
        // The counts are small, and say what matters most.
        let result = result.filter(|_| fits);
        let job = self.jobs.get_mut(&key.job).map(Arc::make_mut).ok_or(Refusal::UnknownJob)?;
        if job.addenda().0 >= addenda_per_job as usize {
            return Err(Refusal::Full(Resource::Addenda { limit: addenda_per_job }));
        }
        let record = attempt_mut(job, &key, attempt)?;
        let (epoch, at) = (here.epoch, here.at);
        record.addendum = Some(Addendum { epoch, at, status, counters, result, word });
        self.derived.addenda_bytes += result.map_or(0, |blob| blob.bytes);
        let ShardKey { job, workflow, shard } = key;
        self.record(job, here.event(EventKind::AttemptAmended { workflow, shard, attempt }));
        Ok(here.done())
    }

    /// Not in the history: it is data, and there is much of it. A grant to an attempt that is over
    /// changes nothing.
    pub(super) fn grant_units(
        &mut self,
        here: Here,
        id: JobId,
        epoch: Epoch,
        grants: &[UnitGrant],
    ) -> Result<Reply, Refusal> {
        let job = self.jobs.get_mut(&id).map(Arc::make_mut).ok_or(Refusal::UnknownJob)?;
        job.refuse_stale(epoch)?;
        job.refuse_ended()?;
        job.require_held(epoch)?;
        job.refuse_cancelled()?;
        for grant in grants {
            let shard = job.shards.get_mut(&(grant.workflow, grant.shard));
            let Some(shard) = shard.filter(|shard| shard.last_number() == grant.attempt) else {
                continue;
            };
            let Some(record) = shard.attempts.last_mut().filter(|record| record.is_live()) else {
                continue;
            };
            let AttemptTerms { units_end, .. } = &mut record.terms;
            *units_end = units_end.map(|end| end.max(grant.end));
        }
        Ok(here.done())
    }
}

/// Losses of a shard that proved false and use no retry. A network that brings more of them is no
/// place to run it.
const FALSE_LOSSES_MAX: usize = 16;

fn attempt_mut<'job>(
    job: &'job mut Job,
    key: &ShardKey,
    attempt: Attempt,
) -> Result<&'job mut AttemptRecord, Refusal> {
    let Some(shard) = job.shards.get_mut(&(key.workflow, key.shard)) else {
        return Err(Refusal::NoSuchAttempt { last: Attempt(0) });
    };
    let last = shard.last_number();
    let place = (attempt.0 as usize).checked_sub(1);
    place.and_then(|place| shard.attempts.get_mut(place)).ok_or(Refusal::NoSuchAttempt { last })
}

/// Whether `attempt` may start, given the attempts before it.
fn may_follow(
    shard: &Shard,
    attempt: Attempt,
    after: LapseProof,
    retries: u32,
) -> Result<(), Refusal> {
    let expected = shard.last_number().next();
    if attempt != expected {
        return Err(Refusal::WrongAttempt { expected });
    }
    let Some((number, previous)) = shard.last() else {
        let first = after == LapseProof::First;
        return if first { Ok(()) } else { Err(Refusal::NoProof { attempt: Attempt(0) }) };
    };
    match &previous.end {
        Some(end) if end.status.is_final() => {
            return Err(Refusal::Settled { attempt: number, status: end.status });
        }
        None if previous.revoked.is_none() => {
            return Err(Refusal::StillLive { attempt: number });
        }
        _ => {}
    }
    let false_losses = shard.attempts.len() - shard.retries_used();
    if shard.retries_used() > retries as usize || false_losses > FALSE_LOSSES_MAX {
        return Err(Refusal::RetriesExhausted { limit: retries });
    }
    let proven = previous.end.is_some()
        || match after {
            LapseProof::First => false,
            LapseProof::HigherBoot(boot) => boot > previous.boot,
            LapseProof::Stopped | LapseProof::LeaseLapsed => true,
        };
    if proven { Ok(()) } else { Err(Refusal::NoProof { attempt: number }) }
}
