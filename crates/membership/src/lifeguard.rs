//! Lifeguard: how healthy am I, and how long may a suspicion last.
//!
//! A member that is slow itself sees everybody else as slow. Lifeguard makes it doubt itself first:
//! its own missed probes and the silence of its proxies raise a score, and the score stretches its
//! timers. A suspicion starts with a long deadline and is shortened only by members that have
//! independently come to the same view.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fence::NodeId;

use crate::identity::Life;
use crate::settings::Settings;

/// The score of one's own health: 0 is well, 8 is as bad as it gets (ARCH-36).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalHealth {
    score: u8,
}

impl LocalHealth {
    pub const WORST: u8 = 8;

    #[must_use]
    pub fn score(self) -> u8 {
        self.score
    }

    pub fn worsen(&mut self, by: u8) {
        self.score = self.score.saturating_add(by).min(Self::WORST);
    }

    pub fn improve(&mut self) {
        self.score = self.score.saturating_sub(1);
    }

    /// Probes slow down by whole periods: a member that hears nothing must stop accusing.
    #[must_use]
    pub fn probe_scale(self) -> u32 {
        1 + u32::from(self.score)
    }

    /// Suspicions stretch by a quarter per point, at most threefold.
    #[must_use]
    pub fn suspicion_scale(self) -> f64 {
        1.0 + f64::from(self.score) * 0.25
    }
}

/// What a probe of ours that came to nothing says about ourselves.
///
/// If every proxy has answered that it could not reach the target either, the target is to blame
/// and not us. Each proxy that was silent is a sign that it is we who hear nothing.
#[must_use]
pub fn blame(proxies_asked: u8, nacks: u8) -> u8 {
    if proxies_asked == 0 { 1 } else { proxies_asked.saturating_sub(nacks) }
}

/// How long suspicions last in a cluster of this size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patience {
    pub min: Duration,
    pub max: Duration,
    /// How many confirmations bring it to the minimum.
    pub confirmations: u32,
}

impl Patience {
    /// The hard cap, in maxima: no stall and no bad health can postpone a verdict beyond it.
    pub const CAP: u32 = 3;

    /// `members` counts confirmed members that are not dead, and this node.
    #[must_use]
    pub fn of(settings: &Settings, members: usize) -> Self {
        let log = (members.max(10) as f64).log10();
        let min = settings.probe_period.mul_f64(settings.alpha * log);
        if !settings.lifeguard.suspicion {
            return Self { min, max: min, confirmations: 0 };
        }
        // With two members there is nobody who could confirm.
        let others = u32::try_from(members.saturating_sub(2)).unwrap_or(u32::MAX);
        let confirmations = settings.confirmations.min(others);
        if confirmations == 0 {
            return Self { min, max: min, confirmations };
        }
        Self { min, max: min.mul_f64(settings.beta), confirmations }
    }

    /// From the start of the suspicion, with `confirmed` independent confirmations.
    #[must_use]
    pub fn timeout(&self, confirmed: u32) -> Duration {
        if self.confirmations == 0 || confirmed >= self.confirmations {
            return self.min;
        }
        let share = f64::from(confirmed + 1).ln() / f64::from(self.confirmations + 1).ln();
        let span = self.max.saturating_sub(self.min);
        self.max.saturating_sub(span.mul_f64(share)).max(self.min)
    }
}

/// How many origins of one suspicion are remembered. More than any quorum of voters, and bounded.
const ORIGINS_MAX: usize = 64;

/// One suspicion under way.
#[derive(Clone, Debug)]
pub struct Suspicion {
    pub life: Life,
    pub incarnation: u16,
    pub start: Duration,
    /// Who has itself found it unreachable. Whoever passes it on does not count.
    pub origins: BTreeSet<NodeId>,
    /// Voters that hold the death back as we do, and would agree to it.
    pub held_by: BTreeSet<NodeId>,
    /// By how much stalls of this node have put the deadline off.
    pub postponed: Duration,
    /// The cluster calls it dead but we have just heard it: it gets the shortest time to say so
    /// itself.
    pub last_chance: bool,
    /// The deadline has passed, and the verdict waits for a quorum.
    pub held: bool,
}

impl Suspicion {
    /// The first origin starts it, the others confirm it.
    #[must_use]
    pub fn confirmations(&self) -> u32 {
        u32::try_from(self.origins.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    #[must_use]
    pub fn deadline(&self, patience: &Patience, scale: f64) -> Duration {
        let timeout = if self.last_chance {
            patience.min
        } else {
            patience.timeout(self.confirmations()).mul_f64(scale)
        };
        let cap = self.start + patience.max * Patience::CAP;
        (self.start + timeout + self.postponed).min(cap)
    }
}

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// A suspicion has begun, or begun anew for a later incarnation.
    Started,
    /// Somebody who had not said so before.
    Confirmed,
    /// Nothing new, or about an incarnation that has been refuted.
    Known,
}

/// All suspicions under way, at most one per node.
#[derive(Clone, Debug, Default)]
pub struct Suspicions {
    by_node: BTreeMap<NodeId, Suspicion>,
}

impl Suspicions {
    /// Somebody suspects this incarnation. `origin` is `None` when all that is known is that
    /// somebody does.
    pub fn report(
        &mut self,
        node: NodeId,
        life: Life,
        incarnation: u16,
        origin: Option<NodeId>,
        now: Duration,
    ) -> Reported {
        match self.by_node.get_mut(&node) {
            Some(known) if (known.life, known.incarnation) > (life, incarnation) => Reported::Known,
            Some(known) if (known.life, known.incarnation) == (life, incarnation) => match origin {
                Some(origin)
                    if known.origins.len() < ORIGINS_MAX && known.origins.insert(origin) =>
                {
                    Reported::Confirmed
                }
                _ => Reported::Known,
            },
            _ => {
                let suspicion = Suspicion {
                    life,
                    incarnation,
                    start: now,
                    origins: origin.into_iter().collect(),
                    held_by: BTreeSet::new(),
                    postponed: Duration::ZERO,
                    last_chance: false,
                    held: false,
                };
                self.by_node.insert(node, suspicion);
                Reported::Started
            }
        }
    }

    #[must_use]
    pub fn get(&self, node: NodeId) -> Option<&Suspicion> {
        self.by_node.get(&node)
    }

    pub fn get_mut(&mut self, node: NodeId) -> Option<&mut Suspicion> {
        self.by_node.get_mut(&node)
    }

    pub fn remove(&mut self, node: NodeId) -> Option<Suspicion> {
        self.by_node.remove(&node)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_node.is_empty()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.by_node.len()
    }

    /// This node has stalled: nobody is to blame for what it did not hear meanwhile.
    pub fn postpone(&mut self, by: Duration) {
        for suspicion in self.by_node.values_mut() {
            suspicion.postponed += by;
        }
    }

    /// Those whose time is up, in the order of their ids.
    #[must_use]
    pub fn due(&self, patience: &Patience, scale: f64, now: Duration) -> Vec<NodeId> {
        let due = |suspicion: &Suspicion| suspicion.deadline(patience, scale) <= now;
        self.by_node.iter().filter(|(_, s)| due(s)).map(|(node, _)| *node).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Suspicion)> {
        self.by_node.iter().map(|(node, suspicion)| (*node, suspicion))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fence::BootId;
    use proptest::prelude::*;

    const NODE: NodeId = NodeId(1);

    fn life() -> Life {
        Life { boot: BootId(1), generation: 0 }
    }

    fn seconds(text: f64) -> Duration {
        Duration::from_secs_f64(text)
    }

    /// R11: each confirmation shortens the wait, by the formula of Lifeguard.
    #[test]
    fn confirmations_shorten_the_timeout_by_the_formula() {
        let patience = Patience { min: seconds(5.0), max: seconds(30.0), confirmations: 3 };
        for (confirmed, expected) in [(0, 30.0), (1, 17.5), (2, 10.188), (3, 5.0), (9, 5.0)] {
            let timeout = patience.timeout(confirmed).as_secs_f64();
            assert!((timeout - expected).abs() < 0.001, "{confirmed}: {timeout}");
        }
    }

    /// A lone node or a pair never gets a deadline of zero.
    #[test]
    fn small_clusters_have_a_floor() {
        let settings = Settings::default();
        for members in 0..4 {
            let patience = Patience::of(&settings, members);
            assert!(patience.min >= settings.probe_period * 4, "{members}");
        }
        assert_eq!(Patience::of(&settings, 2).confirmations, 0);
        assert_eq!(Patience::of(&settings, 3).confirmations, 1);
    }

    /// An echo is not a confirmation; a lower incarnation is ignored, a higher one starts anew.
    #[test]
    fn confirmations_are_counted_by_distinct_origin() {
        let mut all = Suspicions::default();
        let mut report = |incarnation, origin: u128, at| {
            all.report(NODE, life(), incarnation, Some(NodeId(origin)), seconds(at))
        };
        assert_eq!(report(5, 10, 0.0), Reported::Started);
        assert_eq!(report(5, 10, 0.1), Reported::Known);
        assert_eq!(report(5, 11, 0.2), Reported::Confirmed);
        assert_eq!(report(5, 11, 0.3), Reported::Known);
        assert_eq!(report(4, 12, 0.4), Reported::Known);
        assert_eq!(report(6, 12, 0.5), Reported::Started);
        assert_eq!(all.get(NODE).map(Suspicion::confirmations), Some(0));
    }

    /// ARCH-37: a peer that is really dead says nothing about us; silent proxies do.
    #[test]
    fn only_signs_of_local_trouble_count() {
        assert_eq!(blame(3, 3), 0);
        assert_eq!(blame(3, 1), 2);
        assert_eq!(blame(0, 0), 1);
        let mut health = LocalHealth::default();
        (0..20).for_each(|_| health.worsen(3));
        assert_eq!((health.score(), health.probe_scale()), (8, 9));
        assert!((health.suspicion_scale() - 3.0).abs() < 1e-9);
        (0..20).for_each(|_| health.improve());
        assert_eq!(health, LocalHealth::default());
    }

    proptest! {
        /// DET-53, DET-54: whenever one looks, exactly those are due whose own time has passed;
        /// nobody is judged early.
        #[test]
        fn nobody_is_due_before_its_time(
            starts in prop::collection::vec((0u64..60_000, 1u128..6), 1..20), look in 0u64..200_000, score in 0u8..=8
        ) {
            let settings = Settings::default();
            let patience = Patience::of(&settings, 64);
            let mut health = LocalHealth::default();
            health.worsen(score);
            let scale = health.suspicion_scale();
            let now = Duration::from_millis(look);
            let mut all = Suspicions::default();
            for (node, (start, origins)) in starts.iter().enumerate() {
                for origin in 0..*origins {
                    let start = Duration::from_millis(*start);
                    all.report(NodeId(node as u128), life(), 0, Some(NodeId(100 + origin)), start);
                }
            }
            let due = all.due(&patience, scale, now);
            for (node, (start, origins)) in starts.iter().enumerate() {
                let timeout = patience.timeout(*origins as u32 - 1).as_secs_f64() * scale;
                let passed = now.as_secs_f64() - Duration::from_millis(*start).as_secs_f64();
                let is_due = due.contains(&NodeId(node as u128));
                // To the microsecond, by another calculation.
                prop_assert!(!is_due || passed >= timeout - 1e-6);
                prop_assert!(is_due || passed <= timeout + 1e-6);
            }
        }

        /// DET-25, DET-26, DET-27: reports move a deadline earlier or not at all, and never past
        /// the cap, whatever the health and however long the stalls.
        #[test]
        fn a_deadline_only_ever_moves_earlier(
            origins in prop::collection::vec(0u128..12, 1..60), score in 0u8..=8, stall in 0u64..1000
        ) {
            let settings = Settings::default();
            let patience = Patience::of(&settings, 128);
            let mut health = LocalHealth::default();
            health.worsen(score);
            let mut all = Suspicions::default();
            let mut before = Duration::MAX;
            for origin in origins {
                all.report(NODE, life(), 0, Some(NodeId(origin)), Duration::ZERO);
                let suspicion = all.get(NODE).unwrap();
                let deadline = suspicion.deadline(&patience, health.suspicion_scale());
                prop_assert!(deadline <= before);
                prop_assert!(deadline >= patience.min);
                before = deadline;
            }
            all.postpone(Duration::from_secs(stall));
            let late = all.get(NODE).unwrap().deadline(&patience, health.suspicion_scale());
            prop_assert!(late >= before && late <= patience.max * Patience::CAP);
        }
    }
}
