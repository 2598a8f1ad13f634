//! What runs next: setups, batches of a layer, teardowns.

use std::collections::BTreeSet;
use std::time::Duration;

use fence::{Moment, WorkflowNo};

use super::manifest::WhenFull;
use super::shard::Shard;
use super::{Owner, Queued, Sid};
use crate::message::Task;
use ledger_state::StopCause;
use schedule::allocation;
use schedule::job;

/// As many cores as no fleet has.
const POOL_LARGE: usize = 1 << 20;

/// Workflows of one layer that run together, and how far they are.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub workflows: Vec<usize>,
    pub stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Setups,
    Load,
    Teardowns,
}

/// Shards that are prepared and started together.
#[derive(Clone, Debug)]
pub(super) struct Wave {
    pub kind: Kind,
    pub members: Vec<Sid>,
    pub step: WaveStep,
    /// Not before then, and how often it was tried.
    pub again: Option<Moment>,
    pub tries: u32,
    pub clock: Option<Clock>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Setup,
    Setups,
    Load,
    Teardowns,
    Teardown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WaveStep {
    /// Waits for cores, or has asked for them.
    Seating(Option<Seating>),
    Provisioning(Seating),
    Dispatching,
    Beginning,
    Running,
}

/// All or nothing: which shard gets a core of which hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seating {
    pub plan: Vec<(usize, u32)>,
    pub seats: Vec<(Sid, u32)>,
    pub holds: BTreeSet<u32>,
}

/// The schedule's time: `offset` at `origin`, and standing still while the job is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    pub origin: Moment,
    pub offset: Duration,
    pub paused: Duration,
    /// No worker could say where it stands: it follows the ledger's time.
    pub by_ledger: bool,
}

impl Clock {
    pub fn at(&self, moment: Moment) -> Duration {
        self.offset.saturating_add(moment.since(self.origin)).saturating_sub(self.paused)
    }
}

impl Wave {
    pub fn new(kind: Kind, members: Vec<Sid>, step: WaveStep) -> Self {
        Self { kind, members, step, again: None, tries: 0, clock: None }
    }
}

impl Owner {
    pub(super) fn drive_wave(&mut self) {
        if !self.started {
            return self.try_to_begin();
        }
        let Some(wave) = &self.wave else { return self.next_wave() };
        let over = |sid: &Sid| self.shards.get(sid).is_none_or(|shard| shard.state.is_terminal());
        if !wave.members.is_empty() && wave.members.iter().all(over) {
            return self.wave_over();
        }
        match &wave.step {
            WaveStep::Seating(None) => self.seat_wave(),
            WaveStep::Seating(Some(_)) | WaveStep::Provisioning(_) => {}
            WaveStep::Dispatching | WaveStep::Beginning | WaveStep::Running => {
                self.seat_stragglers();
                self.propose_seated();
                self.start_ready();
            }
        }
    }

    /// A job that has had no room yet. Whether the fleet can hold it at all is a matter of policy (X16).
    fn try_to_begin(&mut self) {
        if self.fits() && self.has_turn(1) {
            self.started = true;
            self.tell(job::Event::Started);
        }
    }

    /// Whether the pool is large enough. If it is not, the job is refused or says what it waits for.
    pub(super) fn fits(&mut self) -> bool {
        let (total, free) = (self.pool.total(), self.pool.free());
        // A job that has lost a worker goes on with what is left (R14).
        let needs = match self.has_begun() {
            true => self.manifest.policy.cores_min.max(1),
            false => self.manifest.cores_min(),
        };
        if total >= needs {
            return true;
        }
        let aside = self.set_aside();
        let why = if total == 0 {
            format!("there are no workers{aside}")
        } else {
            format!(
                "the plan needs {needs} core{}, and the fleet has {total}{aside}",
                if needs == 1 { "" } else { "s" }
            )
        };
        if self.manifest.policy.when_full == WhenFull::Refuse && !self.has_begun() {
            self.fail(format!("refused: {why}; start more workers, or ask for fewer cores"));
        } else {
            self.say_queued(needs, free, total, why);
        }
        false
    }

    /// A job's first cores are taken in its turn; what it needs later it may take at any time.
    pub(super) fn has_turn(&mut self, needs: u32) -> bool {
        if self.turn == Some(true) || self.has_begun() {
            return true;
        }
        if self.turn.is_none() {
            return false;
        }
        let (free, total) = (self.pool.free(), self.pool.total());
        self.say_queued(needs, free, total, "older jobs wait for cores".to_owned());
        false
    }

    pub(super) fn has_begun(&self) -> bool {
        self.shards.values().any(|shard| !shard.tries.is_empty())
    }

    pub(super) fn say_queued(&mut self, needs: u32, free: u32, total: u32, why: String) {
        let queued = Some(Queued { needs, free, total, why });
        if self.queued != queued {
            self.queued.clone_from(&queued);
            self.out.push(super::Effect::Queued(queued));
        }
    }

    pub(super) fn say_not_queued(&mut self) {
        if self.queued.take().is_some() {
            self.out.push(super::Effect::Queued(None));
        }
    }

    /// When a job that still waits for its first cores is given up.
    pub(super) fn queue_due(&self) -> Option<Moment> {
        if self.has_begun() || self.stop_proposed {
            return None;
        }
        let left = self.manifest.policy.queue_at_most.saturating_sub(self.age());
        Some(self.now.after(left + Duration::from_millis(1)))
    }

    /// The job cannot go on, for a reason that is no workflow's.
    pub(super) fn fail(&mut self, why: String) {
        self.detail.clone_from(&why);
        self.stop_for(StopCause::Aborted, why);
    }

    fn next_wave(&mut self) {
        let asides = self.asides();
        if std::mem::take(&mut self.setup_due) {
            return self.open(Kind::Setup, vec![(asides, 0)]);
        }
        if let Some(batch) = &self.batch {
            let (workflows, stage) = (batch.workflows.clone(), batch.stage);
            return self.next_of_batch(&workflows, stage);
        }
        if !self.waiting.is_empty() {
            if self.contexts_are_committed() && self.fits() {
                self.form_batch();
            }
            return;
        }
        if std::mem::take(&mut self.teardown_due) {
            if !self.wants_teardown() {
                return self.tell(job::Event::TeardownEnded(Ok(())));
            }
            self.open(Kind::Teardown, vec![(asides, 1)]);
        }
    }

    /// X9: the first batch of what waits, by the pool as it is now.
    fn form_batch(&mut self) {
        let candidates: Vec<_> = self.waiting.iter().map(|w| self.manifest.candidate(*w)).collect();
        let (free, total) = (self.pool.free(), self.pool.total());
        let batches = allocation::partition(&candidates, total as usize);
        let lacks_cores = batches.len() > allocation::partition(&candidates, POOL_LARGE).len();
        if lacks_cores && self.now < self.splits_at() {
            // One after the other is another load than side by side. Workers of a young fleet are still being found.
            let needs = u32::try_from(candidates.len()).unwrap_or(u32::MAX);
            let why = format!("its workflows do not fit {total} cores side by side");
            return self.say_queued(needs, free, total, why);
        }
        let first = batches.into_iter().next().unwrap_or_default();
        let names: BTreeSet<String> = first.into_iter().map(|grant| grant.name).collect();
        if lacks_cores {
            let later =
                candidates.iter().map(|one| &one.name).filter(|name| !names.contains(*name));
            let later: Vec<&str> = later.map(String::as_str).collect();
            let later = later.join(", ");
            self.note(format!("the fleet has {total} cores: {later} will run afterwards"), None);
        }
        let manifest = &self.manifest;
        let (workflows, rest) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|w| names.contains(&manifest.workflows[*w].name));
        self.waiting = rest;
        self.batch = Some(Batch { workflows, stage: Stage::Setups });
        self.changed();
    }

    fn splits_at(&self) -> Moment {
        self.cores.1.after(self.settings.split_after)
    }

    /// When a layer that does not fit is divided, if no cores are added.
    pub(super) fn split_due(&self) -> Option<Moment> {
        let waits = self.started && self.wave.is_none() && self.batch.is_none();
        (waits && !self.waiting.is_empty()).then(|| self.splits_at()).filter(|at| *at > self.now)
    }

    fn next_of_batch(&mut self, workflows: &[usize], stage: Stage) {
        let asides = self.asides();
        let wants = |wanted: &dyn Fn(usize) -> bool, place: u32| -> Vec<Sid> {
            let chosen = workflows.iter().filter(|w| wanted(**w));
            chosen.map(|w| (asides, 2 + 2 * u32::try_from(*w).unwrap_or(0) + place)).collect()
        };
        let members = match stage {
            Stage::Setups => {
                wants(&|w| self.manifest.workflows[w].setup && !self.set_up.contains(&w), 0)
            }
            Stage::Load => {
                self.wave = Some(Wave::new(Kind::Load, Vec::new(), WaveStep::Seating(None)));
                return self.changed();
            }
            Stage::Teardowns if !self.may_tear_down() => Vec::new(),
            Stage::Teardowns => wants(&|w| self.manifest.workflows[w].teardown, 1),
        };
        match (stage, members.is_empty()) {
            (Stage::Setups, false) => self.open(Kind::Setups, members),
            (Stage::Teardowns, false) => self.open(Kind::Teardowns, members),
            (Stage::Teardowns, true) => self.end_batch(),
            _ => self.set_stage(Stage::Load),
        }
    }

    pub(super) fn set_stage(&mut self, stage: Stage) {
        if let Some(batch) = &mut self.batch {
            batch.stage = stage;
            self.changed();
        }
    }

    /// A wave of setups or teardowns, one core each.
    pub(super) fn open(&mut self, kind: Kind, members: Vec<Sid>) {
        for sid in &members {
            let key = self.key(*sid);
            let task = aside_task(sid.1);
            self.shards.entry(*sid).or_insert_with(|| Shard::new(key, task));
        }
        self.wave = Some(Wave::new(kind, members, WaveStep::Dispatching));
        self.changed();
    }
}

/// 0 and 1 are the plan's own; then two for each workflow.
pub(super) fn aside_task(shard: u32) -> Task {
    let of = (shard >= 2).then(|| WorkflowNo((shard - 2) / 2));
    if shard.is_multiple_of(2) { Task::Setup { of } } else { Task::Teardown { of } }
}
