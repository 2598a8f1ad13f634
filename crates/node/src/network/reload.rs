//! New certificates without a restart: when their files change, or when the process is told by
//! SIGHUP.
//!
//! Files that are half written, expired or somebody else's are refused with the reason, and the old
//! credentials stay in use. They are looked at again, so a rotation that writes three files one
//! after the other comes right by itself.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use trust::{CredentialsError, SwapError};

use super::Network;
use crate::config::CredentialFiles;

/// What tells one version of the files from the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint([(SystemTime, u64); 3]);

impl Fingerprint {
    pub(super) fn of(files: &CredentialFiles) -> Result<Self, ReloadError> {
        let look = |path: &PathBuf| {
            let found = std::fs::metadata(path).and_then(|m| Ok((m.modified()?, m.len())));
            found.map_err(|error| ReloadError::Read { path: path.clone(), error })
        };
        Ok(Self([look(&files.certificate)?, look(&files.key)?, look(&files.ca)?]))
    }
}

/// Why the old credentials stay in use.
#[derive(Debug)]
pub enum ReloadError {
    Read { path: PathBuf, error: io::Error },
    Credentials(CredentialsError),
    Swap(Box<SwapError>),
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Credentials(error) => error.fmt(f),
            Self::Swap(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReloadError {}

/// How rotations went.
#[derive(Debug, Default)]
pub struct Reloads {
    pub done: AtomicU64,
    pub failed: AtomicU64,
}

/// Looks at the files every so often, and at once after a SIGHUP, until `stop` says so.
pub async fn watch(
    network: Arc<dyn Network>,
    every: Duration,
    reloads: Arc<Reloads>,
    mut stop: watch::Receiver<bool>,
) {
    use tokio::signal::unix::{SignalKind, signal};
    let mut hangup = signal(SignalKind::hangup()).ok();
    let mut last_error = String::new();
    loop {
        let told = async {
            match &mut hangup {
                Some(signal) => {
                    signal.recv().await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = told => {}
            () = tokio::time::sleep(every) => {}
        }
        let looked = Arc::clone(&network);
        let outcome = tokio::task::spawn_blocking(move || looked.reload()).await;
        match outcome {
            Ok(Ok(false)) | Err(_) => {}
            Ok(Ok(true)) => {
                last_error.clear();
                reloads.done.fetch_add(1, Ordering::Relaxed);
                tracing::info!("new certificates are in use");
            }
            Ok(Err(error)) => {
                reloads.failed.fetch_add(1, Ordering::Relaxed);
                // The same reason every ten seconds would drown the others.
                let text = error.to_string();
                if text != last_error {
                    tracing::warn!(%error, "the new certificates cannot be used; the old ones stay");
                    last_error = text;
                }
            }
        }
    }
}
