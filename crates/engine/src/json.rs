//! Looking into JSON bodies.
//!
//! Nearly every path in a load test is a plain walk (`$.data.items[0].id`). Such a walk is done
//! while the body is parsed, without building a tree: what is not on the way is skipped. Anything
//! else is left to a full RFC 9535 engine.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json_path::JsonPath;

use crate::vars::Form;

#[derive(Debug, Clone)]
pub enum Query {
    Walk(Vec<Segment>),
    Full(Box<JsonPath>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    Key(String),
    Index(usize),
}

impl Query {
    /// `None` if it is not a JSONPath.
    pub fn parse(path: &str) -> Option<Query> {
        match walk(path) {
            Some(segments) => Some(Query::Walk(segments)),
            None => JsonPath::parse(path).ok().map(|path| Query::Full(Box::new(path))),
        }
    }

    /// The first match in `body`: a string without its quotes, anything else as JSON text.
    pub fn find<'b>(&self, body: &'b [u8]) -> Option<Cow<'b, str>> {
        self.find_raw(body).map(|raw| plain(raw).0)
    }

    /// The first match in `body`, as JSON text.
    pub fn find_raw<'b>(&self, body: &'b [u8]) -> Option<Cow<'b, str>> {
        match self {
            Query::Walk(segments) => walk_to(segments, body).ok()?.map(Cow::Borrowed),
            Query::Full(path) => {
                let value: serde_json::Value = serde_json::from_slice(body).ok()?;
                path.query(&value).first().map(|found| Cow::Owned(found.to_string()))
            }
        }
    }

    /// All matches, as JSON texts; `None` if the body is not JSON.
    pub fn find_all<'b>(&self, body: &'b [u8]) -> Option<Vec<Cow<'b, str>>> {
        match self {
            Query::Walk(segments) => {
                let found = walk_to(segments, body).ok()?;
                Some(found.map(Cow::Borrowed).into_iter().collect())
            }
            Query::Full(path) => {
                let value: serde_json::Value = serde_json::from_slice(body).ok()?;
                let found = path.query(&value);
                Some(found.iter().map(|one| Cow::Owned(one.to_string())).collect())
            }
        }
    }
}

fn walk_to<'b>(segments: &[Segment], body: &'b [u8]) -> serde_json::Result<Option<&'b str>> {
    let mut parser = serde_json::Deserializer::from_slice(body);
    Ok(Seek(segments).deserialize(&mut parser)?.map(RawValue::get))
}

/// JSON text as a value: a string without its quotes, anything else as it is.
pub fn plain(raw: Cow<'_, str>) -> (Cow<'_, str>, Form) {
    if !raw.starts_with('"') {
        return (raw, Form::Json);
    }
    let text = match raw {
        Cow::Borrowed(raw) if !raw.contains('\\') => Cow::Borrowed(&raw[1..raw.len() - 1]),
        raw => serde_json::from_str(&raw).map_or(raw, Cow::Owned),
    };
    (text, Form::Text)
}

/// `$.a.b[0]['c d']`; `None` for anything that a plain walk cannot do.
fn walk(path: &str) -> Option<Vec<Segment>> {
    let mut rest = path.strip_prefix('$')?;
    let mut segments = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let plain = |c: char| c == '_' || c.is_alphanumeric();
            let end = after.find(|c| !plain(c)).unwrap_or(after.len());
            if end == 0 || after.starts_with(|c: char| c.is_ascii_digit()) {
                return None;
            }
            segments.push(Segment::Key(after[..end].to_owned()));
            rest = &after[end..];
        } else {
            let inner = rest.strip_prefix('[')?;
            let quote = inner.chars().next()?;
            if quote == '\'' || quote == '"' {
                let end = inner[1..].find(quote)? + 1;
                let key = &inner[1..end];
                if key.contains('\\') {
                    return None;
                }
                segments.push(Segment::Key(key.to_owned()));
                rest = inner[end + 1..].strip_prefix(']')?;
            } else {
                let end = inner.find(']')?;
                segments.push(Segment::Index(inner[..end].parse().ok()?));
                rest = &inner[end + 1..];
            }
        }
    }
    Some(segments)
}

/// Goes down the path inside one value.
struct Seek<'p>(&'p [Segment]);

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        if self.0.is_empty() {
            return <&RawValue>::deserialize(deserializer).map(Some);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seek<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Segment::Key(wanted) = &self.0[0] else {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(None);
        };
        let mut found = None;
        while let Some(matches) = map.next_key_seed(IsKey(wanted))? {
            if matches && found.is_none() {
                found = map.next_value_seed(Seek(&self.0[1..]))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let wanted = match &self.0[0] {
            Segment::Index(index) => *index,
            Segment::Key(_) => usize::MAX,
        };
        let mut found = None;
        for index in 0.. {
            if index == wanted {
                match seq.next_element_seed(Seek(&self.0[1..]))? {
                    Some(value) => found = value,
                    None => break,
                }
            } else if seq.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
        }
        Ok(found)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// Compares a key without copying it.
struct IsKey<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for IsKey<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for IsKey<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str =
        r#"{"a":{"b c":[1,{"d":"x\"y","e":null,"f":[true]}]},"n":-1.5e3,"s":"plain","a.b":7}"#;

    #[test]
    fn a_walk_finds_what_the_full_engine_finds() {
        let paths = [
            "$.a",
            "$.a['b c']",
            "$.a['b c'][0]",
            "$.a[\"b c\"][1].d",
            "$.a['b c'][1].e",
            "$.n",
            "$.s",
            "$",
            "$['a.b']",
            "$.missing",
            "$.n.x",
            "$.a['b c'][9]",
            "$.a['b c'][1].f[0]",
            "$.s[0]",
        ];
        for path in paths {
            let segments = walk(path).unwrap_or_else(|| panic!("{path} is a plain walk"));
            let full = Query::Full(Box::new(JsonPath::parse(path).unwrap()));
            let (fast, slow) =
                (Query::Walk(segments).find(BODY.as_bytes()), full.find(BODY.as_bytes()));
            let compact = |found: Option<Cow<'_, str>>| {
                found.map(|text| match serde_json::from_str::<serde_json::Value>(&text) {
                    Ok(value) => value.to_string(),
                    Err(_) => text.into_owned(),
                })
            };
            assert_eq!(compact(fast), compact(slow), "{path}");
        }
    }

    #[test]
    fn what_is_no_walk_goes_to_the_full_engine() {
        for path in ["$..d", "$.a[*]", "$.a['b c'][-1].d", "$[?@.x]", "$.a['b c'][0:1]"] {
            assert!(matches!(Query::parse(path), Some(Query::Full(_))), "{path}");
        }
        assert_eq!(Query::parse("$..d").unwrap().find(BODY.as_bytes()).as_deref(), Some("x\"y"));
        assert!(Query::parse("a.b").is_none());
    }

    #[test]
    fn a_broken_body_has_no_match() {
        let query = Query::parse("$.a").unwrap();
        for body in ["", "{", "<html>", "{\"a\":", "[1,2"] {
            assert_eq!(query.find(body.as_bytes()), None, "{body}");
        }
    }
}
