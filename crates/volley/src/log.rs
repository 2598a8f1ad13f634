//! The log of commands that serve, on standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// `VOLLEY_LOG` says how much: error, warn, info, debug, or `ledger=debug`; without it, `default`
/// does.
pub fn to_stderr(default: &str) {
    let filter = EnvFilter::try_from_env("VOLLEY_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    // A log in a file is read by other tools than terminals.
    let color = dashboard::wants_color(false, std::io::stderr().is_terminal());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(color);
    let _ = log.with_writer(std::io::stderr).try_init();
}
