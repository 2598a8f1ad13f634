//! A plan or a script with everything that it needs from its author's machine, as it travels.
//!
//! The environment is resolved where the plan was written: what it asked for is in the packed plan.
//! Secrets are not: they are asked for where the load is run.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plan::{Format, Plan, Problems, ReadOptions};
use script::log::Logger;
use script::options::{self, Options, Place};
use script::program::Script;
use script::source::{LoadedFile, Sources};

use super::loaded::LoadError;
use crate::script::{How, ScriptRun, assemble, open};

/// A file's content.
#[derive(Debug, Clone)]
pub enum Content {
    Bytes(Arc<[u8]>),
    /// In a file of this machine that stays as it is: it is linked to, not copied.
    Stored(PathBuf),
}

#[derive(Debug, Clone)]
pub struct PackedPlan {
    /// Of the plan's file: a plan without a name is called so.
    pub name: String,
    pub text: String,
    pub format: Format,
    /// In place of the plan's own.
    pub target: Option<String>,
    /// What the plan asked for and found.
    pub env: BTreeMap<String, String>,
    /// By the name that the plan uses.
    pub files: BTreeMap<String, Content>,
}

impl PackedPlan {
    /// Reads a plan and all that belongs to it; with the plan itself, which is legal then.
    pub fn pack(path: &Path, options: &ReadOptions<'_>) -> Result<(Plan, PackedPlan), Problems> {
        let asked = RefCell::new(BTreeMap::new());
        let env = |name: &str| {
            let value = (options.env)(name);
            if let Some(value) = &value {
                asked.borrow_mut().insert(name.to_owned(), value.clone());
            }
            value
        };
        let noting = ReadOptions { env: &env, ..*options };
        let plan = plan::read_file(path, &noting)?;
        let fail = |path: &Path, error: &std::io::Error| plan::cannot_read(path, error);
        let text = std::fs::read_to_string(path).map_err(|error| fail(path, &error))?;
        let mut files = BTreeMap::new();
        for (name, path) in &plan.files {
            let bytes = std::fs::read(path).map_err(|error| fail(path, &error))?;
            files.insert(name.clone(), Content::Bytes(bytes.into()));
        }
        let packed = PackedPlan {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            format: Format::of(path, &text),
            text,
            target: options.target.map(str::to_owned),
            env: asked.take(),
            files,
        };
        Ok((plan, packed))
    }

    /// Reads the plan here. Its files are put into `folder`, which must be empty and stay for as
    /// long as the plan is used.
    pub(super) fn unpack(&self, folder: &Path) -> Result<Plan, LoadError> {
        let io = |error: std::io::Error| {
            LoadError::of_machine(format!(
                "cannot unpack the plan into {}: {error}",
                folder.display()
            ))
        };
        private_folder(folder).map_err(io)?;
        let mut files = BTreeMap::new();
        for (number, (name, content)) in self.files.iter().enumerate() {
            // The last part of the name says what is in the file, and is sent with uploads. The
            // rest of it is the author's business and may lead anywhere.
            let last = Path::new(name).file_name();
            let last =
                last.ok_or_else(|| LoadError::new(format!("`{name}` is no name of a file")))?;
            let place = folder.join(number.to_string());
            private_folder(&place).map_err(io)?;
            let place = place.join(last);
            match content {
                Content::Bytes(bytes) => write_private(&place, bytes).map_err(io)?,
                Content::Stored(path) => {
                    let path = std::path::absolute(path).map_err(io)?;
                    std::os::unix::fs::symlink(path, &place).map_err(io)?;
                }
            }
            files.insert(name.clone(), place);
        }
        let env = |name: &str| self.env.get(name).cloned();
        let target = self.target.as_deref();
        let options = ReadOptions { target, files: Some(&files), ..ReadOptions::new(&env) };
        let plan = plan::read_str(&self.text, self.format, folder, &options);
        let mut plan = plan.map_err(|problems| LoadError::new(problems.to_string()))?;
        // Read from text, a plan that has no name is called `plan`.
        if plan.name == "plan" {
            let stem = Path::new(&self.name).file_stem().unwrap_or_default();
            plan.name = stem.to_string_lossy().into_owned();
        }
        Ok(plan)
    }
}

#[derive(Debug, Clone)]
pub struct PackedScript {
    /// For people: the file's name.
    pub name: String,
    /// Module name of the script itself.
    pub entry: String,
    /// Code and data.
    pub files: Vec<LoadedFile>,
    /// What the script sees as `__ENV`.
    pub env: BTreeMap<String, String>,
    /// All levels of options together, as JSON.
    pub options: String,
    /// Count by group and scenario as well.
    pub sections: bool,
    pub no_thresholds: bool,
    pub strict: bool,
}

impl PackedScript {
    /// Of a script whose init code has run, so that all its files are known.
    pub fn pack(script: &Script, merged: &Options, name: &str) -> PackedScript {
        PackedScript {
            name: name.to_owned(),
            entry: script.sources.entry().to_owned(),
            files: script.sources.loaded(),
            env: script.env.clone(),
            options: merged.to_json().to_string(),
            sections: false,
            no_thresholds: false,
            strict: false,
        }
    }

    /// Runs the init code once and puts everything together. Scenarios and metrics have the same
    /// numbers wherever this is done. `memory`: bytes for all virtual users together.
    pub fn open(&self, logger: &Logger, memory: u64) -> Result<ScriptRun, LoadError> {
        let fail =
            |error: &dyn std::fmt::Display| LoadError::new(format!("{}: {error}", self.name));
        let builtins = script::modules::builtins();
        let sources = Sources::from_loaded(&self.entry, self.files.clone(), builtins);
        let sources = sources.map_err(|error| fail(&error))?;
        sources.module(sources.entry()).map_err(|error| fail(&error))?;
        let opened = open(sources, self.env.clone(), memory, logger);
        let (script, description) = opened.map_err(|error| fail(&error))?;
        let value: serde_json::Value =
            serde_json::from_str(&self.options).map_err(|error| fail(&error))?;
        let (merged, _) =
            Options::from_json(&value, Place::Merged).map_err(|error| fail(&error))?;
        let (resolved, _) = options::resolve(merged).map_err(|error| fail(&error))?;
        let PackedScript { sections, no_thresholds, strict, .. } = *self;
        let how = How { sections, no_thresholds, strict };
        let run = assemble(script, &description, &resolved, self.name.clone(), how, logger);
        run.map_err(|error| fail(&error))
    }
}

/// A folder for this user alone, as everything in it: files of a plan may hold what only their user
/// may read.
fn private_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(bytes)
}
