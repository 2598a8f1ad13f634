//! What is asked of workers, and what comes of their answers. Every question can be asked again.

use std::time::Duration;

use fence::{Act, Attempt, Fence, NodeId, Order, OrderRefusal};

use super::context;
use super::shard::{State, Step};
use super::{Effect, Errand, NoAnswer, Owner, Sid};
use crate::budget::Budget;
use crate::message::{Answer, Ask, Dispatch, Halt, Refused, Seat, Task, lapse_of};
use ledger_state::Payload;

/// The question, if it is still worth asking.
pub(super) fn ask(owner: &Owner, errand: &Errand) -> Option<(NodeId, Ask)> {
    let (job, epoch) = (owner.id, owner.epoch);
    match errand {
        Errand::Reserve(number) => {
            let held = owner.holds.get(number)?;
            let cores = held.cores;
            let (hold, receiver) = (owner.hold(*number), held.boot);
            let within = owner.settings.hold_for;
            Some((held.worker, Ask::Reserve { hold, receiver, cores, within }))
        }
        Errand::Release(hold, worker, receiver) => {
            Some((*worker, Ask::Release { hold: *hold, receiver: *receiver }))
        }
        Errand::Dispatch(sid, attempt) => {
            let shard = owner.shards.get(sid)?;
            let current = shard.attempt() == *attempt && shard.step == Step::Sent;
            let current = current && shard.stop.is_none();
            current.then(|| dispatch(owner, *sid)).flatten()
        }
        Errand::Start { worker, boot, attempts } => {
            let begun = |(sid, attempt): &&(Sid, Attempt)| {
                let shard = owner.shards.get(sid);
                shard.is_some_and(|shard| shard.attempt() == *attempt && shard.step == Step::Begun)
            };
            let attempts: Vec<_> =
                attempts.iter().filter(begun).map(|(sid, n)| (owner.key(*sid), *n)).collect();
            if attempts.is_empty() {
                return None;
            }
            let half = owner.rtts.get(worker).copied().unwrap_or_default() / 2;
            let origin = owner.wave.as_ref().and_then(|wave| wave.clock).map(|clock| clock.origin);
            let after =
                origin.map_or(Duration::ZERO, |at| at.since(owner.now).saturating_sub(half));
            let elapsed = owner.schedule_at(owner.now.after(half + after));
            let clock = owner.clock(owner.now.after(half + after));
            let receiver = *boot;
            let steering = owner.steering();
            let start =
                Ask::Start { job, epoch, receiver, attempts, after, elapsed, clock, steering };
            Some((*worker, start))
        }
        Errand::Stop(sid, attempt) => {
            let shard = owner.shards.get(sid)?;
            let one = shard.tries.get((attempt.0 as usize).checked_sub(1)?)?;
            let current = shard.attempt() == *attempt;
            let open = shard.is_out() || matches!(shard.step, Step::Revoking | Step::Lapsing(_));
            if one.end.is_some() || (current && !open) {
                return None;
            }
            let fence = Fence { epoch, attempt: *attempt };
            let order = Order::new(one.boot, shard.key, fence, Act::Stop);
            let (how, reason) = match &shard.stop {
                Some(stop) if shard.attempt() == *attempt => (stop.how, stop.reason.clone()),
                _ => (Halt::Now, "replaced".to_owned()),
            };
            Some((one.worker, Ask::Stop { order, how, reason }))
        }
        // Whether the pool knows the worker as living says nothing: a new owner has heard of nobody yet. As long as it
        // has an attempt it is told, and a later change makes up for an earlier one.
        Errand::Steer { worker, boot, number }
            if *number == owner.steers && owner.is_steered(*worker, *boot) =>
        {
            let (receiver, steering) = (*boot, owner.steering());
            Some((*worker, Ask::Steer { job, epoch, receiver, steering }))
        }
        Errand::Rows { sid, attempt, rows } => {
            let shard = owner.shards.get(sid);
            let shard = shard.filter(|shard| shard.attempt() == *attempt && shard.is_out())?;
            let one = shard.current()?;
            let (receiver, rows) = (one.boot, *rows);
            let ask = Ask::Rows { shard: shard.key, attempt: *attempt, epoch, receiver, rows };
            Some((one.worker, ask))
        }
        Errand::Units(sid, attempt) => {
            let shard = owner.shards.get(sid);
            let shard = shard.filter(|shard| shard.attempt() == *attempt && shard.is_out())?;
            let one = shard.current()?;
            let (receiver, end) = (one.boot, one.budget.as_ref()?.end());
            let ask = Ask::Units { shard: shard.key, attempt: *attempt, epoch, receiver, end };
            Some((one.worker, ask))
        }
        Errand::Forget(shard, attempt, worker) => {
            Some((*worker, Ask::Forget { shard: *shard, attempt: *attempt }))
        }
        Errand::Install(worker, boot) if owner.recovery.asked.contains(&(*worker, *boot)) => {
            Some((*worker, Ask::Install { job, epoch, receiver: *boot }))
        }
        Errand::Scan(worker, _) | Errand::Room(worker) | Errand::Probe(worker, _) => {
            Some((*worker, Ask::Inspect { job: Some(job) }))
        }
        Errand::Steer { .. } | Errand::Install(..) => None,
    }
}

fn dispatch(owner: &Owner, sid: Sid) -> Option<(NodeId, Ask)> {
    let shard = owner.shards.get(&sid)?;
    let one = shard.current()?;
    let seat = match shard.place.and_then(|place| place.hold) {
        Some(number) => Seat::Own(owner.hold(number)),
        None => Seat::Shared,
    };
    let workflows = owner.asides();
    let workflow = match shard.task {
        Task::Load => Some(sid.0 as usize),
        Task::Setup { of } | Task::Teardown { of } => of.map(|number| number.0 as usize),
    };
    let mut handed = context::hand(&owner.manifest, &owner.values, workflow.unwrap_or(usize::MAX));
    if let Some(own) = workflow.and_then(|number| owner.own_setup(number)) {
        handed.variables.extend(own.clone());
    }
    // A cancel may come before what the setup left is committed; whoever takes the job up has it from the report.
    if let (None, Some(left)) = (workflow, owner.fresh.get(&0).and_then(|v| v.get(context::SETUP)))
    {
        handed.variables.extend(left.clone());
    }
    let fence = Fence { epoch: owner.epoch, attempt: shard.attempt() };
    let dispatch = Dispatch {
        order: Order::new(one.boot, shard.key, fence, Act::Start),
        seat,
        task: shard.task,
        shards: match shard.task {
            Task::Load => owner.divided.get(&(sid.0 as usize)).copied().unwrap_or(1),
            Task::Setup { .. } | Task::Teardown { .. } => 2 + 2 * workflows,
        },
        bundle: owner.bundle,
        context: Payload::Inline(context::encode(&handed)),
        context_version: owner.committed,
        elapsed: owner.schedule_time(),
        units_before: one.before,
        units_end: one.budget.as_ref().map(Budget::end),
        rows: Vec::new(),
        run_at_most: owner.run_at_most(sid),
        time_left: owner.timeouts.left(owner.now),
        lease: one.lease.length(),
    };
    Some((one.worker, Ask::Dispatch(Box::new(dispatch))))
}

impl Owner {
    pub(super) fn send(&mut self, errand: Errand) {
        self.send_again(errand, 0);
    }

    fn send_again(&mut self, errand: Errand, tries: u32) {
        if let Some((worker, ask)) = ask(self, &errand) {
            let tag = self.tag();
            self.out.push(match errand {
                Errand::Probe(..) => Effect::Probe { tag, worker, ask },
                _ => Effect::Ask { tag, worker, ask },
            });
            self.errands.insert(tag, (errand, tries, worker));
        }
    }

    /// What went unanswered, and is due again.
    pub(super) fn resend(&mut self) {
        while let Some((&(at, number), _)) = self.later.first_key_value() {
            if at > self.now {
                break;
            }
            if let Some((errand, tries)) = self.later.remove(&(at, number)) {
                self.send_again(errand, tries);
            }
        }
    }

    fn retry(&mut self, errand: Errand, tries: u32) {
        let at = self.backoff(tries);
        let number = self.tag();
        self.later.insert((at, number), (errand, tries.saturating_add(1)));
    }

    pub(super) fn retry_stop(&mut self, sid: Sid, attempt: Attempt, tries: u32) {
        self.retry(Errand::Stop(sid, attempt), tries);
    }

    pub(super) fn unanswered(&mut self, tag: u64, why: NoAnswer) {
        let Some((errand, tries, _)) = self.errands.remove(&tag) else {
            self.counts.repeats += 1;
            return;
        };
        self.changed();
        match &errand {
            Errand::Reserve(number) => self.reserve_unanswered(*number),
            Errand::Probe(worker, boot) => self.probe_unanswered(*worker, *boot, why),
            // The hold runs out by itself; a report that is told again is forgotten again; the next scan comes.
            Errand::Release(..) | Errand::Forget(..) | Errand::Scan(..) | Errand::Room(..) => {}
            // One that was replaced long ago: the next scan finds it if it is still there.
            Errand::Stop(sid, attempt)
                if self.shards.get(sid).is_some_and(|shard| shard.attempt() != *attempt) => {}
            _ => self.retry(errand, tries),
        }
    }

    pub(super) fn answered(&mut self, tag: u64, answer: Answer, took: Duration) {
        let Some((errand, tries, worker)) = self.errands.remove(&tag) else {
            self.counts.repeats += 1;
            return;
        };
        self.changed();
        self.heard_from(worker);
        let rtt = self.rtts.entry(worker).or_insert(took);
        *rtt = (*rtt * 3 + took) / 4;
        match errand {
            Errand::Reserve(number) => self.reserve_answered(number, &answer),
            Errand::Dispatch(sid, attempt) => self.dispatch_answered(sid, attempt, &answer),
            Errand::Start { attempts, .. } => self.start_answered(&attempts, &answer),
            Errand::Stop(sid, attempt) => self.stop_answered(sid, attempt, answer, tries),
            Errand::Rows { sid, attempt, rows } => {
                if let Some(Some(least)) = self.rows.remove(&(sid, rows.set)) {
                    self.rows_wanted(self.key(sid), attempt, rows.set, least);
                }
            }
            Errand::Install(worker, boot) => match answer {
                Answer::Holding(holdings) => self.installed(worker, boot, &holdings, took),
                other => self.not_installed(worker, boot, &other),
            },
            Errand::Scan(worker, boot) => {
                if let Answer::Holding(holdings) = answer {
                    self.scanned(worker, boot, &holdings);
                }
            }
            Errand::Room(worker) => {
                if let Answer::Holding(holdings) = answer {
                    self.room_heard(worker, &holdings);
                }
            }
            Errand::Probe(worker, boot) => self.probe_answered(worker, boot, &answer),
            Errand::Steer { worker, boot, number } => {
                if !self.steer_answered(worker, boot, number, &answer) {
                    self.retry(Errand::Steer { worker, boot, number }, tries);
                }
            }
            Errand::Release(..) | Errand::Units(..) | Errand::Forget(..) => {}
        }
    }

    fn dispatch_answered(&mut self, sid: Sid, attempt: Attempt, answer: &Answer) {
        let current = self.shards.get(&sid).is_some_and(|shard| shard.attempt() == attempt);
        if !current {
            self.counts.late += 1;
            return;
        }
        match answer {
            Answer::Done => {
                let ready_by = self.now.after(self.settings.ready_within);
                let Some(shard) = self.shards.get_mut(&sid) else { return };
                if shard.step == Step::Sent {
                    shard.step = Step::Preparing;
                    shard.due = Some(ready_by);
                    self.leave_hold(sid, true);
                }
            }
            Answer::Refused(refused) => self.dispatch_refused(sid, refused),
            _ => self.counts.lies += 1,
        }
    }

    /// a refusal leads on, to another worker. It consumes an attempt, because the ledger had started it.
    fn dispatch_refused(&mut self, sid: Sid, refused: &Refused) {
        let Some(shard) = self.shards.get(&sid).filter(|shard| shard.step == Step::Sent) else {
            self.counts.late += 1;
            return;
        };
        let Some((node, boot)) = shard.current().map(|one| (one.worker, one.boot)) else { return };
        match refused {
            Refused::Fence(OrderRefusal::OtherLife { own, since, .. }) if *own > boot => {
                let proof = lapse_of(boot, *own, *since);
                return self.lose(sid, "its worker has started again", proof);
            }
            Refused::Fence(OrderRefusal::Epoch(refusal)) => {
                return self.depose(format!("worker {node}: {refusal}"));
            }
            Refused::Draining => self.pool.set_draining(node),
            Refused::NoCores { free, total, .. } => self.pool.correct(node, *free, *total),
            Refused::UnknownHold | Refused::TooMany { .. } => self.shun(node),
            _ => {}
        }
        // A full worker is no bad worker.
        let its_fault = matches!(refused, Refused::CannotRun { .. } | Refused::Fence(_));
        if let Some(shard) = self.shards.get_mut(&sid) {
            if its_fault {
                shard.failed_on.push((node, boot));
            }
            shard.refused = shard.refused.saturating_add(1);
            let text = match refused {
                Refused::CannotRun { why } => why.clone(),
                other => format!("{other:?}"),
            };
            shard.error = Some(format!("worker {node} refused it: {text}"));
        }
        self.never_ran(sid, "worker rejected dispatch");
    }

    fn start_answered(&mut self, attempts: &[(Sid, Attempt)], answer: &Answer) {
        for (sid, attempt) in attempts {
            let begun = self
                .shards
                .get(sid)
                .is_some_and(|shard| shard.attempt() == *attempt && shard.step == Step::Begun);
            if !begun {
                continue;
            }
            match answer {
                Answer::Done => self.runs(*sid),
                Answer::Refused(Refused::Fence(OrderRefusal::OtherLife { own, since, .. })) => {
                    let boot = self.shards.get(sid).and_then(|shard| shard.current());
                    let boot = boot.map(|one| one.boot).unwrap_or_default();
                    let proof = lapse_of(boot, *own, *since);
                    self.lose(*sid, "its worker has started again", proof);
                }
                Answer::Refused(Refused::Fence(OrderRefusal::Epoch(refusal))) => {
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
            if shard.state == State::Cancelling {
                return;
            }
        }
        if let Some(shard) = self.shards.get_mut(&sid) {
            shard.refused = 0;
        }
        self.go(sid, State::Running, format!("attempt {attempt} runs"));
        self.mended(sid);
    }
}
