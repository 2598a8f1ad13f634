//! Workers of which nothing is heard for a moment: the owner asks back (R26).
//!
//! A worker that runs load is heard ten times a second, and whatever it says counts. The owner has
//! nothing to say to it meanwhile, so it asks, directly and through another manager; silence on
//! every way is evidence where silence on one is none. When that is a loss is for
//! [`super::liveness`] to say; it is never later than the three quarters of a lease after which a
//! worker is lost in any case ([`super::silence`]).

use fence::{BootId, Moment, NodeId};

use super::Owner;
use super::calls::Call;
use crate::message::{WorkerResponse, lapse_of};

impl Owner {
    pub(super) fn ask_back(&mut self) {
        let silent = self.liveness.look(self.shards.out(), self.time.now());
        for (worker, boot) in silent.probe {
            self.send(Call::Probe(worker, boot));
        }
        for ((worker, boot), what) in silent.lost {
            self.lose_worker(worker, boot, what, None);
        }
    }

    /// When to look again, if nothing is heard.
    pub(super) fn ask_back_due(&self) -> Option<Moment> {
        self.liveness.look_at(self.shards.out(), self.time.now())
    }

    pub(super) fn probe_answered(&mut self, worker: NodeId, boot: BootId, answer: &WorkerResponse) {
        if let WorkerResponse::Holding(holdings) = answer
            && holdings.boot > boot
        {
            let proof = lapse_of(boot, holdings.boot, holdings.since);
            self.lose_worker(worker, boot, "has started again", proof);
        }
    }
}
