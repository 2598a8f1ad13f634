//! What people change while a job runs: committed first, then told to every worker until it has
//! heard it.
//!
//! ```text
//! steer ─▶ SteerJob committed ─▶ all that is in force, to every worker with an attempt
//!                                  ╰─ again and again, by a new owner too ─╯
//!          answered when all have acknowledged it, or with those that were not reached
//! ```
//!
//! A worker is told the whole of what is in force, under a number that rises with every change, in
//! the ledger's count. So nothing depends on which messages arrive, or in which order, and a
//! successor needs no more than the ledger. A start says it too, and renewals hand it over by
//! whichever manager grants them.

use fence::{BootId, FenceRefusal, NodeId, ShardKey};

use super::attempt::AttemptState;
use super::calls::Call;
use super::commits::Purpose;
use super::live_control::Asked;
use super::shard::Step;
use super::{Effect, Owner};
use crate::message::{Steer, WorkerRefusal, WorkerResponse};
use ledger_state::{Command, LapseProof, Reply};

impl Owner {
    /// One at a time: the last one in the ledger is the one that is in force, and it must be the
    /// last one here.
    pub(super) fn steer(&mut self, asked: u64, steer: Steer) {
        let refused = if self.is_stopping() || self.lifecycle.outcome().is_some() {
            "the job is ending"
        } else if !self.control.wish(asked, steer) {
            "too many changes wait to be written; say it again"
        } else {
            return self.commit_next_steer();
        };
        self.outgoing.push(Effect::Steered { asked, result: Err(refused.to_owned()) });
    }

    pub(super) fn commit_next_steer(&mut self) {
        if self.outgoing.commits().have_a_steer() {
            return;
        }
        // Where the schedule stands is not known before everybody was heard.
        if self.control.next_is_a_rate() && self.lifecycle.is_recovering() {
            return;
        }
        let Some((asked, mut steer)) = self.control.next_wish() else { return };
        if let Steer::Rate { workflow, from, .. } = &mut steer {
            match self.rate_from(workflow.0) {
                Ok(moment) => *from = moment,
                Err(why) => {
                    self.outgoing.push(Effect::Steered { asked, result: Err(why) });
                    return self.commit_next_steer();
                }
            }
        }
        let (job, epoch) = (self.spec.id(), self.spec.epoch());
        let command = Command::SteerJob { job, epoch, steer: steer.clone() };
        self.outgoing.commit(Purpose::Steer { asked, steer }, command);
    }

    pub(super) fn steer_committed(&mut self, asked: u64, steer: &Steer, reply: &Reply) {
        self.commit_next_steer();
        if let Reply::Refused(refusal) = reply {
            let result = Err(refusal.to_string());
            return self.outgoing.push(Effect::Steered { asked, result });
        }
        match steer {
            Steer::Pause => {
                if self.control.pause(self.time.now()) {
                    self.note("paused", None);
                }
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
        let number = self.control.add(steer, self.schedule_time());
        let until = self.time.after(self.spec.settings().steer_within);
        self.control.wait(Asked { asked, number, until });
        self.steer_all();
    }

    fn name_of(&self, workflow: u32) -> String {
        let part = self.spec.part(workflow as usize);
        part.map_or_else(|| format!("workflow {workflow}"), |part| part.name.clone())
    }

    /// The schedule goes on where it stood, and so do the limits on how long things may take.
    fn resume(&mut self) {
        let Some(since) = self.control.resume() else { return };
        let stood = self.time.now().since(since);
        match self.stages.clock_mut() {
            Some(clock) => clock.paused += stood,
            None => self.recovery.stood(stood),
        }
        for shard in self.shards.values_mut().filter(|shard| shard.step == Step::Running) {
            shard.due = shard.due.map(|due| due.after(stood));
        }
        let whole = stood + self.recovery.take_pause();
        self.note(format!("resumed after {:.1} s", whole.as_secs_f64()), None);
    }

    /// Tells everybody what is in force: after a change, and when a new owner begins to act.
    pub(super) fn steer_all(&mut self) {
        for (worker, boot) in self.shards.lives_out() {
            self.steer_worker(worker, boot);
        }
    }

    /// A worker that gets an attempt of the job has to know what is in force.
    pub(super) fn steer_worker(&mut self, worker: NodeId, boot: BootId) {
        let number = self.control.number();
        if number > 0 {
            self.send(Call::Steer { worker, boot, number });
        }
    }

    /// False: it was not heard, and is said again.
    pub(super) fn steer_answered(
        &mut self,
        worker: NodeId,
        boot: BootId,
        number: u64,
        answer: &WorkerResponse,
    ) -> bool {
        match answer {
            WorkerResponse::Done => self.has_heard(worker, boot, number),
            WorkerResponse::Refused(WorkerRefusal::Fence(FenceRefusal::Epoch(refusal))) => {
                self.depose(format!("worker {worker}: {refusal}"));
            }
            WorkerResponse::Refused(WorkerRefusal::Fence(FenceRefusal::OtherLife {
                own, ..
            })) if *own > boot => {
                let proof = Some(LapseProof::HigherBoot(*own));
                self.lose_worker(worker, boot, "has started again", proof);
            }
            _ => {
                self.journal.count_mismatch();
                return false;
            }
        }
        true
    }

    /// A worker follows this change, and those before it.
    pub(super) fn has_heard(&mut self, worker: NodeId, boot: BootId, number: u64) {
        self.note_old_rates(worker, boot);
        self.control.has_heard((worker, boot), number);
    }

    /// Answers those whose change has reached everybody, or who have waited long enough: they hear
    /// who was not reached. That one is told all the same, as soon as it answers.
    pub(super) fn answer_steers(&mut self) {
        for one in self.control.take_asked() {
            let missed = self.not_reached(one.number);
            if !missed.is_empty() && self.time.now() < one.until {
                self.control.wait(one);
                continue;
            }
            if !missed.is_empty() {
                let count = missed.len();
                self.note(format!("a change has not reached {count} shards yet"), None);
            }
            self.outgoing.push(Effect::Steered { asked: one.asked, result: Ok(missed) });
        }
    }

    fn not_reached(&self, number: u64) -> Vec<ShardKey> {
        let missed = self.shards.values().filter(|shard| {
            let life = shard.current().filter(|_| shard.is_out()).map(AttemptState::life);
            life.is_some_and(|life| self.control.heard_by(life) < number)
        });
        missed.map(|shard| shard.key).collect()
    }
}
