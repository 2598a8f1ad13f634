//! What the machine decides, carried out: answers, gates, threads, words to managers, files.

use base::clock;
use std::collections::BTreeSet;
use std::sync::Arc;

use control::message::{Dispatch, WorkerResponse};
use control::worker::{Effect, EngineEndKind, Event, Run};
use fence::JobId;

use super::{Actor, Slot, ended};
use crate::worker::attempt::Attempt;
use crate::worker::blobs::NotHere;
use crate::worker::files;
use crate::worker::frames::FrameSender;
use crate::worker::job::{Job, lock};
use crate::worker::prepare;
use crate::worker::{ActorInput, End};

/// Jobs without a running attempt that stay loaded, for the next layer or a retry.
const IDLE_JOBS_MAX: usize = 4;
/// Leaders of jobs that have not got as far as an attempt; without one, managers are tried in turn.
const LEADERS_MAX: usize = 1024;

impl Actor {
    pub(super) fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Respond { to, answer } => self.answer(to, answer),
            Effect::Fetch { run, blobs } => {
                let (cache, inbox) = (Arc::clone(&self.preparer.blobs), self.inbox.clone());
                tokio::spawn(async move {
                    let mut result = Ok(());
                    for blob in blobs {
                        result = cache.get(blob).await.map(drop);
                        if result.is_err() {
                            break;
                        }
                    }
                    inbox.event(match result {
                        Ok(()) => Event::Fetched { run, result: Ok(()) },
                        Err(NotHere::NotNow(why)) => Event::Fetched { run, result: Err(why) },
                        // Another machine may have room; waiting for some here would hold everybody
                        // up.
                        Err(NotHere::Disk(why)) => {
                            ended(run, EngineEndKind::Unable(why), String::new())
                        }
                    });
                });
            }
            Effect::Prepare { dispatch, .. } => self.prepare(dispatch),
            Effect::Start { run, at, elapsed, clock } => {
                if let Some(attempt) = self.state.attempts.get_mut(&run) {
                    let engine = self.preparer.engine.as_ref();
                    attempt.start(engine, at, elapsed, clock, &self.inbox);
                }
            }
            Effect::ExtendPermit { run, until } => {
                if let Some(attempt) = self.state.attempts.get(&run) {
                    attempt.permit.extend(until, clock::now());
                }
            }
            Effect::WithdrawPermit { run } => {
                if let Some(attempt) = self.state.attempts.get_mut(&run)
                    && attempt.shut()
                {
                    self.state.next.push_back(Event::PermitWithdrawn { run });
                }
            }
            Effect::Stop { run, how } => match self.state.attempts.get(&run) {
                Some(attempt) if attempt.is_made() => attempt.halt(how),
                _ => self.let_go(run),
            },
            Effect::Kill { run } => match self.state.attempts.get(&run) {
                Some(attempt) if attempt.is_made() => attempt.kill(),
                _ => self.let_go(run),
            },
            Effect::Steer { run, steer } => {
                if let Some(attempt) = self.state.attempts.get_mut(&run) {
                    attempt.steer(&steer);
                }
            }
            Effect::GiveRows { run, rows } => {
                if let Some(attempt) = self.state.attempts.get_mut(&run) {
                    attempt.give_rows(rows);
                }
            }
            Effect::GrantUnits { run, end } => {
                if let Some(attempt) = self.state.attempts.get_mut(&run) {
                    attempt.grant_units(end);
                }
            }
            Effect::SendRenewal { number, to, renew } => {
                let (managers, inbox) = (Arc::clone(&self.managers), self.inbox.clone());
                tokio::spawn(async move {
                    inbox.event(match managers.renew(to, &renew).await {
                        Ok(answers) => Event::RenewalAnswered { number, answers },
                        Err(status) => {
                            tracing::debug!(%to, %status, "leases were not renewed");
                            Event::RenewalFailed { number }
                        }
                    });
                });
            }
            Effect::SendReport { number, to, report } => {
                let (managers, inbox) = (Arc::clone(&self.managers), self.inbox.clone());
                tokio::spawn(async move {
                    inbox.event(match managers.report(to, &report).await {
                        Ok(ack) => Event::ReportAnswered { number, ack },
                        Err(status) => {
                            tracing::debug!(%to, %status, "it was not heard");
                            Event::ReportFailed { number }
                        }
                    });
                });
            }
            Effect::Store { report } => {
                // The task that writes files lives as long as this actor.
                let _ = self.files.send(files::Job::Store(report));
            }
            Effect::Remove { run } => self.remove(run),
            Effect::Drained => {
                self.end.send_if_modified(drained);
            }
        }
    }

    pub(super) fn answer(&mut self, to: u64, answer: WorkerResponse) {
        let Some((caller, from, job)) = self.state.callers.remove(&to) else { return };
        if !matches!(answer, WorkerResponse::Refused(_))
            && let Some(job) = job
        {
            if let Some(slot) = self.state.jobs.get(&job) {
                *lock(&slot.job.owner) = Some(from);
            } else {
                if self.state.leaders.len() >= LEADERS_MAX {
                    self.state.leaders.pop_first();
                }
                self.state.leaders.insert(job, from);
            }
        }
        // A caller that has gone away asks again, and is told the same.
        let _ = caller.send(answer);
    }

    pub(super) fn prepare(&mut self, dispatch: Box<Dispatch>) {
        let run = Run::new(dispatch.order.shard, dispatch.order.step.attempt);
        let id = run.shard.job;
        self.state.uses += 1;
        let used = self.state.uses;
        let known = self.state.jobs.get(&id).map(|slot| slot.job.bundle);
        if known != Some(dispatch.bundle) {
            let job = Arc::new(Job::new(id, dispatch.bundle));
            *lock(&job.owner) = self.state.leaders.remove(&id);
            let poster = FrameSender {
                job: Arc::downgrade(&job),
                node: self.settings.node,
                boot: self.settings.boot,
                managers: Arc::clone(&self.managers),
            };
            tokio::spawn(poster.run());
            self.state.jobs.insert(id, Slot { job, runs: BTreeSet::new(), used });
        }
        let Some(slot) = self.state.jobs.get_mut(&id) else { return };
        slot.runs.insert(run);
        slot.used = used;
        let job = Arc::clone(&slot.job);
        let attempt = Attempt::new(&dispatch, Arc::clone(&job));
        let permit = Arc::clone(&attempt.permit);
        self.state.attempts.insert(run, attempt);
        let (preparer, inbox) = (Arc::clone(&self.preparer), self.inbox.clone());
        tokio::spawn(async move {
            let made = prepare::make(preparer, job, permit, dispatch, inbox.clone()).await;
            inbox.word(ActorInput::PreparedAttempt(run, made));
        });
    }

    /// It has no thread that could send or end: it is over now. What is being made is let go when
    /// it comes.
    pub(super) fn let_go(&mut self, run: Run) {
        let Some(attempt) = self.state.attempts.remove(&run) else { return };
        if let Some(key) = attempt.stream {
            lock(&attempt.job.streams).remove(&key);
        }
        attempt.permit.close();
        self.state.next.push_back(ended(run, EngineEndKind::Stopped, String::new()));
        self.settle_jobs();
    }

    pub(super) fn remove(&mut self, run: Run) {
        let _ = self.files.send(files::Job::Remove(run));
        let id = run.shard.job;
        let Some(slot) = self.state.jobs.get_mut(&id) else { return };
        slot.runs.remove(&run);
        lock(&slot.job.streams).retain(|key, _| {
            (key.workflow, key.shard, key.attempt)
                != (run.shard.workflow.0, run.shard.shard, run.attempt.0)
        });
        self.settle_jobs();
    }

    /// Jobs that have nothing running stay loaded for a while: a few of them, and only their
    /// streams beyond that.
    pub(super) fn settle_jobs(&mut self) {
        let busy: BTreeSet<JobId> = self.state.attempts.keys().map(|run| run.shard.job).collect();
        let mut idle: Vec<(u64, JobId)> = Vec::new();
        for (id, slot) in &self.state.jobs {
            if !busy.contains(id) {
                idle.push((slot.used, *id));
            }
        }
        idle.sort_unstable();
        let most = idle.len().saturating_sub(IDLE_JOBS_MAX);
        for (_, id) in idle.into_iter().take(most) {
            let Some(slot) = self.state.jobs.get(&id) else { continue };
            let job = Arc::clone(&slot.job);
            if slot.runs.is_empty() {
                self.state.jobs.remove(&id);
            }
            // Removing its files may take a moment.
            drop(self.preparer.host.blocking(move || job.unload()));
        }
    }
}

pub(super) fn drained(end: &mut Option<End>) -> bool {
    let news = end.is_none();
    end.get_or_insert(End::Drained);
    news
}
