//! The knobs of membership, with defaults for a datacenter. All times scale with the probe period.

use std::collections::BTreeSet;
use std::time::Duration;

use fence::NodeId;

/// Which parts of Lifeguard are on. They are switched off only to measure what they are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifeguard {
    /// An unhealthy member probes less often and waits longer for answers.
    pub probe: bool,
    /// A suspicion starts long and is shortened by independent confirmations.
    pub suspicion: bool,
    /// A suspect is told so in the next packet that it is sent.
    pub buddy: bool,
}

impl Lifeguard {
    pub const ON: Self = Self { probe: true, suspicion: true, buddy: true };
    pub const OFF: Self = Self { probe: false, suspicion: false, buddy: false };
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// Each period one member is probed. The unit of every other time here.
    pub probe_period: Duration,
    /// How long a direct answer may take before others are asked to try. Must be shorter than the
    /// period.
    pub probe_timeout: Duration,
    /// How many others are asked, and to how many members gossip goes at a time. At 5 % loss three
    /// leave two false suspicions per member and hour, four leave 0.4.
    pub proxies: usize,
    pub gossip_period: Duration,
    /// Suspicion lasts at least `alpha * log10(members)` periods ...
    pub alpha: f64,
    /// ... and at most `beta` times that, when nobody confirms it.
    pub beta: f64,
    /// This many independent confirmations bring it down to the minimum.
    pub confirmations: u32,
    pub lifeguard: Lifeguard,
    /// The configured managers or gates. Their majority may confirm a mass death.
    pub voters: BTreeSet<NodeId>,
    /// How many nodes this membership is sized for; beyond it newcomers are refused and counted.
    pub nodes_max: usize,
    /// How long the dead and those who left are remembered and, now and then, greeted.
    pub dead_for: Duration,
    /// How long after that nothing about their last life is believed.
    pub tombstone_for: Duration,
    /// How often a lonely node knocks at its seeds.
    pub knock_period: Duration,
    /// How often the dead, and seeds that are not members, are greeted, so that healed partitions
    /// merge.
    pub greet_period: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            probe_period: Duration::from_secs(1),
            probe_timeout: Duration::from_millis(500),
            proxies: 4,
            gossip_period: Duration::from_millis(200),
            alpha: 4.0,
            beta: 6.0,
            confirmations: 3,
            lifeguard: Lifeguard::ON,
            voters: BTreeSet::new(),
            nodes_max: 16_384,
            dead_for: Duration::from_secs(3600),
            tombstone_for: Duration::from_secs(7200),
            knock_period: Duration::from_secs(1),
            greet_period: Duration::from_secs(30),
        }
    }
}

impl Settings {
    /// How often deadlines are looked at, hence how late a verdict can be.
    #[must_use]
    pub fn tick(&self) -> Duration {
        self.probe_period / 10
    }

    /// A node whose ticker was later than this has stalled and cannot judge others.
    #[must_use]
    pub fn stall(&self) -> Duration {
        self.probe_period / 2
    }

    /// How often a member compares what it knows with another's, and exchanges everything if that
    /// differs.
    #[must_use]
    pub fn exchange_period(&self) -> Duration {
        self.probe_period * 30
    }

    /// When a proxy says that it has no answer either: early enough to arrive before the probe
    /// ends.
    #[must_use]
    pub fn nack_after(&self) -> Duration {
        self.probe_period.saturating_sub(self.probe_timeout).mul_f64(0.6)
    }
}
