//! Requests that contradict themselves or what stands above them: legal, and hardly meant.

use super::{Checker, SECTIONS, inner_nodes, section};
use crate::model::{Action, Body, CheckKind, Request, StatusRange, Step, Workflow};
use crate::tree::{Node, shorten};

/// The statuses by which a server sends its caller elsewhere.
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

impl Checker<'_> {
    pub fn requests(&mut self, root: &Node, nodes: &[Node]) {
        let plan = self.plan;
        let items = |node: &Node, key: &str| -> Vec<Node> {
            node.get(key).map(|list| list.items().to_vec()).unwrap_or_default()
        };
        for (key, steps) in [("setup", &plan.setup), ("teardown", &plan.teardown)] {
            self.requests_of(steps, &items(root, key), None);
        }
        for (workflow, node) in plan.workflows.iter().zip(nodes) {
            for key in SECTIONS {
                self.requests_of(section(workflow, key), &items(node, key), Some(workflow));
            }
        }
    }

    fn requests_of(&mut self, steps: &[Step], nodes: &[Node], workflow: Option<&Workflow>) {
        for (step, node) in steps.iter().zip(nodes) {
            if let Action::Request(request) = &step.action {
                self.type_fits(step, request, node, workflow);
                self.redirect_is_seen(step, request, node, workflow);
                self.json_says_its_type(step, request, node, workflow);
            }
            for (steps, nodes) in step.inner().into_iter().zip(inner_nodes(node)) {
                self.requests_of(steps, nodes, workflow);
            }
        }
    }

    /// JSON in `body`, which is sent as it stands: many servers read it only if it says its type.
    fn json_says_its_type(
        &mut self,
        step: &Step,
        request: &Request,
        node: &Node,
        workflow: Option<&Workflow>,
    ) {
        let Body::Raw(text) = &request.body else { return };
        let of_workflow = workflow.map_or(&[][..], |workflow| &workflow.headers);
        let mut headers = request.headers.iter().chain(of_workflow).chain(&self.plan.headers);
        let is_json = |text: &str| {
            let text = text.trim();
            text.starts_with(['{', '[']) && serde_json::from_str::<serde_json::Value>(text).is_ok()
        };
        if headers.any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
            || !text.as_literal().is_some_and(is_json)
        {
            return;
        }
        let name = shorten(&step.name);
        let message = format!("`{name}` sends JSON, and no `content-type` that says so");
        let help = "write it as `json: { ... }`, which sets the header, or set it in `headers`";
        let place = node.entry("body").map_or(node.place, |entry| entry.place);
        self.warn(place, message, help.to_owned());
    }

    /// A check that wants a redirect while redirects are followed: it sees the last answer only.
    fn redirect_is_seen(
        &mut self,
        step: &Step,
        request: &Request,
        node: &Node,
        workflow: Option<&Workflow>,
    ) {
        let http = workflow.map_or(&self.plan.http, |workflow| &workflow.http);
        if request.redirects.unwrap_or(http.redirects) == 0 {
            return;
        }
        let is_redirect =
            |range: &StatusRange| range.from == range.to && REDIRECTS.contains(&range.from);
        let wanted = request.checks.iter().find_map(|check| match &check.kind {
            CheckKind::Status(ranges) if ranges.iter().all(is_redirect) => ranges.first(),
            _ => None,
        });
        let Some(StatusRange { from: status, .. }) = wanted else { return };
        let name = shorten(&step.name);
        let message = format!(
            "`{name}` wants status {status}, but redirects are followed, and the check is asked of the last answer"
        );
        let help = "to test the redirect itself: `redirects: false` in this step".to_owned();
        let place = node.entry("check").map_or(node.place, |entry| entry.place);
        self.warn(place, message, help);
    }
}
