//! How each message is made.

use control::message::{
    Dispatch, FrameBatchAck, Renewal, ReportAck, Steer, Steering, StopMode, WorkerReport,
    WorkerRequest, WorkerResponse,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::every;
use crate::messages::every::{
    Every, attempt, boot, dispatch, epoch, hold, holdings, job, node, order, report, rows, run,
    shard, stream, text, time, workflow,
};

every!(StopMode:
    StopMode::Graceful => Just(StopMode::Graceful),
    StopMode::Now => Just(StopMode::Now),
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

every!(WorkerRequest:
    WorkerRequest::Reserve { .. } => (hold(), boot(), any::<u32>(), time())
        .prop_map(|(hold, receiver, cores, within)| WorkerRequest::Reserve { hold, receiver, cores, within }),
    WorkerRequest::Release { .. } =>
        (hold(), boot()).prop_map(|(hold, receiver)| WorkerRequest::Release { hold, receiver }),
    WorkerRequest::Dispatch(_) => dispatch().prop_map(|one: Dispatch| WorkerRequest::Dispatch(Box::new(one))),
    WorkerRequest::Start { .. } => (job(), epoch(), boot(), vec(run(), 0..6), time(), time(), time(), steering())
        .prop_map(|(job, epoch, receiver, attempts, after, elapsed, clock, steering)| WorkerRequest::Start {
            job,
            epoch,
            receiver,
            attempts,
            after,
            elapsed,
            clock,
            steering,
        }),
    WorkerRequest::Stop { .. } => (order(), StopMode::any(), text())
        .prop_map(|(order, how, reason)| WorkerRequest::Stop { order, how, reason }),
    WorkerRequest::Steer { .. } => (job(), epoch(), boot(), steering())
        .prop_map(|(job, epoch, receiver, steering)| WorkerRequest::Steer { job, epoch, receiver, steering }),
    WorkerRequest::Rows { .. } => (shard(), attempt(), epoch(), boot(), rows())
        .prop_map(|(shard, attempt, epoch, receiver, rows)| WorkerRequest::Rows {
            shard,
            attempt,
            epoch,
            receiver,
            rows,
        }),
    WorkerRequest::Units { .. } => (shard(), attempt(), epoch(), boot(), any::<u64>())
        .prop_map(|(shard, attempt, epoch, receiver, end)| WorkerRequest::Units {
            shard,
            attempt,
            epoch,
            receiver,
            end,
        }),
    WorkerRequest::Forget { .. } => run().prop_map(|(shard, attempt)| WorkerRequest::Forget { shard, attempt }),
    WorkerRequest::Install { .. } => (job(), epoch(), boot())
        .prop_map(|(job, epoch, receiver)| WorkerRequest::Install { job, epoch, receiver }),
    WorkerRequest::Inspect { .. } => option::of(job()).prop_map(|job| WorkerRequest::Inspect { job }),
);

every!(WorkerResponse:
    WorkerResponse::Done => Just(WorkerResponse::Done),
    WorkerResponse::Stopped { .. } =>
        option::of(report().prop_map(Box::new)).prop_map(|report| WorkerResponse::Stopped { report }),
    WorkerResponse::Holding(_) => holdings().prop_map(|held| WorkerResponse::Holding(Box::new(held))),
    WorkerResponse::Refused(_) => control::message::WorkerRefusal::any().prop_map(WorkerResponse::Refused),
);

every!(WorkerReport:
    WorkerReport::Ready { .. } => run().prop_map(|(shard, attempt)| WorkerReport::Ready { shard, attempt }),
    WorkerReport::RowsWanted { .. } => (run(), any::<u32>(), any::<u64>())
        .prop_map(|((shard, attempt), set, at_least)| WorkerReport::RowsWanted {
            shard,
            attempt,
            set,
            at_least,
        }),
    WorkerReport::Abort { .. } =>
        (run(), text()).prop_map(|((shard, attempt), reason)| WorkerReport::Abort { shard, attempt, reason }),
    WorkerReport::Ended(_) => report().prop_map(|report| WorkerReport::Ended(Box::new(report))),
    WorkerReport::MoreTime { .. } => (job(), node(), boot(), any::<u64>())
        .prop_map(|(job, worker, boot, progress)| WorkerReport::MoreTime { job, worker, boot, progress }),
    WorkerReport::Draining { .. } =>
        (node(), boot()).prop_map(|(worker, boot)| WorkerReport::Draining { worker, boot }),
);

every!(ReportAck:
    ReportAck::Taken => Just(ReportAck::Taken),
    ReportAck::NotOwner { .. } => option::of(node()).prop_map(|owner| ReportAck::NotOwner { owner }),
    ReportAck::UnknownJob => Just(ReportAck::UnknownJob),
    ReportAck::Settled => Just(ReportAck::Settled),
);

every!(FrameBatchAck:
    FrameBatchAck::Taken { .. } => (
        vec((stream(), prop_oneof![any::<u64>().prop_map(Ok), text().prop_map(Err)]), 0..4),
        vec((stream(), any::<u64>(), any::<u64>()), 0..4),
        vec((stream(), text()), 0..4),
    )
        .prop_map(|(resume, acks, refused)| FrameBatchAck::Taken { resume, acks, refused }),
    FrameBatchAck::NotOwner { .. } =>
        option::of(node()).prop_map(|owner| FrameBatchAck::NotOwner { owner }),
    FrameBatchAck::UnknownJob => Just(FrameBatchAck::UnknownJob),
);

every!(Renewal:
    Renewal::Granted { .. } => (option::of(any::<u64>()), option::of(steering().prop_map(Box::new)))
        .prop_map(|(units_end, steering)| Renewal::Granted { units_end, steering }),
    Renewal::Refused { .. } => text().prop_map(|why| Renewal::Refused { why }),
);
