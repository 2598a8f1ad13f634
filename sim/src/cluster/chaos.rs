//! What is done to the cluster while it works, and how all of it is undone.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use base::lock;
use fastrand::Rng;
use membership::Role;
use turmoil::Sim;
use wal::faulty::CrashMode;

use super::plan::Class;
use super::world::{Life, World};
use crate::event;
use crate::panics;

/// More than a part of a checkpoint has on its way between managers.
const TOO_LONG_BY: usize = 3 << 20;

/// Two hosts, the lower number first.
type Link = (usize, usize);

/// What is wrong with a link. It has at most one trouble at a time: turmoil cannot tell two apart
/// when one ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Cut,
    OneWay { from: usize, to: usize },
    Held,
    Slow,
}

#[derive(Debug)]
enum Action {
    Fire,
    Relieve(Vec<Link>),
    Start(usize),
    Resume {
        host: usize,
        paused: Duration,
    },
    Thaw(usize),
    /// The next manager of a rolling restart.
    Leave(Vec<usize>),
}

pub struct Chaos {
    world: Rc<World>,
    rng: Rng,
    agenda: BTreeMap<(u64, u64), Action>,
    number: u64,
    now_ms: u64,
    troubled: BTreeMap<Link, Trouble>,
}

impl Chaos {
    pub fn new(world: Rc<World>, sim: &mut Sim<'_>) -> Self {
        let mut rng = Rng::with_seed(world.plan.seed ^ 0x6368_616f_7321);
        if world.plan.classes.contains(&Class::Loss) {
            sim.set_fail_rate(f64::from(rng.u32(1..20)) / 1_000.0);
            world.injected(Class::Loss, "");
        }
        for class in [
            Class::Timeout,
            Class::Threshold,
            Class::LeasesDiffer,
            Class::SmallReports,
            Class::Retention,
        ] {
            if world.plan.has(class) {
                world.injected(class, "");
            }
        }
        let agenda = BTreeMap::new();
        let (number, now_ms, troubled) = (0, 0, BTreeMap::new());
        let mut chaos = Self { world, rng, agenda, number, now_ms, troubled };
        chaos.at(Duration::from_secs(2), Action::Fire);
        chaos
    }

    fn at(&mut self, after: Duration, action: Action) {
        self.number += 1;
        self.agenda.insert((self.now_ms + after.as_millis() as u64, self.number), action);
    }

    fn some_ms(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.rng.u64(range))
    }

    fn name(&self, host: usize) -> String {
        self.world.hosts[host].name.clone()
    }

    fn links(&self) -> Vec<Link> {
        let hosts = self.world.hosts.len();
        (0..hosts).flat_map(|a| (a + 1..hosts).map(move |b| (a, b))).collect()
    }

    fn trouble(&mut self, sim: &mut Sim<'_>, link: Link, trouble: Trouble) -> bool {
        if self.troubled.contains_key(&link) {
            return false;
        }
        let (a, b) = (self.name(link.0), self.name(link.1));
        match trouble {
            Trouble::Cut => sim.partition(a, b),
            Trouble::OneWay { from, to } => {
                sim.partition_oneway(self.name(from), self.name(to));
            }
            Trouble::Held => sim.hold(a, b),
            Trouble::Slow => {
                let latency = self.some_ms(100..900);
                sim.set_link_max_message_latency(a, b, latency);
            }
        }
        self.troubled.insert(link, trouble);
        true
    }

    fn relieve(&mut self, sim: &mut Sim<'_>, link: Link) {
        let Some(trouble) = self.troubled.remove(&link) else { return };
        let (a, b) = (self.name(link.0), self.name(link.1));
        match trouble {
            Trouble::Cut => sim.repair(a, b),
            Trouble::OneWay { from, to } => sim.repair_oneway(self.name(from), self.name(to)),
            Trouble::Held => sim.release(a, b),
            Trouble::Slow => sim.set_link_max_message_latency(a, b, self.world.plan.latency.1),
        }
    }

    /// Makes trouble on these links for a while.
    fn cut(
        &mut self,
        sim: &mut Sim<'_>,
        links: &[Link],
        trouble: Trouble,
        ms: std::ops::Range<u64>,
    ) {
        let cut: Vec<Link> =
            links.iter().copied().filter(|link| self.trouble(sim, *link, trouble)).collect();
        let length = self.some_ms(ms);
        self.at(length, Action::Relieve(cut));
    }

    /// Does what is due. Called between two steps of the simulation.
    pub fn step(&mut self, sim: &mut Sim<'_>, now_ms: u64) {
        self.now_ms = now_ms;
        self.restart_ended();
        if let Some(host) = self.world.pause_asked.take() {
            self.pause(sim, host, 2_000..15_000);
        }
        while let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= now_ms) {
            let action = entry.remove();
            self.act(sim, action);
        }
    }

    fn act(&mut self, sim: &mut Sim<'_>, action: Action) {
        match action {
            Action::Fire => {
                let moments: Vec<Class> = self
                    .world
                    .plan
                    .classes
                    .iter()
                    .copied()
                    .filter(|class| class.is_moment())
                    .collect();
                if !moments.is_empty() {
                    let class = moments[self.rng.usize(..moments.len())];
                    self.fire(sim, class);
                }
                let gap = self.world.plan.gap.mul_f64(self.rng.f64() * 2.0);
                self.at(gap, Action::Fire);
            }
            Action::Relieve(links) => links.into_iter().for_each(|link| self.relieve(sim, link)),
            Action::Start(host) => self.start(sim, host),
            Action::Resume { host, paused } => {
                let slot = &self.world.hosts[host];
                slot.stall_ms.set(paused.as_millis() as u64);
                slot.stall.notify_one();
            }
            Action::Thaw(host) => lock(&self.world.target).freeze(host, false),
            Action::Leave(mut managers) => {
                let Some(host) = managers.pop() else { return };
                if *self.world.hosts[host].life.borrow() == Life::Running {
                    event!("{} is told to end", self.name(host));
                    self.world.hosts[host].leave.notify_one();
                }
                self.at(Duration::from_secs(4), Action::Leave(managers));
            }
        }
    }

    fn pick(&mut self, role: Role) -> Option<usize> {
        let running = self.world.running(role);
        (!running.is_empty()).then(|| running[self.rng.usize(..running.len())])
    }

    fn fire(&mut self, sim: &mut Sim<'_>, class: Class) {
        let (Some(m), Some(w)) = (self.pick(Role::Manager), self.pick(Role::Worker)) else {
            return;
        };
        let links = self.links();
        let any = links[self.rng.usize(..links.len())];
        let name = match class {
            Class::WorkerCrash | Class::WorkerBlink | Class::WorkerPause => self.name(w),
            Class::WorkerShutdown | Class::WorkerAlone => self.name(w),
            Class::ManagerCrash | Class::ManagerPowerLoss | Class::ManagerPause => self.name(m),
            Class::Checkpoint | Class::LostBlob => self.name(m),
            _ => String::new(),
        };
        self.world.injected(class, &name);
        match class {
            Class::WorkerCrash => self.crash(sim, w, false, 500..15_000),
            Class::WorkerBlink => self.crash(sim, w, false, 20..400),
            Class::ManagerCrash => self.crash(sim, m, false, 300..12_000),
            Class::ManagerPowerLoss => self.crash(sim, m, true, 300..12_000),
            Class::AllManagers => {
                let power = self.rng.bool();
                for m in self.world.running(Role::Manager) {
                    self.crash(sim, m, power, 500..9_000);
                }
            }
            Class::WorkerPause => self.pause(sim, w, 200..20_000),
            Class::ManagerPause => self.pause(sim, m, 200..10_000),
            Class::WorkerShutdown => self.world.hosts[w].leave.notify_one(),
            Class::RollingRestart => {
                let managers = self.world.of_role(Role::Manager);
                self.at(Duration::ZERO, Action::Leave(managers));
            }
            Class::WorkerAlone => {
                let managers = self.world.of_role(Role::Manager);
                let links: Vec<Link> = managers.into_iter().map(|m| (m, w)).collect();
                self.cut(sim, &links, Trouble::Cut, 1_000..30_000);
            }
            Class::Slow => self.cut(sim, &[any], Trouble::Slow, 500..15_000),
            Class::OneWay => {
                let (from, to) = if self.rng.bool() { any } else { (any.1, any.0) };
                self.cut(sim, &[any], Trouble::OneWay { from, to }, 300..20_000);
            }
            // With one more way cut a worker could be alone.
            Class::Apart if self.troubled.keys().any(|(a, b)| *a == w || *b == w) => {}
            Class::Apart => {
                let trouble = match self.rng.u8(..3) {
                    0 => Trouble::OneWay { from: m, to: w },
                    1 => Trouble::OneWay { from: w, to: m },
                    _ => Trouble::Cut,
                };
                self.cut(sim, &[(m, w)], trouble, 2_000..20_000);
            }
            Class::Split => {
                let side: Vec<bool> = self.world.hosts.iter().map(|_| self.rng.bool()).collect();
                let apart = |link: &Link| side[link.0] != side[link.1];
                let links: Vec<Link> = links.into_iter().filter(apart).collect();
                self.cut(sim, &links, Trouble::Cut, 500..25_000);
            }
            Class::Checkpoint => self.damage(m),
            Class::LostBlob => self.lose_blob(m),
            _ => {}
        }
    }

    /// Damages a file of statistics as a bad sector or a bad repair would: another byte, too few,
    /// or too many.
    fn damage(&mut self, host: usize) {
        let folder = self.world.hosts[host].data.join("checkpoints");
        let Ok(files) = std::fs::read_dir(folder) else { return };
        let mut files: Vec<_> = files.filter_map(|file| Some(file.ok()?.path())).collect();
        files.sort();
        if files.is_empty() {
            return;
        }
        let path = &files[self.rng.usize(..files.len())];
        let how = self.rng.u8(..3);
        let Ok(mut bytes) = std::fs::read(path) else { return };
        let middle = bytes.len() / 2;
        match how {
            0 => bytes.truncate(middle),
            1 => bytes.resize(bytes.len() + TOO_LONG_BY, 0x55),
            _ => bytes.iter_mut().skip(middle).take(1).for_each(|byte| *byte ^= 0x55),
        }
        event!("{} is damaged ({how})", path.display());
        let _ = std::fs::write(path, bytes);
    }

    /// Takes a blob from a manager's disk; the others have it.
    fn lose_blob(&mut self, host: usize) {
        let disk = &self.world.hosts[host].disk;
        let is_blob = |path: &PathBuf| path.iter().any(|part| part == "blobs");
        let blobs: Vec<PathBuf> = disk.files().into_iter().filter(is_blob).collect();
        if !blobs.is_empty() {
            let path = &blobs[self.rng.usize(..blobs.len())];
            let erased = disk.erase(path);
            event!("{} is gone: {erased}", path.display());
        }
    }

    fn crash(&mut self, sim: &mut Sim<'_>, host: usize, power: bool, ms: std::ops::Range<u64>) {
        self.take_down(sim, host, power);
        let length = self.some_ms(ms);
        self.at(length, Action::Start(host));
    }

    /// The power goes first: a crash runs destructors, and a destructor that could still write
    /// would make it a clean end.
    fn take_down(&mut self, sim: &mut Sim<'_>, host: usize, power: bool) {
        let slot = &self.world.hosts[host];
        slot.disk.power_off();
        panics::while_crashing(|| sim.crash(slot.name.as_str()));
        match power {
            true => slot.disk.crash(CrashMode::Random),
            false => slot.disk.kill(),
        }
        *slot.life.borrow_mut() = Life::Down;
        lock(&self.world.target).freeze(host, false);
    }

    fn start(&mut self, sim: &mut Sim<'_>, host: usize) {
        let is_running = *self.world.hosts[host].life.borrow() == Life::Running;
        if is_running || self.world.hosts[host].retired.get() {
            return;
        }
        if *self.world.hosts[host].life.borrow() != Life::Down {
            self.take_down(sim, host, false);
        }
        let slot = &self.world.hosts[host];
        slot.disk.power_on();
        *slot.life.borrow_mut() = Life::Running;
        event!("{} starts", slot.name);
        sim.bounce(slot.name.as_str());
    }

    /// What a supervisor does with a process that has ended.
    fn restart_ended(&mut self) {
        for host in 0..self.world.hosts.len() {
            if self.world.hosts[host].retired.get() {
                continue;
            }
            let why = match &*self.world.hosts[host].life.borrow() {
                Life::Ended(why) => why.clone(),
                Life::Running | Life::Down => continue,
            };
            let waits = self
                .agenda
                .values()
                .any(|action| matches!(action, Action::Start(other) if *other == host));
            if !waits {
                if why != "told to end" {
                    self.world.count("nodes that ended by themselves", 1);
                }
                let after = self.some_ms(100..1_500);
                self.at(after, Action::Start(host));
            }
        }
    }

    /// turmoil runs every host in every step, so a pause is made of what it looks like from both
    /// sides: the others hear nothing and are not heard, nothing is sent to the target, and the
    /// host finds, all at once, that time has passed.
    fn pause(&mut self, sim: &mut Sim<'_>, host: usize, ms: std::ops::Range<u64>) {
        let links: Vec<Link> =
            self.links().into_iter().filter(|(a, b)| *a == host || *b == host).collect();
        let held: Vec<Link> =
            links.into_iter().filter(|link| self.trouble(sim, *link, Trouble::Held)).collect();
        let paused = self.some_ms(ms);
        lock(&self.world.target).freeze(host, true);
        self.at(Duration::from_millis(20), Action::Resume { host, paused });
        self.at(paused, Action::Relieve(held));
        self.at(paused, Action::Thaw(host));
    }

    /// Everything is as it should be from now on.
    pub fn stop(&mut self, sim: &mut Sim<'_>) {
        self.agenda.clear();
        sim.set_fail_rate(0.0);
        for link in self.links() {
            self.relieve(sim, link);
        }
        for host in 0..self.world.hosts.len() {
            lock(&self.world.target).freeze(host, false);
            self.world.hosts[host].disk.power_on();
            if *self.world.hosts[host].life.borrow() != Life::Running {
                self.start(sim, host);
            }
        }
        self.world.calm.set(true);
        event!("calm");
    }
}
