//! What outlives the process: reports that nobody has acknowledged, and how much each attempt has
//! issued.
//!
//! ```text
//! DATA/outbox/JOB-WORKFLOW-SHARD-ATTEMPT   an end report, fsynced before anybody relies on it
//! DATA/issued/JOB-WORKFLOW-SHARD-ATTEMPT   counters in shared memory; they survive a kill of the process
//! ```
//!
//! A file that cannot be read is put aside under another name, with a warning, and never taken for
//! something else.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use control::codec;
use control::message::EndReport;
use control::worker::{Event, IssuedFile, Run};
use fence::{Attempt, BootId, ShardKey};
use ledger::store::files;
use ledger_state::Counters;
use node::Host;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::Inbox;
use crate::machine;

/// Above what the machine lets into a report.
const REPORT_BYTES_MAX: u64 = 32 << 20;
const DAMAGED: &str = ".damaged";

#[derive(Serialize, Deserialize)]
struct Identity {
    shard: ShardKey,
    attempt: Attempt,
    boot: BootId,
    /// Units of the schedule that attempts before have begun; the file counts them too.
    units_before: u64,
    /// Which start of the machine it was written in.
    machine_start: String,
}

/// The folders of one worker.
#[derive(Clone, Debug)]
pub(super) struct Folders {
    pub outbox: PathBuf,
    pub issued: PathBuf,
    pub blobs: PathBuf,
    pub scratch: PathBuf,
}

/// What the lives before have left.
#[derive(Default)]
pub(super) struct RecoveredFiles {
    pub reports: Vec<EndReport>,
    pub issued: Vec<IssuedFile>,
}

fn name(run: Run) -> String {
    let ShardKey { job, workflow, shard } = run.shard;
    format!("{job}-{}-{shard}-{}", workflow.0, run.attempt.0)
}

impl Folders {
    /// Makes what is missing, and reads what is there.
    pub fn open(data: &Path) -> Result<(Self, RecoveredFiles), (PathBuf, io::Error)> {
        let [outbox, issued, blobs, scratch] =
            ["outbox", "issued", "blobs", "scratch"].map(|name| data.join(name));
        let folders = Self { outbox, issued, blobs, scratch };
        // Nothing in it belongs to this life.
        match fs::remove_dir_all(&folders.scratch) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err((folders.scratch, error));
            }
            _ => {}
        }
        for folder in [&folders.outbox, &folders.issued, &folders.blobs, &folders.scratch] {
            crate::private_folder(folder).map_err(|error| (folder.clone(), error))?;
        }
        let mut left = RecoveredFiles::default();
        let machine_start = machine::start_id();
        each(&folders.outbox, |path| {
            let bytes = files::read_all(&wal::RealDisk, path, REPORT_BYTES_MAX)?;
            left.reports.push(codec::decode(&bytes).map_err(bad)?);
            Ok(())
        })?;
        each(&folders.issued, |path| {
            let (identity, counts) = engine::attempt::IssuedFile::read(path)?;
            let identity: Identity = postcard::from_bytes(&identity).map_err(bad)?;
            left.issued.push(IssuedFile {
                run: Run::new(identity.shard, identity.attempt),
                boot: identity.boot,
                counters: Counters {
                    issued: counts.issued,
                    begun: counts.taken.saturating_sub(identity.units_before),
                    ..Counters::default()
                },
                // What was stored in memory only is gone if the machine was restarted.
                certain: !machine_start.is_empty() && identity.machine_start == machine_start,
            });
            Ok(())
        })?;
        Ok((folders, left))
    }

    /// The counters of an attempt that is about to be made.
    pub fn make_issued(
        &self,
        run: Run,
        boot: BootId,
        units_before: u64,
    ) -> io::Result<engine::attempt::IssuedFile> {
        let (shard, attempt, machine_start) = (run.shard, run.attempt, machine::start_id());
        let identity = Identity { shard, attempt, boot, units_before, machine_start };
        let identity = postcard::to_allocvec(&identity).map_err(io::Error::other)?;
        let path = self.issued.join(name(run));
        let made = engine::attempt::IssuedFile::create(&path, &identity);
        if made.is_err() {
            // Half of one would be taken for a damaged one at the next start.
            let _ = fs::remove_file(&path);
        }
        made
    }

    fn store(&self, report: &EndReport) -> io::Result<()> {
        let bytes = codec::encode(report).map_err(io::Error::other)?;
        let run = Run::new(report.shard, report.attempt);
        files::replace(&wal::RealDisk, &self.outbox, &name(run), &bytes)
    }

    fn remove(&self, run: Run) {
        for folder in [&self.outbox, &self.issued] {
            let path = folder.join(name(run));
            if let Err(error) = fs::remove_file(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                // It is told once more after the next start, which nobody minds.
                tracing::warn!(path = %path.display(), %error, "cannot be removed");
            }
        }
    }
}

fn bad(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

fn each(
    folder: &Path,
    mut read: impl FnMut(&Path) -> io::Result<()>,
) -> Result<(), (PathBuf, io::Error)> {
    let at = |error| (folder.to_path_buf(), error);
    let paths = fs::read_dir(folder).map_err(at)?.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<io::Result<Vec<_>>>().map_err(at)?;
    // What a worker tells first must not depend on the file system's order.
    paths.sort();
    for path in paths {
        let text = path.to_string_lossy();
        if text.ends_with(files::UNFINISHED) {
            // It was never finished, so nobody was told that it is there.
            fs::remove_file(&path).map_err(|error| (path.clone(), error))?;
        } else if !text.ends_with(DAMAGED)
            && let Err(error) = read(&path)
        {
            let aside = PathBuf::from(format!("{text}{DAMAGED}"));
            tracing::warn!(path = %path.display(), %error, "cannot be read; put aside");
            fs::rename(&path, aside).map_err(|error| (path.clone(), error))?;
        }
    }
    Ok(())
}

/// What is to be done to files, in this order.
pub(super) enum Job {
    Store(Box<EndReport>),
    Remove(Run),
}

/// Does it, one after the other: a report must not be removed before it was written. The queue is
/// as long as the outbox may be.
pub(super) async fn keep(
    host: Host,
    folders: Folders,
    mut jobs: mpsc::UnboundedReceiver<Job>,
    inbox: Inbox,
) {
    while let Some(job) = jobs.recv().await {
        let folders = folders.clone();
        let done = host.blocking(move || match job {
            Job::Store(report) => {
                let run = Run::new(report.shard, report.attempt);
                let result = folders.store(&report).map_err(|error| error.to_string());
                if let Err(error) = &result {
                    tracing::error!(%run, %error, "the report cannot be stored");
                }
                Some(Event::Stored { run, result })
            }
            Job::Remove(run) => {
                folders.remove(run);
                None
            }
        });
        if let Ok(Some(event)) = done.await {
            inbox.event(event);
        }
    }
}
