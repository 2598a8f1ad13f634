//! What the documents say is so: plans in them run, generated pages are current, links lead
//! somewhere.

mod common;

use std::path::{Path, PathBuf};

use common::{Room, Target, VOLLEY, repository};

fn documents() -> Vec<PathBuf> {
    let root = repository();
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let tops = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        docs.chain(tops).filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    found.sort();
    assert!(found.iter().any(|path| path.ends_with("README.md")));
    found
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// The fenced blocks of a language, with the line on which each begins.
fn blocks(text: &str, language: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String, bool)> = None;
    for (index, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(name)) => open = Some((index + 2, String::new(), name == language)),
            (Some(_), Some(_)) => {
                let (at, text, wanted) = open.take().unwrap();
                found.extend(wanted.then_some((at, text)));
            }
            (Some((_, block, _)), None) => *block += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    found
}

/// Every whole plan in the documents: where it begins, and its text.
fn plans() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in documents() {
        for (line, text) in blocks(&read(&path), "yaml") {
            if text.starts_with("name:") {
                found.push((format!("{}:{line}", path.display()), text));
            }
        }
    }
    assert!(found.len() >= 10, "only {} plans found", found.len());
    found
}

#[test]
fn every_plan_in_the_documents_is_legal() {
    // Where the data files are that they name.
    let folder = repository().join("examples");
    for (place, text) in plans() {
        let options = plan::ReadOptions::new(&|_| None);
        if let Err(problems) = plan::read_str(&text, plan::Format::Yaml, &folder, &options) {
            panic!("{place}:\n{problems}");
        }
    }
}

#[test]
fn every_plan_in_the_documents_runs_against_the_built_in_target() {
    let (room, target) = (Room::new(), Target::start());
    std::fs::copy(repository().join("examples/users.csv"), room.path("users.csv")).unwrap();
    for (place, text) in plans() {
        let here = text.replace("127.0.0.1:8080", &target.address.to_string());
        room.write("plan.yaml", &here);
        let args = ["run", "plan.yaml", "--duration", "500ms", "--view", "none"];
        let done = room.volley(args);
        assert_eq!(done.code, 0, "{place}:\n{}\n{}", done.out, done.err);
    }
}

#[test]
fn every_executor_and_key_is_shown_in_the_guide() {
    let guide = read(&repository().join("docs/plans.md"));
    let keys = read(&repository().join("docs/keys.md"));
    // Rows look like "| `key` | ..." or "| `key` (required) | ...".
    let rows = keys.lines().filter_map(|line| line.strip_prefix("| `"));
    let shown =
        |key: &str| guide.contains(&format!("{key}:")) || guide.contains(&format!("`{key}`"));
    let missing: Vec<_> = rows
        .filter_map(|row| row.split('`').next())
        .filter(|key| *key != "$schema" && !shown(key))
        .collect();
    assert!(missing.is_empty(), "not in docs/plans.md: {missing:?}");
}

#[test]
fn the_page_of_keys_is_current() {
    let made = Room::new().volley(["schema", "--markdown"]).expect(0).out;
    let kept = read(&repository().join("docs/keys.md"));
    assert!(made == kept, "stale: run `{VOLLEY} schema --markdown > docs/keys.md`");
}

#[test]
fn exit_codes_are_told_in_the_readme() {
    let readme = read(&repository().join("README.md"));
    for code in [0, 2, 99, 102, 103, 104, 105, 120, 122] {
        assert!(readme.contains(&format!("| {code} |")), "{code} is missing");
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    for path in documents() {
        let text = read(&path);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            let found = path.parent().unwrap().join(file);
            assert!(found.exists(), "{}: {target} leads nowhere", path.display());
        }
    }
}
