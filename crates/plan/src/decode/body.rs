//! Request bodies. JSON is written out here, once, with slots where references stand.

use super::Context;
use crate::model::{Body, MultipartField, MultipartValue};
use crate::template::{Escape, Filter, Part, Source, Template, spans};
use crate::tree::{Entry, Node, Value, is_json_number, whole};
use crate::units;

const BODIES: [&str; 5] = ["json", "form", "multipart", "body", "file"];

pub fn body(cx: &Context<'_>, node: &Node) -> Body {
    let given: Vec<&Entry> =
        node.entries().iter().filter(|entry| BODIES.contains(&entry.key.as_str())).collect();
    if let [first, second, ..] = given.as_slice() {
        let message = format!("a request has one body, not `{}` and `{}`", first.key, second.key);
        cx.report(second.place, message).help("remove one of them");
    }
    let Some(entry) = given.first() else {
        return Body::None;
    };
    let value = &entry.value;
    match entry.key.as_str() {
        "json" => {
            no_json_in_text(cx, value);
            let mut template = Template::default();
            json(cx, value, &mut template);
            Body::Json(template)
        }
        "form" => Body::Form(cx.templates(Some(value), Escape::Component)),
        "multipart" => {
            Body::Multipart(value.entries().iter().map(|entry| field(cx, entry)).collect())
        }
        "body" => Body::Raw(cx.template(value, Escape::None)),
        _ => Body::File(cx.file(value)),
    }
}

/// `json: '{"a": 1}'` would be sent as one string, quotes and all.
fn no_json_in_text(cx: &Context<'_>, node: &Node) {
    let Value::Text(text) = &node.value else {
        return;
    };
    // What stands in for a reference may be a number or a part of a string.
    let mut plain = String::with_capacity(text.len());
    let mut at = 0;
    for (start, end) in spans(text) {
        plain.push_str(&text[at..start]);
        plain.push('0');
        at = end;
    }
    plain.push_str(&text[at..]);
    let looks = plain.trim_start().starts_with(['{', '[']);
    if looks && serde_json::from_str::<serde::de::IgnoredAny>(&plain).is_ok() {
        cx.report(node.place, "`json` is given a text that is JSON: it would be sent as a string")
            .help(
                "take the quotes away (`json: { a: 1 }`: JSON is YAML, too), or send the text as it \
                 is: `body` and the header `content-type: application/json`",
            );
    }
}

fn field(cx: &Context<'_>, entry: &Entry) -> MultipartField {
    let node = &entry.value;
    let content_type = node.get("content_type").and_then(Node::text).map(str::to_owned);
    let value = match (node.get("text"), node.get("file")) {
        (None, Some(file)) => MultipartValue::File(cx.file(file)),
        (Some(text), None) => MultipartValue::Text(cx.template(text, Escape::None)),
        (None, None) if node.text().is_some() => {
            MultipartValue::Text(cx.template(node, Escape::None))
        }
        _ => {
            cx.report(entry.place, "a part has `text` or `file`").done();
            MultipartValue::Text(Template::default())
        }
    };
    MultipartField { name: entry.key.clone(), value, content_type }
}

/// Appends a value as JSON text.
fn json(cx: &Context<'_>, node: &Node, into: &mut Template) {
    match &node.value {
        Value::Null => into.push_text("null"),
        Value::Flag(flag) => into.push_text(if *flag { "true" } else { "false" }),
        Value::Number(text) => into.push_text(&json_number(text)),
        Value::Text(text) => json_text(cx, node, text, false, into),
        Value::List(items) => {
            into.push_text("[");
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    into.push_text(",");
                }
                json(cx, item, into);
            }
            into.push_text("]");
        }
        Value::Map(entries) => {
            into.push_text("{");
            for (index, entry) in entries.iter().enumerate() {
                if index > 0 {
                    into.push_text(",");
                }
                json_text(cx, node, &entry.key, true, into);
                into.push_text(":");
                json(cx, &entry.value, into);
            }
            into.push_text("}");
        }
    }
}

/// A string in quotes. A lone reference stands without them: `${... | raw}` is written as it is, and
/// a variable knows whether it is text.
fn json_text(cx: &Context<'_>, node: &Node, text: &str, is_key: bool, into: &mut Template) {
    cx.note_foreign(node, text, Escape::Json);
    // Parsed first, escaped after: quotes inside a reference's default are not JSON's.
    let parsed = match Template::parse(text, Escape::Json) {
        Ok(parsed) => parsed,
        Err(wrong) => return cx.template_error(node, wrong),
    };
    let mut parsed = parsed;
    let alone = match parsed.parts.as_mut_slice() {
        [Part::Reference(only)] if !is_key => match (only.filter, &only.source) {
            (Some(Filter::Raw), _) => true,
            (None, Source::Variable(_) | Source::Use(_)) => {
                only.escape = Escape::JsonValue;
                true
            }
            _ => false,
        },
        _ => false,
    };
    let mut escaped = Template::default();
    for part in parsed.parts {
        match part {
            Part::Text(text) => {
                escaped.push_text(&Escape::Json.write_text(&text));
            }
            reference @ Part::Reference(_) => escaped.push(reference),
        }
    }
    let filled = cx.fill(node, escaped);
    let quote = if alone { "" } else { "\"" };
    into.push_text(quote);
    filled.parts.into_iter().for_each(|part| into.push(part));
    into.push_text(quote);
}

/// YAML's `0x1F`, `+1` and `1.` are not JSON's.
fn json_number(text: &str) -> String {
    if is_json_number(text) {
        return text.to_owned();
    }
    match (whole(text), units::number(text)) {
        (Some(whole), _) => whole.to_string(),
        (None, Some(number)) => serde_json::Number::from_f64(number)
            .map_or_else(|| "null".into(), |number| number.to_string()),
        (None, None) => "null".into(),
    }
}
