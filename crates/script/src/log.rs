//! What a script says: its console, its exceptions, our warnings about it. Printing is the
//! command's.

use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    Debug,
    Info,
    Warning,
    Error,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub level: Level,
    pub message: String,
    /// `console`, `stacktrace`, or nothing for our own words.
    pub source: Option<&'static str>,
    /// `executor`, `scenario` and the like, in the order in which they are shown.
    pub fields: Vec<(&'static str, String)>,
}

impl Line {
    pub fn new(level: Level, message: impl Into<String>) -> Line {
        Line { level, message: message.into(), source: None, fields: Vec::new() }
    }

    pub fn from(mut self, source: &'static str) -> Line {
        self.source = Some(source);
        self
    }

    pub fn with(mut self, key: &'static str, value: impl Into<String>) -> Line {
        self.fields.push((key, value.into()));
        self
    }
}

/// May be called from any core; must not wait.
pub type Logger = Arc<dyn Fn(Line) + Send + Sync>;
