//! What goes wrong, and when: an agenda of things to do to the hosts, drawn from the seed.
//!
//! Each class that the plan has switched on fires again and again; what it starts it also ends, by
//! an entry further down the agenda. [`Chaos::stop`] ends everything at once, for the second phase
//! of a run.

mod net;
mod process;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use turmoil::Sim;

use net::{Link, Net, Trouble};

use super::class::Class;
use super::plan::millis;
use super::world::{Life, World, jump_wall};

/// Something to do at a time.
#[derive(Clone, Debug)]
enum Action {
    Fire(Class),
    Relieve(Vec<Link>),
    /// The next link of a swizzle.
    Cut(Link),
    Shuffle(Link),
    Start(usize),
    /// The end of a pause.
    Resume {
        host: usize,
        paused: Duration,
    },
    /// The disk of a host is sound again.
    Mend(usize),
}

/// A slow disk takes this long at most for one flush.
pub const SLOWEST_FLUSH_MS: u64 = 2_000;

pub struct Chaos {
    world: Rc<World>,
    random: Rng,
    /// By time in milliseconds and by order of entry.
    agenda: BTreeMap<(u64, u64), Action>,
    entered: u64,
    net: Net,
    now_ms: u64,
}

impl Chaos {
    pub fn new(world: Rc<World>) -> Self {
        let random = Rng::with_seed(world.plan.seed ^ 0x63_6861_6f73);
        let net = Net::new(world.plan.nodes, world.plan.latency);
        let mut chaos = Self { world, random, agenda: BTreeMap::new(), entered: 0, net, now_ms: 0 };
        for (host, skew) in
            chaos.world.plan.skew_ms.iter().enumerate().filter(|(_, skew)| **skew != 0)
        {
            chaos.world.injected(Class::Skew, &format!("n{} by {skew} ms", host + 1));
        }
        let classes: Vec<Class> = chaos.world.plan.classes.iter().copied().collect();
        for class in classes {
            chaos.fire_later(class);
        }
        chaos
    }

    fn at(&mut self, after: Duration, action: Action) {
        self.entered += 1;
        self.agenda.insert((self.now_ms + after.as_millis() as u64, self.entered), action);
    }

    /// The time to the next one is exponential: faults come in clusters, and now and then there is
    /// peace.
    fn fire_later(&mut self, class: Class) {
        let mean = self.world.plan.fault_gap.as_secs_f64() * weight(class);
        let gap = -mean * (1.0 - self.random.f64()).ln();
        self.at(Duration::from_secs_f64(gap.clamp(0.05, 60.0)), Action::Fire(class));
    }

    /// How long this one lasts.
    fn length(&mut self) -> Duration {
        let mean = self.world.plan.fault_length.as_secs_f64();
        let length = -mean * (1.0 - self.random.f64()).ln();
        Duration::from_secs_f64(length.clamp(0.02, 10.0))
    }

    /// Does what is due. Called between two steps of the simulation.
    pub fn step(&mut self, sim: &mut Sim<'_>, now_ms: u64) {
        self.now_ms = now_ms;
        self.restart_stopped(sim);
        while let Some(entry) = self.agenda.first_entry() {
            if entry.key().0 > now_ms {
                break;
            }
            let action = entry.remove();
            self.act(sim, action);
        }
        self.blow_fuses(sim);
    }

    fn act(&mut self, sim: &mut Sim<'_>, action: Action) {
        match action {
            Action::Fire(class) => {
                self.fire(sim, class);
                self.fire_later(class);
            }
            Action::Relieve(links) => {
                for link in links {
                    self.net.relieve(sim, link);
                }
            }
            Action::Cut(link) => {
                if self.net.trouble(sim, link, Trouble::Cut, &mut self.random) {
                    self.world.injected(Class::Swizzle, &format!("{link:?}"));
                }
            }
            Action::Shuffle(link) => {
                let moved = self.net.shuffle(sim, link, &mut self.random);
                for _ in 0..moved {
                    self.world.injected(Class::Reorder, &format!("{link:?}"));
                }
            }
            Action::Start(host) => self.start(sim, host),
            Action::Resume { host, paused } => self.resume(sim, host, paused),
            Action::Mend(host) => self.mend(host),
        }
    }

    fn fire(&mut self, sim: &mut Sim<'_>, class: Class) {
        match class {
            Class::Delay => self.one_link(sim, class, Trouble::Slow),
            Class::Drop | Class::Partial => self.one_link(sim, class, Trouble::Cut),
            Class::Hold => self.one_link(sim, class, Trouble::Held),
            Class::OneWay => {
                let Some((a, b)) = self.net.pick_healthy(&mut self.random) else { return };
                let (from, to) = if self.random.bool() { (a, b) } else { (b, a) };
                self.cut(sim, class, &[(a, b)], Trouble::OneWay { from, to });
            }
            Class::Reorder => {
                let Some(link) = self.net.pick_healthy(&mut self.random) else { return };
                if self.net.trouble(sim, link, Trouble::Held, &mut self.random) {
                    for step in 1..=4 {
                        self.at(Duration::from_millis(step * 15), Action::Shuffle(link));
                    }
                    self.at(Duration::from_millis(80), Action::Relieve(vec![link]));
                }
            }
            Class::Isolate => {
                let host = self.random.usize(0..self.world.plan.nodes);
                let links = self.net.links_of(host);
                self.cut(sim, class, &links, Trouble::Cut);
            }
            Class::Split => {
                let side: Vec<bool> = self.world.hosts.iter().map(|_| self.random.bool()).collect();
                let links: Vec<Link> =
                    self.net.links().filter(|(a, b)| side[*a] != side[*b]).collect();
                if !links.is_empty() {
                    self.cut(sim, class, &links, Trouble::Cut);
                }
            }
            Class::Swizzle => self.swizzle(),
            Class::Kill
            | Class::PowerLoss
            | Class::AllDown
            | Class::Fuse
            | Class::Pause
            | Class::Amnesia => self.fire_process(sim, class),
            Class::WriteError
            | Class::ShortWrite
            | Class::ReadError
            | Class::SyncError
            | Class::NoSpace
            | Class::SlowSync => self.fire_disk(class),
            Class::Jump => {
                let host = self.random.usize(0..self.world.plan.nodes);
                let by_ms = self.random.i64(-3_600_000..=3_600_000);
                jump_wall(host, by_ms);
                self.world.injected(class, &format!("n{} by {by_ms} ms", host + 1));
            }
            // Skew is there from the start, duplicates are made by clients, lost and torn writes by
            // power losses.
            Class::Skew | Class::Duplicate | Class::LostWrite | Class::TornWrite => {}
        }
    }

    fn one_link(&mut self, sim: &mut Sim<'_>, class: Class, trouble: Trouble) {
        if let Some(link) = self.net.pick_healthy(&mut self.random) {
            self.cut(sim, class, &[link], trouble);
        }
    }

    fn cut(&mut self, sim: &mut Sim<'_>, class: Class, links: &[Link], trouble: Trouble) {
        let mut cut = Vec::new();
        for link in links {
            if self.net.trouble(sim, *link, trouble, &mut self.random) {
                cut.push(*link);
            }
        }
        if cut.is_empty() {
            return;
        }
        self.world.injected(class, &format!("{cut:?} {trouble:?}"));
        // A drop is over before a time-out notices; the others are not.
        let length =
            if class == Class::Drop { millis(&mut self.random, 2..=100) } else { self.length() };
        self.at(length, Action::Relieve(cut));
    }

    /// Cuts a random set of links one by one, and heals them one by one in another order.
    fn swizzle(&mut self) {
        let mut links: Vec<Link> = self.net.links().filter(|_| self.random.bool()).collect();
        self.random.shuffle(&mut links);
        let mut after = Duration::ZERO;
        for link in &links {
            after += millis(&mut self.random, 10..=500);
            self.at(after, Action::Cut(*link));
        }
        after += self.length();
        self.random.shuffle(&mut links);
        for link in links {
            after += millis(&mut self.random, 10..=500);
            self.at(after, Action::Relieve(vec![link]));
        }
    }

    fn fire_disk(&mut self, class: Class) {
        let host = self.random.usize(0..self.world.plan.nodes);
        let disk = &self.world.hosts[host].disk;
        match class {
            Class::SlowSync => {
                let longest = millis(&mut self.random, 20..=SLOWEST_FLUSH_MS);
                disk.set_flush_delay(longest / 4, longest);
            }
            Class::NoSpace => {
                // What is there stays; a little more fits.
                let files = disk.files();
                let used: usize =
                    files.iter().filter_map(|path| disk.dump(path)).map(|f| f.len()).sum();
                disk.set_capacity(used as u64 + self.random.u64(0..=64 << 10));
                self.world.injected(class, &format!("n{}", host + 1));
            }
            _ => {
                let chance = self.random.u32(1_000..=200_000);
                let mut faults = wal::faulty::Faults::default();
                match class {
                    Class::WriteError => faults.write_error = chance,
                    Class::ShortWrite => faults.short_write = chance,
                    Class::ReadError => faults.read_error = chance,
                    _ => faults.sync_error = chance,
                }
                disk.set_faults(faults);
            }
        }
        let length = self.length();
        self.at(length, Action::Mend(host));
    }

    fn mend(&self, host: usize) {
        let disk = &self.world.hosts[host].disk;
        disk.set_faults(wal::faulty::Faults::default());
        disk.set_capacity(u64::MAX);
        disk.set_flush_delay(Duration::ZERO, Duration::ZERO);
    }

    /// Hosts that run and reach nobody: every link is cut both ways, or the other end is down.
    pub fn isolated(&self) -> Vec<usize> {
        let runs = |host: usize| *self.world.hosts[host].life.borrow() == Life::Running;
        (0..self.world.plan.nodes)
            .filter(|host| {
                runs(*host)
                    && self.net.links_of(*host).into_iter().all(|link| {
                        let peer = if link.0 == *host { link.1 } else { link.0 };
                        self.net.is_cut(link) || !runs(peer)
                    })
            })
            .collect()
    }

    /// All faults stop: links are whole, disks are sound, every host runs.
    pub fn stop(&mut self, sim: &mut Sim<'_>) {
        self.agenda.clear();
        self.net.relieve_all(sim);
        for host in 0..self.world.plan.nodes {
            self.mend(host);
            // A fuse that has not blown yet is taken out.
            self.world.hosts[host].disk.power_on();
            if *self.world.hosts[host].life.borrow() != Life::Running {
                self.start(sim, host);
            }
        }
    }
}

/// Rare classes: what takes the whole group down, or takes long to recover from.
fn weight(class: Class) -> f64 {
    match class {
        Class::AllDown | Class::NoSpace => 3.0,
        Class::Amnesia => 4.0,
        Class::SyncError | Class::WriteError | Class::ReadError | Class::Fuse => 1.5,
        Class::Reorder | Class::Drop => 0.5,
        _ => 1.0,
    }
}
