//! The task that owns the machine: events in, effects out, in their order.
//!
//! What takes long is begun elsewhere and comes back as an event. Gates are moved and shut right
//! here: each is one store to memory.

mod effects;

pub(super) use base::clock::now;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use control::message::{WorkerRequest, WorkerResponse};
use control::worker::{EngineEnd, EngineEndKind, Event, Figures, Run, Settings, Worker};
use engine::attempt::{Ended, Ending, Report, ScriptEnd};
use engine::machine;
use fence::canary::{self, Canary};
use fence::{JobId, NodeId};
use ledger_state::Counters;
use membership::agent::View;
use node::{Host, Member};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use wal::{Disk, RealDisk};

use super::attempt::{Attempt, MachineUse};
use super::files::{self, RecoveredFiles};
use super::group::Group;
use super::job::{Job, lock};
use super::managers::Managers;
use super::prepare::{PrepareError, PreparedAttempt, Preparer};
use super::service::Question;
use super::{ActorInput, End, Inbox};

const TICK: Duration = Duration::from_millis(100);
/// Ticks between two words on an attempt's progress.
const PROGRESS_EVERY: u64 = 10;
/// Ticks between two looks at who is there, if nothing changes: the group is learned beside.
const LOOK_EVERY: u64 = 10;
/// With less room on its disk than this a worker takes nothing new: what the attempts that run may
/// still leave there, reports of some MiB each. It takes work again with half as much more, so that
/// it does not waver.
const ROOM_BYTES_MIN: u64 = 16 << 20;
/// Sleeps no longer than this without a look at the clock, which goes on while the machine is
/// suspended.
const SLEEP_MAX: Duration = Duration::from_secs(1);

pub(super) struct Actor {
    pub settings: Settings,
    /// Made when the cluster is known, from what lies on the disk.
    pub machine: Option<Worker>,
    pub leftovers: RecoveredFiles,
    pub member: Weak<Member>,
    pub views: watch::Receiver<Arc<View>>,
    pub questions: mpsc::Receiver<Question>,
    pub inbox: Inbox,
    pub words: mpsc::UnboundedReceiver<ActorInput>,
    pub managers: Arc<Managers>,
    pub group: Arc<Group>,
    pub preparer: Arc<Preparer>,
    pub files: mpsc::UnboundedSender<files::Job>,
    pub figures: Arc<Mutex<Figures>>,
    pub end: watch::Sender<Option<End>>,
    pub state: State,
}

/// What the actor remembers beside the machine.
#[derive(Default)]
pub(super) struct State {
    attempts: BTreeMap<Run, Attempt>,
    /// Threads that did not end; their cores come back when they do.
    abandoned: Vec<Attempt>,
    jobs: BTreeMap<JobId, Slot>,
    /// Who waits for which answer, and who leads the job if the machine lets the question in.
    callers: BTreeMap<u64, (oneshot::Sender<WorkerResponse>, NodeId, Option<JobId>)>,
    asked: u64,
    /// Who has dispatched attempts of jobs that have none here yet.
    leaders: BTreeMap<JobId, NodeId>,
    /// Events that the actor itself has found, before anything else is heard.
    next: VecDeque<Event>,
    ticks: u64,
    /// Counts preparations, for the order in which jobs are let go.
    uses: u64,
    descriptors_limit: u64,
}

struct Slot {
    job: Arc<Job>,
    /// Attempts whose reports are not acknowledged yet, running ones included.
    runs: BTreeSet<Run>,
    /// When it had its last attempt; the oldest goes first.
    used: u64,
}

impl Actor {
    /// Until the worker is dropped.
    pub async fn run(mut self) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        self.look_around();
        loop {
            let due = self.machine.as_ref().and_then(Worker::next_due);
            let wait = due.map_or(SLEEP_MAX, |due| due.since(now()).min(SLEEP_MAX));
            tokio::select! {
                biased;
                Some(word) = self.words.recv() => self.hear(word),
                Some(question) = self.questions.recv() => self.question(question),
                Ok(()) = self.views.changed() => self.look_around(),
                _ = ticks.tick() => self.tick(),
                () = sleep_until(Instant::now() + wait) => self.step(Event::Tick),
            }
            while let Some(event) = self.state.next.pop_front() {
                self.step(event);
            }
        }
    }

    /// Who is there, and which cluster this is.
    fn look_around(&mut self) {
        let view = Arc::clone(&self.views.borrow_and_update());
        // A manager that is not of the group grants nothing and takes nothing.
        let is_stranger = |manager: NodeId| self.group.admits(manager) == Some(false);
        let changed = self.managers.update(&view, is_stranger, now());
        if let Some(member) = self.member.upgrade() {
            let (opened, open) = self.managers.breakers();
            member.set_breakers("manager", opened, open);
        }
        if self.machine.is_none() {
            self.learn_cluster();
        } else if let Some(order) = changed {
            self.step(Event::Managers(order));
        }
    }

    /// The number of the cluster is the ledger's. A manager says it in its hello, or in the first
    /// command.
    fn learn_cluster(&mut self) {
        // A worker that was told to end before it knew its cluster begins nothing.
        let Some(member) = self.member.upgrade().filter(|_| self.end.borrow().is_none()) else {
            return;
        };
        let hellos = member.hellos();
        drop(member);
        let group = hellos.values().find_map(|hello| hello.group);
        if let Some(group) = group {
            self.begin(group.cluster);
        }
    }

    fn begin(&mut self, cluster: u64) {
        let settings = Settings { cluster, ..self.settings.clone() };
        let RecoveredFiles { reports, issued } = std::mem::take(&mut self.leftovers);
        match Worker::recover(settings, reports, issued, now()) {
            Ok((machine, effects)) => {
                self.machine = Some(machine);
                for effect in effects {
                    self.carry_out(effect);
                }
                self.step(Event::Managers(self.managers.order()));
            }
            // They were checked at the start.
            Err(error) => {
                self.end.send_if_modified(|end| {
                    end.get_or_insert(End::Broken(error.to_string()));
                    true
                });
            }
        }
    }

    fn step(&mut self, event: Event) {
        let Some(machine) = &mut self.machine else {
            // Nothing can run and nobody can ask before; only the word to end concerns an empty
            // worker.
            if matches!(event, Event::Drain | Event::Shutdown) {
                lock(&self.figures).accepting = false;
                self.end.send_if_modified(effects::drained);
            }
            return;
        };
        let effects = machine.step(event, now());
        let figures = machine.figures();
        *lock(&self.figures) = figures;
        for effect in effects {
            self.carry_out(effect);
        }
    }

    fn question(&mut self, question: Question) {
        match question {
            Question::Drain => self.step(Event::Drain),
            Question::WorkerRequest { from, request, answer } => {
                if self.machine.is_none() {
                    let Some(cluster) = cluster_of(&request) else {
                        // Dropping the sender tells the caller to come again.
                        return;
                    };
                    self.begin(cluster);
                }
                if matches!(*request, WorkerRequest::Reserve { .. }) {
                    // What was true a second ago may cost the job an attempt.
                    self.look_at_disk();
                }
                self.state.asked += 1;
                let id = self.state.asked;
                self.state.callers.insert(id, (answer, from, job_of(&request)));
                self.step(Event::Requested { id, from, request: *request });
            }
        }
    }

    fn hear(&mut self, word: ActorInput) {
        match word {
            ActorInput::Event(event) => self.step(event),
            ActorInput::PreparedAttempt(run, made) => self.made(run, made),
            ActorInput::Report(run, report) => self.reported(run, report),
        }
    }

    fn made(&mut self, run: Run, made: Result<PreparedAttempt, PrepareError>) {
        let Some(attempt) = self.state.attempts.get_mut(&run) else {
            // It was ended meanwhile. What was made is let go; its report has been written or is
            // about to be.
            if let Ok(made) = made {
                let slot = self.state.jobs.get(&run.shard.job);
                if let Some(slot) = slot {
                    lock(&slot.job.streams).remove(&made.stream);
                }
                if slot.is_none_or(|slot| !slot.runs.contains(&run)) {
                    // Even forgotten meanwhile: the file of its counters came too late to be
                    // removed with the report.
                    let _ = self.files.send(files::Job::Remove(run));
                }
                drop(self.preparer.host.blocking(move || drop(made)));
            }
            return;
        };
        match made {
            Ok(PreparedAttempt { body, stream, issued }) => {
                attempt.made(body, stream, issued);
                self.prepared(run);
            }
            Err(error) => self.not_made(run, error),
        }
    }

    /// Both the thread and its handle are here: it can be started.
    fn prepared(&mut self, run: Run) {
        let Some(attempt) = self.state.attempts.get_mut(&run) else { return };
        if let Some(graceful_stop) = attempt.graceful_stop().filter(|_| !attempt.prepared) {
            attempt.prepared = true;
            self.state.next.push_back(Event::Prepared { run, graceful_stop });
        }
    }

    fn not_made(&mut self, run: Run, why: PrepareError) {
        if let Some(attempt) = self.state.attempts.remove(&run) {
            attempt.permit.close();
            let log = attempt.job.log();
            let how = match why {
                PrepareError::Error(error) => EngineEndKind::Failed(error),
                PrepareError::Machine(why) => {
                    tracing::warn!(%run, why, "cannot be run on this machine");
                    EngineEndKind::Unable(why)
                }
            };
            self.state.next.push_back(ended(run, how, log));
            self.settle_jobs();
        }
    }

    fn reported(&mut self, run: Run, report: Report) {
        let Some(attempt) = self.state.attempts.get_mut(&run) else { return };
        match report {
            Report::Ready => {
                attempt.ready = true;
                self.prepared(run);
            }
            Report::Counted(counted) => {
                if attempt.counted(*counted) {
                    self.state.next.push_back(Event::PermitWithdrawn { run });
                }
            }
            Report::RowsWanted { set, at_least } => {
                let set = u32::try_from(set).unwrap_or(u32::MAX);
                self.state.next.push_back(Event::RowsWanted { run, set, at_least });
            }
            Report::UnitsWanted => attempt.units_wanted(),
            Report::Wish(ScriptEnd::Abort(_)) if canary::active(Canary::AbortIgnored) => {}
            Report::Wish(ScriptEnd::Abort(reason)) => {
                self.state.next.push_back(Event::Abort { run, reason });
            }
            Report::Wish(ScriptEnd::MarkFailed(why)) => attempt.mark_failed(why),
            Report::Ended(ended) => self.over(run, *ended),
        }
    }

    /// The engine is done with it.
    fn over(&mut self, run: Run, ended: Ended) {
        let Some(mut attempt) = self.state.attempts.remove(&run) else { return };
        let abandoned = ended.how == Ending::Abandoned;
        let elapsed = attempt.progress().elapsed;
        let end = attempt.over(ended);
        if abandoned {
            let (counters, frames, totals) = (end.counters, end.frames, end.totals);
            let answers = attempt.progress().answers;
            let progress = control::worker::Progress { counters, elapsed, frames, answers };
            self.state.next.push_back(Event::Abandoned { run, progress, totals });
            self.state.abandoned.push(attempt);
        } else {
            self.state.next.push_back(Event::Ended { run, end });
        }
        self.settle_jobs();
    }

    /// Others write to the same disk, so it is looked at whether there is work or not.
    fn look_at_disk(&mut self) {
        // A disk that cannot be measured is found out about by the next attempt that writes to it.
        let Ok(free) = RealDisk.free_bytes(&self.preparer.folders.outbox) else { return };
        let full = self.machine.as_ref().is_some_and(|machine| machine.figures().disk_full);
        let enough = if full { ROOM_BYTES_MIN + ROOM_BYTES_MIN / 2 } else { ROOM_BYTES_MIN };
        let now_full = free < enough;
        if now_full != full {
            if now_full {
                let folder = self.preparer.folders.outbox.display();
                tracing::warn!(%folder, free, "the disk is full: nothing new is taken until there is room");
            } else {
                tracing::info!(free, "there is room on the disk again, and work is taken");
            }
            self.step(Event::DiskFull(now_full));
        }
    }

    fn tick(&mut self) {
        self.state.ticks += 1;
        if self.machine.is_none() {
            self.learn_cluster();
        }
        if self.state.ticks.is_multiple_of(LOOK_EVERY) {
            self.look_around();
        }
        let progress = self.state.ticks.is_multiple_of(PROGRESS_EVERY);
        if progress {
            self.look_at_disk();
        }
        if !self.state.attempts.is_empty() {
            if self.state.descriptors_limit == 0 {
                self.state.descriptors_limit = machine::raise_descriptor_limit();
            }
            let machine = match self.preparer.host {
                Host::Real => MachineUse {
                    memory_max: machine::memory_max_bytes(),
                    descriptors: if progress { machine::open_descriptors() } else { 0 },
                    descriptors_limit: self.state.descriptors_limit,
                },
                Host::Simulated => MachineUse::default(),
            };
            for attempt in self.state.attempts.values_mut() {
                attempt.tick(machine);
                if progress && attempt.prepared {
                    let (run, progress) = (attempt.run, attempt.progress());
                    self.state.next.push_back(Event::Progress { run, progress });
                }
            }
        }
        let next = &mut self.state.next;
        self.state.abandoned.retain(|attempt| {
            let gone = attempt.is_gone();
            if gone {
                next.push_back(ended(attempt.run, EngineEndKind::Stopped, String::new()));
            }
            !gone
        });
    }
}

fn ended(run: Run, how: EngineEndKind, log: String) -> Event {
    let end = EngineEnd {
        how,
        counters: Counters::default(),
        provided: BTreeMap::new(),
        frames: 0,
        totals: Vec::new(),
        log,
    };
    Event::Ended { run, end }
}

/// The cluster that a command speaks for.
fn cluster_of(request: &WorkerRequest) -> Option<u64> {
    let epoch = match request {
        WorkerRequest::Reserve { hold, .. } | WorkerRequest::Release { hold, .. } => hold.epoch,
        WorkerRequest::Dispatch(dispatch) => dispatch.order.epoch,
        WorkerRequest::Stop { order, .. } => order.epoch,
        WorkerRequest::Start { epoch, .. }
        | WorkerRequest::Steer { epoch, .. }
        | WorkerRequest::Rows { epoch, .. }
        | WorkerRequest::Units { epoch, .. }
        | WorkerRequest::Install { epoch, .. } => *epoch,
        WorkerRequest::Forget { .. } | WorkerRequest::Inspect { .. } => return None,
    };
    Some(epoch.group.cluster)
}

/// The job whose owner speaks. Who only looks around, or forgets, may be anybody.
fn job_of(request: &WorkerRequest) -> Option<JobId> {
    match request {
        WorkerRequest::Reserve { hold, .. } | WorkerRequest::Release { hold, .. } => Some(hold.job),
        WorkerRequest::Dispatch(dispatch) => Some(dispatch.order.shard.job),
        WorkerRequest::Stop { order, .. } => Some(order.shard.job),
        WorkerRequest::Start { job, .. }
        | WorkerRequest::Steer { job, .. }
        | WorkerRequest::Install { job, .. } => Some(*job),
        WorkerRequest::Rows { shard, .. } | WorkerRequest::Units { shard, .. } => Some(shard.job),
        WorkerRequest::Forget { .. } | WorkerRequest::Inspect { .. } => None,
    }
}
