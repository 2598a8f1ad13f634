//! What is wrong with options, where, and what to do about it.

use std::fmt;

use plan::units::Wrong;

/// Where a level of options was written; every message begins with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Place {
    Script,
    /// The path as the user wrote it.
    ConfigFile(String),
    Environment,
    CommandLine,
    /// Several levels together, after merging.
    #[default]
    Merged,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Script => f.write_str("script options"),
            Place::ConfigFile(path) => write!(f, "config file {path}"),
            Place::Environment => f.write_str("environment"),
            Place::CommandLine => f.write_str("command line"),
            Place::Merged => f.write_str("options"),
        }
    }
}

/// One thing that is wrong: `script options: scenarios.api.vus: ...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub place: Place,
    /// The key: `scenarios.api.stages[1].duration`, or a variable: `K6_VUS`.
    pub path: String,
    pub message: String,
    pub help: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

/// Everything that is wrong with a level of options, or with all of them together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionsError(pub Vec<Problem>);

impl OptionsError {
    /// k6's exit code for an invalid configuration.
    pub const EXIT_CODE: u8 = 104;
}

impl std::error::Error for OptionsError {}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

/// Something that does not stop the run but that its author should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning(pub Problem);

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What was found so far at one place.
#[derive(Debug)]
pub(super) struct Findings {
    pub place: Place,
    pub problems: Vec<Problem>,
    pub warnings: Vec<Warning>,
}

impl Findings {
    pub fn at(place: Place) -> Findings {
        Findings { place, problems: Vec::new(), warnings: Vec::new() }
    }

    pub fn wrong(&mut self, path: impl Into<String>, wrong: Wrong) {
        let problem = self.problem(path, wrong);
        self.problems.push(problem);
    }

    pub fn warn(&mut self, path: impl Into<String>, wrong: Wrong) {
        let problem = self.problem(path, wrong);
        self.warnings.push(Warning(problem));
    }

    /// The value, or `None` with the problem noted.
    pub fn check<T>(&mut self, path: impl Into<String>, result: Result<T, Wrong>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(wrong) => {
                self.wrong(path, wrong);
                None
            }
        }
    }

    pub fn finish<T>(self, value: T) -> Result<(T, Vec<Warning>), OptionsError> {
        if self.problems.is_empty() {
            Ok((value, self.warnings))
        } else {
            Err(OptionsError(self.problems))
        }
    }

    fn problem(&self, path: impl Into<String>, wrong: Wrong) -> Problem {
        let Wrong { message, help } = wrong;
        Problem { place: self.place.clone(), path: path.into(), message, help }
    }
}

/// A message without a remedy, where the message says it all.
pub(super) fn plain(message: impl Into<String>) -> Wrong {
    Wrong { message: message.into(), help: None }
}

/// The known name that an unknown one was probably meant to be.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    base::names::closest(name, known.iter().copied(), base::names::Likeness::Third)
}

/// `did you mean ...?`, or the list of what there is.
pub(super) fn suggestion(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None => format!("known: {}", known.join(", ")),
    }
}
