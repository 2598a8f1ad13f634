//! What comes of calls to workers: their answers, and that there is none.

use std::time::Duration;

use fence::{Attempt, FenceRefusal};

use super::calls::{Call, Returned};
use super::shard::{State, Step};
use super::{NoAnswer, Owner, Sid};
use crate::message::{WorkerRefusal, WorkerResponse, lapse_of};

impl Owner {
    pub(super) fn unanswered(&mut self, tag: u64, why: NoAnswer) {
        let Some(Returned { call, retries, .. }) = self.outgoing.returned(tag) else {
            self.journal.count_repeat();
            return;
        };
        self.outgoing.changed();
        match &call {
            Call::Reserve(number) => self.reserve_unanswered(*number),
            Call::Probe(worker, boot) => {
                self.liveness.unanswered((*worker, *boot), why, self.time.now());
            }
            // A reservation runs out by itself, a report that is told again is forgotten again, and
            // the next scan comes.
            Call::Release(..) | Call::Forget(..) | Call::Scan(..) | Call::Capacity(..) => {}
            // One that was replaced long ago: the next scan finds it if it is still there.
            Call::Stop(sid, attempt)
                if self.shards.get(sid).is_some_and(|shard| shard.attempt() != *attempt) => {}
            _ => self.retry(call, retries),
        }
    }

    pub(super) fn answered(&mut self, tag: u64, answer: WorkerResponse, took: Duration) {
        let Some(Returned { call, retries, worker }) = self.outgoing.answered(tag, took) else {
            self.journal.count_repeat();
            return;
        };
        self.outgoing.changed();
        self.heard_from(worker);
        match call {
            Call::Reserve(number) => self.reserve_answered(number, &answer),
            Call::Dispatch(sid, attempt) => self.dispatch_answered(sid, attempt, &answer),
            Call::Start { attempts, .. } => self.start_answered(&attempts, &answer),
            Call::Stop(sid, attempt) => self.stop_answered(sid, attempt, answer, retries),
            Call::Rows { sid, attempt, rows } => {
                if let Some(least) = self.grants.end_rows(sid, rows.set) {
                    self.rows_wanted(self.spec.key(sid), attempt, rows.set, least);
                }
            }
            Call::Install(worker, boot) => match answer {
                WorkerResponse::Holding(holdings) => self.installed(worker, boot, &holdings, took),
                other => self.not_installed(worker, boot, &other),
            },
            Call::Scan(worker, boot) => {
                if let WorkerResponse::Holding(holdings) = answer {
                    self.scanned(worker, boot, &holdings);
                }
            }
            Call::Capacity(worker) => {
                if let WorkerResponse::Holding(holdings) = answer {
                    self.capacity_heard(worker, &holdings);
                }
            }
            Call::Probe(worker, boot) => self.probe_answered(worker, boot, &answer),
            Call::Steer { worker, boot, number } => {
                if !self.steer_answered(worker, boot, number, &answer) {
                    self.retry(Call::Steer { worker, boot, number }, retries);
                }
            }
            Call::Release(..) | Call::Units(..) | Call::Forget(..) => {}
        }
    }

    fn dispatch_answered(&mut self, sid: Sid, attempt: Attempt, answer: &WorkerResponse) {
        let current = self.shards.is_current(&sid, attempt);
        if !current {
            self.journal.count_late();
            return;
        }
        match answer {
            WorkerResponse::Done => {
                let ready_by = self.time.after(self.spec.settings().ready_within);
                let Some(shard) = self.shards.get_mut(&sid) else { return };
                if shard.step == Step::Sent {
                    shard.step = Step::Preparing;
                    shard.due = Some(ready_by);
                    self.leave_reservation(sid, true);
                }
            }
            WorkerResponse::Refused(refused) => self.dispatch_refused(sid, refused),
            _ => self.journal.count_mismatch(),
        }
    }

    /// After a refusal the shard goes to another worker. It uses up an attempt, because the ledger
    /// had started it.
    fn dispatch_refused(&mut self, sid: Sid, refused: &WorkerRefusal) {
        let Some(shard) = self.shards.get(&sid).filter(|shard| shard.step == Step::Sent) else {
            self.journal.count_late();
            return;
        };
        let Some((node, boot)) = shard.current().map(|one| one.life()) else { return };
        match refused {
            WorkerRefusal::Fence(FenceRefusal::OtherLife { own, since, .. }) if *own > boot => {
                let proof = lapse_of(boot, *own, *since);
                return self.lose(sid, "its worker has started again", proof);
            }
            WorkerRefusal::Fence(FenceRefusal::Epoch(refusal)) => {
                return self.depose(format!("worker {node}: {refusal}"));
            }
            WorkerRefusal::Draining => self.capacity.set_draining(node),
            WorkerRefusal::NoCores { free, total, .. } => {
                self.capacity.correct(node, *free, *total);
            }
            WorkerRefusal::UnknownReservation | WorkerRefusal::TooMany { .. } => {
                self.capacity.shun(node);
            }
            _ => {}
        }
        // A full worker is no bad worker.
        let its_fault =
            matches!(refused, WorkerRefusal::CannotRun { .. } | WorkerRefusal::Fence(_));
        if let Some(shard) = self.shards.get_mut(&sid) {
            if its_fault {
                shard.placing.failed_on.push((node, boot));
            }
            shard.placing.refused = shard.placing.refused.saturating_add(1);
            let text = match refused {
                WorkerRefusal::CannotRun { why } => why.clone(),
                other => format!("{other:?}"),
            };
            shard.error = Some(format!("worker {node} refused it: {text}"));
        }
        self.never_ran(sid, "worker rejected dispatch");
    }

    fn start_answered(&mut self, attempts: &[(Sid, Attempt)], answer: &WorkerResponse) {
        for (sid, attempt) in attempts {
            let begun = self
                .shards
                .get(sid)
                .is_some_and(|shard| shard.attempt() == *attempt && shard.step == Step::Begun);
            if !begun {
                continue;
            }
            match answer {
                WorkerResponse::Done => self.runs(*sid),
                WorkerResponse::Refused(WorkerRefusal::Fence(FenceRefusal::OtherLife {
                    own,
                    since,
                    ..
                })) => {
                    let boot = self.shards.current(sid);
                    let boot = boot.map(|one| one.boot).unwrap_or_default();
                    let proof = lapse_of(boot, *own, *since);
                    self.lose(*sid, "its worker has started again", proof);
                }
                WorkerResponse::Refused(WorkerRefusal::Fence(FenceRefusal::Epoch(refusal))) => {
                    return self.depose(refusal.to_string());
                }
                other => self.lose(*sid, &format!("its worker did not start it: {other:?}"), None),
            }
        }
    }

    /// The worker has it running.
    pub(super) fn runs(&mut self, sid: Sid) {
        let attempt = self.shards.get(&sid).map(|shard| shard.attempt()).unwrap_or_default();
        if let Some(shard) = self.shards.get_mut(&sid) {
            shard.step = Step::Running;
            shard.unsure = false;
            if shard.state() == State::Cancelling {
                return;
            }
        }
        if let Some(shard) = self.shards.get_mut(&sid) {
            shard.placing.refused = 0;
        }
        self.go(sid, State::Running, format!("attempt {attempt} runs"));
        self.mended(sid);
    }
}
