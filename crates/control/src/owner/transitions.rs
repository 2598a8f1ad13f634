//! How a shard moves: by the table of transitions, with everything that hangs on it.

use super::shard::{State, Step, Transition};
use super::{Effect, Owner, Sid};
use crate::message::Task;

impl Owner {
    /// LIFE-2: validated against the table; what the table does not have changes nothing, and is
    /// counted.
    pub(super) fn go(&mut self, sid: Sid, to: State, reason: impl Into<String>) -> bool {
        let at = self.time.age();
        let Some(shard) = self.shards.get_mut(&sid) else { return false };
        let Some(from) = shard.go(to) else {
            self.journal.count_illegal();
            return false;
        };
        let attempt = match to {
            State::Pending => shard.attempt().next(),
            _ => shard.attempt(),
        };
        let ends_load = to.is_terminal() && shard.task == Task::Load;
        let reason = reason.into();
        let moved = Transition { shard: shard.key, attempt, from, to, at, reason };
        if to.is_forward() {
            self.time.progressed();
        }
        if ends_load && self.stages.clock().is_some() {
            let time = self.schedule_time();
            self.workflows.reach(sid.0 as usize, time);
        }
        self.outgoing.push(Effect::Moved(moved.clone()));
        self.journal.moved(moved);
        self.outgoing.changed();
        // Its load was missing when it was stopped, and nobody makes up for it.
        if to == State::Cancelled {
            self.never_mended(sid);
        }
        true
    }

    pub(super) fn set(&mut self, sid: Sid, step: Step) {
        if let Some(shard) = self.shards.get_mut(&sid) {
            shard.step = step;
            self.outgoing.changed();
        }
    }
}
