//! A model of the threads that generate load, behind the product's own trait.
//!
//! What is not a model: the permit is asked right before a send, requests and units are counted in
//! the file that outlives the process before they are sent, and everything is reported through the
//! worker's own tasks.

mod attempt;

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::{clock, lock};
use engine::attempt::{
    Counted, Ended, Ending, Engine, HookControl, HookSpec, HookWiring, Loaded, Report,
    ShardControl, ShardEnd, ShardSpec, Stop, Values, Wiring,
};
use fence::Moment;
use plan::Rate;
use stats::series::SeriesWindow;
use stats::{Trend, Window};

use super::plan::Class;
use super::target::Target;
pub use attempt::Bug;
use attempt::{Attempt, Fault, Started, draw_fault};

/// An attempt looks around this often.
const LOOK: Duration = Duration::from_millis(50);
/// How long a setup or teardown takes.
const HOOK: Duration = Duration::from_millis(200);

/// The engine of one simulated worker.
pub struct Model {
    pub host: usize,
    pub seed: u64,
    pub classes: BTreeSet<Class>,
    pub target: Arc<Mutex<Target>>,
    pub bug: Option<Bug>,
    /// Machines and network are.
    pub sound: bool,
}

impl Engine for Model {
    fn prepare(
        &self,
        loaded: &Arc<Loaded>,
        spec: ShardSpec,
        wiring: Wiring,
    ) -> io::Result<Box<dyn ShardControl>> {
        let sender = lock(&self.target).enlist();
        let fault = draw_fault(&self.classes, self.seed, sender);
        if fault == Some(Fault::CannotBePrepared) {
            lock(&self.target).befell(Class::EngineUnprepared);
            return Err(io::Error::other("the machine has no thread for it"));
        }
        let bursts = self.classes.contains(&Class::Bursts);
        let attempt = Attempt::new(loaded, spec, &wiring, sender, (fault, self.bug, bursts));
        let shared = Arc::new(Mutex::new(attempt));
        let first = lock(&shared).begin(&mut lock(&self.target), self.sound);
        tokio::spawn(run(Arc::clone(&shared), self.host, Arc::clone(&self.target), wiring, first));
        Ok(Box::new(Handle(shared)))
    }

    fn run_hook(
        &self,
        loaded: &Arc<Loaded>,
        _: HookSpec,
        wiring: HookWiring,
    ) -> io::Result<Box<dyn HookControl>> {
        let state = Arc::new(Mutex::new(Hook { killed: false, over: false }));
        let (shared, host, target) = (Arc::clone(&state), self.host, Arc::clone(&self.target));
        let layout = Arc::clone(loaded.layout());
        tokio::spawn(async move {
            let mut left = HOOK;
            while !left.is_zero() && !lock(&shared).killed {
                tokio::time::sleep(LOOK).await;
                let frozen = lock(&target).is_frozen(host);
                left = if frozen { left } else { left.saturating_sub(LOOK) };
            }
            let lapsed = wiring.permit.standing(clock::now()).is_final();
            let how = match lock(&shared).killed {
                true => Ending::Killed,
                false if lapsed => Ending::LeaseLapsed,
                false => Ending::Completed,
            };
            wiring.permit.close();
            lock(&shared).over = true;
            let last = Some(Box::new(counted(Window::new(&layout), 0, 0, Duration::ZERO, None)));
            let (end, values) = (ShardEnd::default(), Some(Ok(Values::new())));
            (wiring.reports)(Report::Ended(Box::new(Ended { how, end, values, last })));
        });
        Ok(Box::new(HookHandle(state)))
    }
}

struct Hook {
    killed: bool,
    over: bool,
}

struct HookHandle(Arc<Mutex<Hook>>);

impl HookControl for HookHandle {
    fn stop(&self, how: Stop) {
        if how == Stop::Now {
            self.kill(Duration::ZERO);
        }
    }

    fn kill(&self, _: Duration) {
        lock(&self.0).killed = true;
    }

    fn is_finished(&self) -> bool {
        lock(&self.0).over
    }
}

impl Drop for HookHandle {
    fn drop(&mut self) {
        self.kill(Duration::ZERO);
    }
}

/// The attempt's thread.
async fn run(
    shared: Arc<Mutex<Attempt>>,
    host: usize,
    target: Arc<Mutex<Target>>,
    wiring: Wiring,
    first: Report,
) {
    (wiring.reports)(first);
    while !lock(&shared).gone {
        tokio::time::sleep(LOOK).await;
        let reports = {
            let mut target = lock(&target);
            if target.is_frozen(host) {
                continue;
            }
            let mut attempt = lock(&shared);
            let before = attempt.taken;
            let reports = attempt.look(clock::now(), &mut target);
            if attempt.taken > before {
                target.last_host = Some(host);
            }
            reports
        };
        for report in reports {
            (wiring.reports)(report);
        }
    }
}

struct Handle(Arc<Mutex<Attempt>>);

impl ShardControl for Handle {
    fn start_from(&self, at: Moment, elapsed: Duration) {
        let mut attempt = lock(&self.0);
        let ahead = attempt.start_after.saturating_sub(elapsed);
        let elapsed = elapsed.saturating_sub(attempt.start_after);
        attempt.started = Some(Started { at: at.after(ahead), elapsed });
        if attempt.units.is_open() {
            // Arrivals that were missed are not made up for (R5a).
            attempt.taken = attempt.taken.max(attempt.arrived(elapsed));
        }
        attempt.say_started(elapsed);
    }

    fn swap(&self, empty: Option<Window>, _: Option<Box<SeriesWindow>>) {
        let mut attempt = lock(&self.0);
        attempt.spare = empty.or(attempt.spare.take());
        attempt.swaps += 1;
    }

    fn pause(&self, at: Moment) {
        lock(&self.0).paused_at.get_or_insert(at);
    }

    fn resume(&self, at: Moment) {
        let mut attempt = lock(&self.0);
        if let Some(since) = attempt.paused_at.take() {
            let begun = attempt.started.as_ref().map_or(at, |started| started.at.max(since));
            attempt.paused += at.since(begun);
        }
    }

    fn set_vus(&self, vus: u32) {
        lock(&self.0).vus = vus;
    }

    fn set_rate(&self, rate: Rate, from: Duration) {
        let mut attempt = lock(&self.0);
        attempt.rates.push((rate, from));
        let (shard, shards, until) = (attempt.shard, attempt.shards, attempt.length);
        attempt.whole = attempt.units.of_shard(shard, shards, until, &attempt.rates);
    }

    fn stop(&self, how: Stop) {
        lock(&self.0).stop = how;
    }

    fn grant_rows(&self, set: usize, rows: Range<u64>) {
        let mut attempt = lock(&self.0);
        attempt.rows_wanted = false;
        attempt.rows.entry(set).or_default().extend(rows);
    }

    fn no_more_rows(&self, _: usize) {
        lock(&self.0).no_more_rows = true;
    }

    fn grant_units(&self, end: u64) {
        let mut attempt = lock(&self.0);
        attempt.granted = attempt.granted.max(end);
        attempt.wanted = false;
    }

    fn kill(&self, grace: Duration) {
        lock(&self.0).kill(clock::now(), grace);
    }

    fn is_finished(&self) -> bool {
        lock(&self.0).gone
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.kill(Duration::ZERO);
    }
}

fn counted(
    window: Window,
    vus: u64,
    taken: u64,
    held: Duration,
    issued: Option<permit::IssuedCounts>,
) -> Counted {
    Counted {
        window,
        series: None,
        vus,
        taken,
        held,
        messages: Vec::new(),
        samples_dropped: 0,
        cpu: (Duration::ZERO, Duration::ZERO),
        loop_lag: Trend::default(),
        issued,
    }
}
