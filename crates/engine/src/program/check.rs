//! Checks, compiled, and how they look at a response.

use memchr::memmem::Finder;
use plan::{Check, CheckKind, Comparison, StatusRange, Test};
use regex::bytes::Regex;

use super::block::number;
use super::workflow::Scope;
use crate::json::Query;
use crate::text::Text;
use crate::vars::Vars;
use client::Response;

pub struct CheckProgram {
    /// Number within the workflow.
    pub id: usize,
    pub probe: Probe,
}

/// What is looked at, and what is asked of it.
pub enum Probe {
    Status(Vec<StatusRange>),
    Json(Query, TestProgram),
    Body(TestProgram),
    BodySize(Comparison, u64),
    Header(String, TestProgram),
    /// Nanoseconds from the intended start.
    Latency(Comparison, u64),
    /// A path or pattern that the plan's check let through but this engine cannot read: never
    /// holds.
    Never,
}

pub enum TestProgram {
    Exists(bool),
    Equals(Text),
    /// Prepared once for a constant.
    ContainsFixed(Box<Finder<'static>>),
    Contains(Text),
    Matches(Regex),
    Compare(Comparison, f64),
    Never,
}

impl CheckProgram {
    pub(super) fn compile(check: &Check, id: usize, scope: &mut Scope<'_, '_>) -> CheckProgram {
        let probe = match &check.kind {
            CheckKind::Status(ranges) => Probe::Status(ranges.clone()),
            CheckKind::Json { path, test } => match Query::parse(path) {
                Some(query) => Probe::Json(query, TestProgram::compile(test, scope)),
                None => Probe::Never,
            },
            CheckKind::Body(test) => Probe::Body(TestProgram::compile(test, scope)),
            CheckKind::BodySize { op, bytes } => Probe::BodySize(*op, *bytes),
            CheckKind::Header { name, test } => {
                Probe::Header(name.clone(), TestProgram::compile(test, scope))
            }
            CheckKind::Latency { op, limit } => Probe::Latency(*op, limit.as_nanos() as u64),
        };
        CheckProgram { id, probe }
    }

    pub fn reads_body(&self) -> bool {
        matches!(self.probe, Probe::Json(..) | Probe::Body(_) | Probe::BodySize(..))
    }

    pub fn reads_headers(&self) -> bool {
        matches!(self.probe, Probe::Header(..))
    }

    /// `response` is `None` if no answer came: then nothing holds.
    pub fn holds(&self, response: Option<&Response>, latency_ns: u64, vars: &Vars) -> bool {
        let Some(response) = response else { return false };
        match &self.probe {
            Probe::Status(ranges) => status_fits(ranges, response.status),
            Probe::Json(query, test) => match query.find(&response.body) {
                Some(found) => test.holds(Some(found.as_bytes()), vars),
                // What is no JSON has nothing in it; that is not what `exists: false` asks.
                None => test.holds(None, vars) && query.find_all(&response.body).is_some(),
            },
            Probe::Body(test) => test.holds(Some(&response.body), vars),
            Probe::BodySize(op, bytes) => op.holds(response.body.len() as u64, *bytes),
            Probe::Header(name, test) => test.holds(response.header(name), vars),
            Probe::Latency(op, limit) => op.holds(latency_ns, *limit),
            Probe::Never => false,
        }
    }
}

/// Characters of a value that are shown.
const SHOWN_MAX: usize = 60;

fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * SHOWN_MAX)]).into_owned();
    let line = text.lines().next().unwrap_or_default();
    let cut: String = line.chars().take(SHOWN_MAX).collect();
    let more = if cut.len() < bytes.len() { "…" } else { "" };
    format!("`{cut}{more}`")
}

impl CheckProgram {
    /// What was there instead, for people.
    pub fn explain(&self, response: Option<&Response>, latency_ns: u64) -> String {
        let Some(response) = response else { return "no answer came".to_owned() };
        let body = &response.body;
        match &self.probe {
            Probe::Status(_) => format!("the status was {}", response.status),
            Probe::Json(query, _) => match (query.find(body), query.find_all(body)) {
                (Some(found), _) => format!("found {}", shown(found.as_bytes())),
                (None, Some(_)) => "the path matches nothing in the answer".to_owned(),
                (None, None) if body.is_empty() => "the body is empty, and not JSON".to_owned(),
                (None, None) => format!("the body is not JSON: it begins with {}", shown(body)),
            },
            Probe::Body(_) if body.is_empty() => "the body is empty".to_owned(),
            Probe::Body(_) => format!("the body begins with {}", shown(body)),
            Probe::BodySize(..) => format!("the body had {} bytes", body.len()),
            Probe::Header(name, _) => match response.header(name) {
                Some(value) => format!("it was {}", shown(value)),
                None => "the answer has no such header".to_owned(),
            },
            Probe::Latency(..) => format!("it took {:.3} ms", latency_ns as f64 / 1e6),
            Probe::Never => "it can never hold".to_owned(),
        }
    }
}

pub fn status_fits(ranges: &[StatusRange], status: u16) -> bool {
    ranges.iter().any(|range| (range.from..=range.to).contains(&status))
}

impl TestProgram {
    fn compile(test: &Test, scope: &mut Scope<'_, '_>) -> TestProgram {
        match test {
            Test::Exists(wanted) => TestProgram::Exists(*wanted),
            Test::Equals(template) => TestProgram::Equals(Text::compile(template, scope)),
            Test::Contains(template) => {
                let text = Text::compile(template, scope);
                match text.constant() {
                    Some(needle) => {
                        TestProgram::ContainsFixed(Box::new(Finder::new(needle).into_owned()))
                    }
                    None => TestProgram::Contains(text),
                }
            }
            Test::Matches(pattern) => match Regex::new(pattern) {
                Ok(pattern) => TestProgram::Matches(pattern),
                Err(_) => TestProgram::Never,
            },
            Test::Compare(op, value) => TestProgram::Compare(*op, *value),
        }
    }

    fn holds(&self, found: Option<&[u8]>, vars: &Vars) -> bool {
        let Some(found) = found else { return matches!(self, TestProgram::Exists(false)) };
        match self {
            TestProgram::Exists(wanted) => *wanted,
            TestProgram::Equals(text) => match text.constant() {
                Some(constant) => constant == found,
                None => text.is_ready(vars) && text.to_bytes(vars) == found,
            },
            TestProgram::ContainsFixed(finder) => finder.find(found).is_some(),
            TestProgram::Contains(text) => {
                // A value that is missing is not an empty text, which everything contains.
                text.is_ready(vars) && memchr::memmem::find(found, &text.to_bytes(vars)).is_some()
            }
            TestProgram::Matches(pattern) => pattern.is_match(found),
            TestProgram::Compare(op, value) => {
                number(found).is_some_and(|number| op.holds(number, *value))
            }
            TestProgram::Never => false,
        }
    }
}
