//! Workers that come back when their attempt was given up: what they report is kept beside the
//! owner's end of it (R27).

use super::calls::Call;
use super::{Owner, Sid};
use crate::message::EndReport;
use ledger_state::ReportedBy;

impl Owner {
    /// A worker is back whose attempt was ended here meanwhile. Another has its share, which counts
    /// by that end; what the worker did beyond it is kept beside it, and says how many requests
    /// there really were (R27).
    pub(super) fn add_to_end(&mut self, sid: Sid, report: EndReport) {
        let attempt = report.attempt;
        let known = self.shards.attempt(&sid, attempt);
        let Some(one) = known.filter(|one| one.end.is_some()) else {
            // The end is on its way into the ledger. The worker says it again.
            self.journal.count_repeat();
            return;
        };
        if !one.by_owner {
            self.journal.count_repeat();
            return self.send(Call::Forget(report.shard, attempt, report.worker));
        }
        if self.reports.get(sid, attempt).is_some() {
            self.journal.count_repeat();
            return;
        }
        self.keep(sid, report);
    }

    /// The ledger has what a worker did beyond the end that was written for it.
    pub(super) fn addendum_committed(&mut self, sid: Sid, report: &EndReport) {
        let (key, attempt) = (report.shard, report.attempt);
        let Some(one) = self.shards.attempt_mut(&sid, attempt) else {
            return;
        };
        one.by_owner = false;
        one.issued_late = report.counters.beyond(&one.units.counters).issued;
        let (worker, more) = (one.worker, one.issued_late);
        if report.certain {
            self.reports.is_heard(key, attempt);
        }
        self.note(
            format!(
                "worker {worker} is back, and says what it did in attempt {attempt} of {key} after \
                 it was given up: {more} requests more"
            ),
            None,
        );
        self.send(Call::Forget(key, attempt, worker));
    }

    pub(super) fn word_of(&self, sid: Sid, report: &EndReport) -> ReportedBy {
        let one = self.shards.attempt(&sid, report.attempt);
        // The owner's end comes first; what follows is the worker's.
        match one.is_some_and(|one| one.by_owner && one.end.is_none()) {
            true => ReportedBy::Owner,
            false => ReportedBy::of_worker(report.certain),
        }
    }
}
