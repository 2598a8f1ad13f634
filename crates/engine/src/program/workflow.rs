//! Compiling one workflow: its slots, its place in the layout, its blocks.

use plan::template::StepField;
use plan::{HttpOptions, Load, Provide, Workflow};
use stats::{StageLayout, StepLayout, WorkflowFacts, WorkflowLayout};

use super::block::Block;
use super::{CompileError, Compiler};
use crate::text::{Names, Text, step_slot, use_slot};

pub struct WorkflowProgram {
    pub name: String,
    /// Number in the layout.
    pub index: usize,
    pub load: Load,
    pub http: HttpOptions,
    /// Names of the variables, by slot.
    pub slots: Vec<String>,
    /// Which step extracts a slot, for messages.
    pub extracted: Vec<(usize, String)>,
    /// Variables with a value at the start of each iteration.
    pub vars: Vec<(usize, Text)>,
    pub setup: Block,
    pub teardown: Block,
    pub vu_setup: Block,
    pub vu_teardown: Block,
    pub steps: Block,
    pub provide: Vec<Provide>,
    /// Slot of each consumed value, with whom it may come from.
    pub uses: Vec<(usize, plan::Use)>,
    /// First stage of the load in the layout; the setup and teardown stages come before it.
    pub first_stage: usize,
    pub setup_stage: usize,
    pub teardown_stage: usize,
    /// Numbers of the data sets that the steps read.
    pub data_sets: Vec<usize>,
    /// Origins that the steps name, to be opened where `warm` is asked for.
    pub warm_origins: Vec<usize>,
}

/// The workflow under construction.
pub(super) struct Scope<'c, 'p> {
    pub compiler: &'c mut Compiler<'p>,
    pub workflow: &'c Workflow,
    pub index: usize,
    pub slots: Vec<String>,
    /// How the slots are referred to.
    pub referred: Vec<Referred>,
    pub data_sets: Vec<usize>,
    pub warm_origins: Vec<usize>,
    /// Shown before step names outside the main steps: `setup: login`.
    pub prefix: &'static str,
    /// Conditions of the steps around the one that is compiled, and its own.
    pub when: Vec<String>,
}

/// How a variable is referred to, if at all.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Referred {
    with_default: bool,
    without: bool,
}

impl Referred {
    /// Everybody who refers to it, and that is somebody, does without a value.
    fn can_do_without(self) -> bool {
        self.with_default && !self.without
    }

    fn add(&mut self, other: Referred) {
        self.with_default |= other.with_default;
        self.without |= other.without;
    }
}

impl Names for Scope<'_, '_> {
    fn slot(&mut self, name: &str) -> usize {
        match self.slots.iter().position(|known| known == name) {
            Some(slot) => slot,
            None => {
                self.slots.push(name.to_owned());
                self.slots.len() - 1
            }
        }
    }

    fn refer(&mut self, slot: usize, has_default: bool) {
        if self.referred.len() <= slot {
            self.referred.resize(slot + 1, Referred::default());
        }
        let (with_default, without) = (has_default, !has_default);
        self.referred[slot].add(Referred { with_default, without });
    }

    fn data(&mut self, set: &str, column: &str) -> Option<(usize, usize)> {
        let set = self.compiler.plan.data.iter().position(|known| known.name == set)?;
        self.data_sets.push(set);
        let rows = &self.compiler.data[set];
        let column = rows.columns.iter().position(|known| known == column)?;
        Some((set, column))
    }

    fn secret(&mut self, name: &str, default: Option<&str>) -> String {
        let known = (self.compiler.lookup)(name).filter(|value| !value.is_empty());
        match known.or_else(|| default.map(str::to_owned)) {
            Some(value) => {
                self.compiler.secrets.insert(value.clone());
                value
            }
            None => {
                self.compiler.unknown_secrets.insert(name.to_owned());
                String::new()
            }
        }
    }
}

impl Scope<'_, '_> {
    /// What the plan's own setup extracts, all workflows may refer to.
    fn note_referred(&mut self) {
        for (name, referred) in self.slots.iter().zip(&self.referred) {
            self.compiler.referred.entry(name.clone()).or_default().add(*referred);
        }
    }

    /// Whether a step need not fail if it finds no value for the slot.
    fn can_do_without(&self, slot: usize, synthetic: bool) -> bool {
        let mut referred = self.referred.get(slot).copied().unwrap_or_default();
        if synthetic && let Some(elsewhere) = self.compiler.referred.get(&self.slots[slot]) {
            referred.add(*elsewhere);
        }
        referred.can_do_without()
    }
}

impl<'p> Compiler<'p> {
    pub(super) fn workflow(
        &mut self,
        workflow: &Workflow,
    ) -> Result<WorkflowProgram, CompileError> {
        self.compile(workflow, false)
    }

    /// The plan's own setup and teardown.
    pub(super) fn frame(&mut self) -> Result<WorkflowProgram, CompileError> {
        let plan = self.plan;
        let load = Load {
            executor: plan::Executor::PerVuIterations {
                vus: 1,
                iterations: 1,
                max_duration: std::time::Duration::from_secs(600),
            },
            start_after: std::time::Duration::ZERO,
            graceful_stop: std::time::Duration::ZERO,
            warmup: None,
            pacing: None,
        };
        let workflow = Workflow {
            headers: plan.headers.clone(),
            vars: plan.vars.clone(),
            tags: plan.tags.clone(),
            setup: plan.setup.clone(),
            teardown: plan.teardown.clone(),
            ..Workflow::bare("(plan)", load, plan.http.clone())
        };
        self.compile(&workflow, true)
    }

    fn compile(
        &mut self,
        workflow: &Workflow,
        synthetic: bool,
    ) -> Result<WorkflowProgram, CompileError> {
        let index = self.layout.workflows.len();
        let (step, check, stage) =
            (self.layout.steps.len(), self.layout.checks.len(), self.layout.stages.len());
        let stages = ["setup".to_owned(), "teardown".to_owned()]
            .into_iter()
            .chain(schedule::stage_names(&workflow.load));
        let stages: Vec<_> = stages.map(|name| StageLayout { name, workflow: index }).collect();
        self.layout.stages.extend(stages);
        let mut scope = Scope {
            compiler: self,
            workflow,
            index,
            slots: Vec::new(),
            referred: Vec::new(),
            data_sets: Vec::new(),
            warm_origins: Vec::new(),
            prefix: "",
            when: Vec::new(),
        };
        let mut vars = Vec::new();
        let plan_vars = if synthetic { &[][..] } else { &scope.compiler.plan.vars[..] };
        for (name, template) in plan_vars.iter().chain(&workflow.vars) {
            let text = Text::compile(template, &mut scope);
            let slot = scope.slot(name);
            vars.push((slot, text));
        }
        let mut steps = Block::compile(&workflow.steps, workflow.concurrent, &mut scope)?;
        let mut side = |prefix, steps: &[plan::Step]| {
            scope.prefix = prefix;
            Block::compile(steps, false, &mut scope)
        };
        let mut setup = side("setup: ", &workflow.setup)?;
        let mut teardown = side("teardown: ", &workflow.teardown)?;
        let mut vu_setup = side("vu_setup: ", &workflow.vu_setup)?;
        let mut vu_teardown = side("vu_teardown: ", &workflow.vu_teardown)?;
        let uses =
            workflow.uses.iter().map(|used| (scope.slot(&use_slot(&used.key)), used.clone()));
        let uses = uses.collect();
        for provide in &workflow.provide {
            let slot = scope.slot(&provide.from);
            scope.refer(slot, false);
        }
        if !synthetic {
            scope.note_referred();
        }
        let mut extracted = Vec::new();
        // Only now is it known which responses somebody reads.
        for block in [&mut steps, &mut setup, &mut teardown, &mut vu_setup, &mut vu_teardown] {
            block.each_request(&mut |request| {
                let slot = |field| {
                    let wanted = step_slot(&request.name, field);
                    scope.slots.iter().position(|known| *known == wanted)
                };
                request.status_slot = slot(StepField::Status);
                request.body_slot = slot(StepField::Body);
                request.latency_slot = slot(StepField::LatencyMs);
                request.keep.body |= request.body_slot.is_some();
                for extract in &mut request.extract {
                    extracted.push((extract.slot, request.name.clone()));
                    extract.required &= !scope.can_do_without(extract.slot, synthetic);
                }
            });
        }
        if scope.compiler.is_script {
            scope.slot(crate::script::SETUP_DATA);
            scope.compiler.layout.steps.push(StepLayout {
                name: "requests".to_owned(),
                workflow: index,
                method: String::new(),
                route: String::new(),
                tags: Vec::new(),
                when: Vec::new(),
            });
        }
        let Scope { slots, mut data_sets, warm_origins, .. } = scope;
        data_sets.sort_unstable();
        data_sets.dedup();
        self.layout.workflows.push(WorkflowLayout {
            name: workflow.name.clone(),
            steps: step..self.layout.steps.len(),
            checks: check..self.layout.checks.len(),
            stages: stage..self.layout.stages.len(),
            synthetic,
            about: WorkflowFacts {
                pauses: workflow.pauses(),
                lasts: workflow.load.executor.scheduled(),
                keeps_cookies: workflow.http.keep_cookies || !workflow.http.cookies,
            },
        });
        Ok(WorkflowProgram {
            name: workflow.name.clone(),
            index,
            load: workflow.load.clone(),
            http: workflow.http.clone(),
            slots,
            extracted,
            vars,
            setup,
            teardown,
            vu_setup,
            vu_teardown,
            steps,
            provide: workflow.provide.clone(),
            uses,
            first_stage: stage + 2,
            setup_stage: stage,
            teardown_stage: stage + 1,
            data_sets,
            warm_origins,
        })
    }
}
