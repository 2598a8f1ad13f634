//! How each message is made.

use control::message::{
    Answer, Ask, Dispatch, FramesAnswer, Halt, Renewal, Steer, Steering, Tell, Told,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::every;
use crate::messages::every::{
    Every, attempt, boot, dispatch, epoch, hold, holdings, job, node, order, report, rows, run,
    shard, stream, text, time, workflow,
};

every!(Halt:
    Halt::Graceful => Just(Halt::Graceful),
    Halt::Now => Just(Halt::Now),
);

every!(Steer:
    Steer::Pause => Just(Steer::Pause),
    Steer::Resume => Just(Steer::Resume),
    Steer::Vus { .. } =>
        (workflow(), any::<u32>()).prop_map(|(workflow, vus)| Steer::Vus { workflow, vus }),
    // Not a number is not equal to itself; every other one is.
    Steer::Rate { .. } => (workflow(), any::<f64>().prop_filter("a number", |n| !n.is_nan()), time())
        .prop_map(|(workflow, per_second, from)| Steer::Rate { workflow, per_second, from }),
);

fn steering() -> impl Strategy<Value = Steering> {
    let parts = (any::<u64>(), vec(Steer::any(), 0..4));
    parts.prop_map(|(number, steers)| Steering { number, steers })
}

every!(Ask:
    Ask::Reserve { .. } => (hold(), boot(), any::<u32>(), time())
        .prop_map(|(hold, receiver, cores, within)| Ask::Reserve { hold, receiver, cores, within }),
    Ask::Release { .. } =>
        (hold(), boot()).prop_map(|(hold, receiver)| Ask::Release { hold, receiver }),
    Ask::Dispatch(_) => dispatch().prop_map(|one: Dispatch| Ask::Dispatch(Box::new(one))),
    Ask::Start { .. } => (job(), epoch(), boot(), vec(run(), 0..6), time(), time(), time(), steering())
        .prop_map(|(job, epoch, receiver, attempts, after, elapsed, clock, steering)| Ask::Start {
            job,
            epoch,
            receiver,
            attempts,
            after,
            elapsed,
            clock,
            steering,
        }),
    Ask::Stop { .. } => (order(), Halt::any(), text())
        .prop_map(|(order, how, reason)| Ask::Stop { order, how, reason }),
    Ask::Steer { .. } => (job(), epoch(), boot(), steering())
        .prop_map(|(job, epoch, receiver, steering)| Ask::Steer { job, epoch, receiver, steering }),
    Ask::Rows { .. } => (shard(), attempt(), epoch(), boot(), rows())
        .prop_map(|(shard, attempt, epoch, receiver, rows)| Ask::Rows {
            shard,
            attempt,
            epoch,
            receiver,
            rows,
        }),
    Ask::Units { .. } => (shard(), attempt(), epoch(), boot(), any::<u64>())
        .prop_map(|(shard, attempt, epoch, receiver, end)| Ask::Units {
            shard,
            attempt,
            epoch,
            receiver,
            end,
        }),
    Ask::Forget { .. } => run().prop_map(|(shard, attempt)| Ask::Forget { shard, attempt }),
    Ask::Install { .. } => (job(), epoch(), boot())
        .prop_map(|(job, epoch, receiver)| Ask::Install { job, epoch, receiver }),
    Ask::Inspect { .. } => option::of(job()).prop_map(|job| Ask::Inspect { job }),
);

every!(Answer:
    Answer::Done => Just(Answer::Done),
    Answer::Stopped { .. } =>
        option::of(report().prop_map(Box::new)).prop_map(|report| Answer::Stopped { report }),
    Answer::Holding(_) => holdings().prop_map(|held| Answer::Holding(Box::new(held))),
    Answer::Refused(_) => control::message::Refused::any().prop_map(Answer::Refused),
);

every!(Tell:
    Tell::Ready { .. } => run().prop_map(|(shard, attempt)| Tell::Ready { shard, attempt }),
    Tell::RowsWanted { .. } => (run(), any::<u32>(), any::<u64>())
        .prop_map(|((shard, attempt), set, at_least)| Tell::RowsWanted {
            shard,
            attempt,
            set,
            at_least,
        }),
    Tell::Abort { .. } =>
        (run(), text()).prop_map(|((shard, attempt), reason)| Tell::Abort { shard, attempt, reason }),
    Tell::Ended(_) => report().prop_map(|report| Tell::Ended(Box::new(report))),
    Tell::MoreTime { .. } => (job(), node(), boot(), any::<u64>())
        .prop_map(|(job, worker, boot, progress)| Tell::MoreTime { job, worker, boot, progress }),
    Tell::Draining { .. } =>
        (node(), boot()).prop_map(|(worker, boot)| Tell::Draining { worker, boot }),
);

every!(Told:
    Told::Taken => Just(Told::Taken),
    Told::NotOwner { .. } => option::of(node()).prop_map(|owner| Told::NotOwner { owner }),
    Told::UnknownJob => Just(Told::UnknownJob),
    Told::Settled => Just(Told::Settled),
);

every!(FramesAnswer:
    FramesAnswer::Taken { .. } => (
        vec((stream(), prop_oneof![any::<u64>().prop_map(Ok), text().prop_map(Err)]), 0..4),
        vec((stream(), any::<u64>(), any::<u64>()), 0..4),
        vec((stream(), text()), 0..4),
    )
        .prop_map(|(resume, acks, refused)| FramesAnswer::Taken { resume, acks, refused }),
    FramesAnswer::NotOwner { .. } =>
        option::of(node()).prop_map(|owner| FramesAnswer::NotOwner { owner }),
    FramesAnswer::UnknownJob => Just(FramesAnswer::UnknownJob),
);

every!(Renewal:
    Renewal::Granted { .. } => (option::of(any::<u64>()), option::of(steering().prop_map(Box::new)))
        .prop_map(|(units_end, steering)| Renewal::Granted { units_end, steering }),
    Renewal::Refused { .. } => text().prop_map(|why| Renewal::Refused { why }),
);
