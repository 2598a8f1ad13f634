//! Attempts: started, lost, proven to have stopped, and started anew (R4, R5a).
//!
//! ```text
//! worker dead, restarted, silent, or says so ──▶ FAILED, revoke proposed, stop asked for
//!        revoke committed ──▶ waits for: stop acknowledged | higher boot | 1.25 L ──▶ PENDING, attempt n+1
//!                                                                                  ╰▶ FAILED_TERMINAL after the last
//! ```

use std::collections::BTreeMap;

use fence::{Attempt, BootId, Handover, Holding, NodeId};

use super::manifest::OnWorkerLoss;
use super::shard::{State, Step, Stopping, Try};
use super::wave::{Kind, WaveStep};
use super::{Effect, Errand, Gap, Mended, Owner, Purpose, Sid};
use crate::fleet::message::{Halt, Task};
use crate::ledger::{AttemptStatus, Command, Counters, Lapse, Refusal, Reply};

impl Owner {
    /// The ledger's answer to `StartAttempt`.
    pub(super) fn attempt_started(&mut self, sid: Sid, reply: &Reply) {
        let Some(shard) = self.shards.get_mut(&sid).filter(|shard| shard.step == Step::Proposed)
        else {
            self.counts.late += 1;
            return;
        };
        if let Reply::Refused(refusal) = reply {
            let refusal = *refusal;
            return self.attempt_refused(sid, &refusal);
        }
        let Some(place) = shard.place else { return };
        shard.tries.push(Try {
            worker: place.worker,
            boot: place.boot,
            shared: place.hold.is_none(),
            counters: Counters::default(),
            unheard: false,
            heard: None,
            reporting: false,
            end: None,
            revoked: false,
        });
        shard.step = Step::Sent;
        shard.again = None;
        shard.seatings = 0;
        shard.due = Some(self.now.after(self.settings.ready_within));
        let (attempt, worker) = (shard.attempt(), place.worker);
        let unwanted = shard.stop.is_some();
        self.say_not_queued();
        if attempt.0 > 1 {
            self.counts.retries += 1;
        }
        self.go(sid, State::Dispatched, format!("attempt {attempt} on worker {worker}"));
        if unwanted {
            // The stop came while the start was on its way into the ledger: nothing was dispatched yet.
            self.go(sid, State::Cancelling, "stopped before it was dispatched");
            return self.never_ran(sid, "stopped before it was dispatched");
        }
        if !self.pool.is_live(worker, place.boot) {
            return self.lose(sid, "its worker was lost before the dispatch", None);
        }
        self.steer_worker(worker, place.boot);
        self.send(Errand::Dispatch(sid, attempt));
    }

    fn attempt_refused(&mut self, sid: Sid, refusal: &Refusal) {
        self.leave_hold(sid, false);
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
        let mut gone: BTreeMap<(NodeId, BootId), Option<BootId>> = BTreeMap::new();
        for shard in self.shards.values() {
            let placed = shard.place.map(|place| (place.worker, place.boot));
            let tried = shard.current().filter(|one| one.end.is_none());
            let tried = tried.map(|one| (one.worker, one.boot));
            for (node, boot) in placed.into_iter().chain(tried) {
                match self.pool.get(node) {
                    Some(worker) if worker.boot > boot => {
                        gone.insert((node, boot), Some(worker.boot));
                    }
                    Some(worker) if !worker.live && worker.boot == boot => {
                        gone.insert((node, boot), None);
                    }
                    _ => {}
                }
            }
        }
        for ((node, boot), now) in gone {
            match now {
                Some(now) => {
                    let proof = Some(Lapse::HigherBoot(now));
                    self.lose_worker(node, boot, "has started again", proof);
                }
                None => self.lose_worker(node, boot, "was lost", None),
            }
        }
        self.changed();
    }

    /// LIFE-22: all its shards, in one step. LIFE-30: a second time does nothing.
    pub(super) fn lose_worker(
        &mut self,
        node: NodeId,
        boot: BootId,
        what: &str,
        proof: Option<Lapse>,
    ) {
        self.timeouts.forget(node);
        self.recovery.asked.remove(&(node, boot));
        let mut lost: BTreeMap<u32, u32> = BTreeMap::new();
        let here: Vec<Sid> = self.shards.keys().copied().collect();
        for sid in here {
            let Some(shard) = self.shards.get_mut(&sid) else { continue };
            if let Some(place) = shard.place
                && (place.worker, place.boot) == (node, boot)
                && matches!(shard.step, Step::Idle | Step::Seated)
            {
                shard.step = Step::Idle;
                self.leave_hold(sid, false);
                self.changed();
                continue;
            }
            let Some(one) = shard.tries.last() else { continue };
            if (one.worker, one.boot) != (node, boot) {
                continue;
            }
            if let (Step::Lapsing(handover), Some(Lapse::HigherBoot(now))) =
                (&mut shard.step, proof)
            {
                handover.boot_seen(node, now);
                self.changed();
            } else if shard.is_out() || shard.step == Step::Unsent {
                *lost.entry(sid.0).or_default() += 1;
                self.lose(sid, &format!("worker {node} {what}"), proof);
            }
        }
        if lost.is_empty() {
            return;
        }
        self.counts.lost_workers += 1;
        let policy = match self.manifest.policy.on_worker_loss {
            OnWorkerLoss::Rebalance => "rebalance",
            OnWorkerLoss::Continue => "continue",
            OnWorkerLoss::Fail => "fail",
        };
        for (workflow, count) in lost {
            let text = match self.divided.get(&(workflow as usize)) {
                Some(of) => {
                    let name = self.machine.name(workflow as usize);
                    format!("worker {node} {what}, with {count} of {of} shards of {name}")
                }
                None => format!("worker {node} {what} during a setup or teardown"),
            };
            self.note(format!("{text} (on_worker_loss: {policy})"), None);
        }
    }

    /// An attempt that can no longer be relied on. It may still run; what follows makes sure that it does not.
    pub(super) fn lose(&mut self, sid: Sid, why: &str, proof: Option<Lapse>) {
        let age = self.age();
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        if !shard.is_out() && shard.step != Step::Unsent {
            return;
        }
        let Some(one) = shard.tries.last_mut() else { return };
        one.revoked = true;
        let (node, boot) = (one.worker, one.boot);
        // That it was lost is noticed later than it was: since its last word nothing is certain.
        let heard = one.heard.unwrap_or(age);
        let attempt = shard.attempt();
        if shard.step == Step::Running && shard.task == Task::Load {
            shard.lost_at.get_or_insert(heard);
        }
        shard.failed_on.push((node, boot));
        shard.step = Step::Revoking;
        shard.due = None;
        shard.unsure = false;
        shard.proof = proof.unwrap_or(Lapse::LeaseLapsed);
        let (key, cancelling) = (shard.key, shard.state == State::Cancelling);
        self.absent.remove(&(sid, attempt));
        self.rows.retain(|(other, _), _| *other != sid);
        self.leave_hold(sid, false);
        if !cancelling {
            self.go(sid, State::Failed, why);
        }
        let (epoch, reason) = (self.epoch, self.short(why));
        self.commit(
            Purpose::Revoke(sid, attempt),
            Command::RevokeAttempt { shard: key, epoch, attempt, reason },
        );
        // If it lives, it says at once that it has stopped, and nobody has to wait.
        self.send(Errand::Stop(sid, attempt));
    }

    pub(super) fn attempt_revoked(&mut self, sid: Sid, attempt: Attempt, reply: &Reply) {
        if let Reply::Refused(refusal) = reply {
            let text = format!("the ledger refused a revoke: {refusal}");
            return self.note(text, None);
        }
        let (now, lease) = (self.now, self.settings.lease);
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        if shard.attempt() != attempt || shard.step != Step::Revoking {
            self.counts.late += 1;
            return;
        }
        let (key, proof) = (shard.key, shard.proof);
        let Some(one) = shard.current() else { return };
        let holding = Holding { shard: key, attempt, worker: one.worker, boot: one.boot };
        let ended = one.end.is_some();
        let mut handover = Handover::revoke_seen_committed(holding, lease, now);
        match proof {
            Lapse::HigherBoot(boot) => handover.boot_seen(holding.worker, boot),
            Lapse::Stopped => handover.stop_acknowledged(&holding),
            Lapse::First | Lapse::LeaseLapsed => {}
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
        let Some(one) = shard.tries.last() else { return };
        let by = Holding { shard: shard.key, attempt, worker: one.worker, boot: one.boot };
        match &mut shard.step {
            Step::Revoking => shard.proof = Lapse::Stopped,
            Step::Lapsing(handover) => handover.stop_acknowledged(&by),
            _ => return,
        }
        self.changed();
    }

    /// Timers of shards: proofs, preparing that takes too long, runs that do not end, stops that are not carried out.
    pub(super) fn look_at_shards(&mut self) {
        let now = self.now;
        let sids: Vec<Sid> = self.shards.keys().copied().collect();
        for sid in sids {
            let Some(shard) = self.shards.get_mut(&sid) else { continue };
            if let Step::Lapsing(handover) = &shard.step
                && let Some(lapse) = handover.may_start(now)
            {
                shard.proof = match lapse {
                    fence::Lapse::Stopped => Lapse::Stopped,
                    fence::Lapse::HigherBoot(boot) => Lapse::HigherBoot(boot),
                    fence::Lapse::LeaseLapsed => Lapse::LeaseLapsed,
                };
                shard.step = Step::Lapsed;
                self.changes += 1;
            }
            if shard.step == Step::Lapsed {
                self.replace(sid);
                continue;
            }
            self.look_at_stop(sid);
            self.look_at_due(sid);
        }
    }

    fn look_at_due(&mut self, sid: Sid) {
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        let standing = self.paused.is_some() && shard.step == Step::Running;
        if standing || shard.due.is_none_or(|due| due > self.now) {
            return;
        }
        shard.due = None;
        let seconds = self.settings.ready_within.as_secs();
        match shard.step {
            Step::Sent | Step::Unsent | Step::Preparing => {
                self.lose(sid, &format!("not ready within {seconds} s"), None);
            }
            // S36, X22: alive but silent. It is stopped, and has failed; that is final.
            Step::Begun | Step::Running if shard.state != State::Cancelling => {
                shard.error = Some("no result: it did not end when its time was over".to_owned());
                shard.overdue = true;
                self.lose(sid, "no result in time", None);
            }
            Step::Idle => {
                let seconds = self.settings.seat_within.as_secs();
                self.give_up(
                    sid,
                    format!("no eligible worker had a core for it within {seconds} s"),
                );
            }
            _ => {}
        }
    }

    /// The attempt before has provably stopped: what now?
    fn replace(&mut self, sid: Sid) {
        let Some(shard) = self.shards.get(&sid) else { return };
        let (attempt, state, key) = (shard.attempt(), shard.state, shard.key);
        let unheard = shard.current().is_some_and(|one| one.end.is_none() && !one.reporting);
        let (proof, tries) = (shard.proof, shard.tries.len());
        if unheard && proof == Lapse::LeaseLapsed && self.sealing.insert((sid, attempt)) {
            // Its worker is gone. What is known of it is made durable now; its own word, if it ever comes, is a repeat.
            self.out.push(Effect::Seal { shard: key, attempt });
            self.changed();
        }
        if state == State::Cancelling {
            self.go(sid, State::Cancelled, format!("stopped: {proof:?}"));
            return;
        }
        let shard = self.shards.get(&sid);
        let failed = shard.and_then(|shard| shard.error.clone());
        let overdue = shard.is_some_and(|shard| shard.overdue);
        if overdue {
            return self.give_up(sid, failed.unwrap_or_default());
        }
        if self.is_stopping() || self.has_failed(sid.0 as usize) {
            self.go(sid, State::Cancelled, "not started again: it is being stopped");
            self.never_mended(sid);
            return;
        }
        if self.load_has_begun(sid) {
            match self.manifest.policy.on_worker_loss {
                OnWorkerLoss::Rebalance => {}
                OnWorkerLoss::Continue => {
                    if let Some(shard) = self.shards.get_mut(&sid) {
                        shard.abandoned = true;
                    }
                    self.go(sid, State::FailedTerminal, "on_worker_loss: continue");
                    return self.never_mended(sid);
                }
                OnWorkerLoss::Fail => {
                    return self
                        .give_up(sid, "its worker was lost (on_worker_loss: fail)".to_owned());
                }
            }
        }
        if tries > self.settings.retries as usize {
            let retries = self.settings.retries;
            let last = failed.unwrap_or_else(|| "its worker was lost".to_owned());
            return self.give_up(sid, format!("{last}; {retries} retries were made"));
        }
        self.try_again(sid, &format!("{proof:?}"));
    }

    fn try_again(&mut self, sid: Sid, why: &str) {
        let by = self.now.after(self.settings.seat_within);
        // Each attempt counts. Whoever refuses one now may take it in a moment, when it has heard what others have.
        let refused = self.shards.get(&sid).map_or(0, |shard| shard.refused);
        let again = (refused > 0).then(|| self.backoff(refused + 1));
        if self.go(sid, State::Pending, format!("to be started again: {why}"))
            && let Some(shard) = self.shards.get_mut(&sid)
        {
            shard.step = Step::Idle;
            shard.stop = None;
            shard.due = Some(by);
            shard.again = again;
            shard.seatings = 0;
        }
    }

    fn load_has_begun(&self, sid: Sid) -> bool {
        let wave = self.wave.as_ref().filter(|wave| wave.members.contains(&sid));
        wave.is_some_and(|wave| wave.kind == Kind::Load && wave.step == WaveStep::Running)
    }

    /// The shard has failed for good, and its workflow with it.
    pub(super) fn give_up(&mut self, sid: Sid, text: String) {
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        shard.error = Some(text.clone());
        let state = shard.state;
        self.leave_hold(sid, false);
        if state != State::Failed {
            self.go(sid, State::Failed, text.clone());
        }
        self.go(sid, State::FailedTerminal, text);
        self.never_mended(sid);
        self.stop_siblings(sid);
    }

    /// R5: an error of one shard is the workflow's; the others need not go on.
    pub(super) fn stop_siblings(&mut self, sid: Sid) {
        if sid.0 == self.asides() {
            return;
        }
        let others: Vec<Sid> =
            self.shards.range((sid.0, 0)..=(sid.0, u32::MAX)).map(|(other, _)| *other).collect();
        for other in others {
            self.halt(other, Halt::Graceful, "another shard of the workflow has failed");
        }
    }

    /// An attempt of which it is certain that it never ran and never will: its end is said by the owner.
    pub(super) fn never_ran(&mut self, sid: Sid, why: &str) {
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        let attempt = shard.attempt();
        let (key, cancelling) = (shard.key, shard.state == State::Cancelling);
        let Some(one) = shard.tries.last_mut() else { return };
        (one.reporting, one.unheard) = (true, false);
        shard.step = Step::Ending;
        shard.due = None;
        shard.stop = shard.stop.take().filter(|_| cancelling);
        self.leave_hold(sid, false);
        if !cancelling {
            self.go(sid, State::Failed, why);
        }
        let command = Command::EndAttempt {
            under: Some(self.epoch),
            shard: key,
            attempt,
            status: AttemptStatus::Stopped,
            counters: Counters::default(),
            result: None,
        };
        self.commit(Purpose::End(sid, attempt), command);
        self.out.push(Effect::NeverRan { shard: key, attempt });
    }

    // ── gaps in the load, for the verdict (R19) ────────────────────────────────────────────────

    pub(super) fn mended(&mut self, sid: Sid) {
        let shared = self.shards.get(&sid).and_then(|s| s.current()).is_some_and(|one| one.shared);
        self.close_gap(sid, if shared { Mended::Shared } else { Mended::Elsewhere });
    }

    pub(super) fn never_mended(&mut self, sid: Sid) {
        self.close_gap(sid, Mended::Never);
    }

    fn close_gap(&mut self, sid: Sid, mended: Mended) {
        let to = self.age();
        let of = self.divided.get(&(sid.0 as usize)).copied().unwrap_or(1);
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        let Some(from) = shard.lost_at.take() else { return };
        let lost = shard.failed_on.last().map(|(node, _)| *node).unwrap_or_default();
        let workflow = sid.0 as usize;
        let name = self.machine.name(workflow).to_owned();
        let seconds = (to.saturating_sub(from)).as_secs_f64();
        let how = match mended {
            Mended::Elsewhere => format!("was missing for {seconds:.1} s, and runs elsewhere now"),
            Mended::Shared => format!("was missing for {seconds:.1} s, and shares a core now"),
            Mended::Never => "is missing from then on".to_owned(),
        };
        let text = format!("1 of {of} shards of {name} {how}");
        let gap = Gap { workflow, worker: lost, from, to, shards: 1, of, mended };
        self.note(text, Some(gap));
    }

    pub(super) fn stopping(&self, how: Halt, reason: &str, sid: Sid) -> Stopping {
        let graceful = self.manifest.workflows.get(sid.0 as usize).map(|part| part.graceful_stop);
        let patience = match how {
            Halt::Graceful => graceful.unwrap_or_default() + self.settings.stop_within,
            Halt::Now => self.settings.stop_within,
        };
        let until = self.now.after(patience);
        Stopping { how, reason: reason.to_owned(), until, acknowledged: false }
    }
}
