//! A worker in a script: `time event => effects`, in words.
//!
//! Attempts are `s0.1`: attempt 1 of shard 0, of workflow 0 of job 1 unless it says otherwise
//! (`j2w1s0.1`). Managers are `m1`; `m1@5` is manager 1 as the owner under epoch 5.

use std::collections::BTreeMap;
use std::time::Duration;

use fence::{Act, Attempt, BootId, Epoch, Fence, GroupId, JobId, Moment, NodeId};
use fence::{FencedCommand, ShardKey, WorkflowNo};

use super::*;
use crate::message::*;
use ledger_state::{AttemptStatus, BlobRef, Counters, Payload};

pub(super) const BOOT: BootId = BootId(7);
pub(super) const CLUSTER: u64 = 1;

pub(super) fn at(seconds: f64) -> Moment {
    Moment::since_boot(Duration::from_secs(1000) + Duration::from_secs_f64(seconds))
}

pub(super) fn epoch(number: u64) -> Epoch {
    Epoch { group: GroupId { cluster: CLUSTER, generation: 0 }, number }
}

pub(super) fn settings(cores: u32) -> Settings {
    Settings::new(NodeId(100), BOOT, CLUSTER, cores)
}

pub(super) fn run(text: &str) -> Run {
    let rest = |text: &str, mark: char| -> (u32, String) {
        let Some(text) = text.strip_prefix(mark) else { return (u32::MAX, text.to_owned()) };
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        (digits.parse().unwrap(), text[digits.len()..].to_owned())
    };
    let (job, text) = rest(text, 'j');
    let (workflow, text) = rest(&text, 'w');
    let (shard, text) = rest(&text, 's');
    let attempt = text.strip_prefix('.').unwrap().parse().unwrap();
    let or = |number: u32, other: u32| if number == u32::MAX { other } else { number };
    let job = JobId(u128::from(or(job, 1)));
    let shard = ShardKey { job, workflow: WorkflowNo(or(workflow, 0)), shard };
    Run::new(shard, Attempt(attempt))
}

pub(super) fn show_run(run: Run) -> String {
    let ShardKey { job, workflow, shard } = run.shard;
    let job = if job.0 == 1 { String::new() } else { format!("j{}", job.0) };
    let workflow = if workflow.0 == 0 { String::new() } else { format!("w{}", workflow.0) };
    format!("{job}{workflow}s{shard}.{}", run.attempt)
}

fn hold(text: &str, job: JobId, epoch: Epoch) -> ReservationId {
    ReservationId { job, epoch, number: text.strip_prefix('h').unwrap().parse().unwrap() }
}

fn number(text: &str) -> u64 {
    text.trim_start_matches(['m', '#']).parse().unwrap_or_else(|_| panic!("no number: {text}"))
}

fn duration(text: &str) -> Duration {
    match text.strip_suffix("ms") {
        Some(ms) => Duration::from_millis(ms.parse().unwrap()),
        None => Duration::from_secs_f64(text.trim_end_matches('s').parse().unwrap()),
    }
}

pub(super) fn dispatch(run: Run, epoch: Epoch, placement: Placement) -> Dispatch {
    let fence = Fence { epoch, attempt: run.attempt };
    Dispatch {
        order: FencedCommand::new(BOOT, run.shard, fence, Act::Start),
        placement,
        task: Task::Load,
        shards: 4,
        bundle: BlobRef { hash: [1; 32], bytes: 100 },
        context: Payload::Inline(vec![]),
        context_version: 0,
        elapsed: Duration::ZERO,
        units_before: 0,
        units_end: None,
        rows: vec![],
        run_at_most: Duration::from_secs(60),
        time_left: None,
        lease: Duration::from_secs(6),
    }
}

pub(super) fn end(how: EngineEndKind) -> EngineEnd {
    let counters = Counters { issued: 10, completed: 9, ..Counters::default() };
    let (provided, log) = (BTreeMap::new(), String::new());
    EngineEnd { how, counters, provided, frames: 3, totals: vec![1, 2, 3], log }
}

/// A worker, and the numbers that scripts refer to.
pub(super) struct Rig {
    pub worker: Worker,
    pub now: Moment,
    pub requests: u64,
}

impl Rig {
    pub fn new(cores: u32) -> Self {
        Self::with(settings(cores))
    }

    pub fn with(settings: Settings) -> Self {
        let (worker, effects) = Worker::recover(settings, vec![], vec![], at(0.0)).unwrap();
        assert!(effects.is_empty());
        Self { worker, now: at(0.0), requests: 0 }
    }

    pub fn step(&mut self, event: Event) -> Vec<Effect> {
        self.worker.step(event, self.now)
    }

    pub fn ask(&mut self, from: u64, request: WorkerRequest) -> Vec<Effect> {
        self.requests += 1;
        self.step(Event::Requested { id: self.requests, from: NodeId::from(from), request })
    }

    /// Each line is `seconds event => effects`; an empty right side means that nothing is to be
    /// done.
    #[track_caller]
    pub fn play(&mut self, script: &str) -> &mut Self {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (left, expected) = line.split_once("=>").unwrap_or((line, ""));
            let (seconds, left) = left.trim().split_once(' ').unwrap_or((left.trim(), "tick"));
            self.now = at(seconds.parse().unwrap_or_else(|_| panic!("no time: {line}")));
            let effects = self.event(left.trim());
            let shown = effects.iter().map(|effect| self.show(effect)).collect::<Vec<_>>();
            assert_eq!(shown.join(", ").trim(), expected.trim(), "in `{line}`");
        }
        self
    }

    fn event(&mut self, text: &str) -> Vec<Effect> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let event = match words[..] {
            ["tick"] => Event::Tick,
            ["drain"] => Event::Drain,
            ["disk", state] => Event::DiskFull(state == "full"),
            ["shutdown"] => Event::Shutdown,
            ["managers", ref names @ ..] => {
                Event::Managers(names.iter().map(|name| NodeId::from(number(name))).collect())
            }
            ["renewal", place, ref rest @ ..] => self.renewal(number(place), rest),
            ["report", place, ref rest @ ..] => {
                let ack = match rest {
                    ["taken"] => ReportAck::Taken,
                    ["not", "owner"] => ReportAck::NotOwner { owner: None },
                    ["not", "owner", owner] => {
                        ReportAck::NotOwner { owner: Some(NodeId::from(number(owner))) }
                    }
                    ["unknown"] => ReportAck::UnknownJob,
                    ["settled"] => ReportAck::Settled,
                    ["failed"] => return self.step(Event::ReportFailed { number: number(place) }),
                    other => panic!("{other:?}"),
                };
                Event::ReportAnswered { number: number(place), ack }
            }
            [who, ref rest @ ..] if who.starts_with('m') => {
                let (manager, epoch_no) = who.split_once('@').unwrap_or((who, "0"));
                let request = self.ask_of(epoch(number(epoch_no)), rest);
                return self.ask(number(manager), request);
            }
            [name, ref rest @ ..] => self.engine(run(name), rest),
            [] => panic!("an empty line"),
        };
        self.step(event)
    }

    /// One word for all, or `s0.1 granted s1.1 refused`.
    fn renewal(&self, place: u64, words: &[&str]) -> Event {
        let renewal = |word: &str| match word {
            "granted" => Renewal::Granted { units_end: None, steering: None },
            "refused" => Renewal::Refused { why: "revoked".into() },
            other => panic!("{other}"),
        };
        let answers = match words {
            ["failed"] => return Event::RenewalFailed { number: place },
            [all] => {
                let local_attempt = self.worker.attempts.keys();
                local_attempt.map(|run| (run.shard, run.attempt, renewal(all))).collect()
            }
            each => {
                let pairs = each.chunks(2).map(|pair| (run(pair[0]), renewal(pair[1])));
                pairs.map(|(run, renewal)| (run.shard, run.attempt, renewal)).collect()
            }
        };
        Event::RenewalAnswered { number: place, answers }
    }

    fn ask_of(&self, epoch: Epoch, words: &[&str]) -> WorkerRequest {
        let job = JobId(1);
        let receiver = BOOT;
        match words {
            ["reserve", name, cores] => {
                let within = Duration::from_secs(10);
                let cores = cores.parse().unwrap();
                WorkerRequest::Reserve { hold: hold(name, job, epoch), receiver, cores, within }
            }
            ["release", name] => WorkerRequest::Release { hold: hold(name, job, epoch), receiver },
            ["dispatch", name, placement, rest @ ..] => {
                let run = run(name);
                let placement = match *placement {
                    "shared" => Placement::Shared,
                    placement => Placement::Own(hold(placement, run.shard.job, epoch)),
                };
                let mut dispatch = dispatch(run, epoch, placement);
                match rest {
                    [] => {}
                    ["context", version] => dispatch.context_version = version.parse().unwrap(),
                    ["boot", boot] => dispatch.order.receiver = BootId(boot.parse().unwrap()),
                    ["at", "most", time] => dispatch.run_at_most = duration(time),
                    ["left", time] => dispatch.time_left = Some(duration(time)),
                    other => panic!("{other:?}"),
                }
                WorkerRequest::Dispatch(Box::new(dispatch))
            }
            ["install"] => WorkerRequest::Install { job, epoch, receiver },
            ["start", names @ .., "in", after] | ["start", names @ .., "in", after, "from", _] => {
                let runs = names.iter().map(|name| run(name));
                let attempts = runs.map(|run| (run.shard, run.attempt)).collect();
                let after = duration(after);
                let elapsed = match words {
                    [.., "from", elapsed] => duration(elapsed),
                    _ => Duration::ZERO,
                };
                WorkerRequest::Start {
                    job,
                    epoch,
                    receiver,
                    attempts,
                    after,
                    elapsed,
                    clock: elapsed,
                    steering: Steering::default(),
                }
            }
            ["stop", name, how] => {
                let run = run(name);
                let fence = Fence { epoch, attempt: run.attempt };
                let order = FencedCommand::new(receiver, run.shard, fence, Act::Stop);
                let how = if *how == "now" { StopMode::Now } else { StopMode::Graceful };
                WorkerRequest::Stop { order, how, reason: "cancelled".into() }
            }
            ["steer", place, what @ ..] => {
                let steer = match what {
                    ["pause"] => Steer::Pause,
                    ["resume"] => Steer::Resume,
                    ["vus", vus] => {
                        Steer::Vus { workflow: WorkflowNo(0), vus: vus.parse().unwrap() }
                    }
                    other => panic!("{other:?}"),
                };
                let steers = vec![steer];
                let steering = Steering { number: number(place), steers };
                WorkerRequest::Steer { job, epoch, receiver, steering }
            }
            ["rows", name, first, end] => {
                let Run { shard, attempt } = run(name);
                let (first, end) = (first.parse().unwrap(), end.parse().unwrap());
                let rows = RowBlock { set: 0, first, end };
                WorkerRequest::Rows { shard, attempt, epoch, receiver, rows }
            }
            ["forget", name] => {
                let Run { shard, attempt } = run(name);
                WorkerRequest::Forget { shard, attempt }
            }
            ["inspect"] => WorkerRequest::Inspect { job: None },
            other => panic!("unknown question {other:?}"),
        }
    }

    fn engine(&self, run: Run, words: &[&str]) -> Event {
        let ended = |how| Event::Ended { run, end: end(how) };
        let counters = Counters { issued: 10, completed: 9, ..Counters::default() };
        let progress =
            Progress { counters, elapsed: Duration::from_secs(4), frames: 2, answers: 40 };
        match words {
            ["fetched"] => Event::Fetched { run, result: Ok(()) },
            ["unfetched"] => Event::Fetched { run, result: Err("no manager has it".into()) },
            ["prepared"] => Event::Prepared { run, graceful_stop: Duration::from_secs(3) },
            ["progress"] => Event::Progress { run, progress },
            ["wants", "rows"] => Event::RowsWanted { run, set: 0, at_least: 10 },
            ["aborts"] => Event::Abort { run, reason: "a script said so".into() },
            ["sees", "it"] => Event::PermitWithdrawn { run },
            ["completed"] => ended(EngineEndKind::Completed),
            ["failed"] => ended(EngineEndKind::Failed("no such host".into())),
            ["stopped"] => ended(EngineEndKind::Stopped),
            ["unable"] => ended(EngineEndKind::Unable("no space left".into())),
            ["abandoned"] => Event::Abandoned { run, progress, totals: vec![1, 2, 3] },
            ["stored"] => Event::Stored { run, result: Ok(()) },
            ["not", "stored"] => Event::Stored { run, result: Err("disk full".into()) },
            other => panic!("unknown event {other:?}"),
        }
    }

    fn show(&self, effect: &Effect) -> String {
        let moment = |moment: &Moment| moment.since(at(0.0)).as_secs_f64();
        let name = |run: &Run| show_run(*run);
        match effect {
            Effect::Respond { answer, .. } => show_answer(answer),
            Effect::Fetch { run, .. } => format!("fetch {}", name(run)),
            Effect::Prepare { core, dispatch } => {
                let FencedCommand { shard, step, .. } = dispatch.order;
                format!("prepare {} on {core}", show_run(Run::new(shard, step.attempt)))
            }
            Effect::Start { run, at, elapsed, .. } => {
                let from = match elapsed.as_secs() {
                    0 => String::new(),
                    seconds => format!(" from {seconds}"),
                };
                format!("start {} at {}{from}", name(run), moment(at))
            }
            Effect::ExtendPermit { run, until } => format!("gate {} {}", name(run), moment(until)),
            Effect::WithdrawPermit { run } => format!("shut {}", name(run)),
            Effect::Stop { run, how: StopMode::Now } => format!("halt {}", name(run)),
            Effect::Stop { run, how: StopMode::Graceful } => format!("end {}", name(run)),
            Effect::Kill { run } => format!("kill {}", name(run)),
            Effect::Steer { run, steer } => {
                let steer = match steer {
                    Steer::Pause => "pause".to_owned(),
                    Steer::Resume => "resume".to_owned(),
                    Steer::Vus { vus, .. } => format!("vus {vus}"),
                    Steer::Rate { per_second, .. } => format!("rate {per_second}"),
                };
                format!("{} {steer}", name(run))
            }
            Effect::GiveRows { run, rows } => {
                format!("rows {} {}..{}", name(run), rows.first, rows.end)
            }
            Effect::GrantUnits { run, end } => format!("units {} below {end}", name(run)),
            Effect::SendRenewal { number, to, renew } => {
                let runs = renew.attempts.iter().map(|(s, a)| show_run(Run::new(*s, *a)));
                format!("renew {number} at m{} {}", to.0, runs.collect::<Vec<_>>().join("+"))
            }
            Effect::SendReport { number, to, report } => {
                format!("report {number} m{} {}", to.0, show_report(report))
            }
            Effect::Store { report } => {
                format!(
                    "store {} {}",
                    show_run(Run::new(report.shard, report.attempt)),
                    report.status
                )
            }
            Effect::Remove { run } => format!("remove {}", name(run)),
            Effect::Drained => "drained".to_owned(),
        }
    }

    /// Brings these attempts, which share a hold, to run from second 1 on, with a lease until
    /// second 6.5.
    pub fn running(&mut self, names: &[&str]) -> &mut Self {
        self.now = at(0.0);
        self.event("managers m1 m2 m3");
        let effects = self.event(&format!("m1@5 reserve h1 {}", names.len()));
        assert!(matches!(effects[0], Effect::Respond { answer: WorkerResponse::Done, .. }));
        for name in names {
            let effects = self.event(&format!("m1@5 dispatch {name} h1"));
            assert_eq!(self.show(&effects[1]), "done");
            self.event(&format!("{name} fetched"));
            self.event(&format!("{name} prepared"));
        }
        self.now = at(0.5);
        self.step(Event::Tick);
        let numbers: Vec<u64> = self.worker.renewals.numbers().collect();
        for number in numbers {
            self.event(&format!("renewal {number} granted"));
        }
        self.event(&format!("m1@5 start {} in 500ms", names.join(" ")));
        self.now = at(1.0);
        self.step(Event::Tick);
        for name in names {
            assert!(self.worker.attempts[&run(name)].begun.is_some(), "{name} runs");
        }
        self
    }

    /// The status in the outbox.
    pub fn status(&self, name: &str) -> Option<AttemptStatus> {
        self.worker.outbox.get(run(name)).map(|report| report.status)
    }

    pub fn error(&self, name: &str) -> &str {
        self.worker.outbox.get(run(name)).and_then(|report| report.error.as_deref()).unwrap_or("")
    }
}

fn show_report(report: &WorkerReport) -> String {
    let name = |shard: &ShardKey, attempt: &Attempt| show_run(Run::new(*shard, *attempt));
    match report {
        WorkerReport::Ready { shard, attempt } => format!("{} ready", name(shard, attempt)),
        WorkerReport::RowsWanted { shard, attempt, .. } => {
            format!("{} wants rows", name(shard, attempt))
        }
        WorkerReport::Abort { shard, attempt, .. } => format!("{} aborts", name(shard, attempt)),
        WorkerReport::Ended(report) => {
            format!("{} {}", name(&report.shard, &report.attempt), report.status)
        }
        WorkerReport::Draining { .. } => "draining".to_owned(),
        WorkerReport::MoreTime { .. } => "more time".to_owned(),
    }
}

fn show_answer(answer: &WorkerResponse) -> String {
    match answer {
        WorkerResponse::Done => "done".to_owned(),
        WorkerResponse::Stopped { report: None } => "is stopped".to_owned(),
        WorkerResponse::Stopped { report: Some(report) } => {
            format!("is stopped: {}", report.status)
        }
        WorkerResponse::Holding(holdings) => {
            let one = |held: &HeldAttempt| {
                let phase = format!("{:?}", held.phase).to_lowercase();
                format!(
                    "{} {phase}@{}",
                    show_run(Run::new(held.shard, held.attempt)),
                    held.epoch.number
                )
            };
            let all: Vec<_> = holdings.attempts.iter().map(one).collect();
            format!("{}/{} free; {}", holdings.cores_free, holdings.cores, all.join(" "))
        }
        WorkerResponse::Refused(refused) => match refused {
            WorkerRefusal::Fence(fence::FenceRefusal::OtherLife { own, named, .. }) => {
                format!("refused: boot {named} is named, and this is {own}")
            }
            WorkerRefusal::Fence(refusal) => {
                let text = refusal.to_string();
                format!("refused {}", text.split(": offered").next().unwrap_or_default())
            }
            WorkerRefusal::NoCores { asked, free, total } => {
                format!("refused {asked} cores: {free} of {total} are free")
            }
            WorkerRefusal::UnknownReservation => "refused hold".to_owned(),
            WorkerRefusal::UnknownAttempt => "refused attempt".to_owned(),
            WorkerRefusal::OldContext { seen } => format!("refused context: {seen} seen"),
            WorkerRefusal::Draining => "refused: draining".to_owned(),
            WorkerRefusal::DiskFull => "refused: disk full".to_owned(),
            WorkerRefusal::TooMany { what, limit } => format!("refused: more than {limit} {what}"),
            WorkerRefusal::CannotRun { why } => format!("refused: {why}"),
        },
    }
}
