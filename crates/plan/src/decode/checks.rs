//! Checks of responses, and the names they get in results.

use super::{Context, certain, request};
use crate::model::{Check, CheckKind, Comparison, StatusRange, Test};
use crate::template::Escape;
use crate::tree::{Entry, Node, shorten};
use crate::units;

const KINDS: [&str; 5] = ["status", "json", "body", "header", "latency"];
const TESTS: [&str; 5] = ["exists", "equals", "contains", "matches", "is"];

pub fn checks(cx: &Context<'_>, node: Option<&Node>) -> Vec<Check> {
    let items = node.map(Node::one_or_many).unwrap_or_default();
    let mut checks: Vec<Check> = Vec::new();
    for item in items {
        let Some((made, kind)) = check(cx, item) else {
            continue;
        };
        certain::report(cx, item, &made, &kind);
        let name = item.get("name").and_then(Node::text).map_or(made, str::to_owned);
        if checks.iter().any(|other| other.name == name) {
            let message = format!("two checks of this step are called `{}`", shorten(&name));
            cx.report(item.place, message).help("give one of them another `name`");
        }
        checks.push(Check { name, kind });
    }
    checks
}

fn check(cx: &Context<'_>, node: &Node) -> Option<(String, CheckKind)> {
    if node.text().is_some() || !node.items().is_empty() {
        return None;
    }
    let given: Vec<&Entry> =
        node.entries().iter().filter(|entry| KINDS.contains(&entry.key.as_str())).collect();
    let entry = match given.as_slice() {
        [entry] => *entry,
        [first, second, ..] => {
            cx.report(second.place, one_thing(&given)).help(as_list(cx, node, &given));
            first
        }
        [] => {
            let help = "for example `{ status: 200 }`, `{ json: $.token, exists: true }`, \
                        `{ body: { contains: items } }`, `{ latency: < 250ms }`";
            cx.report(node.place, "this check tests nothing").help(help);
            return None;
        }
    };
    if entry.key != "json" {
        for extra in node.entries().iter().filter(|e| TESTS.contains(&e.key.as_str())) {
            let inner =
                if entry.key == "status" || entry.key == "latency" { "json" } else { &entry.key };
            cx.report(extra.place, format!("`{}` does not belong here", extra.key))
                .help(format!("it tests a value: `{inner}: ...`"));
        }
    }
    let value = &entry.value;
    match entry.key.as_str() {
        "status" => status(value),
        "json" => {
            let path = request::json_path(cx, value);
            let (words, test) = test(cx, node, &TESTS)?;
            let path = path?;
            Some((format!("{path} {words}"), CheckKind::Json { path, test }))
        }
        "body" => body(cx, value),
        "header" => {
            let name = value.get("name")?.text()?.to_owned();
            let (words, test) = test(cx, value, &TESTS)?;
            Some((format!("header {name} {words}"), CheckKind::Header { name, test }))
        }
        _ => {
            let (op, limit) = units::duration_limit(value.text()?).ok()?;
            let written = value.text()?.trim_start_matches(['<', '>', '=', '!', ' ']);
            let name = format!("latency {} {written}", op.symbol());
            if matches!(op, Comparison::Greater | Comparison::GreaterOrEqual) && !limit.is_zero() {
                cx.warn(value.place, format!("`{name}` fails for every answer that is faster"))
                    .help(format!("did you mean `latency: \"< {written}\"`?"));
            }
            Some((name, CheckKind::Latency { op, limit }))
        }
    }
}

/// What is wrong with several tests in one check.
fn one_thing(given: &[&Entry]) -> String {
    let names: Vec<String> = given.iter().map(|entry| format!("`{}`", entry.key)).collect();
    let (last, others) = names.split_last().map_or(("", &names[..]), |(l, o)| (l.as_str(), o));
    format!("a check tests one thing, not {} and {last}", others.join(", "))
}

/// The same tests as a list, each as it is written.
fn as_list(cx: &Context<'_>, node: &Node, given: &[&Entry]) -> String {
    let is_own = |entry: &&Entry| TESTS.contains(&entry.key.as_str());
    let own: Vec<&Entry> = node.entries().iter().filter(is_own).collect();
    let shown = |entry: &Entry| format!("{}: {}", entry.key, cx.source(&entry.value));
    let one = |entry: &&Entry| {
        let own = own.iter().filter(|_| entry.key == "json").map(|own| shown(own));
        let parts: Vec<String> = std::iter::once(shown(entry)).chain(own).collect();
        format!("{{ {} }}", parts.join(", "))
    };
    let items: Vec<String> = given.iter().map(one).collect();
    let list = items.join(", ");
    // A check that is written over many lines is not repeated.
    match list.contains('\n') || list.len() > 300 {
        true => {
            "`check` takes a list: `check: [ { status: 200 }, { latency: \"< 250ms\" } ]`".into()
        }
        false => format!("`check` takes a list of them: `check: [ {list} ]`"),
    }
}

fn status(node: &Node) -> Option<(String, CheckKind)> {
    let items = node.one_or_many();
    let ranges: Option<Vec<StatusRange>> =
        items.iter().map(|item| units::status(item.text()?).ok()).collect();
    let words: Vec<&str> = items.iter().filter_map(Node::text).collect();
    Some((format!("status is {}", words.join(" or ")), CheckKind::Status(ranges?)))
}

fn body(cx: &Context<'_>, node: &Node) -> Option<(String, CheckKind)> {
    if let Some(size) = node.get("size").and_then(Node::text) {
        if node.entries().len() > 1 {
            cx.report(node.place, "a check tests one thing").help("make two checks of it");
        }
        let (op, bytes) = units::size_limit(size).ok()?;
        let written = size.trim_start_matches(['<', '>', '=', '!', ' ']);
        let name = format!("body size {} {written}", op.symbol());
        return Some((name, CheckKind::BodySize { op, bytes }));
    }
    let (words, test) = test(cx, node, &["contains", "matches", "equals"])?;
    Some((format!("body {words}"), CheckKind::Body(test)))
}

/// The one test among a check's keys, and what it says in words.
fn test(cx: &Context<'_>, node: &Node, allowed: &[&str]) -> Option<(String, Test)> {
    let given: Vec<&Entry> =
        node.entries().iter().filter(|entry| allowed.contains(&entry.key.as_str())).collect();
    let entry = match given.as_slice() {
        [entry] => *entry,
        [] => {
            // `null` or a scalar is reported by the shape check.
            if !node.entries().is_empty() {
                cx.report(node.place, "what must the value be?")
                    .help(format!("add one of {}", allowed.join(", ")));
            }
            return None;
        }
        [first, second, ..] => {
            cx.report(second.place, one_thing(&given)).help("make a check of each");
            first
        }
    };
    let value = &entry.value;
    let text = value.text()?;
    Some(match entry.key.as_str() {
        "exists" => match value.flag()? {
            true => ("exists".into(), Test::Exists(true)),
            false => ("does not exist".into(), Test::Exists(false)),
        },
        "equals" => {
            (format!("equals {}", shorten(text)), Test::Equals(cx.template(value, Escape::None)))
        }
        "contains" => {
            let test = Test::Contains(cx.template(value, Escape::None));
            (format!("contains {}", shorten(text)), test)
        }
        "matches" => {
            (format!("matches {}", shorten(text)), Test::Matches(request::regex(cx, value)?.0))
        }
        _ => {
            let (op, limit) = units::number_limit(text).ok()?;
            (format!("{} {limit}", op.symbol()), Test::Compare(op, limit))
        }
    })
}
