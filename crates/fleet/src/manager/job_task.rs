//! One job at its owner: the pure machine, its statistics, its feed, and everything that goes in
//! and out.
//!
//! ```text
//! open ─▶ bundle, ledger, checkpoint, reports ─▶ Owner::adopt ─▶ loop: input ─▶ step ─▶ effects ─▶ effects, feed
//! ```
//!
//! One task per job. Inputs that come before it is ready wait in its inbox.

mod start;
mod views;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use control::message::{EndReport, FrameBatch, FrameBatchAck, Steer, WorkerReport, WorkerResponse};
use control::owner::{Effect, Event, Owner, ShardState};
use control::statistics::Statistics;
use fence::{Epoch, JobId, NodeId};
use ledger_state::{BlobRef, Counters};
use stats::RunState;
use stats::feed::{Feed, FeedLimits};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use start::Start;

use super::voters::Membership;
use super::{Shared, effects, lock, now, probe, status};
use crate::bundle::BundleHead;
use crate::wire::proto::JobStatus;

/// Inputs that wait; whoever sends one more waits, too.
const INBOX: usize = 1_024;
const TICK: Duration = Duration::from_millis(100);

/// What comes to a job task.
pub enum Input {
    Event(Event),
    WorkerReport(Box<WorkerReport>),
    FrameBatch(Box<FrameBatch>, oneshot::Sender<FrameBatchAck>),
    /// Answered with the shards that have not heard of it.
    Steer(Steer, oneshot::Sender<Result<Vec<fence::ShardKey>, String>>),
    Status(oneshot::Sender<Details>),
    /// A checkpoint is on a majority.
    Kept(u64, Membership),
    /// The final result is stored.
    Concluded(Option<BlobRef>, Vec<u8>),
    /// Something cannot be stored, and why; it is tried on. `None`: it was stored after all.
    StoreWaits(Option<String>),
    Depose(&'static str),
}

/// What only the owner knows of a job.
#[derive(Default)]
pub struct Details {
    pub status: JobStatus,
}

/// What lists show of a job that is led here.
#[derive(Clone, Debug, Default)]
pub struct JobSummary {
    /// None before anything was counted.
    pub counted: Option<Counters>,
    /// What it waits for, while it does.
    pub waits_for: Option<String>,
}

/// A job task as others see it. The last one that goes does not end it; [`close`] does.
#[derive(Clone)]
pub struct JobTaskHandle {
    inbox: mpsc::Sender<Input>,
    /// The right by which the job is led here.
    pub epoch: Epoch,
    pub feed: Arc<Mutex<Feed>>,
    pub newest: watch::Receiver<u64>,
    /// How many want to see the whole result while the job runs.
    pub lookers: Lookers,
    /// How the job stands, for those who only pass by.
    pub summary: watch::Receiver<JobSummary>,
    task: AbortHandle,
}

/// How many want to see the whole result while a job runs.
#[derive(Clone, Debug, Default)]
pub struct Lookers(Arc<AtomicUsize>);

/// One of them, until it is dropped.
pub struct Looker(Arc<AtomicUsize>);

impl Lookers {
    pub fn enter(&self) -> Looker {
        self.0.fetch_add(1, Ordering::Relaxed);
        Looker(Arc::clone(&self.0))
    }

    fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl JobTaskHandle {
    /// False: it is too busy, or gone.
    pub fn send(&self, input: Input) -> bool {
        self.inbox.try_send(input).is_ok()
    }
}

/// Takes a job up under a granted epoch.
pub fn open(shared: &Arc<Shared>, job: JobId, epoch: Epoch) {
    let (inbox, inputs) = mpsc::channel(INBOX);
    let feed = Arc::new(Mutex::new(Feed::new(epoch.number, FeedLimits::default())));
    let (newest, seen) = watch::channel(0);
    let (summaries, summary) = watch::channel(JobSummary::default());
    let mut job_tasks = lock(&shared.job_tasks);
    if job_tasks.contains_key(&job) {
        return;
    }
    let start = Start {
        shared: Arc::clone(shared),
        job,
        epoch,
        inbox: inbox.clone(),
        feed: Arc::clone(&feed),
        newest,
        lookers: Lookers::default(),
        summaries,
    };
    let lookers = start.lookers.clone();
    let entry = Entry { shared: Arc::clone(shared), job, feed: Arc::clone(&feed) };
    let task = tokio::spawn(async move {
        // However this task ends: a job task that has crashed must not keep the job from being
        // taken up again.
        let _entry = entry;
        if let Some(job_task) = start.run().await {
            job_task.run(inputs).await;
        }
    });
    let task = task.abort_handle();
    let handle = JobTaskHandle { inbox, epoch, feed, newest: seen, lookers, summary, task };
    job_tasks.insert(job, handle);
}

/// A job task's place among the others; it goes with the job task, and takes no later one with it.
struct Entry {
    shared: Arc<Shared>,
    job: JobId,
    feed: Arc<Mutex<Feed>>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut job_tasks = lock(&self.shared.job_tasks);
        if job_tasks.get(&self.job).is_some_and(|job_task| Arc::ptr_eq(&job_task.feed, &self.feed))
        {
            job_tasks.remove(&self.job);
        }
    }
}

/// Stops leading a job. What runs goes on under its leases; whoever owns it next takes it up.
pub fn close(shared: &Shared, job: JobId, why: &str) {
    let job_task = lock(&shared.job_tasks).remove(&job);
    if let Some(job_task) = job_task {
        tracing::info!(%job, why, "no longer led here");
        job_task.task.abort();
    }
}

struct JobTask {
    shared: Arc<Shared>,
    job: JobId,
    epoch: Epoch,
    inbox: mpsc::Sender<Input>,
    feed: Arc<Mutex<Feed>>,
    newest: watch::Sender<u64>,
    lookers: Lookers,
    /// Not before this is the whole result made again for them.
    look_again: Instant,
    summaries: watch::Sender<JobSummary>,
    /// When the last one was made.
    summed: Instant,
    owner: Owner,
    bundle: BundleHead,
    /// None once the result was made of them.
    statistics: Option<Statistics>,
    effects: JoinSet<()>,
    steers: BTreeMap<u64, oneshot::Sender<Result<Vec<fence::ShardKey>, String>>>,
    asked: u64,
    state: RunState,
    broken: bool,
    /// Whoever watches knows that the managers can decide nothing.
    told_undecided: bool,
    paused: bool,
    result: Option<Vec<u8>>,
    /// The ledger's, when they were last looked at.
    voters: (Vec<NodeId>, Membership),
    /// Why something cannot be stored at the moment.
    trouble: Option<String>,
    deposed: bool,
}

impl JobTask {
    async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.owner.is_over() && !self.deposed {
            let wake = self.owner.wake().map(|at| Instant::now() + at.since(now()));
            let due = async {
                match wake {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                input = inputs.recv() => match input {
                    Some(input) => self.take(input),
                    None => return,
                },
                () = due => self.step(Event::Tick),
                _ = ticks.tick() => self.tick(),
                Some(ended) = self.effects.join_next() => {
                    if let Err(error) = ended && error.is_panic() {
                        tracing::error!(job = %self.job, %error, "a background task of the job has panicked");
                    }
                }
            }
        }
    }

    fn clock(&self) -> Duration {
        self.owner.clock(now())
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Event(event) => {
                // A worker that was told to stop may have its last word in the answer.
                if let Event::Answered {
                    answer: WorkerResponse::Stopped { report: Some(report) },
                    ..
                } = &event
                {
                    self.count_last_word(report);
                }
                self.step(event);
            }
            Input::WorkerReport(tell) => {
                if let WorkerReport::Ended(report) = &*tell {
                    self.count_last_word(report);
                }
                self.step(Event::Reported(*tell));
            }
            Input::FrameBatch(frames, answer) => {
                // Whoever asked may have gone.
                let _ = answer.send(self.frames(&frames));
            }
            Input::Steer(steer, answer) => {
                self.asked += 1;
                self.steers.insert(self.asked, answer);
                self.paused = match steer {
                    Steer::Pause => true,
                    Steer::Resume => false,
                    _ => self.paused,
                };
                self.step(Event::Steer { asked: self.asked, steer });
            }
            Input::Status(answer) => {
                let mut status = status::of_owner(&self.owner, &self.bundle);
                if let Some(trouble) = &self.trouble {
                    status.detail.clone_from(trouble);
                }
                let _ = answer.send(Details { status });
            }
            Input::Kept(number, by) => {
                lock(&self.shared.kept_by).insert(self.job, by);
                let sealed = self.statistics.as_mut().map(|statistics| statistics.stored(number));
                for (shard, attempt) in sealed.unwrap_or_default() {
                    let (workflow, n) = (shard.workflow.0, shard.shard);
                    let applied = self.statistics.as_ref();
                    let applied = applied.and_then(|known| known.counters(workflow, n, attempt.0));
                    let (counters, frames) = applied.unwrap_or_default();
                    let totals = Vec::new();
                    self.step(Event::Sealed { shard, attempt, counters, frames, totals });
                }
            }
            Input::Concluded(result, bytes) => {
                self.result = Some(bytes);
                self.step(Event::Concluded { result });
            }
            Input::StoreWaits(why) => {
                if self.trouble != why {
                    let text = why.clone().unwrap_or_default();
                    self.trouble = why;
                    let state = self.state;
                    self.tell(|feed| feed.state(state, text));
                }
            }
            Input::Depose(why) => {
                tracing::info!(job = %self.job, why, "no longer led here");
                self.deposed = true;
            }
        }
    }

    /// The statistics in a last word count if it comes from the attempt's own worker (R26) and is
    /// the first.
    fn count_last_word(&mut self, report: &EndReport) {
        let clock = self.clock();
        if self.owner.expects_last_word(report)
            && let Some(statistics) = &mut self.statistics
        {
            statistics.ended(report, clock);
        }
    }

    fn frames(&mut self, frames: &FrameBatch) -> FrameBatchAck {
        let clock = self.clock();
        let (owner, job) = (&self.owner, self.job);
        let is_known = |workflow: u32, shard: u32, attempt: u32| {
            let key = fence::ShardKey { job, workflow: fence::WorkflowNo(workflow), shard };
            owner.worker_of_attempt(&key, fence::Attempt(attempt)) == Some(frames.worker)
        };
        let Some(statistics) = &mut self.statistics else { return FrameBatchAck::UnknownJob };
        let (answer, touched) = statistics.frames(frames, clock, is_known);
        let progress: Vec<Event> =
            touched.into_iter().filter_map(|attempt| statistics.progress(job, attempt)).collect();
        progress.into_iter().for_each(|event| self.step(event));
        answer
    }

    fn step(&mut self, event: Event) {
        let effects = self.owner.step(event, now());
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        let (shared, inbox) = (Arc::clone(&self.shared), self.inbox.clone());
        let (shared, inbox) = (|| Arc::clone(&shared), || inbox.clone());
        for effect in effects {
            match effect {
                Effect::Commit { tag, command } => {
                    self.effects.spawn(effects::commit(shared(), inbox(), tag, command));
                }
                Effect::Call { tag, worker, request } => {
                    self.effects.spawn(effects::call_worker(
                        shared(),
                        inbox(),
                        tag,
                        worker,
                        request,
                    ));
                }
                Effect::Probe { tag, worker, request } => {
                    self.effects.spawn(probe::run(shared(), inbox(), tag, worker, request));
                }
                Effect::Store { tag, blob, content } => {
                    self.effects.spawn(effects::store(shared(), inbox(), tag, blob, content));
                }
                Effect::Fetch { tag, blob } => {
                    self.effects.spawn(effects::fetch(shared(), inbox(), tag, blob));
                }
                Effect::Seal { shard, attempt, may_have_run } => {
                    if let Some(statistics) = &mut self.statistics {
                        statistics.seal(shard, attempt, may_have_run);
                    }
                }
                Effect::NeverRan { shard, attempt } => {
                    if let Some(statistics) = &mut self.statistics {
                        statistics.never_ran(shard, attempt);
                    }
                }
                Effect::Lost { shard, attempt, count } => {
                    let clock = self.clock();
                    if let Some(statistics) = &mut self.statistics {
                        statistics.lost(shard, attempt, count, clock);
                    }
                }
                Effect::Moved(moved) => {
                    if moved.to == ShardState::Running {
                        let state = if self.paused { RunState::Paused } else { RunState::Running };
                        self.set_state(state, "");
                    }
                }
                Effect::Noted(note) => {
                    // A successor has to know it, too.
                    if let Some(statistics) = &mut self.statistics {
                        statistics.keep_anew();
                    }
                    let at = note.at;
                    self.tell(|feed| feed.note(at, note.text));
                }
                Effect::Queued(queued) => {
                    let why = queued.map(|queued| status::queued(&queued)).unwrap_or_default();
                    let state = self.state;
                    self.tell(|feed| feed.state(state, why));
                }
                Effect::Steered { asked, result } => {
                    if let Some(answer) = self.steers.remove(&asked) {
                        let _ = answer.send(result);
                    }
                    let state = if self.paused { RunState::Paused } else { RunState::Running };
                    self.set_state(state, "");
                }
                Effect::Conclude(conclusion) => self.conclude(&conclusion),
                Effect::Finished { outcome } => {
                    tracing::info!(job = %self.job, %outcome, "ended");
                    self.set_state(RunState::Done, &outcome.to_string());
                    let result = self.result.take().unwrap_or_default();
                    let result = status::as_decided(result, outcome);
                    self.tell(|feed| feed.finish(result));
                }
                Effect::Deposed { why } => {
                    tracing::info!(job = %self.job, why, "no longer led here");
                }
            }
        }
    }

    fn tell(&self, say: impl FnOnce(&mut Feed)) {
        let mut feed = lock(&self.feed);
        say(&mut feed);
        self.newest.send_replace(feed.newest());
    }

    fn set_state(&mut self, state: RunState, why: &str) {
        if self.state != state {
            self.state = state;
            self.tell(|feed| feed.state(state, why));
        }
    }
}
