//! What is peculiar to TOML: a key belongs to the header above it, and a list of tables has two
//! brackets.

use super::super::{Object, Shape};
use crate::tree::{Node, Place, Value, shorten};

/// The lines that open a table: where they begin, and the line.
fn headers(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    let lines = text.split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        (start, line.split('#').next().unwrap_or_default().trim())
    });
    lines.filter(|(_, line)| line.starts_with('[') && line.ends_with(']'))
}

/// Help for a key of the plan that stands below the header of another table.
pub fn belongs_to_the_plan(key: &str, place: Place, text: &str) -> String {
    let above = headers(text).take_while(|(start, _)| *start <= place.start).last();
    let first = headers(text).next().map_or("[[workflows]]", |(_, line)| line);
    let Some((start, header)) = above else {
        return format!("`{key}` belongs to the plan itself: put it above `{first}`");
    };
    // `[workflows.thresholds]`: the key is the last part of the header itself.
    if place.start < start + header.len() {
        let open = if header.starts_with("[[") { ("[[", "]]") } else { ("[", "]") };
        return format!("`{key}` belongs to the plan itself: write `{}{key}{}`", open.0, open.1);
    }
    let header = shorten(header);
    format!(
        "`{key}` belongs to the plan itself, and in TOML what follows `{header}` is a part of that: put \
         it above `{}`, the first of the headers",
        shorten(first)
    )
}

/// Help for a table where a list of tables belongs.
pub fn list_in_toml(node: &Node, shape: &Shape, toml: Option<&str>) -> Option<String> {
    let (Shape::List(Shape::Object(object)), Value::Map(_)) = (shape, &node.value) else {
        return None;
    };
    let text = toml?;
    let written = text.get(node.place.start..).unwrap_or_default();
    let line = written.lines().next().unwrap_or_default();
    if !line.starts_with('[') {
        return Some("a list stands in square brackets: `[ { ... } ]`".to_owned());
    }
    let name = line.trim_start_matches('[').split(']').next().unwrap_or_default().trim();
    Some(match named(node, object) {
        // `[workflows.browse]`: other tools have names where a plan has a list.
        Some(own) => {
            let list = name.strip_suffix(&format!(".{own}")).unwrap_or(name);
            format!(
                "`{own}` is the name of a {}: write `[[{list}]]`, and `name = \"{own}\"` below it",
                object.name
            )
        }
        None => {
            format!("a list of tables has two brackets: `[[{name}]]`, once for each of them")
        }
    })
}

/// The first key, if it is a name and not a key of the object.
fn named(node: &Node, object: &Object) -> Option<String> {
    let known = |key: &str| object.keys.iter().any(|one| one.name == key);
    let entries = node.entries();
    let first = entries.first().filter(|_| entries.iter().all(|entry| !known(&entry.key)))?;
    known("name").then(|| shorten(&first.key))
}
