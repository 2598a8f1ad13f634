//! What people change while a job runs. Every change is an entry, and all that is in force is told
//! as one state.

use std::time::Duration;

use fence::WorkflowNo;
use schedule::RATE_CHANGES_APART;
use serde::{Deserialize, Serialize};

/// Live control of a running job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Steer {
    Pause,
    Resume,
    /// The virtual users of the whole workflow; each shard takes its share.
    Vus {
        workflow: WorkflowNo,
        vus: u32,
    },
    /// Arrivals of the whole workflow per second, from this time of its schedule on (`schedule`,
    /// rates). Every change stays in force up to the next one.
    Rate {
        workflow: WorkflowNo,
        per_second: f64,
        from: Duration,
    },
}

impl Eq for Steer {}

impl Steer {
    /// Whether nothing is left of `other` once this is said.
    #[must_use]
    pub fn replaces(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pause | Self::Resume, Self::Pause | Self::Resume) => true,
            (Self::Vus { workflow: a, .. }, Self::Vus { workflow: b, .. }) => a == b,
            _ => false,
        }
    }

    /// The same, as it holds after these: moments at which a rate changes rise. A new owner's clock
    /// may be a little behind that of the one before.
    #[must_use]
    pub fn following<'a>(self, others: impl IntoIterator<Item = &'a Self>) -> Self {
        let Self::Rate { workflow, per_second, from } = self else { return self };
        let moments = others.into_iter().filter_map(|other| match other {
            Self::Rate { workflow: its, from, .. } if *its == workflow => Some(*from),
            _ => None,
        });
        let least = moments.max().map(|last| last.saturating_add(RATE_CHANGES_APART));
        Self::Rate { workflow, per_second, from: from.max(least.unwrap_or_default()) }
    }
}

/// All that a job is steered to. The number is that of the changes so far, in the ledger: it rises
/// with each, whoever says it, so what is not above the last one that was heard is a repeat,
/// however late it comes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steering {
    pub number: u64,
    pub steers: Vec<Steer>,
}
