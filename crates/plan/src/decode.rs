//! The checked tree into the model.
//!
//! Decoding never stops: what the shape check has reported is replaced by something harmless, so
//! that the rest of the file is looked at too; such a plan is not handed out. Lists of the model
//! have an item for each item of the file, so that later checks can walk both side by side.

mod body;
mod certain;
mod checks;
mod conditions;
mod context;
mod data;
mod http;
mod load;
mod request;
mod stages;
mod steps;
mod thresholds;
mod tls;

use std::num::NonZeroU32;

use crate::model::{Metric, MetricKind, OnFailure, Plan, Priority, Provide, Use, Workflow};
use crate::template::{Escape, Template};
use crate::tree::{Node, shorten};

pub use context::{Context, RefUse};
pub use steps::METHODS;

pub fn plan(cx: &Context<'_>, root: &Node) -> Plan {
    let name = root.get("name").and_then(Node::text).unwrap_or_default().to_owned();
    let target = root.get("target").map(|node| http::target(cx, node));
    let (http, headers) = http::defaults(cx, root.get("defaults"));
    let metrics = map(root, "metrics", |entry, value| metric(cx, entry, value));
    let data = map(root, "data", |name, node| data::data_set(cx, name, node));
    let vars = cx.templates(root.get("vars"), Escape::None);
    cx.check_names(root.get("vars"), "variable");
    let tags = cx.shown_templates(root.get("tags"), Escape::None);
    cx.end_loose(None);
    cx.begin_workflow();
    let setup = steps::list(cx, root.get("setup"));
    let teardown = steps::list(cx, root.get("teardown"));
    let workflows = match root.get("workflows") {
        Some(list) => list
            .items()
            .iter()
            .enumerate()
            .map(|(index, node)| workflow(cx, index, node, &http))
            .collect(),
        None => Vec::new(),
    };
    let thresholds = match root.get("thresholds") {
        Some(list) => {
            list.items().iter().map(|node| thresholds::threshold(cx, node, &metrics)).collect()
        }
        None => Vec::new(),
    };
    let timeout = cx.duration(root.get("timeout"));
    cx.not_zero(root.get("timeout"), timeout);
    Plan {
        name,
        target,
        http,
        headers,
        vars,
        data,
        metrics,
        tags,
        setup,
        teardown,
        workflows,
        thresholds,
        timeout,
        base_dir: cx.base_dir.to_owned(),
        files: cx.files.take(),
        warnings: Vec::new(),
    }
}

fn map<T>(root: &Node, key: &str, mut decode: impl FnMut(&str, &Node) -> T) -> Vec<T> {
    let entries = root.get(key).map(Node::entries).unwrap_or_default();
    entries.iter().map(|entry| decode(&entry.key, &entry.value)).collect()
}

fn metric(cx: &Context<'_>, name: &str, node: &Node) -> Metric {
    let kind = node.get("kind").unwrap_or(node).text().unwrap_or_default().to_ascii_lowercase();
    let kind = match kind.as_str() {
        "gauge" => MetricKind::Gauge,
        "rate" => MetricKind::Rate,
        "trend" => MetricKind::Trend,
        _ => MetricKind::Counter,
    };
    let time = node.get("time").and_then(Node::flag).unwrap_or(false);
    if time && kind != MetricKind::Trend {
        cx.report(node.place, "only a trend has times").help("remove `time`, or write kind: trend");
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || name.len() > 128 || !name.chars().all(plain) {
        let message = format!("`{}` is not a name for a metric", shorten(name));
        cx.report(node.place, message).help("use up to 128 letters, digits and `_`");
    }
    if crate::hold::BUILT_IN.iter().any(|(built_in, _)| *built_in == name) {
        cx.report(node.place, format!("the metric `{name}` is built in"))
            .help("give your metric another name");
    }
    Metric { name: name.to_owned(), kind, time }
}

fn core_count(cx: &Context<'_>, workflow: &Node, node: &Node) -> Option<NonZeroU32> {
    let count = node.count().and_then(|count| u32::try_from(count).ok())?;
    if count == 0 {
        cx.report(node.place, "`cores` is at least 1").help("leave it out to take what is needed");
    }
    if workflow.get("priority").is_some() {
        cx.report(node.place, "a workflow has `cores` or a `priority`, not both")
            .help("`cores` is a number, `priority` a share; keep the one that you mean");
    }
    NonZeroU32::new(count)
}

fn workflow(
    cx: &Context<'_>,
    index: usize,
    node: &Node,
    defaults: &crate::model::HttpOptions,
) -> Workflow {
    cx.begin_workflow();
    let text = |key: &str| node.get(key).and_then(Node::text).unwrap_or_default();
    let priority = match text("priority").to_ascii_lowercase().as_str() {
        "low" => Priority::Low,
        "normal" => Priority::Normal,
        "high" => Priority::High,
        "exclusive" => Priority::Exclusive,
        _ => Priority::Auto,
    };
    let cores = node.get("cores").and_then(|cores| core_count(cx, node, cores));
    let http = http::refine(cx, node.get("http"), defaults);
    let headers = http::headers(cx, node.get("headers"));
    let vars = cx.templates(node.get("vars"), Escape::None);
    cx.check_names(node.get("vars"), "variable");
    let tags = cx.shown_templates(node.get("tags"), Escape::None);
    let uses = map(node, "use", |key, value| take(cx, key, value));
    cx.end_loose(Some(index));
    Workflow {
        name: text("name").to_owned(),
        priority,
        cores,
        depends_on: cx.names(node.get("depends_on")),
        load: load::load(cx, node.get("load")),
        http,
        headers,
        vars,
        tags,
        setup: steps::list(cx, node.get("setup")),
        vu_setup: steps::list(cx, node.get("vu_setup")),
        steps: steps::list(cx, node.get("steps")),
        vu_teardown: steps::list(cx, node.get("vu_teardown")),
        teardown: steps::list(cx, node.get("teardown")),
        concurrent: node.get("concurrent").and_then(Node::flag).unwrap_or(false),
        on_failure: on_failure(node).unwrap_or_default(),
        provide: map(node, "provide", |key, value| give(cx, key, value)),
        uses,
    }
}

fn on_failure(node: &Node) -> Option<OnFailure> {
    match node.get("on_failure")?.text()?.to_ascii_lowercase().as_str() {
        "end-iteration" => Some(OnFailure::EndIteration),
        _ => Some(OnFailure::Continue),
    }
}

fn give(cx: &Context<'_>, key: &str, node: &Node) -> Provide {
    let text = |name: &str| node.get(name).and_then(Node::text);
    Provide {
        key: key.to_owned(),
        from: text("from").unwrap_or(key).to_owned(),
        to: cx.names(Some(counterparts(node, "to"))),
        collect: node.get("collect").and_then(Node::flag).unwrap_or(false),
    }
}

fn take(cx: &Context<'_>, key: &str, node: &Node) -> Use {
    let default = node.get("default").map(|node| cx.template(node, Escape::None));
    if default.as_ref().is_some_and(|default| default.as_literal().is_none()) {
        let place = node.get("default").unwrap_or(node).place;
        cx.report(place, "a default is fixed: only `${env.NAME}` can stand in it").done();
    }
    Use {
        key: key.to_owned(),
        from: cx.names(Some(counterparts(node, "from"))),
        default: default.as_ref().and_then(Template::as_literal).map(str::to_owned),
    }
}

/// The names of a `provide` or `use`: under their key, or the value itself in the short form.
pub fn counterparts<'a>(node: &'a Node, key: &str) -> &'a Node {
    match node.entries() {
        [] => node,
        _ => node.get(key).unwrap_or(node),
    }
}
