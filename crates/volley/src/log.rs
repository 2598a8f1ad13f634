//! The log of commands that serve, on standard error.

use tracing_subscriber::EnvFilter;

/// `VOLLEY_LOG` says how much: error, warn, info, debug, or `ledger=debug`; without it, `default` does.
pub fn to_stderr(default: &str) {
    let filter = EnvFilter::try_from_env("VOLLEY_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let _ =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
}
