//! Advice in the language of the file: remedies are written in YAML, and a plan in TOML or JSON is
//! answered with what can stand in it.

use crate::tree::{Node, Value, is_json_number};
use crate::{Format, read_yaml};

/// Longer pieces are no examples.
const PIECE_BYTES_MAX: usize = 400;

/// The pieces of `help` between backquotes that are YAML, as the format writes them.
pub fn translated(help: &str, format: Format) -> String {
    if format == Format::Yaml || !help.contains('`') {
        return help.to_owned();
    }
    let pieces = help.split('`').enumerate().map(|(number, piece)| {
        let is_code = number % 2 == 1;
        match is_code.then(|| written(piece, format)).flatten() {
            Some(other) => other,
            None => piece.to_owned(),
        }
    });
    pieces.collect::<Vec<_>>().join("`")
}

/// A piece of YAML in another format; `None` if it is something else.
fn written(piece: &str, format: Format) -> Option<String> {
    let is_key = |text: &str| {
        let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "_-.".contains(c)));
        end.is_some_and(|end| end > 0 && text[end..].starts_with(": "))
    };
    let is_yaml = is_key(piece) || piece.starts_with("{ ") || piece.starts_with("- ");
    if !is_yaml || piece.len() > PIECE_BYTES_MAX {
        return None;
    }
    let (root, findings) = read_yaml::read(piece);
    let root = root.filter(|_| findings.is_empty())?;
    match (&root.value, format) {
        (Value::Map(_), _) if piece.starts_with('{') => value(&root, format),
        (Value::Map(entries), _) => {
            let pairs = entries.iter().map(|entry| pair(&entry.key, &entry.value, format));
            Some(pairs.collect::<Option<Vec<_>>>()?.join(", "))
        }
        (Value::List(items), _) => value(items.first()?, format),
        _ => None,
    }
}

fn pair(key: &str, node: &Node, format: Format) -> Option<String> {
    // `...` stands for more of the same.
    if key == "..." {
        return Some(key.to_owned());
    }
    let is_bare = key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let value = value(node, format)?;
    Some(match format {
        Format::Toml if is_bare => format!("{key} = {value}"),
        Format::Toml => format!("{} = {value}", quoted(key)),
        _ => format!("{}: {value}", quoted(key)),
    })
}

fn value(node: &Node, format: Format) -> Option<String> {
    Some(match &node.value {
        Value::Null => return None,
        Value::Flag(flag) => flag.to_string(),
        Value::Number(number) if is_json_number(number) => number.clone(),
        Value::Number(text) | Value::Text(text) if text == "..." => text.clone(),
        Value::Number(text) | Value::Text(text) => quoted(text),
        Value::List(items) => {
            let items: Option<Vec<String>> = items.iter().map(|item| value(item, format)).collect();
            format!("[ {} ]", items?.join(", "))
        }
        Value::Map(entries) => {
            let pairs = entries.iter().map(|entry| pair(&entry.key, &entry.value, format));
            format!("{{ {} }}", pairs.collect::<Option<Vec<_>>>()?.join(", "))
        }
    })
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// For a file that cannot be read as what its ending says: what it looks like.
pub fn other_format(text: &str, format: Format) -> Option<String> {
    if format != Format::Json || text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let (name, ending) = match Format::guess(text) {
        Format::Yaml => ("YAML", "yaml"),
        Format::Toml => ("TOML", "toml"),
        Format::Json => return None,
    };
    let (root, _) = match name {
        "YAML" => read_yaml::read(text),
        _ => crate::read_toml::read(text),
    };
    let is_plan = root.is_some_and(|root| matches!(root.value, Value::Map(_)));
    is_plan.then(|| format!("this looks like {name}: give the file the ending .{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_is_written_as_the_file_is() {
        for (yaml, toml, json) in [
            (
                "add `target: http://HOST:PORT` at the top",
                "target = \"http://HOST:PORT\"",
                "\"target\": \"http",
            ),
            (
                "`check: { status: 200 }`",
                "`check = { status = 200 }`",
                "`\"check\": { \"status\": 200 }`",
            ),
            (
                "`steps: [ { get: /, ... } ]`",
                "`steps = [ { get = \"/\", ... } ]`",
                "[ { \"get\": \"/\", ... } ]",
            ),
            (
                "`- { to: 10, over: 30s }`",
                "`{ to = 10, over = \"30s\" }`",
                "`{ \"to\": 10, \"over\": \"30s\" }`",
            ),
            (
                "write `${env.NAME:-3}` or `-e A=b`",
                "`${env.NAME:-3}` or `-e A=b`",
                "`${env.NAME:-3}`",
            ),
            ("see `volley plan FILE`", "`volley plan FILE`", "`volley plan FILE`"),
        ] {
            for (format, wanted) in [(Format::Toml, toml), (Format::Json, json)] {
                let said = translated(yaml, format);
                assert!(said.contains(wanted), "{said}");
            }
            assert_eq!(translated(yaml, Format::Yaml), yaml);
        }
    }
}
