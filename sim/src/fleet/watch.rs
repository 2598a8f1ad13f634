//! Who was taken for lost and was not: owners that were replaced while they lived, attempts that
//! were revoked while they ran, leases that ran out at workers which were there.
//!
//! None of it is unsafe, and under most faults it cannot be avoided. Where a plan spares the living
//! it must not happen.

use control::worker::Run;
use ledger_state::{Command, Proposal};

use super::world::{Host, World};

#[derive(Default)]
pub struct Watch {
    pub owners: u64,
    pub attempts: u64,
    pub lapses: u64,
}

impl World {
    /// A command is about to be applied.
    pub(super) fn watch_step(&mut self, proposal: &Proposal) {
        match &proposal.command {
            Command::ClaimJob { job, claimant, seen } => {
                let Some(job) = self.book.state.job(*job) else { return };
                let before = job.owner.filter(|owner| owner != claimant && job.epoch == *seen);
                let owner = before.and_then(|owner| Some((owner, self.manager_of(owner.node)?)));
                let lives = owner.is_some_and(|(owner, m)| {
                    self.is_up(Host::Manager(m)) && self.managers[m].boot == owner.boot
                });
                if lives && job.end.is_none() {
                    self.watch.owners += 1;
                    self.taken_for_lost("R6.takeover", format!("{claimant:?} replaces {before:?}"));
                }
            }
            Command::RevokeAttempt { shard, attempt, reason, .. } => {
                let job = self.book.state.job(shard.job);
                let record = job.and_then(|job| job.shard(shard)?.attempt(*attempt));
                let Some(record) = record.filter(|record| record.is_live()) else { return };
                let run = Run::new(*shard, *attempt);
                let runs = |w: &usize| {
                    let host = &self.workers[*w];
                    let runs = host.engines.get(&run).is_some_and(|engine| engine.runs());
                    (host.node, host.boot) == (record.worker, record.boot) && runs
                };
                if (0..self.workers.len()).find(runs).is_some() {
                    self.watch.attempts += 1;
                    self.taken_for_lost("R26.revoke", format!("{run}: {reason}"));
                }
            }
            _ => {}
        }
    }

    /// A worker has ended an attempt because its lease had run out.
    pub(super) fn watch_lapse(&mut self, w: usize, run: Run) {
        self.watch.lapses += 1;
        self.taken_for_lost("R4.lapse", format!("w{w} could not renew {run}"));
    }

    fn taken_for_lost(&mut self, invariant: &str, what: String) {
        if self.plan.spares_the_living {
            self.violate(invariant, what);
        } else {
            crate::event!("taken for lost, {invariant}: {what}");
        }
    }
}
