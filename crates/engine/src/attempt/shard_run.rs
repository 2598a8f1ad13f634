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

use super::engine::ShardControl;
use super::loaded::{Loaded, Values};
use super::reports::Reporter;
use super::thread::Thread;
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
    /// Shards of the whole job that run at once, among which a script's requests a second are
    /// divided.
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

/// An attempt of a shard on a thread of its own.
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
        let (sink, reports) = (wiring.sample_sink, wiring.reports);
        let size = (shards, spec.peers);
        let thread = Thread::start(loaded, size, send_control, sink, Vec::new(), reports)?;
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

    /// The workflow begins at `at`, the same moment for all its shards. A load that is to start
    /// later does so by itself; an attempt that joins is past that.
    pub fn start_at(&self, at: Moment) {
        let start = if self.joins { at } else { at.after(self.start_after) };
        self.begin(start, None);
    }

    fn begin(&self, start: Moment, elapsed: Option<Duration>) {
        let (workflow, (shard, shards)) = (self.workflow, self.place);
        let base = self.base.clone();
        self.thread.begin(Command::StartShard { workflow, shard, shards, start, base, elapsed });
    }
}

impl ShardControl for ShardRun {
    fn start_from(&self, at: Moment, elapsed: Duration) {
        let ahead = self.start_after.saturating_sub(elapsed);
        self.begin(at.after(ahead), Some(elapsed.saturating_sub(self.start_after)));
    }

    fn swap(&self, empty: Option<Window>, empty_series: Option<Box<SeriesWindow>>) {
        self.thread.swap(empty, empty_series);
    }

    fn pause(&self, at: Moment) {
        self.thread.send(Command::Pause { at });
    }

    fn resume(&self, at: Moment) {
        self.thread.send(Command::Resume { at });
    }

    fn set_vus(&self, vus: u32) {
        self.thread.send(Command::SetVus { workflow: self.workflow, vus });
    }

    fn set_rate(&self, rate: Rate, from: Duration) {
        self.thread.send(Command::SetRate { workflow: self.workflow, rate, from });
    }

    fn stop(&self, how: Stop) {
        self.thread.stop(how);
    }

    fn grant_rows(&self, set: usize, rows: Range<u64>) {
        self.thread.send(Command::GrantRows { workflow: self.workflow, set, rows: Some(rows) });
    }

    fn grant_units(&self, end: u64) {
        self.thread.send(Command::GrantUnits { workflow: self.workflow, end });
    }

    fn no_more_rows(&self, set: usize) {
        self.thread.send(Command::GrantRows { workflow: self.workflow, set, rows: None });
    }

    fn kill(&self, grace: Duration) {
        self.thread.kill(grace);
    }

    fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}
