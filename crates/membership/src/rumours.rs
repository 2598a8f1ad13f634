//! Claims that still have to be passed on: who suspects whom, who has left.
//!
//! They ride in the packets that are sent anyway, the least told first, each a number of times that
//! grows with the logarithm of the cluster. A claim that has been answered is dropped at once.

use std::collections::BTreeMap;

use fence::NodeId;

use crate::envelope::{Claim, Rumour};

/// How many claims wait at most. In a mass failure the most told make room.
const RUMOURS_MAX: usize = 512;

/// How many ride in one packet: they must leave room for the protocol's own updates.
pub const RUMOURS_PER_PACKET: usize = 6;

#[derive(Clone, Debug, Default)]
pub struct Rumours {
    told: BTreeMap<(Claim, NodeId, NodeId), (Rumour, u32)>,
}

impl Rumours {
    /// To be passed on from now. A later claim of the same origin about the same node replaces an
    /// earlier one.
    pub fn add(&mut self, rumour: Rumour) {
        let key = (rumour.claim, rumour.about, rumour.origin);
        let newer =
            |known: &Rumour| (rumour.life, rumour.incarnation) > (known.life, known.incarnation);
        match self.told.get(&key) {
            Some((known, _)) if !newer(known) => return,
            None if self.told.len() >= RUMOURS_MAX => {
                let most = self.told.iter().max_by_key(|(_, (_, told))| *told).map(|(key, _)| *key);
                most.map(|key| self.told.remove(&key));
            }
            Some(_) | None => {}
        }
        self.told.insert(key, (rumour, 0));
    }

    /// To be told as if it were new, however often it has been.
    pub fn renew(&mut self, rumour: Rumour) {
        self.told.remove(&(rumour.claim, rumour.about, rumour.origin));
        self.add(rumour);
    }

    /// A suspicion has been refuted or settled: nothing of it is worth passing on.
    pub fn drop_suspicions_of(&mut self, node: NodeId) {
        self.told.retain(|(claim, about, _), _| *about != node || *claim == Claim::Left);
    }

    /// The next claims to send, at most `room` of them; each has then been told once more, and
    /// after `times` it is dropped.
    pub fn take(&mut self, times: u32, room: usize) -> Vec<Rumour> {
        if self.told.is_empty() || room == 0 {
            return Vec::new();
        }
        let mut order: Vec<_> = self.told.iter().map(|(key, (_, told))| (*told, *key)).collect();
        order.sort_unstable();
        order.truncate(room);
        let mut taken = Vec::with_capacity(order.len());
        for (_, key) in order {
            let Some((rumour, told)) = self.told.get_mut(&key) else { continue };
            taken.push(*rumour);
            *told += 1;
            if *told >= times {
                self.told.remove(&key);
            }
        }
        taken
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }
}

/// How often a claim is told in a cluster of `members`.
#[must_use]
pub fn times_told(members: usize) -> u32 {
    (4.0 * ((members + 1) as f64).log10()).ceil().max(1.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Life;
    use fence::BootId;

    fn rumour(claim: Claim, about: u128, origin: u128, incarnation: u16) -> Rumour {
        let life = Life { boot: BootId(1), generation: 0 };
        Rumour { claim, about: NodeId(about), life, incarnation, origin: NodeId(origin) }
    }

    #[test]
    fn each_claim_is_told_so_many_times_and_the_least_told_go_first() {
        let mut rumours = Rumours::default();
        (0..8).for_each(|i| rumours.add(rumour(Claim::Suspect, i, 100, 0)));
        let first = rumours.take(2, RUMOURS_PER_PACKET);
        assert_eq!(first.len(), RUMOURS_PER_PACKET);
        let second = rumours.take(2, RUMOURS_PER_PACKET);
        assert_eq!(second[..2].iter().filter(|r| first.contains(r)).count(), 0);
        let total = first.len()
            + second.len()
            + (0..9).map(|_| rumours.take(2, RUMOURS_PER_PACKET).len()).sum::<usize>();
        assert_eq!(total, 16);
        assert!(rumours.is_empty());
    }

    /// Something settled is not passed on; a farewell still is.
    #[test]
    fn a_refuted_suspicion_is_dropped() {
        let mut rumours = Rumours::default();
        rumours.add(rumour(Claim::Suspect, 1, 100, 0));
        rumours.add(rumour(Claim::Held, 1, 101, 0));
        rumours.add(rumour(Claim::Left, 1, 1, 0));
        rumours.drop_suspicions_of(NodeId(1));
        assert_eq!(rumours.take(9, RUMOURS_PER_PACKET), [rumour(Claim::Left, 1, 1, 0)]);
    }

    #[test]
    fn the_queue_is_bounded() {
        let mut rumours = Rumours::default();
        (0..10_000).for_each(|i| rumours.add(rumour(Claim::Suspect, i, 100, 0)));
        assert_eq!(rumours.told.len(), RUMOURS_MAX);
    }
}
