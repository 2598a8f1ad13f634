//! How much of everything the ledger takes, and the check of a command against it.
//!
//! The limits are part of the replicated state and travel in its snapshots, because two members
//! with different limits would come to different answers. They begin as the founders have them;
//! `SetLimits` changes those that people set.

use std::fmt;

use fence::WorkflowNo;
use serde::{Deserialize, Serialize};

use super::command::{BlobRef, Command, CreateJob, Payload};
use super::key::KeyProblem;
use crate::Steer;

/// A shorter lease would lapse in every hiccup; a longer one would let a lost worker hold its
/// shards for minutes.
pub const LEASE_MS: std::ops::RangeInclusive<u64> = 200..=300_000;
/// Attempts that one entry extends at most.
const GRANTS_MAX: usize = 65_536;
/// More tries than this are a plan that nobody can run.
pub(super) const RETRIES_MAX: u32 = 100;

/// What bounds the state. `Default` suits one datacenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Jobs that are active or whose key is still kept.
    pub jobs: u32,
    /// Attempts of all jobs together.
    pub attempts: u32,
    /// Texts and inline payloads of all jobs together, in bytes. Cancels, revokes and outcomes are
    /// never refused for it.
    pub bytes: u64,
    pub shards_per_job: u32,
    /// Tries after the first one (R5).
    pub retries: u32,
    /// L of the execution leases of attempts that are started from now on (R4, R25).
    pub lease_ms: u64,
    pub layers: u32,
    pub tenant_bytes: u32,
    pub name_bytes: u32,
    /// Reasons, requestors, details.
    pub text_bytes: u32,
    pub inline_bytes: u32,
    /// A result, or a context beside the log (R17a).
    pub result_bytes: u64,
    pub plan_bytes: u64,
    /// Open sessions.
    pub sessions: u32,
    /// Open and closed ones. A closed one is remembered so that its requests are not run again.
    pub session_records: u32,
    /// A session may be closed for another one after this long without a word.
    pub session_idle_ms: u64,
    /// Answers kept per session.
    pub window: u32,
    /// How long a key is kept after its job has ended.
    pub committed_ttl_ms: u64,
    /// For how long a client may go on retrying.
    pub retry_window_ms: u64,
    /// One `Advance` moves time by at most this much.
    pub advance_ms: u64,
    /// Jobs that one `Advance` retires at most.
    pub retire_per_advance: u32,
    /// Events kept per job: the first ones, and the last ones.
    pub history_first: u32,
    pub history_last: u32,
    /// Events kept for watchers, over all jobs.
    pub recent_events: u32,
    /// How long an ended job is known to people, if there is room; its key is kept for
    /// `committed_ttl_ms` in any case.
    pub kept_ms: u64,
    /// Attempts of one job whose workers may be heard after their owner has ended them.
    pub addenda_per_job: u32,
    /// Reports of such workers, of all jobs together. Beyond it only their counts are kept.
    pub addenda_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            jobs: 100_000,
            attempts: 1_000_000,
            bytes: 256 << 20,
            shards_per_job: 16_384,
            retries: 3,
            lease_ms: 6_000,
            layers: 256,
            tenant_bytes: 128,
            name_bytes: 256,
            text_bytes: 1_024,
            inline_bytes: 16 << 10,
            result_bytes: 4 << 20,
            plan_bytes: 256 << 20,
            sessions: 1_024,
            session_records: 16_384,
            session_idle_ms: 3_600_000,
            window: 1_024,
            committed_ttl_ms: 600_000,
            retry_window_ms: 120_000,
            advance_ms: 60_000,
            retire_per_advance: 1_000,
            history_first: 16,
            history_last: 48,
            recent_events: 10_000,
            kept_ms: 600_000,
            addenda_per_job: 4_096,
            addenda_bytes: 1 << 30,
        }
    }
}

/// Settings that do not go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLimits(String);

impl fmt::Display for BadLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadLimits {}

impl Limits {
    /// The start-up check: settings with which the ledger could not keep its promises are refused.
    pub fn check(&self) -> Result<(), BadLimits> {
        let (ttl, retry) = (self.committed_ttl_ms, self.retry_window_ms);
        if ttl <= retry.saturating_mul(2) {
            return Err(BadLimits(format!(
                "committed_ttl_ms is {ttl}, but must be more than twice retry_window_ms ({retry}): a late retry would \
                 find its key forgotten and run the job again; raise committed_ttl_ms or lower retry_window_ms"
            )));
        }
        let needed = [
            ("jobs", u64::from(self.jobs)),
            ("attempts", u64::from(self.attempts)),
            ("bytes", self.bytes),
            ("shards_per_job", u64::from(self.shards_per_job)),
            ("tenant_bytes", u64::from(self.tenant_bytes)),
            ("name_bytes", u64::from(self.name_bytes)),
            ("text_bytes", u64::from(self.text_bytes)),
            ("sessions", u64::from(self.sessions)),
            ("window", u64::from(self.window)),
            ("advance_ms", self.advance_ms),
            ("retire_per_advance", u64::from(self.retire_per_advance)),
            ("history_first", u64::from(self.history_first)),
            ("history_last", u64::from(self.history_last)),
            ("recent_events", u64::from(self.recent_events)),
        ];
        if let Some((name, _)) = needed.iter().find(|(_, value)| *value == 0) {
            return Err(BadLimits(format!("{name} is 0; the ledger cannot work without any")));
        }
        if !LEASE_MS.contains(&self.lease_ms) {
            return Err(BadLimits(format!(
                "a lease has {} ms, but must have {} to {}",
                self.lease_ms,
                LEASE_MS.start(),
                LEASE_MS.end()
            )));
        }
        if self.session_records < self.sessions {
            return Err(BadLimits(format!(
                "session_records ({}) counts the open sessions too, so it cannot be below sessions ({})",
                self.session_records, self.sessions
            )));
        }
        Ok(())
    }
}

/// What the ledger can run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resource {
    Jobs {
        limit: u32,
    },
    Attempts {
        limit: u32,
    },
    Bytes {
        limit: u64,
    },
    Shards {
        limit: u32,
    },
    Layers {
        limit: u32,
    },
    /// Data sets of one job that rows were given out of.
    Sets {
        limit: u32,
    },
    /// Things in force that a job was steered to.
    Steers {
        limit: u32,
    },
    /// Changes of a job's rates, which are all kept.
    Rates {
        limit: u32,
    },
    /// Words of workers that came after their attempts were ended.
    Addenda {
        limit: u32,
    },
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jobs { limit } => write!(f, "the ledger is full: {limit} jobs"),
            Self::Attempts { limit } => write!(f, "the ledger is full: {limit} attempts"),
            Self::Bytes { limit } => {
                write!(f, "the ledger is full: {limit} bytes of texts and payloads")
            }
            Self::Shards { limit } => write!(f, "a job has at most {limit} shards"),
            Self::Layers { limit } => write!(f, "a job has at most {limit} layers"),
            Self::Sets { limit } => write!(f, "a job has at most {limit} data sets"),
            Self::Addenda { limit } => write!(f, "a job takes at most {limit} addenda"),
            Self::Steers { limit } => {
                write!(f, "a job is steered in at most {limit} ways at a time")
            }
            Self::Rates { limit } => {
                write!(f, "the rates of a job are changed at most {limit} times")
            }
        }
    }
}

/// A field that no command may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Problem {
    TooLong {
        field: Field,
        bytes: u64,
        limit: u64,
    },
    Empty {
        field: Field,
    },
    Key(KeyProblem),
    /// Attempts are numbered from 1.
    AttemptZero,
    /// A workflow that is named twice, or has no shards or too many.
    Division {
        workflow: WorkflowNo,
        shards: u32,
    },
    /// A rate that is not a number from zero up.
    Rate,
    /// Limits that do not go together, or that nobody can keep.
    Limits,
    /// More grants than one entry takes.
    Grants {
        limit: u64,
    },
}

/// Which field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Field {
    Tenant,
    Name,
    Plan,
    Reason,
    Requestor,
    Detail,
    Context,
    Result,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { field, bytes, limit } => {
                write!(f, "{field} has {bytes} bytes, at most {limit} are allowed")
            }
            Self::Empty { field } => write!(f, "{field} is empty"),
            Self::Key(problem) => write!(f, "invalid idempotency key: {problem}"),
            Self::AttemptZero => f.write_str("attempts are numbered from 1"),
            Self::Division { workflow, shards } => {
                write!(f, "workflow {} cannot be divided into {shards} shards here", workflow.0)
            }
            Self::Rate => f.write_str("a rate is a finite number, zero or more"),
            Self::Limits => write!(
                f,
                "a lease has {} to {} ms, ended jobs are kept for at least the time in which clients may retry, and \
                 a shard is retried at most {RETRIES_MAX} times",
                LEASE_MS.start(),
                LEASE_MS.end()
            ),
            Self::Grants { limit } => write!(f, "one entry extends at most {limit} attempts"),
        }
    }
}

impl std::error::Error for Problem {}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tenant => "the tenant",
            Self::Name => "the job's name",
            Self::Plan => "the plan",
            Self::Reason => "the reason",
            Self::Requestor => "the requestor",
            Self::Detail => "the detail",
            Self::Context => "the context",
            Self::Result => "the result",
        })
    }
}

/// Whether a command has a chance at all. Asked before it is proposed, so that nonsense never
/// enters the log; and again when it is applied, because a log may come from a member with other
/// ideas.
pub fn validate(command: &Command, limits: &Limits) -> Result<(), Problem> {
    let text = u64::from(limits.text_bytes);
    match command {
        Command::CreateJob(create) => validate_create(create, limits),
        Command::StartAttempt { attempt, .. } if attempt.0 == 0 => Err(Problem::AttemptZero),
        Command::RevokeAttempt { reason, .. } => at_most(Field::Reason, reason.len() as u64, text),
        Command::EndAttempt { result: Some(BlobRef { bytes, .. }), .. } => {
            at_most(Field::Result, *bytes, limits.result_bytes)
        }
        Command::CommitContext { context, .. } => match context {
            Payload::Inline(bytes) => {
                at_most(Field::Context, bytes.len() as u64, u64::from(limits.inline_bytes))
            }
            Payload::Blob(blob) => at_most(Field::Context, blob.bytes, limits.result_bytes),
        },
        Command::CancelJob { reason, requestor, .. } => {
            at_most(Field::Reason, reason.len() as u64, text)?;
            at_most(Field::Requestor, requestor.len() as u64, text)
        }
        Command::FinishJob { detail, .. } => at_most(Field::Detail, detail.len() as u64, text),
        Command::Provision { shards, .. } => validate_division(shards, limits),
        Command::StopJob { reason, .. } => at_most(Field::Reason, reason.len() as u64, text),
        Command::SteerJob { steer: Steer::Rate { per_second, .. }, .. } => {
            if per_second.is_finite() && *per_second >= 0.0 { Ok(()) } else { Err(Problem::Rate) }
        }
        Command::RecordResult { result, .. } => {
            at_most(Field::Result, result.bytes, limits.result_bytes)
        }
        Command::SetLimits { lease_ms, kept_ms, retries } => {
            let lease = lease_ms.is_none_or(|ms| LEASE_MS.contains(&ms));
            let kept = kept_ms.is_none_or(|ms| ms >= limits.committed_ttl_ms);
            let retries = retries.is_none_or(|retries| retries <= RETRIES_MAX);
            if lease && kept && retries { Ok(()) } else { Err(Problem::Limits) }
        }
        Command::GrantUnits { grants, .. } if grants.len() > GRANTS_MAX => {
            Err(Problem::Grants { limit: GRANTS_MAX as u64 })
        }
        Command::OpenSession
        | Command::GrantUnits { .. }
        | Command::BeginLoad { .. }
        | Command::GrantRows { .. }
        | Command::SteerJob { .. }
        | Command::ExtendJob { .. }
        | Command::ClaimJob { .. }
        | Command::ReleaseJob { .. }
        | Command::StartAttempt { .. }
        | Command::EndAttempt { .. }
        | Command::Advance { .. }
        | Command::MakeRoom { .. } => Ok(()),
    }
}

fn validate_create(create: &CreateJob, limits: &Limits) -> Result<(), Problem> {
    create.key.validate().map_err(Problem::Key)?;
    if create.tenant.is_empty() {
        return Err(Problem::Empty { field: Field::Tenant });
    }
    at_most(Field::Tenant, create.tenant.len() as u64, u64::from(limits.tenant_bytes))?;
    at_most(Field::Name, create.name.len() as u64, u64::from(limits.name_bytes))?;
    at_most(Field::Plan, create.plan.bytes, limits.plan_bytes)
}

fn validate_division(shards: &[(WorkflowNo, u32)], limits: &Limits) -> Result<(), Problem> {
    let mut left = limits.shards_per_job;
    for (place, &(workflow, count)) in shards.iter().enumerate() {
        let twice = shards[..place].iter().any(|(other, _)| *other == workflow);
        if twice || count == 0 || count > left {
            return Err(Problem::Division { workflow, shards: count });
        }
        left -= count;
    }
    Ok(())
}

fn at_most(field: Field, bytes: u64, limit: u64) -> Result<(), Problem> {
    if bytes > limit { Err(Problem::TooLong { field, bytes, limit }) } else { Ok(()) }
}
