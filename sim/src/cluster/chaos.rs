//! What is done to the cluster while it works, and how all of it is undone.

mod files;
mod owners;
mod processes;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use base::lock;
use fastrand::Rng;
use membership::Role;
use turmoil::Sim;

use super::connection::Purpose;
use super::plan::{Class, LOST, Size};
use super::world::{Life, Wish, World};
use crate::event;

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
    /// What is held of this manager's connections goes on.
    Release(usize),
    /// Looks whether somebody has taken over since, by how many jobs each host owned then.
    AwaitSuccessor {
        owned: Vec<usize>,
        until_ms: u64,
    },
    Pause(usize),
    /// The owner crashes, and another manager's checkpoints are damaged.
    CrashAndDamage {
        owner: usize,
        damaged: usize,
    },
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
            // Nothing is sent again on turmoil's streams; in a lossy run they are late instead.
            match world.plan.size {
                Size::Lossy => world.conditions.lose(LOST),
                _ => sim.set_fail_rate(f64::from(rng.u32(1..20)) / 1_000.0),
            }
            world.injected(Class::Loss, "");
        }
        for class in [
            Class::Timeout,
            Class::Threshold,
            Class::LeasesDiffer,
            Class::SmallReports,
            Class::Retention,
            Class::Bursts,
        ] {
            if world.plan.has(class) {
                world.injected(class, "");
            }
        }
        let agenda = BTreeMap::new();
        let (number, now_ms, troubled) = (0, 0, BTreeMap::new());
        let mut chaos = Self { world, rng, agenda, number, now_ms, troubled };
        // Jobs that last are under way by then.
        let first = if chaos.world.plan.focused { 6 } else { 2 };
        chaos.at(Duration::from_secs(first), Action::Fire);
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

    /// No manager reaches this host for a while.
    fn leave_alone(&mut self, sim: &mut Sim<'_>, host: usize, ms: std::ops::Range<u64>) {
        let others = self.world.of_role(Role::Manager).into_iter().filter(|m| *m != host);
        let links: Vec<Link> = others.map(|m| (m.min(host), m.max(host))).collect();
        self.cut(sim, &links, Trouble::Cut, ms);
    }

    /// Does what is due. Called between two steps of the simulation.
    pub fn step(&mut self, sim: &mut Sim<'_>, now_ms: u64) {
        self.now_ms = now_ms;
        self.restart_ended();
        for wish in self.world.wishes.take() {
            self.fulfil(sim, wish);
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
            Action::Release(host) => self.world.conditions.release(self.world.hosts[host].node),
            Action::AwaitSuccessor { owned, until_ms } => self.await_successor(owned, until_ms),
            Action::Pause(host) => self.pause(sim, host, 800..2_500),
            Action::CrashAndDamage { owner, damaged } => {
                self.crash(sim, owner, false, 15_000..25_000);
                self.damage_all(damaged);
            }
        }
    }

    /// What somebody inside the simulation has asked for.
    fn fulfil(&mut self, sim: &mut Sim<'_>, wish: Wish) {
        event!("{wish:?}");
        match wish {
            Wish::Pause(host) => self.pause(sim, host, 2_000..15_000),
            Wish::HoldServices(host) => {
                self.hold(host, Purpose::Services, Duration::from_secs(25));
            }
            Wish::CrashOwner => {
                if let Some(owner) = self.pick_owner() {
                    self.crash(sim, owner, false, 8_000..15_000);
                }
                self.world.conditions.release_all();
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
        let is_lossy = self.world.plan.size == Size::Lossy;
        if is_lossy && !self.troubled.is_empty() {
            // One host at a time.
            return;
        }
        let owner = match class.is_of_owners() {
            true => self.pick_owner(),
            false => Some(m),
        };
        let Some(owner) = owner else { return };
        let links = self.links();
        let any = links[self.rng.usize(..links.len())];
        let name = match class {
            Class::WorkerCrash | Class::WorkerBlink | Class::WorkerPause => self.name(w),
            Class::WorkerShutdown | Class::WorkerAlone => self.name(w),
            Class::ManagerCrash | Class::ManagerPowerLoss | Class::ManagerPause => self.name(m),
            Class::Checkpoint | Class::LostBlob => self.name(m),
            owners if owners.is_of_owners() => self.name(owner),
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
            Class::WorkerPause if is_lossy => self.pause(sim, w, 50..1_000),
            Class::ManagerPause if is_lossy => self.pause(sim, m, 50..1_000),
            Class::WorkerPause => self.pause(sim, w, 200..20_000),
            Class::ManagerPause => self.pause(sim, m, 200..10_000),
            Class::WorkerShutdown => self.world.hosts[w].leave.notify_one(),
            Class::RollingRestart => {
                let managers = self.world.of_role(Role::Manager);
                self.at(Duration::ZERO, Action::Leave(managers));
            }
            Class::WorkerAlone => self.leave_alone(sim, w, 1_000..30_000),
            Class::Checkpoint => self.damage(m),
            Class::StaleOwner => self.stale_owner(owner),
            Class::DamagedTakeover => self.damaged_takeover(sim, owner),
            Class::OwnerAndWorker => {
                self.crash(sim, owner, false, 5_000..15_000);
                let sends = lock(&self.world.target).last_host.unwrap_or(w);
                self.leave_alone(sim, sends, 10_000..25_000);
            }
            // The first one is removed with whatever only it has.
            Class::LostBlob if self.world.plan.has(Class::Voters) && m == 0 => {}
            Class::LostBlob => self.lose_blob(m),
            _ => self.fire_at_links(sim, class, (m, w), any),
        }
    }

    /// Faults of the network. `any`: a link of any two hosts.
    fn fire_at_links(
        &mut self,
        sim: &mut Sim<'_>,
        class: Class,
        (m, w): (usize, usize),
        any: Link,
    ) {
        match class {
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
                let links: Vec<Link> = self.links().into_iter().filter(apart).collect();
                self.cut(sim, &links, Trouble::Cut, 500..25_000);
            }
            _ => {}
        }
    }

    /// Everything is as it should be from now on.
    pub fn stop(&mut self, sim: &mut Sim<'_>) {
        self.agenda.clear();
        sim.set_fail_rate(0.0);
        self.world.conditions.lose(0);
        self.world.conditions.release_all();
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
