//! Which workflows run together: layers of the dependency graph, and what a workflow is.
//!
//! ```text
//! Setup      LoadTest          layer 0: no dependencies
//!               |    \
//!            Validate |        layer 1
//!                  \  |
//!                  Report      layer 2: later than *all* it depends on (longest path)
//! ```
//!
//! Shortest paths would put `Report` beside `Validate`, which it needs.

use std::collections::BTreeMap;

use crate::model::{Action, Plan, Step, Workflow, WorkflowClass};

/// The plan's workflows by layer, as indexes into `plan.workflows`, in the order of the file.
///
/// A dependency that does not exist is ignored; a plan that was read has none.
pub fn layers(plan: &Plan) -> Vec<Vec<usize>> {
    let numbers = match layer_numbers(&dependencies(&plan.workflows)) {
        Ok(numbers) => numbers,
        // Plans that were read have no cycles; one made by hand runs in the order given.
        Err(_) => (0..plan.workflows.len()).collect(),
    };
    let count = numbers.iter().max().map_or(0, |last| last + 1);
    let mut layers = vec![Vec::new(); count];
    for (workflow, layer) in numbers.into_iter().enumerate() {
        layers[layer].push(workflow);
    }
    layers
}

/// For each workflow the indexes of those it depends on.
pub fn dependencies(workflows: &[Workflow]) -> Vec<Vec<usize>> {
    let index: BTreeMap<&str, usize> =
        workflows.iter().enumerate().rev().map(|(i, w)| (w.name.as_str(), i)).collect();
    let known =
        |names: &[String]| names.iter().filter_map(|n| index.get(n.as_str())).copied().collect();
    workflows.iter().map(|workflow| known(&workflow.depends_on)).collect()
}

/// The layer of each node, or a cycle: each of its nodes depends on the next, the last on the
/// first.
pub fn layer_numbers(dependencies: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut dependents = vec![Vec::new(); dependencies.len()];
    let mut waiting: Vec<usize> = dependencies.iter().map(Vec::len).collect();
    for (node, needs) in dependencies.iter().enumerate() {
        needs.iter().for_each(|need| dependents[*need].push(node));
    }
    let mut numbers = vec![0; dependencies.len()];
    let mut ready: Vec<usize> = (0..waiting.len()).filter(|node| waiting[*node] == 0).collect();
    let mut done = 0;
    while let Some(node) = ready.pop() {
        done += 1;
        for dependent in &dependents[node] {
            numbers[*dependent] = numbers[*dependent].max(numbers[node] + 1);
            waiting[*dependent] -= 1;
            if waiting[*dependent] == 0 {
                ready.push(*dependent);
            }
        }
    }
    if done == dependencies.len() { Ok(numbers) } else { Err(cycle(dependencies, &waiting)) }
}

/// Nodes still waiting all wait for another of them: following that must come back.
fn cycle(dependencies: &[Vec<usize>], waiting: &[usize]) -> Vec<usize> {
    let mut path: Vec<usize> = Vec::new();
    let mut next = waiting.iter().position(|count| *count > 0);
    while let Some(node) = next {
        if let Some(start) = path.iter().position(|seen| *seen == node) {
            return path.split_off(start);
        }
        path.push(node);
        next = dependencies[node].iter().copied().find(|need| waiting[*need] > 0);
    }
    path
}

/// All that must have ended before each workflow begins.
pub fn ancestors(dependencies: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let all = |start: usize| {
        let mut seen = vec![false; dependencies.len()];
        let mut open = dependencies[start].clone();
        let mut found = Vec::new();
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut seen[node], true) {
                found.push(node);
                open.extend(&dependencies[node]);
            }
        }
        found
    };
    (0..dependencies.len()).map(all).collect()
}

/// A test workflow has at least one request in its `steps`, at whatever depth (EXEC-2 to EXEC-5).
///
/// Setup and teardown do not count: they run once, and need no share of the cores.
pub fn classify(workflow: &Workflow) -> WorkflowClass {
    if workflow.steps.iter().any(has_request) {
        WorkflowClass::Test
    } else {
        WorkflowClass::NonTest
    }
}

fn has_request(step: &Step) -> bool {
    match &step.action {
        Action::Request(_) => true,
        Action::Group { steps, .. } | Action::Repeat { steps, .. } => steps.iter().any(has_request),
        Action::Choose(branches) => {
            branches.iter().any(|branch| branch.steps.iter().any(has_request))
        }
        Action::Think(_) | Action::Set(_) | Action::Record(_) => false,
    }
}

#[cfg(test)]
mod tests;
