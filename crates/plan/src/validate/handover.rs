//! Values handed from workflow to workflow: both sides must name each other (EXEC-51 to EXEC-55).

use super::{Checker, all_steps, item_place};
use crate::decode::counterparts;
use crate::layers::{ancestors, dependencies};
use crate::model::{Action, Plan, Workflow};
use crate::tree::{Entry, Node, Place, shorten};
use base::names::did_you_mean;

/// Every variable that a workflow sets, with the step that does.
pub fn setters<'a>(plan: &'a Plan, workflow: &'a Workflow) -> Vec<(&'a str, Option<&'a str>)> {
    let vars = plan.vars.iter().chain(&workflow.vars).map(|(name, _)| (name.as_str(), None));
    let mut all: Vec<_> = vars.collect();
    let mut visit = |step: &'a crate::model::Step| match &step.action {
        Action::Request(request) => {
            all.extend(request.extract.iter().map(|e| (e.variable.as_str(), Some(&*step.name))));
        }
        Action::Set(set) => {
            all.extend(set.iter().map(|(name, _)| (name.as_str(), Some(&*step.name))));
        }
        _ => {}
    };
    plan.setup.iter().for_each(|step| step.walk(&mut visit));
    all_steps(workflow).into_iter().for_each(visit);
    all
}

impl Checker<'_> {
    pub fn handovers(&mut self, nodes: &[Node]) {
        let plan = self.plan;
        let before = ancestors(&dependencies(&plan.workflows));
        for (index, (workflow, node)) in plan.workflows.iter().zip(nodes).enumerate() {
            let entries = |key: &str| node.get(key).map(Node::entries).unwrap_or_default();
            for (provide, entry) in workflow.provide.iter().zip(entries("provide")) {
                self.provided_variable(workflow, &provide.from, entry);
                let list = counterparts(&entry.value, "to");
                self.some_names(entry, &provide.to, "to");
                for (item, name) in provide.to.iter().enumerate() {
                    let place = item_place(Some(list), item);
                    let Some(other) = self.counterpart(workflow, name, place) else {
                        continue;
                    };
                    self.provided_to(index, other, &provide.key, place, &before);
                }
            }
            for (taken, entry) in workflow.uses.iter().zip(entries("use")) {
                let list = counterparts(&entry.value, "from");
                self.some_names(entry, &taken.from, "from");
                for (item, name) in taken.from.iter().enumerate() {
                    let place = item_place(Some(list), item);
                    let Some(other) = self.counterpart(workflow, name, place) else {
                        continue;
                    };
                    self.used_from(index, other, &taken.key, place, &before);
                }
            }
        }
    }

    /// A hand-over that names nobody transfers nothing (EXEC-51).
    fn some_names(&mut self, entry: &Entry, names: &[String], key: &str) {
        let named = counterparts(&entry.value, key);
        let given =
            entry.value.text().is_some() || !matches!(named.value, crate::tree::Value::Map(_));
        if names.is_empty() && given {
            let message = format!("`{}` names no workflow, so nothing is handed over", entry.key);
            self.report(entry.place, message, Some(format!("write `{}: [WORKFLOW]`", entry.key)));
        }
    }

    fn counterpart(&mut self, own: &Workflow, name: &str, place: Place) -> Option<usize> {
        let plan = self.plan;
        if name == own.name {
            let help = "within a workflow, variables are seen by later steps anyway";
            self.report(place, "a workflow cannot hand values to itself", Some(help.into()));
            return None;
        }
        let found = plan.workflows.iter().position(|workflow| workflow.name == name);
        if found.is_none() && !name.is_empty() {
            let others: Vec<&str> = plan.workflows.iter().map(|w| w.name.as_str()).collect();
            self.unknown(place, "workflow", name, others);
        }
        found
    }

    fn provided_variable(&mut self, workflow: &Workflow, from: &str, entry: &Entry) {
        let setters = setters(self.plan, workflow);
        if setters.iter().any(|(name, _)| *name == from) {
            return;
        }
        let place = entry.value.get("from").map_or(entry.place, |node| node.place);
        let names = setters.iter().map(|(name, _)| *name);
        let help = did_you_mean(from, names)
            .unwrap_or_else(|| "set it with `extract`, `set` or `vars`".into());
        let message = format!(
            "the workflow `{}` never sets the variable `{}`",
            shorten(&workflow.name),
            shorten(from)
        );
        self.report(place, message, Some(help));
    }

    fn provided_to(
        &mut self,
        own: usize,
        other: usize,
        key: &str,
        place: Place,
        before: &[Vec<usize>],
    ) {
        let (from, to) = (&self.plan.workflows[own], &self.plan.workflows[other]);
        if !before[other].contains(&own) {
            let message = format!("`{}` does not run after `{}`", to.name, from.name);
            let help = format!("add `depends_on: [{}]` to `{}`", from.name, to.name);
            return self.report(place, message, Some(help));
        }
        let used = to.uses.iter().any(|used| used.key == key && used.from.contains(&from.name));
        if !used {
            let message = format!("`{}` does not use `{key}` from `{}`", to.name, from.name);
            let help = format!("add to `{}`: `use: {{ {key}: [{}] }}`", to.name, from.name);
            self.report(place, message, Some(help));
        }
    }

    fn used_from(
        &mut self,
        own: usize,
        other: usize,
        key: &str,
        place: Place,
        before: &[Vec<usize>],
    ) {
        let (to, from) = (&self.plan.workflows[own], &self.plan.workflows[other]);
        if !before[own].contains(&other) {
            let message = format!("`{}` does not run before `{}`", from.name, to.name);
            let help = format!("add `depends_on: [{}]`", from.name);
            return self.report(place, message, Some(help));
        }
        let provided = from.provide.iter().find(|provide| provide.key == key);
        let help = match provided {
            Some(provide) if provide.to.contains(&to.name) => return,
            Some(_) => format!("add `{}` to its `provide: {{ {key}: [...] }}`", to.name),
            None => match did_you_mean(key, from.provide.iter().map(|p| p.key.as_str())) {
                Some(help) => help,
                None => format!("add to it: `provide: {{ {key}: [{}] }}`", to.name),
            },
        };
        let message = format!("`{}` does not provide `{key}` to `{}`", from.name, to.name);
        self.report(place, message, Some(help));
    }
}
