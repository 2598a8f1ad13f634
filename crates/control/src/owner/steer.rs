//! What people change while a job runs: committed first, then told to every worker until it has heard it.
//!
//! ```text
//! steer ─▶ SteerJob committed ─▶ all that is in force, to every worker with an attempt
//!                                  ╰─ again and again, by a new owner too ─╯
//!          answered when all have acknowledged it, or with those that were not reached
//! ```
//!
//! A worker is told the whole of what is in force, under a number that rises with every change, in the ledger's count.
//! So nothing depends on which messages arrive, or in which order, and a successor needs no more than the ledger. A
//! start says it too, and renewals hand it over by whichever manager grants them.

use std::collections::BTreeSet;

use fence::{BootId, Moment, NodeId, OrderRefusal, ShardKey};

use super::rates::InForce;
use super::shard::Step;
use super::{Effect, Errand, Owner, Phase, Purpose};
use crate::message::{Answer, Refused, Steer, Steering};
use ledger_state::{Command, Lapse, Reply};

/// Wishes that wait for the one before them to be committed.
const WAITING_MAX: usize = 64;

/// A client who waits until everybody has heard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    asked: u64,
    number: u64,
    pub until: Moment,
}

impl Owner {
    /// One at a time: the last one in the ledger is the one that is in force, and it must be the last one here.
    pub(super) fn steer(&mut self, asked: u64, steer: Steer) {
        let refused = if self.is_stopping() || self.outcome.is_some() {
            Some("the job is ending")
        } else if self.steer_queue.len() >= WAITING_MAX {
            Some("too many changes wait to be written; say it again")
        } else {
            None
        };
        if let Some(why) = refused {
            let result = Err(why.to_owned());
            return self.out.push(Effect::Steered { asked, result });
        }
        self.steer_queue.push_back((asked, steer));
        self.commit_next_steer();
    }

    pub(super) fn commit_next_steer(&mut self) {
        if self.commits.values().any(|purpose| matches!(purpose, Purpose::Steer { .. })) {
            return;
        }
        // Where the schedule stands is not known before everybody was heard.
        let waits = matches!(self.steer_queue.front(), Some((_, Steer::Rate { .. })));
        if waits && matches!(self.phase, Phase::Recovering { .. }) {
            return;
        }
        let Some((asked, mut steer)) = self.steer_queue.pop_front() else { return };
        if let Steer::Rate { workflow, from, .. } = &mut steer {
            match self.rate_from(workflow.0) {
                Ok(moment) => *from = moment,
                Err(why) => {
                    self.out.push(Effect::Steered { asked, result: Err(why) });
                    return self.commit_next_steer();
                }
            }
        }
        let (job, epoch) = (self.id, self.epoch);
        let command = Command::SteerJob { job, epoch, steer: steer.clone() };
        self.commit(Purpose::Steer { asked, steer }, command);
    }

    pub(super) fn steer_committed(&mut self, asked: u64, steer: &Steer, reply: &Reply) {
        self.commit_next_steer();
        if let Reply::Refused(refusal) = reply {
            let result = Err(refusal.to_string());
            return self.out.push(Effect::Steered { asked, result });
        }
        match steer {
            Steer::Pause => {
                if self.paused.is_none() {
                    self.note("paused", None);
                }
                self.paused.get_or_insert(self.now);
            }
            Steer::Resume => self.resume(),
            Steer::Vus { workflow, vus } => {
                let name = self.name_of(workflow.0);
                self.note(format!("{name} set to {vus} VUs"), None);
            }
            Steer::Rate { workflow, per_second, .. } => {
                let name = self.name_of(workflow.0);
                self.note(format!("{name} set to {per_second} per second"), None);
            }
        }
        self.steered.retain(|other| !steer.replaces(&other.steer));
        let steer = steer.clone().following(self.steered.iter().map(|one| &one.steer));
        self.steers += 1;
        if steer == Steer::Pause {
            self.pause_number = self.steers;
        }
        let committed = self.schedule_time();
        self.steered.push(InForce { steer, number: self.steers, committed });
        let (number, until) = (self.steers, self.now.after(self.settings.steer_within));
        self.steer_asked.push(Asked { asked, number, until });
        self.steer_all();
    }

    fn name_of(&self, workflow: u32) -> String {
        let part = self.manifest.workflows.get(workflow as usize);
        part.map_or_else(|| format!("workflow {workflow}"), |part| part.name.clone())
    }

    /// The schedule goes on where it stood, and so do the limits on how long things may take.
    fn resume(&mut self) {
        let Some(since) = self.paused.take() else { return };
        let stood = self.now.since(since);
        match self.wave.as_mut().and_then(|wave| wave.clock.as_mut()) {
            Some(clock) => clock.paused += stood,
            None => self.recovery.stood += stood,
        }
        for shard in self.shards.values_mut().filter(|shard| shard.step == Step::Running) {
            shard.due = shard.due.map(|due| due.after(stood));
        }
        let whole = stood + std::mem::take(&mut self.recovery.pause);
        self.note(format!("resumed after {:.1} s", whole.as_secs_f64()), None);
    }

    /// Workers that have an attempt of this job, as far as is known.
    fn steered_workers(&self) -> BTreeSet<(NodeId, BootId)> {
        let out = self.shards.values().filter(|shard| shard.is_out());
        out.filter_map(|shard| shard.current().map(|one| (one.worker, one.boot))).collect()
    }

    pub(super) fn is_steered(&self, worker: NodeId, boot: BootId) -> bool {
        self.shards.values().any(|shard| {
            shard.is_out() && shard.current().is_some_and(|t| (t.worker, t.boot) == (worker, boot))
        })
    }

    /// Tells everybody what is in force: after a change, and when a new owner begins to act.
    pub(super) fn steer_all(&mut self) {
        for (worker, boot) in self.steered_workers() {
            self.steer_worker(worker, boot);
        }
    }

    /// A worker that gets an attempt of the job has to know what is in force.
    pub(super) fn steer_worker(&mut self, worker: NodeId, boot: BootId) {
        if self.steers > 0 {
            let number = self.steers;
            self.send(Errand::Steer { worker, boot, number });
        }
    }

    /// False: it was not heard, and is said again.
    pub(super) fn steer_answered(
        &mut self,
        worker: NodeId,
        boot: BootId,
        number: u64,
        answer: &Answer,
    ) -> bool {
        match answer {
            Answer::Done => self.has_heard(worker, boot, number),
            Answer::Refused(Refused::Fence(OrderRefusal::Epoch(refusal))) => {
                self.depose(format!("worker {worker}: {refusal}"));
            }
            Answer::Refused(Refused::Fence(OrderRefusal::OtherLife { own, .. })) if *own > boot => {
                let proof = Some(Lapse::HigherBoot(*own));
                self.lose_worker(worker, boot, "has started again", proof);
            }
            _ => {
                self.counts.lies += 1;
                return false;
            }
        }
        true
    }

    /// A worker follows this change, and those before it.
    pub(super) fn has_heard(&mut self, worker: NodeId, boot: BootId, number: u64) {
        self.note_old_rates(worker, boot);
        let heard = self.steer_heard.entry((worker, boot)).or_default();
        *heard = number.max(*heard);
    }

    pub(super) fn steering(&self) -> Steering {
        let steers = self.steered.iter().map(|one| one.steer.clone()).collect();
        Steering { number: self.steers, steers }
    }

    /// Answers those whose change has reached everybody, or who have waited long enough: they hear who was not reached.
    /// That one is told all the same, as soon as it answers.
    pub(super) fn answer_steers(&mut self) {
        if self.steer_asked.is_empty() {
            return;
        }
        for one in std::mem::take(&mut self.steer_asked) {
            let missed = self.not_reached(one.number);
            if !missed.is_empty() && self.now < one.until {
                self.steer_asked.push(one);
                continue;
            }
            if !missed.is_empty() {
                let count = missed.len();
                self.note(format!("a change has not reached {count} shards yet"), None);
            }
            self.out.push(Effect::Steered { asked: one.asked, result: Ok(missed) });
        }
    }

    fn not_reached(&self, number: u64) -> Vec<ShardKey> {
        let missed = self.shards.values().filter(|shard| {
            let at = shard.current().filter(|_| shard.is_out()).map(|one| (one.worker, one.boot));
            at.is_some_and(|at| self.steer_heard.get(&at).is_none_or(|heard| *heard < number))
        });
        missed.map(|shard| shard.key).collect()
    }
}
