//! A plan or a script, compiled once for all the attempts of a job on this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};

use plan::{DataOrder, Plan};
use script::log::Logger;
use stats::Layout;
use stats::series::SeriesLayout;

use super::packed::{PackedPlan, PackedScript};
use crate::machine;
use crate::prepare::Prepared;
use crate::program::Program;
use crate::script::{Instance, ScriptRun};
use crate::secrets::{self, SecretLookup};
use crate::vars::Base;

/// Attempts of one job that can be alive on one machine, those included that were abandoned.
const ATTEMPTS_MAX: usize = 256;

/// Values by the name of their variable.
pub type Values = BTreeMap<String, Vec<u8>>;

/// What workflows have handed on: by workflow and key.
pub type Provided = BTreeMap<(String, String), Vec<u8>>;

/// What loading needs from the machine.
#[derive(Clone)]
pub struct LoadOptions {
    /// A folder for the plan's files; a folder of its own is made in it, and removed in the end.
    pub scratch: PathBuf,
    pub secrets: SecretLookup,
    /// How many attempts this machine runs at once; what it has is divided among them.
    pub cores: usize,
    /// Where scripts log.
    pub logger: Logger,
    /// Bytes for all virtual users of a script together.
    pub script_memory: u64,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions {
            scratch: std::env::temp_dir(),
            secrets: secrets::from_environment(),
            cores: machine::cores(),
            logger: Arc::new(|_| {}),
            script_memory: crate::script::memory_for_users(),
        }
    }
}

/// Why a job cannot be run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    pub text: String,
    /// This machine is to blame, its disk for one: another may well run it. Otherwise it is an
    /// error of the plan or script, which is not tried again (R5).
    pub of_machine: bool,
}

impl LoadError {
    pub fn new(text: impl Into<String>) -> LoadError {
        LoadError { text: text.into(), of_machine: false }
    }

    pub fn of_machine(text: impl Into<String>) -> LoadError {
        LoadError { text: text.into(), of_machine: true }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for LoadError {}

/// The names behind the numbers of a plan's windows, without anything that only a generator needs:
/// addresses are not looked up, and secrets stay where they are.
pub fn layout_of(plan: &Plan) -> Result<Arc<Layout>, LoadError> {
    let placeholder: SecretLookup = Arc::new(|_| Some("secret".to_owned()));
    let program = Program::compile(plan, &placeholder).map_err(|error| LoadError::new(error.0))?;
    Ok(program.layout)
}

/// The same for a script that was opened here.
pub fn layout_of_script(run: &Arc<ScriptRun>) -> Result<Arc<Layout>, LoadError> {
    let program = Program::for_script(run.clone()).map_err(|error| LoadError::new(error.0))?;
    Ok(program.layout)
}

/// A data set whose rows must not be used twice in a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueSet {
    /// Its number in the plan.
    pub set: usize,
    pub name: String,
    pub rows: u64,
}

pub struct Loaded {
    plan: Plan,
    pub(super) program: Arc<Program>,
    pub(super) prepared: Arc<Prepared>,
    pub(super) instance: Arc<Instance>,
    pub(super) options: LoadOptions,
    /// Numbers of attempts that nobody has.
    free: Arc<Mutex<Vec<usize>>>,
    _folder: Option<Folder>,
}

impl Loaded {
    /// Blocks while names are looked up.
    pub fn plan(packed: &PackedPlan, options: LoadOptions) -> Result<Arc<Loaded>, LoadError> {
        let folder = Folder::new(&options);
        let plan = packed.unpack(&folder.0)?;
        let program = Program::compile(&plan, &options.secrets);
        let program = program.map_err(|error| LoadError::new(error.0))?.with_env(&packed.env);
        Loaded::new(plan, program, options, Some(folder))
    }

    /// Blocks while the init code runs and names are looked up.
    pub fn script(packed: &PackedScript, options: LoadOptions) -> Result<Arc<Loaded>, LoadError> {
        let (logger, memory) = (options.logger.clone(), options.script_memory);
        let run = Arc::new(apart(|| packed.open(&logger, memory))?);
        let plan = run.plan.clone();
        let program = Program::for_script(run).map_err(|error| LoadError::new(error.0))?;
        Loaded::new(plan, program.with_env(&packed.env), options, None)
    }

    /// A plan that was read on this machine.
    pub fn from_plan(plan: Plan, options: LoadOptions) -> Result<Arc<Loaded>, LoadError> {
        let program = Program::compile(&plan, &options.secrets);
        let program = program.map_err(|error| LoadError::new(error.0))?;
        Loaded::new(plan, program, options, None)
    }

    pub fn from_script(
        run: Arc<ScriptRun>,
        options: LoadOptions,
    ) -> Result<Arc<Loaded>, LoadError> {
        let plan = run.plan.clone();
        let program = Program::for_script(run).map_err(|error| LoadError::new(error.0))?;
        Loaded::new(plan, program, options, None)
    }

    fn new(
        plan: Plan,
        program: Program,
        options: LoadOptions,
        folder: Option<Folder>,
    ) -> Result<Arc<Loaded>, LoadError> {
        let prepared = apart(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime =
                runtime.map_err(|error| LoadError::of_machine(format!("cannot start: {error}")))?;
            Ok(runtime.block_on(Prepared::new(&program)))
        })?;
        let lines = if program.script.is_some() { ATTEMPTS_MAX } else { 0 };
        Ok(Arc::new(Loaded {
            plan,
            program: Arc::new(program),
            prepared: Arc::new(prepared),
            instance: Arc::new(Instance::new(lines)),
            options,
            free: Arc::new(Mutex::new((0..ATTEMPTS_MAX).rev().collect())),
            _folder: folder,
        }))
    }

    pub fn definition(&self) -> &Plan {
        &self.plan
    }

    /// The names behind the numbers of windows.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.program.layout
    }

    /// Of a script's own metrics.
    pub fn series_layout(&self) -> Option<&Arc<SeriesLayout>> {
        self.program.script.as_ref().map(|run| &run.layout)
    }

    pub fn script_run(&self) -> Option<&Arc<ScriptRun>> {
        self.program.script.as_ref()
    }

    /// `None`: of the plan or the script itself.
    pub fn has_setup(&self, workflow: Option<usize>) -> bool {
        match (workflow, &self.program.script) {
            (None, Some(run)) => run.has_setup,
            (None, None) => !self.program.frame.setup.is_empty(),
            (Some(workflow), _) => !self.program.workflow(workflow).setup.is_empty(),
        }
    }

    pub fn has_teardown(&self, workflow: Option<usize>) -> bool {
        match (workflow, &self.program.script) {
            (None, Some(run)) => run.has_teardown,
            (None, None) => !self.program.frame.teardown.is_empty(),
            (Some(workflow), _) => !self.program.workflow(workflow).teardown.is_empty(),
        }
    }

    /// Why a workflow cannot start: a name without an address, a certificate that cannot be read.
    /// One past the last is the plan's own setup and teardown.
    pub fn error_of(&self, workflow: usize) -> Option<&str> {
        self.prepared.workflows.get(workflow)?.error.as_deref()
    }

    /// Data sets of a workflow whose rows are to be leased.
    pub fn unique_sets(&self, workflow: Option<usize>) -> Vec<UniqueSet> {
        let workflow = workflow.unwrap_or(self.program.workflows.len());
        let sets = self.program.workflow(workflow).data_sets.iter();
        sets.filter(|&&set| self.program.data_sets[set].order == DataOrder::UniquePerIteration)
            .map(|&set| {
                let known = &self.program.data_sets[set];
                UniqueSet { set, name: known.name.clone(), rows: known.rows }
            })
            .collect()
    }

    /// Values under a workflow's variables: from the plan's setup, and handed over by earlier
    /// workflows.
    pub fn values_for(&self, workflow: usize, shared: &Values, provided: &Provided) -> Values {
        let base = base(&self.plan, &self.program, workflow, shared, provided);
        by_name(&self.program.workflow(workflow).slots, &base)
    }

    pub(super) fn base(&self, workflow: usize, values: &Values) -> Base {
        let slots = &self.program.workflow(workflow).slots;
        slots.iter().map(|name| values.get(name).map(|value| value.as_slice().into())).collect()
    }

    pub(super) fn line(self: &Arc<Self>) -> io::Result<Line> {
        let number = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let number = number.ok_or_else(|| {
            io::Error::other(format!("more than {ATTEMPTS_MAX} attempts of one job are alive here"))
        })?;
        Ok(Line { number, free: self.free.clone() })
    }
}

/// Values under a workflow's variables, by slot.
pub(crate) fn base(
    plan: &Plan,
    program: &Program,
    workflow: usize,
    shared: &Values,
    provided: &Provided,
) -> Base {
    let this = program.workflow(workflow);
    let value = |name: &String| shared.get(name).map(|value| value.as_slice().into());
    let mut base: Vec<Option<Box<[u8]>>> = this.slots.iter().map(value).collect();
    for (slot, used) in &this.uses {
        let found = used.from.iter().find_map(|from| {
            let provider = plan.workflows.iter().find(|known| known.name == *from)?;
            let names_us = provider
                .provide
                .iter()
                .any(|one| one.key == used.key && one.to.contains(&this.name));
            provided.get(&(from.clone(), used.key.clone())).filter(|_| names_us)
        });
        let default = used.default.as_ref().map(|text| text.as_bytes().into());
        base[*slot] = found.map(|value| value.as_slice().into()).or(default);
    }
    base.into()
}

pub(crate) fn by_name(names: &[String], base: &Base) -> Values {
    let known = names.iter().zip(base.iter());
    known.filter_map(|(name, value)| Some((name.clone(), value.as_ref()?.to_vec()))).collect()
}

/// An attempt's number on this machine, given back when dropped.
pub(super) struct Line {
    number: usize,
    free: Arc<Mutex<Vec<usize>>>,
}

impl Line {
    pub fn number(&self) -> usize {
        self.number
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}

/// A folder that goes when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(options: &LoadOptions) -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("volley-job-{}-{number}", std::process::id());
        Folder(options.scratch.join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is in the way of nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// On a thread of its own: the caller's may belong to a runtime, in which no other can be entered.
fn apart<T: Send>(work: impl FnOnce() -> Result<T, LoadError> + Send) -> Result<T, LoadError> {
    std::thread::scope(|scope| {
        let crashed = |_| Err(LoadError::new("loading has crashed"));
        scope.spawn(work).join().unwrap_or_else(crashed)
    })
}
