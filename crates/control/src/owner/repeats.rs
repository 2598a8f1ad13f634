//! Setups and teardowns that run again because their worker was lost: at least once, and the
//! timeline says when more.

use super::Owner;
use super::attempt::AttemptState;
use super::spec::hook_task;
use crate::message::Task;
use ledger_state::AttemptStatus;

impl Owner {
    /// A setup or teardown is started, and one of its attempts before may have run.
    pub(super) fn note_repeat(&mut self, shard: u32) {
        let may_have_run =
            |one: &AttemptState| one.is_revoked() || one.end == Some(AttemptStatus::Interrupted);
        let tries =
            self.shards.get(&(self.spec.hook_number(), shard)).map(|shard| &shard.attempts[..]);
        let Some([earlier @ .., _]) = tries else { return };
        if earlier.iter().any(may_have_run) {
            let text = self.repeat_text(shard);
            self.note(text, None);
        }
    }

    pub(super) fn repeat_text(&self, shard: u32) -> String {
        let (what, of) = match hook_task(shard) {
            Task::Teardown { of } => ("teardown", of),
            Task::Setup { of } => ("setup", of),
            Task::Load => ("load", None),
        };
        let part = of.and_then(|number| self.spec.part(number.0 as usize));
        let whose = part.map(|part| format!(" of {}", part.name)).unwrap_or_default();
        format!("{what}{whose} ran again: its worker was lost, and may have run it before")
    }
}
