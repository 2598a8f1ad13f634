//! Names in thresholds.

use super::{Checker, all_steps};
use crate::hold::BUILT_IN;
use crate::methods::WARMUP;
use crate::model::{Action, Step, Threshold};
use crate::tree::{Node, Place, shorten};

impl Checker<'_> {
    pub fn thresholds(&mut self, nodes: &[Node]) {
        let plan = self.plan;
        for (threshold, node) in plan.thresholds.iter().zip(nodes) {
            // `http_req_duration{step:login}` says it all in one.
            let metric = node.get("metric").unwrap_or(node);
            let place = |key: &str| node.get(key).unwrap_or(metric).place;
            self.metric(threshold, place("metric"), place("step"));
            if let Some(name) = &threshold.select.workflow
                && !plan.workflows.iter().any(|workflow| workflow.name == *name)
            {
                let names: Vec<&str> = plan.workflows.iter().map(|w| w.name.as_str()).collect();
                self.unknown(place("workflow"), "workflow", name, names);
            }
            if let Some(name) = &threshold.select.step {
                self.selected_step(threshold, name, place("step"));
            }
            if let Some(name) = &threshold.select.stage {
                self.stage(threshold, name, place("stage"));
            }
            for (index, name) in threshold.exclude.iter().enumerate() {
                let place = super::item_place(node.get("exclude"), index);
                self.stage(threshold, name, place);
            }
        }
    }

    fn metric(&mut self, threshold: &Threshold, place: Place, step_place: Place) {
        let plan = self.plan;
        let name = threshold.metric.as_str();
        let built_in = BUILT_IN.iter().find(|(built_in, _)| *built_in == name);
        if let Some((_, measure)) = built_in {
            if !measure.per_step && threshold.select.step.is_some() {
                let message = format!("`{name}` is not measured per step");
                self.report(step_place, message, Some("remove `step`".into()));
            }
            return;
        }
        let own = plan.metrics.iter().map(|metric| metric.name.as_str());
        if !name.is_empty() && !own.clone().any(|metric| metric == name) {
            let names: Vec<&str> = own.chain(BUILT_IN.iter().map(|(name, _)| *name)).collect();
            self.unknown(place, "metric", name, names);
        }
    }

    fn selected_step(&mut self, threshold: &Threshold, name: &str, place: Place) {
        let plan = self.plan;
        let chosen = |workflow: &&crate::model::Workflow| {
            threshold.select.workflow.as_ref().is_none_or(|name| workflow.name == *name)
        };
        let in_workflows = plan.workflows.iter().filter(chosen).flat_map(all_steps);
        let mut steps: Vec<&Step> = in_workflows.collect();
        if threshold.select.workflow.is_none() {
            plan.setup.iter().chain(&plan.teardown).for_each(|s| s.walk(&mut |s| steps.push(s)));
        }
        let measured =
            |step: &&&Step| matches!(step.action, Action::Request(_) | Action::Record(_));
        if steps.iter().filter(measured).any(|step| step.name == name) {
            return;
        }
        if steps.iter().any(|step| step.name == name) {
            let message = format!("the step `{}` measures nothing", shorten(name));
            return self.report(place, message, Some("name a request".into()));
        }
        let names: Vec<&str> = steps.iter().filter(measured).map(|s| s.name.as_str()).collect();
        self.unknown(place, "step", name, names);
    }

    fn stage(&mut self, threshold: &Threshold, name: &str, place: Place) {
        let plan = self.plan;
        let chosen = threshold.select.workflow.as_deref();
        let workflows =
            plan.workflows.iter().filter(|workflow| chosen.is_none_or(|c| workflow.name == c));
        let labels: Vec<String> =
            workflows.flat_map(|workflow| workflow.load.stage_labels()).collect();
        if labels.iter().any(|label| label == name) {
            return;
        }
        if name == WARMUP {
            let help = "add `warmup: 5s` to the `load` of a workflow, or remove it here";
            return self.report(place, "no workflow has a warm-up", Some(help.into()));
        }
        self.unknown(place, "stage", name, labels.iter().map(String::as_str).collect::<Vec<_>>());
    }
}
