//! The `volley` command: reads arguments, calls the rooms below, prints what they say.

mod cli;
mod commands;
mod exit;
mod log;
mod print;
mod signals;

use clap::{CommandFactory, Parser};

fn main() {
    if let Some(problem) = misspelt_command(std::env::args().nth(1).as_deref()) {
        eprintln!("volley: {problem}");
        std::process::exit(exit::USAGE);
    }
    let cli = cli::Cli::parse();
    let code = match cli.command {
        Some(command) => commands::dispatch(command),
        None => commands::quick::quick(&cli.quick),
    };
    std::process::exit(code);
}

/// A word that is almost a command would otherwise be taken for a host to shoot at.
fn misspelt_command(first: Option<&str>) -> Option<String> {
    let word = first.filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()))?;
    let cli = cli::Cli::command();
    let names = || cli.get_subcommands().map(clap::Command::get_name).chain(["help"]);
    if names().any(|name| name == word) {
        return None;
    }
    let distance = |name: &&str| strsim::damerau_levenshtein(word, name);
    let near = |name: &&str| distance(name) <= 1 && word.len() > 2;
    let nearest = names().min_by_key(distance).filter(near)?;
    Some(format!(
        "no command `{word}`; did you mean `volley {nearest}`? (a host: `http://{word}/`)"
    ))
}
