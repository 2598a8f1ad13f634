//! What can be said about a file that is no plan at all: another tool's, a folder, or a name with a
//! slip in it.

use std::path::{Path, PathBuf};

use crate::{Problem, Problems};

/// Files of a folder that are compared with a name that is not there.
const NEIGHBOURS_MAX: usize = 1_000;

/// What can be said about a file that is no plan at all.
pub fn advise(path: &Path, mut problems: Problems) -> Problems {
    let shown = path.display();
    if let Some((what, instead)) = foreign(path).filter(|_| path.is_file()) {
        let message = format!("{what}, which Volley does not run");
        let first = problems.0.first().map(|first| first.file.clone());
        let file = first.unwrap_or_else(|| path.to_owned());
        let help = Some(format!("{instead}; docs/coming-from.md says what becomes of its parts"));
        let about_all = Problem { file, message, help, ..Problem::default() };
        return Problems(vec![about_all]);
    }
    let help = if !path.exists() {
        match neighbour(path) {
            Some(near) => format!("did you mean `{}`?", near.display()),
            None => format!("`volley new {shown}` writes a plan to start from"),
        }
    } else if path.is_dir() {
        "a folder; name one of the plans in it".to_owned()
    } else {
        return problems;
    };
    if let Some(first) = problems.0.first_mut() {
        first.help.get_or_insert(help);
    }
    problems
}

/// Files of other tools, which are neither plan nor script.
fn foreign(path: &Path) -> Option<(&'static str, &'static str)> {
    let new = "`volley new plan.yaml` writes a plan to start from";
    Some(match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "jmx" => ("this is a JMeter test plan", new),
        "py" => ("this is Python, as Locust's files are", new),
        "scala" | "java" | "kt" => ("this is a program, as Gatling's simulations are", new),
        "lua" => (
            "this is Lua, as wrk's scripts are",
            "`volley new script.js --template k6` writes a script",
        ),
        "har" => ("this is a recording of a browser (HAR)", new),
        "xml" | "html" | "htm" => ("this is XML or HTML", new),
        "csv" | "tsv" => {
            ("this is a data file", "name it in a plan: `data: { users: { file: users.csv } }`")
        }
        _ => return None,
    })
}

/// The file beside it whose name is nearly the same.
fn neighbour(path: &Path) -> Option<PathBuf> {
    let wanted = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let names = entries
        .flatten()
        .take(NEIGHBOURS_MAX)
        .filter_map(|entry| entry.file_name().into_string().ok());
    let endings = [".yaml", ".yml", ".toml", ".json", ".js", ".ts"];
    let plans = names.filter(|name| endings.iter().any(|ending| name.ends_with(ending)));
    // A name in another case is the same name; of a short one, two letters are all of it.
    let lower = wanted.to_lowercase();
    let distance = |name: &String| strsim::damerau_levenshtein(&lower, &name.to_lowercase());
    let letters = wanted.rsplit_once('.').map_or(wanted, |(stem, _)| stem).chars().count();
    let most = (letters / 3).clamp(1, 2);
    let nearest = plans.min_by_key(distance).filter(|name| distance(name) <= most)?;
    Some(path.with_file_name(nearest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first help that is given for `path`, about which a reader had one complaint.
    fn help_for(path: &Path) -> Option<String> {
        let complaint = Problem { file: path.to_owned(), ..Problem::default() };
        advise(path, Problems(vec![complaint])).0.remove(0).help
    }

    #[test]
    fn what_was_probably_meant_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        std::fs::write(place("shop.yaml"), "").unwrap();
        std::fs::write(place("shop.jmx"), "").unwrap();
        for (name, help) in [
            ("shpo.yaml", "did you mean"),
            ("other.yaml", "writes a plan to start from"),
            ("shop.jmx", "docs/coming-from.md"),
            ("", "a folder"),
        ] {
            let said = help_for(&place(name)).unwrap_or_default();
            assert!(said.contains(help), "{name}: {said}");
        }
        assert_eq!(help_for(&place("shop.yaml")), None);
        std::fs::write(place("ok.yaml"), "").unwrap();
        std::fs::write(place("x7.yaml"), "").unwrap();
        let said = help_for(&place("OK.yaml")).unwrap();
        assert!(said.contains("ok.yaml`?"), "{said}");
        let said = help_for(&place("ab.yaml")).unwrap();
        assert!(said.contains("writes a plan to start from"), "{said}");
    }
}
