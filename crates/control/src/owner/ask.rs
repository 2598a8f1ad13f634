//! What is asked of workers, and what comes of their answers. Every question can be asked again.

use std::time::Duration;

use fence::{Act, Attempt, Fence, FenceRefusal, FencedCommand, NodeId};

use super::calls::{Call, Returned};
use super::context;
use super::shard::{State, Step};
use super::{NoAnswer, Owner, Sid};
use crate::budget::Budget;
use crate::message::{
    Dispatch, Placement, StopMode, Task, WorkerRefusal, WorkerRequest, WorkerResponse, lapse_of,
};
use ledger_state::Payload;

/// The question, if it is still worth asking.
pub(super) fn ask(owner: &Owner, call: &Call) -> Option<(NodeId, WorkerRequest)> {
    let (job, epoch) = (owner.spec.id(), owner.spec.epoch());
    match call {
        Call::Reserve(number) => {
            let asked = owner.capacity.reservations().get(*number)?;
            let (hold, receiver) = (owner.spec.reservation_id(*number), asked.boot);
            let cores = asked.cores;
            let within = owner.spec.settings().hold_for;
            Some((asked.worker, WorkerRequest::Reserve { hold, receiver, cores, within }))
        }
        Call::Release(hold, worker, receiver) => {
            Some((*worker, WorkerRequest::Release { hold: *hold, receiver: *receiver }))
        }
        Call::Dispatch(sid, attempt) => {
            let shard = owner.shards.get(sid)?;
            let current = shard.attempt() == *attempt && shard.step == Step::Sent;
            let current = current && shard.stop.is_none();
            current.then(|| dispatch(owner, *sid)).flatten()
        }
        Call::Start { worker, boot, attempts } => {
            let begun = |(sid, attempt): &&(Sid, Attempt)| {
                let shard = owner.shards.get(sid);
                shard.is_some_and(|shard| shard.attempt() == *attempt && shard.step == Step::Begun)
            };
            let attempts: Vec<_> =
                attempts.iter().filter(begun).map(|(sid, n)| (owner.spec.key(*sid), *n)).collect();
            if attempts.is_empty() {
                return None;
            }
            let half = owner.outgoing.calls().one_way(*worker);
            let origin = owner.stages.clock().map(|clock| clock.origin);
            let after =
                origin.map_or(Duration::ZERO, |at| at.since(owner.time.now()).saturating_sub(half));
            let elapsed = owner.schedule_at(owner.time.after(half + after));
            let clock = owner.clock(owner.time.after(half + after));
            let receiver = *boot;
            let steering = owner.control.steering();
            let start = WorkerRequest::Start {
                job,
                epoch,
                receiver,
                attempts,
                after,
                elapsed,
                clock,
                steering,
            };
            Some((*worker, start))
        }
        Call::Stop(sid, attempt) => {
            let shard = owner.shards.get(sid)?;
            let one = shard.attempts.get((attempt.0 as usize).checked_sub(1)?)?;
            let current = shard.attempt() == *attempt;
            let open = shard.is_out() || matches!(shard.step, Step::Revoking | Step::Lapsing(_));
            if one.end.is_some() || (current && !open) {
                return None;
            }
            let fence = Fence { epoch, attempt: *attempt };
            let order = FencedCommand::new(one.boot, shard.key, fence, Act::Stop);
            let (how, reason) = match &shard.stop {
                Some(stop) if shard.attempt() == *attempt => (stop.how, stop.reason.clone()),
                _ => (StopMode::Now, "replaced".to_owned()),
            };
            Some((one.worker, WorkerRequest::Stop { order, how, reason }))
        }
        // Whether the pool knows the worker as living says nothing: a new owner has heard of nobody yet. As long as it
        // has an attempt it is told, and a later change makes up for an earlier one.
        Call::Steer { worker, boot, number }
            if *number == owner.control.number() && owner.shards.is_out_on((*worker, *boot)) =>
        {
            let (receiver, steering) = (*boot, owner.control.steering());
            Some((*worker, WorkerRequest::Steer { job, epoch, receiver, steering }))
        }
        Call::Rows { sid, attempt, rows } => {
            let shard = owner.shards.get(sid);
            let shard = shard.filter(|shard| shard.attempt() == *attempt && shard.is_out())?;
            let one = shard.current()?;
            let (receiver, rows) = (one.boot, *rows);
            let ask =
                WorkerRequest::Rows { shard: shard.key, attempt: *attempt, epoch, receiver, rows };
            Some((one.worker, ask))
        }
        Call::Units(sid, attempt) => {
            let shard = owner.shards.get(sid);
            let shard = shard.filter(|shard| shard.attempt() == *attempt && shard.is_out())?;
            let one = shard.current()?;
            let (receiver, end) = (one.boot, one.units.budget.as_ref()?.end());
            let ask =
                WorkerRequest::Units { shard: shard.key, attempt: *attempt, epoch, receiver, end };
            Some((one.worker, ask))
        }
        Call::Forget(shard, attempt, worker) => {
            Some((*worker, WorkerRequest::Forget { shard: *shard, attempt: *attempt }))
        }
        Call::Install(worker, boot) if owner.recovery.is_asked((*worker, *boot)) => {
            Some((*worker, WorkerRequest::Install { job, epoch, receiver: *boot }))
        }
        Call::Scan(worker, _) | Call::Capacity(worker) | Call::Probe(worker, _) => {
            Some((*worker, WorkerRequest::Inspect { job: Some(job) }))
        }
        Call::Steer { .. } | Call::Install(..) => None,
    }
}

fn dispatch(owner: &Owner, sid: Sid) -> Option<(NodeId, WorkerRequest)> {
    let shard = owner.shards.get(&sid)?;
    let one = shard.current()?;
    let seat = match shard.placing.assignment.and_then(|place| place.reservation) {
        Some(number) => Placement::Own(owner.spec.reservation_id(number)),
        None => Placement::Shared,
    };
    let workflows = owner.spec.hook_number();
    let workflow = match shard.task {
        Task::Load => Some(sid.0 as usize),
        Task::Setup { of } | Task::Teardown { of } => of.map(|number| number.0 as usize),
    };
    let mut handed = context::hand(
        owner.spec.manifest(),
        owner.context.values(),
        workflow.unwrap_or(usize::MAX),
    );
    if let Some(own) = workflow.and_then(|number| owner.context.own_setup(number)) {
        handed.variables.extend(own.clone());
    }
    // A cancel may come before what the setup left is committed; whoever takes the job up has it from the report.
    if let (None, Some(left)) = (workflow, owner.context.fresh_setup()) {
        handed.variables.extend(left.clone());
    }
    let fence = Fence { epoch: owner.spec.epoch(), attempt: shard.attempt() };
    let dispatch = Dispatch {
        order: FencedCommand::new(one.boot, shard.key, fence, Act::Start),
        seat,
        task: shard.task,
        shards: match shard.task {
            Task::Load => owner.workflows.shards(sid.0 as usize).unwrap_or(1),
            Task::Setup { .. } | Task::Teardown { .. } => 2 + 2 * workflows,
        },
        bundle: owner.spec.bundle(),
        context: Payload::Inline(context::encode(&handed)),
        context_version: owner.context.committed(),
        elapsed: owner.schedule_time(),
        units_before: one.units.before,
        units_end: one.units.budget.as_ref().map(Budget::end),
        rows: Vec::new(),
        run_at_most: owner.run_at_most(sid),
        time_left: owner.time.left(),
        lease: one.lease.length(),
    };
    Some((one.worker, WorkerRequest::Dispatch(Box::new(dispatch))))
}

impl Owner {
    pub(super) fn send(&mut self, call: Call) {
        self.send_again(call, 0);
    }

    fn send_again(&mut self, call: Call, retries: u32) {
        if let Some((worker, ask)) = ask(self, &call) {
            self.outgoing.call(call, retries, worker, ask);
        }
    }

    /// What went unanswered, and is due again.
    pub(super) fn resend(&mut self) {
        while let Some((call, retries)) = self.outgoing.next_call(self.time.now()) {
            self.send_again(call, retries);
        }
    }

    fn retry(&mut self, call: Call, retries: u32) {
        let at = self.backoff(retries);
        self.outgoing.call_later(at, call, retries);
    }

    pub(super) fn retry_stop(&mut self, sid: Sid, attempt: Attempt, retries: u32) {
        self.retry(Call::Stop(sid, attempt), retries);
    }

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
            // The hold runs out by itself; a report that is told again is forgotten again; the next scan comes.
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
        let current = self.shards.get(&sid).is_some_and(|shard| shard.attempt() == attempt);
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

    /// a refusal leads on, to another worker. It consumes an attempt, because the ledger had started it.
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
                self.capacity.correct(node, *free, *total)
            }
            WorkerRefusal::UnknownHold | WorkerRefusal::TooMany { .. } => self.capacity.shun(node),
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
                    let boot = self.shards.get(sid).and_then(|shard| shard.current());
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
