//! What the clients know: every call, every answer, and which calls never got one.
//!
//! A call without an answer may have happened, may still happen, or not. The oracle never guesses:
//! it keeps such calls open, and the linearizability check decides whether some order explains what
//! everybody else has seen.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use fence::{Epoch, JobId};
use ledger_state::{Command, Refusal, Reply, Submission};

use super::class::Mark;
use super::model::{JobModel, Operation, Seen, Write};
use super::world::World;
use crate::event;
use crate::linear::{Call, Verdict, check};
use crate::outcome::Histories;

/// Steps of the model that one history may take.
const BUDGET: u64 = 300_000;

#[derive(Default)]
pub struct Oracle {
    /// Numbers calls and answers in the order in which they happened.
    clock: Cell<u64>,
    histories: RefCell<BTreeMap<JobId, Vec<Call<Operation>>>>,
    /// Places of effects that were acknowledged.
    places: RefCell<BTreeSet<u64>>,
    /// The highest of them.
    latest: Cell<u64>,
}

/// A call under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    job: JobId,
    number: usize,
    /// The highest acknowledged place when it began: its own effect comes later, and a strong read
    /// sees it.
    pub latest: u64,
}

impl Oracle {
    fn tick(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    fn begin(&self, job: JobId, operation: Operation) -> Ticket {
        let called = self.tick();
        let mut histories = self.histories.borrow_mut();
        let history = histories.entry(job).or_default();
        history.push(Call { operation, called, answered: None });
        Ticket { job, number: history.len() - 1, latest: self.latest.get() }
    }

    pub fn call(&self, job: JobId, command: &Command) -> Ticket {
        let write = Write { command: command.clone(), reply: None };
        self.begin(job, Operation::Write(Box::new(write)))
    }

    /// The answer has come.
    pub fn answer(&self, world: &World, ticket: Ticket, reply: &Reply) {
        let answered = self.tick();
        if let Some(epoch) = fresh_place(reply) {
            if !self.places.borrow_mut().insert(epoch.number) {
                world.violate("P4.unique", format!("two effects at place {epoch}: {reply:?}"));
            }
            if epoch.number <= ticket.latest {
                let detail =
                    format!("{reply:?} stands before a write that was acknowledged earlier");
                world.violate("P4.rising", detail);
            }
            self.latest.set(self.latest.get().max(epoch.number));
        }
        let mut histories = self.histories.borrow_mut();
        let Some(call) =
            histories.get_mut(&ticket.job).and_then(|calls| calls.get_mut(ticket.number))
        else {
            return;
        };
        call.answered = Some(answered);
        if let Operation::Write(write) = &mut call.operation {
            note(world, &write.command, reply);
            write.reply = Some(reply.clone());
        }
    }

    /// It was proved that the call has no effect and never will. If it has one all the same, no
    /// order will explain it.
    pub fn never(&self, ticket: Ticket) {
        let mut histories = self.histories.borrow_mut();
        if let Some(call) =
            histories.get_mut(&ticket.job).and_then(|calls| calls.get_mut(ticket.number))
        {
            call.operation = Operation::Nothing;
        }
    }

    pub fn begin_read(&self, job: JobId) -> Ticket {
        self.begin(job, Operation::Nothing)
    }

    pub fn end_read(&self, ticket: Ticket, seen: Option<Seen>) {
        let answered = self.tick();
        let mut histories = self.histories.borrow_mut();
        if let Some(call) =
            histories.get_mut(&ticket.job).and_then(|calls| calls.get_mut(ticket.number))
        {
            call.operation = Operation::Read { seen: seen.map(Box::new) };
            call.answered = Some(answered);
        }
    }

    /// Jobs that anybody has asked about.
    pub fn jobs(&self) -> Vec<JobId> {
        self.histories.borrow().keys().copied().collect()
    }

    /// Whether a creation of this job was acknowledged.
    pub fn acknowledged(&self, job: JobId) -> bool {
        self.histories.borrow().get(&job).is_some_and(|calls| {
            calls.iter().any(|call| {
                let Operation::Write(write) = &call.operation else { return false };
                matches!(&write.reply, Some(Reply::Submitted(Submission::Accepted { .. })))
            })
        })
    }

    /// Checks the history of every job.
    pub fn check(&self, world: &World, model: &JobModel) -> Histories {
        let mut result = Histories::default();
        for (job, calls) in &*self.histories.borrow() {
            let calls: Vec<Call<Operation>> = calls
                .iter()
                .filter(|call| !matches!(call.operation, Operation::Nothing))
                .cloned()
                .collect();
            result.checked += 1;
            match check(model, &calls, BUDGET) {
                Verdict::Legal => {}
                Verdict::Undecided => result.undecided += 1,
                Verdict::Illegal { explained } => {
                    result.illegal += 1;
                    for call in &calls {
                        event!(
                            "{job} {:>6} {:>6?} {:?}",
                            call.called,
                            call.answered,
                            call.operation
                        );
                    }
                    let detail = format!(
                        "job {job}: {explained} of {} answers can be explained by some order",
                        calls.iter().filter(|call| call.answered.is_some()).count()
                    );
                    world.violate("linearizable", detail);
                }
            }
        }
        result
    }
}

/// The place of an effect that this very call had.
fn fresh_place(reply: &Reply) -> Option<Epoch> {
    match reply {
        Reply::Claimed { epoch }
        | Reply::Done { epoch }
        | Reply::Superseded { epoch, .. }
        | Reply::Finished { epoch, .. }
        | Reply::Rows { epoch, .. }
        | Reply::Submitted(Submission::Accepted { duplicate: false, created: epoch, .. }) => {
            Some(*epoch)
        }
        _ => None,
    }
}

/// Marks that an answer reaches.
fn note(world: &World, command: &Command, reply: &Reply) {
    use ledger_state::{Outcome, Rejection};
    let mark = match reply {
        Reply::Submitted(Submission::Accepted { duplicate: true, .. }) | Reply::Already { .. } => {
            Mark::DuplicateAnswered
        }
        Reply::Submitted(Submission::Rejected(Rejection::KeyReused { .. })) => {
            Mark::KeyReuseRefused
        }
        Reply::Superseded { .. } => Mark::AttemptSuperseded,
        Reply::Finished { outcome: Outcome::Cancelled, .. } => Mark::CancelBeatFinish,
        Reply::Ended { .. } if matches!(command, Command::CancelJob { .. }) => {
            Mark::FinishBeatCancel
        }
        Reply::Rows { first, end, .. } if first < end => Mark::RowsGranted,
        Reply::Refused(Refusal::OtherDivision { .. }) => Mark::OtherDivisionRefused,
        Reply::Refused(Refusal::StaleEpoch { .. }) => Mark::StaleEpochRefused,
        Reply::Refused(Refusal::ClaimLost { .. }) => Mark::ClaimRaceLost,
        _ => return,
    };
    world.reach(mark);
}
