//! Whether every reference of a template refers to something that is set before.
//!
//! What a step sees: the plan's and the workflow's `vars`, what setup steps set, and what the steps
//! set that it waits for, directly or through others. A step beside it in a concurrent list may be
//! early or late, so its values do not count.

use std::collections::BTreeSet;

use super::graph::step_graph;
use super::handover::setters;
use super::{Checker, all_steps, inner_nodes};
use crate::decode::RefUse;
use crate::layers::layer_numbers;
use crate::model::{Action, Step, Workflow};
use crate::template::{Source, is_source};
use crate::tree::{Node, shorten};
use crate::words;
use base::names::did_you_mean;

/// What is known at a place.
#[derive(Debug, Clone, Default)]
struct Scope<'a> {
    variables: BTreeSet<&'a str>,
    /// Steps of this list of steps that have ended.
    steps: BTreeSet<&'a str>,
}

impl<'a> Scope<'a> {
    fn with_vars(mut self, vars: &'a [(String, crate::template::Template)]) -> Self {
        self.variables.extend(vars.iter().map(|(name, _)| name.as_str()));
        self
    }

    fn add(&mut self, other: &Scope<'a>) {
        self.variables.extend(&other.variables);
        self.steps.extend(&other.steps);
    }

    /// What setup leaves behind: its variables; its responses are gone.
    fn add_variables(&mut self, steps: &'a [Step]) {
        steps.iter().for_each(|step| self.variables.extend(&provides(step).variables));
    }
}

/// What a step leaves for those after it; of a choice, what any branch leaves.
fn provides(step: &Step) -> Scope<'_> {
    let mut scope = Scope::default();
    step.walk(&mut |step| match &step.action {
        Action::Request(request) => {
            scope.steps.insert(&step.name);
            scope.variables.extend(request.extract.iter().map(|e| e.variable.as_str()));
        }
        Action::Set(set) => scope.variables.extend(set.iter().map(|(name, _)| name.as_str())),
        _ => {}
    });
    scope
}

impl<'p> Checker<'p> {
    pub fn references(&mut self, root: &Node, nodes: &[Node]) {
        let plan = self.plan;
        let items = |node: &'_ Node, key: &str| -> Vec<Node> {
            node.get(key).map(|list| list.items().to_vec()).unwrap_or_default()
        };
        self.needs(&plan.setup, &items(root, "setup"), false, None);
        self.needs(&plan.teardown, &items(root, "teardown"), false, None);
        let base = Scope::default().with_vars(&plan.vars);
        self.list(&plan.setup, &items(root, "setup"), false, base.clone(), None);
        let mut base = base;
        base.add_variables(&plan.setup);
        self.list(&plan.teardown, &items(root, "teardown"), false, base.clone(), None);
        for (workflow, node) in plan.workflows.iter().zip(nodes) {
            let own = Some(workflow);
            let mut scope = base.clone().with_vars(&workflow.vars);
            self.list(&workflow.setup, &items(node, "setup"), false, scope.clone(), own);
            scope.add_variables(&workflow.setup);
            self.list(&workflow.teardown, &items(node, "teardown"), false, scope.clone(), own);
            self.list(&workflow.vu_setup, &items(node, "vu_setup"), false, scope.clone(), own);
            scope.add_variables(&workflow.vu_setup);
            let ending = items(node, "vu_teardown");
            self.list(&workflow.vu_teardown, &ending, false, scope.clone(), own);
            let steps = items(node, "steps");
            self.list(&workflow.steps, &steps, workflow.concurrent, scope, own);
        }
        self.loose_references();
    }

    /// Headers, tags and vars are filled in at many places: set anywhere is enough for them.
    fn loose_references(&mut self) {
        let (plan, notes) = (self.plan, self.notes);
        let of_workflow = |workflow: &'p Workflow| {
            let mut scope = Scope::default();
            scope.variables.extend(setters(plan, workflow).into_iter().map(|(name, _)| name));
            scope.steps.extend(all_steps(workflow).into_iter().map(|step| step.name.as_str()));
            scope
        };
        let scopes: Vec<Scope<'p>> = plan.workflows.iter().map(of_workflow).collect();
        let mut anywhere = Scope::default().with_vars(&plan.vars);
        anywhere.add_variables(&plan.setup);
        scopes.iter().for_each(|scope| anywhere.add(scope));
        let used_anywhere = |key: &str| {
            plan.workflows.iter().any(|one| one.uses.iter().any(|used| used.key == key))
        };
        for (index, reference) in &notes.loose {
            match (index, &reference.source) {
                (None, Source::Use(key)) if used_anywhere(key) => {}
                (None, _) => self.reference(reference, &anywhere, None),
                (Some(index), _) => {
                    let workflow = plan.workflows.get(*index);
                    self.reference(reference, &scopes[*index], workflow);
                }
            }
        }
    }

    /// Checks a list of steps; `scope` is what is known before it.
    fn list(
        &mut self,
        steps: &'p [Step],
        nodes: &[Node],
        concurrent: bool,
        scope: Scope<'p>,
        workflow: Option<&'p Workflow>,
    ) {
        let plain = !concurrent && steps.iter().all(|step| step.needs.is_none());
        if plain {
            // The usual case in one pass, however long the list.
            let mut scope = scope;
            for (step, node) in steps.iter().zip(nodes) {
                self.step(step, node, &scope, workflow);
                scope.add(&provides(step));
            }
            return;
        }
        let graph = step_graph(steps, concurrent);
        // A cycle is reported elsewhere; nothing can be said about its order.
        let Ok(layers) = layer_numbers(&graph) else {
            return;
        };
        let mut order: Vec<usize> = (0..steps.len()).collect();
        order.sort_by_key(|index| layers[*index]);
        let mut after: Vec<Scope<'p>> = vec![Scope::default(); steps.len()];
        for index in order {
            let mut seen = scope.clone();
            graph[index].iter().for_each(|need| seen.add(&after[*need]));
            if let Some(node) = nodes.get(index) {
                self.step(&steps[index], node, &seen, workflow);
            }
            seen.add(&provides(&steps[index]));
            after[index] = seen;
        }
    }

    fn step(
        &mut self,
        step: &'p Step,
        node: &Node,
        scope: &Scope<'p>,
        workflow: Option<&'p Workflow>,
    ) {
        let notes = self.notes;
        let refs = notes.steps.get(&(node.place.start, node.place.end));
        let mut after = scope.clone();
        after.add(&provides(step));
        // `until` is asked when the body has run; values of one `set` may build on each other.
        let late = matches!(step.action, Action::Repeat { .. } | Action::Set(_));
        for reference in refs.into_iter().flatten() {
            let scope = if late || reference.after_response { &after } else { scope };
            self.reference(reference, scope, workflow);
        }
        let concurrent = matches!(step.action, Action::Group { concurrent: true, .. });
        for (steps, nodes) in step.inner().into_iter().zip(inner_nodes(node)) {
            self.list(steps, nodes, concurrent, scope.clone(), workflow);
        }
    }

    fn reference(&mut self, one: &RefUse, scope: &Scope<'_>, workflow: Option<&Workflow>) {
        let plan = self.plan;
        match &one.source {
            Source::Variable(name)
                if !one.has_default && !scope.variables.contains(name.as_str()) =>
            {
                self.unset_variable(one, name, scope, workflow);
            }
            Source::Variable(name)
                if one.has_default && !self.set_anywhere().contains(name.as_str()) =>
            {
                self.always_default(one, name);
            }
            Source::Data { set, column } => match plan.data.iter().find(|d| d.name == *set) {
                None => {
                    let names: Vec<&str> = plan.data.iter().map(|d| d.name.as_str()).collect();
                    self.unknown(one.place, "data set", set, names);
                }
                // Without columns the file could not be read, which is reported.
                Some(data) if data.columns.is_empty() || data.columns.contains(column) => {}
                Some(data) => self.unknown_column(one.place, data, column),
            },
            Source::Use(key) => {
                let uses = workflow.map(|workflow| workflow.uses.as_slice()).unwrap_or_default();
                if !uses.iter().any(|used| used.key == *key) {
                    let help = did_you_mean(key, uses.iter().map(|used| used.key.as_str()))
                        .unwrap_or_else(|| {
                            format!("add to the workflow: `use: {{ {key}: [WORKFLOW] }}`")
                        });
                    let message =
                        format!("`${{use.{}}}` is not taken from any workflow", shorten(key));
                    self.report(one.place, message, Some(help));
                }
            }
            Source::Step { name, .. } if !scope.steps.contains(name.as_str()) => {
                let exists = workflow
                    .is_some_and(|workflow| all_steps(workflow).iter().any(|s| s.name == *name));
                if exists {
                    let message = format!("the step `{}` does not run before this", shorten(name));
                    let help = "move it up, or name it in `needs`";
                    self.report(one.place, message, Some(help.into()));
                } else {
                    let names: Vec<&str> = scope.steps.iter().copied().collect();
                    self.unknown(one.place, "step", name, names);
                }
            }
            _ => {}
        }
    }

    /// `{token}` and its like, where something is called `token`.
    pub fn foreign(&mut self) {
        let notes = self.notes;
        let known = self.set_anywhere().clone();
        for (place, one) in &notes.foreign {
            let name = one.name.as_str();
            if one.is_mistake {
                let message = "what follows `#` in a URL is not sent";
                let help = words::reference(name).unwrap_or_else(|| format!("write `${{{name}}}`"));
                self.report(*place, message, Some(help));
            } else if is_source(name) || known.contains(name) {
                let message = format!("this is not a reference to `{name}`, but text");
                self.report(*place, message, Some(format!("write `${{{name}}}`")));
            } else if one.end - one.start == name.len() + 1 && is_shell_variable(name) {
                // A shell would put its value here. Small names are GraphQL's and OData's.
                let message = format!("`${name}` is sent as it stands");
                let help = format!(
                    "a variable of the environment is `${{env.{name}}}`, a credential `${{secret.{name}}}`"
                );
                self.warn(*place, message, help);
            }
        }
    }

    /// `${regoin:-eu}`: nothing sets it, so that it is never anything else.
    fn always_default(&mut self, one: &RefUse, name: &str) {
        let known = self.set_anywhere();
        let help = match did_you_mean(name, known.iter().copied()) {
            Some(help) => help,
            None => match words::reference(name) {
                Some(help) => help,
                None => format!(
                    "a variable of the environment is `${{env.{}:-...}}`; others are set by `vars`, `set`, `extract`",
                    shorten(name)
                ),
            },
        };
        let message =
            format!("`{}` is set nowhere, so that this is always the default", shorten(name));
        self.warn(one.place, message, help);
    }

    fn unset_variable(
        &mut self,
        one: &RefUse,
        name: &str,
        scope: &Scope<'_>,
        workflow: Option<&Workflow>,
    ) {
        let plan = self.plan;
        let message = format!("`${{{}}}` refers to nothing", shorten(name));
        let here = workflow.map(|workflow| setters(plan, workflow)).unwrap_or_default();
        let later = here.iter().find(|(variable, _)| *variable == name).and_then(|(_, step)| *step);
        let elsewhere = plan
            .workflows
            .iter()
            .find(|other| setters(plan, other).iter().any(|(variable, _)| *variable == name));
        let used = workflow.is_some_and(|w| w.uses.iter().any(|used| used.key == name));
        let help = if let Some(step) = later {
            format!(
                "the step `{step}` sets it, and does not run before this: move it above, or write `needs: [{step}]` \
                 here"
            )
        } else if used {
            format!("write `${{use.{name}}}`")
        } else if let Some(help) = words::reference(name) {
            help
        } else if let Some(help) = did_you_mean(name, scope.variables.iter().copied()) {
            help
        } else if let (Some(other), Some(own)) = (elsewhere, workflow) {
            let (from, to) = (&other.name, &own.name);
            format!("`{from}` sets it: hand it over with `provide: {{ {name}: [{to}] }}` and `use`")
        } else if let Some(other) = elsewhere {
            // The plan's own setup and teardown.
            let own = setters(plan, other);
            let step =
                own.iter().find(|(variable, _)| *variable == name).and_then(|(_, step)| *step);
            let who = step.map_or_else(String::new, |step| format!("the step `{step}` of "));
            format!(
                "{who}the workflow `{}` sets it, for one iteration: the plan's `setup` and `teardown` do not see it; \
                 get it here again by a step with an `extract` of its own",
                other.name
            )
        } else {
            format!("set it with `vars`, `set` or `extract`, or give a default: `${{{name}:-x}}`")
        };
        self.report(one.place, message, Some(help));
    }
}

/// As people name variables of the environment.
fn is_shell_variable(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    name.len() > 2 && name.bytes().all(fits) && name.starts_with(|c: char| c.is_ascii_uppercase())
}
