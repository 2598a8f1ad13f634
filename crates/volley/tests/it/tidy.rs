//! House rules that a machine can keep: sizes of files, direction of dependencies, where printing
//! happens.

use std::path::{Path, PathBuf};

use crate::common::repository;

/// Rooms and the rooms they may use. A crate that is not here has no place yet.
const LADDER: &[(&str, &[&str])] = &[
    (
        "volley",
        &[
            "dashboard",
            "report",
            "engine",
            "script",
            "client",
            "control",
            "stats",
            "plan",
            "target",
            "fleet",
            "node",
            "ledger",
            "membership",
            "wal",
            "fence",
            "trust",
        ],
    ),
    ("dashboard", &["report", "stats", "plan"]),
    ("report", &["stats", "plan"]),
    ("engine", &["script", "client", "control", "stats", "plan"]),
    ("script", &["client", "control", "stats", "plan"]),
    ("client", &["stats", "plan"]),
    (
        "fleet",
        &[
            "node",
            "engine",
            "script",
            "ledger",
            "membership",
            "wal",
            "control",
            "stats",
            "plan",
            "fence",
            "trust",
        ],
    ),
    ("node", &["ledger", "membership", "wal", "fence", "trust"]),
    ("ledger", &["wal", "control", "fence"]),
    ("membership", &["fence", "trust"]),
    ("wal", &["fence"]),
    ("control", &["stats", "plan", "fence"]),
    ("stats", &["plan"]),
    ("plan", &[]),
    ("trust", &["fence"]),
    ("fence", &[]),
    ("target", &[]),
];

/// Rooms that decide and never do: no sockets, no timers, no tasks.
const PURE: &[&str] = &["fence", "plan", "stats", "control"];

const LINES_MAX: usize = 1000;
const LINES_WARN: usize = 600;
const COLUMNS_MAX: usize = 120;

fn crates() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository().join("crates")).unwrap();
    let mut folders: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    folders.retain(|folder| folder.join("Cargo.toml").exists());
    folders.sort();
    folders
}

fn name(folder: &Path) -> String {
    folder.file_name().unwrap().to_string_lossy().into_owned()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// `path:line: what`, for every finding of `find`.
fn complaints(
    files: Vec<PathBuf>,
    find: impl Fn(&Path, &str) -> Vec<(usize, String)>,
) -> Vec<String> {
    let root = repository();
    let mut all = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let shown = path.strip_prefix(&root).unwrap().display().to_string();
        all.extend(
            find(&path, &text).into_iter().map(|(line, what)| format!("{shown}:{line}: {what}")),
        );
    }
    all
}

#[track_caller]
fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn files_and_lines_are_short() {
    let files = crates().iter().flat_map(|folder| rust_files(folder)).collect();
    let found = complaints(files, |path, text| {
        let count = text.lines().count();
        if count > LINES_WARN {
            eprintln!("warning: {}: {count} lines; aim below 400", path.display());
        }
        // A plan or a script inside a test is data: broken over lines it would be harder to read,
        // not easier.
        let is_test =
            path.components().any(|part| part.as_os_str().to_string_lossy().starts_with("tests"));
        let is_text = |line: &str| {
            ["\"", "r#\"", "(\"", "let"].iter().any(|start| line.trim_start().starts_with(start))
        };
        let plan =
            |line: &str| is_test && (line.contains("{ ") || line.contains("\\n") || is_text(line));
        let long = text
            .lines()
            .enumerate()
            .filter(|(_, line)| line.chars().count() > COLUMNS_MAX && !plan(line));
        let mut found: Vec<_> = long
            .map(|(number, _)| (number + 1, format!("longer than {COLUMNS_MAX} columns")))
            .collect();
        if count > LINES_MAX {
            found.push((count, format!("more than {LINES_MAX} lines")));
        }
        found
    });
    assert_none(&found);
}

#[test]
fn every_file_begins_by_saying_what_it_is_for() {
    let files = crates().into_iter().flat_map(|folder| rust_files(&folder.join("src")));
    // `x/tests.rs` are the tests of `x.rs`; nothing more is to be said.
    let files = files.filter(|path| !path.ends_with("tests.rs")).collect();
    let found = complaints(files, |_, text| {
        if text.starts_with("//! ") {
            vec![]
        } else {
            vec![(1, "does not begin with `//! `".to_owned())]
        }
    });
    assert_none(&found);
}

#[test]
fn only_the_command_prints() {
    let folders: Vec<_> = crates().into_iter().filter(|folder| name(folder) != "volley").collect();
    let files = folders.iter().flat_map(|folder| rust_files(&folder.join("src"))).collect();
    let found = complaints(files, |_, text| {
        // Unit tests may print; they are the last part of a file.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let lines =
            code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        let prints = |line: &str| {
            ["println!", "eprintln!", "print!(", "dbg!("].iter().any(|word| line.contains(word))
        };
        lines
            .filter(|(_, line)| prints(line))
            .map(|(number, _)| (number + 1, "prints".to_owned()))
            .collect()
    });
    assert_none(&found);
}

/// Names under `[dependencies]`, as they are written.
fn dependencies(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let mut section = String::new();
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line.to_owned();
        } else if section == "[dependencies]" && !line.starts_with('#') {
            let end = line.find(['.', ' ', '=']).unwrap_or(line.len());
            found.extend(Some(line[..end].to_owned()).filter(|name| !name.is_empty()));
        }
    }
    found
}

#[test]
fn dependencies_point_downwards() {
    let rooms: Vec<String> = crates().iter().map(|folder| name(folder)).collect();
    for folder in crates() {
        let room = name(&folder);
        let place = LADDER.iter().find(|(name, _)| *name == room);
        let (_, below) = place.unwrap_or_else(|| panic!("crates/{room} has no place in LADDER"));
        for used in dependencies(&folder).iter().filter(|used| rooms.contains(used)) {
            assert!(below.contains(&used.as_str()), "crates/{room} may not use crates/{used}");
        }
    }
    assert!(
        dependencies(&repository().join("crates/volley")).contains(&"engine".to_owned()),
        "parsed"
    );
}

#[test]
fn rooms_that_decide_have_no_runtime() {
    for room in PURE {
        let used = dependencies(&repository().join("crates").join(room));
        for wrong in ["tokio", "hyper", "rustls", "fastrand", "libc"] {
            assert!(!used.iter().any(|name| name == wrong), "crates/{room} may not use {wrong}");
        }
    }
}
