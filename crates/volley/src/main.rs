//! The `volley` command: reads arguments, calls the rooms below, prints what they say.

mod cli;
mod commands;
mod exit;
mod signals;

use clap::Parser;

fn main() {
    let cli = cli::Cli::parse();
    let code = match cli.command {
        Some(command) => commands::dispatch(command),
        None => commands::quick::quick(&cli.quick),
    };
    std::process::exit(code);
}
