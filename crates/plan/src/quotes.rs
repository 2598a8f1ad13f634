//! Typographic quotes, as chats and word processors make them of `"` and `'`, and blanks that are
//! none.
//!
//! No file format takes them for quotes: they would be a part of the value and be sent with it.
//! Whoever means them puts real quotes around.

use crate::blanks;
use crate::problem::Finding;
use crate::tree::{Node, Place, Value};

/// Nobody reads more of them.
const FOUND_MAX: usize = 100;

pub const QUOTES: [char; 7] = ['“', '”', '„', '‟', '‘', '’', '‚'];

/// What to say about them.
const MESSAGE: &str = "these quotes are typographic and a part of the value";
const HELP: &str = "use \" or ' instead; if they are meant, put \" around the whole value, typographic quotes and all";

/// Values and keys that begin or end with typographic quotes and stand in no real ones.
pub fn find(root: &Node, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    walk(root, text, &mut findings);
    findings
}

fn walk(node: &Node, text: &str, findings: &mut Vec<Finding>) {
    if findings.len() >= FOUND_MAX {
        return;
    }
    match &node.value {
        Value::Text(_) => look(node.place, text, findings),
        Value::List(items) => items.iter().for_each(|item| walk(item, text, findings)),
        Value::Map(entries) => {
            for entry in entries {
                look(entry.place, text, findings);
                walk(&entry.value, text, findings);
            }
        }
        Value::Null | Value::Flag(_) | Value::Number(_) => {}
    }
}

fn look(place: Place, text: &str, findings: &mut Vec<Finding>) {
    let written = text.get(place.start..place.end).unwrap_or_default();
    let plain = written.trim_matches([' ', '\t', '\r', '\n']);
    let written = written.trim();
    if plain != written && !written.starts_with(['"', '\'', '|', '>']) {
        findings.extend(
            blanks::find(plain).map(|(_, word)| Finding::new(place, word).help(blanks::HELP)),
        );
    }
    // Real quotes and the marks of block texts say that all of it is meant.
    if written.starts_with(['"', '\'', '|', '>']) {
        return;
    }
    if written.starts_with(QUOTES) || written.ends_with(QUOTES) {
        findings.push(Finding::new(place, MESSAGE).help(HELP));
    }
}
