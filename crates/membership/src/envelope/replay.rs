//! Which datagrams of a node's current life have been seen. A datagram counts once.

use std::collections::BTreeMap;

use fence::{BootId, NodeId};

use super::Refusal;

/// How far behind the newest datagram a late one may be. A member sends some twenty a second at its
/// busiest, so this is more than half a minute of reordering.
const WINDOW: u64 = 1024;
const WORDS: usize = (WINDOW / 64) as usize;

/// One life of one sender: the highest sequence number, and which of the numbers below it have
/// come.
#[derive(Clone, Debug)]
struct Seen {
    boot: BootId,
    highest: u64,
    /// Bit `sequence % WINDOW`. A slot is cleared when the window moves over it.
    bits: [u64; WORDS],
}

impl Seen {
    fn first(boot: BootId, sequence: u64) -> Self {
        let mut seen = Self { boot, highest: sequence, bits: [0; WORDS] };
        seen.set(sequence, true);
        seen
    }

    fn set(&mut self, sequence: u64, on: bool) {
        let (word, bit) = place(sequence);
        if on {
            self.bits[word] |= bit;
        } else {
            self.bits[word] &= !bit;
        }
    }

    fn holds(&self, sequence: u64) -> bool {
        let (word, bit) = place(sequence);
        self.bits[word] & bit != 0
    }

    fn accept(&mut self, sequence: u64) -> bool {
        if sequence > self.highest {
            if sequence - self.highest >= WINDOW {
                self.bits = [0; WORDS];
            } else {
                (self.highest + 1..=sequence).for_each(|skipped| self.set(skipped, false));
            }
            self.highest = sequence;
        } else if self.highest - sequence >= WINDOW || self.holds(sequence) {
            return false;
        }
        self.set(sequence, true);
        true
    }
}

fn place(sequence: u64) -> (usize, u64) {
    let slot = sequence % WINDOW;
    ((slot / 64) as usize, 1 << (slot % 64))
}

/// The windows of all senders.
///
/// After a restart of *this* node its windows are empty, so a recorded datagram may pass once more.
/// It can do no harm: what it says about others is ordered by life and incarnation, and it cannot
/// say anything about a later life.
#[derive(Clone, Debug)]
pub(crate) struct ReplayGuard {
    seen: BTreeMap<NodeId, Seen>,
    limit: usize,
}

impl ReplayGuard {
    pub(crate) fn new(limit: usize) -> Self {
        Self { seen: BTreeMap::new(), limit }
    }

    /// Takes note of the datagram, or says why it must not count.
    pub(crate) fn accept(
        &mut self,
        node: NodeId,
        boot: BootId,
        sequence: u64,
    ) -> Result<(), Refusal> {
        let full = self.seen.len() >= self.limit;
        match self.seen.get_mut(&node) {
            Some(seen) if boot < seen.boot => Err(Refusal::StaleBoot),
            Some(seen) if boot == seen.boot => {
                seen.accept(sequence).then_some(()).ok_or(Refusal::Replayed)
            }
            None if full => Err(Refusal::TooMany),
            Some(_) | None => {
                self.seen.insert(node, Seen::first(boot, sequence));
                Ok(())
            }
        }
    }

    /// Forgets a node that has been gone for so long that nothing of it is under way any more.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.seen.remove(&node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const NODE: NodeId = NodeId(7);

    #[test]
    fn an_earlier_life_is_refused_and_a_later_one_starts_afresh() {
        let mut guard = ReplayGuard::new(8);
        guard.accept(NODE, BootId(5), 100).unwrap();
        assert_eq!(guard.accept(NODE, BootId(4), 200), Err(Refusal::StaleBoot));
        assert_eq!(guard.accept(NODE, BootId(6), 1), Ok(()));
        assert_eq!(guard.accept(NODE, BootId(5), 101), Err(Refusal::StaleBoot));
    }

    #[test]
    fn the_number_of_senders_is_bounded() {
        let mut guard = ReplayGuard::new(2);
        guard.accept(NodeId(1), BootId(1), 1).unwrap();
        guard.accept(NodeId(2), BootId(1), 1).unwrap();
        assert_eq!(guard.accept(NodeId(3), BootId(1), 1), Err(Refusal::TooMany));
        guard.forget(NodeId(1));
        assert_eq!(guard.accept(NodeId(3), BootId(1), 1), Ok(()));
    }

    proptest! {
        /// ARCH-22: against a plain set, within the window nothing is accepted twice and nothing
        /// new is refused.
        #[test]
        fn the_window_agrees_with_a_set(
            steps in prop::collection::vec((0u64..3000, 0u64..1200), 1..400)
        ) {
            let mut guard = ReplayGuard::new(1);
            let mut seen = BTreeSet::new();
            let mut highest = 0u64;
            for (jump, back) in steps {
                let sequence = (highest + jump % 40 + if jump > 2900 { 2000 } else { 0 })
                    .saturating_sub(back).max(1);
                let accepted = guard.accept(NODE, BootId(1), sequence).is_ok();
                let in_window = sequence > highest || highest - sequence < WINDOW;
                prop_assert_eq!(accepted, in_window && !seen.contains(&sequence));
                if accepted {
                    seen.insert(sequence);
                    highest = highest.max(sequence);
                }
            }
        }
    }
}
