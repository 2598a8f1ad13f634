//! What to write instead of a value of the wrong shape, or of a key in the wrong place.

mod toml;

pub use toml::list_in_toml;

use super::{Object, Shape, accepts, kind_of};
use crate::keys;
use crate::tree::{Entry, Node, Value, shorten};
use crate::units;
use crate::words;

/// Quantities are needed before anything runs.
pub const REFERENCE: &str = "this is needed before the test runs: only a value itself or one of the \
     environment can stand here, `${env.NAME}` or `${env.NAME:-3}` (`-e NAME=3`)";

/// Help for a value whose shape is wrong.
pub fn hint(node: &Node, shape: &Shape) -> Option<String> {
    match (shape, &node.value) {
        (Shape::Flag, Value::Text(text)) => match text.to_ascii_lowercase().as_str() {
            "yes" | "on" | "true" => Some("write `true`".into()),
            "no" | "off" | "false" => Some("write `false`".into()),
            _ => None,
        },
        (Shape::Template, Value::Map(_)) if node.get("url").is_some() => words::key("step", "url"),
        (Shape::Count, Value::Text(text)) if units::number(text).is_some() => {
            Some("remove the quotes".into())
        }
        (Shape::Count | Shape::CountOrOff, Value::Text(text)) if text.contains("${") => {
            Some(REFERENCE.to_owned())
        }
        (Shape::List(Shape::Object(object)), Value::Map(_)) => {
            Some(list_written_as_map(node, object))
        }
        (Shape::List(inner), _) if accepts(inner, &kind_of(node)) => {
            Some("put it in a list: `[ ... ]`, or a line that begins with `- `".into())
        }
        (Shape::List(Shape::Object(object)), Value::Text(text)) => from_text(object, text),
        (Shape::Many(inner), Value::Text(_) | Value::Number(_)) => hint(node, inner),
        (Shape::Object(object), Value::Text(text) | Value::Number(text)) => from_text(object, text),
        _ => None,
    }
}

/// Keys that are known elsewhere and mean something else there: what they are called at this place.
const MEANT: [(&str, &str, &str); 8] = [
    (
        "workflow",
        "needs",
        "a workflow waits for others by `depends_on: [NAME]`; `needs` is for steps",
    ),
    (
        "step",
        "depends_on",
        "a step waits for others by `needs: [NAME]`; `depends_on` is for workflows",
    ),
    (
        "workflow",
        "timeout",
        "the time limit of this workflow's requests is `http: { timeout: 5s }`, of one request the \
         step's own `timeout`; that of the whole test is the plan's",
    ),
    (
        "load",
        "timeout",
        "how long a load lasts is `duration`, of iterations `max_duration`; the time limit of requests \
         is the workflow's `http: { timeout: 5s }`",
    ),
    ("workflow", "think", THINK),
    ("load", "think", THINK),
    ("plan", "think", THINK),
    (
        "workflow",
        "hosts",
        "names are led elsewhere by the workflow's `http: { hosts: { NAME: ADDRESS } }`, or in `defaults`",
    ),
];

const THINK: &str = "`think` is a step of its own: `steps: [ { get: / }, { think: 1s } ]`";

/// Help for a key that has another name here than where it is known.
pub fn meant(object: &Object, key: &str) -> Option<String> {
    let known = MEANT.iter().find(|(place, name, _)| *place == object.name && *name == key);
    known.map(|(.., help)| (*help).to_owned())
}

/// Help for a key below one that has nothing, where it was to be indented.
pub fn not_indented(empty: Option<(&str, u32)>, key: &str) -> Option<String> {
    let (above, line) = empty?;
    Some(format!("`{above}` in line {line} is empty: indent `{}` below it", shorten(key)))
}

/// Help for the value of a key, where the key says what was meant.
pub fn of_key(key: &str, node: &Node, shape: &Shape) -> Option<String> {
    let is_more = matches!(node.value, Value::Map(_) | Value::List(_));
    let help = match (key, shape) {
        ("body", Shape::Template) if is_more => {
            "`body` is a text as it is sent; a map is sent by `json` or `form` in its place"
        }
        ("form", Shape::Template) if is_more => {
            "a form has one text for each name; what has parts of its own is sent by `json`"
        }
        ("query" | "headers", Shape::Template) if is_more => "write one text for each name",
        ("weight", Shape::Count) if node.text().is_some_and(|text| text.contains('.')) => {
            "only the ratio of weights counts: write whole numbers, 7 and 3 for 0.7 and 0.3"
        }
        (_, Shape::Count | Shape::CountOrOff) => return written_out(node),
        _ => return None,
    };
    Some(help.to_owned())
}

/// `10k`, `1e6`, `1_000`: a whole number that is written in short.
fn written_out(node: &Node) -> Option<String> {
    let text = node.text()?.trim().to_ascii_lowercase().replace(['_', ',', '\''], "");
    let (digits, factor) = match text.strip_suffix(['k', 'm']) {
        Some(digits) if text.ends_with('k') => (digits, 1e3),
        Some(digits) => (digits, 1e6),
        None => (text.as_str(), 1.0),
    };
    let number = units::number(digits.trim())? * factor;
    let is_plain = node.text().is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let is_whole = number.fract() == 0.0 && (0.0..1e15).contains(&number);
    (is_whole && !is_plain).then(|| format!("write it out: `{number:.0}`"))
}

/// Help for a word that is none of those that may stand here.
pub fn of_choice(text: &str) -> Option<String> {
    let is_steered = text.eq_ignore_ascii_case("externally-controlled");
    is_steered.then(|| {
        "every test can be steered while it runs: `executor: constant-vus` with `vus` and `duration`, then \
         `volley ctl scale --vus N`"
            .to_owned()
    })
}

/// `workflows: { browse: ... }`: other tools have names where this plan has a list.
fn list_written_as_map(node: &Node, object: &Object) -> String {
    let known = |key: &str| object.keys.iter().any(|one| one.name == key);
    let entries = node.entries();
    let Some(first) = entries.first().filter(|_| entries.iter().all(|entry| !known(&entry.key)))
    else {
        return "put it in a list: `[ ... ]`, or a line that begins with `- `".into();
    };
    let name = shorten(&first.key);
    match object.name {
        "threshold" => {
            let limit = first.value.one_or_many().first().and_then(Node::text);
            let limit = limit.map_or_else(|| "p(95) < 200ms".to_owned(), shorten);
            format!("write a list: `- {{ metric: {name}, hold: \"{limit}\" }}`")
        }
        _ if known("name") => {
            let what = object.name;
            format!(
                "`{name}` is the name of a {what}: write `- name: {name}` and the rest below it, in line with `name`"
            )
        }
        _ => "put it in a list: `[ ... ]`, or a line that begins with `- `".into(),
    }
}

/// Help for an unknown key whose value shows what was meant.
pub fn named_by_key(object: &Object, key: &str, value: &Node) -> Option<String> {
    let known = |name: &str| object.keys.iter().any(|one| one.name == name);
    let inner = value.entries();
    let holds_keys = !inner.is_empty() && inner.iter().all(|entry| known(&entry.key));
    let what = object.name;
    (holds_keys && known("name")).then(|| {
        let key = shorten(key);
        format!(
            "`{key}` is the name of the {what}: write `name: {key}`, and the rest in line with it"
        )
    })
}

/// A key that is known at another place of the plan: where that is.
pub fn belongs_elsewhere(object: &Object, entry: &Entry, toml: Option<&str>) -> Option<String> {
    let key = entry.key.as_str();
    let places: [(&Object, &str, &str); 5] = [
        (&keys::PLAN, "the plan itself", "the left margin, beside `workflows`"),
        (&keys::WORKFLOW, "a workflow", "the level of the workflow's `name` and `steps`"),
        (&keys::LOAD, "`load`", "the workflow's `load`: `load: { ... }`"),
        (&keys::STEP, "a step", "a step: `steps: [ { get: /, ... } ]`"),
        (&keys::DEFAULTS, "`defaults`", "the plan's `defaults`, or the `http` of a workflow"),
    ];
    if key == "name" {
        return None;
    }
    let others = places.into_iter().filter(|(other, ..)| other.name != object.name);
    let has = |other: &Object| other.keys.iter().any(|one| one.name == key);
    let (other, owner, place) = others.into_iter().find(|(other, ..)| has(other))?;
    if let Some(text) = toml.filter(|_| other.name == keys::PLAN.name) {
        return Some(toml::belongs_to_the_plan(key, entry.place, text));
    }
    Some(format!("`{key}` belongs to {owner}: move it to {place}"))
}

/// A text where a map belongs: what the map would be.
fn from_text(object: &Object, text: &str) -> Option<String> {
    match object.name {
        "check" => Some(check_from_text(text)),
        "basic" => Some("write `basic: { user: NAME, password: SECRET }`".into()),
        "auth" => {
            Some("write `auth: { bearer: \"${token}\" }` or `auth: { basic: { ... } }`".into())
        }
        "body check" => Some(format!("write `body: {{ contains: {} }}`", quoted(&shorten(text)))),
        "header check" => {
            Some("write `header: { name: content-type, contains: json }`, or `exists: true`".into())
        }
        "load" => Some("write for example `load: { vus: 10, duration: 30s }`".into()),
        "step" => Some("write for example `- get: /path`".into()),
        "threshold" => {
            Some("write `- { metric: http_req_duration, hold: \"p(95) < 200ms\" }`".into())
        }
        "stage" => Some("write `- { to: 10, over: 30s }`".into()),
        _ => None,
    }
}

/// `status == 200`, `$.items > 0`: a check written as an expression.
fn check_from_text(text: &str) -> String {
    let general = "a check is a map: `{ status: 200 }`, `{ json: $.token, exists: true }`, \
                   `{ body: { contains: items } }` or `{ latency: \"< 250ms\" }`";
    let mut subject = text.trim();
    for prefix in ["r.", "res.", "response."] {
        subject = subject.strip_prefix(prefix).unwrap_or(subject);
    }
    let at = subject.find(['<', '>', '=', '!', ':', ' ']).unwrap_or(subject.len());
    let (name, rest) = subject.split_at(at);
    let rest = rest.trim();
    let symbol = rest.chars().take_while(|c| "<>=!:".contains(*c)).count();
    let (symbol, value) = rest.split_at(symbol);
    let value = value.trim().trim_start_matches("is ").trim_matches(['"', '\'']);
    let is_equality = matches!(symbol, "" | "=" | "==" | "===" | ":");
    match name.to_ascii_lowercase().as_str() {
        "status" | "status_code" | "code" => match units::status(value) {
            Ok(_) if is_equality => format!("write `check: {{ status: {value} }}`"),
            _ => {
                "write the good statuses: `check: { status: 200 }`, `{ status: [2xx, 304] }`".into()
            }
        },
        "latency" | "duration" | "time" | "timings.duration" | "elapsed" => {
            "write `check: { latency: \"< 250ms\" }`".into()
        }
        "body" | "text" => {
            "write `check: { body: { contains: TEXT } }`, or `matches` with an expression".into()
        }
        _ if units::status(subject).is_ok() => format!("write `check: {{ status: {subject} }}`"),
        _ if name.starts_with('$') && name.ends_with(".length") => format!(
            "write `check: {{ json: \"{}[0]\", exists: true }}`: JSONPath has no `.length`",
            name.trim_end_matches(".length")
        ),
        _ if name.starts_with('$') && value.is_empty() => {
            format!("write `check: {{ json: {name}, exists: true }}`")
        }
        _ if name.starts_with('$') && is_equality => {
            format!("write `check: {{ json: {name}, equals: {} }}`", quoted(value))
        }
        _ if name.starts_with('$') => {
            format!("write `check: {{ json: {name}, is: \"{symbol} {value}\" }}`")
        }
        _ => general.into(),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}
