//! Random histories: against the model, against each other, and against nonsense.

use std::collections::BTreeSet;
use std::time::Duration;

use fence::{Attempt, BootId, Epoch, GroupId, Hlc, JobId, NodeId, ShardKey, WorkflowNo};
use ledger_state::Steer;
use ledger_state::{
    AttemptTerms, BlobRef, Command, Counters, CreateJob, Grace, IdempotencyKey, LapseProof, Limits,
    Payload, Proposal, Reply, ReportedBy, RequestId, State, StopCause, check_step,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::model::{Model, Op, changed, compare, op, outcome, status};
use crate::world::{ALICE, BOB, GROUP, World, blob, key, session, submission};

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// P1 to P5, LEDG-28: any history of commands, stale ones and repeats among them, does to the
    /// ledger what it does to the model; a refused or repeated command changes nothing; and every
    /// invariant holds all the time.
    #[test]
    fn the_ledger_does_what_the_model_does(ops in prop::collection::vec(op(), 1..120)) {
        let mut world = World::new();
        // A member that is restarted after every entry.
        let mut member = world.state.clone();
        let mut models = vec![Model::default(); 2];
        let mut sent: Vec<(Proposal, Reply)> = Vec::new();
        for op in ops {
            if let Op::Repeat { back } = op {
                if let Some((proposal, first)) = sent.iter().rev().nth(back).cloned() {
                    let before = world.state.clone();
                    prop_assert_eq!(world.send(proposal.clone()), first.clone());
                    prop_assert_eq!(restarted(&mut member, world.index, &proposal), first);
                    prop_assert!(world.state.jobs().eq(before.jobs()));
                }
            } else {
                let model = &mut models[op.job()];
                let op = op.aimed(model);
                let mut proposal = world.proposal(session(BOB, 1), op.command(model));
                proposal.settled = 0;
                let here = world.next_epoch();
                let reply = world.send(proposal.clone());
                prop_assert_eq!(changed(&reply), model.apply(&op, here), "{:?}: {:?}", op, reply);
                prop_assert_eq!(&restarted(&mut member, world.index, &proposal), &reply);
                sent.push((proposal, reply));
            }
            for (number, model) in models.iter().enumerate() {
                compare(model, &world.state, number as u64);
            }
        }
        prop_assert_eq!(member, world.state);
    }

    /// P3: one log, applied straight, with a restart after every entry, and on two members: the
    /// same answers and the same state.
    #[test]
    fn replay_is_equal(
        commands in prop::collection::vec((any::<bool>(), command(), 0..3u64), 1..60),
        sizes in prop::collection::vec(1..6usize, 60),
    ) {
        let log = entries(&commands, &sizes);
        let mut straight = State::new(GROUP, small());
        let mut restarted = straight.clone();
        for (index, batch) in &log {
            let before = straight.clone();
            let replies = straight.apply(*index, batch);
            prop_assert_eq!(replies.len(), batch.len());
            restarted = State::decode(&restarted.encode()).unwrap();
            prop_assert_eq!(&restarted.apply(*index, batch), &replies);
            prop_assert_eq!(straight.digest(), restarted.digest());
            prop_assert_eq!(straight.check(), Ok(()));
            prop_assert_eq!(check_step(&before, &straight), Ok(()));
        }
        prop_assert_eq!(restarted, straight);
    }

    /// P10: no log panics the ledger or breaks an invariant, whatever is in it; nor do any bytes.
    #[test]
    fn nothing_panics(
        commands in prop::collection::vec((any::<bool>(), command(), any::<u64>()), 1..40),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut state = State::new(GROUP, small());
        for (index, batch) in entries(&commands, &[3; 40]) {
            state.apply(index, &batch);
            prop_assert_eq!(state.check(), Ok(()));
        }
        let _ = State::decode(&bytes);
        let mut versioned = vec![1];
        versioned.extend(bytes);
        let _ = State::decode(&versioned);
    }
}

/// Restarts a member from its snapshot, and lets it apply an entry.
fn restarted(member: &mut State, index: u64, proposal: &Proposal) -> Reply {
    *member = State::decode(&member.encode()).unwrap();
    member.apply(index, std::slice::from_ref(proposal)).remove(0)
}

/// Small enough that every limit is met.
fn small() -> Limits {
    Limits {
        jobs: 3,
        attempts: 4,
        bytes: 150,
        layers: 2,
        text_bytes: 8,
        inline_bytes: 8,
        sessions: 2,
        session_records: 3,
        session_idle_ms: 10,
        window: 16,
        committed_ttl_ms: 100,
        retry_window_ms: 40,
        advance_ms: 60,
        retire_per_advance: 1,
        history_first: 1,
        history_last: 2,
        recent_events: 5,
        kept_ms: 300,
        ..Limits::default()
    }
}

/// Log entries of two nodes in two lives each, with gaps between the indexes. `jump` disturbs the
/// request numbers.
fn entries(commands: &[(bool, Command, u64)], sizes: &[usize]) -> Vec<(u64, Vec<Proposal>)> {
    let mut proposals = Vec::new();
    for (place, (alice, command, jump)) in commands.iter().enumerate() {
        let node = if *alice { ALICE } else { BOB };
        let boot = 1 + place as u64 / 30;
        let place = place as u64;
        proposals.push(Proposal {
            request: RequestId {
                session: session(node, boot),
                seq: (place % 30).wrapping_add(*jump),
            },
            settled: (place % 30).saturating_sub(8),
            at: Hlc { wall_ms: *jump, logical: 0, node },
            command: if place % 30 < 2 { Command::OpenSession } else { command.clone() },
        });
    }
    let mut log = Vec::new();
    let mut rest = proposals.as_slice();
    for (number, size) in sizes.iter().enumerate() {
        let (batch, later) = rest.split_at(rest.len().min(*size));
        log.push((1 + number as u64 * 2, batch.to_vec()));
        rest = later;
    }
    log
}

/// Any command: about few jobs and likely epochs, or about nothing that makes sense.
fn command() -> impl Strategy<Value = Command> {
    let job = prop_oneof![
        6 => (0..4u64).prop_map(|n| key(n).job_id("acme")),
        1 => any::<u128>().prop_map(JobId),
    ];
    let epoch = prop_oneof![
        6 => (0..16u64, 0..3u16).prop_map(|(index, position)| Epoch::at(GROUP, index, position)),
        1 => (any::<u64>(), any::<u32>(), any::<u64>()).prop_map(|(cluster, generation, number)| {
            Epoch { group: GroupId { cluster, generation }, number }
        }),
    ];
    let attempt = prop_oneof![4 => 0..6u32, 1 => any::<u32>()].prop_map(Attempt);
    let shard = (job.clone(), 0..2u32).prop_map(|(job, shard)| ShardKey {
        job,
        workflow: WorkflowNo(0),
        shard,
    });
    let text = prop_oneof![4 => "[a-z]{0,4}", 1 => ".{0,20}"];
    let payload = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..10).prop_map(Payload::Inline),
        any::<u64>().prop_map(|bytes| {
            let mut blob = blob(9);
            blob.bytes = bytes;
            Payload::Blob(blob)
        }),
    ];
    let counters = any::<[u64; 3]>().prop_map(|[issued, completed, failed]| Counters {
        issued,
        completed,
        failed,
        ..Counters::default()
    });
    let who = (prop_oneof![Just(ALICE), Just(BOB), Just(NodeId(3))], 0..3u64)
        .prop_map(|(node, boot)| session(node, boot));
    let after = prop_oneof![
        Just(LapseProof::First),
        Just(LapseProof::Stopped),
        Just(LapseProof::LeaseLapsed),
        any::<u64>().prop_map(|boot| LapseProof::HigherBoot(BootId(boot))),
    ];
    let hooks = prop::option::of((0..3u32).prop_map(WorkflowNo));
    let grace = (0..9_000_000u64, any::<u64>(), hooks)
        .prop_map(|(stop_ms, teardown_ms, hooks)| Grace { stop_ms, teardown_ms, hooks });
    let grace = prop::option::of(grace);
    let word =
        prop_oneof![Just(ReportedBy::Whole), Just(ReportedBy::Partial), Just(ReportedBy::Owner)];
    prop_oneof![
        1 => Just(Command::OpenSession),
        4 => (text.clone(), 0..4u64, 0..2u8, prop_oneof![Just(0), any::<u64>()]).prop_map(
            |(name, n, body, age_ms)| {
                let fingerprint = [body; 32];
                Command::CreateJob(Box::new(CreateJob { name, fingerprint, age_ms, ..submission(n) }))
            }
        ),
        1 => (text.clone(), text.clone(), any::<u64>()).prop_map(|(tenant, client, sequence)| {
            let key = IdempotencyKey { client, sequence, nonce: [0; 16] };
            Command::CreateJob(Box::new(CreateJob { tenant, key, ..submission(0) }))
        }),
        4 => (job.clone(), who, prop::option::of(epoch.clone()))
            .prop_map(|(job, claimant, seen)| Command::ClaimJob { job, claimant, seen }),
        1 => (job.clone(), epoch.clone()).prop_map(|(job, epoch)| Command::ReleaseJob { job, epoch }),
        3 => (shard.clone(), epoch.clone(), attempt.clone(), any::<u64>(), after).prop_map(
            |(shard, epoch, attempt, boot, after)| {
                let (worker, boot) = (NodeId(4), BootId(boot));
                let terms = AttemptTerms::default();
                Command::StartAttempt { shard, epoch, attempt, worker, boot, after, terms }
            }
        ),
        2 => (shard.clone(), epoch.clone(), attempt.clone(), text.clone()).prop_map(
            |(shard, epoch, attempt, reason)| {
                let (heard_ms, suspected) = (None, false);
                Command::RevokeAttempt { shard, epoch, attempt, reason, heard_ms, suspected }
            }
        ),
        2 => (shard.clone(), epoch.clone(), attempt.clone(), 0..3u32, any::<[u64; 2]>()).prop_map(
            |(shard, epoch, attempt, set, [count, of])| {
                Command::GrantRows { shard, epoch, attempt, set, count, of }
            }
        ),
        2 => (shard, prop::option::of(epoch.clone()), attempt, status(), counters, word).prop_map(
            |(shard, under, attempt, status, counters, word)| {
                let result = Some(blob(1));
                Command::EndAttempt { shard, under, attempt, status, counters, result, sent_until_ms: None, word }
            }
        ),
        1 => (job.clone(), epoch.clone(), any::<u32>(), payload).prop_map(
            |(job, epoch, layer, context)| Command::CommitContext { job, epoch, layer, context }
        ),
        1 => (job.clone(), text.clone(), text.clone(), any::<bool>(), grace).prop_map(
            |(job, reason, requestor, first, grace)| {
                let nonce = [u8::from(first); 16];
                Command::CancelJob { job, reason, requestor, nonce, grace }
            }
        ),
        3 => (job.clone(), epoch.clone(), course(), text.clone())
            .prop_map(|(job, epoch, course, reason)| course.command(job, epoch, reason)),
        2 => (job, epoch, outcome(), text)
            .prop_map(|(job, epoch, outcome, detail)| Command::FinishJob { job, epoch, outcome, detail }),
        2 => (any::<u64>(), any::<u64>())
            .prop_map(|(seen_ms, elapsed_ms)| Command::Advance { seen_ms, elapsed_ms }),
        1 => (0..3u32).prop_map(|jobs| Command::MakeRoom { jobs }),
    ]
}

/// What an owner says about the course of its job.
#[derive(Clone, Debug)]
enum Course {
    Provision(Vec<(u32, u32)>),
    Begin(Vec<u32>),
    Stop(StopCause),
    Steer(Steer),
    Extend(u64),
    Result(u64),
}

fn course() -> impl Strategy<Value = Course> {
    let number = prop_oneof![4 => 0..3u32, 1 => any::<u32>()];
    let steer = prop_oneof![
        Just(Steer::Pause),
        Just(Steer::Resume),
        (number.clone(), any::<f64>()).prop_map(|(workflow, per_second)| {
            let (workflow, from) = (WorkflowNo(workflow), Duration::ZERO);
            Steer::Rate { workflow, per_second, from }
        }),
    ];
    prop_oneof![
        prop::collection::vec((number.clone(), number.clone()), 0..3).prop_map(Course::Provision),
        prop::collection::vec(number, 0..3).prop_map(Course::Begin),
        prop_oneof![Just(StopCause::Timeout), Just(StopCause::Threshold(1))].prop_map(Course::Stop),
        steer.prop_map(Course::Steer),
        any::<u64>().prop_map(Course::Extend),
        any::<u64>().prop_map(Course::Result),
    ]
}

impl Course {
    fn command(self, job: JobId, epoch: Epoch, reason: String) -> Command {
        match self {
            Self::Provision(shards) => {
                let shards = shards.into_iter().map(|(w, count)| (WorkflowNo(w), count)).collect();
                Command::Provision { job, epoch, shards }
            }
            Self::Begin(workflows) => {
                let workflows = workflows.into_iter().map(WorkflowNo).collect();
                Command::BeginLoad { job, epoch, workflows }
            }
            Self::Stop(cause) => Command::StopJob { job, epoch, cause, reason },
            Self::Steer(steer) => Command::SteerJob { job, epoch, steer },
            Self::Extend(total_ms) => Command::ExtendJob { job, epoch, total_ms },
            Self::Result(bytes) => {
                let result = BlobRef { bytes, ..blob(3) };
                Command::RecordResult { job, epoch, result }
            }
        }
    }
}

/// The first word of an answer, and of the refusal in it.
fn word(reply: &Reply) -> String {
    let text = format!("{reply:?}");
    let text = text.trim_start_matches("Refused(").trim_start_matches("Submitted(");
    text.trim_start_matches("Rejected(").chars().take_while(char::is_ascii_alphanumeric).collect()
}

/// The histories above reach the answers that matter; a generator that never makes the case proves
/// nothing.
#[test]
fn the_histories_reach_every_interesting_answer() {
    let mut runner = TestRunner::deterministic();
    let strategy = prop::collection::vec(op(), 120);
    let mut reached = BTreeSet::new();
    for _ in 0..150 {
        let ops = strategy.new_tree(&mut runner).unwrap().current();
        let mut world = World::new();
        let mut models = vec![Model::default(); 2];
        for op in ops {
            if let Op::Repeat { .. } = op {
                continue;
            }
            let model = &mut models[op.job()];
            let op = op.aimed(model);
            let here = world.next_epoch();
            let reply = world.run(BOB, op.command(model));
            model.apply(&op, here);
            reached.insert(word(&reply));
        }
    }
    let expected = [
        "Accepted",
        "Already",
        "Cancelled",
        "ClaimLost",
        "Claimed",
        "Done",
        "Ended",
        "Finished",
        "KeyReused",
        "NoProof",
        "NoSuchAttempt",
        "NotCancelled",
        "Released",
        "RetriesExhausted",
        "Settled",
        "StaleEpoch",
        "StillLive",
        "Superseded",
        "UnknownEpoch",
        "UnknownJob",
        "WrongAttempt",
        "WrongLayer",
    ];
    let missing: Vec<_> = expected.iter().filter(|word| !reached.contains(**word)).collect();
    assert!(missing.is_empty(), "never reached: {missing:?}, reached: {reached:?}");
}
