//! The second phase: with all faults gone the group must be whole again within a bound (P7).

use std::collections::BTreeSet;
use std::rc::Rc;

use super::class::{Class, Mark};
use super::client::WorkerReports;
use super::world::World;
use crate::event;

pub struct Convergence {
    since_ms: u64,
    look_ms: u64,
}

/// States are compared this often; it costs a walk over all of them.
const LOOK_EVERY_MS: u64 = 40;

impl Convergence {
    pub fn new(since_ms: u64) -> Self {
        Self { since_ms, look_ms: since_ms }
    }

    /// True when the phase is over, well or not.
    pub fn step(&mut self, world: &World, office: &Rc<WorkerReports>, now_ms: u64) -> bool {
        if now_ms < self.look_ms {
            return false;
        }
        self.look_ms = now_ms + LOOK_EVERY_MS;
        let passed = now_ms - self.since_ms;
        let Some(what) = missing(world, office) else {
            event!("whole after {passed} ms");
            world.add("milliseconds to converge", passed);
            if world.had(Class::AllDown) {
                world.reach(Mark::RecoveredAll);
            }
            return true;
        };
        let late = now_ms > self.since_ms + world.plan.converge.as_millis() as u64;
        if late {
            let seconds = world.plan.converge.as_secs();
            for host in &world.hosts {
                let status = host.node.borrow().as_ref().map(|node| node.status());
                event!("{} in the end: {status:?}", host.name);
            }
            world.violate("P7.converge", format!("{what}, {seconds} s after the last fault"));
        }
        late
    }
}

/// The first thing that is not as it should be.
fn missing(world: &World, office: &Rc<WorkerReports>) -> Option<String> {
    let mut leaders = BTreeSet::new();
    let mut states = BTreeSet::new();
    for host in &world.hosts {
        let Some(node) = host.node.borrow().clone() else {
            return Some(format!("{} is not up: {:?}", host.name, host.life.borrow()));
        };
        let status = node.status();
        let Some(leader) = status.leader else {
            return Some(format!("{} knows no leader", host.name));
        };
        leaders.insert(leader.0);
        if world.operator_done.get() && (status.changing || status.voters.len() < world.hosts.len())
        {
            let (name, voters) = (&host.name, status.voters.len());
            return Some(format!("{name} knows {voters} voters, and everybody was admitted"));
        }
        states.insert(host.state(|state| (state.applied(), state.digest())));
    }
    if leaders.len() > 1 {
        return Some(format!("{} leaders are believed in", leaders.len()));
    }
    if world.clients_done.get() < world.plan.clients {
        return Some("a client still waits for an answer".to_owned());
    }
    if !world.operator_done.get() {
        let open = office.open.borrow().len();
        return Some(format!("the operator is not done ({open} writes unknown)"));
    }
    if states.len() > 1 {
        return Some(format!("{} different states", states.len()));
    }
    None
}
