//! Dependencies of workflows (`depends_on`) and of steps (`needs`).

use super::{Checker, SECTIONS, all_steps, inner_nodes, item_place, section};
use crate::layers::{dependencies, layer_numbers};
use crate::model::{Action, Step};
use crate::tree::{Node, shorten};

impl Checker<'_> {
    pub fn graph(&mut self, nodes: &[Node]) {
        let plan = self.plan;
        let names = || plan.workflows.iter().map(|workflow| workflow.name.as_str());
        for (workflow, node) in plan.workflows.iter().zip(nodes) {
            for (index, name) in workflow.depends_on.iter().enumerate() {
                let place = item_place(node.get("depends_on"), index);
                if *name == workflow.name {
                    let message = format!("the workflow `{}` depends on itself", shorten(name));
                    self.report(place, message, Some("remove it from `depends_on`".into()));
                } else if !names().any(|known| known == name) {
                    let others: Vec<&str> = names().filter(|n| *n != workflow.name).collect();
                    self.unknown(place, "workflow", name, others);
                }
            }
        }
        let mut graph = dependencies(&plan.workflows);
        // Reported above, and no cycle to print.
        graph.iter_mut().enumerate().for_each(|(own, needs)| needs.retain(|need| *need != own));
        while let Err(cycle) = layer_numbers(&graph) {
            let names: Vec<&str> =
                cycle.iter().map(|index| plan.workflows[*index].name.as_str()).collect();
            let place = nodes.get(cycle[0]).and_then(|node| node.get("depends_on"));
            let place = place.or(nodes.get(cycle[0])).map(|node| node.place).unwrap_or_default();
            self.cycle(place, "workflows", &names);
            graph[cycle[0]].clear();
        }
        for (index, (workflow, node)) in plan.workflows.iter().zip(nodes).enumerate() {
            for key in SECTIONS {
                let concurrent = key == "steps" && workflow.concurrent;
                let nodes = node.get(key).map(Node::items).unwrap_or_default();
                self.needs(section(workflow, key), nodes, concurrent, Some(index));
            }
        }
    }

    /// Steps of the plan's own `setup` and `teardown` have no workflow.
    pub fn needs(
        &mut self,
        steps: &[Step],
        nodes: &[Node],
        concurrent: bool,
        workflow: Option<usize>,
    ) {
        for (step, node) in steps.iter().zip(nodes) {
            for (index, name) in step.needs.iter().flatten().enumerate() {
                let place = item_place(node.get("needs"), index);
                if *name == step.name {
                    let message = format!("the step `{}` needs itself", shorten(name));
                    self.report(place, message, Some("remove it from `needs`".into()));
                } else if !steps.iter().any(|other| other.name == *name) {
                    self.unknown_need(name, place, steps, workflow);
                }
            }
            let inside_concurrent = matches!(step.action, Action::Group { concurrent: true, .. });
            for (steps, nodes) in step.inner().into_iter().zip(inner_nodes(node)) {
                self.needs(steps, nodes, inside_concurrent, workflow);
            }
        }
        let mut graph = step_graph(steps, concurrent);
        graph.iter_mut().enumerate().for_each(|(own, needs)| needs.retain(|need| *need != own));
        while let Err(cycle) = layer_numbers(&graph) {
            let names: Vec<&str> = cycle.iter().map(|index| steps[*index].name.as_str()).collect();
            let explicit = cycle.iter().copied().find(|index| steps[*index].needs.is_some());
            let at = explicit.unwrap_or(cycle[0]);
            let place = nodes.get(at).map(|node| node.get("needs").unwrap_or(node).place);
            self.cycle(place.unwrap_or_default(), "steps", &names);
            graph[at].clear();
        }
    }

    fn cycle(&mut self, place: crate::tree::Place, what: &str, names: &[&str]) {
        let first = names.first().copied().unwrap_or_default();
        let path = names.iter().chain([&first]).copied().collect::<Vec<_>>().join(" -> ");
        let message = format!("these {what} wait for each other: {path}");
        self.report(place, message, Some("remove one of the dependencies".into()));
    }

    fn unknown_need(
        &mut self,
        name: &str,
        place: crate::tree::Place,
        siblings: &[Step],
        workflow: Option<usize>,
    ) {
        let plan = self.plan;
        let has = |index: usize| all_steps(&plan.workflows[index]).iter().any(|s| s.name == *name);
        if workflow.is_some_and(has) {
            let message = format!("the step `{}` is in another list of steps", shorten(name));
            let help = "`needs` names steps of the same list; name the group that holds it";
            return self.report(place, message, Some(help.into()));
        }
        let elsewhere = (0..plan.workflows.len()).find(|index| has(*index));
        if let Some(index) = elsewhere {
            let other = &plan.workflows[index].name;
            let message = format!("the step `{}` is in the workflow `{other}`", shorten(name));
            let help = "workflows are islands: order them with `depends_on`, and hand values over \
                        with `provide` and `use`";
            return self.report(place, message, Some(help.into()));
        }
        let names: Vec<&str> = siblings.iter().map(|step| step.name.as_str()).collect();
        self.unknown(place, "step", name, names);
    }
}

/// What each step of a list waits for (R14): its `needs`; without any, the step above it, or
/// nothing in a concurrent list.
pub fn step_graph(steps: &[Step], concurrent: bool) -> Vec<Vec<usize>> {
    let position = |name: &String| steps.iter().position(|step| step.name == *name);
    let needs = |(index, step): (usize, &Step)| match &step.needs {
        Some(names) => names.iter().filter_map(position).collect(),
        None if concurrent || index == 0 => Vec::new(),
        None => vec![index - 1],
    };
    steps.iter().enumerate().map(needs).collect()
}
