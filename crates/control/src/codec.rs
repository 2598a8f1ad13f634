//! How the fleet's messages travel: one byte that says which contract they need, then postcard.
//!
//! The byte is not the version of the program that speaks. It is the contract that first knew
//! everything which stands in this very message ([`Message::since`]). So a newer program says to an
//! older one whatever both know, and what the older one cannot know is refused by name, before
//! anything of it is read, and not taken for damage.
//!
//! **Append only.** postcard knows variants and fields by their place alone. A new variant goes to
//! the end of its enum with the number of the new contract; nothing is reordered or removed; a new
//! field needs a new variant. `tests/messages/golden.rs` pins the bytes.
//!
//! **Nothing is allocated that the bytes do not pay for**: a length that is longer than what is
//! left reserves nothing.

use std::fmt;

use fence::{Attempt, FenceRefusal, Refusal as TableRefusal, ShardKey};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::message::{
    AttemptPhase, Dispatch, EndReport, FrameBatch, FrameBatchAck, Placement, RenewRequest, Renewal,
    ReportAck, Steer, Steering, StopMode, Task, WorkerInventory, WorkerRefusal, WorkerReport,
    WorkerRequest, WorkerResponse,
};
use ledger_state::{AttemptStatus, Payload};

/// The newest contract that this program knows.
pub const CONTRACT: u8 = 1;
/// The largest message: a batch of frames, or an end report with its tail.
pub const MESSAGE_BYTES_MAX: usize = 20 << 20;

/// Something that is said between nodes of a fleet.
pub trait Message: Serialize + DeserializeOwned {
    /// What people call it.
    const NAME: &'static str;

    /// The contract that first knew everything in it. Written as a match without a default, so that
    /// whoever adds a variant has to say.
    fn since(&self) -> u8;
}

/// Why bytes are no message for this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodecError {
    /// It needs a contract that this program does not know.
    FutureVersion {
        what: &'static str,
        needs: u8,
    },
    Malformed {
        what: &'static str,
        why: &'static str,
    },
    TooLarge {
        what: &'static str,
        bytes: usize,
    },
}

impl CodecError {
    /// The name that travels and that is counted.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::FutureVersion { .. } => "future_version",
            Self::Malformed { .. } => "malformed",
            Self::TooLarge { .. } => "too_large",
        }
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FutureVersion { what, needs } => write!(
                f,
                "{what} needs contract {needs}, and this node knows those up to {CONTRACT}: bring it up to the \
                 sender's version"
            ),
            Self::Malformed { what, why } => write!(f, "{what} cannot be read: {why}"),
            Self::TooLarge { what, bytes } => {
                write!(f, "{what} has {bytes} bytes; at most {MESSAGE_BYTES_MAX} are taken")
            }
        }
    }
}

impl std::error::Error for CodecError {}

/// # Errors
/// If it is larger than anybody takes.
pub fn encode<M: Message>(message: &M) -> Result<Vec<u8>, CodecError> {
    let what = M::NAME;
    // A type of ours always has a form in postcard.
    let bytes = postcard::to_extend(message, vec![message.since()])
        .map_err(|_| CodecError::Malformed { what, why: "it has no form" })?;
    match bytes.len() {
        bytes if bytes > MESSAGE_BYTES_MAX => Err(CodecError::TooLarge { what, bytes }),
        _ => Ok(bytes),
    }
}

/// # Errors
/// With what is wrong: too large, of a later contract, or damaged. Bytes that are left over are
/// damage, too.
pub fn decode<M: Message>(bytes: &[u8]) -> Result<M, CodecError> {
    let what = M::NAME;
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(CodecError::TooLarge { what, bytes: bytes.len() });
    }
    let malformed = |why| CodecError::Malformed { what, why };
    let (needs, body) = match bytes.split_first() {
        None => return Err(malformed("there are no bytes at all")),
        Some((0, _)) => return Err(malformed("there is no contract 0")),
        Some((needs, _)) if *needs > CONTRACT => {
            return Err(CodecError::FutureVersion { what, needs: *needs });
        }
        Some((needs, body)) => (*needs, body),
    };
    let (message, left): (M, _) =
        postcard::take_from_bytes(body).map_err(|error| malformed(words(&error)))?;
    if !left.is_empty() {
        return Err(malformed("it goes on after its end"));
    }
    if message.since() > needs {
        return Err(malformed("it needs a later contract than it says"));
    }
    Ok(message)
}

fn words(error: &postcard::Error) -> &'static str {
    use postcard::Error as E;
    match error {
        E::DeserializeUnexpectedEnd => "it ends too early",
        E::DeserializeBadVarint => "a number in it is too large",
        E::DeserializeBadBool => "a yes or no in it is neither",
        E::DeserializeBadChar | E::DeserializeBadUtf8 => "a text in it is no UTF-8",
        E::DeserializeBadOption => "something in it is neither there nor not there",
        E::SerdeDeCustom => "a value in it is none that is known",
        _ => "it is damaged",
    }
}

impl Message for WorkerRequest {
    const NAME: &'static str = "an owner's question";

    fn since(&self) -> u8 {
        match self {
            Self::Reserve { .. }
            | Self::Release { .. }
            | Self::Rows { .. }
            | Self::Units { .. }
            | Self::Forget { .. }
            | Self::Install { .. }
            | Self::Inspect { .. } => 1,
            Self::Dispatch(dispatch) => dispatch.since(),
            Self::Stop { how, .. } => match how {
                StopMode::Graceful | StopMode::Now => 1,
            },
            Self::Start { steering, .. } | Self::Steer { steering, .. } => steering_since(steering),
        }
    }
}

/// The contract that first knew every change in it.
fn steering_since(steering: &Steering) -> u8 {
    let since = |steer: &Steer| match steer {
        Steer::Pause | Steer::Resume | Steer::Vus { .. } | Steer::Rate { .. } => 1,
    };
    steering.steers.iter().map(since).max().unwrap_or(1)
}

impl Dispatch {
    fn since(&self) -> u8 {
        let placement = match self.placement {
            Placement::Own(_) | Placement::Shared => 1,
        };
        let task = match self.task {
            Task::Load | Task::Setup { .. } | Task::Teardown { .. } => 1,
        };
        let context = match self.context {
            Payload::Inline(_) | Payload::Blob(_) => 1,
        };
        placement.max(task).max(context)
    }
}

impl Message for WorkerResponse {
    const NAME: &'static str = "a worker's answer";

    fn since(&self) -> u8 {
        match self {
            Self::Done | Self::Stopped { report: None } => 1,
            Self::Stopped { report: Some(report) } => report.since(),
            Self::Holding(holdings) => holdings.since(),
            Self::Refused(refused) => match refused {
                WorkerRefusal::Fence(refusal) => since_fence(refusal),
                WorkerRefusal::NoCores { .. }
                | WorkerRefusal::UnknownReservation
                | WorkerRefusal::UnknownAttempt
                | WorkerRefusal::OldContext { .. }
                | WorkerRefusal::Draining
                | WorkerRefusal::DiskFull
                | WorkerRefusal::TooMany { .. }
                | WorkerRefusal::CannotRun { .. } => 1,
            },
        }
    }
}

fn since_fence(refusal: &FenceRefusal) -> u8 {
    fn since_table<T>(refusal: &TableRefusal<T>) -> u8 {
        match refusal {
            TableRefusal::Stale { .. }
            | TableRefusal::Over { .. }
            | TableRefusal::Foreign { .. }
            | TableRefusal::Full { .. } => 1,
        }
    }
    match refusal {
        FenceRefusal::OtherLife { .. } | FenceRefusal::OtherCluster { .. } => 1,
        FenceRefusal::Epoch(refusal) => since_table(refusal),
        FenceRefusal::Step(refusal) => since_table(refusal),
    }
}

impl Message for WorkerInventory {
    const NAME: &'static str = "what a worker holds";

    fn since(&self) -> u8 {
        let of = |phase| match phase {
            AttemptPhase::Preparing
            | AttemptPhase::Ready
            | AttemptPhase::Running
            | AttemptPhase::Stopping
            | AttemptPhase::Ended => 1,
        };
        self.attempts.iter().map(|held| of(held.phase)).max().unwrap_or(1)
    }
}

impl Message for WorkerReport {
    const NAME: &'static str = "a worker's word";

    fn since(&self) -> u8 {
        match self {
            Self::Ready { .. }
            | Self::RowsWanted { .. }
            | Self::Abort { .. }
            | Self::MoreTime { .. }
            | Self::Draining { .. } => 1,
            Self::Ended(report) => report.since(),
        }
    }
}

impl Message for ReportAck {
    const NAME: &'static str = "a manager's answer to a word";

    fn since(&self) -> u8 {
        match self {
            Self::Taken | Self::NotOwner { .. } | Self::UnknownJob | Self::Settled => 1,
        }
    }
}

impl Message for EndReport {
    const NAME: &'static str = "a worker's last word";

    fn since(&self) -> u8 {
        match self.status {
            AttemptStatus::Completed
            | AttemptStatus::Failed
            | AttemptStatus::Stopped
            | AttemptStatus::Interrupted => 1,
        }
    }
}

impl Message for FrameBatch {
    const NAME: &'static str = "a post of statistics";

    fn since(&self) -> u8 {
        1
    }
}

impl Message for FrameBatchAck {
    const NAME: &'static str = "an answer to statistics";

    fn since(&self) -> u8 {
        match self {
            Self::Taken { .. } | Self::NotOwner { .. } | Self::UnknownJob => 1,
        }
    }
}

impl Message for RenewRequest {
    const NAME: &'static str = "a renewal";

    fn since(&self) -> u8 {
        1
    }
}

/// What a manager says to each attempt of a [`RenewRequest`].
pub type Renewals = Vec<(ShardKey, Attempt, Renewal)>;

impl Message for Renewals {
    const NAME: &'static str = "an answer to a renewal";

    fn since(&self) -> u8 {
        let of = |renewal: &Renewal| match renewal {
            Renewal::Granted { steering, .. } => {
                steering.as_ref().map_or(1, |one| steering_since(one))
            }
            Renewal::Refused { .. } => 1,
        };
        self.iter().map(|(_, _, renewal)| of(renewal)).max().unwrap_or(1)
    }
}

/// Said and answered where there is nothing to say but that it is so.
impl Message for () {
    const NAME: &'static str = "a word without content";

    fn since(&self) -> u8 {
        1
    }
}
