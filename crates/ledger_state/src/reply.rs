//! What the ledger answers. Answers are kept for retries and stored in snapshots, so they are small
//! and **append only** (see [`super::command`]).

use std::fmt;

use fence::{Attempt, BootId, Epoch, JobId, WorkflowNo};
use serde::{Deserialize, Serialize};

use super::command::{AttemptStatus, Outcome};
use super::key::KeyProblem;
use super::limits::{Problem, Resource};

/// The answer to one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The session is open, since this place in the log.
    SessionOpened {
        epoch: Epoch,
    },
    Submitted(Submission),
    /// The claimant owns the job under this epoch.
    Claimed {
        epoch: Epoch,
    },
    /// Done, here.
    Done {
        epoch: Epoch,
    },
    /// It had been done before, there; nothing has changed.
    Already {
        epoch: Epoch,
    },
    /// The counts of an attempt that has been replaced were taken; its status was not (R17).
    Superseded {
        epoch: Epoch,
        by: Attempt,
    },
    /// The job has ended, with this outcome: a cancel that came first makes it CANCELLED.
    Finished {
        outcome: Outcome,
        epoch: Epoch,
    },
    /// The job had ended before; nothing has changed.
    Ended {
        outcome: Outcome,
        epoch: Epoch,
    },
    /// The ledger's time, and how many jobs have left it.
    Advanced {
        now_ms: u64,
        retired: u32,
    },
    /// Nothing has changed, and this is why.
    Refused(Refusal),
    /// Rows `first..end` are the attempt's; none if they are equal.
    Rows {
        epoch: Epoch,
        first: u64,
        end: u64,
    },
}

/// The answer to a submission: four words that a client can act on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Submission {
    /// The job exists. `duplicate`: it did so before this submission; id and place are those of the
    /// first.
    Accepted { job: JobId, duplicate: bool, created: Epoch },
    /// It will never be accepted as it stands.
    Rejected(Rejection),
    /// Not known yet whether it was accepted; ask again with the same key. Made by the node, when a
    /// write is unknown.
    Pending { job: JobId },
    /// Not accepted, and not held against the key: try again with the same key.
    RetryLater { after_ms: u64, why: Busy },
}

/// Why a submission will never be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rejection {
    /// The key belongs to a submission with other content.
    KeyReused {
        job: JobId,
    },
    InvalidKey(KeyProblem),
    /// The first try is so long ago that its job may have been forgotten; running it could run it
    /// twice.
    TooLate {
        age_ms: u64,
        retention_ms: u64,
    },
    Invalid(Problem),
    /// Another key has the same job id. At 128 bits this does not happen by chance.
    IdTaken {
        job: JobId,
    },
}

/// Why a submission has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Busy {
    /// The ledger holds as many as it may; none that is still needed is dropped for it.
    Full(Resource),
    /// Made by the node: nobody leads at the moment.
    NoLeader,
    /// Made by the node: more proposals wait than may.
    Overloaded,
    /// Made by the node: the leader's disk is almost full.
    NoSpace,
}

/// Why a command has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The session was never opened, or was forgotten. Never executed: it may be the retry of
    /// something that was.
    UnknownSession,
    /// A later start of the same node has taken over.
    StaleBoot {
        current: BootId,
    },
    /// This session was closed to make room; the node opens another one with a higher start.
    SessionClosed {
        boot: BootId,
    },
    /// No room for another session.
    SessionsFull {
        limit: u32,
    },
    /// The answer was reported as received, and is gone.
    RequestForgotten {
        settled: u64,
    },
    /// Too far ahead of what is settled: receive the answers to the earlier ones first.
    WindowFull {
        settled: u64,
        window: u32,
    },
    /// Never created, or ended so long ago that it was retired.
    UnknownJob,
    /// Somebody else owns the job by now.
    StaleEpoch {
        held: Epoch,
        offered: Epoch,
    },
    /// This epoch was never granted for this job.
    UnknownEpoch {
        held: Option<Epoch>,
        offered: Epoch,
    },
    /// The job was given up under this epoch; claim it again.
    Released {
        last: Epoch,
    },
    /// Somebody was quicker; this is the epoch to have seen.
    ClaimLost {
        held: Option<Epoch>,
    },
    /// Attempts start one after the other.
    WrongAttempt {
        expected: Attempt,
    },
    /// The attempt was never started.
    NoSuchAttempt {
        last: Attempt,
    },
    /// The attempt before was not revoked, and has not ended.
    StillLive {
        attempt: Attempt,
    },
    /// What was given as proof that the attempt before has stopped does not prove it.
    NoProof {
        attempt: Attempt,
    },
    /// The shard has its result: completion and error are final.
    Settled {
        attempt: Attempt,
        status: AttemptStatus,
    },
    RetriesExhausted {
        limit: u32,
    },
    /// The job was cancelled there; nothing new starts.
    Cancelled {
        epoch: Epoch,
    },
    /// The job has ended; nothing about it changes.
    Ended {
        outcome: Outcome,
        epoch: Epoch,
    },
    /// The outcome CANCELLED needs a cancel.
    NotCancelled,
    /// Contexts come in the order of their layers.
    WrongLayer {
        expected: u32,
    },
    Full(Resource),
    Invalid(Problem),
    /// The log was handed in again; it is the caller's error, and has no effect.
    AlreadyApplied {
        applied: u64,
    },
    /// More commands in one entry, or entries in the log, than epochs can number.
    OutOfEpochs,
    /// The workflow is divided into so many shards; a division is for good.
    OtherDivision {
        workflow: WorkflowNo,
        shards: u32,
    },
    /// The workflow was not divided into shards yet.
    NotProvisioned {
        workflow: WorkflowNo,
    },
    /// The attempt has ended, was revoked, or was replaced.
    NotLive {
        attempt: Attempt,
    },
}

impl Reply {
    /// The refusal, if it is one.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownSession => f.write_str("the session is not open; open one first"),
            Self::StaleBoot { current } => {
                write!(f, "the node has started again since; its present start is {current}")
            }
            Self::SessionClosed { boot } => {
                write!(
                    f,
                    "the session of start {boot} was closed for being idle; start the node again"
                )
            }
            Self::SessionsFull { limit } => {
                write!(f, "{limit} sessions are open, no more are allowed")
            }
            Self::RequestForgotten { settled } => {
                write!(
                    f,
                    "answers up to request {settled} were reported as received and are forgotten"
                )
            }
            Self::WindowFull { settled, window } => write!(
                f,
                "more than {window} requests past {settled}, the last one settled; settle some first"
            ),
            Self::UnknownJob => f.write_str("no such job: never created, or retired"),
            Self::StaleEpoch { held, offered } => {
                write!(f, "epoch {offered} is out of date; the job is held under {held}")
            }
            Self::UnknownEpoch { held: Some(held), offered } => {
                write!(f, "epoch {offered} was never granted for this job; it is held under {held}")
            }
            Self::UnknownEpoch { held: None, offered } => {
                write!(f, "epoch {offered} was never granted for this job; nobody has claimed it")
            }
            Self::Released { last } => {
                write!(f, "the job was released under epoch {last}; claim it again")
            }
            Self::ClaimLost { held: Some(held) } => write!(f, "the job is held under epoch {held}"),
            Self::ClaimLost { held: None } => f.write_str("nobody has claimed the job yet"),
            Self::WrongAttempt { expected } => write!(f, "the next attempt is {expected}"),
            Self::NoSuchAttempt { last } => write!(f, "no such attempt; the last one is {last}"),
            Self::StillLive { attempt } => {
                write!(f, "attempt {attempt} has neither ended nor been revoked")
            }
            Self::NoProof { attempt } => {
                write!(f, "that does not prove that attempt {attempt} has stopped")
            }
            Self::Settled { attempt, status } => {
                write!(f, "attempt {attempt} has {status}, which is final")
            }
            Self::RetriesExhausted { limit } => {
                write!(f, "{limit} retries are allowed, and were made")
            }
            Self::Cancelled { epoch } => write!(f, "the job was cancelled at {epoch}"),
            Self::Ended { outcome, epoch } => write!(f, "the job ended at {epoch}: {outcome}"),
            Self::NotCancelled => f.write_str("nobody has cancelled the job"),
            Self::WrongLayer { expected } => {
                write!(f, "the next context is that of layer {expected}")
            }
            Self::Full(resource) => resource.fmt(f),
            Self::Invalid(problem) => problem.fmt(f),
            Self::AlreadyApplied { applied } => write!(f, "the log is applied up to {applied}"),
            Self::OutOfEpochs => f.write_str("the entry has more commands than epochs can number"),
            Self::OtherDivision { workflow, shards } => {
                write!(f, "workflow {} is divided into {shards} shards, for good", workflow.0)
            }
            Self::NotProvisioned { workflow } => {
                write!(f, "workflow {} is not divided into shards yet", workflow.0)
            }
            Self::NotLive { attempt } => write!(f, "attempt {attempt} is over"),
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyReused { job } => {
                write!(f, "the idempotency key belongs to another submission (job {job})")
            }
            Self::InvalidKey(problem) => write!(f, "invalid idempotency key: {problem}"),
            Self::TooLate { age_ms, retention_ms } => write!(
                f,
                "first tried {age_ms} ms ago, and keys are kept for {retention_ms} ms: too late to tell \
                 whether it ran; submit it with a new key if it should run now"
            ),
            Self::Invalid(problem) => problem.fmt(f),
            Self::IdTaken { job } => write!(f, "job {job} belongs to another key"),
        }
    }
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(resource) => resource.fmt(f),
            Self::NoLeader => f.write_str("the ledger has no leader at the moment"),
            Self::Overloaded => f.write_str("too many proposals are waiting"),
            Self::NoSpace => f.write_str("the disk of the ledger's leader is almost full"),
        }
    }
}

impl std::error::Error for Refusal {}

impl std::error::Error for Rejection {}
