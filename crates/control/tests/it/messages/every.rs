//! Values of every kind that a message may hold. Whoever adds a variant or a field has to say here
//! how one is made: matches have no default, and structs are written out.

use std::collections::BTreeMap;
use std::time::Duration;

use control::message::{
    AttemptPhase, Dispatch, EndReport, FrameBatch, HeldAttempt, Placement, RenewRequest,
    ReservationId, RowBlock, Task, WorkerInventory, WorkerRefusal,
};
use fence::{
    Act, Attempt, BootId, Epoch, FenceRefusal, FencedCommand, GroupId, JobId, NodeId, Refusal,
    ShardKey, Step, WorkflowNo,
};
use ledger_state::{AttemptStatus, BlobRef, Counters, Payload};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::Union;
use stats::wire::StreamKey;

/// A type of which there are several kinds.
pub trait Every: Sized + std::fmt::Debug {
    /// Which one this is.
    fn kind(&self) -> &'static str;
    /// How each is made.
    fn each() -> Vec<(&'static str, BoxedStrategy<Self>)>;

    fn any() -> BoxedStrategy<Self>
    where
        Self: 'static,
    {
        Union::new(Self::each().into_iter().map(|(_, strategy)| strategy)).boxed()
    }
}

/// Says for every variant how it is made; one that is missing does not compile.
#[macro_export]
macro_rules! every {
    ($of:ty: $($pattern:pat => $strategy:expr,)+) => {
        impl $crate::messages::every::Every for $of {
            fn kind(&self) -> &'static str {
                match self {
                    $($pattern => stringify!($pattern),)+
                }
            }

            fn each() -> Vec<(&'static str, proptest::strategy::BoxedStrategy<Self>)> {
                vec![$((stringify!($pattern), $strategy.boxed()),)+]
            }
        }
    };
}

pub fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), ".{0,40}"]
}

pub fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..80)
}

pub fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(s, n)| Duration::new(s, n)),
    ]
}

pub fn job() -> impl Strategy<Value = JobId> {
    any::<u128>().prop_map(JobId)
}

pub fn node() -> impl Strategy<Value = NodeId> {
    any::<u128>().prop_map(NodeId)
}

pub fn boot() -> impl Strategy<Value = BootId> {
    any::<u64>().prop_map(BootId)
}

pub fn attempt() -> impl Strategy<Value = Attempt> {
    any::<u32>().prop_map(Attempt)
}

pub fn workflow() -> impl Strategy<Value = WorkflowNo> {
    any::<u32>().prop_map(WorkflowNo)
}

pub fn epoch() -> impl Strategy<Value = Epoch> {
    (any::<u64>(), any::<u32>(), any::<u64>()).prop_map(|(cluster, generation, number)| Epoch {
        group: GroupId { cluster, generation },
        number,
    })
}

pub fn shard() -> impl Strategy<Value = ShardKey> {
    (job(), workflow(), any::<u32>()).prop_map(|(job, workflow, shard)| ShardKey {
        job,
        workflow,
        shard,
    })
}

pub fn run() -> impl Strategy<Value = (ShardKey, Attempt)> {
    (shard(), attempt())
}

pub fn hold() -> impl Strategy<Value = ReservationId> {
    (job(), epoch(), any::<u32>()).prop_map(|(job, epoch, number)| ReservationId {
        job,
        epoch,
        number,
    })
}

pub fn rows() -> impl Strategy<Value = RowBlock> {
    (any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(set, first, end)| RowBlock {
        set,
        first,
        end,
    })
}

pub fn stream() -> impl Strategy<Value = StreamKey> {
    let numbers = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u128>());
    numbers.prop_map(|(workflow, shard, attempt, id)| StreamKey { workflow, shard, attempt, id })
}

pub fn blob() -> impl Strategy<Value = BlobRef> {
    (any::<[u8; 32]>(), any::<u64>()).prop_map(|(hash, bytes)| BlobRef { hash, bytes })
}

every!(Act:
    Act::Start => Just(Act::Start),
    Act::Stop => Just(Act::Stop),
);

pub fn step() -> impl Strategy<Value = Step> {
    (attempt(), Act::any()).prop_map(|(attempt, act)| Step { attempt, act })
}

pub fn order() -> impl Strategy<Value = FencedCommand> {
    let parts = (boot(), shard(), epoch(), step());
    parts.prop_map(|(receiver, shard, epoch, step)| FencedCommand { receiver, shard, epoch, step })
}

fn since_table<T: Clone + std::fmt::Debug + 'static>(
    token: impl Strategy<Value = T> + Clone + 'static,
) -> BoxedStrategy<Refusal<T>> {
    // A fifth kind would not compile here.
    fn known<T>(refusal: &Refusal<T>) -> bool {
        match refusal {
            Refusal::Stale { .. }
            | Refusal::Over { .. }
            | Refusal::Foreign { .. }
            | Refusal::Full { .. } => true,
        }
    }
    let both = (token.clone(), token);
    prop_oneof![
        both.clone().prop_map(|(held, offered)| Refusal::Stale { held, offered }),
        both.clone().prop_map(|(held, offered)| Refusal::Over { held, offered }),
        both.prop_map(|(held, offered)| Refusal::Foreign { held, offered }),
        any::<usize>().prop_map(|keys| Refusal::Full { keys }),
    ]
    .prop_filter("known", known)
    .boxed()
}

every!(FenceRefusal:
    FenceRefusal::OtherLife { .. } =>
        (boot(), boot(), boot()).prop_map(|(own, since, named)| FenceRefusal::OtherLife { own, since, named }),
    FenceRefusal::OtherCluster { .. } => (any::<u64>(), epoch())
        .prop_map(|(own, offered)| FenceRefusal::OtherCluster { own, offered }),
    FenceRefusal::Epoch(_) => since_table(epoch().boxed()).prop_map(FenceRefusal::Epoch),
    FenceRefusal::Step(_) => since_table(step().boxed()).prop_map(FenceRefusal::Step),
);

every!(WorkerRefusal:
    WorkerRefusal::Fence(_) => FenceRefusal::any().prop_map(WorkerRefusal::Fence),
    WorkerRefusal::NoCores { .. } => (any::<u32>(), any::<u32>(), any::<u32>())
        .prop_map(|(asked, free, total)| WorkerRefusal::NoCores { asked, free, total }),
    WorkerRefusal::UnknownReservation => Just(WorkerRefusal::UnknownReservation),
    WorkerRefusal::UnknownAttempt => Just(WorkerRefusal::UnknownAttempt),
    WorkerRefusal::OldContext { .. } => any::<u32>().prop_map(|seen| WorkerRefusal::OldContext { seen }),
    WorkerRefusal::Draining => Just(WorkerRefusal::Draining),
    WorkerRefusal::DiskFull => Just(WorkerRefusal::DiskFull),
    WorkerRefusal::TooMany { .. } =>
        (text(), any::<u64>()).prop_map(|(what, limit)| WorkerRefusal::TooMany { what, limit }),
    WorkerRefusal::CannotRun { .. } => text().prop_map(|why| WorkerRefusal::CannotRun { why }),
);

every!(Placement:
    Placement::Own(_) => hold().prop_map(Placement::Own),
    Placement::Shared => Just(Placement::Shared),
);

every!(Task:
    Task::Load => Just(Task::Load),
    Task::Setup { .. } => option::of(workflow()).prop_map(|of| Task::Setup { of }),
    Task::Teardown { .. } => option::of(workflow()).prop_map(|of| Task::Teardown { of }),
);

every!(Payload:
    Payload::Inline(_) => bytes().prop_map(Payload::Inline),
    Payload::Blob(_) => blob().prop_map(Payload::Blob),
);

pub fn dispatch() -> impl Strategy<Value = Dispatch> {
    let who = (order(), Placement::any(), Task::any(), any::<u32>(), blob());
    let what = (Payload::any(), any::<u32>(), time(), any::<u64>(), option::of(any::<u64>()));
    let bounds = (vec(rows(), 0..4), time(), option::of(time()), time());
    (who, what, bounds).prop_map(|(who, what, bounds)| {
        let (order, placement, task, shards, bundle) = who;
        let (context, context_version, elapsed, units_before, units_end) = what;
        let (rows, run_at_most, time_left, lease) = bounds;
        Dispatch {
            order,
            placement,
            task,
            shards,
            bundle,
            context,
            context_version,
            elapsed,
            units_before,
            units_end,
            rows,
            run_at_most,
            time_left,
            lease,
        }
    })
}

every!(AttemptPhase:
    AttemptPhase::Preparing => Just(AttemptPhase::Preparing),
    AttemptPhase::Ready => Just(AttemptPhase::Ready),
    AttemptPhase::Running => Just(AttemptPhase::Running),
    AttemptPhase::Stopping => Just(AttemptPhase::Stopping),
    AttemptPhase::Ended => Just(AttemptPhase::Ended),
);

fn held() -> impl Strategy<Value = HeldAttempt> {
    let parts = (run(), epoch(), AttemptPhase::any(), time(), proptest::option::of(time()));
    parts.prop_map(|((shard, attempt), epoch, phase, elapsed, ran)| HeldAttempt {
        shard,
        attempt,
        epoch,
        phase,
        elapsed,
        ran,
    })
}

pub fn holdings() -> impl Strategy<Value = WorkerInventory> {
    let lives = (boot(), boot());
    let parts = (lives, any::<u32>(), any::<u32>(), any::<bool>(), vec(held(), 0..5));
    parts.prop_map(|((boot, since), cores, cores_free, draining, attempts)| WorkerInventory {
        boot,
        since,
        cores,
        cores_free,
        draining,
        attempts,
    })
}

every!(AttemptStatus:
    AttemptStatus::Completed => Just(AttemptStatus::Completed),
    AttemptStatus::Failed => Just(AttemptStatus::Failed),
    AttemptStatus::Stopped => Just(AttemptStatus::Stopped),
    AttemptStatus::Interrupted => Just(AttemptStatus::Interrupted),
);

fn counters() -> impl Strategy<Value = Counters> {
    any::<[u64; 12]>().prop_map(|n| Counters {
        issued: n[0],
        completed: n[1],
        failed: n[2],
        iterations: n[3],
        dropped: n[4],
        checks_passed: n[5],
        checks_failed: n[6],
        bytes_sent: n[7],
        bytes_received: n[8],
        begun: n[9],
        interrupted: n[10],
        sent: n[11],
    })
}

fn provided() -> impl Strategy<Value = BTreeMap<String, Vec<u8>>> {
    btree_map(text(), bytes(), 0..4)
}

pub fn report() -> impl Strategy<Value = EndReport> {
    let who = (run(), node(), boot());
    let how = (AttemptStatus::any(), option::of(text()), counters());
    let left = (provided(), any::<u64>(), bytes(), text(), any::<bool>(), option::of(time()));
    (who, how, left).prop_map(|(((shard, attempt), worker, boot), how, left)| {
        let (provided, frames, totals, log, certain, sent_until) = left;
        let (status, error, counters) = how;
        EndReport {
            shard,
            attempt,
            worker,
            boot,
            status,
            error,
            counters,
            provided,
            frames,
            totals,
            log,
            certain,
            sent_until,
        }
    })
}

pub fn frames() -> impl Strategy<Value = FrameBatch> {
    let parts = (job(), node(), boot(), vec(stream(), 0..5), vec(bytes(), 0..5));
    parts.prop_map(|(job, worker, boot, open, frames)| FrameBatch {
        job,
        worker,
        boot,
        open,
        frames,
    })
}

pub fn renew() -> impl Strategy<Value = RenewRequest> {
    let parts = (node(), boot(), vec(run(), 0..8), vec((job(), any::<u64>()), 0..3));
    parts.prop_map(|(worker, boot, attempts, steered)| RenewRequest {
        worker,
        boot,
        attempts,
        steered,
    })
}
