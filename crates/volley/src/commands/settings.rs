//! `volley settings`: what is set, and by whom.

use clap::CommandFactory;
use report::ExitCode;

use crate::cli::{Cli, SettingsArgs};
use crate::config::{self, Config, Entry};
use crate::print;

pub fn settings(args: &SettingsArgs, config: &Config) -> ExitCode {
    if args.keys {
        keys(args.json);
    } else {
        in_force(args.json, config);
    }
    ExitCode::Passed
}

fn keys(json: bool) {
    let keys = config::keys(&Cli::command());
    if json {
        let all: Vec<_> = keys
            .iter()
            .map(|(key, variable)| serde_json::json!({ "key": key, "variable": variable }))
            .collect();
        return print::line(&serde_json::Value::from(all).to_string());
    }
    let width = keys.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    for (key, variable) in keys {
        print::line(&format!("{key:<width$}  {variable}"));
    }
}

/// A token is a secret, wherever it stands.
fn shown(entry: &Entry) -> &str {
    if entry.variable == "VOLLEY_JOIN_TOKEN" { "(not shown)" } else { &entry.value }
}

fn in_force(json: bool, config: &Config) {
    if json {
        let entries: Vec<_> = config
            .entries
            .iter()
            .map(|entry| {
                serde_json::json!({
                    "key": entry.key, "variable": entry.variable, "value": shown(entry),
                    "line": entry.line, "overridden": entry.overridden,
                })
            })
            .collect();
        let path = config.path.as_ref().map(|path| path.display().to_string());
        return print::line(&serde_json::json!({ "file": path, "entries": entries }).to_string());
    }
    match &config.path {
        None => print::line(
            "no volley.toml here, in ~/.config/volley or in /etc/volley; defaults are in force",
        ),
        Some(path) => print::line(&format!("{}", path.display())),
    }
    for entry in &config.entries {
        let note = match entry.overridden {
            true => format!("   (not in force: {} is set)", entry.variable),
            false => String::new(),
        };
        print::line(&format!("  {} = {}   line {}{note}", entry.key, shown(entry), entry.line));
    }
}
