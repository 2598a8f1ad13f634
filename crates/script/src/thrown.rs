//! What a script threw, in words for people: message, file, line, stack.

use std::sync::Arc;

use rquickjs::{Ctx, Error, Value};

use crate::host::Host;
use crate::source::Sources;

/// How a piece of script ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thrown {
    /// `TypeError: cannot read property 'x' of undefined`
    pub message: String,
    /// Lines of the form `at name (file:///path/script.js:3:14)`, as the files were written.
    pub stack: Vec<String>,
    pub kind: ThrownKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThrownKind {
    Exception,
    /// The run is over; the script was cut off.
    Cancelled,
    /// `exec.test.abort()`.
    Abort,
    /// It called a part of k6's API that is not here, which ends the run.
    Lacking,
}

impl Thrown {
    pub fn new(message: impl Into<String>) -> Thrown {
        Thrown { message: message.into(), stack: Vec::new(), kind: ThrownKind::Exception }
    }

    /// Message and stack, as k6 shows them.
    pub fn full(&self) -> String {
        let mut text = self.message.clone();
        for line in &self.stack {
            text.push_str("\n\t");
            text.push_str(line);
        }
        if !self.stack.is_empty() {
            text.push('\n');
        }
        text
    }

    /// Message and place, for where a line is all the room that there is.
    pub fn in_one_line(&self) -> String {
        let place = self.stack.first().map(|line| format!(" {line}")).unwrap_or_default();
        let (what, more) = self.message.split_once('\n').unwrap_or((&self.message, ""));
        let more = more.trim_start().trim_start_matches("help: ");
        match more.is_empty() {
            true => format!("{what}{place}"),
            false => format!("{what}{place}; {}", more.replace('\n', " ")),
        }
    }

    /// Takes the pending exception, if that is what the error means.
    pub fn caught(ctx: &Ctx<'_>, host: &Host, error: &Error) -> Thrown {
        let mut thrown = match error {
            Error::Exception => Thrown::from_value(&ctx.catch(), &host.script().sources),
            other => Thrown::new(other.to_string()),
        };
        if let Some((reason, kind)) = &*host.aborted.borrow() {
            thrown.message.clone_from(reason);
            thrown.kind = *kind;
            if thrown.kind == ThrownKind::Lacking {
                // Its reason has the place.
                thrown.stack.clear();
            }
        } else if host.fiber.is_cancelled() {
            thrown.kind = ThrownKind::Cancelled;
        }
        thrown
    }

    pub fn from_value(value: &Value<'_>, sources: &Sources) -> Thrown {
        let Some(object) = value.as_object().filter(|_| value.is_error()) else {
            return Thrown::new(describe(value));
        };
        let text = |key: &str| object.get::<_, Option<String>>(key).ok().flatten();
        let name = text("name").unwrap_or_else(|| "Error".to_owned());
        let message = text("message").unwrap_or_default();
        let stack = text("stack").unwrap_or_default();
        let lines = stack.lines().map(str::trim).filter(|line| line.starts_with("at "));
        let stack = lines.filter(|line| !is_ours(line)).map(|line| original(line, sources));
        let stack: Vec<String> = stack.collect();
        let better = match name.as_str() {
            "TypeError" | "ReferenceError" => explained(&message, &stack, sources),
            _ => None,
        };
        let message = match (name.as_str(), better.as_deref().unwrap_or(&message)) {
            (name, "") => name.to_owned(),
            (name, message) => format!("{name}: {message}"),
        };
        Thrown { message, stack, kind: ThrownKind::Exception }
    }
}

/// The engine's words with the name of what it speaks of.
fn explained(message: &str, stack: &[String], sources: &Sources) -> Option<Arc<str>> {
    let line = stack.first()?;
    let place = &line[line.find("file://")?..];
    let mut parts = place.trim_end_matches(')').rsplitn(3, ':');
    let column = parts.next()?.parse().ok()?;
    let row = parts.next()?.parse().ok()?;
    sources.explain(parts.next()?, row, column, message)
}

/// Frames of native functions and of the code that we run around a script.
fn is_ours(line: &str) -> bool {
    line.ends_with("(native)") || line.contains("(eval_script:") || line.contains("(volley:")
}

/// A value that is no error, as text.
pub fn describe(value: &Value<'_>) -> String {
    if let Some(text) = value.as_string() {
        return text.to_string().unwrap_or_default();
    }
    if value.is_object()
        && let Ok(Some(json)) = value.ctx().json_stringify(value.clone())
    {
        return json.to_string().unwrap_or_default();
    }
    let text = value.get::<rquickjs::Coerced<String>>();
    text.map_or_else(|_| value.type_name().to_string(), |text| text.0)
}

/// `at f (file:///x.ts:7:3)` with the line that the user wrote.
fn original(line: &str, sources: &Sources) -> String {
    let (before, place, after) = match line.rfind('(') {
        Some(open) => (&line[..=open], line[open + 1..].trim_end_matches(')'), ")"),
        None => ("at ", line.trim_start_matches("at ").trim(), ""),
    };
    let mut parts = place.rsplitn(3, ':');
    let (column, row, file) = (parts.next(), parts.next(), parts.next());
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u32>().ok());
    match (file, number(row), number(column)) {
        (Some(file), Some(row), Some(column)) => {
            let (row, column) = sources.original(file, row, column);
            format!("{before}{file}:{row}:{column}{after}")
        }
        _ => line.to_owned(),
    }
}
