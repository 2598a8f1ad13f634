//! What an attempt tells whoever leads it.

use permit::IssuedCounts;
use std::sync::Arc;
use std::time::Duration;

use stats::series::SeriesWindow;
use stats::{ErrorKind, Trend, Window};

use super::loaded::Values;
use crate::core::Swapped;
use crate::recorder::Message;
use crate::script::{HookError, ScriptEnd};
use crate::shard::ShardEnd;

/// Called on the attempt's own thread, and must not wait.
pub type Reporter = Arc<dyn Fn(Report) + Send + Sync>;

pub enum Report {
    /// Everything is there; it waits for its start.
    Ready,
    Counted(Box<Counted>),
    /// Rows of a leased data set are running out: a block of at least so many is wanted.
    RowsWanted {
        set: usize,
        at_least: u64,
    },
    /// All iterations that were granted are begun, and more are left.
    UnitsWanted,
    /// What a script asks of the whole job.
    Wish(ScriptEnd),
    /// The last word, once.
    Ended(Box<Ended>),
}

/// What was counted since the last time.
pub struct Counted {
    pub window: Window,
    pub series: Option<Box<SeriesWindow>>,
    /// Virtual users alive.
    pub vus: u64,
    /// Units of the schedule that are spent so far, earlier attempts included: for [`Join::spent`]
    /// of the next attempt.
    ///
    /// [`Join::spent`]: crate::attempt::Join
    pub taken: u64,
    /// For how long, since the start, a user could not begin an iteration because no more were
    /// granted.
    pub held: Duration,
    /// Messages that were not told before: the step's number in the layout, what kind, and an
    /// example.
    pub messages: Vec<(usize, ErrorKind, Message)>,
    pub samples_dropped: u64,
    /// CPU time of the attempt's thread so far, user and system.
    pub cpu: (Duration, Duration),
    /// How late its event loop was.
    pub loop_lag: Trend,
    /// Since the attempt began, and no less than what the windows so far say was sent.
    pub issued: Option<IssuedCounts>,
}

/// The end of an attempt of a shard, or of a setup or teardown.
pub struct Ended {
    pub how: Ending,
    pub end: ShardEnd,
    /// Of a setup or teardown that came to its end: what it leaves to those who follow, by
    /// variable.
    pub values: Option<Result<Values, HookError>>,
    /// What was counted since the last time. None of a thread that was abandoned or has crashed.
    pub last: Option<Box<Counted>>,
}

/// How an attempt has come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The load was run as planned.
    Completed,
    /// By order, or by its own script.
    Stopped,
    /// It could not be run. Final: an error is not retried (R5).
    Error(String),
    /// Its lease has run out.
    LeaseLapsed,
    Killed,
    /// It was killed and did not come to its end; its permit is withdrawn for good.
    Abandoned,
    /// A mistake of ours: its thread is gone.
    Crashed,
}

impl Counted {
    pub(super) fn new(swapped: Swapped, taken: u64, issued: Option<IssuedCounts>) -> Box<Counted> {
        Box::new(Counted {
            window: swapped.window,
            series: swapped.series,
            vus: swapped.vus.iter().map(|(_, count)| count).sum(),
            taken: swapped.taken.max(taken),
            held: swapped.held,
            messages: swapped.messages,
            samples_dropped: swapped.samples_dropped,
            cpu: swapped.cpu,
            loop_lag: swapped.loop_lag,
            issued,
        })
    }
}
