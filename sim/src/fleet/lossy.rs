//! The scenario `fleet-lossy`: an hour on a network that loses a fifth of all packets, with hosts
//! that stand still for up to a second, one at a time. Several jobs run all the time. Nobody dies
//! and nobody is cut off, so no owner may be replaced, no attempt revoked, and no lease run out. 24
//! seeds are a day.
//!
//! How loss is felt depends on what carries a message:
//!
//! - **Streams** (everything between managers and workers, and between managers) are late, and lose
//!   nothing: see [`super::stream`], which says how late and why.
//! - **Datagrams** (membership) are lost. The members here are the product's own
//!   (`membership::Swim`) with its own settings, on the simulated network of the scenario
//!   `membership`. What they say of each other is what managers and workers go by.
//! - **The group** that replicates the ledger is a model. Its messages follow each other by a
//!   heartbeat at the latest, so what is lost is repeated after one, and again if that is lost; a
//!   commit waits for the quicker of two followers, a read too, and whoever is not the leader for
//!   the way to it. A leader that stands still for longer than an election time-out is replaced;
//!   commits wait meanwhile.
//!
//! Times are the product's: leases, renewals, silence and patience of `control`, probes and
//! suspicion of `membership`, the heartbeat of `ledger`. `SILENT_MS` is `ManagerConfig::silent`.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use ::membership::{Settings, State};

use super::plan::{Class, Plan, Word};
use super::world::{Host, World};
use crate::membership::world::{self as members, Fault, Weather};

/// Of a hundred packets.
pub const LOST: u8 = 20;
/// The length of a workflow: jobs overlap, and outlast many renewals.
pub const LENGTHS_MS: Range<u64> = 60_000..420_000;
pub const FAULTS: &[&str] = &["net: loss", "worker: pause", "manager: pause"];

/// `Timing::election_min` and `election_max`, and a round of votes.
pub const ELECTION_MS: Range<u64> = 310..650;
const HOUR: Duration = Duration::from_secs(3_600);
const PAUSE_MS: Range<u64> = 50..1_000;
const SILENT_MS: u64 = 2_000;

pub fn plan(seed: u64) -> Plan {
    Plan {
        seed,
        workers: 5,
        managers: 3,
        cores: 4,
        jobs: 36,
        // A workflow has not more shards than users: so several jobs have room.
        vus: 4,
        abuse: HOUR,
        gap: Duration::from_secs(3),
        classes: BTreeSet::from([Class::Loss, Class::WorkerPause, Class::ManagerPause]),
        lease: fence::LeaseTerms::default().length(),
        word: Word::Swim,
        spares_the_living: true,
        // Two layers, and those before it in the queue.
        calm: HOUR / 2,
    }
}

impl Plan {
    /// For how long hosts stand still.
    pub fn pauses_ms(&self, usual: Range<u64>) -> Range<u64> {
        if self.word == Word::Swim { PAUSE_MS } else { usual }
    }

    /// How often workers send their statistics: each of these is a sign of life.
    pub fn post_every(&self, usual: Duration) -> Duration {
        if self.word == Word::Swim { Duration::from_millis(100) } else { usual }
    }

    /// An owner that has written to the ledger within this time is there.
    pub fn silent_ms(&self) -> u64 {
        if self.word == Word::Swim { SILENT_MS } else { 3_000 }
    }
}

/// The product's membership beside the fleet: managers first, then workers.
pub struct Members {
    world: members::World,
    managers: usize,
}

impl Members {
    pub fn new(plan: &Plan) -> Self {
        let voters = (0..plan.managers).map(members::node_id).collect();
        let settings = Settings { voters, ..Settings::default() };
        let mut world = members::World::new(plan.seed, plan.managers + plan.workers, &settings);
        world.weather = Weather { loss: f64::from(LOST) / 100.0, ..Weather::FINE };
        Self { world, managers: plan.managers }
    }

    fn index(&self, host: Host) -> usize {
        match host {
            Host::Manager(m) => m,
            Host::Worker(w) => self.managers + w,
        }
    }

    pub fn run(&mut self, time: Duration) {
        self.world.run(time);
    }

    pub fn pause(&mut self, host: Host) {
        self.world.break_down(self.index(host), Fault::Pause);
    }

    pub fn go_on(&mut self, host: Host) {
        self.world.recover(self.index(host));
    }

    pub fn calm(&mut self) {
        self.world.weather = Weather::FINE;
    }

    /// As `fleet::manager::roster` has it.
    pub fn is_live(&self, observer: Host, subject: Host) -> bool {
        let subject = members::node_id(self.index(subject));
        let table = self.world.get(self.index(observer)).map(::membership::Swim::table);
        let entry = table.and_then(|table| table.get(subject));
        entry.is_some_and(|entry| matches!(entry.state, State::Confirmed | State::Suspect))
    }
}

impl World {
    /// How late what a manager wants of the group is, because of loss, in milliseconds.
    pub(super) fn group_delay(&mut self, m: usize) -> u64 {
        if self.net.streams.is_none() {
            return 0;
        }
        let beat = ledger::config::Timing::default().heartbeat.as_millis() as u64;
        let lost = self.net.lost;
        let mut way = || {
            let mut late = 0;
            while self.rng.u8(..100) < lost {
                late += beat;
            }
            late
        };
        let majority = (way() + way()).min(way() + way());
        let to_leader = way() + way();
        majority + if self.book.leader == Some(m) { 0 } else { to_leader }
    }

    pub(super) fn calm_members(&mut self) {
        if let Some(members) = self.members_mut() {
            members.calm();
        }
    }
}
