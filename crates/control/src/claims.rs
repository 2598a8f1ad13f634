//! Which jobs a manager should own. Membership and silence only hint, the ledger decides (R6): a
//! claim names the epoch that was seen, and of two claimants one wins.
//!
//! | An owner is gone if | because |
//! |---|---|
//! | it has started again | its new life has nothing yet |
//! | the ledger's leader does not hear it | it can write nothing, whoever else reaches it; what it writes is heard |
//! | membership takes it for dead, and it has written nothing for a while | there may be no leader to tell |
//!
//! None of them revokes an attempt: what runs goes on under its leases, whoever leads the job.
//!
//! Ownership is spread by rendezvous hash over the living managers and does not move back when one
//! returns (R7).

use std::collections::{BTreeMap, BTreeSet};

use fence::{Epoch, JobId, NodeId};

use ledger_state::{SessionId, State, preferred_owner};

/// What is known from outside the ledger.
#[derive(Clone, Debug)]
pub struct Managers<'a> {
    pub me: SessionId,
    /// Members of the group that membership does not take for dead; this one among them, unless it
    /// is not in the group.
    pub live: &'a BTreeSet<NodeId>,
    /// Those that the ledger's leader does not hear; never this one, which hears of it from the
    /// leader.
    pub silent: &'a BTreeSet<NodeId>,
    /// This one is leaving: it takes nothing, and gives up what it has.
    pub leaving: bool,
    /// An owner that has written to the ledger within this time is not dead by what membership says
    /// alone.
    pub silent_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Nobody has it, or its owner is gone.
    Claim {
        job: JobId,
        seen: Option<Epoch>,
    },
    /// It is mine already, by a claim whose answer was lost.
    Adopt {
        job: JobId,
    },
    Release {
        job: JobId,
    },
}

impl Duty {
    #[must_use]
    pub fn job(&self) -> JobId {
        match *self {
            Self::Claim { job, .. } | Self::Adopt { job } | Self::Release { job } => job,
        }
    }
}

/// What this manager should do now. `led` are the jobs that it leads already.
#[must_use]
pub fn duties(state: &State, managers: &Managers<'_>, led: &BTreeSet<JobId>) -> Vec<Duty> {
    let me = managers.me.node;
    // Whoever is silent cannot claim, so nobody waits for it to do so.
    let heard = |node: &NodeId| *node == me || !managers.silent.contains(node);
    let live: Vec<NodeId> = managers.live.iter().copied().filter(heard).collect();
    let mut duties = Vec::new();
    for (id, job) in state.active_jobs() {
        if job.owner == Some(managers.me) {
            if managers.leaving {
                duties.push(Duty::Release { job: id });
            } else if !led.contains(&id) {
                duties.push(Duty::Adopt { job: id });
            }
            continue;
        }
        let gone = job.owner.is_none_or(|owner| is_gone(state, managers, owner));
        // An earlier life of this one: nobody else can know that it is over before this one has
        // written something.
        let was_mine = |owner: SessionId| owner.node == me && owner.boot < managers.me.boot;
        let is_due = match gone {
            true => preferred_owner(id, &live) == Some(me),
            false => job.owner.is_some_and(was_mine),
        };
        if is_due && !managers.leaving {
            duties.push(Duty::Claim { job: id, seen: job.epoch });
        }
    }
    duties
}

/// Those of the led jobs, with the epochs by which they are led, that are no longer this manager's.
///
/// The state may be older than the claim, which was answered by the leader: only one that has come
/// as far as the claim can say that it was overtaken.
#[must_use]
pub fn lost(state: &State, me: SessionId, led: &BTreeMap<JobId, Epoch>) -> Vec<JobId> {
    let is_lost = |(id, epoch): &(&JobId, &Epoch)| {
        let job = state.job(**id).filter(|job| job.end.is_none());
        job.is_some_and(|job| {
            let known = job.epoch.is_some_and(|now| now.number >= epoch.number);
            known && job.owner != Some(me)
        })
    };
    led.iter().filter(is_lost).map(|(id, _)| *id).collect()
}

/// See the table above.
fn is_gone(state: &State, managers: &Managers<'_>, owner: SessionId) -> bool {
    let Some(session) = state.session(owner.node) else { return true };
    if session.boot > owner.boot || managers.silent.contains(&owner.node) {
        return true;
    }
    let silent = state.now_ms().saturating_sub(session.used_ms) >= managers.silent_ms;
    !managers.live.contains(&owner.node) && (silent || session.closed)
}
