//! Whether the job may have cores: whether the fleet is large enough, whether it is its turn, and
//! for how long it waits.

use std::time::Duration;

use fence::Moment;

use super::manifest::WhenFull;
use super::{Effect, Numbers, Owner};
use ledger_state::StopCause;

impl Owner {
    /// Whether the pool is large enough. If it is not, the job is refused or says what it waits
    /// for.
    pub(super) fn fits(&mut self) -> bool {
        let total = self.capacity.pool().total();
        // A job that has lost a worker goes on with what is left (R14).
        let needs = match self.shards.have_begun() {
            true => self.spec.manifest().policy.cores_min.max(1),
            false => self.spec.manifest().cores_min(),
        };
        if total >= needs {
            return true;
        }
        let aside = self.capacity.set_aside();
        let waits = self.waits_how_long();
        let (numbers, why) = if total == 0 {
            (Numbers::Apart, format!("there are no workers{aside}"))
        } else {
            let cores = if needs == 1 { "core" } else { "cores" };
            let who = self.spec.manifest().who_needs(needs);
            let why = format!("{who} {needs} {cores}, and the fleet has {total}{aside}");
            (Numbers::InReason, why)
        };
        if self.spec.manifest().policy.when_full == WhenFull::Refuse && !self.shards.have_begun() {
            self.fail(format!("refused: {why}; start more workers, or ask for fewer cores"));
        } else {
            self.say_queued(needs, numbers, format!("{why}; start more workers: {waits}"));
        }
        false
    }

    /// For somebody who could do something about it meanwhile.
    pub(super) fn waits_how_long(&self) -> String {
        let most = match self.shards.have_begun() {
            true => self.spec.settings().place_within,
            false => self.spec.manifest().policy.queue_at_most,
        };
        let seconds = most.as_secs();
        let most = match seconds {
            0 => format!("{most:?}"),
            _ if seconds.is_multiple_of(3600) => format!("{} h", seconds / 3600),
            _ if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
            _ => format!("{seconds} s"),
        };
        format!("it waits up to {most}, unless it is cancelled")
    }

    /// A job's first cores are taken in its turn; what it needs later it may take at any time.
    pub(super) fn has_turn(&mut self, needs: u32) -> bool {
        match self.capacity.turn() {
            Some(true) => return true,
            _ if self.shards.have_begun() => return true,
            Some(false) => {
                self.say_queued(needs, Numbers::Apart, "older jobs wait for cores".to_owned());
            }
            None => {}
        }
        false
    }

    pub(super) fn say_queued(&mut self, needs: u32, numbers: Numbers, why: String) {
        if let Some(queued) = self.capacity.wait_for(needs, numbers, why) {
            self.outgoing.push(Effect::Queued(Some(queued)));
        }
    }

    pub(super) fn say_not_queued(&mut self) {
        if self.capacity.go_on() {
            self.outgoing.push(Effect::Queued(None));
        }
    }

    /// When a job that still waits for its first cores is given up.
    pub(super) fn queue_due(&self) -> Option<Moment> {
        if self.shards.have_begun() || self.lifecycle.is_stop_proposed() {
            return None;
        }
        let left = self.spec.manifest().policy.queue_at_most.saturating_sub(self.time.age());
        Some(self.time.after(left + Duration::from_millis(1)))
    }

    /// The job cannot go on, for a reason that is no workflow's.
    pub(super) fn fail(&mut self, why: String) {
        self.lifecycle.set_detail(&why);
        self.stop_for(StopCause::Aborted, why);
    }
}
