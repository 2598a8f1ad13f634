//! Setup and teardown, of the plan or of a workflow: once per job, on one worker.

use permit::{IssuedFile, SendControl, SendPermit};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::engine::HookControl;
use super::loaded::{Loaded, Values};
use super::reports::Reporter;
use super::thread::Thread;
use crate::core::{Command, Entry, Hook};
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
    pub reports: Reporter,
}

/// A setup or teardown on a thread of its own.
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
        let names = loaded.program.workflow(workflow).slots.clone();
        let reports = wiring.reports;
        let thread = Thread::start(loaded, (1, 1), send_control, None, names, reports)?;
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
}

impl HookControl for HookRun {
    fn stop(&self, how: Stop) {
        self.thread.stop(how);
    }

    fn kill(&self, grace: Duration) {
        self.thread.kill(grace);
    }

    fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}
