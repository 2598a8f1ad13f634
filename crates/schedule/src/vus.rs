//! How many virtual users are active, and when that number changes.
//!
//! As in k6, a stage from `a` to `b` users over `D` moves one user at a time, the k-th at `D * k /
//! |b - a|`: the first user of a ramp from zero comes after one step, the last one exactly at the
//! stage's end. A stage over `0s` is a jump. All of it is integer arithmetic, so that every shard
//! sees the same step at the same nanosecond.

use std::time::Duration;

use plan::{Executor, Load, Stage};

/// The limit of virtual users where an arrival rate's plan sets none: everything is bounded (R10).
pub const SELF_SIZED_VUS_MAX: u32 = 10_000;

/// How many virtual users are active at `t`; user `i` is, if `i < vus_at(load, t)`. Zero from the
/// end on, and for arrival rates, whose users come and go with the need.
pub fn vus_at(load: &Load, t: Duration) -> u32 {
    match &load.executor {
        Executor::ConstantVus { vus, duration } if t < *duration => *vus,
        Executor::PerVuIterations { vus, max_duration, .. }
        | Executor::SharedIterations { vus, max_duration, .. }
            if t < *max_duration =>
        {
            *vus
        }
        Executor::RampingVus { start, stages, .. } => users_at(*start, numbers(stages), t),
        _ => 0,
    }
}

/// The same of stages as numbers: (to, over).
pub(super) fn users_at(
    start: u32,
    stages: impl Iterator<Item = (u32, Duration)>,
    t: Duration,
) -> u32 {
    ramps(start, stages).find(|ramp| t < ramp.end).map_or(0, |ramp| ramp.vus(t))
}

fn numbers(stages: &[Stage<u32>]) -> impl Iterator<Item = (u32, Duration)> + '_ {
    stages.iter().map(|stage| (stage.to, stage.over))
}

/// The first moment after `t` at which [`vus_at`] has another value; `None`: it never changes
/// again.
pub fn next_change(load: &Load, t: Duration) -> Option<Duration> {
    let now = vus_at(load, t);
    let mut at = t;
    // A step that a jump undoes in the same nanosecond is no change: look further.
    loop {
        at = next_step(load, at)?;
        if vus_at(load, at) != now {
            return Some(at);
        }
    }
}

/// The most virtual users that this load can have at once.
pub fn vus_max(load: &Load) -> u32 {
    match &load.executor {
        Executor::ConstantVus { vus, .. }
        | Executor::PerVuIterations { vus, .. }
        | Executor::SharedIterations { vus, .. } => *vus,
        Executor::RampingVus { start, stages, .. } => {
            stages.iter().map(|stage| stage.to).fold(*start, u32::max)
        }
        Executor::ConstantArrivalRate { vus, max_vus, .. }
        | Executor::RampingArrivalRate { vus, max_vus, .. } => {
            max_vus.unwrap_or(SELF_SIZED_VUS_MAX).max(vus.unwrap_or(0))
        }
    }
}

/// So many times as many users. One step must be visible even where ten per cent are less than one
/// user.
#[must_use]
pub fn scaled_vus(now: u32, factor: f64) -> u32 {
    let scaled = (f64::from(now) * factor).round();
    let scaled = match factor > 1.0 {
        true => scaled.max(f64::from(now) + 1.0),
        false => scaled.min(f64::from(now) - 1.0).max(1.0),
    };
    scaled.min(1e6) as u32
}

/// The next moment after `t` at which something may change: a step, a stage's start, or the end.
fn next_step(load: &Load, t: Duration) -> Option<Duration> {
    match &load.executor {
        Executor::RampingVus { start, stages, .. } => {
            ramps(*start, numbers(stages)).find(|ramp| t < ramp.end).map(|ramp| ramp.next_step(t))
        }
        Executor::ConstantArrivalRate { .. } | Executor::RampingArrivalRate { .. } => None,
        _ => Some(super::latest_end(load)).filter(|end| t < *end),
    }
}

/// One stage, placed in time.
struct Ramp {
    begin: Duration,
    end: Duration,
    from: u32,
    to: u32,
}

fn ramps(start: u32, stages: impl Iterator<Item = (u32, Duration)>) -> impl Iterator<Item = Ramp> {
    stages.scan((start, Duration::ZERO), |(vus, time), (to, over)| {
        let ramp = Ramp { begin: *time, end: *time + over, from: *vus, to };
        (*vus, *time) = (ramp.to, ramp.end);
        Some(ramp)
    })
}

impl Ramp {
    fn length_ns(&self) -> u128 {
        (self.end - self.begin).as_nanos()
    }

    /// Only within the ramp, which then is not empty.
    fn steps_done(&self, t: Duration) -> u128 {
        let steps = u128::from(self.from.abs_diff(self.to));
        steps * (t - self.begin).as_nanos() / self.length_ns()
    }

    fn vus(&self, t: Duration) -> u32 {
        let moved = self.steps_done(t) as u32;
        if self.to >= self.from { self.from + moved } else { self.from - moved }
    }

    fn next_step(&self, t: Duration) -> Duration {
        let steps = u128::from(self.from.abs_diff(self.to));
        if steps == 0 {
            return self.end;
        }
        let wait = ((self.steps_done(t) + 1) * self.length_ns()).div_ceil(steps);
        self.begin + Duration::from_nanos(wait as u64)
    }
}
