//! From the text of a script and all levels of its options to something that can be run.
//!
//! ```text
//! text ──open──▶ Script, Description ──merge──▶ Options ──assemble──▶ ScriptRun
//!        init code runs once           defaults < config file < script < environment < flags
//! ```
//!
//! A script that came from another machine ([`PackedScript`]) is opened and assembled by the same
//! functions, so that scenarios and metrics have the same numbers wherever it runs. Nothing is sent
//! here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

use script::heap::Budget;
use script::inspect::inspect;
use script::log::{Level, Line, Logger};
use script::options::{self, Options, OptionsError, Place, Resolved};
use script::program::Script;
use script::source::{SourceError, Sources};
use script::thrown::{Thrown, ThrownKind};
use script::vu::Description;

use super::{AssembleError, RunOverrides, ScriptRun, hints};
use crate::attempt::PackedScript;
use crate::machine;

/// No single virtual user may use more.
const SCRIPT_BYTES_MAX: usize = 512 << 20;
/// All virtual users together have at least this much, however small the machine.
const MEMORY_MIN: u64 = 256 << 20;

/// Bytes for all virtual users of a script together, of what this machine has free now.
pub fn memory_for_users() -> u64 {
    machine::memory_available_bytes() / 10 * 6
}

/// Where a script is.
pub enum Entry {
    File(PathBuf),
    /// It has been read already; what it imports is relative to the folder.
    Text {
        text: Vec<u8>,
        folder: PathBuf,
    },
}

/// A script as somebody wants to run it.
pub struct Wanted {
    /// For people: the file's name.
    pub name: String,
    pub entry: Entry,
    /// What the script sees as `__ENV`.
    pub env: BTreeMap<String, String>,
    /// What of it was given for this very script, and is therefore meant to be read by it.
    pub given: Vec<(String, String)>,
    /// Variables from which options are read, whatever of them the script may see.
    pub variables: BTreeMap<String, String>,
    /// Options as JSON, below the script's own.
    pub config: Option<PathBuf>,
    /// Options above all others.
    pub flags: Options,
    pub how: How,
    pub logger: Logger,
}

/// What is decided beyond the options, and travels with a script.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct How {
    /// Count by group and scenario as well, for the full summary.
    pub sections: bool,
    pub no_thresholds: bool,
    /// Silence is not success (R20).
    pub strict: bool,
}

/// A script that is ready to run, here or elsewhere.
pub struct Prepared {
    pub run: ScriptRun,
    pub description: Description,
    /// As the script sees them: shortcuts are replaced by the scenario they stand for.
    pub options: Options,
    /// What it says of itself before it runs.
    pub introduction: Vec<String>,
    /// All levels of options, before what follows from them.
    merged: Options,
    how: How,
}

/// Why a script does not run. Nothing was sent.
#[derive(Debug)]
pub enum PrepareError {
    /// The script itself cannot be read.
    Unreadable(SourceError),
    /// The script, or what it imports, is not something that can run here.
    Source(SourceError),
    /// Its init code threw, or ended the test.
    Thrown(Thrown),
    /// The file of options cannot be read.
    Config {
        file: String,
        error: io::Error,
    },
    /// A level of options is no JSON.
    NotJson {
        place: Place,
        error: serde_json::Error,
    },
    Options(OptionsError),
    Assemble(AssembleError),
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrepareError::Unreadable(error) | PrepareError::Source(error) => error.fmt(f),
            PrepareError::Thrown(thrown) if thrown.kind == ThrownKind::Abort => {
                f.write_str(&thrown.message)
            }
            PrepareError::Thrown(thrown) => f.write_str(&thrown.full()),
            PrepareError::Config { file, error } => write!(f, "config file {file}: {error}"),
            PrepareError::NotJson { place, error } => write!(f, "{place}: not JSON: {error}"),
            PrepareError::Options(error) => error.fmt(f),
            PrepareError::Assemble(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PrepareError {}

impl From<OptionsError> for PrepareError {
    fn from(error: OptionsError) -> PrepareError {
        PrepareError::Options(error)
    }
}

/// Reads a script, runs its init code once, puts its options together and compiles it. What its
/// author should know is logged as warnings.
///
/// # Errors
/// If it cannot be run as it is wanted.
pub fn prepare(wanted: Wanted) -> Result<Prepared, PrepareError> {
    let logger = wanted.logger.clone();
    let warn = |text: String| logger(Line::new(Level::Warning, text));
    let builtins = script::modules::builtins();
    let sources = match &wanted.entry {
        Entry::File(path) => Sources::open(path, builtins),
        Entry::Text { text, folder } => Sources::from_stdin(text.clone(), folder, builtins),
    };
    let sources = sources.map_err(PrepareError::Unreadable)?;
    sources.module(sources.entry()).map_err(PrepareError::Source)?;
    sources.look().map_err(PrepareError::Source)?.into_iter().for_each(warn);
    hints::unread(&sources, &wanted.given).into_iter().for_each(warn);
    let (script, description) = open(sources, wanted.env.clone(), memory_for_users(), &logger)?;
    hints::absent(&script, &description).into_iter().for_each(warn);
    let merged = merge(&wanted, &description)?;
    let (resolved, warnings) = options::resolve(merged.clone())?;
    warnings.into_iter().for_each(|warning| warn(warning.to_string()));
    warn_of_certificates(&resolved.options).into_iter().for_each(warn);
    let Wanted { name, how, .. } = wanted;
    let run = assemble(script, &description, &resolved, name, how, &logger)?;
    hints::before(&run, &description).into_iter().for_each(warn);
    let introduction = options::describe(&resolved);
    let options = resolved.options;
    Ok(Prepared { run, description, options, introduction, merged, how })
}

/// Runs the init code of a script once; its own text has been read. `memory`: bytes for all virtual
/// users together.
pub(crate) fn open(
    sources: Sources,
    env: BTreeMap<String, String>,
    memory: u64,
    logger: &Logger,
) -> Result<(Arc<Script>, Description), PrepareError> {
    let budget = Budget::new(memory.max(MEMORY_MIN), SCRIPT_BYTES_MAX);
    let script = Arc::new(Script::new(sources, env, budget));
    let description = inspect(&script, logger).map_err(PrepareError::Thrown)?;
    Ok((script, description))
}

/// Compiles a script with options that are known completely.
pub(crate) fn assemble(
    script: Arc<Script>,
    description: &Description,
    resolved: &Resolved,
    name: String,
    how: How,
    logger: &Logger,
) -> Result<ScriptRun, PrepareError> {
    let How { sections, no_thresholds, strict } = how;
    let wishes = RunOverrides { name, logger: logger.clone(), sections, no_thresholds, strict };
    ScriptRun::assemble(script, description, resolved, wishes).map_err(PrepareError::Assemble)
}

/// Defaults < config file < script < environment < flags.
fn merge(wanted: &Wanted, description: &Description) -> Result<Options, PrepareError> {
    let parse = |text: &str, place: Place| {
        let value: serde_json::Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => return Err(PrepareError::NotJson { place, error }),
        };
        let (options, warnings) = Options::from_json(&value, place)?;
        for warning in warnings {
            (wanted.logger)(Line::new(Level::Warning, warning.to_string()));
        }
        Ok(options)
    };
    let config = match &wanted.config {
        Some(path) => {
            let file = path.display().to_string();
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| PrepareError::Config { file: file.clone(), error })?;
            parse(&text, Place::ConfigFile(file))?
        }
        None => Options::default(),
    };
    let script = match &description.options {
        Some(json) => parse(json, Place::Script)?,
        None => Options::default(),
    };
    let environment = Options::from_env(&wanted.variables)?;
    Ok(Options::merge([config, script, environment, wanted.flags.clone()]))
}

fn warn_of_certificates(options: &Options) -> Option<String> {
    let certificates = options.tls_auth.as_deref().unwrap_or_default();
    let more = certificates.len() > 1 || certificates.iter().any(|one| !one.domains.is_empty());
    more.then(|| {
        "tlsAuth: the first certificate is shown to every host that asks for one; `domains` and \
         further certificates are not used"
            .to_owned()
    })
}

impl Prepared {
    /// The script with everything that it needs from this machine, as it travels.
    pub fn packed(&self) -> PackedScript {
        let How { sections, no_thresholds, strict } = self.how;
        let packed = PackedScript::pack(&self.run.script, &self.merged, &self.run.plan.name);
        PackedScript { sections, no_thresholds, strict, ..packed }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const EMPTY: &str = "export default function () {}";

    fn wanted(text: &str) -> Wanted {
        Wanted {
            name: "s.js".to_owned(),
            entry: Entry::Text { text: text.into(), folder: std::env::temp_dir() },
            given: Vec::new(),
            env: BTreeMap::new(),
            variables: BTreeMap::new(),
            config: None,
            flags: Options::default(),
            how: How::default(),
            logger: Arc::new(|_| {}),
        }
    }

    #[test]
    fn each_level_of_options_wins_over_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config.json");
        let text = r#"{ "vus": 2, "iterations": 10, "batch": 3, "userAgent": "a", "rps": 7 }"#;
        std::fs::write(&config, text).unwrap();
        let script = "export const options = { vus: 3, iterations: 9, batch: 4, userAgent: 'b' };
            export default function () {}";
        let mut wanted = wanted(script);
        wanted.config = Some(config);
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        wanted.variables = [variable("K6_BATCH", "5"), variable("K6_USER_AGENT", "c")].into();
        wanted.flags.user_agent = Some("d".to_owned());
        let options = prepare(wanted).unwrap().merged;
        assert_eq!(options.rps, Some(7), "the file's");
        assert_eq!(options.vus, Some(3), "the script's");
        assert_eq!(options.batch, Some(5), "the environment's");
        assert_eq!(options.user_agent.as_deref(), Some("d"), "the flag's");
    }

    #[test]
    fn what_is_wrong_is_told_by_its_kind() {
        let error = |wanted: Wanted| prepare(wanted).err().expect("it is refused");
        let missing = Wanted { entry: Entry::File("/no/such.js".into()), ..wanted("") };
        assert!(matches!(error(missing), PrepareError::Unreadable(_)));
        assert!(matches!(error(wanted("let x = ;")), PrepareError::Source(_)));
        assert!(matches!(error(wanted("throw new Error('x');")), PrepareError::Thrown(_)));
        let nothing = error(wanted("export const x = 1;"));
        assert!(matches!(nothing, PrepareError::Assemble(AssembleError::NoFunctions)));
        let no_file = Wanted { config: Some("/no/such.json".into()), ..wanted(EMPTY) };
        assert!(matches!(error(no_file), PrepareError::Config { .. }));
        let mut wrong = wanted(EMPTY);
        wrong.variables.insert("K6_VUS".to_owned(), "many".to_owned());
        assert!(matches!(error(wrong), PrepareError::Options(_)));
    }

    #[test]
    fn a_parcel_opens_to_the_same_scenarios_without_a_word() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = said.clone();
        let mut wanted = wanted("console.log('once');\nexport default function () {}");
        wanted.logger = Arc::new(move |line: Line| heard.lock().unwrap().push(line.message));
        wanted.how = How { strict: true, ..How::default() };
        let prepared = prepare(wanted).unwrap();
        assert!(said.lock().unwrap().iter().any(|line| line == "once"));
        let packed = prepared.packed();
        assert!(packed.strict && packed.name == "s.js");
        let silent: Logger = Arc::new(|_| {});
        let opened = packed.open(&silent, memory_for_users()).unwrap();
        let names = |run: &ScriptRun| -> Vec<String> {
            run.plan.workflows.iter().map(|workflow| workflow.name.clone()).collect()
        };
        assert_eq!(names(&opened), names(&prepared.run));
    }
}
