//! Extractors, compiled: what a step takes from a response, and what it says if nothing is there.

use std::borrow::Cow;

use client::Response;
use plan::{Extract, Extractor, Pick};
use regex::bytes::Regex;

use super::workflow::Scope;
use crate::json::{Query, plain};
use crate::text::Names;
use crate::vars::Form;

/// Characters of a body that a message quotes.
const QUOTED_MAX: usize = 120;

pub struct ExtractProgram {
    pub slot: usize,
    pub variable: String,
    pub from: ExtractFrom,
    pick: Pick,
    /// Finding nothing fails the step. Known when the whole workflow is compiled.
    pub required: bool,
}

pub enum ExtractFrom {
    Json {
        path: String,
        query: Query,
    },
    Regex {
        pattern: Regex,
        group: usize,
    },
    Header(String),
    Cookie(String),
    /// A path or pattern that the plan's check let through but this engine cannot read.
    Nothing(String),
}

/// Everything that an extractor matched.
enum Matches<'r> {
    Json(Vec<Cow<'r, str>>),
    Bytes(Vec<&'r [u8]>),
}

/// What an extractor has found.
pub type Value<'r> = (Cow<'r, [u8]>, Form);

impl ExtractProgram {
    pub(super) fn compile(extract: &Extract, scope: &mut Scope<'_, '_>) -> ExtractProgram {
        let from = match &extract.from {
            Extractor::Json(path) => match Query::parse(path) {
                Some(query) => ExtractFrom::Json { path: path.clone(), query },
                None => ExtractFrom::Nothing(path.clone()),
            },
            Extractor::Regex { pattern, group } => match Regex::new(pattern) {
                Ok(pattern) => ExtractFrom::Regex { pattern, group: *group },
                Err(_) => ExtractFrom::Nothing(pattern.clone()),
            },
            Extractor::Header(name) => ExtractFrom::Header(name.clone()),
            Extractor::Cookie(name) => ExtractFrom::Cookie(name.clone()),
        };
        ExtractProgram {
            slot: scope.slot(&extract.variable),
            variable: extract.variable.clone(),
            from,
            pick: extract.pick,
            required: !extract.optional,
        }
    }

    pub fn reads_body(&self) -> bool {
        matches!(self.from, ExtractFrom::Json { .. } | ExtractFrom::Regex { .. })
    }

    pub fn reads_headers(&self) -> bool {
        matches!(self.from, ExtractFrom::Header(_))
    }

    /// The value, if the response has it.
    pub fn find<'r>(&self, response: &'r Response, rng: &mut fastrand::Rng) -> Option<Value<'r>> {
        if self.pick == Pick::First {
            return self.first(response);
        }
        let matches = self.all(response)?;
        let count = matches.count();
        match self.pick {
            Pick::Count => Some((Cow::Owned(count.to_string().into_bytes()), Form::Json)),
            _ if count == 0 => None,
            Pick::All => Some((Cow::Owned(matches.into_list()), Form::Json)),
            Pick::Random => Some(matches.into_one(rng.usize(..count))),
            Pick::Last => Some(matches.into_one(count - 1)),
            Pick::First => Some(matches.into_one(0)),
        }
    }

    /// The usual case, without looking further than the first match.
    fn first<'r>(&self, response: &'r Response) -> Option<Value<'r>> {
        let text = |bytes: &'r [u8]| (Cow::Borrowed(bytes), Form::Text);
        match &self.from {
            ExtractFrom::Json { query, .. } => query.find_raw(&response.body).map(from_json),
            ExtractFrom::Regex { pattern, group } => {
                let captures = pattern.captures(&response.body)?;
                captures.get(*group).map(|found| text(found.as_bytes()))
            }
            ExtractFrom::Header(name) => response.header(name).map(text),
            ExtractFrom::Cookie(name) => cookies(response, name).next().map(text),
            ExtractFrom::Nothing(_) => None,
        }
    }

    /// `None`: the body is not what could be searched.
    fn all<'r>(&self, response: &'r Response) -> Option<Matches<'r>> {
        Some(match &self.from {
            ExtractFrom::Json { query, .. } => Matches::Json(query.find_all(&response.body)?),
            ExtractFrom::Regex { pattern, group } => {
                let found = pattern.captures_iter(&response.body);
                Matches::Bytes(found.filter_map(|one| Some(one.get(*group)?.as_bytes())).collect())
            }
            ExtractFrom::Header(name) => {
                let named =
                    response.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
                Matches::Bytes(named.map(|(_, value)| value.as_slice()).collect())
            }
            ExtractFrom::Cookie(name) => Matches::Bytes(cookies(response, name).collect()),
            ExtractFrom::Nothing(_) => return None,
        })
    }

    /// Why there is no value: what was looked for, and what was there instead.
    pub fn explain(&self, response: &Response) -> String {
        let variable = &self.variable;
        let found = |what: &str| {
            let body = &response.body;
            match body.is_empty() {
                true => format!("`{variable}`: {what} matches nothing, the body is empty"),
                false => format!("`{variable}`: {what} matches nothing in: {}", beginning(body)),
            }
        };
        match &self.from {
            ExtractFrom::Json { path, .. } | ExtractFrom::Nothing(path) => {
                found(&format!("`{path}`"))
            }
            ExtractFrom::Regex { pattern, .. } => found(&format!("`{pattern}`")),
            ExtractFrom::Header(name) if name.eq_ignore_ascii_case("location") => format!(
                "`{variable}`: the last answer has no header `{name}`; if a redirect has it that was followed: \
                 `redirects: false` in this step"
            ),
            ExtractFrom::Header(name) => format!("`{variable}`: the answer has no header `{name}`"),
            ExtractFrom::Cookie(name) => {
                format!("`{variable}`: the answer sets no cookie `{name}`")
            }
        }
    }
}

impl<'r> Matches<'r> {
    fn count(&self) -> usize {
        match self {
            Matches::Json(found) => found.len(),
            Matches::Bytes(found) => found.len(),
        }
    }

    fn into_one(self, index: usize) -> Value<'r> {
        match self {
            Matches::Json(mut found) => from_json(found.swap_remove(index)),
            Matches::Bytes(found) => (Cow::Borrowed(found[index]), Form::Text),
        }
    }

    /// As a JSON list.
    fn into_list(self) -> Vec<u8> {
        let texts: Vec<Cow<'_, str>> = match self {
            Matches::Json(found) => found,
            Matches::Bytes(found) => {
                let quoted = |bytes: &[u8]| {
                    serde_json::Value::from(String::from_utf8_lossy(bytes)).to_string()
                };
                found.into_iter().map(|bytes| Cow::Owned(quoted(bytes))).collect()
            }
        };
        format!("[{}]", texts.join(",")).into_bytes()
    }
}

fn from_json(raw: Cow<'_, str>) -> Value<'_> {
    match plain(raw) {
        (Cow::Borrowed(text), form) => (Cow::Borrowed(text.as_bytes()), form),
        (Cow::Owned(text), form) => (Cow::Owned(text.into_bytes()), form),
    }
}

fn cookies<'r>(response: &'r Response, name: &str) -> impl Iterator<Item = &'r [u8]> {
    response.set_cookies.iter().filter_map(move |line| {
        let (known, rest) = line.split_once('=')?;
        let value = rest.split(';').next().unwrap_or_default().trim();
        (known.trim() == name).then_some(value.as_bytes())
    })
}

/// The first characters of a body, in one line, without what looks like a credential.
fn beginning(body: &[u8]) -> String {
    // A character has at most four bytes; a credential that is cut in half is not recognised.
    let text = String::from_utf8_lossy(&body[..body.len().min(64 * QUOTED_MAX)]);
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = crate::trace::redact_json(&line);
    let mut quoted: String = line.chars().take(QUOTED_MAX).collect();
    if quoted.len() < line.len() {
        quoted.push('…');
    }
    quoted
}
