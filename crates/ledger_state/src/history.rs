//! What happened, in order: per job for people, over all jobs for watchers.
//!
//! LEDG-26 names eight events of a job's life. They are kept as these:
//!
//! | Named | Kept |
//! |---|---|
//! | JobCreated | `Created` |
//! | JobAccepted | `Claimed`, then `AttemptStarted` per shard |
//! | JobProgressReported | not in the ledger: it is data, not a decision (LEDG-30) |
//! | JobCancellationRequested | `CancelRequested`; `CancelForced` for a second one |
//! | JobCancellationAcked | `AttemptEnded` with status stopped, per shard |
//! | JobCompleted, JobFailed, JobTimedOut | `Finished` with the outcome |

use std::collections::VecDeque;

use fence::{Attempt, Epoch, Hlc, JobId, NodeId, WorkflowNo};
use serde::{Deserialize, Serialize};

use super::command::{AttemptStatus, Outcome, SessionId, StopCause};

/// Something that happened to a job, at its place in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub epoch: Epoch,
    pub at: Hlc,
    pub kind: EventKind,
}

/// What happened. Append only, see [`super::command`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    Created,
    Claimed {
        owner: SessionId,
    },
    Released,
    AttemptStarted {
        workflow: WorkflowNo,
        shard: u32,
        attempt: Attempt,
        worker: NodeId,
    },
    AttemptRevoked {
        workflow: WorkflowNo,
        shard: u32,
        attempt: Attempt,
    },
    /// `superseded`: it had been replaced, and only its counts were taken.
    AttemptEnded {
        workflow: WorkflowNo,
        shard: u32,
        attempt: Attempt,
        status: AttemptStatus,
        superseded: bool,
    },
    ContextCommitted {
        layer: u32,
    },
    CancelRequested,
    Finished {
        outcome: Outcome,
    },
    /// Gone from the ledger, with its key.
    Retired,
    /// A batch of workflows was divided into so many shards.
    Provisioned {
        workflows: u32,
        shards: u32,
    },
    LoadBegun {
        workflows: u32,
    },
    /// By the owner, for the plan's own reasons.
    StopRequested {
        cause: StopCause,
    },
    Steered,
    Extended {
        total_ms: u64,
    },
    ResultRecorded,
    /// A second cancel: graceful stop and teardown are over.
    CancelForced,
    /// Live control; other changes are `Steered`.
    Paused,
    Resumed,
    /// The worker of an attempt that its owner had ended has said its own word.
    AttemptAmended {
        workflow: WorkflowNo,
        shard: u32,
        attempt: Attempt,
    },
}

/// A job's events: the first and the last ones, and how many between them were dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    first: Vec<Event>,
    last: VecDeque<Event>,
    dropped: u64,
}

impl History {
    pub(super) fn push(&mut self, event: Event, keep_first: u32, keep_last: u32) {
        if self.first.len() < keep_first as usize {
            self.first.push(event);
            return;
        }
        self.last.push_back(event);
        if self.last.len() > keep_last as usize {
            self.last.pop_front();
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    /// Oldest first. What was dropped lies somewhere between.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.first.iter().chain(&self.last)
    }

    /// How many events are no longer there.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// The last events of all jobs, for watchers that come back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recent {
    events: VecDeque<(JobId, Event)>,
    /// The newest event that is no longer there.
    forgotten: Option<Epoch>,
}

/// The answer to "what has happened since?".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Since {
    /// Everything since, oldest first, up to about the number asked for; go on from the last one's
    /// epoch.
    Events(Vec<(JobId, Event)>),
    /// Something between is forgotten: read the state itself, then go on from its last epoch.
    Gap,
}

impl Recent {
    pub(super) fn push(&mut self, job: JobId, event: Event, keep: u32) {
        self.events.push_back((job, event));
        while self.events.len() > keep as usize {
            self.forgotten = self.events.pop_front().map(|(_, event)| event.epoch);
        }
    }

    /// Events after `seen` (`None`: from the beginning). The events of one command are never
    /// divided.
    pub(super) fn since(&self, seen: Option<Epoch>, limit: usize) -> Since {
        let missed = match (seen, self.forgotten) {
            (_, None) => false,
            (None, Some(_)) => true,
            // Also if they cannot be compared: the watcher comes from another cluster.
            (Some(seen), Some(forgotten)) => !matches!(
                seen.partial_cmp(&forgotten),
                Some(std::cmp::Ordering::Greater | std::cmp::Ordering::Equal)
            ),
        };
        if missed {
            return Since::Gap;
        }
        let start =
            self.events.partition_point(|(_, event)| seen.is_some_and(|s| event.epoch <= s));
        let mut found: Vec<(JobId, Event)> = Vec::new();
        for (job, event) in self.events.range(start..) {
            let same = found.last().is_some_and(|(_, last)| last.epoch == event.epoch);
            if found.len() >= limit && !same {
                break;
            }
            found.push((*job, event.clone()));
        }
        Since::Events(found)
    }

    pub(super) fn epochs(&self) -> impl Iterator<Item = Epoch> {
        self.events.iter().map(|(_, event)| event.epoch)
    }
}
