//! What can be said about a script before it runs, and about places in it afterwards.

use std::sync::Arc;

use super::Sources;
use super::error::{Place, SourceError, SourceErrorKind};
use super::graph::{Content, Module};
use super::position;
use crate::names;

/// Beyond these the rest is more of the same.
const WARNINGS_MAX: usize = 10;

impl Sources {
    /// Mistakes that the text shows, each with its place. `Err`: the script uses a name of k6 that
    /// it has not imported, so that what uses it cannot run.
    pub fn look(&self) -> Result<Vec<String>, SourceError> {
        let modules = self.own_modules();
        let makes_globals = modules
            .iter()
            .filter_map(|(_, module)| module.hints())
            .any(|hints| hints.makes_globals);
        let mut warnings = Vec::new();
        for (name, module) in &modules {
            let Some(hints) = module.hints() else { continue };
            let file = self.shown(name);
            let at = |offset: u32| Place::at(&file, &module.text, offset as usize);
            for one in &hints.unimported {
                let place = at(one.offset);
                let line = names::import_of(&one.name).unwrap_or_default();
                let message = format!("`{}` is not defined", one.name);
                if !makes_globals && !one.is_guarded {
                    return Err(SourceError::new(SourceErrorKind::Missing, message)
                        .or_at(Some(place))
                        .help(format!("an import is missing: {line}")));
                }
                warnings
                    .push(format!("{}: {message}; is an import missing? {line}", short(&place)));
            }
            let of_entry = hints.of_entry.iter().filter(|_| *name == self.entry);
            for (offset, text) in of_entry.chain(&hints.warnings) {
                warnings.push(format!("{}: {text}", short(&at(*offset))));
            }
        }
        warnings.truncate(WARNINGS_MAX);
        Ok(warnings)
    }

    /// Whether a function of the script itself has a loop without an end.
    pub fn is_endless(&self) -> bool {
        let modules = self.own_modules();
        let entry = modules.iter().find(|(file, _)| *file == self.entry);
        entry.and_then(|(_, module)| module.hints()).is_some_and(|hints| hints.is_endless)
    }

    /// What the script reads from `__ENV` without a default.
    pub fn environment_names(&self) -> Vec<String> {
        let modules = self.own_modules();
        let hints = modules.iter().filter_map(|(_, module)| module.hints());
        hints.flat_map(|hints| hints.environment.iter().cloned()).collect()
    }

    /// All that the script reads from `__ENV` by name.
    pub fn environment_read(&self) -> Vec<String> {
        let modules = self.own_modules();
        let hints = modules.iter().filter_map(|(_, module)| module.hints());
        hints.flat_map(|hints| hints.environment_read.iter().cloned()).collect()
    }

    /// Where the script itself exports a name: `s.js:2:14`.
    pub fn export_place(&self, name: &str) -> Option<String> {
        let modules = self.own_modules();
        let (file, module) = modules.iter().find(|(file, _)| *file == self.entry)?;
        let (_, offset) = module.hints()?.exports.iter().find(|(known, _)| known == name)?;
        Some(short(&Place::at(&self.shown(file), &module.text, *offset as usize)))
    }

    /// Where a text stands in quotes in the script itself.
    pub fn text_place(&self, text: &str) -> Option<String> {
        let modules = self.own_modules();
        let (file, module) = modules.iter().find(|(file, _)| *file == self.entry)?;
        let quoted = ["'", "\"", "`"].map(|quote| format!("{quote}{text}{quote}"));
        let offset = quoted.iter().filter_map(|quoted| module.text.find(quoted)).min()?;
        Some(short(&Place::at(&self.shown(file), &module.text, offset)))
    }

    /// `file:///t/s.js:4:12` as people know it: `s.js:4:12`.
    pub fn shown_place(&self, place: &str) -> String {
        let mut parts = place.rsplitn(3, ':');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(column), Some(line), Some(file)) => {
                format!("{}:{line}:{column}", self.shown(file))
            }
            _ => place.to_owned(),
        }
    }

    /// What was called or read where an exception came from, in words that its message has not.
    /// `line` and `column`: as the user wrote the file. Found once for each place.
    pub fn explain(&self, file: &str, line: u32, column: u32, message: &str) -> Option<Arc<str>> {
        let key = (file.to_owned(), line, column, message.to_owned());
        if let Some(known) = self.lock().explained.get(&key) {
            return known.clone();
        }
        let module = self.lock().modules.get(file).cloned()?;
        let found = match (&module.content, path_is_own(file)) {
            (Content::Code(_), true) => {
                let exports = self.builtins.exports;
                position::explain(file, &module.text, (line, column), message, &exports)
            }
            _ => None,
        };
        let found: Option<Arc<str>> = found.map(Into::into);
        let explained = &mut self.lock().explained;
        // A script makes no more places than it has, unless it makes messages of its own.
        if explained.len() < EXPLAINED_MAX {
            explained.insert(key, found.clone());
        }
        found
    }

    fn own_modules(&self) -> Vec<(String, Arc<Module>)> {
        let state = self.lock();
        let own = state.modules.iter().filter(|(name, _)| path_is_own(name));
        let mut own: Vec<_> = own
            .filter(|(_, module)| matches!(module.content, Content::Code(_)))
            .map(|(name, module)| (name.clone(), module.clone()))
            .collect();
        // The script itself first.
        own.sort_by(|(a, _), (b, _)| (*a != self.entry, a).cmp(&(*b != self.entry, b)));
        own
    }
}

const EXPLAINED_MAX: usize = 1_000;

/// Not a library of ours.
fn path_is_own(name: &str) -> bool {
    name.starts_with("file://")
}

fn short(place: &Place) -> String {
    format!("{}:{}:{}", place.file, place.line, place.column)
}
