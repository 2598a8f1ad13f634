//! What is known of each workflow: its state, how many shards it has, when it ran, and how far it
//! came.

use std::collections::BTreeMap;
use std::time::Duration;

use stats::{StopReason, WorkflowState, WorkflowStatus};

use schedule::job::{self, IllegalMove};

#[derive(Clone, Debug)]
pub(super) struct Workflows {
    machine: job::Job,
    /// How many shards a workflow was divided into.
    divided: BTreeMap<usize, u32>,
    /// From when until when it ran, since the job was created.
    spans: BTreeMap<usize, (Duration, Duration)>,
    /// How far the schedule of a workflow was when the last of its shards was over.
    reached: BTreeMap<usize, Duration>,
}

impl Workflows {
    pub fn new(machine: job::Job) -> Self {
        let (divided, spans, reached) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { machine, divided, spans, reached }
    }

    // ── the machine ────────────────────────────────────────────────────────────────────────────

    /// Tells the machine of workflows what has happened, and says what it wants done.
    pub fn step(
        &mut self,
        event: job::Event,
        age: Duration,
    ) -> Result<Vec<job::Effect>, IllegalMove> {
        self.machine.step(event, age)
    }

    pub fn name(&self, workflow: usize) -> &str {
        self.machine.name(workflow)
    }

    pub fn state(&self, workflow: usize) -> WorkflowState {
        self.machine.state(workflow)
    }

    pub fn status(&self, workflow: usize) -> Option<&WorkflowStatus> {
        self.machine.status(workflow)
    }

    pub fn stop_reason(&self) -> StopReason {
        self.machine.stop_reason()
    }

    pub fn setup_error(&self) -> Option<&str> {
        self.machine.setup_error()
    }

    pub fn teardown_error(&self) -> Option<&str> {
        self.machine.teardown_error()
    }

    // ── shards ─────────────────────────────────────────────────────────────────────────────────

    pub fn divide(&mut self, workflow: usize, shards: u32) {
        self.divided.insert(workflow, shards);
    }

    /// How many shards a workflow has; `None` before it is divided.
    pub fn shards(&self, workflow: usize) -> Option<u32> {
        self.divided.get(&workflow).copied()
    }

    pub fn divided(&self) -> impl Iterator<Item = usize> {
        self.divided.keys().copied()
    }

    pub fn shards_in_all(&self) -> u32 {
        self.divided.values().sum()
    }

    // ── its time ───────────────────────────────────────────────────────────────────────────────

    /// Its load begins when the job is so old.
    pub fn begin(&mut self, workflow: usize, age: Duration) {
        self.spans.insert(workflow, (age, age));
    }

    pub fn has_begun(&self, workflow: usize) -> bool {
        self.spans.contains_key(&workflow)
    }

    /// From when until when it has run.
    pub fn span(&self, workflow: usize) -> Option<(Duration, Duration)> {
        self.spans.get(&workflow).copied()
    }

    /// Something of it has ended now.
    pub fn ends(&mut self, workflow: usize, age: Duration) {
        if let Some(span) = self.spans.get_mut(&workflow) {
            span.1 = age;
        }
    }

    /// Something of it has ended then; others may have ended later.
    pub fn ended_by(&mut self, workflow: usize, age: Duration) {
        if let Some(span) = self.spans.get_mut(&workflow) {
            span.1 = span.1.max(age);
        }
    }

    /// One of its shards is over, so far in the schedule.
    pub fn reach(&mut self, workflow: usize, time: Duration) {
        let reached = self.reached.entry(workflow).or_default();
        *reached = time.max(*reached);
    }

    pub fn reached(&self, workflow: usize) -> Option<Duration> {
        self.reached.get(&workflow).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedule::job::Shape;

    fn workflows() -> Workflows {
        let shape = Shape {
            names: vec!["a".to_owned()],
            depends_on: vec![Vec::new()],
            layers: vec![vec![vec![(0, Vec::new())]]],
            setup: false,
            teardown: false,
        };
        Workflows::new(job::Job::new(shape).unwrap())
    }

    #[test]
    fn a_workflow_ends_with_the_last_of_its_shards_and_only_if_it_has_begun() {
        let seconds = Duration::from_secs;
        let mut workflows = workflows();
        workflows.ended_by(0, seconds(9));
        assert!(!workflows.has_begun(0) && workflows.span(0).is_none());
        workflows.begin(0, seconds(10));
        workflows.ended_by(0, seconds(30));
        workflows.ended_by(0, seconds(20));
        assert_eq!(workflows.span(0), Some((seconds(10), seconds(30))));
        workflows.ends(0, seconds(25));
        assert_eq!(workflows.span(0), Some((seconds(10), seconds(25))));
    }

    #[test]
    fn a_workflow_has_come_as_far_as_the_furthest_of_its_shards() {
        let seconds = Duration::from_secs;
        let mut workflows = workflows();
        assert_eq!(workflows.reached(0), None);
        workflows.reach(0, seconds(7));
        workflows.reach(0, seconds(5));
        assert_eq!(workflows.reached(0), Some(seconds(7)));
    }
}
