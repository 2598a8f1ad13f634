//! Which jobs this manager leads: watched in the ledger, claimed there, and each given a job task.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use control::claims::{Duty, Managers, duties, lost};
use control::owner::Event;
use control::pool::Worker;
use control::queue;
use fence::{Epoch, JobId, NodeId};
use ledger::{ReadLevel, Written};
use ledger_state::{Command, Phase, Reply, State};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::job_task::{self, Input, JobTaskHandle};
use super::{Shared, lock, roster};

/// How often everything is looked at if nothing changes, and at most if much does.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const LOOK_AT_MOST: Duration = Duration::from_millis(10);
/// Claims under way at once.
const CLAIMS_MAX: usize = 64;
/// Jobs that wait in the queue are claimed when they come near its head, so that the job tasks of a
/// long queue do not cost memory on every manager.
const NEAR_HEAD: usize = 24;
/// For one write; the next look tries again.
const WRITE_WITHIN: Duration = Duration::from_secs(5);
const TELL_AGAIN: Duration = Duration::from_secs(1);
/// Owners hear the ledger's time when it has moved by so much.
const TIME_EVERY_MS: u64 = 500;

/// What one look at the ledger has found.
struct Look {
    duties: Vec<Duty>,
    turn: BTreeSet<JobId>,
    /// Those of the led jobs that are cancelled.
    cancelled: Vec<(JobId, Cancelled)>,
    /// Led here, and no longer ours.
    lost: Vec<JobId>,
    now_ms: u64,
}

/// What an owner has to know of a cancel.
struct Cancelled {
    reason: String,
    hard: bool,
    within: Duration,
}

fn look(
    state: &State,
    managers: &Managers<'_>,
    busy: &BTreeSet<JobId>,
    led: &BTreeMap<JobId, Epoch>,
    turns: queue::Turns,
) -> Look {
    let near: BTreeSet<JobId> = queue::waiting(state).into_iter().take(NEAR_HEAD).collect();
    let waits = |job: JobId| {
        state.job(job).is_some_and(|job| {
            matches!(job.phase(), Phase::Created | Phase::Running) && job.shards.is_empty()
        })
    };
    let mut duties = duties(state, managers, busy);
    duties.retain(|duty| match duty {
        Duty::Claim { job, .. } => near.contains(job) || !waits(*job),
        Duty::Adopt { .. } | Duty::Release { .. } => true,
    });
    let cancel = |id: &JobId| {
        let cancel = state.job(*id)?.cancel.as_ref()?;
        let left = cancel.teardown_until_ms.saturating_sub(state.now_ms());
        let within = Duration::from_millis(left);
        let (reason, hard) = (cancel.reason.clone(), cancel.hard.is_some());
        Some((*id, Cancelled { reason, hard, within }))
    };
    Look {
        duties,
        turn: queue::turn(state, turns),
        cancelled: busy.iter().filter_map(cancel).collect(),
        lost: lost(state, managers.me, led),
        now_ms: state.now_ms(),
    }
}

/// Managers that could own a job: a claim is an entry, and who is not in the group writes none. One
/// that waits to be let in, or was taken out, lives all the same.
fn candidates<A>(live: BTreeSet<NodeId>, voters: &[(NodeId, A)]) -> BTreeSet<NodeId> {
    live.into_iter().filter(|node| voters.iter().any(|(voter, _)| voter == node)).collect()
}

/// What became of a claim.
struct Claimed {
    job: JobId,
    epoch: Option<Epoch>,
}

/// Watches until told to stop.
pub async fn run(shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let Some(parts) = shared.parts() else { return };
    let mut applied = parts.ledger.applied();
    let mut views = parts.member.watch();
    let mut silent = parts.ledger.silent();
    let mut leaving = shared.leaving.subscribe();
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut claims: JoinSet<Claimed> = JoinSet::new();
    let mut under_way: BTreeSet<JobId> = BTreeSet::new();
    let mut watching = Watching::default();
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            Some(claimed) = claims.join_next() => {
                if let Ok(Claimed { job, epoch }) = claimed {
                    under_way.remove(&job);
                    if let Some(epoch) = epoch {
                        job_task::open(&shared, job, epoch);
                    }
                }
            }
            _ = applied.changed() => {}
            _ = views.changed() => {}
            _ = silent.changed() => {}
            _ = leaving.changed() => {}
            _ = ticks.tick() => {}
        }
        watching.tell(&shared);
        let led: BTreeMap<JobId, Epoch> =
            lock(&shared.job_tasks).iter().map(|(job, job_task)| (*job, job_task.epoch)).collect();
        lock(&shared.kept_by).retain(|job, _| led.contains_key(job));
        let busy: BTreeSet<JobId> = led.keys().chain(&under_way).copied().collect();
        let view = parts.member.view();
        let live = candidates(roster::managers(&view), &parts.ledger.status().voters);
        let unheard = silent.borrow_and_update().clone();
        let managers = Managers {
            me: parts.ledger.session(),
            live: &live,
            silent: &unheard,
            leaving: *shared.leaving.borrow(),
            silent_ms: super::millis(shared.silent),
        };
        let turns = shared.turns;
        let read = parts.ledger.read(ReadLevel::Eventual, WRITE_WITHIN, |state| {
            look(state, &managers, &busy, &led, turns)
        });
        let Ok(read) = read.await else { continue };
        let Look { duties, turn, cancelled, lost, now_ms } = read.value;
        for job in lost {
            job_task::close(&shared, job, "another manager owns it");
        }
        watching.turns(&shared, &turn, cancelled);
        watching.time(&shared, now_ms);
        for duty in duties {
            if claims.len() >= CLAIMS_MAX {
                break;
            }
            // A job that is ours already is being released even though it has a job task.
            if under_way.contains(&duty.job()) {
                continue;
            }
            under_way.insert(duty.job());
            claims.spawn(carry_out(Arc::clone(&shared), duty));
        }
        // What the ledger is told at once is also seen at once; a storm of entries is looked at
        // together.
        tokio::time::sleep(LOOK_AT_MOST).await;
    }
    for (job, _) in shared.job_tasks() {
        job_task::close(&shared, job, "this manager ends");
    }
}

async fn carry_out(shared: Arc<Shared>, duty: Duty) -> Claimed {
    let job = duty.job();
    let none = Claimed { job, epoch: None };
    let Some(parts) = shared.parts() else { return none };
    let command = match duty {
        Duty::Claim { job, seen } => {
            Command::ClaimJob { job, claimant: parts.ledger.session(), seen }
        }
        Duty::Adopt { job } => {
            let read = parts.ledger.read(ReadLevel::Strong, WRITE_WITHIN, |state| {
                state.job(job).filter(|job| job.owner == Some(parts.ledger.session()))?.epoch
            });
            return Claimed { job, epoch: read.await.ok().and_then(|read| read.value) };
        }
        Duty::Release { job } => {
            let epoch = parts.ledger.read(ReadLevel::Eventual, WRITE_WITHIN, |state| {
                state.job(job).and_then(|job| job.epoch)
            });
            let Some(epoch) = epoch.await.ok().and_then(|read| read.value) else { return none };
            job_task::close(&shared, job, "this manager leaves");
            Command::ReleaseJob { job, epoch }
        }
    };
    match parts.ledger.propose(command, WRITE_WITHIN).await {
        Written::Committed { reply: Reply::Claimed { epoch }, .. } => {
            Claimed { job, epoch: Some(epoch) }
        }
        Written::Committed { .. } => none,
        Written::NotCommitted(why) => {
            tracing::debug!(%job, %why, "a claim was not written");
            tokio::time::sleep(Duration::from_millis(100)).await;
            none
        }
        // If it was granted, the next look finds the job to be ours, and adopts it.
        Written::Unknown(_) => none,
    }
}

/// What the job tasks were told last, so that they hear of changes only.
#[derive(Default)]
struct Watching {
    workers: Vec<Worker>,
    /// When all job tasks heard of them.
    at: Option<Instant>,
    /// The ledger's time, as they last heard it.
    now_ms: u64,
    /// Whether it is its turn, and what it knows of its cancel: whether it is a hard one.
    told: BTreeMap<JobId, (Option<bool>, Option<bool>)>,
}

impl Watching {
    /// The workers, if anything about them has changed, a job task is new, or it is a while ago: an
    /// owner counts the cores that it has taken, and only a heartbeat gives it back those that
    /// nobody has told it of.
    fn tell(&mut self, shared: &Shared) {
        let Some(parts) = shared.parts() else { return };
        let workers = shared.workers(&parts);
        let changed =
            workers != self.workers || self.at.is_none_or(|at| at.elapsed() >= TELL_AGAIN);
        if changed {
            self.at = Some(Instant::now());
        }
        for (job, job_task) in shared.job_tasks() {
            if changed || !self.told.contains_key(&job) {
                job_task.send(Input::Event(Event::Workers(workers.clone())));
            }
        }
        self.workers = workers;
    }

    /// Owners go by the ledger's time, which may jump: what passed while nobody led it is counted
    /// afterwards.
    fn time(&mut self, shared: &Shared, now_ms: u64) {
        if now_ms >= self.now_ms.saturating_add(TIME_EVERY_MS) {
            self.now_ms = now_ms;
            for (_, job_task) in shared.job_tasks() {
                job_task.send(Input::Event(Event::LedgerTime { now_ms }));
            }
        }
    }

    fn turns(
        &mut self,
        shared: &Shared,
        turn: &BTreeSet<JobId>,
        cancelled: Vec<(JobId, Cancelled)>,
    ) {
        let job_tasks: BTreeMap<JobId, JobTaskHandle> = shared.job_tasks().into_iter().collect();
        self.told.retain(|job, _| job_tasks.contains_key(job));
        for (job, job_task) in &job_tasks {
            let told = self.told.entry(*job).or_default();
            let mine = turn.contains(job);
            if told.0 != Some(mine) && job_task.send(Input::Event(Event::Turn(mine))) {
                told.0 = Some(mine);
            }
        }
        for (job, Cancelled { reason, hard, within }) in cancelled {
            let Some(job_task) = job_tasks.get(&job) else { continue };
            let told = self.told.entry(job).or_default();
            let seen = Event::CancelSeen { reason, hard, within };
            if told.1 != Some(hard) && job_task.send(Input::Event(seen)) {
                told.1 = Some(hard);
            }
        }
    }
}

/// Removes checkpoints of jobs that have ended or are forgotten.
pub async fn tidy(shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let Some(parts) = shared.parts() else { return };
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(Duration::from_secs(60)) => {}
        }
        let checkpoints = shared.checkpoints.clone();
        let Ok(Ok(jobs)) = shared.host.blocking(move || checkpoints.jobs()).await else {
            continue;
        };
        let read = parts.ledger.read(ReadLevel::Strong, WRITE_WITHIN, |state| {
            let over = |job: &JobId| state.job(*job).is_none_or(|job| job.end.is_some());
            jobs.iter().filter(|job| over(job)).copied().collect::<Vec<_>>()
        });
        let Ok(read) = read.await else { continue };
        let checkpoints = shared.checkpoints.clone();
        let removed = shared.host.blocking(move || {
            read.value.into_iter().for_each(|job| checkpoints.remove(job));
        });
        // A panic there is reported by the runtime; the next round tries again.
        let _ = removed.await;
    }
}
