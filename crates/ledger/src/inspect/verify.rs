//! Walking over everything in a data folder and saying what is wrong with it. Changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ledger_state::BlobRef;
use wal::{Disk, Reader, TornTail};

use super::InspectError;
use crate::blobs::{self, BlobError};
use crate::store::live_log::LiveLog;
use crate::store::record::{Content, Record, Stored};
use crate::store::{
    Identity, IdentityFile, Instant, Position, SnapshotHeader, open, open_snapshot, snapshot,
};

/// What a data folder was found to be.
#[derive(Debug)]
pub struct Report {
    pub identity: Identity,
    pub log: LogReport,
    pub snapshots: Vec<SnapshotReport>,
    pub blobs: BlobReport,
    /// What keeps a node from starting with this folder, or costs it data. Empty: all is well.
    pub problems: Vec<String>,
}

#[derive(Debug, Default)]
pub struct LogReport {
    pub records: u64,
    pub first_lsn: u64,
    pub last_lsn: u64,
    pub segments: u64,
    /// Records by kind: entry, truncate, base, vote, committed, unknown.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Commands in the entries.
    pub commands: u64,
    /// What the next start would cut off. A crash leaves that, and so does looking while a node
    /// writes.
    pub torn: Option<TornTail>,
    pub last_entry: Option<Position>,
    pub purged: Option<Position>,
    pub committed: Option<Position>,
}

#[derive(Debug)]
pub struct SnapshotReport {
    pub path: PathBuf,
    pub index: u64,
    /// Checksum, header and the state in it.
    pub found: Result<SnapshotHeader, String>,
    pub jobs: usize,
}

#[derive(Debug, Default)]
pub struct BlobReport {
    pub blobs: u64,
    pub bytes: u64,
    pub damaged: Vec<BlobRef>,
    /// Named by the newest snapshot, and not there. Another member may have them.
    pub missing: Vec<BlobRef>,
    /// Not named by the newest snapshot: collected some day, or of entries behind it.
    pub unnamed: u64,
}

impl Report {
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Verifies a data folder.
pub fn verify(disk: &Arc<dyn Disk>, folder: &Path) -> Result<Report, InspectError> {
    let identity = match IdentityFile::load(disk.as_ref(), folder) {
        Ok(Some(file)) => file.identity,
        Ok(None) => return Err(InspectError::NotADataFolder { folder: folder.into() }),
        Err(error) => return Err(InspectError::Identity(error)),
    };
    let mut problems = Vec::new();
    let (log, live) = walk_log(disk, folder, identity, &mut problems);
    let (snapshots, newest) = walk_snapshots(disk.as_ref(), folder, identity, &mut problems)?;
    if let Some(mut live) = live
        && let Err(hole) = live.settle(newest.as_ref().and_then(|newest| newest.last))
    {
        problems.push(format!(
            "the state can be had up to entry {}, and the log begins with entry {}: admit the node again",
            hole.expected, hole.found
        ));
    }
    let blobs = walk_blobs(disk.as_ref(), folder, newest.as_ref(), &mut problems)?;
    Ok(Report { identity, log, snapshots, blobs, problems })
}

/// Reads the log twice: once as a start would, for its end; once for what it says. The second time
/// only positions are kept, so a large log needs little memory.
fn walk_log(
    disk: &Arc<dyn Disk>,
    folder: &Path,
    identity: Identity,
    problems: &mut Vec<String>,
) -> (LogReport, Option<LiveLog>) {
    let mut report = LogReport::default();
    let folder = folder.join(open::WAL);
    let recovery = match wal::verify(disk.as_ref(), &folder) {
        Ok(recovery) => recovery,
        Err(error) => {
            problems.push(error.to_string());
            return (report, None);
        }
    };
    report.records = recovery.records;
    report.first_lsn = recovery.first_lsn;
    report.last_lsn = recovery.last_lsn;
    report.segments = recovery.segments;
    report.torn = recovery.torn;
    let reader = match Reader::open(disk.clone(), folder) {
        Ok(reader) => reader,
        Err(error) => {
            problems.push(error.to_string());
            return (report, None);
        }
    };
    let whose = reader.identity();
    if whose.node != identity.node || whose.log != identity.disk.0 {
        problems.push(format!(
            "the log belongs to node {} (disk {:016x}), the folder to node {} (disk {})",
            whose.node, whose.log, identity.node, identity.disk
        ));
    }
    let mut live = LiveLog::default();
    for record in reader.read(recovery.first_lsn..recovery.last_lsn + 1) {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                problems.push(error.to_string());
                return (report, None);
            }
        };
        let read = read_record(&record, &mut report);
        let replayed = read.and_then(|decoded| live.replay(decoded).map_err(|h| h.to_string()));
        if let Err(why) = replayed {
            problems.push(format!("record {}: {why}", record.lsn));
            return (report, None);
        }
    }
    report.last_entry = live.last();
    report.purged = live.purged();
    report.committed = live.committed();
    (report, Some(live))
}

/// Counts a record, and strips an entry of its content once that was decoded.
fn read_record(record: &wal::Record, report: &mut LogReport) -> Result<Record, String> {
    let decoded = Record::from_wal(record.kind, &record.payload);
    let kind = match &decoded {
        Ok(Record::Entry(_)) => "entry",
        Ok(Record::Truncate { .. }) => "truncate",
        Ok(Record::Base(_)) => "base",
        Ok(Record::Vote(_)) => "vote",
        Ok(Record::Committed(_)) => "committed",
        Err(_) => "unknown",
    };
    *report.kinds.entry(kind).or_default() += 1;
    let decoded = decoded.map_err(|error| error.to_string())?;
    let Record::Entry(stored) = decoded else { return Ok(decoded) };
    if let Content::Commands(batch) = stored.decode().map_err(|error| error.to_string())? {
        report.commands += batch.proposals.len() as u64;
    }
    Ok(Record::Entry(Stored { position: stored.position, content: Arc::new([]) }))
}

fn walk_snapshots(
    disk: &dyn Disk,
    folder: &Path,
    identity: Identity,
    problems: &mut Vec<String>,
) -> Result<(Vec<SnapshotReport>, Option<Instant>), InspectError> {
    let folder = folder.join(open::SNAPSHOTS);
    let indices = snapshot::indices(disk, &folder)
        .map_err(|error| InspectError::Io { path: folder.clone(), error })?;
    let mut reports = Vec::new();
    let mut newest = None;
    for index in indices {
        let path = folder.join(snapshot::file_name(index));
        let opened = snapshot::load(disk, &path, index, u64::MAX)
            .and_then(|(_, bytes)| open_snapshot(&bytes))
            .map_err(|error| error.to_string());
        let (found, jobs) = match opened {
            Ok((header, instant)) => {
                if let (Some(ours), Some(theirs)) = (identity.group, header.group)
                    && ours != theirs
                {
                    problems.push(format!(
                        "{} is of group {theirs}, the folder of {ours}",
                        path.display()
                    ));
                }
                let jobs = instant.state.jobs().len();
                newest = Some(instant);
                (Ok(header), jobs)
            }
            Err(why) => {
                problems.push(format!("{}: {why}", path.display()));
                (Err(why), 0)
            }
        };
        reports.push(SnapshotReport { path, index, found, jobs });
    }
    Ok((reports, newest))
}

fn walk_blobs(
    disk: &dyn Disk,
    folder: &Path,
    newest: Option<&Instant>,
    problems: &mut Vec<String>,
) -> Result<BlobReport, InspectError> {
    let root = folder.join(open::BLOBS);
    let found =
        blobs::list(disk, &root).map_err(|error| InspectError::Io { path: root.clone(), error })?;
    let named = newest.map(|newest| newest.state.blobs_in_use()).unwrap_or_default();
    let mut report = BlobReport { blobs: found.len() as u64, ..BlobReport::default() };
    for blob in &found {
        report.bytes += blob.bytes;
        report.unnamed += u64::from(!named.contains(blob));
        match blobs::load(disk, &root, blob) {
            Ok(_) => {}
            // Collected since it was listed.
            Err(BlobError::Missing(_)) => {}
            Err(error) => {
                problems.push(error.to_string());
                report.damaged.push(*blob);
            }
        }
    }
    let there: BTreeSet<BlobRef> = found.into_iter().collect();
    report.missing = named.difference(&there).copied().collect();
    Ok(report)
}
