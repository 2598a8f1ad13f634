//! What is done to the fleet while it works, and how all of it is undone.

use std::collections::BTreeMap;
use std::time::Duration;

use control::worker::Event;
use ledger_state::Command;

use super::lossy;
use super::manager::What;
use super::plan::{Class, Word};
use super::world::{Host, World};
use crate::event;

/// Something that ends by itself.
enum Undo {
    Start(Host),
    Link(Host, Host),
    Join,
    Quiet,
}

#[derive(Default)]
pub struct Chaos {
    undo: Vec<(Duration, Undo)>,
    next: Duration,
}

impl Chaos {
    /// Settings that hold for the whole abuse.
    pub fn begin(&mut self, world: &mut World) {
        let (plan, rng) = (world.plan.clone(), &mut world.rng);
        let net = &mut world.net;
        net.lost = if plan.has(Class::Loss) { rng.u8(1..15) } else { 0 };
        net.repeated = if plan.has(Class::Duplicate) { rng.u8(1..25) } else { 0 };
        net.slow_ms = if plan.has(Class::Delay) { rng.u64(5..700) } else { 0 };
        if plan.word == Word::Swim {
            (net.lost, net.streams) = (lossy::LOST, Some(BTreeMap::new()));
        }
        world.book.unknown = if plan.has(Class::Unknown) { rng.u8(2..30) } else { 0 };
        if plan.has(Class::SlowDisk) {
            world.workers.iter_mut().for_each(|host| host.disk.slow = rng.bool());
        }
        self.next = Duration::from_secs(1);
    }

    pub fn step(&mut self, world: &mut World) {
        let now = world.now;
        let (due, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.undo).into_iter().partition(|(at, _)| *at <= now);
        self.undo = rest;
        due.into_iter().for_each(|(_, undo)| mend(world, &undo));
        if now < self.next {
            return;
        }
        let gap = world.plan.gap.mul_f64(world.rng.f64() * 2.0);
        self.next = now + gap;
        let blows: Vec<Class> =
            world.plan.classes.iter().copied().filter(|class| is_blow(*class)).collect();
        if !blows.is_empty() {
            let class = blows[world.rng.usize(..blows.len())];
            self.strike(world, class);
        }
    }

    fn later(&mut self, world: &mut World, ms: std::ops::Range<u64>, undo: Undo) {
        let at = world.now + world.some_ms(ms);
        self.undo.push((at, undo));
    }

    fn strike(&mut self, world: &mut World, class: Class) {
        let w = Host::Worker(world.rng.usize(..world.workers.len()));
        let m = Host::Manager(world.rng.usize(..world.managers.len()));
        let hosts = world.hosts();
        let any = hosts[world.rng.usize(..hosts.len())];
        let stands_still = |host: &Host| world.is_up(*host) && !world.runs(*host);
        if world.plan.word == Word::Swim && hosts.iter().any(stands_still) {
            // One at a time.
            return;
        }
        event!("fault: {}", class.name());
        world.injected(class);
        match class {
            Class::WorkerCrash => {
                world.stop(w);
                self.later(world, 500..15_000, Undo::Start(w));
            }
            Class::WorkerBlink => {
                world.stop(w);
                self.later(world, 20..400, Undo::Start(w));
            }
            Class::WorkerPause => {
                // Longer than leases and the wait for them, now and then.
                let time = world.some_ms(world.plan.pauses_ms(200..20_000));
                world.pause(w, time);
            }
            Class::WorkerDrain => {
                if let Host::Worker(number) = w {
                    world.worker_event(number, Event::Drain);
                }
                // An operator starts it again later.
                self.later(world, 8_000..20_000, Undo::Start(w));
            }
            Class::WorkerAlone => {
                // Often longer than leases and the wait for them: another worker has the shard by
                // then.
                let until = world.now + world.some_ms(1_000..30_000);
                for m in (0..world.managers.len()).map(Host::Manager) {
                    for (from, to) in [(w, m), (m, w)] {
                        world.net.cut.insert((from, to));
                        self.undo.push((until, Undo::Link(from, to)));
                    }
                }
            }
            Class::Apart => {
                let cut = |world: &World| world.net.cut.iter().any(|(a, b)| *a == w || *b == w);
                if cut(world) {
                    // Any other manager still reaches it.
                    return;
                }
                let until = world.now + world.some_ms(1_000..30_000);
                let ways: &[(Host, Host)] = match world.rng.u8(..3) {
                    0 => &[(w, m)],
                    1 => &[(m, w)],
                    _ => &[(w, m), (m, w)],
                };
                for (from, to) in ways {
                    world.net.cut.insert((*from, *to));
                    self.undo.push((until, Undo::Link(*from, *to)));
                }
            }
            Class::ManagerCrash => {
                world.stop(m);
                self.later(world, 300..12_000, Undo::Start(m));
            }
            Class::ManagerPause => {
                let time = world.some_ms(world.plan.pauses_ms(200..10_000));
                world.pause(m, time);
            }
            Class::AllManagers => {
                for m in (0..world.managers.len()).map(Host::Manager) {
                    world.stop(m);
                    self.later(world, 500..9_000, Undo::Start(m));
                }
            }
            Class::OneWay => {
                let (from, to) = if world.rng.bool() { (any, m) } else { (m, any) };
                if from != to {
                    world.net.cut.insert((from, to));
                    self.later(world, 300..20_000, Undo::Link(from, to));
                }
            }
            Class::Split => {
                let side: Vec<Host> = hosts.iter().copied().filter(|_| world.rng.bool()).collect();
                for a in &side {
                    for b in hosts.iter().filter(|b| !side.contains(b)) {
                        world.net.cut.insert((*a, *b));
                        world.net.cut.insert((*b, *a));
                    }
                }
                self.later(world, 500..25_000, Undo::Join);
            }
            Class::Stall => {
                let time = world.some_ms(300..9_000);
                world.book.stalled_until = world.now + time;
                self.later(world, 1..2, Undo::Quiet);
            }
            Class::Cancel => {
                let jobs: Vec<_> = world.acknowledged.iter().copied().collect();
                if let (Host::Manager(m), false) = (m, jobs.is_empty()) {
                    let job = jobs[world.rng.usize(..jobs.len())];
                    if world.runs(Host::Manager(m)) {
                        let (reason, requestor) = ("enough".to_owned(), "sim".to_owned());
                        // Now and then at once, or a second time.
                        let nonce = [world.rng.u8(..); 16];
                        let grace = world.orders.get(&job).map(|order| {
                            order.manifest.grace(&control::owner::Settings::default())
                        });
                        let grace = grace.filter(|_| world.rng.u8(..4) > 0);
                        let cancel = Command::CancelJob { job, reason, requestor, nonce, grace };
                        world.propose(m, What::Cancel, cancel);
                    }
                }
            }
            _ => {}
        }
    }

    /// Everything is as it should be from now on.
    pub fn stop(&mut self, world: &mut World) {
        self.undo.clear();
        world.net.cut.clear();
        (world.net.lost, world.net.repeated, world.net.slow_ms) = (0, 0, 0);
        world.calm_members();
        world.book.unknown = 0;
        world.book.stalled_until = world.now;
        for host in world.hosts() {
            // Whatever was drained comes back.
            let drained = matches!(host, Host::Worker(w) if world.workers[w]
                .machine.as_ref().is_some_and(|machine| !machine.figures().accepting));
            if drained {
                world.stop(host);
            }
            world.start(host);
        }
        world.workers.iter_mut().for_each(|host| host.disk.slow = false);
        event!("calm");
    }
}

/// Those that happen at a moment; the others hold all the time.
fn is_blow(class: Class) -> bool {
    !matches!(
        class,
        Class::Loss
            | Class::Delay
            | Class::Duplicate
            | Class::SlowDisk
            | Class::Unknown
            | Class::Clock
    )
}

fn mend(world: &mut World, undo: &Undo) {
    match *undo {
        Undo::Start(Host::Worker(w)) => {
            // A worker that was drained is stopped first.
            let drains = world.workers[w].machine.as_ref().is_some_and(|m| !m.figures().accepting);
            if drains {
                world.stop(Host::Worker(w));
            }
            world.start(Host::Worker(w));
        }
        Undo::Start(host) => world.start(host),
        Undo::Link(from, to) => {
            world.net.cut.remove(&(from, to));
        }
        Undo::Join => world.net.cut.clear(),
        Undo::Quiet => {}
    }
}
