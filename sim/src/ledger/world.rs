//! What the parts of a run share: hosts with their disks, what was injected, what was reached, what
//! was violated.
//!
//! All of it lives on one thread. It outlives crashes of hosts: it is the laboratory, not the
//! experiment.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use ledger::Node;
use ledger::store::Applied;
use tokio::sync::mpsc::UnboundedSender;
use wal::FaultyDisk;

use super::agent::Errand;
use super::class::{Class, Mark};
use super::plan::Plan;
use crate::event;
use crate::outcome::Violation;
use crate::shim::WALL_START_MS;
use crate::trace;

/// Where a host is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    Running,
    /// Crashed by the simulation.
    Down,
    /// The node gave up by itself, and said why. A supervisor would start it again.
    Stopped(String),
}

pub struct Host {
    /// `n1`, `n2` ...
    pub name: String,
    pub disk: FaultyDisk,
    pub life: RefCell<Life>,
    /// The node of the present life.
    pub node: RefCell<Option<Rc<Node>>>,
    /// What it has applied, for looking at from outside.
    pub applied: RefCell<Option<Arc<Applied>>>,
    /// How clients reach it.
    pub inbox: RefCell<Option<UnboundedSender<Errand>>>,
    /// Its data was lost, and nobody has admitted it again.
    pub amnesic: Cell<bool>,
    /// When that was.
    pub forgot_ms: Cell<Option<u64>>,
    /// How many times it was started.
    pub starts: Cell<u64>,
    /// To move its timers forward after a pause.
    pub stall: Rc<tokio::sync::Notify>,
    pub stall_ms: Cell<u64>,
}

impl Host {
    /// Looks at what the running node has applied.
    pub fn state<T>(&self, look: impl FnOnce(&ledger_state::State) -> T) -> Option<T> {
        self.node.borrow().as_ref()?;
        self.applied.borrow().as_ref().map(|applied| applied.read(look))
    }
}

pub struct World {
    pub plan: Plan,
    pub hosts: Vec<Host>,
    faults: RefCell<BTreeMap<Class, u64>>,
    marks: RefCell<BTreeSet<Mark>>,
    counts: RefCell<BTreeMap<&'static str, u64>>,
    violations: RefCell<Vec<Violation>>,
    /// Faults have stopped.
    pub calm: Cell<bool>,
    /// Clients have nothing left to do.
    pub clients_done: Cell<usize>,
    pub operator_done: Cell<bool>,
    /// A member is out of the group, or may be.
    pub member_out: Cell<bool>,
    /// The highest entry that an eventual read has shown, per host and life.
    eventual: RefCell<BTreeMap<(usize, u64), u64>>,
}

/// After so many violations the run is over; the first ones are the interesting ones.
pub const VIOLATIONS_MAX: usize = 10;

thread_local! {
    /// How far each wall clock is off, in milliseconds. Here and not in the world, because a node
    /// asks by function pointer.
    static WALL_OFFSETS: RefCell<Vec<i64>> = const { RefCell::new(Vec::new()) };
}

fn wall<const HOST: usize>() -> u64 {
    let offset = WALL_OFFSETS.with_borrow(|offsets| offsets.get(HOST).copied().unwrap_or(0));
    (WALL_START_MS + trace::now_ms()).saturating_add_signed(offset)
}

/// Wall clocks of the hosts.
pub const WALLS: [fn() -> u64; 8] =
    [wall::<0>, wall::<1>, wall::<2>, wall::<3>, wall::<4>, wall::<5>, wall::<6>, wall::<7>];

/// Moves the wall clock of one host.
pub fn jump_wall(host: usize, by_ms: i64) {
    WALL_OFFSETS.with_borrow_mut(|offsets| offsets[host] += by_ms);
}

impl World {
    #[must_use]
    pub fn new(plan: Plan) -> Rc<Self> {
        WALL_OFFSETS.set(plan.skew_ms.clone());
        let hosts = (0..plan.nodes)
            .map(|number| Host {
                name: format!("n{}", number + 1),
                disk: FaultyDisk::new(plan.seed.wrapping_mul(31).wrapping_add(number as u64)),
                life: RefCell::new(Life::Running),
                node: RefCell::new(None),
                applied: RefCell::new(None),
                inbox: RefCell::new(None),
                amnesic: Cell::new(false),
                forgot_ms: Cell::new(None),
                starts: Cell::new(0),
                stall: Rc::default(),
                stall_ms: Cell::new(0),
            })
            .collect();
        Rc::new(Self {
            plan,
            hosts,
            faults: RefCell::default(),
            marks: RefCell::default(),
            counts: RefCell::default(),
            violations: RefCell::default(),
            calm: Cell::new(false),
            clients_done: Cell::new(0),
            operator_done: Cell::new(false),
            member_out: Cell::new(false),
            eventual: RefCell::default(),
        })
    }

    #[must_use]
    pub fn node(&self, host: usize) -> Option<Rc<Node>> {
        self.hosts[host].node.borrow().clone()
    }

    pub fn injected(&self, class: Class, what: &str) {
        event!("fault: {} {what}", class.name());
        *self.faults.borrow_mut().entry(class).or_default() += 1;
    }

    pub fn reach(&self, mark: Mark) {
        if self.marks.borrow_mut().insert(mark) {
            event!("mark: {}", mark.name());
        }
    }

    pub fn count(&self, name: &'static str) {
        self.add(name, 1);
    }

    pub fn add(&self, name: &'static str, more: u64) {
        *self.counts.borrow_mut().entry(name).or_default() += more;
    }

    /// Whether a fault of this class has happened.
    #[must_use]
    pub fn had(&self, class: Class) -> bool {
        self.faults.borrow().contains_key(&class)
    }

    /// Eventual reads of one life of a node never go back in time.
    pub fn note_eventual(&self, host: usize, start: u64, applied: u64) {
        let mut eventual = self.eventual.borrow_mut();
        let highest = eventual.entry((host, start)).or_default();
        if applied < *highest {
            let detail = format!("n{} showed entry {applied} after {highest}", host + 1);
            self.violate("LEDG.eventual-read", detail);
        }
        *highest = applied.max(*highest);
    }

    /// Marks that can be read off the nodes' own counts.
    pub fn look_for_marks(&self) {
        for host in &self.hosts {
            let Some(node) = host.node.borrow().clone() else { continue };
            let metrics = node.metrics();
            if metrics.forwarded.get() > 0 {
                self.reach(Mark::Forwarded);
            }
            if metrics.snapshots_taken.get() > 0 {
                self.reach(Mark::SnapshotInstalled);
            }
            if node.status().snapshot.is_some() {
                self.reach(Mark::LogCompacted);
            }
            let refusals = metrics.refusals.get();
            if refusals.contains_key("wrong_disk") || refusals.contains_key("disk_not_admitted") {
                self.reach(Mark::AmnesiaRefused);
            }
        }
    }

    pub fn violate(&self, invariant: &str, detail: String) {
        event!("VIOLATION {invariant}: {detail}");
        let mut violations = self.violations.borrow_mut();
        if violations.len() < VIOLATIONS_MAX {
            let invariant = invariant.to_owned();
            violations.push(Violation { invariant, at_ms: trace::now_ms(), detail });
        }
    }

    #[must_use]
    pub fn failed(&self) -> bool {
        self.violations.borrow().len() >= VIOLATIONS_MAX
    }

    /// What was counted, for the report.
    #[must_use]
    pub fn results(&self) -> Results {
        let mut faults = self.faults.borrow().clone();
        for host in &self.hosts {
            add_disk_faults(&mut faults, &host.disk);
        }
        Results {
            faults: faults.iter().map(|(class, count)| (class.name().to_owned(), *count)).collect(),
            marks: self.marks.borrow().iter().map(|mark| mark.name().to_owned()).collect(),
            counts: self.counts.borrow().iter().map(|(name, n)| ((*name).to_owned(), *n)).collect(),
            violations: self.violations.borrow().clone(),
        }
    }
}

pub struct Results {
    pub faults: BTreeMap<String, u64>,
    pub marks: BTreeSet<String>,
    pub counts: BTreeMap<String, u64>,
    pub violations: Vec<Violation>,
}

/// What a disk did is counted by the disk: a fault that was armed and never met is none.
fn add_disk_faults(faults: &mut BTreeMap<Class, u64>, disk: &FaultyDisk) {
    let counts = disk.counts();
    for (fault, class) in [
        (wal::faulty::Fault::WriteError, Class::WriteError),
        (wal::faulty::Fault::ShortWrite, Class::ShortWrite),
        (wal::faulty::Fault::ReadError, Class::ReadError),
        (wal::faulty::Fault::SyncError, Class::SyncError),
        (wal::faulty::Fault::NoSpace, Class::NoSpace),
        (wal::faulty::Fault::SlowFlush, Class::SlowSync),
        (wal::faulty::Fault::LostWrite, Class::LostWrite),
        (wal::faulty::Fault::TornWrite, Class::TornWrite),
        (wal::faulty::Fault::PowerFailure, Class::Fuse),
    ] {
        if counts.of(fault) > 0 {
            *faults.entry(class).or_default() += counts.of(fault);
        }
    }
}
