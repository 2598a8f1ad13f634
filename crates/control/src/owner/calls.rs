//! Calls to workers: those that wait for an answer, those that are made again later, and how long
//! answers take.

use std::collections::BTreeMap;
use std::time::Duration;

use fence::{Attempt, BootId, Moment, NodeId, ShardKey};

use super::Sid;
use crate::message::{ReservationId, RowBlock};

/// What a worker is called for. What exactly it is asked is worked out when the call is made (see
/// [`super::ask`]), so one that is made again says what holds by then.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Call {
    Reserve(u32),
    Release(ReservationId, NodeId, BootId),
    Dispatch(Sid, Attempt),
    Start {
        worker: NodeId,
        boot: BootId,
        attempts: Vec<(Sid, Attempt)>,
    },
    Stop(Sid, Attempt),
    /// All that is in force, under this number.
    Steer {
        worker: NodeId,
        boot: BootId,
        number: u64,
    },
    Rows {
        sid: Sid,
        attempt: Attempt,
        rows: RowBlock,
    },
    /// How far an attempt may go by now.
    Units(Sid, Attempt),
    Forget(ShardKey, Attempt, NodeId),
    Install(NodeId, BootId),
    Scan(NodeId, BootId),
    /// How many cores are free there.
    Capacity(NodeId),
    /// Whether it is there at all.
    Probe(NodeId, BootId),
}

#[derive(Clone, Debug)]
struct UnderWay {
    call: Call,
    /// How often it was made before.
    retries: u32,
    worker: NodeId,
}

/// A call that has come back.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Returned {
    pub call: Call,
    pub retries: u32,
    pub worker: NodeId,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    under_way: BTreeMap<u64, UnderWay>,
    /// By the time at which they are due, and by a number that tells those of one moment apart.
    later: BTreeMap<(Moment, u64), (Call, u32)>,
    round_trips: BTreeMap<NodeId, Duration>,
}

impl Calls {
    pub fn made(&mut self, tag: u64, call: Call, retries: u32, worker: NodeId) {
        self.under_way.insert(tag, UnderWay { call, retries, worker });
    }

    /// `None`: it was answered before, or was never made.
    pub fn returned(&mut self, tag: u64) -> Option<Returned> {
        let UnderWay { call, retries, worker } = self.under_way.remove(&tag)?;
        Some(Returned { call, retries, worker })
    }

    pub fn is_under_way(&self, call: &Call) -> bool {
        self.under_way.values().any(|one| one.call == *call)
    }

    /// It is made again at that time. `number` is higher than those before it.
    pub fn make_later(&mut self, at: Moment, number: u64, call: Call, retries: u32) {
        self.later.insert((at, number), (call, retries));
    }

    /// The first call that is to be made again by now.
    pub fn next_due(&mut self, now: Moment) -> Option<(Call, u32)> {
        let (&(at, number), _) = self.later.first_key_value()?;
        if at > now {
            return None;
        }
        self.later.remove(&(at, number))
    }

    pub fn due_times(&self) -> impl Iterator<Item = Moment> {
        self.later.keys().map(|(at, _)| *at)
    }

    /// Nothing is made again.
    pub fn drop_retries(&mut self) {
        self.later.clear();
    }

    /// An answer took so long. The last ones count more than those before.
    pub fn took(&mut self, worker: NodeId, time: Duration) {
        let known = self.round_trips.entry(worker).or_insert(time);
        *known = (*known * 3 + time) / 4;
    }

    /// How long a message to a worker takes, about; zero before it has answered anything.
    pub fn one_way(&self, worker: NodeId) -> Duration {
        self.round_trips.get(&worker).copied().unwrap_or_default() / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::default().after(Duration::from_millis(ms))
    }

    fn scan(node: u128) -> Call {
        Call::Scan(NodeId(node), BootId(1))
    }

    #[test]
    fn a_call_comes_back_once() {
        let mut calls = Calls::default();
        calls.made(1, scan(5), 2, NodeId(5));
        assert!(calls.is_under_way(&scan(5)) && !calls.is_under_way(&scan(6)));
        let back = Returned { call: scan(5), retries: 2, worker: NodeId(5) };
        assert_eq!(calls.returned(1), Some(back));
        assert_eq!(calls.returned(1), None);
        assert!(!calls.is_under_way(&scan(5)));
    }

    #[test]
    fn calls_are_made_again_when_due_and_those_of_one_moment_in_their_order() {
        let mut calls = Calls::default();
        calls.make_later(at(30), 3, scan(3), 1);
        calls.make_later(at(10), 2, scan(2), 4);
        calls.make_later(at(10), 1, scan(1), 1);
        assert_eq!(calls.next_due(at(9)), None);
        assert_eq!(calls.next_due(at(10)), Some((scan(1), 1)));
        assert_eq!(calls.next_due(at(10)), Some((scan(2), 4)));
        assert_eq!(calls.next_due(at(10)), None);
        assert_eq!(calls.due_times().collect::<Vec<_>>(), [at(30)]);
        calls.drop_retries();
        assert_eq!(calls.next_due(at(99)), None);
    }

    #[test]
    fn a_round_trip_follows_the_last_answers_without_jumping_to_one_of_them() {
        let mut calls = Calls::default();
        let ms = Duration::from_millis;
        assert_eq!(calls.one_way(NodeId(1)), ms(0));
        calls.took(NodeId(1), ms(40));
        assert_eq!(calls.one_way(NodeId(1)), ms(20));
        calls.took(NodeId(1), ms(80));
        assert_eq!(calls.one_way(NodeId(1)), ms(25));
        assert_eq!(calls.one_way(NodeId(2)), ms(0));
    }
}
