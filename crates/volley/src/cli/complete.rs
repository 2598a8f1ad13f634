//! Completions that only a cluster knows: ids of its jobs and nodes. A shell waits for them, so they are asked for
//! once, with little patience, and a cluster that does not answer completes nothing.

use std::ffi::OsStr;

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
