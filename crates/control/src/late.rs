//! The word of a worker that comes back when its job has ended.
//!
//! ```text
//! report ──judge──▶ Wanted   ──store, EndAttempt──▶ an addendum in the ledger ──Forget──▶ the worker's outbox
//!             ├───▶ Known    the ledger has its word: it may let go of it
//!             ╰───▶ Nobodys  no attempt of this life of it: nothing is kept
//! ```
//!
//! Any manager may take it: the word is not fenced (R3), and is told apart by (job, workflow,
//! shard, attempt). It has no part in what came of the job, which is final (R5).

use super::message::EndReport;
use super::owner::encode_report;
use ledger_state::{BlobRef, Command, Job, ReportedBy};

/// What is to be done with a report of a job that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// Nobody has heard this worker's own word on the attempt.
    Wanted,
    /// The ledger has it.
    Known,
    /// The attempt is not one of this worker's life.
    Nobodys,
}

#[must_use]
pub fn judge(job: &Job, report: &EndReport) -> Late {
    let shard = job.shard(&report.shard).filter(|_| job.id() == report.shard.job);
    let record = shard.and_then(|shard| shard.attempt(report.attempt));
    match record {
        None => Late::Nobodys,
        Some(record) if (record.worker, record.boot) != (report.worker, report.boot) => {
            Late::Nobodys
        }
        Some(record) if record.end.is_none() || record.is_unheard() => Late::Wanted,
        Some(_) => Late::Known,
    }
}

/// A report as it lies beside the ledger. One that is too large goes without its statistics, which
/// nobody can add to a result that is made.
#[must_use]
pub fn content(report: &EndReport, bytes_max: u64) -> Vec<u8> {
    let content = encode_report(report);
    if content.len() as u64 <= bytes_max {
        return content;
    }
    encode_report(&EndReport { totals: Vec::new(), ..report.clone() })
}

/// The entry for a report whose content is stored.
#[must_use]
pub fn command(report: &EndReport, result: BlobRef) -> Command {
    let EndReport { shard, attempt, status, counters, certain, .. } = *report;
    Command::EndAttempt {
        shard,
        under: None,
        attempt,
        status,
        counters,
        result: Some(result),
        sent_until_ms: None,
        word: ReportedBy::of_worker(certain),
    }
}
