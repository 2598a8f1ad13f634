//! Outbox: a worker's last words, kept until they are durable on the managers' side (R17a).
//!
//! ```text
//! attempt ends ──▶ put ──Store──▶ fsynced file ──▶ told, and told again ──▶ Forget ──Remove──▶ gone
//!                   ▲                  │ restart
//!                   ╰───── recover ◀───╯ (what has no report gets one from its issued file)
//! ```
//!
//! A report is told without waiting for the disk: if the owner makes it durable first, the file is
//! not needed, and if the process dies in between, the issued file is still there and says what may
//! have been sent.
//!
//! The room is bounded in bytes. Each attempt that is let in reserves a floor that holds everything
//! but its totals, so status and counters always find room; totals that find none are left behind,
//! and counted.

use std::collections::BTreeMap;

use fence::{JobId, Moment};

use super::message::EndReport;
use super::worker::Run;

/// What a report takes beside its texts and bytes.
const REPORT_BASE: u64 = 512;

/// Where a report is on its way to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum File {
    /// Handed to the disk.
    Asked,
    Written,
    /// The disk refused; try again then.
    Again(Moment),
}

#[derive(Clone, Debug)]
struct Kept {
    report: EndReport,
    bytes: u64,
    file: File,
}

/// What had to be left out of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    Whole,
    WithoutTotals,
}

/// Reports by attempt.
#[derive(Clone, Debug)]
pub struct Outbox {
    bytes_max: u64,
    reports: BTreeMap<Run, Kept>,
    bytes: u64,
}

impl Outbox {
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, reports: BTreeMap::new(), bytes: 0 }
    }

    /// What a report takes here.
    #[must_use]
    pub fn size(report: &EndReport) -> u64 {
        let error = report.error.as_ref().map_or(0, String::len);
        let provided: usize =
            report.provided.iter().map(|(key, value)| key.len() + value.len()).sum();
        REPORT_BASE + (error + provided + report.totals.len()) as u64
    }

    /// Keeps a report. `reserved` bytes belong to attempts that still run.
    pub fn put(&mut self, mut report: EndReport, reserved: u64) -> Put {
        let room = self.bytes_max.saturating_sub(self.bytes).saturating_sub(reserved);
        let mut put = Put::Whole;
        if Self::size(&report) > room && !report.totals.is_empty() {
            report.totals = Vec::new();
            put = Put::WithoutTotals;
        }
        self.insert(report, File::Asked);
        put
    }

    /// A report that lies on the disk already.
    pub fn restore(&mut self, report: EndReport) {
        self.insert(report, File::Written);
    }

    fn insert(&mut self, report: EndReport, file: File) {
        let run = Run::new(report.shard, report.attempt);
        let bytes = Self::size(&report);
        self.remove(run);
        self.bytes += bytes;
        self.reports.insert(run, Kept { report, bytes, file });
    }

    /// Whether so many attempts more than now may be let in, each with its floor.
    #[must_use]
    pub fn has_room(&self, attempts: u64, floor: u64) -> bool {
        self.bytes.saturating_add(attempts.saturating_mul(floor)) <= self.bytes_max
    }

    #[must_use]
    pub fn get(&self, run: Run) -> Option<&EndReport> {
        self.reports.get(&run).map(|kept| &kept.report)
    }

    /// False if there was none.
    pub fn remove(&mut self, run: Run) -> bool {
        let Some(kept) = self.reports.remove(&run) else { return false };
        self.bytes -= kept.bytes;
        true
    }

    /// What became of a write. The next try is at `again` if it failed.
    pub fn stored(&mut self, run: Run, written: bool, again: Moment) {
        if let Some(kept) = self.reports.get_mut(&run) {
            kept.file = if written { File::Written } else { File::Again(again) };
        }
    }

    /// Reports whose next write is due; they count as handed to the disk.
    pub fn writes_due(&mut self, now: Moment) -> Vec<EndReport> {
        let due = self
            .reports
            .values_mut()
            .filter(|kept| matches!(kept.file, File::Again(at) if at <= now));
        due.map(|kept| {
            kept.file = File::Asked;
            kept.report.clone()
        })
        .collect()
    }

    pub fn runs(&self) -> impl Iterator<Item = Run> {
        self.reports.keys().copied()
    }

    #[must_use]
    pub fn of_job(&self, job: JobId) -> bool {
        self.reports.keys().any(|run| run.shard.job == job)
    }

    #[must_use]
    pub fn next_due(&self) -> Option<Moment> {
        let again = self.reports.values().filter_map(|kept| match kept.file {
            File::Again(at) => Some(at),
            File::Asked | File::Written => None,
        });
        again.min()
    }

    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.reports.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.reports.is_empty()
    }
}
