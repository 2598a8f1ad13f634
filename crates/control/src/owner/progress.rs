//! What running attempts have counted so far.

use std::time::Duration;

use fence::{Attempt, ShardKey};

use super::Owner;
use super::shards::sid_of;
use ledger_state;

impl Owner {
    /// True: something is to be written.
    pub(super) fn progress(
        &mut self,
        key: ShardKey,
        attempt: Attempt,
        counters: ledger_state::Counters,
        told: Duration,
    ) -> bool {
        let sid = sid_of(&key);
        let age = self.time.age();
        let heard = self.time.age_of(told).min(age);
        let current = self.shards.is_current(&sid, attempt);
        let Some(one) = self.shards.attempt_mut(&sid, attempt) else {
            self.journal.count_late();
            return false;
        };
        // Cumulative: an older frame that comes late has lower numbers, and says nothing new (R17).
        one.is_alive(self.time.now());
        self.liveness.heard(one.worker, self.time.now());
        let (old, new) = (one.units.counters.fields(), counters.fields());
        if one.known || old.iter().zip(&new).any(|(old, new)| new < old) {
            return false;
        }
        one.units.counters = counters;
        if old != new {
            one.heard = Some(heard);
            if current {
                self.time.progressed();
            }
        }
        self.heard_units(sid, attempt, told)
    }
}
