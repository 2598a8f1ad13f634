//! Names in thresholds.

use super::{Checker, all_steps};
use crate::hold::BUILT_IN;
use crate::methods::WARMUP;
use crate::model::{Action, RESERVED_TAGS, Step, Threshold};
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
            self.tags(threshold, node.get("tags"), metric.place);
            for (index, name) in threshold.exclude.iter().enumerate() {
                let place = super::item_place(node.get("exclude"), index);
                self.stage(threshold, name, place);
            }
        }
    }

    /// A tag that no step has, or never with this value.
    fn tags(&mut self, threshold: &Threshold, node: Option<&Node>, metric: Place) {
        let plan = self.plan;
        for (tag, wanted) in &threshold.select.tags {
            let place = node.and_then(|node| node.get(tag)).map_or(metric, |node| node.place);
            if RESERVED_TAGS.contains(&tag.as_str()) {
                let message = format!(
                    "a threshold cannot choose by `{tag}`, which is known of single samples only"
                );
                self.report(place, message, Some(instead_of(tag).to_owned()));
                continue;
            }
            let of_steps = |steps: &[&Step]| -> Vec<crate::template::Template> {
                let own = steps.iter().filter_map(|step| match &step.action {
                    Action::Request(request) => Some(&request.tags),
                    _ => None,
                });
                own.flatten()
                    .filter(|(key, _)| key == tag)
                    .map(|(_, value)| value.clone())
                    .collect()
            };
            let mut values = of_steps(&self.looked_at(threshold));
            let above = plan.workflows.iter().flat_map(|workflow| &workflow.tags).chain(&plan.tags);
            values.extend(above.filter(|(key, _)| key == tag).map(|(_, value)| value.clone()));
            let known: Option<Vec<&str>> = values.iter().map(|value| value.as_literal()).collect();
            // What is filled in while the test runs may be anything.
            let Some(known) = known else { continue };
            if known.contains(&wanted.as_str()) {
                continue;
            }
            let mut known = known;
            known.sort_unstable();
            known.dedup();
            let (tag, wanted) = (shorten(tag), shorten(wanted));
            let help = match known.is_empty() {
                true => format!("add it to a step: `tags: {{ {tag}: {wanted} }}`"),
                false => format!("there is {}", known.join(", ")),
            };
            let message = format!(
                "no step has the tag `{tag}` with the value `{wanted}`: nothing will be measured"
            );
            self.warn(place, message, help);
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
            if name == "checks" {
                self.checks_exist(threshold, place);
            }
            return;
        }
        let own = plan.metrics.iter().map(|metric| metric.name.as_str());
        if !name.is_empty() && !own.clone().any(|metric| metric == name) {
            let names: Vec<&str> = own.chain(BUILT_IN.iter().map(|(name, _)| *name)).collect();
            match other_name(name) {
                Some(help) => {
                    let message = format!("there is no metric `{}`", shorten(name));
                    self.report(place, message, Some(help.into()));
                }
                None => self.unknown(place, "metric", name, names),
            }
        } else if !name.is_empty() {
            self.is_recorded(threshold, place);
        }
    }

    /// The steps that a threshold looks at.
    fn looked_at(&self, threshold: &Threshold) -> Vec<&Step> {
        let plan = self.plan;
        let select = &threshold.select;
        let chosen = |workflow: &&crate::model::Workflow| {
            select.workflow.as_ref().is_none_or(|name| workflow.name == *name)
        };
        let mut steps: Vec<&Step> =
            plan.workflows.iter().filter(chosen).flat_map(all_steps).collect();
        if select.workflow.is_none() {
            plan.setup.iter().chain(&plan.teardown).for_each(|s| s.walk(&mut |s| steps.push(s)));
        }
        steps.retain(|step| select.step.as_ref().is_none_or(|name| step.name == *name));
        steps
    }

    /// A metric that no step feeds never has a value to judge.
    fn is_recorded(&mut self, threshold: &Threshold, place: Place) {
        let name = threshold.metric.as_str();
        let feeds = |step: &&Step| {
            let records = match &step.action {
                Action::Request(request) => request.record.as_slice(),
                Action::Record(records) => records.as_slice(),
                _ => &[],
            };
            records.iter().any(|record| record.metric == name)
        };
        let steps = self.looked_at(threshold);
        // A step or workflow that does not exist is reported by itself.
        if steps.is_empty() || steps.iter().any(feeds) {
            return;
        }
        let who = match (&threshold.select.step, &threshold.select.workflow) {
            (Some(step), _) => format!("the step `{}` does not record it", shorten(step)),
            (None, Some(workflow)) => format!("no step of `{}` records it", shorten(workflow)),
            (None, None) => "no step records it".to_owned(),
        };
        let help = format!("add `record: {{ {name}: VALUE }}` to a step, or remove the threshold");
        self.report(place, format!("`{name}` has a threshold, and {who}"), Some(help));
    }

    /// The same for `checks` where there is none.
    fn checks_exist(&mut self, threshold: &Threshold, place: Place) {
        let checked = |step: &&Step| match &step.action {
            Action::Request(request) => !request.checks.is_empty(),
            _ => false,
        };
        let steps = self.looked_at(threshold);
        if steps.is_empty() || steps.iter().any(checked) {
            return;
        }
        let who = match (&threshold.select.step, &threshold.select.workflow) {
            (Some(step), _) => format!("the step `{}` has no check", shorten(step)),
            (None, Some(workflow)) => format!("no step of `{}` has a check", shorten(workflow)),
            (None, None) => "no step has a check".to_owned(),
        };
        let help = "add one to a request: `check: { status: 200 }`";
        self.report(place, format!("`checks` has a threshold, and {who}"), Some(help.into()));
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
        let has = |workflow: &&crate::model::Workflow| {
            all_steps(workflow).iter().any(|step| step.name == name)
        };
        if let (Some(chosen), Some(other)) =
            (&threshold.select.workflow, plan.workflows.iter().find(has))
        {
            let (name, chosen, other) = (shorten(name), shorten(chosen), shorten(&other.name));
            let message = format!("the workflow `{chosen}` has no step `{name}`; `{other}` has it");
            let help = format!("write `workflow: {other}`, or leave it out");
            return self.report(place, message, Some(help));
        }
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

/// What to do where a tag of single samples was to choose.
fn instead_of(tag: &str) -> &'static str {
    match tag {
        "expected_response" | "error" | "error_code" => {
            "leave it out, and say how many may fail: `{ metric: http_req_failed, hold: rate < 1% }`"
        }
        "status" => {
            "expect the status in the step, `check: { status: 200 }`, and say how many must have it: \
             `{ metric: checks, hold: rate > 99% }`"
        }
        "check" => "choose by the step that has the check: `{ metric: checks, step: NAME, ... }`",
        _ => {
            "choose by `step: NAME` or `workflow: NAME`, or by a tag of your own: `tags: { part: cart }` in steps"
        }
    }
}

/// What others call a metric, and what it is called here.
fn other_name(name: &str) -> Option<&'static str> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    Some(match plain.to_ascii_lowercase().as_str() {
        "responsetime" | "duration" | "requestduration" | "httpduration" | "elapsed" | "time" => {
            "did you mean `http_req_duration`, or `latency`, which runs from the intended start?"
        }
        "errorrate" | "errors" | "failures" | "failed" | "failurerate" | "fails" => {
            "did you mean `http_req_failed` (with `rate < 1%`)?"
        }
        "rps" | "requests" | "throughput" | "reqs" | "requestrate" => {
            "did you mean `http_reqs` (with `rate > 100/s` or `count > 100`)?"
        }
        _ => return None,
    })
}
