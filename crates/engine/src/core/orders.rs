//! What goes into a core and what comes out of it.

use fence::Moment;
use permit::SendControl;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use plan::Rate;
use stats::series::SeriesWindow;
use stats::{ErrorKind, SampleSink, Trend, Window};

use crate::prepare::Prepared;
use crate::program::Program;
use crate::recorder::Message;
use crate::script::{HookError, Instance, ScriptEnd};
use crate::shard::{Join, ShardContext, ShardEnd, Stop, Trace};
use crate::vars::Base;

/// What the conductor can ask of a core.
pub enum Command {
    /// Run a block of steps once, on behalf of everybody.
    RunAside {
        workflow: usize,
        what: Hook,
        base: Base,
        entry: Box<Entry>,
    },
    /// Make a script's virtual users, so that the load begins with all of them there.
    MakeUsers {
        workflow: usize,
        shard: usize,
        shards: usize,
        count: u64,
        entry: Box<Entry>,
    },
    StartShard {
        workflow: usize,
        shard: usize,
        shards: usize,
        start: Moment,
        base: Base,
        /// Where its schedule stands then, if not where its entry says.
        elapsed: Option<Duration>,
    },
    /// Rows that were asked for; `None`: there are no more.
    GrantRows {
        workflow: usize,
        set: usize,
        rows: Option<Range<u64>>,
    },
    /// Iterations below this may be begun.
    GrantUnits {
        workflow: usize,
        end: u64,
    },
    Pause {
        at: Moment,
    },
    Resume {
        at: Moment,
    },
    SetVus {
        workflow: usize,
        vus: u32,
    },
    SetRate {
        workflow: usize,
        rate: Rate,
        from: Duration,
    },
    Stop {
        how: Stop,
    },
    /// Hand over what was counted; `empty` takes its place.
    Swap {
        empty: Window,
        empty_series: Option<Box<SeriesWindow>>,
        /// Nothing will be counted after this.
        last: bool,
    },
    Quit,
}

/// How a shard enters its schedule. By default: at the beginning, as planned, with rows by number.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    pub join: Join,
    pub vus: Option<u32>,
    pub rates: Vec<(Rate, Duration)>,
    pub rows: BTreeMap<usize, Vec<Range<u64>>>,
    pub row_wait: Duration,
    /// See [`ShardContext::units_end`].
    pub units_end: Option<u64>,
}

impl Entry {
    pub(super) fn apply(self, context: &ShardContext) {
        context.join.set(self.join);
        context.units_end.set(self.units_end);
        context.lease_rows(&self.rows, self.row_wait);
        context.control.vus_override.set(self.vus);
        *context.control.rates.borrow_mut() = self.rates;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    Setup,
    Teardown,
}

pub enum Report {
    HookEnded {
        workflow: usize,
        what: Hook,
        result: Result<Base, HookError>,
    },
    ShardEnded {
        workflow: usize,
        shard: usize,
        end: ShardEnd,
    },
    /// A script's virtual users are there, or cannot be.
    UsersMade(Result<(), String>),
    /// What a script asks of the whole run.
    Wish(ScriptEnd),
    /// The permit is withdrawn for good; what runs here is being stopped.
    ShutOut,
    /// Rows of a leased data set are running out.
    RowsWanted {
        set: usize,
        at_least: u64,
    },
    /// All iterations that were granted are begun, and more are left.
    UnitsWanted,
    Swapped(Box<Swapped>),
    /// A bug of ours: the core's thread is gone.
    Panicked {
        core: usize,
    },
}

pub struct Swapped {
    pub core: usize,
    pub window: Window,
    pub series: Option<Box<SeriesWindow>>,
    /// Virtual users alive, by workflow.
    pub vus: Vec<(usize, u64)>,
    /// Requests that have begun and not ended.
    pub under_way: u64,
    pub messages: Vec<(usize, ErrorKind, Message)>,
    pub samples_dropped: u64,
    /// CPU time of this core's thread so far, user and system.
    pub cpu: (Duration, Duration),
    pub loop_lag: Trend,
    /// Units of the schedules that are spent, of the shards that run here.
    pub taken: u64,
    /// For how long users could not begin an iteration because no more were granted.
    pub held: Duration,
    pub last: bool,
}

/// What all cores share.
pub struct CoreSetup {
    pub program: Arc<Program>,
    pub prepared: Arc<Prepared>,
    pub sample_sink: Option<SampleSink>,
    pub trace: Option<Trace>,
    pub epoch_unix_ns: u64,
    pub vus_limit: u64,
    /// Of a script's run.
    pub instance: Arc<Instance>,
    /// Of how many cores it is one, where the whole run's requests a second are limited.
    pub cores: usize,
    /// The way out for requests.
    pub send_control: SendControl,
}
