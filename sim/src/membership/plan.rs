//! What a seed does to the members: how many, which classes of faults, how hard, for how long.

use std::collections::BTreeSet;
use std::time::Duration;

use ::membership::Settings;
use ::membership::lifeguard::Patience;

use super::world::{SEEDS, node_id};

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$note:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$note])* $variant,)* }

        impl $name {
            pub const NAMES: &[&str] = &[$($text,)*];

            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

named! {
    /// What is done to the members. A seed switches each class on or off.
    Class {
        Loss = "net: loss",
        Delay = "net: delay",
        Duplicate = "net: duplicate",
        Reorder = "net: reorder",
        OneWay = "net: one-way cut",
        Split = "net: split",
        Crash = "proc: crash",
        Restart = "proc: restart",
        /// It comes back at another address.
        Move = "proc: move",
        /// It was not down for long enough to be missed.
        Blink = "proc: blink",
        Pause = "proc: pause",
        StallReceive = "proc: stalled receive",
        StallBoth = "proc: stalled both ways",
        ClockSlow = "clock: slow",
        ClockFast = "clock: fast",
        Leave = "member: leave",
        Join = "member: join",
        /// More than half of the workers die at once.
        Rack = "member: rack lost",
    }
}

named! {
    /// What a campaign must have seen.
    Mark {
        Refuted = "a suspicion was refuted",
        DeadDirect = "a death by own suspicion",
        DeadGossip = "a death by word of others",
        FalseDeath = "a live member was buried",
        Outlived = "it came back as a new generation",
        Doubted = "a death was doubted",
        Stale = "a stale death was ignored",
        Held = "a mass death was held back",
        Corroborated = "and a quorum agreed to it",
        Stalled = "a stall was noticed",
        Left = "a farewell was heard",
        Nack = "a proxy had no answer either",
        Replayed = "a duplicate was refused",
        StaleBoot = "an earlier life was refused",
        NewLife = "a later life took the place",
        Missed = "a restart inside the suspicion window",
        NeverConfirmed = "a peer was never confirmed",
        Reaped = "the dead were forgotten",
        Confirmations = "confirmations shortened a deadline",
    }
}

impl Class {
    const ALL: [Self; Self::NAMES.len()] = [
        Self::Loss,
        Self::Delay,
        Self::Duplicate,
        Self::Reorder,
        Self::OneWay,
        Self::Split,
        Self::Crash,
        Self::Restart,
        Self::Move,
        Self::Blink,
        Self::Pause,
        Self::StallReceive,
        Self::StallBoth,
        Self::ClockSlow,
        Self::ClockFast,
        Self::Leave,
        Self::Join,
        Self::Rack,
    ];
}

/// The shape of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub members: usize,
    pub abuse: Duration,
    /// The mean time from one fault to the next.
    pub gap: Duration,
    pub classes: BTreeSet<Class>,
    /// Loss and nothing else, at this rate, all the time: nobody may be buried then.
    pub only_loss: Option<f64>,
    pub settings: Settings,
}

impl Plan {
    pub fn draw(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x6d65_6d62_6572_7368);
        // Small clusters have the edge cases, and cost little; now and then a larger one.
        let members = if rng.u8(..8) == 0 { rng.usize(10..=28) } else { rng.usize(2..=9) };
        let only_loss = (rng.u8(..8) == 0).then(|| 0.05 + 0.25 * rng.f64());
        let share = 0.2 + 0.6 * rng.f64();
        let mut classes: BTreeSet<Class> =
            Class::ALL.into_iter().filter(|_| rng.f64() < share).collect();
        if only_loss.is_some() {
            classes = BTreeSet::from([Class::Loss]);
        }
        let has_voters = rng.u8(..4) > 0;
        let voters = if has_voters {
            (0..SEEDS.min(members)).map(node_id).collect()
        } else {
            BTreeSet::new()
        };
        // In half of the runs the dead are forgotten so soon that it happens.
        let (dead_for, tombstone_for) = if rng.bool() { (90, 180) } else { (3600, 7200) };
        let settings = Settings {
            voters,
            dead_for: Duration::from_secs(dead_for),
            tombstone_for: Duration::from_secs(tombstone_for),
            ..Settings::default()
        };
        Self {
            seed,
            members,
            abuse: Duration::from_secs(rng.u64(40..200)),
            gap: Duration::from_millis(rng.u64(500..8000)),
            classes,
            only_loss,
            settings,
        }
    }

    pub fn has(&self, class: Class) -> bool {
        self.classes.contains(&class)
    }

    /// Within this time of calm everybody knows everything.
    ///
    /// The last death may have been suspected just now by members in the worst of health, which
    /// takes the hard cap. Then each has to be probed by each, and two rounds of greetings and
    /// exchanges bring back those who have buried each other.
    pub fn calm_bound(&self, count: usize) -> Duration {
        let patience = Patience::of(&self.settings, count);
        let rounds = self.settings.probe_period * 2 * count as u32;
        patience.max * Patience::CAP + rounds + self.settings.greet_period * 4
    }
}
