//! Does harm to the members as the plan says, and takes it back.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::event;

use super::check::Checks;
use super::plan::{Class, Plan};
use super::world::{Fault, SEEDS, Weather, World};

/// Harm that is taken back at its time.
#[derive(Clone, Debug)]
enum Harm {
    Weather,
    Cuts(Vec<(usize, usize)>),
    Split,
    Broken(usize),
    Clock(usize),
    Down { index: usize, moved: bool },
}

pub struct Chaos {
    pub plan: Plan,
    /// Faults really injected, by class.
    pub done: BTreeMap<String, u64>,
    rng: fastrand::Rng,
    harms: Vec<(Duration, Harm)>,
    next: Duration,
}

fn between(rng: &mut fastrand::Rng, least_ms: u64, most_ms: u64) -> Duration {
    // Most are short; some are long.
    let share = rng.f64() * rng.f64();
    Duration::from_millis(least_ms + ((most_ms - least_ms) as f64 * share) as u64)
}

impl Chaos {
    pub fn new(plan: Plan) -> Self {
        let rng = fastrand::Rng::with_seed(plan.seed ^ 0x6368_616f_7321);
        // Time to find each other, in most runs.
        let next = Duration::from_secs(if plan.seed.is_multiple_of(8) { 0 } else { 15 });
        Self { plan, done: BTreeMap::new(), rng, harms: Vec::new(), next }
    }

    pub fn step(&mut self, world: &mut World, checks: &mut Checks) {
        self.heal_what_is_due(world, checks);
        if world.now < self.next {
            return;
        }
        let gap = self.plan.gap.mul_f64(self.rng.f64() * 2.0);
        self.next = world.now + gap;
        if let Some(loss) = self.plan.only_loss {
            if world.weather.loss == 0.0 {
                world.weather.loss = loss;
                self.count(Class::Loss);
            }
            return;
        }
        let classes: Vec<Class> = self.plan.classes.iter().copied().collect();
        if let Some(class) = self.rng.choice(classes) {
            self.harm(class, world, checks);
        }
    }

    fn count(&mut self, class: Class) {
        *self.done.entry(class.name().to_owned()).or_default() += 1;
    }

    fn until(&mut self, world: &World, least_ms: u64, most_ms: u64, harm: Harm) {
        let at = world.now + between(&mut self.rng, least_ms, most_ms);
        self.harms.push((at, harm));
    }

    /// Somebody who runs and has nothing wrong.
    fn somebody(&mut self, world: &World) -> Option<usize> {
        let fit: Vec<usize> = (0..world.count())
            .filter(|index| world.get(*index).is_some() && world.fault(*index).is_none())
            .filter(|index| !world.is_leaving(*index))
            .collect();
        self.rng.choice(fit)
    }

    fn harm(&mut self, class: Class, world: &mut World, checks: &mut Checks) {
        let count = world.count();
        let running = (0..count).filter(|index| world.get(*index).is_some()).count();
        let somebody = self.somebody(world);
        match class {
            Class::Loss | Class::Delay | Class::Duplicate | Class::Reorder => {
                self.change_weather(class, world);
            }
            Class::OneWay => {
                let (a, b) = (self.rng.usize(..count), self.rng.usize(..count));
                // One link, or everything that somebody sends, or everything that is sent to it.
                let cuts: Vec<_> = match self.rng.u8(..3) {
                    0 => vec![(a, b)],
                    1 => (0..count).map(|to| (a, to)).collect(),
                    _ => (0..count).map(|from| (from, b)).collect(),
                };
                world.cuts.extend(cuts.iter().copied());
                self.until(world, 200, 60_000, Harm::Cuts(cuts));
            }
            Class::Split if !world.split => {
                let edge = self.rng.usize(1..count.max(2));
                for index in 0..count {
                    let side = if self.rng.bool() { index >= edge } else { self.rng.bool() };
                    world.set_side(index, u8::from(side));
                }
                world.split = true;
                self.until(world, 1_000, 90_000, Harm::Split);
            }
            Class::Pause | Class::StallReceive | Class::StallBoth => {
                let Some(index) = somebody else { return };
                let fault = match class {
                    Class::Pause => Fault::Pause,
                    Class::StallReceive => Fault::Receive,
                    _ => Fault::Both,
                };
                world.break_down(index, fault);
                self.until(world, 100, 90_000, Harm::Broken(index));
            }
            Class::ClockSlow | Class::ClockFast => {
                let Some(index) = somebody else { return };
                let factor = 1.0 + self.rng.f64() * 2.0;
                let rate = if class == Class::ClockFast { factor } else { factor.recip() };
                world.set_clock_rate(index, rate);
                self.until(world, 1_000, 60_000, Harm::Clock(index));
            }
            Class::Crash | Class::Restart | Class::Move | Class::Blink if running > 1 => {
                let Some(index) = somebody else { return };
                // Everybody knows the addresses of the seeds by heart.
                let moved = class == Class::Move && index >= SEEDS;
                if class == Class::Move && !moved {
                    return;
                }
                checks.crashed(world, index);
                world.crash(index);
                match class {
                    // Stays down until it is calm, or for ever.
                    Class::Crash => {}
                    Class::Blink => self.until(world, 100, 3_000, Harm::Down { index, moved }),
                    _ => self.until(world, 100, 90_000, Harm::Down { index, moved }),
                }
            }
            Class::Leave if running > 2 => {
                let Some(index) = somebody else { return };
                let quiet = self.harms.is_empty() && checks.is_whole(world);
                checks.leaves(world, index, quiet);
                world.leave(index);
                if quiet {
                    // Left in peace: nothing else goes wrong until everybody must have heard it.
                    self.next = world.now + self.plan.settings.probe_period * 10;
                }
            }
            Class::Join if count < self.plan.members * 2 + 4 => {
                world.join();
            }
            Class::Rack => {
                self.lose_rack(world, checks);
                return;
            }
            _ => return,
        }
        event!("{}", class.name());
        self.count(class);
    }

    fn change_weather(&mut self, class: Class, world: &mut World) {
        let rng = &mut self.rng;
        let weather = &mut world.weather;
        match class {
            Class::Loss => weather.loss = 0.02 + 0.5 * rng.f64() * rng.f64(),
            Class::Duplicate => weather.duplicate = 0.05 + 0.5 * rng.f64(),
            Class::Reorder => {
                weather.reorder = 0.05 + 0.4 * rng.f64();
                weather.late = between(rng, 10, 5_000);
            }
            _ => {
                let least = between(rng, 1, 300);
                weather.latency = (least, least + between(rng, 1, 600));
            }
        }
        self.until(world, 1_000, 60_000, Harm::Weather);
    }

    fn lose_rack(&mut self, world: &mut World, checks: &mut Checks) {
        let workers: Vec<usize> =
            (SEEDS..world.count()).filter(|index| world.get(*index).is_some()).collect();
        if workers.len() < 3 {
            return;
        }
        let lost = workers.len() / 2 + 1 + self.rng.usize(..workers.len() / 2);
        event!("{} of {} workers are lost", lost, workers.len());
        for index in workers.into_iter().take(lost) {
            checks.crashed(world, index);
            world.crash(index);
        }
        self.count(Class::Rack);
    }

    fn heal_what_is_due(&mut self, world: &mut World, checks: &mut Checks) {
        let now = world.now;
        let (due, later) =
            std::mem::take(&mut self.harms).into_iter().partition(|(at, _)| *at <= now);
        self.harms = later;
        let due: Vec<(Duration, Harm)> = due;
        for (_, harm) in due {
            self.heal(&harm, world, checks);
        }
    }

    fn heal(&mut self, harm: &Harm, world: &mut World, checks: &mut Checks) {
        event!("healed: {harm:?}");
        match harm {
            Harm::Weather => world.weather = Weather::FINE,
            Harm::Cuts(cuts) => cuts.iter().for_each(|cut| {
                world.cuts.remove(cut);
            }),
            Harm::Split => world.split = false,
            Harm::Broken(index) => world.recover(*index),
            Harm::Clock(index) => world.set_clock_rate(*index, 1.0),
            // Whoever crashed in between and was started by somebody else runs already.
            Harm::Down { index, .. } if world.get(*index).is_some() => {}
            Harm::Down { index, moved } => {
                checks.restarts(world, *index);
                world.restart(*index, *moved);
            }
        }
    }

    /// Everything is well from now on. Who is down stays so, or comes back now.
    pub fn stop(&mut self, world: &mut World, checks: &mut Checks) {
        for (_, harm) in std::mem::take(&mut self.harms) {
            self.heal(&harm, world, checks);
        }
        world.weather = Weather::FINE;
        for index in 0..world.count() {
            // Without a majority of the voters nobody may be declared dead, and without a seed
            // nobody can join.
            let comes_back = index < SEEDS || self.rng.u8(..3) == 0;
            if world.get(index).is_none() && comes_back {
                checks.restarts(world, index);
                world.restart(index, false);
            }
        }
        if self.plan.has(Class::Rack) && !self.plan.settings.voters.is_empty() && self.rng.bool() {
            self.lose_rack(world, checks);
        }
    }
}
