//! What a worker has to tell, to whom, and when again.
//!
//! Everything told has a name, and one entry: there is no queue that could grow. It is told until
//! it is settled, which only the owner's own command can do; that somebody has taken it only slows
//! the repeats, since who took it may die. It goes to the job's owner as far as one is known,
//! otherwise to one manager after the other, who know.

use std::collections::BTreeMap;

use fence::{JobId, Moment, NodeId};

use super::message::Run;
use super::settings::Times;
use crate::message::{ReportAck, WorkerReport};

/// The name of something told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReportKey {
    Ended(Run),
    Ready(Run),
    Abort(Run),
    Rows(Run, u32),
    Draining(JobId),
    MoreTime(JobId),
}

impl ReportKey {
    pub fn job(self) -> JobId {
        match self {
            Self::Ended(run) | Self::Ready(run) | Self::Abort(run) | Self::Rows(run, _) => {
                run.shard.job
            }
            Self::Draining(job) | Self::MoreTime(job) => job,
        }
    }
}

/// What is told: a report lies in the outbox, the rest is small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReportBody {
    Report,
    Small(WorkerReport),
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    number: u64,
    to: NodeId,
    until: Moment,
}

#[derive(Clone, Debug)]
struct Entry {
    body: ReportBody,
    next: Moment,
    flight: Option<Flight>,
    sent: u64,
    /// Tries since the last success, and forwardings since the last wait.
    failures: u32,
    hops: u32,
    /// Whose turn it is when the owner is not known.
    turn: usize,
    /// Since when nobody knows the job.
    unknown_since: Option<Moment>,
}

/// Forwardings that are followed at once. Two managers that name each other must not make a storm.
const HOPS_MAX: u32 = 3;

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckOutcome {
    Nothing,
    /// Nobody has known its job for a long time.
    Unclaimed(ReportKey),
    /// It is durable where it belongs.
    Settled(ReportKey),
}

#[derive(Clone, Debug, Default)]
pub(super) struct ReportQueue {
    entries: BTreeMap<ReportKey, Entry>,
    flights: BTreeMap<u64, ReportKey>,
    last_number: u64,
    owners: BTreeMap<JobId, NodeId>,
}

impl ReportQueue {
    /// From now on this is told, until it is settled. What is being told already stays as it is.
    pub fn push(&mut self, key: ReportKey, body: ReportBody, now: Moment) {
        let new = Entry {
            body,
            next: now,
            flight: None,
            sent: 0,
            failures: 0,
            hops: 0,
            turn: 0,
            unknown_since: None,
        };
        self.entries.entry(key).or_insert(new);
    }

    pub fn settle(&mut self, key: ReportKey) {
        if let Some(Entry { flight: Some(flight), .. }) = self.entries.remove(&key) {
            self.flights.remove(&flight.number);
        }
    }

    pub fn settle_where(&mut self, over: impl Fn(ReportKey) -> bool) {
        let gone: Vec<ReportKey> = self.entries.keys().copied().filter(|key| over(*key)).collect();
        for key in gone {
            self.settle(key);
        }
    }

    /// This manager leads the job: it has just said something under the job's epoch. Whoever led it
    /// before may have died with what it was told, so a new one is told at once.
    pub fn owner(&mut self, job: JobId, owner: NodeId, now: Moment) {
        let before = self.owners.insert(job, owner);
        if before == Some(owner) {
            return;
        }
        let waiting = self.entries.iter_mut().filter(|(key, _)| key.job() == job);
        for (_, entry) in waiting.filter(|(_, entry)| entry.flight.is_none()) {
            entry.next = entry.next.min(now);
        }
    }

    pub fn forget_owner(&mut self, job: JobId) {
        self.owners.remove(&job);
    }

    /// Gives up what is late. Says how many that were.
    pub fn look(&mut self, now: Moment, times: &Times) -> u64 {
        let late: Vec<u64> = self
            .entries
            .values()
            .filter_map(|entry| entry.flight)
            .filter(|flight| flight.until <= now)
            .map(|flight| flight.number)
            .collect();
        late.iter().filter(|number| self.failed(**number, now, times)).count() as u64
    }

    /// What is to be sent now: number, to whom, what, and whether it was sent before.
    pub fn due(
        &mut self,
        managers: &[NodeId],
        in_flight_max: usize,
        now: Moment,
        times: &Times,
    ) -> Vec<(u64, NodeId, ReportKey, ReportBody, bool)> {
        let mut flying: BTreeMap<NodeId, usize> = BTreeMap::new();
        for flight in self.entries.values().filter_map(|entry| entry.flight) {
            *flying.entry(flight.to).or_default() += 1;
        }
        let mut due = Vec::new();
        for (key, entry) in &mut self.entries {
            if entry.flight.is_some() || entry.next > now {
                continue;
            }
            let turn = || managers.get(entry.turn % managers.len().max(1)).copied();
            let Some(to) = self.owners.get(&key.job()).copied().or_else(turn) else { continue };
            let flying = flying.entry(to).or_default();
            if *flying >= in_flight_max {
                continue;
            }
            *flying += 1;
            self.last_number += 1;
            entry.flight =
                Some(Flight { number: self.last_number, to, until: now.after(times.tell_timeout) });
            self.flights.insert(self.last_number, *key);
            due.push((self.last_number, to, *key, entry.body.clone(), entry.sent > 0));
            entry.sent += 1;
        }
        due
    }

    pub fn answered(
        &mut self,
        number: u64,
        ack: ReportAck,
        now: Moment,
        times: &Times,
    ) -> AckOutcome {
        let Some(key) = self.flights.remove(&number) else { return AckOutcome::Nothing };
        let Some(entry) = self.entries.get_mut(&key) else { return AckOutcome::Nothing };
        let asked = entry.flight.take().map(|flight| flight.to);
        match ack {
            ReportAck::Taken => {
                (entry.failures, entry.hops, entry.unknown_since) = (0, 0, None);
                entry.next = now.after(times.tell_taken);
                if let Some(asked) = asked {
                    self.owners.insert(key.job(), asked);
                }
                // Hearing it is all: nothing comes back, and a later word on time says more.
                if let ReportKey::Draining(_) | ReportKey::MoreTime(_) = key {
                    self.settle(key);
                }
            }
            ReportAck::Settled => {
                self.settle(key);
                return AckOutcome::Settled(key);
            }
            ReportAck::NotOwner { owner } => {
                entry.unknown_since = None;
                let follow = owner.filter(|owner| Some(*owner) != asked);
                match follow {
                    Some(owner) => self.owners.insert(key.job(), owner),
                    None => self.owners.remove(&key.job()),
                };
                entry.hops += 1;
                if follow.is_some() && entry.hops <= HOPS_MAX {
                    entry.next = now;
                } else {
                    entry.hops = 0;
                    self.wait(key, now, times);
                }
            }
            ReportAck::UnknownJob => {
                let since = *entry.unknown_since.get_or_insert(now);
                self.owners.remove(&key.job());
                if now.since(since) >= times.unknown_job {
                    self.settle(key);
                    return AckOutcome::Unclaimed(key);
                }
                self.wait(key, now, times);
            }
        }
        AckOutcome::Nothing
    }

    /// It did not arrive, or its answer did not. Another manager is asked next, since this one may
    /// be gone.
    pub fn failed(&mut self, number: u64, now: Moment, times: &Times) -> bool {
        let Some(key) = self.flights.remove(&number) else { return false };
        let Some(entry) = self.entries.get_mut(&key) else { return false };
        let asked = entry.flight.take().map(|flight| flight.to);
        if self.owners.get(&key.job()).copied() == asked {
            self.owners.remove(&key.job());
        }
        self.wait(key, now, times);
        true
    }

    /// Twice as long as the last time, up to a limit; and somebody else's turn.
    fn wait(&mut self, key: ReportKey, now: Moment, times: &Times) {
        if let Some(entry) = self.entries.get_mut(&key) {
            let doubled = times.tell_again.saturating_mul(1 << entry.failures.min(16));
            entry.failures = entry.failures.saturating_add(1);
            entry.turn = entry.turn.wrapping_add(1);
            entry.next = now.after(doubled.min(times.tell_again_max));
        }
    }

    /// The next moment at which something is to be sent or given up. What is due and waits for
    /// others in flight has no time of its own.
    pub fn next_due(&self, now: Moment) -> Option<Moment> {
        let moments = self.entries.values().filter_map(|entry| match entry.flight {
            Some(flight) => Some(flight.until),
            None => Some(entry.next).filter(|next| *next > now),
        });
        moments.min()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }
}
