//! Attempts of shards, as a worker runs them: their parts add up to the plan, they join and leave,
//! and nothing is sent that must not be (R2, R4, R5a, R17).

mod division;
mod hooks;
mod joining;
mod killing;
mod loading;
mod permits;
mod rows;
mod steering;

use base::clock;
use permit::{IssuedFile, SendPermit};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use engine::attempt::{
    Counted, Ended, Ending, LoadOptions, Loaded, Report, ShardRun, ShardSpec, Wiring,
};
use stats::totals::{self, IterationTotal};
use stats::{StepStats, Window};

/// Longer than any test takes.
const HOUR: Duration = Duration::from_secs(3600);
const PATIENCE: Duration = Duration::from_secs(30);

pub fn load(text: &str, target: &str, folder: &Path) -> Arc<Loaded> {
    let plan = crate::common::read(text, target, folder);
    Loaded::from_plan(plan, LoadOptions::default()).expect("the plan can be loaded")
}

/// A permit whose lease outlasts the test.
pub fn open_permit() -> Arc<SendPermit> {
    let permit = SendPermit::leased();
    permit.extend(clock::now().after(HOUR), clock::now());
    permit
}

/// An attempt, and what it reports.
pub struct Led {
    pub run: ShardRun,
    pub reports: Receiver<Report>,
    pub permit: Arc<SendPermit>,
    pub loaded: Arc<Loaded>,
}

/// What has come of an attempt, all its windows together.
pub struct Whole {
    pub how: Ending,
    pub end: engine::attempt::ShardEnd,
    pub window: Window,
    pub last: Option<Box<Counted>>,
    pub loaded: Arc<Loaded>,
}

impl Led {
    pub fn prepare(loaded: &Arc<Loaded>, spec: ShardSpec) -> Led {
        Led::with(loaded, spec, open_permit(), None)
    }

    pub fn with(
        loaded: &Arc<Loaded>,
        spec: ShardSpec,
        permit: Arc<SendPermit>,
        issued: Option<Arc<IssuedFile>>,
    ) -> Led {
        let (sender, reports) = channel();
        let sender = std::sync::Mutex::new(sender);
        let wiring = Wiring {
            permit: permit.clone(),
            issued,
            reports: Arc::new(move |report| drop(sender.lock().unwrap().send(report))),
            sample_sink: None,
        };
        let run = ShardRun::prepare(loaded, spec, wiring).expect("a thread");
        Led { run, reports, permit, loaded: loaded.clone() }
    }

    pub fn next(&self) -> Report {
        self.reports.recv_timeout(PATIENCE).expect("a report in time")
    }

    pub fn ready(self) -> Led {
        assert!(matches!(self.next(), Report::Ready), "ready is the first report");
        self
    }

    /// Waits for the end; on the way rows are not granted.
    pub fn finish(self) -> Whole {
        self.finish_with(|_, _, _| {})
    }

    pub fn finish_with(self, mut rows: impl FnMut(&ShardRun, usize, u64)) -> Whole {
        let mut window = Window::new(self.loaded.layout());
        loop {
            match self.next() {
                Report::Counted(counted) => window.merge(&counted.window),
                Report::UnitsWanted => {}
                Report::RowsWanted { set, at_least } => rows(&self.run, set, at_least),
                Report::Ready | Report::Wish(_) => {}
                Report::Ended(ended) => {
                    let Ended { how, end, last, .. } = *ended;
                    if let Some(last) = &last {
                        window.merge(&last.window);
                    }
                    return Whole { how, end, window, last, loaded: self.loaded.clone() };
                }
            }
        }
    }
}

impl Whole {
    pub fn total(&self) -> StepStats {
        totals::grand_total(&self.window, self.loaded.layout())
    }

    pub fn iterations(&self) -> IterationTotal {
        totals::iterations(&self.window, self.loaded.layout(), None)
    }

    pub fn dropped(&self, cause: stats::DropCause) -> u64 {
        self.iterations().dropped[cause as usize]
    }

    pub fn completed(self) -> Whole {
        assert_eq!(self.how, Ending::Completed);
        self
    }
}

/// All shards of the first workflow, side by side, begun together.
pub fn run_all(loaded: &Arc<Loaded>, shards: usize) -> Vec<Whole> {
    let prepare = |shard| Led::prepare(loaded, ShardSpec::new(0, shard, shards)).ready();
    let led: Vec<Led> = (0..shards).map(prepare).collect();
    let start = clock::now().after(Duration::from_millis(20));
    led.iter().for_each(|one| one.run.start_at(start));
    led.into_iter().map(|one| one.finish().completed()).collect()
}

pub fn sum<T: std::iter::Sum>(wholes: &[Whole], of: impl Fn(&Whole) -> T) -> T {
    wholes.iter().map(of).sum()
}
