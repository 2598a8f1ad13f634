//! Open models: iterations start when the schedule says so, whether or not earlier ones have ended.
//!
//! Idle virtual users wait on a stack; an arrival takes the one that was busy last, whose
//! connection is warm. If none is idle a new one is made, up to the limit; beyond it the arrival is
//! dropped and counted with its cause. An arrival's latency counts from its time in the schedule,
//! so a stalled target cannot hide its stall (R16).
//!
//! What people do to the rate is in the schedule (`schedule`, rates): this driver only asks it what
//! is next. What was missed before it joined is not made up for (R5a); whoever leads the job counts
//! that, because only there it is known what the attempts before have counted.

use base::clock;
use fence::Moment;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use plan::Executor;
use schedule::{self, Arrivals};
use stats::DropCause;
use tokio::task::JoinSet;

use super::users::Presence;
use super::{ShardContext, Stop, wind_down};
use crate::timer::PreciseTimer;
use crate::vu::Iterated;

/// Arrivals closer together than this are started together: at high rates a wake-up for each would
/// cost more than its request. It is the price in precision, and is charged to the latency.
const COALESCE: Duration = Duration::from_micros(200);

#[derive(Debug, Clone, Copy)]
struct Arrival {
    number: u64,
    intended: Moment,
}

/// Where an idle user finds its next arrival.
#[derive(Default)]
struct Mailbox {
    next: Cell<Option<Arrival>>,
    closed: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Mailbox {
    fn give(&self, arrival: Arrival) {
        self.next.set(Some(arrival));
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    fn close(&self) {
        self.closed.set(true);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    async fn next(&self) -> Option<Arrival> {
        poll_fn(|context| {
            if let Some(arrival) = self.next.take() {
                return Poll::Ready(Some(arrival));
            }
            if self.closed.get() {
                return Poll::Ready(None);
            }
            *self.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

/// The users of one shard.
struct UserPool {
    context: Rc<ShardContext>,
    all: RefCell<Vec<Rc<Mailbox>>>,
    idle: Rc<RefCell<Vec<Rc<Mailbox>>>>,
    tasks: RefCell<JoinSet<()>>,
    limit: u64,
    /// A data set ran out: no arrival can be served any more.
    exhausted: Rc<Cell<bool>>,
}

pub(super) async fn drive(context: &Rc<ShardContext>) {
    let load = &context.workflow().load;
    let Some(planned) = Arrivals::new(&load.executor) else { return };
    let (vus, max_vus) = match &load.executor {
        Executor::ConstantArrivalRate { vus, max_vus, .. }
        | Executor::RampingArrivalRate { vus, max_vus, .. } => (*vus, *max_vus),
        _ => return,
    };
    let share = |total: u64| schedule::share(total, context.shard, context.shards);
    let limit = max_vus.or(vus).map_or(context.vus_limit, |max| share(u64::from(max)));
    let pool = UserPool {
        context: context.clone(),
        all: RefCell::default(),
        idle: Rc::default(),
        tasks: RefCell::default(),
        limit: limit.max(1),
        exhausted: Rc::default(),
    };
    for _ in 0..share(u64::from(vus.unwrap_or(0))).min(pool.limit) {
        pool.add_user(None);
    }
    let mut due = planned.shard(context.shard, context.shards);
    let join = context.join.get();
    context.took(due.follow(&context.control.rates.borrow()));
    context.took(due.join(join.elapsed, join.spent.saturating_sub(context.taken())));
    let end = schedule::latest_end(load);
    let mut last_wake = Moment::default();
    let timer = match PreciseTimer::new() {
        Ok(timer) => timer,
        Err(error) => {
            let error = format!("no timer: {error}");
            context.recorder.failure(context.first_step(), stats::ErrorKind::Local, || error, None);
            return;
        }
    };
    while context.control.stop.get() == Stop::No && !pool.exhausted.get() {
        context.took(due.follow(&context.control.rates.borrow()));
        let Some((number, t)) = due.peek() else {
            // A new rate may bring more, until the schedule is over.
            match context.until(end).await {
                super::Wake::Reached => break,
                super::Wake::Changed => continue,
            }
        };
        if context.control.clock.is_paused() {
            context.control.changed.notified().await;
            continue;
        }
        let intended = context.control.clock.at(t);
        let now = clock::now();
        if intended > now {
            let wake = intended.max(last_wake.after(COALESCE));
            tokio::select! {
                biased;
                () = context.control.changed.notified() => {}
                () = timer.wait_until(wake) => {}
            }
            last_wake = clock::now();
            continue;
        }
        due.next();
        context.took(1);
        pool.serve(Arrival { number, intended });
        tokio::task::consume_budget().await;
    }
    if pool.exhausted.get() {
        let missed = due.left();
        context.dropped(DropCause::DataExhausted, missed);
    }
    for mailbox in pool.all.borrow().iter() {
        mailbox.close();
    }
    let mut tasks = std::mem::take(&mut *pool.tasks.borrow_mut());
    wind_down(context, &mut tasks, load.graceful_stop).await;
    // Arrivals that were given to a user which did not get to them before it was cancelled.
    let unserved = pool.all.borrow().iter().filter(|mailbox| mailbox.next.take().is_some()).count();
    let cause = match context.control.stop.get() {
        Stop::No => DropCause::TimeOver,
        _ => DropCause::Stopped,
    };
    context.dropped(cause, unserved as u64);
}

impl UserPool {
    fn serve(&self, arrival: Arrival) {
        if let Some(mailbox) = self.idle.borrow_mut().pop() {
            mailbox.give(arrival);
            return;
        }
        if (self.all.borrow().len() as u64) < self.limit {
            if self.context.script.is_none() {
                self.add_user(Some(arrival));
                return;
            }
            // A script's user has its init code to run first. As in k6, the arrival does not wait
            // for it.
            self.add_user(None);
        } else if let Some(side) = &self.context.script {
            side.no_free_user(self.context.workflow);
        }
        self.context.dropped(DropCause::NoFreeVu, 1);
    }

    fn add_user(&self, arrival: Option<Arrival>) {
        let context = self.context.clone();
        let local = self.all.borrow().len() as u64;
        let index = local * context.shards as u64 + context.shard as u64;
        let mailbox = Rc::new(Mailbox::default());
        self.all.borrow_mut().push(mailbox.clone());
        match arrival {
            Some(arrival) => mailbox.give(arrival),
            // A script's user says itself when it is ready.
            None if self.context.script.is_some() && !self.context.is_ready(index) => {}
            None => self.idle.borrow_mut().push(mailbox.clone()),
        }
        let (idle, exhausted) = (self.idle.clone(), self.exhausted.clone());
        let task = live(context, index, mailbox, idle, exhausted);
        self.tasks.borrow_mut().spawn_local(task);
    }
}

/// Counts a user as busy, however its iteration ends.
struct Busy<'a>(&'a ShardContext);

impl Busy<'_> {
    fn new(context: &ShardContext) -> Busy<'_> {
        context.busy.set(context.busy.get() + 1);
        Busy(context)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
    }
}

async fn live(
    context: Rc<ShardContext>,
    index: u64,
    mailbox: Rc<Mailbox>,
    idle: Rc<RefCell<Vec<Rc<Mailbox>>>>,
    exhausted: Rc<Cell<bool>>,
) {
    let _present = Presence::new(&context);
    let was_ready = context.is_ready(index);
    let user = match context.user(index) {
        Ok(user) => user,
        Err(error) => {
            context.recorder.failure(context.first_step(), stats::ErrorKind::Local, || error, None);
            return;
        }
    };
    if !user.begin().await {
        // Nobody may hand it work any more; what it was given has found no user.
        idle.borrow_mut().retain(|other| !Rc::ptr_eq(other, &mailbox));
        let given = u64::from(mailbox.next.take().is_some());
        context.dropped(DropCause::NoFreeVu, given);
        return;
    }
    if context.script.is_some() && !was_ready {
        idle.borrow_mut().push(mailbox.clone());
    }
    while let Some(arrival) = mailbox.next().await {
        let busy = Busy::new(&context);
        let iterated = user.iterate(&context, arrival.number, Some(arrival.intended)).await;
        drop(busy);
        match iterated {
            Iterated::Done => context.note_provided(&user),
            Iterated::RowsLate => context.dropped(DropCause::RowsLate, 1),
            Iterated::NoData => {
                context.dropped(DropCause::DataExhausted, 1);
                exhausted.set(true);
                context.control.changed.notify_waiters();
                break;
            }
        }
        idle.borrow_mut().push(mailbox.clone());
    }
    user.end().await;
    context.put_back(index, user);
}
