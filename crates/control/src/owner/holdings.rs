//! What workers say that they hold: asked of all of them at a takeover, and now and then in the
//! search for orphans.

use std::time::Duration;

use fence::{BootId, FenceRefusal, NodeId};

use super::calls::Call;
use super::shard::Step;
use super::{Owner, Sid};
use crate::message::{
    AttemptPhase, HeldAttempt, WorkerInventory, WorkerRefusal, WorkerResponse, lapse_of,
};

impl Owner {
    /// `took`: the round trip of the question.
    pub(super) fn installed(
        &mut self,
        worker: NodeId,
        boot: BootId,
        holdings: &WorkerInventory,
        took: Duration,
    ) {
        self.recovery.answered((worker, boot));
        self.capacity.correct(worker, holdings.cores_free, holdings.cores);
        let mine: Vec<Sid> = self
            .shards
            .iter()
            .filter(|(_, shard)| shard.unsure && shard.is_out())
            .filter(|(_, s)| s.current().is_some_and(|t| t.life() == (worker, boot)))
            .map(|(sid, _)| *sid)
            .collect();
        for sid in mine {
            let Some(shard) = self.shards.get(&sid) else { continue };
            let (key, attempt) = (shard.key, shard.attempt());
            let held = holdings.attempts.iter().find(|h| h.shard == key && h.attempt == attempt);
            self.found(sid, held, took / 2);
        }
    }

    fn found(&mut self, sid: Sid, held: Option<&HeldAttempt>, ago: Duration) {
        let ready_by = self.time.after(self.spec.settings().ready_within);
        let overdue = self.time.after(self.run_at_most(sid) + self.spec.settings().overdue);
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        shard.unsure = false;
        if let (Some(AttemptPhase::Preparing | AttemptPhase::Ready), Some(one)) =
            (held.map(|held| held.phase), shard.attempts.last_mut())
        {
            one.may_run = false;
        }
        match held.map(|held| held.phase) {
            None => {
                shard.step = Step::Unsent;
                shard.due = Some(ready_by);
            }
            Some(AttemptPhase::Preparing) => {
                shard.step = Step::Preparing;
                shard.due = Some(ready_by);
            }
            Some(AttemptPhase::Ready) => {
                shard.step = Step::Ready;
                shard.due = None;
            }
            Some(AttemptPhase::Running | AttemptPhase::Stopping | AttemptPhase::Ended) => {
                shard.due = Some(overdue);
                if let Some(held) = held.filter(|held| held.phase == AttemptPhase::Running) {
                    self.heard_elapsed(sid, held.elapsed.saturating_add(ago));
                }
                let ran = held.and_then(|held| held.ran);
                self.was_mended(sid, ran.map(|ran| ran.saturating_add(ago)));
                self.runs(sid);
            }
        }
        self.outgoing.changed();
    }

    /// Where a running shard is in its schedule. The furthest one counts: what may have been issued
    /// is spent, so the schedule never goes back. No shard is further than its load is long.
    fn heard_elapsed(&mut self, sid: Sid, elapsed: Duration) {
        let part = self.spec.part(sid.0 as usize);
        let most =
            part.map_or(Duration::ZERO, |part| part.length.saturating_add(part.graceful_stop));
        self.recovery.heard_elapsed(sid.0, elapsed.min(most), self.time.now());
    }

    pub(super) fn not_installed(&mut self, worker: NodeId, boot: BootId, answer: &WorkerResponse) {
        self.recovery.answered((worker, boot));
        match answer {
            WorkerResponse::Refused(WorkerRefusal::Fence(FenceRefusal::OtherLife {
                own,
                since,
                ..
            })) if *own > boot => {
                let proof = lapse_of(boot, *own, *since);
                self.lose_worker(worker, boot, "has started again", proof);
            }
            WorkerResponse::Refused(WorkerRefusal::Fence(FenceRefusal::Epoch(refusal))) => {
                self.depose(refusal.to_string());
            }
            _ => {
                self.journal.count_mismatch();
                self.lose_worker(worker, boot, "does not say what it holds", None);
            }
        }
    }

    /// GATE-107: only this job's owner looks. Only an attempt that is missing twice in a row is an
    /// orphan, because one that was dispatched while its worker answered is not in that answer.
    pub(super) fn scan(&mut self) {
        let next = self.time.after(self.spec.settings().scan_every);
        if !self.liveness.is_scan_due(self.time.now(), next) {
            return;
        }
        let mut workers: Vec<(NodeId, BootId)> = self
            .shards
            .values()
            .filter(|shard| matches!(shard.step, Step::Preparing | Step::Ready | Step::Running))
            .filter_map(|shard| shard.current().map(|one| one.life()))
            .collect();
        workers.sort_unstable();
        workers.dedup();
        workers.into_iter().for_each(|(worker, boot)| self.send(Call::Scan(worker, boot)));
    }

    pub(super) fn scanned(&mut self, worker: NodeId, boot: BootId, holdings: &WorkerInventory) {
        if holdings.boot != boot {
            if holdings.boot > boot {
                let proof = lapse_of(boot, holdings.boot, holdings.since);
                self.lose_worker(worker, boot, "has started again", proof);
            }
            return;
        }
        let mut orphans = Vec::new();
        for (sid, shard) in self.shards.iter() {
            let (attempt, here) = (shard.attempt(), shard.current());
            let here = here.is_some_and(|one| one.life() == (worker, boot));
            if !here || !matches!(shard.step, Step::Preparing | Step::Ready | Step::Running) {
                continue;
            }
            let held = |held: &HeldAttempt| held.shard == shard.key && held.attempt == attempt;
            if holdings.attempts.iter().any(held) {
                self.liveness.is_present(*sid, attempt);
            } else if self.liveness.is_absent(*sid, attempt) {
                orphans.push(*sid);
            }
        }
        for sid in orphans {
            self.lose(sid, "orphaned: not found on its worker", None);
        }
        // The other way round: what runs there and is not current here is stopped.
        for held in &holdings.attempts {
            let sid = (held.shard.workflow.0, held.shard.shard);
            let Some(shard) = self.shards.get(&sid).filter(|shard| shard.key == held.shard) else {
                continue;
            };
            if held.attempt < shard.attempt() && held.phase != AttemptPhase::Ended {
                self.send(Call::Stop(sid, held.attempt));
            }
        }
    }
}
