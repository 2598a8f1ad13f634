//! Attempts: started, lost, proven to have stopped, and started anew (R4, R5a).
//!
//! ```text
//! worker dead, restarted, silent, or says so ──▶ FAILED, revoke proposed, stop asked for
//!    revoke committed ──▶ waits for: stop acknowledged | higher boot | 1.25 L
//!                            ╰──▶ PENDING, attempt n+1, or FAILED_TERMINAL after the last
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use fence::{Attempt, BootId, Handover, Holding, NodeId};

use super::attempt::{AttemptState, Revoked};
use super::calls::Call;
use super::commits::Purpose;
use super::manifest::OnWorkerLoss;
use super::shard::{State, Step};
use super::time::millis;
use super::{Owner, Sid};
use crate::message::Task;
use ledger_state::{Command, LapseProof, Refusal, Reply};

impl Owner {
    /// The ledger's answer to `StartAttempt`.
    pub(super) fn attempt_started(&mut self, sid: Sid, reply: &Reply) {
        let Some(shard) = self.shards.get_mut(&sid).filter(|shard| shard.step == Step::Proposed)
        else {
            self.journal.count_late();
            return;
        };
        let terms = shard.proposed.take().unwrap_or_default();
        if let Reply::Refused(refusal) = reply {
            let refusal = *refusal;
            return self.attempt_refused(sid, &refusal);
        }
        let Some(place) = shard.placing.assignment else { return };
        let lease = fence::LeaseTerms::new(Duration::from_millis(terms.lease_ms));
        let mut one = AttemptState::new(place.life(), lease, self.time.age(), self.time.now());
        one.shared = place.reservation.is_none();
        one.units.before = terms.units_before;
        one.units.budget = self.budget(sid, &terms, 0);
        self.count_lost(sid);
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        shard.attempts.push(one);
        shard.step = Step::Sent;
        shard.placing.retry_at = None;
        shard.placing.tries = 0;
        shard.due = Some(self.time.after(self.spec.settings().ready_within));
        let (attempt, worker) = (shard.attempt(), place.worker);
        let unwanted = shard.stop.is_some();
        self.say_not_queued();
        if attempt.0 > 1 {
            self.journal.count_retry();
        }
        self.go(sid, State::Dispatched, format!("attempt {attempt} on worker {worker}"));
        if unwanted {
            // The stop came while the start was on its way into the ledger: nothing was dispatched
            // yet.
            self.go(sid, State::Cancelling, "stopped before it was dispatched");
            return self.never_ran(sid, "stopped before it was dispatched");
        }
        if !self.capacity.pool().is_live(worker, place.boot) {
            return self.lose(sid, "its worker was lost before the dispatch", None);
        }
        self.steer_worker(worker, place.boot);
        self.send(Call::Dispatch(sid, attempt));
    }

    fn attempt_refused(&mut self, sid: Sid, refusal: &Refusal) {
        self.leave_reservation(sid, false);
        self.set(sid, Step::Idle);
        match refusal {
            // The job is being stopped by now, and this shard with it.
            Refusal::Cancelled { .. } => {
                self.go(sid, State::Cancelled, "the job was cancelled");
            }
            Refusal::Settled { status, .. } => self.settled(sid, *status),
            other => self.give_up(sid, format!("the ledger refused its attempt: {other}")),
        }
    }

    /// What membership says now, against where attempts are.
    pub(super) fn look_at_workers(&mut self) {
        let mut gone: BTreeMap<(NodeId, BootId), &'static str> = BTreeMap::new();
        for shard in self.shards.values() {
            let placed = shard.placing.assignment.map(|place| place.life());
            let tried = shard.current().filter(|one| one.end.is_none());
            let tried = tried.map(|one| one.life());
            for (node, boot) in placed.into_iter().chain(tried) {
                match self.capacity.pool().get(node) {
                    Some(worker) if worker.boot > boot => {
                        gone.insert((node, boot), "is said to have started again");
                    }
                    Some(worker)
                        if !worker.live && worker.boot == boot && !self.is_heard(node, boot) =>
                    {
                        gone.insert((node, boot), "was lost");
                    }
                    _ => {}
                }
            }
        }
        // Gossip proves nothing (R26), a higher boot as little as a death. The stop that goes out
        // with the revoke is answered by whoever runs there now, over mutual TLS; that answer may
        // be the proof.
        for ((node, boot), what) in gone {
            self.lose_worker(node, boot, what, None);
        }
        self.outgoing.changed();
    }

    /// Without a proof it is only taken for lost, by hints; see
    /// [`super::shard::AttemptState::was_lost_falsely`].
    ///
    /// LIFE-22: all its shards, in one step. LIFE-30: a second time does nothing.
    pub(super) fn lose_worker(
        &mut self,
        node: NodeId,
        boot: BootId,
        what: &str,
        proof: Option<LapseProof>,
    ) {
        self.time.forget(node);
        self.recovery.answered((node, boot));
        let mut lost: BTreeMap<u32, u32> = BTreeMap::new();
        let here = self.shards.sids();
        for sid in here {
            let Some(shard) = self.shards.get_mut(&sid) else { continue };
            if let Some(place) = shard.placing.assignment
                && place.life() == (node, boot)
                && matches!(shard.step, Step::Idle | Step::Placed)
            {
                shard.step = Step::Idle;
                self.leave_reservation(sid, false);
                self.outgoing.changed();
                continue;
            }
            let Some(one) = shard.attempts.last() else { continue };
            if one.life() != (node, boot) {
                continue;
            }
            if let Some(LapseProof::HigherBoot(now)) = proof
                && matches!(shard.step, Step::Revoking | Step::Lapsing(_))
            {
                match &mut shard.step {
                    Step::Lapsing(handover) => handover.boot_seen(node, now),
                    // The revoke is on its way into the ledger.
                    _ => shard.proof = LapseProof::HigherBoot(now),
                }
                self.outgoing.changed();
            } else if shard.is_out() || shard.step == Step::Unsent {
                *lost.entry(sid.0).or_default() += 1;
                self.lose_by(sid, &format!("worker {node} {what}"), proof, proof.is_none());
            }
        }
        if lost.is_empty() {
            return;
        }
        self.journal.count_lost_worker();
        let policy = match self.spec.manifest().policy.on_worker_loss {
            OnWorkerLoss::Rebalance => "rebalance",
            OnWorkerLoss::Continue => "continue",
            OnWorkerLoss::Fail => "fail",
        };
        for (workflow, count) in lost {
            let text = match self.workflows.shards(workflow as usize) {
                Some(of) => {
                    let name = self.workflows.name(workflow as usize);
                    format!("worker {node} {what}, with {count} of {of} shards of {name}")
                }
                None => format!("worker {node} {what} during a setup or teardown"),
            };
            self.note(format!("{text} (on_worker_loss: {policy})"), None);
        }
    }

    /// An attempt that can no longer be relied on. It may still run; what follows makes sure that
    /// it does not.
    pub(super) fn lose(&mut self, sid: Sid, why: &str, proof: Option<LapseProof>) {
        self.lose_by(sid, why, proof, false);
    }

    fn lose_by(&mut self, sid: Sid, why: &str, proof: Option<LapseProof>, suspected: bool) {
        let age = self.time.age();
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        if !shard.is_out() && shard.step != Step::Unsent {
            return;
        }
        let Some(one) = shard.attempts.last_mut() else { return };
        one.revoked = if suspected { Revoked::Suspected } else { Revoked::Known };
        let (node, boot) = one.life();
        // That it was lost is noticed later than it was: nothing is certain since it was last
        // heard.
        let heard = one.heard.unwrap_or(one.since.min(age));
        let may_run = one.may_run;
        let attempt = shard.attempt();
        // Taken over from another owner, it may have run without having said so here.
        if (shard.step == Step::Running || may_run) && shard.task == Task::Load {
            shard.lost_at.get_or_insert(heard);
        }
        let lost_at = shard.lost_at;
        shard.placing.failed_on.push((node, boot));
        shard.step = Step::Revoking;
        shard.due = None;
        shard.unsure = false;
        shard.proof = proof.unwrap_or(LapseProof::LeaseLapsed);
        let (key, cancelling) = (shard.key, shard.state() == State::Cancelling);
        self.liveness.is_present(sid, attempt);
        self.grants.forget_rows(sid);
        self.leave_reservation(sid, false);
        if !cancelling {
            self.go(sid, State::Failed, why);
        }
        let (epoch, reason) = (self.spec.epoch(), self.spec.short(why));
        let heard_ms = lost_at.map(millis);
        self.outgoing.commit(
            Purpose::Revoke(sid, attempt),
            Command::RevokeAttempt { shard: key, epoch, attempt, reason, heard_ms, suspected },
        );
        // If it lives, it says at once that it has stopped, and nobody has to wait.
        self.send(Call::Stop(sid, attempt));
    }

    pub(super) fn attempt_revoked(&mut self, sid: Sid, attempt: Attempt, reply: &Reply) {
        if let Reply::Refused(refusal) = reply {
            let text = format!("the ledger refused a revoke: {refusal}");
            return self.note(text, None);
        }
        let now = self.time.now();
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        if shard.attempt() != attempt || shard.step != Step::Revoking {
            self.journal.count_late();
            return;
        }
        let (key, proof) = (shard.key, shard.proof);
        let Some(one) = shard.current() else { return };
        let holding = Holding { shard: key, attempt, worker: one.worker, boot: one.boot };
        let ended = one.end.is_some();
        let mut handover = Handover::revoke_seen_committed(holding, one.lease, now);
        match proof {
            LapseProof::HigherBoot(boot) => handover.boot_seen(holding.worker, boot),
            LapseProof::Stopped => handover.stop_acknowledged(&holding),
            LapseProof::First | LapseProof::LeaseLapsed => {}
        }
        if ended {
            handover.stop_acknowledged(&holding);
        }
        shard.step = Step::Lapsing(handover);
    }

    /// The worker of a revoked attempt says that nothing runs there any more.
    pub(super) fn stop_proven(&mut self, sid: Sid, attempt: Attempt) {
        let Some(shard) = self.shards.get_mut(&sid).filter(|shard| shard.attempt() == attempt)
        else {
            return;
        };
        let Some(one) = shard.attempts.last() else { return };
        let by = Holding { shard: shard.key, attempt, worker: one.worker, boot: one.boot };
        match &mut shard.step {
            Step::Revoking => shard.proof = LapseProof::Stopped,
            Step::Lapsing(handover) => handover.stop_acknowledged(&by),
            _ => return,
        }
        self.outgoing.changed();
    }
}
