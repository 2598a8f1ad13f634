//! A plan, compiled: names are numbers, texts are pieces, requests are bytes as far as they are
//! known.
//!
//! Compiling happens once, before anything is measured (EXEC-21 to EXEC-26), and its result is
//! shared by all cores. It cannot fail for reasons that the plan's own check could have found; what
//! is left are files and addresses.

mod block;
mod check;
mod extract;
mod request;
mod workflow;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plan::{Plan, Rows};
use stats::Layout;
use url::Url;

pub use block::{Block, Op, Order, StepProgram};
pub use check::{CheckProgram, status_fits};
pub use request::{RequestProgram, TargetProgram, finish_head, join};
pub use workflow::WorkflowProgram;

use crate::script::ScriptRun;
use crate::secrets::{SecretLookup, Secrets};
use client::parse_url;

/// Everything that a core needs to run its share of a plan.
pub struct Program {
    pub layout: Arc<Layout>,
    /// The plan's workflows, in its order.
    pub workflows: Vec<WorkflowProgram>,
    /// The plan's own setup and teardown, as a workflow of their own.
    pub frame: WorkflowProgram,
    pub data: Arc<Vec<Rows>>,
    pub data_sets: Vec<plan::DataSet>,
    /// Origins known before the run, resolved before the run.
    pub origins: Vec<Url>,
    /// What relative URLs are relative to.
    pub base_url: Option<Url>,
    /// The socket behind host `unix.invalid`.
    pub unix: Option<std::path::PathBuf>,
    /// Runs in place of the workflows' steps.
    pub script: Option<Arc<ScriptRun>>,
    /// What must not be seen.
    pub secrets: Secrets,
    /// What is blotted out in what is shown: these, and what looks like a credential in the
    /// environment.
    pub shown: Secrets,
}

/// A plan that cannot be made ready to run: a file or an address is not as it should be.
#[derive(Debug)]
pub struct CompileError(pub String);

impl std::fmt::Display for CompileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CompileError {}

impl Program {
    /// A workflow by its number; one past the last is the frame.
    pub fn workflow(&self, index: usize) -> &WorkflowProgram {
        self.workflows.get(index).unwrap_or(&self.frame)
    }

    pub fn compile(plan: &Plan, secrets: &SecretLookup) -> Result<Program, CompileError> {
        Program::compile_with(plan, None, secrets)
    }

    /// The environment that the plan or script was read with: its credentials are not shown.
    #[must_use]
    pub fn with_env(mut self, env: &std::collections::BTreeMap<String, String>) -> Program {
        self.shown = self.secrets.with(&crate::secrets::credentials_in(env));
        self
    }

    /// A script's scenarios: workflows whose requests are one step, whatever they are.
    pub fn for_script(run: Arc<ScriptRun>) -> Result<Program, CompileError> {
        let plan = run.plan.clone();
        let none: SecretLookup = Arc::new(|_| None);
        Program::compile_with(&plan, Some(run), &none)
    }

    fn compile_with(
        plan: &Plan,
        script: Option<Arc<ScriptRun>>,
        lookup: &SecretLookup,
    ) -> Result<Program, CompileError> {
        let mut data = Vec::new();
        for set in &plan.data {
            data.push(plan::load_rows(set).map_err(|error| CompileError(error.to_string()))?);
        }
        let data = Arc::new(data);
        let (base, unix) = base_url(plan)?;
        let mut compiler = Compiler {
            plan,
            data: data.clone(),
            layout: Layout::default(),
            origins: Vec::new(),
            base: base.clone(),
            is_script: script.is_some(),
            lookup: lookup.clone(),
            secrets: BTreeSet::new(),
            unknown_secrets: BTreeSet::new(),
            referred: BTreeMap::new(),
        };
        compiler.layout.metrics = plan
            .metrics
            .iter()
            .map(|metric| stats::MetricLayout {
                name: metric.name.clone(),
                kind: metric.kind,
                time: metric.time,
            })
            .collect();
        let mut workflows = Vec::new();
        for workflow in &plan.workflows {
            workflows.push(compiler.workflow(workflow)?);
        }
        let frame = compiler.frame()?;
        if !compiler.unknown_secrets.is_empty() {
            let names = compiler.unknown_secrets.iter();
            let names: Vec<_> = names.map(|name| format!("VOLLEY_SECRET_{name}")).collect();
            return Err(CompileError(format!(
                "{} is not set where the load is run: in the environment of this command, and on a fleet in \
                 that of every worker (a client's is not used there), which is then started again",
                names.join(", ")
            )));
        }
        let secrets = Secrets::new(&compiler.secrets);
        Ok(Program {
            layout: Arc::new(compiler.layout),
            workflows,
            frame,
            data,
            data_sets: plan.data.clone(),
            origins: compiler.origins,
            base_url: base,
            unix,
            script,
            shown: secrets.clone(),
            secrets,
        })
    }
}

/// What compiling one workflow leaves for the next.
struct Compiler<'p> {
    plan: &'p Plan,
    data: Arc<Vec<Rows>>,
    layout: Layout,
    origins: Vec<Url>,
    /// What relative URLs are relative to.
    base: Option<Url>,
    is_script: bool,
    lookup: SecretLookup,
    secrets: BTreeSet<String>,
    unknown_secrets: BTreeSet<String>,
    /// How the workflows refer to variables.
    referred: BTreeMap<String, workflow::Referred>,
}

impl Compiler<'_> {
    fn origin(&mut self, url: &Url) -> usize {
        let same = |known: &Url| known.origin() == url.origin();
        match self.origins.iter().position(same) {
            Some(index) => index,
            None => {
                self.origins.push(url.clone());
                self.origins.len() - 1
            }
        }
    }
}

/// The target as a URL; a Unix socket gets a host name that cannot exist.
fn base_url(plan: &Plan) -> Result<(Option<Url>, Option<std::path::PathBuf>), CompileError> {
    let Some(template) = &plan.target else { return Ok((None, None)) };
    let text: String = template
        .parts
        .iter()
        .map(|part| match part {
            plan::template::Part::Text(text) => text.as_str(),
            plan::template::Part::Reference(reference) => {
                reference.default.as_deref().unwrap_or_default()
            }
        })
        .collect();
    if let Some(path) = text.strip_prefix("unix:") {
        let url = Url::parse(&format!("http://{}/", client::UNIX_HOST)).expect("a fixed URL");
        let path = path.strip_prefix("//").unwrap_or(path);
        return Ok((Some(url), Some(path.into())));
    }
    let url = parse_url(None, &text).map_err(|failure| CompileError(failure.message))?;
    Ok((Some(url), None))
}
