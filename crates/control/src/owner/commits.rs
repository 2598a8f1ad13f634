//! Commands on their way into the ledger, and what each of them is for.
//!
//! Only so many are proposed at a time; the others wait in the order in which they were decided.

use std::collections::{BTreeMap, VecDeque};

use fence::Attempt;

use super::Sid;
use super::context::Values;
use crate::message::Steer;
use ledger_state::Command;

/// What a commit is for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Purpose {
    Provision,
    Start(Sid),
    Begin,
    Revoke(Sid, Attempt),
    End(Sid, Attempt),
    Context(Values),
    Stop,
    Steer { asked: u64, steer: Steer },
    Rows { sid: Sid, attempt: Attempt, set: u32 },
    Units(Vec<(Sid, Attempt, u64)>),
    Extend,
    Result,
    Finish,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Commits {
    /// All that are not answered yet, proposed or not.
    open: BTreeMap<u64, Purpose>,
    backlog: VecDeque<(u64, Command)>,
    in_flight: usize,
}

impl Commits {
    pub fn add(&mut self, tag: u64, purpose: Purpose, command: Command) {
        self.open.insert(tag, purpose);
        self.backlog.push_back((tag, command));
    }

    /// The next one to propose, if fewer than `at_once` are on their way.
    pub fn next(&mut self, at_once: usize) -> Option<(u64, Command)> {
        if self.in_flight >= at_once {
            return None;
        }
        let next = self.backlog.pop_front()?;
        self.in_flight += 1;
        Some(next)
    }

    /// `None`: it was answered before.
    pub fn answered(&mut self, tag: u64) -> Option<Purpose> {
        let purpose = self.open.remove(&tag)?;
        self.in_flight = self.in_flight.saturating_sub(1);
        Some(purpose)
    }

    pub fn purpose(&self, tag: u64) -> Option<&Purpose> {
        self.open.get(&tag)
    }

    pub fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// One change at a time is written, so that the ledger has them in the order of the wishes.
    pub fn have_a_steer(&self) -> bool {
        self.open.values().any(|purpose| matches!(purpose, Purpose::Steer { .. }))
    }

    /// What was not proposed yet never will be.
    pub fn drop_backlog(&mut self) {
        self.backlog.clear();
    }
}

#[cfg(test)]
mod tests {
    use fence::{Epoch, JobId};

    use super::*;

    fn finish(number: u128) -> Command {
        let (job, epoch) = (JobId(number), Epoch::default());
        Command::BeginLoad { job, epoch, workflows: Vec::new() }
    }

    fn proposed(commits: &mut Commits, at_once: usize) -> Vec<u64> {
        std::iter::from_fn(|| commits.next(at_once)).map(|(tag, _)| tag).collect()
    }

    #[test]
    fn no_more_than_the_limit_are_proposed_and_each_answer_makes_way_for_the_next() {
        let mut commits = Commits::default();
        for tag in 1..=4 {
            commits.add(tag, Purpose::Begin, finish(tag.into()));
        }
        assert_eq!(proposed(&mut commits, 2), [1, 2]);
        assert!(proposed(&mut commits, 2).is_empty());
        assert_eq!(commits.answered(2), Some(Purpose::Begin));
        assert_eq!(proposed(&mut commits, 2), [3]);
    }

    #[test]
    fn an_answer_that_comes_twice_makes_way_once() {
        let mut commits = Commits::default();
        for tag in 1..=3 {
            commits.add(tag, Purpose::Begin, finish(tag.into()));
        }
        proposed(&mut commits, 1);
        assert!(commits.answered(1).is_some());
        assert!(commits.answered(1).is_none());
        assert_eq!(proposed(&mut commits, 1), [2]);
    }

    #[test]
    fn what_was_dropped_from_the_backlog_is_not_proposed_and_stays_unanswered() {
        let mut commits = Commits::default();
        commits.add(1, Purpose::Stop, finish(1));
        commits.drop_backlog();
        assert!(proposed(&mut commits, 9).is_empty());
        assert!(commits.are_open());
        assert_eq!(commits.purpose(1), Some(&Purpose::Stop));
    }

    #[test]
    fn a_steer_is_open_from_the_wish_to_the_answer() {
        let mut commits = Commits::default();
        assert!(!commits.have_a_steer());
        commits.add(1, Purpose::Steer { asked: 7, steer: Steer::Pause }, finish(1));
        assert!(commits.have_a_steer());
        commits.answered(1);
        assert!(!commits.have_a_steer());
    }
}
