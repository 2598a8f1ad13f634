//! A job from its manifest to its outcome: classes and shares, layers, results, context.

use std::collections::BTreeMap;
use std::time::Duration;

use control::message::{ReservationId, Task, WorkerRequest};
use control::owner::{
    Effect, Event, Manifest, Part, Policy, Provided, ShardState, WhenFull, context,
};
use fence::WorkflowNo;
use ledger_state::{Command, Outcome, Payload, Phase};
use plan::Priority;
use schedule::allocation;

use crate::fleet::worker::Behaviour;
use crate::fleet::world::{World, manifest, ms, part, worker};

fn after(mut later: Part, layer: usize, needs: &[usize]) -> Part {
    later.layer = layer;
    later.depends_on = needs.to_vec();
    later
}

fn plan(text: &str) -> plan::Plan {
    let env = |_: &str| None;
    let options = plan::ReadOptions::new(&env);
    plan::read_str(text, plan::Format::Yaml, std::path::Path::new("."), &options).unwrap()
}

const SHOP: &str = "
target: http://127.0.0.1:1
workflows:
  - name: Setup
    load: { executor: per-vu-iterations, vus: 1000, iterations: 1 }
    steps: [ { set: { a: b } } ]
  - name: LoadTest
    priority: high
    load: { executor: constant-vus, vus: 2000, duration: 30s }
    steps: [ { get: / }, { think: 1s } ]
  - name: Validate
    depends_on: [ LoadTest ]
    load: { executor: constant-vus, vus: 10, duration: 5s }
    steps: [ { get: / } ]
  - name: Report
    depends_on: [ Validate, LoadTest ]
    load: { executor: per-vu-iterations, vus: 1, iterations: 1 }
    steps: [ { set: { a: b } } ]
";

/// EXEC-1, EXEC-8, EXEC-82, EXEC-90: classes and layers come from the manifest, without running
/// anything.
#[test]
fn a_plan_gives_its_manifest() {
    let manifest = Manifest::of(&plan(SHOP), Policy::default());
    let seen: Vec<_> =
        manifest.workflows.iter().map(|p| (p.name.as_str(), p.is_test, p.layer)).collect();
    let expected =
        [("Setup", false, 0), ("LoadTest", true, 0), ("Validate", true, 1), ("Report", false, 2)];
    assert_eq!(seen, expected);
    assert_eq!(manifest.workflows[3].depends_on, [2, 1]);
    assert_eq!(manifest.workflows[1].length, Duration::from_secs(30));
    assert!(manifest.stuck_after() >= Duration::from_secs(120));
    let bytes = serde_json::to_vec(&manifest).unwrap();
    assert_eq!(serde_json::from_slice::<Manifest>(&bytes).unwrap(), manifest);
}

/// EXEC-60 to EXEC-71: what an owner asks for on 24 cores, by the golden figures.
#[test]
fn shares_are_those_of_the_examples() {
    let workflows = vec![
        Part { priority: Priority::High, ..part("Load", 2_000, 5) },
        Part { priority: Priority::Low, ..part("Analytics", 333, 5) },
        Part { is_test: false, ..part("Prepare", 1_000, 1) },
    ];
    let mut world = World::new(manifest(workflows), &[8, 8, 8]);
    world.own();
    // The one without load is a batch of its own, one core; then 18 and 6.
    world.until(|world| world.record().provisioned.len() == 1);
    assert_eq!(world.record().provisioned.values().next().unwrap().shards, 1);
    world.until(|world| world.running() == 24);
    let shards: Vec<u32> = world.record().provisioned.values().map(|p| p.shards).collect();
    assert_eq!(shards, [18, 6, 1]);
    assert_eq!(world.finish(), Outcome::Completed);
    // R14: the remainder is spread.
    assert_eq!(schedule::spread(2_000, 6), [334, 334, 333, 333, 333, 333]);
    assert_eq!(allocation::range(Priority::Normal, 8), (2, 6));
}

/// EXEC-91: shares by all cores, room by the free ones; too few of them: QUEUED with the numbers,
/// and later through reserving and committing like everybody.
#[test]
fn a_job_waits_for_cores_and_says_so() {
    let mut world = World::new(manifest(vec![part("load", 100, 2)]), &[8, 8]);
    occupy(&mut world, 0, 6, 3_000);
    world.own();
    world.pass(ms(1_000));
    let queued = world.owner().queued().expect("it waits").clone();
    assert_eq!((queued.needs, queued.free, queued.total), (16, 10, 16));
    assert_eq!(world.asked(|ask| matches!(ask, WorkerRequest::Dispatch(_))), 0);
    world.until(|world| world.running() == 16);
    assert!(world.owner().queued().is_none());
    assert_eq!(world.finish(), Outcome::Completed);
}

/// The heartbeats are old: they say that everything is busy, and it has been free for long. The
/// workers are asked.
#[test]
fn a_job_does_not_wait_for_the_next_heartbeat() {
    let mut plan = manifest(vec![part("load", 100, 2)]);
    plan.setup = true;
    let mut world = World::new(plan, &[2, 2]);
    world.hints_every = Duration::from_secs(60);
    occupy(&mut world, 0, 2, 10);
    occupy(&mut world, 1, 2, 10);
    world.own();
    world.until(|world| world.running() == 4);
    assert!(world.at() < ms(1_000), "{:?}", world.at());
    assert_eq!(world.finish(), Outcome::Completed);
}

/// Somebody else's cores, for a time.
fn occupy(world: &mut World, number: u128, cores: u32, millis: u64) {
    let hold = ReservationId { job: world.job, epoch: fence::Epoch::default(), number: 1 };
    let until = world.now.after(ms(millis));
    world.worker(number).holds.insert((0, 1), (hold, cores, until));
}

/// EXEC-91: no workers at all. By policy the job is refused with the numbers, or waits until its
/// deadline.
#[test]
fn a_plan_that_cannot_fit_is_refused_or_queued_by_policy() {
    let mut refused = manifest(vec![part("load", 8, 2)]);
    refused.policy.when_full = WhenFull::Refuse;
    refused.policy.cores_min = 32;
    let mut world = World::new(refused.clone(), &[8, 8]);
    world.own();
    assert_eq!(world.finish(), Outcome::Failed);
    let detail = world.record().end.as_ref().unwrap().detail.clone();
    assert!(detail.contains("asks for 32 cores") && detail.contains("has 16"), "{detail}");

    refused.policy.cores_min = 0;
    let mut world = World::new(refused, &[]);
    world.own();
    assert_eq!(world.finish(), Outcome::Failed);

    let mut waits = manifest(vec![part("load", 8, 2)]);
    waits.policy.queue_at_most = Duration::from_secs(10);
    let mut world = World::new(waits, &[]);
    world.own();
    world.pass(ms(9_000));
    assert_eq!(world.record().phase(), Phase::Running);
    assert_eq!(world.finish(), Outcome::Failed);
    let detail = &world.record().end.as_ref().unwrap().detail;
    assert!(detail.contains("waited 10 s") && detail.contains("no workers"), "{detail}");
}

/// Two jobs that together exceed a worker's cores: one worker refuses, everything is given back,
/// and nothing was committed or dispatched.
#[test]
fn a_reservation_is_all_or_nothing() {
    let mut world = World::new(manifest(vec![part("load", 100, 2)]), &[4, 4]);
    // The hints say that there is room, but worker 1 has given its cores away since.
    world.own();
    occupy(&mut world, 1, 2, 2_000);
    world.until(|world| world.owner().queued().is_some());
    world.pass(ms(100));
    assert_eq!(world.worker(0).free(), 4, "what was reserved is free again");
    assert!(world.record().shards.is_empty() && world.record().provisioned.is_empty());
    let why = &world.owner().queued().unwrap().why;
    assert!(why.contains("4 cores") || why.contains("needed"), "{why}");
    assert_eq!(world.finish(), Outcome::Completed);
}

/// While the ledger has no majority nothing is dispatched; a cut-off owner knows nothing, and
/// waits.
#[test]
fn without_the_ledger_nothing_starts() {
    let mut world = World::new(manifest(vec![part("load", 4, 2)]), &[4]);
    world.own();
    world.ledger_down = true;
    world.pass(ms(20_000));
    assert_eq!(world.asked(|ask| matches!(ask, WorkerRequest::Dispatch(_))), 0);
    world.ledger_down = false;
    assert_eq!(world.finish(), Outcome::Completed);
}

/// EXEC-120 to EXEC-122, EXEC-182: layers are barriers; a layer's context is committed before
/// anything of the next is started, and comes with the dispatch.
#[test]
fn layers_run_one_after_another() {
    let mut load = part("LoadTest", 2, 2);
    load.provide = vec![Provided {
        key: "token".into(),
        to: vec!["Validate".into(), "Report".into()],
        collect: false,
    }];
    let mut validate = after(part("Validate", 2, 1), 1, &[1]);
    validate.uses = vec![("token".into(), vec!["LoadTest".into()])];
    let mut report = after(part("Report", 1, 1), 2, &[2, 1]);
    report.uses = vec![("token".into(), vec!["Validate".into(), "LoadTest".into()])];
    let setup = part("Setup", 1, 5);
    let mut world = World::new(manifest(vec![setup, load, validate, report]), &[8]);
    let provided = BTreeMap::from([("token".to_owned(), b"abc".to_vec())]);
    world.behave(1, 1, &Behaviour { provided, ..Behaviour::default() });
    world.own();
    world.until(|world| !world.dispatched(2).is_empty());
    assert!(world.at() >= Duration::from_secs(5), "Validate waits for the whole layer");
    assert_eq!(world.record().contexts.len(), 1);
    assert_eq!(world.finish(), Outcome::Completed);
    // Shard 0 had no value, so shard 1 is the lowest that has one. Every later layer sees it.
    for workflow in [2, 3] {
        let dispatch = world.dispatched(workflow)[0];
        assert_eq!(dispatch.context_version, workflow - 1);
        let Payload::Inline(bytes) = &dispatch.context else { panic!("a blob") };
        let handed = context::decode(bytes).unwrap();
        assert_eq!(handed.uses, BTreeMap::from([("token".to_owned(), b"abc".to_vec())]));
    }
    // Each layer is committed once.
    assert_eq!(world.record().contexts.len(), 2);
    assert_eq!(world.dispatched(2).len(), 2);
}

/// Cancel while the layer's commit is on its way: the next layer is never dispatched.
#[test]
fn a_cancel_before_the_border_keeps_the_next_layer_out() {
    let second = after(part("second", 2, 1), 1, &[0]);
    let mut world = World::new(manifest(vec![part("first", 2, 1), second]), &[4]);
    world.own();
    world.until(|world| {
        world.done.iter().any(|(_, effect)| {
            matches!(effect, Effect::Commit { command: Command::CommitContext { .. }, .. })
        })
    });
    world.cancel();
    assert_eq!(world.finish(), Outcome::Cancelled);
    assert!(world.dispatched(1).is_empty());
}

/// EXEC-54: a value flows only if both sides name each other; otherwise there is none, and the
/// default holds.
#[test]
fn values_need_both_sides() {
    let provide =
        |to: &str| vec![Provided { key: "token".into(), to: vec![to.to_owned()], collect: false }];
    let uses = |from: &str| vec![("token".to_owned(), vec![from.to_owned()])];
    let table = [("b", "a", true), ("other", "a", false), ("b", "other", false)];
    for (to, from, flows) in table {
        let mut a = part("a", 1, 1);
        a.provide = provide(to);
        let mut b = after(part("b", 1, 1), 1, &[0]);
        b.uses = uses(from);
        let mut world = World::new(manifest(vec![a, b, part("other", 1, 1)]), &[4]);
        let provided = BTreeMap::from([("token".to_owned(), b"x".to_vec())]);
        world.behave(0, 0, &Behaviour { provided, ..Behaviour::default() });
        world.own();
        assert_eq!(world.finish(), Outcome::Completed);
        let Payload::Inline(bytes) = &world.dispatched(1)[0].context else { panic!("a blob") };
        assert_eq!(!context::decode(bytes).unwrap().uses.is_empty(), flows, "{to} {from}");
    }
}

/// All shards' values as a JSON list, if the plan asks for that; a workflow that provides too much
/// has failed.
#[test]
fn values_are_collected_and_bounded() {
    let provide = |collect| vec![Provided { key: "t".into(), to: vec!["b".into()], collect }];
    let run = |collect, bytes: usize| {
        let mut a = part("a", 3, 1);
        a.provide = provide(collect);
        let mut b = after(part("b", 1, 1), 1, &[0]);
        b.uses = vec![("t".into(), vec!["a".into()])];
        let mut world = World::new(manifest(vec![a, b]), &[4]);
        for shard in 0..3 {
            let mut value = format!("v{shard}").into_bytes();
            value.resize(value.len().max(bytes), b'x');
            let provided = BTreeMap::from([("t".to_owned(), value)]);
            world.behave(0, shard, &Behaviour { provided, ..Behaviour::default() });
        }
        world.own();
        let outcome = world.finish();
        let handed = world.dispatched(1).first().map(|dispatch| match &dispatch.context {
            Payload::Inline(bytes) => context::decode(bytes).unwrap(),
            Payload::Blob(_) => panic!("a blob"),
        });
        (outcome, handed.and_then(|handed| handed.uses.get("t").cloned()), world)
    };
    let (outcome, value, _) = run(true, 0);
    assert_eq!((outcome, value.unwrap()), (Outcome::Completed, br#"["v0","v1","v2"]"#.to_vec()));
    // Beyond what lies in the log itself: the context is a blob there.
    let (outcome, value, world) = run(false, 20_000);
    assert_eq!((outcome, value.unwrap().len()), (Outcome::Completed, 20_000));
    assert!(matches!(world.record().contexts[0].payload, Payload::Blob(_)));
    let (outcome, value, world) = run(false, 2 << 20);
    assert_eq!((outcome, value), (Outcome::Failed, None));
    let status = format!("{:?}", world.owner().status(0));
    assert!(status.contains("more than the 1048576"), "{status}");
}

/// EXEC-134: progress of a hundred per cent ends nothing; the final result does, and is
/// acknowledged.
#[test]
fn only_a_result_ends_a_workflow() {
    let mut world = World::new(manifest(vec![part("load", 1, 3)]), &[1]);
    world.own();
    world.until(|world| world.running() == 1);
    let counters = ledger_state::Counters { completed: 1_000_000, ..Default::default() };
    let (shard, attempt) = (world.key(0, 0), fence::Attempt(1));
    let told = world.clock();
    world.give(Event::Progress { shard, attempt, counters, told });
    world.pass(ms(1_000));
    assert_eq!(world.state_of(0, 0), Some(ShardState::Running));
    assert_eq!(world.finish(), Outcome::Completed);
    world.pass(ms(100));
    assert!(world.worker(0).outbox.is_empty(), "durable, so it may be forgotten");
    assert!(world.record().result.is_some());
}

/// EXEC-142, EXEC-160: an error is final. No second dispatch, the text is there, the partial counts
/// too.
#[test]
fn an_error_is_final() {
    let mut world = World::new(manifest(vec![part("bad", 2, 3), part("good", 2, 1)]), &[4]);
    let error = Some("no such table".to_owned());
    world.behave(0, 1, &Behaviour { error, ..Behaviour::default() });
    world.own();
    assert_eq!(world.finish(), Outcome::Partial);
    assert_eq!(world.record().shard(&world.key(0, 1)).unwrap().attempts.len(), 1);
    let conclusion = world.conclusion.as_ref().unwrap();
    assert_eq!(
        conclusion.workflows[0].status,
        stats::WorkflowStatus::Failed { error: "no such table".to_owned() }
    );
    assert!(world.record().totals.completed > 0);
    assert_eq!(world.record().end.as_ref().unwrap().detail, "bad failed: no such table");
}

/// The failed one is the last of its layer: the layer is over all the same, dependents are SKIPPED
/// with the reason, others go on, and the job ends.
#[test]
fn dependents_of_a_failure_are_skipped() {
    let workflows = vec![
        part("bad", 1, 4),
        part("good", 1, 1),
        after(part("child", 1, 1), 1, &[0]),
        after(part("free", 1, 1), 1, &[1]),
        after(part("grandchild", 1, 1), 2, &[2]),
    ];
    let mut world = World::new(manifest(workflows), &[4]);
    let error = Some("broken".to_owned());
    world.behave(0, 0, &Behaviour { error, ..Behaviour::default() });
    world.own();
    assert_eq!(world.finish(), Outcome::Partial);
    for workflow in [2, 4] {
        assert!(world.dispatched(workflow).is_empty());
        assert_eq!(world.state_of(workflow, 0), Some(ShardState::Skipped));
    }
    let skipped = world.owner().history().iter().find(|t| t.to == ShardState::Skipped).unwrap();
    assert_eq!(skipped.reason, "dependency_failed: bad");
    assert_eq!(world.dispatched(3).len(), 1);
}

/// All failed is FAILED.
#[test]
fn all_failed_is_failed() {
    let mut world = World::new(manifest(vec![part("bad", 2, 1)]), &[4]);
    let error = Some("broken".to_owned());
    world.behave(0, 0, &Behaviour { error, ..Behaviour::default() });
    world.own();
    assert_eq!(world.finish(), Outcome::Failed);
}

/// No result when its time is over: stopped, and FAILED. Its core is free again.
#[test]
fn a_run_that_does_not_end_is_ended() {
    let mut world = World::new(manifest(vec![part("load", 2, 2)]), &[2]);
    world.behave(0, 1, &Behaviour { hangs: true, ..Behaviour::default() });
    world.own();
    assert_eq!(world.finish(), Outcome::Failed);
    assert_eq!(world.path(0, 1), ["DISPATCHED", "RUNNING", "FAILED", "FAILED_TERMINAL"]);
    assert!(
        world.conclusion.as_ref().unwrap().workflows[0].status != stats::WorkflowStatus::Completed
    );
    assert_eq!(world.worker(0).free(), 2);
}

/// A result whose acknowledgement was lost comes again: nothing changes, and it is acknowledged
/// again.
#[test]
fn a_repeated_result_changes_nothing() {
    let second = after(part("second", 1, 2), 1, &[0]);
    let mut world = World::new(manifest(vec![part("first", 1, 1), second]), &[2]);
    world.own();
    world.until(|world| world.worker_report().is_some());
    let report = world.worker_report().unwrap();
    world.until(|world| !world.dispatched(1).is_empty());
    let totals = world.record().totals;
    for _ in 0..3 {
        world
            .give(Event::Reported(control::message::WorkerReport::Ended(Box::new(report.clone()))));
    }
    let forgets = world.asked(|ask| matches!(ask, WorkerRequest::Forget { .. }));
    assert!(forgets >= 4, "{forgets}");
    assert_eq!(world.record().totals, totals);
    assert_eq!(world.finish(), Outcome::Completed);
    let finishes = world.done.iter().filter(|(_, effect)| {
        matches!(effect, Effect::Commit { command: Command::FinishJob { .. }, .. })
    });
    assert_eq!(finishes.count(), 1);
}

/// EXEC-72: all shards start at one instant, with half of each worker's round trip taken off.
#[test]
fn all_shards_start_together() {
    let mut world = World::new(manifest(vec![part("load", 6, 2)]), &[2, 2, 2]);
    world.faults.slow_ms = 10;
    world.own();
    world.until(|world| world.running() == 6);
    let starts: Vec<_> = world.workers.values().flat_map(|w| &w.starts).copied().collect();
    let first = starts.iter().map(|start| start.2).min().unwrap();
    let last = starts.iter().map(|start| start.2).max().unwrap();
    assert_eq!(starts.len(), 6);
    assert!(last.since(first) <= ms(20), "{:?}", last.since(first));
    assert!(starts.iter().all(|start| start.3 <= ms(1)), "each at the schedule's zero");
    world.finish();
}

/// Setup and teardown of the plan and of a workflow run once per job, whatever the number of
/// shards; a setup's values reach everybody it is for.
#[test]
fn setups_and_teardowns_run_once() {
    let mut a = part("a", 3, 1);
    (a.setup, a.teardown) = (true, true);
    let mut plan = manifest(vec![a, part("b", 2, 1)]);
    (plan.setup, plan.teardown) = (true, true);
    let mut world = World::new(plan, &[8]);
    let give = |key: &str, value: &str| Behaviour {
        provided: BTreeMap::from([(key.to_owned(), value.as_bytes().to_vec())]),
        ..Behaviour::default()
    };
    world.behave(2, 0, &give("base", "plan"));
    world.behave(2, 2, &give("own", "a"));
    world.own();
    assert_eq!(world.finish(), Outcome::Completed);
    let tasks: Vec<Task> = world.dispatched(2).iter().map(|dispatch| dispatch.task).collect();
    let of = Some(fence::WorkflowNo(0));
    let expected = [
        Task::Setup { of: None },
        Task::Setup { of },
        Task::Teardown { of },
        Task::Teardown { of: None },
    ];
    assert_eq!(tasks, expected);
    let variables = |workflow| {
        let Payload::Inline(bytes) = &world.dispatched(workflow)[0].context else { panic!() };
        context::decode(bytes).unwrap().variables.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(variables(0), ["base", "own"]);
    assert_eq!(variables(1), ["base"]);
}

/// A failed setup of the plan: nothing runs, everything is skipped, the teardown still does. Of a
/// workflow: it fails.
#[test]
fn a_failed_setup_keeps_the_load_out() {
    let mut plan = manifest(vec![part("a", 1, 1)]);
    (plan.setup, plan.teardown) = (true, true);
    let mut world = World::new(plan, &[2]);
    let error = Some("no database".to_owned());
    world.behave(1, 0, &Behaviour { error: error.clone(), ..Behaviour::default() });
    world.own();
    assert_eq!(world.finish(), Outcome::Failed);
    assert!(world.dispatched(0).is_empty());
    assert_eq!(world.dispatched(1).len(), 2);
    assert_eq!(world.conclusion.as_ref().unwrap().setup_error, error);

    let mut a = part("a", 1, 1);
    a.setup = true;
    let mut world = World::new(manifest(vec![a, part("b", 1, 1)]), &[2]);
    world.behave(2, 2, &Behaviour { error, ..Behaviour::default() });
    world.own();
    assert_eq!(world.finish(), Outcome::Partial);
    assert!(world.dispatched(0).is_empty() && !world.dispatched(1).is_empty());
}

/// EXEC-146: a worker keeps the highest context version it has seen; values are in dispatches and
/// in the ledger, and nowhere in what a client gets.
#[test]
fn context_stays_inside() {
    let mut a = part("a", 1, 1);
    a.provide = vec![Provided { key: "t".into(), to: vec!["b".into()], collect: false }];
    let mut b = after(part("b", 1, 1), 1, &[0]);
    b.uses = vec![("t".into(), vec!["a".into()])];
    let mut world = World::new(manifest(vec![a, b]), &[2]);
    let provided = BTreeMap::from([("t".to_owned(), b"secret-value".to_vec())]);
    world.behave(0, 0, &Behaviour { provided, ..Behaviour::default() });
    world.own();
    assert_eq!(world.finish(), Outcome::Completed);
    assert_eq!(world.worker(0).context_seen, 1);
    assert!(!format!("{:?}", world.conclusion).contains("secret-value"));
    assert_eq!(world.owner().values()["a"]["t"], b"secret-value");
}

/// Which workflows run side by side must not depend on which workers a young fleet has found so
/// far: the target would see another load.
#[test]
fn workflows_that_fit_the_fleet_run_side_by_side_though_its_workers_are_found_late() {
    let parts = ["a", "b", "c"].map(|name| part(name, 1, 10));
    let mut world = World::new(manifest(parts.to_vec()), &[1, 1, 1]);
    world.suspected.extend([worker(1), worker(2)]);
    world.own();
    world.pass(Duration::from_millis(1_200));
    world.suspected.clear();
    world.give(Event::Workers(world.hints()));
    assert_eq!(world.finish(), Outcome::Completed);
    let begun = |workflow| world.record().provisioned[&WorkflowNo(workflow)].begun_ms;
    assert!(begun(0).is_some() && begun(0) == begun(1) && begun(1) == begun(2));
}

#[test]
fn workflows_that_do_not_fit_run_one_after_the_other_and_the_timeline_says_so() {
    let parts = ["a", "b", "c"].map(|name| part(name, 1, 4));
    let mut world = World::new(manifest(parts.to_vec()), &[1, 1]);
    world.own();
    assert_eq!(world.finish(), Outcome::Completed);
    let timeline = &world.conclusion.as_ref().expect("a result").timeline;
    let told = timeline.iter().filter(|note| note.text.contains("will run afterwards"));
    let told: Vec<&str> = told.map(|note| note.text.as_str()).collect();
    assert_eq!(told, ["the fleet has 2 cores: c will run afterwards"]);
}
