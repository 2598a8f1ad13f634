//! What a seed does to a fleet: how many hosts and jobs, which classes of faults, how hard, for how
//! long.

use std::collections::BTreeSet;
use std::time::Duration;

use control::owner::{Manifest, OnWorkerLoss, Part, Policy};
use fastrand::Rng;
use schedule::allocation::{Basis, Need};

use crate::named;

named! {
    /// What is done to the fleet. A seed switches each class on or off.
    Class {
        Loss = "net: loss",
        Delay = "net: delay",
        Duplicate = "net: duplicate",
        OneWay = "net: one-way cut",
        Split = "net: split",
        /// One worker and one manager do not reach each other, in one direction or in both.
        Apart = "net: worker and manager apart",
        WorkerCrash = "worker: crash",
        /// Down for less than anybody needs to miss it.
        WorkerBlink = "worker: blink",
        WorkerPause = "worker: pause",
        WorkerDrain = "worker: drain",
        /// It runs on, and no manager hears it or is heard by it.
        WorkerAlone = "worker: alone",
        SlowDisk = "worker: slow disk",
        ManagerCrash = "manager: crash",
        ManagerPause = "manager: pause",
        AllManagers = "manager: all crash",
        /// Commits wait, as in an election.
        Stall = "ledger: stall",
        /// It is committed, and nobody is told.
        Unknown = "ledger: unknown",
        Clock = "clock: drift",
        Cancel = "job: cancel",
    }
}

named! {
    /// What a campaign must have seen.
    Mark {
        Completed = "a job completed",
        Cancelled = "a job was cancelled",
        Exact = "totals were exact",
        Short = "a kill cost counts",
        Takeover = "another owner took over",
        Revoked = "an attempt was revoked",
        AfterStop = "a retry after a stop",
        AfterBoot = "a retry after a restart",
        AfterLapse = "a retry after a lapse",
        Lapsed = "a worker fenced itself",
        Refused = "a renewal was refused",
        Redirected = "a tell was passed on",
        Relayed = "and a manager brought the answer back",
        LateReport = "a report of an ended job",
        Restored = "statistics were taken up",
        Repeated = "a frame came again",
        Queued = "a job waited for cores",
        SecondLayer = "a second layer ran",
        Opened = "a breaker opened",
        Closed = "a breaker closed again",
        IssuedExact = "issued was exact",
        IssuedBound = "issued was a bound",
        IssuedUnknown = "issued was unknown",
        WorkerLost = "load was lost and counted",
    }
}

/// The shape of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub workers: usize,
    pub managers: usize,
    pub cores: u32,
    pub jobs: usize,
    /// Virtual users of a job's largest workflow, at most.
    pub vus: u32,
    pub abuse: Duration,
    /// The mean time from one fault to the next.
    pub gap: Duration,
    pub classes: BTreeSet<Class>,
    pub lease: Duration,
    /// How nodes know of each other.
    pub word: Word,
    /// Nothing happens that a worker or an owner could be lost by: nobody may be taken for lost who
    /// lives.
    pub spares_the_living: bool,
    /// Within this time of calm all jobs have ended.
    pub calm: Duration,
}

/// How a node knows that another is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// It hears it itself.
    Own,
    /// It hears it, or somebody whom it hears does: what gossip and probes through others come to.
    Others,
    /// The product's own membership, on its own datagrams.
    Swim,
}

/// How large a fleet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Small,
    /// 64 workers, 10,000 virtual users.
    Large,
    /// An hour on a network that loses packets, see [`super::lossy`].
    Lossy,
}

/// Once nothing goes wrong any more, all jobs have ended within this time: a job waits 40 s for a
/// core at most, its layers take 20 s each, and stuck ones are noticed after two minutes.
const CALM: Duration = Duration::from_secs(400);

impl Plan {
    pub fn draw(seed: u64, size: Size) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x666c_6565_745f_3031);
        let share = 0.15 + 0.6 * rng.f64();
        let mut classes: BTreeSet<Class> =
            Class::ALL.iter().copied().filter(|_| rng.f64() < share).collect();
        if rng.u8(..10) == 0 {
            // Nothing goes wrong: then nothing may be missing.
            classes.clear();
        }
        // Now and then only such cuts as cannot keep a worker from renewing its leases (R26).
        let spares_the_living = rng.u8(..12) == 0;
        if spares_the_living {
            classes = BTreeSet::from([Class::Apart]);
        }
        let word = if spares_the_living || rng.bool() { Word::Others } else { Word::Own };
        if size == Size::Lossy {
            return super::lossy::plan(seed);
        }
        let large = size == Size::Large;
        Self {
            seed,
            workers: if large { 64 } else { rng.usize(3..=8) },
            managers: 3,
            cores: if large { 4 } else { rng.u32(1..=3) },
            jobs: if large { 4 } else { rng.usize(1..=5) },
            vus: if large { 2_500 } else { 24 },
            abuse: Duration::from_secs(rng.u64(25..70)),
            gap: Duration::from_millis(rng.u64(600..7_000)),
            classes,
            lease: Duration::from_millis(rng.u64(2_000..=6_000)),
            word,
            spares_the_living,
            calm: CALM,
        }
    }

    pub fn has(&self, class: Class) -> bool {
        self.classes.contains(&class)
    }

    /// A job: one to three workflows in one or two layers.
    pub fn manifest(&self, rng: &mut Rng) -> Manifest {
        let mut parts = vec![self.part("first", rng)];
        if rng.bool() {
            parts.push(self.part("side", rng));
        }
        if rng.bool() {
            let mut second = self.part("second", rng);
            (second.layer, second.depends_on) = (1, vec![0]);
            parts.push(second);
        }
        let on_worker_loss = match rng.u8(..6) {
            0 => OnWorkerLoss::Continue,
            1 => OnWorkerLoss::Fail,
            _ => OnWorkerLoss::Rebalance,
        };
        Manifest {
            workflows: parts,
            setup: rng.u8(..3) == 0,
            teardown: rng.u8(..3) == 0,
            data: Vec::new(),
            timeout: None,
            policy: Policy { on_worker_loss, ..Policy::default() },
        }
    }

    fn part(&self, name: &str, rng: &mut Rng) -> Part {
        let vus_max = if self.vus > 100 { self.vus } else { rng.u32(1..=self.vus) };
        let lengths =
            if self.word == Word::Swim { super::lossy::LENGTHS_MS } else { 2_000..20_000 };
        let length = Duration::from_millis(rng.u64(lengths));
        let iterations = super::engine::half_of_the_time(vus_max, length);
        let counted = schedule::Units::Shared { vus: vus_max, iterations };
        let units = match rng.u8(..6) {
            0 | 1 => counted,
            2 | 3 => super::engine::as_arrivals(vus_max, length),
            _ => schedule::Units::default(),
        };
        Part {
            name: name.to_owned(),
            depends_on: Vec::new(),
            layer: 0,
            is_test: true,
            priority: ::plan::Priority::Auto,
            vus_max,
            need: Need { cores: vus_max, basis: Basis::Users { most: vus_max } },
            requests_max: Some(1),
            is_open: units.is_open(),
            length,
            graceful_stop: Duration::from_secs(1),
            quiet: Duration::ZERO,
            units,
            setup: rng.u8(..5) == 0,
            teardown: false,
            provide: Vec::new(),
            uses: Vec::new(),
        }
    }
}

/// A host's own clock. It runs at its own rate, from its own beginning, and goes on while the
/// host's processes do not.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub base: Duration,
    /// Parts of a million of the true rate.
    pub rate: u64,
}

impl Clock {
    /// Any two of these differ by less than the factor that leases allow for (R4).
    pub fn draw(rng: &mut Rng, drifts: bool) -> Self {
        let rate = if drifts { rng.u64(900_000..=1_100_000) } else { 1_000_000 };
        Self { base: Duration::from_secs(rng.u64(1_000..900_000)), rate }
    }

    pub fn read(&self, now: Duration) -> fence::Moment {
        let ran = now.as_nanos() * u128::from(self.rate) / 1_000_000;
        fence::Moment::since_boot(self.base + Duration::from_nanos(ran as u64))
    }
}
