//! Steps: which kind each is, and whether its keys belong to that kind.

use super::conditions::condition;
use super::{Context, request};
use crate::model::{Action, Branch, Record, Span, Step};
use crate::template::{Escape, is_name};
use crate::tree::{Entry, Node, shorten};
use crate::units;

pub const METHODS: [&str; 7] = ["get", "post", "put", "patch", "delete", "head", "options"];

/// Keys of requests besides the method.
const REQUEST_KEYS: [&str; 15] = [
    "query",
    "headers",
    "json",
    "form",
    "multipart",
    "body",
    "file",
    "render",
    "auth",
    "timeout",
    "redirects",
    "tags",
    "extract",
    "check",
    "on_failure",
];

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Request,
    Think,
    Set,
    Record,
    Group,
    Repeat,
    Choose,
}

pub fn list(cx: &Context<'_>, node: Option<&Node>) -> Vec<Step> {
    let nodes = node.map(Node::items).unwrap_or_default();
    nodes.iter().enumerate().map(|(number, node)| step(cx, node, &nodes[number + 1..])).collect()
}

fn step(cx: &Context<'_>, node: &Node, after: &[Node]) -> Step {
    let kind = kind(cx, node, after);
    let name = name(cx, node, kind);
    cx.in_step(&name, node.place, || {
        if let Some(kind) = kind {
            unfitting_keys(cx, node, kind);
        }
        Step {
            name: name.clone(),
            needs: node.get("needs").map(|needs| cx.names(Some(needs))),
            when: node.get("when").and_then(|node| condition(cx, node)),
            when_text: node.get("when").and_then(Node::text).map(str::to_owned),
            action: match kind {
                Some(kind) => action(cx, node, kind),
                None => Action::Set(Vec::new()),
            },
        }
    })
}

/// The keys that say what a step does, with the kind each means.
fn deciding(entry: &Entry) -> Option<Kind> {
    match entry.key.as_str() {
        "request" => Some(Kind::Request),
        "think" => Some(Kind::Think),
        "set" => Some(Kind::Set),
        "group" => Some(Kind::Group),
        "repeat" => Some(Kind::Repeat),
        "choose" => Some(Kind::Choose),
        key if METHODS.contains(&key) => Some(Kind::Request),
        _ => None,
    }
}

fn kind(cx: &Context<'_>, node: &Node, after: &[Node]) -> Option<Kind> {
    let found: Vec<&Entry> =
        node.entries().iter().filter(|entry| deciding(entry).is_some()).collect();
    if let [first, second, ..] = found.as_slice() {
        let message = format!("a step does one thing, not `{}` and `{}`", first.key, second.key);
        cx.report(second.place, message).help("make two steps of it");
    }
    if let Some(kind) = found.first().and_then(|entry| deciding(entry)) {
        return Some(kind);
    }
    if node.get("record").is_some() {
        return Some(Kind::Record);
    }
    // `stpes: ...` or `gte: /` is reported as an unknown key; one message is enough.
    let known = |entry: &Entry| crate::keys::STEP.keys.iter().any(|key| key.name == entry.key);
    if node.entries().iter().all(known) && !node.entries().is_empty() {
        cx.report(node.place, "this step does nothing").help(what_to_do(node, after));
    } else if matches!(&node.value, crate::tree::Value::Map(entries) if entries.is_empty()) {
        cx.report(node.place, "this step does nothing").help("add for example `get: /path`");
    }
    None
}

/// Help for a step that does nothing: often one step was written as several, with a dash too many.
fn what_to_do(node: &Node, after: &[Node]) -> String {
    let keys = || node.entries().iter().map(|entry| entry.key.as_str());
    if let Some(own) = keys().find(|key| !matches!(*key, "name" | "when" | "needs")) {
        return format!(
            "each dash begins a new step; if `{own}` belongs to the step above, take the dash in front of it away"
        );
    }
    let next = after.first().filter(|next| next.get("name").is_none());
    let does = next.and_then(|next| next.entries().iter().find(|one| deciding(one).is_some()));
    match does {
        Some(does) => format!(
            "each dash begins a new step; if `{}` below belongs to this one, take the dash in front of it away",
            does.key
        ),
        None => "add a request (`get: /path`), `think`, `set`, `record`, `group`, `repeat` or \
                 `choose`"
            .to_owned(),
    }
}

fn name(cx: &Context<'_>, node: &Node, kind: Option<Kind>) -> String {
    let given = match kind {
        Some(Kind::Group) => node.get("group"),
        _ => node.get("name"),
    };
    if let Some((given, name)) = given.and_then(|given| Some((given, given.text()?))) {
        return cx.claim_name(name, given.place);
    }
    let made = match kind {
        Some(Kind::Request) => request::default_name(node),
        Some(Kind::Think) => "think".into(),
        Some(Kind::Set) => "set".into(),
        Some(Kind::Record) => "record".into(),
        Some(Kind::Repeat) => "repeat".into(),
        Some(Kind::Choose) => "choose".into(),
        Some(Kind::Group) | None => "step".into(),
    };
    cx.make_name(&made, node.place)
}

fn unfitting_keys(cx: &Context<'_>, node: &Node, kind: Kind) {
    for entry in node.entries() {
        let key = entry.key.as_str();
        let owner = match key {
            "steps" if matches!(kind, Kind::Group | Kind::Repeat) => continue,
            "steps" => "`group` or `repeat`",
            "until" if kind != Kind::Repeat => "`repeat`",
            "concurrent" if kind != Kind::Group => "`group`",
            "name" if kind == Kind::Group => "the other steps: `group` is the name here",
            "record" if !matches!(kind, Kind::Request | Kind::Record) => "requests",
            _ if REQUEST_KEYS.contains(&key) && kind != Kind::Request => "requests",
            _ => continue,
        };
        cx.report(entry.place, format!("`{key}` does not belong here"))
            .help(format!("it belongs to {owner}"));
    }
}

fn action(cx: &Context<'_>, node: &Node, kind: Kind) -> Action {
    match kind {
        Kind::Request => Action::Request(Box::new(request::request(cx, node))),
        Kind::Think => {
            let text = node.get("think").and_then(Node::text).unwrap_or_default();
            let zero = Span { min: Default::default(), max: Default::default() };
            Action::Think(units::span(text).unwrap_or(zero))
        }
        Kind::Set => {
            cx.check_names(node.get("set"), "variable");
            Action::Set(cx.templates(node.get("set"), Escape::None))
        }
        Kind::Record => Action::Record(records(cx, node)),
        Kind::Group => Action::Group {
            steps: body(cx, node),
            concurrent: node.get("concurrent").and_then(Node::flag).unwrap_or(false),
        },
        Kind::Repeat => {
            let times = node.get("repeat").and_then(Node::count).unwrap_or(1);
            if let (0, Some(node)) = (times, node.get("repeat")) {
                cx.report(node.place, "`repeat: 0` does nothing").help("use at least 1");
            }
            let until = node.get("until").and_then(|node| condition(cx, node));
            Action::Repeat { times, until, steps: body(cx, node) }
        }
        Kind::Choose => Action::Choose(branches(cx, node)),
    }
}

/// The steps inside a group or loop.
fn body(cx: &Context<'_>, node: &Node) -> Vec<Step> {
    if node.get("steps").is_none_or(|steps| steps.items().is_empty()) {
        let place = node.entries().first().map_or(node.place, |entry| entry.place);
        cx.report(place, "there are no `steps` inside").help("add `steps: [ { get: /path } ]`");
    }
    list(cx, node.get("steps"))
}

fn branches(cx: &Context<'_>, node: &Node) -> Vec<Branch> {
    let Some(choose) = node.get("choose") else {
        return Vec::new();
    };
    if choose.items().is_empty() {
        cx.report(choose.place, "there is nothing to choose from")
            .help("add branches: `- { weight: 1, steps: [ ... ] }`");
    }
    let branches: Vec<Branch> = choose
        .items()
        .iter()
        .map(|node| {
            let weight = node.get("weight").and_then(Node::count).unwrap_or(1);
            if weight > 1_000_000 {
                cx.report(node.place, "a weight is at most 1000000").done();
            }
            Branch {
                weight: u32::try_from(weight).unwrap_or(u32::MAX),
                steps: list(cx, node.get("steps")),
            }
        })
        .collect();
    if !branches.is_empty() && branches.iter().all(|branch| branch.weight == 0) {
        cx.report(choose.place, "all branches have the weight 0").help("use at least one above 0");
    }
    branches
}

pub fn records(cx: &Context<'_>, node: &Node) -> Vec<Record> {
    for entry in node.get("record").map(Node::entries).unwrap_or_default() {
        let fixed = entry.value.text().filter(|text| !text.contains("${"));
        let text = fixed.unwrap_or("1").trim();
        if !matches!(text, "true" | "false") && crate::units::number(text).is_none() {
            let message = format!("`{}` is no number, and metrics take numbers", shorten(text));
            cx.report(entry.value.place, message)
                .help("write a number or a reference; for a rate, 1 or 0 (`true` or `false`)");
        }
    }
    cx.templates(node.get("record"), Escape::None)
        .into_iter()
        .map(|(metric, value)| Record { metric, value })
        .collect()
}

/// Variables that a step sets must have names that a reference can have.
pub fn check_variable(cx: &Context<'_>, entry: &Entry) {
    if !is_name(&entry.key) {
        cx.report(entry.place, format!("`{}` cannot name a variable", shorten(&entry.key)))
            .help("use letters, digits, `_` and `-`");
    }
}
