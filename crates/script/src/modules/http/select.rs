//! Paths into JSON, in the language that k6 takes over from gjson:
//!
//! ```text
//! a.b.0.c          members and indexes        x\.y            a dot in a name
//! a.#              how many                   a.#.x           x of each
//! na*e, na?e       wildcards in names         a.#(x=="y").z   the first that fits; #(...)# all
//! a.b|0            the same as a dot, but after `#` of the whole list
//! @this @reverse @keys @values @flatten       modifiers       {a,b} [a,b]   several at once
//! ```

use serde_json::{Map, Value};

/// `None`: there is nothing there.
pub fn select(json: &Value, path: &str) -> Option<Value> {
    if path.is_empty() {
        return None;
    }
    walk(json, path)
}

/// One step of a path, how it ended, and what follows.
struct Step<'a> {
    name: &'a str,
    /// The separator was a pipe.
    piped: bool,
    rest: Option<&'a str>,
}

fn split(path: &str) -> Step<'_> {
    let bytes = path.as_bytes();
    let (mut depth, mut quoted, mut at) = (0u32, false, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'"' if depth > 0 => quoted = !quoted,
            b'(' | b'{' | b'[' if !quoted => depth += 1,
            b')' | b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
            b'.' | b'|' if depth == 0 => {
                let piped = bytes[at] == b'|';
                return Step { name: &path[..at], piped, rest: Some(&path[at + 1..]) };
            }
            _ => {}
        }
        at += 1;
    }
    Step { name: path, piped: false, rest: None }
}

fn walk(json: &Value, path: &str) -> Option<Value> {
    let step = split(path);
    let go_on = |found: Value| match step.rest {
        Some(rest) => walk(&found, rest),
        None => Some(found),
    };
    if step.name.starts_with(['{', '[']) {
        return go_on(several(json, step.name)?);
    }
    if let Some(modifier) = step.name.strip_prefix('@') {
        return go_on(modify(json, modifier)?);
    }
    match json {
        Value::Array(members) if step.name == "#" => match step.rest {
            None => Some(members.len().into()),
            // After a pipe the count, or the list, is looked at as a whole.
            Some(rest) if step.piped => walk(&Value::from(members.len()), rest),
            Some(rest) => each(members.iter(), rest),
        },
        Value::Array(members) if step.name.starts_with("#(") => {
            let (query, all) = match step.name.strip_suffix(")#") {
                Some(query) => (&query[2..], true),
                None => (step.name.strip_suffix(')')?.get(2..)?, false),
            };
            let mut fitting = members.iter().filter(|member| fits(member, query));
            match (all, step.rest) {
                (false, _) => go_on(fitting.next()?.clone()),
                (true, Some(rest)) if !step.piped => each(fitting, rest),
                (true, _) => go_on(fitting.cloned().collect()),
            }
        }
        Value::Array(members) => go_on(members.get(step.name.parse::<usize>().ok()?)?.clone()),
        Value::Object(fields) => go_on(field(fields, step.name)?.clone()),
        _ => None,
    }
}

/// What a path finds in each member; a pipe in it ends the members' part.
fn each<'a>(members: impl Iterator<Item = &'a Value>, rest: &str) -> Option<Value> {
    let (mut inner, mut after) = (rest, None);
    let mut from = 0;
    loop {
        let step = split(&rest[from..]);
        let Some(next) = step.rest else { break };
        if step.piped {
            inner = &rest[..from + step.name.len()];
            after = Some(next);
            break;
        }
        from = rest.len() - next.len();
    }
    let found: Value = members.filter_map(|member| walk(member, inner)).collect();
    match after {
        Some(path) => walk(&found, path),
        None => Some(found),
    }
}

fn field<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if !name.contains(['*', '?', '\\']) {
        return fields.get(name);
    }
    let pattern = pattern(name);
    if let Some(exact) = pattern.iter().map(|part| part.literal()).collect::<Option<String>>() {
        return fields.get(&exact);
    }
    fields.iter().find(|(key, _)| matches(&pattern, key)).map(|(_, value)| value)
}

#[derive(Clone, Copy, PartialEq)]
enum Glob {
    Any,
    One,
    Exactly(char),
}

impl Glob {
    fn literal(self) -> Option<char> {
        match self {
            Glob::Exactly(c) => Some(c),
            _ => None,
        }
    }
}

fn pattern(text: &str) -> Vec<Glob> {
    let mut out = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => Glob::Exactly(chars.next().unwrap_or('\\')),
            '*' => Glob::Any,
            '?' => Glob::One,
            c => Glob::Exactly(c),
        });
    }
    out
}

fn matches(pattern: &[Glob], text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // Where to go back to: behind the last star, and what it has taken so far.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(Glob::Any) => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(Glob::One) => {
                p += 1;
                t += 1;
            }
            Some(Glob::Exactly(c)) if *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((behind, taken)) => {
                    star = Some((behind, taken + 1));
                    p = behind;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|part| *part == Glob::Any)
}

/// `first=="Dale"`, `age>45`, `name%"D*"`, `nets.#(=="fb")`, or just a path that must exist.
fn fits(member: &Value, query: &str) -> bool {
    let mut depth = 0u32;
    let mut operator = None;
    for (at, byte) in query.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b'=' | b'!' | b'<' | b'>' | b'%' if depth == 0 => {
                operator = Some(at);
                break;
            }
            _ => {}
        }
    }
    let Some(at) = operator else { return look(member, query).is_some() };
    let known = ["==", "!=", "<=", ">=", "!%", "=", "<", ">", "%"];
    let Some(operator) = known.into_iter().find(|operator| query[at..].starts_with(operator))
    else {
        return false;
    };
    let wanted = query[at + operator.len()..].trim();
    let wanted: Value = serde_json::from_str(wanted).unwrap_or_else(|_| wanted.into());
    let Some(value) = look(member, query[..at].trim()) else { return false };
    let order = match (&value, &wanted) {
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    };
    let like = || match (&value, &wanted) {
        (Value::String(text), Value::String(glob)) => matches(&pattern(glob), text),
        _ => false,
    };
    match operator {
        "==" | "=" => value == wanted || order.is_some_and(|order| order.is_eq()),
        "!=" => value != wanted && !order.is_some_and(|order| order.is_eq()),
        "<" => order.is_some_and(|order| order.is_lt()),
        "<=" => order.is_some_and(|order| order.is_le()),
        ">" => order.is_some_and(|order| order.is_gt()),
        ">=" => order.is_some_and(|order| order.is_ge()),
        "%" => like(),
        _ => !like(),
    }
}

/// A query without a path is about the member itself.
fn look(member: &Value, path: &str) -> Option<Value> {
    match path {
        "" => Some(member.clone()),
        path => walk(member, path),
    }
}

fn modify(json: &Value, modifier: &str) -> Option<Value> {
    match (modifier.split(':').next()?, json) {
        ("this" | "valid" | "ugly" | "pretty", _) => Some(json.clone()),
        ("reverse", Value::Array(members)) => Some(members.iter().rev().cloned().collect()),
        ("reverse", Value::Object(fields)) => {
            let turned = fields.iter().rev().map(|(name, value)| (name.clone(), value.clone()));
            Some(Value::Object(turned.collect()))
        }
        ("reverse", _) => Some(json.clone()),
        ("keys", Value::Object(fields)) => Some(fields.keys().cloned().collect()),
        ("values", Value::Object(fields)) => Some(fields.values().cloned().collect()),
        ("values", Value::Array(_)) => Some(json.clone()),
        ("flatten", Value::Array(members)) => {
            let flat = members.iter().flat_map(|member| match member {
                Value::Array(inner) => inner.clone(),
                other => vec![other.clone()],
            });
            Some(flat.collect())
        }
        _ => None,
    }
}

/// `{a,b.c}` or `[a,b.c]`; in the first, a name may be given: `{"x":a}`.
fn several(json: &Value, step: &str) -> Option<Value> {
    let named = step.starts_with('{');
    let inner = step.get(1..step.len() - 1)?;
    let mut fields = Map::new();
    let mut list = Vec::new();
    for part in commas(inner) {
        let (name, path) = match part.strip_prefix('"').and_then(|rest| rest.split_once("\":")) {
            Some((name, path)) if named => (name, path),
            _ => (part.rsplit(['.', '|']).next().unwrap_or(part), part),
        };
        let Some(found) = walk(json, path) else { continue };
        match named {
            true => drop(fields.insert(name.to_owned(), found)),
            false => list.push(found),
        }
    }
    Some(if named { Value::Object(fields) } else { Value::Array(list) })
}

fn commas(text: &str) -> Vec<&str> {
    let (mut depth, mut from) = (0u32, 0);
    let mut parts = Vec::new();
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'{' | b'[' => depth += 1,
            b')' | b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[from..].trim());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The right column is what k6 v1.1.0 gave for the same path.
    #[test]
    fn paths_find_what_k6_finds() {
        let json = r#"{"a":{"b":[{"c":1},{"c":2}]},"n":1.5,"s":"x","nul":null,"t":true,
            "x.y":"dot","friends":[{"first":"Dale","age":44},{"first":"Roger","age":68},
            {"first":"Jane","age":47}]}"#;
        let json: Value = serde_json::from_str(json).unwrap();
        for (path, expected) in [
            ("a", r#"{"b":[{"c":1},{"c":2}]}"#),
            ("a.b.0.c", "1"),
            ("a.b.#", "2"),
            ("a.b.#.c", "[1,2]"),
            (r"x\.y", "\"dot\""),
            ("n", "1.5"),
            ("nul", "null"),
            ("t", "true"),
            ("friends.#(first==\"Dale\").age", "44"),
            ("friends.#(age>45)#.first", r#"["Roger","Jane"]"#),
            ("friends.#(first%\"J*\").age", "47"),
            ("fr*.0.first", "\"Dale\""),
            ("frien?s.1.age", "68"),
            ("@this.n", "1.5"),
            ("a.b|0", r#"{"c":1}"#),
            ("a.b.#.c|1", "2"),
            ("friends.#.first.0", "[]"),
            ("friends.@reverse.0.first", "\"Jane\""),
            ("{n,s}", r#"{"n":1.5,"s":"x"}"#),
        ] {
            let found = select(&json, path).map(|found| found.to_string());
            assert_eq!(found.as_deref(), Some(expected), "{path}");
        }
        for path in ["zz", "", "..a", "a.b.5", "n.x", "a.b.x", "friends.#(age>100).first"] {
            assert_eq!(select(&json, path), None, "{path}");
        }
    }
}
