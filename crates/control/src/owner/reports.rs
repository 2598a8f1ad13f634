//! The final reports on attempts: those on their way into the ledger, those that the owner has to
//! write itself, and those that say less than everything.

use std::collections::{BTreeMap, BTreeSet};

use fence::{Attempt, ShardKey};

use super::Sid;
use crate::message::EndReport;

#[derive(Clone, Debug, Default)]
pub(super) struct Reports {
    /// Those on their way into the ledger.
    open: BTreeMap<(Sid, Attempt), EndReport>,
    /// Attempts whose statistics are being closed, because the owner writes their report.
    sealing: BTreeSet<(Sid, Attempt)>,
    /// Attempts whose statistics were too large to keep.
    cut: Vec<(ShardKey, Attempt)>,
    /// Attempts whose own report has not come, or may have less than they did.
    unheard: Vec<(ShardKey, Attempt)>,
}

impl Reports {
    pub fn add(&mut self, sid: Sid, report: EndReport) {
        self.open.insert((sid, report.attempt), report);
    }

    pub fn get(&self, sid: Sid, attempt: Attempt) -> Option<&EndReport> {
        self.open.get(&(sid, attempt))
    }

    pub fn take(&mut self, sid: Sid, attempt: Attempt) -> Option<EndReport> {
        self.open.remove(&(sid, attempt))
    }

    /// The owner writes the report. False: it does already.
    pub fn seal(&mut self, sid: Sid, attempt: Attempt) -> bool {
        self.sealing.insert((sid, attempt))
    }

    pub fn is_sealed(&self, sid: Sid, attempt: Attempt) -> bool {
        self.sealing.contains(&(sid, attempt))
    }

    pub fn cut(&mut self, key: ShardKey, attempt: Attempt) {
        self.cut.push((key, attempt));
    }

    pub fn all_cut(&self) -> Vec<(ShardKey, Attempt)> {
        self.cut.clone()
    }

    /// Nobody knows what the attempt did beyond what it told of.
    pub fn is_unheard(&mut self, key: ShardKey, attempt: Attempt) {
        self.unheard.push((key, attempt));
    }

    /// Its worker has come back, and has said everything.
    pub fn is_heard(&mut self, key: ShardKey, attempt: Attempt) {
        self.unheard.retain(|unheard| *unheard != (key, attempt));
    }

    pub fn unheard(&self) -> BTreeSet<(ShardKey, Attempt)> {
        self.unheard.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use fence::{JobId, WorkflowNo};

    use super::*;

    #[test]
    fn an_attempt_is_unheard_once_however_often_it_is_said_and_not_after_it_was_heard() {
        let key = |shard| ShardKey { job: JobId(1), workflow: WorkflowNo(0), shard };
        let mut reports = Reports::default();
        for (shard, attempt) in [(0, 1), (0, 1), (0, 2), (1, 1)] {
            reports.is_unheard(key(shard), Attempt(attempt));
        }
        assert_eq!(reports.unheard().len(), 3);
        reports.is_heard(key(0), Attempt(1));
        let left = [(key(0), Attempt(2)), (key(1), Attempt(1))];
        assert_eq!(reports.unheard(), left.into_iter().collect());
    }

    #[test]
    fn an_attempt_is_sealed_once() {
        let mut reports = Reports::default();
        assert!(!reports.is_sealed((0, 0), Attempt(1)));
        assert!(reports.seal((0, 0), Attempt(1)) && !reports.seal((0, 0), Attempt(1)));
        assert!(reports.is_sealed((0, 0), Attempt(1)) && !reports.is_sealed((0, 0), Attempt(2)));
    }
}
