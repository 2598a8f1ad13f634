//! What one layer leaves to the next, and the blobs that jobs need.

use ledger_state::{
    AttemptStatus, Command, LapseProof, Limits, Outcome, Payload, Problem, Refusal, Reply, Resource,
};

use crate::world::{ALICE, BOB, World, blob, refused};

/// One context per layer: the first committed is the one, layers come in order.
#[test]
fn the_first_context_of_a_layer_stands() {
    let mut world = World::new();
    let (job, epoch) = world.owned(1);
    let commit = |epoch, layer, byte| Command::CommitContext {
        job,
        epoch,
        layer,
        context: Payload::Inline(vec![byte]),
    };
    assert_eq!(world.run(ALICE, commit(epoch, 1, 1)), refused(Refusal::WrongLayer { expected: 0 }));
    let Reply::Done { epoch: first } = world.run(ALICE, commit(epoch, 0, 1)) else { panic!() };
    assert_eq!(world.run(ALICE, commit(epoch, 0, 2)), Reply::Already { epoch: first });
    // Also for the next owner.
    let epoch = world.claim(BOB, job);
    assert_eq!(world.run(BOB, commit(epoch, 0, 3)), Reply::Already { epoch: first });
    assert!(matches!(world.run(BOB, commit(epoch, 1, 4)), Reply::Done { .. }));
    let contexts = &world.state.job(job).unwrap().contexts;
    assert_eq!(contexts[0].payload, Payload::Inline(vec![1]));
    assert_eq!(contexts[1].payload, Payload::Inline(vec![4]));
}

/// R10, R17a: large contexts lie beside the log; inline ones are bounded, each and together.
#[test]
fn contexts_are_bounded() {
    let limits = Limits { layers: 2, inline_bytes: 100, bytes: 200, ..Limits::default() };
    let mut world = World::with(limits);
    let (job, epoch) = world.owned(1);
    let mut commit =
        |layer, context| world.run(ALICE, Command::CommitContext { job, epoch, layer, context });
    let long = commit(0, Payload::Inline(vec![0; 101]));
    assert!(matches!(
        long,
        Reply::Refused(Refusal::Invalid(Problem::TooLong { bytes: 101, limit: 100, .. }))
    ));
    assert!(matches!(commit(0, Payload::Inline(vec![0; 100])), Reply::Done { .. }));
    let full = commit(1, Payload::Inline(vec![0; 100]));
    assert_eq!(full, refused(Refusal::Full(Resource::Bytes { limit: 200 })));
    assert!(matches!(commit(1, Payload::Blob(blob(3))), Reply::Done { .. }));
    let third = commit(2, Payload::Blob(blob(4)));
    assert_eq!(third, refused(Refusal::Full(Resource::Layers { limit: 2 })));
    let mut large = blob(5);
    large.bytes = (4 << 20) + 1;
    assert!(matches!(commit(2, Payload::Blob(large)), Reply::Refused(Refusal::Invalid(_))));
}

/// R17a: a blob is in use while a job names it, and no longer.
#[test]
fn blobs_are_in_use_until_their_job_is_retired() {
    let mut world = World::new();
    let (job, epoch) = world.owned(1);
    world.start(job, epoch, 1, LapseProof::First);
    world.end(job, 1, AttemptStatus::Completed, 1);
    let context = Payload::Blob(blob(3));
    world.run(ALICE, Command::CommitContext { job, epoch, layer: 0, context });
    let used: Vec<_> = world.state.blobs_in_use().into_iter().collect();
    assert_eq!(used, [blob(1), blob(2), blob(3)]);
    world.finish(job, epoch, Outcome::Completed);
    world.wait(world.state.limits().committed_ttl_ms);
    assert_eq!(world.state.blobs_in_use().len(), 3);
    world.wait(1);
    assert!(world.state.blobs_in_use().is_empty());
}
