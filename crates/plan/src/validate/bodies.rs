//! A body and a `content-type` that contradict each other: a header of the plan or of a workflow is
//! sent with every body.

use super::Checker;
use crate::model::{Body, Request, Step, Workflow};
use crate::template::Template;
use crate::tree::{Node, Place, shorten};

const CONTENT_TYPE: &str = "content-type";

impl Checker<'_> {
    pub(super) fn type_fits(
        &mut self,
        step: &Step,
        request: &Request,
        node: &Node,
        workflow: Option<&Workflow>,
    ) {
        let (key, sent, part) = match &request.body {
            Body::Json(_) => ("json", "JSON", "json"),
            Body::Form(_) => ("form", "a form", "form-urlencoded"),
            Body::Multipart(_) => ("multipart", "parts", "multipart/form-data; boundary="),
            _ => return,
        };
        let own = given(&request.headers);
        let of_workflow = workflow.and_then(|workflow| given(&workflow.headers));
        let (value, whose) = match (own, of_workflow, given(&self.plan.headers)) {
            (Some(value), ..) => (value, "its `headers`"),
            (None, Some(value), _) => (value, "the workflow's `headers`"),
            (None, None, Some(value)) => (value, "`defaults`"),
            (None, None, None) => return,
        };
        let Some(said) = value.as_literal() else { return };
        if said.to_ascii_lowercase().contains(part) {
            return;
        }
        let place = match own {
            Some(_) => header_place(node),
            None => node.entry(key).map(|entry| entry.place),
        };
        let (name, said) = (shorten(&step.name), shorten(said));
        let message = format!(
            "`{name}` sends {sent} and says `content-type: {said}`, which comes from {whose}"
        );
        let help = format!(
            "remove the header there: `json`, `form` and `multipart` set it by themselves; another body is \
             sent by `body`, in the place of `{key}`"
        );
        self.warn(place.unwrap_or(node.place), message, help);
    }
}

fn given(headers: &[(String, Template)]) -> Option<&Template> {
    let found = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(CONTENT_TYPE));
    found.map(|(_, value)| value)
}

fn header_place(step: &Node) -> Option<Place> {
    let entries = step.get("headers")?.entries();
    let found = entries.iter().find(|entry| entry.key.eq_ignore_ascii_case(CONTENT_TYPE));
    found.map(|entry| entry.value.place)
}
