//! The thread of one attempt, and the bookkeeping that makes its end a single event.

use base::clock;
use permit::SendControl;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schedule;
use stats::series::SeriesWindow;
use stats::{SampleSink, Window};

use super::loaded::{Line, Loaded};
use super::reports::{Counted, Ending};
use crate::core::{Command, CoreHandle, CoreSetup, Report as CoreReport};
use crate::machine;
use crate::script::HookError;
use crate::shard::{ShardEnd, Stop};
use crate::vars::Base;

/// How often somebody looks whether a thread that was killed has ended.
const LOOK: Duration = Duration::from_millis(5);

/// What an attempt has come to.
pub(super) struct Outcome {
    pub how: Ending,
    pub end: ShardEnd,
    /// Of a setup or teardown.
    pub values: Option<Result<Base, HookError>>,
    pub last: Option<Box<Counted>>,
}

/// What a thread tells; the end comes last, and once.
pub(super) enum Told {
    Ready,
    Counted(Box<Counted>),
    RowsWanted { set: usize, at_least: u64 },
    UnitsWanted,
    Wish(crate::script::ScriptEnd),
    Ended(Outcome),
}

pub(super) type Tell = Box<dyn Fn(Told) + Send + Sync>;

/// The thread of one attempt.
pub(super) struct Thread {
    core: Arc<CoreHandle>,
    link: Arc<Link>,
}

/// What the thread and its leader both know.
struct Link {
    tell: Tell,
    loaded: Arc<Loaded>,
    send_control: SendControl,
    commands: std::sync::OnceLock<tokio::sync::mpsc::UnboundedSender<Command>>,
    state: Mutex<State>,
    /// Given back when nobody can write to it any more.
    _line: Line,
}

/// How it ends, what it leaves, and what a setup has made.
type Known = (Ending, ShardEnd, Option<Result<Base, HookError>>);

#[derive(Default)]
struct State {
    started: bool,
    killed: bool,
    stopped: bool,
    /// Known, and waiting for the last counts.
    ending: Option<Known>,
    over: bool,
}

impl Thread {
    pub fn start(
        loaded: &Arc<Loaded>,
        shards: usize,
        peers: usize,
        send_control: SendControl,
        sample_sink: Option<SampleSink>,
        tell: Tell,
    ) -> io::Result<Thread> {
        let line = loaded.line()?;
        let number = line.number();
        let descriptors = machine::raise_descriptor_limit();
        // What this machine can hold is shared by the attempts that it runs; a core divides what it is
        // given by the number of shards.
        let mine = descriptors.saturating_sub(64) * 9 / 10 / loaded.options.cores.max(1) as u64;
        let setup = Arc::new(CoreSetup {
            program: loaded.program.clone(),
            prepared: loaded.prepared.clone(),
            sample_sink,
            trace: None,
            epoch_unix_ns: crate::conductor::epoch_unix_ns(),
            vus_limit: mine
                .saturating_mul(shards as u64)
                .min(u64::from(schedule::SELF_SIZED_VUS_MAX)),
            instance: loaded.instance.clone(),
            cores: peers.max(1),
            send_control: send_control.clone(),
        });
        let link = Arc::new(Link {
            tell,
            loaded: loaded.clone(),
            send_control,
            commands: std::sync::OnceLock::new(),
            state: Mutex::default(),
            _line: line,
        });
        let hears = link.clone();
        let core = CoreHandle::start(number, setup, Box::new(move |report| hears.hear(report)))?;
        let _ = link.commands.set(core.commands.clone());
        Ok(Thread { core: Arc::new(core), link })
    }

    pub fn send(&self, command: Command) {
        self.core.send(command);
    }

    /// The work itself: from here on a stop is the shard's business.
    pub fn begin(&self, command: Command) {
        let mut state = self.link.lock();
        if state.over || state.ending.is_some() {
            return;
        }
        state.started = true;
        self.link.loaded.instance.begin(clock::now());
        self.core.send(command);
    }

    pub fn swap(&self, empty: Option<Window>, empty_series: Option<Box<SeriesWindow>>) {
        let empty = empty.unwrap_or_else(|| Window::new(&self.link.loaded.program.layout));
        self.core.send(Command::Swap { empty, empty_series, last: false });
    }

    pub fn stop(&self, how: Stop) {
        self.link.lock().stopped |= how != Stop::No;
        self.core.send(Command::Stop { how });
        self.link.end_if_idle(Ending::Stopped);
    }

    /// It could not be begun.
    pub fn fail(&self, error: String) {
        self.link.finish(Ending::Error(error), ShardEnd::default(), None);
    }

    /// Nothing is sent from here on; who has not ended after `grace` is left to itself.
    pub fn kill(&self, grace: Duration) {
        self.link.send_control.permit().close();
        self.link.lock().killed = true;
        self.core.send(Command::Stop { how: Stop::Now });
        self.link.end_if_idle(Ending::Killed);
        let (core, link) = (self.core.clone(), self.link.clone());
        let until = clock::now().after(grace);
        let watch = move || {
            while !core.is_finished() && clock::now() < until {
                std::thread::sleep(LOOK);
            }
            if !core.is_finished() {
                link.abandon();
            }
        };
        let name = "volley-kill".to_owned();
        if std::thread::Builder::new().name(name).spawn(watch).is_err() {
            // Nobody can wait for it: then nobody does.
            self.link.abandon();
        }
    }

    pub fn is_finished(&self) -> bool {
        self.core.is_finished()
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.core.is_finished() || self.link.lock().over {
            return;
        }
        self.link.send_control.permit().close();
        self.link.lock().killed = true;
        self.core.send(Command::Stop { how: Stop::Now });
        self.link.end_if_idle(Ending::Killed);
    }
}

impl Link {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, command: Command) {
        if let Some(commands) = self.commands.get() {
            // A core that is gone has said so.
            let _ = commands.send(command);
        }
    }

    /// On the core's thread.
    fn hear(&self, report: CoreReport) {
        match report {
            CoreReport::UsersMade(Ok(())) => self.tell(Told::Ready),
            CoreReport::UsersMade(Err(error)) => {
                self.finish(Ending::Error(error), ShardEnd::default(), None);
            }
            CoreReport::ShutOut => self.end_if_idle(Ending::LeaseLapsed),
            CoreReport::Wish(wish) => self.tell(Told::Wish(wish)),
            CoreReport::RowsWanted { set, at_least } => {
                self.tell(Told::RowsWanted { set, at_least });
            }
            CoreReport::UnitsWanted => self.tell(Told::UnitsWanted),
            CoreReport::ShardEnded { end, .. } => {
                let how = self.ending(&end);
                self.finish(how, end, None);
            }
            CoreReport::HookEnded { result, .. } => {
                let standing = self.send_control.permit().standing(clock::now());
                let end = ShardEnd {
                    stopped: result.is_err() && (standing.is_final() || self.lock().stopped),
                    shut_out: standing.is_final(),
                    ..ShardEnd::default()
                };
                let how = match &result {
                    Err(error) if !end.stopped => Ending::Error(error.message.clone()),
                    Err(_) => self.ending(&end),
                    Ok(_) => Ending::Completed,
                };
                self.finish(how, end, Some(result));
            }
            CoreReport::Swapped(swapped) => {
                let is_last = swapped.last;
                let issued = self.send_control.issued().map(|file| file.counts());
                let mut state = self.lock();
                let ending = if is_last { state.ending.take() } else { None };
                let taken = ending.as_ref().map_or(0, |(_, end, _)| end.taken);
                let counted = Counted::new(*swapped, taken, issued);
                match ending {
                    None => {
                        drop(state);
                        self.tell(Told::Counted(counted));
                    }
                    Some((how, end, values)) => {
                        if std::mem::replace(&mut state.over, true) {
                            return;
                        }
                        drop(state);
                        let last = Some(counted);
                        (self.tell)(Told::Ended(Outcome { how, end, values, last }));
                    }
                }
            }
            CoreReport::Panicked { .. } => self.conclude(Ending::Crashed),
        }
    }

    fn ending(&self, end: &ShardEnd) -> Ending {
        let state = self.lock();
        match () {
            () if state.killed => Ending::Killed,
            () if end.stopped && end.shut_out && !state.stopped => Ending::LeaseLapsed,
            () if end.stopped => Ending::Stopped,
            () => Ending::Completed,
        }
    }

    fn tell(&self, told: Told) {
        if !self.lock().over {
            (self.tell)(told);
        }
    }

    /// The outcome is known; it is told with the last counts, and the thread ends.
    fn finish(&self, how: Ending, end: ShardEnd, values: Option<Result<Base, HookError>>) {
        {
            let mut state = self.lock();
            if state.over {
                // Nobody waits for it any more; it may go.
                self.send(Command::Quit);
                return;
            }
            if state.ending.is_some() {
                return;
            }
            state.ending = Some((how, end, values));
        }
        // Nothing of this attempt is sent from here on, whatever is still in some queue.
        self.send_control.permit().close();
        let empty = Window::new(&self.loaded.program.layout);
        self.send(Command::Swap { empty, empty_series: None, last: true });
        self.send(Command::Quit);
    }

    /// Nothing runs that could end by itself.
    fn end_if_idle(&self, how: Ending) {
        if !self.lock().started {
            self.finish(how, ShardEnd { stopped: true, ..ShardEnd::default() }, None);
        }
    }

    fn abandon(&self) {
        self.conclude(Ending::Abandoned);
    }

    /// Ends without the last counts: there is nobody who could hand them over.
    fn conclude(&self, how: Ending) {
        let known = {
            let mut state = self.lock();
            if std::mem::replace(&mut state.over, true) {
                return;
            }
            state.ending.take()
        };
        self.send_control.permit().close();
        let (_, end, values) = known.unwrap_or((how.clone(), ShardEnd::default(), None));
        (self.tell)(Told::Ended(Outcome { how, end, values, last: None }));
    }
}
