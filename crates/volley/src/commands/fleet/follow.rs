//! Shows a job while it runs: the live view, plain lines, or JSON, fed by a watch instead of an
//! engine.

use std::io::IsTerminal;
use std::sync::mpsc::channel;
use std::time::Duration;

use ::fleet::client::{Broken, FleetClient, FleetError, JobWatch, Steering, WatchUpdate};
use fence::JobId;
use report::{ExitCode, format};
use serde_json::{Value, json};
use stats::feed::{Shown, Tally, WindowEvent};
use stats::{RunResult, RunState, Snapshot};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::submit::how_to_go_on;
use super::{ClusterAccess, short};
use crate::cli::FollowArgs;
use crate::commands::runner::view_mode;
use crate::failure::Failure;
use crate::{print, signals};

/// What is said while the live view has the terminal, and shown after it.
const HELD_LINES_MAX: usize = 200;
/// Windows of the statistics in a second.
const WINDOWS_PER_S: f64 = 10.0;

/// How following a job has ended.
pub enum Followed {
    Ended(Box<RunResult>),
    /// By the user. The job goes on as far as is known: `is_lost` if no manager told of it lately.
    Detached {
        is_lost: bool,
    },
    /// By the end of the cluster, which has left nothing that could be asked.
    Removed,
}

impl Followed {
    /// What is left to say when it has ended without a result.
    pub fn conclude(
        self,
        job: JobId,
        access: &ClusterAccess,
        summary: bool,
    ) -> Result<Self, Failure> {
        match self {
            Followed::Detached { is_lost } => detached(job, is_lost, &access.flags, summary),
            Followed::Removed => {
                let what = format!(
                    "the `volley up` that ran job {} has ended, and its data with it: there is no result",
                    short(job)
                );
                let help = "`volley up --dir DIR` keeps them, and goes on where it was when it is started again";
                let failure = Failure::failed(what).help(help);
                return Err(Failure { exit: ExitCode::ControlPlaneLost, ..failure });
            }
            Followed::Ended(_) => {}
        }
        Ok(self)
    }
}

fn detached(job: JobId, is_lost: bool, flags: &str, summary: bool) {
    let job_id = short(job);
    match is_lost {
        false => eprintln!("volley: detached; job {job_id} goes on"),
        true => eprintln!(
            "volley: detached; whether job {job_id} goes on is not known, because no manager could say it"
        ),
    }
    eprintln!("{}", how_to_go_on(job, flags));
    if summary {
        eprintln!("  volley results {}{flags} --summary FILE     once it has ended", short(job));
    }
}

/// Shows the job until its end, or until Ctrl-C.
pub async fn follow(
    access: &ClusterAccess,
    client: &FleetClient,
    job: JobId,
    args: &FollowArgs,
) -> Result<Followed, FleetError> {
    let output = args.output();
    let mode = view_mode(&output, false);
    let (wishes, mut wanted) = unbounded_channel();
    let interrupt = wishes.clone();
    signals::on_interrupt_or_hangup(move || {
        let _ = interrupt.send(dashboard::Command::Interrupt);
    });
    let latest = dashboard::Latest::new();
    let color = dashboard::wants_color(args.no_color, std::io::stderr().is_terminal());
    let runs = dashboard::Runs::Elsewhere;
    let look = dashboard::Options { color, runs, ..dashboard::Options::default() };
    let view =
        dashboard::View::start(mode, latest.clone(), forward(wishes), look, Default::default());
    let speak = !args.quiet || args.json;
    let hold = view.mode() == dashboard::Mode::Full;
    let voice = Voice { json: args.json, speak, hold, fail_on: args.fail_on };
    let name = format!("job {}", short(job));
    let mut screen = Screen {
        voice,
        latest,
        held: Vec::new(),
        broken: false,
        lost: false,
        lease: None,
        state: None,
        name,
        is_seen: false,
    };
    let views = mode != dashboard::Mode::None;
    let client = client.clone().without_notice();
    // Asked while somebody answers: who cannot be asked later cannot say it then.
    let limits = client.managers().await.ok().and_then(|known| known.limits);
    screen.lease = limits.map(|limits| Duration::from_millis(limits.lease_ms));
    let watch = client.watch(job, views);
    let is_removed = || access.is_removed();
    let followed = attend(&client, (job, watch), &mut wanted, &mut screen, &is_removed).await;
    view.finish();
    screen.held.iter().for_each(|line| eprintln!("{line}"));
    followed
}

/// The view sends keys from a thread of its own; this one hands them on and ends with it.
fn forward(
    wishes: UnboundedSender<dashboard::Command>,
) -> std::sync::mpsc::Sender<dashboard::Command> {
    let (commands, keys) = channel();
    let body = move || {
        while let Ok(command) = keys.recv() {
            if wishes.send(command).is_err() {
                return;
            }
        }
    };
    let _keys = std::thread::Builder::new().name("volley-keys".to_owned()).spawn(body);
    commands
}

async fn attend(
    client: &FleetClient,
    (job, mut watch): (JobId, JobWatch),
    wanted: &mut UnboundedReceiver<dashboard::Command>,
    screen: &mut Screen,
    is_removed: &dyn Fn() -> bool,
) -> Result<Followed, FleetError> {
    let (answers, mut answered) = unbounded_channel::<String>();
    loop {
        tokio::select! {
            biased;
            Some(command) = wanted.recv() => {
                let Some(wish) = Wish::of(command) else { return Ok(screen.detached()) };
                let (client, answers) = (client.clone(), answers.clone());
                // The answer may take its time; the view goes on.
                tokio::spawn(async move { drop(answers.send(wish.ask(&client, job).await)) });
            }
            Some(answer) = answered.recv() => screen.say(&format!("volley: {answer}")),
            told = watch.next() => match told? {
                Some(WatchUpdate::Final(mut result)) => {
                    result.fail_on = screen.voice.fail_on.unwrap_or(result.fail_on);
                    screen.finished(&result);
                    return Ok(Followed::Ended(result));
                }
                Some(WatchUpdate::Shown(shown)) => screen.show(shown),
                Some(WatchUpdate::Broken(broken)) => {
                    screen.broken(&broken);
                    if broken.all.is_some() && broken.answered == 0 && is_removed() {
                        return Ok(Followed::Removed);
                    }
                }
                // The result comes before the end.
                None => return Ok(screen.detached()),
            },
        }
    }
}

enum Wish {
    Steer(Steering),
    Stop,
    Scale(f64),
}

impl Wish {
    /// `None`: to go.
    fn of(command: dashboard::Command) -> Option<Wish> {
        Some(match command {
            dashboard::Command::Pause => Wish::Steer(Steering::Pause),
            dashboard::Command::Resume => Wish::Steer(Steering::Resume),
            dashboard::Command::Scale(factor) => Wish::Scale(factor),
            dashboard::Command::Stop => Wish::Stop,
            dashboard::Command::Interrupt => return None,
        })
    }

    async fn ask(self, client: &FleetClient, job: JobId) -> String {
        let done = match self {
            Wish::Steer(steering) => {
                client.steer(job, &steering).await.map(|reply| super::steered(&reply))
            }
            Wish::Stop => {
                let reply = client.cancel(job, "stopped by the person who watches", false).await;
                reply.map(|reply| super::cancelled(job, &reply))
            }
            Wish::Scale(factor) => {
                client.scale(job, None, factor).await.map(|done| super::scaled(&done))
            }
        };
        done.unwrap_or_else(|error| error.to_string())
    }
}

#[derive(Clone, Copy)]
struct Voice {
    json: bool,
    speak: bool,
    /// Nothing may be written over the live view.
    hold: bool,
    fail_on: Option<stats::VerdictState>,
}

struct Screen {
    voice: Voice,
    latest: dashboard::Latest,
    held: Vec<String>,
    /// Nothing is heard at the moment; that was said.
    broken: bool,
    /// From no manager; that was said.
    lost: bool,
    /// For how long workers go on without any.
    lease: Option<Duration>,
    state: Option<(RunState, String)>,
    /// Of the job, until its own view says the plan's.
    name: String,
    /// The job has sent a view of itself.
    is_seen: bool,
}

impl Screen {
    fn show(&mut self, shown: Shown) {
        if std::mem::take(&mut self.broken) {
            let always = std::mem::take(&mut self.lost);
            self.tell("volley: connected again", always);
        }
        match shown {
            Shown::View(mut view) => {
                view.warnings.extend(self.waits_for());
                self.latest.publish(*view);
                self.is_seen = true;
            }
            Shown::Window { window, counted } => {
                if self.voice.json {
                    print::line(&json!({ "window": window_json(&window, &counted) }).to_string());
                }
            }
            Shown::State { state, why } => {
                let name = state_name(state);
                if self.voice.json {
                    print::line(&json!({ "state": name, "why": why }).to_string());
                } else if !why.is_empty() && self.state != Some((state, why.clone())) {
                    self.mention(&format!("job {name}: {why}"));
                }
                self.state = Some((state, why));
                // There is no view of a job that has not begun: what it waits for is all there is
                // to see.
                if self.voice.hold && !self.is_seen && state != RunState::Done {
                    let warnings = self.waits_for().into_iter().collect();
                    let plan = self.name.clone();
                    self.latest.publish(Snapshot { plan, state, warnings, ..Snapshot::default() });
                }
            }
            Shown::Note(note) => {
                if self.voice.json {
                    let note = json!({ "at_s": note.at.as_secs_f64(), "event": note.event });
                    print::line(&json!({ "note": note }).to_string());
                } else {
                    self.mention(&format!("{} {}", format::moment(note.at), note.event));
                }
            }
            // Taken apart by the client.
            Shown::Final(_) | Shown::Progress { .. } => {}
        }
    }

    fn waits_for(&self) -> Option<String> {
        self.state.as_ref().map(|(_, why)| why.clone()).filter(|why| !why.is_empty())
    }

    fn finished(&mut self, result: &RunResult) {
        if self.voice.json {
            let exit = report::exit_code(result);
            let end = json!({
                "outcome": result.outcome, "verdict": result.verdict.state, "passed": exit.passed(),
                "exit_code": exit.code.number(), "reason": exit.reason,
            });
            print::line(&json!({ "final": end }).to_string());
        }
    }

    /// Says once that one manager is lost, and once that all are.
    fn broken(&mut self, broken: &Broken) {
        match &broken.all {
            Some(all) if !self.lost => {
                let text = lost(all, broken, self.lease);
                // Whoever wants to hear little wants to hear that nothing is known any more.
                self.tell(&format!("volley: {text}"), true);
                self.lost = true;
            }
            None if !self.broken => {
                self.say(&format!("volley: {}; the watch goes on with another", broken.reason));
            }
            _ => {}
        }
        self.broken = true;
    }

    fn detached(&self) -> Followed {
        Followed::Detached { is_lost: self.lost }
    }

    /// For plain lines only: the live view has its own way to show it, and the summary tells it
    /// again.
    fn mention(&mut self, line: &str) {
        if !self.voice.hold {
            self.say(line);
        }
    }

    fn say(&mut self, line: &str) {
        self.tell(line, false);
    }

    fn tell(&mut self, line: &str, always: bool) {
        match self.voice {
            Voice { speak: false, .. } if !always => {}
            Voice { hold: false, .. } => eprintln!("{line}"),
            Voice { .. } if self.held.len() < HELD_LINES_MAX => self.held.push(line.to_owned()),
            Voice { .. } => {}
        }
    }
}

/// What is known of a job of which no manager can tell anything.
fn lost(all: &[String], broken: &Broken, lease: Option<Duration>) -> String {
    let within = lease.map_or(String::new(), |lease| format!(" ({lease:?})"));
    let (answered, of) = (broken.answered, all.len());
    let answer = if answered == 1 { "answers" } else { "answer" };
    let what = match answered {
        0 => format!(
            "no manager is reached from here. If workers reach none either, they stop when their leases end{within}, \
             and go on when a majority of the managers is back"
        ),
        _ => format!(
            "{answered} of {of} managers {answer}, and cannot decide anything now. Workers stop when their leases \
             end{within}, and go on when a majority of the managers is back"
        ),
    };
    let reasons: String = all.iter().map(|reason| format!("\n  {reason}")).collect();
    let patience = broken.patience;
    format!("{what}; the watch waits for that, at most {patience:?}{reasons}")
}

fn state_name(state: RunState) -> &'static str {
    match state {
        RunState::Preparing => "preparing",
        RunState::Running => "running",
        RunState::Paused => "paused",
        RunState::Stopping => "stopping",
        RunState::Done => "done",
    }
}

fn tally_json(tally: &Tally) -> Value {
    json!({
        "requests": tally.requests, "failed": tally.failed, "iterations": tally.iterations,
        "dropped": tally.dropped, "checks_passed": tally.checks_passed,
        "checks_failed": tally.checks_failed, "bytes_sent": tally.bytes_sent,
        "bytes_received": tally.bytes_received,
    })
}

fn window_json(window: &WindowEvent, counted: &Tally) -> Value {
    json!({
        "from_s": window.first as f64 / WINDOWS_PER_S,
        "to_s": (window.last + 1) as f64 / WINDOWS_PER_S,
        "late": window.late, "partial": window.partial, "coalesced": window.coalesced,
        "told": window.told, "live": window.live, "vus": window.vus,
        "p50_ms": window.latency.percentile_ms(50.0), "p95_ms": window.latency.percentile_ms(95.0),
        "p99_ms": window.latency.percentile_ms(99.0),
        "counted": tally_json(counted), "totals": tally_json(&window.totals),
    })
}
