//! Closed models: a number of virtual users, each starting its next iteration when the last has
//! ended.

use base::clock;
use fence::Moment;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use plan::Executor;
use stats::DropCause;
use tokio::task::{AbortHandle, JoinSet};

use super::{ShardContext, Stop, wind_down};
use crate::user::User;
use crate::vu::Iterated;

/// How long a place stays empty after a virtual user whose own setup failed.
const SETUP_RETRY: Duration = Duration::from_secs(1);

/// Iterations that a workflow counts, rather than time.
#[derive(Clone)]
struct Pile {
    /// Shared by the shard's users; `None`: as many as there is time for.
    left: Option<Rc<Cell<u64>>>,
    /// Of each user alone.
    per_vu: Option<u64>,
    /// What earlier attempts have used up of all users' own, and how many users that is.
    spent: (u64, u64),
    /// Iterations that the shard's users have begun.
    begun: Rc<Cell<u64>>,
}

impl Pile {
    fn is_counted(&self) -> bool {
        self.left.is_some() || self.per_vu.is_some()
    }

    /// How many iterations of its own a user has used up before it began. Which of them did how
    /// many in an earlier attempt nobody knows; what counts is the sum.
    fn used_up(&self, local: u64) -> u64 {
        match (self.per_vu, self.spent) {
            (Some(_), (spent, users @ 1..)) => spent / users + u64::from(local < spent % users),
            _ => 0,
        }
    }

    /// Whether a user that has done so many iterations may begin another.
    fn has_more(&self, done: u64) -> bool {
        self.per_vu.is_none_or(|limit| done < limit)
            && self.left.as_ref().is_none_or(|left| left.get() > 0)
    }

    /// Takes an iteration; false: there is none left.
    fn take(&self, done: u64) -> bool {
        if !self.has_more(done) {
            return false;
        }
        if let Some(left) = &self.left {
            left.set(left.get() - 1);
        }
        self.begun.set(self.begun.get() + 1);
        true
    }

    /// Puts back an iteration for which there was no data.
    fn put_back(&self) {
        self.begun.set(self.begun.get() - 1);
        if let Some(left) = &self.left {
            left.set(left.get() + 1);
        }
    }

    /// What `users` users have not begun.
    fn rest(&self, users: usize) -> u64 {
        match (&self.left, self.per_vu) {
            (Some(left), _) => left.get(),
            (None, Some(each)) => (users as u64)
                .saturating_mul(each)
                .saturating_sub(self.spent.0.saturating_add(self.begun.get())),
            (None, None) => 0,
        }
    }
}

/// A user that runs, and the wish that it may end.
struct Active {
    stop: Rc<Cell<bool>>,
    task: AbortHandle,
    /// When it is cancelled, if it was told to stop.
    cancel_at: Option<Duration>,
}

pub(super) async fn drive(context: &Rc<ShardContext>) {
    let load = &context.workflow().load;
    let (shard, shards) = (context.shard, context.shards);
    let end = schedule::latest_end(load);
    let users = schedule::share(u64::from(schedule::vus_max(load)), shard, shards);
    let join = context.join.get();
    let counts_iterations = schedule::counts_iterations(&load.executor);
    let counted = schedule::Units::of(&load.executor).counted(shard, shards);
    let whole = counted.map_or(0, |(_, iterations)| iterations);
    // Earlier attempts that were lost are taken to have gone as far as they were allowed to.
    let spent = if counts_iterations { join.spent.min(whole) } else { join.spent };
    let pile = pile(&load.executor, shard, shards, spent, users);
    context.took(spent);
    if counts_iterations {
        // Nothing is left of it, or there are more shards than users.
        if (spent > 0 || users == 0) && pile.rest(users as usize) == 0 {
            return;
        }
    }
    let ramp_down = match &load.executor {
        Executor::RampingVus { graceful_ramp_down, .. } => *graceful_ramp_down,
        _ => load.graceful_stop,
    };
    context.iterations.set((0, pile.rest(users as usize)));
    let next_number = Rc::new(Cell::new(shard as u64 + spent * shards as u64));
    let mut tasks = JoinSet::new();
    // By number within the shard. With many users this is walked at every step of a ramp, so it is
    // flat.
    let mut active: Vec<Option<Active>> = Vec::new();
    let mut began = 0;

    loop {
        let t = context.control.clock.elapsed();
        if t >= end || context.control.stop.get() != Stop::No {
            break;
        }
        let planned = schedule::vus_at(load, t);
        let wanted = u64::from(context.control.vus_override.get().unwrap_or(planned));
        let mine = schedule::share(wanted, shard, shards) as usize;
        while tasks.try_join_next().is_some() {}
        if counts_iterations && began > 0 && tasks.is_empty() {
            break;
        }
        let first_cancel = settle(&mut active, mine, t, ramp_down);
        if active.len() < mine {
            active.resize_with(mine, || None);
        }
        for (local, place) in active.iter_mut().enumerate().take(mine) {
            let done = place.as_ref().is_some_and(|vu| vu.task.is_finished());
            // A user that has done its own count of iterations is not started again, and without
            // data nobody is.
            let over = counts_iterations && local < began || context.data_exhausted.get();
            if place.is_some() && !done || over {
                continue;
            }
            let index = (local * shards + shard) as u64;
            let stop = Rc::new(Cell::new(false));
            let vu = live(context.clone(), index, stop.clone(), pile.clone(), next_number.clone());
            let task = tasks.spawn_local(vu);
            *place = Some(Active { stop, task, cancel_at: None });
        }
        began = began.max(mine);
        if context.data_exhausted.get() && tasks.is_empty() {
            break;
        }

        let mut next = schedule::next_change(load, t).unwrap_or(end).min(end);
        if let Some(cancel) = first_cancel {
            next = next.min(cancel);
        }
        tokio::select! {
            biased;
            _ = context.until(next) => {}
            Some(_) = tasks.join_next(), if counts_iterations || context.data_exhausted.get() => {}
        }
    }
    for vu in active.iter().flatten() {
        vu.stop.set(true);
    }
    context.control.changed.notify_waiters();
    wind_down(context, &mut tasks, load.graceful_stop).await;
    let stopped = context.control.stop.get() != Stop::No;
    let cause = match context.data_exhausted.get() {
        true => DropCause::DataExhausted,
        false if stopped => DropCause::Stopped,
        false => DropCause::TimeOver,
    };
    // What a script did not get to because somebody ended its run was not dropped, says k6. And
    // where the permit was withdrawn the load is not over: another attempt goes on with the rest,
    // or whoever leads the job counts it.
    let goes_on = context.is_shut_out();
    if !goes_on && (context.script.is_none() || !stopped) {
        // Iterations of users that people took away were planned as well.
        let planned = if began == 0 { 0 } else { began.max(users as usize) };
        context.dropped(cause, pile.rest(planned));
    }
}

fn pile(executor: &Executor, shard: usize, shards: usize, spent: u64, users: u64) -> Pile {
    let begun = Rc::default();
    let spent = (spent, users);
    match executor {
        Executor::SharedIterations { vus, iterations, .. } => {
            let load = schedule::Units::Shared { vus: *vus, iterations: *iterations };
            let mine = load.counted(shard, shards).map_or(0, |(_, iterations)| iterations);
            let mine = mine.saturating_sub(spent.0);
            Pile { left: Some(Rc::new(Cell::new(mine))), per_vu: None, spent, begun }
        }
        Executor::PerVuIterations { iterations, .. } => {
            Pile { left: None, per_vu: Some(*iterations), spent, begun }
        }
        _ => Pile { left: None, per_vu: None, spent, begun },
    }
}

/// Users beyond the wanted number are told to stop and cancelled when their grace is over; those
/// that are wanted again before they have ended go on. The time of the next cancellation, if there
/// is one.
fn settle(
    active: &mut [Option<Active>],
    mine: usize,
    t: Duration,
    grace: Duration,
) -> Option<Duration> {
    let mut first_cancel = None;
    for (local, vu) in active.iter_mut().enumerate() {
        let Some(vu) = vu else { continue };
        let wanted = local < mine;
        vu.stop.set(!wanted);
        vu.cancel_at = match (wanted, vu.cancel_at) {
            (true, _) => None,
            (false, None) => Some(t + grace),
            (false, Some(at)) if at <= t => {
                vu.task.abort();
                Some(Duration::MAX)
            }
            (false, known) => known,
        };
        let waits = vu.cancel_at.filter(|at| *at < Duration::MAX && !vu.task.is_finished());
        first_cancel = match (first_cancel, waits) {
            (Some(a), Some(b)) if a < b => Some(a),
            (known, None) => known,
            (_, new) => new,
        };
    }
    first_cancel
}

/// Counts a user in and out, however it ends.
pub(super) struct Presence(pub Rc<ShardContext>);

impl Presence {
    pub fn new(context: &Rc<ShardContext>) -> Presence {
        context.vu_came();
        Presence(context.clone())
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.vu_went();
    }
}

/// Waits between two iterations; whoever is told to stop does not wait for one that will not come.
async fn rest(context: &ShardContext, stop: &Cell<bool>, until: Moment) {
    let until = tokio::time::Instant::from_std(clock::instant(until));
    while !stop.get() && context.control.stop.get() == Stop::No {
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(until) => return,
            () = context.control.changed.notified() => {}
        }
    }
}

/// A script that only computes takes a moment for each iteration, and there may be thousands of
/// them: whoever has had a millisecond lets the others have theirs.
#[derive(Default)]
struct Turn {
    began: Moment,
}

impl Turn {
    const LENGTH_NS: u64 = 1_000_000;

    async fn share(&mut self) {
        if clock::recent().nanos_since(self.began) >= Turn::LENGTH_NS {
            tokio::task::yield_now().await;
            self.began = clock::now();
        }
    }
}

/// There was no row for an iteration that was to begin.
fn end_of_data(context: &ShardContext, pile: &Pile) {
    pile.put_back();
    context.gave_back();
    // Where iterations are counted, the rest of the pile is dropped at the end.
    if !pile.is_counted() {
        context.dropped(DropCause::DataExhausted, 1);
    }
    context.data_exhausted.set(true);
    context.control.changed.notify_waiters();
}

/// The life of one user.
async fn live(
    context: Rc<ShardContext>,
    index: u64,
    stop: Rc<Cell<bool>>,
    pile: Pile,
    next_number: Rc<Cell<u64>>,
) {
    let _present = Presence::new(&context);
    let user = match context.user(index) {
        Ok(user) => user,
        Err(error) => {
            context.recorder.failure(context.first_step(), stats::ErrorKind::Local, || error, None);
            rest(&context, &stop, clock::now().after(SETUP_RETRY)).await;
            return;
        }
    };
    if !user.begin().await {
        // Started again at once, it would hammer a target that refuses its setup.
        rest(&context, &stop, clock::now().after(SETUP_RETRY)).await;
        return;
    }
    let pacing = context.workflow().load.pacing;
    let mut turn = Turn::default();
    let mut done = pile.used_up(index / context.shards as u64);
    loop {
        let held = || !stop.get() && pile.has_more(done) && !context.may_take();
        while context.control.stop.get() == Stop::No
            && (context.control.clock.is_paused() || held())
        {
            context.control.changed.notified().await;
        }
        if stop.get() || context.control.stop.get() != Stop::No || context.is_over() {
            break;
        }
        if !pile.take(done) {
            break;
        }
        let number = next_number.get();
        next_number.set(number + context.shards as u64);
        let begun = clock::now();
        context.took(1);
        match user.iterate(&context, number, None).await {
            Iterated::Done => {}
            Iterated::RowsLate => context.dropped(DropCause::RowsLate, 1),
            Iterated::NoData => {
                end_of_data(&context, &pile);
                break;
            }
        }
        done += 1;
        let (all_done, all) = context.iterations.get();
        context.iterations.set((all_done + 1, all));
        context.note_provided(&user);
        if let Some(span) = pacing
            && pile.has_more(done)
        {
            rest(&context, &stop, begun.after(user.draw(span))).await;
        }
        // An iteration without a request must not starve the core's other users.
        match user {
            User::Plan(_) => tokio::task::consume_budget().await,
            User::Script(_) => turn.share().await,
        }
    }
    user.end().await;
    context.put_back(index, user);
}
