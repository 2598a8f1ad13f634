//! Renewals: one message for all attempts, to one manager, and to the next one when that fails (R4,
//! ARCH-110).
//!
//! Any manager will do, since each of them asks the ledger. So losing the one that was asked costs
//! a time-out and nothing else: the next is asked with a fresh ticket while the lease that is held
//! runs on. Three managers can be tried well within a lease: a try takes L/8, and they begin L/4
//! after the last success.

use std::collections::BTreeMap;
use std::time::Duration;

use fence::{Moment, NodeId, Ticket};

use super::message::Run;

/// A message under way.
#[derive(Clone, Debug)]
struct Sent {
    to: NodeId,
    /// Without an answer, the next manager is asked.
    until: Moment,
    /// An answer after this is worth nothing.
    worth_until: Moment,
    gave_up: bool,
    tickets: BTreeMap<Run, Ticket>,
}

/// Whom to ask, and what is under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Renewals {
    managers: Vec<NodeId>,
    current: Option<NodeId>,
    under_way: BTreeMap<u64, Sent>,
    last_number: u64,
    last_sent: Option<Moment>,
    /// A renewal is asked for again then, although no lease is due: the last try failed.
    again: Option<Moment>,
    failed_in_a_row: usize,
}

impl Renewals {
    /// Who is asked stays the same while it is among them; losing any other changes nothing
    /// (ARCH-110).
    pub fn managers(&mut self, managers: Vec<NodeId>, now: Moment) {
        self.managers = managers;
        if !self.current.is_some_and(|current| self.managers.contains(&current)) {
            self.current = self.managers.first().copied();
            if self.waiting().next().is_some() {
                self.again = Some(now);
            }
            for sent in self.under_way.values_mut() {
                sent.gave_up = true;
            }
        }
    }

    pub fn known(&self) -> &[NodeId] {
        &self.managers
    }

    fn waiting(&self) -> impl Iterator<Item = (u64, &Sent)> {
        self.under_way
            .iter()
            .filter(|(_, sent)| !sent.gave_up)
            .map(|(number, sent)| (*number, sent))
    }

    /// Gives up what is late. Says how many tries that were.
    pub fn look(&mut self, now: Moment, pause: Duration) -> u64 {
        self.under_way.retain(|_, sent| now < sent.worth_until);
        let late: Vec<u64> = self
            .waiting()
            .filter(|(_, sent)| sent.until <= now)
            .map(|(number, _)| number)
            .collect();
        late.iter().filter(|number| self.failed(**number, now, pause)).count() as u64
    }

    /// When the next message is to go, if the leases are due then. None: there is nobody to ask.
    pub fn send_at(&self, leases_due: Option<Moment>, gap: Duration) -> Option<Moment> {
        self.current?;
        let due = leases_due?;
        let due = self.again.map_or(due, |again| again.min(due));
        Some(self.last_sent.map_or(due, |last| due.max(last.after(gap))))
    }

    /// A message goes out now. Its number and whom it goes to.
    pub fn sent(
        &mut self,
        tickets: BTreeMap<Run, Ticket>,
        shortest: Duration,
        longest: Duration,
        now: Moment,
    ) -> Option<(u64, NodeId)> {
        let to = self.current?;
        self.last_number += 1;
        self.last_sent = Some(now);
        self.again = None;
        let (until, worth_until) = (now.after(shortest / 8), now.after(longest));
        let sent = Sent { to, until, worth_until, gave_up: false, tickets };
        self.under_way.insert(self.last_number, sent);
        Some((self.last_number, to))
    }

    /// The tickets of a message that was answered. None: it is not known, or was answered before.
    pub fn answered(&mut self, number: u64) -> Option<BTreeMap<Run, Ticket>> {
        let sent = self.under_way.remove(&number)?;
        // One that was given up on answers late; it is not asked again before its turn.
        if !sent.gave_up && self.managers.contains(&sent.to) {
            self.current = Some(sent.to);
        }
        self.failed_in_a_row = 0;
        Some(sent.tickets)
    }

    /// A message was not answered. The next manager is asked at once; when all have failed, after a
    /// pause. The tickets stay, for the answer may be late.
    pub fn failed(&mut self, number: u64, now: Moment, pause: Duration) -> bool {
        let Some(sent) = self.under_way.get_mut(&number).filter(|sent| !sent.gave_up) else {
            return false;
        };
        sent.gave_up = true;
        let to = sent.to;
        self.failed_in_a_row += 1;
        if self.current == Some(to) {
            let place = self.managers.iter().position(|manager| *manager == to);
            let next = place.map_or(0, |place| place + 1);
            self.current = self.managers.get(next).or(self.managers.first()).copied();
        }
        let all_failed = self.failed_in_a_row.is_multiple_of(self.managers.len().max(1));
        self.again = Some(if all_failed { now.after(pause) } else { now });
        true
    }

    /// The next moment at which [`look`](Self::look) has something to give up.
    pub fn next_due(&self) -> Option<Moment> {
        self.waiting().map(|(_, sent)| sent.until).min()
    }

    #[cfg(test)]
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.under_way.keys().copied()
    }
}
