//! The modules of a script and what they take from each other: read, parsed, checked to the last
//! import, and only then prepared, because a CommonJS file exports what its importers ask for.

use base::names::{Likeness, closest};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::commonjs;
use super::error::{Place, SourceError, SourceErrorKind};
use super::facts;
use super::files::{self, CODE_BYTES_MAX};
use super::hints::Hints;
use super::lines::LineMap;
use super::parse::{self, Language, Parsed};
use super::resolve::path_of;
use super::{Kind, Prepared, Sources};

#[derive(Default)]
pub struct State {
    pub modules: HashMap<String, Arc<Module>>,
    pub prepared: HashMap<String, Arc<Prepared>>,
    /// Names that importers take from a module. A CommonJS file exports them even if they cannot
    /// be seen in it; they may be put there by a loop. What is asked for by a module that is
    /// itself fetched later, by `require()` or `import()`, comes too late for this.
    pub wanted: HashMap<String, BTreeSet<String>>,
    /// Modules whose imports have all been checked.
    pub walked: HashSet<String>,
    /// What has been found out about exceptions, by their place and message.
    pub explained: HashMap<(String, u32, u32, String), Option<Arc<str>>>,
}

/// A module that was read and parsed.
pub struct Module {
    pub text: Box<str>,
    pub content: Content,
}

pub enum Content {
    Code(Box<Parsed>),
    Json,
}

impl Sources {
    pub(super) fn walk_or_forget(&self, state: &mut State, name: &str) -> Result<(), SourceError> {
        // What was checked stays parsed; that it was checked to the end is not known.
        self.walk(state, name).inspect_err(|_| state.walked.clear())
    }

    /// A module and everything that it imports; all of it has been walked.
    pub(super) fn closure(&self, state: &State, name: &str) -> HashSet<String> {
        let mut seen = HashSet::new();
        let mut to_do = vec![name.to_owned()];
        while let Some(name) = to_do.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            if let Some(module) = state.modules.get(&name) {
                for request in module.requests().iter().filter(|request| request.is_static) {
                    to_do.extend(self.resolver().resolve(&name, &request.specifier).ok());
                }
            }
        }
        seen
    }

    /// Reads and parses a module and all that it imports, and notes which names are wanted.
    pub(super) fn walk(&self, state: &mut State, name: &str) -> Result<(), SourceError> {
        let mut walked = Vec::new();
        let mut to_do: Vec<(String, Option<Place>)> = vec![(name.to_owned(), None)];
        while let Some((name, place)) = to_do.pop() {
            if !state.walked.insert(name.clone()) {
                continue;
            }
            let module = self.load(state, &name).map_err(|error| error.or_at(place))?;
            let first = to_do.len();
            for request in module.requests().iter().filter(|request| request.is_static) {
                let offset = request.offset as usize;
                let place = Some(Place::at(&self.shown(&name), &module.text, offset));
                let target = match self.resolver().resolve(&name, &request.specifier) {
                    Ok(target) => target,
                    Err(error) => return Err(error.or_at(place)),
                };
                if target.contains(':') {
                    let wanted = state.wanted.entry(target.clone()).or_default();
                    wanted.extend(request.names.iter().cloned());
                    to_do.push((target, place));
                }
            }
            // The last is taken first, and the user reads from the top.
            to_do[first..].reverse();
            walked.push(name);
        }
        walked.iter().try_for_each(|name| self.check_names(state, name))
    }

    /// Every name that a file imports must be there. TypeScript's are checked by its own compiler:
    /// some are types, which are gone by now.
    fn check_names(&self, state: &State, name: &str) -> Result<(), SourceError> {
        let Some(module) = state.modules.get(name) else { return Ok(()) };
        let Content::Code(parsed) = &module.content else { return Ok(()) };
        if parsed.code.is_some() {
            return Ok(());
        }
        for request in module.requests().iter().filter(|request| request.is_static) {
            let Ok(target) = self.resolver().resolve(name, &request.specifier) else { continue };
            let Some(known) = self.known_exports(state, &target) else { continue };
            let missing = request.required.iter().find(|wanted| !known.contains(wanted.as_str()));
            if let Some(missing) = missing.filter(|missing| *missing != "default") {
                let place = Place::at(&self.shown(name), &module.text, request.offset as usize);
                let message = format!("\"{}\" exports no `{missing}`", request.specifier);
                let near = closest(missing, known.iter().copied(), Likeness::Letters(2));
                let nearest = near.map(|near| format!("did you mean `{near}`?"));
                let elsewhere =
                    || crate::names::import_of(missing).map(|line| format!("write {line}"));
                return Err(SourceError::new(SourceErrorKind::Unresolved, message)
                    .or_at(Some(place))
                    .maybe_help(nearest.or_else(elsewhere)));
            }
        }
        Ok(())
    }

    /// What a module exports, where that can be said without running it.
    fn known_exports<'s>(&'s self, state: &'s State, target: &str) -> Option<BTreeSet<&'s str>> {
        if !target.contains(':') {
            return (self.builtins.exports)(target).map(|names| names.iter().copied().collect());
        }
        let Content::Code(parsed) = &state.modules.get(target)?.content else { return None };
        let facts = &parsed.facts;
        let complete = facts.is_esm && !facts.exports_all_of_another;
        complete.then(|| facts.esm_exports.iter().map(String::as_str).collect())
    }

    pub(super) fn load(&self, state: &mut State, name: &str) -> Result<Arc<Module>, SourceError> {
        if let Some(module) = state.modules.get(name) {
            return Ok(Arc::clone(module));
        }
        let shown = self.shown(name);
        let module = match path_of(name) {
            Some(path) => {
                let bytes = self.files.read(&path, &shown, CODE_BYTES_MAX)?;
                let text = files::text_of(&bytes, &shown)?;
                match path.extension().and_then(|extension| extension.to_str()) {
                    Some("json") => json_module(&shown, text)?,
                    Some("ts" | "mts" | "cts") => code_module(&shown, text, Language::TypeScript)?,
                    _ => code_module(&shown, text, Language::JavaScript)?,
                }
            }
            None => match (self.builtins.library)(name) {
                Some(text) => code_module(&shown, text, Language::JavaScript)?,
                None => {
                    let message = format!("module \"{name}\" has no source text");
                    return Err(SourceError::new(SourceErrorKind::Unresolved, message));
                }
            },
        };
        let module = Arc::new(module);
        state.modules.insert(name.to_owned(), Arc::clone(&module));
        Ok(module)
    }

    pub(super) fn prepare(&self, state: &mut State, name: &str) -> Result<Prepared, SourceError> {
        let module = self.load(state, name)?;
        let parsed = match &module.content {
            Content::Json => {
                let code =
                    format!("export default JSON.parse({});", commonjs::quoted(&module.text));
                return Ok(Prepared { code, kind: Kind::Json, lines: None });
            }
            Content::Code(parsed) => parsed,
        };
        let code: &str = parsed.code.as_deref().unwrap_or(&module.text);
        let map = |shift| LineMap::new(shift, parsed.pairs.clone());
        if parsed.facts.is_esm {
            let lines = (!parsed.pairs.is_empty()).then(|| map(0));
            let code = match parsed.uses_require {
                true => commonjs::add_require(name, code),
                false => code.to_owned(),
            };
            return Ok(Prepared { code, kind: Kind::Esm, lines });
        }
        let mut names = self.exported_names(state, name, &mut HashSet::new());
        names.extend(state.wanted.get(name).into_iter().flatten().cloned());
        // A shebang may only stand at the very beginning, where the wrapper stands now.
        let (code, shift) = match code.strip_prefix("#!") {
            Some(rest) => commonjs::wrap(name, &format!("//{rest}"), &names),
            None => commonjs::wrap(name, code, &names),
        };
        Ok(Prepared { code, kind: Kind::CommonJs, lines: Some(map(shift)) })
    }

    /// Names that can be seen in a CommonJS file and in those whose exports it passes on. A file
    /// that cannot be read is no error here: its `require` may never run.
    pub(super) fn exported_names(
        &self,
        state: &mut State,
        name: &str,
        seen: &mut HashSet<String>,
    ) -> BTreeSet<String> {
        if !seen.insert(name.to_owned()) {
            return BTreeSet::new();
        }
        let Ok(module) = self.load(state, name) else {
            return BTreeSet::new();
        };
        let Content::Code(parsed) = &module.content else {
            return BTreeSet::new();
        };
        if parsed.facts.is_esm {
            return parsed.facts.esm_exports.clone();
        }
        let mut names = parsed.facts.cjs_exports.clone();
        for specifier in &parsed.facts.cjs_reexports {
            if let Ok(target) = self.resolver().resolve(name, specifier)
                && target.contains(':')
            {
                names.extend(self.exported_names(state, &target, seen));
            }
        }
        names
    }
}

impl Module {
    pub fn is_esm(&self) -> bool {
        matches!(&self.content, Content::Code(parsed) if parsed.facts.is_esm)
    }

    pub fn hints(&self) -> Option<&Hints> {
        match &self.content {
            Content::Code(parsed) => Some(&parsed.hints),
            Content::Json => None,
        }
    }

    pub fn requests(&self) -> &[facts::Request] {
        match &self.content {
            Content::Code(parsed) => &parsed.facts.requests,
            Content::Json => &[],
        }
    }
}

fn code_module(shown: &str, text: &str, language: Language) -> Result<Module, SourceError> {
    let content = Content::Code(Box::new(parse::parse(shown, text, language)?));
    Ok(Module { text: text.into(), content })
}

fn json_module(shown: &str, text: &str) -> Result<Module, SourceError> {
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or("");
        let place = Place {
            file: shown.to_owned(),
            line: error.line() as u32,
            column: error.column().max(1) as u32,
            text: line.trim_end_matches('\r').to_owned(),
        };
        let said = error.to_string();
        let said = said.split(" at line ").next().unwrap_or(&said);
        let message = format!("not JSON: {said}");
        return Err(SourceError::new(SourceErrorKind::Syntax, message).or_at(Some(place)));
    }
    Ok(Module { text: text.into(), content: Content::Json })
}
