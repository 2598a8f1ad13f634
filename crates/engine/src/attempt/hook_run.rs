//! Setup and teardown, of the plan or of a workflow: once per job, on one worker.

use permit::{IssuedFile, SendControl, SendPermit};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::loaded::{Loaded, Values};
use super::reports::{Counted, Ending};
use super::thread::{Tell, Thread, Told};
use crate::core::{Command, Entry, Hook};
use crate::script::{HookError, ScriptEnd};
use crate::shard::Stop;

#[derive(Debug, Clone)]
pub struct HookSpec {
    /// `None`: the plan's, or the script's.
    pub workflow: Option<usize>,
    pub what: Hook,
    /// Values under its variables: for a teardown what the setup has left.
    pub values: Values,
    /// Rows of data sets that must not repeat; a set that is not named here gives its first row.
    pub rows: BTreeMap<usize, Vec<Range<u64>>>,
}

impl HookSpec {
    pub fn new(workflow: Option<usize>, what: Hook, values: Values) -> HookSpec {
        HookSpec { workflow, what, values, rows: BTreeMap::new() }
    }
}

pub struct HookWiring {
    pub permit: Arc<SendPermit>,
    pub issued: Option<Arc<IssuedFile>>,
    /// Called once, on the attempt's thread; must not wait.
    pub done: Box<dyn FnOnce(HookEnded) + Send>,
}

pub struct HookEnded {
    pub how: Ending,
    /// What it leaves to those who follow, by variable.
    pub result: Result<Values, HookError>,
    /// What a script asked of the whole job.
    pub wishes: Vec<ScriptEnd>,
    /// All that was counted. None of a thread that was abandoned or has crashed.
    pub last: Option<Box<Counted>>,
}

/// Dropping it kills it, as with a shard.
pub struct HookRun {
    thread: Thread,
}

impl HookRun {
    /// Begins at once.
    pub fn start(loaded: &Arc<Loaded>, spec: HookSpec, wiring: HookWiring) -> io::Result<HookRun> {
        let frame = loaded.program.workflows.len();
        let workflow = spec.workflow.unwrap_or(frame);
        if workflow > frame {
            let message = format!("there is no workflow {workflow}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let send_control = SendControl::new(wiring.permit, wiring.issued);
        let done = Mutex::new(Some(wiring.done));
        let wishes = Mutex::new(Vec::new());
        let names = loaded.program.workflow(workflow).slots.clone();
        let tell: Tell = Box::new(move |told| match told {
            Told::Wish(wish) => wishes.lock().unwrap_or_else(PoisonError::into_inner).push(wish),
            Told::Ended(outcome) => {
                let result = match outcome.values {
                    Some(Ok(base)) => Ok(super::loaded::by_name(&names, &base)),
                    Some(Err(error)) => Err(error),
                    None => Err(HookError::steps(match &outcome.how {
                        Ending::Error(error) => error.clone(),
                        other => format!("{other:?}").to_lowercase(),
                    })),
                };
                let wishes =
                    std::mem::take(&mut *wishes.lock().unwrap_or_else(PoisonError::into_inner));
                let done = done.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(done) = done {
                    done(HookEnded { how: outcome.how, result, wishes, last: outcome.last });
                }
            }
            Told::Ready | Told::Counted(_) | Told::RowsWanted { .. } | Told::UnitsWanted => {}
        });
        let thread = Thread::start(loaded, 1, 1, send_control, None, tell)?;
        match loaded.error_of(workflow) {
            Some(error) => thread.fail(error.to_owned()),
            None => {
                let base = loaded.base(workflow, &spec.values);
                let entry = Box::new(Entry { rows: spec.rows, ..Entry::default() });
                thread.begin(Command::RunAside { workflow, what: spec.what, base, entry });
            }
        }
        Ok(HookRun { thread })
    }

    /// A setup ends when its grace is over, a teardown only at `Stop::Now`.
    pub fn stop(&self, how: Stop) {
        self.thread.stop(how);
    }

    pub fn kill(&self, grace: Duration) {
        self.thread.kill(grace);
    }

    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}
