//! What is asked of workers, and what comes of their answers. Every question can be asked again.

use std::time::Duration;

use fence::{Act, Attempt, Fence, FencedCommand, NodeId};

use super::attempt::Life;
use super::calls::Call;
use super::context;
use super::shard::Step;
use super::{Owner, Sid};
use crate::budget::Budget;
use crate::message::{Dispatch, Placement, StopMode, Task, WorkerRequest};
use ledger_state::Payload;

/// The question, if it is still worth asking.
pub(super) fn request_of(owner: &Owner, call: &Call) -> Option<(NodeId, WorkerRequest)> {
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
        Call::Start { worker, boot, attempts } => start(owner, (*worker, *boot), attempts),
        Call::Stop(sid, attempt) => stop(owner, sid, *attempt),
        // Whether the pool knows the worker as living says nothing: a new owner has heard of nobody
        // yet. As long as it has an attempt it is told, and a later change makes up for an earlier
        // one.
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
            let request =
                WorkerRequest::Rows { shard: shard.key, attempt: *attempt, epoch, receiver, rows };
            Some((one.worker, request))
        }
        Call::Units(sid, attempt) => {
            let shard = owner.shards.get(sid);
            let shard = shard.filter(|shard| shard.attempt() == *attempt && shard.is_out())?;
            let one = shard.current()?;
            let (receiver, end) = (one.boot, one.units.budget.as_ref()?.end());
            let request =
                WorkerRequest::Units { shard: shard.key, attempt: *attempt, epoch, receiver, end };
            Some((one.worker, request))
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

/// Those of the attempts that are still to be started, at one instant for all workers.
fn start(
    owner: &Owner,
    (worker, receiver): Life,
    of: &[(Sid, Attempt)],
) -> Option<(NodeId, WorkerRequest)> {
    let (job, epoch) = (owner.spec.id(), owner.spec.epoch());
    let begun = |(sid, attempt): &&(Sid, Attempt)| {
        let shard = owner.shards.get(sid);
        shard.is_some_and(|shard| shard.attempt() == *attempt && shard.step == Step::Begun)
    };
    let attempts: Vec<_> =
        of.iter().filter(begun).map(|(sid, attempt)| (owner.spec.key(*sid), *attempt)).collect();
    if attempts.is_empty() {
        return None;
    }
    let way = owner.outgoing.calls().one_way(worker);
    let origin = owner.stages.clock().map(|clock| clock.origin);
    let after = origin.map_or(Duration::ZERO, |at| at.since(owner.time.now()).saturating_sub(way));
    let elapsed = owner.schedule_at(owner.time.after(way + after));
    let clock = owner.clock(owner.time.after(way + after));
    let steering = owner.control.steering();
    let start =
        WorkerRequest::Start { job, epoch, receiver, attempts, after, elapsed, clock, steering };
    Some((worker, start))
}

fn stop(owner: &Owner, sid: &Sid, attempt: Attempt) -> Option<(NodeId, WorkerRequest)> {
    let shard = owner.shards.get(sid)?;
    let one = shard.get(attempt)?;
    let current = shard.attempt() == attempt;
    let open = shard.is_out() || matches!(shard.step, Step::Revoking | Step::Lapsing(_));
    if one.end.is_some() || (current && !open) {
        return None;
    }
    let fence = Fence { epoch: owner.spec.epoch(), attempt };
    let order = FencedCommand::new(one.boot, shard.key, fence, Act::Stop);
    let (how, reason) = match &shard.stop {
        Some(stop) if current => (stop.how, stop.reason.clone()),
        _ => (StopMode::Now, "replaced".to_owned()),
    };
    Some((one.worker, WorkerRequest::Stop { order, how, reason }))
}

fn dispatch(owner: &Owner, sid: Sid) -> Option<(NodeId, WorkerRequest)> {
    let shard = owner.shards.get(&sid)?;
    let one = shard.current()?;
    let placement = match shard.placing.assignment.and_then(|place| place.reservation) {
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
    // A cancel may come before what the setup left is committed; whoever takes the job up has it
    // from the report.
    if let (None, Some(left)) = (workflow, owner.context.fresh_setup()) {
        handed.variables.extend(left.clone());
    }
    let fence = Fence { epoch: owner.spec.epoch(), attempt: shard.attempt() };
    let dispatch = Dispatch {
        order: FencedCommand::new(one.boot, shard.key, fence, Act::Start),
        placement,
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
        if let Some((worker, request)) = request_of(self, &call) {
            self.outgoing.call(call, retries, worker, request);
        }
    }

    /// What went unanswered, and is due again.
    pub(super) fn resend(&mut self) {
        while let Some((call, retries)) = self.outgoing.next_call(self.time.now()) {
            self.send_again(call, retries);
        }
    }

    pub(super) fn retry(&mut self, call: Call, retries: u32) {
        let at = self.backoff(retries);
        self.outgoing.call_later(at, call, retries);
    }
}
