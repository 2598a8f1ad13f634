//! The thread of one attempt, and the bookkeeping that makes its end a single event.

use base::clock;
use permit::SendControl;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schedule;
use stats::series::SeriesWindow;
use stats::{SampleSink, Window};

use super::loaded::{Line, Loaded, Values, by_name};
use super::reports::{Counted, Ended, Ending, Report, Reporter};
use crate::core::{Command, CoreHandle, CoreSetup, Report as CoreReport};
use crate::machine;
use crate::script::HookError;
use crate::shard::{ShardEnd, Stop};

/// How often somebody looks whether a thread that was killed has ended.
const LOOK: Duration = Duration::from_millis(5);

/// The thread of one attempt.
pub(super) struct Thread {
    core: Arc<CoreHandle>,
    link: Arc<Link>,
}

/// What the thread and its leader both know.
struct Link {
    reports: Reporter,
    /// The variables of a setup or teardown, by number.
    names: Vec<String>,
    loaded: Arc<Loaded>,
    send_control: SendControl,
    commands: std::sync::OnceLock<tokio::sync::mpsc::UnboundedSender<Command>>,
    state: Mutex<State>,
    /// Given back when nobody can write to it any more.
    _line: Line,
}

#[derive(Default)]
struct State {
    started: bool,
    killed: bool,
    stopped: bool,
    /// Known, and waiting for the last counts.
    ending: Option<Ended>,
    over: bool,
}

impl Thread {
    pub fn start(
        loaded: &Arc<Loaded>,
        (shards, peers): (usize, usize),
        send_control: SendControl,
        sample_sink: Option<SampleSink>,
        names: Vec<String>,
        reports: Reporter,
    ) -> io::Result<Thread> {
        let line = loaded.line()?;
        let number = line.number();
        let descriptors = machine::raise_descriptor_limit();
        // What this machine can hold is shared by the attempts that it runs; a core divides what it
        // is given by the number of shards.
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
            reports,
            names,
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
            CoreReport::UsersMade(Ok(())) => self.report(Report::Ready),
            CoreReport::UsersMade(Err(error)) => {
                self.finish(Ending::Error(error), ShardEnd::default(), None);
            }
            CoreReport::ShutOut => self.end_if_idle(Ending::LeaseLapsed),
            CoreReport::Wish(wish) => self.report(Report::Wish(wish)),
            CoreReport::RowsWanted { set, at_least } => {
                self.report(Report::RowsWanted { set, at_least });
            }
            CoreReport::UnitsWanted => self.report(Report::UnitsWanted),
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
                let values = result.map(|base| by_name(&self.names, &base));
                self.finish(how, end, Some(values));
            }
            CoreReport::Swapped(swapped) => {
                let is_last = swapped.last;
                let issued = self.send_control.issued().map(|file| file.counts());
                let mut state = self.lock();
                let ending = if is_last { state.ending.take() } else { None };
                let taken = ending.as_ref().map_or(0, |ended| ended.end.taken);
                let counted = Counted::new(*swapped, taken, issued);
                match ending {
                    None => {
                        drop(state);
                        self.report(Report::Counted(counted));
                    }
                    Some(ended) => {
                        if std::mem::replace(&mut state.over, true) {
                            return;
                        }
                        drop(state);
                        let last = Some(counted);
                        (self.reports)(Report::Ended(Box::new(Ended { last, ..ended })));
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

    fn report(&self, report: Report) {
        if !self.lock().over {
            (self.reports)(report);
        }
    }

    /// The outcome is known; it is told with the last counts, and the thread ends.
    fn finish(&self, how: Ending, end: ShardEnd, values: Option<Result<Values, HookError>>) {
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
            state.ending = Some(Ended { how, end, values, last: None });
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
        let (end, values) = known.map(|known| (known.end, known.values)).unwrap_or_default();
        (self.reports)(Report::Ended(Box::new(Ended { how, end, values, last: None })));
    }
}
