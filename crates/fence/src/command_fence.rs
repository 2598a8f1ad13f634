//! CommandFence: the whole check of a command at a worker's door, as one step.
//!
//! A command says which life of the worker it is meant for, on whose authority it comes, and which
//! attempt of which shard it starts or stops. Four questions, in this order:
//!
//! 1. **Is it for this life of mine?** A restart has lost the memory that the next questions need,
//!    so a command for another life is refused before them. This is why the memory need not be kept
//!    on a disk.
//! 2. **Is it from my cluster?** Numbers of another cluster mean nothing here.
//! 3. **Is the sender still the job's owner?** The epoch is compared per job. Equal passes: one
//!    owner sends many commands.
//! 4. **Is it news?** The step is compared per shard. Equal repeats the first answer, also under a
//!    higher epoch: a new owner that sends again what the former one had sent does not start the
//!    work twice.
//!
//! All are asked before anything is remembered, so a refused command leaves no trace but a counter.
//! Otherwise one that carries a high epoch and is refused for another reason (an old attempt, no
//! room) would shut out the owner whose commands do arrive. Leaving the floor down is safe: what a
//! replaced owner may still do is bounded by the ledger, where its entries have no effect, and by
//! the lease, which is not renewed under its epoch. A command that passes raises both floors in the
//! same step, and `&mut self` is what makes it one step.
//!
//! Attempts are not compared within an epoch but over all of them, so a group that was rebuilt from
//! nothing, and counts the attempts of a resubmitted job from 1 again, is refused here until the
//! worker starts anew. That is the safe side.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::fencing_table::{Answered, Capacity, Counts, FencingTable, Passage, Refusal};
use crate::{Attempt, BootId, Epoch, Fence, JobId, ShardKey, WorkflowNo};

/// What is to happen with an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Act {
    Start,
    Stop,
}

/// An attempt and what is to happen with it, in the only order there is: start 1, stop 1, start 2,
/// stop 2 ... A stop that overtakes its start thereby bars it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Step {
    pub attempt: Attempt,
    pub act: Act,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let act = match self.act {
            Act::Start => "start",
            Act::Stop => "stop",
        };
        write!(f, "{act} of attempt {}", self.attempt)
    }
}

/// What a command says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FencedCommand {
    /// The life of the receiver that the sender means.
    pub receiver: BootId,
    pub shard: ShardKey,
    pub epoch: Epoch,
    pub step: Step,
}

impl FencedCommand {
    #[must_use]
    pub fn new(receiver: BootId, shard: ShardKey, fence: Fence, act: Act) -> Self {
        Self { receiver, shard, epoch: fence.epoch, step: Step { attempt: fence.attempt, act } }
    }
}

/// What the command_fence says to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Admission<A> {
    /// Stop whatever runs for this shard, act, then say the answer.
    Enter,
    /// The same step again: this was the answer. Do not act.
    Repeat(A),
    /// The same step again, and the first is still under way. Do not act.
    Busy,
    /// Not let in. Nothing was changed but a counter.
    Refused(FenceRefusal),
}

/// Why a command was not let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FenceRefusal {
    /// Meant for another life of this worker.
    ///
    /// `own` is the present one. The processes of the lives from `since` to before it are certainly
    /// gone: all of them held the same exclusive lock on the same running kernel. What ran in a
    /// life before `since` may run on, in a copied data folder or on the machine that a volume was
    /// taken from.
    OtherLife { own: BootId, since: BootId, named: BootId },
    /// Issued by a group of another cluster.
    OtherCluster { own: u64, offered: Epoch },
    /// Refused as to the job.
    Epoch(Refusal<Epoch>),
    /// Refused as to the shard.
    Step(Refusal<Step>),
}

impl fmt::Display for FenceRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherLife { own, since, named } => {
                let ran = if (since..own).contains(&named) { "is gone" } else { "may run on" };
                write!(
                    f,
                    "other life: the command names boot {named} of this worker, and this is boot {own}; what ran \
                     there {ran}"
                )
            }
            Self::OtherCluster { own, offered } => write!(
                f,
                "foreign: offered epoch {offered}, but this worker belongs to cluster {own:016x}"
            ),
            Self::Epoch(refusal) => write!(f, "epoch of the job: {refusal}"),
            Self::Step(refusal) => write!(f, "attempt of the shard: {refusal}"),
        }
    }
}

impl std::error::Error for FenceRefusal {}

/// Checks every command that a worker receives.
#[derive(Clone, Debug)]
pub struct CommandFence<A> {
    boot: BootId,
    since: BootId,
    cluster: u64,
    jobs: FencingTable<JobId, Epoch, ()>,
    shards: FencingTable<ShardKey, Step, A>,
    counts: Counts,
    other_life: u64,
}

impl<A: Clone> CommandFence<A> {
    /// A worker that has just started, in this life, under this cluster.
    #[must_use]
    pub fn new(boot: BootId, cluster: u64, jobs: Capacity, shards: Capacity) -> Self {
        Self {
            boot,
            since: boot,
            cluster,
            jobs: FencingTable::new(jobs),
            shards: FencingTable::new(shards),
            counts: Counts::default(),
            other_life: 0,
        }
    }

    /// The lives from this one to before the present one are certainly over. Without it none is
    /// known to be.
    #[must_use]
    pub fn outliving(mut self, since: BootId) -> Self {
        self.since = since;
        self
    }

    /// Lets a command in, or says why not.
    pub fn admit(&mut self, order: &FencedCommand) -> Admission<A> {
        let admission = self.admit_uncounted(order);
        match &admission {
            Admission::Enter => self.counts.entered += 1,
            Admission::Repeat(_) => self.counts.repeated += 1,
            Admission::Busy => self.counts.busy += 1,
            Admission::Refused(refusal) => self.count_refusal(refusal),
        }
        admission
    }

    fn admit_uncounted(&mut self, order: &FencedCommand) -> Admission<A> {
        if let Err(refusal) = self.judge_sender(order.receiver, order.shard.job, order.epoch) {
            return Admission::Refused(refusal);
        }
        let admission = match self.shards.present(&order.shard, &order.step) {
            Passage::Enter => Admission::Enter,
            Passage::Repeat(answer) => Admission::Repeat(answer),
            Passage::Busy => Admission::Busy,
            Passage::Refused(refusal) => return Admission::Refused(FenceRefusal::Step(refusal)),
        };
        self.raise(order.shard.job, order.epoch);
        admission
    }

    /// A new owner says its epoch before it acts. Also the check of commands that concern the whole
    /// job.
    ///
    /// # Errors
    /// If the sender is no longer the owner, or means another life or another cluster. Nothing was
    /// changed then.
    pub fn install(
        &mut self,
        receiver: BootId,
        job: JobId,
        epoch: Epoch,
    ) -> Result<(), FenceRefusal> {
        let before = self.jobs.held(&job).copied();
        match self.judge_sender(receiver, job, epoch) {
            Ok(()) => {
                self.raise(job, epoch);
                let counter = if before == Some(epoch) {
                    &mut self.counts.repeated
                } else {
                    &mut self.counts.entered
                };
                *counter += 1;
                Ok(())
            }
            Err(refusal) => {
                self.count_refusal(&refusal);
                Err(refusal)
            }
        }
    }

    /// Records the answer of the step that entered. The first answer stays.
    pub fn answer(&mut self, shard: &ShardKey, step: &Step, answer: A) -> Answered {
        self.shards.answer(shard, step, answer)
    }

    /// Forgets a job that is over, with its shards; floors stay, so its late commands are refused.
    pub fn retire(&mut self, job: JobId) -> usize {
        let first = ShardKey { job, workflow: WorkflowNo(0), shard: 0 };
        let last = ShardKey { job, workflow: WorkflowNo(u32::MAX), shard: u32::MAX };
        self.jobs.retire(&job);
        self.shards.retire_range(first..=last)
    }

    /// The life that commands must name.
    #[must_use]
    pub fn boot(&self) -> BootId {
        self.boot
    }

    /// The highest epoch that is known of a job: the one to name in a renewal.
    #[must_use]
    pub fn epoch(&self, job: &JobId) -> Option<Epoch> {
        self.jobs.held(job).copied()
    }

    /// The highest step that is known of a shard.
    #[must_use]
    pub fn step(&self, shard: &ShardKey) -> Option<Step> {
        self.shards.held(shard).copied()
    }

    /// Every command once, by what was said to it; those for another life are in
    /// [`other_life`](Self::other_life).
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Commands that were meant for another life of this worker.
    #[must_use]
    pub fn other_life(&self) -> u64 {
        self.other_life
    }

    /// Floors of retired jobs and shards that have fallen out of memory.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.jobs.forgotten() + self.shards.forgotten()
    }

    fn judge_sender(&self, named: BootId, job: JobId, epoch: Epoch) -> Result<(), FenceRefusal> {
        if named != self.boot {
            return Err(FenceRefusal::OtherLife { own: self.boot, since: self.since, named });
        }
        if epoch.group.cluster != self.cluster {
            return Err(FenceRefusal::OtherCluster { own: self.cluster, offered: epoch });
        }
        match self.jobs.judge(&job, &epoch) {
            Passage::Refused(refusal) => Err(FenceRefusal::Epoch(refusal)),
            Passage::Enter | Passage::Repeat(()) | Passage::Busy => Ok(()),
        }
    }

    /// Remembers an epoch that was judged already.
    fn raise(&mut self, job: JobId, epoch: Epoch) {
        if matches!(self.jobs.present(&job, &epoch), Passage::Enter) {
            self.jobs.answer(&job, &epoch, ());
        }
    }

    fn count_refusal(&mut self, refusal: &FenceRefusal) {
        match refusal {
            FenceRefusal::OtherLife { .. } => self.other_life += 1,
            FenceRefusal::OtherCluster { .. } => self.counts.foreign += 1,
            FenceRefusal::Epoch(refusal) => {
                self.counts.count(&Passage::<_, ()>::Refused(refusal.clone()));
            }
            FenceRefusal::Step(refusal) => {
                self.counts.count(&Passage::<_, ()>::Refused(refusal.clone()));
            }
        }
    }
}
