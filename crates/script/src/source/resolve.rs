//! What a module specifier means, and the best advice when it means nothing.
//!
//! The rules are k6's: a path begins with `./`, `../` or `/` and is written out with its
//! extension; `k6` and `k6/…` are modules of the program; `https://jslib.k6.io/…` are libraries,
//! here served from copies inside the program. Nothing is fetched from the network.

use std::path::{Path, PathBuf};

use url::Url;

use super::builtin::{BuiltinStatus, Builtins};
use super::error::{SourceError, SourceErrorKind};
use super::files::{Existence, Files, normal};

/// Below this a name is not a misspelling of another (Jaro-Winkler).
const ALIKE: f64 = 0.85;
/// Extensions that people leave away, most likely first.
const EXTENSIONS: [&str; 5] = ["js", "ts", "mjs", "cjs", "json"];

/// What a specifier is, by its look alone.
enum Shape<'s> {
    Builtin(&'s str),
    Path(PathBuf),
    Url(Url),
    Bare,
}

pub struct Resolver<'r> {
    pub builtins: &'r Builtins,
    pub files: &'r Files,
}

impl Resolver<'_> {
    pub fn resolve(&self, from: &str, specifier: &str) -> Result<String, SourceError> {
        if specifier.is_empty() {
            return Err(unresolved("the name of a module cannot be empty"));
        }
        match shape(from, specifier)? {
            Shape::Builtin(name) => self.builtin(name),
            Shape::Path(path) => self.path(specifier, &path),
            Shape::Url(url) => self.library(url.as_str()),
            Shape::Bare => Err(self.bare(from, specifier)),
        }
    }

    fn builtin(&self, name: &str) -> Result<String, SourceError> {
        match (self.builtins.status)(name) {
            BuiltinStatus::Here => Ok(name.to_owned()),
            BuiltinStatus::Missing(remedy) => {
                let message = format!("module \"{name}\" is not available");
                Err(SourceError::new(SourceErrorKind::Missing, message).help(remedy))
            }
            BuiltinStatus::Unknown => {
                let near = nearest(name, self.builtins.names.iter().copied());
                Err(unresolved(format!("there is no module \"{name}\""))
                    .maybe_help(near.map(|near| format!("did you mean \"{near}\"?"))))
            }
        }
    }

    fn path(&self, specifier: &str, path: &Path) -> Result<String, SourceError> {
        let decoded = decoded(path);
        let found = [Some(path), decoded.as_deref()].into_iter().flatten().find_map(|path| {
            let existence = self.files.existence(path);
            (existence != Existence::Nothing).then_some((path, existence))
        });
        match found {
            Some((path, Existence::File)) => name_of(path),
            Some((path, _)) => {
                let index = ["index.js", "index.ts"]
                    .iter()
                    .find(|index| self.files.existence(&path.join(index)) == Existence::File);
                Err(not_found(format!("\"{specifier}\" is a folder, not a file")).maybe_help(
                    index.map(|index| {
                        format!("write \"{}/{index}\"", specifier.trim_end_matches('/'))
                    }),
                ))
            }
            None => Err(not_found(format!("\"{specifier}\" does not exist ({})", path.display()))
                .maybe_help(self.advice(specifier, path))),
        }
    }

    /// What the user may have meant by a path where nothing is.
    pub fn advice(&self, specifier: &str, path: &Path) -> Option<String> {
        let folder = path.parent()?;
        let name = path.file_name()?.to_str()?;
        if self.files.existence(folder) != Existence::Folder {
            return Some(format!("there is no folder {}", folder.display()));
        }
        let is_file = |name: &str| self.files.existence(&folder.join(name)) == Existence::File;
        let with_name = |name: &str| match specifier.rsplit_once('/') {
            Some((before, _)) => format!("{before}/{name}"),
            None => name.to_owned(),
        };
        let completed = EXTENSIONS.iter().map(|extension| format!("{name}.{extension}"));
        if let Some(completed) = completed.into_iter().find(|name| is_file(name)) {
            let whole = with_name(&completed);
            return Some(format!("extensions are not guessed: write \"{whole}\""));
        }
        let swapped = Path::new(name).file_stem().and_then(|stem| stem.to_str()).and_then(|stem| {
            let names = EXTENSIONS.iter().map(|extension| format!("{stem}.{extension}"));
            names.into_iter().find(|name| is_file(name))
        });
        let names = self.files.names_in(folder);
        let near = swapped.or_else(|| nearest(name, names.iter().map(String::as_str)))?;
        Some(format!("did you mean \"{}\"?", with_name(&near)))
    }

    fn library(&self, url: &str) -> Result<String, SourceError> {
        if (self.builtins.library)(url).is_some() {
            return Ok(url.to_owned());
        }
        let error = unresolved(format!("\"{url}\" cannot be imported: nothing is fetched by URL"));
        // Another version of a library that is here is nearer than any other advice.
        let library = |url: &str| url.rsplitn(3, '/').nth(2).map(str::to_owned);
        let versions: Vec<&str> = self
            .builtins
            .libraries
            .iter()
            .copied()
            .filter(|known| library(known) == library(url))
            .collect();
        let near = nearest(url, self.builtins.libraries.iter().copied());
        Err(match (versions.first(), near) {
            (Some(_), _) => error.help(format!("these are built in: {}", versions.join(", "))),
            (None, Some(near)) => error.help(format!(
                "download it and import the file, or use \"{near}\", which is built in"
            )),
            (None, None) => error.help("download it and import the file (\"./name.js\")"),
        })
    }

    fn bare(&self, from: &str, specifier: &str) -> SourceError {
        let error = unresolved(format!("there is no module \"{specifier}\""));
        let beside = path_of(from).and_then(|from| Some(from.parent()?.join(specifier)));
        if let Some(path) = beside
            && self.files.existence(&path) == Existence::File
        {
            return error.help(format!("a file is written with its folder: \"./{specifier}\""));
        }
        if specifier.starts_with("node:") {
            return error.help("modules of Node.js are not available in a load test");
        }
        // Libraries are built in under the addresses that they have with k6.
        let library = crate::jslib::URLS.iter().find(|name| {
            let word = specifier.rsplit('/').next().unwrap_or_default();
            name.split('/').any(|part| part == word)
        });
        if let Some(library) = library {
            return error.help(format!("it is built in by this name: \"{library}\""));
        }
        let near = nearest(specifier, self.builtins.names.iter().copied());
        error.help(match near {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => "packages are not looked up: bundle it into a file and import that, or write \
                     \"./name.js\" for a file beside the script"
                .to_owned(),
        })
    }
}

fn shape<'s>(from: &str, specifier: &'s str) -> Result<Shape<'s>, SourceError> {
    if specifier == "k6" || specifier.starts_with("k6/") {
        return Ok(Shape::Builtin(specifier));
    }
    if specifier.starts_with("file:") {
        let path = path_of(specifier).ok_or_else(|| {
            unresolved(format!("\"{specifier}\" is not the URL of a local file"))
                .help("write file:///folder/file.js")
        })?;
        return Ok(Shape::Path(normal(&path)));
    }
    if specifier.starts_with("https://") || specifier.starts_with("http://") {
        let url = Url::parse(specifier)
            .map_err(|error| unresolved(format!("\"{specifier}\" is not a URL: {error}")))?;
        return Ok(Shape::Url(url));
    }
    let is_relative = ["./", "../"].iter().any(|start| specifier.starts_with(start))
        || [".", ".."].contains(&specifier);
    if !is_relative && !specifier.starts_with('/') {
        return Ok(Shape::Bare);
    }
    match path_of(from) {
        Some(from) => {
            let folder = from.parent().unwrap_or(Path::new("/"));
            Ok(Shape::Path(normal(&folder.join(specifier))))
        }
        // Inside a library a path is relative to the library's URL.
        None => match Url::parse(from).and_then(|from| from.join(specifier)) {
            Ok(url) => Ok(Shape::Url(url)),
            Err(_) => Ok(Shape::Path(normal(&Path::new("/").join(specifier)))),
        },
    }
}

/// The module name of a file.
pub fn name_of(path: &Path) -> Result<String, SourceError> {
    Url::from_file_path(path)
        .map(String::from)
        .map_err(|()| unresolved(format!("{} is not an absolute path", path.display())))
}

/// The file of a module name; `None` for everything that is not a file.
pub fn path_of(name: &str) -> Option<PathBuf> {
    let url = Url::parse(name).ok()?;
    (url.scheme() == "file").then(|| url.to_file_path().ok())?
}

/// k6 takes `%20` in a path for a blank; here a file that is really called so comes first.
fn decoded(path: &Path) -> Option<PathBuf> {
    let text = path.to_str()?;
    if !text.contains('%') {
        return None;
    }
    // A URL parser would stop at ? and #, which in a path are letters like any other.
    let escaped = text.replace('?', "%3F").replace('#', "%23");
    Url::parse(&format!("file://{escaped}")).ok()?.to_file_path().ok()
}

fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<String> {
    let lower = name.to_lowercase();
    known
        .map(|known| (strsim::jaro_winkler(&lower, &known.to_lowercase()), known))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known.to_owned())
}

fn unresolved(message: impl Into<String>) -> SourceError {
    SourceError::new(SourceErrorKind::Unresolved, message)
}

fn not_found(message: String) -> SourceError {
    SourceError::new(SourceErrorKind::NotFound, message)
}
