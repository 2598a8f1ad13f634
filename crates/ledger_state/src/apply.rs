//! What each command does to jobs. Attempts are in [`super::attempt`], time is in
//! [`super::retention`].
//!
//! Every function either changes the job and records one event, or changes nothing and says why.

use std::sync::Arc;

use fence::{Epoch, Hlc, JobId};

use super::command::{Command, CreateJob, Outcome, Payload, Proposal, SessionId};
use super::history::{Event, EventKind};
use super::job::{Cancel, Context, End, Job};
use super::limits::{Problem, Resource, validate};
use super::reply::{Busy, Refusal, Rejection, Reply, Submission};
use super::{Limits, State};

/// However long a plan's graceful stop and teardown are, a cancelled job gets no more than this to
/// end.
pub(super) const GRACE_MS_MAX: u64 = 3_600_000;

/// The place of a command in the log, and its proposer's stamp.
#[derive(Clone, Copy)]
pub(super) struct Here {
    pub epoch: Epoch,
    pub at: Hlc,
}

impl Here {
    pub(super) fn event(self, kind: EventKind) -> Event {
        Event { epoch: self.epoch, at: self.at, kind }
    }

    pub(super) fn done(self) -> Reply {
        Reply::Done { epoch: self.epoch }
    }
}

impl State {
    pub(super) fn execute(&mut self, epoch: Epoch, proposal: &Proposal) -> Reply {
        let here = Here { epoch, at: proposal.at };
        if let Err(problem) = validate(&proposal.command, &self.limits) {
            return refuse_invalid(&proposal.command, problem);
        }
        let result = match &proposal.command {
            // Sessions are opened before a command gets here.
            Command::OpenSession => Ok(here.done()),
            Command::CreateJob(create) => Ok(Reply::Submitted(self.create(here, create))),
            Command::ClaimJob { job, claimant, seen } => self.claim(here, *job, *claimant, *seen),
            Command::ReleaseJob { job, epoch } => self.release(here, *job, *epoch),
            Command::StartAttempt { .. } => self.start_attempt(here, &proposal.command),
            Command::RevokeAttempt { shard, epoch, attempt, reason, heard_ms, suspected } => {
                let how = (*heard_ms, *suspected);
                self.revoke_attempt(here, shard, *epoch, *attempt, reason, how)
            }
            Command::EndAttempt { .. } => self.end_attempt(here, &proposal.command),
            Command::CommitContext { job, epoch, layer, context } => {
                self.commit_context(here, *job, *epoch, *layer, context)
            }
            Command::CancelJob { .. } => self.cancel(here, &proposal.command),
            Command::FinishJob { job, epoch, outcome, detail } => {
                self.finish(here, *job, *epoch, *outcome, detail)
            }
            Command::Advance { seen_ms, elapsed_ms } => {
                Ok(self.advance(here, *seen_ms, *elapsed_ms))
            }
            Command::MakeRoom { jobs } => {
                let mut left = *jobs;
                let retired = self.make_room(here, |_| {
                    let more = left > 0;
                    left = left.saturating_sub(1);
                    more
                });
                Ok(Reply::Advanced { now_ms: self.now_ms, retired })
            }
            Command::Provision { job, epoch, shards } => self.provision(here, *job, *epoch, shards),
            Command::BeginLoad { job, epoch, workflows } => {
                self.begin_load(here, *job, *epoch, workflows)
            }
            Command::GrantUnits { job, epoch, grants } => {
                self.grant_units(here, *job, *epoch, grants)
            }
            Command::SetLimits { .. } => Ok(self.set_limits(here, &proposal.command)),
            Command::GrantRows { .. } => self.grant_rows(here, &proposal.command),
            Command::StopJob { job, epoch, cause, reason } => {
                self.stop(here, *job, *epoch, *cause, reason)
            }
            Command::SteerJob { job, epoch, steer } => self.steer(here, *job, *epoch, steer),
            Command::ExtendJob { job, epoch, total_ms } => {
                self.extend(here, *job, *epoch, *total_ms)
            }
            Command::RecordResult { job, epoch, result } => {
                self.record_result(here, *job, *epoch, *result)
            }
        };
        result.unwrap_or_else(Reply::Refused)
    }

    fn create(&mut self, here: Here, create: &CreateJob) -> Submission {
        let id = create.key.job_id(&create.tenant);
        if let Some(job) = self.jobs.get(&id) {
            if (&job.tenant, &job.key) != (&create.tenant, &create.key) {
                return Submission::Rejected(Rejection::IdTaken { job: id });
            }
            if job.fingerprint != create.fingerprint {
                return Submission::Rejected(Rejection::KeyReused { job: id });
            }
            return Submission::Accepted { job: id, duplicate: true, created: job.created };
        }
        let retention_ms = self.limits.committed_ttl_ms;
        if create.age_ms > retention_ms {
            let late = Rejection::TooLate { age_ms: create.age_ms, retention_ms };
            return Submission::Rejected(late);
        }
        let mut job = Job::new(create, here.epoch, self.now_ms);
        if create.rehearsal {
            job.end = Some(End {
                epoch: here.epoch,
                at: here.at,
                outcome: Outcome::Completed,
                found: Outcome::Completed,
                detail: String::new(),
                ended_ms: self.now_ms,
            });
        }
        let bytes = job.text_bytes();
        let Limits { jobs, bytes: bytes_limit, .. } = self.limits;
        self.make_room(here, |state| state.jobs.len() >= jobs as usize || state.no_room_for(bytes));
        let full = if self.jobs.len() >= jobs as usize {
            Some(Resource::Jobs { limit: jobs })
        } else {
            self.no_room_for(bytes).then_some(Resource::Bytes { limit: bytes_limit })
        };
        if let Some(resource) = full {
            let why = Busy::Full(resource);
            return Submission::RetryLater { after_ms: self.next_retirement_in(), why };
        }
        self.jobs.insert(id, Arc::new(job));
        self.derived.bytes += bytes;
        self.derived.active.insert(id);
        self.record(id, here.event(EventKind::Created));
        self.expire_later(id);
        Submission::Accepted { job: id, duplicate: false, created: here.epoch }
    }

    fn claim(
        &mut self,
        here: Here,
        id: JobId,
        claimant: SessionId,
        seen: Option<Epoch>,
    ) -> Result<Reply, Refusal> {
        self.sessions.require(claimant)?;
        let job = self.jobs.get_mut(&id).map(Arc::make_mut).ok_or(Refusal::UnknownJob)?;
        job.refuse_ended()?;
        if job.epoch != seen {
            return Err(Refusal::ClaimLost { held: job.epoch });
        }
        job.epoch = Some(here.epoch);
        job.owner = Some(claimant);
        self.record(id, here.event(EventKind::Claimed { owner: claimant }));
        Ok(Reply::Claimed { epoch: here.epoch })
    }

    fn release(&mut self, here: Here, id: JobId, epoch: Epoch) -> Result<Reply, Refusal> {
        let job = self.jobs.get_mut(&id).map(Arc::make_mut).ok_or(Refusal::UnknownJob)?;
        job.require_held(epoch)?;
        job.owner = None;
        self.record(id, here.event(EventKind::Released));
        Ok(here.done())
    }

    fn commit_context(
        &mut self,
        here: Here,
        id: JobId,
        epoch: Epoch,
        layer: u32,
        context: &Payload,
    ) -> Result<Reply, Refusal> {
        let bytes = context.inline_bytes() as u64;
        self.make_room(here, |state| state.no_room_for(bytes));
        let no_room = self.no_room_for(bytes);
        let job = self.jobs.get_mut(&id).map(Arc::make_mut).ok_or(Refusal::UnknownJob)?;
        job.refuse_stale(epoch)?;
        job.refuse_ended()?;
        job.require_held(epoch)?;
        if let Some(committed) = job.contexts.get(layer as usize) {
            return Ok(Reply::Already { epoch: committed.epoch });
        }
        let expected = job.contexts.len() as u32;
        if layer != expected {
            return Err(Refusal::WrongLayer { expected });
        }
        if layer >= self.limits.layers {
            return Err(Refusal::Full(Resource::Layers { limit: self.limits.layers }));
        }
        if no_room {
            return Err(Refusal::Full(Resource::Bytes { limit: self.limits.bytes }));
        }
        job.contexts.push(Context { epoch: here.epoch, payload: context.clone() });
        self.derived.bytes += bytes;
        self.record(id, here.event(EventKind::ContextCommitted { layer }));
        Ok(here.done())
    }

    fn cancel(&mut self, here: Here, command: &Command) -> Result<Reply, Refusal> {
        let Command::CancelJob { job: id, reason, requestor, nonce, grace } = command else {
            return Ok(here.done());
        };
        let now_ms = self.now_ms;
        let job = self.jobs.get_mut(id).map(Arc::make_mut).ok_or(Refusal::UnknownJob)?;
        if let Some(End { outcome, epoch, .. }) = &job.end {
            return Ok(Reply::Ended { outcome: *outcome, epoch: *epoch });
        }
        if let Some(cancel) = &mut job.cancel {
            if cancel.hard.is_some() || cancel.nonce == *nonce {
                return Ok(Reply::Already { epoch: cancel.hard.unwrap_or(cancel.epoch) });
            }
            cancel.hard = Some(here.epoch);
            cancel.stop_until_ms = cancel.stop_until_ms.min(now_ms);
            cancel.teardown_until_ms = cancel.teardown_until_ms.min(now_ms);
            self.record(*id, here.event(EventKind::CancelForced));
            return Ok(here.done());
        }
        let until = |grace_ms: u64| now_ms.saturating_add(grace_ms.min(GRACE_MS_MAX));
        let stop_ms = grace.map_or(0, |grace| grace.stop_ms);
        let teardown_ms = grace.map_or(0, |grace| grace.teardown_ms.max(stop_ms));
        job.cancel = Some(Cancel {
            epoch: here.epoch,
            at: here.at,
            reason: reason.clone(),
            requestor: requestor.clone(),
            nonce: *nonce,
            stop_until_ms: until(stop_ms),
            teardown_until_ms: until(teardown_ms),
            hooks: grace.and_then(|grace| grace.hooks),
            hard: grace.is_none().then_some(here.epoch),
        });
        self.derived.bytes += (reason.len() + requestor.len()) as u64;
        self.record(*id, here.event(EventKind::CancelRequested));
        Ok(here.done())
    }

    fn finish(
        &mut self,
        here: Here,
        id: JobId,
        epoch: Epoch,
        found: Outcome,
        detail: &str,
    ) -> Result<Reply, Refusal> {
        let job = self.jobs.get_mut(&id).map(Arc::make_mut).ok_or(Refusal::UnknownJob)?;
        job.refuse_stale(epoch)?;
        if let Some(End { outcome, epoch, .. }) = &job.end {
            return Ok(Reply::Ended { outcome: *outcome, epoch: *epoch });
        }
        job.require_held(epoch)?;
        let outcome = match (&job.cancel, found) {
            (Some(_), _) => Outcome::Cancelled,
            (None, Outcome::Cancelled) => return Err(Refusal::NotCancelled),
            (None, found) => found,
        };
        job.end = Some(End {
            epoch: here.epoch,
            at: here.at,
            outcome,
            found,
            detail: detail.to_owned(),
            ended_ms: self.now_ms,
        });
        self.derived.bytes += detail.len() as u64;
        self.record(id, here.event(EventKind::Finished { outcome }));
        self.expire_later(id);
        Ok(Reply::Finished { outcome, epoch: here.epoch })
    }

    pub(super) fn no_room_for(&self, bytes: u64) -> bool {
        self.derived.bytes.saturating_add(bytes) > self.limits.bytes
    }
}

fn refuse_invalid(command: &Command, problem: Problem) -> Reply {
    match (command, problem) {
        (Command::CreateJob(_), Problem::Key(key)) => {
            Reply::Submitted(Submission::Rejected(Rejection::InvalidKey(key)))
        }
        (Command::CreateJob(_), other) => {
            Reply::Submitted(Submission::Rejected(Rejection::Invalid(other)))
        }
        _ => Reply::Refused(Refusal::Invalid(problem)),
    }
}
