//! What must always hold, as plain functions: the simulator, the model checker and debug assertions
//! call the same ones.
//!
//! The ids are those of Volley's promises: P1 (at most one attempt of a shard generates load at any
//! instant) and P4 (no boundary accepts a lower epoch). HLC is the promise of the clock: what comes
//! after is stamped higher.

use std::fmt;

use crate::{Attempt, BootId, Epoch, Hlc, NodeId, ShardKey};

/// An invariant that does not hold, with the facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub id: &'static str,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} violated: {}", self.id, self.what)
    }
}

impl std::error::Error for Violation {}

/// Someone who may act for a shard at this instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub shard: ShardKey,
    pub attempt: Attempt,
    pub worker: NodeId,
    pub boot: BootId,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shard, attempt, worker, boot } = self;
        write!(f, "attempt {attempt} of {shard} on {worker} in boot {boot}")
    }
}

/// P1: no shard has two holders. Hand in everybody whose lease is valid at this instant, each once.
///
/// # Errors
/// Names the first two holders of the same shard.
pub fn one_holder(holders: &[Holder]) -> Result<(), Violation> {
    for (place, one) in holders.iter().enumerate() {
        if let Some(other) = holders[place + 1..].iter().find(|other| other.shard == one.shard) {
            let what = format!("{one} and {other} may act at the same instant");
            return Err(Violation { id: "P1", what });
        }
    }
    Ok(())
}

/// P4: the epochs that one receiver has accepted for one job, in order of acceptance, never fall.
/// An owner sends many commands, so equal ones may follow each other.
///
/// # Errors
/// Names the first epoch that is lower than the one before it, or cannot be compared with it.
pub fn epochs_never_fall(accepted: &[Epoch]) -> Result<(), Violation> {
    each_pair("P4", "accepted epochs", accepted, |before, after| before <= after)
}

/// P4: the epochs that the ledger has granted for one job, in order of the log, rise.
///
/// # Errors
/// Names the first epoch that is not higher than the one before it.
pub fn epochs_rise(granted: &[Epoch]) -> Result<(), Violation> {
    each_pair("P4", "granted epochs", granted, |before, after| before < after)
}

/// P1: the attempts that were started for one shard, in order of the log, rise.
///
/// # Errors
/// Names the first attempt that is not higher than the one before it.
pub fn attempts_rise(started: &[Attempt]) -> Result<(), Violation> {
    each_pair("P1", "started attempts", started, |before, after| before < after)
}

/// HLC: stamps that follow each other, by cause or at one node, rise. Restarts included.
///
/// # Errors
/// Names the first stamp that is not higher than the one before it.
pub fn stamps_rise(stamps: &[Hlc]) -> Result<(), Violation> {
    each_pair("HLC", "stamps", stamps, |before, after| before < after)
}

fn each_pair<T: fmt::Display>(
    id: &'static str,
    of: &str,
    list: &[T],
    holds: fn(&T, &T) -> bool,
) -> Result<(), Violation> {
    match list.windows(2).find(|pair| !holds(&pair[0], &pair[1])) {
        None => Ok(()),
        Some(pair) => {
            Err(Violation { id, what: format!("{of}: {} comes after {}", pair[1], pair[0]) })
        }
    }
}
