//! Thresholds.

use super::Context;
use crate::hold::{self, BUILT_IN, Measure};
use crate::model::{Aggregation, Comparison, Hold, Metric, Selector, Threshold};
use crate::tree::{Node, Place, shorten};

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
    if let (Ok(hold), Some(measure)) = (&hold, measure(&metric, own))
        && let Some(help) = hold::always(&metric, measure.kind, hold)
    {
        let place = node.get("hold").unwrap_or(node).place;
        let message = format!("`{}` always holds, whatever is measured", shorten(condition.trim()));
        cx.report(place, message).help(help);
    }
    if let Ok(hold) = &hold {
        turned_round(cx, node, &metric, hold, &condition);
    }
    let is_time = measure(&metric, own).is_some_and(|measure| measure.time);
    let nothing = Hold { aggregation: Aggregation::Count, op: Comparison::Equal, value: 0.0 };
    let over = cx.duration(node.get("over"));
    cx.not_zero(node.get("over"), over);
    let tags = node.get("tags").map(Node::entries).unwrap_or_default();
    for entry in tags {
        let value = entry.value.text().unwrap_or_default().to_owned();
        choose(cx, &mut select, &entry.key, value, entry.place);
    }
    Threshold {
        metric,
        select,
        hold: hold.unwrap_or(nothing),
        text: with_unit(condition, is_time),
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
        choose(cx, &mut select, key, value, place);
    }
    (metric.trim().to_owned(), select)
}

/// Chooses by a tag. Some are known by keys of their own, and by k6's names for them.
fn choose(cx: &Context<'_>, select: &mut Selector, key: &str, value: String, place: Place) {
    let known = match key {
        // k6 calls it so: what a request is counted under.
        "step" | "name" => &mut select.step,
        "workflow" | "scenario" => &mut select.workflow,
        "stage" => &mut select.stage,
        _ => return select.tags.push((key.to_owned(), value)),
    };
    if known.is_some() {
        cx.report(place, format!("`{key}` is said twice")).help("once is enough");
    }
    *known = Some(value);
}

/// `p(95) < 200` of a time: what is shown later has the unit that it was read with.
fn with_unit(condition: String, is_time: bool) -> String {
    let ends_in_number = condition.trim_end().ends_with(|c: char| c.is_ascii_digit());
    match is_time && ends_in_number {
        true => format!("{}ms", condition.trim_end()),
        false => condition,
    }
}

/// `http_req_failed: rate > 1%` demands failures; the other way round was meant.
fn turned_round(cx: &Context<'_>, node: &Node, metric: &str, hold: &Hold, condition: &str) {
    use Comparison::{Greater, GreaterOrEqual, Less, LessOrEqual};
    let (demands, right) = match (metric, hold.op) {
        ("http_req_failed", Greater | GreaterOrEqual) => ("requests that fail", '<'),
        ("checks", Less | LessOrEqual) => ("checks that fail", '>'),
        ("dropped_iterations", Greater | GreaterOrEqual) => ("iterations that are dropped", '<'),
        _ => return,
    };
    // "However many": said on purpose, see `always`.
    if metric == "checks" && hold.op == LessOrEqual && hold.value >= 1.0 {
        return;
    }
    let condition = condition.trim();
    let meant: String =
        condition.chars().map(|c| if matches!(c, '<' | '>') { right } else { c }).collect();
    let place = node.get("hold").unwrap_or(node).place;
    let mut help = format!("did you mean `{}`?", shorten(&meant));
    if metric != "dropped_iterations" {
        help.push_str(
            " A bound on this side does not say how many may fail: those that do fail the run",
        );
    }
    cx.warn(place, format!("`{}` demands {demands}", shorten(condition))).help(help);
}
