//! Asking for more time: the job's is nearly over, and there is still progress (CORE-110, LIFE-72,
//! GATE-99).
//!
//! The owner decides, and grants less each time; nothing is answered. Whoever gets none is stopped
//! with the job.

use std::time::Duration;

use fence::{JobId, Moment};

use super::local_attempt::Phase;
use super::{ReportBody, ReportKey, Worker};
use crate::message::{Dispatch, WorkerReport};

/// More is asked for so long before the job's time is over.
const BEFORE: Duration = Duration::from_secs(10);
/// And again after so long, if more was done meanwhile.
const AGAIN: Duration = Duration::from_secs(5);

impl Worker {
    /// The newest dispatch knows best how much time is left.
    pub(super) fn limit_time(&mut self, dispatch: &Dispatch) {
        let now = self.now;
        let job = self.job(dispatch.order.shard.job);
        let asked_with = job.more_time.map_or(0, |(_, asked_with)| asked_with);
        let first = |left: Duration| (now.after(left.saturating_sub(BEFORE)), asked_with);
        job.more_time = dispatch.time_left.map(first);
    }

    fn runs_of_job(&self, job: JobId) -> impl Iterator<Item = &super::LocalAttempt> {
        let running = self
            .attempts
            .values()
            .filter(|local_attempt| matches!(local_attempt.phase, Phase::Running { .. }));
        running.filter(move |local_attempt| local_attempt.run.shard.job == job)
    }

    /// What was done of a job here: a number that rises while something moves.
    fn done_of(&self, job: JobId) -> u64 {
        let counters = self
            .runs_of_job(job)
            .filter_map(|local_attempt| local_attempt.progress)
            .map(|it| it.counters);
        counters.map(|it| it.completed + it.iterations).sum()
    }

    pub(super) fn more_time_due(&self) -> Option<Moment> {
        let limited = self.jobs.iter().filter_map(|(id, job)| Some((*id, job.more_time?.0)));
        limited.filter(|(id, _)| self.runs_of_job(*id).next().is_some()).map(|(_, at)| at).min()
    }

    pub(super) fn ask_for_time(&mut self) {
        let now = self.now;
        let due = self.jobs.iter().filter_map(|(id, job)| Some((*id, job.more_time?)));
        let due = due.filter(|(id, (at, _))| *at <= now && self.runs_of_job(*id).next().is_some());
        let due: Vec<(JobId, u64, u64)> =
            due.map(|(id, (_, asked_with))| (id, asked_with, self.done_of(id))).collect();
        for (id, asked_with, progress) in due {
            if progress > asked_with {
                let (worker, boot) = (self.settings.node, self.settings.boot);
                let report = WorkerReport::MoreTime { job: id, worker, boot, progress };
                self.report_queue.push(ReportKey::MoreTime(id), ReportBody::Small(report), now);
            }
            let asked_with = asked_with.max(progress);
            self.job(id).more_time = Some((now.after(AGAIN), asked_with));
        }
    }
}
