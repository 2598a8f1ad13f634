//! The scenarios: what can be put on the simulated network. Each is a function from a seed to an
//! outcome.

use crate::outcome::Outcome;

/// What a child is asked to do.
#[derive(Clone, Debug)]
pub struct Order {
    pub seed: u64,
    /// Events go to standard error.
    pub verbose: bool,
}

pub struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    /// "Sometimes" marks: a campaign that never reaches one has not tested what it claims to.
    pub marks: &'static [&'static str],
    /// Fault classes, in the order of the report.
    pub faults: &'static [&'static str],
    pub run: fn(&Order) -> Outcome,
}

/// Every scenario there is. A new one is a module and a line here.
pub const ALL: &[Scenario] = &[
    crate::ledger::SCENARIO,
    crate::membership::SCENARIO,
    crate::cluster::SCENARIO,
    crate::cluster::LARGE,
    crate::cluster::LOSSY,
];

#[must_use]
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}
