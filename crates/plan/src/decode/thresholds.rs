//! Thresholds.

use super::Context;
use crate::hold::{self, BUILT_IN, Measure};
use crate::model::{Aggregation, Comparison, Hold, Metric, Selector, Threshold};
use crate::tree::Node;

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
    let metric = text("metric").unwrap_or_default();
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
        select: Selector {
            step: text("step"),
            workflow: text("workflow"),
            stage: text("stage"),
            tags: tags.iter().map(tag).collect(),
        },
        hold: hold.unwrap_or(nothing),
        text: condition,
        abort: node.get("abort").and_then(Node::flag).unwrap_or(false),
        after: cx.duration(node.get("after")).unwrap_or_default(),
        over,
        exclude: cx.names(node.get("exclude")),
    }
}
