//! `volley completions` and `volley man`: arguments; and completions that only a cluster knows.
//!
//! Ids of jobs and nodes are asked for while a shell waits: once, with little patience. A cluster
//! that does not answer completes nothing.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::CompletionCandidate;

use crate::commands;

/// Jobs by the beginning of their id, with their plan and state beside it.
pub fn jobs(typed: &OsStr) -> Vec<CompletionCandidate> {
    candidates(typed, commands::known_jobs())
}

/// Nodes by the beginning of their id, with their role and address beside it.
pub fn nodes(typed: &OsStr) -> Vec<CompletionCandidate> {
    candidates(typed, commands::known_nodes())
}

fn candidates(typed: &OsStr, known: Vec<(String, String)>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let fitting = known.into_iter().filter(|(id, _)| id.starts_with(&*typed));
    fitting.map(|(id, what)| CompletionCandidate::new(id).help(Some(what.into()))).collect()
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  source <(volley completions bash)                                    in ~/.bashrc
  source <(volley completions zsh)                                     in ~/.zshrc
  volley completions fish > ~/.config/fish/completions/volley.fish")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
    Elvish,
    Powershell,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  volley man | man -l -                                    read it
  volley man --dir ~/.local/share/man/man1                 write volley.1, volley-run.1, ...")]
pub struct ManArgs {
    /// Write a page for each command into this folder; without it, the first page goes to standard
    /// output
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}
