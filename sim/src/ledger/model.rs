//! One job, as a client may understand it from what is promised: what each answer says about the
//! state.
//!
//! It is written without looking at the implementation, and it decides nothing: for each answer it
//! asks whether what the answer claims is true. Which of several true refusals is given is not its
//! business. Every effect has a place in the log (its epoch), and places rise; that is checked
//! along the way.

mod state;

use std::collections::BTreeMap;

use fence::{Attempt, ShardKey, WorkflowNo};
use ledger_state::{AttemptStatus, BlobRef, Command, Outcome, Refusal, Reply};

use crate::linear::Model;
use state::{Place, State, attempt_of};

/// What a strong read has shown of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    pub created: u64,
    pub granted: Option<u64>,
    pub released: bool,
    pub cancelled: Option<u64>,
    pub ended: Option<(Outcome, u64)>,
    pub layers: u32,
    /// Per shard and attempt: where it started, whether it was revoked, how it ended.
    pub shards: BTreeMap<ShardKey, Vec<SeenTry>>,
    pub course: SeenCourse,
}

/// What its owners have decided.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeenCourse {
    /// Per workflow: into how many shards it is divided, and whether its load has begun.
    pub divisions: BTreeMap<WorkflowNo, (u32, bool)>,
    /// The next row of each data set.
    pub rows: BTreeMap<u32, u64>,
    pub stopped: bool,
    pub extended_ms: u64,
    pub result: Option<BlobRef>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeenTry {
    pub started: u64,
    pub revoked: bool,
    pub ended: Option<AttemptStatus>,
}

#[derive(Clone, Debug)]
pub enum Operation {
    Write(Box<Write>),
    /// `None`: there is no such job.
    Read {
        seen: Option<Box<Seen>>,
    },
    /// A read without an answer, or a write that was proved not to have happened: it explains
    /// nothing.
    Nothing,
}

#[derive(Clone, Debug)]
pub struct Write {
    pub command: Command,
    /// `None`: it never came.
    pub reply: Option<Reply>,
}

pub struct JobModel {
    /// Attempts after the first one.
    pub retries: u32,
}

impl Model for JobModel {
    type State = State;
    type Operation = Operation;

    fn initial(&self) -> State {
        State::default()
    }

    fn step(&self, state: &State, operation: &Operation) -> Option<State> {
        let mut next = state.clone();
        let fits = match operation {
            Operation::Nothing => true,
            Operation::Read { seen } => next.shows(seen.as_deref()),
            Operation::Write(write) => match &write.reply {
                None => next.takes_silently(&write.command),
                Some(reply) => self.explains(&mut next, &write.command, reply),
            },
        };
        fits.then_some(next)
    }
}

impl JobModel {
    /// Whether this answer can be given here; the state is then what it was afterwards.
    fn explains(&self, state: &mut State, command: &Command, reply: &Reply) -> bool {
        match reply {
            Reply::Submitted(submission) => state.submitted(command, submission),
            Reply::Claimed { epoch }
            | Reply::Done { epoch }
            | Reply::Superseded { epoch, .. }
            | Reply::Finished { epoch, .. } => {
                let claimed = matches!(command, Command::ClaimJob { .. });
                let superseded = match reply {
                    Reply::Superseded { by, .. } => Some(*by),
                    _ => None,
                };
                let wanted = match reply {
                    Reply::Finished { outcome, .. } => Some(*outcome),
                    _ => None,
                };
                claimed == matches!(reply, Reply::Claimed { .. })
                    && state.superseded(command) == superseded
                    && state.outcome_of(command) == wanted
                    && !matches!(command, Command::GrantRows { .. })
                    && state.fresh(*epoch)
                    && state.take(command, Place::At(epoch.number))
            }
            Reply::Rows { epoch, first, end } => {
                let given = state.clone().grant(command);
                given == Some((*first, *end))
                    && state.fresh(*epoch)
                    && state.take(command, Place::At(epoch.number))
            }
            Reply::Already { epoch } => state.had(command, *epoch),
            Reply::Ended { outcome, epoch } => state.ended_at(*outcome, *epoch),
            Reply::Refused(refusal) => self.refuses(state, command, refusal),
            Reply::SessionOpened { .. } | Reply::Advanced { .. } => false,
        }
    }

    /// Whether what the refusal claims is true.
    fn refuses(&self, state: &mut State, command: &Command, refusal: &Refusal) -> bool {
        match refusal {
            Refusal::UnknownJob => state.created.is_none(),
            Refusal::StaleEpoch { held, offered } => {
                state.granted.as_mut().is_some_and(|granted| granted.learn(*held))
                    && held.number != offered.number
            }
            Refusal::UnknownEpoch { held: Some(held), offered } => {
                state.granted.as_mut().is_some_and(|granted| granted.learn(*held))
                    && held.number != offered.number
            }
            Refusal::UnknownEpoch { held: None, .. } => state.granted.is_none(),
            Refusal::Released { last } => {
                state.released && state.granted.as_mut().is_some_and(|granted| granted.learn(*last))
            }
            Refusal::ClaimLost { held } => {
                let Command::ClaimJob { seen, .. } = command else { return false };
                match (held, &mut state.granted) {
                    (Some(held), Some(granted)) => granted.learn(*held) && Some(*held) != *seen,
                    (None, None) => seen.is_some(),
                    _ => false,
                }
            }
            Refusal::WrongAttempt { expected } => state.next_attempt(command) == Some(*expected),
            Refusal::NoSuchAttempt { last } => {
                let next = state.next_attempt(command);
                next == Some(last.next())
                    && attempt_of(command).is_some_and(|(_, asked)| asked > *last)
            }
            Refusal::StillLive { attempt } => {
                state.last_try(command).is_some_and(|(number, last)| {
                    number == *attempt && last.revoked.is_none() && last.ended.is_none()
                })
            }
            Refusal::NoProof { attempt } => {
                state.last_try(command).map_or(Attempt(0), |(number, _)| number) == *attempt
            }
            Refusal::Settled { attempt, status } => {
                state.try_of(command, *attempt).is_some_and(|it| {
                    it.ended.is_some_and(|(ended, _)| ended == *status && status.is_final())
                })
            }
            Refusal::RetriesExhausted { limit } => {
                *limit == self.retries && state.next_attempt(command) > Some(Attempt(limit + 1))
            }
            Refusal::Cancelled { epoch } => {
                state.cancelled.as_mut().is_some_and(|cancelled| cancelled.learn(*epoch))
            }
            Refusal::Ended { outcome, epoch } => state.ended_at(*outcome, *epoch),
            Refusal::NotCancelled => state.cancelled.is_none(),
            Refusal::WrongLayer { expected } => state.layers.len() == *expected as usize,
            Refusal::OtherDivision { workflow, shards } => {
                let Command::Provision { shards: asked, .. } = command else { return false };
                let known = state.course.divisions.get(workflow).map(|it| it.shards);
                known == Some(*shards)
                    && asked.iter().any(|(other, count)| other == workflow && count != shards)
            }
            Refusal::NotProvisioned { workflow } => {
                let Command::BeginLoad { workflows, .. } = command else { return false };
                workflows.contains(workflow) && !state.course.divisions.contains_key(workflow)
            }
            Refusal::NotLive { attempt } => {
                attempt_of(command).is_some_and(|(_, asked)| asked == *attempt)
                    && !state.is_live(command)
            }
            // About the session or the size of the command, not about the job.
            Refusal::UnknownSession
            | Refusal::StaleBoot { .. }
            | Refusal::SessionClosed { .. }
            | Refusal::SessionsFull { .. }
            | Refusal::RequestForgotten { .. }
            | Refusal::WindowFull { .. }
            | Refusal::Full(_)
            | Refusal::Invalid(_)
            | Refusal::OutOfEpochs => true,
            // A log that is handed in twice is a bug whatever the job says.
            Refusal::AlreadyApplied { .. } => false,
        }
    }
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
