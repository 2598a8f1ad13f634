//! How many cores a load needs, with headroom: what a workflow of a fleet takes unless its plan
//! says otherwise.
//!
//! A fleet is shared. A load of twenty requests a second that took every core there is would keep
//! the next job waiting for nothing. So a workflow whose plan says neither `cores` nor `priority`
//! takes what its rate or its users can need at most, and the rest stays free. One machine, which
//! has nothing else to do, gives a plan all that it has.
//!
//! The figures are what a core does with a wide margin. A fixed request costs 7 us of a core and
//! one with checks, TLS and a JSON body some 50 us, so 5,000 a second leave three quarters of a
//! core. A script costs several times as much, and nobody knows how many requests it makes in an
//! iteration.

use std::fmt;
use std::time::Duration;

use plan::{Action, Executor, Rate, Step, Workflow};
use serde::{Deserialize, Serialize};

use crate::vus_max;

/// Requests that a plan makes on one core in a second.
const REQUESTS_PER_CORE: u64 = 5_000;
/// Iterations of a script on one core in a second.
const SCRIPT_ITERATIONS_PER_CORE: u64 = 1_000;
/// Users on one core who wait for nothing but answers.
const USERS_PER_CORE: u64 = 100;

/// The cores that a load needs, and what that was reckoned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    pub cores: u32,
    pub basis: Basis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Basis {
    /// `cores` in the plan.
    Plan,
    /// The highest rate of its schedule.
    Requests { per_second: u64 },
    /// The same of a script.
    Iterations { per_second: u64 },
    /// Users who do the same over and over, as fast as the target lets them.
    Users { most: u32 },
}

/// What a workflow of a fleet needs.
#[must_use]
pub fn need(workflow: &Workflow) -> Need {
    if let Some(cores) = workflow.cores {
        return Need { cores: cores.get(), basis: Basis::Plan };
    }
    let users = vus_max(&workflow.load);
    let is_script = workflow.steps.is_empty();
    let at_a_rate = |per_second: u64| match is_script {
        true => of(per_second, SCRIPT_ITERATIONS_PER_CORE, Basis::Iterations { per_second }),
        false => of(per_second, REQUESTS_PER_CORE, Basis::Requests { per_second }),
    };
    let each = requests(&workflow.steps).max(1);
    if let Some(arrivals) = arrivals_max(&workflow.load.executor) {
        return at_a_rate(arrivals.saturating_mul(each));
    }
    let by_users = of(u64::from(users), USERS_PER_CORE, Basis::Users { most: users });
    // Users who pause cannot send more than this, however fast the target is.
    let pause = pauses(&workflow.steps) + workflow.load.pacing.map_or(Duration::ZERO, |it| it.min);
    let millis = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return by_users;
    }
    let by_pauses = u64::from(users).saturating_mul(each).saturating_mul(1_000).div_ceil(millis);
    let by_pauses = at_a_rate(by_pauses);
    if by_pauses.cores < by_users.cores { by_pauses } else { by_users }
}

fn of(amount: u64, per_core: u64, basis: Basis) -> Need {
    let cores = u32::try_from(amount.div_ceil(per_core)).unwrap_or(u32::MAX);
    Need { cores: cores.max(1), basis }
}

/// The highest rate of an open model.
fn arrivals_max(executor: &Executor) -> Option<u64> {
    let per_second = |rate: &Rate| {
        let nanos = rate.per.as_nanos().max(1);
        let events = u128::from(rate.events) * Duration::from_secs(1).as_nanos();
        u64::try_from(events.div_ceil(nanos)).unwrap_or(u64::MAX)
    };
    match executor {
        Executor::ConstantArrivalRate { rate, .. } => Some(per_second(rate)),
        Executor::RampingArrivalRate { start, stages, .. } => {
            stages.iter().map(|stage| &stage.to).chain([start]).map(per_second).max()
        }
        _ => None,
    }
}

/// The most requests that one iteration makes; branches count as their longest, redirects as one.
#[must_use]
pub fn requests(steps: &[Step]) -> u64 {
    let of = |step: &Step| match &step.action {
        Action::Request(_) => 1,
        Action::Group { steps, .. } => requests(steps),
        Action::Repeat { times, steps, .. } => times.saturating_mul(requests(steps)),
        Action::Choose(branches) => {
            branches.iter().map(|branch| requests(&branch.steps)).max().unwrap_or(0)
        }
        Action::Think(_) | Action::Set(_) | Action::Record(_) => 0,
    };
    steps.iter().map(of).fold(0, u64::saturating_add)
}

/// The least time that one iteration pauses.
fn pauses(steps: &[Step]) -> Duration {
    let of = |step: &Step| match &step.action {
        Action::Think(span) => span.min,
        Action::Group { steps, .. } => pauses(steps),
        Action::Repeat { times, steps, .. } => {
            pauses(steps).saturating_mul(u32::try_from(*times).unwrap_or(u32::MAX))
        }
        Action::Choose(branches) => {
            branches.iter().map(|branch| pauses(&branch.steps)).min().unwrap_or_default()
        }
        Action::Request(_) | Action::Set(_) | Action::Record(_) => Duration::ZERO,
    };
    // A step that may be left out pauses for nobody who leaves it out.
    let always = steps.iter().filter(|step| step.when.is_none());
    always.map(of).fold(Duration::ZERO, Duration::saturating_add)
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores = self.cores;
        write!(f, "{cores} core{} ", if cores == 1 { "" } else { "s" })?;
        match self.basis {
            Basis::Plan => write!(f, "as the plan says"),
            Basis::Requests { per_second } => {
                write!(f, "for {per_second} requests/s ({REQUESTS_PER_CORE} a core)")
            }
            Basis::Iterations { per_second } => write!(
                f,
                "for {per_second} iterations/s of a script ({SCRIPT_ITERATIONS_PER_CORE} a core)"
            ),
            Basis::Users { most } => {
                let users = if most == 1 { "user" } else { "users" };
                write!(f, "for {most} virtual {users} ({USERS_PER_CORE} a core)")
            }
        }
    }
}
