//! Faults that befall whoever owns a job, at the worst moment.

use std::time::Duration;

use membership::Role;
use turmoil::Sim;

use super::{Action, Chaos};
use crate::cluster::connection::Purpose;

/// How often it is looked whether somebody has taken over.
const LOOK: Duration = Duration::from_millis(10);

impl Chaos {
    fn owned(&self) -> Vec<usize> {
        self.world.hosts.iter().map(|host| host.owned.get()).collect()
    }

    /// A manager that runs and owns a job.
    pub(super) fn pick_owner(&mut self) -> Option<usize> {
        let owns = |host: &usize| self.world.hosts[*host].owned.get() > 0;
        let owners: Vec<usize> =
            self.world.running(Role::Manager).into_iter().filter(owns).collect();
        (!owners.is_empty()).then(|| owners[self.rng.usize(..owners.len())])
    }

    pub(super) fn hold(&mut self, host: usize, purpose: Purpose, time: Duration) {
        self.world.conditions.hold(self.world.hosts[host].node, purpose);
        self.at(time, Action::Release(host));
    }

    /// The ledger replaces an owner that does not hear of it and goes on counting; and its
    /// successor stands still as soon as it knows what was counted so far.
    pub(super) fn stale_owner(&mut self, owner: usize) {
        let time = self.some_ms(6_000..12_000);
        self.hold(owner, Purpose::Ledger, time);
        let until_ms = self.now_ms + time.as_millis() as u64;
        self.at(LOOK, Action::AwaitSuccessor { owned: self.owned(), until_ms });
    }

    pub(super) fn await_successor(&mut self, owned: Vec<usize>, until_ms: u64) {
        let now = self.owned();
        let more = |host: &usize| now[*host] > owned[*host];
        match (0..now.len()).find(more) {
            Some(successor) => {
                let soon = self.some_ms(0..250);
                self.at(soon, Action::Pause(successor));
            }
            None if self.now_ms < until_ms => {
                self.at(LOOK, Action::AwaitSuccessor { owned, until_ms });
            }
            None => {}
        }
    }

    /// One manager misses some checkpoints. When it is back the owner crashes, and the other copy
    /// of what it has missed is damaged.
    pub(super) fn damaged_takeover(&mut self, sim: &mut Sim<'_>, owner: usize) {
        let mut others = self.world.running(Role::Manager);
        others.retain(|host| *host != owner);
        let &[one, other] = &others[..] else { return };
        let (behind, damaged) = if self.rng.bool() { (one, other) } else { (other, one) };
        self.leave_alone(sim, behind, 3_000..3_001);
        let then = Duration::from_millis(3_000);
        self.at(then, Action::CrashAndDamage { owner, damaged });
    }
}
