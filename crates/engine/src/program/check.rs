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
                None => test.holds(None, vars),
            },
            Probe::Body(test) => test.holds(Some(&response.body), vars),
            Probe::BodySize(op, bytes) => op.holds(response.body.len() as u64, *bytes),
            Probe::Header(name, test) => test.holds(response.header(name), vars),
            Probe::Latency(op, limit) => op.holds(latency_ns, *limit),
            Probe::Never => false,
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
