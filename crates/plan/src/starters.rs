//! Plans to start from, for `volley new`: written once, in YAML, and given out in any format.
//!
//! TOML and JSON are made from the tree, which has no comments; TOML gets the first lines, which
//! say how the plan is run.

use std::fmt::Write;

use crate::Format;
use crate::read_yaml;
use crate::tree::{Node, Value, is_json_number};

/// Where editors find the schema, beside the plan: `volley schema > volley.schema.json`.
pub const SCHEMA_FILE: &str = "volley.schema.json";

/// A plan to start from.
pub struct Starter {
    pub name: &'static str,
    pub about: &'static str,
    yaml: &'static str,
    /// A file that the plan names, and its text.
    pub file: Option<(&'static str, &'static str)>,
}

pub static STARTERS: [Starter; 4] = [
    Starter {
        name: "start",
        about: "one step, ramped up and down, with comments on what else there is",
        yaml: include_str!("starters/start.yaml"),
        file: None,
    },
    Starter {
        name: "login",
        about: "a token from login to cart",
        yaml: include_str!("starters/login.yaml"),
        file: None,
    },
    Starter {
        name: "csv",
        about: "users from a CSV file",
        yaml: include_str!("starters/csv.yaml"),
        file: Some(("users.csv", include_str!("starters/users.csv"))),
    },
    Starter {
        name: "open",
        about: "a fixed rate, however slow the target",
        yaml: include_str!("starters/open.yaml"),
        file: None,
    },
];

impl Starter {
    /// The plan, with the line by which editors find the schema.
    pub fn text(&self, format: Format) -> String {
        let (root, _) = read_yaml::read(self.yaml);
        let root = root.unwrap_or(Node { value: Value::Null, place: Default::default() });
        match format {
            Format::Yaml => {
                format!("# yaml-language-server: $schema=./{SCHEMA_FILE}\n{}", self.yaml)
            }
            Format::Toml => {
                let comments = self.yaml.lines().take_while(|line| line.starts_with('#'));
                let mut text = format!("#:schema ./{SCHEMA_FILE}\n");
                comments.for_each(|line| text.extend([line, "\n"]));
                text.push('\n');
                toml_table(&root, "", &mut text);
                text
            }
            Format::Json => {
                let mut text = format!("{{\n  \"$schema\": \"./{SCHEMA_FILE}\"");
                for entry in root.entries() {
                    let _ = write!(text, ",\n  {}: ", quoted(&entry.key));
                    json(&entry.value, 1, &mut text);
                }
                text.push_str("\n}\n");
                text
            }
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn scalar(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".into(),
        Value::Flag(flag) => flag.to_string(),
        Value::Number(text) if is_json_number(text) => text.clone(),
        _ => quoted(node.text().unwrap_or_default()),
    }
}

fn is_scalar(node: &Node) -> bool {
    node.entries().is_empty() && node.items().is_empty()
}

/// A map or list of a few scalars stands in one line.
fn json(node: &Node, level: usize, into: &mut String) {
    let short = node.entries().iter().all(|entry| is_scalar(&entry.value))
        && node.items().iter().all(is_scalar);
    let (pad, end) = match short {
        true => (" ".to_owned(), " ".to_owned()),
        false => (format!("\n{}", "  ".repeat(level + 1)), format!("\n{}", "  ".repeat(level))),
    };
    match &node.value {
        Value::Map(entries) => {
            into.push('{');
            for (index, entry) in entries.iter().enumerate() {
                into.push_str(if index > 0 { "," } else { "" });
                let _ = write!(into, "{pad}{}: ", quoted(&entry.key));
                json(&entry.value, level + 1, into);
            }
            let _ = write!(into, "{end}}}");
        }
        Value::List(items) => {
            into.push('[');
            for (index, item) in items.iter().enumerate() {
                into.push_str(if index > 0 { "," } else { "" });
                into.push_str(&pad);
                json(item, level + 1, into);
            }
            let _ = write!(into, "{end}]");
        }
        _ => into.push_str(&scalar(node)),
    }
}

/// Lists of maps become tables with a header each, as long as they hold lists of maps themselves or
/// stand at the top; everything else stays in its line.
fn toml_table(node: &Node, path: &str, into: &mut String) {
    let (tables, plain): (Vec<_>, Vec<_>) =
        node.entries().iter().partition(|entry| is_tables(&entry.key));
    for entry in plain {
        let _ = writeln!(into, "{} = {}", entry.key, toml(&entry.value));
    }
    for entry in tables {
        let path =
            if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
        for item in entry.value.items() {
            let _ = writeln!(into, "\n[[{path}]]");
            toml_table(item, &path, into);
        }
    }
}

fn is_tables(key: &str) -> bool {
    matches!(key, "workflows" | "steps" | "thresholds")
}

fn toml(node: &Node) -> String {
    match &node.value {
        Value::Map(entries) => {
            let all = entries.iter().map(|entry| format!("{} = {}", entry.key, toml(&entry.value)));
            format!("{{ {} }}", all.collect::<Vec<_>>().join(", "))
        }
        Value::List(items) => {
            format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", "))
        }
        _ => scalar(node),
    }
}
