//! Whether the names of a plan refer to something, and its graphs can run.
//!
//! Walks the model beside the tree it was decoded from: the model says what is meant, the tree
//! where it stands.

mod addresses;
mod bodies;
mod files;
mod graph;
mod handover;
mod requests;
mod scope;
mod thresholds;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::decode::RefUse;
use crate::model::{Action, Plan, Record, Step, Workflow};
use base::names::did_you_mean;

use crate::problem::Finding;
use crate::template::{Foreign, Source};
use crate::tree::{Node, Place, shorten};

/// What decoding noted about templates.
pub struct Notes {
    pub steps: BTreeMap<(usize, usize), Vec<RefUse>>,
    pub loose: Vec<(Option<usize>, RefUse)>,
    pub foreign: Vec<(Place, Foreign)>,
    /// Body files that are sent as they are, and what looks like references in them.
    pub body_files: Vec<(Place, Vec<String>)>,
    /// Whether another target than the plan's was asked for.
    pub target_given: bool,
}

impl Notes {
    /// The numbers of the workflows that refer to a data set.
    pub fn users_of(&self, set: &str, workflows: &[Node]) -> Vec<usize> {
        let refers =
            |one: &RefUse| matches!(&one.source, Source::Data { set: other, .. } if other == set);
        let uses = |(number, node): &(usize, &Node)| {
            let is_own = |workflow: &Option<usize>| workflow.is_none_or(|other| other == *number);
            self.loose.iter().any(|(workflow, one)| is_own(workflow) && refers(one))
                || self.any_step(node, &refers)
        };
        workflows.iter().enumerate().filter(uses).map(|(number, _)| number).collect()
    }

    /// Whether a step in this part of the tree has such a reference.
    fn any_step(&self, node: &Node, wanted: &dyn Fn(&RefUse) -> bool) -> bool {
        let own = self.steps.get(&(node.place.start, node.place.end));
        own.is_some_and(|refs| refs.iter().any(wanted))
            || node.items().iter().any(|item| self.any_step(item, wanted))
            || node.entries().iter().any(|entry| self.any_step(&entry.value, wanted))
    }
}

/// Beyond these a plan is generated, and by mistake; they also bound the time of the checks.
const WORKFLOWS_MAX: usize = 1_000;
const STEPS_MAX: usize = 10_000;
/// Names that a message lists: all metrics fit, a thousand steps do not.
const NAMES_MAX: usize = 40;

/// What is wrong, and what is legal and hardly meant.
pub fn validate(plan: &Plan, root: &Node, notes: &Notes) -> (Vec<Finding>, Vec<Finding>) {
    let anywhere = std::cell::OnceCell::new();
    let (findings, warnings) = (Vec::new(), Vec::new());
    let mut checker = Checker { plan, notes, findings, warnings, anywhere };
    let nodes = root.get("workflows").map(Node::items).unwrap_or_default();
    if !checker.within_limits(root) {
        return (checker.findings, Vec::new());
    }
    checker.workflows(root, nodes);
    checker.graph(nodes);
    checker.handovers(nodes);
    checker.references(root, nodes);
    checker.foreign();
    checker.body_files();
    checker.thresholds(root.get("thresholds").map(Node::items).unwrap_or_default());
    checker.time_limit(root);
    checker.addresses(root, nodes);
    checker.requests(root, nodes);
    (checker.findings, checker.warnings)
}

struct Checker<'a> {
    plan: &'a Plan,
    notes: &'a Notes,
    findings: Vec<Finding>,
    warnings: Vec<Finding>,
    /// Every variable that is set somewhere; found when it is asked for.
    anywhere: std::cell::OnceCell<std::collections::BTreeSet<&'a str>>,
}

/// The lists of steps of a workflow, by their keys.
const SECTIONS: [&str; 5] = ["setup", "vu_setup", "steps", "vu_teardown", "teardown"];

fn section<'a>(workflow: &'a Workflow, key: &str) -> &'a [Step] {
    match key {
        "setup" => &workflow.setup,
        "vu_setup" => &workflow.vu_setup,
        "vu_teardown" => &workflow.vu_teardown,
        "teardown" => &workflow.teardown,
        _ => &workflow.steps,
    }
}

/// Every step of a workflow, at whatever depth.
fn all_steps(workflow: &Workflow) -> Vec<&Step> {
    let mut all = Vec::new();
    for key in SECTIONS {
        for step in section(workflow, key) {
            step.walk(&mut |step| all.push(step));
        }
    }
    all
}

/// The nodes of the lists inside a step, side by side with [`Step::inner`].
fn inner_nodes(node: &Node) -> Vec<&[Node]> {
    match node.get("choose") {
        Some(choose) => choose
            .items()
            .iter()
            .map(|branch| branch.get("steps").map(Node::items).unwrap_or_default())
            .collect(),
        None => vec![node.get("steps").map(Node::items).unwrap_or_default()],
    }
}

/// The place of an item of a list that may be written as a single value.
fn item_place(list: Option<&Node>, index: usize) -> Place {
    let Some(list) = list else {
        return Place::default();
    };
    list.one_or_many().get(index).unwrap_or(list).place
}

impl Checker<'_> {
    fn report(&mut self, place: Place, message: impl Into<String>, help: Option<String>) {
        self.findings.push(Finding::new(place, message).maybe_help(help));
    }

    fn warn(&mut self, place: Place, message: impl Into<String>, help: String) {
        self.warnings.push(Finding::new(place, message).help(help));
    }

    /// A `timeout` that ends the load before its time.
    fn time_limit(&mut self, root: &Node) {
        let plan = self.plan;
        let Some(limit) = plan.timeout else { return };
        let planned = |workflow: &'_ Workflow| {
            // Iterations end when they are done; that is known only of when they begin.
            let timed = !matches!(
                workflow.load.executor,
                crate::model::Executor::PerVuIterations { .. }
                    | crate::model::Executor::SharedIterations { .. }
            );
            let time = match timed {
                true => workflow.load.executor.scheduled()?,
                false => Duration::ZERO,
            };
            Some(time + workflow.load.start_after)
        };
        let longest = plan.workflows.iter().filter_map(|one| Some((planned(one)?, &one.name)));
        let Some((time, name)) = longest.max().filter(|(time, _)| *time > limit) else { return };
        let place = root.get("timeout").map_or(root.place, |node| node.place);
        if let Some(late) = plan.workflows.iter().find(|one| one.load.start_after >= limit) {
            let message = format!(
                "the whole test may take {limit:?}, and `{}` begins after {:?}: it will do nothing",
                shorten(&late.name),
                late.load.start_after
            );
            let help = "make `timeout` longer, or `start_after` shorter".to_owned();
            return self.warn(place, message, help);
        }
        let message = format!(
            "the whole test may take {limit:?}, and the load of `{}` alone takes {time:?}: it will be cut off",
            shorten(name)
        );
        let help = format!(
            "make `timeout` longer than {time:?}, or leave it out; the time limit of a request is `defaults: {{ \
             timeout: {limit:?} }}`"
        );
        self.warn(place, message, help);
    }

    /// A name that is not among the known ones.
    fn unknown<'n>(
        &mut self,
        place: Place,
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'n str> + Clone,
    ) {
        let help = did_you_mean(name, known.clone()).or_else(|| {
            let names: Vec<&str> = known.into_iter().collect();
            let more = names.len().saturating_sub(NAMES_MAX);
            let shown = names[..names.len() - more].join(", ");
            match (names.len(), more) {
                (0, _) => Some(format!("the plan has no {what}s")),
                (_, 0) => Some(format!("there are {shown}")),
                _ => Some(format!("there are {shown} and {more} more")),
            }
        });
        self.report(place, format!("there is no {what} `{}`", shorten(name)), help);
    }

    fn within_limits(&mut self, root: &Node) -> bool {
        let mut steps = 0;
        let own = self.plan.setup.iter().chain(&self.plan.teardown);
        own.for_each(|step| step.walk(&mut |_| steps += 1));
        steps += self.plan.workflows.iter().map(|one| all_steps(one).len()).sum::<usize>();
        let workflows = self.plan.workflows.len();
        if workflows <= WORKFLOWS_MAX && steps <= STEPS_MAX {
            return true;
        }
        let message = format!("{workflows} workflows with {steps} steps");
        let help = format!("a plan has at most {WORKFLOWS_MAX} workflows and {STEPS_MAX} steps");
        let place = root.entry("workflows").map_or(root.place, |entry| entry.place);
        self.report(place, message, Some(help));
        false
    }

    fn workflows(&mut self, root: &Node, nodes: &[Node]) {
        if let Some(list) = root.get("workflows").filter(|list| is_empty_list(list)) {
            let help = "add one: `- { name: browse, steps: [ { get: / } ] }`";
            self.report(list.place, "the plan has no workflows", Some(help.into()));
        }
        let mut seen: BTreeMap<&str, Place> = BTreeMap::new();
        for (workflow, node) in self.plan.workflows.iter().zip(nodes) {
            let place = node.get("name").map_or(node.place, |name| name.place);
            if let Some(first) =
                seen.get(workflow.name.as_str()).filter(|_| !workflow.name.is_empty())
            {
                let help = format!("the first is in line {}; state is kept by name", first.line);
                let message = format!("two workflows are called `{}`", shorten(&workflow.name));
                self.report(place, message, Some(help));
            } else {
                seen.insert(&workflow.name, place);
            }
            if let Some(steps) = node.get("steps").filter(|list| is_empty_list(list)) {
                let message = format!("the workflow `{}` has no steps", shorten(&workflow.name));
                self.report(steps.place, message, Some("add for example `- get: /`".into()));
            }
        }
        self.records(root);
    }

    /// `record` feeds the plan's own metrics only.
    fn records(&mut self, root: &Node) {
        let plan = self.plan;
        for key in ["setup", "teardown"] {
            let steps = if key == "setup" { &plan.setup } else { &plan.teardown };
            self.record_list(steps, root.get(key).map(Node::items).unwrap_or_default());
        }
        let nodes = root.get("workflows").map(Node::items).unwrap_or_default();
        for (workflow, node) in plan.workflows.iter().zip(nodes) {
            for key in SECTIONS {
                let nodes = node.get(key).map(Node::items).unwrap_or_default();
                self.record_list(section(workflow, key), nodes);
            }
        }
    }

    fn record_list(&mut self, steps: &[Step], nodes: &[Node]) {
        for (step, node) in steps.iter().zip(nodes) {
            let records: &[Record] = match &step.action {
                Action::Request(request) => &request.record,
                Action::Record(records) => records,
                _ => &[],
            };
            for record in records {
                self.record_metric(&record.metric, node);
            }
            for (steps, nodes) in step.inner().into_iter().zip(inner_nodes(node)) {
                self.record_list(steps, nodes);
            }
        }
    }

    fn record_metric(&mut self, name: &str, step: &Node) {
        if self.plan.metrics.iter().any(|metric| metric.name == name) {
            return;
        }
        let entry = step.get("record").and_then(|record| record.entry(name));
        let place = entry.map_or(step.place, |entry| entry.place);
        if crate::hold::BUILT_IN.iter().any(|(built_in, _)| *built_in == name) {
            let message = format!("the metric `{name}` is built in and cannot be recorded");
            self.report(place, message, Some("add one of your own under `metrics`".into()));
            return;
        }
        let names = self.plan.metrics.iter().map(|metric| metric.name.as_str());
        let help = did_you_mean(name, names)
            .unwrap_or_else(|| format!("add it at the top: `metrics: {{ {name}: trend }}`"));
        self.report(place, format!("there is no metric `{}`", shorten(name)), Some(help));
    }
}

fn is_empty_list(node: &Node) -> bool {
    matches!(&node.value, crate::tree::Value::List(items) if items.is_empty())
}
