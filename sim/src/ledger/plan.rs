//! What a seed decides before anything runs: how large the group is, which faults there are, how
//! hard they hit.
//!
//! Swarm: each class of faults is on or off as a whole. With all of them on at once they hide each
//! other (a group that is split all the time never gets to compact its log), and a value that never
//! varies becomes one that the code relies on.

use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;

use super::class::Class;

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub nodes: usize,
    pub clients: usize,
    /// The step of the simulation: messages move this often.
    pub tick: Duration,
    pub abuse: Duration,
    /// How long the group may take to be whole again once all faults have stopped.
    pub converge: Duration,
    pub latency: (Duration, Duration),
    pub classes: BTreeSet<Class>,
    /// Mean time between two faults of one class.
    pub fault_gap: Duration,
    pub fault_length: Duration,
    /// A snapshot is made after so many entries; small, because compaction is where bugs hide.
    pub snapshot_after: u64,
    pub segment_bytes: u64,
    /// How far each wall clock is off, in milliseconds.
    pub skew_ms: Vec<i64>,
    /// Pause between two operations of a client.
    pub think: Duration,
    pub jobs: usize,
    pub membership: bool,
}

/// A duration drawn between two numbers of milliseconds.
pub fn millis(random: &mut Rng, range: std::ops::RangeInclusive<u64>) -> Duration {
    Duration::from_millis(random.u64(range))
}

impl Plan {
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let random = &mut Rng::with_seed(seed ^ 0x706c_616e);
        let nodes = if random.u8(0..4) == 0 { 5 } else { 3 };
        // Some seeds have few classes, some have many; one in sixteen has none: what fails there is
        // no fault's fault.
        let share = [0.15, 0.3, 0.5, 0.8][random.usize(0..4)];
        let quiet = random.u8(0..16) == 0;
        let classes: BTreeSet<Class> =
            Class::ALL.iter().copied().filter(|_| !quiet && random.f64() < share).collect();
        let skewed = classes.contains(&Class::Skew);
        let skew_ms = (0..nodes)
            .map(|_| if skewed { random.i64(-3_600_000..=3_600_000) } else { 0 })
            .collect();
        let latency_max = [2, 5, 20, 60][random.usize(0..4)];
        Self {
            seed,
            nodes,
            clients: random.usize(2..=5),
            tick: Duration::from_millis(2),
            abuse: millis(random, 15_000..=30_000),
            converge: Duration::from_secs(30),
            latency: (Duration::from_millis(1), Duration::from_millis(latency_max)),
            classes,
            fault_gap: millis(random, 1_500..=6_000),
            fault_length: millis(random, 200..=4_000),
            snapshot_after: random.u64(10..=200),
            segment_bytes: [64 << 10, 256 << 10, 1 << 20][random.usize(0..3)],
            skew_ms,
            think: millis(random, 10..=150),
            jobs: random.usize(4..=16),
            membership: random.u8(0..4) == 0,
        }
    }

    #[must_use]
    pub fn has(&self, class: Class) -> bool {
        self.classes.contains(&class)
    }
}
