//! House rules that a machine can keep: sizes of files, direction of dependencies, where printing
//! happens, whether what is cited can be found.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::common::repository;

/// Rooms and the rooms they may use. A crate that is not here has no place yet.
const LADDER: &[(&str, &[&str])] = &[
    (
        "volley",
        &[
            "dashboard",
            "web",
            "report",
            "engine",
            "script",
            "client",
            "control",
            "ledger_state",
            "schedule",
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
            "permit",
            "base",
        ],
    ),
    ("dashboard", &["report", "stats", "plan"]),
    ("web", &["report", "stats", "plan"]),
    ("report", &["stats", "plan", "base"]),
    ("engine", &["script", "client", "permit", "schedule", "stats", "plan", "base", "fence"]),
    ("script", &["client", "permit", "schedule", "stats", "plan", "base", "fence"]),
    ("client", &["permit", "stats", "plan", "base", "fence"]),
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
            "ledger_state",
            "schedule",
            "stats",
            "plan",
            "fence",
            "trust",
            "permit",
            "base",
        ],
    ),
    ("node", &["ledger", "membership", "wal", "fence", "trust", "base"]),
    ("ledger", &["wal", "ledger_state", "base", "fence"]),
    ("membership", &["trust", "base", "fence"]),
    ("wal", &["base", "fence"]),
    ("control", &["ledger_state", "schedule", "stats", "plan", "base", "fence"]),
    ("ledger_state", &["schedule", "base", "fence"]),
    ("schedule", &["stats", "plan"]),
    ("stats", &["plan", "base"]),
    ("plan", &["base"]),
    ("trust", &["base", "fence"]),
    ("permit", &["base", "fence"]),
    ("base", &["fence"]),
    ("fence", &[]),
    ("target", &[]),
];

/// Rooms that decide and never do: no sockets, no timers, no tasks.
const PURE: &[&str] = &["fence", "plan", "stats", "schedule", "ledger_state", "control"];

const LINES_MAX: usize = 1000;
const LINES_WARN: usize = 600;
/// Of comments. The formatter keeps code within as many, but not texts.
const COMMENT_COLUMNS_MAX: usize = 100;
const COLUMNS_MAX: usize = 120;
/// A function that does not fit on a screen is two.
const FUNCTION_LINES_MAX: usize = 70;
/// So many are longer. The number may only become smaller.
const LONG_FUNCTIONS: usize = 43;

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
    files(folder, &["rs"])
}

/// Everything below a folder whose name ends so, without what is built or hidden.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                let name = name(&path);
                folders.extend((name != "target" && !name.starts_with('.')).then_some(path));
            } else if path.extension().is_some_and(|end| endings.iter().any(|one| end == *one)) {
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
        let wide = text.lines().enumerate().filter(|(_, line)| is_wide_comment(line));
        found.extend(wide.map(|(number, _)| {
            (number + 1, format!("a comment longer than {COMMENT_COLUMNS_MAX} columns"))
        }));
        if count > LINES_MAX {
            found.push((count, format!("more than {LINES_MAX} lines")));
        }
        found
    });
    assert_none(&found);
}

/// Tables and drawings may be as wide as code.
fn is_wide_comment(line: &str) -> bool {
    let Some(comment) = line.trim_start().strip_prefix("//") else { return false };
    let comment = comment.trim_start_matches(['/', '!']);
    let is_drawn = comment.starts_with(" |")
        || ["  ", "─", "-->", " | "].iter().any(|drawn| comment.contains(drawn));
    line.chars().count() > COMMENT_COLUMNS_MAX && !is_drawn
}

/// Functions with the number of their lines. The formatter puts the last brace below the first
/// word.
fn functions(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let Some((before, rest)) = code.split_once("fn ") else { continue };
        let is_function = before.split_whitespace().all(|word| {
            ["const", "async", "unsafe", "extern", "\"C\""].contains(&word)
                || word.starts_with("pub")
        });
        if !is_function {
            continue;
        }
        let indent = &line[..line.len() - code.len()];
        let end = format!("{indent}}}");
        // A declaration has no body, and a short function has its own on the same line.
        let head = lines[at..].iter().find(|line| line.ends_with(['{', ';', '}']));
        let has_body = head.is_some_and(|line| line.ends_with('{'));
        let length = lines[at..].iter().position(|line| has_body && **line == end);
        let name = rest.split(['(', '<']).next().unwrap_or_default();
        found.extend(length.map(|length| (length + 1, name.to_owned())));
    }
    found
}

#[test]
fn functions_fit_on_a_screen() {
    let files: Vec<_> = crates().iter().flat_map(|folder| rust_files(folder)).collect();
    let long = complaints(files, |_, text| {
        functions(text).into_iter().filter(|(lines, _)| *lines > FUNCTION_LINES_MAX).collect()
    });
    let count = long.len();
    assert!(
        count <= LONG_FUNCTIONS,
        "{count} functions are longer than {FUNCTION_LINES_MAX} lines:\n{}",
        long.join("\n")
    );
    assert!(count == LONG_FUNCTIONS, "only {count} are left: put that into LONG_FUNCTIONS");
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

/// Families of requirements: `EXEC-40` is a row of `docs/requirements/exec.md`.
const FAMILIES: &[&str] =
    &["CORE", "DET", "ARCH", "EXEC", "GATE", "LIFE", "LEDG", "WAL", "IDEM", "BAR", "OSC", "CAP"];

/// Letters that once numbered notes outside of this repository. They lead a reader nowhere.
const NOWHERE: &[&str] = &["X", "S", "G", "C", "A", "OX", "IX", "WX", "BX", "SC", "GAP", "ISS"];

/// What can be cited: rulings and promises in `docs/decisions`, requirements in
/// `docs/requirements`.
struct Addresses(BTreeSet<String>);

impl Addresses {
    fn read() -> Addresses {
        let docs = repository().join("docs");
        let decisions = files(&docs.join("decisions"), &["md"]);
        let mut known: BTreeSet<String> = decisions
            .iter()
            .filter_map(|page| Some(name(page).split_once('-')?.0.into()))
            .collect();
        let tables = files(&docs.join("requirements"), &["md"]).into_iter();
        for path in tables.chain([docs.join("decisions/promises.md")]) {
            let text = std::fs::read_to_string(path).unwrap();
            let cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next());
            known.extend(cells.map(str::to_owned));
        }
        Addresses(known)
    }

    /// Whether this word cites something, and why that leads nowhere.
    fn complaint(&self, word: &str, next: &str) -> Option<String> {
        let is_number = |text: &str, most: usize| {
            (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        let lacks =
            |where_to: &str| (!self.0.contains(word)).then(|| format!("{word} has no {where_to}"));
        let nowhere = || Some(format!("{word} leads nowhere; say the reason in words"));
        if let Some((before, _)) = word.rsplit_once('-').filter(|(_, end)| is_number(end, 4)) {
            return match before.rsplit('-').next().unwrap_or_default() {
                family if NOWHERE.contains(&family) => nowhere(),
                _ if FAMILIES.contains(&before) => lacks("row in docs/requirements"),
                _ => None,
            };
        }
        match word.split_at_checked(1)? {
            ("R", rest) if is_number(rest.trim_end_matches('a'), 2) => {
                lacks("page in docs/decisions")
            }
            // From P50 on it is a percentile.
            ("P", rest) if is_number(rest, 2) && rest.parse::<u8>().is_ok_and(|it| it < 50) => {
                lacks("row in promises.md")
            }
            // S3 is a store of objects.
            ("X" | "S" | "G", rest) if is_number(rest, 2) && word != "S3" => nowhere(),
            _ if word == "DESIGN" => nowhere(),
            _ if word.eq_ignore_ascii_case("spec") && is_number(next, 2) => nowhere(),
            _ => None,
        }
    }

    fn complaints(&self, line: &str) -> Vec<String> {
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '-' || letter == '_';
        let mut words = line.split(|letter| !is_part(letter)).filter(|word| !word.is_empty());
        let mut word = words.next();
        let mut found = Vec::new();
        while let Some(this) = word {
            word = words.next();
            found.extend(self.complaint(this, word.unwrap_or_default()));
        }
        found
    }
}

/// The part of a line that is meant for people. Of code that is its comment.
fn prose<'a>(path: &Path, line: &'a str) -> &'a str {
    if !path.extension().is_some_and(|end| end == "rs" || end == "proto") {
        return line;
    }
    let is_start = |at: &usize| *at == 0 || line[..*at].ends_with(' ');
    line.match_indices("//").map(|(at, _)| at).find(is_start).map_or("", |at| &line[at..])
}

#[test]
fn every_citation_has_an_address() {
    let root = repository();
    let known = Addresses::read();
    let folders = ["crates", "sim", "fuzz", "proto", "docs", "bench"];
    let mut all: Vec<_> = folders
        .iter()
        .flat_map(|folder| files(&root.join(folder), &["rs", "proto", "md", "py"]))
        .collect();
    all.extend(["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"].map(|page| root.join(page)));
    let found = complaints(all, |path, text| {
        let numbered = (1..).zip(text.lines().map(|line| prose(path, line)));
        numbered
            .flat_map(|(at, line)| known.complaints(line).into_iter().map(move |what| (at, what)))
            .collect()
    });
    assert_none(&found);
}

/// The check above can fail, and leaves alone what only looks like a citation.
#[test]
fn a_citation_that_leads_nowhere_is_found() {
    let known = Addresses::read();
    for good in ["R4, R17a: EXEC-40", "P10", "R500", "P95", "X509", "S3", "UTF-8", "spec: new"] {
        assert_eq!(known.complaints(good), [""; 0], "{good}");
    }
    let bad = [
        "R99",
        "R4a",
        "P11",
        "EXEC-999",
        "X45",
        "X-7",
        "S12",
        "S-39",
        "G-16",
        "OX-9",
        "DET-GAP-5",
        "ARCH-SC-1",
        "spec 06",
        "Spec 4",
        "DESIGN section",
    ];
    for bad in bad {
        assert_eq!(known.complaints(&format!("as {bad} says")).len(), 1, "{bad}");
    }
    let code = Path::new("a.rs");
    assert_eq!(prose(code, "let x = 4; // why"), "// why");
    assert_eq!(prose(code, "get(\"http://a\")"), "");
}

#[test]
fn every_place_that_a_decision_names_exists() {
    let root = repository();
    let pages = files(&root.join("docs/decisions"), &["md"]);
    assert!(pages.len() > 30, "{}", pages.len());
    let found = complaints(pages, |_, text| {
        let quoted = |line: &str| -> Vec<String> {
            line.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        let places = (1..).zip(text.lines()).flat_map(|(at, line)| {
            quoted(line).into_iter().filter(|text| text.contains('/')).map(move |text| (at, text))
        });
        places
            .filter(|(_, place)| place.starts_with("crates/") && !root.join(place).exists())
            .map(|(at, place)| (at, format!("{place} is not there")))
            .collect()
    });
    assert_none(&found);
}
