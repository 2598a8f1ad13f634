//! Thresholds.

use super::Context;
use crate::hold::{self, BUILT_IN, Measure};
use crate::model::{Aggregation, Comparison, Hold, Metric, Selector, Threshold};
use crate::tree::{Node, shorten};

/// What a metric measures: built in, or the plan's own.
pub fn measure(name: &str, own: &[Metric]) -> Option<Measure> {
    let built_in = BUILT_IN.iter().find(|(built_in, _)| *built_in == name);
    built_in.map(|(_, measure)| *measure).or_else(|| {
        let metric = own.iter().find(|metric| metric.name == name)?;
        Some(Measure { kind: metric.kind, time: metric.time, per_step: true })
    })
}

pub fn threshold(cx: &Context<'_>, node: &Node, own: &[Metric]) -> Threshold {
    let text = |key: &str| node.get(key).and_then(Node::text).map(str::to_owned);
    let (metric, mut select) = selected(cx, node);
    let condition = text("hold").unwrap_or_default();
    let hold = match node.get("hold").filter(|hold| hold.text().is_some()) {
        Some(place) => hold::parse(&condition, measure(&metric, own)).map_err(|wrong| {
            cx.report(place.place, wrong.message).maybe_help(wrong.help);
        }),
        None => Err(()),
    };
    let nothing = Hold { aggregation: Aggregation::Count, op: Comparison::Equal, value: 0.0 };
    let over = cx.duration(node.get("over"));
    cx.not_zero(node.get("over"), over);
    let tags = node.get("tags").map(Node::entries).unwrap_or_default();
    let tag = |entry: &crate::tree::Entry| {
        (entry.key.clone(), entry.value.text().unwrap_or_default().to_owned())
    };
    Threshold {
        metric,
        select: {
            select.tags.extend(tags.iter().map(tag));
            select
        },
        hold: hold.unwrap_or(nothing),
        text: condition,
        abort: node.get("abort").and_then(Node::flag).unwrap_or(false),
        after: cx.duration(node.get("after")).unwrap_or_default(),
        over,
        exclude: cx.names(node.get("exclude")),
    }
}

/// The metric and whose values of it: by keys of their own, or as the summary prints it and k6
/// writes it, `http_req_duration{step:login}`.
fn selected(cx: &Context<'_>, node: &Node) -> (String, Selector) {
    let text = |key: &str| node.get(key).and_then(Node::text).map(str::to_owned);
    let mut select = Selector {
        step: text("step"),
        workflow: text("workflow"),
        stage: text("stage"),
        tags: Vec::new(),
    };
    let written = text("metric").unwrap_or_default();
    let Some((metric, rest)) = written.split_once('{') else {
        return (written, select);
    };
    let place = node.get("metric").unwrap_or(node).place;
    let parts = rest.trim_end().strip_suffix('}').unwrap_or_default();
    for part in parts.split(',') {
        let Some((key, value)) = part.split_once(':') else {
            cx.report(place, format!("`{}` selects nothing", shorten(part.trim())))
                .help("write `http_req_duration{step:login}`, or give `step: login` by itself");
            continue;
        };
        let (key, value) = (key.trim(), value.trim().trim_matches(['"', '\'']).to_owned());
        let known = match key {
            // k6 calls it so: what a request is counted under.
            "step" | "name" => &mut select.step,
            "workflow" | "scenario" => &mut select.workflow,
            "stage" => &mut select.stage,
            _ => {
                select.tags.push((key.to_owned(), value));
                continue;
            }
        };
        if known.is_some() {
            cx.report(place, format!("`{key}` is said twice")).help("once is enough");
        }
        *known = Some(value);
    }
    (metric.trim().to_owned(), select)
}
