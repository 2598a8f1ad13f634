//! What a virtual user does: steps, requests, extractors and checks.

use std::path::PathBuf;
use std::time::Duration;

use super::{Comparison, OnFailure, Span};
use crate::expr::Condition;
use crate::template::Template;

#[derive(Debug, Clone)]
pub struct Step {
    /// Unique within its workflow; given by the plan or made from the request (`GET /cart`).
    pub name: String,
    /// `None`: the step above (or nothing, in a concurrent list). `Some`: all of these.
    pub needs: Option<Vec<String>>,
    pub when: Option<Condition>,
    /// The condition as the user wrote it.
    pub when_text: Option<String>,
    pub action: Action,
}

#[derive(Debug, Clone)]
pub enum Action {
    Request(Box<Request>),
    Think(Span),
    Set(Vec<(String, Template)>),
    Record(Vec<Record>),
    Group {
        steps: Vec<Step>,
        concurrent: bool,
    },
    Repeat {
        times: u64,
        until: Option<Condition>,
        steps: Vec<Step>,
    },
    /// One branch, drawn by weight.
    Choose(Vec<Branch>),
}

#[derive(Debug, Clone)]
pub struct Branch {
    pub weight: u32,
    pub steps: Vec<Step>,
}

#[derive(Debug, Clone)]
pub struct Record {
    pub metric: String,
    pub value: Template,
}

#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    /// Absolute, or relative to the plan's target.
    pub url: Template,
    pub query: Vec<(String, Template)>,
    pub headers: Vec<(String, Template)>,
    pub body: Body,
    pub auth: Option<Auth>,
    pub timeout: Option<Duration>,
    pub redirects: Option<u32>,
    pub tags: Vec<(String, Template)>,
    pub extract: Vec<Extract>,
    pub checks: Vec<Check>,
    pub record: Vec<Record>,
    pub on_failure: Option<OnFailure>,
}

#[derive(Debug, Clone)]
pub enum Body {
    None,
    /// JSON text whose references are escaped as JSON strings (see `template::Escape`).
    Json(Template),
    Form(Vec<(String, Template)>),
    Multipart(Vec<MultipartField>),
    Raw(Template),
    /// Sent as it stands; read once, before the run.
    File(PathBuf),
}

#[derive(Debug, Clone)]
pub struct MultipartField {
    pub name: String,
    pub value: MultipartValue,
    pub content_type: Option<String>,
}

#[derive(Debug, Clone)]
pub enum MultipartValue {
    Text(Template),
    File(PathBuf),
}

#[derive(Debug, Clone)]
pub enum Auth {
    Basic { user: Template, password: Template },
    Bearer(Template),
}

/// `variable: where it is found in the response`.
#[derive(Debug, Clone)]
pub struct Extract {
    pub variable: String,
    pub from: Extractor,
    pub pick: Pick,
    /// Finding nothing is no failure. It is none either where every reference has a default.
    pub optional: bool,
}

/// Which of an extractor's matches is the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pick {
    #[default]
    First,
    Last,
    Random,
    /// All of them, as a JSON list.
    All,
    /// How many there are; none is a number, too.
    Count,
}

#[derive(Debug, Clone)]
pub enum Extractor {
    /// RFC 9535; strings without their quotes, anything else as JSON text.
    Json(String),
    Regex {
        pattern: String,
        group: usize,
    },
    Header(String),
    Cookie(String),
}

#[derive(Debug, Clone)]
pub struct Check {
    /// Given, or made from what is checked (`status is 200`).
    pub name: String,
    pub kind: CheckKind,
}

#[derive(Debug, Clone)]
pub enum CheckKind {
    /// Also defines which statuses of this step are not failures.
    Status(Vec<StatusRange>),
    Json {
        path: String,
        test: Test,
    },
    Body(Test),
    BodySize {
        op: Comparison,
        bytes: u64,
    },
    Header {
        name: String,
        test: Test,
    },
    /// Response time from the intended start, compared with a limit.
    Latency {
        op: Comparison,
        limit: Duration,
    },
}

/// Inclusive bounds; `2xx` is 200..=299.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusRange {
    pub from: u16,
    pub to: u16,
}

#[derive(Debug, Clone)]
pub enum Test {
    Exists(bool),
    Equals(Template),
    Contains(Template),
    Matches(String),
    /// Numeric comparison.
    Compare(Comparison, f64),
}
