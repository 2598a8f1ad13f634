//! Request bodies. JSON is written out here, once, with slots where references stand.

use super::Context;
use crate::model::{Body, MultipartField, MultipartValue};
use crate::template::{Escape, Filter, Part, Source, Template, spans};
use crate::tree::{Entry, Node, Value, is_json_number, shorten, whole};
use crate::units;

const BODIES: [&str; 5] = ["json", "form", "multipart", "body", "file"];

pub fn body(cx: &Context<'_>, node: &Node) -> Body {
    let given: Vec<&Entry> =
        node.entries().iter().filter(|entry| BODIES.contains(&entry.key.as_str())).collect();
    if let [first, second, ..] = given.as_slice() {
        let message = format!("a request has one body, not `{}` and `{}`", first.key, second.key);
        cx.report(second.place, message).help("remove one of them");
    }
    if let Some(render) = node.entry("render").filter(|_| node.get("file").is_none()) {
        cx.report(render.place, "`render` has no effect without `file`")
            .help("what stands in the plan itself is always filled in: remove `render`");
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
        "body" => {
            no_file_in_text(cx, value);
            Body::Raw(cx.template(value, Escape::None))
        }
        _ => file(cx, node, value),
    }
}

/// `body: "@users.csv"` is curl's, and that of `volley URL -b @FILE`.
fn no_file_in_text(cx: &Context<'_>, node: &Node) {
    let Some(name) = node.text().and_then(|text| text.strip_prefix('@')) else { return };
    let help = format!("a body from a file is `file: {}`, in the place of `body`", shorten(name));
    let message = format!("`@{}` is sent as it is: these characters, not a file", shorten(name));
    let looks = name.contains('.') && !name.contains(char::is_whitespace);
    if cx.has_file(name) {
        cx.report(node.place, message).help(help);
    } else if looks {
        cx.warn(node.place, message).help(help);
    }
}

/// A part whose text is the name of a file that is there.
fn no_file_name(cx: &Context<'_>, name: &str, node: &Node) {
    let Some(text) = node.text() else { return };
    let file = text.strip_prefix('@').unwrap_or(text);
    if file.contains('.') && cx.has_file(file) {
        let message = format!("the name `{}` is sent as text, and not the file", shorten(text));
        cx.warn(node.place, message).help(format!(
            "the file itself is `{}: {{ file: {} }}`; for the text write `{}: {{ text: {} }}`",
            shorten(name),
            shorten(file),
            shorten(name),
            shorten(text),
        ));
    }
}

/// `01234` and `+49170` are numbers for YAML, and lose what makes them a code.
fn plain_number(cx: &Context<'_>, node: &Node) {
    let Value::Number(text) = &node.value else { return };
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let zeros =
        digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
    // JSON has no plus: whoever writes one means a text, a telephone number most often.
    if zeros || text.starts_with('+') {
        let sent = json_number(text);
        let what = if zeros { "the zeros" } else { "the plus" };
        cx.report(
            node.place,
            format!("`{}` is a number here, and is sent as {sent}", shorten(text)),
        )
        .help(format!(
            "put quotes around it to keep {what}: `\"{}\"`; if the number is meant, write {sent}",
            shorten(text)
        ));
    }
}

/// A file that is searched for references is at most so long; longer ones are data.
const SEARCHED_BYTES_MAX: u64 = 1 << 20;

/// A body from a file: as it is, or with its references filled in.
fn file(cx: &Context<'_>, step: &Node, node: &Node) -> Body {
    let path = cx.file(node);
    let render = step.get("render").and_then(Node::flag);
    if render == Some(false) {
        return Body::File(path);
    }
    let text = searched(&path);
    if render.is_none() {
        note_references(cx, node, text.as_deref());
        return Body::File(path);
    }
    let Some(text) = text else {
        if path.is_file() {
            cx.report(node.place, "only a text of at most 1 MiB can be rendered")
                .help("remove `render`: the file is sent as it is");
        }
        return Body::File(path);
    };
    let is_json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    match Template::parse(&text, if is_json { Escape::Json } else { Escape::None }) {
        Ok(template) => Body::Raw(cx.fill(node, template)),
        Err(wrong) => {
            let before = text.get(..wrong.start).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            cx.report(node.place, format!("line {line} of the file: {}", wrong.message))
                .maybe_help(wrong.help);
            Body::None
        }
    }
}

fn searched(path: &std::path::Path) -> Option<String> {
    let size = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?.len();
    if size > SEARCHED_BYTES_MAX {
        return None;
    }
    std::fs::read_to_string(path).ok()
}

/// Remembers what looks like references in a file that is sent as it is.
fn note_references(cx: &Context<'_>, node: &Node, text: Option<&str>) {
    let Some(text) = text else { return };
    let inner = |(start, end): (usize, usize)| text[start + 2..end - 1].to_owned();
    let found: Vec<String> = spans(text).into_iter().map(inner).collect();
    if !found.is_empty() {
        cx.body_files.borrow_mut().push((node.place, found));
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
        (None, Some(file)) => {
            let path = cx.file(file);
            note_references(cx, file, searched(&path).as_deref());
            MultipartValue::File(path)
        }
        (Some(text), None) => MultipartValue::Text(cx.template(text, Escape::None)),
        (None, None) if node.text().is_some() => {
            no_file_name(cx, &entry.key, node);
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
        Value::Number(text) => {
            plain_number(cx, node);
            into.push_text(&json_number(text));
        }
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

/// A string in quotes. A lone reference stands without them: `${... | raw}` is written as it is,
/// and a variable knows whether it is text.
fn json_text(cx: &Context<'_>, node: &Node, text: &str, is_key: bool, into: &mut Template) {
    cx.note_foreign(node, text, Escape::Json);
    // Parsed first, escaped after: quotes inside a reference's default are not JSON's.
    let parsed = match Template::parse(text, Escape::Json) {
        Ok(parsed) => parsed,
        Err(wrong) => return cx.template_errors(node, text, wrong, Escape::Json),
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

/// YAML's `0x1F` and `1.` are not JSON's.
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
