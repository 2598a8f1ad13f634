//! What runs next and what runs now: stages of setups, load and teardowns, the batch of workflows
//! that run together, and the wave of shards that start together.
//!
//! ```text
//! machine of workflows ──▶ due: setup, workflows of a layer, teardown
//!                             │ those that fit the fleet together
//!                             ▼
//!                           batch: its setups ─▶ its load ─▶ its teardowns      one wave each
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use fence::Moment;

use super::Sid;

/// Workflows of one layer that run together, and how far they are.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Its cores are not asked for before then.
    pub retry_at: Option<Moment>,
    /// How often they were asked for in vain.
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
    Reserving(Option<WavePlacement>),
    Provisioning(WavePlacement),
    Dispatching,
    Beginning,
    Running,
}

/// All or nothing: which shard gets a core of which reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WavePlacement {
    pub plan: Vec<(usize, u32)>,
    pub cores: Vec<(Sid, u32)>,
    pub reservations: BTreeSet<u32>,
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
    /// The schedule begins at that moment.
    pub fn starting(origin: Moment) -> Self {
        let (offset, paused, by_ledger) = (Duration::ZERO, Duration::ZERO, false);
        Self { origin, offset, paused, by_ledger }
    }

    pub fn at(&self, moment: Moment) -> Duration {
        self.offset.saturating_add(moment.since(self.origin)).saturating_sub(self.paused)
    }
}

impl Wave {
    pub fn new(kind: Kind, members: Vec<Sid>, step: WaveStep) -> Self {
        Self { kind, members, step, retry_at: None, tries: 0, clock: None }
    }

    /// Its placement, as long as it is not over whether all of it is granted.
    pub fn placement(&self) -> Option<&WavePlacement> {
        match &self.step {
            WaveStep::Reserving(Some(placement)) | WaveStep::Provisioning(placement) => {
                Some(placement)
            }
            _ => None,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Stages {
    /// The machine was told to start: there were cores for the first time.
    started: bool,
    setup_due: bool,
    teardown_due: bool,
    /// Workflows of the present layer that have no batch yet.
    waiting: Vec<usize>,
    /// Those of them whose own setup has run.
    set_up: BTreeSet<usize>,
    batch: Option<Batch>,
    wave: Option<Wave>,
}

impl Stages {
    pub fn start(&mut self) {
        self.started = true;
    }

    pub fn have_started(&self) -> bool {
        self.started
    }

    // ── what is due ────────────────────────────────────────────────────────────────────────────

    pub fn want_setup(&mut self) {
        self.setup_due = true;
    }

    pub fn is_setup_due(&self) -> bool {
        self.setup_due
    }

    /// Whether the plan's setup was due; it is not any more.
    pub fn take_setup(&mut self) -> bool {
        std::mem::take(&mut self.setup_due)
    }

    pub fn want_teardown(&mut self) {
        self.teardown_due = true;
    }

    pub fn is_teardown_due(&self) -> bool {
        self.teardown_due
    }

    pub fn take_teardown(&mut self) -> bool {
        std::mem::take(&mut self.teardown_due)
    }

    pub fn want(&mut self, workflow: usize) {
        self.waiting.push(workflow);
    }

    pub fn waiting(&self) -> &[usize] {
        &self.waiting
    }

    /// Nothing of what waits will run.
    pub fn take_waiting(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.waiting)
    }

    /// Whether workflows wait and nothing runs that they would have to wait for.
    pub fn wait_for_a_batch(&self) -> bool {
        let idle = self.started && self.wave.is_none() && self.batch.is_none();
        idle && !self.waiting.is_empty()
    }

    // ── the batch ──────────────────────────────────────────────────────────────────────────────

    pub fn batch(&self) -> Option<&Batch> {
        self.batch.as_ref()
    }

    /// Those of the waiting workflows run together from now on.
    pub fn form_batch(&mut self, chosen: impl Fn(usize) -> bool, stage: Stage) {
        let waiting = std::mem::take(&mut self.waiting);
        let (workflows, rest) = waiting.into_iter().partition(|workflow| chosen(*workflow));
        self.waiting = rest;
        self.batch = Some(Batch { workflows, stage });
    }

    /// The fleet has become too small for the others of the batch: they are a batch of their own
    /// later, without being set up again.
    pub fn shrink_batch(&mut self, stays: impl Fn(usize) -> bool) {
        let Some(batch) = &mut self.batch else { return };
        let workflows = std::mem::take(&mut batch.workflows);
        let (stay, rest): (Vec<usize>, Vec<usize>) =
            workflows.into_iter().partition(|workflow| stays(*workflow));
        batch.workflows = stay;
        self.set_up.extend(&rest);
        self.waiting.splice(0..0, rest);
    }

    pub fn leave_batch(&mut self, workflow: usize) {
        if let Some(batch) = &mut self.batch {
            batch.workflows.retain(|other| *other != workflow);
        }
    }

    pub fn take_batch(&mut self) -> Option<Batch> {
        self.batch.take()
    }

    /// Whether there is a batch that is at this stage from now on.
    pub fn set_stage(&mut self, stage: Stage) -> bool {
        if let Some(batch) = &mut self.batch {
            batch.stage = stage;
        }
        self.batch.is_some()
    }

    pub fn has_set_up(&mut self, workflow: usize) {
        self.set_up.insert(workflow);
    }

    pub fn is_set_up(&self, workflow: usize) -> bool {
        self.set_up.contains(&workflow)
    }

    // ── the wave ───────────────────────────────────────────────────────────────────────────────

    pub fn wave(&self) -> Option<&Wave> {
        self.wave.as_ref()
    }

    pub fn wave_mut(&mut self) -> Option<&mut Wave> {
        self.wave.as_mut()
    }

    pub fn open(&mut self, wave: Wave) {
        self.wave = Some(wave);
    }

    pub fn take_wave(&mut self) -> Option<Wave> {
        self.wave.take()
    }

    /// Whether there is a wave that is at this step from now on.
    pub fn set_step(&mut self, step: WaveStep) -> bool {
        if let Some(wave) = &mut self.wave {
            wave.step = step;
        }
        self.wave.is_some()
    }

    pub fn members(&self) -> Vec<Sid> {
        self.wave.as_ref().map(|wave| wave.members.clone()).unwrap_or_default()
    }

    /// The wave of load that is under way.
    pub fn load(&self) -> Option<&Wave> {
        self.wave.as_ref().filter(|wave| wave.kind == Kind::Load)
    }

    pub fn clock(&self) -> Option<Clock> {
        self.wave.as_ref().and_then(|wave| wave.clock)
    }

    pub fn clock_mut(&mut self) -> Option<&mut Clock> {
        self.wave.as_mut().and_then(|wave| wave.clock.as_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(workflows: &[usize]) -> Stages {
        let mut stages = Stages::default();
        workflows.iter().for_each(|workflow| stages.want(*workflow));
        stages
    }

    #[test]
    fn what_does_not_fit_any_more_waits_in_front_and_is_not_set_up_again() {
        let mut stages = waiting(&[0, 1, 2, 3]);
        stages.form_batch(|workflow| workflow != 3, Stage::Setups);
        assert_eq!(stages.waiting(), [3]);
        stages.shrink_batch(|workflow| workflow == 1);
        assert_eq!(stages.batch().unwrap().workflows, [1]);
        assert_eq!(stages.waiting(), [0, 2, 3]);
        assert!(stages.is_set_up(0) && stages.is_set_up(2));
        assert!(!stages.is_set_up(1) && !stages.is_set_up(3));
    }

    #[test]
    fn workflows_wait_for_a_batch_only_when_nothing_is_under_way() {
        let mut stages = waiting(&[0, 1]);
        assert!(!stages.wait_for_a_batch(), "not started");
        stages.start();
        assert!(stages.wait_for_a_batch());
        stages.form_batch(|workflow| workflow == 0, Stage::Setups);
        assert!(!stages.wait_for_a_batch(), "a batch is under way");
        stages.take_batch();
        assert!(stages.wait_for_a_batch());
        stages.open(Wave::new(Kind::Setup, Vec::new(), WaveStep::Running));
        assert!(!stages.wait_for_a_batch(), "a wave is under way");
        stages.take_wave();
        stages.take_waiting();
        assert!(!stages.wait_for_a_batch(), "nobody waits");
    }

    #[test]
    fn what_is_due_is_taken_once() {
        let mut stages = Stages::default();
        assert!(!stages.take_setup() && !stages.take_teardown());
        stages.want_setup();
        stages.want_teardown();
        assert!(stages.take_setup() && !stages.take_setup());
        assert!(stages.take_teardown() && !stages.take_teardown());
    }

    #[test]
    fn a_stage_or_a_step_is_set_only_where_there_is_one() {
        let mut stages = waiting(&[0]);
        assert!(!stages.set_stage(Stage::Load) && !stages.set_step(WaveStep::Running));
        stages.form_batch(|_| true, Stage::Setups);
        assert!(stages.set_stage(Stage::Load));
        assert_eq!(stages.batch().unwrap().stage, Stage::Load);
        stages.open(Wave::new(Kind::Load, vec![(0, 0)], WaveStep::Dispatching));
        assert!(stages.set_step(WaveStep::Running) && stages.load().is_some());
        assert_eq!(stages.members(), [(0, 0)]);
    }

    #[test]
    fn a_clock_stands_still_for_as_long_as_it_was_paused() {
        let at = |seconds| Moment::default().after(Duration::from_secs(seconds));
        let mut clock = Clock::starting(at(100));
        assert_eq!(clock.at(at(90)), Duration::ZERO);
        assert_eq!(clock.at(at(110)), Duration::from_secs(10));
        clock.paused = Duration::from_secs(4);
        clock.offset = Duration::from_secs(1);
        assert_eq!(clock.at(at(110)), Duration::from_secs(7));
    }
}
