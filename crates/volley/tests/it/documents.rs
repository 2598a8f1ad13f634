//! What the documents say is so: plans in them run, generated pages are current, links lead
//! somewhere.

use std::path::{Path, PathBuf};

use crate::common::{Room, Target, VOLLEY, repository};

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
        // Nothing but the warm-up would fit into half a second.
        let here = here.replace("warmup: 5s", "warmup: 100ms");
        room.write("plan.yaml", &here);
        let args = ["run", "plan.yaml", "--duration", "500ms", "--view", "none"];
        let done = room.volley(args);
        assert_eq!(done.code, 0, "{place}:\n{}\n{}", done.out, done.err);
    }
}

#[test]
fn the_readme_alone_leads_to_data_a_token_and_a_threshold_of_one_step() {
    let readme = read(&repository().join("README.md"));
    let (room, target) = (Room::new(), Target::start());
    let [(_, csv)] = &blocks(&readme, "csv")[..] else { panic!("one data file") };
    room.write("users.csv", csv);
    let plans = blocks(&readme, "yaml");
    let (_, plan) = plans.iter().find(|(_, text)| text.contains("users.csv")).unwrap();
    for part in ["${data.users.name}", "Bearer ${token}", "step: cart"] {
        assert!(plan.contains(part), "no {part} in\n{plan}");
    }
    room.write("cart.yaml", plan);
    let url = target.url();
    let args = ["run", "cart.yaml", "--target", &url, "-d", "1s", "--summary", "s.json"];
    let done = room.volley(args).expect(0);
    assert!(done.out.contains("latency{step:cart}"), "{}", done.out);
    let (seen, summary) = (target.seen(), room.json("s.json"));
    for (step, path) in [("login", "/login"), ("cart", "/cart"), ("order", "/echo")] {
        assert!(seen["by_path"][path].as_u64() > Some(0), "{step}");
        assert_eq!(summary["steps"][step]["requests"]["sent"], seen["by_path"][path], "{step}");
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
fn the_page_for_users_of_other_tools_is_current() {
    let made = Room::new().volley(["schema", "--coming-from"]).expect(0).out;
    let kept = read(&repository().join("docs/coming-from.md"));
    assert!(made == kept, "stale: run `{VOLLEY} schema --coming-from > docs/coming-from.md`");
}

/// The only table below a heading of a page.
fn table_below(page: &str, heading: &str) -> String {
    let text = read(&repository().join(page));
    let mut lines = text.lines().skip_while(|line| *line != heading).skip(1).peekable();
    assert!(lines.peek().is_some(), "{page} has no `{heading}`");
    let section = lines.take_while(|line| !line.starts_with('#'));
    section.filter(|line| line.starts_with('|')).map(|line| format!("{line}\n")).collect()
}

/// `report::ExitCode` is the only list of codes; the tables are copies of what it says.
#[test]
fn the_tables_of_exit_codes_are_current() {
    use report::ExitCode;
    for (page, heading, made) in [
        ("README.md", "### Exit codes", ExitCode::table()),
        ("docs/scripts.md", "## Exit codes", ExitCode::script_table()),
    ] {
        let kept = table_below(page, heading);
        assert!(made == kept, "{page} is stale; below `{heading}` has to be:\n\n{made}");
    }
}

/// docs/fleet.md says of each code of a node whether it is started again.
#[test]
fn the_codes_of_nodes_are_told_in_the_page_on_fleets() {
    use report::ExitCode;
    let page = read(&repository().join("docs/fleet.md"));
    for code in [ExitCode::NodeRefused, ExitCode::DiskRefused] {
        assert!(page.contains(&format!("| {code} |")), "{code} is missing");
    }
    let stays_down = "RestartPreventExitStatus=2 104 105 111 112";
    assert!(page.contains(stays_down), "as `is_final` of restart.rs has it");
}

/// All sources of a folder, string literals that go over several lines joined.
fn sources(folder: &Path, out: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            sources(&entry, out);
        } else if entry.extension().is_some_and(|end| end == "rs") {
            let text = read(&entry);
            let mut parts = text.split("\\\n");
            out.push_str(parts.next().unwrap());
            parts.for_each(|part| out.push_str(part.trim_start()));
        }
    }
}

/// Headlines and reasons are quoted with `...` for what differs; what stands between is in the
/// sources.
#[test]
fn every_headline_that_the_page_on_failed_tests_quotes_is_one_that_is_printed() {
    let page = read(&repository().join("docs/why-did-my-test-fail.md"));
    let mut code = String::new();
    for folder in ["report", "stats", "volley", "fleet"] {
        sources(&repository().join("crates").join(folder).join("src"), &mut code);
    }
    let quotes = page.lines().filter(|line| line.starts_with("### `") || line.starts_with("- `"));
    let mut headlines = 0;
    for line in quotes {
        let (quoted, _) = line.rsplit_once('`').unwrap();
        let said: Vec<&str> = match line.starts_with("###") {
            true => vec![quoted.strip_prefix("### `").unwrap()],
            // Reasons come before the colon that begins their explanation.
            false => {
                let reasons = line.split("`: ").next().unwrap();
                reasons.split('`').skip(1).step_by(2).collect()
            }
        };
        for said in said {
            headlines += 1;
            for part in said.split("...").filter(|part| !part.trim().is_empty()) {
                assert!(code.contains(part), "`{part}` of `{said}` is printed nowhere");
            }
        }
    }
    assert!(headlines >= 25, "only {headlines} found");
    for exit_code in [99, 100, 101, 102, 103, 105, 107, 108, 110, 120, 121, 122] {
        assert!(page.contains(&exit_code.to_string()), "{exit_code} is not told");
    }
}

/// The page on fleets says how much of a disk a manager takes.
#[test]
fn the_disk_use_of_a_manager_is_told_as_it_is() {
    let page = read(&repository().join("docs/fleet.md"));
    let source = read(&repository().join("crates/wal/src/options.rs"));
    for size in ["segment_bytes: 64 << 20", "reserve_bytes: 64 << 20", "low_water_bytes: 128 << 20"]
    {
        assert!(source.contains(size), "{size} has changed; so must docs/fleet.md");
    }
    assert!(page.contains("takes 128 MiB (134 MB) for its ledger at once"));
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
