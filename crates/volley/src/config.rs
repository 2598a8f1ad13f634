//! `volley.toml`: values for flags, so that a machine's settings are written down once.
//!
//! ```text
//! flag  >  VOLLEY_* variable  >  volley.toml  >  built-in default
//! ```
//!
//! There is no second list of settings. Every flag that has a `VOLLEY_*` variable can stand in the
//! file: under the name of its command (`[worker] cores = 4`), or at the top for every command that
//! knows it (`datacenter = "ams"`). What the file says becomes the variable, unless that is set,
//! and clap does the rest. So help, variables and file cannot drift apart, and a value is checked
//! by the flag's own parser.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use clap::{Arg, ArgAction, Command};
use toml_span::value::ValueInner;

/// Larger is no file of settings.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// One value of the file that took effect, or would have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// As in the file: `worker.cores`.
    pub key: String,
    pub variable: String,
    pub value: String,
    pub line: usize,
    /// The command whose section it stands in; none: for all.
    pub section: Option<String>,
    /// The environment had a value already.
    pub overridden: bool,
}

impl Entry {
    /// Whether it is this command's value.
    fn is_for(&self, invoked: &str) -> bool {
        !self.overridden && self.section.as_deref().is_none_or(|section| section == invoked)
    }
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    pub path: Option<PathBuf>,
    pub entries: Vec<Entry>,
}

/// What is wrong with a file. All problems at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    pub path: PathBuf,
    pub problems: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.problems.iter().enumerate() {
            let line_end = if number > 0 { "\n" } else { "" };
            write!(f, "{line_end}{}:{problem}", self.path.display())?;
        }
        Ok(())
    }
}

/// Which file: the one that is named, or the first that is there.
pub fn find(named: Option<PathBuf>, env: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    if let Some(named) = named.or_else(|| env("VOLLEY_SETTINGS").map(PathBuf::from)) {
        return Some(named);
    }
    let home = env("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| env("HOME").map(|home| Path::new(&home).join(".config")));
    let places = [
        Some(PathBuf::from("volley.toml")),
        home.map(|home| home.join("volley/volley.toml")),
        Some(PathBuf::from("/etc/volley/volley.toml")),
    ];
    places.into_iter().flatten().find(|path| path.is_file())
}

/// Reads a file against the flags of `command` and its subcommands.
pub fn read(
    path: &Path,
    command: &Command,
    env: impl Fn(&str) -> Option<String>,
) -> Result<Config, ConfigError> {
    let fail = |problems| ConfigError { path: path.to_owned(), problems };
    let text = read_text(path).map_err(|why| fail(vec![format!(" {why}")]))?;
    let tree = toml_span::parse(&text).map_err(|error| {
        fail(vec![format!("{}: not valid TOML: {error}", line_of(&text, error.span.start))])
    })?;
    let mut reader = Reader { text: &text, env: &env, entries: Vec::new(), problems: Vec::new() };
    let flags = Flags::of(command);
    if let Some(table) = tree.as_table() {
        for (key, value) in table {
            let name: &str = &key.name;
            match value.as_table() {
                Some(section) => match flags.sections.get(name) {
                    Some(known) => {
                        for (key, value) in section {
                            let place = (key.span.start, format!("{name}.{}", key.name));
                            reader.take(place, Some(name), &key.name, value, known);
                        }
                    }
                    None => reader.unknown(key.span.start, "section", name, flags.sections.keys()),
                },
                None => {
                    let place = (key.span.start, name.to_owned());
                    reader.take(place, None, name, value, &flags.common);
                }
            }
        }
    }
    if !reader.problems.is_empty() {
        reader.problems.sort();
        return Err(fail(reader.problems.into_iter().map(|(_, text)| text).collect()));
    }
    reader.entries.sort_by_key(|entry| entry.line);
    Ok(Config { path: Some(path.to_owned()), entries: reader.entries })
}

/// The command that these arguments call, as a section names it: `run`, `debug-ledger-serve`.
pub fn invoked(args: impl Iterator<Item = String>, command: &Command) -> String {
    let (mut path, mut command) = (String::new(), command);
    for arg in args.skip(1) {
        let Some(child) = command.find_subcommand(&arg) else { continue };
        let joint = if path.is_empty() { "" } else { "-" };
        path = format!("{path}{joint}{}", child.get_name());
        command = child;
    }
    path
}

/// The command itself that these arguments call.
pub fn called<'a>(args: &[String], command: &'a Command) -> &'a Command {
    args.iter().fold(command, |command, arg| command.find_subcommand(arg).unwrap_or(command))
}

/// Variables that are nearly ours, each with the one that was probably meant. Others are none of
/// our business: a cluster's scheduler makes variables of the names of its services.
pub fn misspelt_variables(
    command: &Command,
    names: impl Iterator<Item = String>,
) -> Vec<(String, String)> {
    let flags = Flags::of(command);
    let all = flags.sections.values().chain([&flags.common]).flat_map(Names::values);
    let mut known: Vec<&str> = all.map(|flag| flag.variable.as_str()).collect();
    known.extend(["VOLLEY_SETTINGS", "VOLLEY_LOG"]);
    let is_ours = |name: &String| {
        name.starts_with("VOLLEY_")
            && !name.starts_with("VOLLEY_SECRET_")
            && !known.contains(&name.as_str())
    };
    let nearest = |name: String| {
        let distance = |other: &&&str| strsim::damerau_levenshtein(&name, other);
        let near = known.iter().min_by_key(distance).filter(|near| distance(near) <= 2)?;
        Some((name.clone(), (*near).to_owned()))
    };
    names.filter(is_ours).filter_map(nearest).collect()
}

/// Makes the file's values the process's variables. Before any thread is started.
///
/// Several commands share a variable, so a section counts only for its own; there it wins over the
/// top of the file.
pub fn apply(config: &Config, invoked: &str) {
    let mut entries: Vec<&Entry> =
        config.entries.iter().filter(|entry| entry.is_for(invoked)).collect();
    entries.sort_by_key(|entry| entry.section.is_some());
    for entry in entries {
        // SAFETY: `main` calls this first of all, when the process has one thread.
        unsafe { std::env::set_var(&entry.variable, &entry.value) };
    }
}

fn read_text(path: &Path) -> io::Result<String> {
    let size = std::fs::metadata(path)?.len();
    if size > FILE_BYTES_MAX {
        let what = format!("has {size} bytes; a file of settings has at most {FILE_BYTES_MAX}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    std::fs::read_to_string(path)
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Names that may stand in a file: key to variable.
type Names = BTreeMap<String, Flag>;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Flag {
    variable: String,
    is_list: bool,
    is_switch: bool,
}

struct Flags {
    sections: BTreeMap<String, Names>,
    /// For every command that knows them.
    common: Names,
}

impl Flags {
    fn of(command: &Command) -> Flags {
        let mut flags = Flags { sections: BTreeMap::new(), common: BTreeMap::new() };
        flags.add(command, "");
        flags
    }

    fn add(&mut self, command: &Command, path: &str) {
        let mut names = Names::new();
        for arg in command.get_arguments() {
            if let (Some(name), Some(flag)) = (arg.get_long(), flag(arg)) {
                names.insert(name.to_owned(), flag.clone());
                self.common.insert(name.to_owned(), flag);
            }
        }
        if !names.is_empty() && !path.is_empty() {
            self.sections.insert(path.to_owned(), names);
        }
        for child in command.get_subcommands() {
            let name = child.get_name();
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}-{name}") };
            self.add(child, &path);
        }
    }
}

fn flag(arg: &Arg) -> Option<Flag> {
    let variable = arg.get_env()?.to_str()?.to_owned();
    let is_list =
        matches!(arg.get_action(), ArgAction::Append) && arg.get_value_delimiter().is_some();
    let is_switch = matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::SetFalse);
    Some(Flag { variable, is_list, is_switch })
}

struct Reader<'a> {
    text: &'a str,
    env: &'a dyn Fn(&str) -> Option<String>,
    entries: Vec<Entry>,
    problems: Vec<(usize, String)>,
}

impl Reader<'_> {
    fn take(
        &mut self,
        (offset, key): (usize, String),
        section: Option<&str>,
        name: &str,
        value: &toml_span::Value<'_>,
        known: &Names,
    ) {
        let Some(flag) = known.get(name) else {
            return self.unknown(offset, "key", name, known.keys());
        };
        let line = line_of(self.text, offset);
        match plain(value, flag) {
            Ok(value) => {
                let variable = flag.variable.clone();
                let overridden = (self.env)(&variable).is_some();
                let section = section.map(str::to_owned);
                self.entries.push(Entry { key, variable, value, line, section, overridden });
            }
            Err(why) => self.problems.push((line, format!("{line}: `{key}` {why}"))),
        }
    }

    fn unknown<'n>(
        &mut self,
        offset: usize,
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'n String>,
    ) {
        let line = line_of(self.text, offset);
        let distance = |other: &&String| strsim::damerau_levenshtein(name, other);
        let near = |other: &&String| distance(other) <= 1 + name.len() / 4;
        let known: Vec<&String> = known.collect();
        // A section of a command that is part of `volley debug` now.
        let moved = format!("debug-{name}");
        let moved = known.iter().copied().find(|other| **other == moved);
        let hint = match moved.or(known.into_iter().min_by_key(distance).filter(near)) {
            Some(other) => format!("did you mean `{other}`?"),
            None => "`volley settings --keys` lists what there is".to_owned(),
        };
        self.problems.push((line, format!("{line}: no {what} `{name}`; {hint}")));
    }
}

/// Why a value cannot stand for a flag.
enum BadValue {
    NotASwitch,
    NotAListOfTexts,
    Comma { text: String },
    List,
    Table,
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadValue::NotASwitch => f.write_str("is true or false"),
            BadValue::NotAListOfTexts => f.write_str("is a list of texts"),
            BadValue::Comma { text } => write!(f, "has an item with a comma: `{text}`"),
            BadValue::List => f.write_str("takes one value, not a list"),
            BadValue::Table => f.write_str("is a value, not a table"),
        }
    }
}

/// A value as it would be written on the command line.
fn plain(value: &toml_span::Value<'_>, flag: &Flag) -> Result<String, BadValue> {
    match value.as_ref() {
        ValueInner::Boolean(switch) if flag.is_switch => Ok(switch.to_string()),
        _ if flag.is_switch => Err(BadValue::NotASwitch),
        ValueInner::String(text) => Ok(text.to_string()),
        ValueInner::Integer(number) => Ok(number.to_string()),
        ValueInner::Float(number) => Ok(number.to_string()),
        ValueInner::Boolean(switch) => Ok(switch.to_string()),
        ValueInner::Array(items) if flag.is_list => {
            let mut texts = Vec::new();
            for item in items {
                let text = item.as_str().ok_or(BadValue::NotAListOfTexts)?;
                if text.contains(',') {
                    return Err(BadValue::Comma { text: text.to_owned() });
                }
                texts.push(text.to_owned());
            }
            Ok(texts.join(","))
        }
        ValueInner::Array(_) => Err(BadValue::List),
        ValueInner::Table(_) => Err(BadValue::Table),
    }
}

/// Every key that a file may have, with its variable, sorted.
pub fn keys(command: &Command) -> Vec<(String, String)> {
    let flags = Flags::of(command);
    let mut all = Vec::new();
    for (section, names) in &flags.sections {
        all.extend(
            names.iter().map(|(name, flag)| (format!("{section}.{name}"), flag.variable.clone())),
        );
    }
    all
}
