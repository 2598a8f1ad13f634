//! TOML into the tree.

use toml_span::value::ValueInner;

use crate::problem::Finding;
use crate::quotes::QUOTES;
use crate::tree::{DEPTH_MAX, Entry, Lines, Node, Value, is_json_number, shorten};

pub fn read(text: &str) -> (Option<Node>, Vec<Finding>) {
    let lines = Lines::new(text);
    match toml_span::parse(text) {
        Ok(value) => {
            let mut findings = Vec::new();
            let node = convert(&value, text, &lines, 0, &mut findings);
            (Some(node), findings)
        }
        Err(error) => {
            let place = lines.place(error.span.start, error.span.end);
            let finding = Finding::new(place, format!("not valid TOML: {error}"));
            (None, vec![finding.maybe_help(help(text, place.start))])
        }
    }
}

/// What the line of an error shows.
fn help(text: &str, at: usize) -> Option<String> {
    let start = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(start..)?.lines().next()?.trim();
    let (_, value) = line.split_once('=').unwrap_or(("", line));
    let value = value.trim();
    let is_bare = value.starts_with(|c: char| c.is_alphabetic() || c == '/' || c == '$')
        && !matches!(value, "true" | "false" | "inf" | "nan");
    if value.starts_with(QUOTES) {
        Some("these quotes are typographic; TOML's are \" and '".into())
    } else if line.starts_with("//") {
        Some("comments begin with `#`".into())
    } else if !line.contains('=') && line.contains(':') {
        Some("TOML writes `key = value`; for `key: value` give the file the ending .yaml".into())
    } else if is_bare {
        Some(format!("a text stands in quotes: `\"{}\"`", shorten(value)))
    } else {
        None
    }
}

fn convert(
    value: &toml_span::Value<'_>,
    text: &str,
    lines: &Lines<'_>,
    depth: usize,
    findings: &mut Vec<Finding>,
) -> Node {
    let place = lines.place(value.span.start, value.span.end);
    if depth > DEPTH_MAX {
        findings.push(Finding::new(place, format!("nested more than {DEPTH_MAX} levels deep")));
        return Node { value: Value::Null, place };
    }
    let value = match value.as_ref() {
        ValueInner::String(text) => Value::Text(text.to_string()),
        ValueInner::Integer(number) => Value::Number(number.to_string()),
        ValueInner::Float(number) => Value::Number(match text.get(place.start..place.end) {
            Some(written) if is_json_number(written) => written.to_owned(),
            _ => number.to_string(),
        }),
        ValueInner::Boolean(flag) => Value::Flag(*flag),
        ValueInner::Array(items) => Value::List(
            items.iter().map(|item| convert(item, text, lines, depth + 1, findings)).collect(),
        ),
        ValueInner::Table(table) => {
            let mut entries: Vec<Entry> = table
                .iter()
                .map(|(key, value)| Entry {
                    key: key.name.to_string(),
                    place: lines.place(key.span.start, key.span.end),
                    value: convert(value, text, lines, depth + 1, findings),
                })
                .collect();
            // The table is sorted by name; steps of `set` and `vars` need the order of the file.
            entries.sort_by_key(|entry| entry.place.start);
            Value::Map(entries)
        }
    };
    Node { value, place }
}
