//! The plan model: what a load test says, read from YAML, TOML or JSON.
//!
//! ```text
//! file -> tree (read_*) -> shape check -> decode -> validate -> Plan
//!              \________________\___________\__________\____-> Problems, all at once
//! ```
//!
//! A [`Plan`] that exists is legal: names refer to something, files are there, templates have
//! values. Nothing here runs anything, and nothing reads the environment but through
//! [`ReadOptions`].

mod advice;
mod blanks;
mod data;
mod decode;
mod dialect;
pub mod expr;
mod hold;
mod keys;
mod layers;
mod methods;
mod model;
pub mod overrides;
mod problem;
pub mod quick;
mod quotes;
mod read_json;
mod read_toml;
mod read_yaml;
mod schema;
mod shape;
mod starters;
pub mod template;
mod text_file;
mod tree;
pub mod units;
mod userinfo;
mod validate;
mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use advice::advise;
pub use data::{DataError, Rows, load_rows};
pub use layers::{classify, layers};
pub use methods::WARMUP;
pub use model::*;
pub use problem::{Problem, Problems};
pub use schema::{reference, schema};
pub use starters::{SCHEMA_FILE, STARTERS, Starter};
pub use userinfo::{mask_broken_url, mask_userinfo};
pub use words::coming_from;

use crate::problem::Finding;
use crate::tree::{FILE_BYTES_MAX, Node, Value};

/// What reading a plan needs from outside.
pub struct ReadOptions<'a> {
    /// Looks up environment variables for `${env.NAME}`.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Takes the place of the plan's `target`, which then need not have one.
    pub target: Option<&'a str>,
    /// Where files are that came with the plan, by the name that it uses. `None`: they are found
    /// from its folder.
    pub files: Option<&'a BTreeMap<String, PathBuf>>,
    /// Whether a key (PEM) fits a client certificate; what is wrong otherwise. `None`: not asked.
    pub key_fits: Option<KeyFits<'a>>,
    /// Whether a file holds certificates that can be trusted; what is wrong otherwise.
    pub ca_reads: Option<CaReads<'a>>,
    /// Whether an address is one of the machine that sends; what is wrong otherwise. `None`:
    /// another machine sends.
    pub is_here: Option<IsHere<'a>>,
}

/// Given a client certificate and a key.
pub type KeyFits<'a> = &'a dyn Fn(&Path, &Path) -> Result<(), String>;

/// Given a file of certificates.
pub type CaReads<'a> = &'a dyn Fn(&Path) -> Result<(), String>;

/// Given an address to send from.
pub type IsHere<'a> = &'a dyn Fn(std::net::IpAddr) -> Result<(), String>;

impl<'a> ReadOptions<'a> {
    pub fn new(env: &'a dyn Fn(&str) -> Option<String>) -> ReadOptions<'a> {
        let (key_fits, ca_reads, is_here) = (None, None, None);
        ReadOptions { env, target: None, files: None, key_fits, ca_reads, is_here }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Yaml,
    Toml,
    Json,
}

impl Format {
    /// By the file's ending; otherwise by how the text begins.
    pub fn of(path: &Path, text: &str) -> Format {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        match ending.to_ascii_lowercase().as_str() {
            "yaml" | "yml" => Format::Yaml,
            "toml" => Format::Toml,
            "json" => Format::Json,
            _ => Format::guess(text),
        }
    }

    fn guess(text: &str) -> Format {
        let first =
            text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        match first.unwrap_or_default() {
            line if line.starts_with('{') => Format::Json,
            line if line.starts_with('[') => Format::Toml,
            // `name = "x"`; in YAML an `=` comes after a `:`.
            line if line
                .split(['=', ':'])
                .next()
                .is_some_and(|key| line[key.len()..].starts_with('=')) =>
            {
                Format::Toml
            }
            _ => Format::Yaml,
        }
    }
}

/// Reads and checks a plan; data, body and certificate files are found from its folder.
pub fn read_file(path: &Path, options: &ReadOptions<'_>) -> Result<Plan, Problems> {
    let fail = |message: String| problem::about_file(path, message, None);
    let size =
        std::fs::metadata(path).map_err(|error| fail(format!("cannot read: {error}")))?.len();
    if size > FILE_BYTES_MAX as u64 {
        return Err(fail(format!("a plan is at most {} MiB", FILE_BYTES_MAX >> 20)));
    }
    let bytes = std::fs::read(path).map_err(|error| fail(format!("cannot read: {error}")))?;
    let text = text_file::read(bytes)
        .map_err(|(message, help)| problem::about_file(path, message, Some(help)))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    read(&text, Format::of(path, &text), path, folder.unwrap_or(Path::new(".")), options)
}

/// Reads and checks a plan from text; problems name it `plan`.
pub fn read_str(
    text: &str,
    format: Format,
    base_dir: &Path,
    options: &ReadOptions<'_>,
) -> Result<Plan, Problems> {
    read(text, format, Path::new("plan"), base_dir, options)
}

/// Reads and checks a plan from a text that is in no file; problems name it as `name` says.
pub fn read_named(
    text: &str,
    name: &str,
    base_dir: &Path,
    options: &ReadOptions<'_>,
) -> Result<Plan, Problems> {
    read(text, Format::guess(text), Path::new(name), base_dir, options)
}

/// A file that cannot be read, as the problem of a plan.
pub fn cannot_read(path: &Path, error: &std::io::Error) -> Problems {
    problem::about_file(path, format!("cannot read: {error}"), None)
}

fn read(
    text: &str,
    format: Format,
    file: &Path,
    base_dir: &Path,
    options: &ReadOptions<'_>,
) -> Result<Plan, Problems> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > FILE_BYTES_MAX {
        let message = format!("a plan is at most {} MiB", FILE_BYTES_MAX >> 20);
        return Err(problem::about_file(file, message, None));
    }
    let (root, mut findings) = match format {
        Format::Yaml => read_yaml::read(text),
        Format::Toml => read_toml::read(text),
        Format::Json => read_json::read(text),
    };
    let root = root.filter(|root| !matches!(root.value, Value::Null));
    let Some(mut root) = root else {
        if findings.is_empty() {
            let help = Some("`volley new FILE` writes one to start with".into());
            return Err(problem::about_file(file, "the plan is empty", help));
        }
        if let Some(odd) = findings.iter().find_map(|one| blanks::near(text, one.place.line)) {
            findings = vec![odd];
        } else if let Some(other) = dialect::other_format(text, format) {
            findings.iter_mut().for_each(|finding| finding.help = Some(other.clone()));
        }
        return Err(problem::assemble(findings, file, text, None));
    };
    // Absolute, so that files are found wherever the plan is run from.
    let base_dir = std::path::absolute(base_dir).unwrap_or_else(|_| base_dir.to_owned());
    findings.extend(quotes::find(&root, text));
    let mut warnings = Vec::new();
    let mut plan =
        check(text, &mut root, &base_dir, options, format, (&mut findings, &mut warnings));
    for finding in findings.iter_mut().chain(&mut warnings) {
        finding.help = finding.help.take().map(|help| dialect::translated(&help, format));
    }
    if plan.name.is_empty() {
        plan.name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    }
    if findings.is_empty() {
        plan.warnings = problem::assemble(warnings, file, text, Some(&root)).0;
        return Ok(plan);
    }
    Err(problem::assemble(findings, file, text, Some(&root)))
}

fn check(
    text: &str,
    root: &mut Node,
    base_dir: &Path,
    options: &ReadOptions<'_>,
    format: Format,
    (findings, warnings): (&mut Vec<Finding>, &mut Vec<Finding>),
) -> Plan {
    let whole = shape::Shape::Object(&keys::PLAN);
    let toml = (format == Format::Toml).then_some(text);
    findings.extend(shape::check(root, &whole, options.env, toml));
    let has_target = root.get("target").is_some() || options.target.is_some();
    let sets = root.get("data").map(Node::entries).unwrap_or_default();
    let sets = sets.iter().map(|entry| entry.key.clone()).collect();
    let cx = decode::Context::new(text, options, base_dir, has_target, sets);
    let mut plan = decode::plan(&cx, root);
    if let Some(target) = options.target {
        plan.target = Some(template::Template::literal(target));
    }
    findings.extend(cx.findings.into_inner());
    warnings.extend(cx.warnings.into_inner());
    let notes = validate::Notes {
        steps: cx.step_refs.into_inner(),
        loose: cx.loose_refs.into_inner(),
        foreign: cx.foreign.into_inner(),
        body_files: cx.body_files.into_inner(),
        target_given: options.target.is_some(),
    };
    let (wrong, odd) = validate::validate(&plan, root, &notes);
    findings.extend(wrong);
    warnings.extend(odd);
    let nodes = root.get("workflows").map(Node::items).unwrap_or_default();
    for set in &mut plan.data {
        set.used_by = notes.users_of(&set.name, nodes);
    }
    plan
}
