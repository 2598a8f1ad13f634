//! Problems of a plan: all of them at once, each with its place and what to do about it.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::tree::{Lines, Node, Place};
use crate::userinfo::{mask_userinfo, mask_userinfo_in_place};

/// One thing that is wrong with a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problem {
    pub file: PathBuf,
    /// Counted from 1; 0 if the problem is about the file as a whole.
    pub line: u32,
    pub column: u32,
    /// The offending key: `workflows[0].steps[1].get`; empty at the top.
    pub path: String,
    pub message: String,
    pub help: Option<String>,
    /// The line as written, and how many characters of it are meant.
    pub excerpt: Option<(String, usize)>,
}

impl Problem {
    /// For a warning, beside which other things are said: place, what, and what to do.
    #[must_use]
    pub fn in_a_line(&self) -> String {
        let help = self.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
        let Problem { line, column, message, .. } = self;
        let file = self.file.display();
        match *line {
            0 => format!("{file}: {message}{help}"),
            _ => format!("{file}:{line}:{column}: {message}{help}"),
        }
    }
}

/// Everything that is wrong with a plan, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl std::error::Error for Problems {}

/// Long lines are shown in part: this many characters around the column.
const EXCERPT_CHARS_MAX: usize = 100;

/// A file that is wrong throughout (a wrong format, say) is not searched for more than this.
const FOUND_MAX: usize = 1000;

/// More than this many problems are counted and not shown: nobody reads them.
const SHOWN_MAX: usize = 50;

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if self.line > 0 {
            write!(f, "{}:{}:", self.line, self.column)?;
        }
        writeln!(f, " {}", self.message)?;
        if let Some((line, width)) = &self.excerpt {
            let (text, before, width) = window(line, self.column as usize, *width);
            writeln!(f, "{:>5} | {text}", self.line)?;
            writeln!(f, "      | {}{}", " ".repeat(before), "^".repeat(width))?;
        }
        if !self.path.is_empty() {
            writeln!(f, "      at {}", self.path)?;
        }
        if let Some(help) = &self.help {
            writeln!(f, "      help: {help}")?;
        }
        Ok(())
    }
}

/// The part of a line to show, the blanks before its marks, and the number of marks.
fn window(line: &str, column: usize, width: usize) -> (String, usize, usize) {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let at = column.saturating_sub(1);
    let length = line.chars().count();
    let first = if length <= EXCERPT_CHARS_MAX { 0 } else { at.saturating_sub(40) };
    let shown = length.saturating_sub(first).min(EXCERPT_CHARS_MAX);
    let mut text = String::new();
    if first > 0 {
        text.push('…');
    }
    let before = at - first.min(at) + usize::from(first > 0);
    text.extend(line.chars().skip(first).take(shown).map(plain));
    if first + shown < length {
        text.push('…');
    }
    let room = (first + shown).saturating_sub(at).max(1);
    (text, before, width.clamp(1, room))
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in self.0.iter().take(SHOWN_MAX) {
            writeln!(f, "{problem}")?;
        }
        if self.0.len() > SHOWN_MAX {
            writeln!(f, "... and {} more\n", self.0.len() - SHOWN_MAX)?;
        }
        let file = self.0.first().map(|first| first.file.display().to_string());
        let noun = if self.0.len() == 1 { "problem" } else { "problems" };
        write!(f, "{} {noun} in {}", self.0.len(), file.unwrap_or_default())
    }
}

/// A problem before its line is known by number: what the checks produce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub place: Place,
    pub message: String,
    pub help: Option<String>,
}

impl Finding {
    pub fn new(place: Place, message: impl Into<String>) -> Self {
        Finding { place, message: message.into(), help: None }
    }

    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help;
        self
    }
}

/// Sorts by place, drops repetitions (an alias is checked wherever it is used) and adds excerpts.
pub fn assemble(
    mut findings: Vec<Finding>,
    file: &Path,
    text: &str,
    root: Option<&Node>,
) -> Problems {
    findings.sort_by(|a, b| a.place.cmp(&b.place).then_with(|| a.message.cmp(&b.message)));
    findings.dedup();
    findings.truncate(FOUND_MAX);
    let lines = Lines::new(text);
    let problem = |finding: Finding| {
        let place = finding.place;
        let line = lines.line(place.line);
        let first_line = text.get(place.start..place.end).unwrap_or_default();
        let width = first_line.lines().next().unwrap_or_default().trim_end().chars().count();
        Problem {
            file: file.to_owned(),
            line: place.line,
            column: place.column,
            path: root.and_then(|root| root.path_of(place)).unwrap_or_default(),
            message: mask_userinfo(&finding.message).into_owned(),
            help: finding.help,
            excerpt: (!line.trim().is_empty())
                .then(|| (mask_userinfo_in_place(line).into_owned(), width)),
        }
    };
    Problems(findings.into_iter().map(problem).collect())
}

/// A problem that is about a whole file.
pub fn about_file(file: &Path, message: impl Into<String>, help: Option<String>) -> Problems {
    Problems(vec![Problem {
        file: file.to_owned(),
        line: 0,
        column: 0,
        path: String::new(),
        message: message.into(),
        help,
        excerpt: None,
    }])
}
