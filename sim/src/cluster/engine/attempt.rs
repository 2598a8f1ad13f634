//! One attempt of a shard: what its users would send, asked of its permit and counted before.

mod faults;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::clock;
use engine::attempt::{Counted, Ended, Ending, Loaded, Report, ShardEnd, ShardSpec, Stop, Wiring};
use fence::Moment;
use permit::{IssuedFile, PermitState, SendPermit};
use plan::{Executor, Rate};
use schedule::Units;
use stats::{DropCause, Layout, Window};

use super::counted;
use crate::cluster::plan::Mark;
use crate::cluster::target::{Place, Sender, Target};
use crate::event;
pub use faults::{Bug, Fault, draw as draw_fault};

/// Requests of one virtual user in a second.
const PER_USER: f64 = 2.0;
/// How much quicker they are in a burst.
const IN_A_BURST: f64 = 10.0;
/// Bursts come so often, and last so long.
const BURSTS_MS: (u128, u128) = (4_000, 1_500);
/// Rows that are asked for at a time.
const ROWS: u64 = 20;

pub struct Started {
    pub at: Moment,
    pub elapsed: Duration,
}

/// One attempt of a shard.
pub struct Attempt {
    place: Place,
    sender: Sender,
    fault: Option<Fault>,
    bug: Option<Bug>,
    /// Its users are quicker at times.
    bursts: bool,
    layout: Arc<Layout>,
    permit: Arc<SendPermit>,
    issued: Option<Arc<IssuedFile>>,
    pub units: Units,
    pub shard: u32,
    pub shards: u32,
    pub vus: u32,
    pub length: Duration,
    pub start_after: Duration,
    pub rates: Vec<(Rate, Duration)>,
    pub started: Option<Started>,
    pub paused_at: Option<Moment>,
    pub paused: Duration,
    /// Units of the whole schedule, where they are counted.
    pub whole: Option<u64>,
    pub taken: u64,
    pub granted: u64,
    /// More units were asked for.
    pub wanted: bool,
    /// Requests of users who are not counted that were due so far.
    due: f64,
    last_look: Option<Moment>,
    held: Duration,
    in_flight: u64,
    /// Leased rows, by set.
    pub rows: BTreeMap<usize, VecDeque<u64>>,
    pub rows_wanted: bool,
    pub no_more_rows: bool,
    window: Window,
    pub spare: Option<Window>,
    pub swaps: u32,
    pub stop: Stop,
    /// Until when it had to come to its end.
    killed: Option<Moment>,
    /// It has said its last word.
    over: bool,
    /// Its thread has ended.
    pub gone: bool,
}

/// How long a load lasts at most.
fn length(executor: &Executor) -> Duration {
    match executor {
        Executor::ConstantVus { duration, .. } | Executor::ConstantArrivalRate { duration, .. } => {
            *duration
        }
        Executor::PerVuIterations { max_duration, .. }
        | Executor::SharedIterations { max_duration, .. } => *max_duration,
        Executor::RampingVus { stages, .. } => stages.iter().map(|stage| stage.over).sum(),
        Executor::RampingArrivalRate { stages, .. } => stages.iter().map(|stage| stage.over).sum(),
    }
}

impl Attempt {
    pub fn new(
        loaded: &Loaded,
        spec: ShardSpec,
        wiring: &Wiring,
        sender: Sender,
        (fault, bug, bursts): (Option<Fault>, Option<Bug>, bool),
    ) -> Self {
        let plan = loaded.definition();
        let load = &plan.workflows[spec.workflow].load;
        let units = Units::of(&load.executor);
        let (shard, shards) = (spec.shard as u32, spec.shards as u32);
        let whole = units.of_shard(shard, shards, length(&load.executor), &spec.rates);
        let rows = spec
            .rows
            .into_iter()
            .map(|(set, blocks)| (set, blocks.into_iter().flatten().collect()));
        Self {
            place: (plan.name.clone(), spec.workflow, spec.shard),
            sender,
            fault,
            bug,
            bursts,
            layout: Arc::clone(loaded.layout()),
            permit: Arc::clone(&wiring.permit),
            issued: wiring.issued.clone(),
            shard,
            shards,
            vus: spec.vus.unwrap_or_else(|| schedule::vus_max(load)),
            length: length(&load.executor),
            start_after: load.start_after,
            rates: spec.rates,
            started: None,
            paused_at: spec.paused.then(clock::now),
            paused: Duration::ZERO,
            whole,
            taken: spec.join.spent.min(whole.unwrap_or(u64::MAX)),
            granted: spec.units_end.or(whole).unwrap_or(u64::MAX),
            units,
            wanted: false,
            due: 0.0,
            last_look: None,
            held: Duration::ZERO,
            in_flight: 0,
            rows: rows.collect(),
            rows_wanted: false,
            no_more_rows: false,
            window: Window::new(loaded.layout()),
            spare: None,
            swaps: 0,
            stop: Stop::No,
            killed: None,
            over: false,
            gone: false,
        }
    }

    fn elapsed(&self, now: Moment) -> Option<Duration> {
        let started = self.started.as_ref().filter(|started| started.at <= now)?;
        let paused =
            self.paused + self.paused_at.map_or(Duration::ZERO, |at| now.since(at.max(started.at)));
        Some((started.elapsed + now.since(started.at)).saturating_sub(paused))
    }

    fn block(&mut self) -> &mut stats::Block {
        let stage = self.layout.workflows[self.place.1].stages.start;
        self.window.block(&self.layout, stage)
    }

    fn drop_units(&mut self, cause: DropCause, count: u64) {
        if count > 0 {
            self.block().dropped[cause as usize] += count;
        }
    }

    /// What was sent before this look has been answered meanwhile, or is cut off.
    fn settle(&mut self, answered: bool) {
        let count = std::mem::take(&mut self.in_flight);
        if count == 0 {
            return;
        }
        let block = self.block();
        let step = &mut block.steps[0];
        (step.requests, step.sent) = (step.requests + count, step.sent + count);
        if answered {
            step.completed += count;
            block.iterations += count;
        } else {
            step.interrupted += count;
            block.iterations_interrupted += count;
        }
    }

    fn count(&mut self) -> Counted {
        let empty = self.spare.take().unwrap_or_else(|| Window::new(&self.layout));
        let window = std::mem::replace(&mut self.window, empty);
        let issued = self.issued.as_ref().map(|file| file.counts());
        counted(window, u64::from(self.vus), self.taken, self.held, issued)
    }

    fn end(&mut self, how: Ending) -> Report {
        let last = Some(Box::new(self.count()));
        self.gone = true;
        self.end_with(how, last)
    }

    fn end_with(&mut self, how: Ending, last: Option<Box<Counted>>) -> Report {
        self.over = true;
        self.permit.close();
        event!("{:?}: attempt {} ends with {} begun: {how:?}", self.place, self.sender, self.taken);
        let stopped = how != Ending::Completed;
        let shut_out = how == Ending::LeaseLapsed;
        let (taken, vus_max) = (self.taken, u64::from(self.vus));
        let end = match last {
            Some(_) => ShardEnd { stopped, shut_out, taken, vus_max, ..ShardEnd::default() },
            // Nobody is left who could say it.
            None => ShardEnd::default(),
        };
        Report::Ended(Box::new(Ended { how, end, values: None, last }))
    }

    pub fn look(&mut self, now: Moment, target: &mut Target) -> Vec<Report> {
        if let Some(until) = self.killed {
            return self.look_killed(now, until, target);
        }
        self.settle(true);
        let standing = self.standing(now);
        let elapsed = self.elapsed(now);
        let is_deaf = matches!(self.fault, Some(Fault::IgnoresKill(_)));
        if is_deaf && (standing.is_final() || self.stop != Stop::No) {
            return Vec::new();
        }
        if standing.is_final() {
            // What nobody has begun is for another attempt, or whoever leads the job counts it.
            let how = if self.stop == Stop::No { Ending::LeaseLapsed } else { Ending::Stopped };
            if self.stop == Stop::No {
                target.lapses.push(self.place.clone());
            }
            return vec![self.end(how)];
        }
        if self.stop == Stop::Now || self.stop != Stop::No && elapsed.is_none() {
            self.leave_rest(DropCause::Stopped);
            return vec![self.end(Ending::Stopped)];
        }
        let mut reports = Vec::new();
        if let Some(elapsed) = elapsed.filter(|_| matches!(standing, PermitState::Open { .. })) {
            if self.stop != Stop::No {
                self.leave_rest(DropCause::Stopped);
                return vec![self.end(Ending::Stopped)];
            }
            if self.is_over(elapsed) {
                if self.leave_rest(DropCause::TimeOver) > 0 {
                    target.shard(&self.place).out_of_time = true;
                }
                return vec![self.end(Ending::Completed)];
            }
            if let Some(last) = self.befall(elapsed, target, &mut reports) {
                return vec![last];
            }
            if self.paused_at.is_none() {
                self.send(now, elapsed, target, &mut reports);
            }
        }
        for _ in 0..std::mem::take(&mut self.swaps) {
            reports.push(Report::Counted(Box::new(self.count())));
        }
        reports
    }

    fn is_over(&self, elapsed: Duration) -> bool {
        let time = elapsed >= self.length;
        match self.whole {
            Some(_) if self.units.is_open() => time && self.arrived(elapsed) <= self.taken,
            Some(whole) => time || self.taken >= whole,
            None => time,
        }
    }

    pub fn arrived(&self, elapsed: Duration) -> u64 {
        let until = elapsed.min(self.length);
        self.units.of_shard(self.shard, self.shards, until, &self.rates).unwrap_or(0)
    }

    /// What users did not get to. Arrivals that nobody waits for any more were not due.
    fn leave_rest(&mut self, cause: DropCause) -> u64 {
        if self.units.is_open() || self.started.is_none() {
            return 0;
        }
        let rest = self.whole.map_or(0, |whole| whole.saturating_sub(self.taken));
        self.drop_units(cause, rest);
        rest
    }

    fn send(
        &mut self,
        now: Moment,
        elapsed: Duration,
        target: &mut Target,
        reports: &mut Vec<Report>,
    ) {
        let since = self.last_look.map_or(Duration::ZERO, |last| now.since(last));
        self.last_look = Some(now);
        let wanted = if self.units.is_open() {
            self.arrived(elapsed).saturating_sub(self.taken)
        } else {
            let share = f64::from(self.vus) / f64::from(self.shards.max(1));
            let (every, lasts) = BURSTS_MS;
            let is_burst = self.bursts && elapsed.as_millis() % every < lasts;
            let pace = if is_burst { PER_USER * IN_A_BURST } else { PER_USER };
            self.due += since.as_secs_f64() * pace * share;
            let count = self.due as u64;
            self.due -= count as f64;
            count
        };
        let mut count = wanted;
        if let Some(whole) = self.whole {
            let granted = if self.bug == Some(Bug::RunsAhead) { whole } else { self.granted };
            let most = granted.min(whole).saturating_sub(self.taken);
            count = count.min(if self.units.is_open() { u64::MAX } else { most });
            if !self.units.is_open() && most == 0 && self.granted < whole {
                self.held += since;
                if !std::mem::replace(&mut self.wanted, true) {
                    reports.push(Report::UnitsWanted);
                }
            }
        }
        if !self.permit.may_send(now) && self.bug != Some(Bug::IgnoresLease) {
            return;
        }
        let with = self.with_rows(count, target, reports);
        self.send_now(with, target);
        self.without_rows(count - with, target);
    }

    fn send_now(&mut self, count: u64, target: &mut Target) {
        if count == 0 {
            return;
        }
        let (from, end) = (self.taken, self.taken + count);
        self.taken = end;
        if self.whole.is_some() {
            target.begin(&self.place, from, end);
        }
        // The file first: what was sent is never more than it says.
        if let Some(issued) = &self.issued {
            issued.set_taken(end);
            (0..count).for_each(|_| issued.add_issued());
        }
        target.take(&self.place, self.sender, count);
        self.in_flight = count;
    }

    /// Iterations that have a row of every set that must not repeat.
    fn with_rows(&mut self, count: u64, target: &mut Target, reports: &mut Vec<Report>) -> u64 {
        let sets: Vec<usize> = self.rows.keys().copied().collect();
        let mut with = count;
        for set in &sets {
            let left = self.rows[set].len() as u64;
            if left < count && !self.no_more_rows && !std::mem::replace(&mut self.rows_wanted, true)
            {
                reports.push(Report::RowsWanted { set: *set, at_least: ROWS });
            }
            with = with.min(left);
        }
        for set in sets {
            let rows = self.rows.get_mut(&set).map(|rows| rows.drain(..with as usize));
            for row in rows.into_iter().flatten() {
                target.use_row(&self.place.0, set, row);
            }
        }
        with
    }

    /// Units that find no row any more are over, and nobody waits for them.
    fn without_rows(&mut self, count: u64, target: &mut Target) {
        if !self.no_more_rows || count == 0 {
            return;
        }
        target.reach(Mark::RowsExhausted);
        if self.whole.is_some() {
            self.taken += count;
            self.drop_units(DropCause::DataExhausted, count);
        }
    }
}
