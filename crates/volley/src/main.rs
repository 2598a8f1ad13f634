//! The `volley` command: reads arguments, calls the rooms below, prints what they say.

mod cli;
mod cluster;
mod commands;
mod config;
mod exit;
mod habits;
mod log;
mod print;
mod restart;
mod signals;

use clap::{CommandFactory, Parser};

fn main() {
    // A shell that completes a line calls this very program; it answers and ends here.
    clap_complete::CompleteEnv::with_factory(cli::Cli::command).complete();
    if let Some(problem) = misspelt_command(std::env::args().nth(1).as_deref()) {
        eprintln!("volley: {problem}");
        std::process::exit(exit::USAGE);
    }
    let config = read_config();
    let cli = cli::Cli::try_parse().unwrap_or_else(|error| refuse(&error, &config));
    let code = match cli.command {
        Some(cli::Command::Settings(args)) => commands::settings::settings(&args, &config),
        Some(command) => commands::dispatch(command),
        None => commands::quick::quick(&cli.quick),
    };
    std::process::exit(code);
}

/// Makes the values of `volley.toml` those of the variables that are not set. A file that is wrong is an error for
/// every command: what it was meant to say is not known.
fn read_config() -> config::Config {
    let env = |name: &str| std::env::var(name).ok();
    let Some(path) = config::find(named_settings(std::env::args()), env) else {
        return config::Config::default();
    };
    let command = cli::Cli::command();
    match config::read(&path, &command, env) {
        Ok(config) => {
            config::apply(&config, &config::invoked(std::env::args(), &command));
            config
        }
        Err(error) => {
            eprintln!("volley: {error}");
            std::process::exit(exit::INVALID);
        }
    }
}

/// `--settings FILE`, found before the arguments are parsed, because it decides how they are.
fn named_settings(args: impl Iterator<Item = String>) -> Option<std::path::PathBuf> {
    let mut args = args.take_while(|arg| arg != "--");
    while let Some(arg) = args.next() {
        match arg.strip_prefix("--settings") {
            Some("") => return args.next().map(Into::into),
            Some(rest) => {
                if let Some(path) = rest.strip_prefix('=') {
                    return Some(path.into());
                }
            }
            None => {}
        }
    }
    None
}

/// Says what is wrong with the arguments, and where the file is to blame, where in it.
fn refuse(error: &clap::Error, config: &config::Config) -> ! {
    use clap::error::{ContextKind, ContextValue};
    let arg = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(arg)) => arg.split_whitespace().next().unwrap_or_default(),
        _ => "",
    };
    let name = arg.trim_start_matches("--");
    let from_file = |entry: &&config::Entry| {
        !entry.overridden && entry.key.rsplit('.').next() == Some(name) && !name.is_empty()
    };
    let blamed = config.entries.iter().find(from_file);
    let _ = error.print();
    if let Some(answer) = habits::answer(error, std::env::args().skip(1)) {
        eprintln!("\n{answer}");
    }
    if let (Some(entry), Some(path)) = (blamed, &config.path) {
        eprintln!("\nThe value comes from {}:{} (`{}`).", path.display(), entry.line, entry.key);
    }
    std::process::exit(error.exit_code());
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
