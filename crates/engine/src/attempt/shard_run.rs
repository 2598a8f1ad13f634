//! An attempt of a shard: prepared, started at an agreed moment, steered, ended.

use base::clock;
use fence::Moment;
use permit::{IssuedFile, SendControl, SendPermit};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use plan::Rate;
use schedule;
use stats::series::SeriesWindow;
use stats::{SampleSink, Window};

use super::loaded::{Loaded, Values};
use super::reports::{Ended, Report, Reporter};
use super::thread::{Tell, Thread, Told};
use crate::core::{Command, Entry};
use crate::shard::{Join, Stop};
use crate::vars::Base;

/// How long a virtual user waits for a leased row.
const ROW_WAIT: Duration = Duration::from_secs(10);

/// Which part of which load, and where it begins.
#[derive(Debug, Clone)]
pub struct ShardSpec {
    pub workflow: usize,
    pub shard: usize,
    pub shards: usize,
    /// Values under the workflow's variables, by name.
    pub values: Values,
    pub join: Join,
    /// Rows of data sets that must not repeat, leased to this attempt. A set that is not named here
    /// follows the iterations' numbers, which is right only where no attempt is ever repeated.
    pub rows: BTreeMap<usize, Vec<Range<u64>>>,
    /// How long a virtual user waits for a row; then its iteration is dropped, and counted.
    pub row_wait: Duration,
    /// Iterations that are counted are begun only below this, until more are granted.
    pub units_end: Option<u64>,
    /// What `set_vus` and `set_rate` have ordered before this attempt began.
    pub vus: Option<u32>,
    pub rates: Vec<(Rate, Duration)>,
    /// The job is paused at its start.
    pub paused: bool,
    /// Shards of the whole job that run at once, among which a script's requests a second are divided.
    pub peers: usize,
}

impl ShardSpec {
    /// From the beginning, as planned.
    pub fn new(workflow: usize, shard: usize, shards: usize) -> ShardSpec {
        ShardSpec {
            workflow,
            shard,
            shards,
            values: Values::new(),
            join: Join::default(),
            rows: BTreeMap::new(),
            row_wait: ROW_WAIT,
            units_end: None,
            vus: None,
            rates: Vec::new(),
            paused: false,
            peers: shards,
        }
    }
}

/// What connects an attempt with the world.
#[derive(Clone)]
pub struct Wiring {
    pub permit: Arc<SendPermit>,
    pub issued: Option<Arc<IssuedFile>>,
    pub reports: Reporter,
    pub sample_sink: Option<SampleSink>,
}

/// Dropping it kills it: its permit is withdrawn and its thread told to leave, and nobody waits.
pub struct ShardRun {
    thread: Thread,
    workflow: usize,
    place: (usize, usize),
    start_after: Duration,
    base: Base,
    joins: bool,
}

impl ShardRun {
    /// Starts the attempt's thread and makes its virtual users. Then it is `Ready`, or has `Ended`.
    pub fn prepare(loaded: &Arc<Loaded>, spec: ShardSpec, wiring: Wiring) -> io::Result<ShardRun> {
        let ShardSpec { workflow, shard, shards, .. } = spec;
        if workflow >= loaded.program.workflows.len() || shard >= shards {
            let message = format!("there is no shard {shard} of {shards} of workflow {workflow}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let send_control = SendControl::new(wiring.permit, wiring.issued);
        let reports = wiring.reports;
        let tell: Tell = Box::new(move |told| reports(report(told)));
        let (sink, peers) = (wiring.sample_sink, spec.peers);
        let thread = Thread::start(loaded, shards, peers, send_control, sink, tell)?;
        if spec.paused {
            thread.send(Command::Pause { at: clock::now() });
        }
        let count = match &loaded.program.script {
            Some(run) => {
                let wanted = u64::from(run.scenarios[workflow].vus_before);
                schedule::share(wanted, shard, shards)
            }
            None => 0,
        };
        match loaded.error_of(workflow) {
            Some(error) => thread.fail(error.to_owned()),
            None => {
                let entry = Box::new(Entry {
                    join: spec.join,
                    vus: spec.vus,
                    rates: spec.rates,
                    rows: spec.rows,
                    row_wait: spec.row_wait,
                    units_end: spec.units_end,
                });
                thread.send(Command::MakeUsers { workflow, shard, shards, count, entry });
            }
        }
        Ok(ShardRun {
            thread,
            workflow,
            place: (shard, shards),
            start_after: loaded.program.workflow(workflow).load.start_after,
            base: loaded.base(workflow, &spec.values),
            joins: !spec.join.elapsed.is_zero(),
        })
    }

    /// The workflow begins at `at`, the same moment for all its shards. A load that is to start later
    /// does so by itself; an attempt that joins is past that.
    pub fn start_at(&self, at: Moment) {
        let start = if self.joins { at } else { at.after(self.start_after) };
        self.begin(start, None);
    }

    /// At `at` the workflow has been going for `elapsed`, whatever the attempt was prepared for (R5a). Of that the
    /// load has missed what lies beyond its `start_after`.
    pub fn start_from(&self, at: Moment, elapsed: Duration) {
        let ahead = self.start_after.saturating_sub(elapsed);
        self.begin(at.after(ahead), Some(elapsed.saturating_sub(self.start_after)));
    }

    fn begin(&self, start: Moment, elapsed: Option<Duration>) {
        let (workflow, (shard, shards)) = (self.workflow, self.place);
        let base = self.base.clone();
        self.thread.begin(Command::StartShard { workflow, shard, shards, start, base, elapsed });
    }

    /// Asks for what was counted. What is given takes its place; it must be clear.
    pub fn swap(&self, empty: Option<Window>, empty_series: Option<Box<SeriesWindow>>) {
        self.thread.swap(empty, empty_series);
    }

    /// `at`: one moment for all shards, so that their clocks stop together.
    pub fn pause(&self, at: Moment) {
        self.thread.send(Command::Pause { at });
    }

    pub fn resume(&self, at: Moment) {
        self.thread.send(Command::Resume { at });
    }

    /// Of the whole workflow, not of this shard.
    pub fn set_vus(&self, vus: u32) {
        self.thread.send(Command::SetVus { workflow: self.workflow, vus });
    }

    /// Of the whole workflow, from this time of its schedule on, whenever a shard hears of it.
    pub fn set_rate(&self, rate: Rate, from: Duration) {
        self.thread.send(Command::SetRate { workflow: self.workflow, rate, from });
    }

    pub fn stop(&self, how: Stop) {
        self.thread.stop(how);
    }

    pub fn grant_rows(&self, set: usize, rows: Range<u64>) {
        self.thread.send(Command::GrantRows { workflow: self.workflow, set, rows: Some(rows) });
    }

    /// Iterations below `end` may be begun.
    pub fn grant_units(&self, end: u64) {
        self.thread.send(Command::GrantUnits { workflow: self.workflow, end });
    }

    pub fn no_more_rows(&self, set: usize) {
        self.thread.send(Command::GrantRows { workflow: self.workflow, set, rows: None });
    }

    /// The hard stop: nothing is sent from here on. `Ended` comes within `grace`, whatever its virtual
    /// users are doing.
    pub fn kill(&self, grace: Duration) {
        self.thread.kill(grace);
    }

    /// Its thread is gone.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

fn report(told: Told) -> Report {
    match told {
        Told::Ready => Report::Ready,
        Told::Counted(counted) => Report::Counted(counted),
        Told::RowsWanted { set, at_least } => Report::RowsWanted { set, at_least },
        Told::UnitsWanted => Report::UnitsWanted,
        Told::Wish(wish) => Report::Wish(wish),
        Told::Ended(outcome) => Report::Ended(Box::new(Ended {
            how: outcome.how,
            end: outcome.end,
            last: outcome.last,
        })),
    }
}
