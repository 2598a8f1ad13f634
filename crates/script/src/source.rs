//! The code of a script: finds it, reads it, checks it and hands it out as ES modules.
//!
//! There is no JavaScript engine here. The runtime asks for a module by name and gets text that
//! QuickJS can take; it asks where a position of that text is in the user's file; it asks for the
//! bytes of a file for `open()`. Every file is read and prepared once, and all cores share it.
//!
//! ```text
//! specifier --resolve--> name --module--> text of an ES module
//!  ./lib.js               file:///t/lib.js    .js as written, .ts without its types,
//!  k6/http                k6/http              CommonJS wrapped, .json as a default export
//! ```
//!
//! Asking for a module checks everything that it imports, directly or not, so a syntax error or a
//! missing file in any of them is found before the first line runs. What is asked for by
//! `require()` or `import()` is looked at when that call runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod builtin;
mod commonjs;
mod error;
mod facts;
mod files;
mod graph;
mod hints;
mod lacking;
mod life;
mod lines;
mod look;
mod loops;
mod members;
mod parse;
mod position;
mod resolve;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_life;
#[cfg(test)]
mod tests_run;
#[cfg(test)]
mod tests_values;
mod values;

pub use builtin::{BuiltinStatus, Builtins, missing as missing_builtin};
pub use commonjs::{COMMONJS_RUNTIME, WHOLE_EXPORTS, require_module};
pub use error::{Place, SourceError, SourceErrorKind};
pub use lines::LineMap;

use files::{CODE_BYTES_MAX, DATA_BYTES_MAX, Existence, Files};
use graph::State;
use lines::{characters_before, characters_of_utf16, utf16_before};
use resolve::{Resolver, name_of, path_of};

/// Why a file is missing on a worker that is there where the script was written.
const NOT_SHIPPED: &str = "it was not sent with the script: a fleet gets the files that the init code opens when it is \
     run once, by `volley submit`, with __VU = 0; open them all there, whatever __VU is";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Esm,
    /// Wrapped; calls the functions that [`COMMONJS_RUNTIME`] defines.
    CommonJs,
    Json,
}

/// A module as QuickJS takes it.
#[derive(Debug)]
pub struct Prepared {
    pub code: String,
    pub kind: Kind,
    /// `None`: every position is the user's own.
    pub lines: Option<LineMap>,
}

/// A file that was read, under its absolute path.
#[derive(Clone, Debug)]
pub struct LoadedFile {
    pub path: PathBuf,
    pub bytes: Arc<[u8]>,
}

/// Scripts are told from plans by the ending of their name; `-` is a script on the standard input.
pub fn is_script(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    matches!(ending.to_ascii_lowercase().as_str(), "js" | "ts" | "mjs" | "cjs" | "mts" | "cts")
        || path.as_os_str() == "-"
}

pub struct Sources {
    entry: String,
    /// Paths below it are shown without it.
    folder: PathBuf,
    builtins: Builtins,
    files: Files,
    state: Mutex<State>,
}

impl Sources {
    /// A script in a file. Nothing but this file is read yet.
    pub fn open(entry: &Path, builtins: Builtins) -> Result<Sources, SourceError> {
        let folder = std::env::current_dir().map_err(|error| {
            let message = format!("the current folder cannot be used: {error}");
            SourceError::new(SourceErrorKind::Unreadable, message)
        })?;
        let path = files::normal(&folder.join(entry));
        let sources = Sources::new(&path, folder, builtins, Files::default())?;
        let shown = entry.display().to_string();
        if sources.files.existence(&path) == Existence::Nothing {
            let message = format!("{shown}: no such file");
            return Err(SourceError::new(SourceErrorKind::NotFound, message)
                .maybe_help(sources.resolver().advice(&shown, &path)));
        }
        sources.files.read(&path, &shown, CODE_BYTES_MAX)?;
        Ok(sources)
    }

    /// A script that came through the standard input; what it imports is relative to `folder`.
    pub fn from_stdin(
        text: impl Into<Vec<u8>>,
        folder: &Path,
        builtins: Builtins,
    ) -> Result<Sources, SourceError> {
        let path = folder.join("-");
        let sources = Sources::new(&path, folder.to_owned(), builtins, Files::default())?;
        sources.files.insert(path, Arc::from(text.into()));
        Ok(sources)
    }

    /// A script that was sent from another machine as the answer of [`Sources::loaded`]. The disk
    /// of this machine is not looked at.
    pub fn from_loaded(
        entry: &str,
        loaded: Vec<LoadedFile>,
        builtins: Builtins,
    ) -> Result<Sources, SourceError> {
        let not_a_file = || {
            let message = format!("the script's name \"{entry}\" is not the URL of a file");
            SourceError::new(SourceErrorKind::Unresolved, message)
        };
        let path = path_of(entry).ok_or_else(not_a_file)?;
        let folder = path.parent().ok_or_else(not_a_file)?.to_owned();
        let files = Files::shipped(loaded.into_iter().map(|file| (file.path, file.bytes)));
        let sources = Sources::new(&path, folder, builtins, files)?;
        sources.files.read(&path, entry, CODE_BYTES_MAX)?;
        Ok(sources)
    }

    fn new(
        entry: &Path,
        folder: PathBuf,
        builtins: Builtins,
        files: Files,
    ) -> Result<Sources, SourceError> {
        let entry = name_of(entry)?;
        Ok(Sources { entry, folder, builtins, files, state: Mutex::default() })
    }

    /// Module name of the script itself.
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// Module name of `specifier` as written in module `from`. A file is known to exist then.
    pub fn resolve(&self, from: &str, specifier: &str) -> Result<String, SourceError> {
        self.resolver().resolve(from, specifier).map_err(|mut error| {
            let place = self.lock().modules.get(from).and_then(|module| {
                let request = module.requests().iter().find(|r| r.specifier == specifier)?;
                Some(Place::at(&self.shown(from), &module.text, request.offset as usize))
            });
            if place.is_none() {
                error.message = format!("{}: {}", self.shown(from), error.message);
            }
            error.or_at(place)
        })
    }

    /// The same for `require()`, while the CommonJS files `running` are being evaluated.
    ///
    /// An ES module can only be fetched in the middle of an evaluation if nothing that it imports
    /// is itself in the middle of one: the engine would link and run that module a second time.
    /// Whatever is in the middle leads, by imports, to a file that is running now, so it is
    /// enough to look for those.
    pub fn resolve_require(
        &self,
        from: &str,
        specifier: &str,
        running: &[String],
    ) -> Result<String, SourceError> {
        let name = self.resolve(from, specifier)?;
        if !name.contains(':') {
            return Ok(name);
        }
        let mut state = self.lock();
        self.walk_or_forget(&mut state, &name)?;
        if !state.modules.get(&name).is_some_and(|module| module.is_esm()) {
            return Ok(name);
        }
        let imported = self.closure(&state, &name);
        let now = running.iter().map(String::as_str).chain([from]);
        let Some(unfinished) = now.into_iter().find(|name| imported.contains(*name)) else {
            return Ok(name);
        };
        let message = format!(
            "{}: \"{specifier}\" cannot be required here: it imports {}, which is still being evaluated",
            self.shown(from),
            self.shown(unfinished)
        );
        Err(SourceError::new(SourceErrorKind::Unresolved, message)
            .help("use `import` instead of require(), or break the circle"))
    }

    /// The code of a module, ready for QuickJS. Errors in what it imports are errors here.
    pub fn module(&self, name: &str) -> Result<Arc<Prepared>, SourceError> {
        let mut state = self.lock();
        if let Some(prepared) = state.prepared.get(name) {
            return Ok(Arc::clone(prepared));
        }
        self.walk_or_forget(&mut state, name)?;
        let prepared = Arc::new(self.prepare(&mut state, name)?);
        state.prepared.insert(name.to_owned(), Arc::clone(&prepared));
        Ok(prepared)
    }

    /// Line and column in the file as the user wrote it, both from one and in characters, of a
    /// position as QuickJS gives it (columns in bytes of UTF-8).
    pub fn original(&self, name: &str, line: u32, column: u32) -> (u32, u32) {
        let state = self.lock();
        let (Some(prepared), Some(module)) = (state.prepared.get(name), state.modules.get(name))
        else {
            return (line, column);
        };
        let line_of = |text: &str, line: u32| -> String {
            text.split('\n').nth((line as usize).saturating_sub(1)).unwrap_or("").to_owned()
        };
        match &prepared.lines {
            None => (line, characters_before(&line_of(&prepared.code, line), column) + 1),
            Some(map) => {
                // The map of a printer counts in UTF-16, on both sides.
                let units = utf16_before(&line_of(&prepared.code, line), column);
                let (line, unit) = map.original(line, units + 1);
                (line, characters_of_utf16(&line_of(&module.text, line), unit - 1) + 1)
            }
        }
    }

    /// Bytes of a file for `open()`; a relative path starts at the folder of module `from`.
    pub fn file(&self, from: &str, path: &str) -> Result<Arc<[u8]>, SourceError> {
        let refused = |kind, message: String| SourceError::new(kind, message);
        if path.is_empty() {
            let message = "open() needs the name of a file; it is empty".to_owned();
            return Err(refused(SourceErrorKind::NotFound, message));
        }
        let absolute = match path.strip_prefix("file://").and_then(|_| path_of(path)) {
            Some(absolute) => absolute,
            None => {
                let base = path_of(from).or_else(|| path_of(&self.entry));
                let folder = base.as_deref().and_then(Path::parent).unwrap_or(&self.folder);
                folder.join(path)
            }
        };
        let absolute = files::normal(&absolute);
        let shown = self.shown_path(&absolute);
        match self.files.existence(&absolute) {
            Existence::File => self.files.read(&absolute, &shown, DATA_BYTES_MAX),
            Existence::Folder => {
                let message = format!("open(\"{path}\"): {shown} is a folder, not a file");
                Err(refused(SourceErrorKind::NotFound, message))
            }
            Existence::Nothing => {
                let message = format!("open(\"{path}\"): there is no file {shown}");
                let advice = match self.files.are_shipped() {
                    true => Some(NOT_SHIPPED.to_owned()),
                    false => {
                        let here = self.in_working_folder(path, &absolute);
                        here.or_else(|| self.resolver().advice(path, &absolute))
                    }
                };
                Err(refused(SourceErrorKind::NotFound, message).maybe_help(advice))
            }
        }
    }

    /// For a path that begins where the command was called: paths begin at the script's folder.
    fn in_working_folder(&self, path: &str, missing: &Path) -> Option<String> {
        let here = files::normal(&self.folder.join(path));
        if here == missing || self.files.existence(&here) != Existence::File {
            return None;
        }
        // What was asked for ends like the file that is there; what stands before it is the way up.
        let script_folder = missing.ancestors().nth(Path::new(path).components().count())?;
        let up = script_folder.strip_prefix(&self.folder).ok()?.components().count();
        Some(format!(
            "paths begin at the script's folder; write open(\"{}{path}\")",
            "../".repeat(up)
        ))
    }

    /// Every file read so far, code and data: what another machine needs to run the script.
    pub fn loaded(&self) -> Vec<LoadedFile> {
        let all = self.files.all().into_iter();
        all.map(|(path, bytes)| LoadedFile { path, bytes }).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resolver(&self) -> Resolver<'_> {
        Resolver { builtins: &self.builtins, files: &self.files }
    }

    fn shown_path(&self, path: &Path) -> String {
        path.strip_prefix(&self.folder).unwrap_or(path).display().to_string()
    }

    /// A module's name for messages: files as paths, which terminals make clickable.
    fn shown(&self, name: &str) -> String {
        path_of(name).map_or_else(|| name.to_owned(), |path| self.shown_path(&path))
    }
}
