//! What one seed reports, as one line of JSON from the child process; and what many of them add up
//! to.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Which one: `P3.prefix`, `liveness.leader`, `harness.panic` ...
    pub invariant: String,
    /// When, in simulated milliseconds.
    pub at_ms: u64,
    pub detail: String,
}

/// Histories that were checked for linearizability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histories {
    pub checked: u64,
    pub illegal: u64,
    /// The search was given up.
    pub undecided: u64,
}

/// One run of one seed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    pub seed: u64,
    /// Over everything that could be observed; see `trace`.
    pub trace_hash: String,
    pub trace_events: u64,
    pub simulated_ms: u64,
    /// Processor time of the child. Not part of the trace.
    pub core_ms: u64,
    /// Faults really injected, by class.
    pub faults: BTreeMap<String, u64>,
    /// "Sometimes" marks that were reached.
    pub marks: BTreeSet<String>,
    pub histories: Histories,
    /// What the clients did and saw: operations by answer, and other counts worth printing.
    pub counts: BTreeMap<String, u64>,
    pub violations: Vec<Violation>,
}

impl Outcome {
    /// A child that did not get as far as reporting.
    #[must_use]
    pub fn failed(seed: u64, invariant: &str, detail: String) -> Self {
        let violation = Violation { invariant: invariant.to_owned(), at_ms: 0, detail };
        Self { seed, violations: vec![violation], ..Self::default() }
    }
}

/// A failed seed, kept for the report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    pub seed: u64,
    pub violations: Vec<Violation>,
}

/// A campaign so far. Kept in the state file, so that campaigns add up over several calls.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    pub scenario: String,
    pub next_seed: u64,
    pub seeds: u64,
    pub failed: u64,
    pub simulated_ms: u64,
    /// Processor time of all children.
    pub core_ms: u64,
    pub faults: BTreeMap<String, u64>,
    /// Seeds in which each class occurred at all.
    pub seeds_with_fault: BTreeMap<String, u64>,
    /// Number of seeds that had so many faults: for the median.
    pub faults_per_seed: BTreeMap<u64, u64>,
    /// In how many seeds each mark was reached.
    pub marks: BTreeMap<String, u64>,
    pub histories: Histories,
    pub counts: BTreeMap<String, u64>,
    /// Seeds run a second time, and of those the ones with the same trace.
    pub replayed: u64,
    pub replayed_equal: u64,
    /// The first failures; all of them are counted in `failed`.
    pub failures: Vec<Failure>,
}

/// So many failures are kept in full.
const FAILURES_KEPT: usize = 100;

impl Totals {
    pub fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.simulated_ms += outcome.simulated_ms;
        self.core_ms += outcome.core_ms;
        for (class, count) in &outcome.faults {
            *self.faults.entry(class.clone()).or_default() += count;
            *self.seeds_with_fault.entry(class.clone()).or_default() += u64::from(*count > 0);
        }
        *self.faults_per_seed.entry(outcome.faults.values().sum()).or_default() += 1;
        for mark in &outcome.marks {
            *self.marks.entry(mark.clone()).or_default() += 1;
        }
        for (name, count) in &outcome.counts {
            *self.counts.entry(name.clone()).or_default() += count;
        }
        self.histories.checked += outcome.histories.checked;
        self.histories.illegal += outcome.histories.illegal;
        self.histories.undecided += outcome.histories.undecided;
        if !outcome.violations.is_empty() {
            self.failed += 1;
            if self.failures.len() < FAILURES_KEPT {
                let violations = outcome.violations.clone();
                self.failures.push(Failure { seed: outcome.seed, violations });
            }
        }
    }

    /// Half of the seeds had at least so many faults.
    #[must_use]
    pub fn median_faults(&self) -> u64 {
        let mut seen = 0;
        for (faults, seeds) in &self.faults_per_seed {
            seen += seeds;
            if seen * 2 >= self.seeds {
                return *faults;
            }
        }
        0
    }
}
