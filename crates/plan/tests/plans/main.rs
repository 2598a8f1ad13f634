//! Plans from the outside: text in, a plan or its problems out.

mod decoding;
mod examples;
mod foreign;
mod formats;
mod graphs;
mod hostile;
mod loads;
mod mistakes;
mod references;
mod slips;
mod trial;
mod trial_three;
mod trial_two;

use std::path::Path;

use plan::{Format, Plan, Problems, ReadOptions, read_str};

/// The folder of the examples: `users.csv` is there.
fn examples() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn env(name: &str) -> Option<String> {
    match name {
        "VUS" => Some("7".into()),
        "QUOTE" => Some("a \"b\"".into()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

fn try_read(text: &str, format: Format) -> Result<Plan, Problems> {
    read_str(text, format, &examples(), &ReadOptions::new(&env))
}

fn read(yaml: &str) -> Plan {
    try_read(yaml, Format::Yaml).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A plan with these steps in one workflow; the first is in line 6, column 5.
fn with_steps(steps: &str) -> String {
    let steps = steps.replace('\n', "\n    ");
    format!(
        "target: http://localhost\ndata: {{ users: users.csv }}\nworkflows:\n- name: main\n  \
         steps:\n    {steps}\n"
    )
}

/// Problems as lines: `6:5 message [path] help`.
fn problems(yaml: &str) -> Vec<String> {
    match try_read(yaml, Format::Yaml) {
        Ok(_) => Vec::new(),
        Err(Problems(problems)) => problems
            .into_iter()
            .map(|one| {
                let help = one.help.map(|help| format!(" / {help}")).unwrap_or_default();
                format!("{}:{} {} [{}]{help}", one.line, one.column, one.message, one.path)
            })
            .collect(),
    }
}

/// Exactly these problems, each found by how it begins.
fn check(yaml: &str, expect: &[&str]) {
    let found = problems(yaml);
    let fits = found.len() == expect.len()
        && found.iter().zip(expect).all(|(found, expect)| found.starts_with(expect));
    assert!(
        fits,
        "\n{yaml}\nfound:\n  {}\nexpected:\n  {}",
        found.join("\n  "),
        expect.join("\n  ")
    );
}
