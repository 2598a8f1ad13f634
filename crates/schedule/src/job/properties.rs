//! Random histories, possible and impossible ones, against the promises of the module.

use std::time::Duration;

use proptest::prelude::*;
use stats::{Outcome, StopReason};

use super::scenarios::shape;
use super::*;

/// A plan of up to eight workflows, each depending on some before it.
fn any_shape() -> impl Strategy<Value = Shape> {
    let one = (any::<u8>(), any::<bool>());
    let all = prop::collection::vec(one, 1..8);
    (all, any::<bool>(), any::<bool>()).prop_map(|(all, setup, teardown)| {
        let word = |(i, (mask, alone)): (usize, &(u8, bool))| {
            let needed: Vec<String> =
                (0..i).filter(|j| mask >> j & 1 == 1).map(|j| format!("w{j}")).collect();
            let alone = if *alone { "!" } else { "" };
            format!("w{i}{alone}({})", needed.join(","))
        };
        let plan: Vec<String> = all.iter().enumerate().map(word).collect();
        shape(&plan.join(" "), setup, teardown)
    })
}

/// Everything that could be said to a job, possible or not.
fn any_event() -> impl Strategy<Value = Event> {
    let outcome = || prop_oneof![Just(Ok(())), Just(Err("no".to_string()))];
    let end = prop_oneof![
        4 => Just(WorkflowEnd::Ok),
        1 => Just(WorkflowEnd::Error("no".into())),
        1 => Just(WorkflowEnd::Stopped)
    ];
    let reason = prop::sample::select(vec![
        StopReason::Cancelled,
        StopReason::Interrupted,
        StopReason::Threshold(1),
    ]);
    prop_oneof![
        2 => Just(Event::Started),
        2 => outcome().prop_map(Event::SetupEnded),
        4 => (0..9usize).prop_map(|workflow| Event::WorkflowReady { workflow }),
        20 => (0..9usize, end)
            .prop_map(|(workflow, result)| Event::WorkflowEnded { workflow, result }),
        1 => reason.prop_map(|reason| Event::StopRequested { reason }),
        1 => Just(Event::DeadlineReached),
        2 => outcome().prop_map(Event::TeardownEnded),
    ]
}

/// What an owner has seen of a job, from its effects alone.
#[derive(Default)]
struct Seen {
    started: Vec<usize>,
    completed: Vec<usize>,
    open: Vec<usize>,
    setups: usize,
    teardowns: usize,
    finishes: usize,
}

impl Seen {
    fn watch(&mut self, shape: &Shape, effects: &[Effect]) -> Result<(), TestCaseError> {
        for effect in effects {
            prop_assert_eq!(self.finishes, 0, "nothing after the end");
            match effect {
                Effect::StartWorkflow { workflow, .. } => {
                    prop_assert!(!self.started.contains(workflow), "started twice");
                    let done = |needed: &usize| self.completed.contains(needed);
                    prop_assert!(shape.depends_on[*workflow].iter().all(done), "too early");
                    self.started.push(*workflow);
                    self.open.push(*workflow);
                }
                Effect::RunSetup => self.setups += 1,
                Effect::RunTeardown => {
                    prop_assert!(self.open.is_empty(), "torn down under load");
                    self.teardowns += 1;
                }
                Effect::Finish { .. } => self.finishes += 1,
                Effect::SkipWorkflow { .. } | Effect::StopAll => {}
            }
        }
        Ok(())
    }

    fn tell(&mut self, job: &mut Job, event: Event) -> Result<(), TestCaseError> {
        let ended = match &event {
            Event::WorkflowEnded { workflow, result } => Some((*workflow, result.clone())),
            _ => None,
        };
        let shape = job.shape.clone();
        if let Ok(effects) = job.step(event, Duration::ZERO) {
            if let Some((workflow, result)) = ended {
                prop_assert!(self.open.contains(&workflow), "ended without having run");
                self.open.retain(|other| *other != workflow);
                if result == WorkflowEnd::Ok {
                    self.completed.push(workflow);
                }
            }
            self.watch(&shape, &effects)?;
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn no_history_breaks_a_promise_and_every_job_ends(
        shape in any_shape(), history in prop::collection::vec(any_event(), 0..60),
    ) {
        let mut job = Job::new(shape.clone()).unwrap();
        let mut seen = Seen::default();
        for event in history {
            seen.tell(&mut job, event)?;
        }
        // Then everything that is open ends, and the job must too, within one step per thing.
        seen.tell(&mut job, Event::Started)?;
        seen.tell(&mut job, Event::SetupEnded(Ok(())))?;
        while let Some(workflow) = seen.open.first().copied() {
            seen.tell(&mut job, Event::WorkflowEnded { workflow, result: WorkflowEnd::Ok })?;
        }
        seen.tell(&mut job, Event::TeardownEnded(Ok(())))?;

        prop_assert!(job.is_done());
        prop_assert_eq!(seen.finishes, 1);
        let began = seen.setups > 0 || !seen.started.is_empty();
        prop_assert_eq!(seen.teardowns, usize::from(shape.teardown && began));
        prop_assert!(seen.setups <= 1);
        prop_assert!((0..shape.names.len()).all(|workflow| job.status(workflow).is_some()));
        if job.outcome() == Some(Outcome::Completed) && job.stop_reason() == StopReason::Finished {
            prop_assert_eq!(seen.completed.len(), shape.names.len());
        }
    }
}
