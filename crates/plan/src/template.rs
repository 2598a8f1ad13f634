//! Text with references: `/cart?region=${env.REGION:-eu}`.
//!
//! A reference is `${SOURCE}` or `${SOURCE:-DEFAULT}`, with an optional filter `${SOURCE | raw}`;
//! `$${` is a literal `${`, and `{{{{` a literal `{{`. Environment variables are known when a plan
//! is read, so the decoder replaces `${env.NAME}` by its text; whoever runs a plan never meets
//! [`Source::Env`].

mod escape;
mod foreign;
mod parse;

pub use escape::write_value;
pub(crate) use foreign::{Foreign, find as find_foreign};
pub(crate) use parse::{is_name, is_source, spans};

/// Text and references in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Template {
    pub parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    Text(String),
    Reference(Reference),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    pub source: Source,
    /// Used when the source has no value (or, for `env`, is unset or empty).
    pub default: Option<String>,
    pub filter: Option<Filter>,
    /// How the value is written where the template stands; set by the decoder.
    pub escape: Escape,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// `${env.NAME}`
    Env(String),
    /// `${secret.NAME}`: known only to the machine that runs the load; never shown.
    Secret(String),
    /// `${data.SET.COLUMN}`
    Data { set: String, column: String },
    /// `${use.KEY}`: a value handed over by an earlier workflow.
    Use(String),
    /// `${steps.NAME.FIELD}`: the response of a step of this iteration.
    Step { name: String, field: StepField },
    /// `${NAME}`: a variable (`vars`, `set`, `extract`).
    Variable(String),
    /// `${random.uuid}`, also `${uuid}`
    Uuid,
    /// `${random.int(1, 100)}`: both bounds included.
    RandomInt { min: i64, max: i64 },
    /// `${random.string(8)}`: letters and digits.
    RandomString { length: u32 },
    /// `${random.word}`
    RandomWord,
    /// `${timestamp}` (seconds), `${timestamp.ms}`, `${timestamp.iso}`
    Timestamp(TimestampForm),
    /// `${vu.id}`: 1-based, unique in the workflow.
    VuId,
    /// `${vu.iteration}`: 0-based, of this virtual user.
    VuIteration,
    /// `${iteration}`: 0-based, unique in the workflow.
    Iteration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepField {
    Status,
    Body,
    LatencyMs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampForm {
    Seconds,
    Milliseconds,
    Iso,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// Written as it is, whatever the place: a number or an object inside JSON, a path in a URL.
    Raw,
    Url,
    Json,
    Base64,
    Upper,
    Lower,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Escape {
    #[default]
    None,
    /// A header's value: a line break would end it, so control characters become spaces.
    Header,
    /// Inside a JSON string: quotes, backslashes and control characters are escaped.
    Json,
    /// A whole JSON value: text in quotes, and what was extracted from JSON as it was there.
    JsonValue,
    /// A URL or its beginning: only characters that no URL may contain are percent-encoded.
    Url,
    /// In a URL before `?`: also `?` and `#`. Slashes are kept: a value may be several segments.
    UrlPath,
    /// In a URL after `?`: also `&`, `#` and `+`.
    UrlQuery,
    /// A key or value of a query or form: everything but unreserved characters.
    Component,
}

/// What is wrong with a template, and where in its text (bytes).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    pub start: usize,
    pub end: usize,
    pub message: String,
    pub help: Option<String>,
}

impl Template {
    /// Reads a text with references; `escape` says where the template will stand.
    pub fn parse(text: &str, escape: Escape) -> Result<Template, TemplateError> {
        parse::template(text, escape)
    }

    /// A template without references.
    pub fn literal(text: impl Into<String>) -> Template {
        let text = text.into();
        Template { parts: if text.is_empty() { Vec::new() } else { vec![Part::Text(text)] } }
    }

    /// The text, if nothing has to be filled in.
    pub fn as_literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.parts.iter().filter_map(|part| match part {
            Part::Reference(reference) => Some(reference),
            Part::Text(_) => None,
        })
    }

    /// Adds text at the end, joined to text that already stands there.
    pub fn push_text(&mut self, text: &str) {
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Text(last)) => last.push_str(text),
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
    }

    pub fn push(&mut self, part: Part) {
        match part {
            Part::Text(text) => self.push_text(&text),
            Part::Reference(_) => self.parts.push(part),
        }
    }
}

impl Reference {
    /// Writes a text as this reference wants it: filtered, then escaped for its place.
    pub fn write(&self, value: &str, into: &mut String) {
        let mut written = Vec::new();
        write_value(value.as_bytes(), self.filter, self.escape, &mut written);
        into.push_str(&String::from_utf8_lossy(&written));
    }
}

#[cfg(test)]
mod tests;
