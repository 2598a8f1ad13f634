//! TOML into the tree.

use toml_span::value::ValueInner;

use crate::problem::Finding;
use crate::tree::{DEPTH_MAX, Entry, Lines, Node, Value, is_json_number};

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
            (None, vec![Finding::new(place, format!("not valid TOML: {error}"))])
        }
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
