//! Reading JSON values as k6 does: keys in any case, `null` as absent, numbers also as text.

use std::collections::BTreeMap;
use std::time::Duration;

use plan::units::Wrong;
use serde_json::{Map, Value};

use super::problem::{Findings, suggestion};
use super::values;

/// A JSON object, and the path that leads to it.
pub(super) struct Object<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Object<'a> {
    /// `None` with a problem noted if the value is not an object.
    pub fn read(value: &'a Value, path: &str, findings: &mut Findings) -> Option<Object<'a>> {
        match value {
            Value::Object(map) => Some(Object { map, path: path.to_string() }),
            _ => {
                let message = format!("{} where an object is expected", kind(value));
                findings.wrong(path, Wrong::new(message, "write { key: value }"));
                None
            }
        }
    }

    /// The value of a key; `null` is as good as absent. Keys match in any case, as in k6.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        let value = self.map.get(key).or_else(|| {
            let found = self.map.iter().find(|(name, _)| name.eq_ignore_ascii_case(key));
            found.map(|(_, value)| value)
        });
        value.filter(|value| !value.is_null())
    }

    pub fn path_of(&self, key: &str) -> String {
        join(&self.path, key)
    }

    /// The value of a key, read; a wrong one is noted.
    pub fn field<T>(
        &self,
        key: &str,
        findings: &mut Findings,
        read: impl FnOnce(&Value) -> Result<T, Wrong>,
    ) -> Option<T> {
        let value = self.get(key)?;
        findings.check(self.path_of(key), read(value))
    }

    /// As [`Object::field`], where an empty text is as good as absent: `vus: __ENV.VUS || ''`.
    pub fn field_unless_empty<T>(
        &self,
        key: &str,
        findings: &mut Findings,
        read: impl FnOnce(&Value) -> Result<T, Wrong>,
    ) -> Option<T> {
        let is_empty = self.get(key).is_some_and(|value| value.as_str() == Some(""));
        if is_empty { None } else { self.field(key, findings, read) }
    }

    /// The keys that are none of the known ones, each with its path and what was probably meant.
    pub fn unknown(&self, known: &[&str]) -> Vec<(String, Wrong)> {
        let is_unknown = |name: &&String| !known.iter().any(|key| key.eq_ignore_ascii_case(name));
        let names = self.map.keys().filter(is_unknown);
        names
            .map(|name| {
                let wrong = Wrong::new("there is no such option", suggestion(name, known));
                (self.path_of(name), wrong)
            })
            .collect()
    }

    pub fn entries(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.map.iter()
    }
}

pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }
}

/// The items of a list with their paths, `None` with a problem noted if it is none.
pub(super) fn list<'a>(
    value: &'a Value,
    path: &str,
    findings: &mut Findings,
) -> Option<Vec<(String, &'a Value)>> {
    match value {
        Value::Array(items) => {
            Some(items.iter().enumerate().map(|(i, item)| (format!("{path}[{i}]"), item)).collect())
        }
        _ => {
            let message = format!("{} where a list is expected", kind(value));
            findings.wrong(path, Wrong::new(message, "write [ ... ]"));
            None
        }
    }
}

/// A list whose items are texts in some form; all wrong ones are noted.
pub(super) fn list_of<T>(
    value: &Value,
    path: &str,
    findings: &mut Findings,
    read: impl Fn(&str) -> Result<T, Wrong>,
) -> Option<Vec<T>> {
    let items = list(value, path, findings)?;
    let read_item =
        |(path, item): (String, &Value)| findings.check(path, text(item).and_then(|t| read(&t)));
    Some(items.into_iter().filter_map(read_item).collect())
}

/// What a value is, to be named in a message.
pub(super) fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_string(),
        Value::Bool(_) | Value::Number(_) => format!("`{value}`"),
        Value::String(text) => format!("the text `{}`", values::shorten(text)),
        Value::Array(_) => "a list".to_string(),
        Value::Object(_) => "an object".to_string(),
    }
}

/// A whole number, which may also be written as text.
pub(super) fn integer(value: &Value) -> Result<i64, Wrong> {
    let found = match value {
        Value::Number(number) => number.as_i64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => return values::integer(text),
        _ => None,
    };
    found.ok_or_else(|| Wrong::new(format!("{} is not a whole number", kind(value)), "write 10"))
}

/// Numbers of a script are floating point: `10.0` is 10.
fn whole(number: f64) -> Option<i64> {
    let exact = number.fract() == 0.0 && number.abs() < 9.0e15;
    exact.then_some(number as i64)
}

pub(super) fn count(value: &Value) -> Result<u64, Wrong> {
    values::not_negative(integer(value)?)
}

pub(super) fn count32(value: &Value) -> Result<u32, Wrong> {
    values::fits_u32(count(value)?)
}

pub(super) fn boolean(value: &Value) -> Result<bool, Wrong> {
    let wrong = || Wrong::new(format!("{} is neither true nor false", kind(value)), "write true");
    value.as_bool().ok_or_else(wrong)
}

pub(super) fn text(value: &Value) -> Result<String, Wrong> {
    let wrong = || Wrong::new(format!("{} is not a text", kind(value)), "write it in quotes");
    value.as_str().map(str::to_string).ok_or_else(wrong)
}

/// A duration in Go's style, or a number of milliseconds.
pub(super) fn duration(value: &Value) -> Result<Duration, Wrong> {
    match value {
        Value::Number(number) => values::milliseconds(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => values::duration(text),
        _ => Err(Wrong::new(format!("{} is not a duration", kind(value)), values::DURATION_HELP)),
    }
}

/// Texts by name; `null` is the empty text.
pub(super) fn text_map(
    value: &Value,
    path: &str,
    findings: &mut Findings,
) -> Option<BTreeMap<String, String>> {
    let object = Object::read(value, path, findings)?;
    let mut map = BTreeMap::new();
    for (name, value) in object.entries() {
        let read = if value.is_null() { Ok(String::new()) } else { text(value) };
        if let Some(text) = findings.check(object.path_of(name), read) {
            map.insert(name.clone(), text);
        }
    }
    Some(map)
}
