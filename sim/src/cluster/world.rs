//! What the parts of a run share: hosts with their disks, the target, what clients were told, what
//! was violated.
//!
//! All of it lives on one thread. It outlives crashes of hosts: it is the laboratory, not the
//! experiment.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use fence::{JobId, NodeId};
use fleet::wire::proto::JobStatus;
use membership::Role;
use stats::RunResult;
use tempfile::TempDir;
use tokio::sync::Notify;
use wal::FaultyDisk;

use super::connection::Conditions;
use super::plan::{Class, Mark, Plan};
use super::target::Target;
use crate::event;
use crate::outcome::Violation;
use crate::trace;

pub const PORT: u16 = 7500;
/// After so many violations the run is over; the first ones are the interesting ones.
pub const VIOLATIONS_MAX: usize = 5;

/// Where a host is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    Running,
    /// Crashed by the simulation.
    Down,
    /// The node has ended by itself or was told to, and said why. A supervisor would start it
    /// again.
    Ended(String),
}

pub struct Host {
    /// `m1`, `w1` ...
    pub name: String,
    pub role: Role,
    pub node: NodeId,
    /// The ledger's; what else a node writes lies in files of its data folder.
    pub disk: FaultyDisk,
    pub data: PathBuf,
    pub life: RefCell<Life>,
    pub starts: Cell<u64>,
    /// Nobody starts it again.
    pub retired: Cell<bool>,
    /// It is told to end as by SIGTERM.
    pub leave: Rc<Notify>,
    /// To move its timers forward after a pause.
    pub stall: Rc<Notify>,
    pub stall_ms: Cell<u64>,
    /// How many jobs this manager owns.
    pub owned: Cell<usize>,
}

/// What somebody inside the simulation wants done to hosts.
#[derive(Clone, Copy, Debug)]
pub enum Wish {
    /// This host stands still.
    Pause(usize),
    /// The other managers do not reach this one but by its ledger.
    HoldServices(usize),
    /// Whoever owns a job crashes, and what was held goes on.
    CrashOwner,
}

/// What its user knows of a job.
#[derive(Default)]
pub struct Submitted {
    pub id: Option<JobId>,
    /// Asked to be cancelled, and the fleet has agreed.
    pub cancelled: bool,
    /// Rates or users were changed: the plan no longer says how much load there is.
    pub scaled: bool,
    /// Its submission came too late to be taken.
    pub refused: bool,
    /// Its managers have forgotten it, as they should.
    pub expired: bool,
    pub status: Option<JobStatus>,
    pub result: Option<Box<RunResult>>,
}

pub struct World {
    pub plan: Plan,
    pub folder: TempDir,
    pub hosts: Vec<Host>,
    pub target: Arc<Mutex<Target>>,
    pub jobs: RefCell<BTreeMap<String, Submitted>>,
    pub conditions: Arc<Conditions>,
    pub wishes: RefCell<Vec<Wish>>,
    pub calm: Cell<bool>,
    pub faults: RefCell<BTreeMap<String, u64>>,
    pub marks: RefCell<BTreeSet<String>>,
    pub counts: RefCell<BTreeMap<String, u64>>,
    pub violations: RefCell<Vec<Violation>>,
}

impl World {
    /// # Panics
    /// If this machine has no folder for temporary files.
    #[must_use]
    pub fn new(plan: Plan) -> Rc<Self> {
        let folder = folder();
        let managers = (0..plan.managers).map(|number| (Role::Manager, number));
        let workers = (0..plan.workers).map(|number| (Role::Worker, number));
        let hosts = managers.chain(workers).enumerate().map(|(at, (role, number))| {
            let letter = if role == Role::Manager { 'm' } else { 'w' };
            let name = format!("{letter}{}", number + 1);
            Host {
                role,
                node: NodeId((at as u128 + 1) << 96 | 0x51),
                disk: FaultyDisk::new(plan.seed.wrapping_mul(31).wrapping_add(at as u64)),
                data: PathBuf::from(&name),
                life: RefCell::new(Life::Running),
                starts: Cell::new(0),
                retired: Cell::new(false),
                leave: Rc::default(),
                stall: Rc::default(),
                stall_ms: Cell::new(0),
                owned: Cell::new(0),
                name,
            }
        });
        let hosts = hosts.collect();
        Rc::new(Self {
            folder,
            hosts,
            target: Arc::default(),
            jobs: RefCell::default(),
            conditions: Arc::new(Conditions::new(plan.seed)),
            plan,
            wishes: RefCell::default(),
            calm: Cell::new(false),
            faults: RefCell::default(),
            marks: RefCell::default(),
            counts: RefCell::default(),
            violations: RefCell::default(),
        })
    }

    /// The numbers of the hosts of a role.
    pub fn of_role(&self, role: Role) -> Vec<usize> {
        (0..self.hosts.len()).filter(|host| self.hosts[*host].role == role).collect()
    }

    /// Those of them that run.
    pub fn running(&self, role: Role) -> Vec<usize> {
        let runs = |host: &usize| *self.hosts[*host].life.borrow() == Life::Running;
        self.of_role(role).into_iter().filter(runs).collect()
    }

    /// Where managers are found. Only inside the simulation.
    pub fn managers(&self) -> Vec<SocketAddr> {
        let managers = self.of_role(Role::Manager).into_iter();
        managers
            .map(|host| SocketAddr::new(turmoil::lookup(self.hosts[host].name.as_str()), PORT))
            .collect()
    }

    pub fn injected(&self, class: Class, what: &str) {
        event!("fault: {} {what}", class.name());
        *self.faults.borrow_mut().entry(class.name().to_owned()).or_default() += 1;
    }

    pub fn reach(&self, mark: Mark) {
        if self.marks.borrow_mut().insert(mark.name().to_owned()) {
            event!("mark: {}", mark.name());
        }
    }

    pub fn count(&self, name: &str, more: u64) {
        *self.counts.borrow_mut().entry(name.to_owned()).or_default() += more;
    }

    pub fn violate(&self, invariant: &str, detail: String) {
        event!("VIOLATION {invariant}: {detail}");
        let mut violations = self.violations.borrow_mut();
        if violations.len() < VIOLATIONS_MAX {
            let invariant = invariant.to_owned();
            violations.push(Violation { invariant, at_ms: trace::now_ms(), detail });
        }
    }

    pub fn failed(&self) -> bool {
        !self.violations.borrow().is_empty()
    }
}

/// Where hosts keep their files: in memory, if this machine has a folder for that. The process
/// works in it, so that what nodes say of their files is the same in every run of a seed.
#[allow(clippy::disallowed_methods, reason = "the name of the folder decides nothing")]
fn folder() -> TempDir {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
    // Random parts of names come from the seed, and two processes may run the same one.
    let prefix = format!("volley-sim-{}-", std::process::id());
    let folder = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent);
    let folder = folder.expect("a folder for the data of simulated hosts");
    std::env::set_current_dir(folder.path()).expect("the folder has just been made");
    folder
}
