//! The experiments, each as a function of a seed, and what they found.

use std::collections::BTreeSet;
use std::time::Duration;

use ::membership::lifeguard::Patience;
use ::membership::{Event, Lifeguard, Settings};
use serde::Serialize;

use super::world::{Fault, SEEDS, World};

/// How long a receive path is held, in milliseconds: from a hiccup to half a minute.
const HOLDS_MS: [u64; 6] = [128, 512, 2048, 8192, 16384, 32768];

/// One run of the stall experiment.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Stalls {
    /// False deaths: of members that were well, recorded by anybody.
    pub false_deaths: u64,
    /// Of these, recorded by members that were well themselves.
    pub at_healthy: u64,
    /// Deaths of the stalled ones. Not false: for that long they were not there.
    pub of_stalled: u64,
    pub datagrams: u64,
    pub bytes: u64,
}

impl Stalls {
    pub fn add(&mut self, other: Self) {
        self.false_deaths += other.false_deaths;
        self.at_healthy += other.at_healthy;
        self.of_stalled += other.of_stalled;
        self.datagrams += other.datagrams;
        self.bytes += other.bytes;
    }
}

fn settings(alpha: f64, lifeguard: Lifeguard) -> Settings {
    Settings { alpha, lifeguard, ..Settings::default() }
}

fn warm(seed: u64, count: usize, settings: &Settings) -> World {
    let mut world = World::new(seed, count, settings);
    let _ = world.converge(warm_up(count, settings));
    world
}

/// Everybody has met everybody after two rounds of probes at most. Before that a death is found
/// more slowly: who has not met the dead one itself cannot suspect it.
fn warm_up(count: usize, settings: &Settings) -> Duration {
    settings.probe_period * (count as u32 * 4 + 120)
}

/// `stalled` of `count` members are cut off again and again, for each length in turn.
pub fn stalls(
    seed: u64,
    count: usize,
    stalled: usize,
    fault: Fault,
    alpha: f64,
    lifeguard: Lifeguard,
) -> Stalls {
    let settings = settings(alpha, lifeguard);
    let mut found = Stalls::default();
    for (number, hold) in HOLDS_MS.into_iter().enumerate() {
        let mut world = warm(seed.wrapping_mul(31) + number as u64, count, &settings);
        let mut slow = BTreeSet::new();
        while slow.len() < stalled {
            slow.insert(world.draw(count));
        }
        world.deaths.clear();
        let before = world.traffic;
        let hold = Duration::from_millis(hold);
        let rounds = (120.0 / (hold.as_secs_f64() + 1.0)).ceil() as u32;
        for _ in 0..rounds {
            slow.iter().for_each(|index| world.break_down(*index, fault));
            world.run(hold);
            slow.iter().for_each(|index| world.recover(*index));
            world.run(settings.probe_period);
        }
        world.run(settings.probe_period * 10);
        for death in &world.deaths {
            if slow.contains(&death.subject) {
                found.of_stalled += 1;
            } else {
                found.false_deaths += 1;
                found.at_healthy += u64::from(!slow.contains(&death.observer));
            }
        }
        found.datagrams += world.traffic.datagrams - before.datagrams;
        found.bytes += world.traffic.bytes - before.bytes;
    }
    found
}

/// How long it takes to know of a death, in probe periods.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Detection {
    pub members: usize,
    pub alpha: f64,
    pub lifeguard: bool,
    /// Until the first one knew, and until all did, for each death.
    pub first: Vec<f64>,
    pub all: Vec<f64>,
    /// What the formula gives for the median and for one in a hundred.
    pub predicted_p50: f64,
    pub predicted_p99: f64,
    pub false_deaths: usize,
}

impl Detection {
    /// The same with other deaths.
    pub fn add(&mut self, other: Self) {
        self.first.extend(other.first);
        self.all.extend(other.all);
        self.false_deaths += other.false_deaths;
    }
}

pub fn detection(
    seed: u64,
    count: usize,
    victims: usize,
    alpha: f64,
    lifeguard: Lifeguard,
) -> Detection {
    let settings = settings(alpha, lifeguard);
    let mut world = warm(seed, count, &settings);
    let (mut first, mut all) = (Vec::new(), Vec::new());
    let mut false_deaths = 0;
    let patience = Patience::of(&settings, count);
    for number in 0..victims {
        // Seeds stay, and nobody dies twice before the others have had their turn.
        let victim = SEEDS + number % (count - SEEDS);
        world.deaths.clear();
        let offset = world.draw(1000) as u32;
        world.run(settings.probe_period * offset / 1000);
        let at = world.now;
        world.crash(victim);
        world.run(patience.min * 2 + settings.probe_period * 15);
        let mut times: Vec<_> = world
            .deaths
            .iter()
            .filter(|death| death.subject == victim)
            .map(|death| periods(death.at - at, &settings))
            .collect();
        false_deaths += world.deaths.iter().filter(|death| death.subject != victim).count();
        times.sort_by(f64::total_cmp);
        first.push(times.first().copied().unwrap_or(f64::INFINITY));
        let everybody = count - 1;
        all.push(if times.len() >= everybody { times[everybody - 1] } else { f64::INFINITY });
        // It comes back, so that the cluster keeps its size.
        world.restart(victim, false);
        world.run(settings.probe_period * 10);
    }
    let (predicted_p50, predicted_p99) = predict(&settings, count);
    Detection {
        members: count,
        alpha,
        lifeguard: lifeguard.suspicion,
        first,
        all,
        predicted_p50,
        predicted_p99,
        false_deaths,
    }
}

/// Time from a crash to everybody knowing it, in periods.
///
/// A dead member is picked by nobody for `k` periods with probability `e^-k`; a probe takes a
/// period to fail; then the suspicion runs its minimum, provided that the confirmations come before
/// it ends (one member a period finds out by itself, so they do from a minimum of about four
/// periods up); then gossip has to reach everybody, which takes some `log2(n)` rounds.
fn predict(settings: &Settings, count: usize) -> (f64, f64) {
    let period = settings.probe_period.as_secs_f64();
    let patience = Patience::of(settings, count);
    let min = patience.min.as_secs_f64() / period;
    let round = settings.gossip_period.as_secs_f64() / period;
    let gossip = (count as f64).log2() * round;
    let tick = settings.tick().as_secs_f64() / period;
    // Until the confirmations that bring the timeout down have come, drawn one a period each, at
    // p99 of their sum.
    let needed = f64::from(patience.confirmations);
    let confirm_p99 = needed + 2.33 * needed.sqrt() + 1.0 + gossip;
    let p50 = 2f64.ln() + 1.0 + min + gossip + tick;
    let p99 = 100f64.ln() + 1.0 + min.max(confirm_p99) + 2.0 * gossip + tick;
    (p50, p99)
}

pub fn percentile(values: &[f64], share: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * share).round() as usize).copied().unwrap_or(f64::NAN)
}

/// A full split in halves, long enough that each buries the other, and then healed.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Heal {
    pub members: usize,
    pub buried: usize,
    /// In periods; `None` if they had not merged after the bound.
    pub merged: Option<f64>,
    pub bound: f64,
}

pub fn heal(seed: u64, count: usize) -> Heal {
    let settings = settings(4.0, Lifeguard::ON);
    let mut world = warm(seed, count, &settings);
    let period = settings.probe_period.as_secs_f64();
    world.deaths.clear();
    world.split = true;
    world.run(Patience::of(&settings, count).max * 2 + settings.probe_period * count as u32);
    let buried = world.deaths.len();
    world.split = false;
    let bound = settings.probe_period * 10 + settings.exchange_period() * 2;
    let merged = world.converge(bound * 2).map(|time| time.as_secs_f64() / period);
    Heal { members: count, buried, merged, bound: bound.as_secs_f64() / period }
}

/// A long time under loss, then none.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Lossy {
    pub members: usize,
    pub loss: f64,
    pub hours: f64,
    pub false_deaths: usize,
    /// Suspicions that began somewhere, per member and hour. None of them was right.
    pub suspicions: f64,
    /// Periods until everybody had confirmed everybody again.
    pub converged: Option<f64>,
}

pub fn lossy(seed: u64, count: usize, loss: f64, time: Duration) -> Lossy {
    let settings = settings(4.0, Lifeguard::ON);
    let mut world = warm(seed, count, &settings);
    let suspicions =
        |world: &World| world.members().map(|swim| swim.counters().suspicions_started).sum::<u64>();
    world.deaths.clear();
    let before = suspicions(&world);
    world.weather.loss = loss;
    world.run(time);
    let false_deaths = world.deaths.len();
    let hours = time.as_secs_f64() / 3600.0;
    // Everybody but the suspect hears of it.
    let started = (suspicions(&world) - before) as f64 / (count - 1) as f64;
    world.weather.loss = 0.0;
    let converged =
        world.converge(settings.probe_period * 200).map(|time| periods(time, &settings));
    let suspicions = started / (count as f64 * hours);
    Lossy { members: count, loss, hours, false_deaths, suspicions, converged }
}

fn periods(time: Duration, settings: &Settings) -> f64 {
    time.as_secs_f64() / settings.probe_period.as_secs_f64()
}

/// What membership costs each member when nothing happens.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cost {
    pub members: usize,
    pub datagrams: f64,
    pub bytes: f64,
    pub exchanged_bytes: f64,
    /// Processor time of one member by itself, in microseconds per second.
    pub cpu_us: f64,
    pub deaths: usize,
}

/// So long the cost is measured.
const COST_SECONDS: u64 = 120;

pub fn cost(seed: u64, count: usize) -> Cost {
    let settings = settings(4.0, Lifeguard::ON);
    let member = count / 2;
    let mut world = World::recording(seed, count, &settings, Some(member));
    let _ = world.converge(warm_up(count, &settings));
    // What the joins left to gossip about has been told by then.
    world.run(settings.probe_period * 30);
    let before = world.traffic;
    let start = world.local(member);
    world.deaths.clear();
    world.run(Duration::from_secs(COST_SECONDS));
    let per = (count as u64 * COST_SECONDS) as f64;
    Cost {
        members: count,
        datagrams: (world.traffic.datagrams - before.datagrams) as f64 / per,
        bytes: (world.traffic.bytes - before.bytes) as f64 / per,
        exchanged_bytes: (world.traffic.exchanged_bytes - before.exchanged_bytes) as f64 / per,
        cpu_us: cpu_of_one(&mut world, member, start).as_secs_f64() * 1e6 / COST_SECONDS as f64,
        deaths: world.deaths.len(),
    }
}

/// Runs one member again, alone: a thousand of them in turn would measure the memory of this
/// machine. The best of five, as anything else can only add.
fn cpu_of_one(world: &mut World, member: usize, start: Duration) -> Duration {
    let Some((_, events)) = world.record.take() else { return Duration::ZERO };
    let run = || {
        let mut twin = world.twin(member);
        let mut events = events.iter().cloned();
        let mut clock = Duration::ZERO;
        let mut effects = 0;
        for (at, event) in events.by_ref() {
            if at > start && clock.is_zero() {
                clock = cpu_time();
            }
            if matches!(event, Event::PushPull(_)) {
                // The shell has asked for it before.
                effects += twin.digest().members as usize;
            }
            effects += twin.step(event, at).len();
        }
        // The clone of an event is a copy of its bytes, which a socket would make as well.
        let used = cpu_time().saturating_sub(clock);
        std::hint::black_box(effects);
        used
    };
    (0..5).map(|_| run()).min().unwrap_or_default()
}

/// What this thread has used of the processor.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to what it is given, and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A process is paused for twice the longest time-out.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Paused {
    pub before_drained: usize,
    pub after_drained: usize,
    pub converged: Option<f64>,
}

pub fn pause(seed: u64, count: usize) -> Paused {
    let settings = settings(4.0, Lifeguard::ON);
    let mut world = warm(seed, count, &settings);
    let paused = world.draw(count);
    // Caught in the middle of a suspicion: a member has just died, and its deadline passes during
    // the pause.
    let victim = (paused + 7) % count;
    world.crash(victim);
    world.run(settings.probe_period * 5);
    let mine = |world: &World| {
        world
            .deaths
            .iter()
            .filter(|death| death.observer == paused && death.subject != victim)
            .count()
    };
    world.deaths.clear();
    world.break_down(paused, Fault::Pause);
    world.run(Patience::of(&settings, count).max * 2);
    world.resume_clock_only(paused);
    let before_drained = world.deaths.iter().filter(|death| death.observer == paused).count();
    world.recover(paused);
    let converged =
        world.converge(settings.probe_period * 200).map(|time| periods(time, &settings));
    Paused { before_drained, after_drained: mine(&world), converged }
}
