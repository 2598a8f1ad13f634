//! What nobody has run: the rest of shards that were lost and not started again, or stopped by
//! force. It is dropped, so that what was planned is what was run and what was dropped, whatever
//! happened (R27).

use stats::DropCause;

use super::attempt::AttemptState;
use super::shard::{Shard, State};
use super::{Owner, Sid, Unrun};
use crate::message::Task;
use ledger_state::{AttemptStatus, Counters};

impl Owner {
    /// By shard: its last attempt, and how many units of its schedule nobody has counted. Every
    /// attempt has its final report by now.
    pub(super) fn unrun(&self) -> Vec<Unrun> {
        let unrun = self.shards.iter().filter_map(|(sid, shard)| {
            let workflow = sid.0 as usize;
            let lost = self.ends_in_a_loss(*sid, shard);
            let part = self.spec.part(sid.0 as usize)?;
            // An engine that comes to its end counts what it leaves; one that is stopped by force
            // cannot, and one that is stopped because its workflow has failed leaves arrivals that
            // were planned all the same.
            let begun = self.workflows.has_begun(workflow) && shard.task == Task::Load;
            let cut_short = self.has_failed(workflow) && !self.is_stopping();
            if !(lost || begun && (part.units.is_counted() || cut_short)) {
                return None;
            }
            let counted = shard.attempts.iter().map(|one| one.units.counters.counted());
            let counted = counted.fold(0, u64::saturating_add);
            let told = self.grants.lost_of(*sid);
            let count = self.planned(*sid)?.saturating_sub(counted).saturating_sub(told);
            let cause = match lost {
                true => DropCause::WorkerLost,
                false if self.is_stopping() || self.has_failed(workflow) => DropCause::Stopped,
                false => DropCause::TimeOver,
            };
            let (shard, attempt) = (shard.key, shard.attempt());
            (count > 0).then_some(Unrun { shard, attempt, count, cause })
        });
        unrun.collect()
    }

    /// The worker of the last attempt that ran has not come to an end of its own, or not of its own
    /// will: it was taken for lost, and has stopped when it heard of that. An engine that comes to
    /// its end counts what it leaves by itself.
    fn ends_in_a_loss(&self, sid: Sid, shard: &Shard) -> bool {
        let begun = self.workflows.has_begun(sid.0 as usize) && shard.task == Task::Load;
        if !begun || matches!(shard.state(), State::Completed | State::Skipped) {
            return false;
        }
        let never_ran = |one: &&AttemptState| {
            one.end == Some(AttemptStatus::Stopped) && one.units.counters == Counters::default()
        };
        match shard.attempts.iter().rev().find(|one| !never_ran(one)) {
            Some(one) => one.end == Some(AttemptStatus::Interrupted) || one.is_revoked(),
            None => shard.state() == State::FailedTerminal,
        }
    }

    /// What the plan has this shard run until its workflow ended, at the rates that people have
    /// set; `None`: nobody can say. Iterations of users whom people took away stay planned.
    fn planned(&self, sid: Sid) -> Option<u64> {
        let workflow = sid.0 as usize;
        let part = self.spec.part(workflow)?;
        let span = self.workflows.span(workflow).map(|(from, to)| to.saturating_sub(from));
        let reached = match self.is_stopping() {
            true => self.workflows.reached(workflow).or(span).unwrap_or_default(),
            // Nobody has shortened it: all of it was planned, also what lay behind the end of the
            // job.
            false => part.length,
        };
        let shards = self.workflows.shards(workflow)?;
        let until = reached.saturating_sub(self.load_begins(workflow));
        part.units.of_shard(sid.1, shards, until, &self.rates(sid.0))
    }
}
