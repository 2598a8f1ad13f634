//! What a seed does to a cluster: how many hosts and jobs, which classes of faults, how hard, for
//! how long.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use fastrand::Rng;

use crate::named;

named! {
    /// What is done to the cluster. A seed switches each class on or off.
    Class {
        Loss = "net: loss",
        Slow = "net: slow link",
        OneWay = "net: one-way cut",
        Split = "net: split",
        /// One worker and one manager do not reach each other, in one direction or in both.
        Apart = "net: worker and manager apart",
        WorkerCrash = "worker: crash",
        /// Down for less than anybody needs to miss it.
        WorkerBlink = "worker: blink",
        WorkerPause = "worker: pause",
        /// It is told to end, and starts again.
        WorkerShutdown = "worker: graceful restart",
        /// It runs on, and no manager hears it or is heard by it.
        WorkerAlone = "worker: alone",
        ManagerCrash = "manager: crash",
        ManagerPowerLoss = "manager: power loss",
        ManagerPause = "manager: pause",
        AllManagers = "manager: all crash",
        /// One after the other, each when the one before is back.
        RollingRestart = "manager: rolling restart",
        /// A file of statistics is damaged on one manager: other bytes, fewer, or more.
        Checkpoint = "manager: damaged checkpoint",
        /// A blob is gone from the disks of all managers but one.
        LostBlob = "manager: lost blob",
        /// An owner does not hear from the ledger that it was replaced; everybody else does.
        StaleOwner = "manager: owner without its ledger",
        /// An owner crashes, and the only other copy of its newest checkpoint is damaged.
        DamagedTakeover = "manager: damaged checkpoint at a takeover",
        /// An owner crashes while a worker is alone.
        OwnerAndWorker = "manager: owner crashes, worker alone",
        /// A fourth one comes in and the first goes, while others stand still.
        Voters = "manager: voters change",
        EngineUnprepared = "engine: cannot be prepared",
        EngineFails = "engine: fails",
        /// Its counts go with it.
        EngineCrashes = "engine: crashes",
        IgnoresKill = "engine: ignores a kill",
        /// Users come to their ends ten times as quickly at times.
        Bursts = "load: bursts",
        ScriptAborts = "job: its script aborts it",
        Timeout = "job: short timeout",
        Threshold = "job: threshold that aborts",
        Cancel = "job: cancel",
        CancelNow = "job: cancel at once",
        Pause = "job: pause and resume",
        Scale = "job: scale",
        Lease = "limits: another lease",
        /// Each manager has a length of its own in its settings.
        LeasesDiffer = "limits: leases differ",
        /// Owners keep no statistics of an attempt's end that are larger than almost nothing.
        SmallReports = "limits: reports too large",
        /// Jobs and blobs are forgotten while others run.
        Retention = "limits: short retention",
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
        Retried = "a lost shard ran again",
        WorkerLost = "load was lost and counted",
        IssuedExact = "issued was exact",
        IssuedBound = "issued was a bound",
        IssuedUnknown = "issued was unknown",
        Degraded = "a verdict said that load was missing",
        Timeout = "a job ran out of time",
        Threshold = "a threshold ended a job",
        Aborted = "a script ended a job",
        Failed = "a job failed",
        Rows = "rows that must not repeat were used",
        RowsExhausted = "a data set had no row left",
        Resubmitted = "a submission was asked for again",
        LateAnswer = "a client waited for a manager",
        Paused = "a job was paused and went on",
        Scaled = "a load was changed",
        VotersChanged = "voters were changed",
        Expired = "an ended job was forgotten",
        Collected = "the blobs of forgotten jobs were collected",
    }
}

/// What a run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Many faults on few hosts.
    Usual,
    /// The same on many workers with thousands of virtual users.
    Large,
    /// Nothing but loss and short pauses: nobody may be taken for dead.
    Lossy,
}

/// The faults of a lossy run.
pub const LOSSY: [Class; 3] = [Class::Loss, Class::WorkerPause, Class::ManagerPause];
pub const LOSSY_NAMES: &[&str] = &[LOSSY[0].name(), LOSSY[1].name(), LOSSY[2].name()];
/// Of a hundred packets of a lossy run.
pub const LOST: u8 = 20;

/// The shape of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub size: Size,
    pub managers: usize,
    pub workers: usize,
    pub cores: u32,
    pub jobs: Vec<Job>,
    pub abuse: Duration,
    /// The mean time from one fault to the next.
    pub gap: Duration,
    pub classes: BTreeSet<Class>,
    /// Few faults that belong together, on jobs that last; see [`FOCUSED`].
    pub focused: bool,
    /// By manager.
    pub leases: Vec<Duration>,
    pub latency: (Duration, Duration),
}

/// A job as its user writes it.
#[derive(Clone, Debug)]
pub struct Job {
    pub name: String,
    pub text: String,
    pub at: Duration,
    /// With the file of its data set.
    pub rows: bool,
}

/// Once nothing goes wrong any more, all jobs have ended within this time: a job waits two minutes
/// for a core at most, its layers take 20 s each, and stuck ones are noticed after two minutes.
pub const CALM: Duration = Duration::from_secs(400);
/// How often hosts run.
pub const TICK: Duration = Duration::from_millis(10);
/// Rows of a data set.
pub const ROWS: usize = 400;

/// As many as run within some seconds of processor time.
const LARGE_WORKERS: usize = 32;

/// Managers that found the ledger; one more may come in later.
pub const FOUNDERS: usize = 3;

/// Faults that belong together, because a promise shows only where several of them meet. Some seeds
/// have one of these and nothing else.
const FOCUSED: [&[Class]; 8] = [
    // A replaced owner must not have checkpoints acknowledged that its successor has not read.
    &[Class::StaleOwner],
    // A new owner waits for the lease that was granted, and its own would be shorter.
    &[Class::Lease, Class::OwnerAndWorker],
    // No iteration is begun that was not granted, however quick users are before they are lost.
    &[Class::Bursts, Class::WorkerAlone, Class::WorkerCrash],
    // A damaged checkpoint is not the same as none.
    &[Class::DamagedTakeover],
    // Nothing is sent by a thread that does not hear its kill.
    &[Class::IgnoresKill, Class::WorkerAlone, Class::CancelNow],
    // Voters change only when running jobs have checkpoints with the present ones.
    &[Class::Voters],
    // Blobs are found wherever they are, and are kept as long as a job needs them.
    &[Class::LostBlob, Class::Retention, Class::ManagerCrash],
    // A pause reaches every attempt, also those that begin later.
    &[Class::Pause, Class::ManagerCrash, Class::WorkerCrash],
];

impl Plan {
    pub fn draw(seed: u64, size: Size) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x636c_7573_7465_7231);
        let (classes, focused) = match size {
            Size::Lossy => (BTreeSet::from(LOSSY), false),
            Size::Usual | Size::Large => classes(&mut rng),
        };
        let (seconds, jobs) = match (size, focused) {
            (Size::Lossy, _) => (240..300, 8),
            (Size::Large, _) => (30..40, 2),
            (Size::Usual, true) => (35..60, 2),
            (Size::Usual, false) => (20..60, 3),
        };
        let abuse = Duration::from_secs(rng.u64(seconds));
        let jobs = 0..if size == Size::Lossy { jobs } else { rng.usize(1..=jobs) };
        let loads = Loads::of(size, focused, classes.contains(&Class::Bursts));
        let jobs = jobs.map(|number| job(number, &mut rng, abuse, &classes, &loads)).collect();
        let slowest = Duration::from_millis(rng.u64(2..30));
        let managers = FOUNDERS + usize::from(classes.contains(&Class::Voters));
        // Whoever changes a lease mostly makes it shorter.
        let lease = match (classes.contains(&Class::Lease), focused) {
            (true, true) => rng.u64(12_000..=20_000),
            (true, false) => rng.u64(2_000..=20_000),
            (false, _) => rng.u64(2_000..=6_000),
        };
        let differ = classes.contains(&Class::LeasesDiffer);
        let leases = (0..managers).map(|_| if differ { rng.u64(2_000..=6_000) } else { lease });
        let leases = leases.map(Duration::from_millis).collect();
        let gap = if focused { 5_000..9_000 } else { 1_500..9_000 };
        let (workers, cores) = match size {
            Size::Usual => (rng.usize(2..=4), rng.u32(1..=2)),
            Size::Large => (LARGE_WORKERS, 4),
            Size::Lossy => (5, 4),
        };
        Self {
            seed,
            size,
            managers,
            leases,
            workers,
            cores,
            jobs,
            abuse,
            gap: Duration::from_millis(rng.u64(gap)),
            classes,
            focused,
            latency: (Duration::from_millis(1), slowest),
        }
    }

    pub fn has(&self, class: Class) -> bool {
        self.classes.contains(&class)
    }

    /// Nothing happens to machines and network that anybody could be lost by.
    pub fn is_mild(&self) -> bool {
        self.size == Size::Lossy || self.classes.iter().all(|class| class.is_mild())
    }

    /// Attempts may fail by themselves, or be ended by their script.
    pub fn attempts_fail(&self) -> bool {
        let fails = |class: &Class| class.name().starts_with("engine: ");
        self.classes.iter().any(fails) || self.has(Class::ScriptAborts)
    }
}

/// The faults of a seed, and whether they are a choice of those that belong together.
fn classes(rng: &mut Rng) -> (BTreeSet<Class>, bool) {
    let share = 0.1 + 0.5 * rng.f64();
    // Most jobs come to their end: whatever ends one hides what would have come later.
    let share_of = |class: &Class| if ends_jobs(class) { share / 3.0 } else { share };
    let drawn = Class::ALL.iter().copied().filter(|class| rng.f64() < share_of(class));
    let drawn: BTreeSet<Class> = drawn.collect();
    let classes = match rng.u8(..24) {
        // Nothing goes wrong: then nothing may be missing.
        0..2 => BTreeSet::new(),
        // Only such cuts as cannot keep a worker from renewing its leases (R26).
        2..4 => BTreeSet::from([Class::Apart]),
        // Machines and network are sound: then nobody is taken for lost.
        4..7 => drawn.into_iter().filter(|class| class.is_mild()).collect(),
        7..16 => {
            let focus = FOCUSED[rng.usize(..FOCUSED.len())];
            return (focus.iter().copied().collect(), true);
        }
        _ => drawn,
    };
    (classes, false)
}

impl Class {
    /// Happens at a moment, and again and again. The others hold all the time, befall attempts, or
    /// are what users do.
    pub fn is_moment(self) -> bool {
        let name = self.name();
        let host = ["net: ", "worker: ", "manager: "].iter().any(|kind| name.starts_with(kind));
        host && !matches!(self, Self::Loss | Self::Voters)
    }

    /// Befalls a manager that owns a job.
    pub fn is_of_owners(self) -> bool {
        matches!(self, Self::StaleOwner | Self::DamagedTakeover | Self::OwnerAndWorker)
    }

    /// Leaves machines and network alone, or cuts no more than one way of several.
    fn is_mild(self) -> bool {
        let kept = matches!(self, Self::Apart | Self::Checkpoint | Self::LostBlob);
        kept || !self.is_moment() && !matches!(self, Self::Loss | Self::Voters)
    }
}

fn ends_jobs(class: &Class) -> bool {
    matches!(
        class,
        Class::EngineUnprepared
            | Class::EngineFails
            | Class::EngineCrashes
            | Class::ScriptAborts
            | Class::Timeout
            | Class::Threshold
            | Class::Cancel
            | Class::CancelNow
    )
}

/// A plan with one to three workflows in one or two layers.
fn job(
    number: usize,
    rng: &mut Rng,
    abuse: Duration,
    classes: &BTreeSet<Class>,
    loads: &Loads,
) -> Job {
    let name = format!("job-{number}");
    // A thousand users would have used all rows at once.
    let rows = rng.u8(..4) == 0 && *loads.vus.end() <= 100;
    let mut text = format!("name: {name}\ntarget: http://127.0.0.1:9\n");
    if classes.contains(&Class::Timeout) {
        let _ = writeln!(text, "timeout: {}s", rng.u32(3..15));
    }
    if classes.contains(&Class::Threshold) {
        let most = rng.u32(5..200);
        let hold = format!("metric: http_reqs, hold: count < {most}, abort: true");
        let _ = writeln!(text, "thresholds: [ {{ {hold} }} ]");
    }
    if rows {
        text.push_str("data: { users: { file: users.csv, order: unique-per-iteration } }\n");
    }
    for (hook, one_in) in [("setup", 3), ("teardown", 3)] {
        if rng.u8(..one_in) == 0 {
            let _ = writeln!(text, "{hook}: [ {{ get: /{hook} }} ]");
        }
    }
    let side = rng.bool();
    let second = rng.bool();
    text.push_str("workflows:\n");
    for (workflow, needs) in [("first", None), ("side", None), ("second", Some("first"))] {
        if workflow == "side" && !side || workflow == "second" && !second {
            continue;
        }
        let load = load(rng, loads);
        let needs = needs.map(|one| format!(", depends_on: [ {one} ]")).unwrap_or_default();
        let path = if rows { "/${data.users.name}" } else { "/" };
        let _ = writeln!(
            text,
            "  - {{ name: {workflow}{needs}, load: {{ {load}, graceful_stop: 1s }}, steps: [ {{ get: \"{path}\" }} ] }}"
        );
    }
    let latest_ms = if loads.early { 4_000 } else { abuse.as_millis() as u64 * 2 / 3 };
    let at = Duration::from_millis(rng.u64(500..latest_ms));
    Job { name, text, at, rows }
}

/// How large the loads of a run's jobs are.
struct Loads {
    vus: RangeInclusive<u64>,
    lengths_ms: Range<u64>,
    /// Counted iterations for each user and second.
    per_second: u64,
    /// Jobs come at the beginning, so that faults meet all of them.
    early: bool,
}

impl Loads {
    fn of(size: Size, focused: bool, bursts: bool) -> Self {
        let (vus, lengths_ms) = match (size, focused) {
            (Size::Usual, false) => (1..=16, 2_000..20_000),
            (Size::Usual, true) => (1..=16, 15_000..35_000),
            (Size::Large, _) => (500..=5_000, 8_000..20_000),
            (Size::Lossy, _) => (1..=16, 20_000..60_000),
        };
        // Half of what there is time for, or a little less than all.
        let per_second = if bursts { 5 } else { 1 };
        Self { vus, lengths_ms, per_second, early: focused || size == Size::Large }
    }
}

fn load(rng: &mut Rng, loads: &Loads) -> String {
    let (vus, length_ms) = (rng.u64(loads.vus.clone()), rng.u64(loads.lengths_ms.clone()));
    match rng.u8(..6) {
        0 | 1 => {
            let iterations = (vus * length_ms * loads.per_second / 1_000).max(1);
            format!("vus: {vus}, iterations: {iterations}, max_duration: {length_ms}ms")
        }
        2 | 3 => format!("rate: {}/s, duration: {length_ms}ms, max_vus: 50", vus * 2),
        _ => format!("vus: {vus}, duration: {length_ms}ms"),
    }
}
