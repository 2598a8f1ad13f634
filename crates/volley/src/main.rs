//! The `volley` command: reads arguments, calls the rooms below, prints what they say.

mod cli;
mod cluster;
mod commands;
mod config;
mod failure;
mod habits;
mod k6_web;
mod log;
mod print;
mod restart;
mod signals;

use crate::failure::Failure;
use clap::{CommandFactory, FromArgMatches};

fn main() {
    // A shell that completes a line calls this very program; it answers and ends here.
    clap_complete::CompleteEnv::with_factory(cli::Cli::command).complete();
    let first = std::env::args().nth(1);
    let first = first.as_deref();
    if let Some(problem) = first.and_then(habits::moved).or_else(|| misspelt_command(first)) {
        std::process::exit(Failure::usage(problem).tell().number());
    }
    let given: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with("VOLLEY_"))
        .collect();
    let config = read_config();
    warn_of_variables();
    let command = cli::Cli::command();
    let args = k6_web::arguments(std::env::args_os());
    let parsed = command.try_get_matches_from(args).and_then(|matches| {
        let cli = cli::Cli::from_arg_matches(&matches)?;
        Ok((cli, matches))
    });
    let (cli, matches) = parsed.unwrap_or_else(|error| refuse(&error, &config));
    say_what_changes_a_plan(&matches, &config);
    say_what_has_no_effect(&given);
    let code = match cli.command {
        Some(cli::Command::Settings(args)) => commands::settings::settings(&args, &config),
        Some(command) => commands::dispatch(command),
        None => commands::quick::quick(&cli.quick),
    };
    std::process::exit(print::judged(code).number());
}

/// Commands that make load or show what would: what is set for `volley run` and not for them would
/// be missed.
const LOAD_COMMANDS: [&str; 5] = ["volley", "demo", "plan", "ping", "submit"];

/// Variables of `volley run` that this command does not read.
fn say_what_has_no_effect(given: &[String]) {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let command = cli::Cli::command();
    let called = config::called(&args, &command);
    if !LOAD_COMMANDS.contains(&called.get_name()) {
        return;
    }
    let Some(run) = command.find_subcommand("run") else { return };
    for arg in run.get_arguments() {
        let Some(variable) = arg.get_env().and_then(|name| name.to_str()) else { continue };
        let read = |own: &clap::Arg| own.get_env().and_then(|name| name.to_str()) == Some(variable);
        if !given.iter().any(|name| name == variable) || called.get_arguments().any(read) {
            continue;
        }
        let own = called.get_arguments().find(|own| own.get_long() == arg.get_long());
        let instead = match own.and_then(clap::Arg::get_long) {
            Some(long) => format!("here it is `--{long}`"),
            None => "this command has no such setting".to_owned(),
        };
        eprintln!("volley: {variable} has no effect here: it is for `volley run`; {instead}");
    }
}

/// Makes the values of `volley.toml` those of the variables that are not set. A file that is wrong
/// is an error for every command: what it was meant to say is not known.
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
        Err(error) => std::process::exit(Failure::invalid(error).tell().number()),
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

/// A variable that is written wrong would be no setting at all, and nobody would notice.
fn warn_of_variables() {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for (name, near) in config::misspelt_variables(&cli::Cli::command(), names) {
        eprintln!("volley: there is no setting {name}; did you mean {near}?");
    }
}

/// Flags that take the place of what a plan or a script says.
const OVERRIDES: [&str; 6] = ["vus", "duration", "rate", "iterations", "stages", "target"];

/// A forgotten variable or file changes the load of every plan: whoever reads the result is told.
fn say_what_changes_a_plan(matches: &clap::ArgMatches, config: &config::Config) {
    let Some((name @ ("run" | "plan"), run)) = matches.subcommand() else { return };
    let command = cli::Cli::command();
    let Some(known) = command.find_subcommand(name) else { return };
    for arg in known.get_arguments().filter(|arg| OVERRIDES.contains(&arg.get_id().as_str())) {
        let source = run.value_source(arg.get_id().as_str());
        let Some(variable) = arg.get_env().and_then(|name| name.to_str()) else { continue };
        if source == Some(clap::parser::ValueSource::EnvVariable) {
            let value = std::env::var(variable).unwrap_or_default();
            let flag = arg.get_long().unwrap_or_default();
            eprintln!("volley: --{flag} {value} {}", whence(variable, config));
        }
    }
}

/// Where the value of a variable comes from.
fn whence(variable: &str, config: &config::Config) -> String {
    let from_file = |entry: &&config::Entry| !entry.overridden && entry.variable == variable;
    match (config.entries.iter().find(from_file), &config.path) {
        (Some(entry), Some(path)) => {
            format!("comes from {}:{} (`{}`)", path.display(), entry.line, entry.key)
        }
        _ => format!("comes from the variable {variable}"),
    }
}

/// Says what is wrong with the arguments, and where a file or a variable is to blame, which.
fn refuse(error: &clap::Error, config: &config::Config) -> ! {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let command = cli::Cli::command();
    let called = config::called(&args, &command);
    let answers = habits::answers(error, &args, called);
    match answers.is_empty() {
        true => drop(error.print()),
        // What clap advises would only stand in the way of the better word.
        false => tell_answers(error, &answers),
    }
    if let Some(variable) = blamed_variable(error, called, &args) {
        eprintln!("\nThe value {}.", whence(variable, config));
    }
    std::process::exit(error.exit_code());
}

fn tell_answers(error: &clap::Error, answers: &[String]) {
    let rendered = error.render().to_string();
    let what = rendered.lines().next().unwrap_or_default();
    // Of a word that is no command clap says only what came of taking it for a host, and of what is
    // missing only that it is.
    let is_word = answers.first().is_some_and(|first| first.starts_with("no command"));
    let (what, help) = match (error.kind(), answers) {
        (_, [first, rest @ ..]) if is_word => (first.as_str(), rest),
        (
            clap::error::ErrorKind::ArgumentConflict
            | clap::error::ErrorKind::InvalidSubcommand
            | clap::error::ErrorKind::MissingRequiredArgument,
            [first, rest @ ..],
        ) => (first.as_str(), rest),
        _ => (what.trim_start_matches("error: "), answers),
    };
    eprintln!("volley: {what}");
    help.iter().for_each(|answer| eprintln!("  help: {answer}"));
}

/// The variable whose value was refused: the flag itself was not given.
fn blamed_variable<'a>(
    error: &clap::Error,
    command: &'a clap::Command,
    args: &[String],
) -> Option<&'a str> {
    use clap::error::{ContextKind, ContextValue};
    let ContextValue::String(arg) = error.get(ContextKind::InvalidArg)? else { return None };
    let flag = arg.split_whitespace().next().unwrap_or_default();
    let name = flag.strip_prefix("--")?;
    let known = command.get_arguments().find(|known| known.get_long() == Some(name))?;
    let short = known.get_short().map(|letter| format!("-{letter}"));
    let given = |arg: &String| {
        arg.split('=').next() == Some(flag)
            || short.as_ref().is_some_and(|short| arg.starts_with(short.as_str()))
    };
    let variable = known.get_env()?.to_str()?;
    (!args.iter().any(given) && std::env::var_os(variable).is_some()).then_some(variable)
}

/// A word that is almost a command would otherwise be taken for a host to shoot at.
fn misspelt_command(first: Option<&str>) -> Option<String> {
    let word = first.filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()))?;
    let cli = cli::Cli::command();
    let names = || cli.get_subcommands().map(clap::Command::get_name).chain(["help"]);
    if names().any(|name| name == word) || habits::command(word).is_some() {
        return None;
    }
    let distance = |name: &&str| strsim::damerau_levenshtein(word, name);
    let near = |name: &&str| distance(name) <= 1 && word.len() > 2;
    let nearest = names().min_by_key(distance).filter(near)?;
    Some(format!(
        "no command `{word}`; did you mean `volley {nearest}`? (a host: `http://{word}/`)"
    ))
}
