//! The model engine of an open load: it issues arrivals by the schedule, as the real one does.

use std::time::Duration;

use control::message::{Dispatch, Steer};
use plan::Rate;
use schedule::{self, Arrivals};

/// The arrivals of one attempt.
#[derive(Clone, Debug)]
pub struct OpenLoad {
    due: schedule::Shard,
    /// Units of its shard that are spent, and those that it has issued.
    pub taken: u64,
    pub issued: Vec<u64>,
}

impl OpenLoad {
    /// Begins where the schedule stands.
    pub fn start(
        planned: &Arrivals,
        dispatch: &Dispatch,
        elapsed: Duration,
        steers: &[Steer],
    ) -> Self {
        let order = &dispatch.order;
        let mut due = planned.shard(order.shard.shard as usize, dispatch.shards as usize);
        // The first attempt starts with the load.
        let elapsed = if order.step.attempt.0 > 1 { elapsed } else { Duration::ZERO };
        let mut taken = due.follow(&rates(steers, order.shard.workflow.0));
        taken += due.join(elapsed, dispatch.units_before);
        Self { due, taken, issued: Vec::new() }
    }

    pub fn follow(&mut self, steers: &[Steer], workflow: u32) {
        self.taken += self.due.follow(&rates(steers, workflow));
    }

    /// Issues what is due before this time of the schedule.
    pub fn advance(&mut self, t: Duration) {
        while let Some((number, _)) = self.due.peek().filter(|(_, at)| *at < t) {
            self.due.next();
            self.taken += 1;
            self.issued.push(number);
        }
    }
}

fn rates(steers: &[Steer], workflow: u32) -> Vec<(Rate, Duration)> {
    let rate = |steer: &Steer| match steer {
        Steer::Rate { workflow: its, per_second, from } if its.0 == workflow => {
            Some((schedule::rate_per_second(*per_second), *from))
        }
        _ => None,
    };
    steers.iter().filter_map(rate).collect()
}
