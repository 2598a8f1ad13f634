//! The first step of a life: what the lives before have left on the disk.

use std::collections::BTreeSet;

use fence::Moment;

use super::{BadSettings, Effect, IssuedFile, ReportBody, ReportKey, Run, Settings, Worker};
use crate::message::EndReport;
use ledger_state::AttemptStatus;

impl Worker {
    /// A worker that has just started, with the reports that lie on its disk, and the issued files
    /// of attempts that have no report: their process died under them. Each gets one now, with what
    /// its file says: `issued` counts every request before it is sent, so completed <= seen by the
    /// target <= issued can be stated after a `kill -9` (R17).
    ///
    /// Nothing runs in a new life, so nothing here needs a lease; commands for the lives before are
    /// refused.
    ///
    /// # Errors
    /// If the settings cannot work.
    pub fn recover(
        settings: Settings,
        stored: Vec<EndReport>,
        issued: Vec<IssuedFile>,
        now: Moment,
    ) -> Result<(Self, Vec<Effect>), BadSettings> {
        settings.check()?;
        let mut worker = Self::empty(settings);
        (worker.now, worker.swept) = (now, now);
        let mut out = Vec::new();
        let mut reported = BTreeSet::new();
        for report in stored {
            let run = Run::new(report.shard, report.attempt);
            reported.insert(run);
            worker.job(run.shard.job);
            worker.outbox.restore(report);
            worker.report_queue.push(ReportKey::Ended(run), ReportBody::Report, now);
        }
        for file in issued {
            let IssuedFile { run, boot, counters, certain } = file;
            if !reported.insert(run) {
                continue;
            }
            worker.counts.reports_recovered += 1;
            worker.job(run.shard.job);
            let report = EndReport {
                shard: run.shard,
                attempt: run.attempt,
                worker: worker.settings.node,
                boot,
                status: AttemptStatus::Interrupted,
                error: Some(format!("the worker's process ended under it, in its start {boot}")),
                counters,
                provided: std::collections::BTreeMap::new(),
                frames: 0,
                totals: Vec::new(),
                log: String::new(),
                certain,
                sent_until: None,
            };
            worker.keep(report, &mut out);
        }
        Ok((worker, out))
    }
}
