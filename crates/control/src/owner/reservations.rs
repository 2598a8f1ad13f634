//! Cores that were asked of workers, under numbers that only rise.
//!
//! ```text
//! asked ──granted──▶ renewed at half its time ──every shard has left──▶ forgotten, or released
//!    ╰── refused, unanswered, not needed any more ─────────────────────────────────▶ released
//! ```
//!
//! A reservation is forgotten when all its cores were dispatched to, because the attempts have them
//! then. It is released when a shard that it was for does not need it: the worker would keep that
//! core for nobody.

use std::collections::BTreeMap;

use fence::{BootId, Moment, NodeId};

use super::Sid;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reservation {
    pub worker: NodeId,
    pub boot: BootId,
    pub cores: u32,
    /// Those that it is for. Empty while a whole wave is being placed.
    shards: Vec<Sid>,
    granted: bool,
    /// A shard that it was for does not need it any more.
    surplus: bool,
    /// When it should be renewed.
    renew: Moment,
}

impl Reservation {
    pub fn shards(&self) -> &[Sid] {
        &self.shards
    }

    pub fn is_granted(&self) -> bool {
        self.granted
    }
}

/// What is to become of a reservation that a shard has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Other shards still need it, or there is none.
    Kept,
    /// Everything that it was for has been dispatched.
    Used,
    /// Some of its cores are for nobody: it has to be released.
    Surplus,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Reservations {
    table: BTreeMap<u32, Reservation>,
    /// The last number that was given out.
    number: u32,
}

impl Reservations {
    /// Cores of one life of a worker are asked for. Says under which number.
    pub fn add(
        &mut self,
        (worker, boot): (NodeId, BootId),
        cores: u32,
        shards: Vec<Sid>,
        renew: Moment,
    ) -> u32 {
        self.number += 1;
        let (granted, surplus) = (false, false);
        let reservation = Reservation { worker, boot, cores, shards, granted, surplus, renew };
        self.table.insert(self.number, reservation);
        self.number
    }

    pub fn get(&self, number: u32) -> Option<&Reservation> {
        self.table.get(&number)
    }

    pub fn is_granted(&self, number: u32) -> bool {
        self.table.get(&number).is_some_and(|one| one.granted)
    }

    pub fn numbers(&self) -> Vec<u32> {
        self.table.keys().copied().collect()
    }

    /// One of its cores is for this shard.
    pub fn assign(&mut self, number: u32, sid: Sid) {
        if let Some(one) = self.table.get_mut(&number) {
            one.shards.push(sid);
        }
    }

    /// The worker has answered. Says whether that was a renewal of what it had granted before.
    pub fn answered(&mut self, number: u32, granted: bool) -> bool {
        let one = self.table.get_mut(&number);
        one.is_some_and(|one| std::mem::replace(&mut one.granted, granted))
    }

    pub fn remove(&mut self, number: u32) -> Option<Reservation> {
        self.table.remove(&number)
    }

    /// A shard needs its core no more: it was dispatched to, or never will be.
    pub fn leave(&mut self, number: u32, sid: Sid, dispatched: bool) -> Left {
        let Some(one) = self.table.get_mut(&number) else { return Left::Kept };
        one.shards.retain(|other| *other != sid);
        one.surplus |= !dispatched;
        if !one.shards.is_empty() {
            return Left::Kept;
        }
        if one.surplus {
            return Left::Surplus;
        }
        self.table.remove(&number);
        Left::Used
    }

    /// Those that have to be renewed by now; the next time is `next`.
    pub fn renew_due(&mut self, now: Moment, next: Moment) -> Vec<u32> {
        let is_due = |one: &Reservation| one.granted && one.renew <= now;
        let due = self.table.iter_mut().filter(|(_, one)| is_due(one));
        let renewed = due.map(|(number, one)| {
            one.renew = next;
            *number
        });
        renewed.collect()
    }

    pub fn renewals(&self) -> impl Iterator<Item = Moment> {
        self.table.values().filter(|one| one.granted).map(|one| one.renew)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LIFE: (NodeId, BootId) = (NodeId(1), BootId(1));

    fn at(seconds: u64) -> Moment {
        Moment::default().after(Duration::from_secs(seconds))
    }

    #[test]
    fn what_becomes_of_a_reservation_follows_from_how_its_shards_left_it() {
        // How each of two shards leaves: dispatched to, or not.
        let rows = [
            ([true, true], [Left::Kept, Left::Used]),
            ([true, false], [Left::Kept, Left::Surplus]),
            ([false, true], [Left::Kept, Left::Surplus]),
            ([false, false], [Left::Kept, Left::Surplus]),
        ];
        for (ways, expected) in rows {
            let mut reservations = Reservations::default();
            let number = reservations.add(LIFE, 2, vec![(0, 0)], at(5));
            reservations.assign(number, (0, 1));
            let left =
                [0, 1].map(|shard| reservations.leave(number, (0, shard), ways[shard as usize]));
            assert_eq!(left, expected, "{ways:?}");
            let stays = left[1] == Left::Surplus;
            assert_eq!(reservations.get(number).is_some(), stays, "{ways:?}");
        }
    }

    #[test]
    fn a_shard_that_leaves_what_is_gone_changes_nothing() {
        assert_eq!(Reservations::default().leave(7, (0, 0), false), Left::Kept);
    }

    #[test]
    fn a_number_is_never_given_out_twice() {
        let mut reservations = Reservations::default();
        let first = reservations.add(LIFE, 1, vec![(0, 0)], at(5));
        reservations.remove(first);
        assert!(reservations.add(LIFE, 1, vec![(0, 0)], at(5)) > first);
    }

    #[test]
    fn only_what_was_granted_is_renewed_and_only_when_it_is_due() {
        let mut reservations = Reservations::default();
        let [granted, asked] = [1, 2].map(|_| reservations.add(LIFE, 1, Vec::new(), at(5)));
        assert!(!reservations.answered(granted, true), "the first answer is no renewal");
        assert!(reservations.answered(granted, true), "the second one is");
        assert!(reservations.is_granted(granted) && !reservations.is_granted(asked));
        assert!(reservations.renew_due(at(4), at(9)).is_empty());
        assert_eq!(reservations.renew_due(at(5), at(9)), [granted]);
        assert_eq!(reservations.renewals().collect::<Vec<_>>(), [at(9)]);
        assert!(reservations.renew_due(at(5), at(9)).is_empty());
    }
}
