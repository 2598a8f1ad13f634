//! What the ledger answers and what workers tell, passed to where it belongs.

use fence::{BootId, NodeId};

use super::Owner;
use super::commits::Purpose;
use crate::message::WorkerReport;
use ledger_state::{Command, Refusal, Reply};

impl Owner {
    pub(super) fn committed(&mut self, tag: u64, reply: Reply) {
        let Some(purpose) = self.outgoing.committed(tag) else {
            self.journal.count_repeat();
            return;
        };
        self.saw(&reply);
        self.outgoing.changed();
        if let Reply::Refused(refusal) = &reply {
            match refusal {
                Refusal::StaleEpoch { .. }
                | Refusal::UnknownEpoch { .. }
                | Refusal::Released { .. }
                | Refusal::UnknownJob
                | Refusal::StaleBoot { .. }
                | Refusal::SessionClosed { .. }
                | Refusal::UnknownSession => return self.depose(refusal.to_string()),
                Refusal::Ended { outcome, .. } => return self.finished(*outcome),
                Refusal::Cancelled { .. } => self.cancel("cancelled"),
                _ => {}
            }
        }
        match purpose {
            Purpose::Provision => self.provisioned(&reply),
            Purpose::Start(sid) => self.attempt_started(sid, &reply),
            Purpose::Begin => self.load_begun(&reply),
            Purpose::Revoke(sid, attempt) => self.attempt_revoked(sid, attempt, &reply),
            Purpose::End(sid, attempt) => self.attempt_ended(sid, attempt, &reply),
            Purpose::Context(values) => self.context_committed(values, &reply),
            Purpose::Stop => self.stop_committed(),
            Purpose::Steer { asked, steer } => self.steer_committed(asked, &steer, &reply),
            Purpose::Rows { sid, attempt, set } => self.rows_granted(sid, attempt, set, &reply),
            Purpose::Units(due) => self.units_committed(&due, &reply),
            Purpose::Extend => {}
            Purpose::Result => self.result_recorded(),
            Purpose::Finish => match reply {
                Reply::Finished { outcome, .. } | Reply::Ended { outcome, .. } => {
                    self.finished(outcome);
                }
                other => self.note(format!("the outcome was not taken: {other:?}"), None),
            },
        }
    }

    pub(super) fn unknown(&mut self, tag: u64) {
        self.journal.count_unknown_commit();
        // To stop is safe whether the ledger knows it yet or not; everything else waits for the
        // answer.
        if self.outgoing.commits().purpose(tag) == Some(&Purpose::Stop) {
            self.stop_committed();
        }
    }

    pub(super) fn take_report(&mut self, report: WorkerReport) {
        match report {
            WorkerReport::Ready { shard, attempt } => self.ready(shard, attempt),
            WorkerReport::RowsWanted { shard, attempt, set, at_least } => {
                self.rows_wanted(shard, attempt, set, at_least);
            }
            WorkerReport::Abort { shard, attempt, reason } => self.abort(shard, attempt, reason),
            WorkerReport::Ended(report) => self.report(*report),
            WorkerReport::MoreTime { job, worker, boot, progress } if job == self.spec.id() => {
                self.more_time(worker, boot, progress);
            }
            WorkerReport::MoreTime { .. } => self.journal.count_late(),
            WorkerReport::Draining { worker, boot } => {
                if self.capacity.pool().is_live(worker, boot) {
                    self.capacity.set_draining(worker);
                    self.outgoing.changed();
                }
            }
        }
    }

    pub(super) fn more_time(&mut self, worker: NodeId, boot: BootId, progress: u64) {
        let suspect = !self.capacity.pool().is_live(worker, boot);
        match self.time.extend(worker, progress, suspect) {
            Ok(total) => {
                let total_ms = u64::try_from(total.as_millis()).unwrap_or(u64::MAX);
                let (job, epoch) = (self.spec.id(), self.spec.epoch());
                self.outgoing.commit(Purpose::Extend, Command::ExtendJob { job, epoch, total_ms });
                self.note(format!("extended by {:.1} s in all", total.as_secs_f64()), None);
            }
            Err((denied, true)) => {
                self.note(format!("worker {worker} gets no more time: {denied}"), None);
            }
            Err(_) => {}
        }
    }
}
